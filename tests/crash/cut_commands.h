/* SPDX-License-Identifier: MIT */
/* The commands of test_power_cut_inbox.c, and who gets which. */
#ifndef POSTBAG_TESTS_CUT_COMMANDS_H
#define POSTBAG_TESTS_CUT_COMMANDS_H

#include "inbox_world.h"

struct command {
    const char *topic, *id, *key, *version, *payload, *reply_to;
};

enum { OPEN, SHUT, LOCK, LAMP, OTHER, NAMELESS, BAD, HARD, LAST, COMMANDS };

static const struct command commands[COMMANDS] = {
    [OPEN] = {"cmd/door/1", "1", "front", "1", "open", NULL},
    [SHUT] = {"cmd/door/1", "3", "front", "3", "shut", NULL},
    [LOCK] = {"cmd/door/1", "2", "front", "2", "lock", NULL},
    [LAMP] = {"cmd/lamp", "4", NULL, NULL, "on", "re/lamp"},
    /* the same id, and other content */
    [OTHER] = {"cmd/lamp", "4", NULL, NULL, "off", "re/lamp"},
    [NAMELESS] = {"cmd/lamp", NULL, NULL, NULL, "who", NULL},
    /* is rejected */
    [BAD] = {"cmd/lamp", "6", NULL, NULL, "bad", NULL},
    /* its first try fails */
    [HARD] = {"cmd/door/2", "7", "back", NULL, "hard", NULL},
    [LAST] = {"cmd/door/3", "8", NULL, NULL, "last", NULL},
};

/* Who gets which, and the effects of all of them. */
struct audience {
    const char *name, *filter, *effects;
};

static const struct audience audiences[] = {
    {"all", "cmd/#", "1 2 3 4 7 8"},
    {"doors", "cmd/door/+", "1 2 3 7 8"},
};

static inline int accept_command(struct inbox_world *w, const struct command *c)
{
    struct postbag_property p[4] = {{"source", "/scada"}};
    struct postbag_frame f = {.topic = c->topic,
        .payload = c->payload,
        .payload_len = strlen(c->payload),
        .response_topic = c->reply_to,
        .is_text = 1,
        .properties = p,
        .property_count = 1};

    if (c->id != NULL)
        p[f.property_count++] = (struct postbag_property){"id", c->id};
    if (c->key != NULL)
        p[f.property_count++] =
            (struct postbag_property){"partitionkey", c->key};
    if (c->version != NULL)
        p[f.property_count++] =
            (struct postbag_property){"keyversion", c->version};
    return postbag__receiver_accept(w->receiver, w->generation, &f);
}

#endif
