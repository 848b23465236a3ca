/* SPDX-License-Identifier: MIT */
/*
 * A request that comes again takes no effect again, and is given the result of
 * the first one; what a crash or an unknown COMMIT leaves behind.
 */
#include "wal_syncs.h"

#include <sys/wait.h>
#include <unistd.h>

#include "claim_desk.h"

static int set_up(void **state)
{
    wal_syncs_fail = 0;
    return desk_set_up(state);
}

static int tear_down(void **state)
{
    return desk_tear_down(state);
}

static void expect_result(struct desk *d, const char *text)
{
    assert_int_equal(d->claim.is, POSTBAG_CLAIM_DONE);
    assert_int_equal(d->claim.result_len, strlen(text));
    assert_memory_equal(d->claim.result, text, strlen(text));
}

/* ---- what a claim says ------------------------------------------------- */

static void test_claim_again_gives_the_result_and_no_effect(void **state)
{
    struct desk *d = *state;

    assert_int_equal(desk_serve(d, "a"), POSTBAG_CLAIM_NEW);
    assert_true(d->claim.claimed_ms > 0);
    assert_ok(postbag_commit(d->w));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(desk_serve(d, "a"), POSTBAG_CLAIM_DONE);
        expect_result(d, "201");
        assert_ok(postbag_commit(d->w));
    }
    assert_int_equal(desk_effects(d), 1);
    assert_int_equal(sql_get(d->db, "SELECT seen FROM inbox"), 4);
}

static void test_claim_result_survives_a_restart(void **state)
{
    struct desk *d = *state;

    (void)desk_serve(d, "a");
    assert_ok(postbag_commit(d->w));
    desk_leave(d);
    desk_connect(d);
    (void)desk_look(d, "a", "open");
    expect_result(d, "201");
}

static void test_claim_of_other_content_is_a_conflict(void **state)
{
    struct desk *d = *state;

    (void)desk_serve(d, "a");
    assert_ok(postbag_commit(d->w));
    assert_int_equal(desk_look(d, "a", "shut"), POSTBAG_CLAIM_CONFLICT);
    assert_int_equal(d->claim.arrival, 0);
    assert_null(d->claim.result);
    assert_int_equal(desk_look(d, "a", "open"), POSTBAG_CLAIM_DONE);
    assert_string_equal(
        sql_text(d->db, "SELECT state, seen FROM inbox"), "done|2");
}

static void test_claim_of_another_scope_is_another_request(void **state)
{
    static const struct postbag_request all[] = {{.struct_size = sizeof(all[0]),
                                                     .consumer = "http",
                                                     .id = "a",
                                                     .id_len = 1},
        {.struct_size = sizeof(all[0]),
            .consumer = "ble",
            .id = "a",
            .id_len = 1},
        {.struct_size = sizeof(all[0]),
            .consumer = "http",
            .source = "/app",
            .id = "a",
            .id_len = 1},
        {.struct_size = sizeof(all[0]),
            .consumer = "http",
            .id = "a\0",
            .id_len = 2},
        {.struct_size = sizeof(all[0]),
            .consumer = "http",
            .id = "\xff",
            .id_len = 1}};
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    for (size_t i = 0; i < COUNT(all); i++) {
        d->claim.struct_size = sizeof(d->claim);
        assert_ok(postbag_inbox_claim(d->w, &all[i], &d->claim));
        assert_int_equal(d->claim.is, POSTBAG_CLAIM_NEW);
    }
    assert_ok(postbag_commit(d->w));
    assert_string_equal(
        sql_text(d->db, "SELECT typeof(id) FROM inbox ORDER BY arrival"),
        "text text text blob blob");
}

static void test_claim_done_without_a_result_has_none(void **state)
{
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    assert_ok(desk_claim(d, "a", ""));
    assert_ok(postbag_inbox_finish(d->w, d->claim.arrival, NULL, 0));
    assert_ok(desk_claim(d, "b", ""));
    assert_ok(postbag_inbox_finish(d->w, d->claim.arrival, "", 0));
    assert_ok(postbag_commit(d->w));
    assert_int_equal(desk_look(d, "a", ""), POSTBAG_CLAIM_DONE);
    assert_null(d->claim.result);
    assert_int_equal(desk_look(d, "b", ""), POSTBAG_CLAIM_DONE);
    assert_non_null(d->claim.result);
    assert_int_equal(d->claim.result_len, 0);
}

static void test_claim_a_done_row_holds_key_hash_and_result(void **state)
{
    struct desk *d = *state;

    (void)desk_serve(d, "a");
    assert_ok(postbag_commit(d->w));
    assert_string_equal(
        sql_text(d->db, "SELECT consumer, source, id, length(content_hash),"
                        " state, attempts, CAST(result AS TEXT),"
                        " processed_ms >= received_ms, topic, payload"
                        " FROM inbox"),
        "http||a|32|done|1|201|1|NULL|NULL");
    /* as src/FORMAT.md says, so that others can write it */
    assert_string_equal(
        sql_text(d->db, "SELECT lower(hex(content_hash)) FROM inbox"),
        "2348f998744212575d85959674f9607ab26f67708a917157472832386337c904");
}

/* ---- what is refused --------------------------------------------------- */

static void test_claim_needs_a_transaction(void **state)
{
    struct desk *d = *state;

    assert_int_equal(desk_claim(d, "a", ""), POSTBAG_ENOTXN);
    assert_int_equal(postbag_inbox_finish(d->w, 1, NULL, 0), POSTBAG_ENOTXN);
    assert_int_equal(sql_get(d->db, "SELECT count(*) FROM inbox"), 0);
}

static void test_claim_refuses_what_names_no_request(void **state)
{
    static const char long_text[] = /* 65 bytes */
        "01234567890123456789012345678901234567890123456789012345678901234";
    static char longer[257];
    const struct {
        struct postbag_request r;
        const char *says;
    } all[] = {{{.id = "a", .id_len = 1}, "consumer"},
        {{.consumer = "", .id = "a", .id_len = 1}, "consumer"},
        {{.consumer = long_text, .id = "a", .id_len = 1}, "consumer"},
        {{.consumer = "\xff", .id = "a", .id_len = 1}, "consumer"},
        {{.consumer = "c", .source = longer, .id = "a", .id_len = 1}, "source"},
        {{.consumer = "c", .id_len = 1}, "id"},
        {{.consumer = "c", .id = "a"}, "id"},
        {{.consumer = "c", .id = "a", .id_len = 1, .content_len = 1},
            "content"}};
    struct desk *d = *state;

    memset(longer, 'x', 256);
    assert_ok(postbag_begin(d->w));
    d->claim.struct_size = sizeof(d->claim);
    for (size_t i = 0; i < COUNT(all); i++) {
        struct postbag_request r = all[i].r;

        r.struct_size = sizeof(r);
        assert_int_equal(
            postbag_inbox_claim(d->w, &r, &d->claim), POSTBAG_EINVAL);
        assert_has(postbag_writer_fault(d->w)->text, all[i].says);
    }
    postbag_rollback(d->w);
}

static void test_claim_refuses_structs_that_it_does_not_know(void **state)
{
    struct desk *d = *state;
    struct postbag_request r = {.consumer = "c", .id = "a", .id_len = 1};

    assert_ok(postbag_begin(d->w));
    d->claim.struct_size = sizeof(d->claim);
    assert_int_equal(
        postbag_inbox_claim(d->w, &r, &d->claim), POSTBAG_EVERSION);
    r.struct_size = sizeof(r);
    d->claim.struct_size = 0;
    assert_int_equal(
        postbag_inbox_claim(d->w, &r, &d->claim), POSTBAG_EVERSION);
    assert_int_equal(postbag_inbox_claim(NULL, &r, &d->claim), POSTBAG_EINVAL);
    assert_int_equal(postbag_inbox_claim(d->w, NULL, NULL), POSTBAG_EINVAL);
    postbag_rollback(d->w);
}

static void test_finish_refuses_a_result_that_is_too_long(void **state)
{
    static const char longest[POSTBAG_RESULT_MAX + 1];
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    assert_ok(desk_claim(d, "a", ""));
    assert_int_equal(
        postbag_inbox_finish(d->w, d->claim.arrival, longest, sizeof(longest)),
        POSTBAG_ETOOBIG);
    assert_int_equal(
        postbag_inbox_finish(d->w, d->claim.arrival, NULL, 1), POSTBAG_EINVAL);
    assert_ok(postbag_inbox_finish(
        d->w, d->claim.arrival, longest, POSTBAG_RESULT_MAX));
    assert_ok(postbag_commit(d->w));
    (void)desk_look(d, "a", "");
    assert_int_equal(d->claim.result_len, POSTBAG_RESULT_MAX);
}

/* Of two that reconcile one request, one must not write its effect. */
static void test_finish_is_given_once(void **state)
{
    struct desk *d = *state;

    (void)desk_serve(d, "a");
    assert_int_equal(postbag_inbox_finish(d->w, d->claim.arrival, "500", 3),
        POSTBAG_ENOTFOUND);
    assert_int_equal(postbag_inbox_finish(d->w, d->claim.arrival + 1, "", 0),
        POSTBAG_ENOTFOUND);
    assert_ok(postbag_commit(d->w));
    (void)desk_look(d, "a", "open");
    expect_result(d, "201");
}

/* ---- crashes ----------------------------------------------------------- */

/* A process that serves a request and is killed at this point of it. */
enum point { CLAIMED, ACTED, FINISHED, COMMITTED, COMMIT_UNKNOWN };

static void serve_until(struct desk *d, enum point end)
{
    desk_connect(d);
    /* the WAL has begun */
    sql_run(d->db, "PRAGMA synchronous=FULL; PRAGMA user_version=1");
    assert_ok(postbag_begin(d->w));
    assert_ok(desk_claim(d, "a", "open"));
    if (end == CLAIMED)
        _exit(0);
    desk_act(d, "a");
    if (end == ACTED)
        _exit(0);
    assert_ok(postbag_inbox_finish(d->w, d->claim.arrival, "201", 3));
    if (end == FINISHED)
        _exit(0);
    wal_syncs_fail = end == COMMIT_UNKNOWN;
    assert_int_equal(
        postbag_commit(d->w), end == COMMIT_UNKNOWN ? POSTBAG_EIO : POSTBAG_OK);
    _exit(0);
}

/* In a child; afterwards there is a new connection. */
static void crash(
    struct desk *d, void (*serve)(struct desk *, enum point), enum point end)
{
    int status;
    pid_t pid;

    desk_leave(d);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        serve(d, end);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    desk_connect(d);
}

static void test_claim_crash_before_the_commit_leaves_nothing(void **state)
{
    static const enum point all[] = {CLAIMED, ACTED, FINISHED};
    struct desk *d = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        crash(d, serve_until, all[i]);
        assert_int_equal(desk_effects(d), 0);
        assert_int_equal(sql_get(d->db, "SELECT count(*) FROM inbox"), 0);
    }
    assert_int_equal(desk_serve(d, "a"), POSTBAG_CLAIM_NEW);
    assert_ok(postbag_commit(d->w));
    assert_int_equal(desk_effects(d), 1);
}

static void test_claim_crash_after_the_commit_is_done(void **state)
{
    struct desk *d = *state;

    crash(d, serve_until, COMMITTED);
    assert_int_equal(desk_serve(d, "a"), POSTBAG_CLAIM_DONE);
    expect_result(d, "201");
    assert_ok(postbag_commit(d->w));
    assert_int_equal(desk_effects(d), 1);
}

/* Effects after a crash, and after the request came again. */
static int64_t effects_after(
    struct desk *d, void (*serve)(struct desk *, enum point), enum point end)
{
    sql_run(d->db, "DELETE FROM inbox; DELETE FROM effect");
    crash(d, serve, end);
    if (desk_look(d, "a", "open") == POSTBAG_CLAIM_NEW)
        desk_act(d, "a");
    return desk_effects(d);
}

/* Controls: the marker in a transaction of its own, after or before the
 * effect's. */
static void serve_marking_alone(struct desk *d, enum point end)
{
    desk_connect(d);
    if (end == ACTED) {
        desk_act(d, "a");
        _exit(0);
    }
    assert_ok(postbag_begin(d->w));
    assert_ok(desk_claim(d, "a", "open"));
    assert_ok(postbag_inbox_finish(d->w, d->claim.arrival, "201", 3));
    assert_ok(postbag_commit(d->w));
    _exit(0);
}

static void test_claim_marker_in_its_own_transaction_is_caught(void **state)
{
    struct desk *d = *state;

    for (enum point end = CLAIMED; end <= COMMITTED; end++)
        assert_int_equal(effects_after(d, serve_until, end), 1);
    assert_int_equal(effects_after(d, serve_marking_alone, CLAIMED), 0);
    assert_int_equal(effects_after(d, serve_marking_alone, ACTED), 2);
}

/* With an effect outside the claim is committed before it. */
static void claim_alone(struct desk *d, enum point end)
{
    desk_connect(d);
    assert_ok(postbag_begin(d->w));
    assert_ok(desk_claim(d, "a", "open"));
    assert_ok(postbag_commit(d->w));
    if (end == COMMITTED)
        _exit(0);
    assert_ok(postbag_begin(d->w));
    assert_ok(postbag_inbox_finish(d->w, d->claim.arrival, "201", 3));
    _exit(0);
}

static void test_claim_crash_between_claim_and_finish_is_in_progress(
    void **state)
{
    static const enum point all[] = {COMMITTED, FINISHED};
    struct desk *d = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        crash(d, claim_alone, all[i]);
        assert_int_equal(desk_look(d, "a", "open"), POSTBAG_CLAIM_IN_PROGRESS);
        assert_null(d->claim.result);
        assert_int_equal(desk_look(d, "a", "shut"), POSTBAG_CLAIM_CONFLICT);
    }
    (void)desk_look(d, "a", "open");
    assert_ok(postbag_begin(d->w));
    assert_ok(postbag_inbox_finish(d->w, d->claim.arrival, "200", 3));
    assert_ok(postbag_commit(d->w));
    (void)desk_look(d, "a", "open");
    expect_result(d, "200");
}

/* ---- a COMMIT whose outcome is unknown --------------------------------- */

/* The process lives on: what may be in the WAL is written over. */
static void test_claim_after_an_unknown_commit_is_new_here(void **state)
{
    struct desk *d = *state;

    sql_run(d->db, "PRAGMA synchronous=FULL");
    (void)desk_serve(d, "a");
    wal_syncs_fail = 1;
    assert_int_equal(postbag_commit(d->w), POSTBAG_EIO);
    wal_syncs_fail = 0;
    assert_int_equal(desk_serve(d, "a"), POSTBAG_CLAIM_NEW);
    assert_ok(postbag_commit(d->w));
    assert_int_equal(desk_serve(d, "a"), POSTBAG_CLAIM_DONE);
    assert_ok(postbag_commit(d->w));
    assert_int_equal(desk_effects(d), 1);
}

/* The process ends, too: what is in the WAL is found by recovery. */
static void test_claim_after_an_unknown_commit_and_a_crash_is_done(void **state)
{
    struct desk *d = *state;

    crash(d, serve_until, COMMIT_UNKNOWN);
    assert_int_equal(desk_serve(d, "a"), POSTBAG_CLAIM_DONE);
    expect_result(d, "201");
    assert_ok(postbag_commit(d->w));
    assert_int_equal(desk_effects(d), 1);
}

/* What DONE and IN_PROGRESS say is on disk when their COMMIT returns, also if
 * the first one's was not. */
static void test_claim_repetition_is_synced(void **state)
{
    struct desk *d = *state;

    (void)desk_serve(d, "a");
    assert_ok(postbag_commit(d->w));
    sql_run(d->db, "PRAGMA synchronous=FULL");
    for (int i = 0; i < 3; i++) {
        wal_syncs = 0;
        (void)desk_look(d, "a", "open");
        assert_int_equal(wal_syncs, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_claim_again_gives_the_result_and_no_effect),
        TEST_IN(test_claim_result_survives_a_restart),
        TEST_IN(test_claim_of_other_content_is_a_conflict),
        TEST_IN(test_claim_of_another_scope_is_another_request),
        TEST_IN(test_claim_done_without_a_result_has_none),
        TEST_IN(test_claim_a_done_row_holds_key_hash_and_result),
        TEST_IN(test_claim_needs_a_transaction),
        TEST_IN(test_claim_refuses_what_names_no_request),
        TEST_IN(test_claim_refuses_structs_that_it_does_not_know),
        TEST_IN(test_finish_refuses_a_result_that_is_too_long),
        TEST_IN(test_finish_is_given_once),
        TEST_IN(test_claim_crash_before_the_commit_leaves_nothing),
        TEST_IN(test_claim_crash_after_the_commit_is_done),
        TEST_IN(test_claim_marker_in_its_own_transaction_is_caught),
        TEST_IN(test_claim_crash_between_claim_and_finish_is_in_progress),
        TEST_IN(test_claim_after_an_unknown_commit_is_new_here),
        TEST_IN(test_claim_after_an_unknown_commit_and_a_crash_is_done),
        TEST_IN(test_claim_repetition_is_synced),
    };

    wal_syncs_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
