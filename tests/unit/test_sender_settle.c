/* SPDX-License-Identifier: MIT */
/*
 * What each outcome of a send means for its row: delivered, sent again, held,
 * dead.  Nothing but a refusal by the broker is charged to a message.
 */
#include "sender.h"

#include <stdlib.h>

#include "postbag/admin.h"
#include "relay.h"
#include "unit.h"

enum { DENIED = 0x87, QUOTA = 0x97, TOO_LARGE = 0x95 };

static int64_t cursor(struct bench *b)
{
    return sql_get(
        b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0");
}

static const char *held(struct bench *b)
{
    return sql_text(
        b->w.t.app, "SELECT topic, state, attempts FROM outbox_held");
}

/* The relay with n rows of prefix "t" in flight. */
static struct relay *sending(struct bench *b, int n)
{
    struct relay *r = bench_up(b);

    relay_put(r, "t", n);
    relay_run_ms(r, 1);
    assert_int_equal(r->out->in_flight, n);
    return r;
}

/* ---- success ---- */

static void test_settle_cursor_moves_only_after_the_puback(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 1);

    relay_idle_ms(r, 5000);
    assert_int_equal(r->e.sender.lanes[0].acked, 0);
    assert_int_equal(cursor(b), 0);
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 2000);
    assert_int_equal(cursor(b), 1);
    assert_int_equal(r->out->count, 1);
}

static void test_settle_cursor_is_the_settled_prefix(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 5);

    fake_settle(r->out, 4, 0);
    fake_settle(r->out, 2, 0);
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 2000);
    assert_int_equal(cursor(b), 0);
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 2000);
    assert_string_equal(
        sql_text(b->w.t.app,
            "SELECT acked, settled_rows, delivered, settled_bytes"
            " FROM outbox_cursor WHERE lane = 0"),
        "3|3|3|27");
    fake_settle(r->out, 3, 0);
    relay_run_ms(r, 2000);
    assert_int_equal(cursor(b), 5);
    assert_int_equal(r->out->count, 5);
}

static void test_settle_warnings_below_0x80_are_success(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 1);

    fake_settle(r->out, 0, 0x10); /* no matching subscribers */
    relay_run_ms(r, 2000);
    assert_int_equal(cursor(b), 1);
    assert_string_equal(held(b), "");
}

/* ---- the link ---- */

static void test_settle_lost_link_sends_the_same_ids_and_charges_nothing(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 4);

    fake_settle(r->out, 1, 0);
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 3000);
    assert_string_equal(fake_topics(r->out, 0), "t1 t2 t3 t4 t1 t3 t4");
    assert_string_equal(r->out->sent[4].id, r->out->sent[0].id);
    assert_string_equal(r->out->sent[5].id, r->out->sent[2].id);
    assert_int_not_equal(
        r->out->sent[4].generation, r->out->sent[0].generation);
    assert_string_equal(held(b), "");
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 2000);
    assert_int_equal(cursor(b), 4);
}

static void test_settle_weeks_offline_charge_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 2);

    r->out->auto_up = 0;
    r->out->connect_err = POSTBAG_ELINK;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, INT64_C(14) * 86400 * 1000);
    assert_true(r->e.outbound.failures > 100);
    assert_string_equal(held(b), "");
    r->out->auto_up = 1;
    r->out->connect_err = POSTBAG_OK;
    r->out->auto_settle = 1;
    relay_run_ms(r, 302 * 1000);
    assert_string_equal(fake_topics(r->out, 2), "t1 t2");
    assert_int_equal(cursor(b), 2);
}

static void test_settle_late_answer_of_an_old_link_is_not_counted(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 1);
    const struct settled late = {.token = r->out->sent[0].token};

    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 3000);
    assert_int_equal(r->out->in_flight, 1);
    assert_ok(postbag__sender_settle(&r->e.sender, &late, b->w.sim.mono_us));
    relay_run_ms(r, 2000);
    assert_int_equal(cursor(b), 0);
    assert_int_equal(r->e.sender.window.used, 1);
}

/* ---- refusals ---- */

/* The broker's words, for the log and for who looks at the table. */
static void test_settle_refusal_keeps_the_reason_string(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_attempts = 2;
    b->r.out->refuse_text = "ACL \x1b[31mdeny\n";
    r = sending(b, 1);
    fake_settle(r->out, 0, DENIED);
    relay_run_ms(r, 10);
    assert_string_equal(sql_text(b->w.t.app, "SELECT error FROM outbox_held"),
        "refused: not authorized (0x87): ACL ?[31mdeny?");
    r->out->refuse_text = "still";
    relay_run_ms(r, 5000);
    fake_settle(r->out, 1, DENIED);
    relay_run_ms(r, 10);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT state, error FROM outbox_held"),
        "dead|refused: not authorized (0x87): still");
    assert_has(r->log, "refused: not authorized (0x87): still; see");
}

static void test_settle_refused_row_waits_and_comes_again(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.ack_delay_ms = 1;
    r = sending(b, 2);
    b->w.sim.random_byte = 0xff; /* the whole of each backoff */
    fake_settle(r->out, 0, DENIED);
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 900);
    assert_string_equal(held(b), "t1|retry|1");
    assert_string_equal(sql_text(b->w.t.app, "SELECT error FROM outbox_held"),
        "refused: not authorized (0x87)");
    assert_int_equal(r->out->count, 2);
    relay_idle_ms(r, 200);
    assert_int_equal(r->out->count, 3);
    assert_string_equal(r->out->sent[2].id, r->out->sent[0].id);
    fake_settle(r->out, 2, 0);
    relay_run_ms(r, 2000);
    assert_string_equal(held(b), "");
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT acked, settled_rows, delivered"
                             " FROM outbox_cursor WHERE lane = 0"),
        "2|2|2");
}

/* The cursor passed it when it was held; it was delivered seconds later. */
static void test_settle_held_row_is_published_when_it_is_delivered(void **state)
{
    static const char told[] =
        "SELECT seq, state, published_at, attempts FROM outbox_status"
        " WHERE seq < 3 ORDER BY seq";
    struct bench *b = *state;
    struct relay *r;
    char expected[100];
    int64_t held_ms;

    b->r.options.ack_delay_ms = 1;
    b->r.options.keep_s = 100;
    r = sending(b, 3);
    b->w.sim.random_byte = 0xff;
    fake_settle(r->out, 0, DENIED);
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 900);
    held_ms = sql_get(b->w.t.app, "SELECT at_ms FROM outbox_acks");
    (void)snprintf(expected, sizeof(expected),
        "1|retry|NULL|1 2|published|%lld|1", (long long)held_ms);
    assert_string_equal(sql_text(b->w.t.app, told), expected);
    relay_idle_ms(r, 200);
    assert_int_equal(r->out->count, 4);
    fake_settle(r->out, 3, 0);
    relay_run_ms(r, 2000);
    assert_true(
        sql_get(b->w.t.app, "SELECT at_ms FROM outbox_late") >= held_ms + 1000);
    (void)snprintf(expected, sizeof(expected),
        "1|published|%lld|2 2|published|%lld|1",
        (long long)sql_get(b->w.t.app, "SELECT at_ms FROM outbox_late"),
        (long long)held_ms);
    assert_string_equal(sql_text(b->w.t.app, told), expected);
}

static void test_settle_refused_row_backs_off_and_dies_at_the_limit(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;
    int64_t last_ms = 0;

    b->r.options.ack_delay_ms = 1;
    b->r.options.max_attempts = 5;
    b->r.options.retry_base_ms = 100;
    b->r.options.retry_cap_ms = 500;
    r = sending(b, 1);
    b->w.sim.random_byte = 0xff;
    r->out->auto_settle = 1;
    r->out->reason = DENIED;
    fake_settle(r->out, 0, DENIED);
    for (int n = 1; n < 5; n++) {
        static const int64_t ceiling_ms[] = {100, 200, 400, 500};
        int64_t now_ms = b->w.sim.mono_us / 1000;
        int64_t due_ms;

        relay_run_ms(r, 5);
        due_ms = sql_get(b->w.t.app, "SELECT due_ms FROM outbox_held"
                                     " WHERE state = 'retry'");
        assert_int_equal(due_ms - now_ms, ceiling_ms[n - 1]);
        assert_true(due_ms > last_ms);
        last_ms = due_ms;
        sim_pass_ms(&b->w.sim, due_ms - now_ms - 5);
        relay_tick(r);
        assert_int_equal(r->out->count, n + 1);
    }
    relay_run_ms(r, 10000);
    assert_string_equal(held(b), "t1|dead|5");
    assert_int_equal(r->out->count, 5);
    assert_int_equal(sql_get(b->w.t.app,
                         "SELECT dead_ms > 0 AND held_ms > 0 FROM outbox_held"),
        1);
}

static void test_settle_hopeless_reason_is_dead_at_once(void **state)
{
    static const int hopeless[] = {0x90, TOO_LARGE, 0x99};
    struct bench *b = *state;
    struct relay *r = sending(b, 4);

    for (size_t i = 0; i < COUNT(hopeless); i++)
        fake_settle(r->out, i, hopeless[i]);
    fake_settle(r->out, 3, 0);
    relay_run_ms(r, 2000);
    assert_string_equal(held(b), "t1|dead|1 t2|dead|1 t3|dead|1");
    assert_int_equal(cursor(b), 4);
    relay_run_ms(r, 3600 * 1000);
    assert_int_equal(r->out->count, 4);
}

/* What the broker confuses is the connection, not the message. */
static void test_settle_packet_id_in_use_connects_again(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 2);

    fake_settle(r->out, 0, 0x91);
    relay_run_ms(r, 1);
    assert_int_equal(r->out->aborts, 1);
    assert_has(r->log, "packet id in use");
    assert_string_equal(held(b), "");
    r->out->auto_settle = 1;
    relay_run_ms(r, 3000);
    assert_int_equal(r->out->connects, 2);
    assert_string_equal(fake_topics(r->out, 0), "t1 t2 t2 t1");
    assert_int_equal(cursor(b), 2);
}

static const char *after_puback(struct bench *b, int reason)
{
    struct relay *r = &b->r;
    static char out[60];

    relay_put(r, "t", 1);
    relay_run_ms(r, 1);
    (void)fake_settle_all(r->out, reason);
    relay_run_ms(r, 1);
    (void)snprintf(out, sizeof(out), "%s%s%s%s", held(b),
        r->e.sender.delivered > 0 ? "delivered" : "",
        r->e.sender.pause_us > b->w.sim.mono_us ? "paused" : "",
        r->e.outbound.state == LINK_WAITING ? "reconnects" : "");
    return out;
}

static const char *wanted_after(int reason)
{
    if (reason < 0x80)
        return "delivered";
    if (reason == 0x90 || reason == 0x95 || reason == 0x99)
        return "t1|dead|1";
    if (reason == 0x97)
        return "paused";
    return reason == 0x91 ? "reconnects" : "t1|retry|1";
}

static void test_settle_every_puback_has_its_outcome(void **state)
{
    struct bench *b = *state;

    for (int reason = 0; reason <= 0xff; reason++) {
        (void)bench_up(b);
        assert_string_equal(after_puback(b, reason), wanted_after(reason));
        assert_int_equal(bench_tear_down(state), 0);
        assert_int_equal(bench_set_up(state), 0);
        b = *state;
    }
}

static void test_settle_quota_slows_down_and_charges_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 8;
    r = sending(b, 7);
    relay_put(r, "n", 20);
    (void)fake_settle_all(r->out, QUOTA);
    relay_idle_ms(r, 0);
    relay_run_ms(r, 900);
    assert_int_equal(r->out->count, 7); /* a pause of a second */
    assert_string_equal(held(b), "");
    relay_idle_ms(r, 200);
    assert_int_equal(r->out->in_flight, 1); /* halved each time */
    r->out->auto_settle = 1;
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 3000);
    assert_int_equal(cursor(b), 27);
    /* PUBACKs opened the window again */
    assert_int_equal(r->e.sender.allowed, 8);
}

static void test_settle_quota_amid_dead_rows_does_not_spin(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload) VALUES ('t', ''),"
        " (CAST(x'ff' AS TEXT), ''), (CAST(x'ff' AS TEXT), ''), ('u', '')");
    relay_step(r);
    assert_int_equal(r->out->count, 1);
    r->steps = 0;
    fake_settle(r->out, 0, QUOTA);
    relay_run_ms(r, 900);
    assert_true(r->steps < 20);
    relay_idle_ms(r, 1000);
    assert_string_equal(fake_topics(r->out, 1), "t u");
}

static void test_settle_quota_beside_a_due_row_does_not_spin(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 2);

    b->w.sim.random_byte = 0; /* a tenth of each backoff */
    fake_settle(r->out, 0, DENIED);
    relay_run_ms(r, 1);
    fake_settle(r->out, 1, QUOTA);
    r->steps = 0;
    relay_run_ms(r, 900);
    assert_true(r->steps < 20);
    relay_idle_ms(r, 1000);
    assert_string_equal(fake_topics(r->out, 2), "t1 t2");
}

/* Delivered before its lane's cursor is past it, it would be found again
 * after a crash. */
static void test_settle_held_row_waits_for_the_cursor(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 2);

    fake_settle(r->out, 1, DENIED);
    relay_run_ms(r, 10000);
    assert_string_equal(held(b), "t2|retry|1");
    assert_int_equal(r->out->count, 2);
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 2000);
    assert_string_equal(fake_topics(r->out, 2), "t2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_settle_refusal_keeps_the_reason_string),
        BENCH(test_settle_cursor_moves_only_after_the_puback),
        BENCH(test_settle_cursor_is_the_settled_prefix),
        BENCH(test_settle_warnings_below_0x80_are_success),
        BENCH(test_settle_lost_link_sends_the_same_ids_and_charges_nothing),
        BENCH(test_settle_weeks_offline_charge_nothing),
        BENCH(test_settle_late_answer_of_an_old_link_is_not_counted),
        BENCH(test_settle_refused_row_waits_and_comes_again),
        BENCH(test_settle_held_row_is_published_when_it_is_delivered),
        BENCH(test_settle_refused_row_backs_off_and_dies_at_the_limit),
        BENCH(test_settle_hopeless_reason_is_dead_at_once),
        BENCH(test_settle_packet_id_in_use_connects_again),
        BENCH(test_settle_every_puback_has_its_outcome),
        BENCH(test_settle_quota_slows_down_and_charges_nothing),
        BENCH(test_settle_quota_amid_dead_rows_does_not_spin),
        BENCH(test_settle_quota_beside_a_due_row_does_not_spin),
        BENCH(test_settle_held_row_waits_for_the_cursor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
