/* SPDX-License-Identifier: MIT */
/* Copies of commands: nothing of the original is needed any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "command.h"

#define ASSERT_COPY(is, was) \
    do { \
        assert_string_equal(is, was); \
        assert_ptr_not_equal(is, was); \
    } while (0)

static const struct postbag_command whole = {
    .consumer = "consumer",
    .source = "source",
    .id = "\0id",
    .id_len = 3,
    .topic = "topic",
    .payload = "pay\0load",
    .payload_len = 8,
    .content_type = "content type",
    .key = "key",
    .response_topic = "response",
    .correlation = "c\0",
    .correlation_len = 2,
    .headers = "{}",
    .attempt = 7,
    .received_ms = 8,
    .arrival = 9,
    .traceparent = "traceparent",
    .tracestate = "tracestate",
    .correlation_id = "correlation id",
    .key_version = 10,
    .previous_version = 11,
    .order = POSTBAG_ORDER_BACK,
};

static void test_command_copy_has_all(void **state)
{
    struct postbag_command c = whole;
    struct arena a = {0};

    (void)state;
    assert_int_equal(postbag__command_copy(&a, &c), POSTBAG_OK);
    ASSERT_COPY(c.consumer, whole.consumer);
    ASSERT_COPY(c.source, whole.source);
    ASSERT_COPY(c.topic, whole.topic);
    ASSERT_COPY(c.content_type, whole.content_type);
    ASSERT_COPY(c.key, whole.key);
    ASSERT_COPY(c.response_topic, whole.response_topic);
    ASSERT_COPY(c.headers, whole.headers);
    ASSERT_COPY(c.traceparent, whole.traceparent);
    ASSERT_COPY(c.tracestate, whole.tracestate);
    ASSERT_COPY(c.correlation_id, whole.correlation_id);
    assert_memory_equal(c.id, whole.id, whole.id_len);
    assert_memory_equal(c.payload, whole.payload, whole.payload_len);
    assert_memory_equal(
        c.correlation, whole.correlation, whole.correlation_len);
    assert_ptr_not_equal(c.id, whole.id);
    assert_ptr_not_equal(c.payload, whole.payload);
    assert_ptr_not_equal(c.correlation, whole.correlation);
    assert_int_equal(c.arrival, 9);
    assert_int_equal(c.order, POSTBAG_ORDER_BACK);
    postbag__arena_free(&a);
}

/* Larger than the arena begins with, which moves while it grows. */
static void test_command_copy_of_a_large_one_is_whole(void **state)
{
    enum { SIZE = 100000 };
    struct postbag_command c = whole;
    struct arena a = {0};
    char *large = calloc(1, SIZE);

    (void)state;
    assert_non_null(large);
    large[SIZE - 1] = 'x';
    c.payload = large;
    c.payload_len = SIZE;
    assert_int_equal(postbag__command_copy(&a, &c), POSTBAG_OK);
    assert_memory_equal(c.payload, large, SIZE);
    ASSERT_COPY(c.consumer, whole.consumer);
    ASSERT_COPY(c.correlation_id, whole.correlation_id);
    free(large);
    postbag__arena_free(&a);
}

static void test_command_copy_leaves_out_what_is_not_there(void **state)
{
    struct postbag_command c = {.consumer = "c", .source = "", .topic = "t"};
    struct arena a = {0};

    (void)state;
    assert_int_equal(postbag__command_copy(&a, &c), POSTBAG_OK);
    assert_string_equal(c.source, "");
    assert_null(c.key);
    assert_null(c.payload);
    assert_null(c.correlation);
    postbag__arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command_copy_has_all),
        cmocka_unit_test(test_command_copy_of_a_large_one_is_whole),
        cmocka_unit_test(test_command_copy_leaves_out_what_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
