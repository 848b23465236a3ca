# SPDX-License-Identifier: MIT
"""What the ten failure tests ask for (tests/README.md lists them), with real
processes, mosquitto, and a proxy in between that sees each packet."""
import collections
import re
import subprocess

import ackproxy
import arrivals
import faultproxy
import proof
import rig
from faultproxy import Faults
from mqttwire import PUBACK, PUBLISH

QUICK = ("reconnect_base_ms=10", "reconnect_cap_ms=100", "ack_delay_ms=20")


class Promises(rig.Case):
    def put(self, own, payloads, topic="p/t", keys=4):
        """In one transaction; the key is drawn from the number."""
        own.run("BEGIN IMMEDIATE")
        for payload in payloads:
            own.run("INSERT INTO outbox(topic, payload, key) VALUES (?, ?, ?)",
                    topic, str(payload), f"k{int(payload) % keys}")
        own.run("COMMIT")

    def wait_arrived(self, sub, committed):
        rig.wait_long(lambda: len(set(sub.ids())) >= len(committed),
                      "all arrive", lambda: len(sub.messages()))


# ---- T4 ------------------------------------------------------------------

class Executioner(faultproxy.WitnessProxy):
    """Kills the firmware when a PUBLISH or a PUBACK comes by, which then goes
    nowhere: the broker has, or may have, what the firmware never marked."""

    victim, at, after = None, PUBLISH, 0

    def _pass(self, kind, first):
        """Is this the one?"""
        if self.victim is None or kind != self.at or first >> 4 != kind:
            return False
        self.after -= 1
        if self.after >= 0:
            return False
        self.victim.signal(rig.signal.SIGKILL)
        self.count["killed"] += 1
        self.victim = None
        return True

    def from_client(self, link, first, body):
        super().from_client(link, first, body)
        self._pass(PUBLISH, first)  # and this PUBLISH goes on

    def from_broker(self, link, first, body):
        if self._pass(PUBACK, first):
            return True
        super().from_broker(link, first, body)
        return False


class CrashBeforeMark(Promises):
    TRIALS = 300 if rig.PROVE else 30 if rig.FULL else 6
    PER_LIFE = 20

    def test_T4_crash_after_publish_before_mark_sends_the_same_again(self):
        broker = self.broker()
        sub = self.subscriber(broker)
        proxy = Executioner(broker.port, seed=rig.SEED)
        self.addCleanup(proxy.close)
        words = (proxy.uri(), *QUICK, "run_dir=none")
        self.assertEqual(self.gateway(*words).end(), 0)
        own, committed = self.database(), []
        for turn in range(self.TRIALS):
            gateway = self.gateway(*words)
            proxy.at = self.random.choice((PUBLISH, PUBACK))
            # not the first: who dies with the same message again and again
            # sets it aside, as one that kills
            proxy.after = self.random.randrange(1, self.PER_LIFE // 2)
            proxy.victim = gateway
            more = range(len(committed), len(committed) + self.PER_LIFE)
            self.put(own, more)
            committed += map(str, more)
            self.assertEqual(gateway.popen.wait(rig.WAIT_S), -9)
            self.assertEqual(proxy.count["killed"], turn + 1)
        last = self.gateway(*words)
        self.assertEqual(own.wait_settled()["delivered"], len(committed))
        self.assertEqual(last.end(), 0)
        self.wait_arrived(sub, committed)
        again = arrivals.check(self, committed, sub.messages())
        self.assert_same_bytes(proxy, committed)
        self.assert_sound(own)
        print(f"  {self.TRIALS} kills, {len(committed)} messages, {again} came"
              " again", flush=True)
        self.assertGreaterEqual(
            sum(count > 1 for count in proxy.attempts.values()),
            self.TRIALS)
        arrivals.controls(self, "T4_real", committed, sub.messages())
        proof.say("T4_real", self.TRIALS, (rig.SEED, rig.SEED))

    def assert_same_bytes(self, proxy, committed):
        """Topic, properties and payload, at each attempt."""
        self.assertEqual(set(proxy.sent), {p.encode() for p in committed})
        self.assertEqual([payload for payload, forms in proxy.sent.items()
                          if len(forms) != 1], [])
        forms = {**proxy.sent, b"0": {*proxy.sent[b"0"], (b"p/t", b"")}}
        noticed = [p for p, all_ in forms.items() if len(all_) != 1]
        self.assertEqual(noticed, [b"0"])
        proof.control("T4_real", "another_form", len(noticed), 1)


# ---- T5 ------------------------------------------------------------------

class Duplicates(Promises):
    SENDERS = 8
    COMMANDS = 1000 if rig.PROVE else 200 if rig.FULL else 40

    def effects(self, own):
        """(of too many, of none)"""
        had = collections.Counter(
            row[0] for row in own.rows("SELECT command FROM effect"))
        expected = {f"c{n}" for n in range(self.COMMANDS)}
        return ([name for name, count in had.items() if count > 1],
                sorted(expected - set(had)))

    def send(self, link):
        """Each on a connection of its own, each twice in a row."""
        lines = "".join(f'{{"id":"c{n}","source":"cloud"}}\n' * 2
                        for n in range(self.COMMANDS))
        senders = [self.keep(rig.Process(
            self.folder, f"sender{n}",
            ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(link.port), "-q",
             "1", "-t", "gw/cmd", "-l"], stdin=subprocess.PIPE, text=True))
            for n in range(self.SENDERS)]
        for sender in senders:
            sender.popen.stdin.write(lines)
        for sender in senders:
            sender.popen.stdin.close()
        for sender in senders:
            self.assertEqual(sender.popen.wait(rig.WAIT_S), 0)

    def check(self, takes):
        link = self.broker()
        proxy = ackproxy.AckProxy(link.port, self.db_path, seed=rig.SEED)
        self.addCleanup(proxy.close)
        self.gateway(proxy.uri(), *QUICK, f"{takes}=gw/cmd")
        link.wait_err("Sending SUBACK to gateway-in\n")
        self.send(link)
        copies = 2 * self.SENDERS * self.COMMANDS
        own = self.database()

        def acknowledged():
            return sum(proxy.acknowledged.values())
        rig.wait_long(lambda: acknowledged() >= copies,
                      "each copy is acknowledged", acknowledged)
        rig.wait_long(lambda: self.effects(own)[1] == [], "all have effects",
                      lambda: own.value("SELECT count(*) FROM effect"))
        self.assertEqual(self.effects(own), ([], []))
        self.assertEqual(proxy.early, [])
        # each copy but the first was a duplicate, and none an error; one that
        # was taken as its connection ended comes again
        ((state, count, seen),) = own.rows(
            "SELECT state, count(*), sum(seen) FROM inbox GROUP BY state")
        self.assertEqual((state, count), ("done", self.COMMANDS))
        self.assertGreaterEqual(seen, copies)
        self.assert_sound(own)
        return own

    def test_T5_eight_connections_with_the_same_ids_have_one_effect(self):
        own = self.check("commands")
        own.run("INSERT INTO effect VALUES ('c3')")
        noticed = self.effects(own)[0]
        self.assertEqual(noticed, ["c3"])
        proof.control("T5_real", "second_effect", len(noticed), 1)
        proof.say("T5_real", self.COMMANDS, (rig.SEED, rig.SEED))

    def test_T5_the_same_with_commands_that_are_pulled(self):
        self.check("pull")
        proof.say("T5_real", self.COMMANDS, (rig.SEED, rig.SEED))


# ---- T7 ------------------------------------------------------------------

class Down(Promises):
    """Attempts are counted where they arrive.  The one after a failure waits
    at least base/10 and at most the cap (full jitter with a floor), and what
    Paho needs to start it."""

    BASE_MS, CAP_MS = 200, 2000
    PAHO_S = 1
    TRIES = 100 if rig.PROVE else 12 if rig.FULL else 6

    def gaps(self, accepts):
        return [b - a for a, b in zip(accepts, accepts[1:])]

    def too_early(self, gaps, waits_ms):
        """Those that did not wait for what was said, or drawn too short."""
        return [gap for gap, wait in zip(gaps, waits_ms)
                if gap < wait / 1000 or wait < self.BASE_MS / 10
                or wait > self.CAP_MS]

    def test_T7_broker_that_is_down_is_asked_when_the_next_try_is_due(self):
        """It hangs up at once, then nobody listens, then it is back."""
        broker = self.broker()
        sub = self.subscriber(broker)
        proxy = faultproxy.WitnessProxy(
            broker.port, Faults(end="rst", end_after=(0, 0)), rig.SEED)
        self.addCleanup(proxy.close)
        relay = self.gateway(
            proxy.uri(), f"reconnect_base_ms={self.BASE_MS}",
            f"reconnect_cap_ms={self.CAP_MS}")
        own = self.database()
        self.put(own, range(100))
        rig.wait_long(lambda: len(proxy.accepts) > self.TRIES, "tries",
                      lambda: len(proxy.accepts),
                      self.CAP_MS / 1000 + self.PAHO_S + 10)
        gaps = self.gaps(proxy.accepts)
        waits_ms = [int(ms) for ms in re.findall(
            r"outbound link: .*next try in (\d+) ms", relay.err())]
        self.assertGreaterEqual(len(waits_ms), len(gaps))
        self.assertEqual(self.too_early(gaps, waits_ms), [])
        # no message is charged for it
        self.assertEqual(own.rows("SELECT * FROM outbox_held"), [])
        proxy.close_door()
        said = relay.err().count("next try in")
        relay.wait_err("next try in", said + 2)
        proxy.heal()
        proxy.open_door()
        self.assertEqual(own.wait_settled()["delivered"], 100)
        self.wait_arrived(sub, range(100))
        arrivals.check(self, [str(n) for n in range(100)], sub.messages())
        print(f"  {len(gaps)} tries, {min(gaps):.2f} to {max(gaps):.2f} s"
              " apart", flush=True)
        noticed = self.too_early([waits_ms[0] / 1000 - 0.001, 3, 9],
                                 [waits_ms[0], 2000, self.CAP_MS + 1])
        self.assertEqual(noticed, [waits_ms[0] / 1000 - 0.001, 9])
        proof.control("T7_real", "try_too_early", len(noticed), 2)
        proof.say("T7_real", len(gaps), (rig.SEED, rig.SEED))


# ---- T10 -----------------------------------------------------------------

class Order(Promises):
    ROUNDS = 40 if rig.PROVE else 6 if rig.FULL else 2
    PUT, KEYS = 200, 5

    def allow(self, *filters):
        with open(self.acl, "w", encoding="utf-8") as file:
            file.writelines(f"topic readwrite {f}\n" for f in filters)

    def requeue(self, broker, own):
        """The refused die; then they are allowed, and come back."""
        rig.wait_long(
            lambda: own.value("SELECT count(*) FROM outbox_held"
                              " WHERE state <> 'dead'") == 0 and
            own.counts()["settled"] == own.counts()["put"],
            "those that are refused are dead", own.counts)
        dead = own.value("SELECT count(*) FROM outbox_held")
        self.allow("#")
        reloads = broker.err().count("Reloading config")
        broker.signal(rig.signal.SIGHUP)
        broker.wait_err("Reloading config", reloads + 1)
        subprocess.run([rig.COMMAND, "dead", "requeue", self.db_path, "--all"],
                       check=True, capture_output=True, timeout=rig.WAIT_S)
        return dead

    def test_T10_keys_keep_their_order_through_reconnects_and_two_relays(self):
        """PUBACKs are lost and late, connections are cut, the relay that sends
        is killed, and a third topic is refused until it is allowed."""
        self.acl = f"{self.folder}/acl"
        self.allow("p/t", "good/#")
        broker = self.broker(lines=(f"acl_file {self.acl}",))
        sub = self.subscriber(broker)
        proxy = faultproxy.Proxy(broker.port, seed=rig.SEED)
        self.addCleanup(proxy.close)
        words = (proxy.uri(), *QUICK, "ack_timeout_ms=2000", "max_attempts=2",
                 "retry_base_ms=10", "retry_cap_ms=20", "window=64")
        relays = [self.gateway(*words, name="relay0"),
                  self.gateway(*words, name="relay1")]
        own, committed = self.database(), []
        for turn in range(self.ROUNDS):
            proxy.faults = Faults(
                drop_ack=0.02, late_ack=0.1, double_ack=0.1, reorder_ms=5,
                end="rst", end_after=(5000, 30000))
            more = range(len(committed), len(committed) + self.PUT)
            self.put(own, more, keys=self.KEYS)
            committed += map(str, more)
            rig.wait_long(lambda: proxy.count["rst"] > 2 * turn or
                          own.counts()["delivered"] == len(committed),
                          "cut", own.counts)
            relays[0].kill()
            relays = [relays[1],
                      self.gateway(*words, name=f"relay{turn + 2}")]
            proxy.heal()
        self.assertEqual(own.wait_settled()["delivered"], len(committed))
        self.wait_arrived(sub, committed)
        again = arrivals.check(self, committed, sub.messages())
        dead = self.refuse_and_requeue(broker, own, sub, len(committed))
        self.assert_sound(own)
        print(f"  {len(committed)} messages, {again} came again, "
              f"{dead} requeued, {len(proxy.accepts)} connections,"
              f" {proxy.count['rst']} cut", flush=True)
        self.assertGreater(dead, 0)
        self.assertGreater(proxy.count["rst"], 0)
        arrivals.controls(self, "T10_real", committed, [
            m for m in sub.messages() if m.topic == "p/t"])
        proof.say("T10_real", self.ROUNDS, (rig.SEED, rig.SEED))

    def refuse_and_requeue(self, broker, own, sub, before):
        """One key: its refused ones die one after the other, those that are
        allowed pass in order; then those that were dead, in order."""
        for n in range(12):
            own.run("INSERT INTO outbox(topic, payload, key)"
                    " VALUES (?, ?, 'x')",
                    "bad/t" if n % 3 == 0 else "good/t", f"x{n}")
        dead = self.requeue(broker, own)
        rig.wait_for(lambda: own.value("SELECT count(*) FROM outbox_held")
                     == 0, "none is held")
        rig.wait_for(lambda: len(set(sub.ids())) == before + 12, "12 more")
        order = [m.payload for m in arrivals.firsts(sub.messages())
                 if m.payload.startswith("x")]
        good = [f"x{n}" for n in range(12) if n % 3]
        self.assertEqual(order, good + ["x0", "x3", "x6", "x9"])
        return dead


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "mosquitto_pub", "stdbuf")
    rig.main()
