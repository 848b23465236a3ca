/* SPDX-License-Identifier: MIT */
/*
 * What the broker's profile means for sending: rows that were put before its
 * rules held, and bytes in flight.
 */
#include "sender.h"

#include "relay.h"
#include "unit.h"

static void put_sql(struct bench *b, const char *columns, const char *values)
{
    sql_run(b->w.t.app, "INSERT INTO outbox(%s) VALUES %s", columns, values);
}

static int64_t dead_of(struct bench *b, const char *error)
{
    return sql_get(b->w.t.app,
        "SELECT count(*) FROM outbox_held WHERE state = 'dead'"
        " AND error LIKE '%%%s%%'",
        error);
}

/* ---- rows that were there before ---- */

static void test_fill_rows_that_break_a_new_profile_die_unsent(void **state)
{
    struct bench *b = *state;

    put_sql(b, "topic, payload",
        "('1/2/3/4/5/6/7/8', ''), ('1/2/3/4/5/6/7/8/9', ''), ('fine', '')");
    put_sql(b, "topic, payload", "(printf('%.257c', 'x'), '')");
    put_sql(b, "topic, payload", "('last', '')");
    b->r.options.profile = "aws";
    b->r.out->auto_settle = 1;
    relay_run_ms(bench_up(b), 2000);
    assert_string_equal(fake_topics(b->r.out, 0), "1/2/3/4/5/6/7/8 fine last");
    assert_int_equal(
        dead_of(b, "profile aws: topic has more than 7 slashes"), 1);
    assert_int_equal(
        dead_of(b, "profile aws: topic has more than 256 bytes"), 1);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0"),
        5);
}

static void test_fill_rows_too_large_for_a_new_profile_die_unsent(void **state)
{
    struct bench *b = *state;

    /* the envelope counts: 64 bytes are not enough for it */
    put_sql(b, "topic, payload, retain",
        "('v1/large', zeroblob(65536 - 64), 0), ('v1/fine', '', 0)");
    b->r.options.profile = "thingsboard";
    b->r.out->auto_settle = 1;
    relay_run_ms(bench_up(b), 2000);
    assert_string_equal(fake_topics(b->r.out, 0), "v1/fine");
    assert_int_equal(dead_of(b, "profile thingsboard: message of"), 1);
}

static void test_fill_retained_rows_have_their_own_limit(void **state)
{
    struct bench *b = *state;

    put_sql(b, "topic, payload, retain",
        "('kept', zeroblob(65536), 1), ('plain', zeroblob(65536), 0)");
    b->r.options.profile = "eventgrid";
    b->r.options.max_payload = 1 << 20;
    b->r.out->auto_settle = 1;
    relay_run_ms(bench_up(b), 2000);
    assert_string_equal(fake_topics(b->r.out, 0), "plain");
    assert_int_equal(dead_of(b, "max_retained is 65536"), 1);
}

/* Held by a broker that knew no such rule. */
static void test_fill_held_row_that_breaks_a_new_profile_dies(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    put_sql(b, "topic, payload", "('1/2/3/4/5/6/7/8/9', '')");
    b->r.out->auto_settle = 1;
    b->r.out->reason = 0x87;
    r = bench_up(b);
    relay_run_ms(r, 2000);
    assert_int_equal(
        sql_get(b->w.t.app,
            "SELECT count(*) FROM outbox_held WHERE state = 'retry'"),
        1);
    relay_close(r);
    r->out = fake_transport_new();
    r->options.transport = &r->out->base;
    b->r.options.profile = "aws";
    r->out->auto_settle = 1;
    relay_run_ms(bench_up(b), 600000);
    assert_int_equal(r->out->count, 0);
    assert_int_equal(dead_of(b, "profile aws"), 1);
}

/* ---- what was put by the rules ---- */

/* A message that put takes fits with all that goes along on MQTT 5. */
static void test_fill_messages_taken_at_put_fit_the_packet(void **state)
{
    static char source[256];
    struct bench *b = *state;
    struct relay *r;
    char headers[2000] = "{";

    memset(source, 's', 255);
    for (int i = 0; i < 50; i++)
        (void)snprintf(headers + strlen(headers), 30, "%s\"%02d\":%d",
            i == 0 ? "" : ",", i, i % 10);
    (void)strcat(headers, "}");
    b->r.options.profile = "thingsboard";
    b->r.options.source = source;
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, key, key_version, type,"
        " content_type, headers) SELECT 'v1/', zeroblob(65536 - 1024 - 3 - 300"
        "  - length(h)), k, 9223372036854775807, k, k, h"
        " FROM (SELECT printf('%%.100c', 'k') AS k, '%s' AS h)",
        headers);
    sql_fails(b->w.t.app, "message is larger than 64512 bytes",
        "INSERT INTO outbox(topic, payload, key, key_version, type,"
        " content_type, headers) SELECT topic, CAST(payload || x'00' AS BLOB),"
        " key, key_version, type, content_type, headers FROM outbox");
    relay_run_ms(r, 2000);
    assert_string_equal(fake_topics(r->out, 0), "v1/");
    assert_int_equal(dead_of(b, ""), 0);
}

/* And in a JSON event, where the profile rules out MQTT 5. */
static void test_fill_bytes_taken_at_put_fit_the_packet_as_base64(void **state)
{
    static const char put[] =
        "INSERT INTO outbox(topic, payload, key, key_version, type,"
        " content_type, ttl_ms, headers) SELECT 'devices/',"
        " zeroblob((262144 - 1024 - 8 - 312) / 4 * 3 + %d), k,"
        " 9223372036854775807, k, k, 3600000, '{\"a\":\"123\"}'"
        " FROM (SELECT printf('%%.100c', 'k') AS k)";
    static char source[256];
    struct bench *b = *state;
    struct relay *r;

    memset(source, 's', 255);
    b->r.options.profile = "iothub";
    b->r.options.source = source;
    b->r.options.max_payload = 1 << 20;
    b->r.out->link.mqtt_version = 4;
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    sql_run(b->w.t.app, put, 0);
    sql_fails(b->w.t.app, "message is larger than 261120 bytes", put, 1);
    relay_run_ms(r, 2000);
    assert_string_equal(fake_topics(r->out, 0), "devices/");
    assert_int_equal(dead_of(b, ""), 0);
}

/* ---- bytes in flight ---- */

static void test_fill_packets_in_flight_are_bounded_by_the_profile(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    uint64_t packet;
    uint64_t used;

    b->r.options.profile = "eventgrid";
    b->r.options.window = 1000;
    b->r.options.window_bytes = 1 << 20;
    r = bench_up(b);
    for (int i = 0; i < 500; i++)
        put_sql(b, "topic, payload", "('t', zeroblob(99))");
    relay_run_ms(r, 100);
    used = r->out->count;
    packet = r->e.sender.window.packets / used;
    assert_true(packet > 300);
    /* bulk: seven eighths */
    assert_true(used * packet <= 57344 && (used + 1) * packet > 57344);
    for (int i = 0; i < 500; i++)
        sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, priority)"
                            " VALUES ('u', zeroblob(99), 1)");
    relay_run_ms(r, 100);
    used = r->out->count;
    assert_true(used * packet <= 65536 && (used + 1) * packet > 65536);
    /* waiting for room is no failure; each PUBACK makes some for one */
    assert_ok(r->err);
    assert_int_equal(r->errors, 0);
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 1);
    assert_int_equal(r->out->count, used + 1);
    for (int i = 0; i < 500 && r->out->count < 1000; i++) {
        (void)fake_settle_all(r->out, 0);
        relay_run_ms(r, 1);
    }
    assert_int_equal(r->out->count, 1000);
}

static void test_fill_packet_above_the_profiles_bytes_goes_alone(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.profile = "eventgrid";
    b->r.options.window_bytes = 1 << 20;
    b->r.options.max_payload = 1 << 20;
    r = bench_up(b);
    put_sql(b, "topic, payload",
        "('small', ''), ('large', zeroblob(100000)), ('next', '')");
    for (int i = 0; i < 3; i++) {
        relay_run_ms(r, 10);
        assert_int_equal(r->out->count, i + 1);
        fake_settle(r->out, (size_t)i, 0);
    }
    assert_string_equal(fake_topics(r->out, 0), "small large next");
}

/* A lost link's packets are no longer in flight. */
static void test_fill_packets_start_afresh_with_a_connection(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    size_t first;

    b->r.options.profile = "eventgrid";
    b->r.options.window_bytes = 1 << 20;
    r = bench_up(b);
    for (int i = 0; i < 20; i++)
        put_sql(b, "topic, payload", "('t', zeroblob(9999))");
    relay_run_ms(r, 10);
    first = r->out->count;
    assert_int_equal(first, 5);
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 10000);
    assert_int_equal(r->out->count, 2 * first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_fill_rows_that_break_a_new_profile_die_unsent),
        BENCH(test_fill_rows_too_large_for_a_new_profile_die_unsent),
        BENCH(test_fill_retained_rows_have_their_own_limit),
        BENCH(test_fill_held_row_that_breaks_a_new_profile_dies),
        BENCH(test_fill_messages_taken_at_put_fit_the_packet),
        BENCH(test_fill_bytes_taken_at_put_fit_the_packet_as_base64),
        BENCH(test_fill_packets_in_flight_are_bounded_by_the_profile),
        BENCH(test_fill_packet_above_the_profiles_bytes_goes_alone),
        BENCH(test_fill_packets_start_afresh_with_a_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
