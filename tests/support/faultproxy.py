# SPDX-License-Identifier: MIT
"""A TCP proxy that knows MQTT and spoils it: between a firmware and a broker,
on loopback, in a thread of its own.

    proxy = Proxy(broker.port, seed=7)
    proxy.faults = Faults(drop_ack=0.1, end="rst", end_after=(1000, 9000))
    ...
    proxy.heal()

What a Faults says holds for each connection that is made while it stands, and
the parts marked * for those that are there already.  A function in its place
is asked at each connection: f(random, number of the connection) -> Faults.

heal() takes all back, and lets go on what only stood still.  A connection that
lost bytes stays as it is, as behind a router that has forgotten it: whoever
uses it must notice.

Delay, rate and dribble work on both directions, in order; PUBACKs are the
broker's.  Who wants to look on derives from Proxy: from_client and from_broker
see each packet before it goes on, in the proxy's thread, and can keep it.
"""
import asyncio
import collections
import dataclasses
import functools
import random
import socket
import struct
import threading
import time

from mqttwire import PUBACK, PUBLISH, content, packet_id, packets

# a source is read no further while so much of it waits
MOST_WAITING = 256 * 1024
GAP_S = 0.0005  # between two pieces that dribble
ENDS = ("rst", "fin", "half_up", "half_down", "hole_stop", "hole_drop")


@dataclasses.dataclass(frozen=True)
class Faults:
    delay_ms: float = 0      # * each byte comes so much later
    jitter_ms: float = 0     # * and up to so much more
    rate: int = 0            # * bytes a second, each way
    dribble: int = 0         # * in pieces of so many bytes
    drop_ack: float = 0      # * share of PUBACKs that never come
    late_ack: float = 0      # * share that comes LATE_MS later
    double_ack: float = 0    # * share that comes twice, the second one late
    stale_ack: float = 0     # * share with one of a settled packet id before it
    forge_ack: float = 0     # * share of PUBLISHes that only seem to arrive
    reorder_ms: float = 0    # * PUBACKs of so long leave in any order
    end: str = ""            # see ENDS: after so many bytes of the connection,
    end_after: tuple = (0, 0)  # drawn from here, both ways counted together

    LATE_MS = 60


class Witness:
    """What passes an own proxy, as a mixin: which payloads were acknowledged
    so that the firmware could see it, and the forms that a payload had."""

    def __init__(self, *args, **more):
        self.sent = {}  # payload: {(topic, properties)}
        self.attempts = collections.Counter()
        self.acknowledged = collections.Counter()
        super().__init__(*args, **more)

    def from_client(self, link, first, body):
        if first >> 4 != PUBLISH:
            return
        topic, properties, payload = content(body)
        self.sent.setdefault(payload, set()).add((topic, properties))
        self.attempts[payload] += 1
        link.payloads = getattr(link, "payloads", {})
        link.payloads[packet_id(first, body)] = payload

    def from_broker(self, link, first, body):
        if first >> 4 == PUBACK:
            self.acknowledged[link.payloads[packet_id(first, body)]] += 1


class Line:
    """One direction of a connection: what waits to leave, in order."""

    def __init__(self, link):
        self.link, self.loop = link, link.proxy.loop
        self.queue = collections.deque()  # (due, bytes)
        self.waiting = 0
        self.last_due = 0
        self.timer = None
        self.to = None  # a transport
        self.source = None

    def put(self, data):
        faults = self.link.now()
        if not (self.queue or self.link.stopped or faults.dribble or
                faults.rate or faults.delay_ms or faults.jitter_ms):
            self.link.leave(self, data)
            return
        step = faults.dribble or len(data)
        for at in range(0, len(data), step):
            self._put_piece(faults, data[at:at + step])
        self.leave_due()

    def _put_piece(self, faults, piece):
        due = self.loop.time() + (
            faults.delay_ms +
            self.link.random.uniform(0, faults.jitter_ms)) / 1000
        if faults.rate:
            due = max(due, self.last_due + len(piece) / faults.rate)
        if faults.dribble:
            due = max(due, self.last_due + GAP_S)
        self.last_due = max(due, self.last_due)
        self.queue.append((self.last_due, piece))
        self.waiting += len(piece)

    def leave_due(self):
        if self.timer:
            self.timer.cancel()
        self.timer = None
        now = self.loop.time()
        while (self.queue and self.queue[0][0] <= now
               and not self.link.stopped):
            _, piece = self.queue.popleft()
            self.waiting -= len(piece)
            self.link.leave(self, piece)
        self._keep_source_in_bounds()
        if self.queue and not self.link.stopped:
            self.timer = self.loop.call_at(self.queue[0][0], self.leave_due)

    def hurry(self):
        """All that waits leaves now."""
        self.queue = collections.deque((0, piece) for _, piece in self.queue)
        self.last_due = 0
        self.leave_due()

    def put_back(self, rest):
        self.queue.appendleft((0, rest))
        self.waiting += len(rest)

    def _keep_source_in_bounds(self):
        if self.source is None or self.source.is_closing():
            return
        if self.waiting > MOST_WAITING:
            self.source.pause_reading()
        elif not self.link.stopped:
            self.source.resume_reading()

    def forget(self):
        self.queue.clear()
        if self.timer:
            self.timer.cancel()


class End(asyncio.Protocol):
    """One of the two sockets of a connection."""

    def __init__(self, link, line, take):
        self.link, self.line, self.take = link, line, take
        self.data = bytearray()
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        if self.line.to is None:  # the other end is not there yet
            transport.pause_reading()
        transport.get_extra_info("socket").setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data):
        if self.link.gone:
            return
        if not self.link.proxy.framed:
            self.line.put(self.link.seen(self.line, data))
            return
        self.data += data
        out = [self.take(first, body, whole)
               for first, body, whole in packets(self.data)]
        out = b"".join(out)
        if out:
            self.line.put(out)

    def eof_received(self):
        """Ends both ways unless that is what we play."""
        self.link.closed_by(self)
        return True  # the transport stays open till we close it

    def connection_lost(self, _):
        self.link.closed_by(self)

    def pause_writing(self):
        other = self.link.other(self)
        if other.transport and not other.transport.is_closing():
            other.transport.pause_reading()

    def resume_writing(self):
        other = self.link.other(self)
        if other.transport and not other.transport.is_closing() \
                and not self.link.stopped:
            other.transport.resume_reading()


class Link:
    """One connection through the proxy."""

    def __init__(self, proxy, number):
        self.proxy, self.number = proxy, number
        self.random = random.Random(proxy.seed * 1000003 + number)
        self.first = proxy.draw(self.random, number)
        self.bytes_left = (self.random.randint(*self.first.end_after)
                           if self.first.end else None)
        self.up, self.down = Line(self), Line(self)
        self.client = End(self, self.up, self._from_client)
        self.broker = End(self, self.down, self._from_broker)
        self.ended = ""       # what has been done to it, of ENDS
        self.stopped = False  # no more is read, until heal
        self.gone = False
        self.settled = []     # packet ids whose PUBACK has gone by
        self.held = []        # PUBACKs that wait to leave in any order

    def now(self):
        """Who asks for them alike finds what was drawn for this one."""
        return self.first if callable(self.proxy.faults) else self.proxy.faults

    def other(self, end):
        return self.broker if end is self.client else self.client

    # ---- packets ----------------------------------------------------------

    def _from_client(self, first, body, whole):
        number = packet_id(first, body)
        if first >> 4 == PUBLISH and number is not None:
            self.proxy.count["publish"] += 1
            if self._draw(self.now().forge_ack):
                self.proxy.count["forged"] += 1
                self.down.put(struct.pack(">BBH", PUBACK << 4, 2, number))
                return b""
        return b"" if self.proxy.from_client(self, first, body) else whole

    def _from_broker(self, first, body, whole):
        if first >> 4 == PUBACK and self._draw(self.now().drop_ack):
            self.proxy.count["dropped"] += 1
            return b""
        if self.proxy.from_broker(self, first, body):
            return b""
        return (self._spoil_ack(first, body, whole) if first >> 4 == PUBACK
                else whole)

    def _draw(self, share):
        return share and self.random.random() < share

    def _spoil_ack(self, first, body, whole):
        faults, count = self.now(), self.proxy.count
        out = b""
        if self._draw(faults.stale_ack):
            count["stale"] += 1
            out = struct.pack(">BBH", PUBACK << 4, 2, self._stale_id())
        if self._draw(faults.double_ack):
            count["doubled"] += 1
            self._later(faults.LATE_MS, whole)
        self.settled.append(packet_id(first, body))
        count["acked"] += 1
        if self._draw(faults.late_ack):
            count["late"] += 1
            self._later(faults.LATE_MS, whole)
            return out
        if faults.reorder_ms:
            self.held.append(whole)
            if len(self.held) == 1:
                self.proxy.loop.call_later(faults.reorder_ms / 1000,
                                           self._release)
            return out
        return out + whole

    def _stale_id(self):
        """One settled long ago; else one that is far from being used.  (A
        client takes them in turn: the last thousand may be in flight.)"""
        if len(self.settled) > 1000:
            return self.random.choice(self.settled[-2000:-1000])
        last = self.settled[-1] if self.settled else 1
        return (last + 30000) % 65535 + 1

    def _later(self, wait_ms, whole):
        self.proxy.loop.call_later(
            wait_ms / 1000, lambda: self.gone or self.down.put(whole))

    def _release(self):
        held, self.held = self.held, []
        self.random.shuffle(held)
        self.proxy.count["reordered"] += held != sorted(held)
        if not self.gone:
            self.down.put(b"".join(held))

    # ---- bytes ------------------------------------------------------------

    def seen(self, line, data):
        """Bytes of a protocol that we do not read."""
        self.proxy.raw(self, "client" if line is self.up else "broker", data)
        return data

    def leave(self, line, data):
        if self.gone or line.to is None or line.to.is_closing():
            return
        if self.ended == "hole_drop" or (self.ended, line) in (
                ("half_up", self.up), ("half_down", self.down)):
            return
        if self.bytes_left is not None and not self.ended:
            if len(data) >= self.bytes_left:
                line.to.write(data[:self.bytes_left])
                self._end(line, data[self.bytes_left:])
                return
            self.bytes_left -= len(data)
        line.to.write(data)

    def _end(self, line, rest):
        self.ended = self.first.end
        self.proxy.count[self.ended] += 1
        if self.ended in ("rst", "fin"):
            self.close(self.ended == "rst")
        elif self.ended == "half_up":
            self.broker.transport.write_eof()
            if line is self.down:
                line.to.write(rest)
        elif self.ended == "half_down":
            self.client.transport.write_eof()
            if line is self.up:
                line.to.write(rest)
        elif self.ended == "hole_stop":
            self.stop()
            line.put_back(rest)

    def stop(self):
        self.stopped = True
        for end in (self.client, self.broker):
            if end.transport and not end.transport.is_closing():
                end.transport.pause_reading()

    def heal(self):
        self.first = Faults()
        if self.stopped:
            self.stopped, self.ended = False, ""
        if not self.ended:
            self.bytes_left = None
        for end in (self.client, self.broker):
            if end.transport and not end.transport.is_closing():
                end.transport.resume_reading()
        for line in (self.up, self.down):
            line.hurry()

    # ---- the end of it ----------------------------------------------------

    def closed_by(self, end):
        if self.gone:
            return
        # a hole swallows a farewell too, and half of what is half closed
        if self.ended == "hole_drop" or (
                self.ended == "half_up" and end is self.broker):
            if end is self.client:
                self.close()
            return
        if end.line.queue:  # what was said before arrives before
            self.proxy.loop.call_at(end.line.last_due, self.close)
        else:
            self.close()

    def close(self, reset=False):
        """With a RST, or once all has left that was written."""
        if self.gone:
            return
        self.gone = True
        for line in (self.up, self.down):
            line.forget()
        for end in (self.client, self.broker):
            if end.transport is None:
                continue
            if reset:
                sock = end.transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                struct.pack("ii", 1, 0))
                end.transport.abort()
            else:
                end.transport.close()
        self.proxy.links.discard(self)


class Proxy:
    """accepts: when connections came, by the monotonic clock.  count: how
    often each fault was."""

    def __init__(self, to_port, faults=Faults(), seed=1, framed=True):
        self.to_port, self.faults, self.seed = to_port, faults, seed
        self.framed = framed
        self.count = collections.Counter()
        self.accepts = []
        self.links = set()
        self.errors = []  # faults of this program
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(
            lambda _, context: self.errors.append(context))
        self.listener = None
        self.port = 0
        self.thread = threading.Thread(target=self.loop.run_forever,
                                       daemon=True)
        self.thread.start()
        self.open_door()

    def uri(self, scheme="tcp", host="127.0.0.1"):
        return f"{scheme}://{host}:{self.port}"

    # ---- to be overridden; in the proxy's thread --------------------------

    def from_client(self, link, first, body):
        """A packet of the firmware's.  True: it goes no further."""

    def from_broker(self, link, first, body):
        """The same of the broker's; of PUBACKs those that will arrive."""

    def raw(self, link, side, data):
        """Bytes, where framed=False."""

    # ---- for the test's thread --------------------------------------------

    def draw(self, dice, number):
        return (self.faults(dice, number) if callable(self.faults)
                else self.faults)

    def call(self, function):
        """Done in the proxy's thread when this returns."""
        async def run():
            return function()
        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(30)

    def heal(self):
        self.faults = Faults()
        self.call(lambda: [link.heal() for link in list(self.links)])

    def cut(self, reset=True):
        """All connections."""
        self.call(lambda: [link.close(reset) for link in list(self.links)])

    def close_door(self):
        """Nobody listens any more; what is connected stays."""
        self.call(self.listener.close)

    def open_door(self):
        """On the same port as before."""
        self.listener = asyncio.run_coroutine_threadsafe(
            self._listen(), self.loop).result(30)
        self.port = self.listener.sockets[0].getsockname()[1]

    async def _listen(self):
        return await self.loop.create_server(
            self._accept, "127.0.0.1", self.port)

    def _accept(self):
        self.accepts.append(time.monotonic())
        link = Link(self, len(self.accepts))
        self.links.add(link)
        self.loop.create_task(self._connect(link))
        return link.client

    async def _connect(self, link):
        try:
            await self.loop.create_connection(
                lambda: link.broker, "127.0.0.1", self.to_port)
        except OSError:  # no broker
            self.count["no broker"] += 1
            link.close()
            return
        if link.gone:
            link.broker.transport.close()
            return
        link.up.to, link.up.source = (
            link.broker.transport, link.client.transport)
        link.down.to, link.down.source = (
            link.client.transport, link.broker.transport)
        for end in (link.client, link.broker):
            if not end.transport.is_closing():
                end.transport.resume_reading()

    def close(self):
        self.call(self.listener.close)
        self.cut(reset=False)
        self.call(functools.partial(self.loop.call_later, 0.05,
                                    self.loop.stop))
        self.thread.join(30)
        self.loop.close()
        if self.errors:
            raise AssertionError(self.errors)


class WitnessProxy(Witness, Proxy):
    """See Witness."""
