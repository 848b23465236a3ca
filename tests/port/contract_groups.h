/* SPDX-License-Identifier: MIT */
/* The groups of the contract suite; each returns the number of failures. */
#ifndef POSTBAG_CONTRACT_GROUPS_H
#define POSTBAG_CONTRACT_GROUPS_H

int run_time_contract(void);
int run_wake_contract(void);
int run_watch_contract(void);
int run_gate_contract(void);
int run_thread_contract(void);
int run_file_contract(void);

#endif
