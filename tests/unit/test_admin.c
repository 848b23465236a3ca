/* SPDX-License-Identifier: MIT */
#include "postbag/admin.h"

#include <string.h>

#include "postbag/linux.h"
#include "temp_db.h"

struct world {
    struct temp_db t;
    struct postbag_admin *a;
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

static void set_up(struct world *w, unsigned writable)
{
    temp_db_open(&w->t);
    w->a = open_admin(w->t.path, writable);
}

static void tear_down(struct world *w)
{
    postbag_admin_close(w->a);
    temp_db_close(&w->t);
}

/* ---- open -------------------------------------------------------------- */

static void test_admin_open_without_a_file_fails_and_makes_none(void **state)
{
    (void)state;
    const struct postbag_admin_config config = {
        .struct_size = sizeof(config),
        .db_path = "/tmp/postbag-no-such-file.db",
        .port = postbag_linux_port(),
        .writable = 1,
    };
    struct postbag_fault why = {0};
    struct postbag_admin *a;

    assert_int_equal(postbag_admin_open(&a, &config, &why), POSTBAG_EIO);
    assert_null(a);
    assert_string_not_equal(why.text, "");
    assert_int_equal(access(config.db_path, F_OK), -1);
}

static void test_admin_open_without_tables_is_a_schema_error(void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_admin *a;
    struct postbag_fault why = {0};
    struct postbag_admin_config config = {
        .struct_size = sizeof(config), .port = postbag_linux_port()};

    temp_db_open(&t);
    temp_db_run(&t, "DROP TABLE outbox_meta; DROP TABLE outbox_cursor");
    config.db_path = t.path;
    assert_int_equal(postbag_admin_open(&a, &config, &why), POSTBAG_ESCHEMA);
    assert_null(a);
    temp_db_close(&t);
}

static void test_admin_open_config_without_size_is_refused(void **state)
{
    (void)state;
    const struct postbag_admin_config config = {
        .db_path = "x", .port = postbag_linux_port()};
    struct postbag_admin *a;

    assert_int_equal(postbag_admin_open(&a, &config, NULL), POSTBAG_EVERSION);
    assert_int_equal(postbag_admin_open(&a, NULL, NULL), POSTBAG_EINVAL);
}

static void test_admin_init_makes_an_outbox_and_sets_the_limit(void **state)
{
    (void)state;
    struct world w;
    struct postbag_database d = {.struct_size = sizeof(d)};
    struct postbag_admin_config config = {
        .struct_size = sizeof(config), .port = postbag_linux_port()};

    set_up(&w, 0);
    postbag_admin_close(w.a);
    postbag__db_close(&w.t.db);
    assert_int_equal(unlink(w.t.path), 0);
    config.db_path = w.t.path;
    assert_int_equal(postbag_admin_init(&config, 1000, NULL), POSTBAG_OK);
    /* once more changes nothing */
    assert_int_equal(postbag_admin_init(&config, 0, NULL), POSTBAG_OK);
    w.a = open_admin(w.t.path, 0);
    assert_int_equal(postbag_admin_database(w.a, &d), POSTBAG_OK);
    assert_int_equal(d.max_payload, 1000);
    assert_true(d.room_bytes > 0);
    assert_int_equal(d.min_free_bytes, 262144);
    tear_down(&w);
}

static void test_admin_profile_is_set_for_every_writer(void **state)
{
    (void)state;
    const struct postbag_message m = {.struct_size = sizeof(m),
        .topic = "telemetry",
        .payload = "p",
        .payload_len = 1};
    struct world w;

    set_up(&w, 1);
    assert_int_equal(
        postbag_admin_set_profile(w.a, NULL, "iothub"), POSTBAG_OK);
    assert_int_equal(postbag_admin_put(w.a, &m, NULL), POSTBAG_EINVAL);
    assert_non_null(strstr(postbag_admin_fault(w.a)->text,
        "profile iothub: topic must begin with one of"));
    assert_int_equal(
        postbag_admin_set_profile(w.a, "main", "azure"), POSTBAG_EINVAL);
    assert_non_null(
        strstr(postbag_admin_fault(w.a)->text, "there are any, aws, iothub"));
    assert_int_equal(
        postbag_admin_set_profile(w.a, NULL, NULL), POSTBAG_EINVAL);
    assert_int_equal(
        postbag_admin_set_profile(w.a, "moon", "aws"), POSTBAG_ENOTFOUND);
    assert_int_equal(postbag_admin_put(w.a, &m, NULL), POSTBAG_EINVAL);
    assert_int_equal(postbag_admin_set_profile(w.a, NULL, "any"), POSTBAG_OK);
    assert_int_equal(postbag_admin_put(w.a, &m, NULL), POSTBAG_OK);
    tear_down(&w);
}

static void test_admin_looking_admin_changes_nothing(void **state)
{
    (void)state;
    const struct postbag_message m = {
        .struct_size = sizeof(m), .topic = "t", .payload = "p"};
    struct world w;

    set_up(&w, 0);
    assert_int_equal(postbag_admin_put(w.a, &m, NULL), POSTBAG_ESTATE);
    assert_int_equal(
        postbag_admin_requeue(w.a, NULL, 0, NULL, NULL), POSTBAG_ESTATE);
    assert_int_equal(postbag_admin_purge(w.a, 0, NULL), POSTBAG_ESTATE);
    assert_int_equal(
        postbag_admin_set_profile(w.a, NULL, "aws"), POSTBAG_ESTATE);
    assert_int_equal(
        postbag_admin_dest_add(w.a, "cloud", POSTBAG_FROM_NOW), POSTBAG_ESTATE);
    assert_int_equal(postbag_admin_dest_remove(w.a, "main"), POSTBAG_ESTATE);
    tear_down(&w);
}

/* ---- look -------------------------------------------------------------- */

static void test_admin_result_struct_of_an_older_caller_is_cut(void **state)
{
    (void)state;
    struct {
        size_t struct_size;
        int64_t put;
        int64_t not_ours;
    } old = {.struct_size = 16, .not_ours = 77};
    struct postbag_status s = {0};
    struct world w;

    set_up(&w, 0);
    temp_db_put(&w.t, 3, 0);
    assert_int_equal(postbag_admin_status(w.a, NULL, (void *)&old), POSTBAG_OK);
    assert_int_equal(old.put, 3);
    assert_int_equal(old.not_ours, 77);
    assert_int_equal(postbag_admin_status(w.a, NULL, &s), POSTBAG_EVERSION);
    tear_down(&w);
}

static int note_name(void *ctx, const char *name)
{
    char *all = ctx;

    (void)snprintf(all + strlen(all), 64 - strlen(all), "%s;", name);
    return 0;
}

static void test_admin_destinations_come_in_the_order_of_names(void **state)
{
    (void)state;
    struct world w;
    char all[64] = "";

    set_up(&w, 0);
    assert_int_equal(postbag__schema_add_dest(&w.t.db, "cloud"), POSTBAG_OK);
    assert_int_equal(
        postbag_admin_destinations(w.a, note_name, all), POSTBAG_OK);
    assert_string_equal(all, "cloud;main;");
    tear_down(&w);
}

static void test_admin_live_path_is_that_of_the_real_file(void **state)
{
    (void)state;
    struct world w;
    struct postbag_admin *other;
    char link[64], a[128], b[128];

    set_up(&w, 0);
    (void)snprintf(link, sizeof(link), "%s.link", w.t.path);
    assert_int_equal(symlink(w.t.path, link), 0);
    other = open_admin(link, 0);
    assert_int_equal(
        postbag_admin_live_path(w.a, "/run/x", NULL, a, sizeof(a)), POSTBAG_OK);
    assert_int_equal(
        postbag_admin_live_path(other, "/run/x", "main", b, sizeof(b)),
        POSTBAG_OK);
    assert_string_equal(a, b);
    assert_int_equal(
        postbag_admin_live_path(w.a, "/run/x", NULL, a, 8), POSTBAG_ETOOBIG);
    postbag_admin_close(other);
    assert_int_equal(unlink(link), 0);
    tear_down(&w);
}

static int note_row(void *ctx, const struct postbag_row *row)
{
    *(int64_t *)ctx = row->seq;
    return 0;
}

static void test_admin_list_bad_filter_is_refused(void **state)
{
    (void)state;
    struct world w;
    struct postbag_row_filter filter = {.state = POSTBAG_ROW_ANY};
    int64_t last = 0;

    set_up(&w, 0);
    temp_db_put(&w.t, 1, 0);
    assert_int_equal(
        postbag_admin_list(w.a, &filter, note_row, &last), POSTBAG_EVERSION);
    filter.struct_size = sizeof(filter);
    filter.state = POSTBAG_ROW_DROPPED + 1;
    assert_int_equal(
        postbag_admin_list(w.a, &filter, note_row, &last), POSTBAG_EINVAL);
    filter.state = POSTBAG_ROW_ANY;
    filter.dest = "nowhere";
    assert_int_equal(
        postbag_admin_list(w.a, &filter, note_row, &last), POSTBAG_ENOTFOUND);
    filter.dest = NULL;
    assert_int_equal(
        postbag_admin_list(w.a, &filter, note_row, &last), POSTBAG_OK);
    assert_int_equal(last, 1);
    tear_down(&w);
}

static int keep_payload(void *ctx, const struct postbag_row *row)
{
    char *out = ctx;

    (void)snprintf(out, 64, "%lld %s %u %.*s", (long long)row->seq,
        postbag_row_state_name(row->state), row->is_text, (int)row->payload_len,
        (const char *)row->payload);
    return 0;
}

/* ---- repair ------------------------------------------------------------ */

static void test_admin_put_queues_a_message_that_show_finds_by_id(void **state)
{
    (void)state;
    const struct postbag_message m = {.struct_size = sizeof(m),
        .topic = "a/b",
        .payload = "hello",
        .payload_len = 5,
        .headers = "{\"subject\":\"x\"}"};
    struct world w;
    struct postbag_id id;
    char out[64];

    set_up(&w, 1);
    if (postbag_admin_put(w.a, &m, &id) != POSTBAG_OK)
        fail_msg("%s", postbag_admin_fault(w.a)->text);
    assert_int_equal(
        postbag_admin_show(w.a, NULL, 0, &id, keep_payload, out), POSTBAG_OK);
    assert_string_equal(out, "1 pending 0 hello");
    tear_down(&w);
}

static void test_admin_put_bad_topic_is_named_and_leaves_no_transaction(
    void **state)
{
    (void)state;
    struct postbag_message m = {.struct_size = sizeof(m), .topic = "a/#"};
    struct world w;

    set_up(&w, 1);
    assert_int_equal(postbag_admin_put(w.a, &m, NULL), POSTBAG_EINVAL);
    assert_non_null(strstr(postbag_admin_fault(w.a)->text, "topic"));
    m.topic = "a/b";
    assert_int_equal(postbag_admin_put(w.a, &m, NULL), POSTBAG_OK);
    tear_down(&w);
}

static void test_admin_locked_database_is_busy(void **state)
{
    (void)state;
    const struct postbag_message m = {.struct_size = sizeof(m), .topic = "t"};
    struct world w;

    set_up(&w, 1);
    temp_db_run(&w.t, "BEGIN IMMEDIATE");
    assert_int_equal(postbag_admin_put(w.a, &m, NULL), POSTBAG_EBUSY);
    assert_int_equal(
        postbag_admin_requeue(w.a, NULL, 0, NULL, NULL), POSTBAG_EBUSY);
    assert_int_equal(postbag_admin_purge(w.a, 0, NULL), POSTBAG_EBUSY);
    temp_db_run(&w.t, "ROLLBACK");
    tear_down(&w);
}

static void put_keyed(struct world *w, int n, const char *key)
{
    char sql[128];

    (void)snprintf(sql, sizeof(sql),
        "INSERT INTO outbox(topic, payload, key) VALUES ('t', 'p', '%s')", key);
    while (n-- > 0)
        temp_db_run(&w->t, sql);
}

static void test_admin_requeue_one_keeps_id_and_is_due_at_once(void **state)
{
    (void)state;
    struct world w;
    int64_t n = 0;

    set_up(&w, 1);
    put_keyed(&w, 3, "k");
    temp_db_hold(&w.t, 1, "dead");
    temp_db_hold(&w.t, 2, "dead");
    assert_int_equal(postbag_admin_requeue(w.a, NULL, 2, NULL, &n), POSTBAG_OK);
    assert_int_equal(n, 1);
    assert_int_equal(
        temp_db_get(&w.t, "SELECT count(*) FROM outbox_held h JOIN outbox o"
                          " USING (seq, id) WHERE seq = 2 AND state = 'retry'"
                          " AND attempts = 0 AND due_boot IS NULL"
                          " AND dead_ms IS NULL"),
        1);
    assert_int_equal(
        temp_db_get(
            &w.t, "SELECT count(*) FROM outbox_held WHERE state = 'dead'"),
        1);
    tear_down(&w);
}

static void test_admin_requeue_of_one_key_lines_up_by_seq(void **state)
{
    (void)state;
    struct world w;
    int64_t n = 0;

    set_up(&w, 1);
    put_keyed(&w, 4, "k");
    put_keyed(&w, 2, "other");
    temp_db_hold(&w.t, 1, "dead");
    temp_db_hold(&w.t, 2, "dead");
    temp_db_hold(&w.t, 3, "retry"); /* was the key's oldest, and is no more */
    temp_db_hold(&w.t, 4, "behind");
    temp_db_hold(&w.t, 5, "retry");
    assert_int_equal(postbag_admin_requeue(w.a, NULL, 0, NULL, &n), POSTBAG_OK);
    assert_int_equal(n, 2);
    assert_int_equal(
        temp_db_get(&w.t,
            "SELECT count(*) FROM outbox_held WHERE (seq, state) IN (VALUES"
            " (1, 'retry'), (2, 'behind'), (3, 'behind'), (4, 'behind'),"
            " (5, 'retry'))"),
        5);
    tear_down(&w);
}

static void test_admin_requeue_by_id_does_not_find_who_waits_behind(
    void **state)
{
    (void)state;
    struct world w;
    struct postbag_id id;
    int64_t n = 0;

    set_up(&w, 1);
    temp_db_run(&w.t, "INSERT INTO outbox(topic, payload, id)"
                      " VALUES ('t', 'p', zeroblob(16))");
    temp_db_put(&w.t, 1, 0);
    memset(&id, 0, sizeof(id));
    temp_db_hold(&w.t, 1, "behind");
    assert_int_equal(
        postbag_admin_requeue(w.a, NULL, 0, &id, &n), POSTBAG_ENOTFOUND);
    temp_db_run(&w.t, "UPDATE outbox_held SET state = 'dead'");
    assert_int_equal(postbag_admin_requeue(w.a, NULL, 0, &id, &n), POSTBAG_OK);
    assert_int_equal(n, 1);
    assert_int_equal(postbag_admin_requeue(w.a, NULL, 0, NULL, &n), POSTBAG_OK);
    assert_int_equal(n, 0);
    tear_down(&w);
}

static void test_admin_purge_takes_no_more_than_asked(void **state)
{
    (void)state;
    struct world w;
    int64_t n = 0;

    set_up(&w, 1);
    temp_db_put(&w.t, 2000, 0);
    temp_db_settle_all(&w.t, "main", 2000);
    assert_int_equal(postbag_admin_purge(w.a, 300, &n), POSTBAG_OK);
    assert_int_equal(n, 300);
    assert_int_equal(postbag_admin_purge(w.a, 0, &n), POSTBAG_OK);
    assert_int_equal(n, 1792 - 300);
    assert_int_equal(temp_db_get(&w.t, "SELECT min(seq) FROM outbox"), 1793);
    tear_down(&w);
}

static void test_admin_purge_of_much_keeps_the_wal_small(void **state)
{
    (void)state;
    struct world w;
    int64_t before = 0;
    int64_t after = 0;
    int64_t n = 0;

    set_up(&w, 1);
    temp_db_put(&w.t, 60000, 0);
    temp_db_settle_all(&w.t, "main", 60000);
    /* start from an empty WAL */
    postbag__db_close(&w.t.db);
    postbag_admin_close(w.a);
    assert_int_equal(
        postbag__db_open(&w.t.db, w.t.path, DB_WRITE, DB_NORMAL, 50),
        POSTBAG_OK);
    temp_db_run(&w.t, "PRAGMA wal_checkpoint(TRUNCATE)");
    w.a = open_admin(w.t.path, 1);
    assert_int_equal(postbag__wal_bytes(&w.t.db, &before), POSTBAG_OK);
    assert_int_equal(postbag_admin_purge(w.a, 0, &n), POSTBAG_OK);
    assert_int_equal(n, 59904); /* the newest running total */
    assert_int_equal(temp_db_get(&w.t, "SELECT min(seq) FROM outbox"), 59905);
    assert_int_equal(postbag__wal_bytes(&w.t.db, &after), POSTBAG_OK);
    assert_int_equal(before, 0);
    assert_in_range(after, 1, 2 * 1024 * 1024);
    tear_down(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admin_open_without_a_file_fails_and_makes_none),
        cmocka_unit_test(test_admin_open_without_tables_is_a_schema_error),
        cmocka_unit_test(test_admin_open_config_without_size_is_refused),
        cmocka_unit_test(test_admin_init_makes_an_outbox_and_sets_the_limit),
        cmocka_unit_test(test_admin_profile_is_set_for_every_writer),
        cmocka_unit_test(test_admin_looking_admin_changes_nothing),
        cmocka_unit_test(test_admin_result_struct_of_an_older_caller_is_cut),
        cmocka_unit_test(test_admin_destinations_come_in_the_order_of_names),
        cmocka_unit_test(test_admin_live_path_is_that_of_the_real_file),
        cmocka_unit_test(test_admin_list_bad_filter_is_refused),
        cmocka_unit_test(test_admin_put_queues_a_message_that_show_finds_by_id),
        cmocka_unit_test(
            test_admin_put_bad_topic_is_named_and_leaves_no_transaction),
        cmocka_unit_test(test_admin_locked_database_is_busy),
        cmocka_unit_test(test_admin_requeue_one_keeps_id_and_is_due_at_once),
        cmocka_unit_test(test_admin_requeue_of_one_key_lines_up_by_seq),
        cmocka_unit_test(
            test_admin_requeue_by_id_does_not_find_who_waits_behind),
        cmocka_unit_test(test_admin_purge_takes_no_more_than_asked),
        cmocka_unit_test(test_admin_purge_of_much_keeps_the_wal_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
