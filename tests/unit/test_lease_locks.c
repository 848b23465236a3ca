/* SPDX-License-Identifier: MIT */
/*
 * Three relays on one file: one owned it and stands still, as after SIGSTOP,
 * one took over after a lease, one stands by.  The locks are real.
 */
#include "lease.h"

#include <stdlib.h>

#include "relay.h"
#include "unit.h"

enum { LEASE_MS = 30000 };

struct three {
    struct world w;
    struct relay still, owner, other;
};

static void run(struct three *t, struct relay *r, int64_t ms)
{
    for (int64_t at = 0; at < ms; at += 100) {
        relay_step(r);
        sim_pass_ms(&t->w.sim, 100);
    }
}

static int set_up(void **state)
{
    struct three *t = calloc(1, sizeof(*t));

    assert_non_null(t);
    world_make(&t->w);
    relay_init(&t->still, &t->w);
    relay_open(&t->still);
    relay_run_ms(&t->still, 10);
    relay_put(&t->still, "t", 1);
    relay_init(&t->owner, &t->w);
    relay_open(&t->owner);
    run(t, &t->owner, LEASE_MS + 2000);
    assert_int_equal(t->owner.e.lease.is_owner, 1);
    relay_init(&t->other, &t->w);
    relay_open(&t->other);
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    struct three *t = *state;

    if (t->still.is_open)
        relay_close(&t->still);
    if (t->owner.is_open)
        relay_close(&t->owner);
    relay_close(&t->other);
    world_remove(&t->w);
    free(t);
    return 0;
}

static void test_lease_owner_outlives_the_one_that_stood_still(void **state)
{
    struct three *t = *state;

    assert_null(t->owner.e.lease.lock);
    relay_kill(&t->still);
    run(t, &t->other, 3000);
    assert_int_equal(t->other.e.lease.is_owner, 0);
    run(t, &t->owner, 1100);
    assert_non_null(t->owner.e.lease.lock);
    assert_null(t->owner.e.lease.second);
    run(t, &t->other, 3000);
    assert_int_equal(t->other.e.lease.is_owner, 0);
}

static void test_lease_of_an_owner_that_outlived_it_and_died_is_free(
    void **state)
{
    struct three *t = *state;

    relay_kill(&t->still);
    relay_kill(&t->owner);
    run(t, &t->other, 1100);
    assert_int_equal(t->other.e.lease.is_owner, 1);
}

/* The first file is still locked, so it is left to the lease. */
static void test_lease_beside_one_that_stands_still_is_not_free(void **state)
{
    struct three *t = *state;

    relay_kill(&t->owner);
    run(t, &t->other, 3000);
    assert_int_equal(t->other.e.lease.is_owner, 0);
    run(t, &t->other, LEASE_MS);
    assert_int_equal(t->other.e.lease.is_owner, 1);
}

#define THREE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        THREE(test_lease_owner_outlives_the_one_that_stood_still),
        THREE(test_lease_of_an_owner_that_outlived_it_and_died_is_free),
        THREE(test_lease_beside_one_that_stands_still_is_not_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
