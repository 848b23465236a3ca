/* SPDX-License-Identifier: MIT */
/* Which refusals are final. */
#include "verdict.h"

#include "unit.h"

static const struct {
    int reason;
    enum verdict verdict;
    const char *text;
} known[] = {
    {0x80, VERDICT_RETRY, "unspecified error"},
    {0x83, VERDICT_RETRY, "implementation specific error"},
    {0x87, VERDICT_RETRY, "not authorized"},
    {0x90, VERDICT_DEAD, "topic name invalid"},
    {0x91, VERDICT_RETRY, "packet identifier in use"},
    {0x95, VERDICT_DEAD, "packet too large"},
    {0x97, VERDICT_THROTTLE, "quota exceeded"},
    {0x99, VERDICT_DEAD, "payload format invalid"},
};

static void test_verdict_of_known_reasons(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(known); i++)
        assert_int_equal(postbag__verdict(known[i].reason), known[i].verdict);
}

static void test_verdict_known_reasons_have_their_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(known); i++)
        assert_string_equal(
            postbag__reason_text(known[i].reason), known[i].text);
}

static int is_known(int reason)
{
    for (size_t i = 0; i < COUNT(known); i++)
        if (known[i].reason == reason)
            return 1;
    return 0;
}

/* A message is not given up for a reason nobody knows. */
static void test_verdict_unknown_reasons_are_repairable(void **state)
{
    (void)state;
    for (int reason = 0x80; reason <= 0xff; reason++) {
        if (is_known(reason))
            continue;
        assert_int_equal(postbag__verdict(reason), VERDICT_RETRY);
        assert_string_equal(postbag__reason_text(reason), "refused");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdict_of_known_reasons),
        cmocka_unit_test(test_verdict_known_reasons_have_their_words),
        cmocka_unit_test(test_verdict_unknown_reasons_are_repairable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
