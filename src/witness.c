/* SPDX-License-Identifier: MIT */
/* See witness.h. */
#include "witness.h"

#include <stdio.h>
#include <string.h>

#include "error.h"
#include "mem.h"
#include "sha256.h"

static const int64_t every_us = INT64_C(600) * 1000 * 1000;

/* ---- what is here ---- */

static void hash(const void *bytes, size_t len, void *out, size_t size)
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 h;

    postbag__sha256_begin(&h);
    postbag__sha256_field(&h, "postbag witness", 15);
    postbag__sha256_field(&h, bytes, len);
    postbag__sha256_end(&h, digest);
    memcpy(out, digest, size);
}

/* The id of a machine is confidential (machine-id(5)): its hash is told. */
static void find_machine(struct file_witness *w)
{
    uint8_t id[16];

    if (w->port->machine_id(w->port->ctx, id) == POSTBAG_OK)
        hash(id, sizeof(id), w->here.machine, sizeof(w->here.machine));
}

static int find_stream(struct file_witness *w)
{
    const void *bytes;
    struct stmt s;
    size_t len;
    int err = postbag__prepare(
        w->db, &s, "SELECT value FROM outbox_meta WHERE key = 'stream'");

    if (err != POSTBAG_OK)
        return err;
    err = postbag__row(&s);
    if (err == 1) {
        bytes = postbag__col_bytes(&s, 0, &len);
        if (len == sizeof(w->here.stream))
            memcpy(w->here.stream, bytes, len);
        err = POSTBAG_OK;
    }
    postbag__finalize(&s);
    return err;
}

static int look_here(struct file_witness *w)
{
    const char *path = postbag__db_path(w->db);

    hash(path, strlen(path), &w->here.path, sizeof(w->here.path));
    find_machine(w);
    if (w->port->file_id(w->port->ctx, path, &w->here.file) != POSTBAG_OK)
        w->here.file = 0;
    return postbag__query_i64(w->db,
        "SELECT ifnull((SELECT max(seq) FROM outbox), 0)", &w->here.newest);
}

/* ---- what was ---- */

/* 1: the database remembers a machine and a file. */
static int read_record(struct file_witness *w, struct witness_note *out)
{
    const void *bytes;
    struct stmt s;
    size_t len;
    int err = postbag__prepare(w->db, &s,
        "SELECT m.value, f.value FROM outbox_meta m JOIN outbox_meta f"
        " WHERE m.key = 'machine' AND f.key = 'file'"
        "  AND m.value IS NOT NULL");

    memset(out, 0, sizeof(*out));
    if (err != POSTBAG_OK)
        return err;
    err = postbag__row(&s);
    if (err == 1) {
        bytes = postbag__col_bytes(&s, 0, &len);
        if (len == sizeof(out->machine))
            memcpy(out->machine, bytes, len);
        out->file = (uint64_t)postbag__col_i64(&s, 1);
    }
    postbag__finalize(&s);
    return err;
}

/* 1: the last relay left a note. */
static int read_left(struct file_witness *w, struct witness_note *out)
{
    char text[WITNESS_NOTE_BYTES + 1];
    size_t len = 0;
    int err =
        w->port->read_file(w->port->ctx, w->path, text, sizeof(text) - 1, &len);

    if (err == POSTBAG_OK) {
        text[len] = '\0';
        err = postbag__witness_parse(text, out);
    }
    if (err != POSTBAG_OK && err != POSTBAG_ENOTFOUND)
        postbag__log(w->log, POSTBAG_LOG_WARNING, err,
            "%s cannot be read: a copy of the database would not be seen",
            w->path);
    return err == POSTBAG_OK;
}

/* ---- what to do ---- */

static void tell(const struct file_witness *w, enum witness_verdict verdict)
{
    static const char *const what[] = {
        [WITNESS_OLDER] = "is older than what its relay last saw",
        [WITNESS_OTHER] = "stands where another one was",
        [WITNESS_COPY] = "is a copy of another file",
        [WITNESS_ELSEWHERE] = "comes from another machine",
    };

    postbag__log(w->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
        "the database %s: its messages are a new stream from now on (attribute"
        " sequence); nothing is skipped, what was sent already may be sent"
        " again",
        what[verdict]);
}

static int write_record(struct file_witness *w, int is_new_stream)
{
    struct stmt s;
    int err = postbag__prepare(w->db, &s,
        "INSERT INTO outbox_meta(key, value) VALUES ('machine', ?1),"
        " ('file', ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_blob(&s, 1, w->here.machine, sizeof(w->here.machine));
    postbag__bind_i64(&s, 2, (int64_t)w->here.file);
    err = postbag__run(&s);
    postbag__finalize(&s);
    if (err == POSTBAG_OK && is_new_stream)
        err =
            postbag__exec(w->db, "UPDATE outbox_meta SET value = randomblob(16)"
                                 " WHERE key = 'stream'");
    return err;
}

/* On disk before anything is sent by that id. */
static int settle(struct file_witness *w, int is_new_stream)
{
    int err = postbag__begin(w->db, DB_FULL);

    if (err != POSTBAG_OK)
        return err;
    err = write_record(w, is_new_stream);
    if (err == POSTBAG_OK)
        return postbag__commit(w->db);
    postbag__rollback(w->db);
    return err;
}

static int compare(struct file_witness *w)
{
    struct witness_note record;
    struct witness_note left;
    enum witness_verdict verdict;
    int is_known = read_record(w, &record);
    int is_left = read_left(w, &left);
    int err = POSTBAG_OK;

    if (is_known < 0)
        return is_known;
    verdict = postbag__witness_judge(
        &w->here, is_known ? &record : NULL, is_left ? &left : NULL);
    if (verdict > WITNESS_NEW)
        tell(w, verdict);
    if (verdict != WITNESS_SAME || record.file != w->here.file ||
        memcmp(record.machine, w->here.machine, 16) != 0)
        err = settle(w, verdict != WITNESS_SAME);
    /* what is left may be newer than what we will write */
    w->here.newest = -1;
    return err == POSTBAG_OK ? find_stream(w) : err;
}

int postbag__witness_open(struct file_witness *w, struct db *db,
    const struct postbag_port *port, const struct log *log)
{
    const char *path = postbag__db_path(db);
    size_t size = strlen(path) + sizeof("-witness");
    int err;

    memset(w, 0, sizeof(*w));
    w->db = db;
    w->port = port;
    w->log = log;
    if (port->machine_id == NULL || port->file_id == NULL ||
        port->read_file == NULL)
        return POSTBAG_OK;
    w->path = postbag__alloc(size);
    if (w->path == NULL)
        return postbag__fail(&db->fault, POSTBAG_ENOMEM, "no memory");
    (void)snprintf(w->path, size, "%s-witness", path);
    err = find_stream(w);
    if (err == POSTBAG_OK)
        err = look_here(w);
    return err == POSTBAG_OK ? compare(w) : err;
}

void postbag__witness_close(struct file_witness *w)
{
    postbag__free(w->path);
    w->path = NULL;
}

/* ---- noting ---- */

static int note(struct file_witness *w)
{
    char text[WITNESS_NOTE_BYTES];
    size_t len = postbag__witness_format(&w->here, text);
    int err = postbag__sync_wal(w->db);

    /* else a power cut could make the database older than its witness */
    if (err != POSTBAG_OK)
        return err;
    return w->port->replace_file(w->port->ctx, w->path, text, len);
}

void postbag__witness_step(
    struct file_witness *w, int64_t now_us, int64_t newest, int force)
{
    int err;

    if (w->path == NULL || newest <= w->here.newest ||
        (now_us < w->next_us && !force))
        return;
    w->here.newest = newest;
    w->next_us = now_us + every_us;
    err = note(w);
    if (err != POSTBAG_OK && !w->is_silent)
        postbag__log(w->log, POSTBAG_LOG_WARNING, err,
            "%s cannot be written: a copy of the database would not be seen",
            w->path);
    w->is_silent = err != POSTBAG_OK;
}
