/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  What the end of a connection means for a row that was in flight:
 * nothing, set aside, or dead (suspicion.h).  What must survive a crash, that
 * it is suspect, stands in its error.
 */
#include "sender.h"

/* For so long a connection may still bring what proves it. */
enum { YOUNG_US = 5 * 1000000 };

/* What postbag__held_is_suspect looks for begins the first. */
struct words {
    const char *set_aside, *guilty;
};
static const struct words words[] = {
    [SUSPICION_HANG_UP] = {HELD_SUSPECT
        " the link died 3 times while it alone was in flight",
        "the link died while it alone was in flight: 3 times, and again after"
        " the broker had taken another message"},
    [SUSPICION_QUOTA] = {HELD_SUSPECT
        " the link ended with quota exceeded 3 times while it alone was in"
        " flight",
        "the link ended with quota exceeded while it alone was in flight: 3"
        " times, and 3 times after the broker had taken other messages"},
    [SUSPICION_SILENCE] = {HELD_SUSPECT
        " the link was up and brought no PUBACK for it, 3 times",
        "no PUBACK came for it: 3 times, and again while it alone was in"
        " flight, after the broker had taken another message"},
};

static const struct words *words_of(enum suspicion_end end)
{
    return &words[end == SUSPICION_BLAME ? SUSPICION_HANG_UP : end];
}

static int64_t now_us(const struct sender *s)
{
    return s->shared->port->mono_us(s->shared->port->ctx);
}

/* Not before others had a turn: what is suspect may have to end a connection
 * to be judged. */
static int put_off(
    struct sender *s, int64_t seq, const char *error, held_planner *plan)
{
    return postbag__sender_put_off(s, seq, DB_FULL, error, plan);
}

static int suspect(struct sender *s, int64_t seq, const char *error)
{
    for (int i = 0; i < POSTBAG__LANES; i++) {
        struct entry *e = postbag__lane_find(&s->lanes[i], seq);

        if (e != NULL && e->state == ENTRY_READY)
            return postbag__sender_hold(s, i, e, "retry", error);
    }
    /* a held row that others had not killed */
    return put_off(s, seq, error, postbag__held_postpone);
}

/* The next ones would wait for what this one did to the link's backoff.  With
 * each that is set aside and no PUBACK since, the link is more likely to
 * blame. */
static void ease_link(struct sender *s)
{
    uint32_t aside = s->suspicion.aside;

    postbag__link_ease(s->link, now_us(s), aside > 0 ? aside : 1);
}

static int set_row_aside(struct sender *s, int64_t seq, const char *error)
{
    int err = suspect(s, seq, error);

    if (err != POSTBAG_OK)
        return err;
    postbag__log(s->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
        "message %lld is set aside: %s", (long long)seq, error);
    ease_link(s);
    return POSTBAG_OK;
}

static int bury(struct sender *s, const struct row *row, const char *error)
{
    int err = postbag__sender_bury(s, row, error, 0);

    if (err == POSTBAG_OK)
        ease_link(s);
    return err;
}

/* allowed: attempts with which it stays a suspect. */
static int charge(
    struct sender *s, int64_t seq, enum suspicion_end end, int allowed)
{
    struct row row;
    int attempts;
    int err = postbag__held_fetch(s->held, seq, &s->row_arena, &row, &attempts);

    if (err != 1)
        return err; /* an operator removed it: nothing to record */
    if (attempts + 1 > allowed)
        return bury(s, &row, words_of(end)->guilty);
    return put_off(s, seq, words_of(end)->set_aside, postbag__held_again);
}

/* Others found no room beside what was lost, or wait for its key.  Who is
 * throttled is in nobody's way: it is the broker that is slow. */
static int is_in_the_way(struct sender *s, int64_t seq)
{
    if (s->is_in_the_way || s->allowed < postbag__sender_full_window(s))
        return s->is_in_the_way;
    for (int i = 0; i < POSTBAG__LANES; i++) {
        const struct entry *e = postbag__lane_find(&s->lanes[i], seq);

        if (e != NULL)
            return postbag__lane_has_follower(&s->lanes[i], e);
    }
    return 0;
}

int postbag__sender_judge(struct sender *s, enum suspicion_end end)
{
    struct suspicion *suspicion = &s->suspicion;
    int64_t seq = suspicion->oldest;
    struct suspicion_row lone = {.is_in_the_way = is_in_the_way(s, seq)};

    postbag__trial_lost(&s->trial);
    if (suspicion->lost == 1)
        lone.is_suspect = postbag__held_is_suspect(s->held, seq);
    if (lone.is_suspect < 0)
        return lone.is_suspect;
    switch (postbag__suspicion_death(suspicion, end, &lone)) {
    case SUSPICION_SET_ASIDE:
        return set_row_aside(s, seq, words_of(end)->set_aside);
    case SUSPICION_AGAIN:
        return put_off(s, seq, NULL, postbag__held_postpone);
    case SUSPICION_CHARGE:
        return charge(s, seq, end, SUSPICION_ENDS - 1);
    case SUSPICION_GUILTY:
        return charge(s, seq, end, 0);
    case SUSPICION_NONE:
        break;
    }
    return POSTBAG_OK;
}

static int do_others_wait(const struct sender *s)
{
    for (int i = 0; i < POSTBAG__LANES; i++)
        if (s->lanes[i].count > 0 || s->lanes[i].scanned < s->newest)
            return 1;
    return 0;
}

/* Others first, since only they can prove the connection: those that wait, and
 * those that may come while it is young.  But at the bound none are sent, nor
 * while all that wait are of a key at its own; and one that ends each
 * connection while it is young must not keep a suspect out for good. */
int postbag__sender_may_try_suspect(const struct sender *s, int64_t at_us)
{
    int is_young = at_us - s->link->up_us < YOUNG_US;

    if (postbag__suspicion_was_acked(&s->suspicion) || s->bound.is_reached)
        return 1;
    if (do_others_wait(s))
        return !is_young && s->window.used == 0;
    return !is_young || postbag__suspicion_owes(&s->suspicion);
}
