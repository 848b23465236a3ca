/* SPDX-License-Identifier: MIT */
/* A device of one key, and a broker that never answers its first message:
 * nothing is left to be sent beside it. */
#include "bench_admin.h"
#include "poison.h"
#include "sender.h"

/* As an operator does, while the relay runs. */
static void discard(struct bench *b, int64_t seq)
{
    struct postbag_admin *a = open_admin(b);

    assert_ok(postbag_admin_discard(a, NULL, seq, NULL));
    postbag_admin_close(a);
}

/* All that waits is of its key, so that nothing is ever sent beside it: an
 * operator can reach it, and the others go on. */
static void test_only_key_first_never_answered_is_set_aside(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put_key(r, "bad", "k");
    relay_put_key(r, "next", "k");
    relay_put_key(r, "last", "k");
    for (int i = 0; i < 150 && held_now(b)[0] == 0; i++)
        pass_over(r, 10);
    pass_over(r, 300 * 10);
    assert_string_equal(
        held_now(b), "bad retry 0, next behind 0, last behind 0");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                            " WHERE error LIKE 'suspect: the link was up%%'"),
        1);
    assert_int_equal(delivered(b), 0);
    discard(b, 1);
    pass_over(r, 300 * 10);
    assert_string_equal(held_now(b), "");
    assert_int_equal(delivered(b), 2);
}

/* Nothing can prove the connection while all others wait for it. */
static void test_only_key_at_its_bound_is_tried_again(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.held_max_per_key = 1;
    r = bench_up(b);
    for (int i = 0; i < 5; i++)
        relay_put_key(r, "bad", "k");
    pass_over(r, 300 * 10);
    assert_string_equal(held_now(b), "bad retry 0");
    r->out->auto_settle = 1;
    relay_run_ms(r, 300 * 1000);
    assert_int_equal(delivered(b), 5);
}

/* Others that are in flight may still prove the connection, and more may go. */
static void test_only_key_suspect_keeps_no_other_from_leaving(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.retry_base_ms = 100;
    b->r.options.retry_cap_ms = 1000;
    r = bench_up(b);
    relay_put_key(r, "bad", "k");
    relay_put_key(r, "next", "k");
    for (int i = 0; i < 1500 && held_now(b)[0] == 0; i++)
        pass_over(r, 1);
    relay_put(r, "t", 1);
    while (r->out->in_flight == 0)
        relay_run_ms(r, 100);
    relay_run_ms(r, 7000);
    relay_put(r, "t", 1);
    relay_run_ms(r, 1000);
    assert_int_equal(r->out->in_flight, 2);
}

/* A broker that says "slow down" to the first of each connection is slow. */
static void test_only_key_throttled_is_no_suspect(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    unsigned connects = 0;

    for (int i = 0; i < 3; i++)
        relay_put_key(r, "t", "k");
    for (int i = 0; i < 600 * 10; i++) {
        relay_run_ms(r, 100);
        if (r->out->in_flight == 0 || r->out->connects == connects)
            continue;
        connects = r->out->connects;
        fake_settle(r->out, r->out->count - 1, 0x97);
    }
    assert_true(connects > 4);
    assert_string_equal(held_now(b), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_only_key_first_never_answered_is_set_aside),
        BENCH(test_only_key_at_its_bound_is_tried_again),
        BENCH(test_only_key_suspect_keeps_no_other_from_leaving),
        BENCH(test_only_key_throttled_is_no_suspect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
