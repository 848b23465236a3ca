/* SPDX-License-Identifier: MIT */
/*
 * A failing call at each place of a life.
 *
 *   life       what firmware or a tool does with some public functions: what it
 *              stands on, the act, and what must hold after it
 *   blow       which kind of call fails, and how (fuse.h)
 *   trial      one act in which the k-th call of a kind fails, once or for good
 *
 * After the act the fuse is out.  Then: the errors were those that the
 * function's comment names, nothing is held or half done, the same act works
 * if it is done again, a relay delivers all that is there, postbag_admin_verify
 * finds nothing, and nothing was leaked.  A program is one group of blows over
 * all lives.
 */
#ifndef POSTBAG_TORTURE_TORTURE_H
#define POSTBAG_TORTURE_TORTURE_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "fake_transport.h"
#include "fuse.h"
#include "postbag/admin.h"
#include "postbag/postbag.h"
#include "sim_port.h"
#include "stage.h"

enum { IDS = 4, DELIVERIES = 512 };

/* A frame that left. */
struct delivery {
    long long seq;
    char id[40];
    char key[40];
    int is_in_act; /* else at the end */
};

struct torture {
    struct sim_port sim;
    struct sqlite3 *app; /* the application's connection; NULL: none */
    struct sqlite3 *eye; /* looks on; no call of it fails */
    struct postbag_writer *w;
    struct postbag_admin *a;
    struct postbag *p;
    struct postbag_config config; /* of p */
    struct fake_transport *out, *in;
    unsigned destroyed; /* transports */
    struct postbag_fault why;
    unsigned log_errors; /* lines of the log that tell an error */
    char log[300];       /* the last of them */
    enum stage_base base;
    int is_ending;
    int is_again;   /* this act is the one after a failed one */
    int is_unknown; /* a COMMIT ended with EIO */
    struct postbag_id ids[IDS];
    int64_t numbers[4]; /* of the life */
    unsigned handled;
    const struct life *life;
    struct delivery sent[DELIVERIES];
    size_t sent_count;
    char wrong[600]; /* the first thing that was; "": nothing */
};

/* What the act ended with if it was not Postbag that failed: a statement of the
 * application. */
enum { APP_FAILED = -1 };

struct life {
    const char *name;
    enum stage_base base;
    /* No call fails here; what goes wrong ends the test. */
    void (*set_up)(struct torture *t);
    /* Calls functions as its user would, and after an error cleans up as he
       would.  The first error, or POSTBAG_OK. */
    int (*act)(struct torture *t);
    /* err: of the act.  What must hold now; may be NULL. */
    void (*check)(struct torture *t, int err);
    void (*tear_down)(struct torture *t); /* may be NULL */
    unsigned flags;
    const void *detail; /* of the life */
};

enum life_flag {
    LIFE_NO_END = 1, /* no outbox that a relay could empty */
    LIFE_LOCKS = 2,  /* what it opened may still hold locks after the act */
    LIFE_ALONE = 4,  /* it needs the database for itself */
    LIFE_NO_IDS = 8  /* what has left does not say which message it was */
};

/* All lives, NULL at the end. */
extern const struct life *const torture_lives[];

/* ---- In a life ---------------------------------------------------------- */

/* Call a public function that returns an error; the error. */
#define CALL(t, function, ...) \
    torture_end((t), #function, \
        (torture_begin((t), #function), function(__VA_ARGS__)))
/* ... that returns something else, or nothing. */
#define NOTE(t, function, ...) \
    (torture_begin((t), #function), function(__VA_ARGS__))
/* ... and takes nothing. */
#define NOTE_BARE(t, function) (torture_begin((t), #function), function())

void torture_begin(struct torture *t, const char *function);
int torture_end(struct torture *t, const char *function, int err);

#define PRINTF_OF(text, first) __attribute__((format(printf, text, first)))

/* Note what is wrong; the first counts. */
void torture_wrong(struct torture *t, const char *format, ...) PRINTF_OF(2, 3);
#define EXPECT(t, holds, ...) \
    do { \
        if (!(holds)) \
            torture_wrong((t), __VA_ARGS__); \
    } while (0)

/* ---- The programs ------------------------------------------------------- */

/* Everything of a program, but what replaces the calls: that stands before.
 * names: of lives, NULL at the end; none: all.  row: of the proof.
 * Exit code. */
int torture_main(
    char **names, const char *row, const struct blow *blows, size_t count);

/* Before the k-th public function is called, and after (program for locks). */
extern void (*torture_before)(struct torture *t);
extern void (*torture_after)(struct torture *t);

/* One trial of a life: what was wrong stands in t->wrong.  blow NULL: none, the
 * fuse learns which calls there are.
 * @return how many calls failed */
uint64_t torture_trial(struct torture *t, const struct life *life,
    const struct blow *blow, const struct moment_of *when);
/* Did the act ever call it while a fuse was armed? */
int torture_was_called(const char *function);

#endif
