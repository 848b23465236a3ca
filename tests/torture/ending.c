/* SPDX-License-Identifier: MIT */
/* See ending.h. */
#include "ending.h"

#include <string.h>

#include "postbag/care.h"
#include "scene.h"

enum { LONG_ENOUGH_MS = 60000 };

static void relay_all(struct torture *t)
{
    int err;

    scene_transports(t, 0);
    scene_engine(t);
    err = scene_run_ms(t, LONG_ENOUGH_MS);
    EXPECT(t, err == POSTBAG_OK, "at the end, a step: %s (%s)",
        postbag_error_name(err), t->log);
    err = CALL(t, postbag_stop, t->p, 1000);
    EXPECT(
        t, err == POSTBAG_OK, "at the end, stop: %s", postbag_error_name(err));
    postbag_close(t->p);
    t->p = NULL;
}

static int note(
    void *ctx, const char *check, const char *dest, const char *text)
{
    torture_wrong(
        ctx, "verify finds: %s %s: %s", check, dest == NULL ? "" : dest, text);
    return 0;
}

static void look(struct torture *t)
{
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .ctx = t, .finding = note};
    struct postbag_status s = {.struct_size = sizeof(s)};
    int err;

    scene_admin(t);
    err = CALL(t, postbag_admin_verify, t->a, &v);
    EXPECT(t, err == POSTBAG_OK, "verify: %s", postbag_error_name(err));
    err = CALL(t, postbag_admin_status, t->a, NULL, &s);
    EXPECT(t, err == POSTBAG_OK, "status: %s", postbag_error_name(err));
    EXPECT(t, s.pending == 0 && s.held == 0,
        "at the end %lld messages wait and %lld are held", (long long)s.pending,
        (long long)s.held);
    EXPECT(t, s.ledger_gap == 0, "the ledger has a gap of %lld",
        (long long)s.ledger_gap);
    postbag_admin_close(t->a);
    t->a = NULL;
}

static const struct delivery *find(const struct torture *t, long long seq)
{
    for (size_t i = 0; i < t->sent_count; i++)
        if (t->sent[i].seq == seq)
            return &t->sent[i];
    return NULL;
}

/* Of the furnished database; one was held. */
static int was_settled_before(const struct torture *t, long long seq)
{
    return t->base == STAGE_FURNISHED && seq <= STAGE_SETTLED &&
           seq != STAGE_HELD;
}

/* Each row that counts as delivered left, and with its id. */
static void compare_rows(struct torture *t)
{
    sqlite3_stmt *s = NULL;

    if (sqlite3_prepare_v2(scene_eye(t),
            "SELECT o.seq, lower(hex(o.id)) FROM outbox o JOIN outbox_status s"
            " ON s.seq = o.seq AND s.dest = 'main'"
            " WHERE s.state = 'published'",
            -1, &s, NULL) != SQLITE_OK)
        torture_wrong(t, "rows: %s", sqlite3_errmsg(t->eye));
    while (s != NULL && sqlite3_step(s) == SQLITE_ROW) {
        long long seq = sqlite3_column_int64(s, 0);
        const struct delivery *d = find(t, seq);

        if (was_settled_before(t, seq))
            continue;
        EXPECT(t, d != NULL, "message %lld counts as delivered, and never left",
            seq);
    }
    (void)sqlite3_finalize(s);
}

/* Of a key, what left first left in the order of the log; and twice only what
 * the act sent. */
static void compare_order(struct torture *t)
{
    for (size_t i = 0; i < t->sent_count; i++) {
        const struct delivery *d = &t->sent[i];
        const struct delivery *first = find(t, d->seq);

        if (first == NULL)
            continue; /* it is the first itself, if not another */
        EXPECT(t, strcmp(first->id, d->id) == 0,
            "message %lld left with two ids", d->seq);
        EXPECT(t, first == d || first->is_in_act,
            "message %lld left twice at the end", d->seq);
        for (size_t j = 0; j < i && first == d && d->key[0] != '\0'; j++)
            EXPECT(t,
                strcmp(t->sent[j].key, d->key) != 0 || t->sent[j].seq < d->seq,
                "message %lld of key %s left before %lld", t->sent[j].seq,
                d->key, d->seq);
    }
}

void ending(struct torture *t)
{
    t->is_ending = 1;
    relay_all(t);
    look(t);
    if ((t->life->flags & LIFE_NO_IDS) == 0) {
        compare_rows(t);
        compare_order(t);
    }
    scene_shut_eye(t);
}
