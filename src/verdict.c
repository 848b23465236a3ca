/* SPDX-License-Identifier: MIT */
/*
 * Reason codes as real brokers use them.  0x95 is not in the standard's list
 * for PUBACK, but mosquitto sends it; so any unknown code is repairable.
 */
#include "verdict.h"

enum verdict postbag__verdict(int reason)
{
    switch (reason) {
    case 0x90: /* Topic Name invalid */
    case 0x95: /* Packet too large */
    case 0x99: /* Payload format invalid */
        return VERDICT_DEAD;
    case 0x97: /* Quota exceeded */
        return VERDICT_THROTTLE;
    default:
        return VERDICT_RETRY;
    }
}

const char *postbag__reason_text(int reason)
{
    switch (reason) {
    case 0x80:
        return "unspecified error";
    case 0x83:
        return "implementation specific error";
    case 0x87:
        return "not authorized";
    case 0x90:
        return "topic name invalid";
    case 0x91:
        return "packet identifier in use";
    case 0x95:
        return "packet too large";
    case 0x97:
        return "quota exceeded";
    case 0x99:
        return "payload format invalid";
    default:
        return "refused";
    }
}
