/* SPDX-License-Identifier: MIT */
/*
 * Power cuts while commands are accepted and handled (power_cut.h).  Whatever
 * is left:
 *
 *     a command that was acknowledged is there, one that was handled is handled
 *     effect, mark and reply are all there, or none is
 *     the database is sound, by SQLite's rules and in a share by our own
 *     when all commands come once more (in a share), each has had its one
 *     effect
 */
#include "cut_commands.h"

#include <sqlite3.h>

#include "inbox_store.h"
#include "power_cut.h"
#include "topicfilter.h"
#include "writer.h"

/* ---- what was promised ------------------------------------------------- */

/* A query that says 1 from then on, whenever the power is cut. */
struct promise {
    char sql[200];
};

static struct promise promises[200];
static size_t promised;
static struct power_cut *playing;

static void promise(const char *consumer, const char *column, const char *value)
{
    struct promise *p = &promises[promised++];

    playing->promises++;
    assert_true(promised <= COUNT(promises));
    (void)snprintf(p->sql, sizeof(p->sql),
        "SELECT count(*) FROM inbox WHERE consumer = '%s' AND %s = '%s'",
        consumer, column, value);
}

/* The last one that a handler took. */
static struct taken {
    enum postbag_outcome outcome;
    char consumer[10], id[10];
} taken;

static int has(const struct postbag_command *cmd, int command)
{
    const char *payload = commands[command].payload;

    return cmd->payload_len == strlen(payload) &&
           memcmp(cmd->payload, payload, cmd->payload_len) == 0;
}

static enum postbag_outcome handle(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    const struct postbag_message reply = {
        .struct_size = sizeof(reply), .payload = "lit", .payload_len = 3};

    (void)ctx;
    (void)snprintf(taken.consumer, sizeof(taken.consumer), "%s", cmd->consumer);
    (void)snprintf(taken.id, sizeof(taken.id), "%.*s", (int)cmd->id_len,
        (const char *)cmd->id);
    sql_run(postbag_writer_db(w),
        "INSERT INTO effect(consumer, id) VALUES ('%s', '%s')", taken.consumer,
        taken.id);
    if (cmd->response_topic != NULL)
        assert_ok(postbag_reply(w, cmd, &reply, NULL));
    taken.outcome = has(cmd, BAD)                        ? POSTBAG_REJECT
                    : has(cmd, HARD) && cmd->attempt < 2 ? POSTBAG_RETRY
                                                         : POSTBAG_DONE;
    return taken.outcome;
}

/* ---- a world that is played and cut ------------------------------------ */

struct inbox_cut {
    struct power_cut *cut;
    struct inbox_world *before; /* whose disk is cut */
    struct inbox_world *after;  /* where what is left is looked at */
    char paths[2][128];
};

static void lay_down(struct inbox_world *w)
{
    postbag__receiver_close(w->receiver);
    w->receiver = NULL;
    postbag__worker_close(w->worker);
    w->worker = NULL;
    postbag__db_close(&w->t.db);
}

static void take_up(struct inbox_world *w)
{
    assert_ok(postbag__db_open(&w->t.db, w->t.path, DB_WRITE, DB_NORMAL, 1000));
    world_open_receiver(w, 100);
    world_open_worker(w, "re/#");
}

static struct inbox_world *new_world(char *path, const struct memdisk *disk)
{
    struct inbox_world *w = world_new_bare();

    (void)snprintf(path, 128, "%s", power_cut_file(disk));
    w->t.path = path;
    w->port.room = NULL;
    w->consumers.versions = (struct order_rules){
        .gap = ORDER_DEFER, .defer_ms = 60000, .defer_rows = 10};
    for (size_t i = 0; i < COUNT(audiences); i++)
        world_add(w, audiences[i].name, audiences[i].filter, handle, NULL);
    w->again_topics = "re/#";
    return w;
}

static void make_tables(struct inbox_world *w, unsigned page_size)
{
    sqlite3 *app;

    assert_int_equal(sqlite3_open(w->t.path, &app), SQLITE_OK);
    sql_run(app,
        "PRAGMA page_size=%u; CREATE TABLE effect(n INTEGER PRIMARY KEY,"
        " consumer TEXT NOT NULL, id TEXT NOT NULL)",
        page_size);
    assert_int_equal(sqlite3_close(app), SQLITE_OK);
    assert_ok(
        postbag__db_open(&w->t.db, w->t.path, DB_CREATE, DB_NORMAL, 1000));
    assert_ok(postbag__schema_ensure(&w->t.db, 0));
    postbag__db_close(&w->t.db);
}

static enum finding look(void *ctx, unsigned depth);

static void begin(struct inbox_cut *b, struct power_cut *c)
{
    b->cut = c;
    c->look = look;
    c->ctx = b;
    power_cut_begin(c);
    b->before = new_world(b->paths[0], c->disk);
    b->after = new_world(b->paths[1], c->left);
    b->after->boot = 2;
    promised = 0;
    playing = c;
    make_tables(b->before, c->page_size);
    power_cut_watch(c);
    take_up(b->before);
}

static void end(struct inbox_cut *b)
{
    power_cut_rest(b->cut);
    world_free_bare(b->before);
    world_free_bare(b->after);
    power_cut_end(b->cut);
}

/* It is acknowledged when this returns. */
static void deliver(struct inbox_world *w, int command)
{
    const struct command *c = &commands[command];

    assert_ok(accept_command(w, c));
    for (size_t i = 0; i < COUNT(audiences); i++) {
        if (!postbag__filter_matches(audiences[i].filter, c->topic))
            continue;
        if (command == OTHER || command == NAMELESS)
            promise(
                audiences[i].name, "state = 'dead' AND payload", c->payload);
        else
            promise(audiences[i].name, "id", c->id);
    }
}

/* Handlers run for as long as there is work for them now. */
static void work(struct inbox_world *w)
{
    while (world_run_one(w)) {
        if (taken.outcome == POSTBAG_DONE)
            promise(taken.consumer, "state = 'done' AND id", taken.id);
        else if (taken.outcome == POSTBAG_REJECT)
            promise(taken.consumer, "state = 'dead' AND id", taken.id);
    }
}

static void checkpoint(struct inbox_world *w)
{
    int frames;
    int done;

    assert_ok(postbag__checkpoint(&w->t.db, &frames, &done));
    assert_int_equal(frames, done);
}

/* ---- what is left is looked at ----------------------------------------- */

/* Each says 0. */
static const char *const together[] = {
    "SELECT count(*) FROM inbox AS i WHERE (state = 'done') <> (SELECT"
    " count(*) FROM effect AS e WHERE e.consumer = i.consumer AND e.id = i.id)",
    "SELECT count(*) FROM effect AS e WHERE NOT EXISTS (SELECT 1"
    " FROM inbox AS i WHERE i.consumer = e.consumer AND i.id = e.id)",
    "SELECT count(*) FROM inbox WHERE"
    " (reply IS NOT NULL) <> (id = '4' AND state = 'done')",
    "SELECT (SELECT count(DISTINCT id) FROM outbox WHERE topic = 're/lamp')"
    " <> (SELECT count(*) FROM inbox WHERE id = '4' AND state = 'done')",
};

static int is_kept(struct inbox_world *w, int *is_bad)
{
    for (size_t i = 0; i < promised; i++)
        if (power_cut_get(w->t.db.handle, is_bad, promises[i].sql) != 1)
            return 0;
    return 1;
}

static int is_together(struct inbox_world *w, int *is_bad)
{
    for (size_t i = 0; i < COUNT(together); i++)
        if (power_cut_get(w->t.db.handle, is_bad, together[i]) != 0)
            return 0;
    return 1;
}

static int has_each_effect_once(struct inbox_world *w)
{
    for (size_t i = 0; i < COUNT(audiences); i++) {
        char sql[300];

        (void)snprintf(sql, sizeof(sql),
            "SELECT ifnull(group_concat(id, ' '), '') = '%s' FROM (SELECT id"
            " FROM effect WHERE consumer = '%s' ORDER BY id)",
            audiences[i].effects, audiences[i].name);
        if (temp_db_get(&w->t, sql) != 1)
            return 0;
    }
    /* and those of a key in the order of their versions */
    return temp_db_get(&w->t,
               "SELECT count(*) FROM effect AS e JOIN effect AS f USING"
               " (consumer) WHERE e.n < f.n AND e.id > f.id AND e.id < '4'") ==
               0 &&
           temp_db_get(
               &w->t, "SELECT count(*) FROM inbox WHERE state = 'dead'") == 3;
}

/* The broker sends again what it has, the handlers run. */
static int is_repeated_well(struct inbox_world *w)
{
    const struct taken was = taken;
    size_t so_far = promised;
    int is_bad = 0;

    world_open_receiver(w, 100);
    world_open_worker(w, "re/#");
    for (int i = 0; i < COMMANDS; i++)
        deliver(w, i);
    for (int i = 0; i < 3; i++) {
        work(w);
        world_pass_ms(w, 10000);
    }
    promised = so_far;
    taken = was;
    return has_each_effect_once(w) && is_together(w, &is_bad) && !is_bad;
}

static enum finding judge(struct inbox_world *w)
{
    int is_bad = 0;
    enum finding found = SOUND;

    if (!power_cut_is_sound(w->t.db.handle))
        return DAMAGED;
    if (!is_kept(w, &is_bad))
        found = LOST;
    else if (!is_together(w, &is_bad))
        found = APART;
    return is_bad ? DAMAGED : found;
}

static enum finding look(void *ctx, unsigned depth)
{
    struct inbox_cut *b = ctx;
    struct inbox_world *w = b->after;
    enum finding found = DAMAGED;

    if (postbag__db_open(&w->t.db, w->t.path, DB_WRITE, DB_NORMAL, 1000) ==
        POSTBAG_OK)
        found = judge(w);
    if (found == SOUND && (depth & CUT_GO_ON) != 0 && !is_repeated_well(w))
        found = REPEATED;
    lay_down(w);
    if (found == SOUND && (depth & (CUT_VERIFY | CUT_VERIFY_AFTER)) != 0 &&
        !power_cut_is_verified(w->t.path))
        found = DAMAGED;
    return found;
}

/* ---- scenes ------------------------------------------------------------ */

/* Some come again, with other content, without an id. */
static void accept_all(struct power_cut *c)
{
    struct inbox_cut b;

    begin(&b, c);
    deliver(b.before, OPEN);
    deliver(b.before, SHUT); /* waits for LOCK */
    deliver(b.before, OPEN);
    deliver(b.before, LAMP);
    deliver(b.before, OTHER);
    deliver(b.before, NAMELESS);
    checkpoint(b.before);
    deliver(b.before, HARD);
    deliver(b.before, LAMP);
    deliver(b.before, LOCK);
    deliver(b.before, LAST);
    end(&b);
}

/* A process accepts the command and is killed in its sync; what it wrote is
 * in the files, but not on the disk. */
static void die_in_sync(struct inbox_cut *b, unsigned process, int command)
{
    memdisk_process(b->cut->disk, process);
    take_up(b->before);
    memdisk_die_at(b->cut->disk, (int)process, MEMDISK_SYNC, 1, NULL, NULL);
    assert_int_not_equal(
        accept_command(b->before, &commands[command]), POSTBAG_OK);
    assert_true(memdisk_is_dead(b->cut->disk, process));
    lay_down(b->before);
}

/* The one that comes again is written already, but nobody has synced it. */
static void accept_after_kills(struct power_cut *c)
{
    struct inbox_cut b;

    begin(&b, c);
    deliver(b.before, OPEN);
    lay_down(b.before);
    die_in_sync(&b, 2, LAST);
    die_in_sync(&b, 3, LAST);
    memdisk_process(c->disk, 4);
    take_up(b.before);
    deliver(b.before, LAST);
    end(&b);
}

static void accept_commands(struct power_cut *c)
{
    if (c->seed % 3 == 2)
        accept_after_kills(c);
    else
        accept_all(c);
}

static void handle_commands(struct power_cut *c)
{
    struct inbox_cut b;
    struct inbox_world *w;

    begin(&b, c);
    w = b.before;
    deliver(w, OPEN);
    deliver(w, SHUT); /* waits for LOCK */
    deliver(w, LAMP);
    work(w);
    checkpoint(w);
    deliver(w, HARD);
    work(w);
    deliver(w, LOCK);
    deliver(w, BAD);
    world_pass_ms(w, 10000);
    work(w);
    deliver(w, LAMP); /* its reply goes out again */
    checkpoint(w);
    deliver(w, LAST);
    work(w);
    end(&b);
}

/* ---- every moment ------------------------------------------------------ */

static void test_power_cut_keeps_what_was_acknowledged(void **state)
{
    (void)state;
    power_cut_prove("F11_accept", accept_commands, 10);
}

static void test_power_cut_keeps_what_was_acknowledged_and_handled(void **state)
{
    (void)state;
    power_cut_prove("F11_handle", handle_commands, 10);
}

static void test_power_cut_keeps_what_comes_again_after_kills_in_the_sync(
    void **state)
{
    struct power_cut c = {.seed = 2};

    (void)state;
    accept_after_kills(&c);
    assert_int_equal(c.first, SOUND);
}

/* ---- what must be noticed ---------------------------------------------- */

static void accept_on_a_lying_disk(struct power_cut *c)
{
    struct inbox_cut b;

    begin(&b, c);
    memdisk_lie(c->disk, 1);
    deliver(b.before, OPEN);
    deliver(b.before, LAST);
    end(&b);
}

/* A worker that commits the effect, then the mark. */
static void handle_in_two_transactions(struct power_cut *c)
{
    struct inbox_cut b;
    struct temp_db *t;

    begin(&b, c);
    t = &b.before->t;
    deliver(b.before, HARD);
    temp_db_run(t, "PRAGMA synchronous=FULL;"
                   "INSERT INTO effect(consumer, id) VALUES ('all', '7')");
    temp_db_run(t, "UPDATE inbox SET" POSTBAG__INBOX_SHRINK
                   ", processed_ms = 1 WHERE consumer = 'all'");
    end(&b);
}

static void test_power_cut_without_a_sync_is_noticed(void **state)
{
    (void)state;
    power_cut_control("F11_accept", "lying_disk", accept_on_a_lying_disk, LOST);
}

static void test_power_cut_between_effect_and_mark_is_noticed(void **state)
{
    (void)state;
    power_cut_control(
        "F11_handle", "two_transactions", handle_in_two_transactions, APART);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_cut_keeps_what_was_acknowledged),
        cmocka_unit_test(
            test_power_cut_keeps_what_was_acknowledged_and_handled),
        cmocka_unit_test(
            test_power_cut_keeps_what_comes_again_after_kills_in_the_sync),
        cmocka_unit_test(test_power_cut_without_a_sync_is_noticed),
        cmocka_unit_test(test_power_cut_between_effect_and_mark_is_noticed),
    };

    power_cut_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
