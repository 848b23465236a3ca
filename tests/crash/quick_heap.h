/* SPDX-License-Identifier: MIT */
/*
 * SQLite's heap for programs that open databases by the million: what is given
 * back goes to a list of its size.  One thread.  A sanitizer sees nothing of
 * it, so with one it is left out.
 */
#ifndef POSTBAG_TESTS_QUICK_HEAP_H
#define POSTBAG_TESTS_QUICK_HEAP_H

/* Before SQLite's first call; its answer. */
int quick_heap_install(void);

#endif
