/* SPDX-License-Identifier: MIT */
/*
 * What the files of this port share.
 *
 *   config.c   options: ranges, proxy; no Paho in it
 *   uri.c      the option uri: one server or several
 *   check.c    do the options keep the broker's rules?
 *   paho.c     the five functions and the life of a handle
 *   target.c   which server and which address an attempt goes to
 *   resolve.c  names become addresses, on a thread that may hang
 *   link.c     up and lost: CONNACK, DISCONNECT, loss
 *   tls*.c     whom we trust and who we are, see tls.c
 *   credentials.c  user name and password of one attempt
 *   file.c     small files that options name
 *   text.c     is it UTF-8 without control characters?
 *   socket.c   which socket a handle has, and hanging it up
 *   sigpipe.c  writes to dead sockets end nobody
 *   send.c     PUBLISH and what became of it
 *   transfer.c what the peer has taken of it
 *   receive.c  SUBSCRIBE and messages
 *
 * One Paho handle lives from connect to disconnect and is never used again:
 * a handle that has lost its connection keeps old acknowledgements, queued
 * commands and message ids, which could mix with those of a new session.
 *
 * Locks, outermost first: the resolver's (held while a connection begins or
 * ends), then handles_lock of paho.c, then Paho's global mutex (held by Paho
 * around every callback, and taken by every call into Paho), then lock or that
 * of tls.c, then nothing.  No call into Paho and no event is made while lock is
 * held.
 */
#ifndef POSTBAG_PAHO_TRANSPORT_H
#define POSTBAG_PAHO_TRANSPORT_H

#include <MQTTAsync.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>

#include "postbag/paho.h"

/* Most messages of one connection that wait for their PUBACK. */
#define SLOT_COUNT 1024
/* Why a connection ended, for people. */
#define TEXT_BYTES 160
#define TLS_TEXT_BYTES 256
/* A host: a name has 253 bytes at most. */
#define HOST_BYTES 256
/* An address as Paho is told it, see target.c. */
#define SPELLING_BYTES (HOST_BYTES + 16)

struct paho;
struct addrinfo; /* netdb.h */
struct resolver; /* resolve.c */
struct tls;      /* tls.h */

/* One of the brokers of option uri. */
struct server {
    char host[HOST_BYTES]; /* without brackets */
    unsigned is_numeric;   /* host is an address */
    unsigned is_tls;       /* as of all */
    unsigned port;
    /* see target.c */
    char good[HOST_BYTES];
    size_t tries;
    /* the client id that it gave us, if we have none; kept, because the
       session it keeps has this name; nobody else knows it */
    char *assigned_id;
};

struct servers {
    struct server *list;
    size_t count; /* at least 1 */
    unsigned is_tls;
};

/* The context of one send: maps Paho's callback to the caller's token.
   Paho's own token is the MQTT packet id, which is used again. */
struct slot {
    struct paho *owner;
    uint32_t token;
    unsigned is_used;
    struct slot *next; /* in the free list */
};

enum link_state {
    LINK_NONE,       /* no attempt, no handle */
    LINK_CONNECTING, /* neither up nor lost was reported */
    LINK_UP,
    LINK_LOST, /* lost was reported */
};

struct paho {
    struct postbag_transport base;
    /* its texts are our copies */
    struct postbag_paho_config config;
    struct servers servers;
    unsigned is_tls; /* the servers' */
    struct resolver *resolver;
    /* what we ask for; a Server Keep Alive below it is kept for the next
       connection, because Paho 1.3.12 does not obey it in this one */
    uint32_t keepalive_s;

    /* of the present connection */
    MQTTAsync handle;             /* NULL while a name is looked up */
    uint32_t server;              /* which of servers */
    const char *host_name;        /* its host */
    char target_host[HOST_BYTES]; /* the host given to Paho, no brackets */
    unsigned target_port;
    struct postbag_connect wish;
    const struct postbag_transport_events *up;
    uint32_t generation;
    uint32_t max_packet; /* the broker's; 0: any */
    unsigned is_retain_refused;
    struct tls *tls;       /* NULL: without TLS */
    struct paho *next_tls; /* of those that connect with TLS, see tls.c */
    uint32_t tls_number;   /* of the attempt, among all of the process */
    /* of the next CONNECT, see credentials.c */
    char *username;
    char *password;

    pthread_mutex_t lock; /* guards what follows */
    enum link_state state;
    int fd;             /* our own descriptor of Paho's socket, or -1 */
    size_t ungranted;   /* filters whose SUBACK has not come */
    unsigned is_shut;   /* fd was shut down: nothing is handed up any more */
    unsigned is_traced; /* takes part in the trace of socket.c */
    struct slot *free_slots;
    struct slot slots[SLOT_COUNT];
};

static inline struct paho *postbag__paho_of(struct postbag_transport *t)
{
    return (struct paho *)(void *)t;
}

static inline unsigned postbag__paho_is_v5(const struct paho *t)
{
    return t->config.mqtt_version == 5;
}

/* config.c: fill why, unless NULL; returns code. */
int postbag__paho_refuse(struct postbag_fault *why, int code,
    const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A checked copy with the defaults filled in, and the servers of its uri. */
int postbag__paho_config_take(struct postbag_paho_config *out,
    struct servers *servers, const struct postbag_paho_config *in,
    struct postbag_fault *why);
void postbag__paho_config_free(struct postbag_paho_config *c);

/* uri.c: take a list of uris apart; free whatever take returned. */
int postbag__paho_servers_take(
    struct servers *out, const char *uri, struct postbag_fault *why);
void postbag__paho_servers_free(struct servers *s);

/* resolve.c: list is NULL if the name was not found, and why says so then.
   On the thread of the look-up, with the lock held. */
typedef void resolver_answer(
    void *ctx, const struct addrinfo *list, const char *why);
struct resolver *postbag__paho_resolver_new(void); /* NULL: no memory */
/* Does not wait for a look-up. */
void postbag__paho_resolver_free(struct resolver *r);
void postbag__paho_resolver_lock(struct resolver *r);
void postbag__paho_resolver_unlock(struct resolver *r);
/* All with the lock held.  busy: the other name that is still looked up, or
   NULL.  ask: only if not busy; attaches to a look-up of the same name.
   forget: no answer comes any more. */
const char *postbag__paho_resolver_busy(
    const struct resolver *r, const char *host);
int postbag__paho_resolver_ask(
    struct resolver *r, const char *host, resolver_answer *answer, void *ctx);
void postbag__paho_resolver_forget(struct resolver *r);

/* target.c: choose the server of an attempt, then its address. */
const struct server *postbag__paho_target_server(struct paho *t, uint32_t n);
void postbag__paho_target_set(struct paho *t, const char *host);
/* ELINK: Paho can use none of these. */
int postbag__paho_target_pick(struct paho *t, const struct addrinfo *list);
/* The broker has answered. */
void postbag__paho_target_worked(struct paho *t);
/* The address for Paho, no brackets; with TLS no other attempt of the process
   writes it in this way. */
void postbag__paho_target_spell(const struct paho *t, char *out, size_t size);
/* For Paho: "tcp://[2001:db8::1]:1883". */
void postbag__paho_target_uri(const struct paho *t, char *out, size_t size);
/* For people: "broker.example (192.0.2.1:1883)". */
void postbag__paho_target_text(const struct paho *t, char *out, size_t size);

/* check.c */
int postbag__paho_check(struct postbag_transport *base,
    const struct postbag_profile *p, struct postbag_fault *why);
int postbag__paho_is_rival(const struct postbag_transport *base,
    const struct postbag_transport *other);

/* file.c: refuse with the text of errno; returns ELINK. */
int postbag__paho_refuse_file(
    struct postbag_fault *why, const char *option, const char *path);
/* A whole file with a NUL behind it, or the one line in it without its end.
   ELINK or ENOMEM, and nothing to free then. */
struct bytes {
    unsigned char *data;
    size_t len;
};
int postbag__paho_file_read(struct bytes *out, const char *option,
    const char *path, struct postbag_fault *why);
int postbag__paho_secret_read(struct bytes *out, const char *option,
    const char *path, struct postbag_fault *why);
void postbag__paho_bytes_free(struct bytes *b);

/* credentials.c: fill username and password of t; wipe them in any case. */
int postbag__paho_credentials_take(struct paho *t, struct postbag_fault *why);
void postbag__paho_credentials_wipe(struct paho *t);

/* tls.c, or tls_none.c; for any transport: without TLS they do nothing. */
/* Read the files, when an attempt is asked for. */
int postbag__paho_tls_prepare(struct paho *t, struct postbag_fault *why);
/* The target is known and Paho will connect to it now: expect its handshake. */
void postbag__paho_tls_begin(struct paho *t);
void postbag__paho_tls_options(struct paho *t, MQTTAsync_SSLOptions *out);
/* Up or lost: no handshake is to be expected any more.  Then end. */
void postbag__paho_tls_settled(struct paho *t);
void postbag__paho_tls_end(struct paho *t);
/* When the certificates end. */
void postbag__paho_tls_report(const struct paho *t, struct postbag_link *link);
/* What went wrong; 0 if nothing is known. */
/* Did a handshake of this attempt begin? */
unsigned postbag__paho_tls_is_begun(const struct paho *t);
unsigned postbag__paho_tls_why(const struct paho *t, char *out, size_t size);

/* link.c: begin one attempt on a handle that was just created. */
int postbag__paho_link_begin(struct paho *t, const struct postbag_connect *c);
/* Hang up and report lost, unless that was done before. */
void postbag__paho_link_drop(
    struct paho *t, int err, int reason, const char *text);
/* Our error for a return code of a Paho function. */
int postbag__paho_error(int rc);

/* sigpipe.c: from block to restore a write to a dead socket ends nobody. */
struct sigpipe {
    sigset_t before;
    int was_pending;
};
void postbag__paho_sigpipe_block(struct sigpipe *s);
void postbag__paho_sigpipe_restore(const struct sigpipe *s);

/* socket.c */
void postbag__paho_trace_begin(struct paho *t);
void postbag__paho_trace_end(struct paho *t);
/* From within the callback of a CONNACK: take a descriptor of the socket. */
int postbag__paho_socket_find(struct paho *t);
/* OK: takes bytes; EAGAIN: its buffer is full; ELINK: the peer is gone. */
int postbag__paho_socket_ready(struct paho *t);
/* Nothing leaves on this connection any more, above all no PUBACK. */
void postbag__paho_socket_shut(struct paho *t);
void postbag__paho_socket_close(struct paho *t);

/* transfer.c */
int postbag__paho_transfers(struct postbag_transport *base, uint64_t *taken);

/* send.c */
void postbag__paho_slots_init(struct paho *t);
int postbag__paho_send(struct postbag_transport *base,
    const struct postbag_frame *f, uint32_t token);
/* Settle what Paho forgot; after the handle is gone. */
void postbag__paho_slots_settle(struct paho *t);

/* receive.c */
int postbag__paho_subscribe(
    struct postbag_transport *base, const char *const *filters, size_t count);
int postbag__paho_on_message(
    void *ctx, char *topic, int topic_len, MQTTAsync_message *m);

#endif
