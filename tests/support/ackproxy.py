# SPDX-License-Identifier: MIT
"""Between a firmware and its broker: no PUBACK of a command may pass that the
database does not hold.

A command's payload is JSON with "source" and "id".  A PUBACK is held until
another connection to the database has looked: as many copies must be stored
(`seen`) as are acknowledged with this one.  What a reader sees is committed,
and with synchronous=FULL its fdatasync is over.
"""
import collections
import contextlib
import json
import socket
import sqlite3
import threading

PUBLISH, PUBACK = 3, 4


def packets(data):
    """The whole packets at the beginning of a bytearray, which it takes off
    there: (first byte, body, all of it)."""
    while True:
        size = shift = 0
        at = 1
        while at < len(data) and at < 5:
            size |= (data[at] & 0x7f) << shift
            shift += 7
            at += 1
            if not data[at - 1] & 0x80:
                break
        else:
            return
        if len(data) < at + size:
            return
        whole = bytes(data[:at + size])
        del data[:at + size]
        yield whole[0], whole[at:], whole


class Connection:
    """One of the firmware's; two threads."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client
        self.broker = socket.create_connection(("127.0.0.1", proxy.to_port))
        self.unacknowledged = {}  # packet id: (source, id)
        self.running = threading.Semaphore(1)  # one of the two
        for from_, to, look in (
                (self.broker, client, self.from_broker),
                (client, self.broker, self.from_client)):
            from_.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.pump, args=(from_, to, look),
                             daemon=True).start()

    def pump(self, from_, to, look):
        data = bytearray()
        with contextlib.suppress(OSError):  # the other end is gone
            while more := from_.recv(65536):
                data += more
                out = b""
                for first, body, whole in packets(data):
                    look(first, body)
                    out += whole
                to.sendall(out)
        for end in (from_, to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if not self.running.acquire(blocking=False):  # the other has ended
            from_.close()
            to.close()

    def from_broker(self, first, body):
        if first >> 4 != PUBLISH or not first & 0x06:
            return
        topic = int.from_bytes(body[:2], "big")
        packet_id = int.from_bytes(body[2 + topic:4 + topic], "big")
        # the properties of MQTT 5 stand before the payload
        command = json.loads(body[body.index(b'{"', 4 + topic):])
        self.unacknowledged[packet_id] = (command["source"], command["id"])
        self.proxy.delivered += 1
        self.proxy.again += bool(first & 0x08)

    def from_client(self, first, body):
        if first >> 4 == PUBLISH:
            self.proxy.published += 1
        if first >> 4 != PUBACK:
            return
        packet_id = int.from_bytes(body[:2], "big")
        self.proxy.acknowledge(self.unacknowledged.pop(packet_id))


class AckProxy:
    """Counts: delivered (of them again, with DUP), acknowledged, published by
    the firmware; early lists what was acknowledged and is not stored."""

    def __init__(self, to_port, db_path):
        self.to_port, self.db_path = to_port, db_path
        self.delivered = self.again = self.published = 0
        self.acknowledged = collections.Counter()
        self.early = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.db = None
        threading.Thread(target=self.serve, daemon=True).start()

    def uri(self):
        return f"tcp://127.0.0.1:{self.port}"

    def serve(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:  # close
                self.listener.close()
                return
            try:
                Connection(self, client)
            except ConnectionError:  # no broker
                client.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        if self.db:
            self.db.close()

    def acknowledge(self, command):
        with self.lock:
            self.acknowledged[command] += 1
            if self.stored(command) < self.acknowledged[command]:
                self.early.append(command)

    def stored(self, command):
        """So many copies of it."""
        if self.db is None:
            self.db = sqlite3.connect(self.db_path, timeout=30,
                                      isolation_level=None,
                                      check_same_thread=False)
        row = self.db.execute(
            "SELECT seen FROM inbox WHERE consumer = 'app' AND source = ?"
            " AND id = ?", command).fetchone()
        return row[0] if row else 0
