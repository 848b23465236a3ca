/* SPDX-License-Identifier: MIT */
/* Against the examples published with FIPS 180-4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sha256.h"

static void to_hex(const uint8_t sum[SHA256_BYTES], char out[65])
{
    for (size_t i = 0; i < SHA256_BYTES; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

static void hash(const char *text, size_t len, size_t piece, char out[65])
{
    struct sha256 h;
    uint8_t sum[SHA256_BYTES];

    postbag__sha256_begin(&h);
    for (size_t at = 0; at < len; at += piece)
        postbag__sha256_add(&h, text + at, len - at < piece ? len - at : piece);
    postbag__sha256_end(&h, sum);
    to_hex(sum, out);
}

static void test_sha256_published_messages_give_published_sums(void **state)
{
    static const struct {
        const char *text, *sum;
    } all[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb924"
             "27ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223"
                "b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039"
            "a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
         "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
            "cf5b16a778af8380036ce59e7b049237"
            "0b249b11e8f07a51afac45037afee9d1"},
    };
    char hex[65];

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        hash(all[i].text, strlen(all[i].text), 64, hex);
        assert_string_equal(hex, all[i].sum);
    }
}

static void test_sha256_a_million_bytes_give_the_published_sum(void **state)
{
    static char text[1000000];
    char hex[65];

    (void)state;
    memset(text, 'a', sizeof(text));
    hash(text, sizeof(text), 977, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67"
                             "f1809a48a497200e046d39ccc7112cd0");
}

/* Around the block and padding borders, however the bytes are cut. */
static void test_sha256_any_pieces_give_the_same_sum(void **state)
{
    char text[200];
    char whole[65];
    char parts[65];

    (void)state;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 7);
    for (size_t len = 0; len <= sizeof(text); len++) {
        hash(text, len, sizeof(text) + 1, whole);
        for (size_t piece = 1; piece < 70; piece += 3) {
            hash(text, len, piece, parts);
            assert_string_equal(parts, whole);
        }
    }
}

static void test_sha256_fields_cut_elsewhere_give_another_sum(void **state)
{
    struct sha256 h;
    uint8_t a[SHA256_BYTES];
    uint8_t b[SHA256_BYTES];

    (void)state;
    postbag__sha256_begin(&h);
    postbag__sha256_field(&h, "ab", 2);
    postbag__sha256_field(&h, "c", 1);
    postbag__sha256_end(&h, a);
    postbag__sha256_begin(&h);
    postbag__sha256_field(&h, "a", 1);
    postbag__sha256_field(&h, "bc", 2);
    postbag__sha256_end(&h, b);
    assert_memory_not_equal(a, b, sizeof(a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256_published_messages_give_published_sums),
        cmocka_unit_test(test_sha256_a_million_bytes_give_the_published_sum),
        cmocka_unit_test(test_sha256_any_pieces_give_the_same_sum),
        cmocka_unit_test(test_sha256_fields_cut_elsewhere_give_another_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
