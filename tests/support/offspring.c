/* SPDX-License-Identifier: MIT */
/* See offspring.h. */
#include "offspring.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static void wait_for_the_end(void)
{
    for (;;)
        (void)pause();
}

static void make(int runs_another)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (runs_another)
            (void)execlp("sleep", "sleep", "600", (char *)NULL);
        else
            wait_for_the_end();
        _exit(1);
    }
    dprintf(STDOUT_FILENO, "%s %d\n", runs_another ? "exec" : "fork", (int)pid);
}

void offspring_make(void)
{
    make(1);
    make(0);
}
