/* SPDX-License-Identifier: MIT */
/*
 * Children of a firmware of the tests: one that runs another program, and one
 * that only forks.  Both wait, say nothing, and die with their parent.
 */
#ifndef POSTBAG_TEST_OFFSPRING_H
#define POSTBAG_TEST_OFFSPRING_H

/* Says "exec PID" and "fork PID" on standard output, and leaves them. */
void offspring_make(void);

#endif
