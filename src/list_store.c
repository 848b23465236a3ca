/* SPDX-License-Identifier: MIT */
/*
 * Listing.  Five sources, each in the order of seq and each found by a seek:
 * the four lanes of the log, bounded by what their cursors say, and the held
 * table.  They are merged here.  Any thread, on its own connection.
 */
#include "list_store.h"

#include <string.h>

#include "error.h"
#include "schema.h"

enum { LANES = 4, HELD = LANES, SOURCES = LANES + 1 };

struct cursor {
    int64_t acked, sent_hi;
};

struct list {
    struct db *db;
    const struct postbag_row_filter *filter;
    int64_t first_seq;
    struct cursor cursors[LANES];
    struct stmt sources[SOURCES];
    int has_row[SOURCES];
};

static const char *const names[] = {"any", "pending", "sending", "published",
    "retry", "behind", "suspect", "dead", "passed", "dropped"};
enum { STATES = sizeof(names) / sizeof(names[0]) };

const char *postbag_row_state_name(int state)
{
    return state >= 0 && state < STATES ? names[state] : "?";
}

/* STATES, which has no name: there is none of that name. */
static int state_of(const char *name)
{
    int i = POSTBAG_ROW_PENDING;

    while (i < STATES && (name == NULL || strcmp(name, names[i]) != 0))
        i++;
    return i;
}

/* ---- columns, the same from either table ---- */

#define COLUMNS(t) \
    "SELECT " t ".seq, " t ".id, " t ".topic, " t ".key, " t ".priority, " t \
    ".created_ms, length(CAST(" t ".payload AS BLOB)), "
#define OF_LOG \
    POSTBAG__ROW_PUBLISHED_AT ", " POSTBAG__ROW_STATE \
                              ", " POSTBAG__ROW_ATTEMPTS ", NULL, NULL"
#define OF_HELD "NULL, h.state, h.attempts, h.error, h.dead_ms"
#define DETAILS(t) \
    ", " t ".payload, " t ".type, " t ".content_type, " t ".headers, " t \
    ".key_version, " t ".ttl_ms, " t ".retain, "
#define WHY_DROPPED \
    "CASE " POSTBAG__ROW_STATE \
    " WHEN 'dropped' THEN (SELECT l.reason FROM outbox_lost l" \
    "  WHERE l.dest = d.name AND " POSTBAG__LOST_NAMES_ROW " LIMIT 1) END"

/* The log with what a row's state takes; each lane is walked by seq. */
#define FROM_LOG \
    " FROM outbox_dest d CROSS JOIN outbox o CROSS JOIN outbox_cursor c" \
    "  ON c.dest = d.name AND c.lane = o.priority" \
    " LEFT JOIN outbox_held h ON h.dest = d.name AND h.seq = o.seq" \
    " WHERE d.name = ?1 AND h.seq IS NULL"

static void read_id(struct stmt *s, int col, struct postbag_id *out)
{
    size_t len;
    const void *bytes = postbag__col_bytes(s, col, &len);

    memset(out, 0, sizeof(*out));
    if (len == sizeof(out->b))
        memcpy(out->b, bytes, len);
}

static void read_row(struct stmt *s, struct postbag_row *row)
{
    memset(row, 0, sizeof(*row));
    row->seq = postbag__col_i64(s, 0);
    read_id(s, 1, &row->id);
    row->topic = postbag__col_string(s, 2);
    row->key = postbag__col_text(s, 3);
    row->priority = (unsigned)postbag__col_i64(s, 4);
    row->created_ms = postbag__col_i64(s, 5);
    row->payload_len = (size_t)postbag__col_i64(s, 6);
    row->published_ms = postbag__col_i64(s, 7);
    row->state = state_of(postbag__col_text(s, 8));
    row->attempts = postbag__col_i64(s, 9);
    row->error = postbag__col_text(s, 10);
    row->dead_ms = postbag__col_i64(s, 11);
}

/* ---- where each source begins and ends ---- */

static int read_first_seq(struct list *l)
{
    struct stmt s;
    int err = postbag__prepare(
        l->db, &s, "SELECT first_seq FROM outbox_dest WHERE name = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, l->filter->dest);
    err = postbag__row(&s);
    if (err == 1)
        l->first_seq = postbag__col_i64(&s, 0);
    if (err == POSTBAG_OK)
        err = postbag__fail(&l->db->fault, POSTBAG_ENOTFOUND,
            "there is no destination of that name");
    postbag__finalize(&s);
    return err == 1 ? POSTBAG_OK : err;
}

static int read_cursors(struct list *l)
{
    struct stmt s;
    int err = postbag__prepare(l->db, &s,
        "SELECT lane, acked, sent_hi FROM outbox_cursor WHERE dest = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, l->filter->dest);
    while ((err = postbag__row(&s)) == 1) {
        int64_t lane = postbag__col_i64(&s, 0);

        if (lane < 0 || lane >= LANES)
            continue;
        l->cursors[lane].acked = postbag__col_i64(&s, 1);
        l->cursors[lane].sent_hi = postbag__col_i64(&s, 2);
    }
    postbag__finalize(&s);
    return err;
}

static int is_of_log(int state)
{
    return state < POSTBAG_ROW_RETRY || state > POSTBAG_ROW_DEAD;
}

static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The rows of a lane in one state are among (*lo, *hi]. */
static void bounds(const struct list *l, int lane, int64_t *lo, int64_t *hi)
{
    const struct cursor *c = &l->cursors[lane];
    int state = l->filter->state;

    *lo = l->filter->after_seq;
    *hi = INT64_MAX;
    if (state != POSTBAG_ROW_PASSED)
        *lo = max_i64(*lo, l->first_seq - 1);
    if (state == POSTBAG_ROW_PENDING)
        *lo = max_i64(*lo, max_i64(c->sent_hi, c->acked));
    if (state == POSTBAG_ROW_SENDING) {
        *lo = max_i64(*lo, c->acked);
        *hi = c->sent_hi;
    }
    if (state == POSTBAG_ROW_PUBLISHED || state == POSTBAG_ROW_DROPPED)
        *hi = c->acked;
}

/* "priority > 0" must stand there literally, or the index of urgent rows is
 * not used. */
#define TOPIC(t) " AND (?4 IS NULL OR substr(" t ".topic, 1, length(?4)) = ?4)"
#define LANE(condition) \
    COLUMNS("o") \
    OF_LOG FROM_LOG " AND " condition " AND o.seq > ?2 AND o.seq <= ?3" TOPIC( \
        "o") " AND CASE WHEN ?6 IS NULL THEN NOT " POSTBAG__ROW_IS_PASSED \
             "  ELSE " POSTBAG__ROW_STATE " = ?6 END ORDER BY o.seq"

/* NULL: any. */
static const char *wanted(const struct list *l)
{
    return l->filter->state == POSTBAG_ROW_ANY ? NULL : names[l->filter->state];
}

static int prepare_lane(struct list *l, int lane)
{
    static const char bulk[] = LANE("o.priority = ?5");
    static const char urgent[] = LANE("o.priority = ?5 AND o.priority > 0");
    struct stmt *s = &l->sources[lane];
    int64_t lo;
    int64_t hi;
    int err = postbag__prepare(l->db, s, lane == 0 ? bulk : urgent);

    if (err != POSTBAG_OK)
        return err;
    bounds(l, lane, &lo, &hi);
    postbag__bind_text(s, 1, l->filter->dest);
    postbag__bind_i64(s, 2, lo);
    postbag__bind_i64(s, 3, hi);
    postbag__bind_text(s, 4, l->filter->topic_prefix);
    postbag__bind_i64(s, 5, lane);
    postbag__bind_text(s, 6, wanted(l));
    return POSTBAG_OK;
}

static int prepare_held(struct list *l)
{
    struct stmt *s = &l->sources[HELD];
    int err = postbag__prepare(l->db, s,
        COLUMNS("h") OF_HELD
        " FROM outbox_held h WHERE h.dest = ?1"
        " AND h.seq > ?2" TOPIC("h") " AND (?3 IS NULL OR h.state = ?3)"
                                     " ORDER BY h.seq");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(s, 1, l->filter->dest);
    postbag__bind_i64(s, 2, l->filter->after_seq);
    postbag__bind_text(s, 3, wanted(l));
    postbag__bind_text(s, 4, l->filter->topic_prefix);
    return POSTBAG_OK;
}

static int prepare_sources(struct list *l)
{
    int err = POSTBAG_OK;

    for (int i = 0;
         i < LANES && is_of_log(l->filter->state) && err == POSTBAG_OK; i++)
        err = prepare_lane(l, i);
    if (err == POSTBAG_OK &&
        (l->filter->state == POSTBAG_ROW_ANY || !is_of_log(l->filter->state)))
        err = prepare_held(l);
    return err;
}

/* ---- merge ---- */

static int advance(struct list *l, int i)
{
    int err = postbag__row(&l->sources[i]);

    l->has_row[i] = err == 1;
    return err == 1 ? POSTBAG_OK : err;
}

/* The source with the lowest seq; -1: all are at their end. */
static int lowest(struct list *l)
{
    int best = -1;

    for (int i = 0; i < SOURCES; i++)
        if (l->has_row[i] &&
            (best < 0 || postbag__col_i64(&l->sources[i], 0) <
                             postbag__col_i64(&l->sources[best], 0)))
            best = i;
    return best;
}

static int walk(struct list *l, postbag__each_row each, void *ctx)
{
    int64_t left = l->filter->limit > 0 ? l->filter->limit : INT64_MAX;
    struct postbag_row row;
    int err = POSTBAG_OK;
    int i;

    for (i = 0; i < SOURCES && err == POSTBAG_OK; i++)
        if (l->sources[i].handle != NULL)
            err = advance(l, i);
    while (err == POSTBAG_OK && left-- > 0 && (i = lowest(l)) >= 0) {
        read_row(&l->sources[i], &row);
        err = each(ctx, &row);
        if (err == 0)
            err = advance(l, i);
    }
    return err;
}

int postbag__list_rows(struct db *db, const struct postbag_row_filter *filter,
    postbag__each_row each, void *ctx)
{
    struct list l = {.db = db, .filter = filter};
    int err = read_first_seq(&l);

    if (err == POSTBAG_OK)
        err = read_cursors(&l);
    if (err == POSTBAG_OK)
        err = prepare_sources(&l);
    if (err == POSTBAG_OK)
        err = walk(&l, each, ctx);
    for (int i = 0; i < SOURCES; i++)
        if (l.sources[i].handle != NULL)
            postbag__finalize(&l.sources[i]);
    return err;
}

/* ---- one row ---- */

static int find_seq(struct db *db, const char *sql, const char *dest,
    const struct postbag_id *id, int64_t *seq)
{
    struct stmt s;
    int err = postbag__prepare(db, &s, sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_blob(&s, 1, id->b, sizeof(id->b));
    if (dest != NULL)
        postbag__bind_text(&s, 2, dest);
    err = postbag__row(&s);
    if (err == 1)
        *seq = postbag__col_i64(&s, 0);
    postbag__finalize(&s);
    return err;
}

/* 1: found. */
static int seq_of_id(
    struct db *db, const char *dest, const struct postbag_id *id, int64_t *seq)
{
    int err =
        find_seq(db, "SELECT seq FROM outbox_held WHERE id = ?1 AND dest = ?2",
            dest, id, seq);

    return err != 0 ? err
                    : find_seq(db,
                          "SELECT seq FROM outbox WHERE id = ?1"
                          " ORDER BY seq DESC LIMIT 1",
                          NULL, id, seq);
}

static void read_details(struct stmt *s, struct postbag_row *row)
{
    row->payload = postbag__col_bytes(s, 12, &row->payload_len);
    row->is_text = postbag__col_is_text(s, 12) != 0;
    row->type = postbag__col_text(s, 13);
    row->content_type = postbag__col_text(s, 14);
    row->headers = postbag__col_text(s, 15);
    row->key_version = postbag__col_i64(s, 16);
    row->ttl_ms = postbag__col_i64(s, 17);
    row->retain = postbag__col_i64(s, 18) != 0;
    row->reason = postbag__col_text(s, 19);
}

/* 0: not in this table. */
static int show_from(struct list *l, const char *sql, int64_t seq,
    postbag__each_row each, void *ctx)
{
    struct postbag_row row;
    struct stmt s;
    int result = POSTBAG_OK;
    int err = postbag__prepare(l->db, &s, sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, l->filter->dest);
    postbag__bind_i64(&s, 2, seq);
    err = postbag__row(&s);
    if (err == 1) {
        read_row(&s, &row);
        read_details(&s, &row);
        result = each(ctx, &row);
        err = result == 0 ? 1 : result;
    }
    postbag__finalize(&s);
    return err;
}

int postbag__show_row(struct db *db, const char *dest, int64_t seq,
    const struct postbag_id *id, postbag__each_row each, void *ctx)
{
    const struct postbag_row_filter filter = {.dest = dest};
    struct list l = {.db = db, .filter = &filter};
    int found = id == NULL;
    int err = read_first_seq(&l);

    if (err == POSTBAG_OK && id != NULL) {
        err = seq_of_id(db, dest, id, &seq);
        found = err == 1;
        err = found ? POSTBAG_OK : err;
    }
    if (err == POSTBAG_OK && found)
        err = show_from(&l,
            COLUMNS("h")
                OF_HELD DETAILS("h") "NULL FROM outbox_held h"
                                     " WHERE h.dest = ?1 AND h.seq = ?2",
            seq, each, ctx);
    if (err == POSTBAG_OK && found)
        err = show_from(&l,
            COLUMNS("o") OF_LOG DETAILS("o") WHY_DROPPED FROM_LOG
            " AND o.seq = ?2",
            seq, each, ctx);
    if (err == POSTBAG_OK)
        return postbag__fail(
            &db->fault, POSTBAG_ENOTFOUND, "there is no such message");
    return err == 1 ? POSTBAG_OK : err;
}

/* ---- inbox ---- */

static void read_inbox(struct stmt *s, struct postbag_inbox_row *row)
{
    row->arrival = postbag__col_i64(s, 0);
    row->consumer = postbag__col_string(s, 1);
    row->source = postbag__col_string(s, 2);
    row->id = postbag__col_bytes(s, 3, &row->id_len);
    row->id_is_text = postbag__col_is_text(s, 3) != 0;
    row->state = postbag__col_string(s, 4);
    row->topic = postbag__col_text(s, 5);
    row->key = postbag__col_text(s, 6);
    row->error = postbag__col_text(s, 7);
    row->attempts = postbag__col_i64(s, 8);
    row->seen = postbag__col_i64(s, 9);
    row->received_ms = postbag__col_i64(s, 10);
    row->processed_ms = postbag__col_i64(s, 11);
    row->payload_len = (size_t)postbag__col_i64(s, 12);
}

int postbag__list_inbox(struct db *db,
    const struct postbag_inbox_filter *filter,
    int (*each)(void *ctx, const struct postbag_inbox_row *row), void *ctx)
{
    struct postbag_inbox_row row;
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT arrival, consumer, source, id, state, topic, key, error,"
        " attempts, seen, received_ms, processed_ms,"
        " length(CAST(payload AS BLOB)) FROM inbox WHERE arrival > ?1"
        " AND (?2 IS NULL OR consumer = ?2) AND (?3 IS NULL OR state = ?3)"
        " ORDER BY arrival LIMIT ?4");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, filter->after_arrival);
    postbag__bind_text(&s, 2, filter->consumer);
    postbag__bind_text(&s, 3, filter->state);
    postbag__bind_i64(&s, 4, filter->limit > 0 ? filter->limit : -1);
    while ((err = postbag__row(&s)) == 1) {
        read_inbox(&s, &row);
        err = each(ctx, &row);
        if (err != 0)
            break;
    }
    postbag__finalize(&s);
    return err;
}
