/* SPDX-License-Identifier: MIT */
/* Answers: to the sender's topic if that is allowed, with its marks. */
#include "inbox_world.h"

#include "writer.h"

/* What the handler answers, and what came of it. */
struct answer {
    struct postbag_message m;
    enum postbag_outcome outcome;
    int err;
};

static enum postbag_outcome answer(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    struct answer *a = ctx;

    a->err = postbag_reply(w, cmd, &a->m, NULL);
    return a->outcome;
}

static struct answer reply;

static int set_up(void **state)
{
    struct inbox_world *w = world_new();

    memset(&reply, 0, sizeof(reply));
    reply.m.struct_size = sizeof(reply.m);
    reply.m.payload = "ok";
    reply.m.payload_len = 2;
    world_add(w, "a", "cmd/a", answer, &reply);
    world_open_receiver(w, 100);
    world_open_worker(w, "re/#, answers/+/res");
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world_free(*state);
    return 0;
}

/* Deliver a request and handle it; the error of postbag_reply. */
static int ask(struct inbox_world *w, const char *response_topic,
    const void *correlation, size_t correlation_len)
{
    const struct postbag_property p[] = {{"id", "cmd-7"},
        {"traceparent", "00-aa-bb-01"}, {"tracestate", "v=\"1\""},
        {"correlationid", "order-5"}, {"baggage", "secret"}};
    const struct postbag_frame f = {.topic = "cmd/a",
        .response_topic = response_topic,
        .correlation = correlation,
        .correlation_len = correlation_len,
        .properties = p,
        .property_count = 5};

    assert_int_equal(postbag__receiver_accept(w->receiver, 1, &f), POSTBAG_OK);
    assert_int_equal(world_run_one(w), 1);
    return reply.err;
}

static int64_t outbox_rows(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT count(*) FROM outbox");
}

/* Is this member of the only reply's headers so?  NULL: it is not there. */
static void expect_header(
    struct inbox_world *w, const char *name, const char *value)
{
    char sql[200];

    (void)snprintf(sql, sizeof(sql),
        "SELECT json_extract(headers, '$.%s') IS %s%s%s FROM outbox", name,
        value == NULL ? "" : "'", value == NULL ? "NULL" : value,
        value == NULL ? "" : "'");
    if (temp_db_get(&w->t, sql) != 1)
        fail_msg("%s is not %s", name, value == NULL ? "absent" : value);
}

static void test_reply_goes_to_response_topic_with_the_mark(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(ask(w, "re/1", "c-1", 3), POSTBAG_OK);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM outbox"
                           " WHERE topic = 're/1' AND payload = x'6f6b'"),
        1);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox WHERE state = 'done'"),
        1);
    expect_header(w, "correlation_data", "c-1");
    expect_header(w, "correlation_data_hex", NULL);
    expect_header(w, "causationid", "cmd-7");
    expect_header(w, "correlationid", "order-5");
    expect_header(w, "traceparent", "00-aa-bb-01");
    expect_header(w, "tracestate", "v=\"1\"");
    expect_header(w, "baggage", NULL);
    expect_header(w, "id", NULL);
}

static void test_reply_is_undone_with_its_transaction(void **state)
{
    struct inbox_world *w = *state;

    reply.outcome = POSTBAG_RETRY;
    assert_int_equal(ask(w, "re/1", NULL, 0), POSTBAG_OK);
    assert_int_equal(outbox_rows(w), 0);
}

static void test_reply_without_correlation_has_none(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(ask(w, "re/1", NULL, 0), POSTBAG_OK);
    expect_header(w, "correlation_data", NULL);
    expect_header(w, "correlation_data_hex", NULL);
}

static void test_reply_unprintable_correlation_is_hex(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *hex;
    } all[] = {{"\0\xff", 2, "00ff"}, {"a\n", 2, "610a"}, {"\x7f", 1, "7f"},
        {"a\0", 2, "6100"}, {"\xc3", 1, "c3"}};
    struct inbox_world *w = *state;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char sql[400];
        const struct postbag_command cmd = {.struct_size = sizeof(cmd),
            .response_topic = "re/1",
            .correlation = all[i].bytes,
            .correlation_len = all[i].len,
            .id = all[i].bytes,
            .id_len = all[i].len};
        struct postbag_writer *writer;

        assert_int_equal(
            postbag__writer_open(&writer, w->t.db.handle, &w->port, NULL, NULL),
            POSTBAG_OK);
        writer->reply_topics = "re/#";
        temp_db_run(&w->t, "BEGIN IMMEDIATE");
        assert_int_equal(
            postbag_reply(writer, &cmd, &reply.m, NULL), POSTBAG_OK);
        (void)snprintf(sql, sizeof(sql),
            "SELECT json_extract(headers, '$.correlation_data_hex') = '%s'"
            " AND json_extract(headers, '$.correlation_data') IS NULL"
            " AND json_extract(headers, '$.causationid') = '%s'"
            " FROM outbox ORDER BY seq DESC LIMIT 1",
            all[i].hex, all[i].hex);
        assert_int_equal(temp_db_get(&w->t, sql), 1);
        temp_db_run(&w->t, "COMMIT");
        postbag_writer_close(writer);
    }
}

static void test_reply_own_headers_win(void **state)
{
    struct inbox_world *w = *state;

    reply.m.headers = "{\"traceparent\":\"mine\",\"subject\":\"valve\"}";
    assert_int_equal(ask(w, "answers/x/res", "c-1", 3), POSTBAG_OK);
    expect_header(w, "traceparent", "mine");
    expect_header(w, "tracestate", "v=\"1\"");
    expect_header(w, "subject", "valve");
    expect_header(w, "correlation_data", "c-1");
}

static void test_reply_headers_must_be_an_object(void **state)
{
    static const char *const all[] = {"{", "[1]", "text", "1"};
    struct inbox_world *w = *state;

    reply.outcome = POSTBAG_RETRY;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        reply.m.headers = all[i];
        temp_db_run(&w->t, "DELETE FROM inbox");
        assert_int_equal(ask(w, "re/1", NULL, 0), POSTBAG_EINVAL);
    }
    assert_int_equal(outbox_rows(w), 0);
}

static void test_reply_to_other_topics_is_refused(void **state)
{
    static const char *const all[] = {
        "other", "answers/x", "answers/x/y/res", "re/+", "re/#", "$SYS/re"};
    struct inbox_world *w = *state;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        temp_db_run(&w->t, "DELETE FROM inbox");
        if (ask(w, all[i], NULL, 0) != POSTBAG_EREFUSED)
            fail_msg("%s was not refused", all[i]);
    }
    assert_int_equal(outbox_rows(w), 0);
}

static void test_reply_is_refused_where_nothing_is_allowed(void **state)
{
    struct inbox_world *w = *state;

    postbag__worker_close(w->worker);
    world_open_worker(w, NULL);
    assert_int_equal(ask(w, "re/1", NULL, 0), POSTBAG_EREFUSED);
    assert_int_equal(outbox_rows(w), 0);
}

static void test_reply_without_response_topic_is_not_found(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(ask(w, NULL, NULL, 0), POSTBAG_ENOTFOUND);
}

static void test_reply_wrong_arguments_are_told(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(postbag_reply(NULL, NULL, &reply.m, NULL), POSTBAG_EINVAL);
    reply.m.topic = "mine";
    assert_int_equal(ask(w, "re/1", NULL, 0), POSTBAG_EINVAL);
    reply.m.topic = NULL;
    reply.m.struct_size = 0;
    temp_db_run(&w->t, "DELETE FROM inbox");
    assert_int_equal(ask(w, "re/1", NULL, 0), POSTBAG_EVERSION);
    assert_int_equal(outbox_rows(w), 0);
}

/* A writer of the application has no list of topics. */
static void test_reply_outside_a_handler_is_refused(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_command cmd = {
        .struct_size = sizeof(cmd), .response_topic = "re/1"};
    struct postbag_writer *writer;

    assert_int_equal(
        postbag__writer_open(&writer, w->t.db.handle, &w->port, NULL, NULL),
        POSTBAG_OK);
    assert_int_equal(
        postbag_reply(writer, &cmd, &reply.m, NULL), POSTBAG_EINVAL);
    postbag_writer_close(writer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_reply_goes_to_response_topic_with_the_mark),
        TEST(test_reply_is_undone_with_its_transaction),
        TEST(test_reply_without_correlation_has_none),
        TEST(test_reply_unprintable_correlation_is_hex),
        TEST(test_reply_own_headers_win),
        TEST(test_reply_headers_must_be_an_object),
        TEST(test_reply_to_other_topics_is_refused),
        TEST(test_reply_is_refused_where_nothing_is_allowed),
        TEST(test_reply_without_response_topic_is_not_found),
        TEST(test_reply_wrong_arguments_are_told),
        TEST(test_reply_outside_a_handler_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
