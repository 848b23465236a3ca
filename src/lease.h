/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  One relay per destination sends; the others stand by.
 *
 * The owner is named in outbox_dest with a fencing epoch.  Whoever takes over
 * raises the epoch in a FULL commit before it connects; every later
 * transaction of the old owner begins by comparing the epoch and changes
 * nothing.  Deadlines are (boot id, CLOCK_BOOTTIME ms): an owner of an
 * earlier boot cannot be alive, and the wall clock may jump.
 *
 * Who may take over:
 *   at once        its lock files are free (the kernel freed them when the
 *                  owner died); where they cannot be asked: nobody owns it, or
 *                  the owner is of another boot
 *   after a lease  the owner lives but is silent: its deadline has passed AND
 *                  work has waited unmoved for one lease
 * An owner without waiting work writes nothing; with waiting work it renews,
 * but only while somebody stands by.
 */
#ifndef POSTBAG_SRC_LEASE_H
#define POSTBAG_SRC_LEASE_H

#include "db.h"
#include "log.h"
#include "shared.h"

struct lease {
    struct db *db;
    struct shared *shared;
    const struct log *log;
    const char *dest; /* borrowed */
    char *lock_path, *second_path;
    char *standby_path;
    uint8_t owner[16], boot[16];
    uint32_t lease_ms;

    int is_owner;
    int is_inherited; /* the owner before us did not end in order */
    int is_told;      /* that we stand by */
    int64_t epoch;
    int64_t until_ms; /* our deadline */
    int64_t next_us;  /* look again */
    struct postbag_lock *lock, *second, *standby_lock;
    /* standby: since when work waits without the cursor moving */
    int64_t unmoved_since_ms, seen_acked;
    struct stmt look, take, renew, check, free;
};

/* The files one of whose locks the owner of a destination holds; the caller
 * frees it.  NULL: no memory. */
char *postbag__lease_lock_path(
    const char *db_path, const char *dest, int is_second);

POSTBAG_CHECK int postbag__lease_open(struct lease *l, struct db *db,
    struct shared *shared, const struct log *log, const char *dest,
    uint32_t lease_ms);
/* Frees the lock files: a standby takes over at once. */
void postbag__lease_close(struct lease *l);

/* A standby looks whether it may take over; an owner for whom rows wait
 * (has_work) renews.  EFENCED: lost; then the standby's part begins. */
POSTBAG_CHECK int postbag__lease_step(
    struct lease *l, int64_t now_us, int has_work);
int64_t postbag__lease_deadline(const struct lease *l, int has_work);
/* Before sending, should the deadline have passed: OK or EFENCED. */
POSTBAG_CHECK int postbag__lease_verify(struct lease *l, int64_t now_us);
/* Become a standby. */
void postbag__lease_lose(struct lease *l, int64_t now_us);
/* An orderly end.  In a fenced transaction: nobody owns it.  After the commit:
 * a standby takes over at once, or we, when we go on. */
POSTBAG_CHECK int postbag__lease_free(struct lease *l);
void postbag__lease_freed(struct lease *l);

/* A write transaction that is fenced by the epoch and took its turn at the
 * gate: OK, EBUSY (try again), EFENCED, or an error; then nothing is open. */
POSTBAG_CHECK int postbag__lease_begin(struct lease *l, enum db_sync sync);
POSTBAG_CHECK int postbag__lease_commit(struct lease *l);
void postbag__lease_rollback(struct lease *l);

#endif
