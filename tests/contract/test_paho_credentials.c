/* SPDX-License-Identifier: MIT */
/* User name and password of port/paho: options, a file, a callback. */

#include "paho_test.h"
#include "tls_rig.h"

static struct rig *begin(void **state)
{
    static const struct broker_options o = {
        .user = "gateway",
        .password = "open sesame",
    };
    struct rig *rig = rig_mosquitto(state, &o);
    rig->config.username = "gateway";
    return rig;
}

static void refused_by_the_broker(struct rig *rig)
{
    rig_lost(rig);
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
    assert_int_equal(rig->r.lost_reason, 0x87);
    assert_null(strstr(rig->r.lost_text, "sesame"));
}

/* ---- a file -------------------------------------------------------------- */

static void test_credentials_file_is_read_at_each_connect(void **state)
{
    struct rig *rig = begin(state);
    rig->config.password_file = tls_file(rig, "secret");
    tls_refused(rig, "password_file: ", rig->config.password_file,
        "No such file", NULL);
    broker_write(rig->broker, "secret", "sesame close\n");
    refused_by_the_broker(rig);
    broker_write(rig->broker, "secret", "open sesame\n");
    tls_up_again(rig);
    broker_write(rig->broker, "secret", "open sesame\r\n");
    tls_up_again(rig);
    broker_write(rig->broker, "secret", "open sesame");
    tls_up_again(rig);
}

static void test_credentials_file_without_text_is_told(void **state)
{
    struct rig *rig = begin(state);
    rig->config.password_file = tls_file(rig, "secret");
    broker_write(rig->broker, "secret", "");
    tls_refused(rig, "password_file: ", "secret: is empty", NULL);
    broker_write(rig->broker, "secret", "\n");
    tls_refused(rig, "password_file: ", "secret: is not one line", NULL);
    broker_write(rig->broker, "secret", "open sesame\n\n");
    tls_refused(rig, "password_file: ", "secret: is not one line", NULL);
    broker_write(rig->broker, "secret", "open\nsesame\n");
    tls_refused(rig, "password_file: ", "secret: is not one line", NULL);
    broker_write(rig->broker, "secret", "open sesame\r");
    tls_refused(rig, "password_file: ", "secret: is not one line", NULL);
    assert_null(strstr(rig->r.lost_text, "sesame"));
}

static void test_credentials_device_in_place_of_a_file_is_told(void **state)
{
    struct rig *rig = begin(state);
    rig->config.password_file = "/dev/zero";
    tls_refused(rig, "password_file: /dev/zero: is not a file", NULL);
}

/* ---- a callback ---------------------------------------------------------- */

struct answers {
    const char *username;
    const char *password;
    int answer;
    unsigned asked;
    size_t struct_size;
};

static int on_credentials(void *ctx, struct postbag_paho_credentials *out)
{
    struct answers *a = ctx;
    a->asked++;
    a->struct_size = out->struct_size;
    out->username = a->username;
    out->password = a->password;
    return a->answer;
}

static struct rig *begin_asking(void **state, struct answers *a)
{
    struct rig *rig = begin(state);
    rig->config.credentials = on_credentials;
    rig->config.credentials_ctx = a;
    return rig;
}

static void test_credentials_callback_is_asked_at_each_connect(void **state)
{
    char token[] = "open sesame";
    struct answers a = {.password = "sesame close"};
    struct rig *rig = begin_asking(state, &a);
    refused_by_the_broker(rig);
    assert_int_equal(a.asked, 1);
    assert_int_equal(a.struct_size, sizeof(struct postbag_paho_credentials));
    a.password = token;
    rig_connect(rig);
    memset(token, 'x', strlen(token)); /* it was copied */
    assert_true(recorder_wait(&rig->r, &rig->r.ups, 1));
    rig_disconnect(rig, 0);
    assert_int_equal(a.asked, 2);
    refused_by_the_broker(rig);
}

static void test_credentials_callback_may_change_the_user(void **state)
{
    struct answers a = {.username = "gateway", .password = "open sesame"};
    struct rig *rig = begin_asking(state, &a);
    rig->config.username = "somebody";
    rig->config.password = "sesame close";
    tls_up_again(rig);
}

static void test_credentials_callback_may_leave_the_options(void **state)
{
    struct answers a = {.username = NULL};
    struct rig *rig = begin_asking(state, &a);
    rig->config.password_file = tls_file(rig, "secret");
    broker_write(rig->broker, "secret", "open sesame\n");
    tls_up_again(rig);
    assert_int_equal(a.asked, 1);
}

static void test_credentials_callback_that_fails_ends_the_attempt(void **state)
{
    struct answers a = {.password = "open sesame", .answer = POSTBAG_EBUSY};
    struct rig *rig = begin_asking(state, &a);
    tls_refused(rig, "callback gave no credentials", "EBUSY", NULL);
    a.answer = POSTBAG_OK;
    tls_up_again(rig);
    assert_int_equal(a.asked, 2);
}

static void test_credentials_user_that_is_no_text_ends_the_attempt(void **state)
{
    struct answers a = {.username = "gate\nway", .password = "open sesame"};
    struct rig *rig = begin_asking(state, &a);
    tls_refused(rig, "username: is not UTF-8", NULL);
    a.username = "gateway";
    tls_up_again(rig);
}

static void test_credentials_v3_password_alone_ends_the_attempt(void **state)
{
    struct answers a = {.password = "open sesame"};
    struct rig *rig = begin_asking(state, &a);
    rig->config.username = NULL;
    rig->config.mqtt_version = 4;
    tls_refused(rig, "password: needs username", NULL);
    a.username = "gateway";
    tls_up_again(rig);
}

static const struct CMUnitTest tests[] = {
    TEST(test_credentials_file_is_read_at_each_connect),
    TEST(test_credentials_file_without_text_is_told),
    TEST(test_credentials_device_in_place_of_a_file_is_told),
    TEST(test_credentials_callback_is_asked_at_each_connect),
    TEST(test_credentials_callback_may_change_the_user),
    TEST(test_credentials_callback_may_leave_the_options),
    TEST(test_credentials_callback_that_fails_ends_the_attempt),
    TEST(test_credentials_user_that_is_no_text_ends_the_attempt),
    TEST(test_credentials_v3_password_alone_ends_the_attempt),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
