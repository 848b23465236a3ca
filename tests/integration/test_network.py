# SPDX-License-Identifier: MIT
"""A network that does what networks do, played by a proxy between firmware and
mosquitto: one firmware for each fault, all at once.  The fault strikes some
times, then the network heals: all that was committed arrives, in order per
key, and nothing stands still for longer than it takes to notice a dead
connection and to make a new one."""
import subprocess
import tempfile

import arrivals
import faultproxy
import proof
import rig
from faultproxy import Faults

KEEPALIVE_S, CAP_MS, CONNECT_MS = 5, 1000, 2000
# the promise, and what Paho (1 s) and a busy machine add
STALL_S = 2 * KEEPALIVE_S + (CAP_MS + CONNECT_MS) / 1000 + 7
# rounds, and seeds of each fault in a round
ROUNDS, SEEDS = (20, 5) if rig.PROVE else (1, 5 if rig.FULL else 1)
LAST_SEED = rig.SEED + ROUNDS * SEEDS - 1
PUT, KEYS = 300, 8
ENDS = (2000, 30000)

# name: the fault, and how often it must have struck (of which name)
F20 = {
    "delay": (Faults(delay_ms=100), "publish", 200),
    "jitter": (Faults(jitter_ms=80), "publish", 200),
    "dribble": (Faults(dribble=16), "publish", 80),
    "rate": (Faults(rate=8000), "publish", 20),
    "rst": (Faults(end="rst", end_after=ENDS), "rst", 3),
    "fin": (Faults(end="fin", end_after=ENDS), "fin", 3),
    "half_up": (Faults(end="half_up", end_after=ENDS), "half_up", 2),
    "half_down": (Faults(end="half_down", end_after=ENDS), "half_down", 3),
    "hole_stop": (Faults(end="hole_stop", end_after=ENDS), "hole_stop", 2),
    "hole_drop": (Faults(end="hole_drop", end_after=ENDS), "hole_drop", 2),
    "storm": (Faults(end="rst", end_after=(0, 1500)), "rst", 5),
}
F21 = {
    "drop": (Faults(drop_ack=0.05), "dropped", 3),
    "double": (Faults(double_ack=0.3), "doubled", 30),
    "late": (Faults(late_ack=0.3), "late", 30),
    "stale": (Faults(stale_ack=0.3), "stale", 30),
    "reorder": (Faults(reorder_ms=10), "reordered", 2),
    "all": (Faults(drop_ack=0.02, double_ack=0.1, late_ack=0.1, stale_ack=0.1,
                   reorder_ms=10, end="rst", end_after=ENDS), "rst", 2),
}


class Road:
    """A firmware, its database, and its way to the broker."""

    def __init__(self, case, broker, fault, seed):
        self.fault, faults = fault
        self.name = name = f"{self.fault}_{seed}"
        self.topic = f"net/{name}"
        self.proxy = faultproxy.WitnessProxy(broker.port, faults, seed)
        case.addCleanup(self.proxy.close)
        case.db_path = f"{case.folder}/{name}.db"
        self.gateway = case.gateway(
            self.proxy.uri(), "run_dir=none", f"keepalive_s={KEEPALIVE_S}",
            "ack_timeout_ms=2000", f"connect_timeout_ms={CONNECT_MS}",
            f"reconnect_cap_ms={CAP_MS}", "ack_delay_ms=50", name=name)
        self.path = case.db_path
        self.own = case.database()
        self.committed = []

    def put(self, count):
        first = len(self.committed)
        self.own.run("BEGIN IMMEDIATE")
        for n in range(first, first + count):
            payload = f"{self.name}-{n}"
            self.own.run("INSERT INTO outbox(topic, payload, key)"
                         " VALUES (?, ?, ?)", self.topic, payload,
                         f"k{n % KEYS}")
            self.committed.append(payload)
        self.own.run("COMMIT")

    def settled(self):
        now = self.own.counts()
        return now["delivered"] == now["put"]

    def requeue_dead(self):
        """Who dies on one connection after another may be taken for poison;
        nothing is lost by that."""
        dead = self.own.value(
            "SELECT count(*) FROM outbox_held WHERE state = 'dead'")
        if dead:
            subprocess.run([rig.COMMAND, "dead", "requeue", self.path,
                            "--all"], check=True, capture_output=True)
        return dead


class Network(rig.Case):
    def setUp(self):
        super().setUp()
        self.whole_folder = self.folder

    def start(self, modes, seed):
        self.link = self.broker()
        self.sub = self.subscriber(self.link, topic="net/#")
        roads = [Road(self, self.link, (name, faults), seed + n)
                 for name, (faults, _, _) in modes.items()
                 for n in range(SEEDS)]
        for road in roads:
            road.put(PUT)
        return roads

    def strike(self, road, what, times):
        """It needs something to strike at."""
        while road.proxy.count[what] < times:
            rig.wait_long(
                lambda: road.proxy.count[what] >= times or road.settled(),
                f"{road.name} strikes", lambda: dict(road.proxy.count),
                STALL_S)
            if road.proxy.count[what] < times:
                road.put(PUT)

    def heal(self, road):
        road.proxy.heal()
        road.put(50)
        road.dead = 0

        def settled():
            road.dead += road.requeue_dead()
            return road.settled()
        rig.wait_long(settled, f"{road.name} drains", road.own.counts, STALL_S)

    def arrived(self, road):
        return [m for m in self.sub.messages() if m.topic == road.topic]

    def judge(self, road):
        rig.wait_long(
            lambda: len({m.id for m in self.arrived(road)})
            >= len(road.committed), f"{road.name}: all arrive",
            lambda: len(self.arrived(road)))
        again = arrivals.check(self, road.committed, self.arrived(road))
        self.assertEqual(road.gateway.end(), 0)
        self.db_path = road.path
        self.assert_sound(road.own)
        faults = ", ".join(f"{count} {what}" for what, count
                           in sorted(road.proxy.count.items()))
        print(f"  {road.name}: {len(road.committed)} committed, {again} came"
              f" again, {road.dead} dead and requeued, "
              f"{len(road.proxy.accepts)} connections, {faults}", flush=True)

    def round(self, modes, seed):
        self.folder = tempfile.mkdtemp(dir=self.whole_folder)
        roads = self.start(modes, seed)
        for road in roads:
            self.strike(road, *modes[road.fault][1:])
        for road in roads:
            self.heal(road)
        for road in roads:
            self.judge(road)
        return roads


class Faulty(Network):
    """Each round has a broker and databases of its own."""

    def test_F20_each_fault_of_the_network_heals_without_a_loss(self):
        for turn in range(ROUNDS):
            roads = self.round(F20, rig.SEED + turn * SEEDS)
            self.end_all()
        arrivals.controls(self, "F20_delay", roads[0].committed,
                          self.arrived(roads[0]))
        for name in F20:
            proof.say(f"F20_{name}", ROUNDS * SEEDS, (rig.SEED, LAST_SEED))

    def test_F21_each_puback_settles_its_own_attempt_only(self):
        for turn in range(ROUNDS):
            for road in self.round(F21, rig.SEED + turn * SEEDS):
                self.assert_acknowledged(road)
            self.end_all()
        proof.say("F21", ROUNDS * SEEDS * len(F21), (rig.SEED, LAST_SEED))

    def end_all(self):
        """Before the next round."""
        self.sub.messages()  # which it keeps
        self.doCleanups()

    def assert_acknowledged(self, road):
        """Of each message a PUBACK went by that was its own."""
        missing = [payload for payload in road.committed
                   if not road.proxy.acknowledged[payload.encode()]]
        self.assertEqual(missing, [])


class Forged(Network):
    def test_F21_forged_pubacks_are_noticed_as_a_loss(self):
        """The control: PUBLISHes that never arrive, and PUBACKs for them."""
        roads = self.start({"forge": (Faults(forge_ack=0.05), "", 0)},
                           rig.SEED)
        road = roads[0]
        rig.wait_for(road.settled, "all seem to be delivered")
        forged = road.proxy.count["forged"]
        rig.wait_for(lambda: len(self.arrived(road)) >= PUT - forged,
                     "the others arrive")
        missing, alien = arrivals.lost(road.committed, self.arrived(road))
        self.assertEqual((len(missing), alien), (forged, []))
        unseen = [payload for payload in road.committed
                  if not road.proxy.acknowledged[payload.encode()]]
        self.assertEqual(sorted(unseen), missing)
        self.assertGreater(forged, 0)
        proof.control("F21", "forged_puback", len(missing), forged)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
