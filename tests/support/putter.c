/* SPDX-License-Identifier: MIT */
/*
 * Firmware without a relay: puts through the C API, and now and then thinks
 * better of it.  tests/support/putter.py does the same in plain SQL.
 *
 *   putter DB NAME SEED COUNT
 *
 * COUNT transactions of 1 to 4 messages, each with a row in table kept.  One of
 * four is rolled back, one of four rolls its last message back to a savepoint.
 * Payloads are NAME-0, NAME-1, ...; topics t/PRIORITY; keys are shared by all
 * putters, and one of six messages has none.  Says "done" at the end.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postbag/linux.h"
#include "postbag/postbag.h"

enum { KEYS = 5, MOST = 4 };

struct putter {
    sqlite3 *db;
    struct postbag_writer *writer;
    const char *name;
    unsigned seed;
    int next; /* number of the next payload */
};

static void must(int ok, struct putter *p, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "putter %s: %s: %s: %s\n", p->name, what,
        p->writer == NULL ? "" : postbag_writer_fault(p->writer)->text,
        sqlite3_errmsg(p->db));
    exit(1);
}

static void run(struct putter *p, const char *sql)
{
    must(sqlite3_exec(p->db, sql, NULL, NULL, NULL) == SQLITE_OK, p, sql);
}

static unsigned below(struct putter *p, unsigned n)
{
    return (unsigned)rand_r(&p->seed) % n;
}

static void open_it(struct putter *p, const char *path)
{
    struct postbag_writer_config c = {
        .struct_size = sizeof(c), .port = postbag_linux_port()};
    struct postbag_fault why = {0};

    must(sqlite3_open(path, &p->db) == SQLITE_OK, p, path);
    sqlite3_busy_timeout(p->db, 20000);
    run(p, "PRAGMA wal_autocheckpoint=0");
    c.db = p->db;
    if (postbag_writer_open(&p->writer, &c, &why) == POSTBAG_OK)
        return;
    fprintf(stderr, "putter %s: %s\n", p->name, why.text);
    exit(1);
}

static void put_one(struct putter *p)
{
    unsigned key = below(p, KEYS + 1);
    char payload[64];
    char topic[8];
    char key_text[8];
    char sql[128];
    struct postbag_message m = {.struct_size = sizeof(m),
        .topic = topic,
        .payload = payload,
        .key = key == KEYS ? NULL : key_text,
        .priority = below(p, 8) == 0,
        .is_text = 1};

    (void)snprintf(topic, sizeof(topic), "t/%u", m.priority);
    (void)snprintf(key_text, sizeof(key_text), "k%u", key);
    m.payload_len =
        (size_t)snprintf(payload, sizeof(payload), "%s-%d", p->name, p->next++);
    (void)snprintf(sql, sizeof(sql), "INSERT INTO kept VALUES ('%s')", payload);
    run(p, sql);
    must(postbag_put(p->writer, &m, NULL) == POSTBAG_OK, p, "put");
}

static void transact(struct putter *p)
{
    unsigned fate = below(p, 4);
    unsigned count = 1 + below(p, MOST);

    must(postbag_begin(p->writer) == POSTBAG_OK, p, "begin");
    for (unsigned i = 0; i < count; i++) {
        if (i + 1 == count)
            run(p, "SAVEPOINT last");
        put_one(p);
    }
    if (fate == 0)
        run(p, "ROLLBACK TO last");
    if (fate == 1)
        postbag_rollback(p->writer);
    else
        must(postbag_commit(p->writer) == POSTBAG_OK, p, "commit");
}

int main(int argc, char **argv)
{
    struct putter p = {.name = argc > 2 ? argv[2] : ""};

    if (argc != 5) {
        fprintf(stderr, "usage: putter DB NAME SEED COUNT\n");
        return 2;
    }
    p.seed = (unsigned)strtoul(argv[3], NULL, 10);
    open_it(&p, argv[1]);
    for (int i = atoi(argv[4]); i > 0; i--)
        transact(&p);
    postbag_writer_close(p.writer);
    must(sqlite3_close(p.db) == SQLITE_OK, &p, "close");
    puts("done");
    return 0;
}
