/* SPDX-License-Identifier: MIT */
/* See fuse.h. */
#include "fuse.h"

#include <stddef.h>
#include <string.h>

static struct {
    const struct blow *blow; /* NULL: not armed */
    struct moment_of when;
    uint64_t asked, struck;
} fuse;

enum { GROUPS = FUSE_LOCK + 1, CALLS_OF_A_GROUP = 32 };

static unsigned char learnt[GROUPS][CALLS_OF_A_GROUP];
static int is_learning;
static const struct fuse_hooks *hooks;

void fuse_hook(const struct fuse_hooks *them)
{
    hooks = them;
}

void fuse_learn(void)
{
    memset(learnt, 0, sizeof(learnt));
    is_learning = 1;
}

int fuse_has_learnt(const struct blow *blow)
{
    return hooks != NULL || learnt[blow->group][blow->call];
}

void fuse_arm(const struct blow *blow, const struct moment_of *when)
{
    fuse.blow = blow;
    fuse.when = *when;
    fuse.asked = 0;
    fuse.struck = 0;
    if (hooks != NULL)
        hooks->arm(blow, when);
}

uint64_t fuse_struck(void)
{
    if (hooks != NULL && fuse.blow != NULL)
        fuse.struck = hooks->struck();
    return fuse.struck;
}

uint64_t fuse_disarm(void)
{
    uint64_t struck = fuse_struck();

    if (hooks != NULL && fuse.blow != NULL)
        hooks->disarm();
    fuse.blow = NULL;
    is_learning = 0;
    return struck;
}

uint64_t fuse_asked(void)
{
    return fuse.asked;
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
    if (is_learning)
        learnt[group][call] = 1;
    if (fuse.blow == NULL || fuse.blow->group != group ||
        fuse.blow->call != call)
        return 0;
    fuse.asked++;
    if (!is_its_turn())
        return 0;
    fuse.struck++;
    return fuse.blow->code;
}
