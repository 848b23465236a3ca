/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  Is it a message that makes the broker hang up, or is it the link?
 * Pure: what happened goes in, what follows comes out.
 *
 *   two deaths with rows in flight and no PUBACK --> one row at a time, until
 *   as many rows as were in flight are settled; a row alone at three deaths
 *   --> set aside as suspect; a suspect that, alone, ends a connection that
 *   acknowledged another row --> dead.  Anything else is the link's fault.
 */
#ifndef POSTBAG_SRC_SUSPICION_H
#define POSTBAG_SRC_SUSPICION_H

#include <stdint.h>

enum { SUSPICION_DEATHS = 2, SUSPICION_ALONE = 3 };

enum suspicion_verdict {
    SUSPICION_NONE,      /* nobody is charged */
    SUSPICION_SET_ASIDE, /* the lone row is suspect from now on */
    SUSPICION_AGAIN,     /* the suspect stays one: the link may be to blame */
    SUSPICION_GUILTY     /* the suspect is dead */
};

struct suspicion {
    uint32_t deaths; /* in a row, with rows in flight and no PUBACK */
    uint32_t left;   /* rows still to settle one at a time; 0: no isolation */
    int64_t seq;     /* that was alone in flight at the last deaths ... */
    uint32_t alone;  /* ... so many */
    uint32_t lost;   /* rows in flight that this connection took along ... */
    int64_t last;    /* ... and the last of them */
    int was_acked;   /* this connection brought a PUBACK */
};

/* A new connection. */
void postbag__suspicion_link_up(struct suspicion *s);
/* The broker answered a row: with success, or with a refusal. */
void postbag__suspicion_answered(struct suspicion *s);
/* The connection ended with this row in flight. */
void postbag__suspicion_lost(struct suspicion *s, int64_t seq);
/* All that were lost are told: the other side ended the connection.  They
 * count once: what follows may be an attempt that never comes up.
 * is_blamed: it said that a message was the reason; is_suspect: the lone row
 * was set aside before. */
enum suspicion_verdict postbag__suspicion_death(
    struct suspicion *s, int is_blamed, int is_suspect);
/* One row at a time? */
int postbag__suspicion_isolates(const struct suspicion *s);

#endif
