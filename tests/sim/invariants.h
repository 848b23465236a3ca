/* SPDX-License-Identifier: MIT */
/*
 * What must always hold, each rule a function of its name.  Rules of a packet
 * are asked when it is handed over, rules of a row when it is read, all others
 * after each step.
 */
#ifndef POSTBAG_SIM_INVARIANTS_H
#define POSTBAG_SIM_INVARIANTS_H

#include <stdint.h>

struct message;
struct process;
struct wire;
struct world;

/* After each step; the whole file is looked at after each crash and now and
 * then. */
void check_step(struct world *w);
/* A relay hands a message over. */
void check_attempt(
    struct world *w, struct process *p, struct message *m, uint64_t print);
/* postbag_find has told whether this transaction committed. */
void check_found(struct world *w, int txn, int is_stored);
/* At the end, when all has come to rest. */
void check_rest(struct world *w);

/* ---- rules that a reader of rows asks ---- */

void S1_no_row_that_nobody_put(
    struct world *w, int64_t seq, const struct message *m);
/* S1: its rows are there, or none; S2: they stay. */
void S1_S2_transactions(struct world *w);
void S9_attempts_and_delay(struct world *w, const struct message *m,
    int64_t attempts, char state, int due_is_of_boot, int64_t due_ms,
    const char *error);
void S10_dead_for_a_reason(struct world *w, const struct message *m, char state,
    int64_t attempts, const char *error);

/* ---- rules of a packet ---- */

void S5_same_bytes(struct world *w, const struct message *m, uint64_t print);
void S6_repeated_for_a_reason(struct world *w, const struct message *m);
void S7_key_in_order(struct world *w, const struct message *m);
void S8_sent_by_the_owner(
    struct world *w, const struct process *p, const struct message *m);
/* Each attempt waits a random part of a delay that doubles: a dozen that failed
 * in less time than the first delay would be great luck. */
void S9_reconnects_back_off(struct world *w, struct wire *wire);
void S9_not_before_it_is_due(struct world *w, const struct message *m);

/* ---- rules of a step ---- */

void S1_atomicity(struct world *w);
void S3_no_false_mark(struct world *w);
void S4_no_loss(struct world *w);
void S7_first_deliveries_ascend(struct world *w);
void S8_lease(struct world *w);
void S9_released_stays_released(struct world *w);
void S11_one_effect(struct world *w);
/* A handler has this one: no older one of its key waits. */
void S7_command_in_order(struct world *w, int command, int64_t arrival);
void S12_bounds(struct world *w);
void S13_clocks_that_jump(struct world *w);
void S14_sqlite(struct world *w);
void S15_accounting(struct world *w);

#endif
