/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  When a connection that has not ended must end: what it owes does
 * not come, or it takes nothing more.
 */
#include "abi.h"
#include "sender.h"

int64_t postbag__sender_ack_timeout_us(const struct sender *s)
{
    return (int64_t)s->options.ack_timeout_ms * 1000;
}

static const uint64_t *bytes_taken(const struct sender *s, uint64_t *taken)
{
    const struct postbag_transport_ops *ops = s->link->transport->ops;

    if (!POSTBAG__TRANSPORT_HAS(ops, transfers))
        return NULL;
    return ops->transfers(s->link->transport, taken) ? taken : NULL;
}

/* The deadline of patience comes in time: without one, PUBACKs wake us. */
static int is_overtaken(struct sender *s, int64_t now_us)
{
    return postbag__overtaking_is_due(&s->overtaking, now_us) &&
           postbag__overtaking_look(&s->overtaking, now_us,
               postbag__sender_ack_timeout_us(s),
               postbag__window_oldest(&s->window), s->suspicion.answered);
}

/* It says that there is no link, or no room, and reports no end of it, although
 * nothing is in flight that could take up the room.  (Without a row that waits
 * it is not asked, and has last said so long ago.) */
static int takes_nothing(const struct sender *s, int64_t now_us)
{
    enum { LATELY_US = 1000000 };

    return s->turned_down_us != 0 && s->window.used == 0 &&
           now_us < s->retry_us + LATELY_US &&
           now_us - s->turned_down_us >= postbag__sender_ack_timeout_us(s);
}

const char *postbag__sender_gives_up(struct sender *s, int64_t now_us)
{
    int64_t wait_us = postbag__sender_ack_timeout_us(s);
    uint64_t taken;

    if (s->is_confused)
        return "the broker finds our packet id in use (0x91)";
    if (takes_nothing(s, now_us))
        return "it takes no message, and does not end";
    if (is_overtaken(s, now_us))
        return "no PUBACK in time for one message, but for others";
    if (s->window.used == 0 ||
        now_us < postbag__patience_deadline(&s->patience, wait_us))
        return NULL;
    if (postbag__patience_is_over(
            &s->patience, now_us, wait_us, bytes_taken(s, &taken)))
        return "no PUBACK in time";
    return NULL;
}
