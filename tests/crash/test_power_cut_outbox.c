/* SPDX-License-Identifier: MIT */
/*
 * The power is cut at each moment while an application puts and a relay
 * sends.  Whatever is left of the files (crash_disk.h):
 *
 *     what a writer with synchronous=FULL committed is there
 *     state and message are both there, or neither
 *     what was sent is there, whatever the writer's synchronous
 *     the database is sound, by our own rules and by SQLite's
 *     the next relay sends each message that no PUBACK came for, under the id
 *     that it was sent with before
 *
 * Chance and length as in test_power_cut_inbox.c.
 */
#include "crash_disk.h"

#include <sqlite3.h>

#include "db.h"
#include "power_cut.h"
#include "relay.h"

/* ---- what happened, and after which event ------------------------------ */

struct moment_of {
    size_t events;
    int number; /* of the message */
    char id[40];
};

struct history {
    struct moment_of list[100];
    size_t count;
};

static struct history committed, sent, acknowledged;

static void note(struct history *h, int number, const char *id)
{
    struct moment_of *m = &h->list[h->count++];

    assert_true(h->count <= COUNT(h->list));
    m->events = crash_disk_events();
    m->number = number;
    (void)snprintf(m->id, sizeof(m->id), "%s", id);
}

/* Before a cut; NULL: it did not. */
static const struct moment_of *find(
    const struct history *h, int number, size_t events)
{
    for (size_t i = 0; i < h->count && h->list[i].events <= events; i++)
        if (h->list[i].number == number)
            return &h->list[i];
    return NULL;
}

/* ---- a world that is played and cut ------------------------------------ */

struct cut_bench {
    struct world before, after;
    struct relay relay;
    uint64_t seed;
};

static void note_sent(void *ctx, const struct fake_sent *s)
{
    note(ctx, atoi(s->payload), s->id);
}

static int set_up(void **state)
{
    struct cut_bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->seed = power_cut_seed();
    memset(&committed, 0, sizeof(committed));
    memset(&sent, 0, sizeof(sent));
    memset(&acknowledged, 0, sizeof(acknowledged));
    world_make(&b->after);
    b->after.sim.boot = 2;
    assert_int_equal(sqlite3_close(b->after.t.app), SQLITE_OK);
    b->after.t.app = NULL;
    world_make(&b->before);
    sql_run(b->before.t.app, "CREATE TABLE state(n INTEGER PRIMARY KEY)");
    assert_int_equal(sqlite3_close(b->before.t.app), SQLITE_OK);
    crash_disk_record(b->before.t.path);
    b->before.t.app = tempdb_connect(&b->before.t);
    relay_init(&b->relay, &b->before);
    b->relay.out->on_send = note_sent;
    b->relay.out->on_send_ctx = &sent;
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct cut_bench *b = *state;

    relay_close(&b->relay);
    world_remove(&b->before);
    world_remove(&b->after);
    free(b);
    return 0;
}

/* One change of the state and its message, of one of two keys. */
static void put(struct cut_bench *b, int number)
{
    sql_run(b->before.t.app,
        "BEGIN IMMEDIATE; INSERT INTO state VALUES (%d);"
        "INSERT INTO outbox(topic, payload, key) VALUES ('t', '%d', 'k%d');"
        "COMMIT",
        number, number, number % 2);
    note(&committed, number, "");
    relay_run_ms(&b->relay, 1);
}

/* The i-th send. */
static void answer(struct cut_bench *b, size_t i, int reason)
{
    if (reason == 0)
        note(&acknowledged, sent.list[i].number, "");
    fake_settle(b->relay.out, i, reason);
    relay_run_ms(&b->relay, 1);
}

/* One is refused and comes again, one is still on its way in the end. */
static void play(struct cut_bench *b, const char *synchronous)
{
    relay_open(&b->relay);
    sql_run(b->before.t.app, "PRAGMA synchronous=%s", synchronous);
    relay_run_ms(&b->relay, 10);
    for (int i = 0; i < 4; i++)
        put(b, i);
    answer(b, 1, 0x87);
    put(b, 4); /* the first one is still on its way */
    answer(b, 0, 0);
    relay_run_ms(&b->relay, 3000);
    put(b, 5);
    for (size_t i = 2; i < sent.count; i++) {
        answer(b, i, 0);
        relay_run_ms(&b->relay, 1000);
    }
    assert_int_equal(sent.count, 7);
    put(b, 6);
    assert_int_equal(sent.count, 8);
}

/* ---- what is left is looked at ----------------------------------------- */

enum finding { SOUND, LOST, APART, PHANTOM, DAMAGED, FORGOTTEN, FINDINGS };

static const char *const words[FINDINGS] = {
    [SOUND] = "sound",
    [LOST] = "what was committed is lost",
    [APART] = "state and message are not together",
    [PHANTOM] = "what was sent never happened",
    [DAMAGED] = "the database is damaged",
    [FORGOTTEN] = "a message is not sent, or under another id",
};

static int has(struct world *w, int number)
{
    return sql_get(w->t.app, "SELECT count(*) FROM state WHERE n = %d",
               number) == 1;
}

/* All of them that there were by then. */
static int has_all(struct world *w, const struct history *h, size_t events)
{
    for (size_t i = 0; i < h->count && h->list[i].events <= events; i++)
        if (!has(w, h->list[i].number))
            return 0;
    return 1;
}

/* seq counts the messages ever put. */
static int is_together(struct world *w)
{
    return sql_get(w->t.app, "SELECT count(*) FROM state") ==
               sql_get(w->t.app, "SELECT ifnull(max(seq), 0) FROM outbox") &&
           sql_get(w->t.app, "SELECT count(*) FROM outbox WHERE payload NOT IN"
                             " (SELECT cast(n AS TEXT) FROM state)") == 0;
}

static int is_damaged(struct world *w, int thoroughly)
{
    struct db db;
    int damaged;

    assert_ok(postbag__db_open(&db, w->t.path, DB_READ, DB_NORMAL, 1000));
    damaged = power_cut_is_damaged(&db, thoroughly);
    postbag__db_close(&db);
    return damaged;
}

/* The next boot's relay sends all that it has, and gets its PUBACKs. */
static void send_rest(struct world *w, struct history *again)
{
    struct relay r;

    relay_init(&r, w);
    r.out->on_send = note_sent;
    r.out->on_send_ctx = again;
    r.out->auto_settle = 1;
    relay_open(&r);
    relay_run_ms(&r, 60000);
    relay_kill(&r);
}

static int is_delivered(struct world *w, size_t events)
{
    struct history again = {0};

    send_rest(w, &again);
    for (size_t i = 0; i < committed.count; i++) {
        int number = committed.list[i].number;
        const struct moment_of *first = find(&sent, number, events);
        const struct moment_of *now = find(&again, number, SIZE_MAX);

        if (!has(w, number) || (now == NULL && first != NULL &&
                                   find(&acknowledged, number, events)))
            continue;
        if (now == NULL || (first != NULL && strcmp(first->id, now->id) != 0))
            return 0;
    }
    return 1;
}

static enum finding look(
    struct cut_bench *b, const struct crash_cut *cut, int is_full)
{
    struct world *w = &b->after;
    int thoroughly = power_cut_is_thorough(cut);
    enum finding found = SOUND;

    crash_cut_make(cut, w->t.path);
    w->t.app = tempdb_connect(&w->t);
    if (is_damaged(w, thoroughly))
        found = DAMAGED;
    else if (is_full && !has_all(w, &committed, cut->events))
        found = LOST;
    else if (!has_all(w, &sent, cut->events))
        found = PHANTOM;
    else if (!is_together(w))
        found = APART;
    else if (thoroughly && !is_delivered(w, cut->events))
        found = FORGOTTEN;
    assert_int_equal(sqlite3_close(w->t.app), SQLITE_OK);
    w->t.app = NULL;
    return found;
}

/* Up to the first image that is not sound; what is wrong with that one. */
static enum finding cut_everywhere(struct cut_bench *b, int is_full)
{
    struct crash_cut c = {.seed = b->seed};
    enum finding found = SOUND;
    unsigned images = 0;

    while (found == SOUND && crash_cut_next(&c, power_cut_draws())) {
        found = look(b, &c, is_full);
        images++;
    }
    print_message("%zu events, %zu sends, %u images\n", crash_disk_events(),
        sent.count, images);
    if (found != SOUND)
        print_message("cut after event %zu, left %d, draw %u: %s\n", c.events,
            (int)c.left, c.draw, words[found]);
    return found;
}

/* ---- every moment ------------------------------------------------------ */

static void test_power_cut_keeps_what_a_full_writer_committed(void **state)
{
    struct cut_bench *b = *state;

    play(b, "FULL");
    assert_int_equal(cut_everywhere(b, 1), SOUND);
}

static void test_power_cut_undoes_nothing_of_a_normal_writer_that_was_sent(
    void **state)
{
    struct cut_bench *b = *state;

    play(b, "NORMAL");
    assert_int_equal(cut_everywhere(b, 0), SOUND);
}

/* ---- what must be noticed ---------------------------------------------- */

static void test_power_cut_of_a_normal_writer_loses_commits(void **state)
{
    struct cut_bench *b = *state;

    play(b, "NORMAL");
    assert_int_equal(cut_everywhere(b, 1), LOST);
}

static void test_power_cut_after_a_send_without_a_sync_is_noticed(void **state)
{
    struct cut_bench *b = *state;

    b->relay.options.skip_sync_before_send = 1;
    play(b, "NORMAL");
    assert_int_equal(cut_everywhere(b, 0), PHANTOM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_power_cut_keeps_what_a_full_writer_committed),
        TEST_IN(test_power_cut_undoes_nothing_of_a_normal_writer_that_was_sent),
        TEST_IN(test_power_cut_of_a_normal_writer_loses_commits),
        TEST_IN(test_power_cut_after_a_send_without_a_sync_is_noticed),
    };

    crash_disk_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
