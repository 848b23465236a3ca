/* SPDX-License-Identifier: MIT */
/* The SQL of the log: scans by seek, rows, cursors. */
#include "outbox_store.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "tempdb.h"
#include "unit.h"

struct shelf {
    struct tempdb t;
    struct db db;
    struct outbox_store o;
    struct arena arena;
    struct lane lanes[POSTBAG__LANES];
};

static int set_up(void **state)
{
    struct shelf *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    tempdb_make_outbox(&s->t);
    assert_ok(postbag__db_open(&s->db, s->t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__outbox_open(&s->o, &s->db, "main"));
    for (int i = 0; i < POSTBAG__LANES; i++)
        assert_ok(postbag__lane_init(&s->lanes[i], 8));
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct shelf *s = *state;

    for (int i = 0; i < POSTBAG__LANES; i++)
        postbag__lane_free(&s->lanes[i]);
    postbag__arena_free(&s->arena);
    postbag__outbox_close(&s->o);
    postbag__db_close(&s->db);
    tempdb_remove(&s->t);
    free(s);
    return 0;
}

/* seqs of a scan, joined */
static const char *scan(struct shelf *s, int lane, int64_t after, int limit)
{
    static char out[200];
    struct scanned row;
    size_t used = 0;
    int err;

    out[0] = '\0';
    postbag__outbox_scan(&s->o, lane, after, (uint32_t)limit);
    while ((err = postbag__outbox_scan_next(&s->o, lane, &row)) == 1)
        used += (size_t)snprintf(out + used, sizeof(out) - used, "%s%d%s",
            used == 0 ? "" : " ", (int)row.seq, row.is_ours ? "" : "-");
    assert_ok(err);
    return out;
}

static void put(struct shelf *s)
{
    sql_run(s->t.app,
        "INSERT INTO outbox_dest(name) VALUES ('cloud');"
        "INSERT INTO outbox(topic, payload, priority, dest, key) VALUES"
        " ('1', 'ab', 0, NULL, NULL), ('2', x'000102', 1, NULL, 'k'),"
        " ('3', '', 0, 'cloud', 'k'), ('4', '', 3, NULL, 'l'),"
        " ('5', '', 0, 'main', ''), ('6', '', 1, 'cloud', NULL)");
}

static void test_outbox_scan_sees_one_lane_in_order(void **state)
{
    struct shelf *s = *state;

    put(s);
    assert_string_equal(scan(s, 0, 0, 10), "1 3- 5");
    assert_string_equal(scan(s, 1, 0, 10), "2 6-");
    assert_string_equal(scan(s, 2, 0, 10), "");
    assert_string_equal(scan(s, 3, 0, 10), "4");
    assert_string_equal(scan(s, 0, 1, 10), "3- 5");
    assert_string_equal(scan(s, 0, 0, 2), "1 3-");
    assert_string_equal(scan(s, 0, 5, 10), "");
}

static void test_outbox_scan_tells_bytes_and_keys(void **state)
{
    struct shelf *s = *state;
    struct scanned a, b;

    put(s);
    postbag__outbox_scan(&s->o, 1, 0, 1);
    assert_int_equal(postbag__outbox_scan_next(&s->o, 1, &a), 1);
    postbag__outbox_scan_end(&s->o, 1);
    assert_int_equal(a.bytes, 4);
    assert_in_range(a.key, 1, 1023);
    postbag__outbox_scan(&s->o, 0, 0, 10);
    assert_int_equal(postbag__outbox_scan_next(&s->o, 0, &b), 1);
    assert_int_equal(b.key, 0); /* none */
    assert_int_equal(postbag__outbox_scan_next(&s->o, 0, &b), 1);
    assert_int_equal(b.key, a.key); /* of another lane, the same bucket */
    assert_int_equal(postbag__outbox_scan_next(&s->o, 0, &b), 1);
    assert_in_range(b.key, 1, 1023); /* the empty key is a key */
    postbag__outbox_scan_end(&s->o, 0);
}

/* What a scan costs must not grow with the backlog. */
static void test_outbox_scans_are_seeks(void **state)
{
    struct shelf *s = *state;
    struct {
        struct stmt *s;
        const char *part;
    } all[] = {
        {&s->o.scan_bulk, "USING INTEGER PRIMARY KEY (rowid>?)"},
        {&s->o.scan_urgent, "USING INDEX outbox_urgent (priority=? AND seq>?)"},
        {&s->o.fetch, "USING INTEGER PRIMARY KEY (rowid=?)"},
    };

    for (size_t i = 0; i < COUNT(all); i++) {
        const char *plan = sql_text(s->t.app, "EXPLAIN QUERY PLAN %s",
            sqlite3_sql((sqlite3_stmt *)(void *)all[i].s->handle));

        assert_has(plan, all[i].part);
        assert_null(strstr(plan, "TEMP B-TREE"));
    }
}

static void test_outbox_newest_is_the_number_of_rows_ever_put(void **state)
{
    struct shelf *s = *state;
    int64_t newest = -1;

    assert_ok(postbag__outbox_newest(&s->o, &newest));
    assert_int_equal(newest, 0);
    put(s);
    sql_run(s->t.app, "DELETE FROM outbox WHERE seq < 6");
    assert_ok(postbag__outbox_newest(&s->o, &newest));
    assert_int_equal(newest, 6);
}

static void test_outbox_fetch_brings_the_row_or_says_that_it_is_gone(
    void **state)
{
    struct shelf *s = *state;
    struct row row;

    put(s);
    assert_ok(postbag__outbox_fetch(&s->o, 2, &s->arena, &row));
    assert_int_equal(row.seq, 2);
    assert_string_equal(row.topic, "2");
    assert_int_equal(
        postbag__outbox_fetch(&s->o, 7, &s->arena, &row), POSTBAG_ENOTFOUND);
    assert_has(s->db.fault.text, "row 7");
}

static void test_outbox_load_starts_the_lanes_at_their_cursors(void **state)
{
    struct shelf *s = *state;

    sql_run(s->t.app,
        "UPDATE outbox_cursor SET acked = 10 + lane, sent_hi = 20 + lane");
    assert_ok(postbag__outbox_load(&s->o, s->lanes));
    for (int i = 0; i < POSTBAG__LANES; i++) {
        assert_int_equal(s->lanes[i].acked, 10 + i);
        assert_int_equal(s->lanes[i].sent_hi, 20 + i);
    }
}

static void test_outbox_load_without_all_cursors_is_corrupt(void **state)
{
    struct shelf *s = *state;

    sql_run(s->t.app, "DELETE FROM outbox_cursor WHERE lane = 2");
    assert_int_equal(postbag__outbox_load(&s->o, s->lanes), POSTBAG_ECORRUPT);
    assert_has(s->db.fault.text, "3 cursors");
}

static void test_outbox_save_adds_the_gains_and_moves_forward_only(void **state)
{
    struct shelf *s = *state;
    struct lane l = {.acked = 8,
        .gain = {.rows = 5, .bytes = 50, .delivered = 3, .passed = 1}};

    assert_ok(postbag__outbox_save(&s->o, 0, &l, 40));
    l.acked = 9;
    assert_ok(postbag__outbox_save(&s->o, 0, &l, 30));
    assert_string_equal(
        sql_text(s->t.app,
            "SELECT acked, sent_hi, settled_rows, settled_bytes, delivered,"
            " passed FROM outbox_cursor WHERE lane = 0"),
        "9|40|10|100|6|2");
    l.acked = 7; /* another relay was further */
    assert_int_equal(postbag__outbox_save(&s->o, 0, &l, 50), POSTBAG_EFENCED);
    assert_string_equal(
        sql_text(s->t.app,
            "SELECT acked, sent_hi FROM outbox_cursor WHERE lane = 0"),
        "9|40");
}

static void test_outbox_note_ack_twice_is_one_entry(void **state)
{
    struct shelf *s = *state;
    struct moment at = {
        .wall_ms = 100, .mono_ms = 7, .boot = "0123456789abcde"};

    assert_ok(postbag__outbox_note_ack(&s->o, 1, 5, &at));
    at.wall_ms = 200;
    assert_ok(postbag__outbox_note_ack(&s->o, 1, 5, &at));
    at.mono_ms = 8;
    assert_ok(postbag__outbox_note_ack(&s->o, 1, 6, &at));
    assert_string_equal(
        sql_text(s->t.app, "SELECT dest, lane, upto, at_ms, mono_ms,"
                           " boot = CAST('0123456789abcde' || char(0) AS BLOB)"
                           " FROM outbox_acks"),
        "main|1|5|100|7|1 main|1|6|200|8|1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_outbox_scan_sees_one_lane_in_order),
        TEST_IN(test_outbox_scan_tells_bytes_and_keys),
        TEST_IN(test_outbox_scans_are_seeks),
        TEST_IN(test_outbox_newest_is_the_number_of_rows_ever_put),
        TEST_IN(test_outbox_fetch_brings_the_row_or_says_that_it_is_gone),
        TEST_IN(test_outbox_load_starts_the_lanes_at_their_cursors),
        TEST_IN(test_outbox_load_without_all_cursors_is_corrupt),
        TEST_IN(test_outbox_save_adds_the_gains_and_moves_forward_only),
        TEST_IN(test_outbox_note_ack_twice_is_one_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
