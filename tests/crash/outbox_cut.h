/* SPDX-License-Identifier: MIT */
/*
 * An application that puts and a relay that sends, on a disk whose power is cut
 * (power_cut.h), and what must hold of what is left:
 *
 *     the database is sound, by SQLite's rules and in a share by our own
 *     what a writer with synchronous=FULL committed is there
 *     what was sent is there, whatever the writer's synchronous
 *     state and message are both there, or neither; only what is settled is
 *     purged; what was told to be dead is dead, what was requeued is not
 *     no message has another id
 *     the next relay (in a share) sends each message that no PUBACK came for,
 *     under the id that it was sent with before, those of a key in order
 */
#ifndef POSTBAG_TESTS_OUTBOX_CUT_H
#define POSTBAG_TESTS_OUTBOX_CUT_H

#include "power_cut.h"
#include "relay.h"

enum { CUT_NUMBERS = 600, CUT_KEYS = 3, CUT_PER_TRANSACTION = 2 };

/* A message is known by its number, which is also its change of the state. */
struct cut_told {
    int is_committed, is_sent, is_acknowledged, is_dead, is_requeued;
    int is_refused; /* it may be dead */
    int is_in_hand; /* an operator's, whose order may be on disk already */
    int key;        /* 0: none */
    int rank;       /* of its first send: the how many-th */
    char id[40];
};

struct outbox_cut {
    struct power_cut *cut;
    struct world before, after;
    struct relay relay;
    struct cut_told told[CUT_NUMBERS];
    int count;
    int ranks;
    int is_promised; /* commits are on disk */
};

/* Tables, a state, an application that is connected, and a relay that is not
 * open yet.  Change its options before outbox_cut_up. */
void outbox_cut_begin(
    struct outbox_cut *b, struct power_cut *c, const char *synchronous);
void outbox_cut_end(struct outbox_cut *b);
/* The relay owns its destination, and is up. */
void outbox_cut_up(struct outbox_cut *b);

/* Its process ends as by SIGKILL, and another one begins. */
void outbox_cut_restart(struct outbox_cut *b);

/* A transaction with n messages of that key, their numbers in order. */
void outbox_cut_put(struct outbox_cut *b, int key, int n);
/* Let some time pass. */
void outbox_cut_run_ms(struct outbox_cut *b, int64_t ms);
/* Answer the i-th send: 0, or the PUBACK's reason. */
void outbox_cut_answer(struct outbox_cut *b, size_t i, int reason);
/* Answer what is in flight with success until all is settled. */
void outbox_cut_settle(struct outbox_cut *b);
/* Requeue all that is dead. */
void outbox_cut_requeue(struct outbox_cut *b);

#endif
