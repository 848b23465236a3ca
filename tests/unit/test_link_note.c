/* SPDX-License-Identifier: MIT */
/* What other threads tell a link, before its own thread takes it. */
#include "link.h"
#include "unit.h"

static struct link l;

static int set_up(void **state)
{
    static const struct link_options options = {.name = "outbound"};

    (void)state;
    postbag__link_init(&l, NULL, NULL, NULL, NULL, &options);
    return 0;
}

static void test_link_note_lost_keeps_reason_and_text(void **state)
{
    (void)state;
    postbag__link_note_lost(&l, 7, POSTBAG_EREFUSED, 0x8e, "thrown out");
    assert_int_equal(atomic_load(&l.lost_generation), 7);
    assert_int_equal(l.lost.err, POSTBAG_EREFUSED);
    assert_int_equal(l.lost.reason, 0x8e);
    assert_string_equal(l.lost.text, "thrown out");
}

static void test_link_note_lost_without_a_text_has_the_codes(void **state)
{
    (void)state;
    postbag__link_note_lost(&l, 7, POSTBAG_ELINK, 0, NULL);
    assert_string_equal(l.lost.text, postbag_error_text(POSTBAG_ELINK));
}

static void test_link_note_lost_cuts_a_long_text(void **state)
{
    char text[1000];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    postbag__link_note_lost(&l, 7, POSTBAG_ELINK, 0, text);
    assert_int_equal(strlen(l.lost.text), sizeof(l.lost.text) - 1);
}

/* It gets into the log, and as a line into the live state. */
static void test_link_note_lost_keeps_a_hostile_text_to_one_line(void **state)
{
    (void)state;
    postbag__link_note_lost(
        &l, 7, POSTBAG_EREFUSED, 0x87, "no\nrole=standby\x1b[2J");
    assert_string_equal(l.lost.text, "no?role=standby?[2J");
}

static void test_link_note_up_keeps_what_the_attempt_brought(void **state)
{
    struct postbag_link info = {.mqtt_version = 4, .server = 3};

    (void)state;
    postbag__link_note_up(&l, 9, &info);
    info.server = 0;
    assert_int_equal(atomic_load(&l.up_generation), 9);
    assert_int_equal(l.up_info.server, 3);
    assert_int_equal(atomic_load(&l.lost_generation), 0);
}

static void test_link_note_subscribed_names_the_attempt(void **state)
{
    (void)state;
    postbag__link_note_subscribed(&l, 9);
    assert_int_equal(atomic_load(&l.subscribed_generation), 9);
    assert_int_equal(atomic_load(&l.up_generation), 0);
}

static void test_link_note_the_last_hint_counts(void **state)
{
    (void)state;
    postbag__link_note_hint(&l, 0);
    assert_int_equal(atomic_load(&l.hint), HINT_GONE);
    postbag__link_note_hint(&l, 1);
    assert_int_equal(atomic_load(&l.hint), HINT_BACK);
    assert_int_equal(atomic_load(&l.renew), 0);
    postbag__link_note_renewal(&l);
    assert_int_equal(atomic_load(&l.renew), 1);
}

static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    TEST(test_link_note_lost_keeps_reason_and_text),
    TEST(test_link_note_lost_without_a_text_has_the_codes),
    TEST(test_link_note_lost_cuts_a_long_text),
    TEST(test_link_note_lost_keeps_a_hostile_text_to_one_line),
    TEST(test_link_note_up_keeps_what_the_attempt_brought),
    TEST(test_link_note_subscribed_names_the_attempt),
    TEST(test_link_note_the_last_hint_counts),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
