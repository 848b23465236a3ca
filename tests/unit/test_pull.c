/* SPDX-License-Identifier: MIT */
/* Commands that the application pulls: which is next, what commits together,
 * replies, and the worker beside it. */
#include "pullers.h"

/* ---- next and done ----------------------------------------------------- */

static void test_pull_effect_and_mark_commit_together(void **state)
{
    struct pullers *p = *state;

    world_deliver(p->world, "1", NULL);
    assert_ok(postbag_begin(p->w[0]));
    expect_next(p, "1");
    act_and_mark(p);
    assert_int_equal(next(p), POSTBAG_ENOTFOUND);
    postbag_rollback(p->w[0]);
    assert_string_equal(effects(p), "");
    serve(p, "1");
    assert_string_equal(effects(p), "1");
    assert_int_equal(next(p), POSTBAG_ENOTFOUND);
    assert_string_equal(
        row_is(p, "state, attempts, payload, processed_ms = 1800000000000,"
                  " mono_ms"),
        "done|1|NULL|1|60000");
    world_deliver(p->world, "1", NULL);
    assert_int_equal(next(p), POSTBAG_ENOTFOUND);
}

static void deliver_all_parts(struct pullers *p)
{
    const struct postbag_property all[] = {{"id", "1"}, {"source", "/scada"},
        {"partitionkey", "k"}, {"keyversion", "7"}, {"traceparent", "00-1"},
        {"tracestate", "v=1"}, {"correlationid", "order-5"}};
    const struct postbag_frame f = {.topic = "cmd/a",
        .payload = "a\0b",
        .payload_len = 3,
        .content_type = "text/plain",
        .response_topic = "re/1",
        .correlation = "c\0d",
        .correlation_len = 3,
        .properties = all,
        .property_count = COUNT(all)};

    assert_ok(
        postbag__receiver_accept(p->world->receiver, p->world->generation, &f));
}

static void expect_all_parts(const struct postbag_command *c)
{
    assert_string_equal(c->consumer, "p");
    assert_string_equal(c->source, "/scada");
    assert_string_equal(c->id, "1");
    assert_string_equal(c->topic, "cmd/a");
    assert_int_equal(c->payload_len, 3);
    assert_memory_equal(c->payload, "a\0b", 3);
    assert_string_equal(c->content_type, "text/plain");
    assert_string_equal(c->key, "k");
    assert_string_equal(c->response_topic, "re/1");
    assert_int_equal(c->correlation_len, 3);
    assert_memory_equal(c->correlation, "c\0d", 3);
    assert_has(c->headers, "order-5");
    assert_string_equal(c->traceparent, "00-1");
    assert_string_equal(c->tracestate, "v=1");
    assert_string_equal(c->correlation_id, "order-5");
    assert_int_equal(c->key_version, 7);
    assert_int_equal(c->order, POSTBAG_ORDER_FIRST);
    assert_int_equal(c->attempt, 1);
    assert_true(c->received_ms == INT64_C(1800000000000));
}

static void test_pull_all_of_a_command_is_kept_until_the_next(void **state)
{
    struct pullers *p = *state;
    char consumer[] = "p";

    deliver_all_parts(p);
    p->cmd.struct_size = sizeof(p->cmd);
    assert_ok(postbag_begin(p->w[0]));
    assert_ok(postbag_inbox_next(p->w[0], consumer, &p->cmd));
    consumer[0] = 'x';
    expect_all_parts(&p->cmd);
    act_and_mark(p);
    assert_ok(postbag_commit(p->w[0]));
    expect_all_parts(&p->cmd);
    world_deliver(p->world, "2", NULL);
    expect_next(p, "2");
    assert_null(p->cmd.key);
    assert_null(p->cmd.response_topic);
}

static void test_pull_keeps_the_order_of_a_key(void **state)
{
    struct pullers *p = *state;

    world_deliver(p->world, "1", "k");
    world_deliver(p->world, "2", "k");
    world_deliver(p->world, "3", NULL);
    expect_next(p, "1");
    assert_ok(postbag_inbox_put_off(p->w[0], p->cmd.arrival, NULL, NULL));
    serve(p, "3");
    assert_int_equal(next(p), POSTBAG_ENOTFOUND);
    world_pass_ms(p->world, 1000);
    serve(p, "1");
    serve(p, "2");
    assert_string_equal(effects(p), "3 1 2");
}

static void test_pull_look_holds_nothing(void **state)
{
    struct pullers *p = *state;

    world_deliver(p->world, "1", NULL);
    expect_next(p, "1");
    assert_int_equal(sqlite3_txn_state(p->db[0], NULL), SQLITE_TXN_NONE);
    sql_run(p->db[1], "BEGIN IMMEDIATE; ROLLBACK");
}

/* Both looked before either began. */
static void test_pull_only_the_first_of_two_is_done(void **state)
{
    struct pullers *p = *state;
    int64_t arrival;

    world_deliver(p->world, "1", NULL);
    expect_next(p, "1");
    arrival = p->cmd.arrival;
    assert_ok(postbag_inbox_next(p->w[1], "p", &p->cmd));
    assert_int_equal(p->cmd.arrival, arrival);
    serve(p, "1");
    assert_ok(postbag_begin(p->w[1]));
    act(p, 1);
    assert_int_equal(postbag_inbox_done(p->w[1], arrival), POSTBAG_ENOTFOUND);
    postbag_rollback(p->w[1]);
    assert_int_equal(
        postbag_inbox_put_off(p->w[1], arrival, NULL, NULL), POSTBAG_ENOTFOUND);
    assert_string_equal(effects(p), "1");
    assert_string_equal(row_is(p, "state, attempts"), "done|1");
}

static void test_pull_done_needs_the_transaction_of_its_effect(void **state)
{
    struct pullers *p = *state;

    world_deliver(p->world, "1", NULL);
    expect_next(p, "1");
    assert_int_equal(
        postbag_inbox_done(p->w[0], p->cmd.arrival), POSTBAG_ENOTXN);
    assert_string_equal(row_is(p, "state"), "due");
    assert_ok(postbag_begin(p->w[0]));
    assert_int_equal(postbag_inbox_done(p->w[0], 99), POSTBAG_ENOTFOUND);
    postbag_rollback(p->w[0]);
}

/* ---- replies ----------------------------------------------------------- */

static int reply(struct pullers *p)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .payload = "ok", .payload_len = 2};

    return postbag_reply(p->w[0], &p->cmd, &m, NULL);
}

static void test_pull_reply_commits_and_is_repeated(void **state)
{
    struct pullers *p = *state;

    deliver_all_parts(p);
    for (int is_good = 0; is_good < 2; is_good++) {
        assert_ok(postbag_begin(p->w[0]));
        expect_next(p, "1");
        assert_ok(reply(p));
        act_and_mark(p);
        if (is_good)
            assert_ok(postbag_commit(p->w[0]));
        postbag_rollback(p->w[0]);
        assert_int_equal(
            sql_get(p->db[0], "SELECT count(*) FROM outbox"), is_good);
    }
    deliver_all_parts(p);
    assert_string_equal(
        sql_text(p->db[0], "SELECT topic, CAST(payload AS TEXT), count(*),"
                           " count(DISTINCT id) FROM outbox"),
        "re/1|ok|2|1");
}

static void test_pull_reply_goes_where_it_may(void **state)
{
    struct pullers *p = *state;

    deliver_all_parts(p);
    assert_ok(postbag_begin(p->w[0]));
    expect_next(p, "1");
    p->cmd.response_topic = "other/1";
    assert_int_equal(reply(p), POSTBAG_EREFUSED);
    postbag_rollback(p->w[0]);
}

static void test_pull_writer_without_topics_gives_no_reply(void **state)
{
    struct pullers *p = *state;
    struct postbag_writer_config c = {.struct_size = sizeof(c),
        .db = p->db[0],
        .port = &p->world->port,
        .reply_topics = "a#"};
    struct postbag_writer *w;
    struct postbag_fault why;

    assert_int_equal(postbag_writer_open(&w, &c, &why), POSTBAG_EINVAL);
    assert_has(why.text, "reply_topics");
    c.reply_topics = NULL;
    postbag_writer_close(p->w[0]);
    assert_ok(postbag_writer_open(&p->w[0], &c, &why));
    deliver_all_parts(p);
    expect_next(p, "1");
    assert_int_equal(reply(p), POSTBAG_EINVAL);
    assert_has(postbag_writer_fault(p->w[0])->text, "reply_topics");
}

/* ---- the worker beside it ---------------------------------------------- */

static void test_pull_worker_passes_over(void **state)
{
    struct pullers *p = *state;

    world_deliver(p->world, "1", NULL);
    assert_int_equal(world_run_one(p->world), 0);
    assert_ok(world_deliver_on(p->world, "cmd/b", "2", NULL, "go"));
    assert_int_equal(world_run_one(p->world), 1);
    assert_int_equal(p->handled, 1);
    serve(p, "1");
}

static void deliver_version(
    struct pullers *p, const char *id, const char *version)
{
    const struct postbag_property all[] = {
        {"id", id}, {"partitionkey", "k"}, {"keyversion", version}};
    const struct postbag_frame f = {
        .topic = "cmd/a", .properties = all, .property_count = 3};

    assert_ok(
        postbag__receiver_accept(p->world->receiver, p->world->generation, &f));
}

static void test_pull_worker_ends_what_waits_for_a_version(void **state)
{
    struct pullers *p = *state;

    p->world->consumers.list[0].versions = (struct order_rules){
        .gap = ORDER_DEFER, .defer_ms = 1000, .defer_rows = 10};
    deliver_version(p, "1", "1");
    deliver_version(p, "3", "3");
    serve(p, "1");
    assert_int_equal(world_run_one(p->world), 0);
    assert_int_equal(next(p), POSTBAG_ENOTFOUND);
    world_pass_ms(p->world, 1000);
    assert_int_equal(world_run_one(p->world), 0);
    serve(p, "3");
    assert_int_equal(p->cmd.order, POSTBAG_ORDER_GAP);
}

/* ---- what is refused --------------------------------------------------- */

static void test_pull_refuses_what_it_does_not_know(void **state)
{
    struct pullers *p = *state;
    const struct postbag_put_off how = {0};
    struct {
        struct postbag_command c;
        int newer;
    } out = {.c = {.struct_size = sizeof(out)}, .newer = 1};

    world_deliver(p->world, "1", NULL);
    assert_int_equal(
        postbag_inbox_next(p->w[0], "p", &out.c), POSTBAG_EVERSION);
    assert_int_equal(postbag_inbox_next(NULL, "p", &p->cmd), POSTBAG_EINVAL);
    assert_int_equal(
        postbag_inbox_next(p->w[0], NULL, &p->cmd), POSTBAG_EINVAL);
    assert_int_equal(postbag_inbox_next(p->w[0], "p", NULL), POSTBAG_EINVAL);
    assert_int_equal(postbag_inbox_done(NULL, 1), POSTBAG_EINVAL);
    assert_int_equal(
        postbag_inbox_put_off(p->w[0], 1, &how, NULL), POSTBAG_EVERSION);
    assert_int_equal(
        postbag_inbox_put_off(NULL, 1, NULL, NULL), POSTBAG_EINVAL);
}

/* A program of before: nothing behind its struct is written. */
static void test_pull_fills_an_older_struct(void **state)
{
    struct pullers *p = *state;

    world_deliver(p->world, "1", NULL);
    memset(&p->cmd, 0, sizeof(p->cmd));
    p->cmd.struct_size = offsetof(struct postbag_command, traceparent);
    p->cmd.key_version = 99;
    assert_ok(postbag_inbox_next(p->w[0], "p", &p->cmd));
    assert_string_equal(p->cmd.id, "1");
    assert_int_equal(p->cmd.key_version, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_pull_effect_and_mark_commit_together),
        TEST_IN(test_pull_all_of_a_command_is_kept_until_the_next),
        TEST_IN(test_pull_keeps_the_order_of_a_key),
        TEST_IN(test_pull_look_holds_nothing),
        TEST_IN(test_pull_only_the_first_of_two_is_done),
        TEST_IN(test_pull_done_needs_the_transaction_of_its_effect),
        TEST_IN(test_pull_reply_commits_and_is_repeated),
        TEST_IN(test_pull_reply_goes_where_it_may),
        TEST_IN(test_pull_writer_without_topics_gives_no_reply),
        TEST_IN(test_pull_worker_passes_over),
        TEST_IN(test_pull_worker_ends_what_waits_for_a_version),
        TEST_IN(test_pull_refuses_what_it_does_not_know),
        TEST_IN(test_pull_fills_an_older_struct),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
