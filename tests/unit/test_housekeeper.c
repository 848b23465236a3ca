/* SPDX-License-Identifier: MIT */
/*
 * The WAL and the log stay small whatever the load, and exactly one
 * housekeeper per database sees to it.
 */
#include "housekeeper.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "relay.h"
#include "schema.h"
#include "unit.h"

enum { FRAME_BYTES = 4096 + 24, FRAMES = 32, AHEAD_BYTES = 256 * 1024 };

static struct relay *small_wal(struct bench *b)
{
    b->r.options.checkpoint_frames = FRAMES;
    return bench_up(b);
}

static int64_t wal_bytes(struct bench *b)
{
    char path[200];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s-wal", b->w.t.path);
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static int64_t rows(struct bench *b)
{
    return sql_get(b->w.t.app, "SELECT count(*) FROM outbox");
}

/* ---- the WAL ---- */

static void commit_and_step(struct bench *b, int commits)
{
    for (int i = 0; i < commits; i++) {
        relay_put(&b->r, "t", 1);
        relay_step(&b->r);
        (void)fake_settle_all(b->r.out, 0);
    }
}

static void test_housekeeper_bounds_the_wal_under_load(void **state)
{
    struct bench *b = *state;

    (void)small_wal(b);
    /* what a busy application has by default would checkpoint, too */
    (void)sql_text(b->w.t.app, "PRAGMA wal_autocheckpoint=0");
    commit_and_step(b, 250);
    assert_true(wal_bytes(b) < 2 * FRAMES * FRAME_BYTES);
    assert_true(b->r.e.housekeeper.frames < 2 * FRAMES);
    assert_int_equal(b->r.errors, 0);
    assert_true(b->r.e.housekeeper.is_pinned || b->r.e.housekeeper.is_sound);
}

static void test_housekeeper_bounds_the_wal_on_a_sound_sqlite(void **state)
{
    struct bench *b = *state;

    (void)small_wal(b);
    postbag__rollback(&b->r.e.housekeeper.pins);
    b->r.e.housekeeper.is_pinned = 0;
    b->r.e.housekeeper.is_sound = 1;
    (void)sql_text(b->w.t.app, "PRAGMA wal_autocheckpoint=0");
    commit_and_step(b, 120);
    assert_true(wal_bytes(b) < 2 * FRAMES * FRAME_BYTES);
    assert_int_equal(b->r.e.housekeeper.is_pinned, 0);
}

static void test_housekeeper_catches_up_after_a_long_reader(void **state)
{
    struct bench *b = *state;
    struct sqlite3 *reader;
    int64_t grown;

    (void)small_wal(b);
    (void)sql_text(b->w.t.app, "PRAGMA wal_autocheckpoint=0");
    commit_and_step(b, 20);
    reader = tempdb_connect(&b->w.t);
    sql_run(reader, "BEGIN");
    (void)sql_get(reader, "SELECT count(*) FROM outbox");
    commit_and_step(b, 60);
    grown = wal_bytes(b);
    assert_true(grown > 2 * FRAMES * FRAME_BYTES);
    sql_run(reader, "COMMIT");
    (void)sqlite3_close(reader);
    commit_and_step(b, 120);
    /* used again: but for the first commit it has not grown */
    assert_true(wal_bytes(b) < grown + 10 * FRAME_BYTES);
    assert_true(b->r.e.housekeeper.frames < 2 * FRAMES);
}

static int64_t file_bytes(struct bench *b)
{
    struct stat st;

    assert_int_equal(stat(b->w.t.path, &st), 0);
    return st.st_size;
}

/* Or a WAL that has taken the last of the disk could not be copied. */
static void test_housekeeper_grows_the_file_ahead_of_the_wal(void **state)
{
    struct bench *b = *state;
    int64_t pages;

    (void)bench_up(b);
    (void)sql_text(b->w.t.app, "PRAGMA wal_autocheckpoint=0");
    for (int i = 0; i < 3; i++) {
        sql_run(b->w.t.app, "CREATE TABLE IF NOT EXISTS big(a);"
                            " INSERT INTO big VALUES (zeroblob(50 * 4096))");
        relay_step(&b->r);
        pages = sql_get(b->w.t.app, "PRAGMA page_count");
        assert_true(pages > 50 * (i + 1));
        assert_true(file_bytes(b) >= pages * 4096 + AHEAD_BYTES);
    }
    commit_and_step(b, 150); /* a checkpoint leaves whole chunks */
    assert_int_equal(file_bytes(b) % (AHEAD_BYTES / 2), 0);
    assert_string_equal(sql_text(b->w.t.app, "PRAGMA integrity_check"), "ok");
}

/* A checkpoint of others cuts the file to its pages. */
static void test_housekeeper_grows_a_file_that_was_cut_again(void **state)
{
    struct bench *b = *state;

    b->r.options.checkpoint_frames = 100000;
    (void)bench_up(b);
    postbag__rollback(&b->r.e.housekeeper.pins);
    relay_put(&b->r, "t", 1);
    (void)sql_text(b->w.t.app, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_int_equal(
        file_bytes(b), sql_get(b->w.t.app, "PRAGMA page_count") * 4096);
    commit_and_step(b, 1);
    assert_true(file_bytes(b) >=
                sql_get(b->w.t.app, "PRAGMA page_count") * 4096 + AHEAD_BYTES);
}

static void test_housekeeper_looks_for_room_only_when_that_may_matter(
    void **state)
{
    struct bench *b = *state;

    b->r.options.min_free_bytes = 8000;
    (void)bench_up(b);
    b->w.sim.calls[SIM_ROOM] = 0;
    relay_idle_ms(&b->r, 60000);
    assert_int_equal(b->w.sim.calls[SIM_ROOM], 0);
    commit_and_step(b, 100); /* in no time: one look */
    assert_int_equal(b->w.sim.calls[SIM_ROOM], 1);
}

static void test_housekeeper_full_disk_makes_a_short_wal_usable_again(
    void **state)
{
    struct bench *b = *state;
    int64_t before;

    (void)small_wal(b);
    (void)sql_text(b->w.t.app, "PRAGMA wal_autocheckpoint=0");
    commit_and_step(b, FRAMES);
    commit_and_step(b, 5);
    before = b->r.e.housekeeper.frames;
    assert_true(before > 0 && before < FRAMES);
    postbag__housekeeper_note_full(&b->r.e.housekeeper);
    relay_tick(&b->r);
    assert_int_equal(b->r.e.housekeeper.is_tight, 0);
    commit_and_step(b, 1);
    assert_true(b->r.e.housekeeper.frames < before);
}

static void test_housekeeper_shrinks_a_wal_that_met_a_full_disk(void **state)
{
    struct bench *b = *state;
    struct sqlite3 *reader;

    (void)small_wal(b);
    (void)sql_text(b->w.t.app, "PRAGMA wal_autocheckpoint=0");
    commit_and_step(b, 20);
    reader = tempdb_connect(&b->w.t);
    sql_run(reader, "BEGIN");
    (void)sql_get(reader, "SELECT count(*) FROM outbox");
    commit_and_step(b, 150);
    assert_true(wal_bytes(b) > 4 * FRAMES * FRAME_BYTES);
    b->r.e.housekeeper.is_tight = 1;
    commit_and_step(b, 5); /* not while somebody reads from it */
    assert_true(wal_bytes(b) > 4 * FRAMES * FRAME_BYTES);
    assert_int_equal(b->r.e.housekeeper.is_tight, 1);
    sql_run(reader, "COMMIT");
    (void)sqlite3_close(reader);
    sim_pass_ms(&b->w.sim, 10);
    commit_and_step(b, 60);
    assert_true(wal_bytes(b) < 2 * FRAMES * FRAME_BYTES);
    assert_int_equal(b->r.e.housekeeper.is_tight, 0);
    assert_int_equal(b->r.errors, 0);
}

static void test_housekeeper_keeps_the_shm_ahead_of_a_long_wal(void **state)
{
    struct bench *b = *state;
    unsigned at_open;

    (void)small_wal(b);
    (void)sql_text(b->w.t.app, "PRAGMA wal_autocheckpoint=0");
    relay_step(&b->r);
    at_open = b->w.sim.calls[SIM_RESERVE_PAGES];
    sql_run(b->w.t.app, "CREATE TABLE big(a); INSERT INTO big"
                        " VALUES (zeroblob(2100 * 4096))");
    relay_step(&b->r);
    assert_true(b->r.e.housekeeper.frames > 2062);
    assert_int_equal(b->w.sim.calls[SIM_RESERVE_PAGES], at_open + 2);
    relay_step(&b->r); /* done for that long */
    assert_int_equal(b->w.sim.calls[SIM_RESERVE_PAGES], at_open + 2);
}

static void test_housekeeper_waits_for_a_long_writer(void **state)
{
    struct bench *b = *state;
    struct relay *r = small_wal(b);

    (void)sql_text(b->w.t.app, "PRAGMA wal_autocheckpoint=0");
    for (int i = 0; i < 2 * FRAMES; i++)
        relay_put(r, "t", 1);
    sql_run(b->w.t.app, "BEGIN IMMEDIATE");
    relay_run_ms(r, 1000);
    assert_true(r->e.housekeeper.frames >= FRAMES);
    sql_run(b->w.t.app, "COMMIT");
    relay_idle_ms(r, 1000);
    relay_put(r, "t", 1); /* starts the WAL anew */
    relay_run_ms(r, 10);
    assert_true(r->e.housekeeper.frames < FRAMES);
    assert_int_equal(r->errors, 0);
}

/* On an SQLite with the WAL-reset bug no foreign checkpoint may finish. */
static void test_housekeeper_pin_keeps_foreign_checkpoints_from_resetting(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    if (r->e.housekeeper.is_sound)
        skip();
    assert_int_equal(r->e.housekeeper.is_pinned, 1);
    relay_put(r, "t", 10);
    (void)sqlite3_busy_timeout(b->w.t.app, 1);
    /* busy, frames, done */
    assert_int_equal(
        sql_text(b->w.t.app, "PRAGMA wal_checkpoint(TRUNCATE)")[0], '1');
    relay_close(r);
    assert_string_equal(
        sql_text(b->w.t.app, "PRAGMA wal_checkpoint(TRUNCATE)"), "0|0|0");
}

/* ---- the log ---- */

static void test_housekeeper_purges_under_steady_load(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    int64_t most = 0;

    r->out->auto_settle = 1;
    for (int i = 0; i < 80; i++) {
        relay_put(r, "t", 50);
        relay_run_ms(r, 100);
        r->out->count = 0; /* of the record */
        most = rows(b) > most ? rows(b) : most;
    }
    assert_int_equal(sql_get(b->w.t.app, "SELECT max(seq) FROM outbox"), 4000);
    assert_true(most < 900);
    relay_run_ms(r, 5000);
    assert_true(rows(b) < 2 * 256);
}

static void test_housekeeper_never_purges_what_is_unsettled(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 600);
    relay_run_ms(r, 10);
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 3000);
    assert_int_equal(rows(b), 600);
    r->out->auto_settle = 1;
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 3000);
    assert_true(rows(b) <= 600 - 512 + 1);
    assert_int_equal(sql_get(b->w.t.app, "SELECT max(seq) FROM outbox"), 600);
}

/* The slowest destination may be another process's. */
static void test_housekeeper_purges_what_others_settle(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    assert_ok(postbag__schema_add_dest(&r->e.db, "cloud"));
    r->out->auto_settle = 1;
    relay_put(r, "t", 600);
    relay_run_ms(r, 3000);
    assert_int_equal(rows(b), 600);
    sql_run(b->w.t.app, "UPDATE outbox_cursor SET acked = 600, sent_hi = 600,"
                        " settled_rows = 600, delivered = 600"
                        " WHERE dest = 'cloud' AND lane = 0;"
                        "UPDATE outbox_cursor SET acked = 600, sent_hi = 600"
                        " WHERE dest = 'cloud' AND lane > 0");
    relay_run_ms(r, 100);
    assert_true(rows(b) <= 600 - 512);
}

static void test_housekeeper_purges_what_the_last_process_left(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    relay_put(r, "t", 300);
    sql_run(b->w.t.app, "UPDATE outbox_cursor SET acked = 300, sent_hi = 300");
    r = bench_up(b);
    relay_run_ms(r, 100);
    assert_int_equal(rows(b), 300 - 256);
}

static void test_housekeeper_keeps_rows_for_their_time(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.keep_s = 100;
    r = bench_up(b);
    r->out->auto_settle = 1;
    relay_put(r, "t", 2000);
    relay_run_ms(r, 90 * 1000);
    assert_int_equal(rows(b), 2000);
    relay_idle_ms(r, 20 * 1000);
    assert_int_equal(rows(b), 2000 % 256);
}

/* The clock is set while rows are kept: 1970, 2027, 1970 again. */
static void test_housekeeper_keeps_rows_though_clocks_jump(void **state)
{
    struct bench *b = *state;
    int64_t set_ms = b->w.sim.wall_ms;
    struct relay *r;

    b->w.sim.wall_ms = 5000;
    b->r.options.keep_s = 100;
    r = bench_up(b);
    r->out->auto_settle = 1;
    relay_put(r, "t", 2000);
    relay_run_ms(r, 30 * 1000);
    b->w.sim.wall_ms = set_ms;
    relay_run_ms(r, 30 * 1000);
    b->w.sim.wall_ms = 5000;
    relay_run_ms(r, 30 * 1000);
    assert_int_equal(rows(b), 2000);
    relay_idle_ms(r, 20 * 1000);
    assert_int_equal(rows(b), 2000 % 256);
}

static void test_housekeeper_keeps_the_last_rows(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.keep_rows = 1000;
    r = bench_up(b);
    r->out->auto_settle = 1;
    relay_put(r, "t", 3000);
    relay_run_ms(r, 10 * 1000);
    assert_in_range(rows(b), 1000, 1000 + 255);
    assert_true(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_acks") > 0);
}

/* ---- one per database ---- */

static void test_housekeeper_second_one_waits_for_the_lock(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    struct relay other;

    relay_init(&other, &b->w);
    relay_open(&other);
    relay_run_ms(&other, 30 * 1000);
    assert_non_null(r->e.housekeeper.lock);
    assert_null(other.e.housekeeper.lock);
    assert_int_equal(other.e.housekeeper.is_pinned, 0);
    relay_kill(r);
    relay_run_ms(&other, 6 * 1000);
    assert_non_null(other.e.housekeeper.lock);
    relay_close(&other);
}

static void test_housekeeper_without_a_lock_file_tries_again(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    b->w.sim.fails[SIM_LOCK_FILE] = POSTBAG_ENOSPC;
    relay_open(r);
    relay_run_ms(r, 1000);
    assert_null(r->e.housekeeper.lock);
    assert_has(r->log, "keep house");
    b->w.sim.fails[SIM_LOCK_FILE] = 0;
    relay_idle_ms(r, 6000);
    assert_non_null(r->e.housekeeper.lock);
}

static void test_housekeeper_idle_has_no_deadline(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_run_ms(r, 11 * 1000);
    assert_int_equal(
        postbag__housekeeper_deadline(&r->e.housekeeper), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_housekeeper_bounds_the_wal_under_load),
        BENCH(test_housekeeper_bounds_the_wal_on_a_sound_sqlite),
        BENCH(test_housekeeper_catches_up_after_a_long_reader),
        BENCH(test_housekeeper_grows_the_file_ahead_of_the_wal),
        BENCH(test_housekeeper_grows_a_file_that_was_cut_again),
        BENCH(test_housekeeper_looks_for_room_only_when_that_may_matter),
        BENCH(test_housekeeper_full_disk_makes_a_short_wal_usable_again),
        BENCH(test_housekeeper_shrinks_a_wal_that_met_a_full_disk),
        BENCH(test_housekeeper_keeps_the_shm_ahead_of_a_long_wal),
        BENCH(test_housekeeper_waits_for_a_long_writer),
        BENCH(test_housekeeper_pin_keeps_foreign_checkpoints_from_resetting),
        BENCH(test_housekeeper_purges_under_steady_load),
        BENCH(test_housekeeper_never_purges_what_is_unsettled),
        BENCH(test_housekeeper_purges_what_others_settle),
        BENCH(test_housekeeper_purges_what_the_last_process_left),
        BENCH(test_housekeeper_keeps_rows_for_their_time),
        BENCH(test_housekeeper_keeps_rows_though_clocks_jump),
        BENCH(test_housekeeper_keeps_the_last_rows),
        BENCH(test_housekeeper_second_one_waits_for_the_lock),
        BENCH(test_housekeeper_without_a_lock_file_tries_again),
        BENCH(test_housekeeper_idle_has_no_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
