/* SPDX-License-Identifier: MIT */
/* Every life, by the file that has it; torture_lives has them all. */
#ifndef POSTBAG_TORTURE_LIVES_H
#define POSTBAG_TORTURE_LIVES_H

#include "torture.h"

/* lives_writer.c */
extern const struct life life_writer_open, life_put, life_put_beside_engine,
    life_roll_back, life_own_transaction, life_ask;
/* lives_inbox.c */
extern const struct life life_claim, life_claim_repeated, life_pull,
    life_put_off, life_put_off_for_good;

#endif
