/* SPDX-License-Identifier: MIT */
#include "lives.h"

const struct life *const torture_lives[] = {&life_writer_open, &life_put,
    &life_put_beside_engine, &life_roll_back, &life_own_transaction, &life_ask,
    &life_claim, &life_claim_repeated, &life_pull, &life_put_off,
    &life_put_off_for_good, NULL};
