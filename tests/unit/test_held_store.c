/* SPDX-License-Identifier: MIT */
/* The SQL of held rows: copies that outlive the log, due times, keys. */
#include <sqlite3.h>

#include "held_shelf.h"

static const uint8_t other_boot[16] = {2};

/* seqs that are due, in the order of their time */
static const char *due_at(struct shelf *s, const struct due *now)
{
    static char out[100];
    size_t used = 0;
    int64_t skip = 0;
    int err;

    out[0] = '\0';
    while ((err = postbag__held_due(&s->h, 0, skip, now, &s->arena, &s->row)) ==
           1) {
        skip++;
        used += (size_t)snprintf(out + used, sizeof(out) - used, "%s%d",
            used == 0 ? "" : " ", (int)s->row.seq);
    }
    assert_ok(err);
    return out;
}

static void test_held_copy_outlives_the_log(void **state)
{
    struct shelf *s = *state;

    hold(s, 1, "retry", 500);
    sql_run(s->t.app, "DELETE FROM outbox WHERE seq = 1");
    assert_int_equal(
        postbag__held_fetch(&s->h, 1, &s->arena, &s->row, &s->attempts), 1);
    assert_string_equal(s->row.topic, "1");
    assert_memory_equal(s->row.payload, "p1", 2);
    assert_string_equal(s->row.key, "a");
    assert_int_equal(s->attempts, 1);
    assert_int_equal(
        postbag__held_fetch(&s->h, 9, &s->arena, &s->row, &s->attempts), 0);
}

static void test_held_twice_is_held_once(void **state)
{
    struct shelf *s = *state;

    hold(s, 1, "retry", 500);
    hold(s, 1, "dead", 0);
    assert_string_equal(states(s), "1|retry|1");
    assert_int_equal(postbag__held_exists(&s->h, 1), 1);
    assert_int_equal(postbag__held_exists(&s->h, 2), 0);
}

static void test_held_stats_count_what_is_still_to_be_sent(void **state)
{
    struct shelf *s = *state;
    struct held_stats stats;

    assert_ok(postbag__held_stats(&s->h, &stats));
    assert_int_equal(stats.newest, 0);
    assert_int_equal(stats.live, 0);
    hold(s, 1, "retry", 500);
    hold(s, 4, "behind", 0);
    hold(s, 5, "dead", 0);
    assert_ok(postbag__held_stats(&s->h, &stats));
    assert_int_equal(stats.newest, 5);
    assert_int_equal(stats.live, 2);
    assert_int_equal(stats.live_bytes, 6);
    assert_int_equal(stats.dead, 1);
    assert_int_equal(stats.dead_bytes, 3);
}

static int before(struct shelf *s, int64_t seq)
{
    return postbag__held_before(&s->h, seq, 2);
}

static void test_held_key_holds_back_later_rows_of_its_lane_only(void **state)
{
    struct shelf *s = *state;

    hold(s, 2, "retry", 500);
    assert_int_equal(before(s, 6), 1);
    assert_int_equal(before(s, 1), 0); /* older */
    assert_int_equal(before(s, 3), 0); /* key b */
    assert_int_equal(before(s, 4), 0); /* lane 1 */
    assert_int_equal(before(s, 5), 0); /* no key */
    assert_ok(postbag__held_bury(&s->h, 2, "no", 88, NULL));
    assert_int_equal(before(s, 6), 0); /* dead */
}

static void test_held_rows_before_are_counted_up_to_a_bound(void **state)
{
    struct shelf *s = *state;

    sql_run(s->t.app,
        "INSERT INTO outbox(topic, payload, key) VALUES ('7', 'p7', 'a')");
    hold(s, 1, "retry", 500);
    hold(s, 2, "behind", 0);
    hold(s, 6, "behind", 0);
    assert_int_equal(before(s, 2), 1);
    assert_int_equal(before(s, 6), 2);
    assert_int_equal(before(s, 7), 2);
}

static void test_held_rows_come_due_by_boot_and_time(void **state)
{
    struct shelf *s = *state;
    struct due now = at(500);
    const struct due rebooted = {.boot = other_boot, .ms = 1};

    hold(s, 1, "retry", 500);
    hold(s, 3, "retry", 700);
    hold(s, 5, "retry", 300);
    hold(s, 6, "behind", 0);
    assert_string_equal(due_at(s, &now), "5 1");
    now = at(299);
    assert_string_equal(due_at(s, &now), "");
    assert_string_equal(due_at(s, &rebooted), "5 1 3");
}

static void test_held_next_due_is_the_earliest(void **state)
{
    struct shelf *s = *state;
    struct due now = at(100);
    const struct due rebooted = {.boot = other_boot, .ms = 1};
    int64_t ms;

    assert_ok(postbag__held_next_due(&s->h, &now, &ms));
    assert_int_equal(ms, INT64_MAX);
    hold(s, 1, "retry", 500);
    hold(s, 3, "retry", 400);
    hold(s, 5, "dead", 0);
    assert_ok(postbag__held_next_due(&s->h, &now, &ms));
    assert_int_equal(ms, 400);
    assert_ok(postbag__held_next_due(&s->h, &rebooted, &ms));
    assert_int_equal(ms, 1); /* now */
}

static void test_held_deadline_that_was_never_set_so_far_has_come(void **state)
{
    struct shelf *s = *state;
    struct due now = at(100);
    int64_t ms;

    hold(s, 1, "retry", 1100);
    assert_string_equal(due_at(s, &now), "");
    hold(s, 3, "retry", 1101);
    assert_string_equal(due_at(s, &now), "3");
    assert_ok(postbag__held_next_due(&s->h, &now, &ms));
    assert_int_equal(ms, 100);
    now = at(101);
    assert_ok(postbag__held_next_due(&s->h, &now, &ms));
    assert_int_equal(ms, 1100);
}

static void test_held_looks_for_what_is_due_are_seeks(void **state)
{
    struct shelf *s = *state;
    const struct stmt *const all[] = {&s->h.due, &s->h.next_due};

    for (size_t i = 0; i < COUNT(all); i++) {
        const char *plan = sql_text(s->t.app, "EXPLAIN QUERY PLAN %s",
            sqlite3_sql((sqlite3_stmt *)(void *)all[i]->handle));

        assert_has(plan, "(dest=? AND priority=? AND due_boot=? AND due_ms>?)");
        assert_has(plan, "(dest=? AND priority=? AND due_boot<?)");
        assert_null(strstr(plan, "SCAN outbox_held"));
        assert_null(strstr(plan, "(dest=? AND priority=?)"));
    }
}

static void test_held_again_charges_and_plans(void **state)
{
    struct shelf *s = *state;
    const struct due later = at(900);
    int64_t ms;

    hold(s, 1, "retry", 500);
    assert_ok(postbag__held_again(&s->h, 1, &later, "still no"));
    assert_string_equal(states(s), "1|retry|2");
    assert_string_equal(
        sql_text(s->t.app, "SELECT error FROM outbox_held"), "still no");
    assert_ok(postbag__held_next_due(&s->h, &later, &ms));
    assert_int_equal(ms, 900);
}

/* Whatever ends the wait of the oldest; row 2 waits for it, then row 6. */
static int bury(struct shelf *s, int64_t seq)
{
    return postbag__held_bury(&s->h, seq, "no", 88, NULL);
}

static int deliver(struct shelf *s, int64_t seq)
{
    return postbag__held_deliver(&s->h, seq, 88);
}

static int drop(struct shelf *s, int64_t seq)
{
    return postbag__held_drop(&s->h, seq, "ttl", 88);
}

static void test_held_end_of_a_wait_wakes_the_oldest_behind(void **state)
{
    static const struct {
        int (*end)(struct shelf *s, int64_t seq);
        const char *outcome;
    } all[] = {
        {bury, "1|dead|2 2|retry|1 6|behind|1"},
        {deliver, "2|retry|1 6|behind|1"},
        {drop, "2|retry|1 6|behind|1"},
    };
    struct shelf *s = *state;
    const struct due now = at(1);

    for (size_t i = 0; i < COUNT(all); i++) {
        sql_run(s->t.app, "DELETE FROM outbox_held");
        hold(s, 1, "retry", 500);
        hold(s, 2, "behind", 0);
        hold(s, 6, "behind", 0);
        assert_ok(all[i].end(s, 1));
        assert_string_equal(states(s), all[i].outcome);
        assert_string_equal(due_at(s, &now), "2");
    }
}

/* Row 2 waits for another one than the one that ends. */
static void test_held_end_of_another_wait_wakes_nobody(void **state)
{
    static const int64_t others[] = {3, 4, 5, 6, 9};
    struct shelf *s = *state;

    for (size_t i = 0; i < COUNT(others); i++) {
        sql_run(s->t.app, "DELETE FROM outbox_held");
        hold(s, 1, "retry", 500);
        hold(s, 2, "behind", 0);
        hold(s, others[i], "dead", 0);
        assert_ok(drop(s, others[i]));
        assert_string_equal(states(s), "1|retry|1 2|behind|1");
    }
}

static void test_held_deliver_removes_and_counts_once(void **state)
{
    struct shelf *s = *state;
    static const char counted[] =
        "SELECT delivered FROM outbox_cursor WHERE lane = 1";

    hold(s, 4, "retry", 500);
    assert_ok(postbag__held_deliver(&s->h, 4, 88));
    assert_string_equal(states(s), "");
    assert_int_equal(sql_get(s->t.app, counted), 1);
    assert_ok(postbag__held_deliver(&s->h, 4, 88));
    assert_int_equal(sql_get(s->t.app, counted), 1);
}

static void test_held_drop_removes_counts_and_records_once(void **state)
{
    struct shelf *s = *state;

    hold(s, 4, "dead", 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(postbag__held_drop(&s->h, 4, "ttl", 90 + i));
        assert_string_equal(states(s), "");
        assert_string_equal(
            sql_text(s->t.app,
                "SELECT lane, dropped, lo, hi, n, bytes, reason, at_ms"
                " FROM outbox_cursor JOIN outbox_lost USING (dest)"
                " WHERE dropped > 0"),
            "1|1|4|4|1|3|ttl|90");
    }
}

static void test_held_rows_of_other_destinations_are_not_seen(void **state)
{
    struct shelf *s = *state;
    struct lost_store lost;
    struct held_store cloud;
    struct held_stats stats;
    const struct due now = at(900);

    hold(s, 1, "retry", 500);
    assert_ok(postbag__lost_open(&lost, &s->db, "cloud"));
    assert_ok(postbag__held_open(&cloud, &s->db, &lost));
    assert_ok(postbag__held_stats(&cloud, &stats));
    assert_int_equal(stats.live, 0);
    assert_int_equal(postbag__held_exists(&cloud, 1), 0);
    assert_int_equal(postbag__held_before(&cloud, 2, 9), 0);
    assert_int_equal(
        postbag__held_due(&cloud, 0, 0, &now, &s->arena, &s->row), 0);
    postbag__held_close(&cloud);
    postbag__lost_close(&lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_held_copy_outlives_the_log),
        TEST_IN(test_held_twice_is_held_once),
        TEST_IN(test_held_stats_count_what_is_still_to_be_sent),
        TEST_IN(test_held_key_holds_back_later_rows_of_its_lane_only),
        TEST_IN(test_held_rows_before_are_counted_up_to_a_bound),
        TEST_IN(test_held_rows_come_due_by_boot_and_time),
        TEST_IN(test_held_deadline_that_was_never_set_so_far_has_come),
        TEST_IN(test_held_looks_for_what_is_due_are_seeks),
        TEST_IN(test_held_next_due_is_the_earliest),
        TEST_IN(test_held_again_charges_and_plans),
        TEST_IN(test_held_end_of_a_wait_wakes_the_oldest_behind),
        TEST_IN(test_held_end_of_another_wait_wakes_nobody),
        TEST_IN(test_held_deliver_removes_and_counts_once),
        TEST_IN(test_held_drop_removes_counts_and_records_once),
        TEST_IN(test_held_rows_of_other_destinations_are_not_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
