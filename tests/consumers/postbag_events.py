# SPDX-License-Identifier: MIT
"""What Postbag sends, as a consumer in Python meets it: the envelope, and an
MQTT client that acknowledges after the work is done.  For paho-mqtt 1.6.

A consumer is a function take(event): it does the effect and remembers the
event in one transaction, and returns what is worth telling, as
"duplicate" or "gap /gateways/gw1 valve-3: after 2 came 4", or None.
"""
import re
import sys
import time
from dataclasses import dataclass
from datetime import datetime

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

# The broker keeps our messages for so long while we are away.
SESSION_S = 7 * 24 * 3600
# Whoever is older than this has a clock that is wrong.
OLDEST_MS = 90 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Event:
    source: str
    id: str
    key: str | None
    version: int | None
    published_ms: float | None
    payload: bytes


def read(message):
    """The event in an MQTT message; ValueError if there is none."""
    said = dict(getattr(message.properties, "UserProperty", ()))
    if not said.get("source") or not said.get("id"):
        raise ValueError("no source, or no id")
    version = said.get("keyversion")
    if version is not None and not re.fullmatch(r"-?[0-9]{1,18}", version):
        raise ValueError("a keyversion that is no number")
    # the time of a replay says when it was sent first
    published = None if "replay" in said else milliseconds(said.get("time"))
    return Event(said["source"], said["id"], said.get("partitionkey"),
                 None if version is None else int(version), published,
                 message.payload)


def milliseconds(text):
    """A time of the envelope since 1970, or None: applications may set it."""
    try:
        when = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return None if when.tzinfo is None else when.timestamp() * 1000


def latency_ms(event, now_ms):
    """From publish to effect; None where the clocks cannot say."""
    if event.published_ms is None:
        return None
    took = now_ms - event.published_ms
    return took if 0 <= took <= OLDEST_MS else None


def tell(event, found):
    """On standard output a line for each effect, the rest beside it."""
    if found is not None:
        print(found, file=sys.stderr, flush=True)
    if found != f"duplicate {event.id}":
        took = latency_ms(event, time.time() * 1000)
        print("effect", event.id, "" if took is None else f"{took:.1f} ms",
              flush=True)


def handle(take, message):
    try:
        event = read(message)
    except ValueError as error:
        # would come again for ever, and nobody could tell it from others
        print(f"malformed {message.topic}: {error}", file=sys.stderr,
              flush=True)
        return
    tell(event, take(event))


def must(reason):
    if reason.value >= 0x80:
        sys.exit(f"the broker refuses: {reason}")


def run(take, host, port, client_id, topic_filter):
    """Returns never.  An exception of take ends the process, and the message,
    for which no PUBACK left, comes again when the process is started again."""
    client = mqtt.Client(client_id, protocol=mqtt.MQTTv5)

    def connected(_client, _data, _flags, reason, _properties):
        must(reason)
        client.subscribe(topic_filter, qos=1)

    client.on_connect = connected
    client.on_subscribe = lambda _client, _data, _mid, reasons, _properties: \
        must(reasons[0])
    # The PUBACK leaves when this has returned, and not if it raises.  So the
    # work is done in here, not handed to a queue or to another thread.
    client.on_message = lambda _client, _data, message: handle(take, message)
    keep = Properties(PacketTypes.CONNECT)
    keep.SessionExpiryInterval = SESSION_S
    client.connect(host, port, clean_start=False, properties=keep)
    client.loop_forever()
