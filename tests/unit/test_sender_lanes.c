/* SPDX-License-Identifier: MIT */
/*
 * Lanes beside each other: urgent messages first, and a share for whoever
 * waits below them; whatever is large, held, or cannot be read.
 */
#include "sender.h"

#include <sqlite3.h>

#include "relay.h"
#include "unit.h"

enum { DENIED = 0x87 };

/* So many messages of a lane, with that topic and size. */
static void put_lane(
    struct relay *r, const char *topic, int lane, int count, int size)
{
    sql_run(r->world->t.app,
        "INSERT INTO outbox(topic, payload, priority)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT '%s', zeroblob(%d), %d FROM n",
        count, topic, size, lane);
}

/* So many PUBACKs, each for the oldest in flight, each followed by a step. */
static void settle(struct relay *r, int pubacks)
{
    relay_step(r);
    for (size_t i = 0; i < r->out->count && pubacks > 0; i++) {
        if (r->out->sent[i].is_settled)
            continue;
        fake_settle(r->out, i, 0);
        relay_step(r);
        pubacks--;
    }
}

/* How many of the sends from..to have this topic. */
static int count_topic(
    const struct relay *r, const char *topic, size_t from, size_t to)
{
    int count = 0;

    assert_true(to <= r->out->count);
    for (size_t i = from; i < to; i++)
        count += strcmp(r->out->sent[i].topic, topic) == 0;
    return count;
}

/* ---- the share ---- */

static void test_lanes_bulk_has_one_of_eight_beside_urgent_messages(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put_lane(r, "bulk", 0, 200, 10);
    put_lane(r, "urgent", 2, 1000, 10);
    settle(r, 800);
    assert_int_equal(count_topic(r, "bulk", 0, 800), 100);
    for (size_t i = 0; i < 800; i += 8)
        assert_int_equal(count_topic(r, "bulk", i, i + 8), 1);
}

static void test_lanes_share_is_an_option(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.lane_share = 100;
    r = bench_up(b);
    put_lane(r, "bulk", 0, 200, 10);
    put_lane(r, "urgent", 1, 1000, 10);
    settle(r, 800);
    assert_int_equal(count_topic(r, "bulk", 0, 800), 8);
}

static void test_lanes_all_move_where_the_broker_takes_one_at_a_time(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 1;
    r = bench_up(b);
    put_lane(r, "l0", 0, 100, 10);
    put_lane(r, "l1", 1, 200, 10);
    put_lane(r, "l2", 2, 400, 10);
    put_lane(r, "l3", 3, 800, 10);
    settle(r, 512);
    assert_int_equal(r->out->most_in_flight, 1);
    assert_int_equal(count_topic(r, "l0", 0, 512), 64);
    assert_int_equal(count_topic(r, "l1", 0, 512), 56);
    assert_int_equal(count_topic(r, "l2", 0, 512), 49);
    assert_int_equal(count_topic(r, "l3", 0, 512), 343);
}

/* What bulk leaves free has room for many alarms: they do not wait for it. */
static void test_lanes_bulk_on_its_turn_stops_no_alarm_that_has_room(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.window_bytes = 8000;
    r = bench_up(b);
    put_lane(r, "bulk", 0, 30, 296);
    relay_step(r);
    assert_int_equal(r->out->count, 23);
    put_lane(r, "alarm", 3, 8, 45);
    relay_step(r);
    assert_int_equal(fake_count(r->out, "alarm"), 8);
    assert_int_equal(fake_count(r->out, "bulk"), 24);
}

/* Overtaken often, but nobody waits above it now: it leaves the slot again. */
static void test_lanes_bulk_takes_the_last_slot_only_before_others(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 4;
    r = bench_up(b);
    put_lane(r, "bulk", 0, 20, 10);
    relay_step(r);
    for (size_t i = 0; i < 7; i++) {
        put_lane(r, "urgent", 1, 1, 10);
        relay_step(r);
        fake_settle(r->out, 3 + i, 0);
    }
    relay_step(r);
    assert_int_equal(fake_count(r->out, "bulk"), 3);
    put_lane(r, "alarm", 3, 1, 10);
    relay_step(r);
    assert_int_equal(r->out->in_flight, 4);
    settle(r, 30);
    assert_int_equal(fake_count(r->out, "bulk"), 20);
    assert_int_equal(fake_count(r->out, "alarm"), 1);
}

static void test_lanes_throttled_broker_starves_no_lane(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put_lane(r, "bulk", 0, 200, 10);
    put_lane(r, "urgent", 1, 1000, 10);
    relay_step(r);
    for (int i = 0; i < 8; i++)
        fake_settle(r->out, (size_t)i, 0x97);
    relay_run_ms(r, 1001);
    assert_int_equal(r->e.sender.allowed, 1);
    r->e.sender.allowed = 2;
    settle(r, 300);
    assert_in_range(count_topic(r, "bulk", 64, 304), 29, 31);
}

/* ---- large messages ---- */

/* Small ones of another lane take no byte that is freed for it. */
static void test_lanes_large_urgent_message_is_not_kept_out_by_bulk(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.window_bytes = 4000;
    r = bench_up(b);
    put_lane(r, "bulk", 0, 300, 96);
    relay_step(r);
    assert_int_equal(r->out->in_flight, 35);
    put_lane(r, "urgent", 1, 1, 2994);
    settle(r, 25);
    assert_int_equal(count_topic(r, "urgent", 35, 36), 1);
}

static void test_lanes_large_bulk_message_has_its_turn(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.window_bytes = 4000;
    r = bench_up(b);
    put_lane(r, "urgent", 1, 300, 94);
    put_lane(r, "bulk", 0, 2, 6000);
    settle(r, 100);
    assert_int_equal(fake_count(r->out, "bulk"), 2);
    /* alone, as it is larger than the window */
    assert_int_equal(r->out->most_bytes, 6004);
}

/* ---- what is held ---- */

static struct relay *refusing(struct bench *b, const char *topic)
{
    b->r.out->refuse_topic = topic;
    b->r.out->refuse_reason = DENIED;
    b->r.out->auto_settle = 1;
    return bench_up(b);
}

/* Refused once, then due: these come as bulk comes. */
static void test_lanes_held_bulk_leaves_the_last_slot(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 4;
    b->r.options.ack_batch = 1;
    b->w.sim.random_byte = 0;
    r = refusing(b, "held");
    put_lane(r, "held", 0, 10, 10);
    put_lane(r, "alarm", 3, 1, 10);
    relay_run_ms(r, 50);
    assert_int_equal(r->out->count, 11);
    r->out->auto_settle = 0;
    relay_run_ms(r, 2000);
    assert_int_equal(r->out->in_flight, 3);
    put_lane(r, "alarm", 3, 1, 10);
    relay_step(r);
    assert_string_equal(r->out->sent[14].topic, "alarm");
}

static void test_lanes_held_bulk_waits_for_its_turn(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 1;
    b->w.sim.random_byte = 0;
    b->r.out->auto_settle = 1;
    b->r.out->reason = DENIED;
    r = bench_up(b);
    put_lane(r, "held", 0, 10, 10);
    relay_run_ms(r, 50);
    assert_int_equal(r->out->count, 10);
    r->out->auto_settle = 0;
    relay_run_ms(r, 2000);
    put_lane(r, "urgent", 1, 100, 10);
    assert_int_equal(r->out->count, 11);
    settle(r, 80);
    assert_int_equal(count_topic(r, "held", 11, 91), 9);
    assert_int_equal(count_topic(r, "held", 0, 91), 20);
    settle(r, 30);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 0);
}

/* A due message is looked at again at each PUBACK, not only by the clock. */
static void test_lanes_held_message_is_not_kept_out_by_a_backlog(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 1;
    b->w.sim.random_byte = 0;
    b->r.out->reason = DENIED;
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    put_lane(r, "held", 0, 1, 10);
    relay_run_ms(r, 50);
    r->out->auto_settle = 0;
    put_lane(r, "bulk", 0, 50, 10);
    relay_run_ms(r, 1950); /* the clock looked, and found no room */
    assert_int_equal(r->out->count, 2);
    fake_settle(r->out, 1, 0);
    relay_step(r);
    assert_string_equal(r->out->sent[2].topic, "held");
}

/* Refused again and again, on a link that takes one at a time. */
static void test_lanes_held_messages_leave_every_other_send_to_the_log(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;
    size_t first;

    b->r.out->link.receive_max = 1;
    b->r.options.ack_batch = 1;
    b->r.options.retry_base_ms = 10;
    b->r.options.retry_cap_ms = 10;
    b->r.options.max_attempts = 1000000;
    r = refusing(b, "held");
    put_lane(r, "held", 0, 50, 10);
    relay_run_ms(r, 50);
    r->out->auto_settle = 0;
    put_lane(r, "good", 0, 100, 10);
    first = r->out->count;
    for (size_t i = first; i < first + 202; i++) {
        int goods = count_topic(r, "good", i - 1, i);

        relay_run_ms(r, 20);
        goods += count_topic(r, "good", i, i + 1);
        assert_true(goods < 2);
        fake_settle(r->out, i, count_topic(r, "good", i, i + 1) ? 0 : DENIED);
    }
    assert_int_equal(fake_count(r->out, "good"), 100);
}

/* Too large for the broker as it is now: each is buried in a step of its own,
 * and none keeps the next waiting. */
static void test_lanes_held_messages_that_can_never_leave_die_at_once(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.ack_batch = 1;
    b->r.out->auto_settle = 1;
    b->r.out->reason = DENIED;
    b->w.sim.random_byte = 0xff;
    r = bench_up(b);
    put_lane(r, "held", 0, 5, 1000);
    relay_run_ms(r, 50);
    r->e.outbound.info.max_packet = 500;
    relay_run_ms(r, 1000);
    assert_int_equal(r->out->count, 5);
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                         " WHERE state = 'dead'"),
        5);
}

/* What the log may not send now does not keep held messages from leaving. */
static void test_lanes_held_messages_are_tried_while_the_log_must_wait(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.held_max_rows = 8;
    b->r.options.retry_base_ms = 100;
    b->r.options.retry_cap_ms = 100;
    b->r.options.max_attempts = 1000000;
    r = refusing(b, "held");
    put_lane(r, "held", 0, 20, 10);
    put_lane(r, "good", 0, 20, 10);
    relay_run_ms(r, 20000);
    assert_int_equal(fake_count(r->out, "good"), 0);
    assert_true(fake_count(r->out, "held") > 7 * 50);
    r->out->refuse_topic = NULL;
    relay_run_ms(r, 10000);
    assert_int_equal(fake_count(r->out, "good"), 20);
}

/* ---- what cannot be read ---- */

/* One of a page that is damaged, say: found by the scan, or by the fetch. */
static void check_unreadable(struct bench *b, int bulk_before)
{
    struct relay *r = bench_up(b);
    struct sqlite3 *db = r->e.db.handle;

    put_lane(r, "bulk", 0, bulk_before, 10);
    put_lane(r, "bad", 0, 1, 5000);
    put_lane(r, "later", 0, 1, 10);
    relay_step(r);
    assert_int_equal(r->out->in_flight, 63);
    put_lane(r, "urgent", 1, 300, 10);
    (void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 2000);
    settle(r, 63);
    r->out->auto_settle = 1;
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 60000);
    assert_int_equal(fake_count(r->out, "urgent"), 300);
    assert_int_equal(fake_count(r->out, "bad"), 0);
    assert_int_equal(fake_count(r->out, "later"), 0);
    assert_true(r->errors > 0);
    (void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1000000);
    relay_run_ms(r, 60000);
    assert_int_equal(fake_count(r->out, "bad"), 1);
    assert_int_equal(fake_count(r->out, "later"), 1);
}

static void test_lanes_row_that_cannot_be_scanned_stops_its_lane_only(
    void **state)
{
    check_unreadable(*state, 300);
}

static void test_lanes_row_that_cannot_be_fetched_stops_its_lane_only(
    void **state)
{
    check_unreadable(*state, 70);
}

/* A lane needs a reservation and finds that the lease is lost: the others
 * send nothing more, and what else went wrong before does not hide it. */
static void test_lanes_lost_lease_stops_every_lane(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    size_t before;

    put_lane(r, "bulk", 0, 10, 10);
    r->out->auto_settle = 1;
    relay_run_ms(r, 2000);
    before = r->out->count;
    put_lane(r, "unread", 3, 1, 5000);
    put_lane(r, "unreserved", 1, 1, 10);
    put_lane(r, "bulk", 0, 10, 10);
    (void)sqlite3_limit(r->e.db.handle, SQLITE_LIMIT_LENGTH, 2000);
    sql_run(b->w.t.app, "UPDATE outbox_dest SET epoch = epoch + 1");
    relay_step(r);
    assert_int_equal(r->err, POSTBAG_EFENCED);
    assert_int_equal(r->e.lease.is_owner, 0);
    assert_int_equal(r->out->count, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_lanes_bulk_has_one_of_eight_beside_urgent_messages),
        BENCH(test_lanes_share_is_an_option),
        BENCH(test_lanes_all_move_where_the_broker_takes_one_at_a_time),
        BENCH(test_lanes_bulk_takes_the_last_slot_only_before_others),
        BENCH(test_lanes_bulk_on_its_turn_stops_no_alarm_that_has_room),
        BENCH(test_lanes_throttled_broker_starves_no_lane),
        BENCH(test_lanes_large_urgent_message_is_not_kept_out_by_bulk),
        BENCH(test_lanes_large_bulk_message_has_its_turn),
        BENCH(test_lanes_held_bulk_leaves_the_last_slot),
        BENCH(test_lanes_held_bulk_waits_for_its_turn),
        BENCH(test_lanes_held_message_is_not_kept_out_by_a_backlog),
        BENCH(test_lanes_held_messages_leave_every_other_send_to_the_log),
        BENCH(test_lanes_held_messages_that_can_never_leave_die_at_once),
        BENCH(test_lanes_held_messages_are_tried_while_the_log_must_wait),
        BENCH(test_lanes_row_that_cannot_be_scanned_stops_its_lane_only),
        BENCH(test_lanes_row_that_cannot_be_fetched_stops_its_lane_only),
        BENCH(test_lanes_lost_lease_stops_every_lane),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
