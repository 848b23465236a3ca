/* SPDX-License-Identifier: MIT */
/* Runs the groups of the contract suite, one file each. */
#include "port_contract.h"

#include "contract_groups.h"
#include "contract_support.h"

int port_contract_run(const struct postbag_port *under_test)
{
    port = under_test;
    return run_time_contract() + run_wake_contract() + run_watch_contract() +
           run_gate_contract() + run_thread_contract() + run_file_contract();
}
