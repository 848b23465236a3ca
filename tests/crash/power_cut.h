/* SPDX-License-Identifier: MIT */
/*
 * Power cuts: a scene is played on a disk in memory (memdisk.h), and before
 * each change of a file it is looked at what a cut at this moment would leave:
 * of what was not synced nothing, all, all with the last write torn, and parts
 * by chance.  Of moments that leave the same the latest is taken, since by then
 * most has been promised.
 *
 *     POSTBAG_SEED=N    repeats the chance, from the first scene on
 *     POSTBAG_FULL=1    more scenes, of all page sizes
 *     POSTBAG_PROVE=1   many more
 */
#ifndef POSTBAG_TESTS_POWER_CUT_H
#define POSTBAG_TESTS_POWER_CUT_H

#include <stdint.h>

#include "memdisk.h"
#include "sim_port.h"
#include "unit.h"

struct sqlite3;

/* What is wrong with what is left. */
enum finding {
    SOUND,
    DAMAGED,   /* no database, by SQLite's rules or by ours */
    LOST,      /* what was promised is not there */
    PHANTOM,   /* what was sent never happened */
    APART,     /* what belongs together is not */
    RENAMED,   /* a message has another id */
    FORGOTTEN, /* the next relay does not send what it must */
    DISORDER,  /* it sends what is of a key in another order */
    REPEATED,  /* a command that comes again has another effect */
    FINDINGS
};

/* How much of what is left is looked at; bits. */
enum { CUT_VERIFY = 1, CUT_GO_ON = 2, CUT_VERIFY_AFTER = 4 };

struct power_cut {
    /* given: */
    uint64_t seed;
    enum finding (*look)(void *ctx, unsigned depth);
    void *ctx;
    unsigned draws; /* of each cut that has luck in it; 0: one */
    int goes_on;    /* after a finding: a control */
    /* made: */
    struct memdisk *disk, *left;
    unsigned page_size; /* by the seed */
    uint64_t images, found[FINDINGS];
    enum finding first;
    unsigned promises; /* count them up as they are made */
    unsigned seen;     /* of them when last looked at nothing left */
};

/* Once, at first. */
void power_cut_install(void);

/* ---- one scene ---- */

/* Two empty disks. */
void power_cut_begin(struct power_cut *c);
/* All that is on the disk now is synced, and nobody has it open; from now on
 * each cut is looked at. */
void power_cut_watch(struct power_cut *c);
/* The last look; then no more. */
void power_cut_rest(struct power_cut *c);
void power_cut_end(struct power_cut *c);
/* The path of a file on one of its disks; until the next call. */
const char *power_cut_file(const struct memdisk *disk);
/* A port whose files are nowhere: no lock is held by another, no witness. */
void power_cut_port(struct sim_port *sim, uint8_t boot);

/* ---- a database that may be damaged ---- */

/* The one number of a query; -1, and *is_bad set, if there is none. */
int64_t power_cut_get(struct sqlite3 *db, int *is_bad, const char *sql);
/* By SQLite's rules. */
int power_cut_is_sound(struct sqlite3 *db);
/* By our own, which are told then. */
int power_cut_is_verified(const char *path);

/* ---- many scenes ---- */

/* A scene: play it, and add its images and findings to *c, which has its seed
 * and nothing else. */
typedef void (*power_cut_scene)(struct power_cut *c);

/* Scenes of one row of the matrix: all is SOUND.  share: of the images that
 * the size of the run asks for, in hundredths. */
void power_cut_prove(const char *row, power_cut_scene play, unsigned share);
/* A control: what must be found is found, in some image.  FINDINGS: anything
 * that is wrong. */
void power_cut_control(const char *row, const char *name, power_cut_scene play,
    enum finding expected);

#endif
