/* SPDX-License-Identifier: MIT */
/*
 * The two clocks, and the name of this boot.
 *
 * CLOCK_BOOTTIME, not CLOCK_MONOTONIC: a lease or a TTL must go on running
 * while the device sleeps.  Any thread.
 */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "linux_port.h"

#define UUID_TEXT_LEN 36

static struct timespec read_clock(clockid_t clock)
{
    struct timespec now = {0};

    /* Cannot fail: both clocks exist since Linux 2.6.39. */
    (void)clock_gettime(clock, &now);
    return now;
}

int64_t postbag__linux_wall_ms(void *ctx)
{
    struct timespec now = read_clock(CLOCK_REALTIME);

    (void)ctx;
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t postbag__linux_mono_us(void *ctx)
{
    struct timespec now = read_clock(CLOCK_BOOTTIME);

    (void)ctx;
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t postbag__linux_left_us(int64_t until_us)
{
    const int64_t most_us = INT64_C(3600) * 1000000;
    int64_t now_us = postbag__linux_mono_us(NULL);

    if (until_us <= now_us)
        return 0;
    return until_us - now_us < most_us ? until_us - now_us : most_us;
}

int postbag__linux_boot_id(void *ctx, uint8_t out[16])
{
    char text[UUID_TEXT_LEN + 1] = {0};
    ssize_t got;
    int fd;

    (void)ctx;
    fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return postbag__linux_error(errno);
    /* The kernel makes the whole text in one read. */
    got = read(fd, text, UUID_TEXT_LEN);
    (void)close(fd);
    if (got != UUID_TEXT_LEN || uuid_parse(text, out) != 0)
        return POSTBAG_EIO;
    return POSTBAG_OK;
}
