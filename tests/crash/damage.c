/* SPDX-License-Identifier: MIT */
/* See damage.h. */
#include "damage.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include "postbag/admin.h"
#include "relay.h"
#include "unit.h"

/* ---- files ------------------------------------------------------------- */

struct bytes file_read(const char *path)
{
    struct bytes b = {0};
    FILE *f = fopen(path, "rb");

    if (f == NULL)
        return b;
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    b.len = (size_t)ftell(f);
    rewind(f);
    b.at = malloc(b.len + 1);
    assert_non_null(b.at);
    assert_int_equal(fread(b.at, 1, b.len, f), b.len);
    (void)fclose(f);
    return b;
}

static void file_write(const char *path, const char *end, const struct bytes *b)
{
    char name[160];
    FILE *f;

    (void)snprintf(name, sizeof(name), "%s%s", path, end);
    (void)unlink(name);
    if (b->at == NULL)
        return;
    f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->at, 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
}

static struct bytes copy_of(const struct bytes *b)
{
    struct bytes copy = {.at = malloc(b->len + 1), .len = b->len};

    assert_non_null(copy.at);
    if (b->len > 0)
        memcpy(copy.at, b->at, b->len);
    return copy;
}

/* ---- the original ------------------------------------------------------ */

enum { MESSAGES = 130, SENT = 45, STATES = 100, COMMANDS = 40 };

static void make_tables(struct world *w, unsigned number)
{
    static const unsigned sizes[] = {1024, 4096, 512, 2048};
    const struct postbag_admin_config c = {
        .struct_size = sizeof(c), .db_path = w->t.path, .port = &w->sim.port};

    tempdb_make(&w->t);
    sim_port_init(&w->sim);
    w->t.app = NULL;
    assert_int_equal(sqlite3_open(w->t.path, &w->t.app), SQLITE_OK);
    sql_run(w->t.app,
        "PRAGMA page_size=%u; PRAGMA journal_mode=WAL;"
        "PRAGMA wal_autocheckpoint=0;"
        "CREATE TABLE state(n INTEGER PRIMARY KEY, note TEXT)",
        sizes[number % COUNT(sizes)]);
    assert_ok(postbag_admin_init(&c, 0, NULL));
}

/* The payload says whose it is. */
static void put_all(struct world *w, unsigned number)
{
    sql_run(w->t.app,
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c"
        " WHERE i < %d) INSERT INTO outbox(topic, payload, key, priority)"
        " SELECT printf('t%u/%%d', i), CAST(printf('message %%d of %u, %%s', i,"
        "  hex(randomblob(iif(i %% 37 = 0, 1500, 8)))) AS BLOB),"
        "  'k' || (i %% 5), i %% 20 = 0 FROM c",
        MESSAGES, number, number);
    sql_run(w->t.app,
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c"
        " WHERE i < %d) INSERT INTO state SELECT i, 'state ' || i FROM c",
        STATES);
    sql_run(w->t.app,
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c"
        " WHERE i < %d) INSERT INTO inbox(consumer, id, content_hash, state,"
        "  topic, payload, received_ms, processed_ms) SELECT 'lamp',"
        "  'command ' || i, randomblob(32), iif(i %% 3 = 0, 'due', 'done'),"
        "  'cmd/' || i, iif(i %% 3 = 0, CAST('on' AS BLOB), NULL),"
        "  1800000000000, iif(i %% 3 = 0, NULL, 1800000000000) FROM c",
        COMMANDS);
}

/* Some are sent, one is refused, then the process is killed. */
static void send_some(struct world *w, unsigned number)
{
    struct relay r;
    char refused[32];

    (void)snprintf(refused, sizeof(refused), "t%u/7", number);
    relay_init(&r, w);
    r.out->auto_settle = 1;
    r.out->refuse_topic = refused;
    r.out->refuse_reason = 0x99;
    r.out->send_accepts = SENT;
    r.out->send_err = POSTBAG_EAGAIN;
    relay_open(&r);
    relay_run_ms(&r, 2000);
    assert_int_equal(r.out->count, SENT);
    relay_kill(&r);
}

static void learn_messages(struct original *o, struct sqlite3 *db)
{
    sqlite3_stmt *s;

    assert_int_equal(
        sqlite3_prepare_v2(db,
            "SELECT seq, id, topic, payload, seq > (SELECT acked"
            " FROM outbox_cursor WHERE lane = priority) FROM outbox"
            " ORDER BY seq",
            -1, &s, NULL),
        SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW) {
        struct known *k = &o->known[o->count++];
        struct postbag_id id;

        assert_true(o->count < KNOWN_MOST);
        memcpy(id.b, sqlite3_column_blob(s, 1), sizeof(id.b));
        postbag_id_format(&id, k->id);
        (void)snprintf(k->topic, sizeof(k->topic), "%s",
            (const char *)sqlite3_column_text(s, 2));
        k->len = (size_t)sqlite3_column_bytes(s, 3);
        (void)snprintf(k->payload, sizeof(k->payload), "%.*s", (int)k->len,
            (const char *)sqlite3_column_blob(s, 3));
        k->seq = sqlite3_column_int64(s, 0);
        k->is_pending = sqlite3_column_int(s, 4);
    }
    sqlite3_finalize(s);
}

/* The rows of a table stand in its leaves in their order. */
static uint32_t page_of(struct sqlite3 *db, const char *table, int64_t rank)
{
    return (uint32_t)sql_get(db,
        "SELECT ifnull(min(pageno), 0) FROM (SELECT *, sum(ncell) OVER (ORDER"
        " BY path) AS upto FROM dbstat WHERE name = '%s'"
        " AND pagetype = 'leaf') WHERE upto - ncell < %lld AND upto >= %lld",
        table, (long long)rank, (long long)rank);
}

static void learn_rows(struct stored *list, size_t *count, struct sqlite3 *db,
    const char *table, const char *key)
{
    int64_t rows = sql_get(db, "SELECT count(*) FROM %s", table);

    for (int64_t i = 1; i <= rows; i++) {
        list[*count].key =
            sql_get(db, "SELECT %s FROM %s ORDER BY %s LIMIT 1 OFFSET %lld",
                key, table, key, (long long)i - 1);
        list[*count].page = page_of(db, table, i);
        ++*count;
    }
}

/* Where in the file, all of it being there. */
static void learn_places(struct original *o, struct sqlite3 *db)
{
    for (size_t i = 0; i < o->count; i++)
        o->known[i].page = page_of(db, "outbox", (int64_t)i + 1);
    learn_rows(o->states, &o->state_count, db, "state", "n");
    learn_rows(o->commands, &o->command_count, db, "inbox", "arrival");
    o->is_vital[1] = 1;
    for (uint32_t i = 1; i <= o->pages; i++)
        if (sql_get(db,
                "SELECT count(*) FROM dbstat WHERE pageno = %u AND (pagetype"
                " = 'internal' AND name IN ('outbox', 'inbox', 'state')"
                " OR pagetype = 'overflow' AND name IN ('outbox')"
                " OR name IN ('sqlite_schema', 'outbox_cursor',"
                "  'outbox_dest', 'outbox_held', 'outbox_meta'))",
                (unsigned)i) > 0)
            o->is_vital[i] = 1;
}

void original_make(struct original *o, unsigned number)
{
    struct world w;
    char wal[160];
    int is_in_file = number % 2 == 0;

    memset(o, 0, sizeof(*o));
    make_tables(&w, number);
    put_all(&w, number);
    if (!is_in_file)
        sql_run(w.t.app, "PRAGMA wal_checkpoint(TRUNCATE)");
    send_some(&w, number);
    if (is_in_file)
        sql_run(w.t.app, "PRAGMA wal_checkpoint(TRUNCATE)");
    o->page_size = (uint32_t)sql_get(w.t.app, "PRAGMA page_size");
    o->pages = (uint32_t)sql_get(w.t.app, "PRAGMA page_count");
    assert_true(o->pages < PAGES_MOST);
    learn_messages(o, w.t.app);
    if (is_in_file)
        learn_places(o, w.t.app);
    (void)snprintf(wal, sizeof(wal), "%s-wal", w.t.path);
    o->db = file_read(w.t.path);
    o->wal = file_read(wal);
    assert_true(is_in_file || o->wal.len > 0);
    world_remove(&w);
}

void original_free(struct original *o)
{
    free(o->db.at);
    free(o->wal.at);
}

/* ---- the damage -------------------------------------------------------- */

const char *damage_name(enum damage_kind kind)
{
    static const char *const names[DAMAGE_KINDS] = {"bit", "run", "zero_page",
        "random_page", "swap_pages", "copy_page", "truncate", "wal_bit",
        "wal_run", "wal_truncate", "wal_other", "wal_gone", "shm"};

    return names[kind];
}

uint64_t damage_random(uint64_t *seed)
{
    uint64_t x = (*seed += 0x9e3779b97f4a7c15u);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void flip_bit(struct bytes *b, uint64_t *seed, size_t *at)
{
    *at = damage_random(seed) % b->len;
    b->at[*at] ^= (uint8_t)(1u << damage_random(seed) % 8);
}

static void fill(struct bytes *b, size_t at, size_t len, uint64_t *seed)
{
    for (size_t i = at; i < at + len && i < b->len; i++)
        b->at[i] = (uint8_t)damage_random(seed);
}

static void spoil_run(struct bytes *b, uint64_t *seed, size_t *at, size_t *len)
{
    *at = damage_random(seed) % b->len;
    *len = 1 + damage_random(seed) % 64;
    fill(b, *at, *len, seed);
}

static uint8_t *page_at(
    struct damaged *d, const struct original *o, uint64_t *seed)
{
    size_t n = 1 + damage_random(seed) % (d->db.len / o->page_size);

    d->touched[n] = 1;
    return d->db.at + (n - 1) * o->page_size;
}

static void spoil_page(
    struct damaged *d, const struct original *o, uint64_t *seed)
{
    uint8_t *a = page_at(d, o, seed);
    uint8_t *b;

    switch ((int)d->kind) {
    case DAMAGE_ZERO_PAGE:
        memset(a, 0, o->page_size);
        break;
    case DAMAGE_RANDOM_PAGE:
        for (uint32_t i = 0; i < o->page_size; i++)
            a[i] = (uint8_t)damage_random(seed);
        break;
    case DAMAGE_SWAP_PAGES:
        b = page_at(d, o, seed);
        for (uint32_t i = 0; i < o->page_size; i++) {
            uint8_t byte = a[i];

            a[i] = b[i];
            b[i] = byte;
        }
        break;
    default: { /* the copied page is as it was */
        struct damaged unused = *d;

        b = page_at(&unused, o, seed);
        memmove(a, b, o->page_size);
        break;
    }
    }
}

static void touch(
    struct damaged *d, const struct original *o, size_t at, size_t len)
{
    for (size_t n = at / o->page_size; n <= (at + len - 1) / o->page_size; n++)
        if (n < PAGES_MOST)
            d->touched[n + 1] = 1;
}

static void spoil_db(
    struct damaged *d, const struct original *o, uint64_t *seed)
{
    size_t at = 0;

    if (d->kind == DAMAGE_BIT) {
        flip_bit(&d->db, seed, &at);
        d->spoilt = 1;
        touch(d, o, at, 1);
    } else if (d->kind == DAMAGE_RUN) {
        spoil_run(&d->db, seed, &at, &d->spoilt);
        touch(d, o, at, d->spoilt);
    } else if (d->kind == DAMAGE_TRUNCATE) {
        d->db.len = damage_random(seed) % d->db.len;
        touch(d, o, d->db.len, o->db.len - d->db.len);
    } else {
        spoil_page(d, o, seed);
    }
}

static void spoil_wal(
    struct damaged *d, const struct original *other, uint64_t *seed)
{
    size_t at;
    size_t len;

    if (d->kind == DAMAGE_WAL_OTHER) {
        free(d->wal.at);
        d->wal = copy_of(&other->wal);
    } else if (d->kind == DAMAGE_WAL_GONE || d->wal.len == 0) {
        free(d->wal.at);
        d->wal.at = NULL;
    } else if (d->kind == DAMAGE_WAL_BIT) {
        flip_bit(&d->wal, seed, &at);
    } else if (d->kind == DAMAGE_WAL_RUN) {
        spoil_run(&d->wal, seed, &at, &len);
    } else {
        d->wal.len = damage_random(seed) % d->wal.len;
    }
}

void damage_make(struct damaged *d, const struct original *o,
    const struct original *other, uint64_t *seed)
{
    memset(d, 0, sizeof(*d));
    d->kind = (enum damage_kind)(damage_random(seed) % DAMAGE_KINDS);
    d->db = copy_of(&o->db);
    d->wal = copy_of(&o->wal);
    if (d->kind <= DAMAGE_TRUNCATE) {
        spoil_db(d, o, seed);
    } else if (d->kind == DAMAGE_SHM) {
        d->shm.len = 32768;
        d->shm.at = calloc(1, d->shm.len);
        assert_non_null(d->shm.at);
        fill(&d->shm, 0, 1 + damage_random(seed) % d->shm.len, seed);
    } else {
        spoil_wal(d, other, seed);
    }
}

void damage_free(struct damaged *d)
{
    free(d->db.at);
    free(d->wal.at);
    free(d->shm.at);
}

void damage_write(const struct damaged *d, const char *path)
{
    file_write(path, "", &d->db);
    file_write(path, "-wal", &d->wal);
    file_write(path, "-shm", &d->shm);
}
