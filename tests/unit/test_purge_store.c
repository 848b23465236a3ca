/* SPDX-License-Identifier: MIT */
#include "purge_steps.h"

static void test_purge_nothing_settled_keeps_all(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 600, 0);
    assert_int_equal(purge_all(&t, 0), 0);
    assert_int_equal(rows(&t), 600);
    temp_db_close(&t);
}

static void test_purge_empty_log_does_nothing(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    assert_int_equal(purge_all(&t, 0), 0);
    assert_int_equal(temp_db_get(&t, "SELECT count(*) FROM outbox_sum"), 1);
    temp_db_close(&t);
}

static void test_purge_settled_rows_go_up_to_the_cursor(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 600, 0);
    temp_db_settle_all(&t, "main", 300);
    assert_int_equal(purge_all(&t, 0), 300);
    assert_int_equal(lowest(&t), 301);
    temp_db_close(&t);
}

static void test_purge_rows_above_the_last_sum_stay_and_are_counted(
    void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 500, 0);
    temp_db_settle_all(&t, "main", 500);
    assert_int_equal(purge_all(&t, 0), 256);
    assert_int_equal(lowest(&t), 257);
    temp_db_put(&t, 12, 0);
    assert_int_equal(
        temp_db_get(&t, "SELECT bytes FROM outbox_sum WHERE seq = 512"),
        /* 10 bytes of payload, and "t/" with 1, 2 or 3 digits */
        512 * 12 + 9 + 90 * 2 + 401 * 3 + 9 + 3 * 2);
    temp_db_close(&t);
}

static void test_purge_newest_row_on_a_sum_boundary_stays(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 512, 0);
    temp_db_settle_all(&t, "main", 512);
    assert_int_equal(purge_all(&t, 0), 511);
    assert_int_equal(lowest(&t), 512);
    temp_db_put(&t, 1, 0);
    assert_int_equal(temp_db_get(&t, "SELECT max(seq) FROM outbox"), 513);
    assert_int_equal(purge_all(&t, 0), 1);
    assert_int_equal(lowest(&t), 513);
    temp_db_close(&t);
}

static void test_purge_slowest_destination_decides(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    assert_int_equal(postbag__schema_add_dest(&t.db, "cloud"), POSTBAG_OK);
    temp_db_put(&t, 600, 0);
    temp_db_settle_all(&t, "main", 600);
    temp_db_settle_all(&t, "cloud", 100);
    assert_int_equal(purge_all(&t, 0), 100);
    temp_db_settle_all(&t, "cloud", 512);
    assert_int_equal(purge_all(&t, 0), 412);
    assert_int_equal(lowest(&t), 513);
    temp_db_close(&t);
}

static void test_purge_later_destination_does_not_need_older_rows(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 600, 0);
    /* "from now" */
    temp_db_run(&t, "INSERT INTO outbox_dest(name, first_seq)"
                    " VALUES ('cloud', 401)");
    temp_db_settle_all(&t, "main", 600);
    assert_int_equal(purge_all(&t, 0), 400);
    temp_db_close(&t);
}

static void test_purge_without_destination_keeps_all(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 600, 0);
    temp_db_run(&t, "DELETE FROM outbox_dest");
    assert_int_equal(purge_all(&t, 0), 0);
    temp_db_close(&t);
}

static void test_purge_each_lane_has_its_own_limit(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    for (int i = 0; i < 150; i++)
        for (int lane = 0; lane < 4; lane++)
            temp_db_put(&t, 1, lane);
    temp_db_settle(&t, "main", 0, 100);
    temp_db_settle(&t, "main", 1, 200);
    temp_db_settle(&t, "main", 3, 600);
    (void)purge_all(&t, 0);
    assert_int_equal(LANE(0, "min(seq)"), 101);
    assert_int_equal(LANE(1, "min(seq)"), 202);
    assert_int_equal(LANE(2, "count(*)"), 150);
    assert_int_equal(LANE(3, "min(seq)"), 516); /* the sum of 512 */
    temp_db_close(&t);
}

static void test_purge_step_is_bounded_and_tells_of_more(void **state)
{
    (void)state;
    struct temp_db t;
    struct purge p = {.max_rows = 64};

    temp_db_open(&t);
    temp_db_put(&t, 300, 0);
    temp_db_settle_all(&t, "main", 128);
    step(&t, &p);
    assert_int_equal(p.deleted, 64);
    assert_true(p.more);
    step(&t, &p);
    assert_int_equal(p.deleted, 64);
    assert_true(p.more);
    step(&t, &p);
    assert_int_equal(p.deleted, 0);
    assert_false(p.more);
    temp_db_close(&t);
}

static void test_purge_budget_is_shared_by_the_lanes(void **state)
{
    (void)state;
    struct temp_db t;
    struct purge p = {.max_rows = 64};

    temp_db_open(&t);
    temp_db_put(&t, 50, 2);
    temp_db_put(&t, 50, 1);
    temp_db_put(&t, 200, 0);
    temp_db_settle_all(&t, "main", 300);
    step(&t, &p);
    assert_int_equal(p.deleted, 64);
    assert_int_equal(LANE(2, "count(*)"), 0);
    assert_int_equal(LANE(1, "count(*)"), 36);
    assert_int_equal(LANE(0, "count(*)"), 200);
    assert_true(p.more);
    temp_db_close(&t);
}

/* 1000 urgent rows wait at the low end: passed once, then never seen again. */
static void test_purge_pinned_low_end_is_passed_once(void **state)
{
    (void)state;
    struct temp_db t;
    struct purge p = {.max_rows = 100};
    int steps = 0;

    temp_db_open(&t);
    temp_db_put(&t, 1000, 3);
    temp_db_put(&t, 300, 0);
    temp_db_settle(&t, "main", 0, 1100);
    do {
        step(&t, &p);
        steps++;
    } while (p.more);
    assert_int_equal(LANE(0, "min(seq)"), 1101);
    assert_in_range(steps, 11, 13);
    assert_int_equal(p.from[0], 1100);
    temp_db_settle(&t, "main", 0, 1150);
    step(&t, &p);
    assert_int_equal(p.deleted, 50);
    assert_int_equal(LANE(3, "count(*)"), 1000);
    temp_db_close(&t);
}

static void test_purge_held_copies_stay(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 300, 0);
    temp_db_run(&t,
        "INSERT INTO outbox_held(dest, seq, state, id, topic, payload,"
        "  priority, retain, created_ms)"
        " SELECT 'main', seq, 'dead', id, topic, payload, priority, retain,"
        "  created_ms FROM outbox WHERE seq = 7");
    temp_db_settle_all(&t, "main", 300);
    assert_int_equal(purge_all(&t, 0), 256);
    assert_int_equal(temp_db_get(&t, "SELECT seq FROM outbox_held"), 7);
    temp_db_close(&t);
}

static void test_purge_sums_below_the_lowest_row_go_but_one(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    temp_db_put(&t, 2000, 0);
    temp_db_settle_all(&t, "main", 1300);
    (void)purge_all(&t, 0);
    assert_int_equal(temp_db_get(&t, "SELECT min(seq) FROM outbox_sum"), 1280);
    assert_int_equal(temp_db_get(&t, "SELECT max(seq) FROM outbox_sum"), 1792);
    temp_db_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_purge_nothing_settled_keeps_all),
        cmocka_unit_test(test_purge_empty_log_does_nothing),
        cmocka_unit_test(test_purge_settled_rows_go_up_to_the_cursor),
        cmocka_unit_test(
            test_purge_rows_above_the_last_sum_stay_and_are_counted),
        cmocka_unit_test(test_purge_newest_row_on_a_sum_boundary_stays),
        cmocka_unit_test(test_purge_slowest_destination_decides),
        cmocka_unit_test(test_purge_later_destination_does_not_need_older_rows),
        cmocka_unit_test(test_purge_without_destination_keeps_all),
        cmocka_unit_test(test_purge_each_lane_has_its_own_limit),
        cmocka_unit_test(test_purge_step_is_bounded_and_tells_of_more),
        cmocka_unit_test(test_purge_budget_is_shared_by_the_lanes),
        cmocka_unit_test(test_purge_pinned_low_end_is_passed_once),
        cmocka_unit_test(test_purge_held_copies_stay),
        cmocka_unit_test(test_purge_sums_below_the_lowest_row_go_but_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
