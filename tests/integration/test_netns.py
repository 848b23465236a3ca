# SPDX-License-Identifier: MIT
"""The kernel's own network between a firmware and mosquitto: each fault has a
pair of network interfaces, with the firmware's end in a network namespace of
its own.  Packets get lost, the link goes down, the way is blocked, or so slow
that it is nearly blocked; then it heals, and all arrives.

Everything is made in a namespace of this test, and goes with it."""
import os
import re
import subprocess
import sys

import arrivals
import proof
import rig

KEEPALIVE_S, CAP_MS, CONNECT_MS = 5, 1000, 3000
# the promise, and what Paho (1 s) and a busy machine add
STALL_S = 2 * KEEPALIVE_S + (CAP_MS + CONNECT_MS) / 1000 + 7
ROUNDS = 10 if rig.PROVE else 2 if rig.FULL else 1
PUT, KEYS, SIZE = 200, 8, 100


def run(*command):
    return subprocess.run(command, check=True, text=True, timeout=rig.WAIT_S,
                          stdout=subprocess.PIPE).stdout


class Way:
    """An interface, the firmware's namespace behind it, and the firmware.  The
    network is 10.77.N.0/24, we are 10.77.N.1."""

    def __init__(self, case, number):
        self.case, self.number = case, number
        self.device = f"way{number}"
        self.holder = case.keep(rig.Process(
            case.folder, f"holder{number}",
            ["unshare", "--net", "sleep", "infinity"]))
        own = os.readlink("/proc/self/ns/net")
        rig.wait_for(lambda: os.readlink(self.namespace()) != own,
                     "it has its own namespace")
        run("ip", "link", "add", self.device, "type", "veth", "peer", "name",
            "there", "netns", str(self.holder.pid))
        run("ip", "address", "add", self.address() + "/24", "dev", self.device)
        run("ip", "link", "set", self.device, "up")
        self.there("ip", "address", "add", f"10.77.{number}.2/24", "dev",
                   "there")
        self.there("ip", "link", "set", "there", "up")

    def namespace(self):
        return f"/proc/{self.holder.pid}/ns/net"

    def address(self):
        return f"10.77.{self.number}.1"

    def there(self, *command):
        return run("nsenter", f"--net={self.namespace()}", *command)

    # ---- the firmware -----------------------------------------------------

    def start(self, broker, name):
        self.name, self.topic = name, f"net/{name}"
        self.case.db_path = self.path = f"{self.case.folder}/{name}.db"
        self.relay = self.case.gateway(
            f"tcp://{self.address()}:{broker.port}", "run_dir=none",
            f"keepalive_s={KEEPALIVE_S}", "ack_timeout_ms=2000",
            f"connect_timeout_ms={CONNECT_MS}", f"reconnect_cap_ms={CAP_MS}",
            "ack_delay_ms=50", name=name,
            prefix=("nsenter", f"--net={self.namespace()}"))
        self.own, self.committed = self.case.database(), []
        self.relay.wait_err("outbound link: connected")

    def put(self, count):
        first = len(self.committed)
        self.own.run("BEGIN IMMEDIATE")
        for n in range(first, first + count):
            payload = f"{self.name}-{n}".ljust(SIZE, ".")
            self.own.run("INSERT INTO outbox(topic, payload, key)"
                         " VALUES (?, ?, ?)", self.topic, payload,
                         f"k{n % KEYS}")
            self.committed.append(payload)
        self.own.run("COMMIT")

    def settled(self):
        now = self.own.counts()
        return now["delivered"] == now["put"]

    # ---- faults: what is done, and how often it was noticed ---------------

    def rule(self, *words, chain):
        way = "iifname" if chain == "input" else "oifname"
        run("nft", "add", "rule", "inet", "faults", chain, way, self.device,
            *words)

    def lose(self, percent):
        for chain in ("input", "output"):
            self.rule("numgen", "random", "mod", "100", "<", str(percent),
                      "counter", "drop", chain=chain)

    def block(self, *chains):
        for chain in chains:
            self.rule("counter", "drop", chain=chain)

    def refuse(self):
        self.rule("counter", "reject", chain="input")

    def pull_out(self):
        self.there("ip", "link", "set", "there", "down")

    def slow_down(self):
        bucket = ("qdisc", "add", "dev", "root", "tbf", "rate", "64kbit",
                  "burst", "3000", "latency", "400ms")
        run("tc", *bucket[:3], self.device, *bucket[3:])
        self.there("tc", *bucket[:3], "there", *bucket[3:])

    def hits(self):
        """Packets that the rules of this device caught, or its bucket held
        up; and how often the relay saw its connection end."""
        rules = run("nft", "list", "table", "inet", "faults")
        caught = re.findall(rf'"{self.device}" .*packets (\d+)', rules)
        held_up = re.findall(r"overlimits (\d+)", self.there(
            "tc", "-s", "qdisc", "show", "dev", "there"))
        return {"packets": sum(map(int, caught + held_up)),
                "ends": self.relay.err().count("next try in")}

    def heal(self):
        self.there("ip", "link", "set", "there", "up")
        for end in (run, self.there):
            device = self.device if end is run else "there"
            if "tbf" in end("tc", "qdisc", "show", "dev", device):
                end("tc", "qdisc", "del", "dev", device, "root")


# name: what is done, what must be noticed, how often
FAULTS = {
    "loss5": (lambda way: way.lose(5), "packets", 10),
    "loss20": (lambda way: way.lose(20), "packets", 20),
    "loss50": (lambda way: way.lose(50), "packets", 30),
    "down": (Way.pull_out, "ends", 2),
    "partition": (lambda way: way.block("input", "output"), "ends", 2),
    "deaf": (lambda way: way.block("input"), "ends", 2),
    "mute": (lambda way: way.block("output"), "ends", 2),
    "reject": (Way.refuse, "ends", 2),
    "rate64k": (Way.slow_down, "packets", 50),
}


class Kernel(rig.Case):
    def set_up(self):
        for chain in ("input", "output"):
            run("nft", "add", "chain", "inet", "faults", chain,
                f"{{ type filter hook {chain} priority 0; }}")
        self.ways = [Way(self, number) for number in range(len(FAULTS))]
        port = rig.free_port()
        self.link = self.broker(port=port, lines=[
            f"listener {port} {way.address()}" for way in self.ways])
        self.sub = self.subscriber(self.link, topic="net/#")

    def arrived(self, way):
        return [m for m in self.sub.messages() if m.topic == way.topic]

    def strike(self, way, what, times):
        """It needs something to strike at."""
        def struck():
            if way.settled():
                way.put(PUT)
            return way.hits()[what] >= times
        rig.wait_long(struck, f"{way.name} strikes", way.hits, STALL_S)

    def judge(self, way):
        way.put(20)
        rig.wait_long(way.settled, f"{way.name} drains", way.own.counts,
                      STALL_S)
        rig.wait_long(lambda: len({m.id for m in self.arrived(way)})
                      >= len(way.committed), f"{way.name}: all arrive",
                      lambda: len(self.arrived(way)))
        again = arrivals.check(self, way.committed, self.arrived(way))
        self.assertEqual(way.own.rows("SELECT * FROM outbox_held"), [])
        self.assertEqual(way.relay.end(), 0)
        self.db_path = way.path
        self.assert_sound(way.own)
        print(f"  {way.name}: {len(way.committed)} committed, {again} came"
              f" again, {way.struck}, connected"
              f" {way.relay.err().count('outbound link: connected')} times",
              flush=True)

    def round(self, turn):
        for way, name in zip(self.ways, FAULTS):
            way.start(self.link, f"{name}_{turn}")
            way.put(PUT)
        for way, (do, _, _) in zip(self.ways, FAULTS.values()):
            do(way)
        for way, (_, what, times) in zip(self.ways, FAULTS.values()):
            self.strike(way, what, times)
            way.struck = way.hits()
        for chain in ("input", "output"):
            run("nft", "flush", "chain", "inet", "faults", chain)
        for way in self.ways:
            way.heal()
        for way in self.ways:
            self.judge(way)

    def test_F20_each_fault_of_the_kernels_network_heals_without_a_loss(self):
        self.set_up()
        for turn in range(ROUNDS):
            self.round(turn)
        for name in FAULTS:
            proof.say(f"F20_{name}", ROUNDS)
        way = self.ways[0]
        arrivals.controls(self, "F20_loss5", way.committed, self.arrived(way))


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf", "nsenter", "nft")
    rig.in_own_network()
    if subprocess.run("nft add table inet faults".split(),
                      check=False).returncode != 0:
        print("skipped: not permitted: nft")
        sys.exit(77)
    rig.main()
