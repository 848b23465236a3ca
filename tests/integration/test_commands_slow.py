# SPDX-License-Identifier: MIT
"""A command that takes long in its slow part: nothing waits for it but the
commands of its own consumer."""
import time

import rig

# mosquitto hangs up after one and a half times that without a packet
KEEPALIVE_S = 5
SLOW_S = 20 if rig.FULL else 8
GOOD = 20
# A put waits for other commits, each with a sync, on a busy machine.
PUT_MS = SLOW_S * 1000 / 4


class Slow(rig.Case):
    def set_up(self):
        self.link = self.broker()
        self.firmware = self.gateway(
            self.link.uri(), "commands=cmd/#", "slow_part=slow/#",
            f"slow_ms={SLOW_S * 1000}", f"keepalive_s={KEEPALIVE_S}",
            "work=100000", "gap_us=20000")
        self.link.wait_err("Sending SUBACK to gateway-in\n")
        self.own = self.database()

    def send(self, name, topic):
        self.publish(self.link, topic,
                     f'{{"id":"{name}","source":"cloud"}}', "-D", "publish",
                     "user-property", "partitionkey", "k0")

    def states(self):
        return dict(self.own.rows("SELECT id, state FROM inbox"))

    def is_slow_running(self):
        return "slow ends\n" not in self.firmware.out()

    def put_while_slow(self):
        """The longest of many puts by plain SQL, in ms."""
        longest = 0
        while self.is_slow_running():
            begin = time.monotonic()
            self.own.put("x")
            longest = max(longest, time.monotonic() - begin)
            time.sleep(0.01)
        return longest * 1000

    def delivered(self):
        return self.own.counts()["delivered"]

    def test_slow_part_holds_up_nothing_but_its_own_consumer(self):
        """Other commands, also of its key, run at once; puts of this process
        and another one commit; messages leave; both connections live."""
        self.set_up()
        self.send("slow", "slow/1")
        self.send("next", "slow/2")
        self.firmware.wait_out("slow begins\n")
        before = self.delivered()
        names = [f"c{i}" for i in range(GOOD)]
        for name in names:
            self.send(name, "cmd/good")
        done = {"slow": "due", "next": "due",
                **{name: "done" for name in names}}
        rig.wait_long(lambda: self.states() == done, "the others are done",
                      lambda: list(self.states().values()).count("done"))
        rig.wait_for(lambda: self.delivered() > before + GOOD, "sent")
        committed = self.firmware.out().count("committed")
        self.assertTrue(self.is_slow_running())
        longest_ms = self.put_while_slow()
        print(f"longest put {longest_ms:.1f} ms", flush=True)
        self.assertLess(longest_ms, PUT_MS)
        self.assertGreater(self.firmware.out().count("committed"),
                           committed + GOOD)
        rig.wait_for(lambda: self.states()["slow"] == "done", "its effect")
        for link in ("outbound", "inbound"):
            self.assertEqual(
                self.firmware.err().count(f"{link} link: connected"), 1)
        self.assertNotIn("exceeded timeout", self.link.err())
        self.firmware.wait_out("slow begins\n", 2)
        self.firmware.kill()  # in the slow part of the next one
        self.assertEqual(self.states(), {**done, "slow": "done"})
        self.assertEqual(
            sorted(row[0] for row in
                   self.own.rows("SELECT command FROM effect")),
            sorted(("slow", *names)))


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub")
    rig.main()
