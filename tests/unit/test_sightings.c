/* SPDX-License-Identifier: MIT */
/* What a few marks tell of the age of many rows, and in another boot. */
#include "sightings.h"

#include "unit.h"

enum { SECOND = 1000, HOUR = 3600 * SECOND };
static const int64_t day_of_2026 = INT64_C(1767225600000);

static struct sightings s;

static struct moment at(int boot, int64_t mono_ms, int64_t wall_ms)
{
    struct moment m = {.wall_ms = wall_ms, .mono_ms = mono_ms};

    m.boot[0] = (uint8_t)boot;
    return m;
}

/* In boot 1, which the wall clock does not matter to. */
static void see(int64_t seq, int64_t mono_ms)
{
    struct moment now = at(1, mono_ms, 0);

    postbag__sightings_add(&s, seq, &now);
}

static int64_t age(int64_t seq, int64_t mono_ms)
{
    struct moment now = at(1, mono_ms, 0);

    return postbag__sightings_age_ms(&s, seq, &now);
}

static int set_up(void **state)
{
    (void)state;
    memset(&s, 0, sizeof(s));
    return 0;
}

static void test_sightings_row_ages_from_the_first_mark_that_covers_it(
    void **state)
{
    (void)state;
    see(10, 1000);
    see(20, 5000);
    assert_int_equal(age(1, 9000), 8000);
    assert_int_equal(age(10, 9000), 8000);
    assert_int_equal(age(11, 9000), 4000);
    assert_int_equal(age(21, 9000), 0);
}

static void test_sightings_newest_is_that_of_this_boot(void **state)
{
    struct moment here = at(1, 0, 0);
    struct moment elsewhere = at(2, 0, 0);

    (void)state;
    assert_int_equal(postbag__sightings_newest(&s, &here), 0);
    see(10, 1000);
    see(20, 2000);
    assert_int_equal(postbag__sightings_newest(&s, &here), 20);
    assert_int_equal(postbag__sightings_newest(&s, &elsewhere), 0);
}

static int forget(int64_t settled, int64_t first_held, int64_t last_held)
{
    const struct askers who = {settled, first_held, last_held};

    return postbag__sightings_forget(&s, &who);
}

static void test_sightings_of_settled_rows_are_forgotten(void **state)
{
    (void)state;
    see(10, 1000);
    see(20, 2000);
    see(30, 3000);
    assert_false(forget(20, 0, 0));
    assert_int_equal(s.count, 1);
    assert_int_equal(age(5, 4000), 1000);
    assert_true(forget(30, 0, 0));
    assert_int_equal(s.count, 0);
}

static void test_sightings_that_tell_of_held_rows_stay(void **state)
{
    (void)state;
    see(10, 1000);
    see(20, 2000);
    see(30, 3000);
    see(40, 4000);
    assert_true(forget(40, 15, 25));
    assert_int_equal(s.count, 2);
    assert_int_equal(age(15, 5000), 3000);
    assert_int_equal(age(25, 5000), 2000);
}

/* Nobody may know how old that other one is. */
static void test_sightings_of_this_boot_stay_beside_those_of_others(
    void **state)
{
    struct moment elsewhere = at(2, 500, 0);

    (void)state;
    postbag__sightings_add(&s, 10, &elsewhere);
    see(20, 2000);
    assert_false(forget(20, 10, 10));
    assert_int_equal(s.count, 2);
}

/* A row per 5 s for some days: any age is told, but for a third of it, and none
 * is too high. */
static void test_sightings_thin_out_with_age(void **state)
{
    int64_t rows = 0;
    int64_t now = 0;

    (void)state;
    while (now < INT64_C(5) * 24 * HOUR) {
        now += 5 * SECOND;
        see(++rows, now);
    }
    assert_true(s.count <= SIGHTINGS);
    for (int64_t seq = 1; seq <= rows; seq += 1 + (rows - seq) / 16) {
        int64_t real = now + 5 * SECOND - seq * 5 * SECOND;
        int64_t told = age(seq, now + 5 * SECOND);

        assert_true(told <= real);
        assert_true(told >= real * 2 / 3 - 5 * SECOND);
    }
}

static void test_sightings_of_another_boot_count_by_a_clock_set_at_both_ends(
    void **state)
{
    static const struct {
        int64_t then, now, age;
    } all[] = {
        {day_of_2026, day_of_2026 + 7000, 7000},
        {POSTBAG__CLOCK_IS_SET_MS - 1, day_of_2026, 0},
        {day_of_2026, 5000, 0},
        {day_of_2026, day_of_2026 - 1, 0},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct moment then = at(1, 999999, all[i].then);
        struct moment now = at(2, 1000, all[i].now);

        (void)set_up(state);
        postbag__sightings_add(&s, 10, &then);
        assert_int_equal(postbag__sightings_age_ms(&s, 5, &now), all[i].age);
    }
}

static void test_sightings_of_both_boots_the_older_counts(void **state)
{
    struct moment then = at(1, 50000, day_of_2026);
    struct moment again = at(2, 1000, day_of_2026 + 60000);
    struct moment now = at(2, 3000, day_of_2026 + 62000);

    (void)state;
    postbag__sightings_add(&s, 10, &then);
    postbag__sightings_add(&s, 20, &again);
    assert_int_equal(postbag__sightings_age_ms(&s, 10, &now), 62000);
    assert_int_equal(postbag__sightings_age_ms(&s, 11, &now), 2000);
    now.wall_ms = 62000; /* nobody knows */
    assert_int_equal(postbag__sightings_age_ms(&s, 10, &now), 2000);
}

static void test_sightings_get_the_time_when_the_clock_is_set(void **state)
{
    struct moment then = at(1, 50000, 5);
    struct moment unset = at(1, 51000, 1005);
    struct moment set = at(1, 60000, day_of_2026);
    struct moment later = at(2, 1, day_of_2026 + 1000);

    (void)state;
    postbag__sightings_add(&s, 10, &then);
    assert_int_equal(postbag__sightings_put_right(&s, &unset), 0);
    assert_int_equal(postbag__sightings_put_right(&s, &set), 1);
    assert_int_equal(postbag__sightings_put_right(&s, &set), 0);
    assert_int_equal(postbag__sightings_age_ms(&s, 10, &set), 10000);
    assert_int_equal(postbag__sightings_age_ms(&s, 10, &later), 11000);
}

/* What cannot be used goes first. */
static void test_sightings_of_a_boot_without_time_make_room(void **state)
{
    struct moment then = at(2, 50000, 5);

    (void)state;
    see(1, 1000);
    postbag__sightings_add(&s, 2, &then);
    for (int i = 0; i < SIGHTINGS; i++)
        see(3 + i, 2000 + 1000 * i);
    for (int i = 0; i < s.count; i++)
        assert_int_equal(s.list[i].at.boot[0], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            test_sightings_row_ages_from_the_first_mark_that_covers_it, set_up),
        cmocka_unit_test_setup(
            test_sightings_newest_is_that_of_this_boot, set_up),
        cmocka_unit_test_setup(
            test_sightings_of_settled_rows_are_forgotten, set_up),
        cmocka_unit_test_setup(
            test_sightings_that_tell_of_held_rows_stay, set_up),
        cmocka_unit_test_setup(
            test_sightings_of_this_boot_stay_beside_those_of_others, set_up),
        cmocka_unit_test_setup(test_sightings_thin_out_with_age, set_up),
        cmocka_unit_test_setup(
            test_sightings_of_another_boot_count_by_a_clock_set_at_both_ends,
            set_up),
        cmocka_unit_test_setup(
            test_sightings_of_both_boots_the_older_counts, set_up),
        cmocka_unit_test_setup(
            test_sightings_get_the_time_when_the_clock_is_set, set_up),
        cmocka_unit_test_setup(
            test_sightings_of_a_boot_without_time_make_room, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
