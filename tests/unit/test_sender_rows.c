/* SPDX-License-Identifier: MIT */
/* Rows that can never be sent, or not now, or need not; and what must be on
 * disk before a row is. */
#include "sender.h"

#include "relay.h"
#include "unit.h"

static void put_sql(struct bench *b, const char *columns, const char *values)
{
    sql_run(b->w.t.app, "INSERT INTO outbox(%s) VALUES %s", columns, values);
}

/* ---- rows that cannot be sent, or need not ---- */

/* columns of: topic, key, type, content_type, headers */
static const char *const malformed[] = {
    "CAST(x'61ff' AS TEXT), NULL, NULL, NULL, NULL",
    "'t', CAST(x'c080' AS TEXT), NULL, NULL, NULL",
    "'t', NULL, CAST(x'ff' AS TEXT), NULL, NULL",
    "'t', NULL, NULL, CAST(x'eda080' AS TEXT), NULL",
    "'t', NULL, NULL, NULL, '{\"h\":\"' || CAST(x'ff' AS TEXT) || '\"}'",
    "'t', NULL, NULL, NULL, '{\"' || CAST(x'ff' AS TEXT) || '\":\"1\"}'",
    ("'t', NULL, NULL, NULL,"
     " '{\"response_topic\":\"' || CAST(x'ff' AS TEXT) || '\"}'"),
    "'t', NULL, NULL, NULL, '{\"h\":\"\\ud800\"}'",
    "'t', NULL, NULL, NULL, '{\"h\":'",
};

static void check_malformed(struct bench *b, unsigned mqtt_version)
{
    /* the guard refuses what is not JSON; a file may have been repaired */
    sql_run(b->w.t.app, "DROP TRIGGER outbox_check");
    for (size_t i = 0; i < COUNT(malformed); i++)
        sql_run(b->w.t.app,
            "INSERT INTO outbox(topic, key, type, content_type, headers,"
            " payload) VALUES (%s, '')",
            malformed[i]);
    put_sql(b, "topic, payload", "('fine', '')");
    b->r.out->link.mqtt_version = mqtt_version;
    b->r.out->auto_settle = 1;
    relay_run_ms(bench_up(b), 2000);
    assert_string_equal(fake_topics(b->r.out, 0), "fine");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                            " WHERE state = 'dead' AND attempts = 1"
                            " AND error LIKE 'malformed: %%'"),
        COUNT(malformed));
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0"),
        COUNT(malformed) + 1);
}

static void test_fill_malformed_rows_die_and_the_rest_leaves(void **state)
{
    check_malformed(*state, 5);
}

static void test_fill_malformed_rows_die_on_mqtt_311_too(void **state)
{
    check_malformed(*state, 4);
}

/* The hold that ends a pass names no later deadline for the rows behind. */
static void test_fill_rows_behind_a_dead_one_leave_at_once(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put_sql(b, "topic, payload",
        "(CAST(x'ff' AS TEXT), ''), (CAST(x'fe' AS TEXT), ''), ('fine', '')");
    relay_step(r);
    relay_idle_ms(r, 1);
    assert_string_equal(fake_topics(r->out, 0), "fine");
}

static void test_fill_row_over_the_brokers_packet_size_is_dead(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.max_packet = 2000;
    r = bench_up(b);
    put_sql(b, "topic, payload", "('large', zeroblob(2000)), ('small', '')");
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 0), "small");
    assert_has(sql_text(b->w.t.app, "SELECT state, error FROM outbox_held"),
        "dead|larger than the broker's Maximum Packet Size of 2000 bytes");
}

static void test_fill_row_that_the_transport_cannot_carry_is_dead(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 2);
    r->out->send_err = POSTBAG_EINVAL;
    r->out->send_accepts = 1;
    relay_step(r);
    r->out->send_err = 0;
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 0), "t1");
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT seq, state FROM outbox_held"), "2|dead");
}

static void test_fill_transport_without_room_gets_it_later(void **state)
{
    static const int later[] = {POSTBAG_EAGAIN, POSTBAG_ELINK};
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    for (size_t i = 0; i < COUNT(later); i++) {
        size_t before = r->out->count;

        relay_put(r, "t", 5);
        r->out->send_err = later[i];
        r->out->send_accepts = 2;
        relay_run_ms(r, 100);
        assert_int_equal(r->out->count, before + 2);
        r->out->send_err = 0;
        relay_run_ms(r, 100);
        assert_int_equal(r->out->count, before + 5);
        (void)fake_settle_all(r->out, 0);
    }
    relay_run_ms(r, 2000);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 0);
}

static void test_fill_transport_without_memory_gets_it_later(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 3);
    r->out->send_err = POSTBAG_ENOMEM;
    relay_run_ms(r, 1000);
    assert_int_equal(r->out->count, 0);
    r->out->send_err = 0;
    relay_run_ms(r, 1000);
    assert_string_equal(fake_topics(r->out, 0), "t1 t2 t3");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 0);
}

static void test_fill_rows_for_another_destination_are_passed(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    sql_run(b->w.t.app, "INSERT INTO outbox_dest(name) VALUES ('cloud')");
    put_sql(b, "topic, payload, dest",
        "('1', '', 'cloud'), ('2', '', 'main'), ('3', '', NULL),"
        " ('4', '', 'cloud')");
    r->out->auto_settle = 1;
    relay_run_ms(r, 2000);
    assert_string_equal(fake_topics(r->out, 0), "2 3");
    assert_true(sql_get(b->w.t.app, "SELECT sent_hi FROM outbox_cursor"
                                    " WHERE dest = 'main' AND lane = 0") >= 4);
    assert_string_equal(
        sql_text(b->w.t.app,
            "SELECT acked, settled_rows, delivered, passed FROM outbox_cursor"
            " WHERE dest = 'main' AND lane = 0"),
        "4|4|2|2");
}

/* Whoever deletes an unsent row counts it. */
static void test_fill_row_that_was_deleted_is_passed_uncounted(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 2;
    r = bench_up(b);
    relay_put(r, "t", 4);
    relay_step(r);
    assert_int_equal(r->out->count, 1);
    sql_run(b->w.t.app, "DELETE FROM outbox WHERE seq IN (2, 3)");
    r->out->auto_settle = 1;
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 2000);
    assert_string_equal(fake_topics(r->out, 0), "t1 t4");
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT acked, settled_rows, delivered, passed"
                             " FROM outbox_cursor WHERE lane = 0"),
        "4|2|2|0");
    assert_int_equal(r->errors, 0);
}

/* ---- what is on disk before it is sent ---- */

static void test_fill_marks_what_it_synced_as_durable(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 3);
    assert_int_equal(postbag__is_durable(&r->e.shared, 3), 0);
    relay_step(r);
    assert_int_equal(postbag__is_durable(&r->e.shared, 3), 1);
}

static void test_fill_does_not_sync_when_told_to_skip_it(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.skip_sync_before_send = 1;
    r = bench_up(b);
    relay_put(r, "t", 3);
    relay_step(r);
    assert_int_equal(r->out->count, 3);
    assert_int_equal(postbag__is_durable(&r->e.shared, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_fill_malformed_rows_die_and_the_rest_leaves),
        BENCH(test_fill_malformed_rows_die_on_mqtt_311_too),
        BENCH(test_fill_rows_behind_a_dead_one_leave_at_once),
        BENCH(test_fill_row_over_the_brokers_packet_size_is_dead),
        BENCH(test_fill_row_that_the_transport_cannot_carry_is_dead),
        BENCH(test_fill_transport_without_room_gets_it_later),
        BENCH(test_fill_transport_without_memory_gets_it_later),
        BENCH(test_fill_rows_for_another_destination_are_passed),
        BENCH(test_fill_row_that_was_deleted_is_passed_uncounted),
        BENCH(test_fill_marks_what_it_synced_as_durable),
        BENCH(test_fill_does_not_sync_when_told_to_skip_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
