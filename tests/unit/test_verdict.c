/* SPDX-License-Identifier: MIT */
/*
 * Every reason code there can be, for each packet that carries one.  The
 * tables are written from the standards (MQTT 5, 2.4, 3.2.2.2, 3.4.2.1 and
 * 3.14.2.1; MQTT 3.1.1, 3.2.2.3), not from the code.
 */
#include "verdict.h"

#include "postbag/transport.h"
#include "unit.h"

/* For CONNACK and DISCONNECT: a (again), s (slow), o (other server), t (taken
 * over), b (blames rows), q (quota); for PUBACK: d (dead), r (retry), t
 * (throttle), c (reconnect).  A code that a packet has no business to carry
 * passes. */
static const struct {
    int code;
    const char *name;
    char puback, connack, disconnect;
} codes[] = {
    {0x00, "success", 0, 0, 'a'},
    {0x01, "granted QoS 1", 0, 0, 'a'},
    {0x02, "granted QoS 2", 0, 0, 'a'},
    {0x04, "disconnect with will message", 0, 0, 'a'},
    {0x10, "no matching subscribers", 0, 'a', 'a'},
    {0x11, "no subscription existed", 0, 'a', 'a'},
    {0x18, "continue authentication", 0, 'a', 'a'},
    {0x19, "re-authenticate", 0, 'a', 'a'},
    {0x80, "unspecified error", 'r', 'a', 'a'},
    {0x81, "malformed packet", 'r', 's', 'b'},
    {0x82, "protocol error", 'r', 's', 'b'},
    {0x83, "implementation specific error", 'r', 'a', 'a'},
    {0x84, "unsupported protocol version", 'r', 's', 'a'},
    {0x85, "client identifier not valid", 'r', 's', 'a'},
    {0x86, "bad user name or password", 'r', 's', 's'},
    {0x87, "not authorized", 'r', 's', 'b'},
    {0x88, "server unavailable", 'r', 'a', 'a'},
    {0x89, "server busy", 'r', 'a', 'a'},
    {0x8a, "banned", 'r', 's', 's'},
    {0x8b, "server shutting down", 'r', 'a', 'a'},
    {0x8c, "bad authentication method", 'r', 's', 's'},
    {0x8d, "keep alive timeout", 'r', 'a', 'a'},
    {0x8e, "session taken over", 'r', 'a', 't'},
    {0x8f, "topic filter invalid", 'r', 'a', 's'},
    {0x90, "topic name invalid", 'd', 's', 'b'},
    {0x91, "packet identifier in use", 'c', 'a', 'a'},
    {0x92, "packet identifier not found", 'r', 'a', 'a'},
    {0x93, "receive maximum exceeded", 'r', 'a', 'a'},
    {0x94, "topic alias invalid", 'r', 'a', 'a'},
    {0x95, "packet too large", 'd', 's', 'b'},
    {0x96, "message rate too high", 'r', 's', 'q'},
    {0x97, "quota exceeded", 't', 's', 'q'},
    {0x98, "administrative action", 'r', 's', 's'},
    {0x99, "payload format invalid", 'd', 's', 'b'},
    {0x9a, "retain not supported", 'r', 's', 'b'},
    {0x9b, "QoS not supported", 'r', 's', 'b'},
    {0x9c, "use another server", 'r', 'o', 'o'},
    {0x9d, "server moved", 'r', 'o', 'o'},
    {0x9e, "shared subscriptions not supported", 'r', 'a', 's'},
    {0x9f, "connection rate exceeded", 'r', 's', 's'},
    {0xa0, "maximum connect time", 'r', 'a', 'a'},
    {0xa1, "subscription identifiers not supported", 'r', 'a', 's'},
    {0xa2, "wildcard subscriptions not supported", 'r', 'a', 's'},
};

static const struct {
    const char *name;
    char connack;
} mqtt_3_1_1[] = {
    {"accepted", 'a'},
    {"unacceptable protocol version", 's'},
    {"client identifier rejected", 's'},
    {"server unavailable", 'a'},
    {"bad user name or password", 's'},
    {"not authorized", 's'},
};

static size_t find(int code)
{
    size_t i = 0;

    while (i < COUNT(codes) && codes[i].code != code)
        i++;
    return i;
}

static void test_verdict_of_every_puback(void **state)
{
    static const char letters[] = {
        [VERDICT_DEAD] = 'd',
        [VERDICT_RETRY] = 'r',
        [VERDICT_THROTTLE] = 't',
        [VERDICT_RECONNECT] = 'c',
    };

    (void)state;
    for (int code = 0x80; code <= 0xff; code++) {
        size_t i = find(code);

        assert_int_equal(letters[postbag__verdict(code)],
            i == COUNT(codes) ? 'r' : codes[i].puback);
    }
}

static const char link_letters[] = {
    [LINK_AGAIN] = 'a',
    [LINK_SLOW] = 's',
    [LINK_OTHER_SERVER] = 'o',
    [LINK_TAKEN_OVER] = 't',
    [LINK_BLAMES_ROWS] = 'b',
    [LINK_QUOTA] = 'q',
};

static void test_verdict_of_every_connack(void **state)
{
    (void)state;
    for (int code = 0; code <= 0xff; code++) {
        size_t i = find(code);
        int wanted = i == COUNT(codes) ? 'a' : codes[i].connack;

        if ((size_t)code < COUNT(mqtt_3_1_1))
            wanted = mqtt_3_1_1[code].connack;
        assert_int_equal(link_letters[postbag__connack_verdict(code)], wanted);
    }
}

static void test_verdict_of_every_disconnect(void **state)
{
    (void)state;
    for (int code = 0; code <= 0xff; code++) {
        size_t i = find(code);

        assert_int_equal(link_letters[postbag__disconnect_verdict(code)],
            i == COUNT(codes) ? 'a' : codes[i].disconnect);
    }
}

static void test_verdict_every_reason_has_its_name(void **state)
{
    (void)state;
    assert_int_equal(COUNT(codes), 43); /* as many as the standard has */
    for (int code = -1; code <= 0x100; code++) {
        size_t i = find(code);
        const char *wanted =
            i == COUNT(codes) ? "unknown reason" : codes[i].name;

        assert_string_equal(postbag_reason_text(code, 0), wanted);
        if (code >= 0 && (size_t)code < COUNT(mqtt_3_1_1))
            wanted = mqtt_3_1_1[code].name;
        assert_string_equal(postbag_reason_text(code, 1), wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdict_of_every_puback),
        cmocka_unit_test(test_verdict_of_every_connack),
        cmocka_unit_test(test_verdict_of_every_disconnect),
        cmocka_unit_test(test_verdict_every_reason_has_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
