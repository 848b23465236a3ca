#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A scripted MQTT broker (3.1.1 and 5) on loopback, for tests.

    fakebroker.py LOG [port=N] [key=value ...]

Prints "port N" when it listens, and ends when its standard input ends, so it
never outlives the test.  It does what a real broker would not do on demand.

Settings, at the start or later by a line "set key=value" on standard input
(an empty value takes the setting back):

  CONNACK (MQTT 5)  recvmax=N maxpacket=N keepalive=N maxqos=N retain=0|1
                    assignedid=ID (%41: the byte 0x41)
  refuse=RC         answer CONNECT with this code and close
  v3only=1          answer MQTT 5 as a broker does that does not know it
  dropconnack=1     never answer CONNECT
  halfconnack=1     send a part of the CONNACK and close
  silent=1          answer nothing but CONNECT
  ackdelay=MS       send each PUBACK so much later, in order
  ackorder=WAY      send PUBACKs 5 ms late, in the order reverse or random
  acktwice=1        send each PUBACK twice
  ackunknown=1      send one with an id that is not in flight before each
  noack=1           never send a PUBACK
  skipack=N         no PUBACK for the Nth PUBLISH of all
  noacktopic=TOPIC  never send a PUBACK for a PUBLISH to it
  hold=1            keep PUBACKs back; "set hold=" sends them
  cutafter=N        reset the connection at its Nth PUBLISH, unacknowledged
  cuttopic=TOPIC    reset the connection at a PUBLISH to it, unacknowledged
  halfpacket=N      at its Nth PUBLISH send a part of the PUBACK and close
  cutwithin=N       reset when N bytes of a PUBLISH longer than that have come
  maxrate=N         reset at a PUBLISH that makes more than N in a second
  discafter=N:RC    send DISCONNECT with RC at its Nth PUBLISH (MQTT 5)
  words=TEXT        Reason String of a DISCONNECT or of a PUBACK that refuses
                    (%1b: the byte 0x1b)
  wordslen=N        with as many x behind it that it has N bytes
  refusetopic=T:RC  a PUBLISH to a topic that begins with T gets a PUBACK with
                    that reason
  subrefuse=RC      answer SUBSCRIBE with this code
  subsilent=FILTER  never answer SUBSCRIBE of this filter
  times=1           log at=SECONDS at the end of each PUBLISH

At the start only, TLS with files beside LOG:

  tls=NAME          with NAME.pem and server.key
  alpn=A,B          know these protocols

A PUBLISH whose payload begins with "rc=0x97" gets a PUBACK with that reason.

Other lines on standard input:

  publish TOPIC PAYLOAD [name=value ...]   QoS 1, to every session; the names
        ct rt cd exp pfi are the MQTT 5 properties, others user properties
  publish0 TOPIC PAYLOAD                   QoS 0, to every connection
  cut                                      reset all connections

A message stays in its session until its PUBACK and is sent again, with DUP,
on the next connection of that client id, if the client kept its session.

Each line of LOG: "cN", the connection counted from 1, "<" from or ">" to the
client, the packet, and what is in it as key=value; inflight is how many
PUBLISH of the connection have no PUBACK yet, that one included; crc is that
of the payload; at is the monotonic clock in seconds.
"""
import asyncio
import collections
import os
import random
import socket
import ssl
import struct
import sys
import time
import urllib.parse
import zlib

CONNECT, CONNACK, PUBLISH, PUBACK = 1, 2, 3, 4
SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 8, 9, 12, 13, 14


def varint(number):
    out = bytearray()
    while True:
        number, low = divmod(number, 128)
        out.append(low | (0x80 if number else 0))
        if not number:
            return bytes(out)


def text(value):
    value = value.encode()
    return struct.pack(">H", len(value)) + value


def packet(kind, flags, body):
    return bytes([kind << 4 | flags]) + varint(len(body)) + body


class Reader:
    """Reads fields off a packet's body."""

    def __init__(self, body):
        self.body, self.at = body, 0

    def take(self, count):
        self.at += count
        if self.at > len(self.body):
            raise ValueError("packet too short")
        return self.body[self.at - count:self.at]

    def number(self, count):
        return int.from_bytes(self.take(count), "big")

    def varint(self):
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7f) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def bytes(self):
        return self.take(self.number(2))

    def text(self):
        return self.bytes().decode()

    def rest(self):
        return self.take(len(self.body) - self.at)

    def properties(self):
        """As a list of (id, value)."""
        end = self.varint() + self.at
        found = []
        while self.at < end:
            code = self.varint()
            if code in (0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2a):
                found.append((code, self.number(1)))
            elif code in (0x13, 0x21, 0x22, 0x23):
                found.append((code, self.number(2)))
            elif code in (0x02, 0x11, 0x18, 0x27):
                found.append((code, self.number(4)))
            elif code == 0x26:
                found.append((code, self.text() + "=" + self.text()))
            elif code == 0x0b:
                found.append((code, self.varint()))
            else:
                found.append((code, self.bytes()))
        return found


class Session:
    """What a client id has not acknowledged yet, by packet id."""

    def __init__(self):
        self.messages, self.next_id = {}, 1

    def add(self, message):
        mid = self.next_id
        self.next_id = self.next_id % 65535 + 1
        self.messages[mid] = message
        return mid


class Message:
    NAMES = {"ct": 0x03, "rt": 0x08, "cd": 0x09}

    def __init__(self, topic, payload, extras):
        self.topic, self.payload = topic, payload
        self.properties = b""
        for extra in extras:
            name, value = extra.split("=", 1)
            self.properties += self.encode(name, value)

    def encode(self, name, value):
        if name in self.NAMES:
            return bytes([self.NAMES[name]]) + text(value)
        if name == "exp":
            return struct.pack(">BI", 0x02, int(value))
        if name == "pfi":
            return struct.pack(">BB", 0x01, int(value))
        return b"\x26" + text(name) + text(value)

    def body(self, mid, version):
        """mid: None for QoS 0."""
        body = text(self.topic)
        if mid is not None:
            body += struct.pack(">H", mid)
        if version == 5:
            body += varint(len(self.properties)) + self.properties
        return body + self.payload.encode()


class Connection:
    def __init__(self, broker, number, reader, writer):
        self.broker, self.number = broker, number
        self.reader, self.writer = reader, writer
        self.version, self.session, self.count = 4, None, 0
        self.held, self.inflight = [], set()

    def log(self, *words):
        self.broker.log(f"c{self.number}", *words)

    def setting(self, name, default=None):
        return self.broker.settings.get(name, default)

    def send(self, kind, flags, body):
        self.writer.write(packet(kind, flags, body))

    def send_part(self, kind, body):
        self.log(f"> PART of packet {kind}")
        self.writer.write(packet(kind, 0, body)[:3])
        self.writer.close()

    def is_nth(self, setting):
        return self.count >= int(self.setting(setting, "1000000000"))

    def reset(self):
        self.log("> RESET")
        self.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def read_packet(self):
        head = (await self.reader.readexactly(1))[0]
        length = shift = 0
        while True:
            byte = (await self.reader.readexactly(1))[0]
            length |= (byte & 0x7f) << shift
            shift += 7
            if not byte & 0x80:
                break
        within = int(self.setting("cutwithin", "1000000000"))
        if head >> 4 == PUBLISH and length > within:
            await self.reader.readexactly(within)
            self.reset()
        return head >> 4, head & 15, await self.reader.readexactly(length)

    async def serve(self):
        handlers = {
            CONNECT: self.on_connect, PUBLISH: self.on_publish,
            PUBACK: self.on_puback, SUBSCRIBE: self.on_subscribe,
            PINGREQ: self.on_pingreq, DISCONNECT: self.on_disconnect}
        try:
            while not self.writer.transport.is_closing():
                kind, flags, body = await self.read_packet()
                if self.setting("silent") and kind != CONNECT:
                    self.log(f"< packet {kind}, not answered")
                    continue
                handlers[kind](flags, Reader(body))
                await self.writer.drain()
        except asyncio.IncompleteReadError:
            self.log("< EOF")
        except (OSError, ValueError, KeyError) as error:
            self.log("< ERROR", repr(error))
        finally:
            self.writer.close()
            self.log("closed")

    def on_connect(self, _, r):
        r.text()
        self.version = r.number(1)
        flags, keepalive = r.number(1), r.number(2)
        given = dict(r.properties()) if self.version == 5 else {}
        client = r.text()
        will = self.read_will(flags, r) if flags & 4 else None
        user = r.text() if flags & 0x80 else ""
        kept = given.get(0x11, 0) if self.version == 5 else not flags & 2
        self.log(f"< CONNECT version={self.version} clean={flags >> 1 & 1}",
                 f"keepalive={keepalive} client={client} user={user}",
                 f"expiry={given.get(0x11)} recvmax={given.get(0x21)}",
                 f"maxpacket={given.get(0x27)} will={will}")
        if self.setting("dropconnack"):
            return
        if self.setting("halfconnack"):
            self.send_part(CONNACK, b"\0\0\0")
            return
        if self.setting("v3only") and self.version != 4:
            self.log("> CONNACK rc=0x01")
            self.send(CONNACK, 0, b"\0\1")
            self.writer.close()
            return
        refusal = int(self.setting("refuse", "0"), 0)
        known = client in self.broker.sessions and not flags & 2
        self.send(CONNACK, 0, bytes([known and not refusal, refusal])
                  + self.connack_properties())
        self.log(f"> CONNACK rc={refusal:#04x}")
        if refusal:
            self.writer.close()
            return
        self.session = self.broker.sessions[client] if known else Session()
        self.broker.sessions.pop(client, None)
        if kept:
            self.broker.sessions[client] = self.session
        for mid in self.session.messages:
            self.deliver(mid, dup=1)

    def read_will(self, flags, r):
        """TOPIC:PAYLOAD:QOS:RETAIN:DELAY"""
        given = dict(r.properties()) if self.version == 5 else {}
        topic, payload = r.text(), r.bytes()
        return (f"{topic}:{payload.decode()}:{flags >> 3 & 3}"
                f":{flags >> 5 & 1}:{given.get(0x18)}")

    def connack_properties(self):
        if self.version != 5:
            return b""
        found = b""
        for name, code, form in (
                ("recvmax", 0x21, ">BH"), ("maxpacket", 0x27, ">BI"),
                ("keepalive", 0x13, ">BH"), ("maxqos", 0x24, ">BB"),
                ("retain", 0x25, ">BB")):
            if self.setting(name) is not None:
                found += struct.pack(form, code, int(self.setting(name), 0))
        if self.setting("assignedid"):
            value = urllib.parse.unquote_to_bytes(self.setting("assignedid"))
            found += b"\x12" + struct.pack(">H", len(value)) + value
        return varint(len(found)) + found

    def deliver(self, mid, dup=0):
        message = self.session.messages[mid]
        self.log(f"> PUBLISH mid={mid} dup={dup} topic={message.topic}")
        self.send(PUBLISH, dup << 3 | 2, message.body(mid, self.version))

    def deliver0(self, message):
        self.log(f"> PUBLISH qos=0 topic={message.topic}")
        self.send(PUBLISH, 0, message.body(None, self.version))

    def on_publish(self, flags, r):
        self.count += 1
        self.broker.publishes += 1
        topic = r.text()
        mid = r.number(2) if flags & 6 else 0
        given = r.properties() if self.version == 5 else []
        payload = r.rest()
        at = [f"at={time.monotonic():.6f}"] if self.setting("times") else []
        self.inflight.add(mid)
        self.log(f"< PUBLISH mid={mid} inflight={len(self.inflight)}",
                 f"crc={zlib.crc32(payload):08x} qos={flags >> 1 & 3}",
                 f"dup={flags >> 3 & 1} retain={flags & 1} topic={topic}",
                 f"len={len(payload)} payload={payload[:40]!r}",
                 *(f"{code:#04x}={value!r}" for code, value in given), *at)
        if (self.is_nth("cutafter") or topic == self.setting("cuttopic")
                or self.broker.is_too_fast()):
            self.reset()
            return
        if self.is_nth("halfpacket"):
            self.send_part(PUBACK, struct.pack(">H", mid))
            return
        limit, _, reason = self.setting("discafter", "0:0").partition(":")
        if 0 < int(limit) <= self.count:
            self.disconnect(int(reason, 0))
            return
        is_skipped = (topic == self.setting("noacktopic") or
                      self.broker.publishes == int(
                          self.setting("skipack", "0")))
        if flags & 6 and not self.setting("noack") and not is_skipped:
            self.acknowledge(mid, self.refusal(topic, payload))

    def reason(self, code):
        """A reason code and the properties behind it."""
        words = urllib.parse.unquote_to_bytes(self.setting("words", ""))
        words = words.ljust(int(self.setting("wordslen", "0")), b"x")
        properties = (b"\x1f" + struct.pack(">H", len(words)) + words
                      if words else b"")
        return bytes([code]) + varint(len(properties)) + properties

    def disconnect(self, reason):
        self.log(f"> DISCONNECT rc={reason:#04x}")
        self.send(DISCONNECT, 0, self.reason(reason))
        self.writer.close()

    def refusal(self, topic, payload):
        """The reason code that this PUBLISH is answered with."""
        if payload.startswith(b"rc=0x"):
            return int(payload[3:7], 16)
        refused, _, code = self.setting("refusetopic", "").rpartition(":")
        return int(code, 0) if refused and topic.startswith(refused) else 0

    def acknowledge(self, mid, reason):
        body = struct.pack(">H", mid)
        if self.version == 5 and reason:
            body += self.reason(reason)
        answer = packet(PUBACK, 0, body)
        loop = asyncio.get_running_loop()
        if self.setting("hold") or self.setting("ackorder"):
            self.held.append((mid, answer))
            if not self.setting("hold") and len(self.held) == 1:
                loop.call_later(0.005, self.release)
        elif self.setting("ackdelay"):
            loop.call_later(int(self.setting("ackdelay")) / 1000,
                            self.send_ack, mid, answer)
        else:
            self.send_ack(mid, answer)

    def send_ack(self, mid, answer):
        if self.writer.transport.is_closing():
            return
        if self.setting("ackunknown"):
            other = (mid + 30000) % 65535 + 1
            self.send(PUBACK, 0, struct.pack(">H", other))
        for _ in range(2 if self.setting("acktwice") else 1):
            self.log(f"> PUBACK mid={mid}")
            self.writer.write(answer)
        self.inflight.discard(mid)

    def release(self):
        held, self.held = self.held, []
        if self.setting("ackorder") == "random":
            self.broker.random.shuffle(held)
        elif self.setting("ackorder"):
            held.reverse()
        for mid, answer in held:
            self.send_ack(mid, answer)

    def on_puback(self, _, r):
        mid = r.number(2)
        self.session.messages.pop(mid, None)
        self.log(f"< PUBACK mid={mid}")

    def on_subscribe(self, _, r):
        mid = r.number(2)
        if self.version == 5:
            r.properties()
        topic, options = r.text(), r.number(1)
        code = int(self.setting("subrefuse", str(options & 3)), 0)
        self.log(f"< SUBSCRIBE mid={mid} topic={topic} qos={options & 3}")
        if topic == self.setting("subsilent"):
            return
        none = b"\0" if self.version == 5 else b""
        self.send(SUBACK, 0, struct.pack(">H", mid) + none + bytes([code]))

    def on_pingreq(self, _, __):
        self.log("< PINGREQ")
        self.send(PINGRESP, 0, b"")

    def on_disconnect(self, _, r):
        self.log("< DISCONNECT", r.rest().hex())
        self.writer.close()


class Broker:
    def __init__(self, log, settings):
        self.file, self.settings = log, settings
        self.sessions, self.connections, self.publishes = {}, [], 0
        self.random = random.Random(1)
        self.arrivals, self.blind_until = collections.deque(), 0

    def log(self, *words):
        print(*words, file=self.file, flush=True)

    def is_too_fast(self):
        """More than maxrate in the last second, this one included."""
        most, now = self.settings.get("maxrate"), time.monotonic()
        if not most or now < self.blind_until:
            self.arrivals.clear()
            return False
        self.arrivals.append(now)
        while self.arrivals[0] <= now - 1:
            self.arrivals.popleft()
        return len(self.arrivals) > int(most)

    async def watch_own_delays(self):
        """Who was held up himself finds all at once what came meanwhile."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.02)
            if time.monotonic() - before > 0.1:
                self.log("held up itself")
                self.blind_until = time.monotonic() + 1

    async def accept(self, reader, writer):
        writer.get_extra_info("socket").setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        c = Connection(self, len(self.connections) + 1, reader, writer)
        self.connections.append(c)
        c.log(f"accepted at={time.monotonic():.3f}")
        tls = writer.get_extra_info("ssl_object")
        if tls:
            c.log(f"alpn={tls.selected_alpn_protocol()}")
        await c.serve()

    def tls(self):
        """For start_server."""
        if "tls" not in self.settings:
            return None
        folder = os.path.dirname(self.file.name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/{self.settings['tls']}.pem",
                                f"{folder}/server.key")
        context.sni_callback = lambda _, name, __: self.log(f"sni={name}")
        if "alpn" in self.settings:
            context.set_alpn_protocols(self.settings["alpn"].split(","))
        return context

    def live(self):
        return [c for c in self.connections
                if not c.writer.transport.is_closing()]

    def command(self, line):
        words = line.split()
        if words[0] == "set":
            name, value = words[1].split("=", 1)
            self.settings[name] = value
            if not value:
                del self.settings[name]
            if name == "hold":
                for c in self.live():
                    c.release()
        elif words[0] == "cut":
            for c in self.live():
                c.reset()
        elif words[0] == "publish0":
            for c in self.live():
                c.deliver0(Message(words[1], words[2], []))
        elif words[0] == "publish":
            self.publish(Message(words[1], words[2], words[3:]))
        self.log("did", line)

    def publish(self, message):
        sessions = set(self.sessions.values())
        sessions.update(c.session for c in self.live() if c.session)
        for session in sessions:
            mid = session.add(message)
            for c in self.live():
                if c.session is session:
                    c.deliver(mid)

    async def run(self, port):
        server = await asyncio.start_server(self.accept, "127.0.0.1", port,
                                            ssl=self.tls())
        print("port", server.sockets[0].getsockname()[1], flush=True)
        lines = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        own = loop.create_task(self.watch_own_delays())
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := (await lines.readline()).decode().strip():
            self.command(line)
        own.cancel()


def main():
    settings = dict(a.split("=", 1) for a in sys.argv[2:])
    port = int(settings.pop("port", "0"))
    with open(sys.argv[1], "a", encoding="utf-8") as log:
        asyncio.run(Broker(log, settings).run(port))


if __name__ == "__main__":
    main()
