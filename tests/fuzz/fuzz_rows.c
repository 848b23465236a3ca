/* SPDX-License-Identifier: MIT */
/*
 * A hostile database: somebody has written what no column ever has into a
 * database of ours, or its file is damaged.  An admin looks at all of it,
 * verify checks it, an operator repairs it, and a relay sends from it: each
 * says what is wrong, none of them falls, and what leaves is a message that a
 * broker takes.
 *
 * The input begins with the way: 0 rows as STRICT tables let them through, 1
 * rows of any type (the tables' definitions are changed as well), 2 bytes of
 * the file.
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "engine.h"
#include "fake_transport.h"
#include "fuzz.h"
#include "postbag/care.h"
#include "sim_port.h"
#include "utf8.h"

enum { MOST_CHANGES = 24, STEPS = 60, MOST_BYTES = 1 << 20 };

static const char *gw; /* the database under test */
static uint8_t *sound; /* its file as it was made */
static size_t sound_len;

/* ---- the database, sound ----------------------------------------------- */

static void run(sqlite3 *db, const char *sql)
{
    char *why = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        (void)fprintf(stderr, "%s: %s\n", sql, why);
        abort();
    }
}

static const char rows[] =
    "INSERT INTO outbox(topic, payload, key, priority, headers, ttl_ms)"
    " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
    "  SELECT i + 1 FROM n WHERE i < 12)"
    " SELECT 't/' || i, 'payload', 'k' || (i % 3), i % 4, '{\"a\":\"b\"}',"
    "  iif(i % 5 = 0, 100000, NULL) FROM n;"
    "INSERT INTO outbox_held(dest, seq, state, attempts, error, due_boot,"
    "  due_ms, dead_ms, id, topic, payload, key, priority, retain, created_ms)"
    " SELECT 'main', seq, iif(seq % 2, 'dead', 'retry'), 5, 'refused: 0x87',"
    "  zeroblob(16), 9, 8, id, topic, payload, key, priority, retain,"
    "  created_ms FROM outbox WHERE seq IN (1, 2, 3, 4);"
    "UPDATE outbox_cursor SET acked = 4, sent_hi = 6;"
    "INSERT INTO inbox(consumer, source, id, content_hash, state, topic,"
    "  payload, received_ms)"
    " VALUES ('c', '', '1', zeroblob(32), 'due', 'cmd', 'x', 5),"
    "  ('c', '', '2', zeroblob(32), 'dead', 'cmd', 'x', 5),"
    "  ('c', '', '3', zeroblob(32), 'done', 'cmd', 'x', 5);"
    "PRAGMA wal_checkpoint(TRUNCATE);";

static void read_file(void)
{
    FILE *file = fopen(gw, "rbe");

    MUST(file != NULL);
    sound = malloc(MOST_BYTES);
    MUST(sound != NULL);
    sound_len = fread(sound, 1, MOST_BYTES, file);
    MUST(sound_len > 0 && sound_len < MOST_BYTES);
    (void)fclose(file);
}

static void make_sound(void)
{
    struct sim_port sim;
    struct postbag_admin_config config = {
        .struct_size = sizeof(config), .writable = 1};
    sqlite3 *db;

    sim_port_init(&sim);
    gw = fuzz_path("gw.db");
    config.db_path = gw;
    config.port = &sim.port;
    MUST(postbag_admin_init(&config, 0, NULL) == POSTBAG_OK);
    MUST(sqlite3_open(gw, &db) == SQLITE_OK);
    run(db, rows);
    MUST(sqlite3_close(db) == SQLITE_OK);
    read_file();
}

static void write_file(const uint8_t *bytes, size_t len)
{
    int fd;

    (void)unlink(fuzz_path("gw.db-wal"));
    (void)unlink(fuzz_path("gw.db-shm"));
    fd = open(gw, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);
    MUST(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    MUST(close(fd) == 0);
}

/* ---- what a hostile writer does ---------------------------------------- */

static const char *const tables[] = {"outbox", "outbox_held", "outbox_cursor",
    "outbox_dest", "outbox_meta", "outbox_lost", "outbox_acks", "outbox_sum",
    "outbox_trial", "outbox_late", "inbox", "inbox_key", "inbox_sum",
    "sqlite_schema"};
enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

static void bind_any(sqlite3_stmt *s, int at, struct feed *f)
{
    static const char *const words[] = {"", "main", "dead", "retry", "behind",
        "suspect", "due", "schema_version", "\xff", "a/+/#", "t\x01", "{"};
    size_t len;
    const uint8_t *bytes;

    switch (feed_below(f, 7)) {
    case 0:
        (void)sqlite3_bind_null(s, at);
        break;
    case 1:
        (void)sqlite3_bind_int64(s, at, feed_i64(f));
        break;
    case 2:
        (void)sqlite3_bind_int64(s, at, -(int64_t)feed_below(f, 300));
        break;
    case 3:
        (void)sqlite3_bind_double(s, at, (double)feed_i64(f) * 1.5);
        break;
    case 4:
        bytes = feed_bytes(f, &len);
        (void)sqlite3_bind_blob(s, at, bytes, (int)len, SQLITE_TRANSIENT);
        break;
    case 5:
        bytes = feed_bytes(f, &len);
        (void)sqlite3_bind_text(
            s, at, (const char *)bytes, (int)len, SQLITE_TRANSIENT);
        break;
    default:
        (void)sqlite3_bind_text(s, at,
            words[feed_below(f, sizeof(words) / sizeof(words[0]))], -1,
            SQLITE_STATIC);
    }
}

/* The name of the n-th column, modulo their number; "" of no table. */
static void column_of(sqlite3 *db, const char *table, uint32_t n, char name[64])
{
    sqlite3_stmt *s;
    char sql[160];
    int count;

    name[0] = '\0';
    (void)snprintf(sql, sizeof(sql), "SELECT * FROM %s", table);
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        return;
    count = sqlite3_column_count(s);
    (void)snprintf(name, 64, "%s", sqlite3_column_name(s, (int)n % count));
    (void)sqlite3_finalize(s);
}

/* It may fail: the tables defend themselves. */
static void change(sqlite3 *db, struct feed *f)
{
    const char *table = tables[feed_below(f, TABLES)];
    uint32_t how = feed_below(f, 8);
    char name[64];
    char sql[320];
    sqlite3_stmt *s;

    column_of(db, table, feed_byte(f), name);
    if (how == 0)
        (void)snprintf(sql, sizeof(sql),
            "DELETE FROM %s WHERE rowid %% 4 = ?2 %% 4 OR ?1 IS 7", table);
    else
        (void)snprintf(sql, sizeof(sql),
            "UPDATE %s SET \"%s\" = ?1 WHERE rowid IN (SELECT rowid FROM %s"
            " LIMIT 1 OFFSET ?2)",
            table, name, table);
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        return;
    (void)sqlite3_bind_int64(s, 2, feed_below(f, 32));
    bind_any(s, 1, f);
    (void)sqlite3_step(s);
    (void)sqlite3_finalize(s);
}

static const char unguard[] =
    "PRAGMA writable_schema = ON;"
    "DELETE FROM sqlite_schema WHERE type = 'trigger';";
/* ... and columns of any type */
static const char untype[] =
    "UPDATE sqlite_schema SET sql = replace(replace(replace(replace(replace("
    " sql, 'STRICT', ''), 'NOT NULL', ''), ' INTEGER', ' ANY'), ' TEXT',"
    " ' ANY'), ' BLOB', ' ANY') WHERE type = 'table' AND name <> 'outbox';";

static void write_rows(struct feed *f, int is_untyped)
{
    sqlite3 *db;

    write_file(sound, sound_len);
    MUST(sqlite3_open(gw, &db) == SQLITE_OK);
    run(db, "PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = OFF");
    run(db, unguard);
    if (is_untyped)
        run(db, untype);
    run(db, "PRAGMA writable_schema = RESET; PRAGMA writable_schema = ON");
    for (int i = 0; i < MOST_CHANGES && f->left > 0; i++)
        change(db, f);
    (void)sqlite3_close(db);
}

/* Our triggers are put back when a relay opens it; so only rows are left. */
static void write_bytes(struct feed *f)
{
    uint8_t *bytes = malloc(sound_len);
    size_t len = sound_len;

    MUST(bytes != NULL);
    memcpy(bytes, sound, sound_len);
    for (int i = 0; i < 4 * MOST_CHANGES && f->left > 2; i++) {
        size_t page = (size_t)feed_byte(f) * 4096 % sound_len;
        size_t at = page + feed_below(f, 4096);

        bytes[at < sound_len ? at : 0] = feed_byte(f);
    }
    if (feed_byte(f) % 8 == 1)
        len = (size_t)feed_byte(f) * sound_len / 256;
    write_file(bytes, len);
    free(bytes);
}

/* ---- all that reads it ------------------------------------------------- */

static int see_row(void *ctx, const struct postbag_row *row)
{
    (void)ctx;
    MUST(row->topic == NULL || strlen(row->topic) < MOST_BYTES);
    return 0;
}

static int see_command(void *ctx, const struct postbag_inbox_row *row)
{
    (void)ctx;
    MUST(row->id_len < MOST_BYTES);
    return 0;
}

static int see_dest(void *ctx, const char *name)
{
    (void)ctx;
    return strlen(name) > MOST_BYTES;
}

static int see_finding(
    void *ctx, const char *check, const char *dest, const char *text)
{
    (void)ctx;
    MUST(check[0] != '\0' && text[0] != '\0');
    return dest != NULL && strlen(dest) > MOST_BYTES;
}

static int see_sync(void *ctx)
{
    (void)ctx;
    return 0;
}

/* An error is an answer. */
#define MAY_FAIL(call) \
    do { \
        if ((call) != POSTBAG_OK) \
            MUST(postbag_admin_fault(a)->code != POSTBAG_OK); \
    } while (0)

static void look(struct postbag_admin *a)
{
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .finding = see_finding};
    const struct postbag_row_filter all = {.struct_size = sizeof(all)};
    const struct postbag_inbox_filter inbox = {.struct_size = sizeof(inbox)};
    struct postbag_database d = {.struct_size = sizeof(d)};
    struct postbag_status s = {.struct_size = sizeof(s)};

    MAY_FAIL(postbag_admin_database(a, &d));
    MAY_FAIL(postbag_admin_destinations(a, see_dest, NULL));
    MAY_FAIL(postbag_admin_status(a, "main", &s));
    MAY_FAIL(postbag_admin_list(a, &all, see_row, NULL));
    MAY_FAIL(postbag_admin_show(a, NULL, 2, NULL, see_row, NULL));
    MAY_FAIL(postbag_admin_inbox_list(a, &inbox, see_command, NULL));
    MAY_FAIL(postbag_admin_verify(a, &v));
}

static void repair(struct postbag_admin *a)
{
    const struct postbag_replay replay = {
        .struct_size = sizeof(replay), .from_seq = 1};
    const struct postbag_archive archive = {
        .struct_size = sizeof(archive), .row = see_row, .sync = see_sync};
    const struct postbag_inbox_choice one = {
        .struct_size = sizeof(one), .arrival = 2};

    MAY_FAIL(postbag_admin_requeue(a, NULL, 1, NULL, NULL));
    MAY_FAIL(postbag_admin_discard(a, NULL, 3, NULL));
    MAY_FAIL(postbag_admin_inbox_requeue(a, &one, NULL));
    MAY_FAIL(postbag_admin_replay(a, &replay, NULL, NULL));
    MAY_FAIL(postbag_admin_archive(a, &archive, NULL, NULL));
    MAY_FAIL(postbag_admin_purge(a, 1000, NULL));
}

static void administer(struct sim_port *sim, unsigned writable)
{
    const struct postbag_admin_config config = {.struct_size = sizeof(config),
        .db_path = gw,
        .port = &sim->port,
        .writable = writable,
        .busy_ms = 1};
    struct postbag_admin *a;
    struct postbag_fault why = {0};

    if (postbag_admin_open(&a, &config, &why) != POSTBAG_OK) {
        MUST(why.code != POSTBAG_OK && why.text[0] != '\0');
        return;
    }
    look(a);
    if (writable)
        repair(a);
    postbag_admin_close(a);
}

/* ---- a relay ----------------------------------------------------------- */

static void check_sent(void *ctx, const struct fake_sent *s)
{
    (void)ctx;
    MUST(s->topic[0] != '\0' && strpbrk(s->topic, "+#") == NULL);
    /* the record keeps 63 bytes of it */
    MUST(strlen(s->topic) == sizeof(s->topic) - 1 ||
         postbag__utf8_is_valid(s->topic, strlen(s->topic)));
}

static void step(struct engine *e, struct sim_port *sim)
{
    for (int i = 0; i < STEPS; i++) {
        int64_t next_us = 0;
        int64_t now_us = sim->mono_us;
        int err = postbag__engine_step(e, i == 0 ? POSTBAG_WOKEN : 0, &next_us);

        MUST(err <= POSTBAG_OK);
        if (next_us > now_us)
            sim_pass_ms(sim, (next_us - now_us) / 1000 % 100000 + 1);
    }
}

static void relay(struct sim_port *sim)
{
    struct fake_transport *out = fake_transport_new();
    const struct postbag_config options = {.struct_size = sizeof(options),
        .db_path = gw,
        .port = &sim->port,
        .run_dir = "none",
        .transport = &out->base};
    static struct engine e;
    static struct postbag_config config;
    struct consumers none = {0};
    struct postbag_fault why = {0};

    out->auto_settle = 1;
    out->on_send = check_sent;
    memset(&e, 0, sizeof(e));
    MUST(postbag__config_copy(&config, &options, &why) == POSTBAG_OK);
    if (postbag__engine_open(&e, &config, &none, &why) == POSTBAG_OK) {
        step(&e, sim);
        postbag__engine_shut(&e);
        postbag__engine_close(&e);
    } else {
        MUST(why.code != POSTBAG_OK && why.text[0] != '\0');
    }
    postbag__config_free(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_port sim;
    struct feed f;
    uint32_t way;

    if (sound == NULL)
        make_sound();
    sim_port_init(&sim);
    feed_begin(&f, data, size);
    way = feed_below(&f, 3);
    if (way == 2)
        write_bytes(&f);
    else
        write_rows(&f, way == 1);
    administer(&sim, 0);
    relay(&sim);
    administer(&sim, 1);
    feed_end(&f);
    return 0;
}
