/* SPDX-License-Identifier: MIT */
/* See look.h. */
#include "look.h"

#include <sqlite3.h>
#include <string.h>

#include "invariants.h"
#include "memdisk.h"
#include "world.h"

static const char *const sql[LOOK_STATEMENTS] = {
    [LOOK_VERSION] = "PRAGMA data_version",
    [LOOK_CURSORS] =
        "SELECT lane, acked, sent_hi, settled_rows, delivered, dropped, passed,"
        " replayed, held_rows, dead_rows FROM outbox_cursor"
        " WHERE dest = 'main'",
    [LOOK_DEST] = "SELECT epoch, lease_until, owner, boot FROM outbox_dest"
                  " WHERE name = 'main'",
    [LOOK_NEW] = "SELECT seq, id FROM outbox WHERE seq > ?1 ORDER BY seq",
    [LOOK_HELD] =
        "SELECT seq, state, attempts, due_boot, due_ms, error, id, priority"
        " FROM outbox_held WHERE dest = 'main' ORDER BY seq",
    [LOOK_LOST] = "SELECT reason, sum(n) FROM outbox_lost"
                  " WHERE dest = 'main' GROUP BY reason ORDER BY reason",
    [LOOK_INBOX] = "SELECT id, state, arrival, error FROM inbox",
    [LOOK_EFFECTS] = "SELECT command, times FROM effects",
    [LOOK_STORY] = "SELECT txn FROM story ORDER BY txn",
    [LOOK_LOG] = "SELECT seq, id, priority FROM outbox ORDER BY seq",
    [LOOK_INTEGRITY] = "PRAGMA integrity_check",
    [LOOK_HELD_ROW] = "SELECT state, due_boot, due_ms FROM outbox_held"
                      " WHERE dest = 'main' AND seq = ?1",
};

void look_close(struct world *w)
{
    for (int i = 0; i < LOOK_STATEMENTS; i++) {
        (void)sqlite3_finalize(w->seen.statements[i]);
        w->seen.statements[i] = NULL;
    }
    (void)sqlite3_close_v2(w->seen.db);
    w->seen.db = NULL;
    w->seen.version = -1;
}

/* 0: there are no tables yet. */
static int look_open(struct world *w)
{
    struct look *l = &w->seen;
    struct process *before = w->running;
    int rc;

    if (l->db != NULL)
        return 1;
    memdisk_process(w->disk, ++w->next_number);
    rc = sqlite3_open_v2(world_db(w), &l->db, SQLITE_OPEN_READWRITE, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(
            l->db, "PRAGMA wal_autocheckpoint=0", NULL, NULL, NULL);
    for (int i = 0; i < LOOK_STATEMENTS && rc == SQLITE_OK; i++)
        rc = sqlite3_prepare_v2(l->db, sql[i], -1, &l->statements[i], NULL);
    if (before != NULL)
        memdisk_process(w->disk, before->number);
    if (rc != SQLITE_OK)
        look_close(w);
    return rc == SQLITE_OK;
}

/* 1: a row. */
static int next(struct world *w, sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);

    if (rc == SQLITE_ROW)
        return 1;
    if (rc != SQLITE_DONE)
        broken(w, "S14_sqlite", "a bystander cannot read: %s",
            sqlite3_errmsg(w->seen.db));
    (void)sqlite3_reset(s);
    return 0;
}

static int64_t number(sqlite3_stmt *s, int column)
{
    return sqlite3_column_int64(s, column);
}

static const char *text(sqlite3_stmt *s, int column)
{
    const char *t = (const char *)sqlite3_column_text(s, column);

    return t == NULL ? "" : t;
}

static int is_of_boot(const struct world *w, sqlite3_stmt *s, int column)
{
    const uint8_t *boot = sqlite3_column_blob(s, column);

    return boot != NULL && boot[0] == w->boot;
}

/* ---- what changes ---- */

static void read_cursors(struct world *w)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_CURSORS];

    w->seen.cursor_print = 0;
    while (next(w, s)) {
        struct lane_seen *l = &w->seen.lanes[number(s, 0) & 3];

        *l = (struct lane_seen){number(s, 1), number(s, 2), number(s, 3),
            number(s, 4), number(s, 5), number(s, 6), number(s, 7),
            number(s, 8), number(s, 9)};
        w->seen.cursor_print =
            w->seen.cursor_print * 31 + (uint64_t)(l->acked * 7 + l->delivered);
    }
}

static void read_dest(struct world *w)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_DEST];

    while (next(w, s)) {
        w->seen.epoch = number(s, 0);
        w->seen.lease_until = number(s, 1);
        w->seen.has_owner = sqlite3_column_type(s, 2) != SQLITE_NULL;
        w->seen.owner_is_of_boot = is_of_boot(w, s, 3);
    }
}

static void read_new(struct world *w)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_NEW];

    (void)sqlite3_bind_int64(s, 1, w->seen.newest);
    while (next(w, s)) {
        const uint8_t *id = sqlite3_column_blob(s, 1);
        struct message *m = id == NULL ? NULL : book_find(w, id);

        w->seen.newest = number(s, 0);
        S1_no_row_that_nobody_put(w, number(s, 0), m);
        if (m == NULL)
            continue;
        m->seq = number(s, 0);
        if (m->seq <= BOOK_MESSAGES)
            w->book.by_seq[m->seq] = (int32_t)(m - w->book.messages) + 1;
    }
}

static void clear_held(struct world *w)
{
    for (int i = 0; i < w->book.message_count; i++) {
        w->book.messages[i].then = w->book.messages[i].state;
        w->book.messages[i].state = 0;
    }
}

/* A reply that was put more than once is in several rows: the last counts. */
static void read_held_row(struct world *w, sqlite3_stmt *s, struct message *m)
{
    char state = text(s, 1)[0];

    S9_attempts_and_delay(w, m, number(s, 2), state, is_of_boot(w, s, 3),
        number(s, 4), text(s, 5));
    S10_dead_for_a_reason(w, m, state, number(s, 2), text(s, 5));
    w->count[BEHIND] += state == 'b' && m->then != 'b';
    m->state = state;
    m->was_dead |= state == 'd';
    m->attempts = number(s, 2);
    m->is_due_of_boot = is_of_boot(w, s, 3);
    m->due_ms = number(s, 4);
}

static void read_held(struct world *w)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_HELD];

    clear_held(w);
    w->seen.held = w->seen.dead = w->seen.held_settled = 0;
    while (next(w, s)) {
        struct message *m = book_find(w, sqlite3_column_blob(s, 6));
        int is_dead = text(s, 1)[0] == 'd';

        w->seen.held += !is_dead;
        w->seen.dead += is_dead;
        w->seen.held_settled +=
            number(s, 0) <= w->seen.lanes[number(s, 7) & 3].acked;
        if (m != NULL && m->seq == number(s, 0))
            read_held_row(w, s, m);
        else if (m == NULL || !m->is_reply)
            broken(w, "S4_no_loss", "seq %lld is held, and is not ours",
                (long long)number(s, 0));
    }
}

static void read_lost(struct world *w)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_LOST];
    struct look *l = &w->seen;

    l->lost_ttl = l->lost_limit = l->lost_coalesced = l->lost_other = 0;
    while (next(w, s)) {
        switch (text(s, 0)[0]) {
        case 't':
            l->lost_ttl = number(s, 1);
            break;
        case 'l':
            l->lost_limit = number(s, 1);
            break;
        case 'c':
            l->lost_coalesced = number(s, 1);
            break;
        default:
            l->lost_other += number(s, 1);
            break;
        }
    }
    l->lost = l->lost_ttl + l->lost_limit + l->lost_coalesced + l->lost_other;
}

static void read_inbox(struct world *w)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_INBOX];
    struct book *b = &w->book;

    for (int i = 0; i < b->command_count; i++)
        b->commands[i].is_in_inbox = b->commands[i].is_done =
            b->commands[i].is_dead = 0;
    w->seen.inbox_open = w->seen.inbox_done = w->seen.inbox_dead = 0;
    while (next(w, s)) {
        struct command *c = &b->commands[number_of_command(text(s, 0))];

        c->is_in_inbox = 1;
        c->is_done = strcmp(text(s, 1), "done") == 0;
        c->is_dead = strcmp(text(s, 1), "dead") == 0;
        c->arrival = number(s, 2);
        c->is_discarded = c->is_done && text(s, 3)[0] != '\0';
        w->seen.inbox_open += !c->is_done && !c->is_dead;
        w->seen.inbox_done += c->is_done;
        w->seen.inbox_dead += c->is_dead;
    }
    for (int i = 0; i < b->command_count; i++)
        b->commands[i].effects = 0;
    s = w->seen.statements[LOOK_EFFECTS];
    while (next(w, s))
        b->commands[number_of_command(text(s, 0))].effects = number(s, 1);
}

/* ---- the whole ---- */

static void read_story(struct world *w)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_STORY];
    struct book *b = &w->book;

    for (int i = 0; i < b->txn_count; i++)
        b->txns[i].is_told = 0;
    while (next(w, s))
        if (number(s, 0) < b->txn_count)
            b->txns[number(s, 0)].is_told = 1;
}

static void read_log(struct world *w)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_LOG];

    for (int i = 0; i < w->book.message_count; i++)
        w->book.messages[i].is_stored = 0;
    w->seen.oldest = w->seen.waiting = 0;
    while (next(w, s)) {
        struct message *m = book_find(w, sqlite3_column_blob(s, 1));

        if (w->seen.oldest == 0)
            w->seen.oldest = number(s, 0);
        w->seen.waiting += number(s, 0) > w->seen.lanes[number(s, 2) & 3].acked;
        if (m != NULL)
            m->is_stored = 1;
        if (m != NULL && m->seq != number(s, 0) && !m->is_reply)
            broken(w, "S4_no_loss", "a row has changed its seq %lld",
                (long long)number(s, 0));
    }
}

/* What a power cut took back has no seq. */
static void forget_the_undone(struct world *w)
{
    struct book *b = &w->book;

    for (int i = 0; i < b->message_count; i++) {
        if (b->txns[b->messages[i].txn].outcome != GONE ||
            b->messages[i].seq == 0)
            continue;
        b->by_seq[b->messages[i].seq] = 0;
        b->messages[i].seq = 0;
    }
    w->seen.newest = 0;
    for (int i = 0; i < b->message_count; i++)
        if (b->messages[i].seq > w->seen.newest)
            w->seen.newest = b->messages[i].seq;
}

void look_again(struct world *w, int is_full)
{
    struct look *l = &w->seen;
    int64_t version = 0;

    l->is_fresh = 0;
    if (!look_open(w))
        return;
    while (next(w, l->statements[LOOK_VERSION]))
        version = number(l->statements[LOOK_VERSION], 0);
    l->has_moved = version != l->version && l->version >= 0;
    if (version == l->version && !is_full)
        return;
    l->is_fresh = 1;
    l->version = version;
    (void)sqlite3_exec(l->db, "BEGIN", NULL, NULL, NULL);
    read_story(w);
    S1_S2_transactions(w);
    if (is_full)
        forget_the_undone(w);
    read_cursors(w);
    read_dest(w);
    read_new(w);
    read_held(w);
    read_lost(w);
    read_inbox(w);
    read_log(w);
    (void)sqlite3_exec(l->db, "COMMIT", NULL, NULL, NULL);
    l->boot = w->boot;
}

char look_state(
    struct world *w, int64_t seq, int64_t *due_ms, int *due_is_of_boot)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_HELD_ROW];
    char state = 0;

    *due_ms = 0;
    *due_is_of_boot = 0;
    if (w->seen.db == NULL)
        return 0;
    (void)sqlite3_bind_int64(s, 1, seq);
    while (next(w, s)) {
        state = text(s, 0)[0];
        *due_is_of_boot = is_of_boot(w, s, 1);
        *due_ms = number(s, 2);
    }
    return state;
}

int64_t look_epoch(struct world *w)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_DEST];
    int64_t epoch = w->seen.epoch;

    if (w->seen.db == NULL || sqlite3_step(s) != SQLITE_ROW)
        return epoch; /* nobody can read now, nor take over */
    epoch = number(s, 0);
    (void)sqlite3_reset(s);
    return epoch;
}

int look_integrity(struct world *w, char *out, size_t size)
{
    sqlite3_stmt *s = w->seen.statements[LOOK_INTEGRITY];
    int rows = 0;

    out[0] = '\0';
    if (w->seen.db == NULL)
        return 0;
    while (next(w, s))
        if (rows++ == 0)
            (void)snprintf(out, size, "%s", text(s, 0));
    return strcmp(out, "ok") != 0;
}
