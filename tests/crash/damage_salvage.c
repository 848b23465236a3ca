/* SPDX-License-Identifier: MIT */
/* What a salvage of a damaged database must hold.  See test_damage.c. */
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include "damage_case.h"
#include "postbag/care.h"

/* ---- the salvage ------------------------------------------------------- */

static int tell_finding(
    void *ctx, const char *check, const char *dest, const char *text)
{
    TRIAL_FAILS((struct case_of *)ctx, "the salvage is not sound: %s %s: %s",
        check, dest == NULL ? "" : dest, text);
    return 0;
}

static void assert_saved_is_sound(struct case_of *t)
{
    const struct postbag_admin_config c = {
        .struct_size = sizeof(c), .db_path = t->saved, .port = &t->w.sim.port};
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .ctx = t, .finding = tell_finding};
    struct postbag_fault why = {0};
    struct postbag_admin *a;

    if (postbag_admin_open(&a, &c, &why) != POSTBAG_OK)
        TRIAL_FAILS(t, "the salvage cannot be opened: %s", why.text);
    assert_ok(postbag_admin_verify(a, &v));
    postbag_admin_close(a);
}

/* Is it promised that rows on pages which were not touched are saved?  Not
 * where what leads to them is gone, nor which of them are unsent. */
static int is_bound(const struct case_of *t)
{
    if (t->o->wal.len != 0 || t->d.kind > DAMAGE_TRUNCATE)
        return 0;
    for (uint32_t i = 1; i <= t->o->pages; i++)
        if (t->d.touched[i] && t->o->is_vital[i])
            return 0;
    return 1;
}

/* As it was put. */
static const char find_message[] =
    "SELECT id, topic, payload FROM outbox WHERE seq = ?1";
static const char find_state[] =
    "SELECT 1 FROM state WHERE n = ?1 AND note = 'state ' || n";
static const char find_command[] = "SELECT 1 FROM inbox WHERE arrival = ?1";

static sqlite3_stmt *prepare(struct sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    return s;
}

static void assert_has_rows(struct case_of *t, struct sqlite3 *db,
    const struct stored *list, size_t count, const char *sql)
{
    sqlite3_stmt *s = prepare(db, sql);

    for (size_t i = 0; i < count; i++) {
        if (t->d.touched[list[i].page])
            continue;
        figures.expected++;
        sqlite3_bind_int64(s, 1, list[i].key);
        if (sqlite3_step(s) != SQLITE_ROW)
            TRIAL_FAILS(t, "lost: %lld, page %u: %s", (long long)list[i].key,
                list[i].page, sql);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
}

static int is_message(sqlite3_stmt *s, const struct known *k)
{
    struct postbag_id id;
    char name[40];
    size_t len =
        k->len < sizeof(k->payload) - 1 ? k->len : sizeof(k->payload) - 1;

    if (sqlite3_step(s) != SQLITE_ROW || sqlite3_column_bytes(s, 0) != 16)
        return 0;
    memcpy(id.b, sqlite3_column_blob(s, 0), sizeof(id.b));
    postbag_id_format(&id, name);
    return strcmp(name, k->id) == 0 &&
           strcmp((const char *)sqlite3_column_text(s, 1), k->topic) == 0 &&
           (size_t)sqlite3_column_bytes(s, 2) == k->len &&
           memcmp(sqlite3_column_blob(s, 2), k->payload, len) == 0;
}

static void assert_has_messages(struct case_of *t, struct sqlite3 *db)
{
    sqlite3_stmt *s = prepare(db, find_message);

    for (size_t i = 0; i < t->o->count; i++) {
        const struct known *k = &t->o->known[i];

        if (!k->is_pending || t->d.touched[k->page])
            continue;
        figures.expected++;
        sqlite3_bind_int64(s, 1, k->seq);
        if (!is_message(s, k))
            TRIAL_FAILS(
                t, "lost: message %lld, page %u", (long long)k->seq, k->page);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
}

static void assert_has_all(struct case_of *t)
{
    struct sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(t->saved, &db), SQLITE_OK);
    assert_has_messages(t, db);
    assert_has_rows(t, db, t->o->states, t->o->state_count, find_state);
    assert_has_rows(t, db, t->o->commands, t->o->command_count, find_command);
    (void)sqlite3_close(db);
}

static void assert_unchanged(struct case_of *t)
{
    struct bytes now = file_read(t->w.t.path);

    assert_int_equal(now.len, t->d.db.len);
    if (memcmp(now.at, t->d.db.at, now.len) != 0)
        TRIAL_FAILS(t, "the salvage wrote to the damaged file");
    free(now.at);
}

/* From there all that is unsent leaves. */
static void deliver_saved(struct case_of *t, const struct postbag_salvaged *s)
{
    struct relay r;

    relay_init(&r, &t->w);
    r.options.db_path = t->saved;
    r.out->auto_settle = 1;
    r.out->on_send = check_sent;
    r.out->on_send_ctx = t;
    assert_ok(relay_may_open(&r));
    relay_run_ms(&r, 5000);
    if (t->d.spoilt == 0 && r.out->count < (size_t)s->messages)
        TRIAL_FAILS(t, "of %lld messages saved %zu left: %s",
            (long long)s->messages, r.out->count, r.log);
    relay_close(&r);
}

static void remove_saved(const struct case_of *t)
{
    static const char *const ends[] = {
        "", "-wal", "-shm", "-postbag", "-housekeeper"};
    char path[200];

    for (size_t i = 0; i < COUNT(ends); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", t->saved, ends[i]);
        (void)unlink(path);
    }
}

void run_salvage(struct case_of *t)
{
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = t->w.t.path,
        .port = &t->w.sim.port};
    const struct postbag_salvage how = {
        .struct_size = sizeof(how), .to = t->saved};
    struct postbag_salvaged s = {.struct_size = sizeof(s)};
    struct postbag_fault why = {0};
    int err = postbag_admin_salvage(&c, &how, &s, &why);

    assert_unchanged(t);
    if (err != POSTBAG_OK && is_bound(t))
        TRIAL_FAILS(t, "no salvage: %s", why.text);
    if (err == POSTBAG_OK) {
        figures.salvaged++;
        figures.whole +=
            s.damaged == 0 && s.holes == 0 && s.left_out == 0 && !s.without_wal;
        if (t->seed % 2 == 0) /* this and what follows takes the most time */
            assert_saved_is_sound(t);
        if (is_bound(t))
            assert_has_all(t);
        if (t->seed % 4 == 1)
            deliver_saved(t, &s);
    } else {
        assert_true(err == POSTBAG_ECORRUPT || err == POSTBAG_ESTORAGE ||
                    err == POSTBAG_ESCHEMA);
        figures.lost_of_kind[t->d.kind]++;
    }
    remove_saved(t);
}
