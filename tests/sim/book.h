/* SPDX-License-Identifier: MIT */
/*
 * The book of an episode: plain arrays of what the firmware did, and what it
 * was told of it; of what the broker got and answered; of the commands and
 * their effects.  From it the invariants know what must be in the database.
 */
#ifndef POSTBAG_SIM_BOOK_H
#define POSTBAG_SIM_BOOK_H

#include <stdint.h>

struct world;

enum { BOOK_TXNS = 2048, BOOK_MESSAGES = 2048, BOOK_COMMANDS = 128 };
enum { LANES = 4 };

enum outcome {
    OPEN,    /* not ended */
    UNKNOWN, /* nobody knows: the COMMIT's answer was lost, or bad */
    COMMITTED,
    GONE /* rolled back, or taken back by a power cut */
};

struct txn {
    enum outcome outcome;
    int is_durable;   /* FULL: no power cut may take it back */
    int is_told;      /* its row of "story" is there */
    uint8_t boot;     /* in which it ended */
    uint64_t ended;   /* at this step */
    int first, count; /* its messages: the savepoint's are there, too */
    int command;      /* whose effect it is; -1: none */
};

struct message {
    uint8_t id[16];
    int txn;
    int is_back;             /* with a savepoint */
    int is_reply;            /* is put once more when its command comes again */
    int64_t seq;             /* 0: not seen in the log yet */
    int lane, key, coalesce; /* key, coalesce: 0 is none */
    int64_t ttl_ms, put_us;
    uint8_t boot;
    int is_stamped; /* knows its time since boot */

    /* the broker */
    unsigned published, acked, refused;
    int is_hopeless; /* refused for good */
    int is_poison;
    uint64_t print;         /* of the first packet */
    uint64_t first_place;   /* among all first deliveries; 0: none */
    unsigned refusals_left; /* how often the broker will refuse it */
    int last_process;
    uint64_t last_disruption;
    int may_repeat; /* the last attempt ended without a PUBACK of success */
    unsigned ends, deaths; /* of connections, of processes, with it in flight */

    /* operators */
    int is_discarded, was_released, was_dead;
    unsigned attempts_base; /* refusals before it was requeued */

    /* the last look */
    char state; /* 'r'etry, 'b'ehind, 'd'ead, 's'uspect; 0: not held */
    char then;  /* the same, at the look before */
    int64_t attempts, due_ms;
    int is_due_of_boot;
    int is_stored; /* in the log, at the last full look */
};

struct command {
    int is_sent, is_acked; /* by the device, as the broker knows */
    unsigned deliveries;
    int key, consumer;
    int is_in_inbox, is_done, is_dead, was_dead;
    int64_t effects, arrival;
    int is_rejected; /* a handler said so */
    int is_discarded;
};

struct book {
    struct txn txns[BOOK_TXNS];
    int txn_count;
    struct message messages[BOOK_MESSAGES];
    int message_count;
    int32_t by_id[4 * BOOK_MESSAGES];
    int32_t by_seq[BOOK_MESSAGES + 1];
    struct command commands[BOOK_COMMANDS];
    int command_count;
    uint64_t first_deliveries;
    int settled; /* transactions below this one have ended */
};

/* "c7" is 7. */
int number_of_command(const char *id);
int book_begin(struct world *w, int command);
/* -1: the book is full. */
struct message *book_put(struct world *w, int txn, const uint8_t id[16]);
/* A put that failed. */
void book_take_back(struct world *w, struct message *m);
void book_end(struct world *w, int txn, enum outcome outcome, int is_durable);
struct message *book_find(struct world *w, const uint8_t id[16]);
struct message *book_at(struct world *w, int64_t seq);
/* Does it count: committed, and not taken back with a savepoint? */
int book_stands(const struct world *w, const struct message *m);
/* Might a rule or an operator have dropped it by now? */
int book_may_drop(const struct world *w, const struct message *m);
int book_may_expire(const struct world *w, const struct message *m);
int book_may_be_replaced(const struct world *w, const struct message *m);

#endif
