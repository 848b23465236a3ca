/* SPDX-License-Identifier: MIT */
/* Names on the wire.  A real gateway would put its serial number here. */
#ifndef DEMO_NAMES_H
#define DEMO_NAMES_H

#define DEVICE "gw/host"
#define SOURCE "/gateways/host"

#define TOPIC_EVENTS DEVICE "/evt/"
#define TOPIC_ALARMS DEVICE "/alarm/"
#define TOPIC_SET_INTERVAL DEVICE "/cmd/set-interval"
#define TOPIC_RESET_COUNTER DEVICE "/cmd/reset-counter"
/* The sender of a command chooses where the reply goes, but it leaves with
   our credentials: so only to these. */
#define REPLY_TOPICS DEVICE "/cmd/+/res"

#endif
