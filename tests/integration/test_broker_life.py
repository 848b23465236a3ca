# SPDX-License-Identifier: MIT
"""What happens to a broker, and to the session that a firmware has there, in
any order: it stands still, it is ended and started again, others take the
client ids and the session with them.  Messages leave and commands come all the
while; in the end all is there, and each command has had one effect."""
import collections
import subprocess

import arrivals
import proof
import rig

EVENTS = 60 if rig.PROVE else 10 if rig.FULL else 5
MESSAGES, COMMANDS, KEYS = 60, 5, 4


class Life(rig.Case):
    def set_up(self):
        self.link = self.broker(lines=(
            "persistence true", f"persistence_location {self.folder}/"))
        # mosquitto keeps for them what comes while it is away itself
        self.sub = self.subscriber(self.link, topic="p/t", login=("-c",))
        self.relay = self.gateway(
            self.link.uri(), "commands=gw/cmd", "ack_timeout_ms=2000",
            "connect_timeout_ms=2000", "keepalive_s=5", "stable_ms=100")
        self.link.wait_err("Sending SUBACK to gateway-in\n")
        self.own = self.database()
        self.committed, self.sent = [], 0

    def put(self):
        first = len(self.committed)
        self.own.run("BEGIN IMMEDIATE")
        for n in range(first, first + MESSAGES):
            self.own.run("INSERT INTO outbox(topic, payload, key)"
                         " VALUES ('p/t', ?, ?)", str(n), f"k{n % KEYS}")
            self.committed.append(str(n))
        self.own.run("COMMIT")

    def command(self):
        """Done when the broker has them, for us too."""
        lines = "".join(f'{{"id":"c{n}","source":"cloud"}}\n' for n in
                        range(self.sent, self.sent + COMMANDS))
        subprocess.run(
            ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(self.link.port),
             "-q", "1", "-t", "gw/cmd", "-l"], input=lines, text=True,
            check=True, timeout=rig.WAIT_S)
        self.sent += COMMANDS

    def tries(self):
        return self.relay.err().count("next try in")

    # ---- events -----------------------------------------------------------

    def stand_still(self):
        """Longer than a PUBACK may take."""
        late = self.relay.err().count("no PUBACK in time")
        self.link.pause()
        self.put()
        self.relay.wait_err("no PUBACK in time", late + 1)
        self.link.resume()

    def restart(self):
        self.put()
        self.link.restart()

    def stay_away(self):
        """Until both connections have been tried again in vain."""
        self.link.end()
        self.put()
        self.relay.wait_err("next try in", self.tries() + 4)
        self.link.restart()

    def take_over(self, client):
        """A stranger connects with that id, and takes its session along: it
        asks for a new one, which ends with the connection."""
        subprocess.run(
            ["mosquitto_sub", "-h", "127.0.0.1", "-p", str(self.link.port),
             "-i", client, "-t", "none", "-E"], check=True,
            timeout=rig.WAIT_S)

    def take_outbound(self):
        self.own.wait_settled()  # it is connected
        tries = self.tries()
        self.put()
        self.take_over("gateway")
        self.relay.wait_err("next try in", tries + 1)

    def take_inbound(self):
        """What waits in the session is lost with it, and what comes before
        we subscribe again nobody keeps for us."""
        self.wait_effects()
        before = self.link.err().count("Sending SUBACK to gateway-in\n")
        self.take_over("gateway-in")
        self.link.wait_err("Sending SUBACK to gateway-in\n", before + 2)

    # ---- the end ----------------------------------------------------------

    def effects(self):
        had = collections.Counter(row[0] for row in self.own.rows(
            "SELECT command FROM effect"))
        return {f"c{n}": had[f"c{n}"] for n in range(self.sent)}

    def wait_effects(self):
        rig.wait_long(lambda: all(self.effects().values()),
                      "all commands have effects", self.effects)

    def judge(self):
        self.assertEqual(self.own.wait_settled()["delivered"],
                         len(self.committed))
        rig.wait_long(lambda: len(set(self.sub.ids())) >= len(self.committed),
                      "all arrive", lambda: len(self.sub.messages()))
        again = arrivals.check(self, self.committed, self.sub.messages())
        self.wait_effects()
        self.assertEqual(set(self.effects().values()), {1})
        self.assertEqual(self.own.rows("SELECT * FROM outbox_held"), [])
        self.assert_sound(self.own)
        return again

    def test_F22_no_event_of_a_broker_loses_or_repeats_anything(self):
        self.set_up()
        events = (self.stand_still, self.restart, self.stay_away,
                  self.take_outbound, self.take_inbound)
        happened = collections.Counter()
        for turn in range(EVENTS):
            # each at least once
            event = (events[turn] if turn < len(events)
                     else self.random.choice(events))
            event()
            happened[event.__name__] += 1
            self.command()
            self.put()
        again = self.judge()
        print(f"  {dict(happened)}, {len(self.committed)} messages, {again}"
              f" came again, {self.sent} commands", flush=True)
        arrivals.controls(self, "F22", self.committed, self.sub.messages())
        proof.say("F22", EVENTS, (rig.SEED, rig.SEED))


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "mosquitto_pub", "stdbuf")
    rig.main()
