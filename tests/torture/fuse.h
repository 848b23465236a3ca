/* SPDX-License-Identifier: MIT */
/*
 * The one fuse of the program: which call fails, the how manieth of its kind,
 * and whether those after it do.  Whoever takes the place of a real call
 * (memory, port, transport, locks) asks it each time.  One thread.
 */
#ifndef POSTBAG_TORTURE_FUSE_H
#define POSTBAG_TORTURE_FUSE_H

#include <stdint.h>

enum fuse_group {
    FUSE_SQLITE_MEMORY,
    FUSE_OWN_MEMORY,
    FUSE_PORT,      /* call: enum sim_call, or FUSE_THREAD_START */
    FUSE_TRANSPORT, /* call: enum fake_call */
    FUSE_DISK,      /* call: enum memdisk_call */
    FUSE_LOCK       /* call: enum lock_kind */
};

/* A way to fail. */
struct blow {
    const char *name;
    enum fuse_group group;
    int call;
    int code;    /* what the call answers */
    int expect;  /* our error that it becomes; 0: any that is documented */
    int is_half; /* of the disk: half of a write is done */
};

/* When. */
struct moment_of {
    uint64_t nth; /* 1 is the first; 0: by chance */
    int for_good;
    uint64_t seed; /* by chance: of these calls so many in 1000 fail */
    unsigned per_mille;
};

/* Of calls that somebody else counts and fails (the disk in memory). */
struct fuse_hooks {
    void (*arm)(const struct blow *blow, const struct moment_of *when);
    uint64_t (*struck)(void); /* since it was armed */
    void (*disarm)(void);
};
void fuse_hook(const struct fuse_hooks *hooks);

void fuse_arm(const struct blow *blow, const struct moment_of *when);
/* How many calls failed since it was armed. */
uint64_t fuse_disarm(void);
/* Calls that were asked for since it was armed. */
uint64_t fuse_asked(void);
/* So far; it stays armed. */
uint64_t fuse_struck(void);
/* What this call must answer; 0: do your work. */
int fuse_ask(enum fuse_group group, int call);
/* Only note which calls come, until it is disarmed; did this one? */
void fuse_learn(void);
int fuse_has_learnt(const struct blow *blow);
/* What it is armed with; NULL: nothing. */
const struct blow *fuse_blow(void);

#endif
