/* SPDX-License-Identifier: MIT */
/*
 * Option reply_dead: whoever asked is told that the command is dead, in the
 * transaction that makes it so; and it is dead whether that can be told or not.
 */
#include "inbox_script.h"

#include "inbox_repair.h"
#include "limit_store.h"
#include "unit.h"

static int set_up_asked(void **state)
{
    int err = set_up(state);
    struct inbox_world *w = *state;

    w->reply_dead = 1;
    world_restart(w);
    return err;
}

/* Deliver a request that is valid for so long; 0: for ever. */
static void ask(struct inbox_world *w, const char *id,
    const char *response_topic, uint32_t expiry_s)
{
    const struct postbag_property p[] = {{"id", id},
        {"traceparent", "00-aa-bb-01"}, {"tracestate", "v=\"1\""},
        {"correlationid", "order-5"}, {"baggage", "secret"}};
    const struct postbag_frame f = {.topic = "cmd/a",
        .payload = "go",
        .payload_len = 2,
        .response_topic = response_topic,
        .correlation = "c-1",
        .correlation_len = 3,
        .properties = p,
        .property_count = sizeof(p) / sizeof(p[0]),
        .expiry_s = expiry_s};

    assert_ok(postbag__receiver_accept(w->receiver, w->generation, &f));
}

static int64_t outbox_rows(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT count(*) FROM outbox");
}

/* One reply, and nothing else, was put: it says this, and only this. */
static void expect_told(struct inbox_world *w, const char *status)
{
    char sql[600];

    (void)snprintf(sql, sizeof(sql),
        "SELECT count(*) FROM outbox WHERE topic = 're/1' AND payload = x''"
        " AND key IS NULL AND NOT retain AND (SELECT json_group_object(key,"
        "  value) FROM (SELECT key, value FROM json_each(headers) ORDER BY key)"
        " ) = json_object('causationid', '1', 'correlation_data', 'c-1',"
        " 'correlationid', 'order-5', 'status', '%s',"
        " 'traceparent', '00-aa-bb-01', 'tracestate', 'v=\"1\"')",
        status);
    assert_int_equal(outbox_rows(w), 1);
    if (temp_db_get(&w->t, sql) != 1)
        fail_msg("the sender was not told %s", status);
    assert_int_equal(in_state(w, "dead"), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT result IS NULL AND reply IS"
                                        " NULL AND payload NOT NULL FROM"
                                        " inbox"),
        1);
}

static void test_reply_dead_tells_of_a_rejection(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_port *port = postbag_linux_port();

    /* what the handler puts is undone, what tells of it is not */
    script.put = 1;
    script.outcome = POSTBAG_REJECT;
    ask(w, "1", "re/1", 0);
    assert_int_equal(world_run_one(w), 1);
    expect_told(w, "rejected");
    assert_int_equal(effects(w), 0);
    /* and the relay knows */
    assert_int_equal(port->wait(port->ctx, w->shared.wake, 0), POSTBAG_WOKEN);
    assert_int_equal(postbag__is_durable(&w->shared, 1), 1);
}

static void test_reply_dead_tells_of_the_last_attempt_only(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_RETRY;
    ask(w, "1", "re/1", 0);
    for (int i = 0; i < WORLD_MAX_ATTEMPTS; i++) {
        assert_int_equal(outbox_rows(w), 0);
        assert_int_equal(world_run_one(w), 1);
        world_pass_ms(w, 4 * WORLD_RETRY_BASE_MS);
    }
    expect_told(w, "failed");
}

static void test_reply_dead_tells_of_one_that_ended_the_process(void **state)
{
    struct inbox_world *w = *state;
    char sql[100];

    ask(w, "1", "re/1", 0);
    (void)snprintf(
        sql, sizeof(sql), "UPDATE inbox SET attempts = %d", WORLD_MAX_ATTEMPTS);
    temp_db_run(&w->t, sql);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.ran, 0);
    expect_told(w, "failed");
}

static void test_reply_dead_tells_of_one_that_expired(void **state)
{
    struct inbox_world *w = *state;

    ask(w, "1", "re/1", 10);
    world_pass_ms(w, 10000);
    assert_int_equal(world_run_one(w), 1);
    expect_told(w, "expired");
}

static void test_reply_dead_is_silent_unless_asked_for(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_REJECT;
    ask(w, "1", NULL, 0);
    assert_int_equal(world_run_one(w), 1);
    ask(w, "2", "elsewhere", 0);
    assert_int_equal(world_run_one(w), 1);
    w->reply_dead = 0;
    world_restart(w);
    ask(w, "3", "re/1", 0);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "dead"), 3);
    assert_int_equal(outbox_rows(w), 0);
}

/* ---- what comes after --------------------------------------------------- */

static void test_reply_dead_is_not_repeated(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_REJECT;
    w->again_topics = "re/#";
    world_restart(w);
    ask(w, "1", "re/1", 0);
    assert_int_equal(world_run_one(w), 1);
    ask(w, "1", "re/1", 0);
    assert_int_equal(world_run_one(w), 0);
    expect_told(w, "rejected");
}

static enum postbag_outcome answer(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .payload = "ok", .payload_len = 2};

    (void)ctx;
    assert_ok(postbag_reply(w, cmd, &m, NULL));
    return POSTBAG_DONE;
}

static void test_reply_dead_is_followed_by_the_reply_once_requeued(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_inbox_choice all = {
        .struct_size = sizeof(all), .consumer = "a"};
    int64_t count;

    script.outcome = POSTBAG_REJECT;
    ask(w, "1", "re/1", 0);
    assert_int_equal(world_run_one(w), 1);
    expect_told(w, "rejected");
    assert_ok(postbag__inbox_requeue(&w->t.db, &all, &count));
    w->consumers.list[0].handler = answer;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "done"), 1);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM outbox WHERE topic = 're/1'"
                           " AND payload = x'6f6b'"
                           " AND headers ->> 'status' IS NULL"),
        1);
}

/* ---- where nothing can be told ------------------------------------------ */

static void test_reply_dead_in_a_full_outbox_is_left_out(void **state)
{
    struct inbox_world *w = *state;
    const struct limits limits = {.max_rows = 1};

    temp_db_run(&w->t, "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
    assert_ok(postbag__limits_set(&w->t.db, &limits));
    script.outcome = POSTBAG_REJECT;
    ask(w, "1", "re/1", 0);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "dead"), 1);
    assert_int_equal(outbox_rows(w), 1);
}

/* One that SQLite itself rolls back takes the mark along; it is made anew. */
static void test_reply_dead_that_ends_the_transaction_is_left_out(void **state)
{
    struct inbox_world *w = *state;

    temp_db_run(&w->t, "CREATE TRIGGER gone BEFORE INSERT ON outbox BEGIN"
                       " SELECT RAISE(ROLLBACK, 'gone'); END");
    script.outcome = POSTBAG_REJECT;
    ask(w, "1", "re/1", 0);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "dead"), 1);
    expect_error(w, "rejected");
    assert_int_equal(temp_db_get(&w->t, "SELECT attempts FROM inbox"), 1);
    assert_int_equal(outbox_rows(w), 0);
    assert_int_equal(world_run_one(w), 0);
}

#undef TEST
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, set_up_asked, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_reply_dead_tells_of_a_rejection),
        TEST(test_reply_dead_tells_of_the_last_attempt_only),
        TEST(test_reply_dead_tells_of_one_that_ended_the_process),
        TEST(test_reply_dead_tells_of_one_that_expired),
        TEST(test_reply_dead_is_silent_unless_asked_for),
        TEST(test_reply_dead_is_not_repeated),
        TEST(test_reply_dead_is_followed_by_the_reply_once_requeued),
        TEST(test_reply_dead_in_a_full_outbox_is_left_out),
        TEST(test_reply_dead_that_ends_the_transaction_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
