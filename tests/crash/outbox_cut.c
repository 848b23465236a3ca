/* SPDX-License-Identifier: MIT */
/* See outbox_cut.h: what is played, and what is told of it. */
#include "outbox_cut.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "db.h"
#include "outbox_look.h"
#include "postbag/admin.h"
#include "schema.h"

static void make_tables(const struct power_cut *c)
{
    const char *path = power_cut_file(c->disk);
    sqlite3 *app;
    struct db db;

    assert_int_equal(sqlite3_open(path, &app), SQLITE_OK);
    sql_run(app,
        "PRAGMA page_size=%u; CREATE TABLE state(n INTEGER PRIMARY KEY)",
        c->page_size);
    assert_int_equal(sqlite3_close(app), SQLITE_OK);
    assert_ok(postbag__db_open(
        &db, power_cut_file(c->disk), DB_CREATE, DB_NORMAL, 0));
    assert_ok(postbag__schema_ensure(&db, 0));
    postbag__db_close(&db);
}

static void name_file(struct world *w, const struct memdisk *disk)
{
    (void)snprintf(w->t.path, sizeof(w->t.path), "%s", power_cut_file(disk));
}

static void note_sent(void *ctx, const struct fake_sent *s)
{
    struct outbox_cut *b = ctx;
    struct cut_told *told = &b->told[(int)strtol(s->payload, NULL, 10)];

    if (!told->is_sent)
        told->rank = ++b->ranks;
    told->is_sent = 1;
    b->cut->promises++;
    if (told->id[0] != '\0')
        assert_string_equal(told->id, s->id);
    (void)snprintf(told->id, sizeof(told->id), "%s", s->id);
}

static void listen(struct outbox_cut *b)
{
    relay_init(&b->relay, &b->before);
    b->relay.out->on_send = note_sent;
    b->relay.out->on_send_ctx = b;
}

void outbox_cut_begin(
    struct outbox_cut *b, struct power_cut *c, const char *synchronous)
{
    memset(b, 0, sizeof(*b));
    b->cut = c;
    c->look = outbox_look;
    c->ctx = b;
    power_cut_begin(c);
    power_cut_port(&b->before.sim, 1);
    power_cut_port(&b->after.sim, 2);
    name_file(&b->before, c->disk);
    name_file(&b->after, c->left);
    make_tables(c);
    power_cut_watch(c);
    b->before.t.app = tempdb_connect(&b->before.t);
    sql_run(b->before.t.app, "PRAGMA synchronous=%s", synchronous);
    b->is_promised = strcmp(synchronous, "FULL") == 0;
    listen(b);
}

void outbox_cut_end(struct outbox_cut *b)
{
    power_cut_rest(b->cut);
    relay_close(&b->relay);
    assert_int_equal(sqlite3_close(b->before.t.app), SQLITE_OK);
    power_cut_end(b->cut);
}

void outbox_cut_up(struct outbox_cut *b)
{
    relay_open(&b->relay);
    relay_run_ms(&b->relay, 10);
    assert_int_equal(b->relay.e.lease.is_owner, 1);
}

void outbox_cut_restart(struct outbox_cut *b)
{
    relay_kill(&b->relay);
    listen(b);
    outbox_cut_up(b);
}

/* Every fifth one has pages of its own. */
static void put_one(struct outbox_cut *b, int number, int key)
{
    b->told[number].key = key;
    sql_run(b->before.t.app,
        "INSERT INTO state VALUES (%d);"
        "INSERT INTO outbox(topic, payload, key) VALUES ('t',"
        " '%d ' || hex(zeroblob(%d)), iif(%d, 'k' || %d, NULL))",
        number, number, number % 5 == 4 ? 1500 : number, key, key);
}

void outbox_cut_put(struct outbox_cut *b, int key, int n)
{
    int first = b->count + 1;

    b->count += n;
    assert_true(b->count < CUT_NUMBERS);
    sql_run(b->before.t.app, "BEGIN IMMEDIATE");
    for (int number = first; number <= b->count; number++)
        put_one(b, number, key);
    sql_run(b->before.t.app, "COMMIT");
    for (int number = first; number <= b->count; number++)
        b->told[number].is_committed = 1;
    b->cut->promises++;
    relay_run_ms(&b->relay, 1);
}

void outbox_cut_run_ms(struct outbox_cut *b, int64_t ms)
{
    relay_run_ms(&b->relay, ms);
}

/* What the relay has found to be dead is on disk by then. */
static void note_dead(struct outbox_cut *b)
{
    for (int number = 1; number <= b->count; number++)
        if (b->told[number].is_refused && !b->told[number].is_dead)
            b->told[number].is_dead = sql_get(b->before.t.app,
                                          "SELECT count(*) FROM outbox_held"
                                          " WHERE seq = %d AND state = 'dead'",
                                          number) == 1;
    b->cut->promises++;
}

void outbox_cut_answer(struct outbox_cut *b, size_t i, int reason)
{
    const struct fake_sent *s = &b->relay.out->sent[i];
    struct cut_told *told = &b->told[(int)strtol(s->payload, NULL, 10)];

    assert_true(i < b->relay.out->count);
    if (reason == 0)
        told->is_acknowledged = 1;
    else
        told->is_refused = 1;
    fake_settle(b->relay.out, i, reason);
    relay_run_ms(&b->relay, 1);
    if (reason != 0)
        note_dead(b);
}

void outbox_cut_settle(struct outbox_cut *b)
{
    const struct fake_transport *out = b->relay.out;
    size_t i = 0;

    while (i < out->count) {
        if (!out->sent[i].is_settled)
            outbox_cut_answer(b, i, 0);
        i++;
    }
}

void outbox_cut_requeue(struct outbox_cut *b)
{
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = b->before.t.path,
        .port = &b->before.sim.port,
        .writable = 1};
    struct postbag_admin *a;
    int64_t count = 0;

    assert_ok(postbag_admin_open(&a, &c, NULL));
    for (int number = 1; number <= b->count; number++)
        b->told[number].is_in_hand = b->told[number].is_dead;
    assert_ok(postbag_admin_requeue(a, NULL, 0, NULL, &count));
    assert_true(count > 0);
    for (int number = 1; number <= b->count; number++) {
        b->told[number].is_requeued |= b->told[number].is_dead;
        b->told[number].is_dead = b->told[number].is_in_hand = 0;
    }
    b->cut->promises++;
    postbag_admin_close(a);
    relay_run_ms(&b->relay, 1);
}
