/* SPDX-License-Identifier: MIT */
/*
 * Which machine is this, and which file, and what did we note of both?  A
 * database is only looked at by name: closing a descriptor of it would drop
 * SQLite's locks.  Any thread.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "linux_port.h"

static int open_to_read(const char *path, int *fd_out)
{
    int fd;

    do
        fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    *fd_out = fd;
    if (fd >= 0)
        return POSTBAG_OK;
    return errno == ENOENT ? POSTBAG_ENOTFOUND : postbag__linux_error(errno);
}

int postbag__linux_read_file(
    void *ctx, const char *path, void *buf, size_t size, size_t *len_out)
{
    char *at = buf;
    ssize_t got = 1;
    int fd;
    int err = open_to_read(path, &fd);

    (void)ctx;
    *len_out = 0;
    if (err != POSTBAG_OK)
        return err;
    while (got > 0 && *len_out < size) {
        got = read(fd, at + *len_out, size - *len_out);
        if (got > 0)
            *len_out += (size_t)got;
        else if (got < 0 && errno == EINTR)
            got = 1;
    }
    if (got < 0)
        err = postbag__linux_error(errno);
    (void)close(fd);
    return err;
}

/* 32 digits (machine-id(5)); without systemd D-Bus has one. */
int postbag__linux_machine_id(void *ctx, uint8_t out[16])
{
    static const char *const paths[] = {
        "/etc/machine-id", "/var/lib/dbus/machine-id"};
    static const char digits[] = "0123456789abcdef";
    char text[32];
    size_t len = 0;
    int err = POSTBAG_ENOTFOUND;

    for (size_t i = 0; i < 2 && err != POSTBAG_OK; i++)
        err = postbag__linux_read_file(ctx, paths[i], text, sizeof(text), &len);
    if (err != POSTBAG_OK)
        return err;
    memset(out, 0, 16);
    for (size_t i = 0; i < sizeof(text); i++) {
        const char *digit =
            i < len && text[i] != '\0' ? strchr(digits, text[i]) : NULL;

        if (digit == NULL)
            return POSTBAG_ENOTFOUND;
        out[i / 2] = (uint8_t)(out[i / 2] << 4 | (digit - digits));
    }
    return POSTBAG_OK;
}

int postbag__linux_file_id(void *ctx, const char *path, uint64_t *out)
{
    struct stat info;

    (void)ctx;
    if (stat(path, &info) != 0)
        return errno == ENOENT ? POSTBAG_ENOTFOUND
                               : postbag__linux_error(errno);
    *out = (uint64_t)info.st_ino;
    return POSTBAG_OK;
}
