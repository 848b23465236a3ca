# SPDX-License-Identifier: MIT
"""Between a firmware and its broker: no PUBACK of a command may pass that the
database does not hold.

A command's payload is JSON with "source" and "id".  A PUBACK is held until
another connection to the database has looked: as many copies must be stored
(`seen`) as are acknowledged with this one.  What a reader sees is committed,
and with synchronous=FULL its fdatasync is over.
"""
import collections
import json
import sqlite3

from faultproxy import Faults, Proxy
from mqttwire import PUBACK, PUBLISH, packet_id


class AckProxy(Proxy):
    """Counts: delivered (of them again, with DUP), acknowledged, published by
    the firmware; early lists what was acknowledged and is not stored."""

    def __init__(self, to_port, db_path, faults=Faults(), seed=1):
        self.db_path = db_path
        self.delivered = self.again = self.published = 0
        self.acknowledged = collections.Counter()
        self.early = []
        self.db = None
        super().__init__(to_port, faults, seed)

    def from_broker(self, link, first, body):
        number = packet_id(first, body)
        if first >> 4 != PUBLISH or number is None:
            return
        # the properties of MQTT 5 stand before the payload
        command = json.loads(body[body.index(b'{"'):])
        link.commands = getattr(link, "commands", {})
        link.commands[number] = (command["source"], command["id"])
        self.delivered += 1
        self.again += bool(first & 0x08)

    def from_client(self, link, first, body):
        if first >> 4 == PUBLISH:
            self.published += 1
        if first >> 4 == PUBACK:
            self.acknowledge(link.commands.pop(packet_id(first, body)))

    def close(self):
        super().close()
        if self.db:
            self.db.close()

    def acknowledge(self, command):
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
