/* SPDX-License-Identifier: MIT */
/*
 * A walk goes from the first row up, and another from the last one down, each
 * to the first page that it cannot read.  What is between them is tried range
 * by range, each that fails in two halves, the wide ones first: so each row is
 * found that a seek can reach.
 */
#include "salvage_table.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "mem.h"

/* GUESS: so many keys are looked for beyond the last one that is known.
 * SEEKS: so many ranges are tried; then the rest is given up. */
enum { GUESS = 1 << 16, SEEKS = 1 << 18 };

struct range {
    int64_t lo, hi;
};

struct walk {
    struct salvage_table *t;
    struct stmt up, down, one, write, is_there, take_back;
    int columns;
    int64_t lowest, highest; /* keys that were read */
    int64_t guess;           /* up to here it is looked, not known to go */
    int is_out_of_order;
    struct range *list; /* to be tried, from `at` on; then what is lost */
    size_t at, count, size;
    size_t lost;
};

/* ---- the statements ---- */

/* %1: the columns, %2: as many question marks; of a table without rowids %3 is
 * its key, downwards. */
#define COLUMNS \
    "WITH c AS (SELECT group_concat(printf('\"%w\"', name)) AS names," \
    " group_concat('?') AS marks, count(*) AS n" \
    " FROM pragma_table_xinfo(?1) WHERE hidden = 0), k AS (SELECT" \
    " group_concat(printf('\"%w\" DESC', name)) AS names FROM (SELECT name" \
    " FROM pragma_table_xinfo(?1) WHERE pk > 0 ORDER BY pk)) "

static const char by_rowid[] = COLUMNS
    "SELECT n + 1,"
    " printf('SELECT _rowid_, %s FROM main.\"%w\" WHERE _rowid_ >= ?1"
    "  ORDER BY _rowid_', c.names, ?1),"
    " printf('SELECT _rowid_, %s FROM main.\"%w\" WHERE _rowid_ <= ?1"
    "  ORDER BY _rowid_ DESC', c.names, ?1),"
    " printf('INSERT OR IGNORE INTO main.\"%w\"(_rowid_, %s) VALUES (?, %s)',"
    "  ?1, c.names, marks),"
    " printf('DELETE FROM main.\"%w\" WHERE _rowid_ = ?1', ?1),"
    " printf('SELECT 1 FROM main.\"%w\" WHERE _rowid_ = ?1', ?1),"
    " printf('SELECT _rowid_, %s FROM main.\"%w\" WHERE _rowid_ = ?1',"
    "  c.names, ?1) FROM c, k";

static const char by_key[] = COLUMNS
    "SELECT n, printf('SELECT %s FROM main.\"%w\"', c.names, ?1),"
    " printf('SELECT %s FROM main.\"%w\" ORDER BY %s', c.names, ?1, k.names),"
    " printf('INSERT OR IGNORE INTO main.\"%w\"(%s) VALUES (%s)', ?1, c.names,"
    "  marks), 'SELECT 1', 'SELECT 1', 'SELECT 1' FROM c, k";

/* The damaged side is asked for what the sound one has. */
static int prepare_from(struct walk *w, struct stmt *plan)
{
    struct salvage_table *t = w->t;
    int err = postbag__prepare(t->from, &w->up, postbag__col_text(plan, 1));

    if (err == POSTBAG_OK)
        err = postbag__prepare(t->from, &w->down, postbag__col_text(plan, 2));
    if (err == POSTBAG_OK)
        err = postbag__prepare(t->from, &w->one, postbag__col_text(plan, 6));
    if (err == POSTBAG_OK || err == POSTBAG_ENOMEM)
        return err;
    t->is_unread = 1;
    t->fault = t->from->fault;
    return POSTBAG_OK;
}

static int prepare(struct walk *w, const char *how)
{
    struct salvage_table *t = w->t;
    struct stmt plan;
    int err = postbag__prepare(t->to, &plan, how);

    if (err == POSTBAG_OK) {
        postbag__bind_text(&plan, 1, t->name);
        err = postbag__row(&plan);
    }
    if (err == 1) {
        w->columns = (int)postbag__col_i64(&plan, 0);
        err = prepare_from(w, &plan);
    }
    if (err == POSTBAG_OK)
        err = postbag__prepare(t->to, &w->write, postbag__col_text(&plan, 3));
    if (err == POSTBAG_OK)
        err =
            postbag__prepare(t->to, &w->take_back, postbag__col_text(&plan, 4));
    if (err == POSTBAG_OK)
        err =
            postbag__prepare(t->to, &w->is_there, postbag__col_text(&plan, 5));
    postbag__finalize(&plan);
    return err;
}

static int has_rowids(struct salvage_table *t, int *out)
{
    struct stmt s;
    int err = postbag__prepare(t->to, &s,
        "SELECT NOT wr FROM pragma_table_list(?1) WHERE schema = 'main'");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, t->name);
    err = postbag__row(&s);
    *out = err == 1 && postbag__col_i64(&s, 0) != 0;
    postbag__finalize(&s);
    return err < 0 ? err : POSTBAG_OK;
}

/* ---- one row ---- */

/* An error of reading that the next row need not have.  EIO, too: a block of
 * the storage may be gone. */
static int is_damage(int err)
{
    return err == POSTBAG_ECORRUPT || err == POSTBAG_EIO ||
           err == POSTBAG_ETOOBIG || err == POSTBAG_EINVAL ||
           err == POSTBAG_ESCHEMA;
}

static int note_unread(struct salvage_table *t, int err)
{
    if (!is_damage(err))
        return postbag__pass(&t->to->fault, &t->from->fault);
    if (t->fault.code == POSTBAG_OK)
        t->fault = t->from->fault;
    return POSTBAG_ECORRUPT;
}

/* 1: it is in its table now; 0: it cannot be there (its types, a key that is
 * there already). */
static int write_row(struct walk *w, struct stmt *from)
{
    struct salvage_table *t = w->t;
    int err;

    for (int i = 0; i < w->columns; i++)
        postbag__bind_column(&w->write, i + 1, from, i);
    err = postbag__run(&w->write);
    if (err == POSTBAG_OK && postbag__changes(t->to) == 1) {
        t->rows++;
        return 1;
    }
    if (err == POSTBAG_OK || err == POSTBAG_EINVAL || err == POSTBAG_EFULL ||
        err == POSTBAG_ETOOBIG) {
        t->damaged++;
        return 0;
    }
    return err;
}

static int take_back(struct walk *w, int64_t key)
{
    int err;

    postbag__bind_i64(&w->take_back, 1, key);
    err = postbag__run(&w->take_back);
    if (err == POSTBAG_OK && postbag__changes(w->t->to) == 1) {
        w->t->rows--;
        w->t->damaged++;
    }
    return err;
}

/* ---- a walk along the rowids ---- */

struct stretch {
    int64_t last; /* key of the last row that was read */
    int taken;
    int beyond; /* in a row, behind the end */
};

/* It was read, but cannot be in its table: it counts as damaged, and is no
 * hole.  A walk from the other side may meet it once more.  Key 0 says
 * nothing. */
static int lose_row(struct walk *w, int64_t key)
{
    struct salvage_table *t = w->t;

    return t->lost == NULL || key == 0 ? POSTBAG_OK
                                       : t->lost(t->ctx, t->name, key, key);
}

/* Two rows of one key: a key was damaged, or a page stands where another ought
 * to.  Right is what a seek finds. */
static int put_right(struct walk *w, int64_t key)
{
    int64_t damaged = w->t->damaged;
    int err;

    postbag__bind_i64(&w->one, 1, key);
    err = postbag__row(&w->one);
    if (err != 1)
        return err < 0 && !is_damage(err) ? note_unread(w->t, err) : POSTBAG_OK;
    err = take_back(w, key);
    w->t->damaged = damaged;
    if (err == POSTBAG_OK)
        err = write_row(w, &w->one);
    postbag__reset(&w->one);
    if (err == 0)
        return lose_row(w, key);
    return err < 0 ? err : POSTBAG_OK;
}

static int take_row(struct walk *w, struct stmt *s, int down, struct stretch *x)
{
    int64_t key = postbag__col_i64(s, 0);
    int64_t damaged = w->t->damaged;
    int err;

    if (x->taken > 0 && (down ? key >= x->last : key <= x->last))
        w->is_out_of_order = 1;
    x->last = key;
    x->taken = 1;
    if (key < w->lowest)
        w->lowest = key;
    if (key > w->highest)
        w->highest = key;
    err = write_row(w, s);
    if (err != 0)
        return err < 0 ? err : POSTBAG_OK;
    postbag__bind_i64(&w->is_there, 1, key);
    err = postbag__row(&w->is_there);
    postbag__reset(&w->is_there);
    if (err != 1)
        return err < 0 ? err : lose_row(w, key);
    w->t->damaged = damaged;
    return put_right(w, key);
}

/* Two behind the end: one alone may be a damaged key. */
static int is_over(struct stmt *s, int down, int64_t end, struct stretch *x)
{
    int64_t key = postbag__col_i64(s, 0);

    x->beyond = (down ? key < end : key > end) ? x->beyond + 1 : 0;
    return x->beyond;
}

/* From `at` to `end`; ECORRUPT: behind x->last nothing more can be read. */
static int walk(
    struct walk *w, int down, int64_t at, int64_t end, struct stretch *x)
{
    struct stmt *s = down ? &w->down : &w->up;
    int err = POSTBAG_OK;
    int got;

    memset(x, 0, sizeof(*x));
    postbag__bind_i64(s, 1, at);
    while ((got = postbag__row(s)) == 1) {
        int beyond = is_over(s, down, end, x);

        if (beyond == 0)
            err = take_row(w, s, down, x);
        if (err != POSTBAG_OK || beyond > 1)
            break;
    }
    if (got < 0)
        err = note_unread(w->t, got);
    postbag__reset(s);
    return err;
}

/* Where it stopped a seek stops, too; else the last key was a wrong one, and
 * says nothing of where that is. */
static void doubt(struct walk *w, int down, const struct stretch *x)
{
    struct stmt *s = down ? &w->down : &w->up;

    if (x->taken == 0 || x->last == (down ? INT64_MIN : INT64_MAX))
        return;
    postbag__bind_i64(s, 1, down ? x->last - 1 : x->last + 1);
    if (postbag__row(s) >= 0)
        w->is_out_of_order = 1;
    postbag__reset(s);
}

/* ---- what no walk reached ---- */

static int push(struct walk *w, int64_t lo, int64_t hi)
{
    if (lo > hi)
        return POSTBAG_OK;
    if (w->count == w->size) {
        size_t size = w->size == 0 ? 1024 : 2 * w->size;
        struct range *more = postbag__resize(w->list, size * sizeof(*more));

        if (more == NULL)
            return postbag__fail(&w->t->to->fault, POSTBAG_ENOMEM,
                "no memory for what cannot be read");
        w->list = more;
        w->size = size;
    }
    w->list[w->count].lo = lo;
    w->list[w->count].hi = hi;
    w->count++;
    return POSTBAG_OK;
}

/* In the room of those that were tried. */
static void lose(struct walk *w, int64_t lo, int64_t hi)
{
    w->list[w->lost].lo = lo;
    w->list[w->lost].hi = hi;
    w->lost++;
}

static int try_range(struct walk *w)
{
    struct range r = w->list[w->at++];
    struct stretch x;
    int64_t mid;
    int err = walk(w, 0, r.lo, r.hi, &x);

    if (err != POSTBAG_ECORRUPT)
        return err;
    if (x.taken && x.last >= r.hi)
        return POSTBAG_OK;
    if (x.taken && x.last >= r.lo)
        r.lo = x.last + 1;
    if (r.lo == r.hi) {
        lose(w, r.lo, r.hi);
        return POSTBAG_OK;
    }
    mid = r.lo + (int64_t)(((uint64_t)r.hi - (uint64_t)r.lo) / 2);
    err = push(w, r.lo, mid);
    return err == POSTBAG_OK ? push(w, mid + 1, r.hi) : err;
}

static int by_lo(const void *a, const void *b)
{
    const struct range *x = a;
    const struct range *y = b;

    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static int tell(struct salvage_table *t, int64_t lo, int64_t hi)
{
    t->holes++;
    return t->lost == NULL ? POSTBAG_OK : t->lost(t->ctx, t->name, lo, hi);
}

static int tell_lost(struct walk *w)
{
    int err = POSTBAG_OK;
    size_t next;

    if (w->lost > 1)
        qsort(w->list, w->lost, sizeof(*w->list), by_lo);
    for (size_t i = 0; i < w->lost && err == POSTBAG_OK; i = next) {
        for (next = i + 1;
             next < w->lost && w->list[next].lo == w->list[next - 1].hi + 1;
             next++)
            ;
        err = tell(w->t, w->list[i].lo,
            w->list[next - 1].hi == w->guess ? INT64_MAX
                                             : w->list[next - 1].hi);
    }
    return err;
}

static int search(struct walk *w, int64_t lo, int64_t hi)
{
    int err = push(w, lo, hi);

    while (err == POSTBAG_OK && w->at < w->count && w->at < SEEKS)
        err = try_range(w);
    for (; err == POSTBAG_OK && w->at < w->count; w->at++)
        lose(w, w->list[w->at].lo, w->list[w->at].hi);
    return err == POSTBAG_OK ? tell_lost(w) : err;
}

/* Where one end is not known, keys are taken to be dense, and to begin at 1. */
static int64_t first_of(const struct stretch *up, const struct stretch *down)
{
    if (up->taken)
        return up->last;
    if (!down->taken || down->last <= GUESS)
        return !down->taken || down->last > 0 ? 1 : INT64_MIN;
    return down->last - GUESS;
}

static int64_t last_of(const struct stretch *down, int64_t lo)
{
    if (down->taken)
        return down->last;
    return lo > INT64_MAX - GUESS ? INT64_MAX : lo + GUESS;
}

static int search_between(
    struct walk *w, const struct stretch *up, const struct stretch *down)
{
    int64_t lo = first_of(up, down);
    int64_t hi = last_of(down, lo);

    w->guess = down->taken ? INT64_MIN : hi;
    doubt(w, 0, up);
    doubt(w, 1, down);
    if (!w->is_out_of_order && lo < hi)
        return search(w, lo + up->taken, hi - down->taken);
    if (w->lowest < lo)
        lo = w->lowest;
    return search(w, lo, w->highest > hi ? w->highest : hi);
}

static int copy_by_rowid(struct walk *w)
{
    struct stretch up;
    struct stretch down = {0};
    int err = walk(w, 0, INT64_MIN, INT64_MAX, &up);

    if (err != POSTBAG_ECORRUPT)
        return err;
    err = walk(w, 1, INT64_MAX, INT64_MIN, &down);
    return err == POSTBAG_ECORRUPT ? search_between(w, &up, &down) : err;
}

/* ---- a table without rowids ---- */

/* Downwards to what is there already. */
static int walk_keys(struct walk *w, struct stmt *s, int down)
{
    int64_t damaged = w->t->damaged;
    int err = POSTBAG_OK;
    int got;

    while ((got = postbag__row(s)) == 1) {
        err = write_row(w, s);
        if (err < 0 || (err == 0 && down))
            break;
    }
    if (down)
        w->t->damaged = damaged;
    if (got < 0)
        err = note_unread(w->t, got);
    postbag__reset(s);
    return err < 0 ? err : POSTBAG_OK;
}

static int copy_by_key(struct walk *w)
{
    int err = walk_keys(w, &w->up, 0);

    if (err != POSTBAG_ECORRUPT)
        return err;
    err = walk_keys(w, &w->down, 1);
    if (err != POSTBAG_OK && err != POSTBAG_ECORRUPT)
        return err;
    return tell(w->t, 0, 0);
}

int postbag__salvage_table(struct salvage_table *t)
{
    struct walk w = {.t = t, .lowest = INT64_MAX, .highest = INT64_MIN};
    int is_by_rowid = 0;
    int err;

    memset(&t->to->fault, 0, sizeof(t->to->fault));
    err = has_rowids(t, &is_by_rowid);
    if (err == POSTBAG_OK)
        err = prepare(&w, is_by_rowid ? by_rowid : by_key);
    if (err == POSTBAG_OK && t->is_unread)
        err = tell(t, 0, 0);
    else if (err == POSTBAG_OK)
        err = is_by_rowid ? copy_by_rowid(&w) : copy_by_key(&w);
    postbag__finalize(&w.up);
    postbag__finalize(&w.down);
    postbag__finalize(&w.one);
    postbag__finalize(&w.write);
    postbag__finalize(&w.is_there);
    postbag__finalize(&w.take_back);
    postbag__free(w.list);
    return err;
}
