/* SPDX-License-Identifier: MIT */
/* Floor 0.  What a PUBACK's reason code means for the message. */
#ifndef POSTBAG_SRC_VERDICT_H
#define POSTBAG_SRC_VERDICT_H

enum verdict {
    VERDICT_DEAD,    /* can never work */
    VERDICT_RETRY,   /* may be repaired, as an access list */
    VERDICT_THROTTLE /* too fast: slow down, nothing is charged */
};

/* For reason codes of 0x80 and more (MQTT 5, 2.4). */
enum verdict postbag__verdict(int reason);
/* A few words, as "not authorized"; never NULL. */
const char *postbag__reason_text(int reason);

#endif
