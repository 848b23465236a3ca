/* SPDX-License-Identifier: MIT */
/* A state change and its message, in one transaction: [URI [DATABASE]] */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "postbag/linux.h"
#include "postbag/paho.h"
#include "postbag/postbag.h"

static struct postbag_fault why;

static void must(int err, const char *text)
{
    if (err == 0)
        return;
    (void)fprintf(stderr, "error %d: %s\n", err, text);
    exit(1);
}

/* README: begin */
static struct postbag *start_relay(const char *uri, const char *path)
{
    struct postbag_paho_config broker = {
        .struct_size = sizeof(broker), .uri = uri, .client_id = "gw1"};
    struct postbag_config config = {.struct_size = sizeof(config),
        .db_path = path,
        .port = postbag_linux_port()};
    struct postbag *relay;

    must(postbag_paho_new(&config.transport, &broker, &why), why.text);
    must(postbag_open(&relay, &config, &why), why.text);
    must(postbag_start(relay), "start"); /* on a thread of its own */
    return relay;
}

/* The application's own connection, and a writer on it. */
static struct postbag_writer *open_writer(
    struct postbag *relay, const char *path)
{
    struct postbag_writer_config ours = {.struct_size = sizeof(ours),
        .engine = relay,
        .port = postbag_linux_port()};
    struct postbag_writer *w;

    must(sqlite3_open(path, &ours.db), "database");
    must(sqlite3_busy_timeout(ours.db, 5000), "database");
    must(sqlite3_exec(ours.db,
             "PRAGMA synchronous = FULL;"
             "PRAGMA wal_autocheckpoint = 0;" /* the relay does it */
             "CREATE TABLE IF NOT EXISTS door(opened_at TEXT)",
             NULL, NULL, NULL),
        "table");
    must(postbag_writer_open(&w, &ours, &why), why.text);
    return w;
}

static void open_door(struct postbag_writer *w)
{
    struct postbag_message opened = {.struct_size = sizeof(opened),
        .topic = "gw/gw1/evt/door",
        .payload = "open",
        .payload_len = 4};

    must(postbag_begin(w), "begin");
    must(sqlite3_exec(postbag_writer_db(w),
             "INSERT INTO door VALUES (datetime())", NULL, NULL, NULL),
        "state");
    must(postbag_put(w, &opened, NULL), postbag_writer_fault(w)->text);
    must(postbag_commit(w), postbag_writer_fault(w)->text);
    /* now both are on disk, or, had the power failed, neither */
}
/* README: end */

int main(int argc, char **argv)
{
    const char *uri = argc > 1 ? argv[1] : "tcp://127.0.0.1:1883";
    const char *path = argc > 2 ? argv[2] : "gateway.db";
    struct postbag *relay = start_relay(uri, path);
    struct postbag_writer *w = open_writer(relay, path);
    struct sqlite3 *db = postbag_writer_db(w);

    open_door(w);
    (void)puts("Enter, or the end of the input, ends");
    (void)getchar();
    must(postbag_stop(relay, 5000), "stop");
    postbag_writer_close(w);
    postbag_close(relay);
    (void)sqlite3_close(db);
    return 0;
}
