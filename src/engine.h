/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  The engine: everything below put together, one step at a time.
 * No thread, clock, randomness or socket of its own.
 *
 *   transport events --> flags, mailbox --+
 *   in-process commits --> wake ----------+--> step: drain, look, lease,
 *   other processes --> watch on -wal ----+    send, save, keep house
 */
#ifndef POSTBAG_SRC_ENGINE_H
#define POSTBAG_SRC_ENGINE_H

#include "alarm.h"
#include "consumers.h"
#include "detach.h"
#include "housekeeper.h"
#include "live.h"
#include "order.h"
#include "receiver.h"
#include "sender.h"
#include "standstill.h"
#include "watch.h"
#include "witness.h"

struct engine {
    const struct postbag_config *config; /* borrowed: postbag.c's copy */
    const struct postbag_port *port;
    struct log log;
    struct shared shared;
    struct db db;
    struct outbox_store outbox;
    struct lost_store lost;
    struct held_store held;
    struct trial_store trials;
    struct coalesce_store coalesce;
    struct ttl_store ttl;
    struct envelope envelope;
    struct lease lease;
    struct sender sender;
    struct detach detach;
    struct housekeeper housekeeper;
    struct live live;
    struct alarm alarm;
    struct watch watch;
    struct file_witness witness;
    struct link outbound, inbound;
    struct mailbox mailbox;
    struct settled letter; /* the one that is being settled ... */
    int has_letter;        /* ... again, once the database is not busy */
    struct postbag_transport_events outbound_events, inbound_events;
    uint32_t max_payload; /* the database's */
    const struct postbag_profile *profile;
    struct receiver *receiver;         /* NULL: no commands */
    struct order_rules order;          /* of consumers without their own */
    const struct consumers *consumers; /* borrowed */
    int is_watching;  /* the port sees writes of other processes */
    int is_draining;  /* postbag_stop: take no new rows */
    uint32_t commits; /* of our connection, as last seen */
    int last_error;   /* told already */
    int64_t told_us;
    int64_t damage_us; /* when damage was met last; 0: never */
    int64_t damage_pause_us;
    int64_t dead_us;    /* do not tell of dead messages before */
    int64_t over_us;    /* nor of those whose ttl_ms was over */
    int64_t refused_us; /* more to tell of commands no handler will see */
    int64_t moved_us;   /* look again whether the file is still there */
    int has_moved;      /* it is not: nothing is sent */
    struct standstill standstill;
};

POSTBAG_CHECK int postbag__engine_open(struct engine *e,
    const struct postbag_config *config, const struct consumers *consumers,
    struct postbag_fault *why);
void postbag__engine_close(struct engine *e);
/* reasons: what ended the last wait; all bits if unknown. */
/* Of engine_tell.c. */
void postbag__engine_tell(struct engine *e, int64_t now_us);
POSTBAG_CHECK int postbag__engine_step(
    struct engine *e, unsigned reasons, int64_t *next_us_out);
/* Nothing is in flight and nothing unsaved. */
int postbag__engine_is_drained(const struct engine *e);
/* Save what can be saved, disconnect, give the lease back. */
void postbag__engine_shut(struct engine *e);

/* Between the engine's own files.  take: what does not fit option profile, or
 * any broker, is refused before the file is touched.  open: store that profile;
 * without the option the destination's holds for us, too. */
POSTBAG_CHECK int postbag__engine_take_profile(struct engine *e);
POSTBAG_CHECK int postbag__engine_open_profile(struct engine *e);
/* Likewise of what may wait: the options before the file is touched; then what
 * they give is stored and told, and the rest stays as the database has it. */
POSTBAG_CHECK int postbag__engine_check_limits(struct engine *e);
POSTBAG_CHECK int postbag__engine_open_limits(struct engine *e);

#endif
