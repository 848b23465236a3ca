/* SPDX-License-Identifier: MIT */
/* The tests behind transport_contract.h. */
#include "transport_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "postbag/postbag.h"
#include "recorder.h"

#define MANY 200

struct fixture {
    const struct contract_peer *peer;
    struct postbag_transport *transport;
    unsigned is_connected;
    size_t acks_within; /* PUBACKs that the peer had while arrived ran */
    struct recorder r;
};

/* ---- steps --------------------------------------------------------------- */

static int set_up(void **state)
{
    const struct contract_peer *peer = *state;
    struct fixture *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return -1;
    f->peer = peer;
    recorder_init(&f->r);
    peer->start(peer->ctx);
    f->transport = peer->make(peer->ctx);
    *state = f;
    return f->transport != NULL ? 0 : -1;
}

static void begin_connect(
    struct fixture *f, uint32_t generation, uint32_t session_expiry_s)
{
    struct postbag_connect c = {
        .generation = generation,
        .session_expiry_s = session_expiry_s,
        .timeout_ms = 10000,
    };
    recorder_open(&f->r);
    assert_int_equal(
        f->transport->ops->connect(f->transport, &c, &f->r.events), POSTBAG_OK);
    f->is_connected = 1;
}

static void connect_up(
    struct fixture *f, uint32_t generation, uint32_t session_expiry_s)
{
    unsigned ups = f->r.ups;
    begin_connect(f, generation, session_expiry_s);
    assert_true(recorder_wait(&f->r, &f->r.ups, ups + 1));
}

static void disconnect(struct fixture *f, unsigned abort)
{
    f->transport->ops->disconnect(f->transport, abort);
    f->is_connected = 0;
    recorder_close(&f->r);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->is_connected)
        disconnect(f, 1);
    f->transport->ops->destroy(f->transport);
    f->peer->stop(f->peer->ctx);
    recorder_destroy(&f->r);
    free(f);
    return 0;
}

static int send_one(struct fixture *f, uint32_t token)
{
    struct postbag_frame frame = {
        .topic = "contract/out",
        .payload = "hello",
        .payload_len = 5,
    };
    return f->transport->ops->send(f->transport, &frame, token);
}

static void send_many(struct fixture *f, uint32_t count)
{
    for (uint32_t token = 0; token < count; token++)
        assert_int_equal(send_one(f, token), POSTBAG_OK);
}

/* ---- connections --------------------------------------------------------- */

static void test_transport_connect_ready_peer_reports_up(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 7, 0);
    assert_int_equal(f->r.up_generation, 7);
    assert_int_equal(f->r.ups, 1);
    assert_int_equal(f->r.losts, 0);
    assert_true(f->r.link.mqtt_version == 4 || f->r.link.mqtt_version == 5);
    assert_int_equal(f->r.link.session_present, 0);
}

static void test_transport_connect_twice_is_refused(void **state)
{
    struct fixture *f = *state;
    struct postbag_connect c = {.generation = 2};
    connect_up(f, 1, 0);
    assert_int_equal(f->transport->ops->connect(f->transport, &c, &f->r.events),
        POSTBAG_ESTATE);
    assert_int_equal(send_one(f, 0), POSTBAG_OK);
    assert_true(recorder_wait(&f->r, &f->r.settled, 1));
}

static void test_transport_connect_unreachable_reports_lost(void **state)
{
    struct fixture *f = *state;
    f->transport->ops->destroy(f->transport);
    f->transport = f->peer->make_unreachable(f->peer->ctx);
    begin_connect(f, 3, 0);
    assert_true(recorder_wait(&f->r, &f->r.losts, 1));
    disconnect(f, 0);
    assert_int_equal(f->r.losts, 1);
    assert_int_equal(f->r.lost_generation, 3);
    assert_int_equal(f->r.lost_err, POSTBAG_ELINK);
    assert_int_not_equal(strlen(f->r.lost_text), 0);
    assert_int_equal(f->r.ups, 0);
}

static void test_transport_reconnect_has_the_new_generation(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 0);
    disconnect(f, 0);
    connect_up(f, 2, 0);
    assert_int_equal(f->r.up_generation, 2);
    assert_int_equal(send_one(f, 0), POSTBAG_OK);
    assert_true(recorder_wait(&f->r, &f->r.settled, 1));
    assert_int_equal(f->r.outcomes[0].err, POSTBAG_OK);
}

static void test_transport_kept_session_is_present_again(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 3600);
    assert_int_equal(f->r.link.session_present, 0);
    disconnect(f, 0);
    connect_up(f, 2, 3600);
    assert_int_equal(f->r.link.session_present, 1);
}

static void test_transport_disconnect_before_up_returns(void **state)
{
    struct fixture *f = *state;
    f->peer->stay_silent(f->peer->ctx);
    begin_connect(f, 1, 0);
    assert_true(f->peer->wait_connects(f->peer->ctx, 1));
    disconnect(f, 0);
    assert_true(f->peer->wait_closed(f->peer->ctx, 1));
    assert_int_equal(f->r.ups, 0);
    assert_int_equal(f->r.late, 0);
}

static void test_transport_disconnect_says_goodbye(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 0);
    disconnect(f, 0);
    assert_true(f->peer->wait_closed(f->peer->ctx, 1));
    assert_int_equal(f->peer->count_goodbyes(f->peer->ctx), 1);
}

static void test_transport_abort_says_nothing(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 0);
    disconnect(f, 1);
    assert_true(f->peer->wait_closed(f->peer->ctx, 1));
    assert_int_equal(f->peer->count_goodbyes(f->peer->ctx), 0);
}

static void test_transport_cut_reports_lost_once(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 5, 0);
    f->peer->cut(f->peer->ctx);
    assert_true(recorder_wait(&f->r, &f->r.losts, 1));
    disconnect(f, 0);
    assert_int_equal(f->r.losts, 1);
    assert_int_equal(f->r.lost_generation, 5);
    assert_int_equal(f->r.lost_err, POSTBAG_ELINK);
}

/* ---- sending ------------------------------------------------------------- */

static void test_transport_send_settles_once(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 0);
    assert_int_equal(send_one(f, 42), POSTBAG_OK);
    assert_true(recorder_wait(&f->r, &f->r.settled, 1));
    disconnect(f, 0);
    assert_int_equal(f->r.settled, 1);
    assert_int_equal(f->r.outcomes[42].count, 1);
    assert_int_equal(f->r.outcomes[42].err, POSTBAG_OK);
}

static void test_transport_sends_settle_in_order(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 0);
    send_many(f, MANY);
    assert_true(recorder_wait(&f->r, &f->r.settled, MANY));
    assert_int_equal(recorder_settled_once(&f->r, MANY, POSTBAG_OK), MANY);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(f->r.order[i], i);
}

static void test_transport_send_not_connected_is_elink(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(send_one(f, 0), POSTBAG_ELINK);
    connect_up(f, 1, 0);
    disconnect(f, 0);
    assert_int_equal(send_one(f, 0), POSTBAG_ELINK);
    assert_int_equal(f->r.settled, 0);
}

static void test_transport_send_after_lost_is_elink(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 0);
    f->peer->cut(f->peer->ctx);
    assert_true(recorder_wait(&f->r, &f->r.losts, 1));
    assert_int_equal(send_one(f, 0), POSTBAG_ELINK);
    disconnect(f, 0);
    assert_int_equal(f->r.settled, 0);
}

static void test_transport_disconnect_settles_what_is_in_flight(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 3600);
    f->peer->hold_acks(f->peer->ctx, 1);
    send_many(f, MANY);
    assert_true(f->peer->wait_publishes(f->peer->ctx, MANY));
    disconnect(f, 1);
    assert_int_equal(f->r.settled, MANY);
    assert_int_equal(recorder_settled_once(&f->r, MANY, POSTBAG_ELINK), MANY);
}

static void test_transport_cut_settles_what_is_in_flight(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 0);
    f->peer->hold_acks(f->peer->ctx, 1);
    send_many(f, MANY);
    assert_true(f->peer->wait_publishes(f->peer->ctx, MANY));
    f->peer->cut(f->peer->ctx);
    assert_true(recorder_wait(&f->r, &f->r.losts, 1));
    disconnect(f, 0);
    assert_int_equal(f->r.settled, MANY);
    assert_int_equal(recorder_settled_once(&f->r, MANY, POSTBAG_ELINK), MANY);
}

static void test_transport_disconnected_reports_nothing_more(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 3600);
    f->peer->hold_acks(f->peer->ctx, 1);
    send_many(f, 10);
    assert_true(f->peer->wait_publishes(f->peer->ctx, 10));
    disconnect(f, 0);
    f->peer->hold_acks(f->peer->ctx, 0);
    f->peer->publish(f->peer->ctx, "contract/in", "late");
    f->peer->cut(f->peer->ctx);
    assert_true(f->peer->wait_closed(f->peer->ctx, 1));
    assert_int_equal(f->r.late, 0);
    assert_int_equal(f->r.settled, 10);
    assert_int_equal(f->r.arrivals, 0);
}

/* ---- receiving ----------------------------------------------------------- */

static void test_transport_arrived_message_is_acknowledged(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 3600);
    f->peer->publish(f->peer->ctx, "contract/in", "open");
    assert_true(recorder_wait(&f->r, &f->r.arrivals, 1));
    assert_true(f->peer->wait_acks(f->peer->ctx, 1));
    assert_string_equal(f->r.topic, "contract/in");
    assert_string_equal(f->r.payload, "open");
    assert_int_equal(f->r.dup, 0);
    assert_int_equal(f->r.losts, 0);
}

static void count_acks(void *ctx, const struct postbag_frame *frame)
{
    struct fixture *f = ctx;
    (void)frame;
    f->acks_within += f->peer->count_acks(f->peer->ctx);
}

static void test_transport_ack_waits_for_the_event(void **state)
{
    struct fixture *f = *state;
    f->r.on_arrived = count_acks;
    f->r.on_arrived_ctx = f;
    connect_up(f, 1, 3600);
    f->peer->publish(f->peer->ctx, "contract/in", "open");
    assert_true(f->peer->wait_acks(f->peer->ctx, 1));
    assert_true(recorder_wait(&f->r, &f->r.arrivals, 1));
    assert_int_equal(f->acks_within, 0);
}

static void test_transport_refused_message_comes_again(void **state)
{
    struct fixture *f = *state;
    recorder_answer(&f->r, POSTBAG_ENOSPC);
    connect_up(f, 1, 3600);
    f->peer->publish(f->peer->ctx, "contract/in", "open");
    assert_true(recorder_wait(&f->r, &f->r.arrivals, 1));
    assert_true(recorder_wait(&f->r, &f->r.losts, 1));
    disconnect(f, 1);
    assert_int_equal(f->r.losts, 1);
    assert_true(f->peer->wait_closed(f->peer->ctx, 1));
    assert_int_equal(f->peer->count_acks(f->peer->ctx), 0);

    recorder_answer(&f->r, POSTBAG_OK);
    connect_up(f, 2, 3600);
    assert_true(recorder_wait(&f->r, &f->r.arrivals, 2));
    assert_string_equal(f->r.payload, "open");
    assert_int_equal(f->r.dup, 1);
    assert_true(f->peer->wait_acks(f->peer->ctx, 1));
}

/* Messages that were already on their way behind the refused one. */
static void test_transport_after_a_refusal_nothing_is_handed_up(void **state)
{
    struct fixture *f = *state;
    connect_up(f, 1, 3600);
    disconnect(f, 0);
    for (int i = 0; i < 20; i++)
        f->peer->publish(f->peer->ctx, "contract/in", "burst");
    recorder_answer(&f->r, POSTBAG_EBUSY);
    connect_up(f, 2, 3600);
    assert_true(recorder_wait(&f->r, &f->r.losts, 1));
    disconnect(f, 1);
    assert_true(f->peer->wait_closed(f->peer->ctx, 2));
    assert_int_equal(f->r.arrivals, 1);
    assert_int_equal(f->peer->count_acks(f->peer->ctx), 0);

    recorder_answer(&f->r, POSTBAG_OK);
    connect_up(f, 3, 3600);
    assert_true(recorder_wait(&f->r, &f->r.arrivals, 21));
    assert_true(f->peer->wait_acks(f->peer->ctx, 20));
}

/* ---- all ----------------------------------------------------------------- */

#define CONTRACT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int contract_run(const struct contract_peer *peer)
{
    struct CMUnitTest tests[] = {
        CONTRACT(test_transport_connect_ready_peer_reports_up),
        CONTRACT(test_transport_connect_twice_is_refused),
        CONTRACT(test_transport_connect_unreachable_reports_lost),
        CONTRACT(test_transport_reconnect_has_the_new_generation),
        CONTRACT(test_transport_kept_session_is_present_again),
        CONTRACT(test_transport_disconnect_before_up_returns),
        CONTRACT(test_transport_disconnect_says_goodbye),
        CONTRACT(test_transport_abort_says_nothing),
        CONTRACT(test_transport_cut_reports_lost_once),
        CONTRACT(test_transport_send_settles_once),
        CONTRACT(test_transport_sends_settle_in_order),
        CONTRACT(test_transport_send_not_connected_is_elink),
        CONTRACT(test_transport_send_after_lost_is_elink),
        CONTRACT(test_transport_disconnect_settles_what_is_in_flight),
        CONTRACT(test_transport_cut_settles_what_is_in_flight),
        CONTRACT(test_transport_disconnected_reports_nothing_more),
        CONTRACT(test_transport_arrived_message_is_acknowledged),
        CONTRACT(test_transport_ack_waits_for_the_event),
        CONTRACT(test_transport_refused_message_comes_again),
        CONTRACT(test_transport_after_a_refusal_nothing_is_handed_up),
    };
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tests[i].initial_state = (void *)(uintptr_t)peer;
    return _cmocka_run_group_tests(
        peer->name, tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL);
}
