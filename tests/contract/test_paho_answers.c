/* SPDX-License-Identifier: MIT */
/* Paho against the scripted broker: answers that are missing, out of order,
   doubled, made up, cut in two, and refusals of each kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "paho_rig.h"

#define MANY 200

static void send_many(struct rig *rig, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(rig_send(rig, "x", i), POSTBAG_OK);
}

static struct rig *begin(void **state, const char *const settings[])
{
    rig_free(*state);
    *state = rig_fake(settings);
    return *state;
}

static void expect_each_settled(struct rig *rig, uint32_t count)
{
    assert_true(recorder_wait(&rig->r, &rig->r.settled, count));
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.settled, count);
    assert_int_equal(recorder_settled_once(&rig->r, count, POSTBAG_OK), count);
    assert_int_equal(rig->r.losts, 0);
    assert_int_equal(rig->r.late, 0);
}

/* ---- PUBACK -------------------------------------------------------------- */

static void test_paho_puback_missing_leaves_that_one_unsettled(void **state)
{
    struct rig *rig = rig_again(state, "skipack=3");
    rig_up(rig);
    send_many(rig, 10);
    assert_true(recorder_wait(&rig->r, &rig->r.settled, 9));
    assert_int_equal(rig->r.outcomes[2].count, 0);
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.settled, 10);
    assert_int_equal(recorder_settled_once(&rig->r, 10, POSTBAG_OK), 9);
    assert_int_equal(rig->r.outcomes[2].err, POSTBAG_ELINK);
}

/* Every other one is refused: a mix-up would settle one with the other's
   answer. */
static void shuffle(struct rig *rig)
{
    rig_up(rig);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(rig_send(rig, i % 2 ? "rc=0x87" : "x", i), POSTBAG_OK);
    assert_true(broker_wait(rig->broker, " < PUBLISH", MANY));
    broker_tell(rig->broker, "set hold=");
    assert_true(recorder_wait(&rig->r, &rig->r.settled, MANY));
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(rig->r.outcomes[i].count, 1);
        assert_int_equal(rig->r.outcomes[i].reason, i % 2 ? 0x87 : 0);
    }
}

static void test_paho_pubacks_backwards_settle_their_own(void **state)
{
    const char *const settings[] = {"hold=1", "ackorder=reverse", NULL};
    struct rig *rig = begin(state, settings);
    shuffle(rig);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(rig->r.order[i], MANY - 1 - i);
}

/* As it came, but for what no one would read: who shows it makes it fit. */
static void test_paho_puback_refusal_brings_the_brokers_words(void **state)
{
    struct rig *rig = rig_again(state, "words=%1b[31m%ffno");
    rig_up(rig);
    rig_settle(rig, "rc=0x87", 0, POSTBAG_EREFUSED, 0x87);
    assert_string_equal(rig->r.settled_text, "\x1b[31m\xffno");
    broker_tell(rig->broker, "set wordslen=65535");
    rig_settle(rig, "rc=0x97", 1, POSTBAG_EREFUSED, 0x97);
    assert_int_equal(strlen(rig->r.settled_text), 255);
    broker_tell(rig->broker, "set words=");
    broker_tell(rig->broker, "set wordslen=");
    rig_settle(rig, "rc=0x87", 2, POSTBAG_EREFUSED, 0x87);
    assert_int_equal(rig->r.has_text, 0);
    rig_settle(rig, "x", 3, POSTBAG_OK, 0);
    assert_int_equal(rig->r.has_text, 0);
}

static void test_paho_pubacks_at_random_settle_their_own(void **state)
{
    const char *const settings[] = {"hold=1", "ackorder=random", NULL};
    shuffle(begin(state, settings));
}

static void test_paho_pubacks_twice_settle_once(void **state)
{
    struct rig *rig = rig_again(state, "acktwice=1");
    rig_up(rig);
    send_many(rig, MANY);
    assert_true(broker_wait(rig->broker, " > PUBACK", 2 * MANY));
    expect_each_settled(rig, MANY);
}

static void test_paho_pubacks_of_unknown_ids_settle_nothing(void **state)
{
    struct rig *rig = rig_again(state, "ackunknown=1");
    rig_up(rig);
    send_many(rig, MANY);
    expect_each_settled(rig, MANY);
}

/* ---- CONNACK ------------------------------------------------------------- */

static void expect_refused(
    struct rig *rig, uint32_t mqtt_version, const int *codes, size_t count)
{
    rig->config.mqtt_version = mqtt_version;
    for (size_t i = 0; i < count; i++) {
        broker_tell(rig->broker, "set refuse=%d", codes[i]);
        rig_lost(rig);
        rig_disconnect(rig, 0);
        assert_int_equal(rig->r.losts, i + 1);
        assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
        assert_int_equal(rig->r.lost_reason, codes[i]);
    }
    assert_int_equal(rig->r.ups, 0);
    assert_int_equal(rig->r.late, 0);
    broker_tell(rig->broker, "set refuse=");
    rig_up(rig);
}

static void test_paho_connack_each_refusal_keeps_its_code(void **state)
{
    static const int codes[] = {0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
        0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D,
        0x9F};
    expect_refused(*state, 5, codes, sizeof(codes) / sizeof(codes[0]));
}

static void test_paho_connack_v3_each_refusal_keeps_its_code(void **state)
{
    static const int codes[] = {1, 2, 3, 4, 5};
    expect_refused(*state, 4, codes, sizeof(codes) / sizeof(codes[0]));
}

static void test_paho_connack_cut_in_two_is_lost(void **state)
{
    struct rig *rig = rig_again(state, "halfconnack=1");
    rig_lost(rig);
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.ups, 0);
    assert_int_equal(rig->r.losts, 1);
    assert_int_equal(rig->r.lost_err, POSTBAG_ELINK);
    assert_non_null(strstr(rig->r.lost_text, "see option mqtt_version"));
    assert_non_null(strstr(rig->r.lost_text, "want TLS (ssl://)?"));
    broker_tell(rig->broker, "set halfconnack=");
    rig_up(rig);
}

/* ---- in the middle of a packet ------------------------------------------- */

static void test_paho_puback_cut_in_two_settles_nothing(void **state)
{
    struct rig *rig = rig_again(state, "halfpacket=5");
    rig_up(rig);
    rig_settle(rig, "x", 0, POSTBAG_OK, 0);
    for (uint32_t i = 1; i < 5; i++)
        assert_int_equal(rig_send(rig, "x", i), POSTBAG_OK);
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.lost_err, POSTBAG_ELINK);
    assert_int_equal(rig->r.settled, 5);
    assert_int_equal(rig->r.outcomes[4].err, POSTBAG_ELINK);
}

static void test_paho_publish_cut_in_two_settles_unknown(void **state)
{
    struct rig *rig = rig_again(state, "cutwithin=30000");
    char *payload = calloc(1, 60000);
    const struct postbag_frame f = {
        .topic = "rig/out",
        .payload = payload,
        .payload_len = 60000,
    };
    assert_non_null(payload);
    rig_up(rig);
    int err = rig->transport->ops->send(rig->transport, &f, 0);
    free(payload);
    assert_int_equal(err, POSTBAG_OK);
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.lost_err, POSTBAG_ELINK);
    assert_int_equal(rig->r.settled, 1);
    assert_int_equal(rig->r.outcomes[0].err, POSTBAG_ELINK);
    rig_up(rig);
    rig_settle(rig, "x", 1, POSTBAG_OK, 0);
}

/* ---- DISCONNECT ---------------------------------------------------------- */

static void test_paho_server_disconnect_keeps_each_code(void **state)
{
    static const int codes[] = {0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B,
        0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A,
        0x9B, 0x9C, 0x9D, 0x9E, 0xA0, 0xA1, 0xA2};
    struct rig *rig = *state;
    rig->connect.session_expiry_s = 60;
    for (uint32_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        broker_tell(rig->broker, "set discafter=1:%d", codes[i]);
        rig_up(rig);
        assert_int_equal(rig_send(rig, "x", i), POSTBAG_OK);
        assert_true(recorder_wait(&rig->r, &rig->r.losts, i + 1));
        rig_disconnect(rig, 0);
        assert_int_equal(rig->r.losts, i + 1);
        assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
        assert_int_equal(rig->r.lost_reason, codes[i]);
        assert_int_equal(rig->r.settled, i + 1);
        assert_int_equal(rig->r.outcomes[i].err, POSTBAG_ELINK);
    }
    assert_int_equal(rig->r.late, 0);
}

/* ---- silence ------------------------------------------------------------- */

static void test_paho_silent_broker_can_be_left(void **state)
{
    struct rig *rig = rig_again(state, "silent=1");
    rig_up(rig);
    send_many(rig, 10);
    assert_true(broker_wait(rig->broker, "not answered", 10));
    rig_disconnect(rig, 1);
    assert_int_equal(rig->r.settled, 10);
    assert_int_equal(recorder_settled_once(&rig->r, 10, POSTBAG_ELINK), 10);
}

static const struct CMUnitTest tests[] = {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
    TEST(test_paho_puback_missing_leaves_that_one_unsettled),
    TEST(test_paho_pubacks_backwards_settle_their_own),
    TEST(test_paho_pubacks_at_random_settle_their_own),
    TEST(test_paho_puback_refusal_brings_the_brokers_words),
    TEST(test_paho_pubacks_twice_settle_once),
    TEST(test_paho_pubacks_of_unknown_ids_settle_nothing),
    TEST(test_paho_connack_each_refusal_keeps_its_code),
    TEST(test_paho_connack_v3_each_refusal_keeps_its_code),
    TEST(test_paho_connack_cut_in_two_is_lost),
    TEST(test_paho_puback_cut_in_two_settles_nothing),
    TEST(test_paho_publish_cut_in_two_settles_unknown),
    TEST(test_paho_server_disconnect_keeps_each_code),
    TEST(test_paho_silent_broker_can_be_left),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
