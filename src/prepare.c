/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  Lay the files of a database out in advance: fill it, piece by
 * piece, so that the WAL becomes as long as a piece, and empty it again.  What
 * was filled stays in the file as free pages.  The caller's thread.
 */
#include "postbag/prepare.h"
#include "abi.h"
#include "admin.h"
#include "error.h"
#include "postbag/care.h"

/* Eight rows share a page, and each has so many of its own. */
enum { OVERFLOW_PAGES = 15, ROWS_A_PAGE = 8, FRAME_HEADER = 24 };
/* Pages beside those of the rows: the root, the first, the last row's. */
enum { MORE_PAGES = 32 };
enum { MIB = 1024 * 1024, WAL_BYTES = 4 * MIB };

struct layout {
    struct db db;
    int64_t page_size, piece; /* rows of a piece */
    int64_t rows;             /* of the next one */
    int64_t lacks, spare;     /* pages of the file */
    int64_t needed_mib;       /* on the file system, at first */
    int is_begun;
};

/* ?1: rows; ?2, of fill_sql alone: bytes of each. */
static const char fill_sql[] =
    "INSERT INTO outbox_filler WITH RECURSIVE n(i) AS"
    " (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)"
    " SELECT zeroblob(?2) FROM n";
static const char empty_sql[] = "DELETE FROM outbox_filler WHERE rowid IN"
                                " (SELECT rowid FROM outbox_filler LIMIT ?1)";

static int run_piece(struct layout *l, const char *sql, int64_t rows)
{
    struct stmt s;
    int frames;
    int done;
    int err = postbag__prepare(&l->db, &s, sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, rows);
    if (sql == fill_sql)
        postbag__bind_i64(&s, 2, OVERFLOW_PAGES * l->page_size);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err == POSTBAG_OK ? postbag__checkpoint(&l->db, &frames, &done)
                             : err;
}

/* Pages that the file lacks, and those that are free in it. */
static int look(struct layout *l, int64_t db_bytes)
{
    int64_t pages = 0;
    int err = postbag__query_i64(&l->db, "PRAGMA page_count", &pages);

    l->lacks = db_bytes / l->page_size - pages;
    return err == POSTBAG_OK
               ? postbag__query_i64(&l->db, "PRAGMA freelist_count", &l->spare)
               : err;
}

/* Pages that are still to be taken from the file system; no sum overflows. */
static int measure(struct layout *l, int64_t *out)
{
    int64_t piece = l->rows * OVERFLOW_PAGES + l->rows / ROWS_A_PAGE;
    int64_t wal = 0;
    int err = postbag__wal_bytes(&l->db, &wal);

    wal /= l->page_size + FRAME_HEADER;
    *out = l->lacks > piece - l->spare ? l->lacks : piece - l->spare;
    if (*out < 0)
        *out = 0;
    *out += MORE_PAGES + (wal < piece ? piece - wal : 0);
    if (!l->is_begun)
        l->needed_mib = *out / (MIB / l->page_size) + 1;
    return err;
}

/*
 * Before each piece: somebody else may take the room meanwhile, and a WAL that
 * does not fit into its file any more could not be emptied.  Where the port
 * cannot tell, it is found out on the way.
 */
static int check_room(struct layout *l, const struct postbag_admin_config *c)
{
    struct postbag_room room;
    int64_t needed;
    int err = measure(l, &needed);

    if (err != POSTBAG_OK || !POSTBAG__PORT_HAS(c->port, room) ||
        c->port->room(c->port->ctx, c->db_path, &room) != POSTBAG_OK ||
        needed <= room.free_bytes / l->page_size)
        return err;
    return postbag__fail(&l->db.fault, POSTBAG_ENOSPC,
        "nothing is laid out: %lld MiB are needed, %lld MiB are free on the"
        " file system",
        (long long)l->needed_mib, (long long)(room.free_bytes / MIB));
}

/* A whole piece at first, for the WAL, then no more than the file lacks. */
static int fill(
    struct layout *l, const struct postbag_admin_config *c, int64_t db_bytes)
{
    int err =
        postbag__exec(&l->db, "CREATE TABLE IF NOT EXISTS outbox_filler(x)");

    while (err == POSTBAG_OK) {
        err = run_piece(l, fill_sql, l->rows);
        if (err == POSTBAG_OK)
            err = look(l, db_bytes);
        if (err != POSTBAG_OK || l->lacks <= 0)
            break;
        l->rows = 1 + (l->lacks + l->spare) / OVERFLOW_PAGES;
        if (l->rows > l->piece)
            l->rows = l->piece;
        err = check_room(l, c);
    }
    return err;
}

static int empty(struct layout *l)
{
    int64_t left = 1;
    int err = POSTBAG_OK;

    while (err == POSTBAG_OK && left != 0) {
        err = run_piece(l, empty_sql, l->piece);
        if (err == POSTBAG_OK)
            err = postbag__query_i64(
                &l->db, "SELECT EXISTS (SELECT 1 FROM outbox_filler)", &left);
    }
    return err == POSTBAG_OK ? postbag__exec(&l->db, "DROP TABLE outbox_filler")
                             : err;
}

/* What is in the WAL is in the file before it is measured. */
static int begin(struct layout *l, const struct postbag_admin_config *c,
    int64_t db_bytes, int64_t wal_bytes)
{
    int frames;
    int done;
    int err = postbag__query_i64(&l->db, "PRAGMA page_size", &l->page_size);

    if (err == POSTBAG_OK)
        err = postbag__checkpoint(&l->db, &frames, &done);
    if (err == POSTBAG_OK)
        err = look(l, db_bytes);
    if (err != POSTBAG_OK)
        return err;
    l->piece = 1 + wal_bytes / (OVERFLOW_PAGES * (l->page_size + FRAME_HEADER));
    l->rows = l->piece;
    err = check_room(l, c);
    l->is_begun = err == POSTBAG_OK;
    return err;
}

static int lay_out(struct layout *l, const struct postbag_admin_config *c,
    int64_t db_bytes, int64_t wal_bytes)
{
    int err = begin(l, c, db_bytes, wal_bytes);
    struct postbag_fault first;

    if (err != POSTBAG_OK)
        return err;
    err = fill(l, c, db_bytes);
    if (err == POSTBAG_OK)
        return empty(l);
    first = l->db.fault; /* of what led here */
    (void)empty(l);      /* as far as it goes */
    return postbag__pass(&l->db.fault, &first);
}

static int give_back(const struct postbag_admin_config *c, struct layout *l)
{
    int err = postbag_admin_vacuum(c, NULL, NULL, NULL);

    return postbag__fail(&l->db.fault, POSTBAG_ENOSPC,
        "the file system is full: %lld MiB were needed; what was laid out %s",
        (long long)l->needed_mib,
        err == POSTBAG_OK
            ? "is given back"
            : "is still there: make room, then postbag vacuum gives it"
              " back");
}

/* Alone, so that nobody resets the WAL or reads from it meanwhile. */
static int lay_out_alone(const struct postbag_admin_config *c, int64_t db_bytes,
    int64_t wal_bytes, struct postbag_fault *why)
{
    struct layout l = {.is_begun = 0};
    int err =
        postbag__db_open(&l.db, c->db_path, DB_ALONE, DB_FULL, c->busy_ms);

    if (err == POSTBAG_OK)
        err = lay_out(&l, c, db_bytes, wal_bytes);
    if (err == POSTBAG_EBUSY)
        (void)postbag__fail(&l.db.fault, err,
            "somebody has the database open: stop the relay and the"
            " application first");
    postbag__db_close(&l.db);
    if (err == POSTBAG_ENOSPC && l.is_begun)
        err = give_back(c, &l);
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
