/* SPDX-License-Identifier: MIT */
/* The SQL of marks: what is read at the start, written, forgotten. */
#include "trial_store.h"

#include <stdlib.h>
#include <string.h>

#include "tempdb.h"
#include "unit.h"

struct shelf {
    struct tempdb t;
    struct db db;
    struct trial_store s;
    struct trial trial;
    struct lane lanes[TRIAL_HELD];
};

static const uint8_t boot[16] = {1};
static const struct due later = {.boot = boot, .ms = 77};

static int set_up(void **state)
{
    struct shelf *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    tempdb_make_outbox(&s->t);
    sql_run(s->t.app, "INSERT INTO outbox_held(dest, seq, state, error, id,"
                      " topic, payload, priority, retain, created_ms)"
                      " VALUES ('main', 4, 'retry', 'e', zeroblob(16), 't',"
                      " '', 0, 0, 0), ('main', 6, 'dead', 'e', zeroblob(16),"
                      " 't', '', 0, 0, 0), ('main', 5, 'retry', 'e',"
                      " zeroblob(16), 't', '', 0, 0, 0)");
    assert_ok(postbag__db_open(&s->db, s->t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__trial_store_open(&s->s, &s->db, "main"));
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct shelf *s = *state;

    postbag__trial_store_close(&s->s);
    postbag__db_close(&s->db);
    tempdb_remove(&s->t);
    free(s);
    return 0;
}

static void load(struct shelf *s)
{
    memset(&s->trial, 0, sizeof(s->trial));
    assert_ok(postbag__trial_store_load(&s->s, s->lanes, &s->trial));
}

static void save(struct shelf *s, int which, int64_t seq, int deaths)
{
    memset(&s->trial, 0, sizeof(s->trial));
    s->trial.marks[which] = (struct trial_mark){
        .seq = seq, .deaths = deaths, .is_flying = 1, .is_owed = 1};
    assert_ok(postbag__trial_store_save(&s->s, &s->trial, &later));
}

static const char *held(struct shelf *s, int64_t seq)
{
    return sql_text(s->t.app,
        "SELECT deaths, due_ms, hex(due_boot), error FROM outbox_held"
        " WHERE seq = %lld",
        (long long)seq);
}

static void test_trial_store_mark_of_a_lane_comes_back(void **state)
{
    struct shelf *s = *state;

    s->lanes[2].acked = 3;
    s->lanes[2].begun = 8;
    save(s, 2, 5, 2);
    load(s);
    assert_int_equal(s->trial.marks[2].upto, 8);
    assert_int_equal(s->trial.marks[2].seq, 5);
    assert_int_equal(s->trial.marks[2].deaths, 2);
    assert_int_equal(s->trial.marks[0].upto, 0);
    assert_int_equal(s->trial.marks[0].is_open, 0);
}

static void test_trial_store_mark_of_a_settled_row_counts_for_nothing(
    void **state)
{
    struct shelf *s = *state;

    s->lanes[2].acked = 5;
    s->lanes[2].begun = 8;
    save(s, 2, 5, 4);
    load(s);
    assert_int_equal(s->trial.marks[2].upto, 8);
    assert_int_equal(s->trial.marks[2].seq, 0);
    assert_int_equal(s->trial.marks[2].deaths, 0);
}

static void test_trial_store_held_rows_count_until_they_are_suspects(
    void **state)
{
    struct shelf *s = *state;

    load(s);
    assert_int_equal(s->trial.marks[TRIAL_HELD].upto, 6);
    assert_int_equal(s->trial.marks[TRIAL_HELD].deaths, 0);
    save(s, TRIAL_HELD, 5, 5);
    save(s, TRIAL_HELD, 4, 3);
    load(s);
    assert_int_equal(s->trial.marks[TRIAL_HELD].deaths, 3);
    assert_int_equal(postbag__trial_store_deaths(&s->s, 4), 3);
    assert_int_equal(postbag__trial_store_deaths(&s->s, 5), 5);
    assert_int_equal(postbag__trial_store_deaths(&s->s, 99), 0);
}

static void test_trial_store_suspect_is_put_off_and_says_why(void **state)
{
    struct shelf *s = *state;

    save(s, TRIAL_HELD, 4, 5);
    assert_string_equal(held(s, 4), "5|NULL||e");
    save(s, TRIAL_HELD, 4, 6);
    assert_string_equal(
        held(s, 4), "6|77|01000000000000000000000000000000|" TRIAL_TEXT);
}

static void test_trial_store_writes_what_is_owed_alone(void **state)
{
    struct shelf *s = *state;

    save(s, TRIAL_HELD, 4, 3);
    memset(&s->trial, 0, sizeof(s->trial));
    s->trial.marks[TRIAL_HELD] = (struct trial_mark){.seq = 4, .deaths = 9};
    assert_ok(postbag__trial_store_save(&s->s, &s->trial, &later));
    assert_string_equal(held(s, 4), "3|NULL||e");
}

static void test_trial_store_end_forgets_all_but_suspects(void **state)
{
    struct shelf *s = *state;

    sql_run(s->t.app, "UPDATE outbox_cursor SET acked = 7, sent_hi = 135"
                      " WHERE lane = 1");
    sql_run(s->t.app, "UPDATE outbox_cursor SET sent_hi = 128 WHERE lane = 0");
    s->lanes[0].begun = 6;
    save(s, 0, 5, 2);
    save(s, TRIAL_HELD, 4, 4);
    save(s, TRIAL_HELD, 5, 5);
    assert_ok(postbag__trial_store_end(&s->s, s->lanes));
    assert_string_equal(
        sql_text(s->t.app, "SELECT sent_hi, tried, deaths FROM outbox_cursor"
                           " WHERE dest = 'main' AND lane < 2 ORDER BY lane"),
        "6|0|0 7|0|0");
    assert_int_equal(postbag__trial_store_deaths(&s->s, 4), 0);
    assert_int_equal(postbag__trial_store_deaths(&s->s, 5), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_trial_store_mark_of_a_lane_comes_back),
        TEST_IN(test_trial_store_mark_of_a_settled_row_counts_for_nothing),
        TEST_IN(test_trial_store_held_rows_count_until_they_are_suspects),
        TEST_IN(test_trial_store_suspect_is_put_off_and_says_why),
        TEST_IN(test_trial_store_writes_what_is_owed_alone),
        TEST_IN(test_trial_store_end_forgets_all_but_suspects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
