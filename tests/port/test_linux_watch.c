/* SPDX-License-Identifier: MIT */
/* Corners of inotify that the contract cannot name. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contract_support.h"
#include "postbag/linux.h"

static struct postbag_wake *make_watching(const char *path)
{
    struct postbag_wake *w = NULL;

    assert_int_equal(port->wake_new(port->ctx, &w), POSTBAG_OK);
    assert_int_equal(port->wake_watch(port->ctx, w, path), POSTBAG_OK);
    return w;
}

static void expect_change(struct postbag_wake *w)
{
    assert_int_equal(
        port->wait(port->ctx, w, in_ms(PATIENCE_MS)), POSTBAG_FILE_CHANGED);
}

static void expect_quiet(struct postbag_wake *w)
{
    int i;

    for (i = 0; i < 20; i++)
        if (port->wait(port->ctx, w, in_ms(QUIET_MS)) == 0)
            return;
    fail_msg("woken again and again with nothing written");
}

static long queue_length(void)
{
    char text[32] = {0};
    int fd = open("/proc/sys/fs/inotify/max_queued_events", O_RDONLY);

    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    (void)close(fd);
    return strtol(text, NULL, 10);
}

/* Two kinds of events, so that they do not melt into one. */
static void test_watch_queue_overflow_counts_as_change(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct postbag_wake *w;
    long i;
    int fd;

    write_file(path, "old");
    w = make_watching(path);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (i = queue_length() / 2 + 10; i > 0; i--) {
        assert_int_equal(pwrite(fd, "x", 1, 0), 1);
        assert_int_equal(fchmod(fd, 0600), 0);
    }
    (void)close(fd);
    expect_change(w);
    expect_quiet(w);
    write_file(path, "new");
    expect_change(w);
    port->wake_free(port->ctx, w);
}

/* Nothing in the queue is about our file: that it came was lost. */
static void test_watch_file_made_during_overflow_is_seen(void **state)
{
    const char *path;
    struct postbag_wake *w;
    char a[PATH_MAX];
    char b[PATH_MAX];
    long i;

    (void)snprintf(a, sizeof(a), "%s", in_folder(*state, "a"));
    (void)snprintf(b, sizeof(b), "%s", in_folder(*state, "b"));
    path = in_folder(*state, "a-wal");
    write_file(a, "x");
    w = make_watching(path);
    for (i = queue_length() / 2 + 10; i > 0; i--) {
        assert_int_equal(rename(a, b), 0);
        assert_int_equal(rename(b, a), 0);
    }
    write_file(path, "new");
    expect_change(w);
    expect_quiet(w);
    write_file_elsewhere(path, "more");
    expect_change(w);
    port->wake_free(port->ctx, w);
}

/* Watches of all inotify queues of this process. */
static unsigned count_watches(void)
{
    char path[64];
    char line[256];
    unsigned count = 0;
    int fd;

    for (fd = 0; fd < 64; fd++) {
        FILE *info;

        (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        info = fopen(path, "re");
        if (info == NULL)
            continue;
        while (fgets(line, sizeof(line), info) != NULL)
            count += strncmp(line, "inotify ", 8) == 0;
        (void)fclose(info);
    }
    return count;
}

static void test_watch_any_change_leaves_one_watch(void **state)
{
    char away[PATH_MAX];
    const char *path;
    struct postbag_wake *w;
    int i;

    (void)snprintf(away, sizeof(away), "%s", in_folder(*state, "away"));
    path = in_folder(*state, "a-wal");
    w = make_watching(path);
    assert_int_equal(count_watches(), 1);
    for (i = 0; i < 3; i++) {
        write_file(path, "new");
        expect_change(w);
        expect_quiet(w);
        assert_int_equal(count_watches(), 1);
        assert_int_equal(rename(path, away), 0);
        expect_change(w);
        expect_quiet(w);
        assert_int_equal(count_watches(), 1);
    }
    assert_int_equal(port->wake_watch(port->ctx, w, away), POSTBAG_OK);
    assert_int_equal(count_watches(), 1);
    assert_int_equal(port->wake_watch(port->ctx, w, path), POSTBAG_OK);
    assert_int_equal(
        port->wake_watch(port->ctx, w, "/tmp/no-such-wal"), POSTBAG_OK);
    assert_int_equal(count_watches(), 1);
    port->wake_free(port->ctx, w);
    assert_int_equal(count_watches(), 0);
}

/* The inode lives on while a descriptor is open. */
static void test_watch_deleted_while_open_is_seen_again(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct postbag_wake *w;
    int fd;

    write_file(path, "old");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    w = make_watching(path);
    assert_int_equal(unlink(path), 0);
    expect_change(w);
    expect_quiet(w);
    write_file(path, "new");
    expect_change(w);
    expect_quiet(w);
    write_file_elsewhere(path, "more");
    expect_change(w);
    (void)close(fd);
    port->wake_free(port->ctx, w);
}

static void test_watch_another_renamed_over_is_seen_again(void **state)
{
    char other[PATH_MAX];
    const char *path;
    struct postbag_wake *w;

    (void)snprintf(other, sizeof(other), "%s", in_folder(*state, "other"));
    path = in_folder(*state, "a-wal");
    write_file(path, "old");
    write_file(other, "new");
    w = make_watching(path);
    assert_int_equal(rename(other, path), 0);
    expect_change(w);
    expect_quiet(w);
    write_file_elsewhere(path, "more");
    expect_change(w);
    port->wake_free(port->ctx, w);
}

/* The folder goes and comes back: found at the next wait. */
static void test_watch_folder_made_again_is_seen_again(void **state)
{
    char folder[PATH_MAX];
    const char *path;
    struct postbag_wake *w;

    (void)snprintf(folder, sizeof(folder), "%s", in_folder(*state, "d"));
    path = in_folder(*state, "d/a-wal");
    assert_int_equal(mkdir(folder, 0700), 0);
    w = make_watching(path);
    assert_int_equal(rmdir(folder), 0);
    expect_quiet(w);
    assert_int_equal(mkdir(folder, 0700), 0);
    expect_quiet(w);
    write_file(path, "new");
    expect_change(w);
    port->wake_free(port->ctx, w);
}

static void test_watch_no_descriptor_left_is_an_error(void **state)
{
    const char *path = in_folder(*state, "a-wal");
    struct postbag_wake *w = NULL;
    struct rlimit before;
    struct rlimit none;
    int err;

    write_file(path, "old");
    assert_int_equal(port->wake_new(port->ctx, &w), POSTBAG_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    err = port->wake_watch(port->ctx, w, path);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(err, POSTBAG_EIO);
    write_file(path, "new");
    assert_int_equal(port->wait(port->ctx, w, in_ms(QUIET_MS)), 0);
    assert_int_equal(port->wake_watch(port->ctx, w, path), POSTBAG_OK);
    write_file(path, "newer");
    expect_change(w);
    port->wake_free(port->ctx, w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_watch_queue_overflow_counts_as_change),
        TEST_IN_FOLDER(test_watch_file_made_during_overflow_is_seen),
        TEST_IN_FOLDER(test_watch_any_change_leaves_one_watch),
        TEST_IN_FOLDER(test_watch_deleted_while_open_is_seen_again),
        TEST_IN_FOLDER(test_watch_another_renamed_over_is_seen_again),
        TEST_IN_FOLDER(test_watch_folder_made_again_is_seen_again),
        TEST_IN_FOLDER(test_watch_no_descriptor_left_is_an_error),
    };

    port = postbag_linux_port();
    return cmocka_run_group_tests_name("linux watch", tests, NULL, NULL);
}
