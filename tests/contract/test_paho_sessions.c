/* SPDX-License-Identifier: MIT */
/* Paho and mosquitto: last wills, and client ids that the broker gives. */

#include "paho_test.h"

static const char *const gone[] = {"gw/gone"};

/* ---- wills --------------------------------------------------------------- */

/* Somebody who hears the wills of the others at this broker. */
static struct rig *listen_to(struct rig *rig)
{
    struct rig *listener = rig_new(rig->broker);
    listener->broker = NULL; /* it is not the listener's to end */
    listener->config.client_id = "listener";
    rig_up(listener);
    assert_int_equal(
        listener->transport->ops->subscribe(listener->transport, gone, 1),
        POSTBAG_OK);
    assert_true(broker_wait(rig->broker, "Sending SUBACK", 1));
    return listener;
}

static void set_will(struct rig *rig)
{
    rig->config.will_topic = gone[0];
    rig->config.will_payload = "gateway 1";
}

static void test_paho_will_is_sent_when_we_hang_up(void **state)
{
    struct rig *rig = rig_mosquitto(state, NULL);
    struct rig *listener = listen_to(rig);
    set_will(rig);
    rig_up(rig);
    rig_disconnect(rig, 1);
    assert_true(recorder_wait(&listener->r, &listener->r.arrivals, 1));
    assert_string_equal(listener->r.payload, "gateway 1");
    rig_free(listener);
}

static void test_paho_will_v3_is_sent_when_we_hang_up(void **state)
{
    struct rig *rig = rig_mosquitto(state, NULL);
    struct rig *listener = listen_to(rig);
    set_will(rig);
    rig->config.mqtt_version = 4;
    rig_up(rig);
    rig_disconnect(rig, 1);
    assert_true(recorder_wait(&listener->r, &listener->r.arrivals, 1));
    rig_free(listener);
}

/* The message that follows shows that nothing came before it. */
static void test_paho_will_is_not_sent_after_a_farewell(void **state)
{
    struct postbag_frame f = {
        .topic = gone[0], .payload = "no", .payload_len = 2};
    struct rig *rig = rig_mosquitto(state, NULL);
    struct rig *listener = listen_to(rig);
    set_will(rig);
    rig_up(rig);
    rig_disconnect(rig, 0);
    rig_up(rig);
    assert_int_equal(
        rig->transport->ops->send(rig->transport, &f, 0), POSTBAG_OK);
    assert_true(recorder_wait(&listener->r, &listener->r.arrivals, 1));
    assert_string_equal(listener->r.payload, "no");
    rig_free(listener);
}

/* A session that ends with the connection would end the delay too: it lives as
   long as the will may wait, although we ask for none. */
static void test_paho_will_is_in_connect_with_a_session(void **state)
{
    struct rig *rig = rig_fake(NULL);
    *state = rig;
    set_will(rig);
    rig->config.will_retain = 1;
    rig->config.will_delay_s = 60;
    rig->connect.session_expiry_s = 0;
    rig_up(rig);
    assert_int_equal(broker_count(rig->broker, "version=5 clean=1"), 1);
    assert_int_equal(broker_count(rig->broker, "expiry=60"), 1);
    assert_int_equal(
        broker_count(rig->broker, "will=gw/gone:gateway 1:1:1:60"), 1);
}

static void test_paho_will_is_taken_back_by_a_reconnect(void **state)
{
    struct postbag_frame f = {
        .topic = gone[0], .payload = "no", .payload_len = 2};
    struct rig *rig = rig_mosquitto(state, NULL);
    struct rig *listener = listen_to(rig);
    set_will(rig);
    rig->config.will_delay_s = 60;
    rig->connect.session_expiry_s = 0;
    rig_up(rig);
    rig_disconnect(rig, 1);
    rig_up(rig);
    assert_int_equal(
        rig->transport->ops->send(rig->transport, &f, 0), POSTBAG_OK);
    assert_true(recorder_wait(&listener->r, &listener->r.arrivals, 1));
    assert_string_equal(listener->r.payload, "no");
    rig_free(listener);
}

static void test_paho_will_retained_waits_for_who_comes_late(void **state)
{
    struct rig *rig = rig_mosquitto(state, NULL);
    struct rig *listener;
    set_will(rig);
    rig->config.will_retain = 1;
    rig_up(rig);
    rig_disconnect(rig, 1);
    listener = listen_to(rig);
    assert_true(recorder_wait(&listener->r, &listener->r.arrivals, 1));
    assert_string_equal(listener->r.payload, "gateway 1");
    rig_free(listener);
}

/* ---- client ids ---------------------------------------------------------- */

static void test_paho_assigned_id_keeps_its_session(void **state)
{
    struct postbag_frame f = {
        .topic = gone[0], .payload = "x", .payload_len = 1};
    struct rig *rig = rig_mosquitto(state, NULL);
    struct rig *other = listen_to(rig);
    rig->config.client_id = NULL;
    rig->connect.session_expiry_s = 60;
    rig_up(rig);
    assert_int_equal(rig->r.link.session_present, 0);
    assert_int_equal(
        rig->transport->ops->subscribe(rig->transport, gone, 1), POSTBAG_OK);
    assert_true(broker_wait(rig->broker, "Sending SUBACK", 2));
    rig_disconnect(rig, 0);
    assert_int_equal(
        other->transport->ops->send(other->transport, &f, 0), POSTBAG_OK);
    assert_true(recorder_wait(&other->r, &other->r.arrivals, 1));
    rig_up(rig);
    assert_int_equal(rig->r.link.session_present, 1);
    assert_true(recorder_wait(&rig->r, &rig->r.arrivals, 1));
    rig_free(other);
}

/* Connects once more, without being given an id; so often with this one. */
static void expect_next_id(struct rig *rig, const char *line, unsigned count)
{
    broker_tell(rig->broker, "set assignedid=");
    rig_up(rig);
    rig_disconnect(rig, 0);
    assert_int_equal(broker_count(rig->broker, line), count);
}

static struct rig *begin_assigned(void **state, const char *id)
{
    struct rig *rig = rig_fake(NULL);
    *state = rig;
    broker_tell(rig->broker, "set assignedid=%s", id);
    rig->config.client_id = NULL;
    rig_up(rig);
    rig_disconnect(rig, 0);
    return rig;
}

static void test_paho_assigned_id_that_is_no_text_is_not_kept(void **state)
{
    static const char *const ids[] = {
        "%ff%fe", "a%00b", "a%0ab", "a%1b", "a%c2%85"};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        expect_next_id(begin_assigned(state, ids[i]), "client= ", 2);
        rig_free(*state);
    }
    *state = rig_fake(NULL);
}

static void test_paho_assigned_id_is_kept_up_to_its_length(void **state)
{
    char id[257];
    (void)snprintf(id, sizeof(id), "%0256d", 0);
    expect_next_id(begin_assigned(state, id), "client= ", 2);
    rig_free(*state);
    id[255] = '\0';
    expect_next_id(begin_assigned(state, id), "client=0", 1);
}

static void refuse_once(struct rig *rig, int code)
{
    broker_tell(rig->broker, "set refuse=%d", code);
    rig_lost(rig);
    rig_disconnect(rig, 0);
    broker_tell(rig->broker, "set refuse=");
}

static void test_paho_assigned_id_is_forgotten_where_it_is_refused(void **state)
{
    struct rig *rig = begin_assigned(state, "gw-17");
    refuse_once(rig, 0x87);
    expect_next_id(rig, "client=gw-17 ", 2);
    refuse_once(rig, 0x85);
    expect_next_id(rig, "client= ", 2);
}

static void test_paho_assigned_id_is_for_the_server_that_gave_it(void **state)
{
    char uris[160];
    struct rig *other = rig_fake(NULL);
    struct rig *rig = rig_fake((const char *const[]){"assignedid=gw-17", NULL});
    *state = rig;
    (void)snprintf(uris, sizeof(uris), "%s,%s", broker_uri(rig->broker),
        broker_uri(other->broker));
    rig->config.uri = uris;
    rig->config.client_id = NULL;
    rig_up(rig);
    rig_disconnect(rig, 0);
    rig->connect.server = 1;
    rig_up(rig);
    rig_disconnect(rig, 0);
    assert_int_equal(broker_count(other->broker, "client= "), 1);
    rig->connect.server = 0;
    expect_next_id(rig, "client=gw-17 ", 1);
    rig_free(other);
}

static const struct CMUnitTest tests[] = {
    TEST(test_paho_will_is_sent_when_we_hang_up),
    TEST(test_paho_will_v3_is_sent_when_we_hang_up),
    TEST(test_paho_will_is_not_sent_after_a_farewell),
    TEST(test_paho_will_is_in_connect_with_a_session),
    TEST(test_paho_will_is_taken_back_by_a_reconnect),
    TEST(test_paho_will_retained_waits_for_who_comes_late),
    TEST(test_paho_assigned_id_keeps_its_session),
    TEST(test_paho_assigned_id_that_is_no_text_is_not_kept),
    TEST(test_paho_assigned_id_is_kept_up_to_its_length),
    TEST(test_paho_assigned_id_is_forgotten_where_it_is_refused),
    TEST(test_paho_assigned_id_is_for_the_server_that_gave_it),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
