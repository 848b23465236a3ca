/* SPDX-License-Identifier: MIT */
#include "order.h"
#include "unit.h"

static void test_order_is_what_the_numbers_say(void **state)
{
    static const struct {
        int64_t version, previous;
        enum postbag_order order;
    } all[] = {{5, 4, POSTBAG_ORDER_NEXT}, {0, -1, POSTBAG_ORDER_NEXT},
        {5, 3, POSTBAG_ORDER_GAP}, {5, 5, POSTBAG_ORDER_REPEAT},
        {4, 5, POSTBAG_ORDER_BACK},
        {INT64_MAX, INT64_MAX - 1, POSTBAG_ORDER_NEXT},
        {INT64_MAX, INT64_MIN, POSTBAG_ORDER_GAP},
        {INT64_MIN, INT64_MAX, POSTBAG_ORDER_BACK}};

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        assert_int_equal(
            postbag__order_of(&all[i].version, &all[i].previous), all[i].order);
    assert_int_equal(
        postbag__order_of(&all[0].version, NULL), POSTBAG_ORDER_FIRST);
    assert_int_equal(postbag__order_of(NULL, NULL), POSTBAG_ORDER_NONE);
    assert_int_equal(
        postbag__order_of(NULL, &all[0].previous), POSTBAG_ORDER_NONE);
}

static void test_order_is_refused_only_where_an_option_says_so(void **state)
{
    static const struct {
        struct order_rules rules;
        enum postbag_order refused;
        const char *why;
    } all[] = {{{.gap = ORDER_REFUSE}, POSTBAG_ORDER_GAP, "version gap"},
        {{.repeat = ORDER_REFUSE}, POSTBAG_ORDER_REPEAT, "version repeat"},
        {{.back = ORDER_REFUSE}, POSTBAG_ORDER_BACK, "version back"}};

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        for (int o = POSTBAG_ORDER_NONE; o <= POSTBAG_ORDER_BACK; o++) {
            const char *why =
                postbag__order_refusal(&all[i].rules, (enum postbag_order)o);

            if (o == (int)all[i].refused)
                assert_string_equal(why, all[i].why);
            else
                assert_null(why);
        }
}

static void test_order_rules_are_words(void **state)
{
    struct order_rules r;
    struct postbag_fault why;

    (void)state;
    assert_ok(
        postbag__order_rules_read(&r, "refuse", "accept", "refuse", NULL));
    assert_int_equal(r.gap, ORDER_REFUSE);
    assert_int_equal(r.repeat, ORDER_ACCEPT);
    assert_int_equal(r.back, ORDER_REFUSE);
    assert_ok(postbag__order_rules_read(&r, "defer", "accept", "accept", NULL));
    assert_int_equal(r.gap, ORDER_DEFER);
    assert_int_equal(
        postbag__order_rules_read(&r, "defer", "accept", "defer", &why),
        POSTBAG_EINVAL);
    assert_int_equal(
        postbag__order_rules_read(&r, "", "accept", "accept", &why),
        POSTBAG_EINVAL);
    assert_has(why.text, "version_gap");
    assert_int_equal(
        postbag__order_rules_read(&r, "accept", "x", "accept", &why),
        POSTBAG_EINVAL);
    assert_has(why.text, "version_repeat");
    assert_int_equal(
        postbag__order_rules_read(&r, "accept", "accept", "no", &why),
        POSTBAG_EINVAL);
    assert_has(why.text, "version_back");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_what_the_numbers_say),
        cmocka_unit_test(test_order_is_refused_only_where_an_option_says_so),
        cmocka_unit_test(test_order_rules_are_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
