/* SPDX-License-Identifier: MIT */
/* Against the examples of RFC 4648, section 10. */
#include "base64.h"

#include "unit.h"

static void test_base64_published_examples_are_met(void **state)
{
    static const struct {
        const char *in, *out;
    } all[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    char out[16];

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        postbag__base64(out, all[i].in, strlen(all[i].in));
        assert_string_equal(out, all[i].out);
    }
}

static void test_base64_binary_uses_the_whole_alphabet(void **state)
{
    /* the numbers 0 to 63 in six bits each */
    static const unsigned char in[48] = {0x00, 0x10, 0x83, 0x10, 0x51, 0x87,
        0x20, 0x92, 0x8b, 0x30, 0xd3, 0x8f, 0x41, 0x14, 0x93, 0x51, 0x55, 0x97,
        0x61, 0x96, 0x9b, 0x71, 0xd7, 0x9f, 0x82, 0x18, 0xa3, 0x92, 0x59, 0xa7,
        0xa2, 0x9a, 0xab, 0xb2, 0xdb, 0xaf, 0xc3, 0x1c, 0xb3, 0xd3, 0x5d, 0xb7,
        0xe3, 0x9e, 0xbb, 0xf3, 0xdf, 0xbf};
    char out[65];

    (void)state;
    postbag__base64(out, in, sizeof(in));
    assert_string_equal(out, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "abcdefghijklmnopqrstuvwxyz0123456789+/");
}

static void test_base64_length_is_what_is_written(void **state)
{
    static const char in[100] = "\xff";
    char out[200];

    (void)state;
    for (size_t len = 0; len <= sizeof(in); len++) {
        memset(out, '#', sizeof(out));
        postbag__base64(out, in, len);
        assert_int_equal(strlen(out), postbag__base64_length(len));
        assert_int_equal(out[postbag__base64_length(len) + 1], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64_published_examples_are_met),
        cmocka_unit_test(test_base64_binary_uses_the_whole_alphabet),
        cmocka_unit_test(test_base64_length_is_what_is_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
