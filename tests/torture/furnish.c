/* SPDX-License-Identifier: MIT */
/* See furnish.h. */
#include "furnish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_transport.h"
#include "postbag/admin.h"
#include "postbag/postbag.h"
#include "sim_port.h"
#include "stage.h"

static void demand(int err, const char *what, const char *why)
{
    if (err == POSTBAG_OK)
        return;
    (void)fprintf(
        stderr, "furnish: %s: %s: %s\n", what, postbag_error_name(err), why);
    abort();
}

void furnish_bare(struct sqlite3 *db)
{
    stage_run(db, "CREATE TABLE state(n INTEGER NOT NULL);"
                  "INSERT INTO state VALUES (0);"
                  "CREATE TABLE effect(what TEXT NOT NULL)");
}

/* A relay that works until all is settled, and refuses this topic. */
static void relay(struct sim_port *sim, const char *topic, int reason)
{
    struct fake_transport *out = fake_transport_new();
    struct postbag_config c = {.struct_size = sizeof(c),
        .db_path = stage_path(),
        .port = &sim->port,
        .transport = &out->base,
        .keep_s = 86400,
        .run_dir = "none"};
    struct postbag_fault why = {0};
    struct postbag *p;
    int64_t next_us;

    out->auto_settle = 1;
    out->refuse_topic = topic;
    out->refuse_reason = reason;
    demand(postbag_open(&p, &c, &why), "open", why.text);
    for (int i = 0; i < 40; i++) {
        demand(postbag_step(p, &next_us), "step", "");
        sim_pass_ms(sim, 5);
    }
    demand(postbag_stop(p, 100), "stop", "");
    postbag_close(p);
}

static void add_destination(struct sim_port *sim)
{
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = stage_path(),
        .port = &sim->port,
        .writable = 1};
    struct postbag_fault why = {0};
    struct postbag_admin *a;

    demand(postbag_admin_open(&a, &c, &why), "admin", why.text);
    demand(postbag_admin_dest_add(a, "cloud", POSTBAG_FROM_NOW), "cloud",
        postbag_admin_fault(a)->text);
    postbag_admin_close(a);
}

static void make_tables(struct sim_port *sim)
{
    const struct postbag_admin_config c = {
        .struct_size = sizeof(c), .db_path = stage_path(), .port = &sim->port};
    struct postbag_fault why = {0};

    demand(postbag_admin_init(&c, 0, &why), "init", why.text);
}

static const char settled[] =
    "INSERT INTO outbox(topic, payload, key) VALUES"
    " ('old/1', 'a', NULL), ('old/2', 'b', 'k1'), ('old/3', 'c', NULL),"
    " ('poison', 'd', NULL), ('old/5', 'e', NULL)";
static const char refused[] = "INSERT INTO outbox(topic, payload, key) VALUES"
                              " ('held', 'f', 'k3'), ('old/7', 'g', NULL)";
static const char waiting[] =
    "INSERT INTO outbox(topic, payload, key, priority, headers) VALUES"
    " ('new/1', 'h', 'k1', 0, NULL),"
    " ('new/2', 'i', 'k1', 0, '{\"traceparent\":\"00-1\",\"unit\":\"V\"}'),"
    " ('new/3', randomblob(3000), 'k2', 0, NULL),"
    " ('new/4', 'k', NULL, 2, NULL), ('new/5', 'l', 'k3', 0, NULL),"
    " ('new/6', 'm', NULL, 0, NULL)";
static const char commands[] =
    "INSERT INTO inbox(consumer, id, topic, payload, key, response_topic,"
    " correlation_data, state, received_ms, processed_ms, content_hash) VALUES"
    " ('p', '1', 'cmd/p', 'x', 'k', 're/1', x'01', 'due', 1, NULL,"
    "  zeroblob(32)),"
    " ('p', '2', 'cmd/p', 'y', 'k', NULL, NULL, 'due', 1, NULL,"
    "  zeroblob(32)),"
    " ('p', '3', 'cmd/p', 'z', NULL, NULL, NULL, 'due', 1, NULL,"
    "  zeroblob(32)),"
    " ('q', '1', 'cmd/q', NULL, NULL, NULL, NULL, 'done', 1, 2,"
    "  zeroblob(32)),"
    " ('q', '2', 'cmd/q', 'v', NULL, NULL, NULL, 'dead', 1, 2,"
    "  zeroblob(32))";

void furnish_all(struct sqlite3 *db)
{
    struct sim_port sim;

    stage_port(&sim);
    furnish_bare(db);
    make_tables(&sim);
    stage_run(db, settled);
    relay(&sim, "poison", 0x90);
    stage_run(db, refused);
    relay(&sim, "held", 0x87);
    add_destination(&sim);
    stage_run(db, waiting);
    stage_run(db, commands);
}
