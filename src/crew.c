/* SPDX-License-Identifier: MIT */
/* A member for the consumers before the first slow one, then one for each. */
#include "crew.h"

#include "error.h"
#include "mem.h"

struct member {
    struct consumers consumers; /* a part of the whole list */
    struct worker *worker;
    struct postbag_thread *thread;
};

struct crew {
    const struct postbag_port *port;
    struct member *members;
    struct postbag_wake **wakes;
    size_t count;
    size_t turn; /* whom run_one asks first */
};

/* ---- open and close ---------------------------------------------------- */

static int add(struct crew *crew, const struct worker_config *c, size_t first,
    size_t count, struct postbag_fault *why)
{
    struct member *m = &crew->members[crew->count];
    struct worker_config own = *c;
    int err;

    m->consumers.list = c->consumers->list + first;
    m->consumers.count = count;
    own.consumers = &m->consumers;
    err = postbag__worker_open(&m->worker, &own, why);
    if (err != POSTBAG_OK)
        return err;
    crew->wakes[crew->count++] = postbag__worker_wake(m->worker);
    return POSTBAG_OK;
}

static int hire(
    struct crew *crew, const struct worker_config *c, struct postbag_fault *why)
{
    const struct consumers *all = c->consumers;
    size_t quick = postbag__consumers_quick(all);
    int err = POSTBAG_OK;

    crew->port = c->port;
    crew->members = postbag__alloc((all->count + 1) * sizeof(*crew->members));
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): they are pointers */
    crew->wakes = postbag__alloc((all->count + 1) * sizeof(*crew->wakes));
    if (crew->members == NULL || crew->wakes == NULL)
        return postbag__fail(why, POSTBAG_ENOMEM, "no memory for workers");
    if (quick > 0)
        err = add(crew, c, 0, quick, why);
    for (size_t i = quick; i < all->count && err == POSTBAG_OK; i++)
        err = add(crew, c, i, 1, why);
    return err;
}

int postbag__crew_open(
    struct crew **out, const struct worker_config *c, struct postbag_fault *why)
{
    struct crew *crew = postbag__alloc(sizeof(*crew));
    int err;

    *out = NULL;
    if (crew == NULL)
        return postbag__fail(why, POSTBAG_ENOMEM, "no memory for workers");
    err = hire(crew, c, why);
    if (err == POSTBAG_OK)
        *out = crew;
    else
        postbag__crew_close(crew);
    return err;
}

void postbag__crew_close(struct crew *crew)
{
    if (crew == NULL)
        return;
    for (size_t i = 0; i < crew->count; i++)
        postbag__worker_close(crew->members[i].worker);
    postbag__free(crew->members);
    postbag__free(crew->wakes);
    postbag__free(crew);
}

struct postbag_wake *const *postbag__crew_wakes(
    const struct crew *crew, size_t *count_out)
{
    *count_out = crew->count;
    return crew->wakes;
}

/* ---- at work ----------------------------------------------------------- */

int postbag__crew_start(struct crew *crew)
{
    const struct postbag_port *port = crew->port;
    int err = POSTBAG_OK;

    for (size_t i = 0; i < crew->count && err == POSTBAG_OK; i++) {
        struct member *m = &crew->members[i];

        err = port->thread_start(port->ctx, &m->thread, "postbag-worker", 0,
            postbag__worker_loop, m->worker);
    }
    return err;
}

/* All are told before one is waited for. */
void postbag__crew_stop(struct crew *crew)
{
    size_t count = crew == NULL ? 0 : crew->count;

    for (size_t i = 0; i < count; i++)
        if (crew->members[i].thread != NULL)
            postbag__worker_stop(crew->members[i].worker);
    for (size_t i = 0; i < count; i++) {
        struct member *m = &crew->members[i];

        if (m->thread != NULL)
            crew->port->thread_join(crew->port->ctx, m->thread);
        m->thread = NULL;
    }
}

int postbag__crew_run_one(struct crew *crew, int *did_out)
{
    int first = POSTBAG_OK;

    *did_out = 0;
    for (size_t i = 0; i < crew->count && !*did_out; i++) {
        struct member *m = &crew->members[crew->turn];
        int64_t next_us;
        int err = postbag__worker_run_one(m->worker, did_out, &next_us);

        crew->turn = (crew->turn + 1) % crew->count;
        if (first == POSTBAG_OK)
            first = err;
    }
    return first;
}
