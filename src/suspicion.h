/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  Is it a message that ends the connection, or is it the link?
 * Pure: what happened goes in, what follows comes out.
 *
 *   two deaths with rows in flight and no success, or three with the same row
 *   the oldest of several --> one row at a time, until as many rows as were in
 *   flight are settled; a row alone at three deaths, or three times the one
 *   without a PUBACK while the broker answered others, or while others waited
 *   for room beside it or for its key --> set aside as suspect; a suspect that,
 *   alone, ends a connection that acknowledged another row --> dead.  Anything
 *   else is the link's fault.
 */
#ifndef POSTBAG_SRC_SUSPICION_H
#define POSTBAG_SRC_SUSPICION_H

#include <stdint.h>

enum { SUSPICION_DEATHS = 2, SUSPICION_ENDS = 3 };
/* Of so many rows is known what they did.  More do not take turns at ending
 * connections: of each of four lanes the first of the log, and the first of
 * what is held. */
enum { SUSPICION_ROWS = 8 };

/* How a connection ended. */
enum suspicion_end {
    SUSPICION_HANG_UP, /* theirs, without a word of the messages */
    SUSPICION_BLAME,   /* theirs: a message was the reason */
    SUSPICION_QUOTA,   /* theirs: it was too much */
    SUSPICION_SILENCE, /* ours: no PUBACK in time */
    SUSPICION_NO_ROWS  /* anything else: it has to do with the link alone */
};

enum suspicion_verdict {
    SUSPICION_NONE,      /* nobody is charged */
    SUSPICION_SET_ASIDE, /* the oldest row is suspect from now on */
    SUSPICION_AGAIN,     /* the suspect stays one: the link may be to blame */
    SUSPICION_CHARGE,    /* the same, but after a few times it is dead */
    SUSPICION_GUILTY     /* the suspect is dead */
};

struct suspicion_record {
    int64_t seq;     /* 0: none */
    uint32_t ends;   /* that speak against it */
    uint32_t firsts; /* ends at which it was the oldest of several */
    int is_passed;   /* the broker passed it over, some time */
};

struct suspicion {
    uint32_t deaths; /* in a row, with rows in flight and no PUBACK */
    uint32_t left;   /* rows still to settle one at a time; 0: no isolation */
    struct suspicion_record records[SUSPICION_ROWS]; /* the latest first */
    uint32_t aside;  /* rows set aside since the last PUBACK */
    uint32_t denied; /* connections since a suspect was tried, if one waited */
    /* of this connection */
    uint64_t answered; /* the last send that the broker answered; 0: none */
    int was_acked;     /* one of them with success */
    int has_denied;    /* a suspect waits, and may not be tried */
    uint32_t lost;     /* rows in flight that it took along ... */
    int64_t oldest;    /* ... the one of them that was sent first ... */
    uint64_t nth;      /* ... and which send that was, from 1 */
};

/* A new connection. */
void postbag__suspicion_link_up(struct suspicion *s);
/* The broker answered the nth send (from 1): with success, or a refusal.  A
 * refusal clears nobody: there are brokers that hang up after it. */
void postbag__suspicion_answered(
    struct suspicion *s, uint64_t nth, int is_success);
/* It answered this row, with success or a refusal: the row ends nothing. */
void postbag__suspicion_forget(struct suspicion *s, int64_t seq);
/* The connection ended with this row in flight, its nth send. */
void postbag__suspicion_lost(struct suspicion *s, int64_t seq, uint64_t nth);
/* What is known besides of a lone row, or the oldest. */
struct suspicion_row {
    int is_suspect;    /* it was set aside before */
    int is_in_the_way; /* others waited: for room beside it, or for its key */
};
/* All that were lost are told.  They count once: what follows may be an
 * attempt that never comes up. */
enum suspicion_verdict postbag__suspicion_death(struct suspicion *s,
    enum suspicion_end end, const struct suspicion_row *lone);
/* One row at a time? */
int postbag__suspicion_isolates(const struct suspicion *s);
/* This connection brought a PUBACK that was no refusal. */
int postbag__suspicion_was_acked(const struct suspicion *s);

/* A suspect that is due may not be tried yet. */
void postbag__suspicion_deny(struct suspicion *s);
/* One was sent. */
void postbag__suspicion_tried(struct suspicion *s);
/* Three connections ended while one waited. */
int postbag__suspicion_owes(const struct suspicion *s);

#endif
