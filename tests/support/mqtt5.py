# SPDX-License-Identifier: MIT
"""A client of MQTT 5 for tests that look at many messages: no thread, no
process, QoS 1.  Who made it calls read() when its socket has something.

A broker with one thread, as mosquitto, hands on in the order in which it took:
what it had acknowledged before barrier() was called has been seen when that
returns.
"""
import collections
import select
import socket
import time

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK = 1, 2, 3, 4, 8, 9
# how long a property's value is; "s": a string, "p": a pair, "v": a varint
_KINDS = {0x01: 1, 0x02: 4, 0x03: "s", 0x08: "s", 0x09: "s", 0x0b: "v",
          0x23: 2, 0x26: "p"}

Message = collections.namedtuple("Message", "topic properties payload")


def _text(value):
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def _packet(first, body):
    size, length = len(body), b""
    while True:
        length += bytes([size & 0x7f | (0x80 if size > 0x7f else 0)])
        size >>= 7
        if not size:
            return bytes([first]) + length + body


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _string(data, at):
    end = at + 2 + int.from_bytes(data[at:at + 2], "big")
    return bytes(data[at + 2:end]), end


def _user_properties(data, at, end):
    """The pairs; the others are passed over."""
    pairs = {}
    while at < end:
        kind, at = _KINDS[data[at]], at + 1
        if kind == "p":
            name, at = _string(data, at)
            value, at = _string(data, at)
            pairs[name.decode()] = value.decode()
        elif kind == "s":
            _, at = _string(data, at)
        elif kind == "v":
            _, at = _varint(data, at)
        else:
            at += kind
    return pairs


class Client:
    """take(message) is called for each that comes in, before its PUBACK."""

    def __init__(self, port, name, topic="#", take=lambda message: None):
        self.take = take
        self.marker_topic = f"barrier/{name}" if topic == "#" else \
            topic.replace("+", f"barrier-{name}")
        self.data = bytearray()
        self.unacknowledged = set()
        self.packet_id = self.markers = self.marker_seen = 0
        self.answered = collections.Counter()
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # clean start, no keep alive, Receive Maximum 65535
        self.socket.sendall(_packet(CONNECT << 4, _text("MQTT") + b"\5\2\0\0\0"
                                    + _text(name)))
        self._wait(lambda: self.answered[CONNACK])
        self.socket.sendall(_packet(SUBSCRIBE << 4 | 2, b"\xff\xff\0"
                                    + _text(topic) + b"\1"))
        self._wait(lambda: self.answered[SUBACK])

    def fileno(self):
        return self.socket.fileno()

    def pump(self, seconds):
        """What comes within so long is taken."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.socket], [], [], left)[0]:
                self.read()

    def close(self):
        self.socket.close()

    def publish(self, topic, payload, response_topic=None):
        """Waits for nothing."""
        properties = b""
        if response_topic:
            properties = b"\x08" + _text(response_topic)
        self.packet_id = self.packet_id % 65000 + 1
        if self.packet_id in self.unacknowledged:
            raise AssertionError("65000 messages without a PUBACK")
        self.unacknowledged.add(self.packet_id)
        self.socket.sendall(_packet(
            PUBLISH << 4 | 2, _text(topic) + self.packet_id.to_bytes(2, "big")
            + bytes([len(properties)]) + properties + payload.encode()))

    def barrier(self):
        self.markers += 1
        self.publish(self.marker_topic, str(self.markers))
        self._wait(lambda: self.marker_seen == self.markers)

    def read(self):
        """What is there, at least something."""
        more = self.socket.recv(1 << 18)
        if not more:
            raise AssertionError("the broker has hung up")
        self.data += more
        view, at, answers = self.data, 0, bytearray()
        while len(view) - at >= 5 or (len(view) - at >= 2
                                      and view[at + 1] < 0x80):
            size, body = _varint(view, at + 1)
            if len(view) < body + size:
                break
            answers += self._one(view[at], body, body + size) or b""
            at = body + size
        del self.data[:at]
        if answers:
            self.socket.sendall(answers)

    def _one(self, first, at, end):
        """Its answer, if it has one."""
        kind, data = first >> 4, self.data
        if kind == PUBACK:
            self.unacknowledged.discard(int.from_bytes(data[at:at + 2], "big"))
        if kind in (CONNACK, SUBACK):
            # the code of success is the last byte; CONNACK's is the second
            code = data[at + 1] if kind == CONNACK else data[end - 1] & 0x7e
            if code:
                raise AssertionError(f"refused: {bytes(data[at:end])}")
            self.answered[kind] += 1
        if kind != PUBLISH:
            return None
        topic, at = _string(data, at)
        answer = _packet(PUBACK << 4, data[at:at + 2]) if first & 6 else None
        size, at = _varint(data, at + 2 if answer else at)
        message = Message(topic.decode(), _user_properties(data, at, at + size),
                          bytes(data[at + size:end]).decode())
        if message.topic == self.marker_topic:
            self.marker_seen = int(message.payload)
        else:
            self.take(message)
        return answer

    def _wait(self, condition, seconds=30):
        while not condition():
            if not select.select([self.socket], [], [], seconds)[0]:
                raise AssertionError(f"the broker is silent for {seconds} s")
            self.read()
