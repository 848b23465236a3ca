/* SPDX-License-Identifier: MIT */
/* Commands with versions of a key, and a handler that notes what it is told. */
#ifndef POSTBAG_TESTS_INBOX_VERSIONS_H
#define POSTBAG_TESTS_INBOX_VERSIONS_H

#include "inbox_world.h"
#include "unit.h"

/* What handlers were told. */
struct told {
    int64_t version, previous;
    enum postbag_order order;
};

static struct told told[20];
static int told_count;

static inline enum postbag_outcome note(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)ctx;
    (void)w;
    told[told_count++] =
        (struct told){cmd->key_version, cmd->previous_version, cmd->order};
    return POSTBAG_DONE;
}

static inline int set_up(void **state)
{
    struct inbox_world *w = world_new();

    told_count = 0;
    world_add(w, "a", "cmd/#", note, NULL);
    world_open_receiver(w, 100);
    world_open_worker(w, "");
    *state = w;
    return 0;
}

static inline int tear_down(void **state)
{
    world_free(*state);
    return 0;
}

/* Of the first consumer. */
static inline void set_rules(
    struct inbox_world *w, const struct order_rules *rules)
{
    w->consumers.list[0].versions = *rules;
}

/* Version of a key, "" for none, under an id of its own. */
static inline void send(struct inbox_world *w, const char *topic,
    const char *key, const char *version, const char *id)
{
    const struct postbag_property p[] = {
        {"id", id}, {"keyversion", version}, {"partitionkey", key}};
    const struct postbag_frame f = {.topic = topic,
        .payload = "go",
        .payload_len = 2,
        .properties = p,
        .property_count = key == NULL ? 2 : 3};

    assert_ok(postbag__receiver_accept(w->receiver, w->generation, &f));
}

/* Versions 0..9 of key k, each with an id that says when it came. */
static inline void send_all(struct inbox_world *w, const char *versions)
{
    for (size_t i = 0; versions[i] != '\0'; i++) {
        const char version[] = {versions[i], '\0'};
        char id[32];

        (void)snprintf(id, sizeof(id), "%zu-%s", i, version);
        send(w, "cmd/a", "k", version, id);
    }
}

static inline void expect_told(
    int n, int64_t version, int64_t previous, enum postbag_order order)
{
    assert_in_range(n, 0, told_count - 1);
    assert_int_equal(told[n].version, version);
    assert_int_equal(told[n].previous, previous);
    assert_int_equal(told[n].order, order);
}

static inline void work(struct inbox_world *w)
{
    while (world_run_one(w))
        continue;
}

static inline int64_t refused(struct inbox_world *w, const char *why)
{
    char sql[100];

    (void)snprintf(sql, sizeof(sql),
        "SELECT count(*) FROM inbox WHERE state = 'dead' AND error = '%s'",
        why);
    return temp_db_get(&w->t, sql);
}

#endif
