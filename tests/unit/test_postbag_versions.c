/* SPDX-License-Identifier: MIT */
/* postbag_on_versions: rules of one consumer, beside the options for the
 * others. */
#include "postbag/versions.h"

#include "desk.h"

/* Two consumers of the same commands, a and b. */
static void open_two(struct desk *d)
{
    add_inbound(d);
    open_with_commands(d);
    assert_ok(postbag_on(d->p, "b", "cmd/#", handle, d));
}

static int set_rules(
    struct desk *d, const char *consumer, struct postbag_version_rules rules)
{
    rules.struct_size = sizeof(rules);
    return postbag_on_versions(d->p, consumer, &rules);
}

/* Versions 0..9 of one key. */
static void deliver(struct desk *d, const char *versions)
{
    step_ms(d, 100);
    for (size_t i = 0; versions[i] != '\0'; i++) {
        const char version[] = {versions[i], '\0'};
        char id[32];
        const struct postbag_property p[] = {
            {"id", id}, {"keyversion", version}, {"partitionkey", "k"}};
        const struct postbag_frame f = {
            .topic = "cmd/a", .properties = p, .property_count = COUNT(p)};

        (void)snprintf(id, sizeof(id), "%zu", i);
        assert_ok(
            d->in->up->arrived(d->in->up->ctx, d->in->connect.generation, &f));
    }
}

static void expect_states(
    struct desk *d, const char *consumer, const char *states)
{
    assert_string_equal(
        sql_text(d->t.app,
            "SELECT group_concat(state, ' ') FROM (SELECT state FROM inbox"
            " WHERE consumer = '%s' ORDER BY CAST(id AS INTEGER))",
            consumer),
        states);
}

static void test_postbag_versions_are_of_one_consumer(void **state)
{
    struct desk *d = *state;

    open_two(d);
    assert_ok(set_rules(d, "b",
        (struct postbag_version_rules){
            .gap = "defer", .repeat = "refuse", .back = "refuse"}));
    deliver(d, "1104");
    expect_states(d, "a", "due due due due");
    expect_states(d, "b", "due dead dead deferred");
}

/* The wait of b's ends by b's rules, also on the worker's side. */
static void test_postbag_versions_of_one_consumer_hold_after_the_wait(
    void **state)
{
    struct desk *d = *state;
    int did = 1;

    open_two(d);
    assert_ok(set_rules(d, "b",
        (struct postbag_version_rules){.gap = "defer", .repeat = "refuse"}));
    deliver(d, "133");
    expect_states(d, "b", "due deferred deferred");
    d->sim.mono_us += INT64_C(60000000);
    while (did)
        assert_ok(postbag_work(d->p, &did));
    expect_states(d, "a", "done done done");
    expect_states(d, "b", "done done dead");
}

static void test_postbag_versions_left_out_are_the_options(void **state)
{
    struct desk *d = *state;

    d->c.version_repeat = "refuse";
    d->c.version_back = "refuse";
    open_two(d);
    assert_ok(
        set_rules(d, "b", (struct postbag_version_rules){.back = "accept"}));
    deliver(d, "2213");
    expect_states(d, "a", "due dead dead due");
    expect_states(d, "b", "due dead due due");
}

static void test_postbag_versions_the_last_call_counts(void **state)
{
    struct desk *d = *state;

    open_two(d);
    assert_ok(
        set_rules(d, "b", (struct postbag_version_rules){.repeat = "refuse"}));
    assert_ok(
        set_rules(d, "b", (struct postbag_version_rules){.back = "refuse"}));
    deliver(d, "221");
    expect_states(d, "b", "due due dead");
}

static void test_postbag_versions_refuses_what_it_does_not_know(void **state)
{
    struct desk *d = *state;
    const struct postbag_version_rules none = {.struct_size = 0};
    struct postbag_version_rules good = {.struct_size = sizeof(good)};

    open_two(d);
    assert_ok(
        set_rules(d, "b", (struct postbag_version_rules){.repeat = "refuse"}));
    assert_int_equal(
        set_rules(d, "b",
            (struct postbag_version_rules){.gap = "refuse", .back = "defer"}),
        POSTBAG_EINVAL);
    assert_int_equal(set_rules(d, "c", good), POSTBAG_ENOTFOUND);
    assert_int_equal(postbag_on_versions(d->p, "b", &none), POSTBAG_EVERSION);
    assert_int_equal(postbag_on_versions(NULL, "b", &good), POSTBAG_EINVAL);
    assert_int_equal(postbag_on_versions(d->p, NULL, &good), POSTBAG_EINVAL);
    assert_int_equal(postbag_on_versions(d->p, "b", NULL), POSTBAG_EINVAL);
    /* and nothing has changed */
    deliver(d, "11");
    expect_states(d, "b", "due dead");
    assert_int_equal(set_rules(d, "b", good), POSTBAG_ESTATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_postbag_versions_are_of_one_consumer),
        TEST_IN(test_postbag_versions_of_one_consumer_hold_after_the_wait),
        TEST_IN(test_postbag_versions_left_out_are_the_options),
        TEST_IN(test_postbag_versions_the_last_call_counts),
        TEST_IN(test_postbag_versions_refuses_what_it_does_not_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
