/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Before the handler: is the command still valid, and may the
 * handler end the process?
 *
 * Who is dead cannot record that it died, so the attempt is charged before the
 * handler is called, in a commit of its own that reads like a failed try: a
 * restart goes on with other commands first, and max_attempts bounds it.  Only
 * where there is some suspicion:
 *
 *     tried before                always
 *     never tried                 until one of its consumer's came back
 *
 * The command that ended the last process is the consumer's oldest one, but
 * for those that were tried before.  If another one is older by now, that one
 * comes back and is gone, so in the end the row is charged.  A process that
 * lives pays one commit for each consumer.
 */
#include "error.h"
#include "handling.h"

#define DIED "the process ended while the handler ran"

int postbag__handling_charge(
    struct handling *h, struct inbox_row *row, int is_proven, int *found_out)
{
    struct inbox_now at = postbag__handling_now(h);
    uint32_t delay_ms = postbag__handling_backoff_ms(
        h, row->attempts + 1, h->retry_base_ms, h->retry_cap_ms);
    int err;

    *found_out = 1;
    if (is_proven && row->attempts == 0)
        return POSTBAG_OK;
    err = postbag__inbox_try(&h->inbox, row, &at, delay_ms, DIED);
    if (err == POSTBAG_OK)
        err = postbag__commit(&h->db);
    if (err != POSTBAG_OK)
        return err;
    h->charged = row->arrival;
    err = postbag__begin(&h->db, DB_FULL);
    if (err == POSTBAG_OK)
        err = postbag__inbox_again(&h->inbox, row, found_out);
    return err;
}

static int take_back(struct handling *h)
{
    struct inbox_now at = postbag__handling_now(h);
    int err = postbag__inbox_retry(&h->inbox, h->charged, &at, 0, -1,
        "the storage failed while the handler ran, or it lost its turn");

    if (err == POSTBAG_ENOTFOUND) { /* somebody else finished it */
        postbag__rollback(&h->db);
        return POSTBAG_OK;
    }
    if (err != POSTBAG_OK) {
        postbag__rollback(&h->db);
        return err;
    }
    return postbag__commit(&h->db);
}

int postbag__handling_forgive(struct handling *h)
{
    int err;

    if (h->charged == 0)
        return POSTBAG_OK;
    err = postbag__begin(&h->db, DB_NORMAL);
    if (err == POSTBAG_OK)
        err = take_back(h);
    if (err == POSTBAG_OK)
        h->charged = 0;
    return err;
}

int postbag__handling_objects(const struct handling *h,
    const struct inbox_row *row, const struct inbox_now *at,
    struct objection *out)
{
    static const struct objection died = {
        DIED ", and it was the last attempt", "failed"};
    static const struct objection expired = {POSTBAG__EXPIRED, "expired"};
    const struct objection damaged = {row->damage.text, "failed"};

    if (row->damage.text[0] != '\0')
        *out = damaged;
    else if (row->attempts >= (int64_t)h->max_attempts)
        *out = died;
    else if (postbag__inbox_is_expired(row, at))
        *out = expired;
    else
        return 0;
    return 1;
}
