/* SPDX-License-Identifier: MIT */
/* See resources.h. */
#include "resources.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 10000
#define FILLERS (sizeof(((struct silence *)0)->fillers) / sizeof(int))

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static unsigned entries(const char *folder)
{
    unsigned count = 0;
    DIR *d = opendir(folder);
    if (d == NULL)
        die(folder);
    while (readdir(d) != NULL)
        count++;
    (void)closedir(d);
    return count;
}

static void *nothing(void *ctx)
{
    return ctx;
}

void resources_begin(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) != 0 ||
        pthread_join(thread, NULL) != 0)
        die("thread");
}

unsigned resources_threads(void)
{
    return entries("/proc/self/task");
}

unsigned resources_descriptors(void)
{
    return entries("/proc/self/fd");
}

int64_t resources_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int wait_entries(const char *folder, unsigned least, unsigned most)
{
    int64_t end = resources_now_ms() + WAIT_MS;
    unsigned count = entries(folder);
    while ((count < least || count > most) && resources_now_ms() < end) {
        (void)poll(NULL, 0, 1);
        count = entries(folder);
    }
    return count >= least && count <= most;
}

int resources_wait_threads(unsigned at_most)
{
    return wait_entries("/proc/self/task", 0, at_most);
}

int resources_wait_descriptors(unsigned at_least)
{
    return wait_entries("/proc/self/fd", at_least, UINT_MAX);
}

int resources_free_port6(void)
{
    struct sockaddr_in6 a = {
        .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    int err = bind(fd, (struct sockaddr *)&a, sizeof(a));
    if (err == 0)
        err = getsockname(fd, (struct sockaddr *)&a, &len);
    (void)close(fd);
    return err == 0 ? ntohs(a.sin6_port) : 0;
}

/* ---- silence ------------------------------------------------------------- */

static int make_socket(int flags)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0)
        die("socket");
    return fd;
}

void silence_open(struct silence *s)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    s->listener = make_socket(0);
    if (bind(s->listener, (struct sockaddr *)&a, sizeof(a)) != 0 ||
        listen(s->listener, 0) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&a, &len) != 0)
        die("listen");
    s->port = ntohs(a.sin_port);
    s->taken = -1;
    for (size_t i = 0; i < FILLERS; i++)
        s->fillers[i] = -1;
}

/* The queue holds one; the kernel drops the first packet of what comes after,
   at the latest when the second has been taken. */
void silence_deepen(struct silence *s)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)s->port),
    };
    for (size_t i = 0; i < FILLERS; i++) {
        s->fillers[i] = make_socket(SOCK_NONBLOCK);
        (void)connect(s->fillers[i], (struct sockaddr *)&a, sizeof(a));
    }
}

static void wait_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, WAIT_MS) != 1)
        die("nothing to read");
}

void silence_wait_bytes(struct silence *s)
{
    char byte;
    wait_readable(s->listener);
    s->taken = accept(s->listener, NULL, NULL);
    if (s->taken < 0)
        die("accept");
    wait_readable(s->taken);
    if (read(s->taken, &byte, 1) != 1)
        die("read");
}

void silence_hang_up(struct silence *s)
{
    if (s->taken >= 0)
        (void)close(s->taken);
    s->taken = -1;
}

void silence_close(struct silence *s)
{
    silence_hang_up(s);
    for (size_t i = 0; i < FILLERS; i++) {
        if (s->fillers[i] >= 0)
            (void)close(s->fillers[i]);
    }
    (void)close(s->listener);
}
