/* SPDX-License-Identifier: MIT */
/* Memory as its users expect it. */
#include "mem.h"

#include "unit.h"

static void test_alloc_is_zeroed_when_a_block_is_used_again(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        unsigned char *block = postbag__alloc(64);

        assert_non_null(block);
        for (size_t k = 0; k < 64; k++)
            assert_int_equal(block[k], 0);
        memset(block, 0xff, 64);
        postbag__free(block);
    }
}

static void test_resize_keeps_the_content(void **state)
{
    char *block = postbag__resize(NULL, 4);

    (void)state;
    assert_non_null(block);
    memcpy(block, "abc", 4);
    block = postbag__resize(block, 100000);
    assert_non_null(block);
    assert_string_equal(block, "abc");
    postbag__free(block);
}

static void test_copy_is_another_block_with_the_same_text(void **state)
{
    char text[] = "text";
    char *copy = postbag__copy(text);

    (void)state;
    assert_non_null(copy);
    text[0] = 'n';
    assert_string_equal(copy, "text");
    postbag__free(copy);
}

static void test_copy_of_null_is_null(void **state)
{
    (void)state;
    assert_null(postbag__copy(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_is_zeroed_when_a_block_is_used_again),
        cmocka_unit_test(test_resize_keeps_the_content),
        cmocka_unit_test(test_copy_is_another_block_with_the_same_text),
        cmocka_unit_test(test_copy_of_null_is_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
