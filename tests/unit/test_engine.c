/* SPDX-License-Identifier: MIT */
/*
 * The step as a whole: what it does when nothing, or everything, happens; and
 * that nothing is lost while the database or the port fails.
 */
#include "engine.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "relay.h"
#include "unit.h"

static int64_t cursor(struct bench *b)
{
    return sql_get(
        b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0");
}

/* ---- steps ---- */

static void test_engine_put_row_is_delivered_without_being_told(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    r->out->auto_settle = 1;
    relay_put(r, "t", 3);
    relay_idle_ms(r, 7000); /* the safety poll and the lazy save */
    assert_string_equal(fake_topics(r->out, 0), "t1 t2 t3");
    assert_int_equal(cursor(b), 3);
}

static void test_engine_idle_wakes_seldom_and_writes_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    int64_t before;

    r->out->auto_settle = 1;
    relay_put(r, "t", 3);
    relay_run_ms(r, 5000);
    before = sql_get(b->w.t.app, "PRAGMA data_version");
    r->steps = 0;
    relay_idle_ms(r, 3600 * 1000);
    assert_in_range(r->steps, 700, 740); /* one in 5 s */
    assert_int_equal(sql_get(b->w.t.app, "PRAGMA data_version"), before);
}

static void test_engine_idle_with_a_live_state_wakes_seldom(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.run_dir = b->w.t.folder;
    r = bench_up(b);
    r->out->auto_settle = 1;
    relay_put(r, "t", 3);
    relay_run_ms(r, 60 * 1000);
    r->steps = 0;
    relay_idle_ms(r, 3600 * 1000);
    assert_true(r->steps < 3600 / 4);
}

static void test_engine_offline_with_a_backlog_wakes_seldom(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 100);
    r->out->connect_err = POSTBAG_ELINK;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 60 * 1000);
    r->steps = 0;
    relay_idle_ms(r, 3600 * 1000);
    assert_true(r->steps < 3600);
}

static void test_engine_without_a_watch_looks_once_a_second(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->w.sim.fails[SIM_WAKE_WATCH] = POSTBAG_EIO;
    r = bench_up(b);
    assert_has(r->log, "looking once a second");
    relay_put(r, "t", 1);
    relay_idle_ms(r, 1001);
    assert_int_equal(r->out->count, 1);
}

static void test_engine_watches_the_wal(void **state)
{
    struct bench *b = *state;
    char path[200];

    (void)bench_up(b);
    (void)snprintf(path, sizeof(path), "%s-wal", b->w.t.path);
    assert_string_equal(b->w.sim.watched, path);
}

static void test_engine_draining_takes_no_new_rows(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 2);
    relay_run_ms(r, 1);
    r->e.is_draining = 1;
    relay_put(r, "u", 2);
    relay_run_ms(r, 100);
    assert_int_equal(r->out->count, 2);
    assert_int_equal(postbag__engine_is_drained(&r->e), 0);
    (void)fake_settle_all(r->out, 0);
    relay_step(r);
    assert_int_equal(postbag__engine_is_drained(&r->e), 1);
    assert_int_equal(cursor(b), 2); /* saved at once */
}

/* Rows that are due stay where they are; the engine must not spin for them. */
static void test_engine_draining_beside_a_due_row_does_not_spin(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    b->w.sim.random_byte = 0;
    relay_put(r, "t", 2);
    relay_run_ms(r, 1);
    fake_settle(r->out, 0, 0x87);
    relay_run_ms(r, 1);
    r->e.is_draining = 1;
    relay_run_ms(r, 5000);
    assert_int_equal(r->out->count, 2);
}

static void test_engine_shut_saves_and_says_goodbye(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 2);
    relay_run_ms(r, 1);
    fake_settle(r->out, 0, 0);
    relay_step(r);
    postbag__engine_shut(&r->e);
    assert_int_equal(cursor(b), 1);
    assert_int_equal(r->out->disconnects, 1);
    assert_int_equal(r->out->aborts, 0);
}

static const char *live_state(const struct relay *r)
{
    static char text[2000];
    FILE *f = fopen(r->e.live.path, "r");

    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    (void)fclose(f);
    return text;
}

static void test_engine_live_state_tells_role_and_link(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    const char *text;

    b->r.options.run_dir = b->w.t.folder;
    r = bench_up(b);
    relay_put(r, "t", 2);
    relay_run_ms(r, 3000);
    text = live_state(r);
    assert_has(text, "role=owner\n");
    assert_has(text, "link=up\n");
    assert_has(text, "in_flight=2\n");
    assert_has(text, "put_seq=2\n");
}

/* ---- failing storage ---- */

static void test_engine_behind_a_foreign_writer_becomes_owner_later(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    relay_open(r);
    sql_run(b->w.t.app, "BEGIN IMMEDIATE");
    relay_run_ms(r, 2000);
    assert_int_equal(r->e.lease.is_owner, 0);
    sql_run(b->w.t.app, "ROLLBACK");
    relay_idle_ms(r, 1100);
    assert_int_equal(r->e.lease.is_owner, 1);
}

static unsigned draw(unsigned *random, unsigned below)
{
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 16) % below;
}

/* Somebody takes the write lock again and again, for up to 300 ms, while
 * messages are refused, lost and delivered. */
static void test_engine_beside_a_greedy_writer_loses_nothing(void **state)
{
    static const int reasons[] = {0, 0, 0, 0x87, 0x97};
    struct bench *b = *state;
    struct sqlite3 *greedy = tempdb_connect(&b->w.t);
    struct relay *r;
    unsigned random = 11;

    b->r.options.max_attempts = 1000;
    b->r.options.checkpoint_frames = 16;
    b->r.options.reconnect_cap_ms = 1000;
    r = bench_up(b);
    for (int i = 0; i < 300; i++) {
        relay_put(r, "t", 1);
        sql_run(greedy, "BEGIN IMMEDIATE");
        relay_run_ms(r, draw(&random, 300));
        for (size_t k = 0; k < r->out->count; k++)
            if (!r->out->sent[k].is_settled && draw(&random, 2))
                fake_settle(r->out, k, reasons[draw(&random, COUNT(reasons))]);
        relay_run_ms(r, draw(&random, 100));
        sql_run(greedy, draw(&random, 2) ? "COMMIT" : "ROLLBACK");
        relay_run_ms(r, draw(&random, 20));
    }
    (void)sqlite3_close(greedy);
    r->out->auto_settle = 1;
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 600 * 1000);
    assert_int_equal(cursor(b), 300);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 0);
    assert_int_equal(sql_get(b->w.t.app,
                         "SELECT delivered FROM outbox_cursor WHERE lane = 0"),
        300);
    assert_int_equal(r->errors, 0);
}

static void set_page_limit(struct relay *r, int64_t pages)
{
    char sql[60];

    (void)snprintf(
        sql, sizeof(sql), "PRAGMA max_page_count=%lld", (long long)pages);
    assert_ok(postbag__exec(&r->e.db, sql));
}

/* What cannot be recorded is not pretended. */
static void test_engine_on_a_full_file_keeps_the_row(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload)"
                        " VALUES ('t', zeroblob(20000))");
    set_page_limit(r, 1); /* what there is already */
    r->out->auto_settle = 1;
    r->out->reason = 0x95;
    relay_run_ms(r, 3000);
    assert_int_equal(cursor(b), 0);
    assert_has(r->log, "the cursor cannot be saved (");
    assert_in_range(r->out->count, 2, 20);
    set_page_limit(r, 1 << 20);
    relay_idle_ms(r, 3000);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT topic, state FROM outbox_held"), "t|dead");
    assert_int_equal(cursor(b), 1);
}

/* Statements of more than a few instructions are interrupted. */
static int interrupt(void *ctx)
{
    return *(const int *)ctx;
}

static void test_engine_whose_look_failed_looks_again(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    int broken = 1;

    relay_put(r, "t", 1);
    sqlite3_progress_handler(r->e.db.handle, 8, interrupt, &broken);
    relay_run_ms(r, 1);
    assert_has(r->log, "look for new rows");
    assert_int_equal(r->out->count, 0);
    broken = 0;
    relay_idle_ms(r, 6000);
    assert_int_equal(r->out->count, 1);
    sqlite3_progress_handler(r->e.db.handle, 0, NULL, NULL);
}

static void test_engine_tells_a_lasting_error_now_and_then(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    int broken = 1;

    relay_put(r, "t", 1);
    sqlite3_progress_handler(r->e.db.handle, 8, interrupt, &broken);
    r->errors = 0;
    for (int i = 0; i < 600; i++) {
        relay_step(r);
        sim_pass_ms(&b->w.sim, 100);
    }
    assert_in_range(r->errors, 2, 20);
    broken = 0;
    relay_run_ms(r, 6000);
    assert_int_equal(r->out->count, 1);
    sqlite3_progress_handler(r->e.db.handle, 0, NULL, NULL);
}

static void test_engine_tells_that_its_file_was_replaced(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    char aside[256];
    size_t sent;

    (void)snprintf(aside, sizeof(aside), "%s-aside", b->w.t.path);
    relay_idle_ms(r, 20000);
    assert_null(strstr(r->log, "replaced"));
    assert_int_equal(rename(b->w.t.path, aside), 0);
    relay_put(r, "t", 1); /* to nowhere that anybody reads */
    relay_idle_ms(r, 20000);
    assert_has(r->log, "replaced");
    assert_int_equal(r->err, POSTBAG_ESTORAGE);
    assert_int_equal(r->e.outbound.state, LINK_OFF);
    r->errors = 0;
    r->steps = 0;
    sent = r->out->count;
    relay_put(r, "u", 3);
    relay_run_ms(r, 60 * 1000);
    assert_in_range(r->steps, 5, 10);
    assert_int_equal(r->errors, 0); /* told once */
    assert_int_equal(r->out->count, sent);
    assert_int_equal(rename(aside, b->w.t.path), 0);
    r->out->auto_settle = 1;
    relay_idle_ms(r, 30 * 1000);
    assert_has(r->log, "back in its place");
    assert_int_equal(cursor(b), 4);
}

static void test_engine_behind_a_lasting_lock_says_that_it_stalls(void **state)
{
    struct bench *b = *state;
    struct sqlite3 *other = tempdb_connect(&b->w.t);
    struct relay *r;

    b->r.options.run_dir = b->w.t.folder;
    r = bench_up(b);
    r->out->auto_settle = 1;
    relay_put(r, "t", 1000);
    sql_run(other, "BEGIN IMMEDIATE");
    relay_run_ms(r, 4500);
    assert_null(strstr(r->log, "cannot be saved"));
    relay_idle_ms(r, 40 * 1000);
    assert_has(r->log, "another process keeps the database locked");
    assert_has(live_state(r), "link=up\n");
    assert_has(live_state(r), "stalled=locked\n");
    assert_true(r->out->count < 300);
    sql_run(other, "COMMIT");
    (void)sqlite3_close(other);
    r->log[0] = '\0';
    relay_idle_ms(r, 10 * 1000);
    assert_has(r->log, "the cursor is saved again, after 4");
    assert_int_equal(cursor(b), 1000);
    assert_has(live_state(r), "stalled=\n");
}

/* ---- a failing port ---- */

static void test_engine_without_a_turn_at_the_gate_waits(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 2);
    b->w.sim.fails[SIM_GATE_ENTER] = POSTBAG_EBUSY;
    relay_run_ms(r, 500);
    assert_int_equal(r->out->count, 0);
    b->w.sim.fails[SIM_GATE_ENTER] = 0;
    relay_idle_ms(r, 10);
    assert_int_equal(r->out->count, 2);
    assert_int_equal(r->errors, 0);
}

static void test_engine_without_randomness_goes_on(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    b->w.sim.fails[SIM_RANDOM] = POSTBAG_EIO;
    relay_put(r, "t", 2);
    relay_run_ms(r, 1);
    fake_settle(r->out, 0, 0x87);
    fake_lose(r->out, POSTBAG_ELINK, 0);
    r->out->auto_settle = 1;
    relay_run_ms(r, 10000);
    assert_int_equal(cursor(b), 2);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 0);
}

static void test_engine_that_cannot_write_its_live_state_relays(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.run_dir = b->w.t.folder;
    b->w.sim.fails[SIM_REPLACE_FILE] = POSTBAG_EIO;
    r = bench_up(b);
    r->out->auto_settle = 1;
    relay_put(r, "t", 2);
    relay_run_ms(r, 3000);
    assert_int_equal(cursor(b), 2);
    assert_int_equal(r->errors, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_engine_put_row_is_delivered_without_being_told),
        BENCH(test_engine_idle_wakes_seldom_and_writes_nothing),
        BENCH(test_engine_idle_with_a_live_state_wakes_seldom),
        BENCH(test_engine_offline_with_a_backlog_wakes_seldom),
        BENCH(test_engine_without_a_watch_looks_once_a_second),
        BENCH(test_engine_watches_the_wal),
        BENCH(test_engine_draining_takes_no_new_rows),
        BENCH(test_engine_draining_beside_a_due_row_does_not_spin),
        BENCH(test_engine_shut_saves_and_says_goodbye),
        BENCH(test_engine_live_state_tells_role_and_link),
        BENCH(test_engine_behind_a_foreign_writer_becomes_owner_later),
        BENCH(test_engine_beside_a_greedy_writer_loses_nothing),
        BENCH(test_engine_on_a_full_file_keeps_the_row),
        BENCH(test_engine_whose_look_failed_looks_again),
        BENCH(test_engine_tells_a_lasting_error_now_and_then),
        BENCH(test_engine_tells_that_its_file_was_replaced),
        BENCH(test_engine_behind_a_lasting_lock_says_that_it_stalls),
        BENCH(test_engine_without_a_turn_at_the_gate_waits),
        BENCH(test_engine_without_randomness_goes_on),
        BENCH(test_engine_that_cannot_write_its_live_state_relays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
