/* SPDX-License-Identifier: MIT */
/*
 * All that there is in an episode: a clock, a disk, a broker, processes with
 * firmware and relays, the book of what must hold, and what the last look at
 * the database saw.  One thread; time passes only where the episode says.
 */
#ifndef POSTBAG_SIM_WORLD_H
#define POSTBAG_SIM_WORLD_H

#include <stdio.h>

#include "book.h"
#include "broker.h"
#include "look.h"
#include "luck.h"
#include "marks.h"
#include "process.h"

enum { PROCESSES = 3, LOCKS = 16, CONSUMERS = 3 };

/* What an episode draws from its seed. */
struct params {
    unsigned rates[FAULTS];
    unsigned steps;     /* of the chaos */
    unsigned processes; /* 1..3, each with a relay */
    unsigned keys, page_size, sector;
    unsigned max_commands, command_rate; /* percent of steps */
    uint32_t leaps;                      /* one in so many pauses is long */
    int64_t most_messages;
    uint32_t batch; /* messages put at once, at most */
    int has_plain_writers, is_full_writer, has_operator;
    int has_order; /* 0: messages have no keys */
    uint32_t ttl_ms;
    unsigned coalesces, urgent;     /* permille of messages */
    int has_no_relay;               /* before all is healed */
    int disk_lies;                  /* it takes no sync for one */
    void (*spoil)(struct world *w); /* what a control does before the end */
    struct postbag_config config;
};

/* A lock file of the port. */
struct file_lock {
    char path[96];
    struct process *owner; /* NULL: free */
};

struct world {
    uint64_t seed;
    struct luck luck;
    struct params p;

    /* Never goes back; the time since boot is counted from boot_us. */
    int64_t now_us, boot_us;
    int64_t wall_offset_ms; /* wall clock less now */
    uint8_t boot;

    struct memdisk *disk;
    struct file_lock locks[LOCKS];
    struct process processes[PROCESSES];
    unsigned next_number; /* of a process: each life has its own */
    struct process *running;
    int depth;      /* of calls into them */
    int is_cutting; /* the power was cut within one */
    int is_nested;  /* one runs while another one is in the middle */
    int64_t io_heals_us, room_heals_us;
    struct sqlite3 *stranger; /* another program's connection */
    int64_t stranger_until_us;

    struct broker broker;
    struct book book;
    struct look seen, before;
    struct process bystander; /* the port of who only looks */
    struct process *stepped;  /* whose relay the last step was; NULL: none's */
    struct process *owner;    /* of the destination */
    unsigned owner_number;    /* its life then */
    int was_nested;           /* in the last step, */
    struct process *nested_owner; /* and this one took over */
    /* Deaths, takeovers, whatever makes it right to send something again. */
    uint64_t disruptions;
    int is_healed, must_look_at_all;
    uint64_t sent_before_healed, waited_before_healed;

    uint64_t count[MARKS];
    uint64_t steps;
    uint64_t hash; /* of the trace */
    int is_traced;
    char broken[400]; /* the first rule that did not hold, and how; or "" */
};

/* One event of the trace. */
void say(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A rule does not hold. */
void broken(struct world *w, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Is it time for this fault?  Counted only by happened. */
int strikes(struct world *w, enum sim_mark fault);
void happened(struct world *w, enum sim_mark what);

/* ms since boot. */
static inline int64_t boot_ms(const struct world *w)
{
    return (w->now_us - w->boot_us) / 1000;
}

const char *world_db(struct world *w);
/* All processes are gone; begins the next boot. */
void world_cut(struct world *w);
/* Another program reads or writes for a while: stranger.c. */
void stranger_begin(struct world *w, enum sim_mark fault);
void stranger_end(struct world *w);   /* if it is time */
void stranger_leave(struct world *w); /* at once */
/* The wall clock as the processes see it, for the disk. */
int64_t world_wall_ms(void *ctx);

#endif
