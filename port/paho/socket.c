/* SPDX-License-Identifier: MIT */
/*
 * The socket behind a Paho handle: found, tuned and hung up.
 *
 * Paho has no call that hands it out, and without it a message could not be
 * refused: whatever a callback returns, Paho acknowledges the message next.
 * So we read it from Paho's trace.  With the level PROTOCOL, Paho writes a
 * line "<date> <time> <fd> <client id> <- CONNACK rc: 0" and then, on the same
 * thread and within the same hold of its mutex, calls onSuccess.  The last
 * number that this thread was shown is therefore the socket of the handle
 * whose onSuccess runs, however many handles the process has and whatever
 * their client ids are.
 *
 * Trace level and callback are one per process and cannot be read back, so an
 * application's own are lost; hence they are ours only while a transport of
 * ours is connecting (a count, since there may be several), and off at other
 * times.
 *
 * We keep a duplicate of the descriptor: Paho closes its own without notice,
 * and its number may by then belong to somebody else.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "paho_transport.h"

/* Unacknowledged bytes for so long: the peer is gone. */
#define USER_TIMEOUT_MS 30000

static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned tracing; /* transports that are connecting */
static _Thread_local int traced_fd = -1;

/* Runs on any thread, with Paho's log mutex held; calls nothing of Paho. */
static void on_trace(enum MQTTASYNC_TRACE_LEVELS level, char *line)
{
    (void)level;
    const char *text = line != NULL ? strchr(line, ' ') : NULL;
    text = text != NULL ? strchr(text + 1, ' ') : NULL;
    if (text == NULL || text[1] < '0' || text[1] > '9')
        return;
    long fd = strtol(text + 1, NULL, 10);
    traced_fd = fd <= INT32_MAX ? (int)fd : -1;
}

void postbag__paho_trace_begin(struct paho *t)
{
    pthread_mutex_lock(&t->lock);
    t->is_traced = 1;
    pthread_mutex_unlock(&t->lock);
    pthread_mutex_lock(&trace_lock);
    tracing++;
    MQTTAsync_setTraceCallback(on_trace);
    MQTTAsync_setTraceLevel(MQTTASYNC_TRACE_PROTOCOL);
    pthread_mutex_unlock(&trace_lock);
}

void postbag__paho_trace_end(struct paho *t)
{
    pthread_mutex_lock(&t->lock);
    unsigned was_traced = t->is_traced;
    t->is_traced = 0;
    pthread_mutex_unlock(&t->lock);
    if (!was_traced)
        return;
    pthread_mutex_lock(&trace_lock);
    if (--tracing == 0) {
        MQTTAsync_setTraceLevel(MQTTASYNC_TRACE_ERROR);
        MQTTAsync_setTraceCallback(NULL);
    }
    pthread_mutex_unlock(&trace_lock);
}

/* Paho sets no option at all.  None of these is worth losing a connection. */
static void tune(int fd)
{
    int on = 1;
    unsigned timeout = USER_TIMEOUT_MS;
    /* else a PUBLISH waits for the TCP acknowledgement of the last one */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(
        fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

int postbag__paho_socket_find(struct paho *t)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);
    int fd = traced_fd;
    traced_fd = -1;
    if (fd < 0 || getpeername(fd, (struct sockaddr *)&peer, &len) != 0)
        return POSTBAG_EPROTO;
    /* Paho's own: a program that the application starts must not hold the
       connection open when we, or our process, are gone */
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return POSTBAG_EPROTO;
    tune(fd);
    pthread_mutex_lock(&t->lock);
    t->fd = fd;
    pthread_mutex_unlock(&t->lock);
    return POSTBAG_OK;
}

void postbag__paho_socket_shut(struct paho *t)
{
    pthread_mutex_lock(&t->lock);
    if (t->fd >= 0) {
        t->is_shut = 1;
        /* ENOTCONN: the peer was faster */
        (void)shutdown(t->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&t->lock);
}

/* POLLERR alone.  An ICMP message that came while the connection was made
   stays in the socket's error queue, and POLLERR with it, for as long as the
   connection lives (seen on Linux 6.18).  That is not its end: who took it for
   one would wait for an event that never comes.  So the queue is emptied, and
   the socket asked what is wrong with it. */
static int is_alive(int fd)
{
    char room[512];
    int err = 0;
    socklen_t len = sizeof(err);
    struct msghdr told;
    do {
        memset(&told, 0, sizeof(told));
        told.msg_control = room;
        told.msg_controllen = sizeof(room);
    } while (recvmsg(fd, &told, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err == 0;
}

int postbag__paho_socket_ready(struct paho *t)
{
    pthread_mutex_lock(&t->lock);
    struct pollfd p = {.fd = t->fd, .events = POLLOUT | POLLRDHUP};
    pthread_mutex_unlock(&t->lock);
    if (p.fd < 0 || poll(&p, 1, 0) < 0)
        return POSTBAG_ELINK;
    if (p.revents & (POLLHUP | POLLRDHUP | POLLNVAL))
        return POSTBAG_ELINK;
    if ((p.revents & POLLERR) && !is_alive(p.fd)) {
        /* Paho can no longer read the error off it */
        postbag__paho_socket_shut(t);
        return POSTBAG_ELINK;
    }
    return p.revents & POLLOUT ? POSTBAG_OK : POSTBAG_EAGAIN;
}

void postbag__paho_socket_close(struct paho *t)
{
    pthread_mutex_lock(&t->lock);
    if (t->fd >= 0)
        (void)close(t->fd);
    t->fd = -1;
    pthread_mutex_unlock(&t->lock);
}
