/* SPDX-License-Identifier: MIT */
/*
 * The power is cut at each moment while commands are accepted and handled.
 * Whatever is left of the files (crash_disk.h):
 *
 *     a command that was acknowledged is there, one that was handled is handled
 *     effect, mark and reply are all there, or none is
 *     the database is sound, by our own rules and by SQLite's
 *     when all commands come once more, each has had its one effect
 *
 * Every moment is tried; of what was not synced all, nothing, and parts by
 * chance.  What takes long, our own rules and all commands once more, is tried
 * after each third event.  POSTBAG_SEED=N repeats the chance; POSTBAG_PROVE=1
 * tries more of it, and all of each.
 */
#include "crash_disk.h"

#include "inbox_world.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "inbox_store.h"
#include "power_cut.h"
#include "topicfilter.h"
#include "writer.h"

/* ---- the commands ------------------------------------------------------ */

struct command {
    const char *topic, *id, *key, *version, *payload, *reply_to;
};

enum { OPEN, SHUT, LOCK, LAMP, OTHER, NAMELESS, BAD, HARD, LAST, COMMANDS };

static const struct command commands[COMMANDS] = {
    [OPEN] = {"cmd/door/1", "1", "front", "1", "open", NULL},
    [SHUT] = {"cmd/door/1", "3", "front", "3", "shut", NULL},
    [LOCK] = {"cmd/door/1", "2", "front", "2", "lock", NULL},
    [LAMP] = {"cmd/lamp", "4", NULL, NULL, "on", "re/lamp"},
    /* the same id, and other content */
    [OTHER] = {"cmd/lamp", "4", NULL, NULL, "off", "re/lamp"},
    [NAMELESS] = {"cmd/lamp", NULL, NULL, NULL, "who", NULL},
    /* is rejected */
    [BAD] = {"cmd/lamp", "6", NULL, NULL, "bad", NULL},
    /* its first try fails */
    [HARD] = {"cmd/door/2", "7", "back", NULL, "hard", NULL},
    [LAST] = {"cmd/door/3", "8", NULL, NULL, "last", NULL},
};

/* Who gets which, and the effects of all of them. */
struct audience {
    const char *name, *filter, *effects;
};

static const struct audience audiences[] = {
    {"all", "cmd/#", "1 2 3 4 7 8"},
    {"doors", "cmd/door/+", "1 2 3 7 8"},
};

static int accept(struct inbox_world *w, const struct command *c)
{
    struct postbag_property p[4] = {{"source", "/scada"}};
    struct postbag_frame f = {.topic = c->topic,
        .payload = c->payload,
        .payload_len = strlen(c->payload),
        .response_topic = c->reply_to,
        .is_text = 1,
        .properties = p,
        .property_count = 1};

    if (c->id != NULL)
        p[f.property_count++] = (struct postbag_property){"id", c->id};
    if (c->key != NULL)
        p[f.property_count++] =
            (struct postbag_property){"partitionkey", c->key};
    if (c->version != NULL)
        p[f.property_count++] =
            (struct postbag_property){"keyversion", c->version};
    return postbag__receiver_accept(w->receiver, w->generation, &f);
}

/* ---- what was promised ------------------------------------------------- */

/* A query that says 1 from then on, whenever the power is cut. */
struct promise {
    size_t events;
    char sql[200];
};

static struct promise promises[200];
static size_t promised;

static void promise(const char *consumer, const char *column, const char *value)
{
    struct promise *p = &promises[promised++];

    assert_true(promised <= COUNT(promises));
    p->events = crash_disk_events();
    (void)snprintf(p->sql, sizeof(p->sql),
        "SELECT count(*) FROM inbox WHERE consumer = '%s' AND %s = '%s'",
        consumer, column, value);
}

/* The last one that a handler took. */
static struct {
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

struct bench {
    struct inbox_world *before; /* whose disk is recorded */
    struct inbox_world *after;  /* where what is left is looked at */
    uint64_t seed;
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

static struct inbox_world *new_world(void)
{
    struct inbox_world *w = world_new();

    temp_db_run(&w->t, "CREATE TABLE effect(n INTEGER PRIMARY KEY,"
                       " consumer TEXT NOT NULL, id TEXT NOT NULL)");
    w->consumers.versions = (struct order_rules){
        .gap = ORDER_DEFER, .defer_ms = 60000, .defer_rows = 10};
    for (size_t i = 0; i < COUNT(audiences); i++)
        world_add(w, audiences[i].name, audiences[i].filter, handle, NULL);
    w->again_topics = "re/#";
    lay_down(w);
    return w;
}

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->seed = power_cut_seed();
    b->before = new_world();
    b->after = new_world();
    b->after->boot = 2;
    promised = 0;
    crash_disk_record(b->before->t.path);
    take_up(b->before);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;

    crash_disk_lie(0);
    world_free(b->before);
    world_free(b->after);
    free(b);
    return 0;
}

/* It is acknowledged when this returns. */
static void deliver(struct inbox_world *w, int command)
{
    const struct command *c = &commands[command];

    assert_ok(accept(w, c));
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

enum finding { SOUND, LOST, HALF, DAMAGED, REPEATED, FINDINGS };

static const char *const words[FINDINGS] = {
    [SOUND] = "sound",
    [LOST] = "what was acknowledged or handled is lost",
    [HALF] = "effect, mark and reply are not together",
    [DAMAGED] = "the database is damaged",
    [REPEATED] = "commands that come again do not end in one effect each",
};

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

static int is_kept(struct inbox_world *w, size_t events)
{
    for (size_t i = 0; i < promised && promises[i].events <= events; i++)
        if (temp_db_get(&w->t, promises[i].sql) != 1) {
            print_message("not 1: %s\n", promises[i].sql);
            return 0;
        }
    return 1;
}

static int is_together(struct inbox_world *w)
{
    for (size_t i = 0; i < COUNT(together); i++)
        if (temp_db_get(&w->t, together[i]) != 0)
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
    size_t so_far = promised;

    world_open_receiver(w, 100);
    world_open_worker(w, "re/#");
    for (int i = 0; i < COMMANDS; i++)
        deliver(w, i);
    for (int i = 0; i < 3; i++) {
        work(w);
        world_pass_ms(w, 10000);
    }
    promised = so_far;
    return has_each_effect_once(w) && is_together(w);
}

static enum finding look(struct bench *b, const struct crash_cut *cut)
{
    struct inbox_world *w = b->after;
    int thoroughly = power_cut_is_thorough(cut);
    enum finding found = SOUND;

    crash_cut_make(cut, w->t.path);
    if (postbag__db_open(&w->t.db, w->t.path, DB_WRITE, DB_NORMAL, 1000) !=
            POSTBAG_OK ||
        power_cut_is_damaged(&w->t.db, thoroughly))
        found = DAMAGED;
    else if (!is_kept(w, cut->events))
        found = LOST;
    else if (!is_together(w))
        found = HALF;
    else if (thoroughly && !is_repeated_well(w))
        found = REPEATED;
    lay_down(w);
    return found;
}

/* ---- every moment ------------------------------------------------------ */

/* Up to the first image that is not sound; what is wrong with that one. */
static enum finding cut_everywhere(struct bench *b)
{
    const unsigned draws = power_cut_draws();
    struct crash_cut c = {.seed = b->seed};
    enum finding found = SOUND;
    unsigned images = 0;

    while (found == SOUND && crash_cut_next(&c, draws)) {
        found = look(b, &c);
        images++;
    }
    print_message("%zu events, %zu promises, %u images\n", crash_disk_events(),
        promised, images);
    if (found != SOUND)
        print_message("cut after event %zu, left %d, draw %u: %s\n", c.events,
            (int)c.left, c.draw, words[found]);
    return found;
}

static void test_power_cut_keeps_what_was_acknowledged_and_handled(void **state)
{
    struct bench *b = *state;
    struct inbox_world *w = b->before;

    deliver(w, OPEN);
    deliver(w, SHUT); /* waits for LOCK */
    deliver(w, OPEN);
    deliver(w, LAMP);
    work(w);
    deliver(w, OTHER);
    deliver(w, NAMELESS);
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
    assert_int_equal(cut_everywhere(b), SOUND);
}

/* ---- killed before ----------------------------------------------------- */

/* A process accepts the command and is killed in its sync; what it wrote is
 * in the files, but not on the disk. */
static void die_in_sync(struct inbox_world *w, int command)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        take_up(w);
        crash_disk_kill_in_sync(1);
        _exit(accept(w, &commands[command]) == POSTBAG_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The one that comes again is written already, but nobody has synced it. */
static void test_power_cut_keeps_what_comes_again_after_kills_in_the_sync(
    void **state)
{
    struct bench *b = *state;
    struct inbox_world *w = b->before;

    deliver(w, OPEN);
    lay_down(w);
    die_in_sync(w, LAST);
    die_in_sync(w, LAST);
    take_up(w);
    deliver(w, LAST);
    assert_int_equal(cut_everywhere(b), SOUND);
}

/* ---- what must be noticed ---------------------------------------------- */

static void test_power_cut_without_a_sync_is_noticed(void **state)
{
    struct bench *b = *state;
    struct crash_cut at_end = {.left = CRASH_NOTHING};

    crash_disk_lie(1);
    deliver(b->before, OPEN);
    at_end.events = crash_disk_events();
    assert_int_equal(look(b, &at_end), LOST);
}

/* A worker that commits the effect, then the mark. */
static void test_power_cut_between_effect_and_mark_is_noticed(void **state)
{
    struct bench *b = *state;
    struct temp_db *t = &b->before->t;

    deliver(b->before, HARD);
    temp_db_run(t, "PRAGMA synchronous=FULL;"
                   "INSERT INTO effect(consumer, id) VALUES ('all', '7')");
    temp_db_run(t, "UPDATE inbox SET" POSTBAG__INBOX_SHRINK
                   ", processed_ms = 1 WHERE consumer = 'all'");
    assert_int_equal(cut_everywhere(b), HALF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_power_cut_keeps_what_was_acknowledged_and_handled),
        TEST_IN(test_power_cut_keeps_what_comes_again_after_kills_in_the_sync),
        TEST_IN(test_power_cut_without_a_sync_is_noticed),
        TEST_IN(test_power_cut_between_effect_and_mark_is_noticed),
    };

    crash_disk_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
