/* SPDX-License-Identifier: MIT */
/* Every option of the one table: its default, its range, its own copy. */
#include "config.h"

#include <stdlib.h>

#include "postbag/port.h"
#include "postbag/transport.h"
#include "unit.h"

enum kind { U32, STR };

struct option {
    enum kind kind;
    const char *name;
    size_t at;
    uint32_t number;  /* default of a U32 */
    const char *text; /* default of a STR */
    uint32_t min, max;
};

#define NUMBER_U32(def) def
#define NUMBER_STR(def) 0
#define TEXT_U32(def) NULL
#define TEXT_STR(def) def
#define OPTION(kind, name, def, min, max, unit, help) \
    {kind, #name, offsetof(struct postbag_config, name), NUMBER_##kind(def), \
        TEXT_##kind(def), min, max},

static const struct option options[] = {POSTBAG_OPTION_MAP(OPTION)};

static const struct postbag_port port;
static struct postbag_transport transport;

static struct postbag_config least(void)
{
    const struct postbag_config c = {
        .struct_size = sizeof(c),
        .db_path = "/x/gw.db",
        .port = &port,
        .transport = &transport,
    };

    return c;
}

static uint32_t *number_of(struct postbag_config *c, const struct option *o)
{
    return (uint32_t *)(void *)((char *)c + o->at);
}

static const char **text_of(struct postbag_config *c, const struct option *o)
{
    return (const char **)(void *)((char *)c + o->at);
}

static void test_config_zero_means_the_default(void **state)
{
    const struct postbag_config from = least();
    struct postbag_config c;

    (void)state;
    assert_ok(postbag__config_copy(&c, &from, NULL));
    for (size_t i = 0; i < COUNT(options); i++) {
        if (options[i].kind == U32)
            assert_int_equal(*number_of(&c, &options[i]), options[i].number);
        else
            assert_string_equal(*text_of(&c, &options[i]), options[i].text);
    }
    assert_string_equal(c.db_path, "/x/gw.db");
    assert_ptr_equal(c.port, &port);
    assert_ptr_equal(c.transport, &transport);
    postbag__config_free(&c);
}

static void expect(const struct postbag_config *from, int err,
    const struct option *o, const char *what)
{
    struct postbag_config c;
    struct postbag_fault why = {0};

    if (postbag__config_copy(&c, from, &why) != err)
        fail_msg("option %s: %s", o->name, what);
    if (err != POSTBAG_OK) {
        assert_has(why.text, o->name);
        assert_int_equal(why.code, err);
    }
    postbag__config_free(&c);
}

static void check_number(const struct option *o)
{
    struct postbag_config from = least();

    *number_of(&from, o) = o->max;
    expect(&from, POSTBAG_OK, o, "the most was refused");
    *number_of(&from, o) = o->max + 1;
    expect(&from, POSTBAG_EINVAL, o, "more than the most was taken");
    if (o->min == 0)
        return;
    *number_of(&from, o) = o->min;
    expect(&from, POSTBAG_OK, o, "the least was refused");
    if (o->min == 1)
        return;
    *number_of(&from, o) = o->min - 1;
    expect(&from, POSTBAG_EINVAL, o, "less than the least was taken");
}

static void check_text(const struct option *o)
{
    struct postbag_config from = least();
    char *text = calloc(1, o->max + 2u);

    assert_non_null(text);
    *text_of(&from, o) = text;
    if (o->min > 0)
        expect(&from, POSTBAG_EINVAL, o, "an empty text was taken");
    memset(text, 'x', o->max);
    expect(&from, POSTBAG_OK, o, "the longest was refused");
    memset(text, 'x', o->max + 1u);
    expect(&from, POSTBAG_EINVAL, o, "longer than the longest was taken");
    free(text);
}

/* With one in flight Paho's sender may oversleep by a second: DESIGN.md. */
static void test_config_window_of_fewer_than_16_is_refused(void **state)
{
    struct postbag_config from = least();
    struct postbag_config c;

    (void)state;
    from.window = 15;
    assert_int_equal(postbag__config_copy(&c, &from, NULL), POSTBAG_EINVAL);
    postbag__config_free(&c);
}

static void test_config_each_range_is_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(options); i++) {
        if (options[i].kind == U32)
            check_number(&options[i]);
        else
            check_text(&options[i]);
    }
}

static void test_config_defaults_are_within_their_ranges(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(options); i++) {
        const struct option *o = &options[i];

        assert_in_range(
            o->kind == U32 ? o->number : strlen(o->text), o->min, o->max);
    }
}

static void test_config_texts_are_copies(void **state)
{
    struct postbag_config from = least();
    struct postbag_config c;
    char dest[] = "cloud", path[] = "/y.db";

    (void)state;
    from.dest = dest;
    from.db_path = path;
    assert_ok(postbag__config_copy(&c, &from, NULL));
    memset(dest, 'z', 5);
    memset(path, 'z', 5);
    assert_string_equal(c.dest, "cloud");
    assert_string_equal(c.db_path, "/y.db");
    postbag__config_free(&c);
}

static void test_config_without_its_parts_is_refused(void **state)
{
    struct postbag_config c;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct postbag_config from = least();

        if (i == 0)
            from.db_path = NULL;
        if (i == 1)
            from.port = NULL;
        if (i == 2)
            from.transport = NULL;
        assert_int_equal(postbag__config_copy(&c, &from, NULL), POSTBAG_EINVAL);
        postbag__config_free(&c);
    }
}

static void test_config_of_other_versions_is_told_apart(void **state)
{
    struct {
        struct postbag_config c;
        int added;
    } newer;
    struct postbag_config from = least();
    struct postbag_config c;

    (void)state;
    from.struct_size = 0;
    assert_int_equal(postbag__config_copy(&c, &from, NULL), POSTBAG_EVERSION);
    postbag__config_free(&c);
    from.struct_size = offsetof(struct postbag_config, window);
    from.window = 7; /* this caller does not have the field */
    assert_ok(postbag__config_copy(&c, &from, NULL));
    assert_int_equal(c.window, 64);
    postbag__config_free(&c);
    memset(&newer, 0, sizeof(newer));
    newer.c = least();
    newer.c.struct_size = sizeof(newer);
    assert_ok(postbag__config_copy(&c, &newer.c, NULL));
    postbag__config_free(&c);
    newer.added = 1;
    assert_int_equal(
        postbag__config_copy(&c, &newer.c, NULL), POSTBAG_EVERSION);
    postbag__config_free(&c);
}

static void test_config_reply_topics_must_be_filters(void **state)
{
    struct postbag_config from = least();
    struct postbag_config c;
    struct postbag_fault why;

    (void)state;
    from.reply_topics = "re/#,re/+/x";
    assert_ok(postbag__config_copy(&c, &from, NULL));
    postbag__config_free(&c);
    from.reply_topics = "re/#/x";
    assert_int_equal(postbag__config_copy(&c, &from, &why), POSTBAG_EINVAL);
    assert_has(why.text, "reply_topics");
    postbag__config_free(&c);
}

/* A path is a path, whatever its bytes. */
static void test_config_texts_that_leave_must_be_clean(void **state)
{
    static const char *const bad[] = {"a\x01", "a\x7f", "a\xff", "\xc2\x85"};
    static const char *const names[] = {"dest", "source", "reply_topics"};

    (void)state;
    for (size_t i = 0; i < COUNT(options); i++) {
        const struct option *o = &options[i];
        struct postbag_config from = least();

        for (size_t n = 0; n < COUNT(names) * COUNT(bad); n++) {
            if (strcmp(o->name, names[n / COUNT(bad)]) != 0)
                continue;
            *text_of(&from, o) = bad[n % COUNT(bad)];
            expect(&from, POSTBAG_EINVAL, o, "a bad character was taken");
        }
        if (strcmp(o->name, "run_dir") != 0)
            continue;
        *text_of(&from, o) = "/\xff";
        expect(&from, POSTBAG_OK, o, "a path was refused");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_zero_means_the_default),
        cmocka_unit_test(test_config_each_range_is_kept),
        cmocka_unit_test(test_config_window_of_fewer_than_16_is_refused),
        cmocka_unit_test(test_config_defaults_are_within_their_ranges),
        cmocka_unit_test(test_config_texts_are_copies),
        cmocka_unit_test(test_config_without_its_parts_is_refused),
        cmocka_unit_test(test_config_of_other_versions_is_told_apart),
        cmocka_unit_test(test_config_reply_topics_must_be_filters),
        cmocka_unit_test(test_config_texts_that_leave_must_be_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
