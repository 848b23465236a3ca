/* SPDX-License-Identifier: MIT */
/* Slots, and which tokens still mean something. */
#include "window.h"

#include "failing_mem.h"
#include "unit.h"

enum { SIZE = 4 };

static int set_up(void **state)
{
    static struct window w;

    mem_is_out = 0;
    assert_ok(postbag__window_init(&w, SIZE));
    postbag__window_restart(&w, 1);
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    postbag__window_free(*state);
    return 0;
}

/* Take a slot and account for its bytes, as the sender does. */
static struct slot *take(struct window *w, uint32_t bytes, uint32_t *token)
{
    struct slot *s = postbag__window_take(w, token);

    assert_non_null(s);
    s->bytes = bytes;
    s->packet = bytes + 100;
    w->bytes += bytes;
    w->packets += s->packet;
    return s;
}

static void test_window_token_finds_its_slot(void **state)
{
    struct window *w = *state;
    struct slot *slots[SIZE];
    uint32_t tokens[SIZE];

    for (int i = 0; i < SIZE; i++)
        slots[i] = take(w, 1, &tokens[i]);
    for (int i = 0; i < SIZE; i++)
        assert_ptr_equal(postbag__window_of(w, tokens[i]), slots[i]);
}

static void test_window_that_is_full_gives_nothing(void **state)
{
    struct window *w = *state;
    uint32_t token;

    for (int i = 0; i < SIZE; i++)
        (void)take(w, 1, &token);
    assert_null(postbag__window_take(w, &token));
    assert_int_equal(w->used, SIZE);
}

static void test_window_slot_given_back_is_free_again(void **state)
{
    struct window *w = *state;
    struct slot *first;
    uint32_t token;
    uint32_t other;

    first = take(w, 100, &token);
    (void)take(w, 20, &other);
    postbag__window_give_back(w, first);
    assert_int_equal(w->used, 1);
    assert_int_equal(w->bytes, 20);
    assert_null(postbag__window_of(w, token));
    assert_ptr_equal(postbag__window_take(w, &token), first);
}

static void test_window_token_of_an_older_connection_means_nothing(void **state)
{
    struct window *w = *state;
    uint32_t old[SIZE];
    uint32_t token;

    for (int i = 0; i < SIZE; i++)
        (void)take(w, 1, &old[i]);
    postbag__window_restart(w, 2);
    for (int i = 0; i < SIZE; i++)
        (void)take(w, 1, &token);
    for (int i = 0; i < SIZE; i++)
        assert_null(postbag__window_of(w, old[i]));
}

static void test_window_restart_leaves_nothing_in_flight(void **state)
{
    struct window *w = *state;
    uint32_t token;

    (void)take(w, 100, &token);
    postbag__window_restart(w, 2);
    assert_int_equal(w->used, 0);
    assert_int_equal(w->bytes, 0);
    assert_int_equal(w->packets, 0);
}

static void test_window_generation_beyond_16_bits_is_found(void **state)
{
    static const uint32_t generations[] = {0, 0xffff, 0x10000, 0x12345, ~0u};
    struct window *w = *state;

    for (size_t i = 0; i < COUNT(generations); i++) {
        struct slot *slot;
        uint32_t token;

        postbag__window_restart(w, generations[i]);
        slot = take(w, 1, &token);
        assert_ptr_equal(postbag__window_of(w, token), slot);
    }
}

static void test_window_token_of_no_slot_means_nothing(void **state)
{
    struct window *w = *state;

    assert_null(postbag__window_of(w, 1u << 16 | SIZE));
    assert_null(postbag__window_of(w, 1u << 16 | 0xffff));
    assert_null(postbag__window_of(w, 1u << 16)); /* free */
}

static void test_window_held_rows_are_told_from_rows_of_the_log(void **state)
{
    struct window *w = *state;
    struct slot *held;
    uint32_t token;

    take(w, 1, &token)->seq = 7;
    assert_false(postbag__window_has_held(w, 7));
    held = take(w, 1, &token);
    held->seq = 7;
    held->is_held = 1;
    assert_true(postbag__window_has_held(w, 7));
    assert_false(postbag__window_has_held(w, 8));
    postbag__window_give_back(w, held);
    assert_false(postbag__window_has_held(w, 7));
}

static void test_window_oldest_is_what_was_sent_first(void **state)
{
    struct window *w = *state;
    struct slot *slots[SIZE];
    uint32_t token;

    assert_int_equal(postbag__window_oldest(w), 0);
    for (int i = 0; i < SIZE; i++)
        slots[i] = take(w, 1, &token);
    assert_int_equal(postbag__window_oldest(w), 1);
    postbag__window_give_back(w, slots[1]);
    assert_int_equal(postbag__window_oldest(w), 1);
    postbag__window_give_back(w, slots[0]);
    assert_int_equal(postbag__window_oldest(w), 3);
    assert_int_equal(take(w, 1, &token)->nth, SIZE + 1); /* in slot 0 */
    assert_int_equal(postbag__window_oldest(w), 3);
    postbag__window_restart(w, 2);
    assert_int_equal(take(w, 1, &token)->nth, 1);
}

static void test_window_without_memory_is_no_memory(void **state)
{
    struct window w;

    (void)state;
    mem_is_out = 1;
    assert_int_equal(postbag__window_init(&w, SIZE), POSTBAG_ENOMEM);
    postbag__window_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_window_token_finds_its_slot),
        TEST_IN(test_window_that_is_full_gives_nothing),
        TEST_IN(test_window_slot_given_back_is_free_again),
        TEST_IN(test_window_token_of_an_older_connection_means_nothing),
        TEST_IN(test_window_restart_leaves_nothing_in_flight),
        TEST_IN(test_window_generation_beyond_16_bits_is_found),
        TEST_IN(test_window_token_of_no_slot_means_nothing),
        TEST_IN(test_window_held_rows_are_told_from_rows_of_the_log),
        TEST_IN(test_window_oldest_is_what_was_sent_first),
        TEST_IN(test_window_without_memory_is_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
