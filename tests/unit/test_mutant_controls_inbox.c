/* SPDX-License-Identifier: MIT */
/*
 * No PUBACK and no effect without its row on disk: the syncs of the WAL while
 * commands are accepted and handled.
 */
#include "wal_syncs.h"

#include "inbox_script.h"

static int deliver(struct inbox_world *w, const char *id)
{
    wal_syncs = 0;
    return world_deliver_on(w, "cmd/a", id, NULL, "go");
}

static int64_t commands(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT count(*) FROM inbox");
}

static void test_inbox_sync_goes_before_every_puback(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(deliver(w, "0"), POSTBAG_OK); /* the WAL has begun */
    assert_int_equal(deliver(w, "1"), POSTBAG_OK);
    assert_int_equal(wal_syncs, 1);
    /* the first may have been acknowledged to somebody who then lost power */
    for (int again = 0; again < 3; again++) {
        assert_int_equal(deliver(w, "1"), POSTBAG_OK);
        assert_int_equal(wal_syncs, 1);
    }
    assert_int_equal(commands(w), 2);
}

static void test_inbox_commit_that_fails_is_not_acknowledged(void **state)
{
    struct inbox_world *w = *state;
    struct receiver_counts counts;

    wal_syncs_fail = 1;
    assert_int_equal(deliver(w, "1"), POSTBAG_EIO);
    wal_syncs_fail = 0;
    postbag__receiver_counts(w->receiver, &counts);
    assert_int_equal(counts.nacks, 1);
    assert_int_equal(counts.accepted, 0);
}

static void test_inbox_done_is_synced_with_its_effect(void **state)
{
    struct inbox_world *w = *state;

    prove_handler(w);
    world_deliver(w, "1", NULL);
    wal_syncs = 0;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 1);
    assert_int_equal(wal_syncs, 1);
}

static void test_inbox_death_is_synced(void **state)
{
    struct inbox_world *w = *state;

    prove_handler(w);
    script.outcome = POSTBAG_REJECT;
    world_deliver(w, "1", NULL);
    wal_syncs = 0;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "dead"), 1);
    assert_int_equal(wal_syncs, 1);
}

static void test_inbox_retry_time_needs_no_sync(void **state)
{
    struct inbox_world *w = *state;

    prove_handler(w);
    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "1", NULL);
    wal_syncs = 0;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "due"), 1);
    assert_int_equal(wal_syncs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_inbox_sync_goes_before_every_puback),
        TEST(test_inbox_commit_that_fails_is_not_acknowledged),
        TEST(test_inbox_done_is_synced_with_its_effect),
        TEST(test_inbox_death_is_synced),
        TEST(test_inbox_retry_time_needs_no_sync),
    };

    wal_syncs_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
