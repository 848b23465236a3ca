/* SPDX-License-Identifier: MIT */
/*
 * Rules become a trigger with literals, as max_payload does (schema.c): a
 * lookup for every put would cost more than the check.  One trigger for each
 * destination, so that a row is held to the rules of where it goes.
 */
#include "profile_store.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

/* ---- the trigger ---- */

/* Large enough for every rule there is; what is cut does not run. */
struct sql {
    char text[3072];
    size_t len;
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
add(struct sql *s, const char *format, ...)
{
    size_t room = sizeof(s->text) - s->len;
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(s->text + s->len, room, format, args);
    va_end(args);
    if (len > 0)
        s->len += (size_t)len < room ? (size_t)len : room - 1;
}

/* SQLite compares names of triggers without case, and destinations differ by
 * case, too: in hex none is taken for another. */
#define TRIGGER_PREFIX "outbox_profile_"

static void add_name(struct sql *s, const char *dest)
{
    add(s, TRIGGER_PREFIX);
    for (; *dest != '\0'; dest++)
        add(s, "%02X", (unsigned)(unsigned char)*dest);
}

/* RAISE takes a literal only, so each text is written out. */
static void add_topic_rules(struct sql *s, const struct postbag_profile *p)
{
    const char *prefix;
    size_t len;

    if (p->max_topic != 0)
        add(s,
            "  WHEN length(CAST(part AS BLOB)) > %lu THEN RAISE(ABORT,"
            " 'postbag: profile %s: topic has more than %lu bytes')",
            (unsigned long)p->max_topic, p->name, (unsigned long)p->max_topic);
    if (p->max_slashes != 0)
        add(s,
            "  WHEN length(part) - length(replace(part, '/', '')) > %lu"
            " THEN RAISE(ABORT,"
            " 'postbag: profile %s: topic has more than %lu slashes')",
            (unsigned long)p->max_slashes, p->name,
            (unsigned long)p->max_slashes);
    if (p->topic_prefixes == NULL)
        return;
    add(s, "  WHEN 1");
    for (size_t n = 0;; n++) {
        len = postbag__profile_prefix(p->topic_prefixes, n, &prefix);
        if (len == 0)
            break;
        add(s, " AND substr(NEW.topic, 1, %zu) <> '%.*s'", len, (int)len,
            prefix);
    }
    add(s,
        " THEN RAISE(ABORT,"
        " 'postbag: profile %s: topic must begin with one of %s')",
        p->name, p->topic_prefixes);
}

static void add_size_rule(struct sql *s, const struct postbag_profile *p,
    const char *what, uint32_t limit, const char *condition)
{
    if (limit != 0)
        add(s,
            "  WHEN bytes > %lu%s THEN RAISE(ABORT, 'postbag: profile %s:"
            " %s is larger than %lu bytes, a packet of %lu less the envelope')",
            (unsigned long)limit - POSTBAG__ENVELOPE_BYTES, condition, p->name,
            what, (unsigned long)limit - POSTBAG__ENVELOPE_BYTES,
            (unsigned long)limit);
}

/* What lengths of the topic are measured of: profile.c's counted(). */
static void add_part(struct sql *s, const struct postbag_profile *p)
{
    if (p->uncounted == NULL)
        add(s, "NEW.topic AS part");
    else
        add(s,
            "iif(substr(NEW.topic, 1, %zu) = '%s',"
            " substr(NEW.topic,"
            "  %zu + instr(substr(NEW.topic, %zu), '/')), NEW.topic) AS part",
            strlen(p->uncounted), p->uncounted, strlen(p->uncounted) + 1,
            strlen(p->uncounted) + 1);
}

/* The payload as it leaves: bytes in a JSON event are base64. */
static const char *payload_bytes(const struct postbag_profile *p)
{
    return p->no_mqtt5 ? "iif(typeof(NEW.payload) = 'blob',"
                         " (length(NEW.payload) + 2) / 3 * 4,"
                         " length(CAST(NEW.payload AS BLOB)))"
                       : "length(CAST(NEW.payload AS BLOB))";
}

/* The statement that makes the trigger; "" if no rule concerns a put. */
static void write_trigger(
    struct sql *s, const char *dest, const struct postbag_profile *p)
{
    s->len = 0;
    s->text[0] = '\0';
    if (p->max_topic == 0 && p->max_slashes == 0 && p->topic_prefixes == NULL &&
        p->max_packet == 0 && p->max_retained == 0)
        return;
    add(s, "CREATE TRIGGER ");
    add_name(s, dest);
    add(s,
        " BEFORE INSERT ON outbox"
        " WHEN NEW.dest IS NULL OR NEW.dest = '%s' BEGIN"
        " SELECT CASE",
        dest);
    add_topic_rules(s, p);
    add_size_rule(s, p, "message", p->max_packet, "");
    add_size_rule(
        s, p, "retained message", p->max_retained, " AND NEW.retain <> 0");
    add(s, "  END FROM (SELECT ");
    add_part(s, p);
    add(s,
        ", length(CAST(NEW.topic AS BLOB)) + %s"
        " + ifnull(length(CAST(NEW.key AS BLOB)), 0)"
        " + ifnull(length(CAST(NEW.type AS BLOB)), 0)"
        " + ifnull(length(CAST(NEW.content_type AS BLOB)), 0)"
        " + ifnull(length(CAST(NEW.headers AS BLOB)), 0) AS bytes);"
        " END",
        payload_bytes(p));
}

/* ---- the name ---- */

int postbag__profile_named(const char *name, const struct postbag_profile **out,
    struct postbag_fault *why)
{
    *out = postbag_profile_find(name);
    if (*out != NULL)
        return POSTBAG_OK;
    return postbag__fail(why, POSTBAG_EINVAL,
        "there is no profile %s; there are " POSTBAG_PROFILES, name);
}

int postbag__profile_read(
    struct db *db, const char *dest, const struct postbag_profile **out)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT ifnull(profile, 'any') FROM outbox_dest WHERE name = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    err = postbag__row(&s);
    if (err == 0)
        err = postbag__fail(&db->fault, POSTBAG_ENOTFOUND,
            "there is no destination of that name");
    else if (err == 1)
        err =
            postbag__profile_named(postbag__col_string(&s, 0), out, &db->fault);
    postbag__finalize(&s);
    return err;
}

/* ---- setting it ---- */

/* 1: name and trigger are so already.  A library with other numbers has
 * another trigger. */
static int is_set(struct db *db, const char *dest, const char *name,
    const struct sql *trigger)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT profile IS ?2 AND ifnull((SELECT sql FROM sqlite_schema"
        "  WHERE type = 'trigger'"
        "   AND name = '" TRIGGER_PREFIX "' || hex(?1)), '')"
        " = ?3 FROM outbox_dest WHERE name = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    postbag__bind_text(&s, 2, name);
    postbag__bind_text(&s, 3, trigger->text);
    err = postbag__row(&s);
    if (err == 1)
        err = postbag__col_i64(&s, 0) != 0;
    else if (err == 0)
        err = postbag__fail(&db->fault, POSTBAG_ENOTFOUND,
            "there is no destination of that name");
    postbag__finalize(&s);
    return err;
}

static int store_name(struct db *db, const char *dest, const char *name)
{
    struct stmt s;
    int err = postbag__prepare(
        db, &s, "UPDATE outbox_dest SET profile = ?2 WHERE name = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    postbag__bind_text(&s, 2, name);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

int postbag__profile_forget(struct db *db, const char *dest)
{
    struct sql drop = {.len = 0};

    add(&drop, "DROP TRIGGER IF EXISTS ");
    add_name(&drop, dest);
    return postbag__exec(db, drop.text);
}

static int replace_trigger(
    struct db *db, const char *dest, const struct sql *trigger)
{
    int err = postbag__profile_forget(db, dest);

    if (err == POSTBAG_OK && trigger->text[0] != '\0')
        err = postbag__exec(db, trigger->text);
    return err;
}

int postbag__profile_set(
    struct db *db, const char *dest, const struct postbag_profile *p)
{
    struct sql trigger;
    int err;

    if (strlen(dest) > 64 || strpbrk(dest, "'\"") != NULL)
        return postbag__fail(&db->fault, POSTBAG_EINVAL,
            "a destination of that name can have no profile");
    write_trigger(&trigger, dest, p);
    err = is_set(db, dest, p->name, &trigger);
    if (err != 0)
        return err < 0 ? err : POSTBAG_OK;
    err = postbag__begin(db, DB_FULL);
    if (err != POSTBAG_OK)
        return err;
    err = store_name(db, dest, p->name);
    if (err == POSTBAG_OK)
        err = replace_trigger(db, dest, &trigger);
    if (err == POSTBAG_OK)
        return postbag__commit(db);
    postbag__rollback(db);
    return err;
}
