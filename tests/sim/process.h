/* SPDX-License-Identifier: MIT */
/*
 * A process of the device: a relay, and firmware that writes beside it.  It
 * starts, is stepped, is stopped like SIGSTOP (just not stepped), ends in order
 * or is killed anywhere.  Its port is all that it sees of the world.
 */
#ifndef POSTBAG_SIM_PROCESS_H
#define POSTBAG_SIM_PROCESS_H

#include <stdint.h>

#include "postbag/port.h"

struct world;
struct postbag;
struct postbag_writer;
struct sqlite3;

/* Where the firmware stands in its transaction. */
struct firmware {
    int txn; /* -1: none is open */
    int is_plain;
    int savepoint; /* messages before it; -1: none */
    int retry;     /* the txn whose COMMIT had no answer; -1: none */
    int pulled;    /* the command whose effect this is; -1: none */
    int64_t arrival;
};

struct process {
    struct world *world;
    int index;
    unsigned number; /* for the disk; each life has another */
    int is_alive;
    int is_dying;      /* killed within a call that has not returned yet */
    int64_t thaws_us;  /* stopped until then; 0: it runs */
    int64_t starts_us; /* when it is started again */
    int64_t next_us;   /* its relay wants to be stepped */
    int64_t work_us;   /* its handlers */
    unsigned spins;
    int depth; /* of calls into it that have not returned */

    struct postbag_port port;
    struct postbag *bag;
    struct postbag_wake *wake;
    struct sqlite3 *db;
    struct postbag_writer *writer;
    struct firmware firmware;
};

/* Fills p->port; see port.c. */
void port_init(struct process *p);
void port_changed(struct world *w, struct process *by);
void port_forget(struct process *p);
/* A lock file whose path ends so. */
int port_has_lock(const struct process *p, const char *end);

/* May fail, as the disk may: it is tried again later. */
void process_start(struct process *p);
void process_step(struct process *p);
void process_work(struct process *p);
/* All of them; ends with the call that runs, if one does. */
void process_cut_power(struct world *w);
/* In order. */
void process_stop(struct process *p);
/* SIGKILL; within a call of it or not. */
void process_kill(struct process *p, const char *where);
/* After each call into it: if it was killed in it, bury it.  1: so it was. */
int process_bury(struct process *p);
/* From now on calls are this process's; returns the one before. */
struct process *process_enter(struct process *p);
void process_leave(struct world *w, struct process *before);

/* Here the process that runs loses the processor: another one has it. */
void process_nest(struct world *w);

/* One thing that the firmware does next. */
void firmware_step(struct process *p);
/* What a handler of a consumer is. */
struct postbag_command;
int firmware_handles(struct process *p, const struct postbag_command *cmd,
    struct postbag_writer *w);
void firmware_forget(struct process *p);
/* An operator with the command. */
void operator_step(struct world *w);
void operator_requeue_all(struct world *w);

#endif
