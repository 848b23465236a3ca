# SPDX-License-Identifier: MIT
"""The cable between the firmware and the broker: it can be cut, and it sees
what goes by.

A small TCP proxy.  What it notes comes from the bytes on the wire, read with a
reader of MQTT 5 of its own, so nothing here rests on what the firmware says of
itself.
"""
import socket
import struct
import threading
import time

PUBLISH, PUBACK = 3, 4


def now_us():
    """The monotonic clock that the firmware stamps its ledger with."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


# ---- MQTT 5 ----------------------------------------------------------------

def take_packets(buffer):
    """Cut whole packets off a bytearray: (type, flags, body) of each."""
    while True:
        length, shift, at = 0, 0, 1
        while True:
            if at >= len(buffer):
                return
            byte = buffer[at]
            length |= (byte & 0x7f) << shift
            shift, at = shift + 7, at + 1
            if not byte & 0x80:
                break
        if len(buffer) < at + length:
            return
        kind, body = buffer[0], bytes(buffer[at:at + length])
        del buffer[:at + length]
        yield kind >> 4, kind & 0x0f, body


def _varint(body, at):
    value, shift = 0, 0
    while True:
        byte = body[at]
        value |= (byte & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if not byte & 0x80:
            return value, at


def _string(body, at):
    length, = struct.unpack_from(">H", body, at)
    return body[at + 2:at + 2 + length], at + 2 + length


def user_properties(body, at):
    """The user properties of the property list at body[at:], as a dict."""
    # Width of a property by its identifier: a number of bytes, or a string.
    widths = {0x01: 1, 0x02: 4, 0x23: 2, 0x03: "s", 0x08: "s", 0x09: "s"}
    length, at = _varint(body, at)
    end, found = at + length, {}
    while at < end:
        identifier, at = _varint(body, at)
        if identifier == 0x26:
            name, at = _string(body, at)
            value, at = _string(body, at)
            found[name.decode()] = value.decode()
        elif identifier == 0x0b:
            _, at = _varint(body, at)
        elif widths[identifier] == "s":
            _, at = _string(body, at)
        else:
            at += widths[identifier]
    return found


def read_publish(body):
    """(packet id, user properties) of a PUBLISH with QoS 1."""
    _, at = _string(body, 0)
    packet, = struct.unpack_from(">H", body, at)
    return packet, user_properties(body, at + 2)


def read_puback(body):
    """(packet id, reason); MQTT 5 leaves out a reason that is 0."""
    packet, = struct.unpack_from(">H", body, 0)
    return packet, body[2] if len(body) > 2 else 0


# ---- the cable -------------------------------------------------------------

class Wire:
    """Open, mute (answers are lost) or cut (every connection is reset)."""

    def __init__(self, broker_port):
        self.broker_port = broker_port
        self.lock = threading.Lock()
        self.mode = "open"
        self.pairs = set()
        self.publishes = 0   # PUBLISH packets of the firmware
        self.ids = set()     # ... of how many messages
        self.puback_us = {}  # id: when its first PUBACK passed
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def mute(self):
        self.mode = "mute"

    def cut(self):
        with self.lock:
            self.mode = "cut"
            pairs = list(self.pairs)
        for pair in pairs:
            pair.reset()

    def mend(self):
        self.mode = "open"

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            with self.lock:
                pair = _Pair(self, client)
                if self.mode != "cut" and pair.connect(self.broker_port):
                    self.pairs.add(pair)
                    continue
            pair.reset()

    def note_up(self, sent, kind, flags, body):
        """A packet of the firmware; sent: the connection's {packet id: id}."""
        if kind != PUBLISH or not flags & 0x06:
            return
        packet, properties = read_publish(body)
        with self.lock:
            sent[packet] = properties["id"]
            self.ids.add(properties["id"])
            self.publishes += 1

    def note_down(self, sent, kind, body):
        """A packet of the broker."""
        if kind != PUBACK:
            return
        packet, reason = read_puback(body)
        with self.lock:
            name = sent.pop(packet, None)
            if name is not None and reason < 0x80:
                self.puback_us.setdefault(name, now_us())

    def forget(self, pair):
        with self.lock:
            self.pairs.discard(pair)


def _chunks(end):
    """What arrives, until the connection is over."""
    while True:
        try:
            chunk = end.recv(65536)
        except OSError:
            return
        if not chunk:
            return
        yield chunk


class _Pair:
    """One connection of the firmware and its other half to the broker."""

    def __init__(self, wire, client):
        self.wire = wire
        self.client = client
        self.broker = None
        self.sent = {}

    def connect(self, port):
        try:
            self.broker = socket.create_connection(("127.0.0.1", port))
        except OSError:
            return False
        for end in (self.client, self.broker):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._up, daemon=True).start()
        threading.Thread(target=self._down, daemon=True).start()
        return True

    def reset(self):
        """RST instead of FIN: to whom it happens it is an error."""
        for end in (self.client, self.broker):
            if end is None:
                continue
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                               struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads
            except OSError:
                pass  # it has gone by itself
            end.close()

    def _up(self):
        buffer = bytearray()
        for chunk in _chunks(self.client):
            buffer += chunk
            for kind, flags, body in take_packets(buffer):
                self.wire.note_up(self.sent, kind, flags, body)
            if not self._pass(self.broker, chunk):
                break
        self._end()

    def _down(self):
        buffer = bytearray()
        for chunk in _chunks(self.broker):
            if self.wire.mode == "mute":
                continue
            buffer += chunk
            for kind, _, body in take_packets(buffer):
                self.wire.note_down(self.sent, kind, body)
            if not self._pass(self.client, chunk):
                break
        self._end()

    @staticmethod
    def _pass(end, chunk):
        try:
            end.sendall(chunk)
        except OSError:
            return False
        return True

    def _end(self):
        self.wire.forget(self)
        for end in (self.client, self.broker):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has gone by itself
            end.close()
