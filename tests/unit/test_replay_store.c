/* SPDX-License-Identifier: MIT */
/* Which rows are sent once more, how they stand among the held ones, and how
 * the relay sends them. */
#include "replay_store.h"

#include "relay.h"
#include "sound.h"
#include "unit.h"

/* ---- which ---- */

struct table {
    struct tempdb t;
    struct db db;
    int64_t next;
};

/* Rows 1 to 9: 1 to 8 are settled; 2 is held, 3 is for another destination, 4
 * was dropped; 5 is urgent; 6 to 8 have a key. */
static int set_up(void **state)
{
    static struct table w;

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    assert_ok(postbag__db_borrow(&w.db, w.t.app));
    sql_run(w.t.app,
        "INSERT INTO outbox_dest(name) VALUES ('moon');"
        "INSERT INTO outbox(topic, payload, key, priority, dest, created_ms)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < 9)"
        " SELECT 't' || i, 'x', iif(i BETWEEN 6 AND 8, 'k', NULL),"
        "  iif(i = 5, 1, 0), iif(i = 3, 'moon', NULL), 1000 * i FROM n;"
        "DELETE FROM outbox_dest WHERE name = 'moon';"
        "INSERT INTO outbox_held(dest, seq, state, error, held_ms, dead_ms, id,"
        "  topic, payload, priority, retain, created_ms)"
        " SELECT 'main', seq, 'dead', 'why', 1, 2, id, topic, payload,"
        "  priority, retain, created_ms FROM outbox WHERE seq = 2;"
        "INSERT INTO outbox_lost VALUES ('main', 4, 4, 1, 3, 'ttl', 1, 1);"
        "UPDATE outbox_cursor SET acked = 8, sent_hi = 9, settled_rows = 7,"
        " settled_bytes = 21, delivered = 4, dropped = 1, passed = 1"
        " WHERE lane = 0;"
        "UPDATE outbox_cursor SET acked = 5, sent_hi = 5, settled_rows = 1,"
        " settled_bytes = 3, delivered = 1 WHERE lane = 1");
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct table *w = *state;

    tempdb_remove(&w->t);
    return 0;
}

/* How many were queued; the ledger is right afterwards. */
static int64_t replay(struct table *w, const struct postbag_replay *which)
{
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .finding = sound_finding};
    struct postbag_replay complete = *which;
    int64_t count = -1;

    complete.dest = "main";
    if (complete.max_rows == 0)
        complete.max_rows = 100;
    assert_ok(postbag__begin(&w->db, DB_FULL));
    assert_ok(postbag__replay(&w->db, &complete, 77, &count, &w->next));
    assert_ok(postbag__commit(&w->db));
    assert_ok(postbag__verify(&w->db, &v));
    return count;
}

static const char *replayed(struct table *w)
{
    return sql_text(w->t.app, "SELECT seq, state FROM outbox_held"
                              " WHERE replay = 1 ORDER BY seq");
}

/* The one entry for all coalesced rows names none that is stored. */
static void test_replay_amid_coalesced_rows_takes_the_others(void **state)
{
    struct table *w = *state;
    const struct postbag_replay all = {.from_seq = 1};

    sql_run(w->t.app,
        "DELETE FROM outbox WHERE seq = 8;"
        "INSERT INTO outbox_lost VALUES ('main', 1, 8, 1, 3, 'coalesced', 0, "
        "1);"
        "UPDATE outbox_cursor SET delivered = delivered - 1,"
        " dropped = dropped + 1, settled_bytes = settled_bytes - 3"
        " WHERE lane = 0");
    assert_int_equal(replay(w, &all), 4);
}

static void test_replay_takes_what_was_delivered(void **state)
{
    const struct postbag_replay all = {.from_seq = 0};
    struct table *w = *state;

    assert_int_equal(replay(w, &all), 5);
    assert_int_equal(w->next, 0);
    assert_string_equal(
        replayed(w), "1|retry 5|retry 6|retry 7|behind 8|behind");
    assert_string_equal(
        sql_text(w->t.app, "SELECT attempts, due_boot, error, held_ms, dead_ms,"
                           " topic, key, priority, created_ms, replay"
                           " FROM outbox_held WHERE seq = 7"),
        "0|NULL|NULL|77|NULL|t7|k|0|7000|1");
    assert_int_equal(
        sql_get(w->t.app, "SELECT count(*) FROM outbox_held h JOIN outbox o"
                          " ON o.seq = h.seq AND o.id = h.id"),
        6);
    assert_string_equal(
        sql_text(
            w->t.app, "SELECT lane, replayed FROM outbox_cursor ORDER BY lane"),
        "0|4 1|1 2|0 3|0");
    /* what is held is not queued twice */
    assert_int_equal(replay(w, &all), 0);
}

static void test_replay_bounds_include_their_ends(void **state)
{
    static const struct {
        struct postbag_replay which;
        const char *rows;
    } all[] = {
        {{.from_seq = 6, .to_seq = 7}, "6|retry 7|behind"},
        {{.from_seq = 8}, "8|retry"},
        {{.to_seq = 1}, "1|retry"},
        {{.from_ms = 5000, .to_ms = 6000}, "5|retry 6|retry"},
        {{.from_ms = 5001, .to_ms = 5999}, ""},
        {{.from_seq = 9}, ""},
    };
    struct table *w = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        (void)replay(w, &all[i].which);
        assert_string_equal(replayed(w), all[i].rows);
        sql_run(w->t.app, "DELETE FROM outbox_held WHERE replay = 1;"
                          "UPDATE outbox_cursor SET replayed = 0");
    }
}

static void test_replay_goes_on_where_it_stopped(void **state)
{
    struct postbag_replay which = {.max_rows = 2};
    struct table *w = *state;

    assert_int_equal(replay(w, &which), 2);
    assert_string_equal(replayed(w), "1|retry 5|retry");
    assert_int_equal(w->next, 6);
    which.from_seq = w->next;
    assert_int_equal(replay(w, &which), 2);
    assert_int_equal(w->next, 8);
    which.from_seq = w->next;
    assert_int_equal(replay(w, &which), 1);
    assert_int_equal(w->next, 0);
}

/* A later row of the key was being tried: it waits now. */
static void test_replay_comes_before_later_rows_of_its_key(void **state)
{
    const struct postbag_replay which = {.from_seq = 6, .to_seq = 6};
    struct table *w = *state;

    sql_run(w->t.app,
        "INSERT INTO outbox_held(dest, seq, state, held_ms, id, topic, payload,"
        "  key, priority, retain, created_ms)"
        " SELECT 'main', seq, 'retry', 1, id, topic, payload, key, priority,"
        "  retain, created_ms FROM outbox WHERE seq = 8;"
        "UPDATE outbox_cursor SET delivered = 3 WHERE lane = 0");
    assert_int_equal(replay(w, &which), 1);
    assert_string_equal(sql_text(w->t.app, "SELECT seq, state FROM outbox_held"
                                           " WHERE key = 'k' ORDER BY seq"),
        "6|retry 8|behind");
}

static void test_replay_starts_with_the_first_of_the_destination(void **state)
{
    const struct postbag_replay all = {.from_seq = 0};
    struct table *w = *state;

    sql_run(w->t.app, "DELETE FROM outbox_held;"
                      "UPDATE outbox_dest SET first_seq = 6;"
                      "UPDATE outbox_cursor SET acked = 5, sent_hi = 5"
                      " WHERE lane > 1;"
                      "UPDATE outbox_cursor SET delivered = 5 WHERE lane = 0");
    assert_int_equal(replay(w, &all), 3);
}

/* ---- how they leave ---- */

static void wait_for_all(struct relay *r)
{
    for (int i = 0; i < 100; i++)
        relay_run_ms(r, 100);
}

static int64_t replay_all(struct bench *b)
{
    const struct postbag_replay all = {.dest = "main", .max_rows = 100};
    struct db db;
    int64_t count;
    int64_t next;

    assert_ok(postbag__db_open(&db, b->w.t.path, DB_WRITE, DB_FULL, 1000));
    assert_ok(postbag__begin(&db, DB_FULL));
    assert_ok(postbag__replay(&db, &all, 1, &count, &next));
    assert_ok(postbag__commit(&db));
    postbag__db_close(&db);
    return count;
}

static void test_replay_leaves_with_its_id_and_the_mark(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.keep_s = 3600;
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    for (int i = 0; i < 3; i++)
        relay_put_key(r, i == 0 ? "a1" : i == 1 ? "a2" : "a3", "a");
    wait_for_all(r);
    assert_string_equal(fake_topics(r->out, 0), "a1 a2 a3");
    r->out->auto_settle = 0;
    assert_int_equal(replay_all(b), 3);
    relay_put_key(r, "a4", "a");
    wait_for_all(r);
    /* one of the key in flight, and the later one waits for all */
    assert_string_equal(fake_topics(r->out, 3), "a1");
    r->out->auto_settle = 1;
    fake_settle(r->out, 3, 0);
    wait_for_all(r);
    assert_string_equal(fake_topics(r->out, 3), "a1 a2 a3 a4");
    for (int i = 0; i < 3; i++) {
        assert_string_equal(r->out->sent[i].id, r->out->sent[i + 3].id);
        assert_int_equal(r->out->sent[i].seq, r->out->sent[i + 3].seq);
        /* the bytes differ: by the mark */
        assert_false(r->out->sent[i].print == r->out->sent[i + 3].print);
    }
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT settled_rows, delivered, replayed"
                             " FROM outbox_cursor WHERE lane = 0"),
        "4|7|3");
}

/* Whatever becomes of one, the books balance. */
static void test_replay_that_is_refused_is_dead_like_others(void **state)
{
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .finding = sound_finding};
    struct bench *b = *state;
    struct relay *r;
    struct db db;

    b->r.options.keep_s = 3600;
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    relay_put(r, "t", 2);
    wait_for_all(r);
    r->out->refuse_topic = "t1";
    r->out->refuse_reason = 0x90;
    assert_int_equal(replay_all(b), 2);
    wait_for_all(r);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT topic, state, replay FROM outbox_held"),
        "t1|dead|1");
    assert_ok(postbag__db_borrow(&db, b->w.t.app));
    assert_ok(postbag__verify(&db, &v));
}

static const char *states(struct bench *b)
{
    return sql_text(
        b->w.t.app, "SELECT seq, state FROM outbox_status ORDER BY seq");
}

/* Values of one coalesce that were delivered one by one. */
static struct relay *with_values(struct bench *b)
{
    struct relay *r;

    b->r.options.keep_s = 3600;
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    for (int i = 1; i <= 3; i++) {
        sql_run(b->w.t.app,
            "INSERT INTO outbox(topic, payload, coalesce)"
            " VALUES ('v%d', '', 'c')",
            i);
        wait_for_all(r);
    }
    assert_string_equal(fake_topics(r->out, 0), "v1 v2 v3");
    return r;
}

static void test_replay_of_values_replaces_none_of_them(void **state)
{
    struct bench *b = *state;
    struct relay *r = with_values(b);

    assert_int_equal(replay_all(b), 3);
    sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, coalesce)"
                        " VALUES ('v4', '', 'c')");
    wait_for_all(r);
    assert_int_equal(r->out->count, 7);
    for (int i = 1; i <= 4; i++) {
        char topic[] = {'v', (char)('0' + i), '\0'};

        assert_int_equal(fake_count(r->out, topic), i == 4 ? 1 : 2);
    }
    assert_string_equal(states(b), "1|published 2|published 3|published"
                                   " 4|published");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_lost"), 0);
}

static void test_replay_that_is_dropped_was_delivered_all_the_same(void **state)
{
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .finding = sound_finding};
    struct bench *b = *state;
    struct relay *r = with_values(b);
    struct db db;

    r->out->reason = 0x95;
    b->r.e.sender.options.dead_max_rows = 1;
    assert_int_equal(replay_all(b), 3);
    wait_for_all(r);
    assert_string_equal(states(b), "1|published 2|published 3|dead");
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT lo, hi, n, exact FROM outbox_lost"),
        "1|2|2|0");
    assert_ok(postbag__db_borrow(&db, b->w.t.app));
    assert_ok(postbag__verify(&db, &v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_replay_takes_what_was_delivered),
        TEST_IN(test_replay_amid_coalesced_rows_takes_the_others),
        TEST_IN(test_replay_bounds_include_their_ends),
        TEST_IN(test_replay_goes_on_where_it_stopped),
        TEST_IN(test_replay_comes_before_later_rows_of_its_key),
        TEST_IN(test_replay_starts_with_the_first_of_the_destination),
        BENCH(test_replay_leaves_with_its_id_and_the_mark),
        BENCH(test_replay_that_is_refused_is_dead_like_others),
        BENCH(test_replay_of_values_replaces_none_of_them),
        BENCH(test_replay_that_is_dropped_was_delivered_all_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
