/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  What the broker's reason codes mean, and what they are called: a
 * PUBACK's for the message, a CONNACK's or DISCONNECT's for the link.
 */
#ifndef POSTBAG_SRC_VERDICT_H
#define POSTBAG_SRC_VERDICT_H

enum verdict {
    VERDICT_DEAD,     /* can never work */
    VERDICT_RETRY,    /* may be repaired, as an access list */
    VERDICT_THROTTLE, /* too fast: slow down, nothing is charged */
    VERDICT_RECONNECT /* the connection is confused, nothing is charged */
};

enum link_verdict {
    LINK_AGAIN,        /* try again as after any failure */
    LINK_SLOW,         /* no use in seconds, and trying often does harm */
    LINK_OTHER_SERVER, /* not here: the next server, now */
    LINK_TAKEN_OVER,   /* another client uses our client id */
    LINK_BLAMES_ROWS,  /* a message in flight may be the reason */
    LINK_QUOTA         /* slow, and a message may be the reason all the same */
};

/* Of a PUBACK, 0x80 and more (MQTT 5, 2.4). */
enum verdict postbag__verdict(int reason);
/* Of a CONNACK: MQTT 5's codes and 1 to 5 of 3.1.1. */
enum link_verdict postbag__connack_verdict(int reason);
/* Of a DISCONNECT from the broker, or of a SUBACK that refused. */
enum link_verdict postbag__disconnect_verdict(int reason);

/* Their names: postbag_reason_text (transport.h). */

#endif
