/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  The profile of each destination: its name in outbox_dest, and the
 * trigger outbox_profile_<dest in hex>, which holds every writer to its rules.
 */
#ifndef POSTBAG_SRC_PROFILE_STORE_H
#define POSTBAG_SRC_PROFILE_STORE_H

#include "db.h"
#include "profile.h"

/* At a put the packet is not known yet: of max_packet so much is left to what
 * the envelope adds on MQTT 5. */
enum { POSTBAG__ENVELOPE_BYTES = 1024 };

/* The destination's profile; "any" if none was ever set.  EINVAL: this library
 * does not know it.  ENOTFOUND: there is no such destination. */
POSTBAG_CHECK int postbag__profile_read(
    struct db *db, const char *dest, const struct postbag_profile **out);

/* Set it, in a transaction of its own; writes nothing if it is set already.
 * EINVAL: the destination's name cannot stand in SQL. */
POSTBAG_CHECK int postbag__profile_set(
    struct db *db, const char *dest, const struct postbag_profile *p);

/* A destination goes: its trigger, too.  In a transaction of the caller. */
POSTBAG_CHECK int postbag__profile_forget(struct db *db, const char *dest);

/* EINVAL with a fault that lists the profiles there are. */
POSTBAG_CHECK int postbag__profile_named(const char *name,
    const struct postbag_profile **out, struct postbag_fault *why);

#endif
