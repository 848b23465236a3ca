/* SPDX-License-Identifier: MIT */
/*
 * Lives that go wrong on purpose: what a trial is to notice, it notices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proof.h"
#include "scene.h"

static const struct postbag_message message = {
    .struct_size = sizeof(message), .topic = "put", .payload = NULL};

static int put(struct torture *t)
{
    int err = CALL(t, postbag_begin, t->w);

    if (err == POSTBAG_OK)
        err = scene_sql(t, "UPDATE state SET n = n + 1");
    if (err == POSTBAG_OK)
        err = CALL(t, postbag_put, t->w, &message, NULL);
    return err;
}

/* The application goes on without its message. */
static int ignores_an_error(struct torture *t)
{
    (void)put(t);
    if (sqlite3_get_autocommit(t->app))
        return POSTBAG_OK;
    return CALL(t, postbag_commit, t->w);
}

static int forgets_a_rollback(struct torture *t)
{
    int err = put(t);

    return err == POSTBAG_OK ? CALL(t, postbag_commit, t->w) : err;
}

static int keeps_a_statement(struct torture *t)
{
    sqlite3_stmt *s = NULL;
    int err = put(t);

    if (err == POSTBAG_OK)
        return CALL(t, postbag_commit, t->w);
    postbag_rollback(t->w);
    if (t->is_again)
        return err;
    if (sqlite3_prepare_v2(t->app, "SELECT n FROM state", -1, &s, NULL) ==
        SQLITE_OK)
        (void)sqlite3_step(s);
    t->numbers[0] = (int64_t)(intptr_t)s;
    return err;
}

static void drop_statement(struct torture *t)
{
    (void)sqlite3_finalize((sqlite3_stmt *)(intptr_t)t->numbers[0]);
}

static void *leaked;

static int leaks(struct torture *t)
{
    int err = put(t);

    if (err == POSTBAG_OK)
        return CALL(t, postbag_commit, t->w);
    postbag_rollback(t->w);
    sqlite3_free(leaked);
    leaked = sqlite3_malloc(100);
    return err;
}

static int returns_what_it_must_not(struct torture *t)
{
    int err = put(t);

    if (err == POSTBAG_OK)
        return CALL(t, postbag_commit, t->w);
    postbag_rollback(t->w);
    return torture_end(t, "postbag_id_parse", err);
}

static void check_both(struct torture *t, int err)
{
    int64_t state = scene_get(t, "SELECT n FROM state");
    int64_t rows =
        scene_get(t, "SELECT count(*) FROM outbox WHERE topic = 'put'");

    (void)err;
    EXPECT(t, state == rows, "half done: %lld and %lld", (long long)state,
        (long long)rows);
}

/* A name, and a part of what must be noticed. */
struct wrong {
    const char *name, *noticed;
    int (*act)(struct torture *t);
    void (*tear_down)(struct torture *t);
};

static const struct wrong wrongs[] = {
    {"ignored_error", "half done", ignores_an_error, NULL},
    {"no_rollback", "a transaction is open", forgets_a_rollback, NULL},
    {"read_lock", "read lock is held", keeps_a_statement, drop_statement},
    {"leak", "not given back", leaks, NULL},
    {"undocumented_error", "does not name", returns_what_it_must_not, NULL}};

static int is_noticed(const struct wrong *w, uint64_t nth)
{
    static const struct blow blow = {.name = "uuid",
        .group = FUSE_PORT,
        .call = SIM_UUID,
        .code = POSTBAG_EIO};
    static struct torture t;
    const struct life life = {.name = w->name,
        .base = STAGE_FURNISHED,
        .set_up = scene_writer,
        .act = w->act,
        .check = check_both,
        .tear_down = w->tear_down};
    const struct moment_of when = {.nth = nth};
    uint64_t struck = torture_trial(&t, &life, &blow, &when);

    if (struck == 0 && t.wrong[0] != '\0')
        fail_msg("%s: nothing failed, and: %s", w->name, t.wrong);
    if (struck > 0 && strstr(t.wrong, w->noticed) == NULL)
        fail_msg("%s: \"%s\" lacks \"%s\"", w->name, t.wrong, w->noticed);
    return struck > 0;
}

static void test_torture_notices_each_wrong_life(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        uint64_t hits = 0;

        while (is_noticed(&wrongs[i], hits + 1))
            hits++;
        assert_true(hits > 0);
        proof_control("F16_port", wrongs[i].name, hits, hits + 1);
        sqlite3_free(leaked);
        leaked = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torture_notices_each_wrong_life)};
    int failed;

    stage_build();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    stage_strike();
    return failed;
}
