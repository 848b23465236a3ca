/* SPDX-License-Identifier: MIT */
/*
 * A second power cut while the next boot's application and relay open what the
 * first one left, recover it and go on: see outbox_cut.h.  The first cut is
 * everywhere, the second at a call by chance.
 */
#include "outbox_cut.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "config.h"
#include "outbox_look.h"

/* A control: the disk of the second cut lies. */
static int lies;

/* Chance of its own, so that it is the same again. */
static uint64_t luck;

static uint64_t draw(uint64_t below)
{
    luck = luck * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (luck >> 33) % below;
}

/* ---- the application and the relay whose power is cut ------------------ */

/* As outbox_cut_put, but the power may go.  Numbers of what the first cut took
 * back are given again, as seq is. */
static void put(struct outbox_cut *b, sqlite3 *app)
{
    char sql[200];
    int is_bad = 0;
    int number = 1 + (int)power_cut_get(app, &is_bad,
                         "SELECT ifnull(max(seq), 0) FROM outbox");

    if (is_bad || number >= CUT_NUMBERS)
        return;
    b->told[number] = (struct cut_told){0};
    b->count = number > b->count ? number : b->count;
    (void)snprintf(sql, sizeof(sql),
        "BEGIN IMMEDIATE; INSERT INTO state VALUES (%d);"
        "INSERT INTO outbox(topic, payload) VALUES ('t', '%d'); COMMIT",
        number, number);
    b->told[number].is_committed =
        sqlite3_exec(app, sql, NULL, NULL, NULL) == SQLITE_OK;
    if (sqlite3_get_autocommit(app) == 0)
        (void)sqlite3_exec(app, "ROLLBACK", NULL, NULL, NULL);
}

/* What a relay sends is told of as long as there is power. */
static void note_sent(void *ctx, const struct fake_sent *s)
{
    struct outbox_cut *b = ctx;
    struct cut_told *told = &b->told[(int)strtol(s->payload, NULL, 10)];

    if (memdisk_is_dead(b->cut->left, 0))
        return;
    if (!told->is_sent)
        told->rank = ++b->ranks;
    told->is_sent = 1;
    told->is_acknowledged = 1;
    (void)snprintf(told->id, sizeof(told->id), "%s", s->id);
}

static void cut_off(void *ctx)
{
    const struct power_cut *c = ctx;

    memdisk_cut(c->left, (enum memdisk_left)draw(MEMDISK_LEFTS), draw(1 << 30));
}

static void run(struct outbox_cut *b, struct relay *r, sqlite3 *app)
{
    const struct memdisk *disk = b->cut->left;
    int64_t end_us = r->world->sim.mono_us + 3000000;

    for (int i = 0; i < 500 && r->next_us < end_us; i++) {
        if (r->next_us > r->world->sim.mono_us)
            sim_pass_ms(&r->world->sim,
                (r->next_us - r->world->sim.mono_us) / 1000 + 1);
        relay_step(r);
        if (i % 2 == 0)
            put(b, app);
        if (memdisk_is_dead(disk, 0))
            return;
    }
}

/* It may not even open. */
static void run_until_dark(struct outbox_cut *b)
{
    struct relay *r = calloc(1, sizeof(*r));
    sqlite3 *app;

    assert_non_null(r);
    (void)sqlite3_open(b->after.t.path, &app);
    (void)sqlite3_exec(app, "PRAGMA synchronous=FULL", NULL, NULL, NULL);
    power_cut_port(&b->after.sim, 2);
    relay_init(r, &b->after);
    r->out->on_send = note_sent;
    r->out->on_send_ctx = b;
    r->out->auto_settle = 1;
    assert_ok(postbag__config_copy(&r->config, &r->options, NULL));
    if (postbag__engine_open(&r->e, &r->config, &r->consumers, NULL) ==
        POSTBAG_OK) {
        run(b, r, app);
        relay_kill(r);
    } else {
        postbag__config_free(&r->config);
    }
    free(r);
    assert_int_equal(sqlite3_close(app), SQLITE_OK);
}

/* A relay reads far more often than it writes: most cuts come at a write. */
static void cut_again(struct outbox_cut *b)
{
    static const enum memdisk_call calls[] = {
        MEMDISK_ANY, MEMDISK_WRITE, MEMDISK_WRITE, MEMDISK_SYNC};
    static const uint64_t most[] = {400, 40, 12, 5};
    size_t i = draw(COUNT(calls));

    memdisk_lie(b->cut->left, lies);
    memdisk_die_at(
        b->cut->left, -1, calls[i], 1 + draw(most[i]), cut_off, b->cut);
    run_until_dark(b);
    memdisk_die_at(b->cut->left, -1, calls[i], 0, NULL, NULL);
    if (!memdisk_is_dead(b->cut->left, 0))
        cut_off(b->cut);
    memdisk_process(b->cut->left, 1);
}

static enum finding look(void *ctx, unsigned depth)
{
    struct outbox_cut *b = ctx;
    struct cut_told was[CUT_NUMBERS];
    int ranks = b->ranks;
    int count = b->count;
    enum finding found;

    luck = b->cut->seed + b->cut->images;
    memcpy(was, b->told, sizeof(was));
    cut_again(b);
    found = outbox_look(ctx, depth);
    memcpy(b->told, was, sizeof(was));
    b->ranks = ranks;
    b->count = count;
    return found;
}

/* ---- scenes ------------------------------------------------------------ */

static void begin(struct outbox_cut *b, struct power_cut *c)
{
    outbox_cut_begin(b, c, "FULL");
    c->look = look;
    b->relay.options.ack_delay_ms = 50;
    outbox_cut_up(b);
}

static void play(struct outbox_cut *b)
{
    for (int i = 0; i < 6; i++)
        outbox_cut_put(b, i % 3, 1);
    outbox_cut_answer(b, 0, 0x97);
    outbox_cut_answer(b, 1, 0x99);
    outbox_cut_settle(b);
    outbox_cut_run_ms(b, 2000);
    for (int i = 0; i < 4; i++)
        outbox_cut_put(b, i % 2, 2);
}

static void recover(struct power_cut *c)
{
    struct outbox_cut b;

    begin(&b, c);
    play(&b);
    outbox_cut_end(&b);
}

static void test_power_cut_in_the_recovery_from_a_power_cut_loses_nothing(
    void **state)
{
    (void)state;
    power_cut_prove("F12_recovery", recover, 4);
}

/* ---- what must be noticed ---------------------------------------------- */

/* The disk of the second cut only says that it had synced, so what it
 * promised is not there. */
static void recover_on_a_lying_disk(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, "FULL");
    c->look = look;
    lies = 1;
    outbox_cut_up(&b);
    play(&b);
    outbox_cut_end(&b);
    lies = 0;
}

static void test_power_cut_in_the_recovery_on_a_disk_that_lies_is_noticed(
    void **state)
{
    (void)state;
    power_cut_control(
        "F12_recovery", "lying_disk", recover_on_a_lying_disk, LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_power_cut_in_the_recovery_from_a_power_cut_loses_nothing),
        cmocka_unit_test(
            test_power_cut_in_the_recovery_on_a_disk_that_lies_is_noticed),
    };

    power_cut_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
