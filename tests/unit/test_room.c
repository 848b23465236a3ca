/* SPDX-License-Identifier: MIT */
/* What must stay free on the file system, and how seldom that is looked at. */
#include "room.h"

#include <sqlite3.h>

#include "store_world.h"
#include "writer.h"

static struct room room;

static int set_up(void **state)
{
    struct world *w = world_open(state);

    memset(&room, 0, sizeof(room));
    assert_ok(postbag__room_open(&room, &w->db, &w->sim.port));
    return 0;
}

static int tear_down(void **state)
{
    postbag__room_close(&room);
    return world_close(state);
}

static int check(struct world *d)
{
    return postbag__room_check(&room, d->sim.mono_us);
}

static void test_room_limit_is_stored_once(void **state)
{
    struct world *d = *state;
    uint32_t before = d->db.commits;

    assert_ok(postbag__room_set(&d->db, 262144)); /* the option's default */
    assert_int_equal(d->db.commits, before);
    assert_ok(postbag__room_set(&d->db, 4000000000u));
    assert_ok(postbag__room_set(&d->db, 4000000000u));
    assert_int_equal(d->db.commits, before + 1);
    assert_int_equal(sql_get(d->t.app, "SELECT value FROM outbox_meta"
                                       " WHERE key = 'min_free_bytes'"),
        4000000000);
    sql_run(d->t.app, "DELETE FROM outbox_meta WHERE key = 'min_free_bytes'");
    assert_ok(check(d));
    assert_ok(postbag__room_set(&d->db, 5));
    assert_int_equal(d->db.commits, before + 2);
}

static void test_room_limit_that_cannot_be_stored_is_an_error(void **state)
{
    struct world *d = *state;

    sql_run(d->t.app, "BEGIN IMMEDIATE");
    assert_int_equal(postbag__room_set(&d->db, 5), POSTBAG_EBUSY);
    sql_run(d->t.app, "COMMIT");
    assert_ok(postbag__room_set(&d->db, 5));
}

static void test_room_no_more_than_the_limit_is_full(void **state)
{
    struct world *d = *state;

    assert_ok(postbag__room_set(&d->db, 1000));
    d->sim.room.free_bytes = 1001;
    assert_ok(check(d));
    d->sim.room.free_bytes = 1000;
    sim_pass_ms(&d->sim, 100);
    assert_int_equal(check(d), POSTBAG_EFULL);
    assert_string_equal(d->db.fault.text,
        "outbox is full: 1000 bytes are free on the file system and in the"
        " database, min_free_bytes is 1000");
    d->sim.room.free_bytes = 1001;
    sim_pass_ms(&d->sim, 100);
    assert_ok(check(d));
}

static void test_room_is_looked_at_a_hundred_times_a_second(void **state)
{
    struct world *d = *state;

    assert_ok(postbag__room_set(&d->db, 1000));
    for (int i = 0; i < 1000; i++) {
        assert_ok(check(d));
        sim_pass_ms(&d->sim, 1);
    }
    assert_int_equal(d->sim.calls[SIM_ROOM], 100);
    /* without a limit nothing is asked at all */
    assert_ok(postbag__room_set(&d->db, 0));
    sim_pass_ms(&d->sim, 100);
    assert_ok(check(d));
    assert_int_equal(d->sim.calls[SIM_ROOM], 100);
}

static void test_room_in_free_pages_of_the_database_counts(void **state)
{
    struct world *d = *state;
    struct postbag_pressure p;

    assert_ok(postbag__room_set(&d->db, 1000));
    d->sim.room.free_bytes = 0;
    sql_run(d->t.app, "CREATE TABLE big(a); INSERT INTO big"
                      " VALUES (zeroblob(5 * 4096)); DROP TABLE big");
    assert_ok(check(d));
    assert_ok(postbag__room_fill(&room, &p));
    assert_int_equal(
        p.free_bytes, 4096 * sql_get(d->t.app, "PRAGMA freelist_count"));
    assert_true(p.free_bytes >= 5 * 4096);
}

static void test_room_that_nobody_knows_refuses_nothing(void **state)
{
    struct world *d = *state;
    struct postbag_pressure p;

    assert_ok(postbag__room_set(&d->db, 4000000000u));
    d->sim.fails[SIM_ROOM] = POSTBAG_EIO;
    assert_ok(check(d));
    d->sim.fails[SIM_ROOM] = POSTBAG_OK;
    d->sim.port.struct_size = offsetof(struct postbag_port, room);
    sim_pass_ms(&d->sim, 100);
    assert_ok(check(d));
    assert_ok(postbag__room_fill(&room, &p));
    assert_int_equal(p.free_bytes, -1);
    assert_int_equal(p.size_bytes, 0);
    assert_int_equal(p.min_free_bytes, 4000000000);
    assert_int_equal(p.free_fill, 0);
}

static void test_room_fill_is_1000_when_puts_are_refused(void **state)
{
    static const struct {
        int64_t free_bytes, fill;
    } all[] = {{1 << 30, 0}, {4000, 250}, {2000, 500}, {1001, 999},
        {1000, 1000}, {1, 1000}, {0, 1000}};
    struct world *d = *state;
    struct postbag_pressure p;

    assert_ok(postbag__room_fill(&room, &p));
    assert_int_equal(p.free_fill, 0);
    assert_ok(postbag__room_set(&d->db, 1000));
    for (size_t i = 0; i < COUNT(all); i++) {
        d->sim.room.free_bytes = all[i].free_bytes;
        assert_ok(postbag__room_fill(&room, &p));
        assert_int_equal(p.free_bytes, all[i].free_bytes);
        assert_int_equal(p.size_bytes, INT64_C(1) << 31);
        assert_int_equal(p.free_fill, all[i].fill);
        sim_pass_ms(&d->sim, 100);
        assert_int_equal(check(d) == POSTBAG_EFULL, p.free_fill == 1000);
    }
}

static void test_room_put_is_refused_and_the_rest_commits(void **state)
{
    struct world *d = *state;
    struct postbag_writer_config c = {
        .struct_size = sizeof(c), .db = d->t.app, .port = &d->sim.port};
    const struct postbag_message m = {.struct_size = sizeof(m), .topic = "t"};
    struct postbag_writer *w;

    sql_run(d->t.app, "CREATE TABLE app(v)");
    assert_ok(postbag__room_set(&d->db, 1000));
    assert_ok(postbag_writer_open(&w, &c, NULL));
    d->sim.room.free_bytes = 10;
    assert_ok(postbag_begin(w));
    sql_run(d->t.app, "INSERT INTO app VALUES (7)");
    assert_int_equal(postbag_put(w, &m, NULL), POSTBAG_EFULL);
    assert_has(postbag_writer_fault(w)->text, "min_free_bytes");
    /* a trigger cannot ask the file system; the housekeeper has not yet */
    sql_run(d->t.app, "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
    assert_ok(postbag_commit(w));
    assert_int_equal(sql_get(d->t.app, "SELECT v FROM app"), 7);
    sim_pass_ms(&d->sim, 100);
    d->sim.room.free_bytes = 2000;
    assert_ok(postbag_begin(w));
    assert_ok(postbag_put(w, &m, NULL));
    assert_ok(postbag_commit(w));
    postbag_writer_close(w);
}

static int is_guarded(struct world *d)
{
    return (int)sql_get(d->t.app,
        "SELECT count(*) FROM sqlite_schema WHERE name ="
        " '" POSTBAG__ROOM_GUARD "'");
}

static void turn_if_due(struct world *d, int is_due)
{
    sim_pass_ms(&d->sim, 100);
    assert_int_equal(postbag__room_guard_is_due(&room, d->sim.mono_us), is_due);
    if (is_due)
        assert_ok(postbag__room_turn_guard(&room));
}

static void test_room_guard_stands_while_there_is_none(void **state)
{
    struct world *d = *state;

    assert_ok(postbag__room_set(&d->db, 800));
    turn_if_due(d, 1); /* whether one stands is not known */
    assert_int_equal(is_guarded(d), 0);
    turn_if_due(d, 0);
    d->sim.room.free_bytes = 800;
    turn_if_due(d, 1);
    assert_int_equal(is_guarded(d), 1);
    d->sim.room.free_bytes = 900;
    turn_if_due(d, 0);
    d->sim.room.free_bytes = 901;
    turn_if_due(d, 1);
    assert_int_equal(is_guarded(d), 0);
}

/* Of a process that died. */
static void test_room_guard_that_was_left_goes(void **state)
{
    struct world *d = *state;

    d->sim.room.free_bytes = 0;
    turn_if_due(d, 1);
    assert_int_equal(is_guarded(d), 1);
    postbag__room_close(&room);
    memset(&room, 0, sizeof(room));
    d->sim.room.free_bytes = 1 << 20;
    assert_ok(postbag__room_open(&room, &d->db, &d->sim.port));
    turn_if_due(d, 1);
    assert_int_equal(is_guarded(d), 0);
}

/* As when the relay was killed, and room came back. */
static void test_room_guard_that_was_left_refuses_no_put(void **state)
{
    struct world *d = *state;
    struct postbag_writer_config c = {
        .struct_size = sizeof(c), .db = d->t.app, .port = &d->sim.port};
    const struct postbag_message m = {.struct_size = sizeof(m), .topic = "t"};
    struct postbag_writer *w;

    d->sim.room.free_bytes = 0;
    turn_if_due(d, 1);
    assert_ok(postbag_writer_open(&w, &c, NULL));
    assert_ok(postbag_begin(w));
    assert_int_equal(postbag_put(w, &m, NULL), POSTBAG_EFULL);
    sim_pass_ms(&d->sim, 100);
    d->sim.room.free_bytes = 1 << 20;
    assert_ok(postbag_put(w, &m, NULL));
    assert_ok(postbag_commit(w));
    assert_int_equal(is_guarded(d), 1);
    postbag_writer_close(w);
}

static void test_room_guard_that_cannot_be_turned_stays_due(void **state)
{
    struct world *d = *state;

    turn_if_due(d, 1);
    d->sim.room.free_bytes = 0;
    sim_pass_ms(&d->sim, 100);
    sql_run(d->t.app, "BEGIN IMMEDIATE");
    assert_int_equal(postbag__room_guard_is_due(&room, d->sim.mono_us), 1);
    assert_int_equal(postbag__room_turn_guard(&room), POSTBAG_EBUSY);
    sql_run(d->t.app, "COMMIT");
    turn_if_due(d, 1);
    assert_int_equal(is_guarded(d), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_room_limit_is_stored_once),
        TEST_IN(test_room_limit_that_cannot_be_stored_is_an_error),
        TEST_IN(test_room_no_more_than_the_limit_is_full),
        TEST_IN(test_room_is_looked_at_a_hundred_times_a_second),
        TEST_IN(test_room_in_free_pages_of_the_database_counts),
        TEST_IN(test_room_that_nobody_knows_refuses_nothing),
        TEST_IN(test_room_fill_is_1000_when_puts_are_refused),
        TEST_IN(test_room_put_is_refused_and_the_rest_commits),
        TEST_IN(test_room_guard_stands_while_there_is_none),
        TEST_IN(test_room_guard_that_was_left_goes),
        TEST_IN(test_room_guard_that_was_left_refuses_no_put),
        TEST_IN(test_room_guard_that_cannot_be_turned_stays_due),
    };

    return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
