/* SPDX-License-Identifier: MIT */
/*
 * What is on disk when it must be, and what does not pay for it: the syncs of
 * the WAL, duty by duty.
 */
#include "wal_syncs.h"

#include "postbag/admin.h"
#include "relay.h"
#include "unit.h"
#include "writer.h"

/* The relay with rows t1 ... in flight; the count starts. */
static struct relay *sending(struct bench *b, int rows)
{
    struct relay *r = bench_up(b);

    relay_put(r, "t", rows);
    relay_run_ms(r, 1);
    assert_int_equal(r->out->in_flight, rows);
    wal_syncs = 0;
    return r;
}

/* ---- before a send ---- */

static void expect_synced(void *ctx, const struct fake_sent *s)
{
    (void)s;
    assert_int_equal(wal_syncs, 1);
    ++*(int *)ctx;
}

static void test_sync_one_goes_before_a_batch_of_a_normal_writer(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    int looked = 0;

    r->out->on_send = expect_synced;
    r->out->on_send_ctx = &looked;
    relay_put(r, "t", 10);
    wal_syncs = 0;
    relay_step(r);
    assert_int_equal(looked, 10);
    assert_int_equal(wal_syncs, 1);
}

static void test_sync_what_a_full_writer_committed_needs_none(void **state)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .topic = "t", .payload = ""};
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    struct postbag_writer *w = NULL;

    assert_ok(postbag__writer_open(
        &w, b->w.t.app, &b->w.sim.port, &r->e.shared, NULL));
    sql_run(b->w.t.app, "PRAGMA synchronous=FULL");
    assert_ok(postbag_begin(w));
    assert_ok(postbag_put(w, &m, NULL));
    assert_ok(postbag_commit(w));
    wal_syncs = 0;
    relay_step(r);
    assert_int_equal(r->out->count, 1);
    assert_int_equal(wal_syncs, 0);
    postbag_writer_close(w);
}

static void test_sync_that_fails_sends_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 2);
    wal_syncs_fail = 1;
    relay_run_ms(r, 100);
    wal_syncs_fail = 0;
    assert_int_equal(r->out->count, 0);
    assert_has(r->log, "disk I/O error");
    relay_idle_ms(r, 1000);
    assert_int_equal(r->out->count, 2);
}

/* ---- what may be lost at a power cut ---- */

static void test_sync_saved_cursor_needs_none(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 2);

    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 3000);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0"),
        2);
    assert_int_equal(wal_syncs, 0);
}

static void test_sync_retry_time_needs_none(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 1);

    fake_settle(r->out, 0, 0x87);
    relay_step(r);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT state FROM outbox_held"), "retry");
    assert_int_equal(wal_syncs, 0);
}

/* ---- what may not ---- */

static void test_sync_follows_the_lease(void **state)
{
    struct bench *b = *state;

    relay_open(&b->r);
    relay_put(&b->r, "t", 1); /* so that the WAL has begun */
    b->r.out->connect_err = POSTBAG_ELINK;
    b->r.e.housekeeper.is_sound = 1; /* no checkpoint to place the pin */
    b->r.e.witness.next_us = INT64_MAX;
    wal_syncs = 0;
    relay_run_ms(&b->r, 10);
    assert_int_equal(b->r.e.lease.is_owner, 1);
    assert_int_equal(wal_syncs, 1);
}

static void test_sync_follows_a_death_at_once(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 1);

    fake_settle(r->out, 0, 0x95);
    relay_step(r);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT state FROM outbox_held"), "dead");
    assert_int_equal(wal_syncs, 1);
}

/* A refused row in flight again; the count starts. */
static struct relay *sending_again(struct bench *b)
{
    struct relay *r;

    b->w.sim.random_byte = 0;
    b->r.options.max_attempts = 2;
    r = sending(b, 1);
    fake_settle(r->out, 0, 0x87);
    relay_run_ms(r, 10000);
    assert_string_equal(fake_topics(r->out, 0), "t1 t1");
    wal_syncs = 0;
    return r;
}

static void test_sync_follows_a_suspicion(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 1);

    for (int i = 0; i < 3; i++) {
        relay_run_ms(r, 20 * 1000); /* less than an ack timeout */
        assert_int_equal(r->out->in_flight, 1);
        wal_syncs = 0;
        fake_lose(r->out, POSTBAG_ELINK, 0);
        relay_step(r);
    }
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT state FROM outbox_held"), "retry");
    assert_int_equal(wal_syncs, 1);
}

static void test_sync_follows_the_delivery_of_a_held_row(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending_again(b);

    fake_settle(r->out, 1, 0);
    relay_step(r);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT state FROM outbox_held"), "");
    assert_int_equal(wal_syncs, 1);
}

static void test_sync_follows_the_death_of_a_held_row(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending_again(b);

    fake_settle(r->out, 1, 0x87);
    relay_step(r);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT state FROM outbox_held"), "dead");
    assert_int_equal(wal_syncs, 1);
}

static void test_sync_follows_a_requeue(void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 1);
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = b->w.t.path,
        .port = &b->w.sim.port,
        .writable = 1};
    struct postbag_admin *a = NULL;

    fake_settle(r->out, 0, 0x95);
    relay_step(r);
    assert_ok(postbag_admin_open(&a, &c, NULL));
    wal_syncs = 0;
    assert_ok(postbag_admin_requeue(a, NULL, 1, NULL, NULL));
    assert_int_equal(wal_syncs, 1);
    postbag_admin_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_sync_one_goes_before_a_batch_of_a_normal_writer),
        BENCH(test_sync_what_a_full_writer_committed_needs_none),
        BENCH(test_sync_that_fails_sends_nothing),
        BENCH(test_sync_saved_cursor_needs_none),
        BENCH(test_sync_retry_time_needs_none),
        BENCH(test_sync_follows_the_lease),
        BENCH(test_sync_follows_a_death_at_once),
        BENCH(test_sync_follows_a_suspicion),
        BENCH(test_sync_follows_the_delivery_of_a_held_row),
        BENCH(test_sync_follows_the_death_of_a_held_row),
        BENCH(test_sync_follows_a_requeue),
    };

    wal_syncs_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
