/* SPDX-License-Identifier: MIT */
/*
 * SQLite fails in any statement, again and again, at random; then it works.
 * Until then each step may say so and nothing else; afterwards every message
 * has left or is accounted for, and verify
 * has nothing to say.
 */
#include "config.h"
#include "failing_sql.h"
#include "postbag/care.h"
#include "relay.h"

/* ---- messages ---------------------------------------------------------- */

enum { PUTS = 40 };

static void put_all(struct relay *r)
{
    sql_run(r->world->t.app,
        "INSERT INTO outbox(topic, payload, key, priority, coalesce, ttl_ms,"
        "  headers)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT iif(i %% 9 = 0, 'bad', 't' || i), 'payload',"
        "  iif(i %% 3, 'k' || (i %% 5), NULL), iif(i %% 7, 0, i %% 4),"
        "  iif(i %% 8 = 3, 'c', NULL), iif(i %% 10 = 4, 20000, NULL),"
        "  iif(i %% 4 = 1, '{\"a\":\"b\"}', NULL) FROM n",
        PUTS);
}

static void open_again(struct relay *r)
{
    struct postbag_fault why = {0};
    int err;

    if (postbag__config_copy(&r->config, &r->options, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
    if (r->window != 0)
        r->config.window = r->window;
    err = postbag__engine_open(&r->e, &r->config, &r->consumers, &why);
    if (err == POSTBAG_OK) {
        r->is_open = 1;
        return;
    }
    assert_int_equal(why.code, err);
    postbag__config_free(&r->config);
    r->out = fake_transport_new();
    r->options.transport = &r->out->base;
}

static void set_script(struct relay *r)
{
    r->out->auto_settle = 1;
    r->out->refuse_topic = "bad";
    r->out->refuse_reason = draw(2) ? 0x87 : 0x90;
}

static int see_row(void *ctx, const struct postbag_row *row)
{
    (void)ctx;
    assert_non_null(row->topic);
    return 0;
}

static int see_command(void *ctx, const struct postbag_inbox_row *row)
{
    (void)ctx;
    assert_true(row->arrival > 0);
    return 0;
}

static int see_dest(void *ctx, const char *name)
{
    (void)ctx;
    assert_non_null(name);
    return 0;
}

static int sync_nothing(void *ctx)
{
    (void)ctx;
    return 0;
}

static int see_finding(
    void *ctx, const char *check, const char *dest, const char *text)
{
    if (one_in == 0)
        fail_msg("%s %s: %s", check, dest == NULL ? "" : dest, text);
    ++*(int *)ctx;
    return 0;
}

/* An error is told, and is the one that comes back. */
static void check_fault(struct postbag_admin *a, int err, const char *call)
{
    const struct postbag_fault *fault = postbag_admin_fault(a);

    if (err != POSTBAG_OK && fault->code != err)
        fail_msg("%s: %d came back, and told is %d: %s", call, err, fault->code,
            fault->text);
}

#define may_fail(a, call) check_fault(a, call, #call)

static void look(struct postbag_admin *a)
{
    int findings = 0;
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .finding = see_finding, .ctx = &findings};
    const struct postbag_row_filter all = {.struct_size = sizeof(all)};
    const struct postbag_inbox_filter in = {.struct_size = sizeof(in)};
    struct postbag_database d = {.struct_size = sizeof(d)};
    struct postbag_status s = {.struct_size = sizeof(s)};

    may_fail(a, postbag_admin_database(a, &d));
    may_fail(a, postbag_admin_destinations(a, see_dest, NULL));
    may_fail(a, postbag_admin_status(a, NULL, &s));
    may_fail(a, postbag_admin_list(a, &all, see_row, NULL));
    may_fail(a, postbag_admin_show(a, NULL, 3, NULL, see_row, NULL));
    may_fail(a, postbag_admin_inbox_list(a, &in, see_command, NULL));
    may_fail(a, postbag_admin_verify(a, &v));
}

static void repair(struct postbag_admin *a)
{
    const struct postbag_replay replay = {
        .struct_size = sizeof(replay), .max_rows = 2};
    const struct postbag_archive archive = {
        .struct_size = sizeof(archive), .row = see_row, .sync = sync_nothing};
    const struct postbag_inbox_choice all = {.struct_size = sizeof(all)};

    switch (draw(7)) {
    case 0:
        may_fail(a, postbag_admin_requeue(a, NULL, 0, NULL, NULL));
        break;
    case 1:
        may_fail(a, postbag_admin_replay(a, &replay, NULL, NULL));
        break;
    case 2:
        may_fail(a, postbag_admin_archive(a, &archive, NULL, NULL));
        break;
    case 3:
        may_fail(a, postbag_admin_purge(a, 5, NULL));
        break;
    case 4:
        may_fail(a, postbag_admin_inbox_requeue(a, &all, NULL));
        break;
    case 5:
        may_fail(a, postbag_admin_dest_add(a, "two", POSTBAG_FROM_NOW));
        break;
    default:
        may_fail(a, postbag_admin_dest_remove(a, "two"));
    }
}

static void administer(struct relay *r)
{
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = r->world->t.path,
        .port = &r->world->sim.port,
        .writable = 1,
        .busy_ms = 1};
    struct postbag_fault why = {0};
    struct postbag_admin *a;

    if (postbag_admin_open(&a, &c, &why) != POSTBAG_OK) {
        assert_true(one_in > 0 && why.code != POSTBAG_OK);
        return;
    }
    look(a);
    repair(a);
    postbag_admin_close(a);
}

/* Some of a life while it fails. */
static void live(struct relay *r)
{
    if (!r->is_open)
        open_again(r);
    if (r->is_open && r->out->connects == 0)
        set_script(r);
    if (r->is_open)
        relay_run_ms(r, 200 + draw(4000));
    if (draw(3) == 0)
        administer(r);
    if (r->is_open && draw(8) == 0)
        relay_kill(r);
    if (!r->is_open && r->out == NULL) {
        r->out = fake_transport_new();
        r->options.transport = &r->out->base;
    }
}

static void heal(struct bench *b)
{
    struct relay *r = &b->r;

    one_in = 0;
    if (!r->is_open)
        open_again(r);
    assert_true(r->is_open);
    set_script(r);
    relay_run_ms(r, 3600000);
    assert_ok(r->err);
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_status"
                                         " WHERE dest = 'main' AND state NOT IN"
                                         " ('published', 'dropped', 'dead',"
                                         "  'retry', 'behind')"),
        0);
    administer(r);
}

static void live_once(uint64_t seed)
{
    struct bench *b;

    begin_life(seed);
    assert_int_equal(bench_set_up((void **)&b), 0);
    b->r.window = 4;
    b->r.options.max_attempts = 2;
    b->r.options.dead_max_rows = 2;
    b->r.options.keep_s = 5;
    put_all(&b->r);
    one_in = 20 + draw(400);
    for (int i = 0; i < 12; i++)
        live(&b->r);
    heal(b);
    assert_int_equal(bench_tear_down((void **)&b), 0);
}

static void test_no_statement_relay_delivers_once_sqlite_works(void **state)
{
    (void)state;
    run_lives("F16_statements", 15, live_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_statement_relay_delivers_once_sqlite_works),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
