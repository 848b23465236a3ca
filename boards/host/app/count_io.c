/* SPDX-License-Identifier: MIT */
/*
 * Loaded before the firmware (LD_PRELOAD), counts what reaches the disk:
 * fdatasync and pwrite64, which in that process only SQLite calls.  The main
 * thread, which commits the firmware's own transactions, and all others are
 * counted apart.
 *
 * The counters stand in a file that is mapped, named by POSTBAG_COUNT_IO, so
 * that they outlive SIGKILL and go on with the next process.  Any thread.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The demo reads it as six 64-bit numbers. */
struct tally {
    _Atomic uint64_t syncs;
    _Atomic uint64_t writes;
    _Atomic uint64_t bytes;
};
enum { MAIN_THREAD, OTHER_THREADS, TALLIES };

static struct tally *tallies;
static int (*next_fdatasync)(int fd);
static ssize_t (*next_pwrite64)(
    int fd, const void *bytes, size_t len, off64_t at);

/* ISO C has no way from an object's address to a function's. */
static void find_next(const char *name, void *function, size_t size)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL)
        abort();
    memcpy(function, &found, size);
}

__attribute__((constructor)) static void start(void)
{
    static struct tally unread[TALLIES];
    const char *path = getenv("POSTBAG_COUNT_IO");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map = MAP_FAILED;

    find_next("fdatasync", &next_fdatasync, sizeof(next_fdatasync));
    find_next("pwrite64", &next_pwrite64, sizeof(next_pwrite64));
    if (fd >= 0 && ftruncate(fd, sizeof(unread)) == 0)
        map = mmap(
            NULL, sizeof(unread), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd);
    if (map == MAP_FAILED)
        (void)fputs("count_io: nothing is counted\n", stderr);
    tallies = map == MAP_FAILED ? unread : map;
}

static struct tally *ours(void)
{
    return &tallies[gettid() == getpid() ? MAIN_THREAD : OTHER_THREADS];
}

int fdatasync(int fd)
{
    atomic_fetch_add(&ours()->syncs, 1);
    return next_fdatasync(fd);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at)
{
    ssize_t written = next_pwrite64(fd, bytes, len, at);

    atomic_fetch_add(&ours()->writes, 1);
    if (written > 0)
        atomic_fetch_add(&ours()->bytes, (uint64_t)written);
    return written;
}
