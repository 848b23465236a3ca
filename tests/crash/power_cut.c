/* SPDX-License-Identifier: MIT */
/* See power_cut.h. */
#include "power_cut.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <time.h>

#include "db.h"
#include "proof.h"
#include "quick_heap.h"
#include "verify.h"

static const char *const words[FINDINGS] = {
    [SOUND] = "sound",
    [DAMAGED] = "the database is damaged",
    [LOST] = "what was promised is lost",
    [PHANTOM] = "what was sent never happened",
    [APART] = "what belongs together is not together",
    [RENAMED] = "a message has another id",
    [FORGOTTEN] = "a message is not sent",
    [DISORDER] = "a key's messages are sent in another order",
    [REPEATED] = "commands that come again do not end in one effect each",
};

/* ---- one scene --------------------------------------------------------- */

/* Databases are opened by the million, by one thread. */
void power_cut_install(void)
{
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_SINGLETHREAD), SQLITE_OK);
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0), SQLITE_OK);
#ifndef __SANITIZE_ADDRESS__
    assert_int_equal(quick_heap_install(), SQLITE_OK);
#endif
    memdisk_install();
}

const char *power_cut_file(const struct memdisk *disk)
{
    return memdisk_path(disk, "gw.db");
}

void power_cut_begin(struct power_cut *c)
{
    static const unsigned sizes[] = {
        4096, 512, 65536, 1024, 16384, 2048, 32768, 8192};

    c->page_size = sizes[(c->seed + c->seed / COUNT(sizes)) % COUNT(sizes)];
    c->draws = c->draws == 0 ? 1 : c->draws;
    c->left = memdisk_new(c->seed);
    c->disk = memdisk_new(c->seed);
    /* sectors of 4096 bytes on some */
    memdisk_sector(c->disk, c->seed / COUNT(sizes) % 3 == 2 ? 4096 : 512);
}

void power_cut_end(struct power_cut *c)
{
    memdisk_free(c->disk);
    memdisk_free(c->left);
}

/* What takes long, only now and then. */
static unsigned depth_of(uint64_t image)
{
    if (image % 32 == 0)
        return CUT_VERIFY;
    if (image % 128 == 16)
        return CUT_GO_ON | CUT_VERIFY_AFTER;
    return image % 32 == 16 ? CUT_GO_ON : 0;
}

static void look(struct power_cut *c, enum memdisk_left left, unsigned draw)
{
    uint64_t luck = c->seed + memdisk_changes(c->disk) * 1000003u + draw * 101u;
    enum finding found;

    if (c->first != SOUND && !c->goes_on)
        return;
    memdisk_image(c->disk, left, luck, c->left);
    found = c->look(c->ctx, depth_of(c->images));
    c->images++;
    c->found[found]++;
    if (c->first != SOUND || found == SOUND)
        return;
    c->first = found;
    if (!c->goes_on)
        print_message("cut after change %llu, left %d, draw %u, pages of %u:"
                      " %s\nPOSTBAG_SEED=%llu\n",
            (unsigned long long)memdisk_changes(c->disk), (int)left, draw,
            c->page_size, words[found], (unsigned long long)c->seed);
}

/* `how` comes next; MEMDISK_ANY: nothing. */
static void look_at_all(struct power_cut *c, enum memdisk_call how)
{
    int is_sync = how == MEMDISK_SYNC;

    if (is_sync || how == MEMDISK_ANY || c->promises != c->seen)
        look(c, MEMDISK_NOTHING, 0);
    c->seen = c->promises;
    if (!is_sync)
        look(c, MEMDISK_ALL, 0);
    for (unsigned draw = 0; draw < c->draws; draw++) {
        if (memdisk_can_be_torn(c->disk))
            look(c, MEMDISK_TORN, draw);
        if (memdisk_pending(c->disk) > 1)
            look(c, MEMDISK_SOME, draw);
    }
}

static void before_change(void *ctx, enum memdisk_call how)
{
    struct power_cut *c = ctx;

    look_at_all(c, how);
}

void power_cut_watch(struct power_cut *c)
{
    memdisk_cut(c->disk, MEMDISK_ALL, 0);
    memdisk_process(c->disk, 1);
    memdisk_watch(c->disk, before_change, c);
}

void power_cut_rest(struct power_cut *c)
{
    before_change(c, MEMDISK_ANY);
    memdisk_watch(c->disk, NULL, NULL);
}

/* ---- a port without files ---------------------------------------------- */

static int lock_nothing(void *ctx, const char *path, struct postbag_lock **out)
{
    (void)path;
    *out = ctx; /* not NULL: held */
    return POSTBAG_OK;
}

static void unlock_nothing(void *ctx, struct postbag_lock *l)
{
    (void)ctx;
    (void)l;
}

static int is_stored_well(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return POSTBAG_OK;
}

void power_cut_port(struct sim_port *sim, uint8_t boot)
{
    sim_port_init(sim);
    sim->boot = boot;
    sim->port.lock_file = lock_nothing;
    sim->port.unlock_file = unlock_nothing;
    sim->port.storage_check = is_stored_well;
    sim->port.read_file = NULL; /* so there is no witness */
}

/* ---- a database that may be damaged ------------------------------------ */

int64_t power_cut_get(struct sqlite3 *db, int *is_bad, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int64_t n = -1;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        n = sqlite3_column_int64(s, 0);
    else
        *is_bad = 1;
    (void)sqlite3_finalize(s);
    return n;
}

int power_cut_is_sound(struct sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    int is_sound = sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &s,
                       NULL) == SQLITE_OK &&
                   sqlite3_step(s) == SQLITE_ROW &&
                   strcmp((const char *)sqlite3_column_text(s, 0), "ok") == 0;

    (void)sqlite3_finalize(s);
    return is_sound;
}

/* Controls have much to tell. */
static int is_quiet;

static int tell(
    void *ctx, const char *check, const char *dest, const char *text)
{
    (void)dest;
    if (!is_quiet)
        print_message("%s: %s\n", check, text);
    *(int *)ctx = 0;
    return 0;
}

int power_cut_is_verified(const char *path)
{
    int is_sound = 1;
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .ctx = &is_sound, .finding = tell};
    struct db db;

    if (postbag__db_open(&db, path, DB_READ, DB_NORMAL, 1000) != POSTBAG_OK ||
        postbag__pin(&db) != POSTBAG_OK ||
        postbag__verify(&db, &v) != POSTBAG_OK) {
        if (!is_quiet)
            print_message("%s\n", db.fault.text);
        is_sound = 0;
    }
    postbag__rollback(&db);
    postbag__db_close(&db);
    return is_sound;
}

/* ---- many scenes ------------------------------------------------------- */

/* POSTBAG_SEED, or another one each time. */
static uint64_t first_seed(void)
{
    const char *given = getenv("POSTBAG_SEED");
    uint64_t seed =
        given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);

    print_message("POSTBAG_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* Images in all programs together, by hundreds. */
static uint64_t images_of(unsigned share)
{
    uint64_t hundreds = getenv("POSTBAG_PROVE") != NULL  ? 11000
                        : getenv("POSTBAG_FULL") != NULL ? 350
                                                         : 80;

#ifdef __SANITIZE_ADDRESS__
    hundreds /= 4; /* it takes several times as long */
#endif
    return hundreds * share;
}

static double seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* A seed each. */
static uint64_t play_until(struct power_cut *sum, power_cut_scene play,
    uint64_t images, uint64_t first)
{
    uint64_t seed = first;

    do {
        struct power_cut c = {.seed = seed, .goes_on = sum->goes_on};

        play(&c);
        sum->images += c.images;
        for (int i = 0; i < FINDINGS; i++)
            sum->found[i] += c.found[i];
        if (c.first != SOUND && !sum->goes_on)
            fail_msg("%s", words[c.first]);
        seed++;
    } while (sum->images < images);
    return seed - 1;
}

void power_cut_prove(const char *row, power_cut_scene play, unsigned share)
{
    struct power_cut sum = {0};
    double begun = seconds();
    uint64_t first = first_seed();
    uint64_t last = play_until(&sum, play, images_of(share), first);

    print_message("%s: %llu images, %.0f in a second\n", row,
        (unsigned long long)sum.images,
        (double)sum.images / (seconds() - begun + 0.001));
    proof_say(row, sum.images, first, last);
}

void power_cut_control(const char *row, const char *name, power_cut_scene play,
    enum finding expected)
{
    struct power_cut sum = {.goes_on = 1};
    uint64_t hits;

    is_quiet = 1;
    (void)play_until(&sum, play, 1, first_seed());
    is_quiet = 0;
    hits = expected == FINDINGS ? sum.images - sum.found[SOUND]
                                : sum.found[expected];
    proof_control(row, name, hits, sum.images);
    if (hits == 0)
        fail_msg("%s found nothing", name);
}
