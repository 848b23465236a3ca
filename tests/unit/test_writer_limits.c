/* SPDX-License-Identifier: MIT */
/* A put at the limit, and the caller's transaction around it. */
#include "limit_store.h"
#include "postbag/pressure.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"
#include "writer.h"

struct desk {
    struct tempdb t;
    struct sim_port sim;
    struct postbag_writer *w;
};

static int set_up(void **state)
{
    static struct desk d;
    struct postbag_writer_config c = {.struct_size = sizeof(c)};

    tempdb_make_outbox(&d.t);
    sim_port_init(&d.sim);
    c.db = d.t.app;
    c.port = &d.sim.port;
    assert_ok(postbag_writer_open(&d.w, &c, NULL));
    sql_run(d.t.app, "CREATE TABLE app(v); INSERT INTO app VALUES (0)");
    *state = &d;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;

    postbag_writer_close(d->w);
    tempdb_remove(&d->t);
    return 0;
}

static int put(struct desk *d, const char *topic)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .topic = topic, .priority = 1};

    return postbag_put(d->w, &m, NULL);
}

static void set_limits(struct desk *d, uint32_t max_rows, uint32_t max_bytes)
{
    const struct limits l = {.max_rows = max_rows, .max_bytes = max_bytes};
    struct db db;

    assert_ok(postbag__db_open(&db, d->t.path, DB_WRITE, DB_FULL, 0));
    assert_ok(postbag__limits_set(&db, &l));
    postbag__db_close(&db);
}

/* What is left of the transaction is the caller's to commit. */
static void test_writer_limits_full_outbox_refuses_and_the_rest_commits(
    void **state)
{
    struct desk *d = *state;

    set_limits(d, 2, 0);
    assert_ok(postbag_begin(d->w));
    assert_ok(put(d, "1"));
    sql_run(d->t.app, "UPDATE app SET v = 7");
    assert_ok(put(d, "2"));
    assert_int_equal(put(d, "3"), POSTBAG_EFULL);
    assert_string_equal(postbag_writer_fault(d->w)->text,
        "outbox is full: max_rows (2) messages wait");
    assert_ok(postbag_commit(d->w));
    assert_string_equal(
        sql_text(d->t.app, "SELECT v, (SELECT max(seq) FROM outbox) FROM app"),
        "7|2");
    sql_run(d->t.app, "UPDATE outbox_cursor SET settled_rows = 1"
                      " WHERE dest = 'main' AND lane = 0");
    assert_ok(postbag_begin(d->w));
    assert_ok(put(d, "3"));
    assert_ok(postbag_commit(d->w));
}

static struct postbag_pressure pressure(struct desk *d)
{
    struct postbag_pressure p = {.struct_size = sizeof(p)};

    assert_ok(postbag_pressure(d->w, &p));
    assert_int_equal(p.struct_size, sizeof(p));
    return p;
}

static void test_writer_limits_pressure_tells_how_full_it_is(void **state)
{
    struct desk *d = *state;
    struct postbag_pressure p = pressure(d);

    assert_int_equal(p.rows, 0);
    assert_int_equal(p.bytes, 0);
    assert_int_equal(p.max_rows, 0);
    assert_int_equal(p.rows_fill, 0);
    assert_int_equal(p.bytes_fill, 0);
    set_limits(d, 8, 30);
    /* a table of the application that only looks like ours */
    sql_run(d->t.app, "CREATE TEMP TABLE outbox_cursor(dest, settled_rows)");
    assert_ok(postbag_begin(d->w));
    for (int i = 0; i < 5; i++)
        assert_ok(put(d, "1234"));
    p = pressure(d); /* with what is not committed yet */
    assert_int_equal(p.rows, 5);
    assert_int_equal(p.bytes, 20);
    assert_int_equal(p.max_rows, 8);
    assert_int_equal(p.max_bytes, 30);
    assert_int_equal(p.rows_fill, 714);
    assert_int_equal(p.bytes_fill, 740);
    assert_ok(postbag_commit(d->w));
    sql_run(d->t.app,
        "UPDATE main.outbox_cursor SET settled_rows = 4, settled_bytes = 16"
        " WHERE dest = 'main' AND lane = 1");
    p = pressure(d);
    assert_int_equal(p.rows_fill, 142);
    assert_int_equal(p.bytes_fill, 148);
}

static void test_writer_limits_pressure_fills_what_the_caller_has(void **state)
{
    struct desk *d = *state;
    struct postbag_pressure p = {
        .struct_size = offsetof(struct postbag_pressure, bytes), .bytes = 77};

    assert_ok(postbag_begin(d->w));
    assert_ok(put(d, "t"));
    assert_ok(postbag_commit(d->w));
    assert_ok(postbag_pressure(d->w, &p));
    assert_int_equal(p.rows, 1);
    assert_int_equal(p.bytes, 77);
    p.struct_size = 0;
    assert_int_equal(postbag_pressure(d->w, &p), POSTBAG_EVERSION);
    assert_int_equal(postbag_pressure(d->w, NULL), POSTBAG_EINVAL);
    assert_has(postbag_writer_fault(d->w)->text, "pressure");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_writer_limits_full_outbox_refuses_and_the_rest_commits),
        TEST_IN(test_writer_limits_pressure_tells_how_full_it_is),
        TEST_IN(test_writer_limits_pressure_fills_what_the_caller_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
