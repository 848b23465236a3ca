/* SPDX-License-Identifier: MIT */
/*
 * Power cuts while Postbag's tables are made, in a new database and in that of
 * an application.  Whatever is left: all of the tables or none, what the
 * application had is there, and making them once more ends well.
 */
#include "power_cut.h"

#include <sqlite3.h>

#include "postbag/admin.h"
#include "tempdb.h"

struct schema_cut {
    struct power_cut *cut;
    struct sim_port port;
    int tables;      /* that are ours when all is done */
    int is_promised; /* they are on disk */
    int rows;        /* of the application; 0: no database yet */
};

/* ---- what is left is looked at ----------------------------------------- */

static const char count_ours[] =
    "SELECT count(*) FROM sqlite_schema"
    " WHERE tbl_name <> 'state' AND name NOT LIKE 'sqlite%'";

static int make_tables(struct schema_cut *s, const struct memdisk *disk)
{
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = power_cut_file(disk),
        .port = &s->port.port};
    char path[128];
    struct postbag_admin_config own = c;

    (void)snprintf(path, sizeof(path), "%s", c.db_path);
    own.db_path = path;
    return postbag_admin_init(&own, 0, NULL);
}

static enum finding look_at(struct schema_cut *s, struct sqlite3 *db)
{
    int is_bad = 0;
    int64_t ours;
    int64_t rows = 0;

    if (!power_cut_is_sound(db))
        return DAMAGED;
    ours = power_cut_get(db, &is_bad, count_ours);
    if (s->rows > 0)
        rows = power_cut_get(db, &is_bad, "SELECT count(*) FROM state");
    if (is_bad)
        return DAMAGED;
    if (rows != s->rows || (s->is_promised && ours == 0))
        return LOST;
    return ours == 0 || ours == s->tables ? SOUND : APART;
}

static enum finding look(void *ctx, unsigned depth)
{
    struct schema_cut *s = ctx;
    char path[128];
    enum finding found = DAMAGED;
    sqlite3 *db;

    (void)snprintf(path, sizeof(path), "%s", power_cut_file(s->cut->left));
    if (sqlite3_open(path, &db) == SQLITE_OK)
        found = look_at(s, db);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    if (found != SOUND || (depth & (CUT_GO_ON | CUT_VERIFY)) == 0)
        return found;
    if (make_tables(s, s->cut->left) != POSTBAG_OK)
        return FORGOTTEN;
    return power_cut_is_verified(path) ? SOUND : DAMAGED;
}

/* ---- scenes ------------------------------------------------------------ */

/* So many there are of tables, indices, triggers and views. */
static int count_tables(struct schema_cut *s)
{
    struct memdisk *other = memdisk_new(1);
    sqlite3 *db;
    int count;

    assert_ok(make_tables(s, other));
    assert_int_equal(sqlite3_open(power_cut_file(other), &db), SQLITE_OK);
    count = (int)sql_get(db, "%s", count_ours);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    memdisk_free(other);
    return count;
}

static sqlite3 *connect(const struct power_cut *c)
{
    sqlite3 *app;

    assert_int_equal(sqlite3_open(power_cut_file(c->disk), &app), SQLITE_OK);
    return app;
}

static void begin(struct schema_cut *s, struct power_cut *c)
{
    memset(s, 0, sizeof(*s));
    s->cut = c;
    c->look = look;
    c->ctx = s;
    power_cut_port(&s->port, 1);
    s->tables = count_tables(s);
    power_cut_begin(c);
}

/* The application's database, with rows that it has committed. */
static void make_database(struct schema_cut *s, const char *journal_mode)
{
    sqlite3 *app = connect(s->cut);

    s->rows = 40;
    sql_run(app,
        "PRAGMA page_size=%u; PRAGMA journal_mode=%s;"
        "CREATE TABLE state(n INTEGER PRIMARY KEY, text);"
        "INSERT INTO state(text) WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        " SELECT i + 1 FROM n WHERE i < %d) SELECT hex(zeroblob(100)) FROM n",
        s->cut->page_size, journal_mode, s->rows);
    assert_int_equal(sqlite3_close(app), SQLITE_OK);
}

static void ensure(struct schema_cut *s)
{
    assert_ok(make_tables(s, s->cut->disk));
    s->is_promised = 1;
    s->cut->promises++;
    /* nothing happens to one that is ready */
    assert_ok(make_tables(s, s->cut->disk));
}

/* Into nothing or a database with a journal, and one with a WAL in turn.  That
 * one the application has open all the time, so that nobody who closes it
 * copies the WAL to the file. */
static void migrate(struct power_cut *c)
{
    static const char *const modes[] = {NULL, "DELETE", "TRUNCATE"};
    const int is_wal = c->seed % 2 == 1;
    const char *mode = is_wal ? "WAL" : modes[c->seed / 2 % COUNT(modes)];
    struct schema_cut s;
    sqlite3 *app = NULL;

    begin(&s, c);
    if (mode != NULL)
        make_database(&s, mode);
    power_cut_watch(c);
    if (is_wal) {
        app = connect(c);
        assert_int_equal(sql_get(app, "SELECT count(*) FROM state"), s.rows);
    }
    ensure(&s);
    power_cut_rest(c);
    assert_int_equal(sqlite3_close(app), SQLITE_OK);
    power_cut_end(c);
}

static void test_power_cut_leaves_all_of_the_tables_or_none(void **state)
{
    (void)state;
    power_cut_prove("F12_migrate", migrate, 10);
}

/* ---- what must be noticed ---------------------------------------------- */

static int run_each(void *ctx, int count, char **values, char **names)
{
    (void)count;
    (void)names;
    return sqlite3_exec(ctx, values[0], NULL, NULL, NULL) == SQLITE_OK ? 0 : 1;
}

/* The same tables, each in a transaction of its own. */
static void one_by_one(struct power_cut *c)
{
    struct memdisk *other = memdisk_new(1);
    struct schema_cut s;
    sqlite3 *from;
    sqlite3 *to;

    begin(&s, c);
    assert_ok(make_tables(&s, other));
    assert_int_equal(sqlite3_open(power_cut_file(other), &from), SQLITE_OK);
    make_database(&s, "WAL");
    power_cut_watch(c);
    to = connect(c);
    assert_int_equal(sqlite3_exec(from,
                         "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"
                         " AND name NOT LIKE 'sqlite%'",
                         run_each, to, NULL),
        SQLITE_OK);
    power_cut_rest(c);
    assert_int_equal(sqlite3_close(to), SQLITE_OK);
    assert_int_equal(sqlite3_close(from), SQLITE_OK);
    power_cut_end(c);
    memdisk_free(other);
}

static void test_power_cut_between_tables_is_noticed(void **state)
{
    (void)state;
    power_cut_control("F12_migrate", "no_transaction", one_by_one, APART);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_cut_leaves_all_of_the_tables_or_none),
        cmocka_unit_test(test_power_cut_between_tables_is_noticed),
    };

    power_cut_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
