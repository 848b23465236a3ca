/* SPDX-License-Identifier: MIT */
/* What looks after a database as a whole, by the public functions. */
#include "admin.h"

#include <sqlite3.h>

#include "postbag/care.h"
#include "postbag/linux.h"
#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t;
    struct postbag_admin *a;
    char told[1024];
    int end_at; /* the call that returns 7 */
};

static struct postbag_admin *open_admin(const char *path, unsigned writable)
{
    const struct postbag_admin_config config = {
        .struct_size = sizeof(config),
        .db_path = path,
        .port = postbag_linux_port(),
        .writable = writable,
        .busy_ms = 50,
    };
    struct postbag_fault why = {0};
    struct postbag_admin *a;

    if (postbag_admin_open(&a, &config, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
    return a;
}

static int set_up(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    w.a = open_admin(w.t.path, 0);
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    postbag_admin_close(w->a);
    tempdb_remove(&w->t);
    return 0;
}

/* ---- verify ---- */

static int tell(struct world *w, const char *what)
{
    size_t used = strlen(w->told);

    (void)snprintf(w->told + used, sizeof(w->told) - used, "%s|", what);
    return --w->end_at == 0 ? 7 : 0;
}

static int on_finding(
    void *ctx, const char *check, const char *dest, const char *text)
{
    (void)dest;
    (void)text;
    return tell(ctx, check);
}

static int on_ledger(
    void *ctx, const char *dest, const struct postbag_status *status)
{
    char text[80];

    (void)snprintf(text, sizeof(text), "%s %d put %d dropped", dest,
        (int)status->put, (int)status->dropped);
    return tell(ctx, text);
}

static int on_dropped(void *ctx, const char *dest, const char *reason,
    int64_t messages, int64_t bytes)
{
    char text[80];

    (void)snprintf(text, sizeof(text), "%s %s %d %d", dest, reason,
        (int)messages, (int)bytes);
    return tell(ctx, text);
}

static int verify(struct world *w)
{
    const struct postbag_verify v = {.struct_size = sizeof(v),
        .ctx = w,
        .finding = on_finding,
        .ledger = on_ledger,
        .dropped = on_dropped};

    w->told[0] = '\0';
    return postbag_admin_verify(w->a, &v);
}

/* Three rows, two of them dropped in two ways. */
static void drop_two(struct world *w)
{
    sql_run(w->t.app,
        "INSERT INTO outbox(topic, payload) VALUES ('t', 'x'), ('t', 'y'),"
        "  ('t', 'z');"
        "UPDATE outbox_cursor SET acked = 2, sent_hi = 2, settled_rows = 2,"
        " settled_bytes = 4, dropped = 2 WHERE lane = 0;"
        "INSERT INTO outbox_lost VALUES ('main', 1, 1, 1, 2, 'ttl', 1, 1),"
        " ('main', 2, 2, 1, 2, 'discarded', 1, 1)");
}

static void test_admin_care_verify_tells_all_of_one_moment(void **state)
{
    struct world *w = *state;

    drop_two(w);
    assert_ok(verify(w));
    assert_string_equal(
        w->told, "main 3 put 2 dropped|main discarded 1 2|main ttl 1 2|");
    sql_run(w->t.app, "DELETE FROM outbox_lost WHERE lo = 2");
    assert_ok(verify(w));
    assert_string_equal(w->told, "ledger|main 3 put 2 dropped|main ttl 1 2|");
}

static void test_admin_care_verify_ends_when_a_callback_says_so(void **state)
{
    struct world *w = *state;

    drop_two(w);
    sql_run(w->t.app, "DELETE FROM outbox_lost WHERE lo = 2;"
                      "INSERT INTO outbox_lost"
                      " VALUES ('main', 2, 1, 1, 2, 'discarded', 1, 1)");
    for (int i = 1; i <= 4; i++) {
        const char *at = w->told;

        w->end_at = i;
        assert_int_equal(verify(w), 7);
        for (int k = 0; k < i; k++)
            at = strchr(at, '|') + 1;
        assert_string_equal(at, "");
    }
}

/* The snapshot is given back, so that writers and the WAL are free again. */
static void test_admin_care_verify_holds_nothing_afterwards(void **state)
{
    struct world *w = *state;

    assert_ok(verify(w));
    assert_false(postbag__in_transaction(&w->a->db));
    drop_two(w);
    assert_ok(verify(w));
    assert_has(w->told, "main 3 put");
}

static void test_admin_care_verify_without_callbacks(void **state)
{
    struct world *w = *state;
    const struct postbag_verify v = {.struct_size = sizeof(v)};
    const struct postbag_verify other = {.struct_size = 0};

    sql_run(w->t.app, "DROP TRIGGER outbox_newest");
    assert_ok(postbag_admin_verify(w->a, &v));
    assert_int_equal(postbag_admin_verify(w->a, &other), POSTBAG_EVERSION);
    assert_has(postbag_admin_fault(w->a)->text, "struct_size");
}

static void test_admin_care_verify_goes_on_where_it_cannot_read(void **state)
{
    struct world *w = *state;

    drop_two(w);
    sql_run(w->t.app, "DROP TABLE outbox_held");
    assert_ok(verify(w));
    assert_has(w->told, "schema|"); /* the table is missing */
    assert_has(w->told, "|ledger|");
}

static void test_admin_care_verify_without_totals_finds_that(void **state)
{
    struct world *w = *state;

    drop_two(w);
    sql_run(w->t.app, "DELETE FROM outbox_sum");
    assert_ok(verify(w));
    assert_string_equal(w->told, "ledger|total|ledger|");
}

static void test_admin_care_verify_without_destinations_finds_that(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "DROP TABLE outbox_dest");
    assert_ok(verify(w));
    assert_has(w->told, "schema|");
    assert_has(w->told, "|ledger|");
    sql_run(w->t.app, "DROP TABLE outbox_meta");
    assert_ok(verify(w));
    assert_string_equal(w->told, "file|");
}

/* ---- replay ---- */

static void test_admin_care_replay_queues_what_was_delivered(void **state)
{
    struct world *w = *state;
    struct postbag_admin *a = open_admin(w->t.path, 1);
    const struct postbag_replay which = {
        .struct_size = sizeof(which), .max_rows = 2};
    int64_t count = 0;
    int64_t next = 0;

    sql_run(w->t.app, "INSERT INTO outbox(topic, payload)"
                      " VALUES ('t', 'x'), ('t', 'y'), ('t', 'z'), ('t', '');"
                      "UPDATE outbox_cursor SET acked = 3, sent_hi = 3,"
                      " settled_rows = 3, settled_bytes = 6, delivered = 3"
                      " WHERE lane = 0");
    assert_ok(postbag_admin_replay(a, &which, &count, &next));
    assert_int_equal(count, 2);
    assert_int_equal(next, 3);
    assert_string_equal(
        sql_text(w->t.app, "SELECT seq, state, replay FROM outbox_held"),
        "1|retry|1 2|retry|1");
    assert_ok(verify(w));
    assert_string_equal(w->told, "main 4 put 0 dropped|");
    assert_ok(postbag_admin_replay(a, &which, NULL, NULL));
    assert_ok(postbag_admin_replay(a, &which, &count, &next));
    assert_int_equal(count, 0);
    postbag_admin_close(a);
}

static void test_admin_care_replay_refusals_change_nothing(void **state)
{
    struct world *w = *state;
    struct postbag_admin *a = open_admin(w->t.path, 1);
    struct postbag_replay which = {.struct_size = sizeof(which)};
    int64_t count = 7;

    assert_int_equal(
        postbag_admin_replay(w->a, &which, &count, NULL), POSTBAG_ESTATE);
    which.max_rows = 10001;
    assert_int_equal(
        postbag_admin_replay(a, &which, &count, NULL), POSTBAG_EINVAL);
    which.max_rows = 10000;
    which.dest = "moon";
    assert_int_equal(
        postbag_admin_replay(a, &which, &count, NULL), POSTBAG_ENOTFOUND);
    which.struct_size = 0;
    assert_int_equal(
        postbag_admin_replay(a, &which, &count, NULL), POSTBAG_EVERSION);
    assert_int_equal(count, 7);
    assert_false(postbag__in_transaction(&a->db));
    postbag_admin_close(a);
}

/* ---- archive ---- */

static int on_row(void *ctx, const struct postbag_row *row)
{
    char text[40];

    (void)snprintf(text, sizeof(text), "%d", (int)row->seq);
    return tell(ctx, text);
}

static int on_sync(void *ctx)
{
    return tell(ctx, "sync");
}

static int64_t archived(struct world *w)
{
    return sql_get(w->t.app, "SELECT archived FROM outbox_dest");
}

static void test_admin_care_archive_notes_what_is_safe(void **state)
{
    struct world *w = *state;
    struct postbag_admin *a = open_admin(w->t.path, 1);
    struct postbag_archive x = {
        .struct_size = sizeof(x), .ctx = w, .row = on_row, .sync = on_sync};
    int64_t count = -1;
    int64_t gone = -1;

    sql_run(w->t.app, "INSERT INTO outbox(topic, payload)"
                      " VALUES ('t', 'x'), ('t', 'y'), ('t', 'z');"
                      "UPDATE outbox_cursor SET acked = 2, sent_hi = 2,"
                      " settled_rows = 2, settled_bytes = 4, delivered = 2"
                      " WHERE lane = 0");
    /* a row cannot be written; it is not safe: nothing is noted */
    for (int i = 2; i <= 3; i++) {
        w->told[0] = '\0';
        w->end_at = i;
        assert_int_equal(postbag_admin_archive(a, &x, &count, &gone), 7);
        assert_string_equal(w->told, i == 2 ? "1|2|" : "1|2|sync|");
        assert_int_equal(count, 0);
        assert_int_equal(archived(w), 0);
    }
    w->told[0] = '\0';
    assert_ok(postbag_admin_archive(a, &x, &count, &gone));
    assert_string_equal(w->told, "1|2|sync|");
    assert_int_equal(count, 2);
    assert_int_equal(gone, 0);
    assert_int_equal(archived(w), 2);
    assert_int_equal(
        postbag_admin_archive(w->a, &x, NULL, NULL), POSTBAG_ESTATE);
    x.sync = NULL;
    assert_int_equal(postbag_admin_archive(a, &x, NULL, NULL), POSTBAG_EINVAL);
    x.struct_size = 0;
    assert_int_equal(
        postbag_admin_archive(a, &x, NULL, NULL), POSTBAG_EVERSION);
    postbag_admin_close(a);
}

static void test_admin_care_archive_of_many_goes_on_to_the_end(void **state)
{
    struct world *w = *state;
    struct postbag_admin *a = open_admin(w->t.path, 1);
    const struct postbag_archive x = {
        .struct_size = sizeof(x), .ctx = w, .row = on_row, .sync = on_sync};
    int64_t count = 0;

    sql_run(w->t.app,
        "INSERT INTO outbox(topic, payload) WITH RECURSIVE n(i) AS"
        " (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 600)"
        " SELECT 't', 'x' FROM n;"
        "UPDATE outbox_cursor SET acked = 512, sent_hi = 512,"
        " settled_rows = 512, settled_bytes = 1024, delivered = 512"
        " WHERE lane = 0");
    assert_ok(postbag_admin_archive(a, &x, &count, NULL));
    assert_int_equal(count, 512);
    assert_int_equal(archived(w), 512);
    postbag_admin_close(a);
}

/* ---- vacuum ---- */

static int vacuum(
    struct world *w, int64_t *before, int64_t *after, const char *has)
{
    const struct postbag_admin_config config = {
        .struct_size = sizeof(config),
        .db_path = w->t.path,
        .port = postbag_linux_port(),
        .busy_ms = 50,
    };
    struct postbag_fault why = {0};
    int err = postbag_admin_vacuum(&config, before, after, &why);

    assert_has(why.text, has);
    return err;
}

static void fill_and_empty(struct world *w)
{
    sql_run(w->t.app,
        "CREATE TABLE mine(x); INSERT INTO mine VALUES (zeroblob(2000000));"
        "INSERT INTO outbox(topic, payload) VALUES ('t', 'x');"
        "DELETE FROM mine; INSERT INTO mine VALUES (42)");
}

static void test_admin_care_vacuum_gives_space_back(void **state)
{
    struct world *w = *state;
    int64_t before = 0;
    int64_t after = 0;

    fill_and_empty(w);
    postbag_admin_close(w->a);
    w->a = NULL;
    assert_int_equal(sqlite3_close(w->t.app), SQLITE_OK);
    assert_ok(vacuum(w, &before, &after, ""));
    assert_true(before > 2000000);
    assert_true(after < 200000);
    w->t.app = tempdb_connect(&w->t);
    assert_int_equal(sql_get(w->t.app, "PRAGMA page_count") * 4096, after);
    assert_int_equal(sql_get(w->t.app, "SELECT x FROM mine"), 42);
    assert_int_equal(sql_get(w->t.app, "SELECT max(seq) FROM outbox"), 1);
    assert_string_equal(sql_text(w->t.app, "PRAGMA journal_mode"), "wal");
}

static void test_admin_care_vacuum_refuses_while_somebody_has_it_open(
    void **state)
{
    struct world *w = *state;
    int64_t before;

    fill_and_empty(w);
    /* the application and the admin; then the admin alone, which has read */
    assert_int_equal(
        vacuum(w, NULL, NULL, "somebody has the database open"), POSTBAG_EBUSY);
    assert_int_equal(sqlite3_close(w->t.app), SQLITE_OK);
    w->t.app = NULL;
    assert_int_equal(vacuum(w, &before, NULL, "somebody has the database open"),
        POSTBAG_EBUSY);
    assert_ok(verify(w));
}

/* As long as it is open alone nobody gets in. */
static void test_admin_care_alone_keeps_others_out(void **state)
{
    struct world *w = *state;
    struct db alone;
    struct db other;

    postbag_admin_close(w->a);
    w->a = NULL;
    assert_int_equal(sqlite3_close(w->t.app), SQLITE_OK);
    w->t.app = NULL;
    assert_ok(postbag__db_open(&alone, w->t.path, DB_ALONE, DB_FULL, 50));
    assert_int_equal(postbag__db_open(&other, w->t.path, DB_WRITE, DB_FULL, 50),
        POSTBAG_EBUSY);
    postbag__db_close(&other);
    postbag__db_close(&alone);
    assert_ok(postbag__db_open(&other, w->t.path, DB_WRITE, DB_FULL, 50));
    postbag__db_close(&other);
}

static void test_admin_care_vacuum_of_another_file_is_refused(void **state)
{
    struct world *w = *state;
    struct tempdb strange;
    struct world other;

    (void)w;
    memset(&other, 0, sizeof(other));
    tempdb_make(&strange);
    other.t = strange;
    assert_int_equal(vacuum(&other, NULL, NULL, ""), POSTBAG_EIO);
    strange.app = tempdb_connect(&strange);
    sql_run(strange.app, "CREATE TABLE mine(x)");
    assert_int_equal(sqlite3_close(strange.app), SQLITE_OK);
    strange.app = NULL;
    assert_int_equal(vacuum(&other, NULL, NULL, "no outbox"), POSTBAG_ESCHEMA);
    tempdb_remove(&strange);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_admin_care_verify_tells_all_of_one_moment),
        TEST_IN(test_admin_care_verify_ends_when_a_callback_says_so),
        TEST_IN(test_admin_care_verify_holds_nothing_afterwards),
        TEST_IN(test_admin_care_verify_without_callbacks),
        TEST_IN(test_admin_care_verify_goes_on_where_it_cannot_read),
        TEST_IN(test_admin_care_verify_without_totals_finds_that),
        TEST_IN(test_admin_care_verify_without_destinations_finds_that),
        TEST_IN(test_admin_care_replay_queues_what_was_delivered),
        TEST_IN(test_admin_care_replay_refusals_change_nothing),
        TEST_IN(test_admin_care_archive_notes_what_is_safe),
        TEST_IN(test_admin_care_archive_of_many_goes_on_to_the_end),
        TEST_IN(test_admin_care_vacuum_gives_space_back),
        TEST_IN(test_admin_care_vacuum_refuses_while_somebody_has_it_open),
        TEST_IN(test_admin_care_alone_keeps_others_out),
        TEST_IN(test_admin_care_vacuum_of_another_file_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
