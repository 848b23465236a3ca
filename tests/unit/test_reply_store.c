/* SPDX-License-Identifier: MIT */
/*
 * A command that is done and comes again is answered with the reply that it
 * had, and its handler does not run.
 */
#include "inbox_world.h"

#include "postbag/claim.h"
#include "writer.h"

struct answer {
    struct postbag_message m;
    enum postbag_outcome outcome;
    int ran;
    int err;
};

static struct answer reply;

static enum postbag_outcome answer(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    struct answer *a = ctx;

    a->ran++;
    a->err = postbag_reply(w, cmd, &a->m, NULL);
    /* the row was written to under the command's own texts */
    assert_string_equal(cmd->topic, "cmd/a");
    assert_string_equal(cmd->response_topic, "re/1");
    return a->outcome;
}

static int set_up(void **state)
{
    struct inbox_world *w = world_new();

    memset(&reply, 0, sizeof(reply));
    reply.m.struct_size = sizeof(reply.m);
    reply.m.payload = "ok";
    reply.m.payload_len = 2;
    w->again_topics = "re/#";
    world_add(w, "a", "cmd/a", answer, &reply);
    world_open_receiver(w, 100);
    world_open_worker(w, "re/#");
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world_free(*state);
    return 0;
}

/* Deliver a request with an id. */
static void ask(struct inbox_world *w, const char *id,
    const char *response_topic, const char *correlation)
{
    const struct postbag_property p[] = {{"id", id}, {"traceparent", "00-1"}};
    const struct postbag_frame f = {.topic = "cmd/a",
        .response_topic = response_topic,
        .correlation = correlation,
        .correlation_len = strlen(correlation),
        .properties = p,
        .property_count = 2};

    assert_ok(postbag__receiver_accept(w->receiver, w->generation, &f));
}

/* Delivered, handled and answered. */
static void serve(struct inbox_world *w)
{
    ask(w, "1", "re/1", "c-1");
    assert_int_equal(world_run_one(w), 1);
    assert_ok(reply.err);
}

static int64_t outbox_rows(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT count(*) FROM outbox");
}

static void test_reply_store_done_command_is_answered_again(void **state)
{
    struct inbox_world *w = *state;

    serve(w);
    for (int i = 0; i < 3; i++) {
        ask(w, "1", "re/1", "c-1");
        assert_int_equal(world_run_one(w), 0);
    }
    assert_int_equal(reply.ran, 1);
    assert_int_equal(outbox_rows(w), 4);
    assert_int_equal(
        temp_db_get(&w->t,
            "SELECT count(*) FROM (SELECT DISTINCT id, topic, payload, headers"
            " FROM outbox WHERE topic = 're/1' AND payload = x'6f6b')"),
        1);
}

/* The relay need not sync the WAL for what a FULL commit brought. */
static void test_reply_store_tells_the_relay(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_port *port = postbag_linux_port();

    serve(w);
    assert_int_equal(port->wait(port->ctx, w->shared.wake, 0), POSTBAG_WOKEN);
    ask(w, "1", "re/1", "c-1");
    assert_int_equal(port->wait(port->ctx, w->shared.wake, 0), POSTBAG_WOKEN);
    assert_int_equal(postbag__is_durable(&w->shared, 2), 1);
}

static void test_reply_store_survives_a_restart(void **state)
{
    struct inbox_world *w = *state;

    serve(w);
    w->boot++;
    world_restart(w);
    ask(w, "1", "re/1", "c-1");
    assert_int_equal(world_run_one(w), 0);
    assert_int_equal(outbox_rows(w), 2);
    assert_int_equal(reply.ran, 1);
}

/* Who asks again may have begun anew, and listens elsewhere. */
static void test_reply_store_answers_to_where_it_is_asked_from(void **state)
{
    struct inbox_world *w = *state;

    serve(w);
    ask(w, "1", "re/2", "c-2");
    assert_int_equal(
        temp_db_get(&w->t,
            "SELECT topic = 're/2' AND headers ->> 'correlation_data' = 'c-2'"
            " AND headers ->> 'causationid' = '1'"
            " AND headers ->> 'traceparent' = '00-1'"
            " FROM outbox ORDER BY seq DESC LIMIT 1"),
        1);
}

static void test_reply_store_keeps_all_of_a_message(void **state)
{
    struct inbox_world *w = *state;

    reply.m.payload = "{\"open\":1}";
    reply.m.payload_len = 10;
    reply.m.is_text = 1;
    reply.m.type = "com.example.opened";
    reply.m.content_type = "application/json";
    reply.m.headers = "{\"subject\":\"valve\"}";
    reply.m.key = "valve-1";
    reply.m.key_version = 7;
    reply.m.dest = "main";
    reply.m.ttl_ms = 60000;
    reply.m.priority = 2;
    reply.m.retain = 1;
    serve(w);
    ask(w, "1", "re/1", "c-1");
    assert_int_equal(outbox_rows(w), 2);
    assert_int_equal(
        temp_db_get(&w->t,
            "SELECT count(*) FROM (SELECT DISTINCT id, topic, typeof(payload),"
            " payload, type, content_type, headers, key, key_version, dest,"
            " ttl_ms, priority, retain, coalesce FROM outbox"
            " WHERE type NOT NULL AND content_type NOT NULL AND key NOT NULL"
            "  AND key_version = 7 AND dest = 'main' AND ttl_ms = 60000"
            "  AND priority = 2 AND retain = 1 AND typeof(payload) = 'text'"
            "  AND headers ->> 'subject' = 'valve')"),
        1);
}

static void test_reply_store_keeps_coalesce(void **state)
{
    struct inbox_world *w = *state;

    reply.m.coalesce = "answer";
    serve(w);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT reply ->> 'coalesce' = 'answer' FROM inbox"),
        1);
}

static void test_reply_store_the_last_of_several_is_kept(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_message first = {
        .struct_size = sizeof(first), .payload = "wait", .payload_len = 4};
    const struct postbag_message last = {.struct_size = sizeof(last)};
    const struct postbag_command cmd = {
        .struct_size = sizeof(cmd), .response_topic = "re/1", .arrival = 1};
    struct postbag_writer *writer;

    ask(w, "1", "re/1", "c-1");
    assert_ok(
        postbag__writer_open(&writer, w->t.db.handle, &w->port, NULL, NULL));
    writer->reply_topics = "re/#";
    temp_db_run(&w->t, "BEGIN IMMEDIATE");
    assert_ok(postbag_reply(writer, &cmd, &first, NULL));
    assert_ok(postbag_reply(writer, &cmd, &last, NULL));
    temp_db_run(&w->t, "COMMIT");
    postbag_writer_close(writer);
    assert_int_equal(temp_db_get(&w->t, "SELECT result = x'' FROM inbox"), 1);
}

static void test_reply_store_too_long_a_reply_is_sent_once(void **state)
{
    static const char longest[POSTBAG_RESULT_MAX + 1];
    struct inbox_world *w = *state;

    assert_ok(postbag__schema_ensure(&w->t.db, 2 * POSTBAG_RESULT_MAX));
    reply.m.payload = longest;
    reply.m.payload_len = sizeof(longest);
    serve(w);
    assert_int_equal(outbox_rows(w), 1);
    ask(w, "1", "re/1", "c-1");
    assert_int_equal(outbox_rows(w), 1);
    assert_int_equal(temp_db_get(&w->t,
                         "SELECT result IS NULL AND reply IS NULL FROM inbox"),
        1);
}

static void test_reply_store_of_a_retry_is_not_kept(void **state)
{
    struct inbox_world *w = *state;

    reply.outcome = POSTBAG_RETRY;
    serve(w);
    ask(w, "1", "re/1", "c-1");
    assert_int_equal(outbox_rows(w), 0);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox WHERE result NOT NULL"),
        0);
}

/* The handler's own answer will come. */
static void test_reply_store_says_nothing_before_it_is_done(void **state)
{
    struct inbox_world *w = *state;

    ask(w, "1", "re/1", "c-1");
    ask(w, "1", "re/1", "c-1");
    assert_int_equal(outbox_rows(w), 0);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(outbox_rows(w), 1);
}

static void test_reply_store_other_topics_are_refused_again(void **state)
{
    struct inbox_world *w = *state;

    serve(w);
    ask(w, "1", "elsewhere", "c-1");
    ask(w, "1", NULL, "c-1");
    assert_int_equal(outbox_rows(w), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT seen FROM inbox"), 3);
}

static void test_reply_store_where_nothing_is_allowed_is_silent(void **state)
{
    struct inbox_world *w = *state;

    serve(w);
    w->again_topics = "";
    world_restart(w);
    ask(w, "1", "re/1", "c-1");
    assert_int_equal(outbox_rows(w), 1);
}

/* A command that came again is accepted whether there is room for its reply
 * or not: the broker would deliver it for ever. */
static void test_reply_store_full_outbox_accepts_without_a_reply(void **state)
{
    struct inbox_world *w = *state;

    serve(w);
    temp_db_run(&w->t, "CREATE TRIGGER full BEFORE INSERT ON outbox BEGIN"
                       " SELECT RAISE(ABORT, 'postbag: outbox is full'); END");
    ask(w, "1", "re/1", "c-1");
    assert_int_equal(outbox_rows(w), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT seen FROM inbox"), 2);
    temp_db_run(&w->t, "DROP TRIGGER full");
    ask(w, "1", "re/1", "c-1");
    assert_int_equal(outbox_rows(w), 2);
}

/* One that SQLite itself rolls back took the acceptance with it, and what would
 * be written after it would commit by itself. */
static void test_reply_store_lost_transaction_is_not_acknowledged(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_property p[] = {{"id", "1"}};
    const struct postbag_frame f = {.topic = "cmd/a",
        .response_topic = "re/1",
        .correlation = "c-1",
        .correlation_len = 3,
        .properties = p,
        .property_count = 1};

    serve(w);
    temp_db_run(&w->t, "CREATE TRIGGER gone BEFORE INSERT ON outbox BEGIN"
                       " SELECT RAISE(ROLLBACK, 'gone'); END");
    world_add(w, "b", "cmd/+", answer, &reply);
    assert_true(postbag__receiver_accept(w->receiver, 1, &f) < 0);
    assert_int_equal(temp_db_get(&w->t, "SELECT sum(seen) FROM inbox"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_reply_store_done_command_is_answered_again),
        TEST(test_reply_store_tells_the_relay),
        TEST(test_reply_store_survives_a_restart),
        TEST(test_reply_store_answers_to_where_it_is_asked_from),
        TEST(test_reply_store_keeps_all_of_a_message),
        TEST(test_reply_store_keeps_coalesce),
        TEST(test_reply_store_the_last_of_several_is_kept),
        TEST(test_reply_store_too_long_a_reply_is_sent_once),
        TEST(test_reply_store_of_a_retry_is_not_kept),
        TEST(test_reply_store_says_nothing_before_it_is_done),
        TEST(test_reply_store_other_topics_are_refused_again),
        TEST(test_reply_store_where_nothing_is_allowed_is_silent),
        TEST(test_reply_store_full_outbox_accepts_without_a_reply),
        TEST(test_reply_store_lost_transaction_is_not_acknowledged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
