/* SPDX-License-Identifier: MIT */
/* Two relays on one database: the one without the office sends nothing and
 * says nothing. */
#include <sqlite3.h>
#include <stdlib.h>

#include "relay.h"
#include "unit.h"

enum { LEASE_MS = 30000 };

/* The first owns the destination; nothing of the second is opened yet. */
struct pair {
    struct world w;
    struct relay owner, standby;
};

static int set_up(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    world_make(&p->w);
    relay_init(&p->owner, &p->w);
    relay_init(&p->standby, &p->w);
    p->owner.options.run_dir = p->w.t.folder;
    p->standby.options.run_dir = p->w.t.folder;
    /* in flight while the owner stands still */
    p->owner.options.ack_timeout_ms = 20 * LEASE_MS;
    relay_open(&p->owner);
    relay_run_ms(&p->owner, 10);
    assert_int_equal(p->owner.e.lease.is_owner, 1);
    relay_open(&p->standby);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *p = *state;

    relay_close(&p->owner);
    relay_close(&p->standby);
    world_remove(&p->w);
    free(p);
    return 0;
}

static void read_file(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    out[fread(out, 1, size - 1, f)] = '\0';
    (void)fclose(f);
}

static void test_standby_leaves_the_live_state_to_the_owner(void **state)
{
    struct pair *p = *state;
    char before[2000];
    char after[2000];

    relay_put(&p->owner, "t", 3);
    relay_run_ms(&p->owner, 3000);
    read_file(p->owner.e.live.path, before, sizeof(before));
    assert_has(before, "role=owner\n");
    assert_string_equal(p->standby.e.live.path, p->owner.e.live.path);
    relay_run_ms(&p->standby, 5000);
    assert_int_equal(p->standby.e.lease.is_owner, 0);
    read_file(p->owner.e.live.path, after, sizeof(after));
    assert_string_equal(after, before);
}

/* Its reservation would let it send without a write, so before each send
 * past its deadline it asks whether the office is still its own. */
static void test_overdue_owner_with_a_reservation_sends_nothing(void **state)
{
    struct pair *p = *state;

    relay_put(&p->owner, "t", 1);
    relay_run_ms(&p->owner, 100);
    assert_int_equal(p->owner.out->count, 1);
    for (int i = 0; i < LEASE_MS / 100 + 20; i++) {
        relay_step(&p->standby);
        sim_pass_ms(&p->w.sim, 100);
    }
    assert_int_equal(p->standby.e.lease.is_owner, 1);
    assert_true(p->owner.e.sender.lanes[0].sent_hi > 10);
    relay_put(&p->owner, "u", 5);
    relay_step(&p->owner);
    assert_int_equal(p->owner.out->count, 1);
    assert_int_equal(p->owner.e.lease.is_owner, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_standby_leaves_the_live_state_to_the_owner),
        TEST_IN(test_overdue_owner_with_a_reservation_sends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
