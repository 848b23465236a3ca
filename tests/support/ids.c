/* SPDX-License-Identifier: MIT */
/*
 * Draws ids and writes them, 16 bytes each, to standard output:
 *
 *   ids COUNT          COUNT of the process, then COUNT of a child of its
 *   ids COUNT clock    the same as a bad generator would: seeded with the clock
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "postbag/linux.h"
#include "postbag/postbag.h"

static void draw_badly(struct postbag_id *id, unsigned *seed)
{
    for (size_t i = 0; i < sizeof(id->b); i++)
        id->b[i] = (uint8_t)rand_r(seed);
}

static int draw(unsigned long count, unsigned *seed)
{
    struct postbag_id id;

    for (unsigned long i = 0; i < count; i++) {
        if (seed != NULL)
            draw_badly(&id, seed);
        else if (postbag_id_new(postbag_linux_port(), &id) != POSTBAG_OK)
            return 1;
        if (fwrite(id.b, sizeof(id.b), 1, stdout) != 1)
            return 1;
    }
    return fflush(stdout) != 0;
}

int main(int argc, char **argv)
{
    unsigned seed = (unsigned)time(NULL);
    unsigned *bad = argc > 2 && strcmp(argv[2], "clock") == 0 ? &seed : NULL;
    unsigned long count;
    int status;

    if (argc < 2)
        return 2;
    count = strtoul(argv[1], NULL, 10);
    /* so that the child has what the generator had begun with */
    if (draw(1, bad) != 0 || draw(count - 1, bad) != 0)
        return 1;
    if (fork() == 0)
        _exit(draw(count, bad));
    if (wait(&status) < 0 || status != 0)
        return 1;
    return 0;
}
