/* SPDX-License-Identifier: MIT */
/* Columns to struct row.  Engine thread only. */
#include "row.h"

#include <string.h>

#include "error.h"

static ptrdiff_t add_column(
    struct stmt *s, int col, struct arena *arena, size_t *len_out)
{
    size_t len;
    const void *bytes = postbag__col_bytes(s, col, &len);

    if (len_out != NULL)
        *len_out = len;
    if (bytes == NULL && !postbag__col_is_null(s, col))
        bytes = ""; /* SQLite's pointer for an empty blob is NULL */
    return postbag__arena_add(arena, bytes, len);
}

/*
 * SQLite does not look: a damaged page, or one of another table, has cells that
 * it reads as rows of this one.  What STRICT and the triggers would have
 * refused was never put.
 */
static const char *find_damage(struct stmt *s, int first)
{
    static const struct {
        const char *name, *types;
    } columns[ROW_COLUMN_COUNT] = {{"id", "b"}, {"topic", "t"},
        {"payload", "tb"}, {"key", "tn"}, {"key_version", "in"}, {"type", "tn"},
        {"content_type", "tn"}, {"headers", "tn"}, {"priority", "i"},
        {"retain", "i"}, {"ttl_ms", "in"}, {"created_ms", "i"}, {"boot", "bn"},
        {"mono_ms", "in"}, {"coalesce", "tn"}};

    for (int i = 0; i < ROW_COLUMN_COUNT; i++)
        if (!postbag__col_is(s, first + i, columns[i].types))
            return columns[i].name;
    return NULL;
}

static int read_id(struct stmt *s, int col, struct postbag_id *out)
{
    size_t len;
    const void *bytes = postbag__col_bytes(s, col, &len);

    if (bytes == NULL || len != sizeof(out->b))
        return POSTBAG_ECORRUPT;
    memcpy(out->b, bytes, len);
    return POSTBAG_OK;
}

static int is_priority(int64_t n)
{
    return n >= 0 && n <= 3;
}

/* Before anything of it is believed. */
static int check(struct stmt *s, int first, struct row *out)
{
    const char *wrong = find_damage(s, first);

    if (wrong == NULL && read_id(s, first, &out->id) != POSTBAG_OK)
        wrong = "id";
    if (wrong == NULL && !is_priority(postbag__col_i64(s, first + 8)))
        wrong = "priority";
    if (wrong == NULL)
        return POSTBAG_OK;
    out->is_damaged = 1;
    return postbag__fail(&s->db->fault, POSTBAG_ECORRUPT,
        "a row is damaged: its %s cannot be", wrong);
}

static void read_boot(struct stmt *s, int col, uint8_t out[16])
{
    size_t len;
    const void *bytes = postbag__col_bytes(s, col, &len);

    if (bytes != NULL && len == 16)
        memcpy(out, bytes, 16);
}

void postbag__row_read_age(struct stmt *s, int first, struct row *out)
{
    out->ttl_ms = postbag__col_i64(s, first);
    out->created_ms = postbag__col_i64(s, first + 1);
    read_boot(s, first + 2, out->boot);
    out->mono_ms = postbag__col_i64(s, first + 3);
}

int postbag__row_read(
    struct stmt *s, int first, struct arena *arena, struct row *out)
{
    ptrdiff_t topic;
    ptrdiff_t payload;
    ptrdiff_t key;
    ptrdiff_t type;
    ptrdiff_t content_type;
    ptrdiff_t headers;

    memset(out, 0, sizeof(*out));
    postbag__arena_reset(arena);
    if (check(s, first, out) != POSTBAG_OK)
        return POSTBAG_ECORRUPT;
    out->is_text = postbag__col_is_text(s, first + 2);
    topic = add_column(s, first + 1, arena, &out->topic_len);
    payload = add_column(s, first + 2, arena, &out->payload_len);
    key = add_column(s, first + 3, arena, NULL);
    out->key_version = postbag__col_i64(s, first + 4);
    type = add_column(s, first + 5, arena, NULL);
    content_type = add_column(s, first + 6, arena, NULL);
    headers = add_column(s, first + 7, arena, NULL);
    out->priority = (int)postbag__col_i64(s, first + 8);
    out->retain = postbag__col_i64(s, first + 9) != 0;
    postbag__row_read_age(s, first + 10, out);
    out->coalesces = !postbag__col_is_null(s, first + 14);
    if (arena->err != POSTBAG_OK)
        return arena->err;
    out->topic = postbag__arena_at(arena, topic);
    out->payload = postbag__arena_at(arena, payload);
    out->key = postbag__arena_at(arena, key);
    out->type = postbag__arena_at(arena, type);
    out->content_type = postbag__arena_at(arena, content_type);
    out->headers = postbag__arena_at(arena, headers);
    return POSTBAG_OK;
}

int64_t postbag__row_put_ms(const struct row *r, const struct moment *now)
{
    struct moment then = {.wall_ms = r->created_ms, .mono_ms = r->mono_ms};

    memcpy(then.boot, r->boot, sizeof(then.boot));
    return postbag__moment_wall_ms(&then, now);
}

static int64_t age_ms(const struct row *r, const struct moment *now)
{
    if (r->mono_ms > 0 && memcmp(r->boot, now->boot, sizeof(r->boot)) == 0)
        return now->mono_ms - r->mono_ms;
    if (r->created_ms < POSTBAG__CLOCK_IS_SET_MS)
        return 0;
    return now->wall_ms - r->created_ms;
}

int64_t postbag__row_ttl_left_ms(const struct row *r, const struct moment *now)
{
    int64_t age = age_ms(r, now);

    if (r->ttl_ms <= 0)
        return INT64_MAX;
    if (age <= 0)
        return r->ttl_ms;
    return age < r->ttl_ms ? r->ttl_ms - age : 0;
}

/* Does age_ms know it? */
static int has_age(const struct row *r, const struct moment *now)
{
    return r->mono_ms > 0 &&
           (memcmp(r->boot, now->boot, sizeof(r->boot)) == 0 ||
               r->created_ms >= POSTBAG__CLOCK_IS_SET_MS);
}

int64_t postbag__row_over_in_ms(
    const struct row *r, const struct moment *now, int64_t seen_ms)
{
    if (r->ttl_ms <= 0 || has_age(r, now))
        return postbag__row_ttl_left_ms(r, now);
    return seen_ms < r->ttl_ms ? r->ttl_ms - seen_ms : 0;
}

int64_t postbag__row_age_ms(struct stmt *s, int col, const struct moment *now)
{
    size_t len;
    const void *boot = postbag__col_bytes(s, col + 1, &len);
    int64_t age;

    if (len == sizeof(now->boot) && !postbag__col_is_null(s, col + 2) &&
        memcmp(boot, now->boot, len) == 0)
        age = now->mono_ms - postbag__col_i64(s, col + 2);
    else
        age = now->wall_ms - postbag__col_i64(s, col);
    return age < 0 ? 0 : age;
}

uint32_t postbag__row_bytes(const struct row *r)
{
    return (uint32_t)(r->topic_len + r->payload_len);
}
