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

#include "damage_case.h"
#include "postbag/care.h"
#include "proof.h"

enum { ORIGINALS = 8, FEW = 200, FULL = 400, MANY = 20000 };

static struct original originals[ORIGINALS];

struct figures figures;

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

void check_sent(void *ctx, const struct fake_sent *s)
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
