/* SPDX-License-Identifier: MIT */
/* What strangers may say: nothing of it drives a terminal or breaks a line. */
#include "printable.h"

#include <stdlib.h>

#include "unit.h"
#include "utf8.h"

static const char *printed(const char *text)
{
    static char out[100];

    postbag__printable(out, sizeof(out), text);
    return out;
}

static void test_printable_text_stays(void **state)
{
    static const char *const all[] = {"", "not authorized",
        "\"quotes\", 'quotes' and \\ back", "gr\u00fc\u00df \u20ac \U0001f4ee"};

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        assert_string_equal(printed(all[i]), all[i]);
}

static void test_printable_replaces_what_drives_a_terminal(void **state)
{
    static const struct {
        const char *text, *printed;
    } all[] = {
        {"\x1b[31mred\x1b]0;title\a", "?[31mred?]0;title?"},
        {"two\r\nlines\tand more", "two??lines?and more"},
        {"\x7f\xc2\x9b[31m", "???[31m"},          /* DEL, and CSI as C1 */
        {"\xe2\x80\xa8|\xe2\x80\xa9", "???|???"}, /* separators of lines */
        {"\xe2\x80\xae|\xe2\x81\xa6", "???|???"}, /* right to left */
        {"\xef\xbb\xbf|\xef\xbf\xbf", "???|???"}, /* BOM, no character */
        {"\xff\xfe|\xc0\xaf|\xed\xa0\x80", "??|??|???"}, /* not UTF-8 */
        {"cut \xe2\x82", "cut ??"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        assert_string_equal(printed(all[i].text), all[i].printed);
}

static void test_printable_long_text_is_cut_between_characters(void **state)
{
    char *text = malloc(65536);
    char out[8];

    (void)state;
    assert_non_null(text);
    for (size_t start = 0; start < 3; start++) {
        memset(text, 'x', 65535);
        text[65535] = '\0';
        memcpy(text + start + 3, "\xe2\x82\xac", 3);
        postbag__printable(out, sizeof(out), text);
        assert_int_equal(strlen(out), start == 2 ? 5 : 7);
        assert_true(postbag__utf8_is_valid(out, strlen(out)));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printable_text_stays),
        cmocka_unit_test(test_printable_replaces_what_drives_a_terminal),
        cmocka_unit_test(test_printable_long_text_is_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
