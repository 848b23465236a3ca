# SPDX-License-Identifier: MIT
"""MQTT packets, as far as a proxy must know them."""
PUBLISH, PUBACK = 3, 4


def packets(data):
    """The whole packets at the beginning of a bytearray, which it takes off
    there: (first byte, body, all of it)."""
    begin = 0
    try:
        while True:
            size = shift = 0
            at = begin + 1
            while True:
                byte = data[at]
                at += 1
                size |= (byte & 0x7f) << shift
                shift += 7
                if byte < 0x80:
                    break
            if len(data) < at + size:
                break
            yield data[begin], bytes(data[at:at + size]), bytes(
                data[begin:at + size])
            begin = at + size
    except IndexError:  # a part of a head
        pass
    finally:
        del data[:begin]


def packet_id(first, body):
    """Of a PUBLISH with QoS 1, or of a PUBACK; else None."""
    if first >> 4 == PUBACK:
        return int.from_bytes(body[:2], "big")
    if first >> 4 != PUBLISH or not first & 0x06:
        return None
    at = 2 + int.from_bytes(body[:2], "big")
    return int.from_bytes(body[at:at + 2], "big")


def content(body):
    """(topic, properties, payload) of an MQTT 5 PUBLISH with QoS 1: all but
    its packet id, which is another at each attempt."""
    topic_end = 2 + int.from_bytes(body[:2], "big")
    at, size, shift = topic_end + 2, 0, 0
    while True:
        size |= (body[at] & 0x7f) << shift
        shift += 7
        at += 1
        if body[at - 1] < 0x80:
            break
    return body[2:topic_end], body[at:at + size], body[at + size:]
