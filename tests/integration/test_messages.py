# SPDX-License-Identifier: MIT
"""Very many messages: several firmwares at once, each through a proxy that
draws another fault for each connection, to mosquitto and (--prove) to RabbitMQ.
The subscribers' side counts: none is lost, none has two ids, the order of each
key holds, what comes again is counted.

    POSTBAG_PROVE=1    a million
    POSTBAG_MESSAGES=N   of another size
"""
import array
import os
import subprocess
import sys
import tempfile
import time

import faultproxy
import proof
import rig
import test_rabbitmq
from faultproxy import Faults

TOTAL = int(os.environ.get("POSTBAG_MESSAGES") or (
    1_050_000 if rig.PROVE else 60_000 if rig.FULL else 8_000))
ROADS = 8 if rig.PROVE else 4
# of RabbitMQ's, of all; it takes ten seconds to boot
SHARE = 0.1 if rig.PROVE else 0
KEYS = 256
PROBE = b"m/probe"
BATCH, MOST_PENDING = 1000, 20000
SAY_S = 10
STALL_S = 60


def draw(dice, _):
    """The faults of one connection."""
    end = dice.choice(("rst", "fin", "half_up", "half_down", "hole_drop",
                       "hole_stop", ""))
    ack = dice.choice(({}, {"drop_ack": 0.001}, {"double_ack": 0.05},
                       {"late_ack": 0.02}, {"stale_ack": 0.02},
                       {"reorder_ms": 5}))
    way = dice.choice(({}, {}, {"delay_ms": 10}, {"jitter_ms": 10},
                       {"dribble": 1000}, {"rate": 400_000}))
    return Faults(end=end, end_after=(5_000, 400_000), **ack, **way)


class Arrival:
    """One line of a subscriber, of which there are too many to keep."""

    FORMAT = "%t %p %P"


class Ledger:
    """What came of one road.  Payload: n; key: n % KEYS, in order of n."""

    def __init__(self, name, count, has_ids=True):
        self.name, self.count, self.has_ids = name, count, has_ids
        self.ids = array.array("Q", bytes(8 * count))  # 0: has not come
        self.last = [-1] * KEYS
        self.distinct = self.again = 0
        self.swapped, self.renamed, self.alien = [], [], []

    def take(self, n, of_id):
        """of_id: a number that stands for it, not 0."""
        if n >= self.count:
            self.alien.append(n)
        elif self.ids[n]:
            self.again += 1
            if self.ids[n] != of_id:
                self.renamed.append(n)
        else:
            self.ids[n] = of_id
            self.distinct += 1
            if n < self.last[n % KEYS]:
                self.swapped.append(n)
            self.last[n % KEYS] = n

    def lost(self):
        return [n for n in range(self.count) if not self.ids[n]]

    def faults(self):
        return (self.lost(), self.swapped, self.renamed, self.alien)


def controls():
    """Each kind of fault, one among all."""
    def feed(*numbers):
        ledger = Ledger("control", 3 * KEYS)
        for n, of_id in numbers:
            ledger.take(n, of_id)
        return ledger.faults()
    good = [(n, n + 1) for n in range(3 * KEYS)]
    assert feed(*good) == ([], [], [], [])
    assert feed(*good, good[5]) == ([], [], [], [])  # comes again
    cases = {
        "one_lost": feed(*good[:7], *good[8:])[0] == [7],
        "two_change_places": feed(
            *good[:9], good[9 + KEYS], *good[10:9 + KEYS], good[9],
            *good[10 + KEYS:])[1] == [9],
        "another_id": feed(*good, (4, 99))[2] == [4],
        "never_put": feed(*good, (3 * KEYS, 1))[3] == [3 * KEYS]}
    for name, noticed in cases.items():
        assert noticed, name
        proof.control("F31_messages", name, noticed, 1)


class Reader:
    """Reads on in what a subscriber has written."""

    def __init__(self, subscriber, ledgers):
        self.path, self.ledgers, self.offset = (
            subscriber.out_path, ledgers, 0)

    def read(self):
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            text = file.read(1 << 24)
        whole = text.rfind(b"\n") + 1
        self.offset += whole
        for line in text[:whole].splitlines():
            topic, n, properties = line.split(b" ", 2)
            if topic == PROBE:
                continue
            ledger = self.ledgers[topic]
            of_id = 1
            if ledger.has_ids:
                at = properties.index(b"id:") + 3
                # the random bits that stand in one row
                of_id = int(properties[at + 24:at + 36], 16) + 1
            ledger.take(int(n), of_id)
        return whole


class Road:
    def __init__(self, case, number, broker, count, *words):
        self.name = f"road{number}"
        self.topic = f"m/{number}".encode()
        self.count, self.put = count, 0
        self.proxy = faultproxy.Proxy(broker.port, draw, rig.SEED + number)
        case.addCleanup(self.proxy.close)
        case.db_path = self.path = f"{case.folder}/{self.name}.db"
        self.gateway = case.gateway(
            self.proxy.uri(), "run_dir=none", "window=256", "ack_batch=256",
            "ack_timeout_ms=2000", "connect_timeout_ms=2000", "keepalive_s=5",
            "reconnect_base_ms=10", "reconnect_cap_ms=200", *words,
            name=self.name)
        self.own = case.database()

    def fill(self):
        """Some more, unless many wait."""
        if self.put == self.count or (
                self.put - self.own.counts()["settled"] > MOST_PENDING):
            return
        more = min(BATCH, self.count - self.put)
        self.own.run(
            "INSERT INTO outbox(topic, payload, key) WITH RECURSIVE n(i) AS"
            " (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 + ?2 - 1)"
            " SELECT ?3, '' || i, 'k' || (i % ?4) FROM n",
            self.put, more, self.topic.decode(), KEYS)
        self.put += more


class Messages(rig.Case):
    def start(self):
        self.link = self.broker(lines=("log_type none",))
        self.readers, self.roads, self.ledgers = [], [], {}
        share = int(TOTAL * SHARE)
        counts = [(TOTAL - share) // ROADS] * ROADS
        self.add_reader(self.keep(Quiet(self.folder, self.link)))
        for number, count in enumerate(counts):
            self.add_road(number, self.link, count, "envelope=minimal")
        if share:
            self.start_rabbitmq(share)

    def start_rabbitmq(self, share):
        folder = self.enterContext(
            tempfile.TemporaryDirectory(dir=self.folder))
        node = self.keep(test_rabbitmq.Node(folder))
        self.add_reader(self.keep(Quiet(
            self.folder, node, "-u", node.USER, "-P", node.PASSWORD,
            name="keeper", version="mqttv311")))
        self.add_road(len(self.roads), node, share, "envelope=raw",
                      "mqtt_version=4", f"username={node.USER}",
                      f"password={node.PASSWORD}", has_ids=False)

    def add_road(self, number, broker, count, *words, has_ids=True):
        road = Road(self, number, broker, count, *words)
        self.roads.append(road)
        self.ledgers[road.topic] = Ledger(road.name, count, has_ids)

    def add_reader(self, subscriber):
        self.readers.append(Reader(subscriber, self.ledgers))

    def so_far(self):
        ledgers = self.ledgers.values()
        return (sum(ledger.distinct for ledger in ledgers),
                sum(ledger.again for ledger in ledgers))

    def go_on(self):
        """True when all is there."""
        for road in self.roads:
            road.fill()
        for reader in self.readers:
            reader.read()
        now = time.monotonic()
        if now >= self.say_at:
            self.say_at = now + SAY_S
            here, again = self.so_far()
            print(f"  {now - self.begun:4.0f} s: {here} of {self.total},"
                  f" {again} came again, {here / (now - self.begun):.0f}/s",
                  flush=True)
        return self.so_far()[0] == self.total

    def test_messages_through_faults_are_all_there_and_in_order(self):
        controls()
        self.start()
        self.total = sum(road.count for road in self.roads)
        self.begun = self.say_at = time.monotonic()
        rig.wait_long(self.go_on, "all arrive", self.so_far, STALL_S)
        took = time.monotonic() - self.begun
        for road in self.roads:
            road.proxy.heal()
        for road in self.roads:
            self.assertEqual(road.own.wait_settled()["delivered"], road.count)
        self.judge(took)

    def judge(self, took):
        for reader in self.readers:
            while reader.read():
                pass
        struck, connections = {}, 0
        for road in self.roads:
            self.assertEqual(road.gateway.end(), 0)
            self.db_path = road.path
            self.assert_sound(road.own)
            connections += len(road.proxy.accepts)
            for what, count in road.proxy.count.items():
                struck[what] = struck.get(what, 0) + count
        for ledger in self.ledgers.values():
            self.assertEqual(ledger.faults(), ([], [], [], []), ledger.name)
        here, again = self.so_far()
        print(f"  {here} messages in {took:.0f} s ({here / took:.0f}/s),"
              f" {again} came again, {connections} connections, {struck}",
              flush=True)
        proof.say("F31_messages", here,
                  (rig.SEED, rig.SEED + len(self.roads) - 1))


class Quiet(rig.Subscriber):
    """Of all messages; the broker keeps no log."""

    def __init__(self, folder, broker, *login, name="all",
                 version="mqttv5"):
        self.login = login
        super().__init__(folder, broker, name=name, topic="m/#",
                         version=version, login=login, kind=Arrival)

    def wait_subscribed(self, count):
        """What is published for it arrives."""
        def probe():
            subprocess.run(
                ["mosquitto_pub", "-h", "127.0.0.1", "-p",
                 str(self.broker.port), "-V", "mqttv311", *self.login, "-t",
                 PROBE.decode(), "-m", "0"], check=True, timeout=rig.WAIT_S)
            return os.path.getsize(self.out_path)
        rig.wait_for(probe, f"{self.name} is subscribed")


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub", "mosquitto_sub", "stdbuf")
    if SHARE and not os.access(test_rabbitmq.SERVER, os.X_OK):
        print("skipped: not installed: rabbitmq-server"
              " (tests/support/install.sh full)")
        sys.exit(77)
    rig.main()
