/* SPDX-License-Identifier: MIT */
/* See outbox_look.h. */
#include "outbox_look.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "outbox_cut.h"

/* What there is of each number. */
struct left {
    unsigned char has_state, has_row, is_held, is_dead;
    char id[40];
    int rank; /* of the first send by the next relay; 0: none */
    char again[40];
};

struct looked {
    const struct outbox_cut *b;
    struct left left[CUT_NUMBERS];
    int states, newest;
    int is_bad;
    int ranks;
};

/* ---- reading ----------------------------------------------------------- */

static void read_rows(struct sqlite3 *db, struct looked *l, const char *sql,
    void (*row)(struct looked *l, struct left *of, sqlite3_stmt *s))
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    int number;

    while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        number = sqlite3_column_int(s, 0);
        if (number < 1 || number >= CUT_NUMBERS) {
            l->is_bad = 1;
            break;
        }
        row(l, &l->left[number], s);
        rc = SQLITE_OK;
    }
    if (rc != SQLITE_DONE)
        l->is_bad = 1;
    (void)sqlite3_finalize(s);
}

static void take_state(struct looked *l, struct left *of, sqlite3_stmt *s)
{
    (void)s;
    of->has_state = 1;
    l->states++;
}

/* As it is sent: with dashes. */
static void take_row(struct looked *l, struct left *of, sqlite3_stmt *s)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *id = sqlite3_column_blob(s, 2);
    char *out = of->id;

    of->has_row = 1;
    if (sqlite3_column_int(s, 1) != sqlite3_column_int(s, 0) ||
        sqlite3_column_bytes(s, 2) != 16) {
        l->is_bad = 1;
        return;
    }
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[id[i] / 16];
        *out++ = digits[id[i] % 16];
    }
    *out = '\0';
}

static void take_held(struct looked *l, struct left *of, sqlite3_stmt *s)
{
    (void)l;
    of->is_held = 1;
    of->is_dead = sqlite3_column_int(s, 1) == 1;
}

static void read_all(struct sqlite3 *db, struct looked *l)
{
    read_rows(db, l, "SELECT n FROM state", take_state);
    read_rows(db, l, "SELECT CAST(payload AS INTEGER), seq, id FROM outbox",
        take_row);
    read_rows(db, l, "SELECT seq, state = 'dead' FROM outbox_held", take_held);
    l->newest = (int)power_cut_get(
        db, &l->is_bad, "SELECT ifnull(max(seq), 0) FROM outbox");
}

/* ---- judging ----------------------------------------------------------- */

/* seq counts the messages ever put, and the numbers do, too. */
static enum finding judge_one(const struct looked *l,
    const struct cut_told *told, const struct left *left)
{
    int is_passed = told->is_acknowledged || told->is_dead || left->is_held;

    if (told->is_sent && !left->has_state)
        return PHANTOM;
    if (l->b->is_promised && told->is_committed && !left->has_state)
        return LOST;
    if (left->has_row && !left->has_state)
        return APART;
    if (left->has_state && !left->has_row && !is_passed)
        return told->is_sent || told->is_committed ? LOST : APART;
    if (left->has_row && told->id[0] != '\0' && strcmp(left->id, told->id) != 0)
        return RENAMED;
    if (told->is_dead && !left->is_dead && !told->is_in_hand)
        return LOST;
    if (told->is_requeued && left->is_dead)
        return LOST;
    return SOUND;
}

static enum finding judge(const struct looked *l)
{
    enum finding found = l->states == l->newest ? SOUND : APART;

    for (int n = 1; n <= l->b->count; n++) {
        enum finding one = judge_one(l, &l->b->told[n], &l->left[n]);

        if (one != SOUND && (found == SOUND || one < found))
            found = one;
    }
    return found;
}

/* ---- the next relay ---------------------------------------------------- */

static void note_again(void *ctx, const struct fake_sent *s)
{
    struct looked *l = ctx;
    long number = strtol(s->payload, NULL, 10);
    struct left *left =
        &l->left[number > 0 && number < CUT_NUMBERS ? number : 0];

    if (left->rank == 0)
        left->rank = ++l->ranks;
    (void)snprintf(left->again, sizeof(left->again), "%s", s->id);
}

/* The next boot's relay sends all that it has, and gets its PUBACKs. */
static void send_rest(struct world *w, struct looked *l)
{
    struct relay r;

    relay_init(&r, w);
    r.out->on_send = note_again;
    r.out->on_send_ctx = l;
    r.out->auto_settle = 1;
    relay_open(&r);
    relay_run_ms(&r, 15000);
    relay_kill(&r);
}

static enum finding judge_again(
    const struct cut_told *told, const struct left *left)
{
    if (!left->has_state)
        return SOUND;
    if (left->rank == 0)
        return told->is_acknowledged || left->is_dead ? SOUND : FORGOTTEN;
    if (told->is_sent && strcmp(told->id, left->again) != 0)
        return RENAMED;
    return left->id[0] == '\0' || strcmp(left->id, left->again) == 0 ? SOUND
                                                                     : RENAMED;
}

/* When it was first delivered: before the cut, or by the next relay. */
static int rank_of(const struct looked *l, int number)
{
    const struct cut_told *told = &l->b->told[number];

    if (told->is_sent)
        return told->rank;
    return l->left[number].rank > 0 ? l->b->ranks + l->left[number].rank : 0;
}

/* A dead one, also of old, may have let others pass. */
static int is_in_order(const struct looked *l)
{
    int last[CUT_KEYS + 1] = {0};

    for (int n = 1; n <= l->b->count; n++) {
        int rank = rank_of(l, n);
        int *before = &last[l->b->told[n].key];

        if (l->b->told[n].key == 0 || rank == 0 || l->b->told[n].is_refused)
            continue;
        if (rank < *before)
            return 0;
        *before = rank;
    }
    return 1;
}

static enum finding judge_next_relay(struct outbox_cut *b, struct looked *l)
{
    enum finding found = SOUND;

    power_cut_port(&b->after.sim, 2);
    send_rest(&b->after, l);
    for (int n = 1; n <= b->count && found == SOUND; n++)
        found = judge_again(&b->told[n], &l->left[n]);
    if (found == SOUND && !is_in_order(l))
        found = DISORDER;
    return found;
}

/* ---- all of it --------------------------------------------------------- */

enum finding outbox_look(void *ctx, unsigned depth)
{
    struct outbox_cut *b = ctx;
    struct looked l = {.b = b};
    enum finding found;
    sqlite3 *db;

    if (sqlite3_open(b->after.t.path, &db) != SQLITE_OK ||
        !power_cut_is_sound(db))
        l.is_bad = 1;
    else
        read_all(db, &l);
    found = l.is_bad ? DAMAGED : judge(&l);
    if (found == SOUND && (depth & CUT_VERIFY) != 0 &&
        !power_cut_is_verified(b->after.t.path))
        found = DAMAGED;
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    if (found == SOUND && (depth & CUT_GO_ON) != 0)
        found = judge_next_relay(b, &l);
    if (found == SOUND && (depth & CUT_VERIFY_AFTER) != 0 &&
        !power_cut_is_verified(b->after.t.path))
        found = DAMAGED;
    return found;
}
