/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  From the log to the transport and back to the cursor.
 *
 *   scan --> lane ring --> fetch, envelope, send --> window --> settled
 *                 |                                                |
 *            saved lazily <-- acked <------------------------------+
 *
 * Rules: nothing above sent_hi is handed to the transport; no transaction is
 * open while the transport is called; the cursor is the settled prefix; a
 * key has one message in flight, and none while an older one of it is held;
 * what is held is bounded, by leaving in the log what would come on top.
 * Engine thread only.
 */
#ifndef POSTBAG_SRC_SENDER_H
#define POSTBAG_SRC_SENDER_H

#include "bound.h"
#include "bucket.h"
#include "chooser.h"
#include "coalesce_store.h"
#include "envelope.h"
#include "held_store.h"
#include "lease.h"
#include "link.h"
#include "mailbox.h"
#include "outbox_store.h"
#include "patience.h"
#include "profile.h"
#include "suspicion.h"
#include "trial_store.h"
#include "ttl_store.h"
#include "window.h"

struct sender_options {
    uint32_t window, window_bytes, ack_batch, ack_delay_ms, ack_timeout_ms;
    uint32_t retry_base_ms, retry_cap_ms, max_attempts;
    uint32_t held_max_rows, held_max_bytes, held_max_per_key;
    uint32_t dead_max_rows, dead_max_bytes, dead_requeue_s;
    uint32_t skip_sync_before_send, stable_ms;
    uint32_t lane_share, bulk_rate, bulk_bytes_rate, pace_all;
    int notes_times; /* delivered rows are kept: say since when */
    const struct postbag_profile *profile;
};

struct sender {
    struct db *db;
    struct shared *shared;
    const struct log *log;
    struct lease *lease;
    struct link *link;
    struct outbox_store *outbox;
    struct lost_store *lost;
    struct held_store *held;
    struct trial_store *trials;
    struct coalesce_store *coalesce;
    struct ttl_store *ttl;
    struct envelope *envelope;
    struct sender_options options;
    uint8_t boot[16];

    struct lane lanes[POSTBAG__LANES];
    struct window window;
    struct arena row_arena;
    struct held_stats held_stats;
    struct bound bound;           /* of what is held */
    int64_t newest;               /* seq, as last read */
    uint32_t allowed;             /* window now: Receive Maximum, throttling */
    int64_t pause_us;             /* throttled: send nothing before */
    int64_t unsaved_us;           /* when the first unsaved ack came; 0: none */
    struct patience patience;     /* with the broker's PUBACKs */
    struct overtaking overtaking; /* of the oldest in flight */
    int64_t held_due_ms;          /* next held row; INT64_MAX: none */
    int64_t revive_ms;            /* next dead row that comes back; likewise */
    int64_t retry_us;       /* the database was busy or failed: not before */
    int64_t turned_down_us; /* by the transport, with nothing in flight, again
                               and again since then; 0: it takes sends */
    int again;              /* a pass ended early: there is more to do now */
    struct suspicion suspicion;
    struct trial trial;
    /* a held row that was turned down without a verdict; seq 0: none */
    struct entry watched;
    int is_trying;       /* one row at a time since the start: told */
    int is_idle;         /* nothing is in flight, and was, or may have been */
    int is_alone;        /* a suspect flies or waits: nothing beside it */
    int is_in_the_way;   /* another found no room beside what is in flight */
    int is_confused;     /* a PUBACK said that our packet id is in use */
    int yields;          /* who was turned down lets others go first ... */
    int has_yielded;     /* ... and did */
    uint32_t newly_dead; /* not told yet */
    char last_dead[160]; /* why the last of them is */
    uint32_t overflowed; /* dead ones dropped for room, not told yet */
    int may_trim; /* since they were trimmed the cursor passed dead ones */
    uint32_t newly_over;    /* dropped, their ttl_ms being over; not told yet */
    uint32_t newly_damaged; /* dropped, being damaged; not told yet */
    uint32_t delivered;     /* since start, for the live state */
    int64_t last_puback_ms; /* wall */

    struct chooser chooser;              /* whose turn it is */
    struct bucket pace_rows, pace_bytes; /* of bulk, or of all */
    int64_t sweep_us; /* something may be too old then; INT64_MAX: nothing */
    struct sightings seen;
    int is_seen_unsaved;
    int64_t see_us;     /* the next mark not before */
    int64_t swept;      /* held rows up to here were looked at, 0: all were */
    int64_t paced_us;   /* a row waits for them until then; INT64_MAX: none */
    int is_held_back;   /* a held row that is due found no room */
    unsigned held_last; /* bit i: what lane i sent last was a held row */
    int must_look;      /* the last look failed */
};

POSTBAG_CHECK int postbag__sender_init(struct sender *s);
void postbag__sender_free(struct sender *s);

/* The lease is ours: start behind the saved cursors. */
POSTBAG_CHECK int postbag__sender_load(struct sender *s);
/* Now, as deadlines of held rows are read. */
struct due postbag__sender_due_now(const struct sender *s, int64_t now_us);
/* The database changed: look at the newest seq and at what is held. */
POSTBAG_CHECK int postbag__sender_look(struct sender *s);
/* After a commit, which stands whatever comes of this: if it fails the next
 * step looks. */
void postbag__sender_look_after(struct sender *s);
/* The lease is lost: what is known of the log is stale. */
void postbag__sender_abandon(struct sender *s);
/* An orderly end, nothing is in flight: save what is not saved, forget what
 * only matters after a crash, and give the lease back. */
POSTBAG_CHECK int postbag__sender_release(struct sender *s);
/* A new connection; or the old one is gone (every send has settled). */
void postbag__sender_link_up(struct sender *s, int64_t now_us);
void postbag__sender_link_down(struct sender *s);
/* The connection ended so, and every send has settled: what that says of a row
 * that was in flight.  Before postbag__sender_link_down. */
POSTBAG_CHECK int postbag__sender_judge(
    struct sender *s, enum suspicion_end end);
/* One settled send.  EBUSY: it is still in flight; call again with the same
 * letter.  Other errors of the database leave the row as it was. */
POSTBAG_CHECK int postbag__sender_settle(
    struct sender *s, const struct settled *letter, int64_t now_us);
/* Send what the window allows. */
POSTBAG_CHECK int postbag__sender_fill(struct sender *s, int64_t now_us);
/* Drop what became too old, whether the link is up or not: at the head of each
 * lane, and what is held. */
POSTBAG_CHECK int postbag__sender_sweep(struct sender *s, int64_t now_us);
/* Rows came, or left: sweep soon. */
void postbag__sender_plan_sweep(struct sender *s);
/* Save the cursors if they are due, or at once if force. */
POSTBAG_CHECK int postbag__sender_save(
    struct sender *s, int64_t now_us, int force);

/* A lane's turn to send. */
struct turn {
    int lane;
    int is_owed; /* it goes before higher lanes that wait */
    int64_t now_us;
};
/* What came of trying a row; or an error. */
enum fate {
    FATE_OVER = 1, /* nothing more leaves in this step */
    FATE_ENDED,    /* nothing more of this lane */
    FATE_GO_ON,    /* the next row may be tried */
    FATE_GONE,     /* the same, also of its key: this one is settled */
    FATE_SENT
};
/* Between the sender's own files: hand over a row of the log, or a held one. */
POSTBAG_CHECK int postbag__sender_send(
    struct sender *s, const struct turn *t, struct entry *e);
POSTBAG_CHECK int postbag__sender_send_held(
    struct sender *s, const struct turn *t, const struct row *row);
/* The link is down: give back what was reserved and not sent. */
POSTBAG_CHECK int postbag__sender_take_back(struct sender *s);
/* Between the sender's own files: allow sending up to seq (one write if the
 * reservation is used up); start the clock of the lazy save. */
POSTBAG_CHECK int postbag__sender_reserve(
    struct sender *s, int lane, int64_t seq);
void postbag__sender_note_gain(struct sender *s);
/* After the cursors were loaded: may the last owner have died of a message?
 * Look whether the trial that began then is over. */
POSTBAG_CHECK int postbag__sender_begin_trial(struct sender *s);
void postbag__sender_end_trial(struct sender *s);
/* This row of a lane, or held one, is sent next: write its mark, if it must
 * have one. */
POSTBAG_CHECK int postbag__sender_mark(
    struct sender *s, int which, int64_t seq, int deaths);
/* A row of the log: OK, or FATE_ENDED: it ended the process too often, and is
 * set aside. */
POSTBAG_CHECK int postbag__sender_weigh(
    struct sender *s, int lane, struct entry *e);
/* A held row: OK, or FATE_GONE: it is dead now.  deaths_out: of the process,
 * with it in flight. */
POSTBAG_CHECK int postbag__sender_weigh_held(
    struct sender *s, const struct row *row, int *deaths_out);
/* May one that is suspect of it go now, if alone? */
int postbag__sender_may_try_killer(const struct sender *s, int64_t now_us);
/* The marks' part of a save, in its transaction. */
POSTBAG_CHECK int postbag__sender_save_marks(struct sender *s);
/* The window is meant to be: Receive Maximum, isolation. */
uint32_t postbag__sender_full_window(const struct sender *s);
/* Is there room for one more row of this lane, should it have to be held? */
int postbag__sender_may_hold(struct sender *s, int lane);
/* May a suspect row go now, if alone? */
int postbag__sender_may_try_suspect(const struct sender *s, int64_t at_us);
/* Settle a row of the log by copying it to outbox_held. */
POSTBAG_CHECK int postbag__sender_hold(struct sender *s, int lane,
    struct entry *e, const char *state, const char *error);
/* Drop what is dead beyond its bound, a piece of it, if some may go by now:
 * what the saved cursor has not passed stays until then.
 * must_trim: there is more. */
POSTBAG_CHECK int postbag__sender_trim_dead(struct sender *s);
int postbag__sender_must_trim(const struct sender *s);
/* At an orderly end: hold what acknowledged rows have overtaken, as far as
 * there is room, so that the cursor passes those. */
POSTBAG_CHECK int postbag__sender_keep_acks(struct sender *s);
/* A held row is given up; is_mendable: the broker may take it another day. */
POSTBAG_CHECK int postbag__sender_bury(struct sender *s, const struct row *row,
    const char *error, int is_mendable);
/* Dead rows that come back by themselves: plan those of another boot; when one
 * that dies now does (NULL: never); those whose time has come. */
POSTBAG_CHECK int postbag__sender_plan_revivals(struct sender *s);
const struct due *postbag__sender_comes_back(
    const struct sender *s, int is_mendable, struct due *out);
POSTBAG_CHECK int postbag__sender_revive(struct sender *s, int64_t now_us);

/* In how many ms a row's ttl_ms is over; 0: it is. */
int64_t postbag__sender_over_in_ms(
    const struct sender *s, const struct row *row, int64_t now_us);
/* A row of the log whose time is over: settle it, unless older ones are not
 * yet settled; then it waits for them, unsent. */
POSTBAG_CHECK int postbag__sender_expire(
    struct sender *s, int lane, struct entry *e);
/* The same of one that was read and is damaged: no table would take it. */
POSTBAG_CHECK int postbag__sender_drop_damaged(
    struct sender *s, int lane, struct entry *e);
/* Look ahead in a lane as far as its ring has room. */
POSTBAG_CHECK int postbag__sender_scan(struct sender *s, int lane);
/* A held row is tried again after retry_cap_ms: once others had a turn. */
POSTBAG_CHECK int postbag__sender_put_off(struct sender *s, int64_t seq,
    enum db_sync sync, const char *error, held_planner *plan);
/* Drop a held row that is not in flight; reason as in outbox_lost. */
POSTBAG_CHECK int postbag__sender_drop_held(
    struct sender *s, const struct row *row, const char *reason);

/* May this row of the log go now?  Of its coalesce only the newest does, and
 * drops older ones that are held.  OK, or FATE_GONE, FATE_GO_ON. */
POSTBAG_CHECK int postbag__sender_coalesce(
    struct sender *s, int lane, struct entry *e);
/* A held row that is due: OK, or FATE_GONE: dropped for a newer one. */
POSTBAG_CHECK int postbag__sender_replace_held(
    struct sender *s, const struct row *row);

/* How long a PUBACK may take, from the last progress on. */
int64_t postbag__sender_ack_timeout_us(const struct sender *s);
/* Why the connection must end: no PUBACK for too long, ...  NULL: it must not.
 */
const char *postbag__sender_gives_up(struct sender *s, int64_t now_us);
/* Rows wait to be sent or settled, or what was settled to be saved. */
int postbag__sender_has_work(const struct sender *s);
int64_t postbag__sender_deadline(const struct sender *s, int64_t now_us);

#endif
