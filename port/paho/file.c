/* SPDX-License-Identifier: MIT */
/*
 * Small files that options name: certificates, keys, passwords.  They are read
 * whole, anew for each connect, so that they can be replaced at any time; what
 * was read is wiped when it is freed.  Called on the engine's thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paho_transport.h"

/* Four times the CAs of a distribution. */
#define FILE_MAX_BYTES 1048576

int postbag__paho_refuse_file(
    struct postbag_fault *why, const char *option, const char *path)
{
    char text[64];
    return postbag__paho_refuse(why, POSTBAG_ELINK, "%s: %s: %s", option, path,
        strerror_r(errno, text, sizeof(text)));
}

/* 0 if it could not be read; size bytes at most. */
static unsigned read_all(int fd, struct bytes *out, size_t size)
{
    while (out->len < size) {
        ssize_t got = read(fd, out->data + out->len, size - out->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0;
        out->len += (size_t)got;
    }
    return 1;
}

/* What stands against reading it, or NULL; size: its bytes. */
static const char *objection(int fd, size_t *size)
{
    struct stat s;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode))
        return "is not a file";
    *size = (size_t)s.st_size;
    if (s.st_size == 0)
        return "is empty";
    return s.st_size > FILE_MAX_BYTES ? "is too large" : NULL;
}

static int read_file(struct bytes *out, int fd, const char *option,
    const char *path, struct postbag_fault *why)
{
    size_t size = 0;
    const char *what = objection(fd, &size);
    if (what != NULL)
        return postbag__paho_refuse(
            why, POSTBAG_ELINK, "%s: %s: %s", option, path, what);
    out->data = calloc(1, size + 1);
    if (out->data == NULL)
        return postbag__paho_refuse(why, POSTBAG_ENOMEM, "out of memory");
    if (read_all(fd, out, size))
        return POSTBAG_OK;
    int err = postbag__paho_refuse_file(why, option, path);
    postbag__paho_bytes_free(out);
    return err;
}

/* A FIFO or a device must not hold up the engine: neither open nor read may
   wait. */
int postbag__paho_file_read(struct bytes *out, const char *option,
    const char *path, struct postbag_fault *why)
{
    *out = (struct bytes){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return postbag__paho_refuse_file(why, option, path);
    int err = read_file(out, fd, option, path, why);
    (void)close(fd);
    return err;
}

static void strip_line_end(struct bytes *b)
{
    if (b->len == 0 || b->data[b->len - 1] != '\n')
        return;
    b->data[--b->len] = '\0';
    if (b->len > 0 && b->data[b->len - 1] == '\r')
        b->data[--b->len] = '\0';
}

int postbag__paho_secret_read(struct bytes *out, const char *option,
    const char *path, struct postbag_fault *why)
{
    int err = postbag__paho_file_read(out, option, path, why);
    if (err != POSTBAG_OK)
        return err;
    strip_line_end(out);
    /* neither a NUL nor another line end */
    if (out->len > 0 && strcspn((const char *)out->data, "\r\n") == out->len)
        return POSTBAG_OK;
    postbag__paho_bytes_free(out);
    return postbag__paho_refuse(
        why, POSTBAG_ELINK, "%s: %s: is not one line of text", option, path);
}

void postbag__paho_bytes_free(struct bytes *b)
{
    if (b->data != NULL)
        explicit_bzero(b->data, b->len);
    free(b->data);
    *b = (struct bytes){0};
}
