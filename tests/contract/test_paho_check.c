/* SPDX-License-Identifier: MIT */
/* The check of a transport's options against the broker's rules, and of two
 * transports against each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "postbag/paho.h"
#include "postbag/profile.h"

static struct postbag_paho_config good(void)
{
    return (struct postbag_paho_config){
        .struct_size = sizeof(struct postbag_paho_config),
        .uri = "tcp://127.0.0.1:1883",
        .client_id = "gateway",
    };
}

static void expect_kept(const struct postbag_paho_config *c,
    const char *profile, const char *begins_with)
{
    struct postbag_transport *t = NULL;
    struct postbag_fault why = {0};
    assert_int_equal(postbag_paho_new(&t, c, &why), POSTBAG_OK);
    int err = t->ops->check(t, postbag_profile_find(profile), &why);
    t->ops->destroy(t);
    assert_int_equal(err, begins_with == NULL ? POSTBAG_OK : POSTBAG_EINVAL);
    if (begins_with == NULL)
        return;
    assert_int_equal(why.code, POSTBAG_EINVAL);
    if (strncmp(why.text, begins_with, strlen(begins_with)) != 0)
        fail_msg("\"%s\" does not begin with %s", why.text, begins_with);
    assert_non_null(strstr(why.text, profile));
}

static void test_paho_check_keepalive_is_within_the_profile(void **state)
{
    (void)state;
    static const struct {
        const char *profile;
        unsigned mqtt_version;
        uint32_t seconds;
        const char *refusal;
    } all[] = {
        {"aws", 5, 29, "keepalive_s: is 29"},
        {"aws", 5, 30, NULL},
        {"aws", 5, 1200, NULL},
        {"aws", 5, 1201, "keepalive_s: is 1201"},
        {"iothub", 4, 5, NULL},
        {"iothub", 4, 1177, NULL},
        {"iothub", 4, 1178, "keepalive_s: is 1178"},
        {"eventgrid", 5, 1160, NULL},
        {"eventgrid", 5, 1161, "keepalive_s: is 1161"},
        {"thingsboard", 5, 65535, NULL},
        {"any", 5, 65535, NULL},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct postbag_paho_config c = good();
        c.mqtt_version = all[i].mqtt_version;
        c.keepalive_s = all[i].seconds;
        expect_kept(&c, all[i].profile, all[i].refusal);
    }
}

static void test_paho_check_mqtt_version_is_one_the_profile_takes(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    expect_kept(&c, "iothub", "mqtt_version: is 5");
    expect_kept(&c, "aws", NULL);
    c.mqtt_version = 4;
    expect_kept(&c, "iothub", NULL);
    expect_kept(&c, "aws", NULL);
}

static void test_paho_check_client_id_fits_the_profile(void **state)
{
    (void)state;
    char id[130] = "";
    struct postbag_paho_config c = good();
    memset(id, 'x', 128);
    c.client_id = id;
    expect_kept(&c, "aws", NULL);
    id[128] = 'x';
    expect_kept(&c, "aws", "client_id: has 129 bytes");
    expect_kept(&c, "eventgrid", NULL);
    c.client_id = NULL; /* the broker assigns one */
    expect_kept(&c, "aws", NULL);
}

/* What is not set must suit every broker. */
static void test_paho_check_defaults_suit_every_profile(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.mqtt_version = 4;
    expect_kept(&c, "any", NULL);
    expect_kept(&c, "aws", NULL);
    expect_kept(&c, "iothub", NULL);
    expect_kept(&c, "eventgrid", NULL);
    expect_kept(&c, "thingsboard", NULL);
}

static int are_rivals(
    const struct postbag_paho_config *a, const struct postbag_paho_config *b)
{
    struct postbag_transport *one = NULL;
    struct postbag_transport *other = NULL;
    struct postbag_fault why;
    assert_int_equal(postbag_paho_new(&one, a, &why), POSTBAG_OK);
    assert_int_equal(postbag_paho_new(&other, b, &why), POSTBAG_OK);
    assert_ptr_equal(one->ops, other->ops);
    int said = one->ops->is_rival(one, other);
    one->ops->destroy(one);
    other->ops->destroy(other);
    return said;
}

static void test_paho_check_one_client_id_at_one_broker_is_a_rival(void **state)
{
    (void)state;
    struct postbag_paho_config a = good();
    struct postbag_paho_config b = good();
    assert_int_equal(are_rivals(&a, &b), 1);
    b.uri = "tcp://127.0.0.1:1884";
    assert_int_equal(are_rivals(&a, &b), 0);
    b = good();
    b.client_id = "gateway-commands";
    assert_int_equal(are_rivals(&a, &b), 0);
    b.client_id = NULL;
    assert_int_equal(are_rivals(&a, &b), 0);
    assert_int_equal(are_rivals(&b, &a), 0);
    assert_int_equal(are_rivals(&b, &b), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_paho_check_keepalive_is_within_the_profile),
    cmocka_unit_test(test_paho_check_mqtt_version_is_one_the_profile_takes),
    cmocka_unit_test(test_paho_check_client_id_fits_the_profile),
    cmocka_unit_test(test_paho_check_defaults_suit_every_profile),
    cmocka_unit_test(test_paho_check_one_client_id_at_one_broker_is_a_rival),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
