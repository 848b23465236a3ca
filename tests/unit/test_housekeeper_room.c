/* SPDX-License-Identifier: MIT */
/* Plain SQL while there is no room on the disk, and afterwards. */
#include "housekeeper.h"

#include <sqlite3.h>

#include "relay.h"
#include "unit.h"

static int plain_put(struct bench *b)
{
    return sqlite3_exec(b->w.t.app,
        "INSERT INTO outbox(topic, payload) VALUES ('t', '')", NULL, NULL,
        NULL);
}

static void test_housekeeper_room_plain_sql_is_refused_while_there_is_no_room(
    void **state)
{
    struct bench *b = *state;

    b->r.options.min_free_bytes = 8000;
    (void)bench_up(b);
    (void)sql_text(b->w.t.app, "PRAGMA wal_autocheckpoint=0");
    b->w.sim.room.free_bytes = 8000;
    relay_idle_ms(&b->r, 200);
    assert_int_equal(plain_put(b), SQLITE_OK); /* nobody has looked yet */
    relay_step(&b->r);
    assert_int_equal(plain_put(b), SQLITE_CONSTRAINT);
    assert_has(sqlite3_errmsg(b->w.t.app), "min_free_bytes");
    b->w.sim.room.free_bytes = 9000; /* an eighth more */
    relay_idle_ms(&b->r, 2000);
    assert_int_equal(plain_put(b), SQLITE_CONSTRAINT);
    b->w.sim.room.free_bytes = 9001;
    relay_idle_ms(&b->r, 2000); /* nothing was put: it is seen all the same */
    assert_int_equal(plain_put(b), SQLITE_OK);
    assert_int_equal(b->r.errors, 0);
}

static void with_no_room(struct bench *b)
{
    b->r.options.min_free_bytes = 8000;
    (void)bench_up(b);
    b->w.sim.room.free_bytes = 0;
    relay_idle_ms(&b->r, 200);
    assert_int_equal(plain_put(b), SQLITE_OK);
    relay_step(&b->r);
    assert_int_equal(plain_put(b), SQLITE_CONSTRAINT);
}

/* Nobody is left who would see that there is room again. */
static void test_housekeeper_room_plain_sql_is_taken_when_it_has_ended(
    void **state)
{
    struct bench *b = *state;

    with_no_room(b);
    relay_close(&b->r);
    assert_int_equal(plain_put(b), SQLITE_OK);
}

/* A killed one, or one that found the database locked. */
static void test_housekeeper_room_lets_plain_sql_in_that_the_last_one_kept_out(
    void **state)
{
    struct bench *b = *state;

    with_no_room(b);
    sql_run(b->w.t.app, "BEGIN IMMEDIATE");
    relay_close(&b->r);
    sql_run(b->w.t.app, "COMMIT");
    assert_int_equal(plain_put(b), SQLITE_CONSTRAINT);
    b->w.sim.room.free_bytes = 1 << 20;
    relay_init(&b->r, &b->w);
    (void)bench_up(b);
    assert_int_equal(plain_put(b), SQLITE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(
            test_housekeeper_room_plain_sql_is_refused_while_there_is_no_room),
        BENCH(test_housekeeper_room_plain_sql_is_taken_when_it_has_ended),
        BENCH(
            test_housekeeper_room_lets_plain_sql_in_that_the_last_one_kept_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
