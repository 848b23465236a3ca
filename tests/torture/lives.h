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
/* lives_engine.c */
extern const struct life life_open, life_open_bare, life_relay,
    life_relay_large, life_relay_refused, life_relay_json, life_commands,
    life_threads;
/* lives_admin.c */
extern const struct life life_init, life_init_bare, life_admin_open,
    life_admin_open_writable, life_destinations, life_database, life_status,
    life_list, life_show, life_inbox_list, life_live_path, life_verify;
/* lives_repair.c */
extern const struct life life_set_profile, life_dest_add, life_dest_remove,
    life_admin_put, life_requeue, life_discard, life_replay, life_archive,
    life_purge, life_inbox_requeue, life_inbox_discard, life_vacuum,
    life_prepare, life_prepare_new;
/* lives_salvage.c */
extern const struct life life_salvage;
/* lives_texts.c */
extern const struct life life_texts, life_ids, life_paho;

#endif
