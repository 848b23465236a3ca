/* SPDX-License-Identifier: MIT */
/* A result row of SQLite, copied out. */
#include "row.h"

#include "failing_mem.h"
#include "unit.h"

struct world {
    struct db db;
    struct stmt s;
    struct arena arena;
    struct row row;
};

static int set_up(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    mem_is_out = 0;
    /* no file is made for a database of this name */
    assert_int_equal(
        postbag__db_open(&w.db, "", DB_READ, DB_NORMAL, 0), POSTBAG_OK);
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    postbag__finalize(&w->s);
    postbag__db_close(&w->db);
    postbag__arena_free(&w->arena);
    return 0;
}

#define ID "x'000102030405060708090a0b0c0d0e0f'"
/* what stands behind the payload when nothing is set */
#define NOTHING "NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL"

/* One row; its first column is not row_read's. */
static int read(struct world *w, const char *values)
{
    char sql[600];

    postbag__finalize(&w->s);
    (void)snprintf(sql, sizeof(sql), "SELECT 'not mine', %s", values);
    assert_ok(postbag__prepare(&w->db, &w->s, sql));
    assert_int_equal(postbag__row(&w->s), 1);
    return postbag__row_read(&w->s, 1, &w->arena, &w->row);
}

static void test_row_all_columns_reach_their_fields(void **state)
{
    struct world *w = *state;
    const struct row *r = &w->row;
    uint8_t boot[16];

    memset(boot, 0x11, sizeof(boot));
    assert_ok(read(w, ID ", 'gw/t', x'00ff', 'key', 7, 'type', 'mime', '{}',"
                         " 3, 1, 5000, 1800000000000,"
                         " x'11111111111111111111111111111111', 60000"));
    for (size_t i = 0; i < sizeof(r->id.b); i++)
        assert_int_equal(r->id.b[i], i);
    assert_string_equal(r->topic, "gw/t");
    assert_int_equal(r->topic_len, 4);
    assert_int_equal(r->payload_len, 2);
    assert_memory_equal(r->payload, "\0\xff", 2);
    assert_string_equal(r->key, "key");
    assert_int_equal(r->key_version, 7);
    assert_string_equal(r->type, "type");
    assert_string_equal(r->content_type, "mime");
    assert_string_equal(r->headers, "{}");
    assert_int_equal(r->priority, 3);
    assert_int_equal(r->retain, 1);
    assert_int_equal(r->ttl_ms, 5000);
    assert_int_equal(r->created_ms, INT64_C(1800000000000));
    assert_memory_equal(r->boot, boot, sizeof(boot));
    assert_int_equal(r->mono_ms, 60000);
    assert_int_equal(postbag__row_bytes(r), 6);
}

static void test_row_null_columns_are_null_or_zero(void **state)
{
    static const uint8_t zeros[16];
    struct world *w = *state;

    assert_ok(read(w, ID ", 't', 'p', " NOTHING));
    assert_null(w->row.key);
    assert_null(w->row.type);
    assert_null(w->row.content_type);
    assert_null(w->row.headers);
    assert_int_equal(w->row.key_version, 0);
    assert_int_equal(w->row.ttl_ms, 0);
    assert_int_equal(w->row.mono_ms, 0);
    assert_memory_equal(w->row.boot, zeros, sizeof(zeros));
}

static void test_row_empty_payload_is_not_missing(void **state)
{
    static const char *const values[] = {
        ID ", 't', '', " NOTHING, ID ", 't', x'', " NOTHING};
    struct world *w = *state;

    for (size_t i = 0; i < COUNT(values); i++) {
        assert_ok(read(w, values[i]));
        assert_non_null(w->row.payload);
        assert_int_equal(w->row.payload_len, 0);
    }
}

static void test_row_text_is_told_from_blob(void **state)
{
    struct world *w = *state;

    assert_ok(read(w, ID ", 't', 'text', " NOTHING));
    assert_true(w->row.is_text);
    assert_ok(read(w, ID ", 't', x'74', " NOTHING));
    assert_false(w->row.is_text);
}

static void test_row_outlives_its_statement(void **state)
{
    struct world *w = *state;

    assert_ok(read(w, ID ", 'topic', 'payload', " NOTHING));
    postbag__finalize(&w->s);
    assert_string_equal(w->row.topic, "topic");
    assert_string_equal(w->row.payload, "payload");
}

static void test_row_id_that_is_none_is_corrupt(void **state)
{
    static const char *const values[] = {
        "NULL, 't', 'p', " NOTHING,
        "x'', 't', 'p', " NOTHING,
        "x'000102030405060708090a0b0c0d0e', 't', 'p', " NOTHING,
        "x'000102030405060708090a0b0c0d0e0f10', 't', 'p', " NOTHING,
    };
    struct world *w = *state;

    for (size_t i = 0; i < COUNT(values); i++)
        assert_int_equal(read(w, values[i]), POSTBAG_ECORRUPT);
}

/* Cells of another table, read as a row of this one. */
static void test_row_with_types_that_cannot_be_is_damaged(void **state)
{
    static const struct {
        const char *values, *column;
    } all[] = {
        {"'0123456789abcdef', 't', 'p', " NOTHING, "its id "},
        {ID ", x'74', 'p', " NOTHING, "its topic "},
        {ID ", NULL, 'p', " NOTHING, "its topic "},
        {ID ", 't', NULL, " NOTHING, "its payload "},
        {ID ", 't', 7, " NOTHING, "its payload "},
        {ID ", 't', 'p', 1, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL,"
            " NULL",
            "its key "},
        {ID ", 't', 'p', NULL, 'x', NULL, NULL, NULL, 0, 0, NULL, 0, NULL,"
            " NULL, NULL",
            "its key_version "},
        {ID ", 't', 'p', NULL, NULL, NULL, NULL, x'7b7d', 0, 0, NULL, 0, NULL,"
            " NULL, NULL",
            "its headers "},
        {ID ", 't', 'p', NULL, NULL, NULL, NULL, NULL, 4, 0, NULL, 0, NULL,"
            " NULL, NULL",
            "its priority "},
        {ID ", 't', 'p', NULL, NULL, NULL, NULL, NULL, 0, 'no', NULL, 0, NULL,"
            " NULL, NULL",
            "its retain "},
        {ID ", 't', 'p', NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, 1.5, NULL,"
            " NULL, NULL",
            "its created_ms "},
    };
    struct world *w = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        assert_int_equal(read(w, all[i].values), POSTBAG_ECORRUPT);
        assert_true(w->row.is_damaged);
        assert_has(w->db.fault.text, all[i].column);
    }
    assert_ok(read(w, ID ", 't', 'p', " NOTHING));
    assert_false(w->row.is_damaged);
}

static void test_row_boot_of_a_wrong_size_is_unknown(void **state)
{
    static const uint8_t zeros[16];
    struct world *w = *state;

    assert_ok(read(w, ID ", 't', 'p', NULL, NULL, NULL, NULL, NULL, 0, 0,"
                         " NULL, 0, x'1111', 5"));
    assert_memory_equal(w->row.boot, zeros, sizeof(zeros));
}

static void test_row_without_memory_is_no_memory(void **state)
{
    struct world *w = *state;

    mem_is_out = 1;
    assert_int_equal(read(w, ID ", 't', 'p', " NOTHING), POSTBAG_ENOMEM);
    mem_is_out = 0;
    assert_ok(read(w, ID ", 't', 'p', " NOTHING));
}

/* ---- what is left of a TTL ---- */

#define PUT_MS INT64_C(1800000000000)

static void test_row_ttl_counts_by_the_boots_clock(void **state)
{
    const struct row row = {
        .ttl_ms = 10000, .created_ms = PUT_MS, .boot = {1}, .mono_ms = 60000};
    /* the wall clock jumped by a year, which is nobody's business */
    struct moment now = {.wall_ms = PUT_MS + INT64_C(31536000000), .boot = {1}};

    (void)state;
    now.mono_ms = 60000;
    assert_int_equal(postbag__row_ttl_left_ms(&row, &now), 10000);
    now.mono_ms = 69999;
    assert_int_equal(postbag__row_ttl_left_ms(&row, &now), 1);
    now.mono_ms = 70000;
    assert_int_equal(postbag__row_ttl_left_ms(&row, &now), 0);
    now.mono_ms = INT64_MAX;
    assert_int_equal(postbag__row_ttl_left_ms(&row, &now), 0);
}

static void test_row_ttl_counts_by_the_wall_where_boots_differ(void **state)
{
    const struct row rows[] = {
        {.ttl_ms = 10000, .created_ms = PUT_MS, .boot = {2}, .mono_ms = 60000},
        {.ttl_ms = 10000, .created_ms = PUT_MS},
    };
    struct moment now = {.mono_ms = 61000, .boot = {1}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        now.wall_ms = PUT_MS + 4000;
        assert_int_equal(postbag__row_ttl_left_ms(&rows[i], &now), 6000);
        now.wall_ms = PUT_MS + 10000;
        assert_int_equal(postbag__row_ttl_left_ms(&rows[i], &now), 0);
    }
}

static void test_row_ttl_is_whole_where_no_clock_knows_the_age(void **state)
{
    const struct {
        int64_t created_ms, wall_ms;
    } all[] = {
        {PUT_MS, PUT_MS - 1}, /* went back */
        {PUT_MS, 60000},      /* not set now */
        {60000, PUT_MS},      /* not set then */
        {INT64_MIN, PUT_MS},  /* nonsense */
        {POSTBAG__CLOCK_IS_SET_MS - 1, PUT_MS},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        const struct row row = {
            .ttl_ms = 10000, .created_ms = all[i].created_ms};
        const struct moment now = {
            .wall_ms = all[i].wall_ms, .mono_ms = 70000, .boot = {1}};

        assert_int_equal(postbag__row_ttl_left_ms(&row, &now), 10000);
    }
}

/* Plain SQL may name a boot and no time. */
static void test_row_ttl_half_a_stamp_is_none(void **state)
{
    const struct row row = {.ttl_ms = 10000, .created_ms = PUT_MS, .boot = {1}};
    const struct moment now = {
        .wall_ms = PUT_MS + 1000, .mono_ms = 70000, .boot = {1}};

    (void)state;
    assert_int_equal(postbag__row_ttl_left_ms(&row, &now), 9000);
}

static void test_row_is_over_by_what_is_sure(void **state)
{
    static const struct {
        int64_t created_ms, mono_ms, seen_ms, over_in_ms;
        uint8_t boot;
    } all[] = {
        {PUT_MS, 60000, 0, 7000, 1},    /* this boot */
        {5, 60000, 9999, 7000, 1},      /* likewise */
        {PUT_MS, 60000, 9999, 6000, 2}, /* another, and the clock was set */
        {5, 60000, 2000, 8000, 2},      /* ... was not */
        {5, 60000, 10000, 0, 2},
        {PUT_MS, 0, 0, 10000, 0}, /* plain SQL */
        {PUT_MS, 0, 9999, 1, 0},
        {PUT_MS, 0, 10000, 0, 1},
    };
    const struct moment now = {
        .wall_ms = PUT_MS + 4000, .mono_ms = 63000, .boot = {1}};

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const struct row row = {.ttl_ms = 10000,
            .created_ms = all[i].created_ms,
            .mono_ms = all[i].mono_ms,
            .boot = {all[i].boot}};

        assert_int_equal(postbag__row_over_in_ms(&row, &now, all[i].seen_ms),
            all[i].over_in_ms);
    }
}

static void test_row_without_a_ttl_never_ends(void **state)
{
    const struct row row = {.created_ms = PUT_MS};
    const struct moment now = {.wall_ms = PUT_MS + 1000};

    (void)state;
    assert_int_equal(postbag__row_ttl_left_ms(&row, &now), INT64_MAX);
    assert_int_equal(postbag__row_over_in_ms(&row, &now, 9), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_row_all_columns_reach_their_fields),
        TEST_IN(test_row_null_columns_are_null_or_zero),
        TEST_IN(test_row_empty_payload_is_not_missing),
        TEST_IN(test_row_text_is_told_from_blob),
        TEST_IN(test_row_outlives_its_statement),
        TEST_IN(test_row_id_that_is_none_is_corrupt),
        TEST_IN(test_row_with_types_that_cannot_be_is_damaged),
        TEST_IN(test_row_boot_of_a_wrong_size_is_unknown),
        TEST_IN(test_row_without_memory_is_no_memory),
        cmocka_unit_test(test_row_ttl_counts_by_the_boots_clock),
        cmocka_unit_test(test_row_ttl_counts_by_the_wall_where_boots_differ),
        cmocka_unit_test(test_row_ttl_is_whole_where_no_clock_knows_the_age),
        cmocka_unit_test(test_row_ttl_half_a_stamp_is_none),
        cmocka_unit_test(test_row_is_over_by_what_is_sure),
        cmocka_unit_test(test_row_without_a_ttl_never_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
