/* SPDX-License-Identifier: MIT */
/* What keep_s and keep_rows keep, whatever the clocks do. */
#include "purge_steps.h"

static void add_ack_of_boot(
    struct temp_db *t, int64_t upto, int64_t at_ms, int boot, int64_t mono_ms)
{
    char sql[200];

    (void)snprintf(sql, sizeof(sql),
        "INSERT INTO outbox_acks VALUES ('main', 0, %lld, %lld,"
        " CAST(replace(hex(zeroblob(8)), '0', char(%d)) AS BLOB), %lld)",
        (long long)upto, (long long)at_ms, boot, (long long)mono_ms);
    temp_db_run(t, sql);
}

/* Of the boot before, in which the wall clock was right. */
static void add_ack(struct temp_db *t, int64_t upto, int64_t at_ms)
{
    add_ack_of_boot(t, upto, at_ms, 1, 500);
}

static void test_purge_keep_rows_until_their_ack_is_old(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 600, 0);
    temp_db_settle_all(&t, "main", 300);
    add_ack(&t, 100, now_ms - 3 * hour_ms);
    add_ack(&t, 200, now_ms - 2 * hour_ms);
    add_ack(&t, 300, now_ms - hour_ms / 2);
    assert_int_equal(purge_all(&t, hour_ms), 200);
    assert_int_equal(lowest(&t), 201);
    /* the entry that settled what is left, and no other */
    assert_int_equal(temp_db_get(&t, "SELECT min(upto) FROM outbox_acks"), 300);
    assert_int_equal(purge_all(&t, 4 * hour_ms), 0);
    temp_db_close(&t);
}

static void test_purge_keep_passes_more_entries_than_one_step_reads(
    void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 1100, 0);
    temp_db_settle_all(&t, "main", 1000);
    for (int i = 1; i <= 1000; i++)
        add_ack(&t, i, now_ms - 2 * hour_ms + i);
    assert_int_equal(purge_all(&t, hour_ms), 1000);
    assert_int_equal(temp_db_get(&t, "SELECT count(*) FROM outbox_acks"), 0);
    temp_db_close(&t);
}

/* Rows that go, of 300 with one entry and an hour to keep. */
static int64_t expired(int64_t at_ms, int boot, int64_t mono_ms,
    int64_t now_wall_ms, int64_t now_mono_ms)
{
    struct temp_db t;
    struct moment at = now();
    int64_t deleted;

    at.wall_ms = now_wall_ms;
    at.mono_ms = now_mono_ms;
    temp_db_open(&t);
    temp_db_put(&t, 600, 0);
    temp_db_settle_all(&t, "main", 300);
    add_ack_of_boot(&t, 300, at_ms, boot, mono_ms);
    deleted = purge_by(&t, (struct purge){.keep_ms = hour_ms}, &at);
    temp_db_close(&t);
    return deleted;
}

/* The wall clock may say what it likes: 1970, 2027, 1970 again. */
static void test_purge_keep_within_a_boot_goes_by_boottime(void **state)
{
    static const int64_t walls[] = {1000, 1, 1800000000000, 4000000000000};

    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++) {
            assert_int_equal(
                expired(walls[i], 2, 5000, walls[k], 5000 + hour_ms - 1), 0);
            assert_int_equal(
                expired(walls[i], 2, 5000, walls[k], 5000 + hour_ms), 300);
        }
}

/* By the wall clock, if it was set then and is now, and did not go back. */
static void test_purge_keep_across_boots_goes_by_a_trusted_clock(void **state)
{
    (void)state;
    assert_int_equal(expired(now_ms - hour_ms, 1, 1, now_ms, 0), 300);
    assert_int_equal(expired(now_ms - hour_ms + 1, 1, 1, now_ms, 0), 0);
    /* 1970 then, 1970 now, fast then */
    assert_int_equal(expired(20000, 1, 1, now_ms, 0), 0);
    assert_int_equal(expired(now_ms - 9 * hour_ms, 1, 1, 20000, 0), 0);
    assert_int_equal(expired(now_ms + 9 * hour_ms, 1, 1, now_ms, 0), 0);
}

/* What another boot wrote is as old as this boot at least: nothing stays for
 * ever, whatever the clocks were. */
static void test_purge_keep_across_boots_ages_with_this_boot(void **state)
{
    (void)state;
    assert_int_equal(expired(20000, 1, 1, 20000, hour_ms - 1), 0);
    assert_int_equal(expired(20000, 1, 1, 20000, hour_ms), 300);
    assert_int_equal(expired(now_ms + hour_ms, 1, 1, now_ms, hour_ms), 300);
}

/* An entry before one that is old is older. */
static void test_purge_keep_an_untrusted_entry_goes_with_a_later_one(
    void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 600, 0);
    temp_db_settle_all(&t, "main", 300);
    add_ack(&t, 100, 20000);
    add_ack(&t, 200, now_ms - 2 * hour_ms);
    add_ack(&t, 300, now_ms);
    assert_int_equal(purge_all(&t, hour_ms), 200);
    temp_db_close(&t);
}

static void test_purge_keep_rows_of_each_lane_by_number(void **state)
{
    (void)state;
    struct temp_db t;
    struct moment at = now();

    temp_db_open(&t);
    temp_db_put(&t, 400, 0);
    temp_db_put(&t, 200, 1);
    temp_db_put(&t, 400, 0);
    temp_db_settle(&t, "main", 0, 700);
    temp_db_settle(&t, "main", 1, 450);
    (void)purge_by(&t, (struct purge){.keep_rows = 50}, &at);
    assert_int_equal(LANE(0, "min(seq)"), 651);
    assert_int_equal(LANE(1, "min(seq)"), 401);
    temp_db_settle(&t, "main", 1, 600);
    (void)purge_by(&t, (struct purge){.keep_rows = 50}, &at);
    assert_int_equal(LANE(1, "min(seq)"), 551);
    /* more than there are */
    assert_int_equal(
        purge_by(&t, (struct purge){.keep_rows = 4000000000}, &at), 0);
    temp_db_close(&t);
}

static void test_purge_keeps_what_either_keeps(void **state)
{
    (void)state;
    struct temp_db t;
    struct moment at = now();

    temp_db_open(&t);
    temp_db_put(&t, 600, 0);
    temp_db_settle_all(&t, "main", 300);
    add_ack(&t, 200, now_ms - 2 * hour_ms);
    add_ack(&t, 300, now_ms);
    assert_int_equal(
        purge_by(&t, (struct purge){.keep_ms = hour_ms, .keep_rows = 150}, &at),
        150);
    assert_int_equal(
        purge_by(&t, (struct purge){.keep_ms = hour_ms, .keep_rows = 10}, &at),
        50);
    temp_db_close(&t);
}

static void test_purge_acks_of_purged_rows_go_without_keep(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 600, 0);
    temp_db_settle_all(&t, "main", 300);
    add_ack(&t, 100, now_ms);
    add_ack(&t, 310, now_ms);
    temp_db_run(&t, "INSERT INTO outbox_late VALUES ('main', 0, 300, 1, 2),"
                    " ('main', 0, 301, 1, 2)");
    assert_int_equal(purge_all(&t, 0), 300);
    assert_int_equal(temp_db_get(&t, "SELECT min(upto) FROM outbox_acks"), 310);
    assert_int_equal(temp_db_get(&t, "SELECT sum(seq) FROM outbox_late"), 301);
    temp_db_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_purge_keep_rows_until_their_ack_is_old),
        cmocka_unit_test(
            test_purge_keep_passes_more_entries_than_one_step_reads),
        cmocka_unit_test(test_purge_keep_within_a_boot_goes_by_boottime),
        cmocka_unit_test(test_purge_keep_across_boots_goes_by_a_trusted_clock),
        cmocka_unit_test(test_purge_keep_across_boots_ages_with_this_boot),
        cmocka_unit_test(
            test_purge_keep_an_untrusted_entry_goes_with_a_later_one),
        cmocka_unit_test(test_purge_keep_rows_of_each_lane_by_number),
        cmocka_unit_test(test_purge_keeps_what_either_keeps),
        cmocka_unit_test(test_purge_acks_of_purged_rows_go_without_keep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
