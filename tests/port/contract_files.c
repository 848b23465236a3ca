/* SPDX-License-Identifier: MIT */
/* The contract of lock_file, replace_file, read_file, machine_id, file_id and
 * storage_check. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contract_groups.h"
#include "contract_support.h"

/* ---- lock_file ---------------------------------------------------------- */

static int lock(const char *path, struct postbag_lock **out)
{
    return port->lock_file(port->ctx, path, out);
}

static void unlock(struct postbag_lock *l)
{
    port->unlock_file(port->ctx, l);
}

static void test_lock_taken_excludes_within_the_process(void **state)
{
    const char *path = in_folder(*state, "lock");
    struct postbag_lock *first = NULL;
    struct postbag_lock *second = NULL;

    assert_int_equal(lock(path, &first), POSTBAG_OK);
    assert_int_equal(lock(path, &second), POSTBAG_EBUSY);
    unlock(first);
    assert_int_equal(lock(path, &second), POSTBAG_OK);
    unlock(second);
}

static void test_lock_other_file_is_independent(void **state)
{
    struct postbag_lock *first = NULL;
    struct postbag_lock *second = NULL;

    assert_int_equal(lock(in_folder(*state, "one"), &first), POSTBAG_OK);
    assert_int_equal(lock(in_folder(*state, "two"), &second), POSTBAG_OK);
    unlock(first);
    unlock(second);
}

static void test_lock_file_opened_and_closed_elsewhere_still_holds(void **state)
{
    const char *path = in_folder(*state, "lock");
    struct postbag_lock *l = NULL;
    struct postbag_lock *other = NULL;
    int fd;

    assert_int_equal(lock(path, &l), POSTBAG_OK);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(lock(path, &other), POSTBAG_EBUSY);
    unlock(l);
}

static void test_lock_folder_missing_is_an_error_not_busy(void **state)
{
    struct postbag_lock *l = NULL;
    int err = lock(in_folder(*state, "none/lock"), &l);

    assert_true(err < 0);
    assert_int_not_equal(err, POSTBAG_EBUSY);
}

static void test_lock_taken_excludes_another_process(void **state)
{
    const char *path = in_folder(*state, "lock");
    struct postbag_lock *l = NULL;
    pid_t child;

    assert_int_equal(lock(path, &l), POSTBAG_OK);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct postbag_lock *mine = NULL;

        _exit(lock(path, &mine) == POSTBAG_EBUSY ? 0 : 1);
    }
    assert_int_equal(reap(child), 0);
    unlock(l);
}

/* A child that holds the lock until it is killed. */
static pid_t fork_holder(const char *path)
{
    int told[2];
    char answer = 0;
    pid_t child;

    assert_int_equal(pipe(told), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct postbag_lock *l = NULL;

        answer = lock(path, &l) == POSTBAG_OK ? 'y' : 'n';
        if (write(told[1], &answer, 1) != 1)
            _exit(1);
        stay();
    }
    assert_int_equal(read(told[0], &answer, 1), 1);
    (void)close(told[0]);
    (void)close(told[1]);
    assert_int_equal(answer, 'y');
    return child;
}

static void test_lock_holder_killed_is_free(void **state)
{
    const char *path = in_folder(*state, "lock");
    struct postbag_lock *l = NULL;
    pid_t child = fork_holder(path);

    assert_int_equal(lock(path, &l), POSTBAG_EBUSY);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(reap(child), -SIGKILL);
    assert_int_equal(lock(path, &l), POSTBAG_OK);
    unlock(l);
}

/* ---- replace_file ------------------------------------------------------- */

static int replace(const char *path, const char *text)
{
    return port->replace_file(port->ctx, path, text, strlen(text));
}

static void expect_content(const char *path, const char *text)
{
    char buf[256] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(read(fd, buf, sizeof(buf) - 1), strlen(text));
    (void)close(fd);
    assert_string_equal(buf, text);
}

static void test_replace_shorter_and_empty_content_is_whole(void **state)
{
    const char *path = in_folder(*state, "state");

    assert_int_equal(replace(path, "a long first content"), POSTBAG_OK);
    expect_content(path, "a long first content");
    assert_int_equal(replace(path, "short"), POSTBAG_OK);
    expect_content(path, "short");
    assert_int_equal(replace(path, ""), POSTBAG_OK);
    expect_content(path, "");
    assert_int_equal(count_entries(*state), 1);
}

static void test_replace_last_folder_missing_is_made(void **state)
{
    const char *path = in_folder(*state, "run/state");

    assert_int_equal(replace(path, "x"), POSTBAG_OK);
    expect_content(path, "x");
    assert_int_equal(replace(path, "y"), POSTBAG_OK);
    expect_content(path, "y");
}

static void test_replace_two_folders_missing_is_an_error(void **state)
{
    assert_true(replace(in_folder(*state, "a/b/state"), "x") < 0);
    assert_int_equal(count_entries(*state), 0);
}

static void test_replace_path_is_a_folder_leaves_nothing_behind(void **state)
{
    const char *path = in_folder(*state, "state");

    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(replace(path, "x"), POSTBAG_EIO);
    assert_int_equal(count_entries(*state), 1);
}

#define LONG 60000
#define SHORT 100

struct reading {
    const char *path;
    atomic_bool over;
    unsigned reads;
    unsigned torn;
};

/* All of one letter, of that letter's length? */
static bool is_whole(const char *buf, size_t len)
{
    size_t want = buf[0] == 'l' ? LONG : SHORT;

    return len == want && memchr(buf, buf[0] == 'l' ? 's' : 'l', len) == NULL;
}

static void read_on(void *arg)
{
    struct reading *r = arg;
    static char buf[LONG + 1];

    while (!atomic_load(&r->over)) {
        int fd = open(r->path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd < 0 ? -1 : read(fd, buf, sizeof(buf));

        if (fd >= 0)
            (void)close(fd);
        r->reads++;
        r->torn += got <= 0 || !is_whole(buf, (size_t)got);
    }
}

static void test_replace_while_read_shows_all_or_nothing(void **state)
{
    struct reading r = {.path = in_folder(*state, "state")};
    char longer[LONG];
    char shorter[SHORT];
    struct postbag_thread *t;
    int failed = 0;
    int i;

    need_threads();
    memset(longer, 'l', sizeof(longer));
    memset(shorter, 's', sizeof(shorter));
    failed |= port->replace_file(port->ctx, r.path, longer, LONG);
    t = start(read_on, &r);
    for (i = 0; i < 1000; i++) {
        failed |= port->replace_file(port->ctx, r.path, shorter, SHORT);
        failed |= port->replace_file(port->ctx, r.path, longer, LONG);
    }
    atomic_store(&r.over, true);
    join(t);
    assert_int_equal(failed, 0);
    assert_int_equal(r.torn, 0);
    assert_true(r.reads > 0);
    assert_int_equal(count_entries(*state), 1);
}

/* ---- read_file, machine_id, file_id -------------------------------------- */

static void test_read_what_was_replaced(void **state)
{
    const char *path = in_folder(*state, "note");
    char buf[8];
    size_t len = 9;

    if (port->read_file == NULL)
        skip();
    assert_int_equal(port->read_file(port->ctx, path, buf, sizeof(buf), &len),
        POSTBAG_ENOTFOUND);
    assert_int_equal(replace(path, "12345"), POSTBAG_OK);
    assert_int_equal(
        port->read_file(port->ctx, path, buf, sizeof(buf), &len), POSTBAG_OK);
    assert_int_equal(len, 5);
    assert_memory_equal(buf, "12345", 5);
    assert_int_equal(replace(path, "123456789"), POSTBAG_OK);
    assert_int_equal(
        port->read_file(port->ctx, path, buf, sizeof(buf), &len), POSTBAG_OK);
    assert_int_equal(len, sizeof(buf));
    assert_int_equal(replace(path, ""), POSTBAG_OK);
    assert_int_equal(
        port->read_file(port->ctx, path, buf, sizeof(buf), &len), POSTBAG_OK);
    assert_int_equal(len, 0);
}

static void test_read_a_folder_is_an_error(void **state)
{
    char buf[8];
    size_t len = 9;

    if (port->read_file == NULL)
        skip();
    assert_int_equal(port->read_file(port->ctx, in_folder(*state, "."), buf,
                         sizeof(buf), &len),
        POSTBAG_EIO);
}

static void test_file_id_lasts_and_a_copy_has_another(void **state)
{
    char path[256];
    char other[256];
    uint64_t first = 0;
    uint64_t second = 0;

    if (port->file_id == NULL)
        skip();
    (void)snprintf(path, sizeof(path), "%s", in_folder(*state, "one"));
    (void)snprintf(other, sizeof(other), "%s", in_folder(*state, "two"));
    assert_int_equal(port->file_id(port->ctx, path, &first), POSTBAG_ENOTFOUND);
    write_file(path, "x");
    write_file(other, "x");
    assert_int_equal(port->file_id(port->ctx, path, &first), POSTBAG_OK);
    assert_int_equal(port->file_id(port->ctx, other, &second), POSTBAG_OK);
    assert_true(first != 0 && first != second);
    write_file(path, "changed");
    assert_int_equal(port->file_id(port->ctx, path, &second), POSTBAG_OK);
    assert_true(first == second);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(port->file_id(port->ctx, other, &second), POSTBAG_OK);
    assert_true(first == second);
}

static void test_machine_id_lasts(void **state)
{
    uint8_t first[16];
    uint8_t second[16];
    int err;

    (void)state;
    if (port->machine_id == NULL)
        skip();
    err = port->machine_id(port->ctx, first);
    assert_true(err == POSTBAG_OK || err == POSTBAG_ENOTFOUND);
    if (err != POSTBAG_OK)
        return;
    assert_int_equal(port->machine_id(port->ctx, second), POSTBAG_OK);
    assert_memory_equal(first, second, sizeof(first));
}

/* ---- storage_check ------------------------------------------------------ */

static void test_storage_local_folder_is_fine(void **state)
{
    const char *path = in_folder(*state, "app.db");

    assert_int_equal(port->storage_check(port->ctx, path), POSTBAG_OK);
    write_file(path, "x");
    assert_int_equal(port->storage_check(port->ctx, path), POSTBAG_OK);
}

static void test_storage_folder_missing_is_another_error(void **state)
{
    int err = port->storage_check(port->ctx, in_folder(*state, "none/app.db"));

    assert_true(err < 0);
    assert_int_not_equal(err, POSTBAG_ESTORAGE);
}

int run_file_contract(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_lock_taken_excludes_within_the_process),
        TEST_IN_FOLDER(test_lock_other_file_is_independent),
        TEST_IN_FOLDER(test_lock_file_opened_and_closed_elsewhere_still_holds),
        TEST_IN_FOLDER(test_lock_folder_missing_is_an_error_not_busy),
        TEST_IN_FOLDER(test_lock_taken_excludes_another_process),
        TEST_IN_FOLDER(test_lock_holder_killed_is_free),
        TEST_IN_FOLDER(test_replace_shorter_and_empty_content_is_whole),
        TEST_IN_FOLDER(test_replace_last_folder_missing_is_made),
        TEST_IN_FOLDER(test_replace_two_folders_missing_is_an_error),
        TEST_IN_FOLDER(test_replace_path_is_a_folder_leaves_nothing_behind),
        TEST_IN_FOLDER(test_replace_while_read_shows_all_or_nothing),
        TEST_IN_FOLDER(test_read_what_was_replaced),
        TEST_IN_FOLDER(test_read_a_folder_is_an_error),
        TEST_IN_FOLDER(test_file_id_lasts_and_a_copy_has_another),
        cmocka_unit_test(test_machine_id_lasts),
        TEST_IN_FOLDER(test_storage_local_folder_is_fine),
        TEST_IN_FOLDER(test_storage_folder_missing_is_another_error),
    };

    return cmocka_run_group_tests_name("port: files", tests, NULL, NULL);
}
