/* SPDX-License-Identifier: MIT */
/*
 * What the port asks of Paho: the linker hands us its calls (--wrap), and we
 * look at their arguments, come back late, or answer ourselves.
 *
 * One rig at a time; the calls are made on the test's thread, the callbacks
 * come on Paho's.
 */
#include <MQTTAsync.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "paho_rig.h"

/* A test that hangs has failed; a callback that waits for a lock does. */
#define HANG_S 30

static struct {
    int persistence;
    MQTTAsync_createOptions create;
    unsigned is_connect_answered; /* by us: nothing goes out */
    MQTTAsync_connectOptions connect;
    struct recorder *late; /* send returns when the answer was recorded */
    unsigned sends;
    MQTTAsync_messageArrived *on_message;
    MQTTAsync_deliveryComplete *on_delivery;
    atomic_uint messages, zeros;      /* calls of on_message, and its zeros */
    atomic_uint busy, ends, overlaps; /* see enter */
} seen;

/* ---- between the port and Paho ------------------------------------------- */

int __real_MQTTAsync_createWithOptions(MQTTAsync *handle, const char *uri,
    const char *client_id, int persistence, void *context,
    MQTTAsync_createOptions *o);
int __wrap_MQTTAsync_createWithOptions(MQTTAsync *handle, const char *uri,
    const char *client_id, int persistence, void *context,
    MQTTAsync_createOptions *o);
int __real_MQTTAsync_connect(MQTTAsync handle, MQTTAsync_connectOptions *o);
int __wrap_MQTTAsync_connect(
    MQTTAsync handle, const MQTTAsync_connectOptions *o);
int __real_MQTTAsync_setCallbacks(MQTTAsync handle, void *ctx,
    MQTTAsync_connectionLost *lost, MQTTAsync_messageArrived *arrived,
    MQTTAsync_deliveryComplete *delivered);
int __wrap_MQTTAsync_setCallbacks(MQTTAsync handle, void *ctx,
    MQTTAsync_connectionLost *lost, MQTTAsync_messageArrived *arrived,
    MQTTAsync_deliveryComplete *delivered);
int __real_MQTTAsync_send(MQTTAsync handle, const char *topic, int len,
    const void *payload, int qos, int retained, MQTTAsync_responseOptions *r);
int __wrap_MQTTAsync_send(MQTTAsync handle, const char *topic, int len,
    const void *payload, int qos, int retained, MQTTAsync_responseOptions *r);

void __real_MQTTAsync_destroy(MQTTAsync *handle);
void __wrap_MQTTAsync_destroy(MQTTAsync *handle);

/* Paho makes or ends a handle; it must not do two at a time. */
static void enter(void)
{
    atomic_fetch_add(&seen.overlaps, atomic_fetch_add(&seen.busy, 1) != 0);
}

static void leave(void)
{
    atomic_fetch_sub(&seen.busy, 1);
}

int __wrap_MQTTAsync_createWithOptions(MQTTAsync *handle, const char *uri,
    const char *client_id, int persistence, void *context,
    MQTTAsync_createOptions *o)
{
    enter();
    seen.persistence = persistence;
    seen.create = *o;
    int rc = __real_MQTTAsync_createWithOptions(
        handle, uri, client_id, persistence, context, o);
    leave();
    return rc;
}

void __wrap_MQTTAsync_destroy(MQTTAsync *handle)
{
    enter();
    __real_MQTTAsync_destroy(handle);
    leave();
    atomic_fetch_add(&seen.ends, 1);
}

int __wrap_MQTTAsync_connect(
    MQTTAsync handle, const MQTTAsync_connectOptions *o)
{
    seen.connect = *o;
    if (seen.is_connect_answered)
        return MQTTASYNC_SUCCESS;
    return __real_MQTTAsync_connect(
        handle, (MQTTAsync_connectOptions *)(uintptr_t)o);
}

static int on_message(void *ctx, char *topic, int len, MQTTAsync_message *m)
{
    int answer = seen.on_message(ctx, topic, len, m);

    atomic_fetch_add(&seen.zeros, answer == 0);
    atomic_fetch_add(&seen.messages, 1);
    return answer;
}

int __wrap_MQTTAsync_setCallbacks(MQTTAsync handle, void *ctx,
    MQTTAsync_connectionLost *lost, MQTTAsync_messageArrived *arrived,
    MQTTAsync_deliveryComplete *delivered)
{
    seen.on_message = arrived;
    seen.on_delivery = delivered;
    return __real_MQTTAsync_setCallbacks(
        handle, ctx, lost, on_message, delivered);
}

int __wrap_MQTTAsync_send(MQTTAsync handle, const char *topic, int len,
    const void *payload, int qos, int retained, MQTTAsync_responseOptions *r)
{
    int rc =
        __real_MQTTAsync_send(handle, topic, len, payload, qos, retained, r);

    seen.sends++;
    if (seen.late != NULL)
        assert_true(recorder_wait(seen.late, &seen.late->settled, seen.sends));
    return rc;
}

/* ---- configuration ------------------------------------------------------- */

/* Everything that Paho would do by itself is off. */
static void expect_bare(struct rig *rig, uint32_t mqtt_version)
{
    rig->config.mqtt_version = mqtt_version;
    rig_up(rig);
    assert_int_equal(seen.persistence, MQTTCLIENT_PERSISTENCE_NONE);
    assert_int_equal(seen.create.MQTTVersion, mqtt_version);
    assert_int_equal(seen.create.sendWhileDisconnected, 0);
    assert_int_equal(seen.create.allowDisconnectedSendAtAnyTime, 0);
    assert_int_equal(seen.connect.MQTTVersion, mqtt_version);
    assert_int_equal(seen.connect.automaticReconnect, 0);
    assert_int_equal(seen.connect.retryInterval, 0);
    assert_int_equal(seen.connect.serverURIcount, 0);
    assert_int_equal(seen.connect.maxInflight, 65535);
    /* it fires for refused messages too */
    assert_null(seen.on_delivery);
}

static void test_paho_calls_leave_nothing_to_paho(void **state)
{
    expect_bare(*state, 5);
}

static void test_paho_calls_v3_leave_nothing_to_paho(void **state)
{
    expect_bare(*state, 4);
}

/* ---- answers ------------------------------------------------------------- */

/* 1.3.12 has a refusal of CONNECT in code, 1.3.15 in reasonCode. */
static void refuse_connect(struct rig *rig, int code, int reason)
{
    MQTTAsync_failureData5 d = MQTTAsync_failureData5_initializer;

    seen.is_connect_answered = 1;
    rig_connect(rig);
    d.code = code;
    d.reasonCode = (enum MQTTReasonCodes)reason;
    seen.connect.onFailure5(seen.connect.context, &d);
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.losts, 1);
    assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
    assert_int_equal(rig->r.lost_reason, 0x87);
}

static void test_paho_calls_refusal_in_code_is_taken(void **state)
{
    refuse_connect(*state, 0x87, 0);
}

static void test_paho_calls_refusal_in_reason_code_is_taken(void **state)
{
    refuse_connect(*state, MQTTASYNC_FAILURE, 0x87);
}

static void test_paho_calls_puback_before_send_returns_is_known(void **state)
{
    struct rig *rig = *state;

    rig_up(rig);
    seen.late = &rig->r;
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t token = i * 37 % 100;
        assert_int_equal(
            rig_send(rig, i % 2 ? "rc=0x87" : "x", token), POSTBAG_OK);
        assert_int_equal(rig->r.outcomes[token].count, 1);
        assert_int_equal(rig->r.outcomes[token].reason, i % 2 ? 0x87 : 0);
    }
}

static void test_paho_calls_messages_are_never_left_to_paho(void **state)
{
    struct rig *rig = *state;

    rig->connect.session_expiry_s = 60;
    rig_up(rig);
    broker_tell(rig->broker, "publish rig/in one");
    assert_true(broker_wait(rig->broker, " < PUBACK", 1));
    rig_disconnect(rig, 0);
    for (int i = 0; i < 10; i++)
        broker_tell(rig->broker, "publish rig/in more");
    recorder_answer(&rig->r, POSTBAG_EIO);
    rig_up(rig);
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    rig_disconnect(rig, 1);
    assert_true(atomic_load(&seen.messages) >= 2);
    assert_int_equal(atomic_load(&seen.zeros), 0);
}

/* ---- standard output ----------------------------------------------------- */

/* Newer versions print while they connect to one of several servers. */
static void test_paho_calls_print_nothing(void **state)
{
    struct rig *rig = *state;
    int own = dup(STDOUT_FILENO);
    int file = memfd_create("stdout", MFD_CLOEXEC);

    assert_true(own >= 0 && file >= 0);
    (void)fflush(stdout);
    assert_true(dup2(file, STDOUT_FILENO) >= 0);
    rig_up(rig);
    rig_settle(rig, "x", 0, POSTBAG_OK, 0);
    broker_tell(rig->broker, "cut");
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    rig_disconnect(rig, 0);
    (void)fflush(stdout);
    assert_true(dup2(own, STDOUT_FILENO) >= 0);
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    (void)close(own);
    (void)close(file);
}

/* ---- locks --------------------------------------------------------------- */

/* Events that call down again: with a lock of the port held around an event
   this would wait for ever. */
struct caller {
    struct rig *rig;
    struct postbag_transport_events below;
    atomic_uint calls;
};

static void call_down(struct caller *c, unsigned most)
{
    if (atomic_fetch_add(&c->calls, 1) < most)
        (void)rig_send(c->rig, "from within", 1);
}

static void on_up(
    void *ctx, uint32_t generation, const struct postbag_link *link)
{
    struct caller *c = ctx;

    call_down(c, 3);
    c->below.up(c->below.ctx, generation, link);
}

static void on_lost(
    void *ctx, uint32_t generation, int err, int reason, const char *text)
{
    struct caller *c = ctx;

    call_down(c, UINT32_MAX);
    c->below.lost(c->below.ctx, generation, err, reason, text);
}

static void on_settled(
    void *ctx, uint32_t token, int err, int reason, const char *text)
{
    struct caller *c = ctx;

    call_down(c, 3);
    c->below.settled(c->below.ctx, token, err, reason, text);
}

static int on_arrived(
    void *ctx, uint32_t generation, const struct postbag_frame *f)
{
    struct caller *c = ctx;

    call_down(c, UINT32_MAX);
    return c->below.arrived(c->below.ctx, generation, f);
}

static void on_subscribed(void *ctx, uint32_t generation)
{
    struct caller *c = ctx;

    call_down(c, UINT32_MAX);
    c->below.subscribed(c->below.ctx, generation);
}

static void test_paho_calls_events_come_without_a_lock(void **state)
{
    struct rig *rig = *state;
    struct caller c = {.rig = rig, .below = rig->r.events};
    const char *filter = "rig/in";

    rig->r.events = (struct postbag_transport_events){
        .ctx = &c,
        .up = on_up,
        .lost = on_lost,
        .settled = on_settled,
        .arrived = on_arrived,
        .subscribed = on_subscribed,
    };
    rig->connect.session_expiry_s = 60;
    rig_up(rig);
    assert_int_equal(
        rig->transport->ops->subscribe(rig->transport, &filter, 1), POSTBAG_OK);
    assert_true(recorder_wait(&rig->r, &rig->r.subscribed, 1));
    broker_tell(rig->broker, "publish rig/in one");
    assert_true(recorder_wait(&rig->r, &rig->r.arrivals, 1));
    assert_true(recorder_wait(&rig->r, &rig->r.settled, 3));
    broker_tell(rig->broker, "cut");
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    rig_disconnect(rig, 0);
    assert_true(atomic_load(&c.calls) >= 5);
}

/* ---- handles ------------------------------------------------------------- */

enum { CYCLES = 5 };

/* On two threads: nothing of cmocka here. */
static void *make_and_end(void *ctx)
{
    struct rig *rig = ctx;

    for (unsigned i = 0; i < CYCLES; i++) {
        rig->connect.generation++;
        if (rig->transport->ops->connect(
                rig->transport, &rig->connect, &rig->r.events) == POSTBAG_OK)
            rig->transport->ops->disconnect(rig->transport, 1);
    }
    return NULL;
}

static struct rig *make_transport(struct rig *rig)
{
    rig_up(rig);
    rig_disconnect(rig, 0);
    recorder_open(&rig->r);
    return rig;
}

static void test_paho_calls_one_handle_at_a_time_is_made_or_ended(void **state)
{
    struct rig *one = make_transport(*state);
    struct rig *two = make_transport(rig_fake(NULL));
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, make_and_end, two);

    assert_int_equal(rc, 0);
    (void)make_and_end(one);
    assert_int_equal(pthread_join(thread, NULL), 0);
    rig_free(two);
    assert_int_equal(atomic_load(&seen.ends), 2 + 2 * CYCLES);
    assert_int_equal(atomic_load(&seen.overlaps), 0);
}

static int set_up(void **state)
{
    memset(&seen, 0, sizeof(seen));
    (void)alarm(HANG_S);
    return rig_set_up(state);
}

static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, rig_tear_down)
    TEST(test_paho_calls_leave_nothing_to_paho),
    TEST(test_paho_calls_v3_leave_nothing_to_paho),
    TEST(test_paho_calls_refusal_in_code_is_taken),
    TEST(test_paho_calls_refusal_in_reason_code_is_taken),
    TEST(test_paho_calls_puback_before_send_returns_is_known),
    TEST(test_paho_calls_messages_are_never_left_to_paho),
    TEST(test_paho_calls_print_nothing),
    TEST(test_paho_calls_events_come_without_a_lock),
    TEST(test_paho_calls_one_handle_at_a_time_is_made_or_ended),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
