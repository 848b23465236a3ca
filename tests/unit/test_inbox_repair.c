/* SPDX-License-Identifier: MIT */
/* What an operator makes of commands: handled again in their old place, or
 * given up and still known. */
#include "inbox_repair.h"

#include "inbox_script.h"

static int64_t repair(struct inbox_world *w,
    const struct postbag_inbox_choice *which, int discard)
{
    const struct moment now = {.wall_ms = 7, .mono_ms = 8, .boot = {9}};
    int64_t count = -1;

    assert_int_equal(postbag__begin(&w->t.db, DB_FULL), POSTBAG_OK);
    assert_int_equal(discard
                         ? postbag__inbox_discard(&w->t.db, which, &now, &count)
                         : postbag__inbox_requeue(&w->t.db, which, &count),
        POSTBAG_OK);
    assert_int_equal(postbag__commit(&w->t.db), POSTBAG_OK);
    return count;
}

static const struct postbag_inbox_choice all;

static struct postbag_inbox_choice by_id(const char *id)
{
    const struct postbag_inbox_choice c = {.id = id, .id_len = strlen(id)};

    return c;
}

/* Commands 1 to n of key k, all rejected. */
static void reject(struct inbox_world *w, int n)
{
    script.outcome = POSTBAG_REJECT;
    for (int i = 1; i <= n; i++) {
        char id[2] = {(char)('0' + i), '\0'};

        world_deliver(w, id, "k");
        assert_int_equal(world_run_one(w), 1);
    }
    assert_int_equal(in_state(w, "dead"), n);
    script.outcome = POSTBAG_DONE;
    script.ids[0] = '\0';
}

static void run_all(struct inbox_world *w)
{
    while (world_run_one(w))
        ;
}

static void test_inbox_repair_requeued_is_handled_in_its_old_place(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_inbox_choice one = by_id("2");

    reject(w, 3);
    world_deliver(w, "4", "k");
    assert_int_equal(repair(w, &one, 0), 1);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT attempts FROM inbox WHERE id = '2'"
                           " AND state = 'due' AND processed_ms IS NULL"),
        0);
    run_all(w);
    assert_string_equal(script.ids, "2 4 ");
    assert_int_equal(in_state(w, "dead"), 2);
    /* it kept its id */
    world_deliver(w, "2", "k");
    run_all(w);
    assert_int_equal(effects(w), 2);
}

static void test_inbox_repair_all_takes_only_what_is_dead(void **state)
{
    struct inbox_world *w = *state;
    struct postbag_inbox_choice of_b = {.consumer = "b"};

    reject(w, 2);
    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "3", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(repair(w, &of_b, 0), 0);
    assert_int_equal(repair(w, &all, 0), 2);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"
                                        " WHERE state = 'due' AND id = '3'"
                                        " AND due_ms NOT NULL"),
        1);
}

static void test_inbox_repair_named_retry_is_hurried(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_inbox_choice one = by_id("1");

    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(repair(w, &one, 0), 1);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.attempt, 2);
}

static void test_inbox_repair_without_payload_stays_dead(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_inbox_choice one = {.arrival = 1};

    reject(w, 1);
    temp_db_run(&w->t, "UPDATE inbox SET payload = NULL");
    assert_int_equal(repair(w, &one, 0), 0);
    assert_int_equal(in_state(w, "dead"), 1);
}

static void test_inbox_repair_done_is_never_handled_again(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_inbox_choice one = {.arrival = 1};

    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(repair(w, &one, 0), 0);
    assert_int_equal(repair(w, &all, 0), 0);
    assert_int_equal(repair(w, &one, 1), 0);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT processed_ms FROM inbox"), w->wall_ms);
}

static void test_inbox_repair_discarded_is_still_a_duplicate(void **state)
{
    struct inbox_world *w = *state;

    reject(w, 2);
    assert_int_equal(repair(w, &all, 1), 2);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox WHERE state = 'done'"
                           " AND error = 'discarded' AND payload IS NULL"
                           " AND headers IS NULL AND processed_ms = 7"
                           " AND mono_ms = 8 AND substr(boot, 1, 1) = x'09'"),
        2);
    world_deliver(w, "1", "k");
    run_all(w);
    assert_int_equal(effects(w), 0);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"), 2);
}

static void test_inbox_repair_discard_lets_its_key_go_on(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_inbox_choice one = by_id("1");

    script.refuse = "1";
    world_deliver(w, "1", "k");
    world_deliver(w, "2", "k");
    run_all(w);
    assert_int_equal(repair(w, &all, 1), 0);
    assert_int_equal(repair(w, &one, 1), 1);
    run_all(w);
    assert_string_equal(script.ids, "1 2 ");
}

/* Whoever claimed a request finishes it. */
static void test_inbox_repair_leaves_claims_alone(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_inbox_choice one = by_id("1");

    temp_db_run(&w->t, "INSERT INTO inbox(consumer, id, state, received_ms)"
                       " VALUES ('http', '1', 'claimed', 1)");
    assert_int_equal(repair(w, &one, 0), 0);
    assert_int_equal(repair(w, &one, 1), 0);
    assert_int_equal(in_state(w, "claimed"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_inbox_repair_requeued_is_handled_in_its_old_place),
        TEST(test_inbox_repair_all_takes_only_what_is_dead),
        TEST(test_inbox_repair_named_retry_is_hurried),
        TEST(test_inbox_repair_without_payload_stays_dead),
        TEST(test_inbox_repair_done_is_never_handled_again),
        TEST(test_inbox_repair_discarded_is_still_a_duplicate),
        TEST(test_inbox_repair_discard_lets_its_key_go_on),
        TEST(test_inbox_repair_leaves_claims_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
