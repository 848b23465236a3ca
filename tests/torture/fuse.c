/* SPDX-License-Identifier: MIT */
/* See fuse.h. */
#include "fuse.h"

#include <stddef.h>

static struct {
    const struct blow *blow; /* NULL: not armed */
    struct moment_of when;
    uint64_t asked, struck;
} fuse;

void fuse_arm(const struct blow *blow, const struct moment_of *when)
{
    fuse.blow = blow;
    fuse.when = *when;
    fuse.asked = 0;
    fuse.struck = 0;
}

uint64_t fuse_disarm(void)
{
    fuse.blow = NULL;
    return fuse.struck;
}

uint64_t fuse_asked(void)
{
    return fuse.asked;
}

uint64_t fuse_struck(void)
{
    return fuse.struck;
}

const struct blow *fuse_blow(void)
{
    return fuse.blow;
}

/* xorshift64* */
static unsigned luck(uint64_t *seed)
{
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return (unsigned)(*seed * 2685821657736338717u >> 40) % 1000;
}

static int is_its_turn(void)
{
    if (fuse.when.nth == 0)
        return luck(&fuse.when.seed) < fuse.when.per_mille;
    return fuse.asked == fuse.when.nth ||
           (fuse.when.for_good && fuse.asked > fuse.when.nth);
}

int fuse_ask(enum fuse_group group, int call)
{
    if (fuse.blow == NULL || fuse.blow->group != group ||
        fuse.blow->call != call)
        return 0;
    fuse.asked++;
    if (!is_its_turn())
        return 0;
    fuse.struck++;
    return fuse.blow->code;
}
