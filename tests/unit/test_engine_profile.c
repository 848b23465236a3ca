/* SPDX-License-Identifier: MIT */
/* The broker's rules at postbag_open: kept by the configuration, or refused
 * before anything is stored. */
#include "profile.h"

#include "config.h"
#include "relay.h"
#include "unit.h"

/* The engine took the last transport with it. */
static void close_for_another(struct bench *b)
{
    relay_close(&b->r);
    b->r.out = fake_transport_new();
    b->r.options.transport = &b->r.out->base;
}

static int64_t tables(struct bench *b)
{
    return sql_get(b->w.t.app, "SELECT count(*) FROM sqlite_schema");
}

static void test_engine_profile_unknown_lists_those_there_are(void **state)
{
    struct bench *b = *state;
    struct postbag_fault why;
    int64_t before = tables(b);

    b->r.options.profile = "azure";
    b->r.options.dest = "new";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "no profile azure; there are any, aws, iothub,");
    assert_int_equal(tables(b), before);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_dest"), 1);
}

static void test_engine_profile_window_above_the_profile_is_refused(
    void **state)
{
    struct bench *b = *state;
    struct postbag_fault why;

    b->r.options.profile = "aws";
    b->r.options.window = 101;
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "option window is 101; profile aws: at most 100");
    b->r.options.window = 100;
    (void)bench_up(b);
}

/* What suits none suits nobody: the defaults must. */
static void test_engine_profile_defaults_suit_every_profile(void **state)
{
    static const char *const names[] = {
        "aws", "iothub", "eventgrid", "thingsboard", "any"};
    struct bench *b = *state;

    for (size_t i = 0; i < COUNT(names); i++) {
        b->r.options.profile = names[i];
        relay_open(&b->r);
        assert_string_equal(b->r.e.profile->name, names[i]);
        assert_string_equal(b->r.out->checked->name, names[i]);
        assert_string_equal(
            sql_text(b->w.t.app, "SELECT profile FROM outbox_dest"), names[i]);
        close_for_another(b);
    }
}

static void test_engine_profile_commands_on_one_connection_are_refused(
    void **state)
{
    struct bench *b = *state;
    struct postbag_fault why;
    struct fake_transport *inbound = fake_transport_new();
    unsigned destroyed = 0;

    inbound->destroyed = &destroyed;
    b->r.options.profile = "iothub";
    b->r.options.inbound = &inbound->base;
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "profile iothub: one connection per device");
    assert_int_equal(destroyed, 1);
    b->r.options.inbound = NULL;
    (void)bench_up(b);
}

static void test_engine_profile_asks_each_transport(void **state)
{
    struct bench *b = *state;
    struct postbag_fault why;
    struct fake_transport *inbound = fake_transport_new();

    b->r.out->check_err = POSTBAG_EINVAL;
    b->r.options.profile = "aws";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_string_equal(why.text, "the script says no to aws");
    inbound->check_err = POSTBAG_EINVAL;
    b->r.options.inbound = &inbound->base;
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_string_equal(why.text, "the script says no to aws");
    b->r.options.inbound = NULL;
    assert_int_equal(
        sql_get(b->w.t.app,
            "SELECT count(*) FROM outbox_dest WHERE profile = 'aws'"),
        0);
}

static void test_engine_profile_two_of_one_client_are_refused(void **state)
{
    struct bench *b = *state;
    struct postbag_fault why;
    struct fake_transport *inbound = fake_transport_new();

    b->r.out->client = inbound->client = "gateway";
    b->r.options.inbound = &inbound->base;
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "inbound: has the client id of the other connection");
    inbound = fake_transport_new();
    inbound->client = "commands";
    b->r.options.inbound = &inbound->base;
    (void)bench_up(b);
}

/* One of a program that was built before there was a check. */
static void test_engine_profile_with_an_older_transport_asks_nothing(
    void **state)
{
    struct bench *b = *state;
    struct postbag_transport_ops older = *b->r.out->base.ops;

    older.struct_size = offsetof(struct postbag_transport_ops, check);
    b->r.out->base.ops = &older;
    b->r.out->check_err = POSTBAG_EINVAL;
    b->r.options.profile = "aws";
    relay_open(&b->r);
    relay_close(&b->r);
}

static void test_engine_profile_without_a_profile_obeys_the_stored_one(
    void **state)
{
    struct bench *b = *state;
    struct postbag_fault why;

    b->r.options.profile = "aws";
    relay_open(&b->r);
    close_for_another(b);
    b->r.options.profile = NULL;
    relay_open(&b->r);
    assert_string_equal(b->r.e.profile->name, "aws");
    sql_fails(b->w.t.app, "profile aws: topic has more than 7 slashes",
        "INSERT INTO outbox(topic, payload) VALUES ('1/2/3/4/5/6/7/8/9', '')");
    close_for_another(b);
    b->r.options.window = 101;
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "profile aws");
    b->r.options.profile = "any";
    relay_open(&b->r);
    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload) VALUES ('1/2/3/4/5/6/7/8/9', '')");
    close_for_another(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_engine_profile_unknown_lists_those_there_are),
        BENCH(test_engine_profile_window_above_the_profile_is_refused),
        BENCH(test_engine_profile_defaults_suit_every_profile),
        BENCH(test_engine_profile_commands_on_one_connection_are_refused),
        BENCH(test_engine_profile_asks_each_transport),
        BENCH(test_engine_profile_two_of_one_client_are_refused),
        BENCH(test_engine_profile_with_an_older_transport_asks_nothing),
        BENCH(test_engine_profile_without_a_profile_obeys_the_stored_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
