/* SPDX-License-Identifier: MIT */
/* See sim_port.h. */
#include "sim_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postbag/linux.h"
#include "postbag/postbag.h"

struct postbag_gate {
    int is_held;
};

struct postbag_wake {
    unsigned reasons;
};

static int note(struct sim_port *s, enum sim_call call)
{
    int err = 0;

    s->calls[call]++;
    if (s->decide != NULL)
        err = s->decide(s->decide_ctx, call);
    return err != 0 ? err : s->fails[call];
}

/* ---- time and chance ---- */

static int64_t wall_ms(void *ctx)
{
    return ((struct sim_port *)ctx)->wall_ms;
}

static int64_t mono_us(void *ctx)
{
    return ((struct sim_port *)ctx)->mono_us;
}

static int boot_id(void *ctx, uint8_t out[16])
{
    struct sim_port *s = ctx;

    memset(out, s->boot, 16);
    return note(s, SIM_BOOT_ID);
}

/* xorshift64* */
static uint8_t next_byte(struct sim_port *s)
{
    s->seed ^= s->seed >> 12;
    s->seed ^= s->seed << 25;
    s->seed ^= s->seed >> 27;
    return (uint8_t)(s->seed * 2685821657736338717u >> 56);
}

static void fill(struct sim_port *s, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = s->random_byte < 0 ? next_byte(s) : (uint8_t)s->random_byte;
}

static int random_bytes(void *ctx, void *buf, size_t len)
{
    struct sim_port *s = ctx;
    int err = note(s, SIM_RANDOM);

    if (err == POSTBAG_OK)
        fill(s, buf, len);
    return err;
}

static int uuid(void *ctx, uint8_t out[16])
{
    struct sim_port *s = ctx;
    int err = note(s, SIM_UUID);

    for (int i = 0; i < 16 && err == POSTBAG_OK; i++)
        out[i] = next_byte(s);
    return err;
}

/* ---- wakes and gates ---- */

static int wake_new(void *ctx, struct postbag_wake **out)
{
    int err = note(ctx, SIM_WAKE_NEW);

    if (err != POSTBAG_OK)
        return err;
    *out = calloc(1, sizeof(**out));
    return *out == NULL ? POSTBAG_ENOMEM : POSTBAG_OK;
}

static void wake_free(void *ctx, struct postbag_wake *w)
{
    (void)ctx;
    free(w);
}

static int wake_watch(void *ctx, struct postbag_wake *w, const char *path)
{
    struct sim_port *s = ctx;

    (void)w;
    (void)snprintf(s->watched, sizeof(s->watched), "%s", path);
    return note(s, SIM_WAKE_WATCH);
}

static void wake(void *ctx, struct postbag_wake *w)
{
    struct sim_port *s = ctx;

    (void)note(s, SIM_WAKE);
    s->is_woken = 1;
    w->reasons |= POSTBAG_WOKEN;
}

/* Time flies while a thread waits. */
static unsigned wait(void *ctx, struct postbag_wake *w, int64_t until_us)
{
    struct sim_port *s = ctx;
    unsigned reasons = w->reasons;

    w->reasons = 0;
    if (reasons == 0 && until_us > s->mono_us)
        s->mono_us = until_us;
    return reasons;
}

static int gate_new(void *ctx, struct postbag_gate **out)
{
    int err = note(ctx, SIM_GATE_NEW);

    if (err != POSTBAG_OK)
        return err;
    *out = calloc(1, sizeof(**out));
    return *out == NULL ? POSTBAG_ENOMEM : POSTBAG_OK;
}

static void gate_free(void *ctx, struct postbag_gate *g)
{
    (void)ctx;
    free(g);
}

static int gate_enter(void *ctx, struct postbag_gate *g, int64_t until_us)
{
    struct sim_port *s = ctx;
    int err = note(s, SIM_GATE_ENTER);

    void (*happens)(void *ctx) = s->at_gate;

    (void)until_us;
    s->at_gate = NULL;
    if (happens != NULL)
        happens(s->at_gate_ctx);
    if (err == POSTBAG_OK && g->is_held)
        err = POSTBAG_EBUSY;
    if (err != POSTBAG_OK)
        return err;
    g->is_held = 1;
    s->open_gates++;
    return POSTBAG_OK;
}

static void gate_leave(void *ctx, struct postbag_gate *g)
{
    struct sim_port *s = ctx;

    if (!g->is_held) {
        (void)fprintf(stderr, "sim_port: a gate was left that nobody held\n");
        abort();
    }
    g->is_held = 0;
    s->open_gates--;
}

/* ---- files ---- */

static int lock_file(void *ctx, const char *path, struct postbag_lock **out)
{
    int err = note(ctx, SIM_LOCK_FILE);

    return err == POSTBAG_OK ? postbag_linux_port()->lock_file(NULL, path, out)
                             : err;
}

static void unlock_file(void *ctx, struct postbag_lock *l)
{
    (void)ctx;
    postbag_linux_port()->unlock_file(NULL, l);
}

static int replace_file(
    void *ctx, const char *path, const void *buf, size_t len)
{
    int err = note(ctx, SIM_REPLACE_FILE);

    return err == POSTBAG_OK
               ? postbag_linux_port()->replace_file(NULL, path, buf, len)
               : err;
}

static int storage_check(void *ctx, const char *path)
{
    int err = note(ctx, SIM_STORAGE_CHECK);

    return err == POSTBAG_OK ? postbag_linux_port()->storage_check(NULL, path)
                             : err;
}

static int read_file(
    void *ctx, const char *path, void *buf, size_t size, size_t *len_out)
{
    int err = note(ctx, SIM_READ_FILE);

    return err == POSTBAG_OK
               ? postbag_linux_port()->read_file(NULL, path, buf, size, len_out)
               : err;
}

static int machine_id(void *ctx, uint8_t out[16])
{
    struct sim_port *s = ctx;
    int err = note(s, SIM_MACHINE_ID);

    memset(out, s->machine, 16);
    if (err == POSTBAG_OK && s->machine == 0)
        err = POSTBAG_ENOTFOUND;
    return err;
}

static int file_id(void *ctx, const char *path, uint64_t *out)
{
    struct sim_port *s = ctx;
    int err = note(s, SIM_FILE_ID);

    *out = s->file;
    if (err == POSTBAG_OK && s->file == 0)
        err = postbag_linux_port()->file_id(NULL, path, out);
    return err;
}

static int reserve_pages(void *ctx, volatile void *at, size_t len)
{
    int err = note(ctx, SIM_RESERVE_PAGES);

    return err == POSTBAG_OK
               ? postbag_linux_port()->reserve_pages(NULL, at, len)
               : err;
}

static int room(void *ctx, const char *path, struct postbag_room *out)
{
    struct sim_port *s = ctx;
    int err = note(s, SIM_ROOM);

    (void)path;
    if (err == POSTBAG_OK)
        *out = s->room;
    return err;
}

void sim_port_init(struct sim_port *s)
{
    memset(s, 0, sizeof(*s));
    s->wall_ms = INT64_C(1800000000000);
    s->mono_us = INT64_C(60000000);
    s->boot = 1;
    s->machine = 1;
    s->seed = 88172645463325252u;
    s->random_byte = -1;
    s->port = (struct postbag_port){
        .struct_size = sizeof(s->port),
        .ctx = s,
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
        .read_file = read_file,
        .machine_id = machine_id,
        .file_id = file_id,
        .reserve_pages = reserve_pages,
        .room = room,
    };
    s->room = (struct postbag_room){.free_bytes = INT64_C(1) << 30,
        .size_bytes = INT64_C(1) << 31,
        .free_files = 1000};
}

void sim_pass_ms(struct sim_port *s, int64_t ms)
{
    s->mono_us += ms * 1000;
    s->wall_ms += ms;
}
