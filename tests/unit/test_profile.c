/* SPDX-License-Identifier: MIT */
/* The table of brokers, and which messages keep its rules. */
#include "profile.h"

#include <stdlib.h>

#include "unit.h"

/* A topic of so many bytes and slashes that begins with prefix; free it. */
static char *topic_of(const char *prefix, size_t bytes, size_t slashes)
{
    char *topic = calloc(1, bytes + 1);
    size_t len = strlen(prefix);

    assert_non_null(topic);
    assert_true(len + slashes <= bytes);
    memcpy(topic, prefix, len);
    for (size_t i = len; i < bytes; i++)
        topic[i] = i - len < slashes ? '/' : 'x';
    return topic;
}

static const struct postbag_profile *profile(const char *name)
{
    const struct postbag_profile *p = postbag_profile_find(name);

    assert_non_null(p);
    return p;
}

static void check(const struct postbag_profile *p, const char *topic,
    size_t bytes, unsigned retain, const char *rule)
{
    const struct profile_subject m = {
        .topic = topic, .packet_bytes = bytes, .retain = retain};
    struct postbag_fault why = {.text = ""};
    int err = postbag__profile_check(p, &m, &why);

    assert_int_equal(err, rule == NULL ? POSTBAG_OK : POSTBAG_EINVAL);
    if (rule == NULL)
        return;
    assert_int_equal(why.code, err);
    assert_has(why.text, rule);
    assert_has(why.text, p->name);
}

/* ---- the table ---- */

static void test_profile_find_knows_every_name_and_no_other(void **state)
{
    static const char *const names[] = {
        "any", "aws", "iothub", "eventgrid", "thingsboard"};
    char listed[100] = "";

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_string_equal(profile(names[i])->name, names[i]);
        (void)strcat(listed, i == 0 ? "" : ", ");
        (void)strcat(listed, names[i]);
    }
    assert_string_equal(listed, POSTBAG_PROFILES);
    assert_null(postbag_profile_find("AWS"));
    assert_null(postbag_profile_find("aw"));
    assert_null(postbag_profile_find(""));
    assert_null(postbag_profile_find(NULL));
}

/* As the services' pages had them; a change must be one of theirs. */
static void test_profile_numbers_are_the_published_ones(void **state)
{
    const struct postbag_profile *aws = profile("aws");
    const struct postbag_profile *iothub = profile("iothub");
    const struct postbag_profile *grid = profile("eventgrid");
    const struct postbag_profile *board = profile("thingsboard");

    (void)state;
    assert_int_equal(aws->max_topic, 256);
    assert_int_equal(aws->max_slashes, 7);
    assert_int_equal(aws->max_packet, 131072);
    assert_int_equal(aws->max_inflight, 100);
    assert_int_equal(aws->min_keepalive_s, 30);
    assert_int_equal(aws->max_keepalive_s, 1200);
    assert_int_equal(aws->max_client_id, 128);
    assert_int_equal(iothub->max_packet, 262144);
    assert_int_equal(iothub->max_keepalive_s, 1177);
    assert_true(iothub->no_mqtt5 && iothub->one_connection);
    assert_int_equal(grid->max_topic, 256);
    assert_int_equal(grid->max_slashes, 14);
    assert_int_equal(grid->max_packet, 524288);
    assert_int_equal(grid->max_retained, 65536);
    assert_int_equal(grid->max_inflight, 1000);
    assert_int_equal(grid->max_inflight_bytes, 65536);
    assert_int_equal(grid->max_keepalive_s, 1160);
    assert_int_equal(board->max_packet, 65536);
    assert_int_equal(board->max_inflight, 100);
}

/* ---- a message ---- */

static void test_profile_any_takes_what_mqtt_takes(void **state)
{
    char *topic = topic_of("", 65535, 200);

    (void)state;
    check(profile("any"), topic, 268435455, 1, NULL);
    free(topic);
}

static void test_profile_topic_is_bounded_in_bytes_and_slashes(void **state)
{
    static const struct {
        const char *profile, *prefix;
        size_t bytes, slashes;
        const char *rule;
    } all[] = {
        {"aws", "", 256, 7, NULL},
        {"aws", "", 257, 7, "topic has more than 256 bytes"},
        {"aws", "", 256, 8, "topic has more than 7 slashes"},
        {"eventgrid", "", 256, 14, NULL},
        {"eventgrid", "", 257, 0, "topic has more than 256 bytes"},
        {"eventgrid", "", 20, 15, "topic has more than 14 slashes"},
        /* Basic Ingest: only what is behind the rule's name counts */
        {"aws", "$aws/rules/r/", 256 + 13, 7, NULL},
        {"aws", "$aws/rules/r/", 256 + 14, 7, "more than 256 bytes"},
        {"aws", "$aws/rules/r/", 100, 8, "more than 7 slashes"},
        {"aws", "$aws/ruler/r/", 100, 5, "more than 7 slashes"},
        {"aws", "$aws/rules/", 256 + 11, 0, NULL},
        {"aws", "$aws/rules/", 256 + 12, 0, "more than 256 bytes"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        char *topic = topic_of(all[i].prefix, all[i].bytes, all[i].slashes);

        check(profile(all[i].profile), topic, 400, 0, all[i].rule);
        free(topic);
    }
}

static void test_profile_topic_begins_with_one_of_the_prefixes(void **state)
{
    static const struct {
        const char *profile, *topic;
        int is_fine;
    } all[] = {
        {"iothub", "devices/7/messages/events/", 1},
        {"iothub", "$iothub/twin/GET/?$rid=1", 1},
        {"iothub", "devices", 0},
        {"iothub", "telemetry", 0},
        {"iothub", "x/devices/7", 0},
        {"thingsboard", "v1/devices/me/telemetry", 1},
        {"thingsboard", "v2/t", 1},
        {"thingsboard", "v3/t", 0},
        {"thingsboard", "v1", 0},
        {"thingsboard", "v1/,v2/", 1},
        {"thingsboard", ",", 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        check(profile(all[i].profile), all[i].topic, 400, 0,
            all[i].is_fine ? NULL : "topic must begin with one of");
}

static void test_profile_size_is_bounded_and_less_so_if_retained(void **state)
{
    (void)state;
    check(profile("aws"), "t", 131072, 1, NULL);
    check(profile("aws"), "t", 131073, 0, "max_packet is 131072");
    check(profile("eventgrid"), "t", 524288, 0, NULL);
    check(profile("eventgrid"), "t", 524289, 0, "max_packet is 524288");
    check(profile("eventgrid"), "t", 65536, 1, NULL);
    check(profile("eventgrid"), "t", 65537, 1, "max_retained is 65536");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile_find_knows_every_name_and_no_other),
        cmocka_unit_test(test_profile_numbers_are_the_published_ones),
        cmocka_unit_test(test_profile_any_takes_what_mqtt_takes),
        cmocka_unit_test(test_profile_topic_is_bounded_in_bytes_and_slashes),
        cmocka_unit_test(test_profile_topic_begins_with_one_of_the_prefixes),
        cmocka_unit_test(test_profile_size_is_bounded_and_less_so_if_retained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
