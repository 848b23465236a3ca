/* SPDX-License-Identifier: MIT */
/*
 * Each statement of a salvage fails in its turn.  Without memory there is no
 * new database; what cannot be read is never left out without a word.
 */
#include "failing_sql.h"
#include "proof.h"
#include "salvage_world.h"

/* The three cases share the calls out: each fails in one of them. */
enum { ROWS = 6, MOST_CALLS = 5000, CASES = 3 };

static void furnish(struct world *w)
{
    sql_run(w->t.app, "CREATE TABLE x(n INTEGER PRIMARY KEY, v TEXT)");
    sql_run(w->t.app,
        "CREATE TABLE y(a TEXT PRIMARY KEY, b) WITHOUT ROWID;"
        "INSERT INTO x VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'),"
        " (5, 'e'), (6, 'f'); INSERT INTO y SELECT v, n FROM x;"
        "CREATE INDEX x_v ON x(v); CREATE VIEW z AS SELECT * FROM x");
    sql_run(w->t.app, "INSERT INTO outbox(topic, payload, key)"
                      " VALUES ('t', 'p', 'k'), ('u', 'q', 'l')");
    settle_file(w);
}

static void forget(struct world *w)
{
    (void)sqlite3_close(w->out);
    w->out = NULL;
    (void)remove(w->saved);
    w->told[0] = '\0';
    memset(&w->s, 0, sizeof(w->s));
}

/* All is there, or it was said that it is not. */
static void check_saved(struct world *w)
{
    int64_t count = sql_get(w->out, "SELECT count(*) FROM sqlite_schema"
                                    " WHERE name IN ('x', 'y')");
    int is_all = count == 2;

    if (is_all)
        is_all =
            sql_get(w->out,
                "SELECT (SELECT count(*) FROM x) + (SELECT count(*)"
                " FROM y) + (SELECT count(*) FROM outbox)") == 2 * ROWS + 2;
    if (!is_all && w->told[0] == '\0' && w->s.damaged == 0 && w->s.holes == 0 &&
        w->s.left_out == 0)
        fail_msg("rows are missing, and nobody was told");
}

/* From the first on; returns how many of them failed the salvage. */
static unsigned fail_each(struct world *w, int error, unsigned first)
{
    unsigned step = getenv("POSTBAG_PROVE") != NULL ? 1 : CASES;
    unsigned ended = 0;
    unsigned before;

    fail_with = error;
    for (unsigned n = first; n < MOST_CALLS; n += step) {
        int err;

        before = failures;
        fail_at = n;
        err = salvage(w);
        fail_at = 0;
        if (failures == before)
            return ended;
        if (err == POSTBAG_OK)
            check_saved(w);
        else if (w->why.code != err)
            fail_msg("call %u: %d came back, told is %d", n, err, w->why.code);
        ended += err != POSTBAG_OK;
        forget(w);
    }
    fail_msg("a salvage of %d rows does not end", ROWS);
    return 0;
}

static void fail_and_then_salvage(
    struct world *w, int error, unsigned first, const char *row)
{
    unsigned before = failures;

    furnish(w);
    assert_true(fail_each(w, error, first) > 0);
    forget(w);
    assert_ok(salvage(w));
    assert_string_equal(w->told, "");
    assert_saved_is_sound(w);
    proof_say(row, failures - before, 0, 0);
}

static void test_no_statement_salvage_without_memory_ends(void **state)
{
    fail_and_then_salvage(*state, POSTBAG_ENOMEM, 1, "F16_salvage_memory");
}

static void test_no_statement_salvage_damage_is_told(void **state)
{
    fail_and_then_salvage(*state, POSTBAG_ECORRUPT, 2, "F16_salvage_damage");
}

static void test_no_statement_salvage_disk_is_told(void **state)
{
    fail_and_then_salvage(*state, POSTBAG_EIO, 3, "F16_salvage_disk");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_no_statement_salvage_without_memory_ends),
        TEST_IN(test_no_statement_salvage_damage_is_told),
        TEST_IN(test_no_statement_salvage_disk_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
