/* SPDX-License-Identifier: MIT */
#include "live_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_live_path_known_hash_gives_known_name(void **state)
{
    (void)state;
    char out[64];

    /* FNV-1a 64 of "a", from the published test vectors */
    assert_int_equal(
        postbag__live_path("/run/postbag", "a", "main", out, sizeof(out)),
        POSTBAG_OK);
    assert_string_equal(out, "/run/postbag/af63dc4c8601ec8c-main.state");
}

static void test_live_path_strange_dest_is_made_plain(void **state)
{
    (void)state;
    char out[64];

    assert_int_equal(
        postbag__live_path("/r x", "", "../A b\n", out, sizeof(out)),
        POSTBAG_OK);
    assert_string_equal(out, "/r x/cbf29ce484222325-.._A_b_.state");
}

static void test_live_path_small_buffer_is_refused(void **state)
{
    (void)state;
    char out[64];
    const size_t need = sizeof("/r/cbf29ce484222325-main.state");

    assert_int_equal(
        postbag__live_path("/r", "", "main", out, need), POSTBAG_OK);
    assert_int_equal(
        postbag__live_path("/r", "", "main", out, need - 1), POSTBAG_ETOOBIG);
}

static void test_live_path_borders_of_what_is_plain(void **state)
{
    (void)state;
    char out[64];

    assert_int_equal(
        postbag__live_path("/r", "", "az`{AZ@[09/:_.-,", out, sizeof(out)),
        POSTBAG_OK);
    assert_string_equal(out, "/r/cbf29ce484222325-az__AZ__09___.-_.state");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live_path_known_hash_gives_known_name),
        cmocka_unit_test(test_live_path_strange_dest_is_made_plain),
        cmocka_unit_test(test_live_path_small_buffer_is_refused),
        cmocka_unit_test(test_live_path_borders_of_what_is_plain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
