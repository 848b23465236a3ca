/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  Lay the files of a database out in advance: fill it, piece by
 * piece, so that the WAL becomes as long as a piece, and empty it again.  What
 * was filled stays in the file as free pages.  The caller's thread.
 */
#include "postbag/prepare.h"
#include "admin.h"
#include "error.h"

enum { WAL_BYTES = 4 * 1024 * 1024, ROW_PAGES = 16, FRAME_HEADER = 24 };

struct layout {
    struct db db;
    int64_t page_size, rows; /* of a piece */
};

/* ?1: rows of a piece; ?2, of fill_sql alone: bytes of each. */
static const char fill_sql[] =
    "INSERT INTO outbox_filler WITH RECURSIVE n(i) AS"
    " (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)"
    " SELECT zeroblob(?2) FROM n";
static const char empty_sql[] = "DELETE FROM outbox_filler WHERE rowid IN"
                                " (SELECT rowid FROM outbox_filler LIMIT ?1)";

static int run_piece(struct layout *l, const char *sql)
{
    struct stmt s;
    int frames;
    int done;
    int err = postbag__prepare(&l->db, &s, sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, l->rows);
    if (sql == fill_sql)
        postbag__bind_i64(&s, 2, (ROW_PAGES - 1) * l->page_size);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err == POSTBAG_OK ? postbag__checkpoint(&l->db, &frames, &done)
                             : err;
}

static int fill(struct layout *l, int64_t db_bytes)
{
    int64_t pages = 0;
    int err =
        postbag__exec(&l->db, "CREATE TABLE IF NOT EXISTS outbox_filler(x)");

    do {
        if (err == POSTBAG_OK)
            err = run_piece(l, fill_sql);
        if (err == POSTBAG_OK)
            err = postbag__query_i64(&l->db, "PRAGMA page_count", &pages);
    } while (err == POSTBAG_OK && pages * l->page_size < db_bytes);
    return err;
}

static int empty(struct layout *l)
{
    int64_t left = 1;
    int err = POSTBAG_OK;

    while (err == POSTBAG_OK && left != 0) {
        err = run_piece(l, empty_sql);
        if (err == POSTBAG_OK)
            err = postbag__query_i64(
                &l->db, "SELECT EXISTS (SELECT 1 FROM outbox_filler)", &left);
    }
    return err == POSTBAG_OK ? postbag__exec(&l->db, "DROP TABLE outbox_filler")
                             : err;
}

static int lay_out(struct layout *l, int64_t db_bytes, int64_t wal_bytes)
{
    int err = postbag__query_i64(&l->db, "PRAGMA page_size", &l->page_size);
    int emptied;

    if (err != POSTBAG_OK)
        return err;
    l->rows = 1 + wal_bytes / (ROW_PAGES * (l->page_size + FRAME_HEADER));
    err = fill(l, db_bytes);
    emptied = empty(l); /* also after a failure, as far as it goes */
    return err == POSTBAG_OK ? emptied : err;
}

/* Alone, so that nobody resets the WAL or reads from it meanwhile. */
static int lay_out_alone(const struct postbag_admin_config *c, int64_t db_bytes,
    int64_t wal_bytes, struct postbag_fault *why)
{
    struct layout l;
    int err =
        postbag__db_open(&l.db, c->db_path, DB_ALONE, DB_FULL, c->busy_ms);

    if (err == POSTBAG_OK)
        err = lay_out(&l, db_bytes, wal_bytes);
    if (err == POSTBAG_EBUSY)
        (void)postbag__fail(&l.db.fault, err,
            "somebody has the database open: a relay, the application");
    postbag__db_close(&l.db);
    return err == POSTBAG_OK ? err : postbag__pass(why, &l.db.fault);
}

int postbag_prepare(const struct postbag_admin_config *config, int64_t db_bytes,
    int64_t wal_bytes, struct postbag_fault *why)
{
    struct postbag_admin_config c;
    struct db shm;
    int err = postbag__admin_adopt(&c, config, why);

    if (err != POSTBAG_OK)
        return err;
    if (db_bytes < 0 || wal_bytes < 0)
        return postbag__fail(
            why, POSTBAG_EINVAL, "prepare: a size is negative");
    err = postbag_admin_init(&c, 0, why);
    if (err == POSTBAG_OK)
        err = lay_out_alone(
            &c, db_bytes, wal_bytes == 0 ? WAL_BYTES : wal_bytes, why);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__db_open_backed(
        &shm, c.port, c.db_path, DB_WRITE, DB_FULL, c.busy_ms);
    postbag__db_close(&shm);
    return err == POSTBAG_OK ? err : postbag__pass(why, &shm.fault);
}
