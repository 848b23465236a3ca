/* SPDX-License-Identifier: MIT */
/* See process.h: how a process begins, runs and ends. */
#include "process.h"

#include <sqlite3.h>
#include <string.h>

#include "memdisk.h"
#include "postbag/admin.h"
#include "postbag/slow.h"
#include "world.h"

/* ---- whose turn it is ---- */

static void plan_death(struct world *w, struct process *p);

struct process *process_enter(struct process *p)
{
    struct world *w = p->world;
    struct process *before = w->running;

    w->running = p;
    p->depth++;
    memdisk_process(w->disk, p->number);
    if (w->depth++ == 0)
        plan_death(w, p);
    return before;
}

void process_leave(struct world *w, struct process *before)
{
    w->running->depth--;
    w->running = before;
    if (before != NULL)
        memdisk_process(w->disk, before->number);
    if (--w->depth > 0)
        return;
    memdisk_die_at(w->disk, -1, MEMDISK_ANY, 0, NULL, NULL);
    memdisk_fail(w->disk, MEMDISK_ANY, 0, 0, 0, 0);
    if (w->is_cutting)
        world_cut(w);
}

/* ---- death ---- */

static void note_death(struct process *p, const char *where)
{
    say(p->world, "p%d dies %s", p->index, where);
    p->is_dying = 1;
    p->world->disruptions++;
    port_forget(p);
}

void process_kill(struct process *p, const char *where)
{
    memdisk_kill(p->world->disk, p->number);
    note_death(p, where);
    (void)process_bury(p);
}

static void died_in_call(void *ctx)
{
    struct process *p = ctx;

    if (p->is_dying)
        return;
    happened(p->world, KILL_IN_CALL);
    note_death(p, "in a call to the disk");
}

void process_cut_power(struct world *w)
{
    enum memdisk_left left =
        (enum memdisk_left)luck_below(&w->luck, MEMDISK_LEFTS);

    say(w, "power cut, left %d", (int)left);
    memdisk_cut(w->disk, left, luck_next(&w->luck));
    w->is_cutting = 1;
    for (int i = 0; i < PROCESSES; i++)
        if (w->processes[i].is_alive && !w->processes[i].is_dying)
            note_death(&w->processes[i], "of the power cut");
}

static void cut_in_call(void *ctx)
{
    struct world *w = ctx;

    happened(w, CUT_IN_CALL);
    process_cut_power(w);
}

static void plan_death(struct world *w, struct process *p)
{
    static const enum memdisk_call calls[] = {
        MEMDISK_ANY, MEMDISK_WRITE, MEMDISK_SYNC, MEMDISK_LOCK};
    enum memdisk_call call = calls[luck_below(&w->luck, 4)];
    /* calls are few or many: each beginning is as likely */
    uint32_t spread = call == MEMDISK_SYNC ? 2 : 8;
    uint64_t nth = 1 + luck_below(&w->luck, 1u << luck_below(&w->luck, spread));

    if (w->io_heals_us != 0)
        memdisk_fail(w->disk, MEMDISK_ANY, 1, SQLITE_IOERR, 1, 0);
    if (strikes(w, KILL_IN_CALL))
        memdisk_die_at(w->disk, (int)p->number, call, nth, died_in_call, p);
    else if (strikes(w, CUT_IN_CALL))
        memdisk_die_at(w->disk, (int)p->number, call, nth, cut_in_call, w);
    else if (w->io_heals_us == 0 && strikes(w, IO_ERROR)) {
        static const int errors[] = {SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC,
            SQLITE_FULL, SQLITE_IOERR_READ, SQLITE_IOERR_NOMEM};

        happened(w, IO_ERROR);
        w->disruptions++;
        memdisk_fail(w->disk, call, nth, errors[luck_below(&w->luck, 5)], 0,
            (int)luck_below(&w->luck, 2));
    }
}

static void close_all(struct process *p)
{
    firmware_forget(p);
    postbag_writer_close(p->writer);
    postbag_close(p->bag);
    (void)sqlite3_close_v2(p->db);
    p->writer = NULL;
    p->bag = NULL;
    p->db = NULL;
    p->wake = NULL;
    port_forget(p);
    p->is_alive = 0;
    p->is_dying = 0;
    p->thaws_us = 0;
}

int process_bury(struct process *p)
{
    struct world *w = p->world;

    if (!p->is_dying || p->depth > 0)
        return 0;
    close_all(p);
    p->starts_us = w->now_us + luck_between(&w->luck, 1000, 3000000);
    w->must_look_at_all = 1;
    return 1;
}

/* ---- the beginning ---- */

static enum postbag_outcome on_command(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    return (enum postbag_outcome)firmware_handles(ctx, cmd, w);
}

static enum postbag_outcome slow_part(
    void *ctx, const struct postbag_command *cmd)
{
    (void)ctx;
    (void)cmd;
    return POSTBAG_DONE;
}

static int open_db(struct process *p)
{
    const struct world *w = p->world;
    char sql[400];

    if (sqlite3_open_v2(world_db(p->world), &p->db,
            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        return POSTBAG_EIO;
    (void)sqlite3_busy_timeout(p->db, 50);
    (void)snprintf(sql, sizeof(sql),
        "PRAGMA page_size=%u; PRAGMA journal_mode=WAL; PRAGMA synchronous=%s;"
        "PRAGMA wal_autocheckpoint=%d; BEGIN IMMEDIATE;"
        "CREATE TABLE IF NOT EXISTS story("
        " txn INTEGER PRIMARY KEY, command INTEGER);"
        "CREATE TABLE IF NOT EXISTS effects("
        " command TEXT PRIMARY KEY, times INTEGER NOT NULL);"
        "COMMIT",
        w->p.page_size, w->p.is_full_writer ? "FULL" : "NORMAL",
        w->p.has_plain_writers ? 1000 : 0);
    return sqlite3_exec(p->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? POSTBAG_OK
               : POSTBAG_EIO;
}

static void log_line(void *ctx, const struct postbag_log_line *line)
{
    struct process *p = ctx;

    say(p->world, "p%d log %d: %s", p->index, line->level, line->text);
}

static int open_bag(struct process *p)
{
    struct postbag_config c = p->world->p.config;
    int err;

    c.struct_size = sizeof(c);
    c.db_path = world_db(p->world);
    c.port = &p->port;
    c.log = log_line;
    c.log_ctx = p;
    c.transport = wire_new(p->world, p, 0);
    c.inbound = wire_new(p->world, p, 1);
    err = postbag_open(&p->bag, &c, NULL);
    if (err != POSTBAG_OK) {
        p->bag = NULL;
        return err;
    }
    err = postbag_on(p->bag, "fast", "cmd/fast", on_command, p);
    if (err == POSTBAG_OK)
        err = postbag_on_slow(
            p->bag, "slow", "cmd/slow", slow_part, on_command, p);
    if (err == POSTBAG_OK)
        err = postbag_on(p->bag, "pull", "cmd/pull", NULL, NULL);
    return err;
}

/* As an installer does, where the relay is another program. */
static int make_tables(struct process *p)
{
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = world_db(p->world),
        .port = &p->port};

    return postbag_admin_init(&c, 0, NULL);
}

static int open_writer(struct process *p)
{
    const struct postbag_writer_config c = {.struct_size = sizeof(c),
        .db = p->db,
        .port = &p->port,
        .engine = p->bag,
        .begin_timeout_ms = 50,
        .reply_topics = "reply/#"};

    return postbag_writer_open(&p->writer, &c, NULL);
}

void process_start(struct process *p)
{
    struct world *w = p->world;
    struct process *before;
    int err;

    p->number = ++w->next_number;
    p->is_alive = 1;
    p->next_us = p->work_us = w->now_us;
    p->firmware.txn = p->firmware.savepoint = p->firmware.pulled = -1;
    before = process_enter(p);
    err = open_db(p);
    if (err == POSTBAG_OK && w->p.has_no_relay && !w->is_healed)
        err = make_tables(p);
    else if (err == POSTBAG_OK)
        err = open_bag(p);
    if (err == POSTBAG_OK)
        err = open_writer(p);
    process_leave(w, before);
    say(w, "p%d starts: %d", p->index, err);
    if (err != POSTBAG_OK && !p->is_dying)
        process_kill(p, "as it cannot start");
    (void)process_bury(p);
}

/* ---- running ---- */

static void watch_spin(struct process *p, int64_t began_us)
{
    struct world *w = p->world;

    p->spins = p->next_us <= began_us ? p->spins + 1 : 0;
    if (p->spins > 200)
        broken(w, "S12_bounds", "p%d wants to be called at once, always",
            p->index);
}

void process_step(struct process *p)
{
    struct world *w = p->world;
    struct process *before = process_enter(p);
    int64_t began_us = w->now_us;
    int64_t next_us = 0;
    int err = postbag_step(p->bag, &next_us);

    process_leave(w, before);
    p->next_us = w->boot_us + next_us;
    if (err == POSTBAG_EBUSY)
        happened(w, BUSY);
    say(w, "p%d step: %d, next in %lld us", p->index, err,
        (long long)(p->next_us - w->now_us));
    watch_spin(p, began_us);
    (void)process_bury(p);
}

void process_work(struct process *p)
{
    struct world *w = p->world;
    struct process *before = process_enter(p);
    int did = 0;
    int err = postbag_work(p->bag, &did);

    process_leave(w, before);
    p->work_us = w->now_us + (did ? 0 : 1000000);
    if (did || err != POSTBAG_OK)
        say(w, "p%d works: %d", p->index, err);
    (void)process_bury(p);
}

void process_nest(struct world *w)
{
    struct process *p = &w->processes[luck_below(&w->luck, w->p.processes)];
    int64_t epoch = look_epoch(w);

    if (w->depth != 1 || w->is_nested || !p->is_alive || p->thaws_us != 0 ||
        p->depth > 0 || p->is_dying || !strikes(w, NESTED))
        return;
    happened(w, NESTED);
    w->is_nested = w->was_nested = 1;
    say(w, "meanwhile:");
    if (p->bag != NULL && luck_hits(&w->luck, 500))
        process_step(p);
    else
        firmware_step(p);
    w->is_nested = 0;
    if (look_epoch(w) != epoch)
        w->nested_owner = p;
}

void process_stop(struct process *p)
{
    struct world *w = p->world;
    struct process *before = process_enter(p);
    int err;

    look_close(w); /* so that the last one to close is one of them */
    firmware_forget(p);
    err = p->bag == NULL ? POSTBAG_OK : postbag_stop(p->bag, 300);
    if (!p->is_dying)
        close_all(p);
    process_leave(w, before);
    w->disruptions++;
    say(w, "p%d stopped: %d", p->index, err);
    if (!process_bury(p))
        p->starts_us = w->now_us + luck_between(&w->luck, 1000, 3000000);
    w->must_look_at_all = 1;
}
