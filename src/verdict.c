/* SPDX-License-Identifier: MIT */
/*
 * Reason codes as real brokers use them: also where the standard does not list
 * them for the packet (mosquitto's PUBACK 0x95), so an unknown code is always
 * taken for something that may pass.
 */
#include "verdict.h"

#include <stddef.h>

#include "postbag/transport.h"

enum verdict postbag__verdict(int reason)
{
    switch (reason) {
    case 0x90: /* Topic Name invalid */
    case 0x95: /* Packet too large */
    case 0x99: /* Payload format invalid */
        return VERDICT_DEAD;
    case 0x91: /* Packet identifier in use */
        return VERDICT_RECONNECT;
    case 0x97: /* Quota exceeded */
        return VERDICT_THROTTLE;
    default:
        return VERDICT_RETRY;
    }
}

/* What means the same in a CONNACK and in a DISCONNECT. */
static enum link_verdict either_way(int reason)
{
    switch (reason) {
    case 0x86: /* credentials, bans */
    case 0x8a:
    case 0x8c:
    case 0x96: /* too much, too fast */
    case 0x97:
    case 0x9f:
    case 0x98: /* an operator wants it so */
        return LINK_SLOW;
    case 0x9c: /* Use another server */
    case 0x9d: /* Server moved */
        return LINK_OTHER_SERVER;
    default:
        return LINK_AGAIN;
    }
}

enum link_verdict postbag__connack_verdict(int reason)
{
    switch (reason) {
    case 1:    /* 3.1.1: Unacceptable protocol version */
    case 2:    /* Identifier rejected */
    case 4:    /* Bad user name or password */
    case 5:    /* Not authorized */
    case 0x81: /* what is wrong with our CONNECT stays wrong */
    case 0x82:
    case 0x84:
    case 0x85:
    case 0x87: /* credentials */
    case 0x90: /* the last will */
    case 0x95:
    case 0x99:
    case 0x9a:
    case 0x9b:
        return LINK_SLOW;
    default:
        return either_way(reason);
    }
}

enum link_verdict postbag__disconnect_verdict(int reason)
{
    switch (reason) {
    case 0x8f: /* subscriptions that this broker does not take */
    case 0x9e:
    case 0xa1:
    case 0xa2:
        return LINK_SLOW;
    case 0x8e: /* Session taken over */
        return LINK_TAKEN_OVER;
    case 0x96: /* Message rate too high */
    case 0x97: /* Quota exceeded */
        return LINK_QUOTA;
    case 0x81: /* Malformed packet */
    case 0x82: /* Protocol error */
    case 0x87: /* Not authorized */
    case 0x90: /* Topic Name invalid */
    case 0x95: /* Packet too large */
    case 0x99: /* Payload format invalid */
    case 0x9a: /* Retain not supported */
    case 0x9b: /* QoS not supported */
        return LINK_BLAMES_ROWS;
    default:
        return either_way(reason);
    }
}

/* ---- names ---- */

enum { REASONS = 0xa3 };

static const char *const names[REASONS] = {
    [0x00] = "success",
    [0x01] = "granted QoS 1",
    [0x02] = "granted QoS 2",
    [0x04] = "disconnect with will message",
    [0x10] = "no matching subscribers",
    [0x11] = "no subscription existed",
    [0x18] = "continue authentication",
    [0x19] = "re-authenticate",
    [0x80] = "unspecified error",
    [0x81] = "malformed packet",
    [0x82] = "protocol error",
    [0x83] = "implementation specific error",
    [0x84] = "unsupported protocol version",
    [0x85] = "client identifier not valid",
    [0x86] = "bad user name or password",
    [0x87] = "not authorized",
    [0x88] = "server unavailable",
    [0x89] = "server busy",
    [0x8a] = "banned",
    [0x8b] = "server shutting down",
    [0x8c] = "bad authentication method",
    [0x8d] = "keep alive timeout",
    [0x8e] = "session taken over",
    [0x8f] = "topic filter invalid",
    [0x90] = "topic name invalid",
    [0x91] = "packet identifier in use",
    [0x92] = "packet identifier not found",
    [0x93] = "receive maximum exceeded",
    [0x94] = "topic alias invalid",
    [0x95] = "packet too large",
    [0x96] = "message rate too high",
    [0x97] = "quota exceeded",
    [0x98] = "administrative action",
    [0x99] = "payload format invalid",
    [0x9a] = "retain not supported",
    [0x9b] = "QoS not supported",
    [0x9c] = "use another server",
    [0x9d] = "server moved",
    [0x9e] = "shared subscriptions not supported",
    [0x9f] = "connection rate exceeded",
    [0xa0] = "maximum connect time",
    [0xa1] = "subscription identifiers not supported",
    [0xa2] = "wildcard subscriptions not supported",
};

static const char *const connack_3_1_1[] = {
    [0] = "accepted",
    [1] = "unacceptable protocol version",
    [2] = "client identifier rejected",
    [3] = "server unavailable",
    [4] = "bad user name or password",
    [5] = "not authorized",
};

const char *postbag_reason_text(int reason, unsigned is_connack_3_1_1)
{
    if (is_connack_3_1_1 && reason >= 0 && reason <= 5)
        return connack_3_1_1[reason];
    if (reason < 0 || reason >= REASONS || names[reason] == NULL)
        return "unknown reason";
    return names[reason];
}
