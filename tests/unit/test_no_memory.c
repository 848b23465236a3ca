/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out at any moment: what was to be opened is not and leaves
 * nothing behind, what was to be sent is sent later.  The linker puts these
 * functions before those of mem.c.
 */
#include <stdlib.h>

#include "config.h"
#include "mem.h"
#include "postbag/pull.h"
#include "relay.h"
#include "unit.h"
#include "writer.h"

void *__real_postbag__alloc(size_t size);
void *__real_postbag__resize(void *ptr, size_t size);
char *__real_postbag__copy(const char *text);
void *__wrap_postbag__alloc(size_t size);
void *__wrap_postbag__resize(void *ptr, size_t size);
char *__wrap_postbag__copy(const char *text);

static int left = -1; /* requests until one fails; -1: none fails */
static int failed;
static int failures;

static int fails(void)
{
    if (left < 0 || left-- > 0)
        return 0;
    failed = 1;
    failures++;
    return 1;
}

void *__wrap_postbag__alloc(size_t size)
{
    return fails() ? NULL : __real_postbag__alloc(size);
}

void *__wrap_postbag__resize(void *ptr, size_t size)
{
    return fails() ? NULL : __real_postbag__resize(ptr, size);
}

char *__wrap_postbag__copy(const char *text)
{
    return fails() ? NULL : __real_postbag__copy(text);
}

static void fail_at(int n)
{
    left = n;
    failed = 0;
}

static void test_no_memory_at_open_fails_and_frees_all(void **state)
{
    struct bench *b = *state;
    int n = 0;
    int err;

    do {
        struct postbag *p;
        struct postbag_fault why = {0};
        unsigned destroyed = 0;

        b->r.out->destroyed = &destroyed;
        fail_at(n++);
        err = postbag_open(&p, &b->r.options, &why);
        left = -1;
        assert_int_equal(err, failed ? POSTBAG_ENOMEM : POSTBAG_OK);
        postbag_close(p);
        assert_int_equal(destroyed, 1);
        b->r.out = fake_transport_new();
        b->r.options.transport = &b->r.out->base;
    } while (err != POSTBAG_OK);
    assert_true(n > 10); /* it was the number of requests */
}

/* Rows each larger than all before, so that every buffer grows. */
static void check_rows(struct bench *b, unsigned mqtt_version)
{
    struct relay *r;

    b->r.options.max_payload = 1 << 20;
    b->r.out->link.mqtt_version = mqtt_version;
    r = bench_up(b);
    r->out->auto_settle = 1;
    failures = 0;
    for (int n = 0; n < 6; n++) {
        sql_run(b->w.t.app,
            "INSERT INTO outbox(topic, payload) VALUES ('t', randomblob(%d))",
            5000 << n);
        fail_at(n % 3);
        relay_run_ms(r, 1);
        left = -1;
        relay_idle_ms(r, 1000);
        assert_int_equal(r->out->count, n + 1);
        assert_true(r->out->sent[n].payload_len >= (size_t)(5000 << n));
    }
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 0);
    assert_in_range(failures, 2, 6);
}

static void test_no_memory_for_a_row_sends_it_later(void **state)
{
    check_rows(*state, 5);
}

static void test_no_memory_for_an_envelope_sends_it_later(void **state)
{
    check_rows(*state, 4);
}

static void test_no_memory_for_a_writer_is_said(void **state)
{
    struct bench *b = *state;
    const struct postbag_writer_config c = {
        .struct_size = sizeof(c), .db = b->w.t.app, .port = &b->w.sim.port};
    struct postbag_writer *w;
    struct postbag_fault why = {0};

    fail_at(0);
    assert_int_equal(postbag_writer_open(&w, &c, &why), POSTBAG_ENOMEM);
    left = -1;
    assert_null(w);
    assert_int_equal(why.code, POSTBAG_ENOMEM);
}

static void test_no_memory_for_a_pulled_command_leaves_it_due(void **state)
{
    struct bench *b = *state;
    const struct postbag_writer_config c = {
        .struct_size = sizeof(c), .db = b->w.t.app, .port = &b->w.sim.port};
    struct postbag_command cmd = {.struct_size = sizeof(cmd)};
    struct postbag_writer *w;

    sql_run(b->w.t.app, "INSERT INTO inbox(consumer, id, topic, received_ms)"
                        " VALUES ('a', '1', 't', 0)");
    assert_ok(postbag_writer_open(&w, &c, NULL));
    fail_at(0);
    assert_int_equal(postbag_inbox_next(w, "a", &cmd), POSTBAG_ENOMEM);
    left = -1;
    assert_ok(postbag_inbox_next(w, "a", &cmd));
    assert_string_equal(cmd.topic, "t");
    postbag_writer_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_no_memory_at_open_fails_and_frees_all),
        BENCH(test_no_memory_for_a_row_sends_it_later),
        BENCH(test_no_memory_for_an_envelope_sends_it_later),
        BENCH(test_no_memory_for_a_writer_is_said),
        BENCH(test_no_memory_for_a_pulled_command_leaves_it_due),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
