/* SPDX-License-Identifier: MIT */
/* Rows that were given up: why, and how many are kept. */
#include "held_shelf.h"

static void test_held_dead_row_tells_when_and_why(void **state)
{
    struct shelf *s = *state;

    hold(s, 1, "retry", 500);
    hold(s, 3, "dead", 0);
    assert_ok(postbag__held_bury(&s->h, 1, "no", 88, NULL));
    assert_string_equal(sql_text(s->t.app, "SELECT seq, error, held_ms, dead_ms"
                                           " FROM outbox_held ORDER BY seq"),
        "1|no|77|88 3|why|77|77");
}

/* Rows 1, 2, 3 and 5 are dead, 3 bytes each; the cursor is past row 3. */
static void hold_dead(struct shelf *s)
{
    sql_run(s->t.app, "DELETE FROM outbox_held; DELETE FROM outbox_lost;"
                      " UPDATE outbox_cursor SET acked = 3");
    hold(s, 1, "dead", 0);
    hold(s, 2, "dead", 0);
    hold(s, 3, "dead", 0);
    hold(s, 5, "dead", 0);
    hold(s, 6, "retry", 0);
}

static void test_held_dead_beyond_the_bound_the_oldest_are_dropped(void **state)
{
    static const struct {
        uint32_t rows, bytes;
        int dropped;
        const char *left, *lost;
    } all[] = {
        {4, 12, 0, "1 2 3 5", ""},
        {3, 99, 1, "2 3 5", "1|1|1|3|dead_overflow|90"},
        {9, 11, 1, "2 3 5", "1|1|1|3|dead_overflow|90"},
        {2, 99, 2, "3 5", "1|2|2|6|dead_overflow|90"},
        {1, 99, 3, "5", "1|3|3|9|dead_overflow|90"},
    };
    struct shelf *s = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        hold_dead(s);
        assert_int_equal(
            postbag__held_trim_dead(&s->h, all[i].rows, all[i].bytes, 90),
            all[i].dropped);
        assert_string_equal(
            sql_text(s->t.app, "SELECT seq FROM outbox_held"
                               " WHERE state = 'dead' ORDER BY seq"),
            all[i].left);
        assert_string_equal(
            sql_text(s->t.app, "SELECT lo, hi, n, bytes, reason, at_ms"
                               " FROM outbox_lost"),
            all[i].lost);
    }
    assert_int_equal(
        sql_get(s->t.app, "SELECT sum(dropped) FROM outbox_cursor"), 7);
}

static void test_held_dead_before_the_cursor_is_past_it_is_kept(void **state)
{
    struct shelf *s = *state;

    hold_dead(s);
    sql_run(s->t.app, "UPDATE outbox_cursor SET acked = 1");
    assert_int_equal(postbag__held_trim_dead(&s->h, 1, 99, 90), 1);
    assert_string_equal(states(s), "2|dead|1 3|dead|1 5|dead|1 6|retry|1");
}

/* Transactions are a few rows long, also after the option was lowered. */
static void test_held_dead_are_dropped_in_short_transactions(void **state)
{
    struct shelf *s = *state;

    sql_run(s->t.app,
        "INSERT INTO outbox(topic, payload) WITH RECURSIVE n(i) AS (VALUES(1)"
        " UNION ALL SELECT i + 1 FROM n WHERE i < 394) SELECT 't', '' FROM n");
    sql_run(s->t.app, "UPDATE outbox_cursor SET acked = 400");
    for (int64_t seq = 1; seq <= 400; seq++)
        hold(s, seq, "dead", 0);
    assert_int_equal(postbag__held_trim_dead(&s->h, 10, 9999, 90), 256);
    assert_int_equal(postbag__held_trim_dead(&s->h, 10, 9999, 90), 134);
    assert_int_equal(postbag__held_trim_dead(&s->h, 10, 9999, 90), 0);
    assert_int_equal(sql_get(s->t.app, "SELECT sum(n) FROM outbox_lost"), 390);
}

/* By whatever way it comes in. */
static void test_held_error_is_short_and_printable(void **state)
{
    static const char is_sound[] =
        "SELECT count(*) FROM outbox_held WHERE error = 'no: ?[31m?? \"it''s\" "
        "'"
        " || printf('%%.*c', 181, 'x') AND length(CAST(error AS BLOB)) = 200";
    static const char start[] = "no: \x1b[31m\n\xff \"it's\" ";
    struct shelf *s = *state;
    char *hostile = malloc(65536);
    const struct due due = at(1);

    assert_non_null(hostile);
    memset(hostile, 'x', 65535);
    hostile[65535] = '\0';
    memcpy(hostile, start, sizeof(start) - 1);
    {
        const struct hold h = {.state = "retry", .error = hostile, .due = &due};

        assert_ok(postbag__held_hold(&s->h, 1, &h, 77));
    }
    assert_int_equal(sql_get(s->t.app, is_sound), 1);
    hold(s, 3, "retry", 1);
    assert_ok(postbag__held_again(&s->h, 3, &due, hostile));
    assert_int_equal(sql_get(s->t.app, is_sound), 2);
    hold(s, 4, "retry", 1);
    assert_ok(postbag__held_postpone(&s->h, 4, &due, hostile));
    assert_int_equal(sql_get(s->t.app, is_sound), 3);
    hold(s, 5, "retry", 1);
    assert_ok(postbag__held_bury(&s->h, 5, hostile, 88, NULL));
    assert_int_equal(sql_get(s->t.app, is_sound), 4);
    free(hostile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_held_dead_row_tells_when_and_why),
        TEST_IN(test_held_dead_beyond_the_bound_the_oldest_are_dropped),
        TEST_IN(test_held_dead_before_the_cursor_is_past_it_is_kept),
        TEST_IN(test_held_dead_are_dropped_in_short_transactions),
        TEST_IN(test_held_error_is_short_and_printable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
