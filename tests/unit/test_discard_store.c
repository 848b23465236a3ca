/* SPDX-License-Identifier: MIT */
/* A held row leaves for good: it is told of, and the next of its key goes. */
#include "discard_store.h"

#include "held_rows.h"

static int discard(struct world *w, int64_t seq, const struct postbag_id *id)
{
    int err;

    assert_ok(postbag__begin(&w->db, DB_FULL));
    err = postbag__discard(&w->db, "main", seq, id, 77);
    assert_ok(postbag__commit(&w->db));
    return err;
}

static void test_discard_is_told_and_counted(void **state)
{
    struct world *w = *state;

    hold(w, "main", 3, "dead", "", 2);
    hold(w, "other", 3, "dead", "", 2);
    assert_ok(discard(w, 3, NULL));
    assert_string_equal(states(w), "");
    assert_string_equal(sql_text(w->t.app, "SELECT * FROM outbox_lost"),
        "main|3|3|1|4|discarded|1|77");
    assert_string_equal(
        sql_text(w->t.app, "SELECT lane, dropped FROM outbox_cursor"
                           " WHERE dest = 'main' ORDER BY lane"),
        "0|0 1|0 2|1 3|0");
    assert_int_equal(sql_get(w->t.app, "SELECT count(*) FROM outbox_held"), 1);
}

static void test_discard_by_id_does_not_look_at_seq(void **state)
{
    struct world *w = *state;
    struct postbag_id id;

    memset(&id, 2, sizeof(id));
    hold(w, "main", 1, "dead", "", 0);
    hold(w, "main", 2, "dead", "", 0);
    assert_ok(discard(w, 1, &id));
    assert_string_equal(states(w), "1|dead");
}

/* The first row of key k, what is 2 to 4, and what is left without it. */
static void test_discard_lets_the_next_of_its_key_go(void **state)
{
    static const struct {
        const char *what, *states[4], *key_two, *outcome;
        int lane_two, seq;
    } all[] = {
        {"head", {"retry", "behind", "behind", "behind"}, "k",
            "2|retry 3|behind 4|behind", 0, 1},
        {"suspect head", {"suspect", "behind", "behind", "behind"}, "k",
            "2|retry 3|behind 4|behind", 0, 1},
        {"the next is dead", {"retry", "dead", "behind", "behind"}, "k",
            "2|dead 3|retry 4|behind", 0, 1},
        {"in the middle", {"retry", "behind", "behind", "behind"}, "k",
            "1|retry 3|behind 4|behind", 0, 2},
        {"a dead one of a waiting key", {"dead", "retry", "behind", "behind"},
            "k", "2|retry 3|behind 4|behind", 0, 1},
        {"another key", {"retry", "behind", "behind", "behind"}, "l",
            "2|behind 3|retry 4|behind", 0, 1},
        {"another lane", {"retry", "behind", "behind", "behind"}, "k",
            "2|behind 3|retry 4|behind", 1, 1},
    };
    struct world *w = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        sql_run(w->t.app, "DELETE FROM outbox_held");
        for (int n = 0; n < 4; n++)
            hold(w, "main", n + 1, all[i].states[n],
                n == 1 ? all[i].key_two : "k", n == 1 ? all[i].lane_two : 0);
        assert_ok(discard(w, all[i].seq, NULL));
        if (strcmp(states(w), all[i].outcome) != 0)
            fail_msg("%s: %s", all[i].what, states(w));
    }
}

static void test_discard_makes_the_next_due_at_once(void **state)
{
    struct world *w = *state;

    hold(w, "main", 1, "retry", "k", 0);
    hold(w, "main", 2, "behind", "k", 0);
    assert_ok(discard(w, 1, NULL));
    assert_string_equal(
        sql_text(w->t.app, "SELECT due_boot, due_ms FROM outbox_held"),
        "NULL|NULL");
}

static void test_discard_what_is_not_held_changes_nothing(void **state)
{
    struct world *w = *state;

    hold(w, "other", 1, "dead", "", 0);
    assert_int_equal(discard(w, 1, NULL), POSTBAG_ENOTFOUND);
    assert_int_equal(sql_get(w->t.app, "SELECT count(*) FROM outbox_lost"), 0);
}

static void test_discard_before_the_cursor_is_past_it_is_refused(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "UPDATE outbox_cursor SET acked = 1 WHERE lane = 0");
    hold(w, "main", 2, "dead", "", 0);
    assert_int_equal(discard(w, 2, NULL), POSTBAG_EAGAIN);
    assert_string_equal(states(w), "2|dead");
    assert_int_equal(sql_get(w->t.app, "SELECT count(*) FROM outbox_lost"), 0);
}

static void test_discard_without_the_table_is_an_error(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "ALTER TABLE outbox_held RENAME TO gone");
    assert_int_equal(discard(w, 1, NULL), POSTBAG_ESCHEMA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_discard_is_told_and_counted),
        TEST_IN(test_discard_by_id_does_not_look_at_seq),
        TEST_IN(test_discard_lets_the_next_of_its_key_go),
        TEST_IN(test_discard_makes_the_next_due_at_once),
        TEST_IN(test_discard_what_is_not_held_changes_nothing),
        TEST_IN(test_discard_before_the_cursor_is_past_it_is_refused),
        TEST_IN(test_discard_without_the_table_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
