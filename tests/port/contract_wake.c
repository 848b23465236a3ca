/* SPDX-License-Identifier: MIT */
/* The contract of wake, wait and wake_watch. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "contract_groups.h"
#include "contract_support.h"

static struct postbag_wake *make(void)
{
    struct postbag_wake *w = NULL;

    assert_int_equal(port->wake_new(port->ctx, &w), POSTBAG_OK);
    assert_non_null(w);
    return w;
}

static void drop(struct postbag_wake *w)
{
    port->wake_free(port->ctx, w);
}

static unsigned wait_for(struct postbag_wake *w, int64_t ms)
{
    return port->wait(port->ctx, w, in_ms(ms));
}

/* ---- wake and wait ------------------------------------------------------ */

static void test_wait_nothing_happens_ends_not_early(void **state)
{
    const int64_t lengths_us[] = {0, 1, 70, 999, 1000, 1001, 20300};
    struct postbag_wake *w = make();
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(lengths_us) / sizeof(lengths_us[0]); i++) {
        int64_t until_us = now_us() + lengths_us[i];

        assert_int_equal(port->wait(port->ctx, w, until_us), 0);
        assert_true(now_us() >= until_us);
        assert_true(now_us() < until_us + (int64_t)PATIENCE_MS * 1000);
    }
    drop(w);
}

static void test_wait_nothing_happens_costs_no_work(void **state)
{
    struct postbag_wake *w = make();
    clock_t from = clock();

    (void)state;
    assert_int_equal(wait_for(w, 200), 0);
    assert_true(clock() - from < CLOCKS_PER_SEC / 10);
    drop(w);
}

static void test_wait_time_long_past_returns_at_once(void **state)
{
    struct postbag_wake *w = make();

    (void)state;
    assert_int_equal(port->wait(port->ctx, w, INT64_MIN), 0);
    assert_int_equal(port->wait(port->ctx, w, 0), 0);
    drop(w);
}

static void test_wait_woken_before_is_not_lost(void **state)
{
    struct postbag_wake *w = make();

    (void)state;
    port->wake(port->ctx, w);
    assert_int_equal(port->wait(port->ctx, w, INT64_MAX), POSTBAG_WOKEN);
    assert_int_equal(wait_for(w, 5), 0);
    drop(w);
}

static void test_wait_woken_thrice_ends_once(void **state)
{
    struct postbag_wake *w = make();

    (void)state;
    port->wake(port->ctx, w);
    port->wake(port->ctx, w);
    port->wake(port->ctx, w);
    assert_int_equal(port->wait(port->ctx, w, 0), POSTBAG_WOKEN);
    assert_int_equal(wait_for(w, 5), 0);
    drop(w);
}

struct game {
    struct postbag_wake *here;
    struct postbag_wake *there;
    unsigned bad;
};

static void play(void *arg)
{
    struct game *g = arg;
    int i;

    for (i = 0; i < 2000; i++) {
        if (wait_for(g->there, PATIENCE_MS) != POSTBAG_WOKEN)
            g->bad++;
        port->wake(port->ctx, g->here);
    }
}

static void test_wake_from_another_thread_ends_each_wait(void **state)
{
    struct game g = {0};
    struct postbag_thread *t;
    unsigned bad = 0;
    int i;

    (void)state;
    need_threads();
    g.here = make();
    g.there = make();
    t = start(play, &g);
    for (i = 0; i < 2000; i++) {
        port->wake(port->ctx, g.there);
        if (wait_for(g.here, PATIENCE_MS) != POSTBAG_WOKEN)
            bad++;
    }
    join(t);
    assert_int_equal(bad, 0);
    assert_int_equal(g.bad, 0);
    drop(g.here);
    drop(g.there);
}

int run_wake_contract(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait_nothing_happens_ends_not_early),
        cmocka_unit_test(test_wait_nothing_happens_costs_no_work),
        cmocka_unit_test(test_wait_time_long_past_returns_at_once),
        cmocka_unit_test(test_wait_woken_before_is_not_lost),
        cmocka_unit_test(test_wait_woken_thrice_ends_once),
        cmocka_unit_test(test_wake_from_another_thread_ends_each_wait),
    };

    return cmocka_run_group_tests_name("port: wake", tests, NULL, NULL);
}

/* ---- wake_watch --------------------------------------------------------- */

static struct postbag_wake *make_watching(const char *path)
{
    struct postbag_wake *w;

    if (port->wake_watch == NULL)
        skip();
    w = make();
    assert_int_equal(port->wake_watch(port->ctx, w, path), POSTBAG_OK);
    return w;
}

static void expect_change(struct postbag_wake *w)
{
    assert_int_equal(wait_for(w, PATIENCE_MS), POSTBAG_FILE_CHANGED);
}

/* One change may be told in several waits. */
static void expect_quiet(struct postbag_wake *w)
{
    int i;

    for (i = 0; i < 20; i++)
        if (wait_for(w, QUIET_MS) == 0)
            return;
    fail_msg("woken again and again with nothing written");
}

static void test_watch_write_by_another_process_is_seen(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct postbag_wake *w;
    int i;

    write_file(path, "old");
    w = make_watching(path);
    assert_int_equal(wait_for(w, QUIET_MS), 0);
    for (i = 0; i < 5; i++) {
        write_file_elsewhere(path, "new");
        expect_change(w);
        expect_quiet(w);
    }
    drop(w);
}

static void test_watch_write_by_this_process_is_seen(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct postbag_wake *w;

    write_file(path, "old");
    w = make_watching(path);
    write_file(path, "new");
    expect_change(w);
    drop(w);
}

static void test_watch_file_not_there_yet_is_seen_when_made(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct postbag_wake *w = make_watching(path);

    assert_int_equal(wait_for(w, QUIET_MS), 0);
    write_file_elsewhere(path, "first");
    expect_change(w);
    expect_quiet(w);
    write_file_elsewhere(path, "second");
    expect_change(w);
    drop(w);
}

static void test_watch_file_made_again_is_seen(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct postbag_wake *w;
    int i;

    write_file(path, "old");
    w = make_watching(path);
    for (i = 0; i < 5; i++) {
        assert_int_equal(unlink(path), 0);
        expect_change(w);
        expect_quiet(w);
        write_file_elsewhere(path, "new");
        expect_change(w);
        expect_quiet(w);
        write_file_elsewhere(path, "more");
        expect_change(w);
    }
    drop(w);
}

/* Both happen before the wait. */
static void test_watch_file_swapped_between_waits_is_seen(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct postbag_wake *w;

    write_file(path, "old");
    w = make_watching(path);
    assert_int_equal(unlink(path), 0);
    write_file(path, "new");
    expect_change(w);
    expect_quiet(w);
    write_file_elsewhere(path, "more");
    expect_change(w);
    drop(w);
}

static void test_watch_file_renamed_follows_the_name(void **state)
{
    char away[PATH_MAX];
    const char *path;
    struct postbag_wake *w;

    (void)snprintf(away, sizeof(away), "%s", in_folder(*state, "away"));
    path = in_folder(*state, "a-wal");
    write_file(path, "old");
    w = make_watching(path);
    assert_int_equal(rename(path, away), 0);
    expect_change(w);
    expect_quiet(w);
    write_file(away, "not ours any more");
    assert_int_equal(wait_for(w, QUIET_MS), 0);
    assert_int_equal(rename(away, path), 0);
    expect_change(w);
    expect_quiet(w);
    write_file(path, "ours again");
    expect_change(w);
    drop(w);
}

static void test_watch_other_files_do_not_wake(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct postbag_wake *w = make_watching(path);

    write_file(in_folder(*state, "a-wal2"), "x");
    write_file(in_folder(*state, "a"), "x");
    assert_int_equal(wait_for(w, QUIET_MS), 0);
    write_file(in_folder(*state, "a-wal"), "x");
    expect_change(w);
    expect_quiet(w);
    write_file(in_folder(*state, "a"), "y");
    write_file(in_folder(*state, "b"), "y");
    assert_int_equal(wait_for(w, QUIET_MS), 0);
    drop(w);
}

static void test_watch_second_path_replaces_the_first(void **state)
{
    char first[PATH_MAX];
    const char *second;
    struct postbag_wake *w;

    (void)snprintf(first, sizeof(first), "%s", in_folder(*state, "first"));
    second = in_folder(*state, "second");
    write_file(first, "x");
    write_file(second, "x");
    w = make_watching(first);
    assert_int_equal(port->wake_watch(port->ctx, w, second), POSTBAG_OK);
    write_file(first, "y");
    assert_int_equal(wait_for(w, QUIET_MS), 0);
    write_file(second, "y");
    expect_change(w);
    drop(w);
}

static void test_watch_and_wake_are_both_told(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct postbag_wake *w = make_watching(path);
    unsigned seen = 0;

    write_file(path, "x");
    port->wake(port->ctx, w);
    while (seen != (POSTBAG_WOKEN | POSTBAG_FILE_CHANGED)) {
        unsigned why = wait_for(w, PATIENCE_MS);

        assert_int_not_equal(why, 0);
        seen |= why;
    }
    drop(w);
}

static void test_watch_folder_missing_is_an_error(void **state)
{
    const char *path = in_folder(*state, "none/a-wal");
    struct postbag_wake *w;

    if (port->wake_watch == NULL)
        skip();
    w = make();
    assert_true(port->wake_watch(port->ctx, w, path) < 0);
    port->wake(port->ctx, w);
    assert_int_equal(wait_for(w, PATIENCE_MS), POSTBAG_WOKEN);
    assert_int_equal(wait_for(w, 5), 0);
    drop(w);
}

struct making {
    const char *path;
    atomic_int round; /* made in this round; -1: over */
};

static void make_each_round(void *arg)
{
    struct making *m = arg;
    int last = 0;
    int round;

    while ((round = atomic_load(&m->round)) >= 0) {
        if (round == last)
            continue;
        (void)close(open(m->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        last = round;
    }
}

static void spin(int64_t us)
{
    int64_t until_us = now_us() + us;

    while (now_us() < until_us)
        ;
}

/* The file is made while the watch is being set, before or after. */
static void test_watch_set_while_file_is_made_misses_nothing(void **state)
{
    struct making m = {.path = in_folder(*state, "a-wal")};
    struct postbag_wake *w;
    struct postbag_thread *t;
    int64_t until_us = in_ms(PATIENCE_MS);
    int missed = 0;
    int i;

    need_threads();
    w = make_watching(m.path);
    t = start(make_each_round, &m);
    for (i = 1; i <= 1000 && missed == 0; i++) {
        (void)unlink(m.path);
        atomic_store(&m.round, i);
        spin(i % 25);
        missed += port->wake_watch(port->ctx, w, m.path) != POSTBAG_OK;
        while (access(m.path, F_OK) != 0 && now_us() < until_us)
            ;
        while (port->wait(port->ctx, w, 0) != 0)
            ;
        missed += truncate(m.path, 1) != 0;
        missed += wait_for(w, 2000) != POSTBAG_FILE_CHANGED;
    }
    atomic_store(&m.round, -1);
    join(t);
    assert_int_equal(missed, 0);
    drop(w);
}

/* Does another process find path locked? */
static bool is_locked(const char *path)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(path, O_RDWR | O_CLOEXEC);

        if (fd < 0 || fcntl(fd, F_GETLK, &range) != 0)
            _exit(2);
        _exit(range.l_type == F_UNLCK ? 0 : 1);
    }
    return reap(child) == 1;
}

/* SQLite's locks are POSIX locks: any close() of the file would drop them. */
static void test_watch_set_and_freed_keeps_posix_locks(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct postbag_wake *w;
    int fd;

    write_file(path, "x");
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_SETLK, &range), 0);
    w = make_watching(path);
    write_file_elsewhere(path, "y");
    expect_change(w);
    drop(w);
    assert_true(is_locked(path));
    (void)close(fd);
    assert_false(is_locked(path));
}

int run_watch_contract(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_watch_write_by_another_process_is_seen),
        TEST_IN_FOLDER(test_watch_write_by_this_process_is_seen),
        TEST_IN_FOLDER(test_watch_file_not_there_yet_is_seen_when_made),
        TEST_IN_FOLDER(test_watch_file_made_again_is_seen),
        TEST_IN_FOLDER(test_watch_file_swapped_between_waits_is_seen),
        TEST_IN_FOLDER(test_watch_file_renamed_follows_the_name),
        TEST_IN_FOLDER(test_watch_other_files_do_not_wake),
        TEST_IN_FOLDER(test_watch_second_path_replaces_the_first),
        TEST_IN_FOLDER(test_watch_and_wake_are_both_told),
        TEST_IN_FOLDER(test_watch_folder_missing_is_an_error),
        TEST_IN_FOLDER(test_watch_set_while_file_is_made_misses_nothing),
        TEST_IN_FOLDER(test_watch_set_and_freed_keeps_posix_locks),
    };

    return cmocka_run_group_tests_name("port: watch", tests, NULL, NULL);
}
