/* SPDX-License-Identifier: MIT */
/* The contract of the table, the clocks, chance and ids. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "contract_groups.h"
#include "contract_support.h"

#define IDS 20000

static void test_table_all_members_given(void **state)
{
    (void)state;
    assert_true(port->struct_size >= sizeof(struct postbag_port));
    assert_true(port->wall_ms && port->mono_us && port->boot_id);
    assert_true(port->random && port->uuid);
    assert_true(port->wake_new && port->wake_free && port->wake && port->wait);
    assert_true(port->gate_new && port->gate_free);
    assert_true(port->gate_enter && port->gate_leave);
    assert_true(port->lock_file && port->unlock_file);
    assert_true(port->replace_file && port->storage_check);
    assert_true(!port->thread_start == !port->thread_join);
}

static void test_mono_read_often_never_goes_back(void **state)
{
    int64_t last = now_us();
    int i;

    (void)state;
    for (i = 0; i < 200000; i++) {
        int64_t now = now_us();

        assert_true(now >= last);
        last = now;
    }
}

/* Against the processor's own idea of how long it worked. */
static void test_mono_while_busy_counts_microseconds(void **state)
{
    const clock_t busy = CLOCKS_PER_SEC / 20;
    int64_t from_us = now_us();
    clock_t from = clock();
    int64_t took_us;

    (void)state;
    while (clock() - from < busy)
        ;
    took_us = now_us() - from_us;
    assert_true(took_us >= 49000);
    assert_true(took_us < (int64_t)PATIENCE_MS * 1000);
}

static void test_wall_read_is_time_since_1970(void **state)
{
    int64_t before_s = time(NULL);
    int64_t wall_ms = port->wall_ms(port->ctx);

    (void)state;
    assert_true(wall_ms / 1000 >= before_s - 1);
    assert_true(wall_ms / 1000 <= (int64_t)time(NULL) + 1);
}

static void test_boot_id_read_twice_is_the_same(void **state)
{
    const uint8_t nothing[16] = {0};
    uint8_t first[16] = {0};
    uint8_t second[16] = {0};

    (void)state;
    assert_int_equal(port->boot_id(port->ctx, first), POSTBAG_OK);
    assert_int_equal(port->boot_id(port->ctx, second), POSTBAG_OK);
    assert_memory_equal(first, second, sizeof(first));
    assert_memory_not_equal(first, nothing, sizeof(first));
}

/* 4 KiB: more than a kernel gives in one uninterrupted piece. */
static void test_random_large_buffer_is_filled_to_the_end(void **state)
{
    const uint8_t nothing[16] = {0};
    uint8_t buf[4096 + 1] = {0};
    size_t at;

    (void)state;
    assert_int_equal(port->random(port->ctx, buf, 4096), POSTBAG_OK);
    for (at = 0; at < 4096; at += sizeof(nothing))
        assert_memory_not_equal(buf + at, nothing, sizeof(nothing));
    assert_int_equal(buf[4096], 0);
}

static void test_random_two_calls_differ(void **state)
{
    uint8_t first[16];
    uint8_t second[16];

    (void)state;
    assert_int_equal(port->random(port->ctx, first, 16), POSTBAG_OK);
    assert_int_equal(port->random(port->ctx, second, 16), POSTBAG_OK);
    assert_memory_not_equal(first, second, 16);
    assert_int_equal(port->random(port->ctx, first, 0), POSTBAG_OK);
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

static void test_uuid_many_are_distinct_and_version_4(void **state)
{
    uint8_t(*ids)[16] = malloc(IDS * sizeof(*ids));
    size_t i;

    (void)state;
    assert_non_null(ids);
    for (i = 0; i < IDS; i++) {
        assert_int_equal(port->uuid(port->ctx, ids[i]), POSTBAG_OK);
        assert_int_equal(ids[i][6] >> 4, 4);
        assert_int_equal(ids[i][8] >> 6, 2);
    }
    qsort(ids, IDS, sizeof(*ids), compare_ids);
    for (i = 1; i < IDS; i++)
        assert_memory_not_equal(ids[i - 1], ids[i], 16);
    free(ids);
}

int run_time_contract(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_all_members_given),
        cmocka_unit_test(test_mono_read_often_never_goes_back),
        cmocka_unit_test(test_mono_while_busy_counts_microseconds),
        cmocka_unit_test(test_wall_read_is_time_since_1970),
        cmocka_unit_test(test_boot_id_read_twice_is_the_same),
        cmocka_unit_test(test_random_large_buffer_is_filled_to_the_end),
        cmocka_unit_test(test_random_two_calls_differ),
        cmocka_unit_test(test_uuid_many_are_distinct_and_version_4),
    };

    return cmocka_run_group_tests_name("port: time and ids", tests, NULL, NULL);
}
