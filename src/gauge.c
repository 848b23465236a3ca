/* SPDX-License-Identifier: MIT */
/* See gauge.h. */
#include "gauge.h"

#include "error.h"
#include "limit_store.h"
#include "row.h"

/*
 * The first row behind the cursor of each lane that is its destination's, and
 * of these the oldest.  Of one lane at most 1000 rows are looked at: behind
 * them may stand more of other lanes, or for others.  "priority > 0" must stand
 * there literally, or the index of urgent rows is not used.
 */
#define FIRST(where) \
    "(SELECT seq FROM (SELECT seq, priority, dest FROM main.outbox" \
    "  WHERE seq > c.acked" where " ORDER BY seq LIMIT 1000)" \
    " WHERE priority = c.lane AND (dest IS NULL OR dest = c.dest) LIMIT 1)"

#define BULK FIRST("") " AS seq FROM main.outbox_cursor c WHERE lane = 0"
#define URGENT \
    FIRST(" AND priority > 0") " FROM main.outbox_cursor c WHERE lane > 0"

static const char oldest_sql[] =
    "SELECT created_ms, boot, mono_ms FROM main.outbox WHERE seq ="
    " (SELECT min(seq) FROM (SELECT " BULK " UNION ALL SELECT " URGENT "))";

int postbag__gauge_open(
    struct gauge *g, struct db *db, const struct postbag_port *port)
{
    int err = port->boot_id(port->ctx, g->boot);

    g->port = port;
    if (err != POSTBAG_OK)
        return postbag__fail(&db->fault, err, "the port has no boot id");
    err = postbag__pressure_prepare(db, &g->fills);
    if (err == POSTBAG_OK)
        err = postbag__prepare(db, &g->oldest, oldest_sql);
    if (err == POSTBAG_OK)
        err = postbag__room_open(&g->room, db, port);
    return err;
}

void postbag__gauge_close(struct gauge *g)
{
    postbag__finalize(&g->fills);
    postbag__finalize(&g->oldest);
    postbag__room_close(&g->room);
}

static int read_oldest(struct gauge *g, int64_t *age_out)
{
    struct moment now = postbag__moment_now(g->port, g->boot);
    int err = postbag__row(&g->oldest);

    *age_out = err == 1 ? postbag__row_age_ms(&g->oldest, 0, &now) : 0;
    if (err < 0)
        return err;
    postbag__reset(&g->oldest);
    return POSTBAG_OK;
}

int postbag__gauge_read(struct gauge *g, struct postbag_pressure *out)
{
    int err = postbag__pressure_read(&g->fills, out);

    if (err == POSTBAG_OK)
        err = read_oldest(g, &out->oldest_age_ms);
    return err == POSTBAG_OK ? postbag__room_fill(&g->room, out) : err;
}
