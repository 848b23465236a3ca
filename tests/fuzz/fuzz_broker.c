/* SPDX-License-Identifier: MIT */
/*
 * A broker that says anything: the input is what it says, piece by piece, and
 * then it hangs up.  The transport over Paho keeps its contract: what it took
 * settles once, up and lost come at most once, nothing comes after disconnect.
 *
 * The first byte: bit 0 a CONNACK of success goes first, bit 1 MQTT 3.1.1, bit
 * 2 it speaks on only when it has heard something.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"
#include "postbag/paho.h"

enum { SENDS = 4, WAIT_S = 20, PIECES = 32 };

/* ---- the broker -------------------------------------------------------- */

struct broker {
    int listener;
    int port;
    const uint8_t *say;
    size_t len;
    unsigned flags;
};

static void open_broker(struct broker *b)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    b->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(b->listener >= 0);
    MUST(bind(b->listener, (struct sockaddr *)&at, sizeof(at)) == 0);
    MUST(listen(b->listener, 8) == 0);
    MUST(getsockname(b->listener, (struct sockaddr *)&at, &len) == 0);
    b->port = ntohs(at.sin_port);
}

static void say(int to, const void *bytes, size_t len)
{
    (void)send(to, bytes, len, MSG_NOSIGNAL);
}

/* It answers each thing it hears with the next piece. */
static void talk(struct broker *b, int client)
{
    static const uint8_t yes_5[] = {0x20, 3, 0, 0, 0};
    static const uint8_t yes_4[] = {0x20, 2, 0, 0};
    struct feed f;
    uint8_t heard[4096];

    feed_begin(&f, b->say, b->len);
    if (recv(client, heard, sizeof(heard), 0) <= 0)
        return;
    if ((b->flags & 1) != 0)
        say(client, (b->flags & 2) != 0 ? yes_4 : yes_5,
            (b->flags & 2) != 0 ? sizeof(yes_4) : sizeof(yes_5));
    if ((b->flags & 4) != 0)
        (void)recv(client, heard, sizeof(heard), 0);
    for (int i = 0; i < PIECES && f.left > 0; i++) {
        size_t len;
        uint8_t *piece = feed_bytes(&f, &len);

        say(client, piece, len);
    }
    feed_end(&f);
    (void)shutdown(client, SHUT_WR);
    while (recv(client, heard, sizeof(heard), 0) > 0)
        ;
}

static void *run_broker(void *arg)
{
    struct broker *b = arg;
    const struct timeval patience = {.tv_sec = 2};
    int client = accept(b->listener, NULL, NULL);

    if (client < 0)
        return NULL;
    (void)setsockopt(
        client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    talk(b, client);
    (void)close(client);
    return NULL;
}

/* ---- the engine's side ------------------------------------------------- */

struct events {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned ups, losts, arrivals, is_closed;
    unsigned settled[SENDS];
};

static void change(struct events *e, unsigned *what)
{
    (void)pthread_mutex_lock(&e->lock);
    MUST(!e->is_closed);
    ++*what;
    MUST(what == &e->arrivals || *what == 1);
    (void)pthread_cond_signal(&e->changed);
    (void)pthread_mutex_unlock(&e->lock);
}

static void up(void *ctx, uint32_t generation, const struct postbag_link *l)
{
    struct events *e = ctx;

    MUST(generation == 7 && (l->mqtt_version == 4 || l->mqtt_version == 5));
    change(e, &e->ups);
}

static void lost(
    void *ctx, uint32_t generation, int err, int reason, const char *text)
{
    struct events *e = ctx;

    (void)reason;
    MUST(generation == 7 && err < 0 && text != NULL);
    change(e, &e->losts);
}

static void settled(
    void *ctx, uint32_t token, int err, int reason, const char *text)
{
    struct events *e = ctx;

    (void)text;
    MUST(token < SENDS);
    MUST(err != POSTBAG_EREFUSED || reason >= 0x80);
    change(e, &e->settled[token]);
}

static int arrived(
    void *ctx, uint32_t generation, const struct postbag_frame *f)
{
    struct events *e = ctx;
    size_t bytes = strlen(f->topic) + f->correlation_len;

    for (size_t i = 0; i < f->property_count; i++)
        bytes += strlen(f->properties[i].name) + strlen(f->properties[i].value);
    MUST(generation == 7 && bytes < 1 << 20);
    change(e, &e->arrivals);
    return f->payload_len % 3 == 0 ? POSTBAG_EBUSY : POSTBAG_OK;
}

static void subscribed(void *ctx, uint32_t generation)
{
    (void)ctx;
    MUST(generation == 7);
}

/* Until *one or lost. */
static void wait_for(struct events *e, const unsigned *one)
{
    struct timespec end;

    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_S;
    (void)pthread_mutex_lock(&e->lock);
    while (*one == 0 && e->losts == 0)
        MUST(pthread_cond_timedwait(&e->changed, &e->lock, &end) == 0);
    (void)pthread_mutex_unlock(&e->lock);
}

static void use(struct postbag_transport *t, struct events *e)
{
    static const char *const filters[] = {"cmd/#"};
    const struct postbag_connect c = {.generation = 7, .timeout_ms = 5000};
    const struct postbag_transport_events events = {
        e, up, lost, settled, arrived, subscribed};
    struct postbag_frame f = {.topic = "t", .payload = "x", .payload_len = 1};
    unsigned taken[SENDS] = {0};

    if (t->ops->connect(t, &c, &events) != POSTBAG_OK)
        return;
    wait_for(e, &e->ups);
    if (e->ups > 0)
        (void)t->ops->subscribe(t, filters, 1);
    for (uint32_t i = 0; i < SENDS && e->ups > 0; i++)
        taken[i] = t->ops->send(t, &f, i) == POSTBAG_OK;
    wait_for(e, &e->losts);
    t->ops->disconnect(t, 1);
    (void)pthread_mutex_lock(&e->lock);
    e->is_closed = 1;
    (void)pthread_mutex_unlock(&e->lock);
    for (int i = 0; i < SENDS; i++)
        MUST(e->settled[i] == taken[i]);
}

static void meet(struct broker *b)
{
    struct events e = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct postbag_paho_config config = {.struct_size = sizeof(config)};
    struct postbag_transport *t;
    struct postbag_fault why = {0};
    pthread_t thread;
    char uri[64];

    (void)snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%d", b->port);
    config.uri = uri;
    config.client_id = "fuzz";
    config.mqtt_version = (b->flags & 2) != 0 ? 4 : 5;
    MUST(postbag_paho_new(&t, &config, &why) == POSTBAG_OK);
    MUST(pthread_create(&thread, NULL, run_broker, b) == 0);
    use(t, &e);
    (void)shutdown(b->listener, SHUT_RDWR);
    (void)pthread_join(thread, NULL);
    t->ops->destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct broker b = {0};

    b.flags = size > 0 ? data[0] : 0;
    b.say = size > 0 ? data + 1 : data;
    b.len = size > 0 ? size - 1 : 0;
    open_broker(&b);
    meet(&b);
    (void)close(b.listener);
    return 0;
}
