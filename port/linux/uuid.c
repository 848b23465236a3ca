/* SPDX-License-Identifier: MIT */
/*
 * Ids from libuuid.  Any thread.
 *
 * Two traps are avoided here, and each would make two messages share an id,
 * so that a consumer that removes duplicates drops one of them:
 * - A statically linked Paho (1.3.12 and older) brings an uuid_generate of its
 *   own, seeded with the second, which wins over a shared libuuid's without a
 *   word.  It has no uuid_generate_random.
 * - While the kernel has no entropy yet, libuuid waits a second and then makes
 *   do with a seed from time and process number: the same on every device of a
 *   fleet that boots in 1970.  So the kernel is waited for first.
 *
 * libuuid reseeds random(3) on the way (2.38): an application that counts on
 * the sequence of its own srandom() loses it.
 */
#include <uuid/uuid.h>

#include "linux_port.h"

int postbag__linux_uuid(void *ctx, uint8_t out[16])
{
    uint8_t probe;
    int err = postbag__linux_random(ctx, &probe, sizeof(probe));

    if (err != POSTBAG_OK)
        return err;
    uuid_generate_random(out);
    return POSTBAG_OK;
}
