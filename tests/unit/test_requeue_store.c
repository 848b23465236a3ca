/* SPDX-License-Identifier: MIT */
/* Dead rows come back, and line up behind the older ones of their key. */
#include "requeue_store.h"

#include "held_rows.h"

static int64_t requeue(
    struct world *w, const char *dest, int64_t seq, const struct postbag_id *id)
{
    int64_t count = -1;

    assert_ok(postbag__begin(&w->db, DB_FULL));
    assert_ok(postbag__requeue(&w->db, dest, seq, id, &count));
    assert_ok(postbag__commit(&w->db));
    return count;
}

static void test_requeue_one_is_due_at_once_as_if_new(void **state)
{
    struct world *w = *state;

    hold(w, "main", 1, "dead", "", 0);
    hold(w, "main", 2, "dead", "", 0);
    assert_int_equal(requeue(w, "main", 2, NULL), 1);
    assert_string_equal(states(w), "1|dead 2|retry");
    assert_string_equal(
        sql_text(w->t.app, "SELECT attempts, due_boot, due_ms, dead_ms, deaths"
                           " FROM outbox_held WHERE seq = 2"),
        "0|NULL|NULL|NULL|0");
}

static void test_requeue_by_id_does_not_look_at_seq(void **state)
{
    struct world *w = *state;
    struct postbag_id id;

    memset(&id, 2, sizeof(id));
    hold(w, "main", 1, "dead", "", 0);
    hold(w, "main", 2, "dead", "", 0);
    assert_int_equal(requeue(w, "main", 1, &id), 1);
    assert_string_equal(states(w), "1|dead 2|retry");
}

static void test_requeue_all_takes_only_what_is_dead(void **state)
{
    struct world *w = *state;

    hold(w, "main", 1, "retry", "", 0);
    hold(w, "main", 2, "dead", "", 0);
    hold(w, "main", 3, "suspect", "", 0);
    hold(w, "main", 4, "dead", "", 0);
    hold(w, "main", 5, "behind", "k", 0);
    assert_int_equal(requeue(w, "main", 0, NULL), 2);
    assert_int_equal(
        sql_get(w->t.app, "SELECT sum(attempts) FROM outbox_held"), 3 * 5);
    assert_string_equal(
        states(w), "1|retry 2|retry 3|suspect 4|retry 5|behind");
}

static void test_requeue_by_name_hurries_what_is_tried_again(void **state)
{
    struct world *w = *state;
    struct postbag_id id;

    memset(&id, 2, sizeof(id));
    for (int seq = 1; seq <= 3; seq++)
        hold(w, "main", seq, "retry", "", 0);
    sql_run(w->t.app, "UPDATE outbox_held SET due_boot = zeroblob(16),"
                      " due_ms = 99, deaths = 5");
    assert_int_equal(requeue(w, "main", 1, NULL), 1);
    assert_int_equal(requeue(w, "main", 0, &id), 1);
    assert_int_equal(requeue(w, "main", 0, NULL), 0);
    assert_string_equal(
        sql_text(w->t.app, "SELECT group_concat(ifnull(due_ms, 'now')"
                           " || ' ' || attempts || ' ' || deaths)"
                           " FROM outbox_held ORDER BY seq"),
        "now 5 5,now 5 5,99 5 5");
}

static void test_requeue_what_is_not_dead_counts_none(void **state)
{
    struct world *w = *state;
    struct postbag_id id;

    memset(&id, 1, sizeof(id));
    hold(w, "main", 1, "behind", "k", 0);
    assert_int_equal(requeue(w, "main", 1, NULL), 0);
    assert_int_equal(requeue(w, "main", 99, NULL), 0);
    assert_int_equal(requeue(w, "main", 0, &id), 0);
}

static void test_requeue_leaves_other_destinations_alone(void **state)
{
    struct world *w = *state;

    hold(w, "main", 1, "dead", "", 0);
    hold(w, "other", 1, "dead", "", 0);
    hold(w, "other", 2, "dead", "", 0);
    assert_int_equal(requeue(w, "main", 0, NULL), 1);
    assert_int_equal(
        sql_get(w->t.app, "SELECT count(*) FROM outbox_held"
                          " WHERE dest = 'other' AND state = 'dead'"),
        2);
}

/* Whose row waits behind whose. */
static void test_requeue_only_the_oldest_of_a_key_is_tried(void **state)
{
    static const struct {
        const char *what, *one, *two, *key_one, *key_two, *outcome;
        int lane_one;
    } all[] = {
        {"both dead", "dead", "dead", "k", "k", "1|retry 2|behind", 0},
        {"older is tried", "retry", "dead", "k", "k", "1|retry 2|behind", 0},
        {"newer is tried", "dead", "retry", "k", "k", "1|retry 2|behind", 0},
        {"older waits", "behind", "dead", "k", "k", "1|behind 2|behind", 0},
        {"older is suspect", "suspect", "dead", "k", "k", "1|suspect 2|behind",
            0},
        {"other keys", "dead", "dead", "k", "l", "1|retry 2|retry", 0},
        {"no keys", "dead", "dead", "", "", "1|retry 2|retry", 0},
        {"other lanes", "dead", "dead", "k", "k", "1|retry 2|retry", 3},
    };
    struct world *w = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        sql_run(w->t.app, "DELETE FROM outbox_held");
        hold(w, "main", 1, all[i].one, all[i].key_one, all[i].lane_one);
        hold(w, "main", 2, all[i].two, all[i].key_two, 0);
        (void)requeue(w, "main", 0, NULL);
        if (strcmp(states(w), all[i].outcome) != 0)
            fail_msg("%s: %s", all[i].what, states(w));
    }
}

static void test_requeue_a_dead_row_before_it_holds_nobody_back(void **state)
{
    struct world *w = *state;

    hold(w, "main", 1, "dead", "k", 0);
    hold(w, "main", 2, "dead", "k", 0);
    assert_int_equal(requeue(w, "main", 2, NULL), 1);
    assert_string_equal(states(w), "1|dead 2|retry");
}

static void test_requeue_row_of_another_destination_holds_nobody_back(
    void **state)
{
    struct world *w = *state;

    hold(w, "other", 1, "retry", "k", 0);
    hold(w, "main", 2, "dead", "k", 0);
    assert_int_equal(requeue(w, "main", 0, NULL), 1);
    assert_string_equal(states(w), "2|retry");
}

static void test_requeue_without_the_table_is_an_error(void **state)
{
    struct world *w = *state;
    int64_t count;

    sql_run(w->t.app, "ALTER TABLE outbox_held RENAME TO gone");
    assert_int_equal(
        postbag__requeue(&w->db, "main", 0, NULL, &count), POSTBAG_ESCHEMA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_requeue_one_is_due_at_once_as_if_new),
        TEST_IN(test_requeue_by_id_does_not_look_at_seq),
        TEST_IN(test_requeue_all_takes_only_what_is_dead),
        TEST_IN(test_requeue_by_name_hurries_what_is_tried_again),
        TEST_IN(test_requeue_what_is_not_dead_counts_none),
        TEST_IN(test_requeue_leaves_other_destinations_alone),
        TEST_IN(test_requeue_only_the_oldest_of_a_key_is_tried),
        TEST_IN(test_requeue_a_dead_row_before_it_holds_nobody_back),
        TEST_IN(test_requeue_row_of_another_destination_holds_nobody_back),
        TEST_IN(test_requeue_without_the_table_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
