/* SPDX-License-Identifier: MIT */
/* What of the limits an option gives, what stays, and what is told of it. */
#include "limit_store.h"
#include "relay.h"
#include "unit.h"

static const char put[] =
    "INSERT INTO outbox(topic, payload, priority) VALUES ('t', '12345', 1)";

/* Open and close with the options as they are. */
static void open_once(struct bench *b)
{
    if (b->r.out == NULL) {
        const struct postbag_config o = b->r.options;

        relay_init(&b->r, &b->w);
        b->r.options.max_rows = o.max_rows;
        b->r.options.max_bytes = o.max_bytes;
        b->r.options.min_free_bytes = o.min_free_bytes;
        b->r.options.overflow = o.overflow;
        b->r.options.inbox_max_rows = o.inbox_max_rows;
        b->r.options.inbox_max_bytes = o.inbox_max_bytes;
    }
    b->r.log[0] = '\0';
    relay_open(&b->r);
    relay_close(&b->r);
}

static const char *stored(struct bench *b)
{
    return sql_text(b->w.t.app,
        "SELECT group_concat(value, ' ') FROM (SELECT value FROM outbox_meta"
        " WHERE key IN ('max_rows', 'max_bytes', 'overflow', 'min_free_bytes')"
        " ORDER BY key)");
}

static void test_engine_limits_of_the_options_hold(void **state)
{
    struct bench *b = *state;

    b->r.options.max_rows = 2;
    b->r.options.max_bytes = 7;
    open_once(b);
    sql_run(b->w.t.app, put);
    sql_run(b->w.t.app, put);
    sql_fails(b->w.t.app, "max_rows (2)", put);
    b->r.options.max_rows = POSTBAG__NO_LIMIT;
    open_once(b);
    sql_fails(b->w.t.app, "max_bytes (7)", put);
    b->r.options.max_bytes = POSTBAG__NO_LIMIT;
    open_once(b);
    sql_run(b->w.t.app, put);
    assert_string_equal(stored(b), "0 0 262144 reject");
}

/* As another relay opens, or the same one with a shorter file of options. */
static void test_engine_limits_not_given_stay(void **state)
{
    struct bench *b = *state;

    open_once(b);
    assert_string_equal(stored(b), "0 0 262144 reject");
    b->r.options.max_rows = 2;
    b->r.options.max_bytes = 1000;
    b->r.options.min_free_bytes = 5;
    b->r.options.overflow = "drop_oldest";
    open_once(b);
    assert_string_equal(stored(b), "1000 2 5 drop_oldest");
    b->r.options.max_rows = 0;
    b->r.options.max_bytes = 0;
    b->r.options.min_free_bytes = 0;
    b->r.options.overflow = NULL;
    open_once(b);
    assert_string_equal(stored(b), "1000 2 5 drop_oldest");
    b->r.options.max_bytes = 900;
    open_once(b);
    assert_string_equal(stored(b), "900 2 5 drop_oldest");
    b->r.options.overflow = "reject";
    open_once(b);
    sql_run(b->w.t.app, put);
    sql_run(b->w.t.app, put);
    sql_fails(b->w.t.app, "max_rows (2)", put);
}

static void test_engine_limits_tell_what_changes(void **state)
{
    struct bench *b = *state;

    b->r.options.max_rows = 2;
    b->r.options.overflow = "drop_oldest";
    b->r.options.min_free_bytes = 5;
    open_once(b);
    assert_has(b->r.log, "max_rows of the database was no limit, and is 2");
    assert_has(b->r.log, "overflow of the database was reject, and is drop");
    assert_has(b->r.log, "min_free_bytes of the database was 262144, and is 5");
    open_once(b);
    assert_null(strstr(b->r.log, "of the database"));
    b->r.options.max_rows = POSTBAG__NO_LIMIT;
    b->r.options.max_bytes = 70;
    open_once(b);
    assert_has(b->r.log, "max_rows of the database was 2, and is no limit");
    assert_has(b->r.log, "max_bytes of the database was no limit, and is 70");
    assert_null(strstr(b->r.log, "overflow"));
}

static void test_engine_limits_of_the_inbox_stay_till_others_are_given(
    void **state)
{
    static const char sql[] =
        "SELECT max_rows || ' ' || max_bytes FROM inbox_sum";
    struct bench *b = *state;

    open_once(b);
    assert_string_equal(sql_text(b->w.t.app, sql), "100000 67108864");
    b->r.options.inbox_max_rows = 7;
    b->r.options.inbox_max_bytes = POSTBAG__NO_LIMIT;
    open_once(b);
    assert_string_equal(sql_text(b->w.t.app, sql), "7 0");
    assert_has(b->r.log, "inbox_max_rows of the database was 100000, and is 7");
    assert_has(b->r.log, "inbox_max_bytes of the database was 67108864, and is"
                         " no limit");
    b->r.options.inbox_max_rows = 0;
    b->r.options.inbox_max_bytes = 0;
    open_once(b);
    assert_string_equal(sql_text(b->w.t.app, sql), "7 0");
    assert_null(strstr(b->r.log, "of the database"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_engine_limits_of_the_options_hold),
        BENCH(test_engine_limits_not_given_stay),
        BENCH(test_engine_limits_tell_what_changes),
        BENCH(test_engine_limits_of_the_inbox_stay_till_others_are_given),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
