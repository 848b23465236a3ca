/* SPDX-License-Identifier: MIT */
/* The port of a process: nothing in it is real. */
#include <stdlib.h>
#include <string.h>

#include "memdisk.h"
#include "world.h"

struct postbag_wake {
    unsigned reasons;
};

struct postbag_gate {
    int is_held;
};

struct postbag_lock {
    struct file_lock *lock;
};

static struct world *world_of(void *ctx)
{
    return ((struct process *)ctx)->world;
}

static int64_t wall_ms(void *ctx)
{
    return world_wall_ms(world_of(ctx));
}

static int64_t mono_us(void *ctx)
{
    return world_of(ctx)->now_us - world_of(ctx)->boot_us;
}

static int boot_id(void *ctx, uint8_t out[16])
{
    memset(out, world_of(ctx)->boot, 16);
    return POSTBAG_OK;
}

static int random_bytes(void *ctx, void *buf, size_t len)
{
    luck_fill(&world_of(ctx)->luck, buf, len);
    return POSTBAG_OK;
}

static int uuid(void *ctx, uint8_t out[16])
{
    luck_fill(&world_of(ctx)->luck, out, 16);
    out[6] = (uint8_t)((out[6] & 0x0f) | 0x40);
    out[8] = (uint8_t)((out[8] & 0x3f) | 0x80);
    return POSTBAG_OK;
}

static int wake_new(void *ctx, struct postbag_wake **out)
{
    struct process *p = ctx;

    *out = calloc(1, sizeof(**out));
    if (*out != NULL && p->wake == NULL)
        p->wake = *out; /* the engine's is made first */
    return *out == NULL ? POSTBAG_ENOMEM : POSTBAG_OK;
}

static void wake_free(void *ctx, struct postbag_wake *wake)
{
    struct process *p = ctx;

    if (p->wake == wake)
        p->wake = NULL;
    free(wake);
}

static int wake_watch(void *ctx, struct postbag_wake *wake, const char *path)
{
    (void)ctx;
    (void)wake;
    (void)path;
    return POSTBAG_OK;
}

static void ring(struct process *p, struct postbag_wake *wake, unsigned why)
{
    wake->reasons |= why;
    if (wake == p->wake && p->next_us > p->world->now_us)
        p->next_us = p->world->now_us;
    p->work_us = p->world->now_us;
}

static void wake(void *ctx, struct postbag_wake *wake)
{
    ring(ctx, wake, POSTBAG_WOKEN);
}

/* Who waits in the middle of a call lets time pass. */
static unsigned wait(void *ctx, struct postbag_wake *wake, int64_t until_us)
{
    struct world *w = world_of(ctx);
    unsigned reasons = wake->reasons;

    wake->reasons = 0;
    if (reasons == 0 && until_us + w->boot_us > w->now_us)
        w->now_us = until_us + w->boot_us;
    return reasons;
}

static int gate_new(void *ctx, struct postbag_gate **out)
{
    (void)ctx;
    *out = calloc(1, sizeof(**out));
    return *out == NULL ? POSTBAG_ENOMEM : POSTBAG_OK;
}

static void gate_free(void *ctx, struct postbag_gate *gate)
{
    (void)ctx;
    free(gate);
}

static int gate_enter(void *ctx, struct postbag_gate *gate, int64_t until_us)
{
    struct world *w = world_of(ctx);

    process_nest(w);
    if (!gate->is_held) {
        gate->is_held = 1;
        return POSTBAG_OK;
    }
    if (until_us + w->boot_us > w->now_us)
        w->now_us = until_us + w->boot_us;
    return POSTBAG_EBUSY;
}

static void gate_leave(void *ctx, struct postbag_gate *gate)
{
    if (!gate->is_held)
        broken(world_of(ctx), "port", "a gate was left that nobody held");
    gate->is_held = 0;
}

static int lock_file(void *ctx, const char *path, struct postbag_lock **out)
{
    struct process *p = ctx;
    struct world *w = p->world;
    struct file_lock *free_one = NULL;

    for (int i = 0; i < LOCKS; i++) {
        struct file_lock *l = &w->locks[i];

        if (l->owner != NULL && strcmp(l->path, path) == 0)
            return POSTBAG_EBUSY;
        if (l->owner == NULL)
            free_one = l;
    }
    *out = p->is_dying || free_one == NULL ? NULL : malloc(sizeof(**out));
    if (*out == NULL)
        return POSTBAG_EBUSY;
    (void)snprintf(free_one->path, sizeof(free_one->path), "%s", path);
    free_one->owner = p;
    (*out)->lock = free_one;
    return POSTBAG_OK;
}

static void unlock_file(void *ctx, struct postbag_lock *l)
{
    if (l->lock->owner == ctx)
        l->lock->owner = NULL;
    free(l);
}

void port_forget(struct process *p)
{
    for (int i = 0; i < LOCKS; i++)
        if (p->world->locks[i].owner == p)
            p->world->locks[i].owner = NULL;
}

int port_has_lock(const struct process *p, const char *end)
{
    for (int i = 0; i < LOCKS; i++) {
        const struct file_lock *l = &p->world->locks[i];
        size_t len = strlen(l->path);

        if (l->owner == p && len > strlen(end) &&
            strcmp(l->path + len - strlen(end), end) == 0)
            return 1;
    }
    return 0;
}

static int replace_file(
    void *ctx, const char *path, const void *buf, size_t len)
{
    (void)ctx;
    (void)path;
    (void)buf;
    (void)len;
    return POSTBAG_OK;
}

static int storage_check(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return POSTBAG_OK;
}

static int room(void *ctx, const char *path, struct postbag_room *out)
{
    (void)path;
    *out = (struct postbag_room){.free_bytes = INT64_C(1) << 30,
        .size_bytes = INT64_C(1) << 31,
        .free_files = 1000};
    if (world_of(ctx)->room_heals_us != 0)
        out->free_bytes = 0;
    return POSTBAG_OK;
}

static void hook(void *ctx, const char *point)
{
    struct process *p = ctx;

    if (p->is_dying || !strikes(p->world, KILL_AT_HOOK))
        return;
    happened(p->world, KILL_AT_HOOK);
    process_kill(p, point);
}

/* Somebody has written to the database: inotify tells all. */
void port_changed(struct world *w, struct process *by)
{
    for (int i = 0; i < PROCESSES; i++) {
        struct process *p = &w->processes[i];

        if (p->is_alive && p != by && p->wake != NULL)
            ring(p, p->wake, POSTBAG_FILE_CHANGED);
    }
}

void port_init(struct process *p)
{
    p->port = (struct postbag_port){
        .struct_size = sizeof(p->port),
        .ctx = p,
        .wall_ms = wall_ms,
        .mono_us = mono_us,
        .boot_id = boot_id,
        .random = random_bytes,
        .uuid = uuid,
        .wake_new = wake_new,
        .wake_free = wake_free,
        .wake_watch = wake_watch,
        .wake = wake,
        .wait = wait,
        .gate_new = gate_new,
        .gate_free = gate_free,
        .gate_enter = gate_enter,
        .gate_leave = gate_leave,
        .lock_file = lock_file,
        .unlock_file = unlock_file,
        .replace_file = replace_file,
        .storage_check = storage_check,
        .hook = hook,
        .room = room,
    };
}
