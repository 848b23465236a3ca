/* SPDX-License-Identifier: MIT */
/* What waited for longer than it was valid is dead, and no handler sees it. */
#include "inbox_script.h"

static void deliver_for(struct inbox_world *w, const char *id, uint32_t s)
{
    const struct postbag_property p = {"id", id};
    const struct postbag_frame f = {.topic = "cmd/a",
        .payload = "go",
        .payload_len = 2,
        .properties = &p,
        .property_count = 1,
        .expiry_s = s};

    assert_int_equal(
        postbag__receiver_accept(w->receiver, w->generation, &f), POSTBAG_OK);
}

static void reboot(struct inbox_world *w)
{
    w->boot++;
    w->mono_us = 1000000;
    world_restart(w);
}

static void test_handling_expiry_in_time_is_handled(void **state)
{
    struct inbox_world *w = *state;

    deliver_for(w, "1", 10);
    world_pass_ms(w, 9999);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 1);
    deliver_for(w, "2", 0);
    world_pass_ms(w, INT64_C(100000000000));
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 2);
}

static void test_handling_expiry_too_late_is_dead_unseen(void **state)
{
    struct inbox_world *w = *state;

    deliver_for(w, "1", 10);
    deliver_for(w, "2", 20);
    world_pass_ms(w, 10000);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.ran, 0);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox WHERE state = 'dead'"
                           " AND error LIKE 'expired%' AND attempts = 0"
                           " AND payload NOT NULL AND processed_ms NOT NULL"),
        1);
    assert_int_equal(world_run_one(w), 1);
    assert_string_equal(script.ids, "2 ");
}

/* A retry is a turn like any other. */
static void test_handling_expiry_counts_between_two_tries(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_RETRY;
    deliver_for(w, "1", 1);
    assert_int_equal(world_run_one(w), 1);
    world_pass_ms(w, WORLD_RETRY_BASE_MS);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.ran, 1);
    assert_int_equal(in_state(w, "dead"), 1);
}

static void test_handling_expiry_does_not_follow_a_clock_that_jumps(
    void **state)
{
    struct inbox_world *w = *state;

    w->wall_ms = 60000; /* 1970 */
    deliver_for(w, "1", 10);
    w->wall_ms = INT64_C(1800000000000);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 1);
}

static void test_handling_expiry_over_a_reboot(void **state)
{
    struct inbox_world *w = *state;

    deliver_for(w, "1", 3600);
    w->wall_ms += 3600000;
    reboot(w);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "dead"), 1);
    assert_int_equal(script.ran, 0);
}

/* Without a clock it is at least as old as this boot, and no older. */
static void test_handling_expiry_over_a_reboot_without_a_clock(void **state)
{
    struct inbox_world *w = *state;

    deliver_for(w, "1", 10);
    deliver_for(w, "2", 20);
    w->wall_ms = 60000;
    reboot(w);
    w->mono_us = 10000000;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.ran, 0);
    assert_int_equal(world_run_one(w), 1);
    assert_string_equal(script.ids, "2 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_handling_expiry_in_time_is_handled),
        TEST(test_handling_expiry_too_late_is_dead_unseen),
        TEST(test_handling_expiry_counts_between_two_tries),
        TEST(test_handling_expiry_does_not_follow_a_clock_that_jumps),
        TEST(test_handling_expiry_over_a_reboot),
        TEST(test_handling_expiry_over_a_reboot_without_a_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
