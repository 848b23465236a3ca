/* SPDX-License-Identifier: MIT */
/*
 * A frame becomes one row for each consumer that it matches, all in one FULL
 * transaction; then, and only then, it may be acknowledged.
 *
 * Owned by the transport's callback thread, but for the counters.
 */
#include "receiver.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db.h"
#include "deferral.h"
#include "error.h"
#include "identity.h"
#include "inbox_limit.h"
#include "inbox_store.h"
#include "jsonobject.h"
#include "mem.h"
#include "printable.h"
#include "reply.h"
#include "topicfilter.h"
#include "utf8.h"

enum { CONFLICT_SIZE = 160 };

/* Of one frame, until its commit. */
struct tally {
    uint32_t accepted;
    uint32_t duplicates;
    uint32_t conflicts;
    uint32_t dead;
};

struct receiver {
    struct receiver_config config;
    struct db db;
    struct inbox_store inbox;
    struct identifier identifier;
    struct postbag_writer *writer; /* of replies; NULL: none are allowed */
    struct deferral deferral;
    uint8_t boot[16];
    struct stmt fill;
    int has_refused;
    uint32_t refused_generation;
    atomic_uint accepted;
    atomic_uint duplicates;
    atomic_uint conflicts;
    atomic_uint dead;
    atomic_uint nacks;
    atomic_uint unmatched;
    uint32_t told_conflicts; /* these three: the engine's thread */
    uint32_t told_dead;
    int64_t tell_us;
};

enum { TELL_US = 60 * 1000 * 1000 };

static void hook(const struct receiver *r, const char *point)
{
    const struct postbag_port *port = r->config.port;

    if (port->hook != NULL)
        port->hook(port->ctx, point);
}

/* ---- open and close ---------------------------------------------------- */

static int open_writer(struct receiver *r)
{
    const char *topics = r->config.reply_topics;
    int err;

    if (topics == NULL || topics[0] == '\0')
        return POSTBAG_OK;
    err = postbag__writer_open(&r->writer, r->db.handle, r->config.port,
        r->config.shared, &r->db.fault);
    if (err == POSTBAG_OK)
        r->writer->reply_topics = topics;
    return err;
}

static int start(struct receiver *r)
{
    const struct postbag_port *port = r->config.port;
    int err = port->boot_id(port->ctx, r->boot);

    if (err != POSTBAG_OK)
        return postbag__fail(&r->db.fault, err, "the port has no boot id");
    err = postbag__db_open(
        &r->db, r->config.db_path, DB_WRITE, DB_FULL, r->config.accept_ms);
    if (err != POSTBAG_OK)
        return err;
    postbag__inbox_open(&r->inbox, &r->db);
    err = postbag__inbox_fill_prepare(&r->db, &r->fill);
    if (err == POSTBAG_OK)
        err = postbag__deferral_open(&r->deferral, &r->db);
    if (err == POSTBAG_OK)
        err = postbag__identifier_open(&r->identifier, &r->db, port,
            r->config.identity, r->config.no_identity);
    return err == POSTBAG_OK ? open_writer(r) : err;
}

int postbag__receiver_open(struct receiver **out,
    const struct receiver_config *c, struct postbag_fault *why)
{
    struct receiver *r = postbag__alloc(sizeof(*r));
    int err;

    *out = NULL;
    if (r == NULL)
        return postbag__fail(why, POSTBAG_ENOMEM, "no memory for a receiver");
    r->config = *c;
    err = start(r);
    if (err != POSTBAG_OK) {
        (void)postbag__pass(why, &r->db.fault);
        postbag__receiver_close(r);
        return err;
    }
    r->config.db_path = NULL;
    *out = r;
    return POSTBAG_OK;
}

void postbag__receiver_close(struct receiver *r)
{
    if (r == NULL)
        return;
    r->tell_us = 0; /* the last word, whenever the last one was */
    (void)postbag__receiver_tell(r, 0);
    postbag_writer_close(r->writer);
    postbag__identifier_close(&r->identifier);
    postbag__deferral_close(&r->deferral);
    postbag__finalize(&r->fill);
    postbag__inbox_close(&r->inbox);
    postbag__db_close(&r->db);
    postbag__free(r);
}

/* ---- from frame to rows ------------------------------------------------ */

/* User properties as a JSON object, NULL for none; yours.  0: no memory. */
static int make_headers(const struct postbag_frame *f, char **out)
{
    struct jsonobject j = {0};

    *out = NULL;
    if (f->property_count == 0)
        return 1;
    for (size_t i = 0; i < f->property_count; i++)
        postbag__jsonobject_add(
            &j, f->properties[i].name, f->properties[i].value);
    *out = postbag__jsonobject_end(&j);
    return *out != NULL;
}

/* 1 if text is a whole number that fits. */
static int read_number(const char *text, int64_t *out)
{
    char *end;
    long long n;

    if (text == NULL || text[0] == '\0')
        return 0;
    errno = 0;
    n = strtoll(text, &end, 10);
    *out = n;
    return errno == 0 && *end == '\0';
}

static void fill_identity(
    struct inbox_arrival *a, const struct identity *identity)
{
    a->source = identity->source;
    a->id = identity->id;
    a->id_len = identity->id_len;
    a->id_is_text = identity->id_is_text;
    a->content_hash = identity->content;
}

static void fill_payload(const struct receiver *r, struct inbox_arrival *a,
    const struct postbag_frame *f)
{
    if (r->config.max_payload != 0 && f->payload_len > r->config.max_payload) {
        a->dead = "payload is larger than max_payload";
        return;
    }
    a->payload = f->payload == NULL ? "" : f->payload;
    a->payload_len = f->payload_len;
    a->payload_is_text =
        f->is_text && postbag__utf8_is_valid(a->payload, a->payload_len);
}

static void fill_arrival(const struct receiver *r, struct inbox_arrival *a,
    const struct postbag_frame *f, const struct identity *identity)
{
    memset(a, 0, sizeof(*a));
    fill_identity(a, identity);
    fill_payload(r, a, f);
    if (!identity->found)
        a->dead = "no id";
    a->topic = f->topic;
    a->content_type = f->content_type;
    a->key = postbag__frame_property(f, "partitionkey");
    a->has_key_version =
        read_number(postbag__frame_property(f, "keyversion"), &a->key_version);
    a->response_topic = f->response_topic;
    a->correlation = f->correlation;
    a->correlation_len = f->correlation_len;
    a->expires_ms = (int64_t)f->expiry_s * 1000;
    a->now = postbag__inbox_now(r->config.port, r->boot);
}

/* ---- one transaction --------------------------------------------------- */

/* For an operator; an id that is no text is found by the correlation data. */
static const char *name_conflict(
    const struct identity *i, char out[CONFLICT_SIZE])
{
    char id[IDENTITY_MAX + 1];

    memcpy(id, i->id, i->id_len);
    id[i->id_len] = '\0';
    (void)snprintf(out, CONFLICT_SIZE, "conflict");
    if (i->id_is_text) {
        (void)snprintf(out, CONFLICT_SIZE, "conflict with ");
        postbag__printable(out + strlen(out), CONFLICT_SIZE - strlen(out), id);
    }
    return out;
}

/* The id came before with other content: keep this one too, under an id of
 * its own, where an operator sees it. */
static int store_conflict(struct receiver *r, struct inbox_arrival a,
    const struct identity *identity, struct tally *t)
{
    char why[CONFLICT_SIZE];
    struct identity derived;
    enum inbox_accepted what;
    int err;

    postbag__identity_derive(identity, &derived);
    fill_identity(&a, &derived);
    a.dead = name_conflict(identity, why);
    err = postbag__inbox_accept(&r->inbox, &a, &what);
    if (err != POSTBAG_OK)
        return err;
    if (what == INBOX_NEW)
        t->conflicts++;
    else
        t->duplicates++;
    return POSTBAG_OK;
}

/* A reply that cannot be put (the outbox is full, its topic is not allowed) is
 * missed by its sender only, who may ask once more.  The command is accepted
 * all the same, unless SQLite has rolled back what was accepted with it. */
static int answer_again(struct receiver *r, const struct inbox_arrival *a)
{
    int err =
        r->writer == NULL ? POSTBAG_OK : postbag__reply_again(r->writer, a);

    if (err == POSTBAG_OK)
        return err;
    if (!postbag__in_transaction(&r->db))
        return postbag__pass(&r->db.fault, &r->writer->db.fault);
    postbag__log_fault(&r->config.log, POSTBAG_LOG_WARNING,
        "a command came again, but its reply cannot be sent again",
        &r->writer->db.fault);
    return POSTBAG_OK;
}

static int store_row(struct receiver *r, const struct consumer *who,
    struct inbox_arrival *a, const struct identity *identity, struct tally *t)
{
    enum inbox_accepted what;
    int err = postbag__deferral_check(&r->deferral, who, a);

    if (err == POSTBAG_OK)
        err = postbag__inbox_accept(&r->inbox, a, &what);
    if (err != POSTBAG_OK)
        return err;
    switch (what) {
    case INBOX_NEW:
        if (a->dead == NULL) {
            t->accepted++;
            return postbag__deferral_stored(&r->deferral, who, a);
        }
        t->dead++;
        break;
    case INBOX_DUPLICATE:
        t->duplicates++;
        return answer_again(r, a);
    case INBOX_CONFLICT:
        return store_conflict(r, *a, identity, t);
    }
    return POSTBAG_OK;
}

/* A frame gets in whole while there is room, be it larger than the limit: it
 * would else be delivered for ever. */
static int check_room(
    struct receiver *r, const struct inbox_fill *before, const struct tally *t)
{
    if (t->accepted == 0)
        return POSTBAG_OK;
    if (before->max_rows > 0 && before->rows >= before->max_rows)
        return postbag__fail(&r->db.fault, POSTBAG_EFULL,
            "inbox is full: %lld commands and claims are not done, which is"
            " inbox_max_rows",
            (long long)before->rows);
    if (before->max_bytes > 0 && before->bytes >= before->max_bytes)
        return postbag__fail(&r->db.fault, POSTBAG_EFULL,
            "inbox is full: %lld bytes of commands are not done, which is"
            " inbox_max_bytes",
            (long long)before->bytes);
    return POSTBAG_OK;
}

static int store_all(struct receiver *r, const struct postbag_frame *f,
    const struct inbox_arrival *a, const struct identity *identity,
    struct tally *t)
{
    const struct consumers *c = r->config.consumers;
    struct inbox_fill before;
    int err = postbag__inbox_fill_read(&r->fill, &before);

    for (size_t i = 0; i < c->count && err == POSTBAG_OK; i++) {
        struct inbox_arrival own = *a;

        if (!postbag__filter_matches(c->list[i].filter, f->topic))
            continue;
        own.consumer = c->list[i].name;
        err = store_row(r, &c->list[i], &own, identity, t);
    }
    return err == POSTBAG_OK ? check_room(r, &before, t) : err;
}

/* The wait for our own threads and the one for other processes share
 * accept_ms. */
static int begin(struct receiver *r)
{
    const struct postbag_port *port = r->config.port;
    int64_t begun_us = port->mono_us(port->ctx);
    int64_t left_ms;
    int err = postbag__gate_enter(r->config.shared, r->config.accept_ms);

    if (err != POSTBAG_OK)
        return postbag__fail(&r->db.fault, err, "no turn at the gate");
    left_ms = (int64_t)r->config.accept_ms -
              (port->mono_us(port->ctx) - begun_us) / 1000;
    r->db.busy_ms = left_ms > 0 ? (uint32_t)left_ms : 0;
    err = postbag__begin(&r->db, DB_FULL);
    if (err != POSTBAG_OK)
        postbag__gate_leave(r->config.shared);
    return err;
}

static int end(struct receiver *r, int err)
{
    if (err == POSTBAG_OK)
        err = postbag__commit(&r->db);
    else
        postbag__rollback(&r->db);
    postbag__gate_leave(r->config.shared);
    if (r->writer != NULL && err == POSTBAG_OK)
        postbag__writer_committed(r->writer, 1);
    else if (r->writer != NULL)
        r->writer->newest = 0;
    return err;
}

static int store(
    struct receiver *r, const struct postbag_frame *f, struct tally *t)
{
    struct identity identity;
    struct inbox_arrival a;
    char *headers = NULL;
    int err = postbag__identify(&r->identifier, f, &identity);

    if (err != POSTBAG_OK)
        return err;
    fill_arrival(r, &a, f, &identity);
    if (!make_headers(f, &headers))
        return postbag__fail(
            &r->db.fault, POSTBAG_ENOMEM, "no memory for the headers");
    a.headers = headers;
    err = begin(r);
    if (err == POSTBAG_OK) {
        err = store_all(r, f, &a, &identity, t);
        hook(r, "accept.stored");
        err = end(r, err);
        hook(r, "accept.committed");
    }
    postbag__free(headers);
    return err;
}

/* ---- accept ------------------------------------------------------------ */

static int is_wanted(const struct receiver *r, const struct postbag_frame *f)
{
    const struct consumers *c = r->config.consumers;

    for (size_t i = 0; i < c->count; i++)
        if (postbag__filter_matches(c->list[i].filter, f->topic))
            return 1;
    return 0;
}

static void count(struct receiver *r, const struct tally *t)
{
    atomic_fetch_add(&r->accepted, t->accepted);
    atomic_fetch_add(&r->duplicates, t->duplicates);
    atomic_fetch_add(&r->conflicts, t->conflicts);
    atomic_fetch_add(&r->dead, t->dead);
}

static int refuse(struct receiver *r, uint32_t generation, int err)
{
    r->has_refused = 1;
    r->refused_generation = generation;
    atomic_fetch_add(&r->nacks, 1);
    postbag__log_fault(&r->config.log, POSTBAG_LOG_WARNING,
        "a command could not be stored and is not acknowledged", &r->db.fault);
    return err;
}

int postbag__receiver_accept(
    struct receiver *r, uint32_t generation, const struct postbag_frame *f)
{
    const struct postbag_port *port = r->config.port;
    struct tally tally = {0};
    int err;

    if (r->has_refused && generation == r->refused_generation)
        return POSTBAG_ESTATE;
    if (!is_wanted(r, f)) {
        atomic_fetch_add(&r->unmatched, 1);
        return POSTBAG_OK;
    }
    err = store(r, f, &tally);
    if (err != POSTBAG_OK)
        return refuse(r, generation, err);
    count(r, &tally);
    for (size_t i = 0; tally.accepted > 0 && i < r->config.wake_count; i++)
        port->wake(port->ctx, r->config.wakes[i]);
    return POSTBAG_OK;
}

int64_t postbag__receiver_tell(struct receiver *r, int64_t now_us)
{
    uint32_t conflicts = atomic_load(&r->conflicts) - r->told_conflicts;
    uint32_t dead = atomic_load(&r->dead) - r->told_dead;

    if (conflicts == 0 && dead == 0)
        return INT64_MAX;
    if (now_us < r->tell_us)
        return r->tell_us;
    if (conflicts > 0)
        postbag__log(&r->config.log, POSTBAG_LOG_WARNING, 0,
            "came again under the same id with other content, and kept among"
            " the dead: %lu commands",
            (unsigned long)conflicts);
    if (dead > 0)
        postbag__log(&r->config.log, POSTBAG_LOG_WARNING, 0,
            "cannot be handled (no id, too large, or its version is refused),"
            " and kept among the dead: %lu commands",
            (unsigned long)dead);
    r->told_conflicts += conflicts;
    r->told_dead += dead;
    r->tell_us = now_us + TELL_US;
    return INT64_MAX;
}

void postbag__receiver_counts(struct receiver *r, struct receiver_counts *out)
{
    out->accepted = atomic_load(&r->accepted);
    out->duplicates = atomic_load(&r->duplicates);
    out->conflicts = atomic_load(&r->conflicts);
    out->dead = atomic_load(&r->dead);
    out->nacks = atomic_load(&r->nacks);
    out->unmatched = atomic_load(&r->unmatched);
}
