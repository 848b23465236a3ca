/* SPDX-License-Identifier: MIT */
#include "limit_store.h"
#include "status_store.h"

#include <string.h>

#include "temp_db.h"

static const struct moment now = {
    .wall_ms = INT64_C(1700000000000), .mono_ms = 5000000, .boot = {1, 2, 3}};

static struct postbag_status read_status(struct temp_db *t, const char *dest)
{
    struct postbag_status s = {0};

    assert_int_equal(postbag__status_read(&t->db, dest, &now, &s), POSTBAG_OK);
    return s;
}

/* Put n rows that were created `age_ms` before now. */
static void put_aged(struct temp_db *t, int n, int priority, int64_t age_ms)
{
    char sql[320];

    (void)snprintf(sql, sizeof(sql),
        "INSERT INTO outbox(topic, payload, priority, created_ms)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT 't', '0123456789', %d, %lld FROM n",
        n, priority, (long long)(now.wall_ms - age_ms));
    temp_db_run(t, sql);
}

static void test_status_empty_outbox_is_all_zero(void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_status s;
    struct postbag_status zero = {0};

    temp_db_open(&t);
    s = read_status(&t, "main");
    assert_memory_equal(&s, &zero, sizeof(s));
    temp_db_close(&t);
}

static void test_status_tells_the_profile_that_was_set(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    assert_string_equal(read_status(&t, "main").profile, "");
    temp_db_run(&t, "UPDATE outbox_dest SET profile = 'aws'");
    assert_string_equal(read_status(&t, "main").profile, "aws");
    temp_db_close(&t);
}

static void test_status_tells_why_messages_were_dropped(void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_status s;

    temp_db_open(&t);
    temp_db_run(&t, "INSERT INTO outbox_lost VALUES"
                    " ('main', 1, 1, 1, 1, 'ttl', 1, 0),"
                    " ('main', 2, 3, 2, 1, 'limit', 1, 0),"
                    " ('main', 4, 6, 3, 1, 'coalesced', 0, 0),"
                    " ('main', 8, 8, 1, 1, 'discarded', 1, 0),"
                    " ('main', 9, 9, 1, 1, 'discarded', 1, 0),"
                    " ('main', 10, 14, 5, 1, 'else', 1, 0),"
                    " ('cloud', 1, 9, 9, 1, 'ttl', 1, 0)");
    s = read_status(&t, "main");
    assert_int_equal(s.dropped_ttl, 1);
    assert_int_equal(s.dropped_limit, 2);
    assert_int_equal(s.dropped_coalesced, 3);
    assert_int_equal(s.dropped_discarded, 2);
    assert_int_equal(s.dropped_other, 5);
    temp_db_close(&t);
}

static void test_status_unknown_destination_is_not_found(void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_status s = {0};

    temp_db_open(&t);
    assert_int_equal(
        postbag__status_read(&t.db, "nowhere", &now, &s), POSTBAG_ENOTFOUND);
    assert_non_null(strstr(t.db.fault.text, "no destination"));
    temp_db_close(&t);
}

static void test_status_pending_is_put_less_settled_in_rows_and_bytes(
    void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_status s;

    temp_db_open(&t);
    put_aged(&t, 700, 0, 0);
    temp_db_run(&t, "UPDATE outbox_cursor SET acked = 300, settled_rows = 300,"
                    " settled_bytes = 3300, delivered = 290, passed = 10"
                    " WHERE dest = 'main' AND lane = 0");
    s = read_status(&t, "main");
    assert_int_equal(s.put, 700);
    assert_int_equal(s.put_bytes, 700 * 11);
    assert_int_equal(s.pending, 400);
    assert_int_equal(s.pending_bytes, 400 * 11);
    assert_int_equal(s.delivered, 290);
    assert_int_equal(s.passed, 10);
    assert_int_equal(s.ledger_gap, 0);
    temp_db_close(&t);
}

static void test_status_held_rows_are_told_apart_and_balance(void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_status s;

    temp_db_open(&t);
    put_aged(&t, 7, 0, 0);
    temp_db_run(&t,
        "INSERT INTO outbox_held(dest, seq, state, id, topic, payload,"
        "  priority, retain, created_ms)"
        " SELECT 'main', seq, CASE seq WHEN 1 THEN 'retry' WHEN 2 THEN 'behind'"
        "  WHEN 3 THEN 'behind' WHEN 4 THEN 'suspect' ELSE 'dead' END,"
        "  id, topic, payload, priority, retain, created_ms FROM outbox"
        " WHERE seq <= 6");
    temp_db_run(&t, "UPDATE outbox_cursor SET acked = 6, settled_rows = 6"
                    " WHERE dest = 'main' AND lane = 0");
    s = read_status(&t, "main");
    assert_int_equal(s.held_retry, 1);
    assert_int_equal(s.held_behind, 2);
    assert_int_equal(s.held_suspect, 1);
    assert_int_equal(s.held, 4);
    assert_int_equal(s.held_bytes, 4 * 11);
    assert_int_equal(s.dead, 2);
    assert_int_equal(s.dead_bytes, 2 * 11);
    assert_int_equal(s.pending, 1);
    assert_int_equal(s.ledger_gap, 0);
    temp_db_close(&t);
}

static void test_status_lost_count_shows_as_a_ledger_gap(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    put_aged(&t, 9, 0, 0);
    temp_db_run(&t, "UPDATE outbox_cursor SET settled_rows = 5, delivered = 3"
                    " WHERE dest = 'main' AND lane = 0");
    assert_int_equal(read_status(&t, "main").ledger_gap, 2);
    temp_db_close(&t);
}

static void test_status_oldest_pending_is_searched_in_all_lanes(void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_status s;

    temp_db_open(&t);
    put_aged(&t, 1, 0, 90000); /* settled below */
    put_aged(&t, 1, 2, 80000);
    put_aged(&t, 1, 0, 70000);
    temp_db_settle(&t, "main", 0, 1);
    s = read_status(&t, "main");
    assert_int_equal(s.oldest_age_ms, 80000);
    assert_int_equal(s.oldest_ms, now.wall_ms - 80000);
    temp_db_settle(&t, "main", 2, 2);
    assert_int_equal(read_status(&t, "main").oldest_age_ms, 70000);
    temp_db_settle_all(&t, "main", 3);
    assert_int_equal(read_status(&t, "main").oldest_ms, 0);
    temp_db_close(&t);
}

static void test_status_oldest_of_this_boot_ages_by_the_monotonic_clock(
    void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_run(&t,
        "INSERT INTO outbox(topic, payload, created_ms, boot, mono_ms)"
        " VALUES ('t', 'p', 42,"
        "  x'01020300000000000000000000000000', 4990000)");
    assert_int_equal(read_status(&t, "main").oldest_age_ms, 10000);
    assert_int_equal(read_status(&t, "main").oldest_ms, 42);
    temp_db_close(&t);
}

static void test_status_rows_of_another_destination_are_not_the_oldest(
    void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    assert_int_equal(postbag__schema_add_dest(&t.db, "cloud"), POSTBAG_OK);
    put_aged(&t, 2, 0, 50000);
    temp_db_run(&t, "DELETE FROM outbox WHERE seq = 1");
    temp_db_run(&t, "INSERT INTO outbox(topic, payload, dest)"
                    " VALUES ('t', 'p', 'cloud')");
    temp_db_settle(&t, "main", 0, 2);
    assert_int_equal(read_status(&t, "main").oldest_ms, 0);
    assert_int_equal(read_status(&t, "cloud").oldest_age_ms, 50000);
    temp_db_close(&t);
}

static void test_status_sending_counts_reserved_rows_of_the_lane(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    put_aged(&t, 10, 0, 0);
    put_aged(&t, 10, 1, 0);
    temp_db_run(&t, "UPDATE outbox_cursor SET acked = 4, sent_hi = 15"
                    " WHERE dest = 'main' AND lane = 0");
    temp_db_run(&t, "UPDATE outbox_cursor SET acked = 11, sent_hi = 13"
                    " WHERE dest = 'main' AND lane = 1");
    assert_int_equal(read_status(&t, "main").sending, 6 + 2);
    temp_db_close(&t);
}

static void set_lease(struct temp_db *t, const char *boot, int64_t until)
{
    char sql[160];

    (void)snprintf(sql, sizeof(sql),
        "UPDATE outbox_dest SET owner = x'abcd', epoch = 7, boot = x'%s',"
        " lease_until = %lld WHERE name = 'main'",
        boot, (long long)until);
    temp_db_run(t, sql);
}

static void test_status_lease_is_judged_by_boot_and_time(void **state)
{
    (void)state;
    static const char this_boot[] = "01020300000000000000000000000000";
    static const char old_boot[] = "02020300000000000000000000000000";
    struct temp_db t;
    struct postbag_status s;

    temp_db_open(&t);
    assert_int_equal(read_status(&t, "main").lease, POSTBAG_LEASE_NONE);
    set_lease(&t, this_boot, now.mono_ms + 1000);
    s = read_status(&t, "main");
    assert_int_equal(s.lease, POSTBAG_LEASE_VALID);
    assert_int_equal(s.lease_left_ms, 1000);
    assert_int_equal(s.epoch, 7);
    assert_int_equal(s.owner[0], 0xab);
    set_lease(&t, this_boot, now.mono_ms - 500);
    s = read_status(&t, "main");
    assert_int_equal(s.lease, POSTBAG_LEASE_EXPIRED);
    assert_int_equal(s.lease_left_ms, -500);
    set_lease(&t, old_boot, now.mono_ms + 1000);
    assert_int_equal(read_status(&t, "main").lease, POSTBAG_LEASE_OLD_BOOT);
    temp_db_close(&t);
}

static void test_status_put_rate_of_a_steady_stream(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    for (int i = 100; i > 0; i--) /* one each 500 ms */
        put_aged(&t, 1, 0, i * 500);
    assert_in_range(read_status(&t, "main").put_rate_milli, 1900, 2100);
    temp_db_close(&t);
}

static void test_status_put_rate_of_a_burst_is_not_drowned_by_silence(
    void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    put_aged(&t, 100, 0, INT64_C(86400000));
    put_aged(&t, 100, 0, 200);
    /* 100 rows in the window of 10 s; steps of two find at least half */
    assert_in_range(read_status(&t, "main").put_rate_milli, 5000, 10000);
    temp_db_close(&t);
}

static void test_status_put_rate_of_a_silent_outbox_is_zero(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    put_aged(&t, 100, 0, 60000);
    assert_int_equal(read_status(&t, "main").put_rate_milli, 0);
    temp_db_close(&t);
}

static void test_status_put_rate_of_just_now_is_unknown(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    put_aged(&t, 100, 0, 5);
    assert_int_equal(read_status(&t, "main").put_rate_milli, -1);
    temp_db_close(&t);
}

static void test_database_sizes_and_inbox_are_counted(void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_database d = {0};

    temp_db_open(&t);
    temp_db_run(&t, "UPDATE outbox_meta SET value = iif(key = 'max_rows', 7, 8)"
                    " WHERE key IN ('max_rows', 'max_bytes')");
    temp_db_run(&t,
        "INSERT INTO inbox(consumer, id, state, received_ms) VALUES"
        " ('c', 1, 'due', 0), ('c', 2, 'due', 0), ('c', 3, 'deferred', 0),"
        " ('c', 4, 'done', 0), ('c', 5, 'done', 0), ('c', 6, 'done', 0),"
        " ('c', 7, 'dead', 0), ('c', 8, 'claimed', 0), ('c', 9, 'claimed', 0)");
    temp_db_run(&t, "UPDATE inbox SET payload = 'é', headers = '{}'"
                    " WHERE state IN ('due', 'dead')");
    temp_db_run(
        &t, "UPDATE inbox_sum SET forgotten = 3, max_rows = 4, max_bytes = 5");
    assert_int_equal(postbag__database_read(&t.db, &d), POSTBAG_OK);
    assert_int_equal(d.schema_version, POSTBAG_SCHEMA_VERSION);
    assert_int_equal(d.max_payload, 65536);
    assert_int_equal(d.max_rows, 7);
    assert_int_equal(d.max_bytes, 8);
    assert_int_equal(d.page_bytes, temp_db_get(&t, "PRAGMA page_size"));
    assert_true(d.db_bytes >= 10 * d.page_bytes);
    assert_true(d.wal_bytes > d.page_bytes);
    assert_int_equal(d.inbox_due, 2);
    assert_int_equal(d.inbox_deferred, 1);
    assert_int_equal(d.inbox_done, 3);
    assert_int_equal(d.inbox_dead, 1);
    assert_int_equal(d.inbox_claimed, 2);
    assert_int_equal(d.inbox_bytes, 8);
    assert_int_equal(d.inbox_max_rows, 4);
    assert_int_equal(d.inbox_max_bytes, 5);
    assert_int_equal(d.inbox_forgotten, 3);
    temp_db_close(&t);
}

static void test_status_counts_what_is_on_trial(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 6, 0);
    assert_int_equal(read_status(&t, "main").on_trial, 0);
    temp_db_hold(&t, 1, "retry");
    temp_db_hold(&t, 2, "dead");
    temp_db_hold(&t, 3, "retry");
    temp_db_run(&t,
        "UPDATE outbox_held SET deaths = 5 WHERE seq < 3;"
        "UPDATE outbox_cursor SET acked = 3, tried = 4, deaths = 1"
        " WHERE dest = 'main' AND lane = 0;" /* its row is not settled */
        "UPDATE outbox_cursor SET acked = 3, tried = 3, deaths = 1"
        " WHERE dest = 'main' AND lane = 1;" /* is settled */
        "UPDATE outbox_cursor SET tried = 4"
        " WHERE dest = 'main' AND lane = 2"); /* did not crash */
    assert_int_equal(read_status(&t, "main").on_trial, 2);
    temp_db_close(&t);
}

static void test_database_tells_when_bulk_is_refused(void **state)
{
    (void)state;
    const struct limits limits = {.max_rows = 8, .max_bytes = 10000};
    struct temp_db t;
    struct postbag_database d = {0};

    temp_db_open(&t);
    assert_int_equal(postbag__limits_set(&t.db, &limits), POSTBAG_OK);
    temp_db_put(&t, 6, 0);
    assert_int_equal(postbag__database_read(&t.db, &d), POSTBAG_OK);
    assert_int_equal(d.rows_fill, 857);
    temp_db_put(&t, 1, 0);
    assert_int_equal(postbag__database_read(&t.db, &d), POSTBAG_OK);
    assert_int_equal(d.rows_fill, 1000);
    assert_int_equal(d.bytes_fill, 7 * 13 * 1000 / 8750);
    temp_db_close(&t);
}

/* The limits are measured against them, whoever is asked for. */
static void test_database_tells_what_the_slowest_destination_lacks(void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_database d = {0};

    temp_db_open(&t);
    assert_int_equal(postbag__schema_add_dest(&t.db, "a"), POSTBAG_OK);
    assert_int_equal(postbag__schema_add_dest(&t.db, "z"), POSTBAG_OK);
    temp_db_put(&t, 9, 0);
    temp_db_run(&t,
        "UPDATE outbox_cursor SET settled_rows = 4, settled_bytes = 30"
        " WHERE dest = 'main' AND lane = 0;"
        "UPDATE outbox_cursor SET settled_rows = 5, settled_bytes = 20"
        " WHERE dest = 'a' AND lane = 0;"
        "UPDATE outbox_cursor SET settled_rows = 3, settled_bytes = 40"
        " WHERE dest = 'z' AND lane IN (0, 1)");
    assert_int_equal(postbag__database_read(&t.db, &d), POSTBAG_OK);
    assert_int_equal(d.waiting_rows, 5);
    assert_string_equal(d.rows_dest, "main");
    assert_int_equal(d.waiting_bytes, 9 * 13 - 20);
    assert_string_equal(d.bytes_dest, "a");
    temp_db_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_database_tells_what_the_slowest_destination_lacks),
        cmocka_unit_test(test_status_empty_outbox_is_all_zero),
        cmocka_unit_test(test_status_tells_the_profile_that_was_set),
        cmocka_unit_test(test_status_tells_why_messages_were_dropped),
        cmocka_unit_test(test_status_unknown_destination_is_not_found),
        cmocka_unit_test(
            test_status_pending_is_put_less_settled_in_rows_and_bytes),
        cmocka_unit_test(test_status_held_rows_are_told_apart_and_balance),
        cmocka_unit_test(test_status_lost_count_shows_as_a_ledger_gap),
        cmocka_unit_test(test_status_oldest_pending_is_searched_in_all_lanes),
        cmocka_unit_test(
            test_status_oldest_of_this_boot_ages_by_the_monotonic_clock),
        cmocka_unit_test(
            test_status_rows_of_another_destination_are_not_the_oldest),
        cmocka_unit_test(test_status_sending_counts_reserved_rows_of_the_lane),
        cmocka_unit_test(test_status_lease_is_judged_by_boot_and_time),
        cmocka_unit_test(test_status_put_rate_of_a_steady_stream),
        cmocka_unit_test(
            test_status_put_rate_of_a_burst_is_not_drowned_by_silence),
        cmocka_unit_test(test_status_put_rate_of_a_silent_outbox_is_zero),
        cmocka_unit_test(test_status_put_rate_of_just_now_is_unknown),
        cmocka_unit_test(test_database_sizes_and_inbox_are_counted),
        cmocka_unit_test(test_status_counts_what_is_on_trial),
        cmocka_unit_test(test_database_tells_when_bulk_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
