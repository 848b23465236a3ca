/* SPDX-License-Identifier: MIT */
/* Floor 1.  What other threads tell a link, see link.h.  What came is written
 * before the number that says so. */
#include "link.h"

#include "printable.h"

void postbag__link_note_up(
    struct link *l, uint32_t generation, const struct postbag_link *info)
{
    l->up_info = *info;
    atomic_store(&l->up_generation, generation);
}

void postbag__link_note_lost(
    struct link *l, uint32_t generation, int err, int reason, const char *text)
{
    l->lost.err = err;
    l->lost.reason = reason;
    postbag__printable(l->lost.text, sizeof(l->lost.text),
        text == NULL ? postbag_error_text(err) : text);
    atomic_store(&l->lost_generation, generation);
}

void postbag__link_note_subscribed(struct link *l, uint32_t generation)
{
    atomic_store(&l->subscribed_generation, generation);
}

void postbag__link_note_arrived(struct link *l)
{
    (void)atomic_fetch_add(&l->arrivals, 1);
}

void postbag__link_note_hint(struct link *l, int is_up)
{
    atomic_store(&l->hint, is_up ? HINT_BACK : HINT_GONE);
}

void postbag__link_note_renewal(struct link *l)
{
    atomic_store(&l->renew, 1);
}
