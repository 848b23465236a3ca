/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a program, it kills it with SIGKILL at its N-th call of a
 * kind, counted over all its threads (a tracer counts each thread by itself):
 *
 *   KILLPOINT=KIND:N       before that call
 *   KILLPOINT=KIND:N:half  in the midst: after half of what it writes
 *
 * KIND: pwrite64, fdatasync, ftruncate64, unlink, rename; of sockets, send
 * (writev, send or write) and recv (which kills after it, when something has
 * come).
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_ulong passed;

/* ISO C does not convert a pointer to data into one to a function. */
#define NEXT(function) \
    __extension__ __typeof__(&function) next = \
        (__typeof__(&function))dlsym(RTLD_NEXT, #function)

/* Is this the call?  *half: it dies in its midst. */
static int is_it(const char *kind, int *half)
{
    const char *point = getenv("KILLPOINT");
    size_t len = strlen(kind);
    char *end;

    if (point == NULL || strncmp(point, kind, len) != 0 || point[len] != ':')
        return 0;
    if (atomic_fetch_add(&passed, 1) + 1 != strtoul(point + len + 1, &end, 10))
        return 0;
    *half = strcmp(end, ":half") == 0;
    return 1;
}

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause();
}

static void pass(const char *kind)
{
    int half;

    if (is_it(kind, &half))
        die();
}

static int is_socket(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* So many of size bytes are still written: all, if it lives on. */
static size_t cut(const char *kind, size_t size, int *dies)
{
    int half = 0;

    *dies = is_it(kind, &half);
    if (!*dies)
        return size;
    if (!half)
        die();
    return size / 2;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    NEXT(pwrite64);
    int dies;
    ssize_t n = next(fd, data, cut("pwrite64", size, &dies), at);

    if (dies)
        die();
    return n;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    NEXT(writev);
    int dies = 0;

    if (is_socket(fd)) {
        size_t size = cut("send", parts[0].iov_len, &dies);

        if (dies) {
            (void)!write(fd, parts[0].iov_base, size);
            die();
        }
    }
    return next(fd, parts, count);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    NEXT(send);
    int dies;
    ssize_t n = next(fd, data, cut("send", size, &dies), flags);

    if (dies)
        die();
    return n;
}

ssize_t write(int fd, const void *data, size_t size)
{
    NEXT(write);
    int dies = 0;
    ssize_t n = next(fd, data, is_socket(fd) ? cut("send", size, &dies) : size);

    if (dies)
        die();
    return n;
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
    NEXT(recv);
    ssize_t n = next(fd, data, size, flags);

    if (n > 0)
        pass("recv");
    return n;
}

int fdatasync(int fd)
{
    NEXT(fdatasync);

    pass("fdatasync");
    return next(fd);
}

int ftruncate64(int fd, off64_t size)
{
    NEXT(ftruncate64);

    pass("ftruncate64");
    return next(fd, size);
}

int unlink(const char *path)
{
    NEXT(unlink);

    pass("unlink");
    return next(path);
}

int rename(const char *from, const char *to)
{
    NEXT(rename);

    pass("rename");
    return next(from, to);
}
