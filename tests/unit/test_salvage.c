/* SPDX-License-Identifier: MIT */
/* What a salvage carries over of a whole database. */
#include "salvage.h"

#include "salvage_world.h"

static void test_salvage_takes_over_what_is_the_applications(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app,
        "CREATE TABLE state(k TEXT PRIMARY KEY, v);"
        "CREATE INDEX state_v ON state(v);"
        "CREATE VIEW states AS SELECT k FROM state;"
        "CREATE TRIGGER on_state AFTER UPDATE ON state BEGIN SELECT 1; END;"
        "INSERT INTO state VALUES ('lamp', 'on');"
        "PRAGMA user_version=7; PRAGMA application_id=11");
    settle_file(w);
    assert_ok(salvage(w));
    assert_string_equal(w->told, "");
    assert_string_equal(sql_text(w->out, "SELECT * FROM state"), "lamp|on");
    assert_string_equal(
        sql_text(w->out, "SELECT type, name FROM sqlite_schema WHERE tbl_name"
                         " LIKE 'state%%' AND sql NOT NULL ORDER BY type"),
        "index|state_v table|state trigger|on_state view|states");
    assert_int_equal(sql_get(w->out, "PRAGMA user_version"), 7);
    assert_int_equal(sql_get(w->out, "PRAGMA application_id"), 11);
}

/* The application's triggers would do once more what they did. */
static void test_salvage_runs_no_trigger(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "CREATE TABLE a(x); CREATE TABLE b(x);"
                      "CREATE TRIGGER t AFTER INSERT ON a BEGIN"
                      " INSERT INTO b VALUES (NEW.x); END;"
                      "INSERT INTO a VALUES (1)");
    settle_file(w);
    assert_ok(salvage(w));
    assert_int_equal(sql_get(w->out, "SELECT count(*) FROM b"), 1);
}

static void test_salvage_says_what_it_leaves_out(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app,
        "CREATE TABLE state(v); CREATE INDEX i ON state(v);"
        "PRAGMA writable_schema=ON; UPDATE sqlite_schema"
        " SET sql = 'CREATE INDEX i ON state(nowhere)' WHERE name = 'i'");
    settle_file(w);
    assert_ok(salvage(w));
    assert_has(w->told, "left out: index i: ");
    assert_int_equal(w->s.left_out, 1);
}

static void test_salvage_keeps_ids_seqs_and_keys(void **state)
{
    struct world *w = *state;
    static const char all[] = "SELECT group_concat(seq || hex(id) || key, ' ')"
                              " FROM (SELECT * FROM outbox ORDER BY seq)";
    char before[2000];

    put_messages(w, 20);
    (void)snprintf(before, sizeof(before), "%s", sql_text(w->t.app, all));
    settle_file(w);
    assert_ok(salvage(w));
    assert_string_equal(sql_text(w->out, all), before);
    assert_int_equal(w->s.messages, 20);
    assert_saved_is_sound(w);
}

static void test_salvage_goes_on_with_the_numbers(void **state)
{
    struct world *w = *state;

    put_messages(w, 20);
    settle_file(w);
    assert_ok(salvage(w));
    sql_run(w->out, "INSERT INTO outbox(topic, payload) VALUES ('t', 'x')");
    assert_int_equal(sql_get(w->out, "SELECT max(seq) FROM outbox"), 21);
}

static const char stream[] =
    "SELECT hex(value) FROM outbox_meta WHERE key = 'stream'";

static void test_salvage_of_all_is_the_same_stream(void **state)
{
    struct world *w = *state;
    char before[64];

    put_messages(w, 200);
    (void)snprintf(before, sizeof(before), "%s", sql_text(w->t.app, stream));
    settle_file(w);
    assert_ok(salvage(w));
    assert_string_equal(sql_text(w->out, stream), before);
}

/* Numbers are given anew where the end is lost. */
static void test_salvage_of_a_part_is_another_stream(void **state)
{
    struct world *w = *state;
    char before[64];
    uint32_t last;

    put_messages(w, 200);
    (void)snprintf(before, sizeof(before), "%s", sql_text(w->t.app, stream));
    last = leaf_of(w, "outbox", 200);
    settle_file(w);
    overwrite_page(w, last, 0);
    assert_ok(salvage(w));
    assert_string_not_equal(sql_text(w->out, stream), before);
    assert_saved_is_sound(w);
}

static void test_salvage_keeps_limits_and_profiles(void **state)
{
    struct world *w = *state;
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = w->t.path,
        .port = &w->sim.port,
        .writable = 1};
    struct postbag_admin *a;

    assert_ok(postbag_admin_init(&c, 1234, NULL));
    assert_ok(postbag_admin_open(&a, &c, NULL));
    assert_ok(postbag_admin_set_profile(a, NULL, "aws"));
    postbag_admin_close(a);
    settle_file(w);
    assert_ok(salvage(w));
    sql_fails(w->out, "max_payload",
        "INSERT INTO outbox(topic, payload) VALUES ('t', zeroblob(1235))");
    assert_string_equal(
        sql_text(w->out, "SELECT profile FROM outbox_dest"), "aws");
    assert_saved_is_sound(w);
}

/* Then the options are the defaults, and the stream is a new one. */
static void test_salvage_does_without_the_options(void **state)
{
    struct world *w = *state;
    char before[64];
    uint32_t page;

    put_messages(w, 20);
    (void)snprintf(before, sizeof(before), "%s", sql_text(w->t.app, stream));
    page = (uint32_t)sql_get(w->t.app,
        "SELECT rootpage FROM sqlite_schema WHERE name = 'outbox_meta'");
    settle_file(w);
    overwrite_page(w, page, 0);
    assert_ok(salvage(w));
    assert_int_equal(w->s.messages, 20);
    assert_string_not_equal(sql_text(w->out, stream), before);
    assert_saved_is_sound(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_salvage_takes_over_what_is_the_applications),
        TEST_IN(test_salvage_runs_no_trigger),
        TEST_IN(test_salvage_says_what_it_leaves_out),
        TEST_IN(test_salvage_keeps_ids_seqs_and_keys),
        TEST_IN(test_salvage_goes_on_with_the_numbers),
        TEST_IN(test_salvage_of_all_is_the_same_stream),
        TEST_IN(test_salvage_of_a_part_is_another_stream),
        TEST_IN(test_salvage_keeps_limits_and_profiles),
        TEST_IN(test_salvage_does_without_the_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
