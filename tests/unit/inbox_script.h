/* SPDX-License-Identifier: MIT */
/* Handlers that do what the test says, for two consumers. */
#ifndef POSTBAG_TESTS_INBOX_SCRIPT_H
#define POSTBAG_TESTS_INBOX_SCRIPT_H

#include "inbox_world.h"

#include <signal.h>
#include <sqlite3.h>

#include "writer.h"

/* What a handler does next, and what it saw. */
struct script {
    enum postbag_outcome outcome;
    const char *sql;    /* run before the outcome; may fail */
    int rc;             /* of sql */
    int put;            /* not 0: queue a message */
    const char *refuse; /* id for which the outcome is RETRY; NULL: none */
    int kill;
    const char *open_sql; /* a SELECT that is left on its first row */
    sqlite3_stmt *open;
    sqlite3 *db; /* the connection given */
    int ran;
    unsigned attempt;
    char ids[200]; /* in the order handled */
};

static inline void put_message(struct postbag_writer *w)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .topic = "evt", .payload = "", .key = "k"};

    assert_int_equal(postbag_put(w, &m, NULL), POSTBAG_OK);
}

static inline enum postbag_outcome handle(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    struct script *s = ctx;

    s->ran++;
    s->attempt = cmd->attempt;
    s->db = postbag_writer_db(w);
    (void)snprintf(s->ids + strlen(s->ids), sizeof(s->ids) - strlen(s->ids),
        "%.*s ", (int)cmd->id_len, (const char *)cmd->id);
    if (s->sql != NULL)
        s->rc = sqlite3_exec(postbag_writer_db(w), s->sql, NULL, NULL, NULL);
    if (s->open_sql != NULL &&
        sqlite3_prepare_v2(s->db, s->open_sql, -1, &s->open, NULL) == SQLITE_OK)
        (void)sqlite3_step(s->open);
    if (s->put)
        put_message(w);
    if (s->kill)
        (void)raise(SIGKILL);
    if (s->refuse != NULL && strlen(s->refuse) == cmd->id_len &&
        memcmp(s->refuse, cmd->id, cmd->id_len) == 0)
        return POSTBAG_RETRY;
    return s->outcome;
}

/* of consumers a and b */
static struct script script;
static struct script other;

static const char effect[] = "UPDATE app SET n = n + 1";

static inline int set_up(void **state)
{
    struct inbox_world *w = world_new();

    memset(&script, 0, sizeof(script));
    memset(&other, 0, sizeof(other));
    script.sql = effect;
    temp_db_run(&w->t, "CREATE TABLE app(n INTEGER NOT NULL);"
                       "INSERT INTO app VALUES (0)");
    world_add(w, "a", "cmd/a", handle, &script);
    world_add(w, "b", "cmd/b", handle, &other);
    world_open_receiver(w, 100);
    world_open_worker(w, "");
    *state = w;
    return 0;
}

static inline int tear_down(void **state)
{
    world_free(*state);
    return 0;
}

/* One command comes back, so that those after it are charged nothing ahead. */
static inline void prove_handler(struct inbox_world *w)
{
    const struct script now = script;

    script.sql = NULL;
    script.outcome = POSTBAG_DONE;
    world_deliver(w, "proof", NULL);
    assert_int_equal(world_run_one(w), 1);
    temp_db_run(&w->t, "DELETE FROM inbox WHERE id = 'proof'");
    script = now;
}

static inline int64_t effects(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT n FROM app");
}

static inline int64_t in_state(struct inbox_world *w, const char *name)
{
    char sql[100];

    (void)snprintf(sql, sizeof(sql),
        "SELECT count(*) FROM inbox WHERE state = '%s'", name);
    return temp_db_get(&w->t, sql);
}

static inline void expect_error(struct inbox_world *w, const char *part)
{
    char sql[200];

    (void)snprintf(sql, sizeof(sql),
        "SELECT instr(error, '%s') > 0 FROM inbox LIMIT 1", part);
    if (temp_db_get(&w->t, sql) != 1)
        fail_msg("the error does not say '%s'", part);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
