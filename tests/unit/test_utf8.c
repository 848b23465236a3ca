/* SPDX-License-Identifier: MIT */
/* RFC 3629, each border from both sides. */
#include "utf8.h"

#include <string.h>

#include "postbag/transport.h"
#include "unit.h"

struct sample {
    const char *what, *bytes;
    size_t len;
};

#define S(what, bytes) \
    { \
        what, bytes, sizeof(bytes) - 1 \
    }

static void check(const struct sample *all, size_t count, int valid)
{
    for (size_t i = 0; i < count; i++)
        if (postbag__utf8_is_valid(all[i].bytes, all[i].len) != valid)
            fail_msg("%s", all[i].what);
}

static void test_utf8_well_formed_text_is_valid(void **state)
{
    static const struct sample all[] = {
        S("empty", ""),
        S("ASCII", "gw/1 \x01\x7f"),
        S("U+0080", "\xc2\x80"),
        S("U+07FF", "\xdf\xbf"),
        S("U+0800", "\xe0\xa0\x80"),
        S("U+D7FF", "\xed\x9f\xbf"),
        S("U+E000", "\xee\x80\x80"),
        S("U+FFFF", "\xef\xbf\xbf"),
        S("U+10000", "\xf0\x90\x80\x80"),
        S("U+10FFFF", "\xf4\x8f\xbf\xbf"),
        S("mixed", "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x93\xae z"),
    };

    (void)state;
    check(all, COUNT(all), 1);
}

static void test_utf8_malformed_bytes_are_not(void **state)
{
    static const struct sample all[] = {
        S("NUL alone", "\0"),
        S("NUL within", "a\0b"),
        S("lone continuation", "\x80"),
        S("continuation after ASCII", "a\xbf"),
        S("overlong NUL in two", "\xc0\x80"),
        S("overlong slash in two", "\xc0\xaf"),
        S("overlong U+007F", "\xc1\xbf"),
        S("overlong U+07FF in three", "\xe0\x9f\xbf"),
        S("overlong U+FFFF in four", "\xf0\x8f\xbf\xbf"),
        S("lowest surrogate", "\xed\xa0\x80"),
        S("highest surrogate", "\xed\xbf\xbf"),
        S("pair of surrogates", "\xed\xa0\xbd\xed\xb3\xae"),
        S("U+110000", "\xf4\x90\x80\x80"),
        S("lead F5", "\xf5\x80\x80\x80"),
        S("five bytes", "\xf8\x88\x80\x80\x80"),
        S("six bytes", "\xfc\x84\x80\x80\x80\x80"),
        S("FE", "\xfe"),
        S("FF", "\xff"),
        S("third byte is none", "\xe2\x82\x28"),
        S("second byte is none", "\xe2\x28\xac"),
        S("fourth byte is none", "\xf0\x9f\x93\x28"),
        S("second byte is a lead", "\xc3\xc3"),
        S("fault after good text", "good\xff"),
    };

    (void)state;
    check(all, COUNT(all), 0);
}

/* What stands behind the given length would make it whole, and is not read. */
static void test_utf8_truncated_sequence_is_not(void **state)
{
    static const char *const whole[] = {
        "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x93\xae"};

    (void)state;
    for (size_t i = 0; i < COUNT(whole); i++)
        for (size_t len = 1; len < strlen(whole[i]); len++)
            assert_false(postbag__utf8_is_valid(whole[i], len));
}

/* Every code point, built here by the rule of the RFC. */
static void test_utf8_all_code_points_but_surrogates_and_nul(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x120000; c++) {
        const char four[] = {(char)(0xf0 | c >> 18),
            (char)(0x80 | (c >> 12 & 63)), (char)(0x80 | (c >> 6 & 63)),
            (char)(0x80 | (c & 63))};
        const char three[] = {(char)(0xe0 | (c >> 12 & 15)), four[2], four[3]};
        const char two[] = {(char)(0xc0 | (c >> 6 & 31)), four[3]};
        const char one[] = {(char)(c & 127)};
        int valid = c < 0x80      ? postbag__utf8_is_valid(one, 1)
                    : c < 0x800   ? postbag__utf8_is_valid(two, 2)
                    : c < 0x10000 ? postbag__utf8_is_valid(three, 3)
                                  : postbag__utf8_is_valid(four, 4);
        int expected = c != 0 && (c < 0xd800 || c > 0xdfff) && c < 0x110000;

        if (valid != expected)
            fail_msg("U+%04X", (unsigned)c);
    }
}

/* MQTT 5, 1.5.4: control characters and non-characters. */
static void test_utf8_mqtt_string_has_no_control_character(void **state)
{
    static const char *const bad[] = {"a\n", "\x01", "\x1f", "\x7f", "\xc2\x80",
        "\xc2\x9f", "\xef\xb7\x90", "\xef\xb7\xaf", "\xef\xbf\xbe",
        "\xef\xbf\xbf", "\xf0\x9f\xbf\xbe", "\xf4\x8f\xbf\xbf", "\xff"};
    static const char *const good[] = {"", " ~", "\xc2\xa0", "\xef\xb7\x8f",
        "\xef\xb7\xb0", "\xef\xbf\xbd", "\xf0\x9f\x9a\xaa"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(postbag_is_mqtt_text(bad[i], strlen(bad[i])));
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(postbag_is_mqtt_text(good[i], strlen(good[i])));
}

static void test_utf8_what_cannot_be_seen_is_not_printable(void **state)
{
    static const struct {
        const char *text;
        size_t len;
    } all[] = {
        {"a", 1},
        {"", 0},
        {"\x1f", 0},
        {"\xc2\x85", 0},     /* U+0085 */
        {"\xe2\x80\x8a", 3}, /* U+200A, a thin space */
        {"\xe2\x80\x8b", 0}, /* U+200B, zero width */
        {"\xe2\x80\x8f", 0}, /* U+200F, right to left */
        {"\xe2\x80\x90", 3}, /* U+2010, a hyphen */
        {"\xe2\x80\xa7", 3},
        {"\xe2\x80\xa8", 0}, /* U+2028, a line ends */
        {"\xe2\x80\xae", 0}, /* U+202E, an override */
        {"\xe2\x80\xaf", 3},
        {"\xe2\x81\x9f", 3},
        {"\xe2\x81\xa0", 0}, /* U+2060 */
        {"\xe2\x81\xaf", 0},
        {"\xe2\x81\xb0", 3},
        {"\xef\xbb\xbf", 0}, /* U+FEFF */
        {"\xf0\x9f\x98\x80", 4},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        if (postbag__utf8_printable(all[i].text) != all[i].len)
            fail_msg("the %zu. of them", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_well_formed_text_is_valid),
        cmocka_unit_test(test_utf8_malformed_bytes_are_not),
        cmocka_unit_test(test_utf8_truncated_sequence_is_not),
        cmocka_unit_test(test_utf8_all_code_points_but_surrogates_and_nul),
        cmocka_unit_test(test_utf8_mqtt_string_has_no_control_character),
        cmocka_unit_test(test_utf8_what_cannot_be_seen_is_not_printable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
