/* SPDX-License-Identifier: MIT */
/* Which rows of a damaged table are found. */
#include "salvage_table.h"

#include "salvage_world.h"

static void put_rows(struct world *w, int n)
{
    sql_run(w->t.app, "CREATE TABLE x(n INTEGER PRIMARY KEY, v TEXT)");
    sql_run(w->t.app,
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c"
        " WHERE i < %d) INSERT INTO x SELECT i, printf('%%100d', i) FROM c",
        n);
}

/* "lo to hi" of the rows that one page has. */
static const char *rows_of(struct world *w, uint32_t page)
{
    static char text[64];
    int64_t last = sql_get(w->t.app,
        "SELECT upto FROM (SELECT pageno, sum(ncell) OVER (ORDER BY path)"
        " AS upto FROM dbstat WHERE name = 'x' AND pagetype = 'leaf')"
        " WHERE pageno = %u",
        page);
    int64_t count =
        sql_get(w->t.app, "SELECT ncell FROM dbstat WHERE pageno = %u", page);

    (void)snprintf(text, sizeof(text), "lost of x: %lld to %lld\n",
        (long long)(last - count + 1), (long long)last);
    return text;
}

static void test_salvage_table_that_is_whole_is_copied(void **state)
{
    struct world *w = *state;

    put_rows(w, 500);
    sql_run(w->t.app, "CREATE TABLE y(a TEXT, b, PRIMARY KEY(a, b))"
                      " WITHOUT ROWID");
    sql_run(w->t.app, "INSERT INTO y SELECT v, n FROM x");
    settle_file(w);
    assert_ok(salvage(w));
    assert_string_equal(w->told, "");
    assert_int_equal(
        sql_get(w->out, "SELECT count(*) FROM x WHERE CAST(v AS INT) = n"),
        500);
    assert_int_equal(sql_get(w->out, "SELECT sum(b) FROM y"), 125250);
}

static void test_salvage_table_loses_the_rows_of_a_bad_page_only(void **state)
{
    struct world *w = *state;
    char lost[64];
    uint32_t page;

    put_rows(w, 500);
    page = leaf_of(w, "x", 250);
    (void)snprintf(lost, sizeof(lost), "%s", rows_of(w, page));
    settle_file(w);
    overwrite_page(w, page, 0);
    assert_ok(salvage(w));
    assert_string_equal(w->told, lost);
    assert_true(sql_get(w->out, "SELECT count(*) FROM x") > 450);
}

static void test_salvage_table_names_a_row_that_cannot_be(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "CREATE TABLE y(n INTEGER PRIMARY KEY, v CHECK (v > 0));"
                      "PRAGMA ignore_check_constraints=ON;"
                      "INSERT INTO y VALUES (1, 1), (2, -2), (3, 3)");
    settle_file(w);
    assert_ok(salvage(w));
    assert_string_equal(w->told, "lost of y: 2 to 2\n");
    assert_int_equal(w->s.damaged, 1);
    assert_int_equal(w->s.holes, 0);
}

/* The leaf before (-1) or behind (1) the one of row 250. */
static uint32_t neighbour(struct world *w, int step)
{
    uint32_t page = leaf_of(w, "x", 250);
    uint32_t other = page;

    for (int64_t n = 250; other == page; n += step)
        other = leaf_of(w, "x", n);
    return other;
}

static void test_salvage_table_finds_the_page_between_two_bad_ones(void **state)
{
    struct world *w = *state;
    uint32_t before;
    uint32_t behind;

    put_rows(w, 500);
    before = neighbour(w, -1);
    behind = neighbour(w, 1);
    settle_file(w);
    overwrite_page(w, before, 0);
    overwrite_page(w, behind, 0);
    assert_ok(salvage(w));
    assert_int_equal(w->s.holes, 2);
    assert_int_equal(
        sql_get(w->out, "SELECT count(*) FROM x WHERE n = 250"), 1);
}

static void test_salvage_table_finds_all_but_the_last_page(void **state)
{
    struct world *w = *state;
    uint32_t last;

    put_rows(w, 500);
    last = leaf_of(w, "x", 500);
    settle_file(w);
    overwrite_page(w, last, 0);
    assert_ok(salvage(w));
    assert_int_equal(w->s.holes, 1);
    assert_true(sql_get(w->out, "SELECT max(n) FROM x") >= 450);
    assert_int_equal(sql_get(w->out, "SELECT max(n) - count(*) FROM x"), 0);
}

static void test_salvage_table_finds_all_but_the_first_page(void **state)
{
    struct world *w = *state;
    uint32_t first;

    put_rows(w, 500);
    first = leaf_of(w, "x", 1);
    settle_file(w);
    overwrite_page(w, first, 0);
    assert_ok(salvage(w));
    assert_int_equal(w->s.holes, 1);
    assert_int_equal(
        sql_get(w->out, "SELECT 501 - min(n) - count(*) FROM x"), 0);
}

/* Rows that stand twice: a page was written to the place of another. */
static void test_salvage_table_page_in_a_wrong_place_hides_no_other(
    void **state)
{
    struct world *w = *state;
    uint32_t early;
    uint32_t late;

    put_rows(w, 500);
    early = leaf_of(w, "x", 100);
    late = leaf_of(w, "x", 300);
    settle_file(w);
    overwrite_page(w, early, late);
    assert_ok(salvage(w));
    assert_true(sql_get(w->out, "SELECT count(*) FROM x") > 450);
    assert_int_equal(
        sql_get(w->out, "SELECT count(*) FROM x WHERE CAST(v AS INT) <> n"), 0);
    assert_int_equal(
        sql_get(w->out, "SELECT count(*) FROM x WHERE n BETWEEN 200 AND 400"),
        201);
}

/* Of the row whose value is "one": size, key, header of 3 bytes, value. */
static void change_key_of_one(struct world *w, uint32_t page, char key)
{
    FILE *f = fopen(w->t.path, "r+b");
    char bytes[4096];
    char *value;

    assert_non_null(f);
    assert_int_equal(fseek(f, (long)(page - 1) * 4096, SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, 4096, f), 4096);
    value = memmem(bytes, sizeof(bytes), "one", 3);
    assert_non_null(value);
    assert_int_equal(value[-4], 1);
    value[-4] = key;
    assert_int_equal(fseek(f, (long)(page - 1) * 4096, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, 4096, f), 4096);
    assert_int_equal(fclose(f), 0);
}

static void test_salvage_table_damaged_key_takes_no_others_place(void **state)
{
    struct world *w = *state;
    uint32_t page;

    sql_run(w->t.app, "CREATE TABLE x(n INTEGER PRIMARY KEY, v TEXT);"
                      "INSERT INTO x VALUES (1, 'one'), (2, 'two'),"
                      " (3, 'three'), (4, 'four'), (5, 'five')");
    page = leaf_of(w, "x", 1);
    settle_file(w);
    change_key_of_one(w, page, 4);
    assert_ok(salvage(w));
    assert_string_equal(
        sql_text(w->out, "SELECT * FROM x"), "2|two 3|three 4|four 5|five");
}

static void test_salvage_table_row_that_cannot_be_is_left_out(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "CREATE TABLE x(n INTEGER PRIMARY KEY, v INT) STRICT;"
                      "INSERT INTO x VALUES (1, 1), (2, 2)");
    sql_run(w->t.app,
        "CREATE TABLE y(n INTEGER PRIMARY KEY, v);"
        "INSERT INTO y VALUES (1, 'a'), (2, 2);"
        "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage ="
        " (SELECT rootpage FROM sqlite_schema WHERE name = 'y')"
        " WHERE name = 'x'");
    settle_file(w);
    assert_ok(salvage(w));
    assert_int_equal(w->s.damaged, 1);
    assert_string_equal(sql_text(w->out, "SELECT * FROM x"), "2|2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_salvage_table_that_is_whole_is_copied),
        TEST_IN(test_salvage_table_loses_the_rows_of_a_bad_page_only),
        TEST_IN(test_salvage_table_names_a_row_that_cannot_be),
        TEST_IN(test_salvage_table_finds_the_page_between_two_bad_ones),
        TEST_IN(test_salvage_table_finds_all_but_the_last_page),
        TEST_IN(test_salvage_table_finds_all_but_the_first_page),
        TEST_IN(test_salvage_table_page_in_a_wrong_place_hides_no_other),
        TEST_IN(test_salvage_table_damaged_key_takes_no_others_place),
        TEST_IN(test_salvage_table_row_that_cannot_be_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
