/* SPDX-License-Identifier: MIT */
/*
 * The contract suite: what include/postbag/port.h says, as far as a program
 * can check it.  Runs over any port; the system around it must be POSIX.
 */
#ifndef POSTBAG_PORT_CONTRACT_H
#define POSTBAG_PORT_CONTRACT_H

#include "postbag/port.h"

/* Run all of it, one folder in /tmp for each test.  Returns the number of
   failed tests. */
int port_contract_run(const struct postbag_port *under_test);

#endif
