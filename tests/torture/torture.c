/* SPDX-License-Identifier: MIT */
/* See torture.h: one trial, and what is judged in it. */
#include "torture.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "contract.h"
#include "ending.h"
#include "scene.h"

enum { CALLED = 128, PRINTS = 4096 };

void (*torture_before)(struct torture *t);
void (*torture_after)(struct torture *t);
static unsigned char called[CALLED];

void torture_wrong(struct torture *t, const char *format, ...)
{
    va_list args;

    if (t->wrong[0] != '\0')
        return;
    va_start(args, format);
    (void)vsnprintf(t->wrong, sizeof(t->wrong), format, args);
    va_end(args);
}

int torture_was_called(const char *function)
{
    int i = contract_find(function);

    return i >= 0 && called[i];
}

/* ---- around each call --------------------------------------------------- */

void torture_begin(struct torture *t, const char *function)
{
    int i = contract_find(function);

    if (i < 0)
        torture_wrong(t, "%s is in no header", function);
    else if (!t->is_ending)
        called[i] = 1;
    t->why = (struct postbag_fault){0};
    t->log_errors = 0;
    if (torture_before != NULL)
        torture_before(t);
}

static int is_one_of(const char *function, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(*list, function) == 0)
            return 1;
    return 0;
}

/* Where a function says more; NULL: nowhere. */
static const struct postbag_fault *fault_of(
    const struct torture *t, const char *function)
{
    static const char *const by_why[] = {"postbag_open", "postbag_writer_open",
        "postbag_admin_open", "postbag_admin_init", "postbag_admin_vacuum",
        "postbag_admin_salvage", "postbag_prepare", "postbag_paho_new", NULL};
    static const char *const by_writer[] = {"postbag_begin", "postbag_put",
        "postbag_commit", "postbag_find", "postbag_reply", "postbag_pressure",
        "postbag_inbox_claim", "postbag_inbox_finish", "postbag_inbox_next",
        "postbag_inbox_done", "postbag_inbox_put_off", NULL};

    if (is_one_of(function, by_why))
        return &t->why;
    if (is_one_of(function, by_writer))
        return postbag_writer_fault(t->w);
    if (strncmp(function, "postbag_admin_", 14) == 0)
        return postbag_admin_fault(t->a);
    return NULL;
}

static void judge_fault(struct torture *t, const char *function, int err)
{
    const struct postbag_fault *fault = fault_of(t, function);

    if (fault == NULL)
        return;
    EXPECT(t, fault->code == err, "%s returned %s, its fault says %s: %s",
        function, postbag_error_name(err), postbag_error_name(fault->code),
        fault->text);
    EXPECT(t,
        fault->text[0] != '\0' && strcmp(fault->text, "not an error") != 0 &&
            strcmp(fault->text, "unknown error") != 0,
        "%s returned %s, and its fault names nothing: \"%s\"", function,
        postbag_error_name(err), fault->text);
}

/* A thing that was not found was looked for; that is an answer. */
static int is_an_answer(int err)
{
    return err == POSTBAG_ENOTFOUND || err == POSTBAG_EAGAIN;
}

int torture_end(struct torture *t, const char *function, int err)
{
    const struct blow *blow = fuse_blow();

    if (torture_after != NULL)
        torture_after(t);
    if (err == POSTBAG_OK)
        return err;
    EXPECT(t, contract_allows(function, err), "%s returned %s, %s", function,
        postbag_error_name(err), "which its comment does not name");
    if (is_an_answer(err))
        return err;
    judge_fault(t, function, err);
    if (blow == NULL)
        return err;
    EXPECT(t, fuse_struck() > 0, "%s returned %s, and nothing had failed",
        function, postbag_error_name(err));
    EXPECT(t, blow->expect == 0 || err == blow->expect,
        "%s returned %s instead of %s", function, postbag_error_name(err),
        postbag_error_name(blow->expect));
    return err;
}

/* ---- one trial ---------------------------------------------------------- */

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

static void judge_locks(struct torture *t)
{
    sqlite3 *eye = scene_eye(t);
    int busy = 0;

    EXPECT(t, t->sim.open_gates == 0, "%d gates are held", t->sim.open_gates);
    if (eye == NULL || (t->life->flags & LIFE_LOCKS) != 0)
        return;
    if (t->app != NULL)
        EXPECT(t, sqlite3_get_autocommit(t->app),
            "a transaction is open on the application's connection");
    if (sqlite3_exec(eye, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL) !=
        SQLITE_OK) {
        torture_wrong(t, "the write lock is held: %s", sqlite3_errmsg(eye));
        return;
    }
    /* a frame that a checkpoint has to copy, and cannot while somebody reads */
    stage_run(eye, "PRAGMA user_version = 1");
    busy = (int)stage_get(eye, "PRAGMA wal_checkpoint(TRUNCATE)");
    EXPECT(t, busy == 0, "a read lock is held: a statement was not reset");
}

static void judge(struct torture *t, int err)
{
    judge_locks(t);
    if (t->life->check != NULL)
        t->life->check(t, err);
    if ((t->life->flags & LIFE_ALONE) != 0)
        scene_shut_eye(t);
}

static void act_again(struct torture *t)
{
    int err;

    t->is_again = 1;
    err = t->life->act(t);
    EXPECT(t, err == POSTBAG_OK, "again, with nothing that fails: %s (%s)",
        postbag_error_name(err), t->log);
    judge(t, err);
}

static int acts(struct torture *t, const struct blow *blow,
    const struct moment_of *when, uint64_t *struck)
{
    int err;

    if (blow == NULL)
        fuse_learn();
    else
        fuse_arm(blow, when);
    err = t->life->act(t);
    *struck = fuse_disarm();
    if (torture_after != NULL)
        torture_after(t);
    if (*struck == 0)
        EXPECT(t, err == POSTBAG_OK, "nothing failed, but the act: %s (%s)",
            postbag_error_name(err), t->log);
    return err;
}

/* The end of a life follows from what is in the database and what has left:
 * once for each is enough. */
static int is_new(struct torture *t)
{
    static const struct life *of;
    static uint64_t seen[PRINTS];
    static size_t count;
    uint64_t print = scene_print(t);

    for (size_t i = 0; i < t->sent_count; i++)
        print = print * 31 + (uint64_t)t->sent[i].seq;
    if (of != t->life)
        count = 0;
    of = t->life;
    for (size_t i = 0; i < count; i++)
        if (seen[i] == print)
            return 0;
    if (count < PRINTS)
        seen[count++] = print;
    return 1;
}

uint64_t torture_trial(struct torture *t, const struct life *life,
    const struct blow *blow, const struct moment_of *when)
{
    int64_t memory;
    uint64_t struck;
    int files, err;

    stage_set(life->base);
    memory = sqlite3_memory_used();
    files = open_files();
    scene_begin(t, life);
    life->set_up(t);
    err = acts(t, blow, when, &struck);
    judge(t, err);
    if (err != POSTBAG_OK)
        act_again(t);
    if (life->tear_down != NULL)
        life->tear_down(t);
    scene_end(t);
    if (t->wrong[0] == '\0' && (life->flags & LIFE_NO_END) == 0 && is_new(t))
        ending(t);
    EXPECT(t, sqlite3_memory_used() == memory,
        "%lld bytes of SQLite's memory are not given back",
        (long long)(sqlite3_memory_used() - memory));
    EXPECT(t, open_files() == files, "%d files are left open",
        open_files() - files);
    return struck;
}
