/* SPDX-License-Identifier: MIT */
/* What reaches the application's hook. */
#include "log.h"

#include "unit.h"

struct heard {
    struct postbag_log_line line;
    char text[400];
    unsigned lines;
};

static void hear(void *ctx, const struct postbag_log_line *line)
{
    struct heard *h = ctx;

    h->line = *line;
    (void)snprintf(h->text, sizeof(h->text), "%s", line->text);
    h->lines++;
}

static void test_log_hands_over_level_code_and_text(void **state)
{
    struct heard h = {0};
    const struct log log = {.write = hear, .ctx = &h};

    (void)state;
    postbag__log(&log, POSTBAG_LOG_WARNING, POSTBAG_ELINK, "link %d", 7);
    assert_int_equal(h.lines, 1);
    assert_int_equal(h.line.level, POSTBAG_LOG_WARNING);
    assert_int_equal(h.line.code, POSTBAG_ELINK);
    assert_int_equal(h.line.cause, 0);
    assert_string_equal(h.text, "link 7");
}

static void test_log_fault_tells_what_it_happened_to(void **state)
{
    const struct postbag_fault fault = {
        .code = POSTBAG_ENOSPC, .cause = 13, .text = "disk full"};
    struct heard h = {0};
    const struct log log = {.write = hear, .ctx = &h};

    (void)state;
    postbag__log_fault(&log, POSTBAG_LOG_ERROR, "save the cursor", &fault);
    assert_int_equal(h.line.level, POSTBAG_LOG_ERROR);
    assert_int_equal(h.line.code, POSTBAG_ENOSPC);
    assert_int_equal(h.line.cause, 13);
    assert_string_equal(h.text, "save the cursor: disk full");
}

static void test_log_line_that_is_too_long_is_cut(void **state)
{
    char longer[400];
    struct heard h = {0};
    const struct log log = {.write = hear, .ctx = &h};

    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    postbag__log(&log, POSTBAG_LOG_DEBUG, 0, "%s", longer);
    assert_int_equal(strlen(h.text), 255);
}

/* The sanitizers and the processor are the judges: nothing to call. */
static void test_log_without_a_hook_calls_nothing(void **state)
{
    const struct postbag_fault fault = {.code = POSTBAG_EIO};
    struct heard h = {0};
    const struct log log = {.write = NULL, .ctx = &h};

    (void)state;
    postbag__log(&log, POSTBAG_LOG_ERROR, POSTBAG_EIO, "unheard");
    postbag__log_fault(&log, POSTBAG_LOG_ERROR, "unheard", &fault);
    assert_int_equal(h.lines, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_hands_over_level_code_and_text),
        cmocka_unit_test(test_log_fault_tells_what_it_happened_to),
        cmocka_unit_test(test_log_line_that_is_too_long_is_cut),
        cmocka_unit_test(test_log_without_a_hook_calls_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
