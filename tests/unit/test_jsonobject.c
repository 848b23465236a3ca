/* SPDX-License-Identifier: MIT */
#include "temp_db.h"

#include <string.h>

#include "jsonobject.h"
#include "mem.h"

static void expect(struct jsonobject *j, const char *wanted)
{
    char *text = postbag__jsonobject_end(j);

    assert_string_equal(text, wanted);
    postbag__free(text);
}

static void test_jsonobject_empty_is_an_object(void **state)
{
    struct jsonobject j = {0};

    (void)state;
    expect(&j, "{}");
}

static void test_jsonobject_specials_are_escaped(void **state)
{
    struct jsonobject j = {0};

    (void)state;
    postbag__jsonobject_add(&j, "a\"b", "c\\d\n\x01\x7f");
    postbag__jsonobject_add(&j, "", "");
    expect(&j, "{\"a\\\"b\":\"c\\\\d\\u000a\\u0001\\u007f\",\"\":\"\"}");
}

static void test_jsonobject_bytes_that_are_not_text_are_replaced(void **state)
{
    struct jsonobject j = {0};

    (void)state;
    postbag__jsonobject_add(&j, "ok", "\xc3\xa9\xf0\x9f\x98\x80");
    postbag__jsonobject_add(&j, "cut", "\xc3");
    postbag__jsonobject_add(&j, "odd",
        "\xff"
        "a\xed\xa0\x80");
    expect(&j, "{\"ok\":\"\xc3\xa9\xf0\x9f\x98\x80\","
               "\"cut\":\"\xef\xbf\xbd\","
               "\"odd\":\"\xef\xbf\xbd"
               "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
               "\"}");
}

/* Every byte in every place, and more text than the first block holds. */
static void test_jsonobject_any_bytes_are_valid_json(void **state)
{
    struct temp_db t;
    struct jsonobject j = {0};
    struct stmt s;
    char value[3];
    char *text;

    (void)state;
    for (int c = 1; c < 256; c++) {
        value[0] = (char)c;
        value[1] = (char)(256 - c);
        value[2] = '\0';
        postbag__jsonobject_add(&j, value, value);
    }
    text = postbag__jsonobject_end(&j);
    temp_db_open(&t);
    assert_int_equal(postbag__prepare(&t.db, &s,
                         "SELECT json_valid(?1), count(*) FROM json_each(?1)"),
        POSTBAG_OK);
    postbag__bind_text(&s, 1, text);
    assert_int_equal(postbag__row(&s), 1);
    assert_int_equal(postbag__col_i64(&s, 0), 1);
    assert_int_equal(postbag__col_i64(&s, 1), 255);
    postbag__finalize(&s);
    temp_db_close(&t);
    postbag__free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jsonobject_empty_is_an_object),
        cmocka_unit_test(test_jsonobject_specials_are_escaped),
        cmocka_unit_test(test_jsonobject_bytes_that_are_not_text_are_replaced),
        cmocka_unit_test(test_jsonobject_any_bytes_are_valid_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
