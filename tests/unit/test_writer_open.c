/* SPDX-License-Identifier: MIT */
/*
 * Which connections a writer takes, and how it shares SQLite's write lock
 * with the engine of its process: the gate, the wake-up, the durable mark.
 */
#include <sqlite3.h>
#include <stdlib.h>

#include "fake_transport.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"
#include "writer.h"

struct desk {
    struct tempdb t;
    struct sim_port sim;
    struct postbag *engine;
    struct postbag_writer *w;
};

static struct postbag_writer *writer_on(struct desk *d, struct sqlite3 *db)
{
    const struct postbag_writer_config c = {
        .struct_size = sizeof(c),
        .db = db,
        .port = &d->sim.port,
        .engine = d->engine,
        .begin_timeout_ms = 30,
    };
    struct postbag_writer *w;
    struct postbag_fault why = {0};

    if (postbag_writer_open(&w, &c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
    return w;
}

static int set_up(void **state)
{
    struct desk *d = calloc(1, sizeof(*d));
    struct postbag_config c = {.struct_size = sizeof(c)};

    assert_non_null(d);
    tempdb_make_outbox(&d->t);
    sim_port_init(&d->sim);
    c.db_path = d->t.path;
    c.port = &d->sim.port;
    c.transport = &fake_transport_new()->base;
    c.run_dir = "none";
    assert_ok(postbag_open(&d->engine, &c, NULL));
    d->w = writer_on(d, d->t.app);
    *state = d;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;

    postbag_writer_close(d->w);
    postbag_close(d->engine);
    assert_int_equal(d->sim.open_gates, 0);
    tempdb_remove(&d->t);
    free(d);
    return 0;
}

static void put(struct postbag_writer *w)
{
    const struct postbag_message m = {.struct_size = sizeof(m), .topic = "t"};

    assert_ok(postbag_put(w, &m, NULL));
}

static int64_t rows(struct desk *d)
{
    return sql_get(d->t.app, "SELECT count(*) FROM outbox");
}

/* ---- opening ---- */

static int try_open(struct desk *d, struct sqlite3 *db, unsigned allow,
    struct postbag_fault *why)
{
    const struct postbag_writer_config c = {.struct_size = sizeof(c),
        .db = db,
        .port = &d->sim.port,
        .allow_no_busy_timeout = allow};
    struct postbag_writer *w;
    int err = postbag_writer_open(&w, &c, why);

    if (err != POSTBAG_OK)
        assert_null(w);
    postbag_writer_close(w);
    return err;
}

static void test_writer_open_wants_db_and_port(void **state)
{
    struct desk *d = *state;
    struct postbag_writer_config c = {.db = d->t.app, .port = &d->sim.port};
    struct postbag_writer *w;

    assert_int_equal(postbag_writer_open(&w, &c, NULL), POSTBAG_EVERSION);
    c.struct_size = sizeof(c);
    assert_int_equal(postbag_writer_open(NULL, &c, NULL), POSTBAG_EINVAL);
    assert_int_equal(postbag_writer_open(&w, NULL, NULL), POSTBAG_EINVAL);
    c.port = NULL;
    assert_int_equal(postbag_writer_open(&w, &c, NULL), POSTBAG_EINVAL);
    c.port = &d->sim.port;
    c.db = NULL;
    assert_int_equal(postbag_writer_open(&w, &c, NULL), POSTBAG_EINVAL);
}

static void test_writer_open_without_busy_timeout_is_refused(void **state)
{
    struct desk *d = *state;
    struct postbag_fault why;

    (void)sqlite3_busy_timeout(d->t.app, 0);
    assert_int_equal(try_open(d, d->t.app, 0, &why), POSTBAG_ESTATE);
    assert_has(why.text, "busy timeout");
    assert_ok(try_open(d, d->t.app, 1, &why));
}

/* A database that can hold no outbox of ours; sql makes it. */
static void expect_unfit(struct desk *d, const char *sql, int err)
{
    struct tempdb other;
    struct postbag_fault why;

    tempdb_make(&other);
    assert_int_equal(sqlite3_open(other.path, &other.app), SQLITE_OK);
    (void)sqlite3_busy_timeout(other.app, 100);
    sql_run(other.app, "%s", sql);
    if (try_open(d, other.app, 0, &why) != err)
        fail_msg("%s: %s", sql, why.text);
    assert_int_equal(why.code, err);
    tempdb_remove(&other);
}

static void test_writer_open_on_an_unfit_database_is_refused(void **state)
{
    struct desk *d = *state;

    expect_unfit(d, "CREATE TABLE app(v)", POSTBAG_ESTORAGE);
    expect_unfit(d, "PRAGMA encoding='UTF-16le'; PRAGMA journal_mode=WAL",
        POSTBAG_ESTORAGE);
    expect_unfit(d, "PRAGMA journal_mode=WAL", POSTBAG_ESCHEMA);
}

/* Two files would not commit as one. */
static void test_writer_open_on_an_attached_outbox_is_refused(void **state)
{
    struct desk *d = *state;
    struct tempdb other;
    struct postbag_fault why;

    tempdb_make(&other);
    other.app = tempdb_connect(&other);
    sql_run(other.app, "ATTACH '%s' AS far", d->t.path);
    assert_int_equal(sql_get(other.app, "SELECT count(*) FROM outbox"), 0);
    assert_int_equal(try_open(d, other.app, 0, &why), POSTBAG_ESCHEMA);
    assert_has(why.text, "attached");
    tempdb_remove(&other);
}

static void test_writer_open_without_boot_id_fails(void **state)
{
    struct desk *d = *state;
    struct postbag_fault why;

    d->sim.fails[SIM_BOOT_ID] = POSTBAG_EIO;
    assert_int_equal(try_open(d, d->t.app, 0, &why), POSTBAG_EIO);
}

/* ---- the gate ---- */

static void test_writer_holds_the_gate_from_begin_to_commit(void **state)
{
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    assert_int_equal(d->sim.open_gates, 1);
    put(d->w);
    assert_ok(postbag_commit(d->w));
    assert_int_equal(d->sim.open_gates, 0);
    assert_ok(postbag_begin(d->w));
    postbag_rollback(d->w);
    assert_int_equal(d->sim.open_gates, 0);
}

static void test_writer_without_a_turn_begins_nothing(void **state)
{
    struct desk *d = *state;
    struct sqlite3 *db = tempdb_connect(&d->t);
    struct postbag_writer *other = writer_on(d, db);

    assert_ok(postbag_begin(other));
    assert_int_equal(postbag_begin(d->w), POSTBAG_EBUSY);
    assert_has(postbag_writer_fault(d->w)->text, "gate");
    assert_true(sqlite3_get_autocommit(d->t.app));
    assert_ok(postbag_commit(other));
    assert_ok(postbag_begin(d->w));
    postbag_rollback(d->w);
    postbag_writer_close(other);
    (void)sqlite3_close(db);
}

static void test_writer_that_cannot_lock_leaves_the_gate(void **state)
{
    struct desk *d = *state;
    struct sqlite3 *foreign = tempdb_connect(&d->t);

    (void)sqlite3_busy_timeout(d->t.app, 1);
    sql_run(foreign, "BEGIN IMMEDIATE");
    assert_int_equal(postbag_begin(d->w), POSTBAG_EBUSY);
    assert_int_equal(d->sim.open_gates, 0);
    sql_run(foreign, "ROLLBACK");
    assert_ok(postbag_begin(d->w));
    put(d->w);
    assert_ok(postbag_commit(d->w));
    (void)sqlite3_close(foreign);
}

static void test_writer_leaves_the_gate_of_a_transaction_ended_by_sql(
    void **state)
{
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    sql_run(d->t.app, "ROLLBACK");
    assert_int_equal(postbag_commit(d->w), POSTBAG_ENOTXN);
    assert_int_equal(d->sim.open_gates, 0);
    assert_ok(postbag_begin(d->w));
    sql_run(d->t.app, "COMMIT");
    assert_ok(postbag_begin(d->w));
    assert_int_equal(d->sim.open_gates, 1);
    postbag_writer_close(d->w);
    assert_int_equal(d->sim.open_gates, 0);
    sql_run(d->t.app, "ROLLBACK");
    d->w = writer_on(d, d->t.app);
}

/* ---- telling the relay ---- */

static void test_writer_commit_wakes_the_relay_if_something_was_put(
    void **state)
{
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    assert_ok(postbag_commit(d->w));
    assert_ok(postbag_begin(d->w));
    put(d->w);
    postbag_rollback(d->w);
    assert_int_equal(d->sim.calls[SIM_WAKE], 0);
    assert_ok(postbag_begin(d->w));
    put(d->w);
    assert_int_equal(d->sim.calls[SIM_WAKE], 0);
    assert_ok(postbag_commit(d->w));
    assert_int_equal(d->sim.calls[SIM_WAKE], 1);
    assert_int_equal(rows(d), 1);
}

static void test_writer_commit_is_durable_only_with_synchronous_full(
    void **state)
{
    struct desk *d = *state;
    struct shared *shared = postbag__engine_shared(d->engine);

    assert_ok(postbag_begin(d->w));
    put(d->w);
    assert_ok(postbag_commit(d->w));
    assert_int_equal(postbag__is_durable(shared, 1), 0);
    sql_run(d->t.app, "PRAGMA synchronous=FULL");
    assert_ok(postbag_begin(d->w));
    put(d->w);
    assert_int_equal(postbag__is_durable(shared, 1), 0);
    assert_ok(postbag_commit(d->w));
    assert_int_equal(postbag__is_durable(shared, 2), 1);
    assert_int_equal(postbag__is_durable(shared, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_writer_open_wants_db_and_port),
        TEST_IN(test_writer_open_without_busy_timeout_is_refused),
        TEST_IN(test_writer_open_on_an_unfit_database_is_refused),
        TEST_IN(test_writer_open_on_an_attached_outbox_is_refused),
        TEST_IN(test_writer_open_without_boot_id_fails),
        TEST_IN(test_writer_holds_the_gate_from_begin_to_commit),
        TEST_IN(test_writer_without_a_turn_begins_nothing),
        TEST_IN(test_writer_that_cannot_lock_leaves_the_gate),
        TEST_IN(test_writer_leaves_the_gate_of_a_transaction_ended_by_sql),
        TEST_IN(test_writer_commit_wakes_the_relay_if_something_was_put),
        TEST_IN(test_writer_commit_is_durable_only_with_synchronous_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
