/* SPDX-License-Identifier: MIT */
/* Opening, or failing to with nothing left behind; and the events that the
 * transport raises. */
#include <sqlite3.h>

#include "config.h"
#include "relay.h"
#include "unit.h"

/* ---- opening ---- */

static void test_engine_open_with_a_failing_port_fails_and_frees(void **state)
{
    static const struct {
        enum sim_call call;
        int err;
    } all[] = {
        {SIM_GATE_NEW, POSTBAG_ENOMEM},
        {SIM_WAKE_NEW, POSTBAG_ENOMEM},
        {SIM_STORAGE_CHECK, POSTBAG_ESTORAGE},
        {SIM_STORAGE_CHECK, POSTBAG_EIO},
        {SIM_BOOT_ID, POSTBAG_EIO},
        {SIM_RANDOM, POSTBAG_EIO},
    };
    struct bench *b = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        struct postbag_fault why = {0};

        b->w.sim.fails[all[i].call] = all[i].err;
        assert_int_equal(relay_cannot_open(&b->r, &why), all[i].err);
        assert_int_not_equal(why.text[0], '\0');
        b->w.sim.fails[all[i].call] = 0;
    }
    (void)bench_up(b);
}

static void test_engine_open_names_the_option_that_is_wrong(void **state)
{
    struct bench *b = *state;
    struct postbag_fault why;

    b->r.options.envelope = "xml";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "option envelope is xml");
    b->r.options.envelope = NULL;
    b->r.options.identity = "id,traceparent";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "identity");
    b->r.options.identity = NULL;
    b->r.options.no_identity = "guess";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "no_identity");
    b->r.options.no_identity = NULL;
    b->r.options.version_back = "reject";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "version_back");
    b->r.options.version_back = NULL;
    b->r.options.overflow = "drop";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "option overflow is drop");
    b->r.options.overflow = NULL;
    b->r.options.db_path = "/nowhere/at/all/gw.db";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EIO);
    assert_has(why.text, "/nowhere/at/all/gw.db");
}

/* A command that is forgotten before the broker forgets it is handled twice. */
static void test_engine_open_warns_of_a_window_below_the_session(void **state)
{
    struct bench *b = *state;

    b->r.options.inbox_keep_s = 604799;
    relay_open(&b->r);
    assert_null(strstr(b->r.log, "inbox_keep_s")); /* no commands at all */
    relay_close(&b->r);
    relay_init(&b->r, &b->w);
    b->r.options.inbound = &fake_transport_new()->base;
    relay_open(&b->r);
    assert_null(strstr(b->r.log, "inbox_keep_s")); /* by default it is enough */
    relay_close(&b->r);
    relay_init(&b->r, &b->w);
    b->r.options.inbound = &fake_transport_new()->base;
    b->r.options.inbox_keep_s = 604799;
    relay_open(&b->r);
    assert_has(b->r.log,
        "inbox_keep_s (604799) is less than session_expiry_s (604800)");
}

static void test_engine_open_of_an_unfit_database_is_refused(void **state)
{
    static const struct {
        const char *sql;
        int err;
    } all[] = {
        {"PRAGMA encoding='UTF-16le'; CREATE TABLE app(v)", POSTBAG_ESTORAGE},
        {"CREATE TABLE outbox(a)", POSTBAG_ESCHEMA},
    };
    struct bench *b = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        struct tempdb other;
        struct postbag_fault why;

        tempdb_make(&other);
        assert_int_equal(sqlite3_open(other.path, &other.app), SQLITE_OK);
        sql_run(other.app, "%s", all[i].sql);
        b->r.options.db_path = other.path;
        assert_int_equal(relay_cannot_open(&b->r, &why), all[i].err);
        tempdb_remove(&other);
    }
}

static void test_engine_open_creates_the_file_and_its_tables(void **state)
{
    struct bench *b = *state;
    struct tempdb fresh;

    tempdb_make(&fresh);
    b->r.options.db_path = fresh.path;
    b->r.options.max_payload = 100;
    relay_open(&b->r);
    fresh.app = tempdb_connect(&fresh);
    sql_fails(fresh.app, "max_payload",
        "INSERT INTO outbox(topic, payload) VALUES ('t', zeroblob(101))");
    relay_close(&b->r);
    tempdb_remove(&fresh);
}

/* The first open remembers where the database is. */
static void open_once(struct bench *b)
{
    relay_open(&b->r);
    relay_kill(&b->r);
    relay_init(&b->r, &b->w);
}

static void test_engine_open_again_writes_nothing(void **state)
{
    struct bench *b = *state;
    int64_t before;

    open_once(b);
    before = sql_get(b->w.t.app, "PRAGMA data_version");
    relay_open(&b->r);
    relay_kill(&b->r);
    assert_int_equal(sql_get(b->w.t.app, "PRAGMA data_version"), before);
}

/* The usual open asks for no lock, so a long transaction does not matter. */
static void test_engine_open_beside_a_long_transaction_does_not_wait(
    void **state)
{
    struct bench *b = *state;

    open_once(b);
    sql_run(b->w.t.app, "BEGIN IMMEDIATE");
    relay_open(&b->r);
    relay_kill(&b->r);
    sql_run(b->w.t.app, "COMMIT");
}

static void test_engine_open_of_an_unknown_destination_is_refused(void **state)
{
    struct bench *b = *state;
    struct postbag_fault why;

    b->r.options.dest = "cluod";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_ENOTFOUND);
    assert_has(why.text, "no destination cluod: add it (postbag dest add)");
    b->r.options.dest_from = "today";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "option dest_from is today");
    b->r.options.dest_from = "now";
    b->r.options.dest = "a/b";
    assert_int_equal(relay_cannot_open(&b->r, &why), POSTBAG_EINVAL);
    assert_has(why.text, "name is \"a/b\"");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_dest"), 1);
}

/* What a relay sends that adds its destination after t1 and t2 were put. */
static void assert_sends(struct bench *b, const char *from, const char *topics)
{
    struct relay *r = &b->r;

    relay_put(r, "t", 2);
    r->options.dest = "cloud";
    r->options.dest_from = from;
    (void)bench_up(b);
    relay_put(r, "u", 1);
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 0), topics);
    assert_has(r->log, "destination cloud is new");
}

static void test_engine_open_adds_a_destination_from_oldest(void **state)
{
    assert_sends(*state, "oldest", "t1 t2 u1");
}

static void test_engine_open_adds_a_destination_from_now(void **state)
{
    assert_sends(*state, "now", "u1");
}

/* ---- events ---- */

static void test_engine_events_wake_the_thread(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    unsigned before;

    relay_put(r, "t", 1);
    relay_run_ms(r, 1);
    before = b->w.sim.calls[SIM_WAKE];
    fake_settle(r->out, 0, 0);
    assert_int_equal(b->w.sim.calls[SIM_WAKE], before + 1);
    fake_lose(r->out, POSTBAG_ELINK, 0);
    assert_int_equal(b->w.sim.calls[SIM_WAKE], before + 2);
}

static void test_engine_told_of_too_many_settled_sends_says_so(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 2;
    r = bench_up(b);
    for (uint32_t i = 0; i < 3; i++)
        r->out->up->settled(r->out->up->ctx, i, POSTBAG_OK, 0, NULL);
    assert_has(r->log, "settled more sends than it accepted");
    relay_run_ms(r, 10); /* and ignores what names no send of ours */
    assert_int_equal(r->e.sender.delivered, 0);
}

static void test_engine_takes_no_message_on_the_outbound_link(void **state)
{
    const struct postbag_frame f = {.topic = "t"};
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    assert_int_equal(
        r->out->up->arrived(r->out->up->ctx, 1, &f), POSTBAG_ESTATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_engine_open_with_a_failing_port_fails_and_frees),
        BENCH(test_engine_open_names_the_option_that_is_wrong),
        BENCH(test_engine_open_warns_of_a_window_below_the_session),
        BENCH(test_engine_open_of_an_unfit_database_is_refused),
        BENCH(test_engine_open_creates_the_file_and_its_tables),
        BENCH(test_engine_open_again_writes_nothing),
        BENCH(test_engine_open_beside_a_long_transaction_does_not_wait),
        BENCH(test_engine_open_of_an_unknown_destination_is_refused),
        BENCH(test_engine_open_adds_a_destination_from_oldest),
        BENCH(test_engine_open_adds_a_destination_from_now),
        BENCH(test_engine_events_wake_the_thread),
        BENCH(test_engine_told_of_too_many_settled_sends_says_so),
        BENCH(test_engine_takes_no_message_on_the_outbound_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
