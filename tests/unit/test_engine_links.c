/* SPDX-License-Identifier: MIT */
/* What the engine does for its links: leaving in good order, what it tells of
 * a lost one and of dead messages, the clock that was set. */
#include "engine.h"

#include <stdio.h>
#include <string.h>

#include "relay.h"
#include "unit.h"

static int64_t cursor(struct bench *b)
{
    return sql_get(
        b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0");
}

/* ---- servers ---- */

/* Up at the second of two servers, to be left in 100 ms. */
static struct relay *away(struct bench *b)
{
    struct relay *r = &b->r;

    r->out->servers = 2;
    r->out->connect_err = POSTBAG_ELINK;
    relay_open(r);
    relay_run_ms(r, 10);
    r->out->connect_err = 0;
    relay_run_ms(r, 1500);
    assert_int_equal(r->e.outbound.info.server, 1);
    relay_idle_ms(
        r, (r->e.outbound.up_us - b->w.sim.mono_us) / 1000 + 600 * 1000 - 100);
    assert_int_equal(r->out->disconnects, 0);
    return r;
}

static void test_engine_goes_back_to_the_first_server(void **state)
{
    struct bench *b = *state;
    struct relay *r = away(b);

    relay_idle_ms(r, 200);
    assert_int_equal(r->out->disconnects, 1);
    assert_int_equal(r->out->aborts, 0);
    assert_int_equal(r->e.outbound.state, LINK_UP);
    assert_int_equal(r->e.outbound.info.server, 0);
    relay_put(r, "t", 1);
    relay_run_ms(r, 10);
    assert_int_equal(r->out->count, 1);
}

static void test_engine_waits_for_pubacks_before_it_leaves(void **state)
{
    struct bench *b = *state;
    struct relay *r = away(b);

    relay_put(r, "t", 2);
    relay_run_ms(r, 200);
    assert_int_equal(r->out->count, 2);
    relay_put(r, "u", 1);
    relay_run_ms(r, 4000);
    assert_int_equal(r->out->count, 2); /* takes nothing new */
    assert_int_equal(r->out->disconnects, 0);
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 10);
    assert_int_equal(r->out->disconnects, 1);
    assert_int_equal(r->out->aborts, 0);
    assert_string_equal(fake_topics(r->out, 0), "t1 t2 u1");
    relay_run_ms(r, 2000);
    assert_int_equal(cursor(b), 2); /* what was settled is not sent again */
}

static void test_engine_does_not_wait_for_ever_before_it_leaves(void **state)
{
    struct bench *b = *state;
    struct relay *r = away(b);

    relay_put(r, "t", 2);
    relay_run_ms(r, 5000);
    assert_int_equal(r->out->disconnects, 0);
    r->steps = 0;
    relay_idle_ms(r, 300);
    assert_true(r->steps < 10);
    assert_int_equal(r->out->disconnects, 1);
    assert_string_equal(fake_topics(r->out, 0), "t1 t2 t1 t2");
    assert_string_equal(r->out->sent[2].id, r->out->sent[0].id);
}

static void test_engine_tells_that_a_message_may_be_the_reason(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 2);
    relay_run_ms(r, 1);
    fake_lose(r->out, POSTBAG_EREFUSED, 0x95);
    relay_run_ms(r, 1);
    assert_has(r->log, "packet too large (0x95)");
    assert_has(r->log, "one of the 2 messages in flight");
    r->log[0] = '\0';
    r->e.sender.pause_us = INT64_MAX; /* nothing is in flight */
    relay_run_ms(r, 2000);
    r->e.sender.pause_us = INT64_MAX;
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 1);
    fake_lose(r->out, POSTBAG_EREFUSED, 0x95);
    relay_run_ms(r, 1);
    assert_has(r->log, "packet too large (0x95)");
    assert_null(strstr(r->log, "in flight"));
}

static const char *live_state(const struct relay *r)
{
    static char text[2000];
    FILE *f = fopen(r->e.live.path, "r");

    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    assert_int_equal(fclose(f), 0);
    return text;
}

static void test_engine_live_state_keeps_the_certificates_ends(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    r->options.run_dir = b->w.t.folder;
    r->out->link.own_certificate_end_s = 4000000000;
    r->out->link.server_certificate_end_s = 4000000001;
    (void)bench_up(b);
    relay_run_ms(r, 2000);
    assert_has(live_state(r), "\nserver=1\n");
    r->out->connect_err = POSTBAG_ELINK;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 60000);
    assert_has(live_state(r), "\nlink=down\n");
    assert_has(live_state(r), "\nserver=0\n");
    assert_has(live_state(r), "\nown_certificate_end_s=4000000000\n");
    assert_has(live_state(r), "\nserver_certificate_end_s=4000000001\n");
}

/* ---- dead messages ---- */

/* The next message is refused for good. */
static void bury_one(struct relay *r)
{
    relay_put(r, "t", 1);
    relay_run_ms(r, 1);
    fake_settle(r->out, r->out->count - 1, 0x90);
    relay_run_ms(r, 1);
}

static void test_engine_tells_of_a_dead_message_at_once(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    bury_one(r);
    assert_has(r->log,
        "\n1 message is dead: refused: topic name invalid (0x90);"
        " see postbag dead ls\n");
    assert_int_equal(r->errors, 0);
}

static void test_engine_tells_of_a_held_message_that_dies(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_attempts = 2;
    r = bench_up(b);
    relay_put(r, "t", 1);
    relay_run_ms(r, 1);
    fake_settle(r->out, 0, 0x87);
    relay_run_ms(r, 10000);
    assert_null(strstr(r->log, "dead"));
    assert_int_equal(r->out->count, 2);
    fake_settle(r->out, 1, 0x87);
    relay_run_ms(r, 1);
    assert_has(r->log, "1 message is dead: refused: not authorized (0x87)");
}

static void test_engine_tells_of_many_dead_messages_together(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.poll_ms = 60000;
    r = bench_up(b);
    bury_one(r);
    r->log[0] = '\0';
    for (int i = 0; i < 17; i++)
        bury_one(r);
    assert_null(strstr(r->log, "dead"));
    relay_idle_ms(r, 10000); /* comes by itself */
    assert_string_equal(r->log,
        "17 messages are dead, the last one: refused: topic name invalid"
        " (0x90); see postbag dead ls\n");
    r->log[0] = '\0';
    relay_run_ms(r, 60000);
    assert_null(strstr(r->log, "dead"));
}

static void test_engine_tells_of_dead_messages_before_it_ends(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    for (int i = 0; i < 3; i++)
        bury_one(r);
    postbag__engine_shut(&r->e);
    assert_has(r->log, "2 messages are dead");
}

/* ---- the clock ---- */

/* Not from when the destination became ours, long after it perhaps. */
static void test_engine_standing_by_counts_a_hint_from_when_it_came(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;
    int64_t told_us;
    int64_t cap_us;

    relay_open(r);
    sql_run(b->w.t.app, "BEGIN IMMEDIATE");
    relay_run_ms(r, 100);
    told_us = b->w.sim.mono_us;
    postbag__link_note_hint(&r->e.outbound, 0);
    relay_run_ms(r, 5000);
    assert_int_equal(r->e.lease.is_owner, 0);
    sql_run(b->w.t.app, "ROLLBACK");
    relay_idle_ms(r, 1100);
    assert_int_equal(r->e.lease.is_owner, 1);
    cap_us = (int64_t)r->e.outbound.options.reconnect_cap_ms * 1000;
    assert_true(r->e.outbound.hold_us >= told_us + cap_us);
    assert_true(r->e.outbound.hold_us <= told_us + cap_us + 1000 * 1000);
}

static void test_engine_tries_now_when_its_clock_is_set(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    b->w.sim.random_byte = 0xff;
    b->r.options.reconnect_base_ms = 300000;
    r->out->connect_err = POSTBAG_ELINK;
    relay_open(r);
    relay_run_ms(r, 1000);
    r->out->connect_err = 0;
    assert_int_equal(r->out->connects, 1);
    b->w.sim.wall_ms += INT64_C(400000000000);
    relay_idle_ms(r, 5100); /* its safety poll */
    assert_int_equal(r->e.outbound.state, LINK_UP);
}

static void test_engine_names_a_message_that_nobody_asked_for(void **state)
{
    const struct postbag_frame f = {.topic = "x", .payload = ""};
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    const struct postbag_transport_events *up = r->out->up;

    assert_true(
        up->arrived(up->ctx, r->out->connect.generation, &f) != POSTBAG_OK);
    assert_has(r->log, "outbound link: the broker sends a message that nobody");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_engine_goes_back_to_the_first_server),
        BENCH(test_engine_waits_for_pubacks_before_it_leaves),
        BENCH(test_engine_does_not_wait_for_ever_before_it_leaves),
        BENCH(test_engine_tells_that_a_message_may_be_the_reason),
        BENCH(test_engine_live_state_keeps_the_certificates_ends),
        BENCH(test_engine_tells_of_a_dead_message_at_once),
        BENCH(test_engine_tells_of_a_held_message_that_dies),
        BENCH(test_engine_tells_of_many_dead_messages_together),
        BENCH(test_engine_tells_of_dead_messages_before_it_ends),
        BENCH(test_engine_standing_by_counts_a_hint_from_when_it_came),
        BENCH(test_engine_tries_now_when_its_clock_is_set),
        BENCH(test_engine_names_a_message_that_nobody_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
