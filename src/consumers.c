/* SPDX-License-Identifier: MIT */
/* The list of consumers, in the order of their registration, but for the slow
 * ones, which are moved behind the others: so each kind is one piece. */
#include "consumers.h"

#include <string.h>

#include "error.h"
#include "mem.h"
#include "topicfilter.h"

enum { NAME_MAX_BYTES = 64 };

static int check(const struct consumers *c, const struct consumer *one,
    struct postbag_fault *why)
{
    if (one->name == NULL || one->name[0] == '\0' ||
        strnlen(one->name, NAME_MAX_BYTES + 1) > NAME_MAX_BYTES)
        return postbag__fail(
            why, POSTBAG_EINVAL, "consumer: the name has 1..64 bytes");
    if (!postbag__filter_is_valid(one->filter))
        return postbag__fail(why, POSTBAG_EINVAL,
            "consumer %s: this is not a topic filter", one->name);
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->list[i].name, one->name) == 0)
            return postbag__fail(why, POSTBAG_EINVAL,
                "consumer %s is registered already", one->name);
    return POSTBAG_OK;
}

static void drop_texts(const struct consumer *one)
{
    union {
        const char *in;
        void *out;
    } name = {.in = one->name}, filter = {.in = one->filter};

    postbag__free(name.out);
    postbag__free(filter.out);
}

size_t postbag__consumers_quick(const struct consumers *c)
{
    size_t quick = 0;

    while (quick < c->count && c->list[quick].slow == NULL)
        quick++;
    return quick;
}

static void insert(struct consumers *c, const struct consumer *one)
{
    size_t at = one->slow == NULL ? postbag__consumers_quick(c) : c->count;

    memmove(&c->list[at + 1], &c->list[at], (c->count - at) * sizeof(*c->list));
    c->list[at] = *one;
    c->count++;
}

int postbag__consumers_add(
    struct consumers *c, const struct consumer *one, struct postbag_fault *why)
{
    struct consumer copy = *one;
    struct consumer *list;
    int err = check(c, one, why);

    if (err != POSTBAG_OK)
        return err;
    copy.name = postbag__copy(one->name);
    copy.filter = postbag__copy(one->filter);
    copy.versions = c->versions;
    list = postbag__resize(c->list, (c->count + 1) * sizeof(*list));
    if (list != NULL)
        c->list = list;
    if (list == NULL || copy.name == NULL || copy.filter == NULL) {
        drop_texts(&copy);
        return postbag__fail(why, POSTBAG_ENOMEM, "no memory for a consumer");
    }
    insert(c, &copy);
    return POSTBAG_OK;
}

struct consumer *postbag__consumers_find(struct consumers *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->list[i].name, name) == 0)
            return &c->list[i];
    return NULL;
}

const char **postbag__consumers_filters(const struct consumers *c)
{
    const char **filters = postbag__alloc((c->count + 1) * sizeof(*filters));

    for (size_t i = 0; filters != NULL && i < c->count; i++)
        filters[i] = c->list[i].filter;
    return filters;
}

void postbag__consumers_free_filters(const char **filters)
{
    postbag__free((void *)filters);
}

void postbag__consumers_free(struct consumers *c)
{
    for (size_t i = 0; i < c->count; i++)
        drop_texts(&c->list[i]);
    postbag__free(c->list);
    c->list = NULL;
    c->count = 0;
}
