/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  The broker's rules at postbag_open, those of all and those of this
 * one: does what was configured keep them?  Once per engine, on the thread that
 * opens it.
 */
#include "abi.h"
#include "engine.h"
#include "error.h"
#include "postbag/transport.h"
#include "profile_store.h"

static int check_window(struct engine *e, const struct postbag_profile *p)
{
    const struct postbag_config *c = e->config;

    if (p->max_inflight != 0 && c->window > p->max_inflight)
        return postbag__fail(&e->db.fault, POSTBAG_EINVAL,
            "option window is %lu; profile %s: at most %lu messages without"
            " PUBACK",
            (unsigned long)c->window, p->name, (unsigned long)p->max_inflight);
    if (p->one_connection && c->inbound != NULL)
        return postbag__fail(&e->db.fault, POSTBAG_EINVAL,
            "profile %s: one connection per device, so there can be no inbound"
            " one beside the outbound",
            p->name);
    return POSTBAG_OK;
}

/* A transport of an older program has no such function. */
static int check_transport(struct engine *e, struct postbag_transport *t,
    const struct postbag_profile *p)
{
    const struct postbag_transport_ops *ops = t == NULL ? NULL : t->ops;
    struct postbag_fault why = {.text = ""};
    int err;

    if (ops == NULL || !POSTBAG__TRANSPORT_HAS(ops, check))
        return POSTBAG_OK;
    err = ops->check(t, p, &why);
    return err == POSTBAG_OK ? POSTBAG_OK
                             : postbag__fail(&e->db.fault, err, "%s", why.text);
}

/* Whoever copies the configuration of one connection for the other gets two
 * that end each other for ever, and no broker says why. */
static int check_rivals(struct engine *e)
{
    const struct postbag_transport *out = e->config->transport;
    const struct postbag_transport *in = e->config->inbound;
    const struct postbag_transport_ops *ops = out == NULL ? NULL : out->ops;

    if (in == NULL || ops == NULL || ops != in->ops ||
        !POSTBAG__TRANSPORT_HAS(ops, is_rival) || !ops->is_rival(out, in))
        return POSTBAG_OK;
    return postbag__fail(&e->db.fault, POSTBAG_EINVAL,
        "inbound: has the client id of the other connection, so the broker"
        " would end each for the other");
}

static int check_profile(struct engine *e)
{
    int err = check_window(e, e->profile);

    if (err == POSTBAG_OK)
        err = check_transport(e, e->config->transport, e->profile);
    if (err == POSTBAG_OK)
        err = check_transport(e, e->config->inbound, e->profile);
    return err;
}

int postbag__engine_take_profile(struct engine *e)
{
    int err = check_rivals(e);

    if (err != POSTBAG_OK || e->config->profile[0] == '\0')
        return err;
    err = postbag__profile_named(e->config->profile, &e->profile, &e->db.fault);
    return err == POSTBAG_OK ? check_profile(e) : err;
}

int postbag__engine_open_profile(struct engine *e)
{
    int err;

    if (e->profile != NULL)
        return postbag__profile_set(&e->db, e->config->dest, e->profile);
    err = postbag__profile_read(&e->db, e->config->dest, &e->profile);
    return err == POSTBAG_OK ? check_profile(e) : err;
}
