/* SPDX-License-Identifier: MIT */
/* A relay meets the database it left, or another one. */
#include "witness.h"

#include <unistd.h>

#include "relay.h"
#include "unit.h"
#include "wal_syncs.h"

static const char *stream(struct bench *b)
{
    static char out[40];

    (void)snprintf(out, sizeof(out), "%s",
        sql_text(b->w.t.app,
            "SELECT hex(value) FROM outbox_meta WHERE key = 'stream'"));
    return out;
}

static const char *witness_path(struct bench *b)
{
    static char path[160];

    (void)snprintf(path, sizeof(path), "%s-witness", b->w.t.path);
    return path;
}

/* newest, as noted; -1: no note. */
static int64_t noted(struct bench *b)
{
    const struct postbag_port *port = &b->w.sim.port;
    char text[WITNESS_NOTE_BYTES + 1];
    struct witness_note n;
    size_t len;

    if (port->read_file(port->ctx, witness_path(b), text, sizeof(text) - 1,
            &len) != POSTBAG_OK)
        return -1;
    text[len] = '\0';
    assert_ok(postbag__witness_parse(text, &n));
    return n.newest;
}

static void stop(struct bench *b)
{
    if (b->r.is_open)
        relay_close(&b->r);
}

/* As after kill -9: another relay, which is up and has sent what waits. */
static struct relay *again(struct bench *b)
{
    struct relay *r;

    if (b->r.is_open)
        relay_kill(&b->r);
    else if (b->r.out != NULL)
        b->r.out->base.ops->destroy(&b->r.out->base);
    relay_init(&b->r, &b->w);
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    relay_run_ms(r, 3000);
    return r;
}

/* The stream id as it was before. */
static char was[40];

static void remember(struct bench *b)
{
    (void)snprintf(was, sizeof(was), "%s", stream(b));
}

/* A relay has sent three messages and stopped. */
static void live(struct bench *b)
{
    struct relay *r = again(b);

    relay_put(r, "t", 3);
    relay_run_ms(r, 3000);
    stop(b);
    remember(b);
}

static void assert_same(struct bench *b)
{
    struct relay *r = again(b);

    assert_string_equal(stream(b), was);
    assert_null(strstr(r->log, "new stream"));
    assert_int_equal(r->out->count, 0);
    stop(b);
}

/* By the next relay, and by no later one. */
static void assert_seen(struct bench *b, const char *text, const char *sends)
{
    struct relay *r = again(b);

    assert_string_not_equal(stream(b), was);
    assert_has(r->log, text);
    assert_has(r->log, "new stream");
    assert_string_equal(fake_topics(r->out, 0), sends);
    stop(b);
    remember(b);
    assert_same(b);
}

/* ---- the same ---- */

static void test_witness_same_database_keeps_its_stream(void **state)
{
    struct bench *b = *state;

    live(b);
    assert_int_equal(noted(b), 3);
    assert_same(b);
    relay_put(again(b), "u", 2);
    relay_run_ms(&b->r, 3000);
    assert_same(b); /* killed */
    assert_int_equal(unlink(witness_path(b)), 0);
    assert_same(b);
    assert_int_equal(noted(b), 5);
}

/* An image for many devices that has the tables already. */
static void test_witness_first_relay_begins_a_stream_of_its_own(void **state)
{
    struct bench *b = *state;

    remember(b);
    assert_null(strstr(again(b)->log, "stream"));
    assert_string_not_equal(stream(b), was);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT key, typeof(value) FROM outbox_meta"
                             " WHERE key IN ('file', 'machine') ORDER BY key"),
        "file|integer machine|blob");
}

/* ---- not the same ---- */

static void test_witness_older_copy_is_seen_and_nothing_is_skipped(void **state)
{
    struct bench *b = *state;

    live(b);
    /* as if the third had not been put, and the second not delivered */
    sql_run(b->w.t.app, "DROP TRIGGER outbox_newest;"
                        "DELETE FROM outbox WHERE seq = 3;"
                        "UPDATE outbox_cursor SET acked = 1, settled_rows = 1,"
                        " delivered = 1 WHERE lane = 0");
    assert_seen(b, "older than what its relay last saw", "t2");
    assert_int_equal(noted(b), 2);
}

static void test_witness_copies_of_files_are_seen(void **state)
{
    struct bench *b = *state;

    live(b);
    b->w.sim.file = 77;
    assert_same(b); /* the witness says that it is all there */
    b->w.sim.file = 78;
    assert_int_equal(unlink(witness_path(b)), 0);
    assert_seen(b, "is a copy of another file", "");
}

static void test_witness_another_machine_is_seen(void **state)
{
    struct bench *b = *state;

    live(b);
    b->w.sim.machine = 2;
    assert_seen(b, "comes from another machine", "");
}

/* After the new stream id, before the witness: seen once more. */
static void test_witness_power_cut_between_is_harmless(void **state)
{
    struct bench *b = *state;

    live(b);
    b->w.sim.machine = 2;
    b->w.sim.fails[SIM_REPLACE_FILE] = POSTBAG_EIO;
    assert_has(again(b)->log, "comes from another machine");
    b->w.sim.fails[SIM_REPLACE_FILE] = 0;
    remember(b);
    assert_seen(b, "stands where another one was", "");
}

/* ---- the note ---- */

static void test_witness_is_written_seldom_and_never_when_idle(void **state)
{
    struct bench *b = *state;
    struct relay *r = again(b);
    unsigned before;

    relay_put(r, "t", 1);
    relay_run_ms(r, 3000);
    before = b->w.sim.calls[SIM_REPLACE_FILE];
    for (int i = 0; i < 59; i++) {
        relay_put(r, "t", 1);
        relay_run_ms(r, 10 * 1000);
    }
    assert_in_range(b->w.sim.calls[SIM_REPLACE_FILE], before, before + 1);
    relay_run_ms(r, 600 * 1000);
    assert_int_equal(noted(b), 60);
    before = b->w.sim.calls[SIM_REPLACE_FILE];
    relay_idle_ms(r, 3 * 3600 * 1000);
    assert_int_equal(b->w.sim.calls[SIM_REPLACE_FILE], before);
    relay_close(r);
    assert_int_equal(b->w.sim.calls[SIM_REPLACE_FILE], before);
}

static void test_witness_that_cannot_be_written_is_told_once(void **state)
{
    struct bench *b = *state;
    const char *told;
    struct relay *r;

    b->w.sim.fails[SIM_REPLACE_FILE] = POSTBAG_ENOSPC;
    r = again(b);
    for (int i = 0; i < 3; i++) {
        relay_put(r, "t", 1);
        relay_run_ms(r, 700 * 1000);
    }
    told = strstr(r->log, "-witness cannot be written");
    assert_non_null(told);
    assert_null(strstr(told + 1, "-witness cannot be written"));
    assert_int_equal(r->errors, 0);
    assert_int_equal(r->out->count, 3);
}

static void test_witness_that_cannot_be_read_is_none(void **state)
{
    struct bench *b = *state;

    live(b);
    b->w.sim.fails[SIM_READ_FILE] = POSTBAG_EIO;
    assert_same(b);
    b->w.sim.fails[SIM_READ_FILE] = 0;
    again(b);
    assert_null(strstr(b->r.log, "cannot be read"));
}

/* A power cut must not make the database older than its witness. */
static void test_witness_says_only_what_is_on_disk(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    live(b);
    b->r.out = NULL;
    relay_init(&b->r, &b->w);
    b->r.options.skip_sync_before_send = 1;
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    relay_run_ms(r, 700 * 1000);
    relay_put(r, "t", 1);
    wal_syncs_fail = 1;
    relay_run_ms(r, 3000);
    wal_syncs_fail = 0;
    assert_int_equal(r->out->count, 1);
    assert_int_equal(noted(b), 3);
}

static void test_witness_needs_all_three_of_the_port(void **state)
{
    struct bench *b = *state;

    live(b);
    b->w.sim.machine = 2;
    b->w.sim.port.file_id = NULL;
    assert_same(b);
    assert_int_equal(unlink(witness_path(b)), 0);
    relay_put(again(b), "t", 1);
    relay_run_ms(&b->r, 3000);
    stop(b);
    assert_int_equal(noted(b), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_witness_same_database_keeps_its_stream),
        BENCH(test_witness_first_relay_begins_a_stream_of_its_own),
        BENCH(test_witness_older_copy_is_seen_and_nothing_is_skipped),
        BENCH(test_witness_copies_of_files_are_seen),
        BENCH(test_witness_another_machine_is_seen),
        BENCH(test_witness_power_cut_between_is_harmless),
        BENCH(test_witness_is_written_seldom_and_never_when_idle),
        BENCH(test_witness_that_cannot_be_written_is_told_once),
        BENCH(test_witness_that_cannot_be_read_is_none),
        BENCH(test_witness_says_only_what_is_on_disk),
        BENCH(test_witness_needs_all_three_of_the_port),
    };

    wal_syncs_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
