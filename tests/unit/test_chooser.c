/* SPDX-License-Identifier: MIT */
/* Whose turn it is, and that every lane that waits gets its share. */
#include "chooser.h"
#include "unit.h"

enum { BULK = 1, LOW = 2, MIDDLE = 4, HIGH = 8, ALL = 15 };

/* How often each lane sends, of so many sends while these wait. */
static void send(struct chooser *c, unsigned waiting, int sends, int out[4])
{
    memset(out, 0, 4 * sizeof(*out));
    for (int i = 0; i < sends; i++) {
        int lane = postbag__chooser_pick(c, waiting);

        out[lane]++;
        postbag__chooser_note_sent(c, lane, waiting);
    }
}

static void test_chooser_highest_lane_goes_first(void **state)
{
    struct chooser c = {.share = 8};

    (void)state;
    assert_int_equal(postbag__chooser_pick(&c, ALL), 3);
    assert_int_equal(postbag__chooser_pick(&c, BULK | LOW | MIDDLE), 2);
    assert_int_equal(postbag__chooser_pick(&c, BULK | LOW), 1);
    assert_int_equal(postbag__chooser_pick(&c, BULK), 0);
}

static void test_chooser_bulk_has_its_share_beside_one_urgent_lane(void **state)
{
    struct chooser c = {.share = 8};
    int out[4];

    (void)state;
    send(&c, BULK | MIDDLE, 7, out);
    assert_int_equal(out[0], 0);
    send(&c, BULK | MIDDLE, 800, out);
    assert_int_equal(out[0], 100);
    assert_int_equal(out[2], 700);
}

/* Bulk 1/8; lane 1 an eighth of the rest; lane 2 an eighth of what is left. */
static void test_chooser_every_lane_has_its_share_of_itself_and_above(
    void **state)
{
    struct chooser c = {.share = 8};
    int out[4];

    (void)state;
    send(&c, ALL, 8 * 512, out);
    assert_int_equal(out[0], 512);
    assert_int_equal(out[1], 448);
    assert_int_equal(out[2], 392);
    assert_int_equal(out[3], 2744);
}

static void test_chooser_share_of_two_starves_nobody(void **state)
{
    struct chooser c = {.share = 2};
    int out[4];

    (void)state;
    send(&c, ALL, 800, out);
    assert_int_equal(out[0], 400);
    assert_int_equal(out[1], 200);
    assert_int_equal(out[2], 100);
    assert_int_equal(out[3], 100);
}

static void test_chooser_who_does_not_wait_saves_nothing(void **state)
{
    struct chooser c = {.share = 8};
    int out[4];

    (void)state;
    send(&c, HIGH, 1000, out);
    assert_int_equal(postbag__chooser_pick(&c, BULK | HIGH), 3);
}

/* A lane that was due all along, but found no room, has one send at once. */
static void test_chooser_turn_that_was_missed_counts_once(void **state)
{
    struct chooser c = {.share = 8};
    int out[4];

    (void)state;
    for (int i = 0; i < 1000; i++)
        postbag__chooser_note_sent(&c, 3, BULK | HIGH);
    send(&c, BULK | HIGH, 8, out);
    assert_int_equal(out[0], 1);
    assert_int_equal(out[3], 7);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_chooser_highest_lane_goes_first),
    cmocka_unit_test(test_chooser_bulk_has_its_share_beside_one_urgent_lane),
    cmocka_unit_test(test_chooser_every_lane_has_its_share_of_itself_and_above),
    cmocka_unit_test(test_chooser_share_of_two_starves_nobody),
    cmocka_unit_test(test_chooser_who_does_not_wait_saves_nothing),
    cmocka_unit_test(test_chooser_turn_that_was_missed_counts_once),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
