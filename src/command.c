/* SPDX-License-Identifier: MIT */
/* Offsets first: the arena may move while it grows. */
#include "command.h"

#include <string.h>

static ptrdiff_t add_text(struct arena *a, const char *text)
{
    return postbag__arena_add(a, text, text == NULL ? 0 : strlen(text));
}

int postbag__command_copy(struct arena *a, struct postbag_command *c)
{
    const char **const texts[] = {&c->consumer, &c->source, &c->topic,
        &c->content_type, &c->key, &c->response_topic, &c->headers,
        &c->traceparent, &c->tracestate, &c->correlation_id};
    enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };
    ptrdiff_t at[TEXTS];
    ptrdiff_t id;
    ptrdiff_t payload;
    ptrdiff_t correlation;

    postbag__arena_reset(a);
    for (size_t i = 0; i < TEXTS; i++)
        at[i] = add_text(a, *texts[i]);
    id = postbag__arena_add(a, c->id, c->id_len);
    payload = postbag__arena_add(a, c->payload, c->payload_len);
    correlation = postbag__arena_add(a, c->correlation, c->correlation_len);
    if (a->err != POSTBAG_OK)
        return a->err;
    for (size_t i = 0; i < TEXTS; i++)
        *texts[i] = postbag__arena_at(a, at[i]);
    c->id = postbag__arena_at(a, id);
    c->payload = postbag__arena_at(a, payload);
    c->correlation = postbag__arena_at(a, correlation);
    return POSTBAG_OK;
}
