/* SPDX-License-Identifier: MIT */
/* The Linux port: the whole contract, then what is its own. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "contract_support.h"
#include "port_contract.h"
#include "postbag/linux.h"

static void test_table_asked_twice_is_one_without_hook(void **state)
{
    (void)state;
    assert_ptr_equal(postbag_linux_port(), postbag_linux_port());
    assert_null(postbag_linux_port()->hook);
}

static int64_t boottime_us(void)
{
    struct timespec now = {0};

    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &now), 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void test_mono_read_is_boottime(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < 1000; i++) {
        int64_t before = boottime_us();
        int64_t now = now_us();

        assert_in_range(now, before, boottime_us());
    }
}

/* ---- Ids ---------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

static void make_ids(uint8_t (*ids)[16], size_t count)
{
    size_t i;

    for (i = 0; i < count; i++)
        if (port->uuid(port->ctx, ids[i]) != POSTBAG_OK)
            _exit(1);
    _exit(0);
}

/* Half of them, each process.  POSTBAG_TEST_IDS=1000000 for a long run. */
static void test_uuid_two_processes_in_one_second_are_distinct(void **state)
{
    const char *wish = getenv("POSTBAG_TEST_IDS");
    size_t half = (wish ? strtoul(wish, NULL, 10) : 200000) / 2;
    size_t bytes = 2 * half * 16;
    uint8_t(*ids)[16] = mmap(
        NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[2];
    size_t i;

    (void)state;
    assert_ptr_not_equal(ids, MAP_FAILED);
    for (i = 0; i < 2; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            make_ids(ids + i * half, half);
    }
    assert_int_equal(reap(children[0]), 0);
    assert_int_equal(reap(children[1]), 0);
    qsort(ids, 2 * half, 16, compare_ids);
    for (i = 1; i < 2 * half; i++)
        assert_memory_not_equal(ids[i - 1], ids[i], 16);
    assert_int_equal(munmap(ids, bytes), 0);
}

/* ---- Threads ------------------------------------------------------------ */

struct seen {
    int niceness;
    int policy;
    char name[16];
    size_t stack_bytes;
};

static void look(void *arg)
{
    struct seen *s = arg;
    pthread_attr_t attr;

    s->niceness = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
    s->policy = sched_getscheduler(0);
    (void)pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    (void)pthread_attr_getstacksize(&attr, &s->stack_bytes);
    (void)pthread_attr_destroy(&attr);
}

static void test_thread_started_is_nice_named_and_small(void **state)
{
    int before = getpriority(PRIO_PROCESS, 0);
    struct postbag_thread *t;
    struct seen s = {0};

    (void)state;
    assert_true(before < 11);
    assert_int_equal(port->thread_start(port->ctx, &t,
                         "postbag-with-a-long-name", 11, look, &s),
        POSTBAG_OK);
    join(t);
    assert_int_equal(s.niceness, 11);
    assert_int_equal(s.policy, SCHED_BATCH);
    assert_string_equal(s.name, "postbag-with-a-");
    assert_true(s.stack_bytes >= 256u * 1024);
    assert_true(s.stack_bytes < 1024u * 1024);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
}

/* ---- Under a rain of signals ------------------------------------------- */

static atomic_int alarms;

static void count_alarm(int signal)
{
    (void)signal;
    atomic_fetch_add(&alarms, 1);
}

static void ring_every_ms(long ms)
{
    struct itimerval every = {
        .it_interval.tv_usec = ms * 1000,
        .it_value.tv_usec = ms * 1000,
    };

    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static int catch_alarms(void **state)
{
    const struct sigaction action = {.sa_handler = count_alarm};

    (void)state;
    atomic_store(&alarms, 0);
    return sigaction(SIGALRM, &action, NULL);
}

static void test_wait_interrupted_by_signals_ends_not_early(void **state)
{
    struct postbag_wake *w = NULL;
    int64_t until_us;

    (void)state;
    assert_int_equal(port->wake_new(port->ctx, &w), POSTBAG_OK);
    ring_every_ms(1);
    until_us = in_ms(100);
    assert_int_equal(port->wait(port->ctx, w, until_us), 0);
    assert_true(now_us() >= until_us);
    ring_every_ms(0);
    assert_true(atomic_load(&alarms) > 5);
    port->wake_free(port->ctx, w);
}

/* The kernel then gives large buffers in pieces. */
static void test_random_interrupted_by_signals_is_filled_to_the_end(
    void **state)
{
    const size_t len = (size_t)16 << 20;
    const uint8_t nothing[16] = {0};
    uint8_t *buf = calloc(1, len);
    int err;

    (void)state;
    assert_non_null(buf);
    ring_every_ms(1);
    err = port->random(port->ctx, buf, len);
    ring_every_ms(0);
    assert_int_equal(err, POSTBAG_OK);
    assert_true(atomic_load(&alarms) > 0);
    assert_memory_not_equal(buf + len - 16, nothing, 16);
    free(buf);
}

static void test_gate_interrupted_by_signals_ends_not_early(void **state)
{
    struct postbag_gate *g = NULL;
    int64_t until_us;

    (void)state;
    assert_int_equal(port->gate_new(port->ctx, &g), POSTBAG_OK);
    assert_int_equal(port->gate_enter(port->ctx, g, 0), POSTBAG_OK);
    ring_every_ms(1);
    until_us = in_ms(100);
    assert_int_equal(port->gate_enter(port->ctx, g, until_us), POSTBAG_EBUSY);
    assert_true(now_us() >= until_us);
    ring_every_ms(0);
    assert_true(atomic_load(&alarms) > 5);
    port->gate_leave(port->ctx, g);
    port->gate_free(port->ctx, g);
}

/* ---- The gate's order --------------------------------------------------- */

#define QUEUE 6

struct line {
    struct postbag_gate *gate;
    unsigned order[QUEUE]; /* guarded by the gate */
    unsigned served;
};

struct customer {
    struct line *line;
    unsigned number;
    int64_t until_us;
    int err;
    atomic_int tid; /* 0: not at the gate yet */
};

static void queue_up(void *arg)
{
    struct customer *c = arg;
    struct line *l = c->line;

    atomic_store(&c->tid, (int)syscall(SYS_gettid));
    c->err = port->gate_enter(port->ctx, l->gate, c->until_us);
    if (c->err != POSTBAG_OK)
        return;
    l->order[l->served++] = c->number;
    port->gate_leave(port->ctx, l->gate);
}

/* What /proc says of a thread: R, S ... */
static char thread_state(int tid)
{
    char path[64];
    char text[128] = {0};
    char *after_name;
    ssize_t got;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return '?';
    got = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    after_name = got > 0 ? strrchr(text, ')') : NULL;
    return after_name != NULL ? after_name[2] : '?';
}

/* At the gate and asleep: in the queue. */
static void await_queued(struct customer *c)
{
    int64_t until_us = in_ms(PATIENCE_MS);

    while (atomic_load(&c->tid) == 0)
        assert_true(now_us() < until_us);
    while (thread_state(atomic_load(&c->tid)) != 'S')
        assert_true(now_us() < until_us);
}

/* Customers 0 and 3 give up: the first of all, and one in the middle. */
static void test_gate_queue_is_served_in_order_of_arrival(void **state)
{
    const unsigned order[] = {1, 2, 4, 5};
    struct line l = {0};
    struct customer customers[QUEUE] = {0};
    struct postbag_thread *threads[QUEUE];
    unsigned i;

    (void)state;
    assert_int_equal(port->gate_new(port->ctx, &l.gate), POSTBAG_OK);
    assert_int_equal(port->gate_enter(port->ctx, l.gate, 0), POSTBAG_OK);
    for (i = 0; i < QUEUE; i++) {
        customers[i].line = &l;
        customers[i].number = i;
        customers[i].until_us = i % 3 == 0 ? in_ms(500) : INT64_MAX;
        threads[i] = start(queue_up, &customers[i]);
        await_queued(&customers[i]);
    }
    join(threads[0]);
    join(threads[3]);
    port->gate_leave(port->ctx, l.gate);
    for (i = 0; i < QUEUE; i++)
        if (i % 3 != 0)
            join(threads[i]);
    assert_int_equal(customers[0].err, POSTBAG_EBUSY);
    assert_int_equal(customers[3].err, POSTBAG_EBUSY);
    assert_int_equal(l.served, 4);
    assert_memory_equal(l.order, order, sizeof(order));
    port->gate_free(port->ctx, l.gate);
}

/* ---- Files -------------------------------------------------------------- */

static ssize_t disk_room = -1; /* bytes until the disk is full; -1: enough */

ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);

/* The linker puts it between the port and write, so that a full disk needs no
   right to mount a small one. */
ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    if (disk_room < 0)
        return __real_write(fd, bytes, len);
    if (disk_room == 0) {
        errno = ENOSPC;
        return -1;
    }
    if (len > (size_t)disk_room)
        len = (size_t)disk_room;
    disk_room -= (ssize_t)len;
    return __real_write(fd, bytes, len);
}

/* A child forked without exec has a copy of the descriptor. */
static void test_lock_released_is_free_though_a_child_lives(void **state)
{
    const char *path = in_folder(*state, "lock");
    struct postbag_lock *l = NULL;
    pid_t child;

    assert_int_equal(port->lock_file(port->ctx, path, &l), POSTBAG_OK);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        stay();
    port->unlock_file(port->ctx, l);
    assert_int_equal(port->lock_file(port->ctx, path, &l), POSTBAG_OK);
    port->unlock_file(port->ctx, l);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(reap(child), -SIGKILL);
}

static void test_lock_released_leaves_a_private_file(void **state)
{
    const char *path = in_folder(*state, "lock");
    struct postbag_lock *l = NULL;
    struct stat st;

    assert_int_equal(port->lock_file(port->ctx, path, &l), POSTBAG_OK);
    port->unlock_file(port->ctx, l);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_replace_under_any_umask_is_readable_by_all(void **state)
{
    struct stat st;
    mode_t before = umask(077);
    int err =
        port->replace_file(port->ctx, in_folder(*state, "run/state"), "x", 1);

    (void)umask(before);
    assert_int_equal(err, POSTBAG_OK);
    assert_int_equal(stat(in_folder(*state, "run/state"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
}

static void test_replace_write_fails_keeps_the_old_content(void **state)
{
    const struct rlimit small = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    const char *path = in_folder(*state, "state");
    static const char big[8192] = "x";
    struct rlimit before;
    struct stat st;
    int err;

    write_file(path, "old");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    err = port->replace_file(port->ctx, path, big, sizeof(big));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(err, POSTBAG_EIO);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 3);
    assert_int_equal(count_entries(*state), 1);
}

static void test_replace_disk_full_is_enospc(void **state)
{
    const char *path = in_folder(*state, "state");
    static const char big[8192] = "x";
    struct stat st;
    int err;

    write_file(path, "old");
    disk_room = 5000;
    err = port->replace_file(port->ctx, path, big, sizeof(big));
    disk_room = -1;
    assert_int_equal(err, POSTBAG_ENOSPC);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 3);
    assert_int_equal(count_entries(*state), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_asked_twice_is_one_without_hook),
        cmocka_unit_test(test_mono_read_is_boottime),
        cmocka_unit_test(test_uuid_two_processes_in_one_second_are_distinct),
        cmocka_unit_test(test_thread_started_is_nice_named_and_small),
        cmocka_unit_test_setup(
            test_wait_interrupted_by_signals_ends_not_early, catch_alarms),
        cmocka_unit_test_setup(
            test_gate_interrupted_by_signals_ends_not_early, catch_alarms),
        cmocka_unit_test_setup(
            test_random_interrupted_by_signals_is_filled_to_the_end,
            catch_alarms),
        cmocka_unit_test(test_gate_queue_is_served_in_order_of_arrival),
        TEST_IN_FOLDER(test_lock_released_is_free_though_a_child_lives),
        TEST_IN_FOLDER(test_lock_released_leaves_a_private_file),
        TEST_IN_FOLDER(test_replace_under_any_umask_is_readable_by_all),
        TEST_IN_FOLDER(test_replace_write_fails_keeps_the_old_content),
        TEST_IN_FOLDER(test_replace_disk_full_is_enospc),
    };
    int failed = port_contract_run(postbag_linux_port());

    return failed +
           cmocka_run_group_tests_name("linux port", tests, NULL, NULL);
}
