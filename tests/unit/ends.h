/* SPDX-License-Identifier: MIT */
/* Connections that end, one letter a row. */
#ifndef POSTBAG_TESTS_ENDS_H
#define POSTBAG_TESTS_ENDS_H

#include "suspicion.h"

/* A connection that answers so many rows, then ends with these in flight. */
static inline enum suspicion_verdict end_with(struct suspicion *s, int answers,
    const char *rows, enum suspicion_end end, int is_suspect)
{
    uint64_t nth = 0;

    postbag__suspicion_link_up(s);
    for (int i = 0; i < answers; i++)
        postbag__suspicion_answered(s, ++nth, 1);
    for (; *rows != 0; rows++)
        postbag__suspicion_lost(s, *rows, ++nth);
    return postbag__suspicion_death(
        s, end, &(struct suspicion_row){.is_suspect = is_suspect});
}

static inline enum suspicion_verdict die(
    struct suspicion *s, int answers, const char *rows, int is_suspect)
{
    return end_with(s, answers, rows, SUSPICION_HANG_UP, is_suspect);
}

#endif
