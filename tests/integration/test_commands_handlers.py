# SPDX-License-Identifier: MIT
"""A handler that always fails and one that takes long: what goes on beside
them."""
import ackproxy
import rig

# mosquitto hangs up after one and a half times that without a packet
KEEPALIVE_S = 5
SLOW_S = 20 if rig.FULL else 8
MAX_ATTEMPTS = 4
GOOD = 20


class Handlers(rig.Case):
    def set_up(self, *words):
        self.link = self.broker()
        self.proxy = ackproxy.AckProxy(self.link.port, self.db_path)
        self.addCleanup(self.proxy.close)
        self.firmware = self.gateway(
            self.proxy.uri(), "commands=cmd/#", f"keepalive_s={KEEPALIVE_S}",
            f"max_attempts={MAX_ATTEMPTS}", "retry_base_ms=500",
            "retry_cap_ms=500", "reconnect_cap_ms=300", *words)
        self.link.wait_err("Sending SUBACK to gateway-in\n")
        self.own = self.database()

    def send(self, name, topic, key):
        self.publish(self.link, topic,
                     f'{{"id":"{name}","source":"cloud"}}', "-D", "publish",
                     "user-property", "partitionkey", key)

    def states(self, consumer):
        return dict(self.own.rows(
            "SELECT id, state FROM inbox WHERE consumer = ?", consumer))

    def wait_states(self, consumer, states):
        rig.wait_for(lambda: self.states(consumer) == states,
                     f"consumer {consumer} has {states}")

    def effects(self):
        return sorted(row[0] for row in
                      self.own.rows("SELECT command FROM effect"))

    def assert_no_link_was_silent(self):
        self.assertNotIn("exceeded timeout", self.link.err())
        self.assertEqual(self.proxy.early, [])

    def test_failing_handler_holds_up_only_its_own_key(self):
        """It sees other keys and, once the bad one is dead, later commands of
        its key; the other consumer of the same message waits for nothing."""
        self.set_up("failing=cmd/#")
        self.send("bad", "cmd/bad", "k0")
        self.send("behind", "cmd/good", "k0")
        self.send("beside", "cmd/good", "k1")
        done = {"bad": "done", "behind": "done", "beside": "done"}
        self.wait_states("app", done)
        rig.wait_for(lambda: self.states("failing")["beside"] == "done",
                     "the other key goes on")
        attempts = self.own.value("SELECT attempts FROM inbox WHERE"
                                  " consumer = 'failing' AND id = 'bad'")
        self.assertLess(attempts, MAX_ATTEMPTS)
        self.wait_states("failing", {**done, "bad": "dead"})
        # what it did before it failed is taken back
        self.assertEqual(self.effects(), ["bad", "behind", "beside"])
        self.assertEqual(
            self.own.rows("SELECT attempts FROM inbox WHERE id = 'bad'"
                          " AND consumer = 'failing'"), [(MAX_ATTEMPTS,)])
        self.assert_no_link_was_silent()

    def test_slow_handler_costs_no_keepalive_and_no_command(self):
        """It runs in a transaction: what comes meanwhile is refused and comes
        again."""
        self.set_up("slow=cmd/slow", f"slow_ms={SLOW_S * 1000}")
        self.send("slow", "cmd/slow", "k0")
        self.firmware.wait_out("slow begins\n")
        names = [f"c{i}" for i in range(GOOD)]
        for name in names:
            self.send(name, "cmd/good", "k0")
        self.firmware.wait_err("a command could not be stored", 2)
        self.assertNotIn("slow ends\n", self.firmware.out())
        stored = self.states("app")
        self.firmware.wait_out("slow ends\n")
        self.assertEqual(set(stored), {"slow"})
        self.wait_states("app", {name: "done" for name in ("slow", *names)})
        self.assertEqual(self.effects(), sorted(("slow", "slow", *names)))
        self.assertEqual(
            self.firmware.err().count("outbound link: connected"), 1)
        self.assert_no_link_was_silent()


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub")
    rig.main()
