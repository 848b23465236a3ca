/* SPDX-License-Identifier: MIT */
/*
 * Effects outside the database, which no transaction of ours undoes: the
 * patterns of src/DESIGN.md, each ended at every point and begun again, and
 * beside each what happens without it.
 */
#include "inbox_world.h"

#include <sqlite3.h>

#include "postbag/claim.h"
#include "writer.h"

/* ---- the outside ------------------------------------------------------- */

/* A provider, or a device, and what it did. */
static struct {
    char keys[8][16];
    int effects;
} outside;

static int was_done(const char *key)
{
    for (int i = 0; i < outside.effects; i++)
        if (strcmp(outside.keys[i], key) == 0)
            return 1;
    return 0;
}

/* Each call has its effect. */
static void call(const char *key)
{
    (void)snprintf(
        outside.keys[outside.effects++], sizeof(outside.keys[0]), "%s", key);
}

/* It leaves out what it did under the same key. */
static void call_with_key(const char *key)
{
    if (!was_done(key))
        call(key);
}

typedef void (*call_fn)(const char *key);

/* Where the process ends. */
enum end { BEFORE_CALL, AFTER_CALL, NEVER, ENDS };

/* ---- a world with one handler ------------------------------------------ */

static int set_up(void **state)
{
    struct inbox_world *w = world_new();

    memset(&outside, 0, sizeof(outside));
    temp_db_run(&w->t, "CREATE TABLE todo(id TEXT PRIMARY KEY)");
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world_free(*state);
    return 0;
}

static void open_world(
    struct inbox_world *w, postbag_handler handler, void *ctx)
{
    world_add(w, "valve", "cmd/a", handler, ctx);
    world_open_receiver(w, 100);
    world_open_worker(w, "re/#");
}

/* ---- 1. the command's id as the provider's idempotency key ------------- */

/* Calls nobody, which would hold the write lock: notes what is to be called. */
static enum postbag_outcome note(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    char sql[80];

    (void)ctx;
    (void)snprintf(sql, sizeof(sql), "INSERT INTO todo VALUES ('%.*s')",
        (int)cmd->id_len, (const char *)cmd->id);
    return sqlite3_exec(postbag_writer_db(w), sql, NULL, NULL, NULL) ==
                   SQLITE_OK
               ? POSTBAG_DONE
               : POSTBAG_RETRY;
}

/* On a thread of the application's: calls, then strikes out. */
static void work_off(
    struct inbox_world *w, const char *id, call_fn provider, enum end end)
{
    if (end == BEFORE_CALL ||
        sql_get(w->t.db.handle, "SELECT count(*) FROM todo") == 0)
        return;
    provider(id);
    if (end != AFTER_CALL)
        sql_run(w->t.db.handle, "DELETE FROM todo WHERE id = '%s'", id);
}

/* Effects of one command that comes twice, with an end at this point. */
static int effects_of_noted(
    struct inbox_world *w, const char *id, call_fn provider, enum end end)
{
    outside.effects = 0;
    for (int life = 0; life < 3; life++) {
        world_deliver(w, id, NULL);
        assert_int_equal(world_run_one(w), life == 0);
        work_off(w, id, provider, life == 0 ? end : NEVER);
        world_restart(w);
    }
    return outside.effects;
}

static void test_external_effects_key_of_the_provider(void **state)
{
    static const char *const ids[ENDS] = {"0", "1", "2"};
    struct inbox_world *w = *state;

    open_world(w, note, NULL);
    for (enum end end = BEFORE_CALL; end < ENDS; end++)
        assert_int_equal(effects_of_noted(w, ids[end], call_with_key, end), 1);
    /* without the key */
    assert_int_equal(effects_of_noted(w, "3", call, AFTER_CALL), 2);
}

/* ---- 2. a row for a second destination instead of a call --------------- */

/* What a handler does before it asks for another try, and once more after. */
struct plan {
    int calls; /* 0: it puts */
    int tries;
};

static enum postbag_outcome tell(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    struct plan *p = ctx;
    const struct postbag_message m = {.struct_size = sizeof(m),
        .topic = "valve/open",
        .payload = "",
        .dest = "valves"};

    if (p->calls)
        call("a");
    else
        assert_ok(postbag_put(w, &m, NULL));
    p->tries++;
    return cmd->attempt == 1 ? POSTBAG_RETRY : POSTBAG_DONE;
}

static void test_external_effects_row_for_a_second_destination(void **state)
{
    struct inbox_world *w = *state;
    struct plan p = {0};

    assert_ok(postbag__schema_add_dest(&w->t.db, "valves"));
    open_world(w, tell, &p);
    for (int life = 0; life < 3; life++) {
        world_deliver(w, "1", NULL);
        (void)world_run_one(w);
        world_pass_ms(w, 10 * WORLD_RETRY_BASE_MS);
        world_restart(w);
    }
    assert_int_equal(p.tries, 2);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM outbox WHERE dest = 'valves'"),
        1);
    /* a call, in the handler */
    p.calls = 1;
    world_deliver(w, "2", NULL);
    assert_int_equal(world_run_one(w), 1);
    world_pass_ms(w, 10 * WORLD_RETRY_BASE_MS);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(outside.effects, 2);
}

/* ---- 3. claimed, then finished, and reconciled ------------------------- */

/* What a writer does with a request that is in progress. */
enum belief { WAITS, DOES_IT_AGAIN, TAKES_IT_FOR_DONE };

static void finish(struct postbag_writer *writer, int64_t arrival)
{
    assert_ok(postbag_begin(writer));
    assert_ok(postbag_inbox_finish(writer, arrival, "opened", 6));
    assert_ok(postbag_commit(writer));
}

/* The claim's answer. */
static int serve(struct postbag_writer *writer, const char *id, enum end end,
    enum belief belief)
{
    const struct postbag_request r = {.struct_size = sizeof(r),
        .consumer = "http",
        .id = id,
        .id_len = strlen(id)};
    struct postbag_claim c = {.struct_size = sizeof(c)};
    int is_mine;

    assert_ok(postbag_begin(writer));
    assert_ok(postbag_inbox_claim(writer, &r, &c));
    assert_ok(postbag_commit(writer));
    is_mine = c.is == POSTBAG_CLAIM_NEW ||
              (c.is == POSTBAG_CLAIM_IN_PROGRESS && belief == DOES_IT_AGAIN);
    if (is_mine && end != BEFORE_CALL) {
        call(id);
        if (end != AFTER_CALL)
            finish(writer, c.arrival);
    }
    return c.is;
}

/* At start, before requests are taken: only the outside knows. */
static void reconcile(struct inbox_world *w, struct postbag_writer *writer)
{
#define LEFT " FROM inbox WHERE consumer = 'http' AND state = 'claimed'"
    while (temp_db_get(&w->t, "SELECT count(*)" LEFT) > 0) {
        int64_t arrival = temp_db_get(&w->t, "SELECT min(arrival)" LEFT);
        const char *id =
            sql_text(w->t.db.handle, "SELECT id" LEFT " ORDER BY arrival");

        if (!was_done(id))
            call(id);
        finish(writer, arrival);
    }
}

/* Effects of a request that comes again after an end at this point. */
static int effects_of_claimed(
    struct inbox_world *w, const char *id, enum end end, enum belief belief)
{
    struct postbag_writer *writer;

    outside.effects = 0;
    assert_ok(
        postbag__writer_open(&writer, w->t.db.handle, &w->port, NULL, NULL));
    (void)serve(writer, id, end, belief);
    if (belief == WAITS)
        reconcile(w, writer);
    assert_int_equal(serve(writer, id, NEVER, belief),
        belief == WAITS ? POSTBAG_CLAIM_DONE : POSTBAG_CLAIM_IN_PROGRESS);
    postbag_writer_close(writer);
    return outside.effects;
}

static void test_external_effects_reconciled_after_a_crash(void **state)
{
    static const char *const ids[ENDS] = {"0", "1", "2"};
    struct inbox_world *w = *state;

    for (enum end end = BEFORE_CALL; end < ENDS; end++)
        assert_int_equal(effects_of_claimed(w, ids[end], end, WAITS), 1);
    /* without asking the outside */
    assert_int_equal(effects_of_claimed(w, "3", AFTER_CALL, DOES_IT_AGAIN), 2);
    assert_int_equal(
        effects_of_claimed(w, "4", BEFORE_CALL, TAKES_IT_FOR_DONE), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_external_effects_key_of_the_provider),
        TEST(test_external_effects_row_for_a_second_destination),
        TEST(test_external_effects_reconciled_after_a_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
