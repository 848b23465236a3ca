/* SPDX-License-Identifier: MIT */
/*
 * What is acknowledged is on disk, what cannot be stored is not acknowledged.
 * Everything is looked at through a second connection, as after a crash.
 */
#include "inbox_world.h"

#include <time.h>

static enum postbag_outcome never(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)ctx;
    (void)cmd;
    (void)w;
    fail_msg("the receiver does not run handlers");
    return POSTBAG_RETRY;
}

static int set_up(void **state)
{
    struct inbox_world *w = world_new();

    world_add(w, "a", "cmd/a/#", never, NULL);
    world_add(w, "b", "cmd/+", never, NULL);
    world_open_receiver(w, 100);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world_free(*state);
    return 0;
}

static struct receiver_counts counts(struct inbox_world *w)
{
    struct receiver_counts c;

    postbag__receiver_counts(w->receiver, &c);
    return c;
}

/* Only consumer b. */
static int deliver(struct inbox_world *w, const char *id, const char *payload)
{
    return world_deliver_on(w, "cmd/x", id, NULL, payload);
}

static int64_t rows(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT count(*) FROM inbox");
}

static void test_receiver_accepted_command_is_stored_whole(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_property p[] = {{"id", "7"}, {"source", "/scada"},
        {"partitionkey", "valve"}, {"keyversion", "12"},
        {"traceparent", "00-\"x\""}};
    const struct postbag_frame f = {.topic = "cmd/x",
        .payload = "open",
        .payload_len = 4,
        .content_type = "text/plain",
        .response_topic = "re/1",
        .correlation = "c\0d",
        .correlation_len = 3,
        .properties = p,
        .property_count = 5,
        .is_text = 1};

    assert_int_equal(postbag__receiver_accept(w->receiver, 1, &f), POSTBAG_OK);
    assert_int_equal(
        temp_db_get(&w->t,
            "SELECT count(*) FROM inbox WHERE consumer = 'b'"
            " AND source = '/scada' AND id = '7' AND seen = 1"
            " AND state = 'due' AND topic = 'cmd/x' AND payload = 'open'"
            " AND content_type = 'text/plain' AND key = 'valve'"
            " AND key_version = 12 AND response_topic = 're/1'"
            " AND correlation_data = x'630064' AND attempts = 0"
            " AND length(content_hash) = 32 AND error IS NULL"
            " AND json_extract(headers, '$.traceparent') = '00-\"x\"'"
            " AND json_extract(headers, '$.id') = '7'"
            " AND expires_ms IS NULL AND received_ms = 1800000000000"
            " AND boot = x'01010101010101010101010101010101'"
            " AND mono_ms = 60000"),
        1);
}

static void test_receiver_payload_is_text_only_if_marked_and_valid(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_property p[] = {{"id", "1"}};
    struct postbag_frame f = {.topic = "cmd/x",
        .payload = "\xff",
        .payload_len = 1,
        .properties = p,
        .property_count = 1,
        .is_text = 1};

    assert_int_equal(postbag__receiver_accept(w->receiver, 1, &f), POSTBAG_OK);
    assert_int_equal(deliver(w, "2", "text"), POSTBAG_OK);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"
                                        " WHERE typeof(payload) = 'blob'"),
        2);
}

static void test_receiver_odd_keyversion_is_none(void **state)
{
    static const char *const odd[] = {"", "x", "1x", "99999999999999999999"};
    struct inbox_world *w = *state;

    for (size_t i = 0; i < 4; i++) {
        char id[2] = {(char)('a' + (int)i), '\0'};
        const struct postbag_property p[] = {
            {"id", id}, {"keyversion", odd[i]}};
        const struct postbag_frame f = {
            .topic = "cmd/x", .properties = p, .property_count = 2};

        assert_int_equal(
            postbag__receiver_accept(w->receiver, 1, &f), POSTBAG_OK);
    }
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"
                                        " WHERE key_version IS NULL"),
        4);
}

static void test_receiver_duplicate_is_one_row_seen_twice(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(deliver(w, "1", "open"), POSTBAG_OK);
    assert_int_equal(deliver(w, "1", "open"), POSTBAG_OK);
    assert_int_equal(rows(w), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT seen FROM inbox"), 2);
    assert_int_equal(counts(w).accepted, 1);
    assert_int_equal(counts(w).duplicates, 1);
}

/* If it wrote nothing, SQLite would commit without a sync. */
static void test_receiver_duplicate_is_a_write(void **state)
{
    struct inbox_world *w = *state;
    int64_t before;

    assert_int_equal(deliver(w, "1", "open"), POSTBAG_OK);
    before = temp_db_get(&w->t, "PRAGMA data_version");
    assert_int_equal(deliver(w, "1", "open"), POSTBAG_OK);
    assert_true(temp_db_get(&w->t, "PRAGMA data_version") != before);
}

static void test_receiver_conflict_is_kept_among_the_dead(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(deliver(w, "1", "open"), POSTBAG_OK);
    assert_int_equal(deliver(w, "1", "close"), POSTBAG_OK);
    assert_int_equal(deliver(w, "1", "close"), POSTBAG_OK);
    assert_int_equal(deliver(w, "1", "blink"), POSTBAG_OK);
    assert_int_equal(rows(w), 3);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT seen FROM inbox WHERE id = '1'"
                           " AND state = 'due' AND payload = x'6f70656e'"),
        1);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT seen FROM inbox WHERE state = 'dead'"
                           " AND error = 'conflict with 1' AND length(id) = 32"
                           " AND payload = x'636c6f7365'"),
        2);
    assert_int_equal(counts(w).conflicts, 2);
    assert_int_equal(counts(w).duplicates, 1);
}

static void test_receiver_without_id_is_one_dead_row(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_frame f = {
        .topic = "cmd/x", .payload = "open", .payload_len = 4};

    for (int i = 0; i < 3; i++)
        assert_int_equal(
            postbag__receiver_accept(w->receiver, 1, &f), POSTBAG_OK);
    assert_int_equal(rows(w), 1);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT seen FROM inbox WHERE state = 'dead'"
                           " AND error = 'no id' AND length(id) = 32"
                           " AND payload = x'6f70656e'"),
        3);
    assert_int_equal(counts(w).dead, 1);
    assert_int_equal(counts(w).accepted, 0);
}

static void reopen(
    struct inbox_world *w, const char *identity, const char *no_identity)
{
    postbag__receiver_close(w->receiver);
    w->identity = identity;
    w->no_identity = no_identity;
    world_open_receiver(w, 100);
}

static void test_receiver_without_id_is_handled_as_configured(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_frame f = {
        .topic = "cmd/x", .payload = "open", .payload_len = 4};

    reopen(w, "id", "hash");
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            postbag__receiver_accept(w->receiver, 1, &f), POSTBAG_OK);
    assert_int_equal(rows(w), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT seen FROM inbox"
                                        " WHERE state = 'due'"),
        2);
    w->port.random = postbag_linux_port()->random;
    reopen(w, "id", "unprotected");
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            postbag__receiver_accept(w->receiver, 1, &f), POSTBAG_OK);
    assert_int_equal(rows(w), 3);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(DISTINCT id) FROM inbox"
                           " WHERE state = 'due' AND length(id) = 16"),
        2);
}

/* A place that is configured may be one where commands differ in nothing but
 * what is not the id. */
static void test_receiver_same_topic_segment_with_other_content_is_a_conflict(
    void **state)
{
    struct inbox_world *w = *state;

    reopen(w, "topic:2", "dead");
    assert_int_equal(deliver(w, "1", "open"), POSTBAG_OK);
    assert_int_equal(deliver(w, "2", "open"), POSTBAG_OK);
    assert_int_equal(deliver(w, "3", "close"), POSTBAG_OK);
    assert_int_equal(counts(w).accepted, 1);
    assert_int_equal(counts(w).duplicates, 1);
    assert_int_equal(counts(w).conflicts, 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"
                                        " WHERE id = 'x' AND state = 'due'"),
        1);
}

static void test_receiver_too_large_is_a_dead_stub(void **state)
{
    struct inbox_world *w = *state;
    char payload[1002];

    memset(payload, 'x', sizeof(payload));
    payload[1001] = '\0';
    assert_int_equal(deliver(w, "1", payload), POSTBAG_OK);
    payload[1000] = '\0';
    assert_int_equal(deliver(w, "2", payload), POSTBAG_OK);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox WHERE id = '1'"
                           " AND state = 'dead' AND payload IS NULL"),
        1);
    assert_int_equal(temp_db_get(&w->t, "SELECT length(payload) FROM inbox"
                                        " WHERE id = '2' AND state = 'due'"),
        1000);
}

static void test_receiver_each_matching_consumer_has_a_row(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(world_deliver_on(w, "cmd/a", "1", NULL, "go"), POSTBAG_OK);
    assert_int_equal(
        world_deliver_on(w, "cmd/a/deep", "2", NULL, "go"), POSTBAG_OK);
    assert_int_equal(
        temp_db_get(&w->t,
            "SELECT group_concat(name, ',') = 'a1,b1,a2' FROM"
            " (SELECT consumer || id AS name FROM inbox ORDER BY arrival)"),
        1);
    assert_int_equal(counts(w).accepted, 3);
}

static void test_receiver_unmatched_is_counted_not_stored(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(world_deliver_on(w, "other", "1", NULL, "go"), POSTBAG_OK);
    assert_int_equal(rows(w), 0);
    assert_int_equal(counts(w).unmatched, 1);
}

static int64_t real_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The bound is on the waiting: a busy machine may add to it. */
static void test_receiver_busy_database_is_nack_in_time(void **state)
{
    struct inbox_world *w = *state;
    int64_t began;

    temp_db_run(&w->t, "BEGIN IMMEDIATE");
    began = real_ms();
    assert_int_equal(deliver(w, "1", "open"), POSTBAG_EBUSY);
    assert_true(real_ms() - began < 1000);
    temp_db_run(&w->t, "COMMIT");
    assert_int_equal(rows(w), 0);
    assert_int_equal(counts(w).nacks, 1);
    assert_int_equal(counts(w).accepted, 0);
}

/* What came after the refused command must not overtake it. */
static void test_receiver_after_nack_takes_nothing_of_that_connection(
    void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_property p[] = {{"id", "1"}};
    const struct postbag_frame f = {
        .topic = "cmd/x", .properties = p, .property_count = 1};

    temp_db_run(&w->t, "BEGIN IMMEDIATE");
    assert_int_equal(
        postbag__receiver_accept(w->receiver, 7, &f), POSTBAG_EBUSY);
    temp_db_run(&w->t, "COMMIT");
    assert_int_equal(
        postbag__receiver_accept(w->receiver, 7, &f), POSTBAG_ESTATE);
    assert_int_equal(rows(w), 0);
    assert_int_equal(postbag__receiver_accept(w->receiver, 8, &f), POSTBAG_OK);
    assert_int_equal(rows(w), 1);
}

static void test_receiver_broken_table_is_nack(void **state)
{
    struct inbox_world *w = *state;

    temp_db_run(&w->t, "CREATE TRIGGER no BEFORE INSERT ON inbox BEGIN"
                       " SELECT RAISE(ABORT, 'no'); END");
    assert_true(deliver(w, "1", "open") < 0);
    assert_int_equal(rows(w), 0);
    assert_int_equal(counts(w).nacks, 1);
}

static void expect_woken(struct postbag_wake *const wakes[2], unsigned reason)
{
    const struct postbag_port *port = postbag_linux_port();

    for (int i = 0; i < 2; i++)
        assert_int_equal(port->wait(port->ctx, wakes[i], 0), reason);
}

static void test_receiver_new_command_wakes_the_workers(void **state)
{
    struct inbox_world *w = *state;
    struct postbag_wake *wakes[2];
    struct receiver_config c = {.db_path = w->t.path,
        .port = &w->port,
        .consumers = &w->consumers,
        .accept_ms = 100,
        .wakes = wakes,
        .wake_count = 2,
        .identity = w->identity,
        .no_identity = w->no_identity};

    postbag__receiver_close(w->receiver);
    assert_ok(postbag__receiver_open(&w->receiver, &c, NULL));
    for (int i = 0; i < 2; i++)
        assert_int_equal(w->port.wake_new(w->port.ctx, &wakes[i]), POSTBAG_OK);
    assert_int_equal(deliver(w, "1", "open"), POSTBAG_OK);
    expect_woken(wakes, POSTBAG_WOKEN);
    assert_int_equal(deliver(w, "1", "open"), POSTBAG_OK);
    expect_woken(wakes, 0);
    for (int i = 0; i < 2; i++)
        w->port.wake_free(w->port.ctx, wakes[i]);
}

static void test_receiver_missing_database_is_told(void **state)
{
    struct inbox_world *w = *state;
    const struct receiver_config c = {.db_path = "/nowhere/gw.db",
        .port = &w->port,
        .consumers = &w->consumers};
    struct postbag_fault why = {0};
    struct receiver *r;

    assert_true(postbag__receiver_open(&r, &c, &why) < 0);
    assert_null(r);
    assert_true(why.text[0] != '\0');
}

/* The worker commits back to back: a receiver that is not in the queue never
 * finds the lock free on a busy machine. */
static void test_receiver_waits_for_its_turn_at_the_gate(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(
        w->port.gate_new(w->port.ctx, &w->shared.gate), POSTBAG_OK);
    assert_int_equal(postbag__gate_enter(&w->shared, 0), POSTBAG_OK);
    assert_int_equal(deliver(w, "1", "open"), POSTBAG_EBUSY);
    assert_int_equal(rows(w), 0);
    assert_int_equal(counts(w).nacks, 1);
    postbag__gate_leave(&w->shared);
    w->port.gate_free(w->port.ctx, w->shared.gate);
    w->shared.gate = NULL;
}

static void test_receiver_leaves_the_gate_whatever_came_of_it(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(
        w->port.gate_new(w->port.ctx, &w->shared.gate), POSTBAG_OK);
    assert_int_equal(deliver(w, "1", "open"), POSTBAG_OK);
    assert_int_equal(postbag__gate_enter(&w->shared, 0), POSTBAG_OK);
    postbag__gate_leave(&w->shared);
    temp_db_run(&w->t, "CREATE TRIGGER no BEFORE INSERT ON inbox BEGIN"
                       " SELECT RAISE(ABORT, 'no'); END");
    assert_true(deliver(w, "2", "open") < 0);
    assert_int_equal(postbag__gate_enter(&w->shared, 0), POSTBAG_OK);
    postbag__gate_leave(&w->shared);
    w->generation++;
    temp_db_run(&w->t, "DROP TRIGGER no");
    temp_db_run(&w->t, "BEGIN IMMEDIATE");
    assert_int_equal(deliver(w, "2", "open"), POSTBAG_EBUSY);
    temp_db_run(&w->t, "ROLLBACK");
    assert_int_equal(postbag__gate_enter(&w->shared, 0), POSTBAG_OK);
    postbag__gate_leave(&w->shared);
    w->port.gate_free(w->port.ctx, w->shared.gate);
    w->shared.gate = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_receiver_accepted_command_is_stored_whole),
        TEST(test_receiver_waits_for_its_turn_at_the_gate),
        TEST(test_receiver_leaves_the_gate_whatever_came_of_it),
        TEST(test_receiver_payload_is_text_only_if_marked_and_valid),
        TEST(test_receiver_odd_keyversion_is_none),
        TEST(test_receiver_duplicate_is_one_row_seen_twice),
        TEST(test_receiver_duplicate_is_a_write),
        TEST(test_receiver_conflict_is_kept_among_the_dead),
        TEST(test_receiver_without_id_is_one_dead_row),
        TEST(test_receiver_without_id_is_handled_as_configured),
        TEST(test_receiver_same_topic_segment_with_other_content_is_a_conflict),
        TEST(test_receiver_too_large_is_a_dead_stub),
        TEST(test_receiver_each_matching_consumer_has_a_row),
        TEST(test_receiver_unmatched_is_counted_not_stored),
        TEST(test_receiver_busy_database_is_nack_in_time),
        TEST(test_receiver_after_nack_takes_nothing_of_that_connection),
        TEST(test_receiver_broken_table_is_nack),
        TEST(test_receiver_new_command_wakes_the_workers),
        TEST(test_receiver_missing_database_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
