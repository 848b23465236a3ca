/* SPDX-License-Identifier: MIT */
/* See trial.h.  Whoever is not sure charges nothing: a power cut must never
 * cost a good message. */
#include "trial.h"

#include <stddef.h>
#include <string.h>

void postbag__trial_open(
    struct trial *t, int which, int64_t upto, int64_t seq, int deaths)
{
    struct trial_mark *m = &t->marks[which];

    m->upto = upto;
    m->seq = seq;
    m->deaths = deaths;
    m->is_open = 1;
}

void postbag__trial_begin(struct trial *t, uint32_t window)
{
    t->by_held = postbag__trial_is_alone(t->marks[TRIAL_HELD].deaths);
    for (int i = 0; i < TRIAL_MARKS; i++)
        if (postbag__trial_is_alone(t->marks[i].deaths))
            t->left = window;
}

int postbag__trial_is_alone(int deaths)
{
    return deaths >= TRIAL_COMPANY;
}

int postbag__trial_is_suspect(int deaths)
{
    return deaths >= TRIAL_SUSPECT;
}

int postbag__trial_is_guilty(int deaths, uint32_t max_attempts)
{
    return deaths >= TRIAL_SUSPECT &&
           (uint32_t)deaths - TRIAL_SUSPECT >= max_attempts;
}

int postbag__trial_deaths(const struct trial *t, int which, int64_t seq)
{
    const struct trial_mark *m = &t->marks[which];

    return m->seq == seq ? m->deaths - m->is_flying : 0;
}

/* A held row that must be alone sees to that itself. */
int postbag__trial_isolates(const struct trial *t)
{
    for (int i = 0; i < TRIAL_HELD; i++)
        if (postbag__trial_is_alone(
                postbag__trial_deaths(t, i, t->marks[i].seq)))
            return 1;
    return t->left > 0;
}

void postbag__trial_sends(
    struct trial *t, int which, int64_t seq, int deaths, int charge)
{
    struct trial_mark *m = &t->marks[which];
    int isolates = postbag__trial_isolates(t);

    if (m->is_flying && m->seq == seq)
        return;
    if (!isolates && !postbag__trial_is_alone(deaths) &&
        (!m->is_open || m->is_flying || seq > m->upto))
        return;
    if (isolates && deaths < TRIAL_COMPANY)
        deaths = TRIAL_COMPANY;
    m->seq = seq;
    m->deaths = deaths + charge;
    m->is_flying = charge;
    m->is_owed = 1;
}

/* What the database says of a row that is settled is not looked at. */
static void wipe(struct trial_mark *m)
{
    m->seq = 0;
    m->deaths = 0;
    m->is_flying = 0;
    m->is_owed = 0;
}

void postbag__trial_answered(struct trial *t, int which, int64_t seq)
{
    struct trial_mark *m = &t->marks[which];

    m->is_open = 0;
    if (m->seq == seq)
        wipe(m);
    if (t->left > 0)
        t->left--;
}

void postbag__trial_lost(struct trial *t)
{
    for (int i = 0; i < TRIAL_MARKS; i++) {
        struct trial_mark *m = &t->marks[i];

        if (!m->is_flying)
            continue;
        m->deaths--;
        m->is_flying = 0;
        m->is_owed = 1;
    }
}

void postbag__trial_passed(struct trial *t, int lane, int64_t acked)
{
    struct trial_mark *m = &t->marks[lane];
    int is_over = !t->by_held;

    if (acked >= m->seq)
        wipe(m);
    if (acked >= m->upto)
        m->upto = 0;
    for (int i = 0; i < TRIAL_HELD; i++)
        if (t->marks[i].upto != 0)
            is_over = 0;
    if (is_over)
        t->left = 0;
}

int postbag__trial_owes(const struct trial *t)
{
    for (int i = 0; i < TRIAL_MARKS; i++)
        if (t->marks[i].is_owed)
            return 1;
    return 0;
}

void postbag__trial_saved(struct trial *t)
{
    for (int i = 0; i < TRIAL_MARKS; i++)
        t->marks[i].is_owed = 0;
}
