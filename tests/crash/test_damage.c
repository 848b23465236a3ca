/* SPDX-License-Identifier: MIT */
/*
 * A damaged database, whatever the damage (damage.h):
 *
 *     nothing crashes, nothing spins: firmware, relay, tools, salvage
 *     what is published is a message that was put, as it was put; but bytes
 *     that were changed in place inside of a row SQLite cannot notice, and of
 *     these the figures are told
 *     a salvage changes nothing, makes a sound database, and has all that
 *     stands on pages which the damage did not touch
 *     what the salvage has is delivered from there, with the same ids
 *
 * POSTBAG_SEED repeats one trial.  200 trials; FULL 2000, PROVE 20000.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include "damage.h"
#include "postbag/care.h"
#include "proof.h"
#include "relay.h"
#include "unit.h"

enum { ORIGINALS = 8, FEW = 200, FULL = 2000, MANY = 20000 };

static struct original originals[ORIGINALS];

static struct figures {
    unsigned trials, salvaged, whole, refused, published, expected;
    unsigned in_place; /* published, and changed inside of the row */
    unsigned of_kind[DAMAGE_KINDS], lost_of_kind[DAMAGE_KINDS];
} figures;

struct case_of {
    uint64_t seed;
    const struct original *o, *other;
    struct damaged d;
    struct world w;
    char saved[128]; /* path of the salvage */
    char put[3][40]; /* ids of what the firmware put meanwhile */
    size_t put_count;
    unsigned findings;
    int is_control;
    unsigned noticed;
};

/* Of a control it is only counted. */
#define TRIAL_FAILS(t, ...) \
    do { \
        if ((t)->is_control) { \
            (t)->noticed++; \
            break; \
        } \
        print_message("POSTBAG_SEED=%llu %s\n", (unsigned long long)(t)->seed, \
            damage_name((t)->d.kind)); \
        fail_msg(__VA_ARGS__); \
    } while (0)

/* ---- what may be published --------------------------------------------- */

static const struct known *find(const struct original *o, const char *id)
{
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->known[i].id, id) == 0)
            return &o->known[i];
    return NULL;
}

static int is_as_put(const struct known *k, const struct fake_sent *s)
{
    size_t len = s->payload_len < sizeof(s->payload) ? s->payload_len
                                                     : sizeof(s->payload) - 1;

    return k != NULL && strcmp(k->topic, s->topic) == 0 &&
           k->len == s->payload_len &&
           memcmp(k->payload, s->payload,
               len < sizeof(k->payload) - 1 ? len : sizeof(k->payload) - 1) ==
               0;
}

static int was_put_now(const struct case_of *t, const struct fake_sent *s)
{
    for (size_t i = 0; i < t->put_count; i++)
        if (strcmp(t->put[i], s->id) == 0)
            return strcmp(s->topic, "firmware") == 0;
    return 0;
}

static void check_sent(void *ctx, const struct fake_sent *s)
{
    struct case_of *t = ctx;

    figures.published++;
    if (is_as_put(find(t->o, s->id), s) || was_put_now(t, s) ||
        (t->d.kind == DAMAGE_WAL_OTHER && is_as_put(find(t->other, s->id), s)))
        return;
    if (t->d.spoilt > 0) {
        figures.in_place++;
        return;
    }
    TRIAL_FAILS(
        t, "published, and never put: %s %s %s", s->id, s->topic, s->payload);
}

/* ---- the parts that meet the damage ------------------------------------ */

static void run_firmware(struct case_of *t)
{
    struct sqlite3 *db = NULL;
    struct postbag_writer *w = NULL;
    struct postbag_writer_config c = {.struct_size = sizeof(c),
        .port = &t->w.sim.port,
        .allow_no_busy_timeout = 1};
    struct postbag_message m = {.struct_size = sizeof(m),
        .topic = "firmware",
        .payload = "x",
        .payload_len = 1};
    struct postbag_id id;

    if (sqlite3_open(t->w.t.path, &db) != SQLITE_OK)
        goto end;
    c.db = db;
    if (postbag_writer_open(&w, &c, NULL) != POSTBAG_OK)
        goto end;
    while (t->put_count < COUNT(t->put)) {
        if (postbag_begin(w) != POSTBAG_OK)
            break;
        (void)sqlite3_exec(
            db, "UPDATE state SET note = 'on' WHERE n = 7", NULL, NULL, NULL);
        if (postbag_put(w, &m, &id) != POSTBAG_OK) {
            postbag_rollback(w);
            break;
        }
        postbag_id_format(&id, t->put[t->put_count++]);
        if (postbag_commit(w) != POSTBAG_OK)
            break;
    }
end:
    postbag_writer_close(w);
    (void)sqlite3_close_v2(db);
}

/* relay_run_ms fails the test if the engine spins. */
static void run_relay(struct case_of *t)
{
    struct relay r;

    relay_init(&r, &t->w);
    r.out->auto_settle = 1;
    r.out->on_send = check_sent;
    r.out->on_send_ctx = t;
    if (relay_may_open(&r) != POSTBAG_OK) {
        figures.refused++;
        return;
    }
    relay_run_ms(&r, 3000);
    relay_close(&r);
}

static int count_finding(
    void *ctx, const char *check, const char *dest, const char *text)
{
    struct case_of *t = ctx;

    (void)check;
    (void)dest;
    (void)text;
    t->findings++;
    return 0;
}

static int look_at(void *ctx, const struct postbag_row *row)
{
    (void)ctx;
    (void)row;
    return 0;
}

static void run_tools(struct case_of *t)
{
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = t->w.t.path,
        .port = &t->w.sim.port,
        .writable = 1};
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .ctx = t, .finding = count_finding};
    const struct postbag_row_filter all = {.struct_size = sizeof(all)};
    struct postbag_status status = {.struct_size = sizeof(status)};
    struct postbag_database file = {.struct_size = sizeof(file)};
    struct postbag_admin *a;
    int errors = 0;

    if (postbag_admin_open(&a, &c, NULL) != POSTBAG_OK)
        return;
    errors += postbag_admin_verify(a, &v) != POSTBAG_OK;
    errors += postbag_admin_status(a, "main", &status) != POSTBAG_OK;
    errors += postbag_admin_database(a, &file) != POSTBAG_OK;
    errors += postbag_admin_list(a, &all, look_at, NULL) != POSTBAG_OK;
    errors += postbag_admin_requeue(a, NULL, 0, NULL, NULL) != POSTBAG_OK;
    (void)errors; /* each may fail; none may crash */
    postbag_admin_close(a);
}

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

static void run_salvage(struct case_of *t)
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

/* ---- a trial ----------------------------------------------------------- */

static void run_trial(struct case_of *t, uint64_t seed)
{
    uint64_t state = seed;

    memset(t, 0, sizeof(*t));
    t->seed = seed;
    t->o = &originals[damage_random(&state) % ORIGINALS];
    t->other = &originals[damage_random(&state) % ORIGINALS];
    damage_make(&t->d, t->o, t->other, &state);
    figures.trials++;
    figures.of_kind[t->d.kind]++;
    tempdb_make(&t->w.t);
    sim_port_init(&t->w.sim);
    (void)snprintf(t->saved, sizeof(t->saved), "%s/saved", t->w.t.folder);
    damage_write(&t->d, t->w.t.path);
    run_salvage(t);
    remove_saved(t);
    damage_write(&t->d, t->w.t.path);
    run_firmware(t);
    run_relay(t);
    if (seed % 2 == 1)
        run_tools(t);
    world_remove(&t->w);
    damage_free(&t->d);
}

static unsigned trials_wanted(void)
{
    if (getenv("POSTBAG_PROVE") != NULL)
        return MANY;
    return getenv("POSTBAG_FULL") != NULL ? FULL : FEW;
}

static void test_damaged_database_crashes_nothing_and_sends_no_garbage(
    void **state)
{
    const char *given = getenv("POSTBAG_SEED");
    uint64_t first = given == NULL ? 1 : strtoull(given, NULL, 10);
    unsigned trials = given == NULL ? trials_wanted() : 1;
    struct case_of t;

    (void)state;
    for (unsigned i = 0; i < trials; i++)
        run_trial(&t, first + i);
    print_message("%u salvaged (%u whole), %u relays refused, %u published (%u"
                  " changed in place), %u rows had to be saved\n",
        figures.salvaged, figures.whole, figures.refused, figures.published,
        figures.in_place, figures.expected);
    for (int k = 0; k < DAMAGE_KINDS; k++)
        print_message("  %s: %u, not readable %u\n",
            damage_name((enum damage_kind)k), figures.of_kind[k],
            figures.lost_of_kind[k]);
    proof_say("F19_damage", trials, first, first + trials - 1);
}

/* ---- controls ---------------------------------------------------------- */

enum { CONTROLS = 8 };

static void begin_control(struct case_of *t, struct original *o, unsigned i)
{
    uint64_t state = i;

    memset(t, 0, sizeof(*t));
    t->is_control = 1;
    t->o = t->other = o;
    do {
        damage_free(&t->d);
        damage_make(&t->d, o, o, &state);
    } while (t->d.kind != DAMAGE_SHM); /* which hurts nothing */
    tempdb_make(&t->w.t);
    sim_port_init(&t->w.sim);
    (void)snprintf(t->saved, sizeof(t->saved), "%s/saved", t->w.t.folder);
    damage_write(&t->d, t->w.t.path);
}

static void end_control(struct case_of *t)
{
    world_remove(&t->w);
    damage_free(&t->d);
}

/* One message was never put, says the list. */
static void test_damage_control_garbage_is_noticed(void **state)
{
    unsigned hits = 0;
    struct case_of t;

    (void)state;
    for (unsigned i = 0; i < CONTROLS; i++) {
        struct original *o = &originals[i % ORIGINALS];
        struct known *k = &o->known[o->count - 1 - i];
        char topic = k->topic[0];

        begin_control(&t, o, i);
        k->topic[0] = '?';
        run_relay(&t);
        k->topic[0] = topic;
        hits += t.noticed > 0;
        end_control(&t);
    }
    assert_int_equal(hits, CONTROLS);
    proof_control("F19_damage", "never_put", hits, CONTROLS);
}

/* A page is zeroed, and nobody says so. */
static void test_damage_control_lost_page_is_noticed(void **state)
{
    unsigned hits = 0;
    struct case_of t;

    (void)state;
    for (unsigned i = 0; i < CONTROLS; i += 2) {
        struct original *o = &originals[i % ORIGINALS];
        const struct known *k = &o->known[o->count / 2 + i];

        begin_control(&t, o, i);
        t.d.kind = DAMAGE_ZERO_PAGE;
        memset(t.d.db.at + (k->page - 1) * o->page_size, 0, o->page_size);
        damage_write(&t.d, t.w.t.path);
        t.seed = 3;
        run_salvage(&t);
        hits += t.noticed > 0;
        end_control(&t);
    }
    assert_int_equal(hits, CONTROLS / 2);
    proof_control("F19_damage", "lost_page", hits, CONTROLS / 2);
}

static int set_up(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ORIGINALS; i++)
        original_make(&originals[i], i);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ORIGINALS; i++)
        original_free(&originals[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_damaged_database_crashes_nothing_and_sends_no_garbage),
        cmocka_unit_test(test_damage_control_garbage_is_noticed),
        cmocka_unit_test(test_damage_control_lost_page_is_noticed),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
