/* SPDX-License-Identifier: MIT */
/* A full outbox that drops its oldest bulk rows, and what it records. */
#include <sqlite3.h>

#include "limit_store.h"
#include "schema.h"
#include "tempdb.h"
#include "unit.h"

static struct tempdb t;
static struct db db;

static int set_up(void **state)
{
    (void)state;
    tempdb_make_outbox(&t);
    assert_ok(postbag__db_open(&db, t.path, DB_WRITE, DB_NORMAL, 0));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    postbag__db_close(&db);
    tempdb_remove(&t);
    return 0;
}

/* The lowest limit of which bulk may take so much. */
static uint32_t limit_for(uint32_t bulk)
{
    uint32_t urgent = bulk / 7;

    return bulk + (urgent == 0 && bulk > 1 ? 1 : urgent);
}

/* What bulk may take. */
static void set(uint32_t rows, uint32_t bytes)
{
    struct limits l = {
        .max_rows = limit_for(rows), .max_bytes = limit_for(bytes)};

    assert_ok(postbag__overflow_parse("drop_oldest", &l));
    assert_ok(postbag__limits_set(&db, &l));
}

/* A message of so many bytes; more: further columns and their values. */
static void put(int bytes, const char *columns, const char *values)
{
    sql_run(t.app,
        "INSERT INTO outbox(topic, payload%s)"
        " VALUES ('t', zeroblob(%d)%s)",
        columns, bytes - 1, values);
}

static void put_bulk(int count)
{
    for (int i = 0; i < count; i++)
        put(10, "", "");
}

static void put_urgent(int count)
{
    for (int i = 0; i < count; i++)
        put(10, ", priority", ", 1");
}

static const char *rows(void)
{
    return sql_text(t.app, "SELECT group_concat(seq) FROM"
                           " (SELECT seq FROM outbox ORDER BY seq)");
}

static const char *lost(void)
{
    return sql_text(t.app, "SELECT dest, lo, hi, n, bytes, reason"
                           " FROM outbox_lost ORDER BY dest, hi");
}

static void reserve(int seq)
{
    sql_run(t.app, "UPDATE outbox_cursor SET sent_hi = %d WHERE lane = 0", seq);
}

/* What waits is what is there; what was dropped is recorded. */
static void expect_balance(void)
{
    assert_string_equal(
        sql_text(t.app,
            "SELECT DISTINCT sum(settled_rows)"
            "  - (SELECT max(seq) - count(*) FROM outbox),"
            " sum(settled_bytes)"
            "  - (SELECT bytes FROM outbox_sum ORDER BY seq DESC LIMIT 1)"
            "  + (SELECT ifnull(sum(length(topic) + length(payload)), 0)"
            "   FROM outbox WHERE seq <= (SELECT max(seq) FROM outbox_sum)),"
            " sum(dropped) - (SELECT ifnull(sum(n), 0) FROM outbox_lost l"
            "  WHERE l.dest = c.dest) FROM outbox_cursor c GROUP BY dest"),
        "0|0|0");
}

static void test_drops_oldest_of_many_puts_leave(void **state)
{
    (void)state;
    set(5, 0);
    put_bulk(1000);
    assert_string_equal(rows(), "996,997,998,999,1000");
    assert_string_equal(lost(), "main|1|995|995|9950|limit");
    expect_balance();
}

static void test_drops_as_many_bytes_as_a_put_brings(void **state)
{
    (void)state;
    set(0, 100);
    put_bulk(10);
    put(25, "", "");
    assert_string_equal(rows(), "4,5,6,7,8,9,10,11");
    put(5, "", "");
    assert_string_equal(rows(), "4,5,6,7,8,9,10,11,12");
    assert_string_equal(lost(), "main|1|3|3|30|limit");
    expect_balance();
}

/* More rows than the first look takes in; blobs count their bytes, too. */
static void test_drops_many_small_ones_for_a_large_one(void **state)
{
    (void)state;
    set(0, 1000);
    put_bulk(100);
    put(500, "", "");
    assert_string_equal(lost(), "main|1|50|50|500|limit");
    put(9000, "", "");
    assert_string_equal(rows(), "102");
    put_bulk(1);
    assert_string_equal(rows(), "103");
    put_bulk(100);
    reserve(104);
    sql_fails(t.app, "postbag: outbox is full: max_bytes (1142) bytes wait",
        "INSERT INTO outbox(topic, payload) VALUES ('t', zeroblob(60000))");
    expect_balance();
}

static void test_drops_make_room_for_the_newest_alone(void **state)
{
    (void)state;
    set(1, 0);
    put_bulk(3);
    assert_string_equal(rows(), "3");
    expect_balance();
}

static void test_drops_spare_urgent_and_reserved_rows(void **state)
{
    (void)state;
    set(4, 0);
    put_bulk(1);
    put_urgent(1);
    put_bulk(2);
    reserve(1);
    put_urgent(1); /* of the eighth that bulk leaves */
    assert_string_equal(rows(), "1,2,3,4,5");
    put_bulk(1);
    assert_string_equal(rows(), "1,2,4,5,6");
    put_urgent(1);
    assert_string_equal(rows(), "1,2,5,6,7");
    assert_string_equal(lost(), "main|3|4|2|20|limit");
    reserve(7);
    sql_fails(t.app, "postbag: outbox is full: max_rows (5) messages wait,",
        "INSERT OR IGNORE INTO outbox(topic, payload) VALUES ('t', '')");
    sql_fails(t.app, "postbag: outbox is full: max_rows (5) messages wait",
        "INSERT INTO outbox(topic, payload, priority) VALUES ('t', '', 1)");
    assert_string_equal(rows(), "1,2,5,6,7");
    expect_balance();
}

/* What stands in the log between two dropped rows is not called dropped. */
static void test_drops_between_urgent_rows_are_one_entry(void **state)
{
    (void)state;
    set(6, 0);
    for (int i = 0; i < 3; i++) {
        put_bulk(1);
        put_urgent(1);
    }
    put_bulk(3);
    assert_string_equal(lost(), "main|1|5|3|30|limit");
    assert_string_equal(
        sql_text(t.app, "SELECT seq, state FROM outbox_status ORDER BY seq"),
        "2|pending 4|pending 6|pending 7|pending 8|pending 9|pending");
    expect_balance();
    sql_run(t.app, "UPDATE outbox_cursor SET acked = 4, sent_hi = 4"
                   " WHERE lane > 0");
    assert_string_equal(sql_text(t.app, "SELECT seq, state FROM outbox_status"
                                        " WHERE priority > 0 ORDER BY seq"),
        "2|published 4|published 6|pending");
}

/* Rows between two drops were sent: the first entry has come to its end. */
static void test_drops_after_a_drain_are_another_entry(void **state)
{
    (void)state;
    set(2, 0);
    put_bulk(3);
    reserve(3);
    sql_run(t.app, "UPDATE outbox_cursor SET acked = 3, settled_rows = 3,"
                   " delivered = 2, settled_bytes = 0 WHERE lane = 0");
    put_bulk(3);
    assert_string_equal(lost(), "main|1|1|1|10|limit main|4|4|1|10|limit");
    /* the reservation goes back, and there is room below */
    put_bulk(1);
    assert_string_equal(lost(), "main|1|1|1|10|limit main|4|5|2|20|limit");
}

/* What is summed up spans rows that were sent. */
static void test_drops_do_not_add_to_a_sum(void **state)
{
    (void)state;
    set(2, 0);
    put_bulk(3);
    sql_run(t.app, "UPDATE outbox_lost SET exact = 0");
    sql_run(t.app, "INSERT OR REPLACE INTO outbox(topic, payload)"
                   " VALUES ('t', '123456789')");
    sql_run(t.app, "INSERT OR IGNORE INTO outbox(topic, payload)"
                   " VALUES ('t', '123456789')");
    assert_string_equal(lost(), "main|1|1|1|10|limit main|2|3|2|20|limit");
    expect_balance();
}

static void test_drops_below_an_earlier_drop_are_recorded(void **state)
{
    (void)state;
    set(4, 0);
    put_bulk(4);
    reserve(2);
    put_bulk(1);
    reserve(0);
    put_bulk(4);
    assert_string_equal(rows(), "6,7,8,9");
    assert_int_equal(sql_get(t.app, "SELECT sum(n) FROM outbox_lost"), 5);
    expect_balance();
}

static void test_drops_count_for_each_destination(void **state)
{
    (void)state;
    assert_ok(postbag__schema_add_dest(&db, "cloud"));
    set(3, 0);
    put(10, ", dest", ", 'main'");
    put(10, ", dest", ", 'cloud'");
    put_bulk(4);
    assert_string_equal(rows(), "4,5,6");
    assert_string_equal(lost(), "cloud|2|3|2|20|limit main|1|3|2|20|limit");
    assert_string_equal(
        sql_text(t.app, "SELECT dest, settled_rows, dropped, passed"
                        " FROM outbox_cursor WHERE lane = 0"),
        "cloud|3|2|1 main|3|2|1");
    expect_balance();
}

static void test_drops_are_undone_by_a_rollback(void **state)
{
    (void)state;
    set(2, 0);
    put_bulk(2);
    sql_run(t.app, "BEGIN IMMEDIATE");
    put_bulk(1);
    assert_string_equal(rows(), "2,3");
    sql_run(t.app, "ROLLBACK");
    assert_string_equal(rows(), "1,2");
    assert_string_equal(lost(), "");
    expect_balance();
}

/* A row that takes the place of another needs no room. */
static void test_drops_nothing_for_a_row_that_replaces_one(void **state)
{
    const struct limits reject = {.max_rows = 4, .max_bytes = 34};

    (void)state;
    set(3, 30);
    put_bulk(2);
    for (int i = 0; i < 5; i++)
        put(10, ", coalesce", ", 'c'");
    assert_string_equal(rows(), "1,2,7");
    assert_string_equal(lost(), "main|3|6|4|40|coalesced");
    put(10, ", coalesce", ", 'other'");
    assert_string_equal(rows(), "2,7,8");
    expect_balance();
    assert_ok(postbag__limits_set(&db, &reject));
    put(10, ", coalesce", ", 'c'");
    assert_string_equal(rows(), "2,8,9");
    sql_fails(t.app, "postbag: outbox is full",
        "INSERT INTO outbox(topic, payload, coalesce) VALUES ('t', '', 'd')");
    expect_balance();
}

static void test_drops_stop_with_the_policy(void **state)
{
    const struct limits reject = {.max_rows = 2};
    struct limits l;

    (void)state;
    assert_int_equal(postbag__overflow_parse("drop", &l), POSTBAG_EINVAL);
    assert_ok(postbag__overflow_parse("reject", &l));
    assert_int_equal(l.drop_oldest, 0);
    set(2, 20);
    assert_string_equal(sql_text(t.app, "SELECT value FROM outbox_meta"
                                        " WHERE key = 'overflow'"),
        "drop_oldest");
    put_bulk(3);
    assert_ok(postbag__limits_set(&db, &reject));
    sql_fails(t.app, "postbag: outbox is full: max_rows (2) messages wait",
        "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_drops_oldest_of_many_puts_leave),
        TEST(test_drops_as_many_bytes_as_a_put_brings),
        TEST(test_drops_many_small_ones_for_a_large_one),
        TEST(test_drops_make_room_for_the_newest_alone),
        TEST(test_drops_spare_urgent_and_reserved_rows),
        TEST(test_drops_between_urgent_rows_are_one_entry),
        TEST(test_drops_after_a_drain_are_another_entry),
        TEST(test_drops_do_not_add_to_a_sum),
        TEST(test_drops_below_an_earlier_drop_are_recorded),
        TEST(test_drops_count_for_each_destination),
        TEST(test_drops_are_undone_by_a_rollback),
        TEST(test_drops_nothing_for_a_row_that_replaces_one),
        TEST(test_drops_stop_with_the_policy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
