/* SPDX-License-Identifier: MIT */
/*
 * What include/postbag says of each public function: that it is there, and
 * which errors its comment names.  Read from the headers themselves, so that
 * no second list can say otherwise.
 */
#ifndef POSTBAG_TORTURE_CONTRACT_H
#define POSTBAG_TORTURE_CONTRACT_H

#include <stddef.h>

/* 0 to contract_count() - 1; in the order of the headers' names. */
size_t contract_count(void);
const char *contract_name(size_t i);
/* -1: there is no such function. */
int contract_find(const char *function);

/* May it return this error?  Also what its comment says by "as postbag_x", and
 * what admin.h says of all its calls.  1 where its comment names no error. */
int contract_allows(const char *function, int err);

#endif
