/* SPDX-License-Identifier: MIT */
/*
 * Postbag: a transactional outbox and inbox on SQLite and MQTT.
 *
 * This header is the reference.  Read it in this order: errors (error.h), ids,
 * messages, the writer (what firmware calls most), the engine (what relays),
 * commands (what comes in).  port.h and transport.h are the two contracts that
 * a port fills; admin.h is for tools that look at a database and repair it.
 *
 * Words used in every comment
 *   copied      nothing is kept after the call returns
 *   borrowed    you keep it alive until the call named
 *   taken       the library owns it from now on, also if the call fails
 *   yours       you release it with the function named
 *
 * Every struct that you fill starts with struct_size = sizeof(struct ...);
 * a field that is zero has its default.  A library older than your header
 * answers POSTBAG_EVERSION if you filled a field that it does not know.
 */
#ifndef POSTBAG_POSTBAG_H
#define POSTBAG_POSTBAG_H

#include <stddef.h>
#include <stdint.h>

#include "postbag/error.h"
#include "postbag/options.h"

#ifdef __cplusplus
extern "C" {
#endif

#define POSTBAG_VERSION_MAJOR 0
#define POSTBAG_VERSION_MINOR 1
#define POSTBAG_VERSION_PATCH 0
#define POSTBAG_VERSION "0.1.0"

/* The tables of src/FORMAT.md; moves on its own. */
#define POSTBAG_SCHEMA_VERSION 1

/* "0.1.0", of the library that runs, not of the header. */
POSTBAG_API const char *postbag_version(void);

struct sqlite3;
struct postbag;
struct postbag_writer;
struct postbag_port;
struct postbag_pressure;
struct postbag_transport;

/* ---- Ids ------------------------------------------------------------- */

/* A random (version 4) UUID: what consumers remove duplicates by. */
struct postbag_id {
    uint8_t b[16];
};

/**
 * Make a new id, to keep through your own retries of a transaction, so that
 * a COMMIT whose outcome is unknown can be settled: see postbag_commit.
 * @return POSTBAG_OK, EIO (the port's random source failed)
 * Thread: any.  Blocks: no (early in boot: until the kernel has entropy).
 */
POSTBAG_API POSTBAG_CHECK int postbag_id_new(
    const struct postbag_port *port, struct postbag_id *out);

/* Write the 36 characters and a NUL, lower case (RFC 4122, 3). */
POSTBAG_API void postbag_id_format(const struct postbag_id *id, char out[37]);

/* Read the 36-character form, either case.  @return POSTBAG_OK, EINVAL */
POSTBAG_API POSTBAG_CHECK int postbag_id_parse(
    struct postbag_id *out, const char *text);

/* ---- Messages -------------------------------------------------------- */

struct postbag_message {
    size_t struct_size;
    /* 1..65535 bytes of UTF-8 without + # (MQTT 5, 4.7.1) */
    const char *topic;
    /* sent as it is; NULL is allowed with length 0 */
    const void *payload;
    size_t payload_len;
    /* NULL: a new one; else yours, from postbag_id_new */
    const struct postbag_id *id;
    /* messages of one key leave in commit order; NULL: no order needed */
    const char *key;
    /* so that consumers see gaps; 0: none */
    int64_t key_version;
    /* stable event type, as "com.example.reading"; NULL: none */
    const char *type;
    /* MIME type of the payload; NULL: none */
    const char *content_type;
    /* JSON object of text values: further CloudEvents attributes and user
       properties (traceparent, correlationid, subject ...); time is that of
       the event; the names response_topic and correlation_data become the
       MQTT 5 properties.  Refused: a name that is there twice, specversion,
       id, source, type, sequence, partitionkey, keyversion, replay,
       datacontenttype, data, data_base64 */
    const char *headers;
    /* name of one destination; NULL: all of them */
    const char *dest;
    /* while this message is unsent, a newer one with the same coalesce, key
       and priority replaces it, if that goes to all destinations or to the
       same one: this one is dropped, counted and recorded (outbox_lost).  It
       is never one in flight, and what leaves last is the newest.  NULL: no
       message replaces this one, nor this one another. */
    const char *coalesce;
    /* how long it is of use, in ms since the put; 0: for ever.  What is left
       leaves as MQTT 5's Message Expiry Interval, at least 1 s; what outlives
       it here is dropped when its turn comes, or while the broker is away as
       soon as all before it in its lane are settled or dropped, and outbox_lost
       says so.  Until then it counts against max_rows and max_bytes: behind
       one without ttl_ms it makes no room while the broker is away.  By the
       time since boot; over a power-off by the wall clock, if that was set at
       the put and is now */
    int64_t ttl_ms;
    /* 0 bulk, 1..3 urgent, the highest first; who waits below has a share
       (option lane_share) */
    unsigned priority;
    /* not 0: the broker keeps it for later subscribers */
    unsigned retain;
    /* not 0: the payload is UTF-8 text (MQTT 5 Payload Format Indicator) */
    unsigned is_text;
};

/* ---- The writer: put messages in your own transaction ------------------ */

struct postbag_writer_config {
    size_t struct_size;
    /* borrowed until postbag_writer_close; must be WAL, in this process's
       one SQLite, its "main" database the one that holds the outbox */
    struct sqlite3 *db;
    /* borrowed until postbag_writer_close */
    const struct postbag_port *port;
    /* the engine in this process, woken by postbag_commit and sharing the
       fair gate; NULL: the relay is another process */
    struct postbag *engine;
    /* longest wait of postbag_begin at the gate; 0: 5000 ms */
    uint32_t begin_timeout_ms;
    /* not 0: accept a connection without a busy timeout.  The file has at
       least two writers (yours and the relay), so without one a plain BEGIN
       of yours fails now and then with SQLITE_BUSY. */
    unsigned allow_no_busy_timeout;
    /* as option reply_topics, for what you pull (pull.h); NULL: no replies;
       borrowed until postbag_writer_close */
    const char *reply_topics;
};

/**
 * Prepare to put messages through a connection of yours.  Nothing on the
 * connection is changed: no hook, no pragma.
 * @param why  may be NULL; filled on failure
 * @return POSTBAG_OK, EINVAL, EVERSION, EBUSY, EIO, ENOSPC, ENOMEM, ESTATE (no
 *         busy timeout), ESCHEMA (no outbox in "main", or another version),
 *         ECORRUPT (it has lost its version), ESTORAGE (not WAL; UTF-16),
 *         ESQLITE (older than 3.37; single-threaded build; not the SQLite
 *         library that Postbag runs on)
 * Thread: the one that uses the connection.  Blocks: on SQLite only.
 */
POSTBAG_API POSTBAG_CHECK int postbag_writer_open(struct postbag_writer **out,
    const struct postbag_writer_config *config, struct postbag_fault *why);

/* Release the statements; before you close the connection.  NULL is fine. */
POSTBAG_API void postbag_writer_close(struct postbag_writer *w);

/* The connection given at open. */
POSTBAG_API struct sqlite3 *postbag_writer_db(struct postbag_writer *w);

/* What the last failing call on w ran into; never NULL. */
POSTBAG_API const struct postbag_fault *postbag_writer_fault(
    const struct postbag_writer *w);

/**
 * BEGIN IMMEDIATE, fair to the relay: waits its turn at the gate (first come,
 * first served), then for SQLite's write lock by the connection's own busy
 * timeout.  End it with postbag_commit or postbag_rollback, which leave the
 * gate.  You may instead run your own BEGIN IMMEDIATE and COMMIT; a plain
 * BEGIN that reads first can fail with SQLITE_BUSY_SNAPSHOT, which no busy
 * timeout cures.
 * @return POSTBAG_OK, ESTATE (a transaction is open), EBUSY (nothing begun),
 *         EIO, ENOSPC, ENOMEM, ECORRUPT
 * Thread: the connection's.  Blocks: at most begin_timeout_ms and the
 * connection's busy timeout.
 */
POSTBAG_API POSTBAG_CHECK int postbag_begin(struct postbag_writer *w);

/**
 * Queue one message in the transaction that is open on the connection.  It
 * leaves this machine if, and only if, that transaction commits.
 * @param m       copied
 * @param id_out  may be NULL; the id that was stored
 * @return POSTBAG_OK; on any error nothing was queued and your transaction is
 *         still open, but for ENOSPC, EIO and ENOMEM, where SQLite may have
 *         rolled it back (postbag_commit then answers ENOTXN):
 *         ENOTXN, EINVAL (topic, UTF-8, priority, headers, unknown dest ...:
 *         the fault names it, and the profile whose rule it is), ETOOBIG
 *         (payload over max_payload; message over the profile's), EFULL
 *         (as much waits as max_rows or max_bytes allows a message of this
 *         priority, and option overflow finds nothing to drop, or no more is
 *         free on the file system than min_free_bytes, looked at 100 times a
 *         second: the fault says which; put it again later, nothing else is
 *         needed), EVERSION, EIO, ENOSPC, ENOMEM, ECORRUPT
 * Thread: the connection's.  Blocks: on SQLite only.
 */
POSTBAG_API POSTBAG_CHECK int postbag_put(struct postbag_writer *w,
    const struct postbag_message *m, struct postbag_id *id_out);

/**
 * COMMIT, leave the gate, wake the relay.
 *
 * When the outcome is unknown (EIO), it is settled by the id that you kept:
 *
 *     struct postbag_id id;
 *     err = postbag_id_new(port, &id);
 *     do {
 *         err = postbag_begin(w);
 *         if (err == POSTBAG_OK && unknown)
 *             err = postbag_find(w, &id, &stored);   // did it commit?
 *         ... if stored: postbag_rollback(w) and be done ...
 *         ... your state change; m.id = &id; postbag_put(w, &m, NULL) ...
 *         err = postbag_commit(w);
 *         unknown = err == POSTBAG_EIO;
 *     } while (err == POSTBAG_EBUSY || unknown);
 *
 * @return POSTBAG_OK: committed.  EBUSY, ENOSPC, ENOMEM: rolled back, nothing
 *         happened.  EIO: unknown until looked up.  ENOTXN: no transaction.
 * Thread: the connection's.  Blocks: on SQLite (the fsync that the
 * connection's own `synchronous` asks for, and no other).
 */
POSTBAG_API POSTBAG_CHECK int postbag_commit(struct postbag_writer *w);

/* ROLLBACK and leave the gate.  Fine when no transaction is open. */
POSTBAG_API void postbag_rollback(struct postbag_writer *w);

/**
 * Is a message of this id stored (queued, held or not yet purged)?  Looks at
 * the newest 10,000 rows and at the held ones: for settling a COMMIT, not for
 * deduplication.
 * @param stored_out  1 or 0
 * @return POSTBAG_OK, EIO, ENOSPC, ENOMEM, EBUSY, ECORRUPT
 * Thread: the connection's.  Blocks: on SQLite only.
 */
POSTBAG_API POSTBAG_CHECK int postbag_find(
    struct postbag_writer *w, const struct postbag_id *id, int *stored_out);

/* ---- The engine: relay what is pending --------------------------------- */

enum postbag_log_level {
    POSTBAG_LOG_ERROR = 3, /* syslog's numbers */
    POSTBAG_LOG_WARNING = 4,
    POSTBAG_LOG_NOTICE = 5,
    POSTBAG_LOG_DEBUG = 7
};

/* No payload and no credential ever stands in a line. */
struct postbag_log_line {
    int level; /* enum postbag_log_level */
    /* an error of ours; 0 for news; EFENCED: another relay took over */
    int code;
    int cause; /* as in struct postbag_fault */
    const char *text;
};

struct postbag_config {
    size_t struct_size;
    /* path of the application's database, never a URI; copied */
    const char *db_path;
    /* borrowed until postbag_close */
    const struct postbag_port *port;
    /* sends; taken */
    struct postbag_transport *transport;
    /* receives commands, on a connection and client id of its own, so that a
       command that cannot be stored never stops the drain; taken; NULL: no
       commands */
    struct postbag_transport *inbound;
    /* may be NULL; any thread; must not call Postbag; text is borrowed */
    void (*log)(void *ctx, const struct postbag_log_line *line);
    void *log_ctx;
    /* may be NULL; how full the outbox is has passed a level (pressure.h), so
       that producers can shed.  level: enum postbag_pressure_level; p: borrowed
       until it returns.  On the engine's thread, no transaction open, within
       0.1 s of a commit, or poll_ms for the room on the disk; must not block
       nor call Postbag with this engine. */
    void (*on_pressure)(void *ctx, int level, const struct postbag_pressure *p);
    void *pressure_ctx;
    /* see options.h: meaning, unit, default and range of each */
#define POSTBAG_FIELD_U32(name) uint32_t name;
#define POSTBAG_FIELD_STR(name) const char *name;
#define POSTBAG_FIELD(kind, name, def, min, max, unit, help) \
    POSTBAG_FIELD_##kind(name)
    POSTBAG_OPTION_MAP(POSTBAG_FIELD)
};

/**
 * Open the database (create the tables inside it if they are not there),
 * become ready to relay.  No thread runs and nothing connects before
 * postbag_start or the first postbag_step.
 * @param config  copied, but for what its fields say
 * @param why     may be NULL; filled on failure
 * @return POSTBAG_OK, EINVAL (the fault names the option, and the rule of the
 *         profile that it breaks), ENOTFOUND (there is no such destination,
 *         and option dest_from is not set), EVERSION, ENOMEM,
 *         EBUSY, EIO, ENOSPC, ECORRUPT, ESTORAGE (network file system, no
 *         WAL, UTF-16), ESCHEMA (newer version), ESQLITE.
 *         On failure the transports are destroyed.
 * Thread: any.  Blocks: on SQLite; recovery of a long WAL takes its time.
 */
POSTBAG_API POSTBAG_CHECK int postbag_open(struct postbag **out,
    const struct postbag_config *config, struct postbag_fault *why);

/**
 * Run the engine on a thread of low priority (option niceness), and workers for
 * command handlers if there are any.
 * @return POSTBAG_OK, ESTATE (it runs; no threads), EBUSY, EIO, ENOSPC, ENOMEM
 * Thread: the one that opened.  Blocks: no.
 */
POSTBAG_API POSTBAG_CHECK int postbag_start(struct postbag *p);

/**
 * Do what is due: at most some rows and one short write transaction for each
 * duty.  For firmware with a main loop of its own, instead of postbag_start.
 * What the transport reports meanwhile waits for the next call: while messages
 * are in flight, call every few milliseconds.
 * @param next_us_out  when to call again at the latest (port's mono_us)
 * @return POSTBAG_OK; else the engine goes on and the log tells
 * Thread: always the same one.  Blocks: at most about 50 ms at the gate;
 * closing a broken link may take the transport some 100 ms.
 */
POSTBAG_API POSTBAG_CHECK int postbag_step(
    struct postbag *p, int64_t *next_us_out);

/**
 * Run at most one command handler, for firmware without the worker thread.
 * @param did_out  1 if a handler ran, or a command was given up before; else 0
 * @return POSTBAG_OK, EBUSY, EIO, ENOSPC, ENOMEM, ECORRUPT
 * Thread: always the same one.  Blocks: as long as the handler does.
 */
POSTBAG_API POSTBAG_CHECK int postbag_work(struct postbag *p, int *did_out);

/* Look for new rows now: after a commit that did not go through
 * postbag_commit.  Any thread, never blocks. */
POSTBAG_API void postbag_wake(struct postbag *p);

/**
 * Tell what the system knows of the network, when it changes.  Both links.
 * @param is_up  1: it is back.  A link that waits tries now (but for the first
 *               time after a start, see option start_jitter_ms); should that
 *               fail, the backoff goes on from where it was.
 *               0: it is gone.  No new attempt is begun until 1 is told, or
 *               reconnect_cap_ms has passed since 0 was last told: a hint that
 *               gets lost strands no device.  A connection that is up, or an
 *               attempt that runs, is left to its timeouts; if it is lost, the
 *               next attempt waits so long, too.  An attempt that comes up
 *               ends this: there is a network.
 * Thread: any; also a signal handler, if the port's wake may be called there
 * (port/linux: yes; it may change errno).  Blocks: no.
 */
POSTBAG_API void postbag_link_hint(struct postbag *p, int is_up);

/**
 * Connect anew, to use certificates, keys and passwords that were renewed: a
 * transport reads them at each connect.  Both links.  One that is up takes no
 * new messages, waits for the PUBACKs of what is in flight (5 s at most), says
 * goodbye and connects at once to the same server; this counts as no failure.
 * One that waits tries now (but for the first time after a start), also where
 * a hint said that the network is gone.  An attempt that runs goes on.
 * Thread: as postbag_link_hint.  Blocks: no.
 */
POSTBAG_API void postbag_reconnect(struct postbag *p);

/**
 * Take no new rows, wait for the PUBACKs of what is in flight, save the
 * cursor, disconnect, give the destination back so that a relay that stands
 * by takes over at once, end the threads.  What is not acknowledged in time is
 * sent again, with the same id, after the next start; what is, is not.  Older
 * messages that it overtook, as those that wait for their key, are held until
 * then (outbox_held); where the bounds of what is held, or four windows of
 * their key, leave no room for them, up to four windows of acknowledged ones
 * are repeated.  A relay that ends without it counts as crashed: of messages
 * that may be the reason the next one is careful.
 * @param grace_ms  longest wait for PUBACKs
 * @return POSTBAG_OK, EAGAIN (rows were still in flight)
 * Thread: the one that opened.  Blocks: grace_ms and a little more; also for
 * a running handler, and what goes before it (slow.h).
 */
POSTBAG_API POSTBAG_CHECK int postbag_stop(
    struct postbag *p, uint32_t grace_ms);

/* Stop without grace if it runs, and free everything.  Close the writers that
 * name this engine before.  NULL is fine. */
POSTBAG_API void postbag_close(struct postbag *p);

/* ---- Commands: what comes in ------------------------------------------- */

/* What a command's version says against the one that was taken before it, of
   the same key and for the same consumer: so that a handler can reconcile what
   it may have missed, or answer POSTBAG_REJECT.  A duplicate is no repeat: no
   handler sees it. */
enum postbag_order {
    POSTBAG_ORDER_NONE = 0,   /* it has no key or no version */
    POSTBAG_ORDER_FIRST = 1,  /* no other is remembered */
    POSTBAG_ORDER_NEXT = 2,   /* one more */
    POSTBAG_ORDER_GAP = 3,    /* higher by more than one */
    POSTBAG_ORDER_REPEAT = 4, /* the same */
    POSTBAG_ORDER_BACK = 5    /* lower */
};

struct postbag_command {
    size_t struct_size;
    const char *consumer;
    const char *source; /* who made the id; "" if unknown */
    /* found as options identity and no_identity say: as the sender gave it, or
       its hash; or 16 random bytes, so that effects may come twice */
    const void *id;
    size_t id_len;
    const char *topic;
    const void *payload;
    size_t payload_len;
    const char *content_type;   /* NULL: none */
    const char *key;            /* NULL: none */
    const char *response_topic; /* NULL: none */
    const void *correlation;
    size_t correlation_len;
    const char *headers; /* user properties as a JSON object; NULL: none */
    unsigned attempt;    /* 1 the first time */
    int64_t received_ms; /* wall clock, a label */
    int64_t arrival;     /* the row's number in the inbox */
    /* user properties traceparent, tracestate (W3C Trace Context) and
       correlationid, as they came; NULL: none.  They name no command. */
    const char *traceparent;
    const char *tracestate;
    const char *correlation_id;
    /* user property keyversion, and that of the command before it; each is 0
       where order says that there is none */
    int64_t key_version;
    int64_t previous_version;
    enum postbag_order order;
};

enum postbag_outcome {
    POSTBAG_DONE = 0,  /* commit effects, mark and replies together */
    POSTBAG_RETRY = 1, /* roll back, try again after a backoff; not counted
                          where a call of yours, or your last statement, met
                          a full outbox or an error of the storage */
    POSTBAG_REJECT = 2 /* roll back, keep the command among the dead */
};

/**
 * Apply one command.  w stands on a connection of Postbag's own: what you set
 * on yours (foreign keys, functions, attached files) is not set there.  A
 * transaction is open on it: what you write through postbag_writer_db(w) and
 * what you postbag_put commits together with the mark that the command is
 * done, or not at all.  BEGIN, COMMIT, ROLLBACK, SAVEPOINT, ATTACH and PRAGMA
 * x=y are denied.  Whoever writes waits for you: what takes long is in slow.h.
 * A command whose MQTT 5 Message Expiry Interval is over by the clocks that can
 * be trusted is not given to you, but kept among the dead.  All of *cmd is
 * valid until you return.  A run that the process does not outlive is undone,
 * and is an attempt like one that ended with POSTBAG_RETRY, but for one that
 * the storage cut off: a command that crashes its handler is dead after
 * max_attempts, and others go on before its next try.
 */
typedef enum postbag_outcome (*postbag_handler)(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w);

/**
 * Subscribe a consumer.  Several consumers may match one message; each has its
 * own row.  Before postbag_start or the first postbag_step.
 * A command needs SQLite's write lock for a moment, and waits for it for
 * inbox_accept_ms at most: no command comes in while your transactions are
 * longer than that and follow each other without a pause.  Figures: Receiving
 * in src/DESIGN.md.
 * @param consumer  1..64 bytes, part of the identity of a command; copied
 * @param filter    MQTT topic filter, + and # allowed; copied
 * @param handler   NULL: you pull what was stored and acknowledged (pull.h)
 * @param ctx       borrowed until postbag_close
 * @return POSTBAG_OK, EINVAL, ESTATE (running, or no inbound transport),
 *         ENOMEM
 */
POSTBAG_API POSTBAG_CHECK int postbag_on(struct postbag *p,
    const char *consumer, const char *filter, postbag_handler handler,
    void *ctx);

/**
 * Answer a command: postbag_put to its response topic with its correlation
 * data and its id as causationid.  In the handler, or where you pull (pull.h).
 * The last reply is kept with the command, if its payload has at most 65536
 * bytes: when the command comes again after it is done, it is put once more,
 * with the same id, to the topic that it then has.  Dead ones: see reply_dead.
 * @param m  topic must be NULL; the rest as for postbag_put
 * @return as postbag_put; ENOTFOUND if the sender named no response topic,
 *         EREFUSED if option reply_topics does not allow it
 */
POSTBAG_API POSTBAG_CHECK int postbag_reply(struct postbag_writer *w,
    const struct postbag_command *cmd, const struct postbag_message *m,
    struct postbag_id *id_out);

#ifdef __cplusplus
}
#endif
#endif
