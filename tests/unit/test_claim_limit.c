/* SPDX-License-Identifier: MIT */
/* How many claims may be open at once. */
#include "claim_desk.h"

static void test_claim_at_the_limit_is_refused_and_no_repetition(void **state)
{
    struct desk *d = *state;

    sql_run(d->db, "UPDATE inbox_sum SET max_rows = 2");
    assert_int_equal(desk_look(d, "a", "open"), POSTBAG_CLAIM_NEW);
    assert_int_equal(desk_look(d, "b", "open"), POSTBAG_CLAIM_NEW);
    assert_ok(postbag_begin(d->w));
    desk_act(d, "kept");
    assert_int_equal(desk_claim(d, "c", "open"), POSTBAG_EFULL);
    assert_has(postbag_writer_fault(d->w)->text, "inbox_max_rows");
    assert_ok(desk_claim(d, "a", "open"));
    assert_int_equal(d->claim.is, POSTBAG_CLAIM_IN_PROGRESS);
    assert_ok(postbag_inbox_finish(d->w, d->claim.arrival, NULL, 0));
    assert_ok(postbag_commit(d->w));
    assert_int_equal(desk_effects(d), 1);
    /* what is done makes room */
    assert_int_equal(desk_look(d, "c", "open"), POSTBAG_CLAIM_NEW);
    assert_int_equal(sql_get(d->db, "SELECT open_rows FROM inbox_sum"), 2);
}

static void test_claim_without_a_limit_is_never_refused(void **state)
{
    struct desk *d = *state;

    sql_run(d->db, "UPDATE inbox_sum SET max_rows = 0");
    assert_int_equal(desk_look(d, "a", "open"), POSTBAG_CLAIM_NEW);
    assert_int_equal(desk_look(d, "b", "open"), POSTBAG_CLAIM_NEW);
}

/* So one that forgets its claims fills neither disk nor inbox by plain SQL. */
static void test_claim_by_plain_sql_is_refused_likewise(void **state)
{
    struct desk *d = *state;

    sql_run(d->db, "UPDATE inbox_sum SET max_rows = 1");
    assert_int_equal(desk_look(d, "a", "open"), POSTBAG_CLAIM_NEW);
    sql_fails(d->db, "postbag: inbox is full: ",
        "INSERT INTO inbox(consumer, id, state, received_ms)"
        " VALUES ('c', 'x', 'claimed', 1)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DESK(test_claim_at_the_limit_is_refused_and_no_repetition),
        DESK(test_claim_without_a_limit_is_never_refused),
        DESK(test_claim_by_plain_sql_is_refused_likewise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
