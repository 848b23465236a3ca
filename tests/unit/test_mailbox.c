/* SPDX-License-Identifier: MIT */
/* Letters from many threads reach the one reader, once each. */
#include "mailbox.h"

#include <pthread.h>
#include <sched.h>

#include "unit.h"

enum { THREADS = 4, LETTERS = 50000, ROOM = 64 };

static int post(struct mailbox *m, uint32_t token)
{
    const struct settled letter = {.token = token, .err = -1, .reason = 2};

    return postbag__mailbox_post(m, &letter);
}

static void test_mailbox_keeps_the_order_of_one_poster(void **state)
{
    struct mailbox m;
    struct settled letter = {0};

    (void)state;
    assert_ok(postbag__mailbox_init(&m, 5));
    for (uint32_t round = 0; round < 100; round++) {
        for (uint32_t i = 0; i < 5; i++)
            assert_ok(post(&m, round * 5 + i));
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(postbag__mailbox_take(&m, &letter), 1);
            assert_int_equal(letter.token, round * 5 + i);
        }
    }
    assert_int_equal(letter.err, -1);
    assert_int_equal(letter.reason, 2);
    assert_int_equal(postbag__mailbox_take(&m, &letter), 0);
    postbag__mailbox_free(&m);
}

static void test_mailbox_that_is_full_refuses_and_loses_nothing(void **state)
{
    struct mailbox m;
    struct settled letter;
    uint32_t room = 0;

    (void)state;
    assert_ok(postbag__mailbox_init(&m, 3));
    while (post(&m, room) == POSTBAG_OK)
        room++;
    assert_in_range(room, 3, 4);
    assert_int_equal(post(&m, 99), POSTBAG_EAGAIN);
    for (uint32_t i = 0; i < room; i++) {
        assert_int_equal(postbag__mailbox_take(&m, &letter), 1);
        assert_int_equal(letter.token, i);
    }
    assert_int_equal(postbag__mailbox_take(&m, &letter), 0);
    postbag__mailbox_free(&m);
}

static void test_mailbox_counters_may_wrap(void **state)
{
    struct mailbox m;
    struct settled letter;

    (void)state;
    assert_ok(postbag__mailbox_init(&m, 4));
    m.head = 0xfffffffcu;
    atomic_init(&m.tail, 0xfffffffcu);
    for (uint32_t i = 0; i < 4; i++)
        atomic_init(&m.cells[i].turn, 0xfffffffcu + i);
    for (uint32_t i = 0; i < 20; i++) {
        assert_ok(post(&m, i));
        assert_int_equal(postbag__mailbox_take(&m, &letter), 1);
        assert_int_equal(letter.token, i);
    }
    postbag__mailbox_free(&m);
}

struct poster {
    pthread_t thread;
    struct mailbox *m;
    uint32_t number;
    uint32_t refused;
};

/* Letters are numbered: thread, then count. */
static void *run(void *arg)
{
    struct poster *p = arg;

    for (uint32_t i = 0; i < LETTERS; i++)
        while (post(p->m, p->number << 24 | i) != POSTBAG_OK) {
            p->refused++;
            (void)sched_yield();
        }
    return NULL;
}

static void take_all(struct mailbox *m)
{
    uint32_t next[THREADS] = {0};
    struct settled letter;

    for (uint32_t got = 0; got < THREADS * LETTERS;) {
        uint32_t who;

        if (!postbag__mailbox_take(m, &letter)) {
            (void)sched_yield();
            continue;
        }
        got++;
        who = letter.token >> 24;
        assert_true(who < THREADS);
        assert_int_equal(letter.token & 0xffffff, next[who]);
        next[who]++;
    }
}

static void test_mailbox_four_threads_post_and_none_is_lost(void **state)
{
    struct mailbox m;
    struct settled letter;
    struct poster all[THREADS];

    (void)state;
    assert_ok(postbag__mailbox_init(&m, ROOM));
    for (uint32_t i = 0; i < THREADS; i++) {
        all[i] = (struct poster){.m = &m, .number = i};
        assert_int_equal(pthread_create(&all[i].thread, NULL, run, &all[i]), 0);
    }
    take_all(&m);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
    assert_int_equal(postbag__mailbox_take(&m, &letter), 0);
    postbag__mailbox_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mailbox_keeps_the_order_of_one_poster),
        cmocka_unit_test(test_mailbox_that_is_full_refuses_and_loses_nothing),
        cmocka_unit_test(test_mailbox_counters_may_wrap),
        cmocka_unit_test(test_mailbox_four_threads_post_and_none_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
