/* SPDX-License-Identifier: MIT */
/*
 * Who may send: the one owner named in the database.  Two relays stand here
 * on one file; the locks are real.
 */
#include "lease.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include "relay.h"
#include "unit.h"

enum { LEASE_MS = 30000 };

/* Two relays beside each other; the first owns the destination. */
struct pair {
    struct world w;
    struct relay a, b;
};

static int set_up(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    world_make(&p->w);
    relay_init(&p->a, &p->w);
    relay_open(&p->a);
    relay_run_ms(&p->a, 10);
    assert_int_equal(p->a.e.lease.is_owner, 1);
    relay_init(&p->b, &p->w);
    relay_open(&p->b);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *p = *state;

    if (p->a.is_open)
        relay_close(&p->a);
    relay_close(&p->b);
    world_remove(&p->w);
    free(p);
    return 0;
}

static int64_t epoch(struct pair *p)
{
    return sql_get(p->w.t.app, "SELECT epoch FROM outbox_dest");
}

/* Both step each 100 ms. */
static void run_both(struct pair *p, int64_t ms)
{
    for (int64_t at = 0; at < ms; at += 100) {
        relay_step(&p->a);
        relay_step(&p->b);
        sim_pass_ms(&p->w.sim, 100);
    }
}

/* The first stands still, as after SIGSTOP: its locks are held. */
static void run_b(struct pair *p, int64_t ms)
{
    for (int64_t at = 0; at < ms; at += 100) {
        relay_step(&p->b);
        sim_pass_ms(&p->w.sim, 100);
    }
}

/* ---- taking over ---- */

static void test_lease_fresh_destination_is_taken_at_once(void **state)
{
    struct pair *p = *state;

    assert_int_equal(epoch(p), 1);
    assert_string_equal(sql_text(p->w.t.app, "SELECT length(owner), hex(boot),"
                                             " lease_until FROM outbox_dest"),
        "16|01010101010101010101010101010101|90000");
}

static void test_lease_second_relay_stands_by(void **state)
{
    static const char told[] = "standing by: another relay owns destination";
    struct pair *p = *state;
    const char *at;

    run_both(p, 5000);
    assert_int_equal(p->b.e.lease.is_owner, 0);
    assert_int_equal(p->b.out->connects, 0);
    assert_int_equal(epoch(p), 1);
    at = strstr(p->b.log, told);
    assert_non_null(at);
    assert_null(strstr(at + 1, told));
}

static void test_lease_of_a_dead_owner_is_taken_at_once(void **state)
{
    struct pair *p = *state;

    run_both(p, 2000);
    relay_kill(&p->a);
    run_b(p, 1100);
    assert_int_equal(p->b.e.lease.is_owner, 1);
    assert_int_equal(p->b.out->connects, 1);
    assert_int_equal(epoch(p), 2);
}

static void end_boot(struct pair *p)
{
    sql_run(p->w.t.app, "UPDATE outbox_dest SET boot = zeroblob(16),"
                        " lease_until = 1 << 50");
}

/* After a reboot nobody of the boot before can be alive, whatever its
 * deadline says, and also where no lock file tells. */
static void test_lease_of_an_earlier_boot_is_taken_at_once(void **state)
{
    struct pair *p = *state;

    relay_kill(&p->a);
    end_boot(p);
    p->w.sim.fails[SIM_LOCK_FILE] = POSTBAG_EIO;
    run_b(p, 1100);
    assert_int_equal(p->b.e.lease.is_owner, 1);
    assert_int_equal(epoch(p), 2);
}

/* Who has its lock is about to take over.  If both did, both would send, the
 * one that came first until it next writes. */
static void test_lease_of_an_earlier_boot_is_left_to_who_has_the_lock(
    void **state)
{
    struct pair *p = *state;

    end_boot(p);
    run_b(p, 2000);
    assert_int_equal(p->b.e.lease.is_owner, 0);
    relay_put(&p->b, "t", 1);
    run_b(p, LEASE_MS + 3000);
    assert_int_equal(p->b.e.lease.is_owner, 1);
}

static void test_lease_of_a_silent_owner_is_taken_after_a_lease_of_work(
    void **state)
{
    struct pair *p = *state;

    run_both(p, 1000);
    relay_put(&p->a, "t", 1);
    run_b(p, LEASE_MS - 1000);
    assert_int_equal(p->b.e.lease.is_owner, 0);
    run_b(p, 3000);
    assert_int_equal(p->b.e.lease.is_owner, 1);
    assert_string_equal(fake_topics(p->b.out, 0), "t1");
}

/* What writers drop is settled, and no sign of life of the owner. */
static void test_lease_of_a_silent_owner_is_taken_while_values_are_replaced(
    void **state)
{
    struct pair *p = *state;

    run_both(p, 1000);
    for (int64_t at = 0; at < 2 * LEASE_MS; at += 1000) {
        sql_run(p->w.t.app, "INSERT INTO outbox(topic, payload, coalesce)"
                            " VALUES ('t', '', 'c')");
        run_b(p, 1000);
    }
    assert_int_equal(p->b.e.lease.is_owner, 1);
}

static void test_lease_of_an_idle_owner_is_left_alone(void **state)
{
    struct pair *p = *state;

    run_both(p, 1000);
    run_b(p, 10 * LEASE_MS);
    assert_int_equal(p->b.e.lease.is_owner, 0);
    assert_int_equal(epoch(p), 1);
}

/* A deadline further away than one lease is of a clock that went wrong. */
static void test_lease_with_an_absurd_deadline_counts_as_expired(void **state)
{
    struct pair *p = *state;

    relay_put(&p->a, "t", 1);
    sql_run(p->w.t.app, "UPDATE outbox_dest SET lease_until = 1 << 50");
    run_b(p, LEASE_MS + 2000);
    assert_int_equal(p->b.e.lease.is_owner, 1);
}

static void test_lease_is_taken_by_one_of_two_who_may(void **state)
{
    struct pair *p = *state;

    relay_kill(&p->a);
    relay_init(&p->a, &p->w);
    relay_open(&p->a);
    run_both(p, 3000);
    assert_int_equal(p->a.e.lease.is_owner + p->b.e.lease.is_owner, 1);
    assert_int_equal(epoch(p), 2);
}

static void test_lease_of_a_dead_owner_is_taken_once_the_database_is_free(
    void **state)
{
    struct pair *p = *state;
    struct sqlite3 *foreign = tempdb_connect(&p->w.t);

    run_both(p, 2000);
    relay_kill(&p->a);
    sql_run(foreign, "BEGIN IMMEDIATE");
    run_b(p, 3000);
    assert_int_equal(p->b.e.lease.is_owner, 0);
    sql_run(foreign, "ROLLBACK");
    run_b(p, 200);
    assert_int_equal(p->b.e.lease.is_owner, 1);
    (void)sqlite3_close(foreign);
}

static void take_first(void *ctx)
{
    struct pair *p = ctx;

    sql_run(p->w.t.app, "UPDATE outbox_dest SET epoch = epoch + 1");
}

static void test_lease_that_another_took_in_between_is_not_taken(void **state)
{
    struct pair *p = *state;

    relay_kill(&p->a);
    p->w.sim.at_gate = take_first;
    p->w.sim.at_gate_ctx = p;
    relay_step(&p->b);
    assert_int_equal(p->b.e.lease.is_owner, 0);
    assert_null(p->b.e.lease.lock); /* left to the faster one */
    assert_int_equal(epoch(p), 2);
}

/* ---- the fence ---- */

static void test_lease_fenced_owner_writes_nothing_and_stands_by(void **state)
{
    struct pair *p = *state;

    p->a.out->auto_settle = 1;
    relay_put(&p->a, "t", 3);
    relay_run_ms(&p->a, 10); /* delivered, not saved yet */
    run_b(p, LEASE_MS + 2000);
    assert_int_equal(p->b.e.lease.is_owner, 1);
    relay_run_ms(&p->a, 1500);
    assert_int_equal(p->a.e.lease.is_owner, 0);
    assert_int_equal(p->a.e.outbound.state, LINK_OFF);
    assert_has(p->a.log, "another relay took");
    assert_int_equal(
        sql_get(p->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0"),
        0);
    (void)fake_settle_all(p->b.out, 0);
    run_both(p, 5000);
    assert_int_equal(p->a.e.lease.is_owner, 0);
    assert_int_equal(
        sql_get(p->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0"),
        3);
    assert_int_equal(epoch(p), 2);
}

/* Past its deadline an owner looks at the epoch before it sends, even what its
 * reservation covers. */
static void test_lease_silent_owner_sends_nothing_when_it_wakes(void **state)
{
    struct pair *p = *state;

    p->a.out->auto_settle = 1;
    relay_put(&p->a, "s", 1);
    relay_run_ms(&p->a, 3000);
    relay_put(&p->a, "t", 1);
    assert_true(p->a.e.sender.lanes[0].sent_hi > 10);
    run_b(p, LEASE_MS + 2000);
    assert_int_equal(p->b.e.lease.is_owner, 1);
    relay_put(&p->a, "u", 5);
    relay_step(&p->a);
    assert_string_equal(fake_topics(p->a.out, 0), "s1");
    assert_int_equal(p->a.e.lease.is_owner, 0);
}

static void test_lease_fenced_owner_takes_over_again_later(void **state)
{
    struct pair *p = *state;

    relay_put(&p->a, "t", 1);
    run_b(p, LEASE_MS + 2000);
    run_both(p, 2000);
    assert_int_equal(p->a.e.lease.is_owner, 0);
    relay_kill(&p->b);
    p->a.out->auto_settle = 1;
    relay_run_ms(&p->a, 5000);
    assert_int_equal(p->a.e.lease.is_owner, 1);
    assert_int_equal(epoch(p), 3);
    assert_int_equal(
        sql_get(p->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0"),
        1);
    relay_init(&p->b, &p->w);
    relay_open(&p->b);
}

/* The one that was silent held the lock all the time.  When it lets go, the
 * new owner must have it, idle or not, or look dead itself. */
static void test_lease_new_owner_gets_the_lock_that_a_fenced_one_leaves(
    void **state)
{
    struct pair *p = *state;

    p->b.out->auto_settle = 1;
    relay_put(&p->a, "t", 1);
    run_b(p, LEASE_MS + 2000);
    assert_int_equal(p->b.e.lease.is_owner, 1);
    assert_null(p->b.e.lease.lock);
    assert_int_equal(postbag__sender_has_work(&p->b.e.sender), 0);
    relay_step(&p->a);
    relay_idle_ms(&p->b, 1100);
    assert_non_null(p->b.e.lease.lock);
    relay_run_ms(&p->a, 5000);
    assert_int_equal(p->a.e.lease.is_owner, 0);
    assert_int_equal(epoch(p), 2);
}

/* ---- keeping ---- */

static void test_lease_is_renewed_while_work_waits_and_somebody_stands_by(
    void **state)
{
    struct pair *p = *state;

    relay_put(&p->a, "t", 1);
    run_both(p, 4 * LEASE_MS);
    assert_int_equal(p->b.e.lease.is_owner, 0);
    assert_true(sql_get(p->w.t.app, "SELECT lease_until FROM outbox_dest") >
                p->w.sim.mono_us / 1000);
    assert_int_equal(epoch(p), 1);
}

static void test_lease_without_standby_is_not_written(void **state)
{
    struct pair *p = *state;
    int64_t before;

    relay_kill(&p->b);
    p->a.out->auto_up = 0;
    fake_lose(p->a.out, POSTBAG_ELINK, 0);
    relay_put(&p->a, "t", 1);
    relay_run_ms(&p->a, 2000);
    before = sql_get(p->w.t.app, "PRAGMA data_version");
    relay_run_ms(&p->a, 10 * LEASE_MS);
    assert_int_equal(sql_get(p->w.t.app, "PRAGMA data_version"), before);
    assert_int_equal(p->a.e.lease.is_owner, 1);
    relay_init(&p->b, &p->w);
    relay_open(&p->b);
}

static void test_lease_of_a_removed_destination_is_an_error(void **state)
{
    struct pair *p = *state;

    relay_kill(&p->a);
    sql_run(p->w.t.app, "DELETE FROM outbox_dest");
    run_b(p, 1100);
    assert_int_equal(p->b.err, POSTBAG_ENOTFOUND);
    assert_has(p->b.log, "was removed");
}

static void test_lease_without_a_lock_file_stands_by(void **state)
{
    struct pair *p = *state;

    relay_kill(&p->a);
    p->w.sim.fails[SIM_LOCK_FILE] = POSTBAG_EIO;
    run_b(p, 3000);
    assert_int_equal(p->b.e.lease.is_owner, 0);
    p->w.sim.fails[SIM_LOCK_FILE] = 0;
    run_b(p, 1100);
    assert_int_equal(p->b.e.lease.is_owner, 1);
}

/* ---- transactions ---- */

static void test_lease_transaction_takes_its_turn_at_the_gate(void **state)
{
    struct pair *p = *state;
    struct lease *l = &p->a.e.lease;

    assert_ok(postbag__lease_begin(l, DB_NORMAL));
    assert_int_equal(p->w.sim.open_gates, 1);
    assert_int_equal(postbag__lease_begin(l, DB_NORMAL), POSTBAG_EBUSY);
    assert_ok(postbag__lease_commit(l));
    assert_int_equal(p->w.sim.open_gates, 0);
    assert_ok(postbag__lease_begin(l, DB_FULL));
    postbag__lease_rollback(l);
    assert_int_equal(p->w.sim.open_gates, 0);
    sql_run(p->w.t.app, "UPDATE outbox_dest SET epoch = epoch + 1");
    assert_int_equal(postbag__lease_begin(l, DB_NORMAL), POSTBAG_EFENCED);
    assert_false(postbag__in_transaction(&p->a.e.db));
    assert_int_equal(p->w.sim.open_gates, 0);
    sql_run(p->w.t.app, "BEGIN IMMEDIATE");
    assert_int_equal(postbag__lease_begin(l, DB_NORMAL), POSTBAG_EBUSY);
    sql_run(p->w.t.app, "ROLLBACK");
    assert_int_equal(p->w.sim.open_gates, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_lease_fresh_destination_is_taken_at_once),
        TEST_IN(test_lease_second_relay_stands_by),
        TEST_IN(test_lease_of_a_dead_owner_is_taken_at_once),
        TEST_IN(test_lease_of_an_earlier_boot_is_taken_at_once),
        TEST_IN(test_lease_of_an_earlier_boot_is_left_to_who_has_the_lock),
        TEST_IN(test_lease_of_a_silent_owner_is_taken_after_a_lease_of_work),
        TEST_IN(
            test_lease_of_a_silent_owner_is_taken_while_values_are_replaced),
        TEST_IN(test_lease_of_an_idle_owner_is_left_alone),
        TEST_IN(test_lease_with_an_absurd_deadline_counts_as_expired),
        TEST_IN(test_lease_is_taken_by_one_of_two_who_may),
        TEST_IN(test_lease_of_a_dead_owner_is_taken_once_the_database_is_free),
        TEST_IN(test_lease_that_another_took_in_between_is_not_taken),
        TEST_IN(test_lease_fenced_owner_writes_nothing_and_stands_by),
        TEST_IN(test_lease_silent_owner_sends_nothing_when_it_wakes),
        TEST_IN(test_lease_fenced_owner_takes_over_again_later),
        TEST_IN(test_lease_new_owner_gets_the_lock_that_a_fenced_one_leaves),
        TEST_IN(test_lease_is_renewed_while_work_waits_and_somebody_stands_by),
        TEST_IN(test_lease_without_standby_is_not_written),
        TEST_IN(test_lease_of_a_removed_destination_is_an_error),
        TEST_IN(test_lease_without_a_lock_file_stands_by),
        TEST_IN(test_lease_transaction_takes_its_turn_at_the_gate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
