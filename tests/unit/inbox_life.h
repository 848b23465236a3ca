/* SPDX-License-Identifier: MIT */
/* Handlers that may end the process. */
#ifndef POSTBAG_TEST_INBOX_LIFE_H
#define POSTBAG_TEST_INBOX_LIFE_H

#include <sys/wait.h>

#include "inbox_script.h"

/* Handle all that is due, in a process of its own.  1: it survived; 0: it died,
 * and of this signal. */
static int live(struct inbox_world *w, int by)
{
    pid_t child;
    int status;

    postbag__receiver_close(w->receiver);
    postbag__worker_close(w->worker);
    postbag__db_close(&w->t.db);
    w->receiver = NULL;
    w->worker = NULL;
    child = fork();
    if (child == 0) {
        world_open_worker(w, "");
        while (world_run_one(w))
            ;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(
        postbag__db_open(&w->t.db, w->t.path, DB_WRITE, DB_NORMAL, 1000),
        POSTBAG_OK);
    world_restart(w);
    assert_true(WIFEXITED(status) || WTERMSIG(status) == by);
    return WIFEXITED(status);
}

#endif
