/* SPDX-License-Identifier: MIT */
/*
 * Admin: for tools that look at an outbox and repair it, beside the firmware
 * and its relay, in the same or another process.  The command postbag is made
 * of it.
 *
 * An admin owns one connection.  It never waits for the network, reads in
 * short transactions, and what it changes, it changes in transactions that
 * the relay sees whole.  All functions of one admin: one thread at a time.
 *
 * What a call returns besides what its comment names: EBUSY (the database
 * stayed locked for busy_ms), EIO, ENOSPC, ENOMEM, ECORRUPT; then the call
 * changed nothing, but for what the comment says.
 */
#ifndef POSTBAG_ADMIN_H
#define POSTBAG_ADMIN_H

#include "postbag/port.h"
#include "postbag/postbag.h"

#ifdef __cplusplus
extern "C" {
#endif

struct postbag_admin;

/* struct_size of a struct that a call fills is yours to set, too: no more
 * than that is written. */

struct postbag_admin_config {
    size_t struct_size;
    /* path of the application's database, never a URI; copied */
    const char *db_path;
    /* borrowed until postbag_admin_close */
    const struct postbag_port *port;
    /* 0: only look; 1: change things, too */
    unsigned writable;
    /* longest wait for a lock; 0: 5000 ms */
    uint32_t busy_ms;
};

/**
 * Create the tables in a database, and the database if there is none; bring
 * older tables up to this version.  Nothing happens to a database that is
 * ready.
 * @param config       writable is not looked at
 * @param max_payload  largest payload in bytes, checked for every writer;
 *                     0: what the database has, 65536 in a new one
 * @param why          may be NULL; filled on failure
 * @return POSTBAG_OK, EINVAL, EVERSION, ESTORAGE (network file system, no
 *         WAL, UTF-16), ESCHEMA (newer version, or tables of those names that
 *         are not ours), ESQLITE
 * Thread: any.  Blocks: on SQLite, with an fsync.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_init(
    const struct postbag_admin_config *config, uint32_t max_payload,
    struct postbag_fault *why);

/**
 * Open a database that has an outbox; never creates one.
 * @param out  yours: postbag_admin_close
 * @param why  may be NULL; filled on failure
 * @return POSTBAG_OK, EINVAL, EVERSION, ESCHEMA (no outbox, or one of another
 *         version), ECORRUPT (damaged, or no database of SQLite at all),
 *         ESTORAGE, ESQLITE
 * Thread: any.  Blocks: on SQLite.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_open(struct postbag_admin **out,
    const struct postbag_admin_config *config, struct postbag_fault *why);

/* NULL is fine. */
POSTBAG_API void postbag_admin_close(struct postbag_admin *a);

/* What the last failing call ran into; never NULL. */
POSTBAG_API const struct postbag_fault *postbag_admin_fault(
    const struct postbag_admin *a);

/**
 * Set the broker's rules of a destination, as option profile of an engine
 * does: from now on they are checked for every writer (profile.h).
 * @param dest     NULL: main
 * @param profile  a name of POSTBAG_PROFILES; any: lift the rules
 * @return POSTBAG_OK, EINVAL (the fault lists the profiles), ENOTFOUND (no
 *         such destination), ESTATE (not writable)
 * Blocks: on SQLite, with an fsync if it was not set before.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_set_profile(
    struct postbag_admin *a, const char *dest, const char *profile);

/* ---- Destinations ------------------------------------------------------ */

/* Where a new destination begins. */
enum postbag_from {
    POSTBAG_FROM_NOW = 0,   /* with the next message that is put */
    POSTBAG_FROM_OLDEST = 1 /* with the oldest message still stored: also what
                               other destinations have got long ago, and that
                               waits anew then, and counts against limits */
};

/**
 * Add a destination: from now on a message for all waits for it, too, so it
 * needs a relay (option dest of an engine).  One that is there stays as it is.
 * @param name  1 to 64 letters, digits and _ - .
 * @return POSTBAG_OK, EINVAL (name, from), ESTATE (opened to look only)
 * Blocks: on SQLite, with an fsync; FROM_OLDEST reads the stored messages once,
 * and nobody else writes meanwhile.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_dest_add(
    struct postbag_admin *a, const char *name, enum postbag_from from);

/**
 * Remove a destination for good, with all that the database has of it: its
 * cursors and counters, what is held and dead, its profile, its rows of
 * outbox_lost.  What waited for it alone is not sent to anybody, and is purged
 * in its turn.  postbag_admin_status tells before how much that is.
 * @return POSTBAG_OK, EINVAL (name is NULL), ENOTFOUND (no such destination),
 *         ESTATE (a relay owns it: stop it first; it is the last destination;
 *         opened to look only); then nothing happened
 * Blocks: on SQLite, with an fsync.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_dest_remove(
    struct postbag_admin *a, const char *name);

/* ---- Look -------------------------------------------------------------- */

/* The file and what is not of one destination. */
struct postbag_database {
    size_t struct_size;
    int64_t schema_version;
    int64_t max_payload; /* bytes */
    int64_t max_rows;    /* limits of what waits; 0: none */
    int64_t max_bytes;
    int64_t page_bytes;
    int64_t db_bytes;
    int64_t free_bytes; /* of db_bytes: free for new rows */
    int64_t wal_bytes;  /* size of the -wal file; it is kept, not shrunk */
    int64_t inbox_due;  /* commands by state */
    int64_t inbox_deferred;
    int64_t inbox_done;
    int64_t inbox_dead;
    int64_t inbox_claimed; /* requests that were claimed and not finished */
    int64_t inbox_expired; /* of the dead ones: too old for their handler */
    /* What the limits are measured against: what waits for the slowest
       destination, and which that is, by rows and by bytes. */
    int64_t waiting_rows;
    int64_t waiting_bytes;
    char rows_dest[65];
    char bytes_dest[65];
    /* As in struct postbag_pressure (pressure.h): per mille of what priority 0
       may take of max_rows and max_bytes, from 1000 on it is refused; and what
       can still be taken, on the file system and in free pages (-1: unknown),
       of which puts leave min_free_bytes. */
    int64_t rows_fill;
    int64_t bytes_fill;
    int64_t room_bytes;
    int64_t min_free_bytes;
    /* The limits of what is due, deferred or claimed; 0: none.  What of the
       bytes of payloads and headers is used; and how many done commands were
       forgotten before inbox_keep_s was over, by inbox_done_max_rows. */
    int64_t inbox_bytes;
    int64_t inbox_max_rows;
    int64_t inbox_max_bytes;
    int64_t inbox_forgotten;
};

/**
 * @return POSTBAG_OK, EVERSION
 * Blocks: on SQLite; the inbox is counted row by row.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_database(
    struct postbag_admin *a, struct postbag_database *out);

/**
 * Call back for each destination, in the order of their names.
 * @param each  name is borrowed for the call; must not use the admin; not 0
 *              ends the walk
 * @return POSTBAG_OK, or what each returned
 * Blocks: on SQLite.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_destinations(
    struct postbag_admin *a, int (*each)(void *ctx, const char *name),
    void *ctx);

enum postbag_lease {
    POSTBAG_LEASE_NONE = 0,    /* no relay has ever owned the destination */
    POSTBAG_LEASE_VALID = 1,   /* an owner renewed it not long ago */
    POSTBAG_LEASE_EXPIRED = 2, /* an idle owner writes nothing, so this says
                                  only that nobody had to renew */
    POSTBAG_LEASE_OLD_BOOT = 3 /* the owner died with an earlier boot */
};

/*
 * One destination.  All of it is of one moment, and then
 *
 *     put + replayed = delivered + pending + held + dead + dropped + passed
 *
 * ledger_gap is the left minus the right side: not 0 means a bug or a damaged
 * file, never mere load.
 */
struct postbag_status {
    size_t struct_size;
    int64_t put;       /* rows ever queued, for whatever destination */
    int64_t delivered; /* PUBACK of success */
    int64_t pending;   /* not settled yet */
    int64_t held;      /* set aside, still to be sent: see held_ below */
    int64_t dead;      /* given up; postbag_admin_requeue */
    int64_t dropped;   /* by a rule or an operator; outbox_lost tells: the
                          newest 1000 ranges are named, older ones summed up */
    int64_t passed;    /* addressed to another destination */
    int64_t replayed;  /* queued once more by postbag_admin_replay */
    int64_t ledger_gap;
    int64_t put_bytes;
    int64_t pending_bytes;
    int64_t sending;      /* of pending: reserved, perhaps in flight */
    int64_t held_retry;   /* refused, waiting for another try */
    int64_t held_behind;  /* waiting behind such a row of their key */
    int64_t held_suspect; /* perhaps what kills the link */
    /* The oldest pending row.  The age is by the monotonic clock where the
       row was written in this boot by postbag_put, else by the wall clock.
       Both 0: none is pending (of the next 10,000 rows none is ours). */
    int64_t oldest_ms;
    int64_t oldest_age_ms;
    /* Rows put per 1000 s, over at least the last 10 s; -1: unknown */
    int64_t put_rate_milli;
    int lease; /* enum postbag_lease */
    int64_t epoch;
    int64_t lease_left_ms; /* till it expires; negative: since it did */
    uint8_t owner[16];     /* who holds it; zeros: nobody */
    char profile[33];      /* the broker's rules (profile.h); "": never set */
    /* Of dropped, by the reason in outbox_lost. */
    int64_t dropped_ttl;       /* ttl_ms was over */
    int64_t dropped_limit;     /* the outbox was full: option overflow */
    int64_t dropped_coalesced; /* a newer one replaced it */
    int64_t dropped_discarded; /* an operator gave it up */
    int64_t dropped_other;     /* by a later library */
    int64_t held_bytes;        /* topics and payloads of what is held ... */
    int64_t dead_bytes;        /* ... and of what is dead */
    /* Pending or held, in flight when the relay crashed and not answered since:
       perhaps what made it crash. */
    int64_t on_trial;
};

/**
 * @param dest  NULL: "main"
 * @return POSTBAG_OK, EVERSION, ENOTFOUND (no such destination)
 * Blocks: on SQLite.  What it costs does not grow with the backlog.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_status(
    struct postbag_admin *a, const char *dest, struct postbag_status *out);

/**
 * Where the relay of a destination writes its live state: lines of key=value,
 * replaced in one step.  Reading it is the caller's; there is no file while
 * no relay has run since boot.
 * @param run_dir  as in option run_dir
 * @param dest     NULL: "main"
 * @param out      size bytes, ends with NUL
 * @return POSTBAG_OK, ETOOBIG (size is too small)
 * Blocks: no.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_live_path(struct postbag_admin *a,
    const char *run_dir, const char *dest, char *out, size_t size);

enum postbag_row_state {
    POSTBAG_ROW_ANY = 0,
    POSTBAG_ROW_PENDING = 1,
    POSTBAG_ROW_SENDING = 2,
    POSTBAG_ROW_PUBLISHED = 3, /* delivered, not purged yet */
    POSTBAG_ROW_RETRY = 4,
    POSTBAG_ROW_BEHIND = 5,
    POSTBAG_ROW_SUSPECT = 6,
    POSTBAG_ROW_DEAD = 7,
    POSTBAG_ROW_PASSED = 8, /* not meant for this destination */
    POSTBAG_ROW_DROPPED = 9 /* by a rule or an operator; outbox_lost has why */
};

/* "pending", ...; "any" for 0, "?" for an unknown number.  Any thread. */
POSTBAG_API const char *postbag_row_state_name(int state);

/* One message, as a destination sees it.  Pointers are borrowed for the call
 * that hands it out. */
struct postbag_row {
    int64_t seq;
    struct postbag_id id;
    int state; /* enum postbag_row_state */
    unsigned priority;
    const char *topic;
    const char *key;   /* NULL: none */
    const char *error; /* why it is held or dead; NULL: it is not */
    int64_t attempts;
    int64_t created_ms;   /* wall clock, as are these */
    int64_t published_ms; /* delivered; 0: not, or not recorded (keep_s) */
    int64_t dead_ms;      /* 0: not dead */
    size_t payload_len;
    /* postbag_admin_show only, else NULL or 0 */
    const void *payload;
    const char *type;
    const char *content_type;
    const char *headers;
    int64_t key_version;
    int64_t ttl_ms;
    unsigned retain;
    unsigned is_text;   /* the payload was stored as text */
    const char *reason; /* why it was dropped, as in outbox_lost */
};

struct postbag_row_filter {
    size_t struct_size;
    const char *dest;         /* NULL: "main" */
    int state;                /* POSTBAG_ROW_ANY or one of the others */
    int64_t after_seq;        /* only later rows: for reading in pages */
    int64_t limit;            /* most rows; 0: all */
    const char *topic_prefix; /* NULL: all */
};

/**
 * Call back for the rows of one destination, oldest first; their states are
 * those of the view outbox_status.  Rows that are passed are left out, unless
 * the filter asks for them.
 * @param each  must not use the admin; not 0 ends the walk
 * @return POSTBAG_OK, EINVAL, EVERSION, ENOTFOUND (no such destination), or
 *         what each returned
 * Blocks: on SQLite and in each.  The walk holds a read transaction, and so
 * keeps the WAL from being reset: be quick or read in pages.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_list(struct postbag_admin *a,
    const struct postbag_row_filter *filter,
    int (*each)(void *ctx, const struct postbag_row *row), void *ctx);

/**
 * Call back with one message, its payload included.
 * @param dest  NULL: "main"
 * @param id    NULL: by seq; else seq is not looked at.  There is no index on
 *              ids: the log is read, newest first.
 * @return POSTBAG_OK, ENOTFOUND (no such destination, no such row), or what
 *         each returned
 * Blocks: on SQLite and in each.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_show(struct postbag_admin *a,
    const char *dest, int64_t seq, const struct postbag_id *id,
    int (*each)(void *ctx, const struct postbag_row *row), void *ctx);

/* One command of the inbox.  Pointers are borrowed for the call. */
struct postbag_inbox_row {
    int64_t arrival;
    const char *consumer;
    const char *source; /* "" if unknown */
    const void *id;
    size_t id_len;
    unsigned id_is_text;
    const char *state; /* "due", "deferred", "done", "dead", "claimed" */
    const char *topic; /* NULL: not stored */
    const char *key;   /* NULL: none */
    const char *error; /* NULL: none */
    int64_t attempts;
    int64_t seen; /* times the broker delivered it */
    int64_t received_ms;
    int64_t processed_ms; /* 0: not yet */
    size_t payload_len;
};

struct postbag_inbox_filter {
    size_t struct_size;
    const char *consumer;  /* NULL: all */
    const char *state;     /* NULL: all */
    int64_t after_arrival; /* only later ones */
    int64_t limit;         /* most rows; 0: all */
};

/* As postbag_admin_list, for commands, in order of arrival.
 * @return POSTBAG_OK, EINVAL, EVERSION, or what each returned */
POSTBAG_API POSTBAG_CHECK int postbag_admin_inbox_list(struct postbag_admin *a,
    const struct postbag_inbox_filter *filter,
    int (*each)(void *ctx, const struct postbag_inbox_row *row), void *ctx);

/* ---- Repair ------------------------------------------------------------ */

/**
 * Queue one message in a transaction of its own.  For tools; firmware uses a
 * postbag_writer, where the message shares the transaction of its cause.
 * @param m       copied
 * @param id_out  may be NULL
 * @return as postbag_put and postbag_commit; ESTATE (opened to look only)
 * Blocks: on SQLite, with an fsync.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_put(struct postbag_admin *a,
    const struct postbag_message *m, struct postbag_id *id_out);

/**
 * Send dead messages again: same id, same place in the order of their key,
 * attempts start at 0, due at once.  On disk when it returns.  Messages of
 * the key that left meanwhile are not called back.  One that is held and waits
 * for another try is due at once, too, if it is named by seq or id; it keeps
 * its attempts, and what is suspect is still sent alone.
 * @param dest       NULL: "main"
 * @param seq        0 and id NULL: all that are dead
 * @param id         NULL: by seq
 * @param count_out  may be NULL; how many were requeued
 * @return POSTBAG_OK, ENOTFOUND (no such destination; the row is not there, or
 *         neither dead nor waiting for another try), ESTATE (opened to look
 *         only)
 * Blocks: on SQLite, with an fsync.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_requeue(struct postbag_admin *a,
    const char *dest, int64_t seq, const struct postbag_id *id,
    int64_t *count_out);

/**
 * Give up one message that is held or dead, for good; also a suspect, which may
 * never die where no message of another key is sent.  It counts as dropped,
 * outbox_lost names it with the reason "discarded", and those that wait behind
 * it go on in the order of their key.  On disk when it returns.  What is in
 * flight at this moment may still arrive.
 * @param dest  NULL: "main"
 * @param seq   not looked at if id is given
 * @param id    NULL: by seq
 * @return POSTBAG_OK, ENOTFOUND (no such destination; the row is not held),
 *         EAGAIN (an older message of its lane is not settled yet, or its
 *         relay has not saved that), ESTATE (opened to look only); on an error
 *         nothing happened
 * Blocks: on SQLite, with an fsync.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_discard(struct postbag_admin *a,
    const char *dest, int64_t seq, const struct postbag_id *id);

/* Which commands of the inbox: those for which all that is given holds. */
struct postbag_inbox_choice {
    size_t struct_size;
    int64_t arrival; /* 0: any */
    const void *id;  /* bytes, as text or blob; NULL: any */
    size_t id_len;
    const char *consumer; /* NULL: any */
};

/**
 * Have dead commands handled again: same id, same place in the order of their
 * key, attempts start at 0, due at once.  On disk when it returns; a worker
 * sees it within 5 s.  Commands of the key that were handled meanwhile are not
 * called back, and one that has expired is dead again when its turn comes.  One
 * that waits for another try is due at once, too, if it is
 * named by arrival or id; it keeps its attempts.  Those that were stored
 * without their payload, since it was too large, stay dead.  The version of one
 * that was refused when it came (options version_...) counts as taken, if it is
 * above the last one: those after it are not refused as a gap any more.
 * @param which      NULL: all that are dead
 * @param count_out  may be NULL; how many were requeued
 * @return POSTBAG_OK, EVERSION, ENOTFOUND (named by arrival or id, and it is
 *         not there, is done, waits for nothing or has no payload), ESTATE
 *         (opened to look only)
 * Blocks: on SQLite, with an fsync.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_inbox_requeue(
    struct postbag_admin *a, const struct postbag_inbox_choice *which,
    int64_t *count_out);

/**
 * Give dead commands up for good; one that is due, too, if it is named by
 * arrival or id.  Its payload is deleted and its identity stays, as of a done
 * one, with the error "discarded": what is delivered again is a duplicate.
 * Later ones of its key go on: if it was not taken, since it was refused or
 * waits for a version before it, its version is not missing to those after it.
 * On disk when it returns.  A handler that runs for it is waited for, and then
 * it is done.
 * @param which      NULL: all that are dead
 * @param count_out  may be NULL; how many were discarded
 * @return POSTBAG_OK, EVERSION, ENOTFOUND (named by arrival or id, and it is
 *         not there, or done), ESTATE (opened to look only)
 * Blocks: on SQLite, with an fsync.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_inbox_discard(
    struct postbag_admin *a, const struct postbag_inbox_choice *which,
    int64_t *count_out);

/**
 * Delete what is settled for every destination, also rows that keep_s and
 * keep_rows would still keep.  Some of the newest rows stay: the log's end and
 * its running totals need them.  Held and dead messages are not touched.  The
 * file does not shrink; the space is used again.
 * @param max_rows   0: all
 * @param count_out  may be NULL; rows deleted, also on an error
 * @return POSTBAG_OK, ESTATE (opened to look only); on an error part may have
 *         been deleted
 * Blocks: on SQLite, in transactions of at most 256 rows.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_purge(
    struct postbag_admin *a, int64_t max_rows, int64_t *count_out);

#ifdef __cplusplus
}
#endif
#endif
