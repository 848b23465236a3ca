/* SPDX-License-Identifier: MIT */
/* A put at the limit, and the caller's transaction around it. */
#include "limit_store.h"
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
    const struct postbag_message m = {.struct_size = sizeof(m), .topic = topic};

    return postbag_put(d->w, &m, NULL);
}

/* What is left of the transaction is the caller's to commit. */
static void test_writer_limits_full_outbox_refuses_and_the_rest_commits(
    void **state)
{
    const struct limits two = {.max_rows = 2};
    struct desk *d = *state;
    struct db db;

    assert_ok(postbag__db_open(&db, d->t.path, DB_WRITE, DB_FULL, 0));
    assert_ok(postbag__limits_set(&db, &two));
    postbag__db_close(&db);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_writer_limits_full_outbox_refuses_and_the_rest_commits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
