/* SPDX-License-Identifier: MIT */
/* See contract_support.h. */
#include "contract_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const struct postbag_port *port;

int folder_setup(void **state)
{
    struct folder *f = calloc(1, sizeof(*f));

    if (f == NULL)
        return -1;
    (void)snprintf(f->path, sizeof(f->path), "/tmp/postbag-port-XXXXXX");
    if (mkdtemp(f->path) == NULL) {
        free(f);
        return -1;
    }
    *state = f;
    return 0;
}

static int remove_entry(
    const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

int folder_teardown(void **state)
{
    struct folder *f = *state;
    int failed = nftw(f->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);

    free(f);
    return failed;
}

const char *in_folder(struct folder *f, const char *name)
{
    (void)snprintf(f->file, sizeof(f->file), "%s/%s", f->path, name);
    return f->file;
}

unsigned count_entries(const struct folder *f)
{
    DIR *dir = opendir(f->path);
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count - 2;
}

int64_t now_us(void)
{
    return port->mono_us(port->ctx);
}

int64_t in_ms(int64_t ms)
{
    return now_us() + ms * 1000;
}

/* No assertion: children call it too.  0, or -1. */
static int put_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ssize_t put;

    if (fd < 0)
        return -1;
    put = write(fd, text, strlen(text));
    (void)close(fd);
    return put == (ssize_t)strlen(text) ? 0 : -1;
}

void write_file(const char *path, const char *text)
{
    assert_int_equal(put_text(path, text), 0);
}

void write_file_elsewhere(const char *path, const char *text)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(put_text(path, text) == 0 ? 0 : 1);
    assert_int_equal(reap(child), 0);
}

int reap(pid_t child)
{
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        return -WTERMSIG(status);
    return WEXITSTATUS(status);
}

_Noreturn void stay(void)
{
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(PATIENCE_MS / 1000);
    for (;;)
        (void)pause();
}

void need_threads(void)
{
    if (port->thread_start == NULL)
        skip();
}

struct postbag_thread *start(void (*run)(void *), void *arg)
{
    struct postbag_thread *t = NULL;

    assert_int_equal(
        port->thread_start(port->ctx, &t, "test", 0, run, arg), POSTBAG_OK);
    assert_non_null(t);
    return t;
}

void join(struct postbag_thread *t)
{
    port->thread_join(port->ctx, t);
}
