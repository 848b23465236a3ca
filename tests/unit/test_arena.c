/* SPDX-License-Identifier: MIT */
/* The parts of one row in one growing block. */
#include "arena.h"

#include "failing_mem.h"
#include "unit.h"

static int set_up(void **state)
{
    static struct arena a;

    memset(&a, 0, sizeof(a));
    mem_is_out = 0;
    mem_requests = 0;
    *state = &a;
    return 0;
}

static int tear_down(void **state)
{
    postbag__arena_free(*state);
    return 0;
}

static void test_arena_added_bytes_end_with_nul(void **state)
{
    struct arena *a = *state;
    ptrdiff_t one = postbag__arena_add(a, "one-and-more", 3);
    ptrdiff_t two = postbag__arena_add(a, "two", 3);

    assert_string_equal(postbag__arena_at(a, one), "one");
    assert_string_equal(postbag__arena_at(a, two), "two");
}

static void test_arena_nothing_is_told_from_empty(void **state)
{
    struct arena *a = *state;

    assert_null(postbag__arena_at(a, postbag__arena_add(a, NULL, 0)));
    assert_string_equal(postbag__arena_at(a, postbag__arena_add(a, "", 0)), "");
}

static void test_arena_that_grows_keeps_what_is_there(void **state)
{
    static char large[100000];
    struct arena *a = *state;
    ptrdiff_t first = postbag__arena_add(a, "first", 5);
    ptrdiff_t second;

    memset(large, 'x', sizeof(large));
    second = postbag__arena_add(a, large, sizeof(large));
    assert_string_equal(postbag__arena_at(a, first), "first");
    assert_memory_equal(postbag__arena_at(a, second), large, sizeof(large));
    assert_int_equal(postbag__arena_at(a, second)[sizeof(large)], '\0');
}

/* Around the size of the block, where the NUL could fall outside. */
static void test_arena_any_size_has_room_for_its_nul(void **state)
{
    static char text[9000];
    struct arena *a = *state;

    memset(text, 'x', sizeof(text));
    for (size_t len = 4080; len < 4110; len++) {
        ptrdiff_t at;

        postbag__arena_free(a);
        at = postbag__arena_add(a, text, len);
        assert_true(a->used <= a->size);
        assert_int_equal(strlen(postbag__arena_at(a, at)), len);
    }
}

static void test_arena_reset_uses_its_block_again(void **state)
{
    static const char text[5000];
    struct arena *a = *state;
    unsigned requests;

    assert_int_equal(postbag__arena_add(a, text, sizeof(text)), 0);
    requests = mem_requests;
    for (int i = 0; i < 100; i++) {
        postbag__arena_reset(a);
        assert_int_equal(postbag__arena_add(a, text, sizeof(text)), 0);
    }
    assert_int_equal(mem_requests, requests);
}

static void test_arena_failed_growth_sticks_until_reset(void **state)
{
    static const char large[5000];
    struct arena *a = *state;
    ptrdiff_t first = postbag__arena_add(a, "first", 5);

    mem_is_out = 1;
    assert_int_equal(postbag__arena_add(a, large, sizeof(large)), ARENA_NONE);
    mem_is_out = 0;
    assert_int_equal(postbag__arena_add(a, "fits", 4), ARENA_NONE);
    assert_int_equal(a->err, POSTBAG_ENOMEM);
    assert_string_equal(postbag__arena_at(a, first), "first");
    postbag__arena_reset(a);
    assert_int_equal(a->err, POSTBAG_OK);
    assert_int_equal(postbag__arena_add(a, "fits", 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_arena_added_bytes_end_with_nul),
        TEST_IN(test_arena_nothing_is_told_from_empty),
        TEST_IN(test_arena_that_grows_keeps_what_is_there),
        TEST_IN(test_arena_any_size_has_room_for_its_nul),
        TEST_IN(test_arena_reset_uses_its_block_again),
        TEST_IN(test_arena_failed_growth_sticks_until_reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
