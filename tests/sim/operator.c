/* SPDX-License-Identifier: MIT */
/* A person with the command: requeues and discards what is dead. */
#include <string.h>

#include "memdisk.h"
#include "postbag/admin.h"
#include "world.h"

static struct postbag_admin *sit_down(struct world *w)
{
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = world_db(w),
        .port = &w->bystander.port,
        .writable = 1,
        .busy_ms = 50};
    struct postbag_admin *admin = NULL;

    memdisk_process(w->disk, ++w->next_number);
    return postbag_admin_open(&admin, &c, NULL) == POSTBAG_OK ? admin : NULL;
}

/* Sent again from the start, with followers that went on meanwhile. */
static void note_requeued(struct message *m)
{
    m->state = 0;
    m->attempts = 0;
    m->may_repeat = 1;
    m->was_released = 0;
    m->refused = 0;
    m->is_hopeless = 0;
}

static void requeue_all(struct world *w, struct postbag_admin *admin)
{
    int64_t count = 0;

    if (postbag_admin_requeue(admin, NULL, 0, NULL, &count) != POSTBAG_OK)
        return;
    for (int i = 0; i < w->book.message_count; i++)
        if (w->book.messages[i].state == 'd')
            note_requeued(&w->book.messages[i]);
    w->count[REQUEUED] += count > 0;
    say(w, "operator requeues %d", (int)count);
}

static void discard_one(struct world *w, struct postbag_admin *admin)
{
    int from = w->book.message_count;

    for (int i = from - 1; i >= 0; i--) {
        struct message *m = &w->book.messages[i];

        if (m->state == 0)
            continue;
        if (postbag_admin_discard(admin, NULL, m->seq, NULL) != POSTBAG_OK)
            return;
        m->is_discarded = 1;
        happened(w, DISCARDED);
        say(w, "operator discards m%d", i);
        return;
    }
}

static void care_for_commands(struct world *w, struct postbag_admin *admin)
{
    const struct postbag_inbox_choice all = {
        .struct_size = sizeof(all), .consumer = "fast"};
    int64_t count = 0;

    if (postbag_admin_inbox_requeue(admin, &all, &count) == POSTBAG_OK)
        w->count[COMMAND_REQUEUED] += count > 0;
}

void operator_step(struct world *w)
{
    struct postbag_admin *admin;

    if (w->seen.db == NULL ||
        w->seen.held + w->seen.dead + w->seen.inbox_dead == 0)
        return;
    admin = sit_down(w);
    if (admin == NULL)
        return;
    switch (luck_below(&w->luck, 3)) {
    case 0:
        requeue_all(w, admin);
        break;
    case 1:
        discard_one(w, admin);
        break;
    default:
        care_for_commands(w, admin);
        break;
    }
    postbag_admin_close(admin);
    port_changed(w, NULL);
}

void operator_requeue_all(struct world *w)
{
    struct postbag_admin *admin = sit_down(w);

    if (admin == NULL)
        return;
    requeue_all(w, admin);
    care_for_commands(w, admin);
    postbag_admin_close(admin);
    port_changed(w, NULL);
}
