# SPDX-License-Identifier: MIT
"""A command that crashes the firmware in its handler: it ends among the dead
after max_attempts, all others take effect once, in order."""
import rig

MAX_ATTEMPTS = 3
COMMANDS = 6
WORDS = ("commands=cmd/#", "poison=bad", f"max_attempts={MAX_ATTEMPTS}",
         "retry_base_ms=10", "retry_cap_ms=10", "reconnect_base_ms=10")


class Poison(rig.Case):
    def setUp(self):
        super().setUp()
        self.link = self.broker()
        self.deaths = 0

    def command(self, name, key):
        self.publish(self.link, "cmd/1", f"do {name}", "-D", "publish",
                     "user-property", "id", name, "-D", "publish",
                     "user-property", "partitionkey", key)

    def live(self):
        """A life of the firmware, until it dies or no command is left."""
        firmware = self.gateway(self.link.uri(), *WORDS)

        def is_over():
            return not firmware.is_running() or self.own.value(
                "SELECT count(*) FROM inbox WHERE state <> 'due'") == COMMANDS
        rig.wait_for(is_over, "it dies, or no command is left")
        if firmware.is_running():
            self.assertEqual(firmware.end(), 0)
            return True
        self.deaths += 1
        return False

    def test_killer_ends_among_the_dead_and_others_take_effect(self):
        firmware = self.gateway(self.link.uri(), "commands=cmd/#")
        self.link.wait_err("Sending SUBACK to gateway-in\n")
        self.assertEqual(firmware.end(), 0)
        for name in ("1", "2", "bad", "3", "4"):
            self.command(name, "k")
        self.command("5", "other")
        firmware = self.gateway(self.link.uri(), *WORDS)
        rig.wait_for(lambda: not firmware.is_running(), "it dies")
        self.own = own = self.database()
        while not self.live():
            self.assertLess(self.deaths, 20)
        self.assertEqual(
            own.rows("SELECT state, attempts FROM inbox WHERE id = 'bad'"),
            [("dead", MAX_ATTEMPTS)])
        self.assertIn("the process ended while the handler ran",
                      own.value("SELECT error FROM inbox WHERE id = 'bad'"))
        effects = [row[0] for row in own.rows(
            "SELECT command FROM effect ORDER BY rowid")]
        self.assertEqual(sorted(effects), ["1", "2", "3", "4", "5"])
        self.assertEqual([e for e in effects if e != "5"],
                         ["1", "2", "3", "4"])
        # the first one, in company, was charged to nobody
        self.assertIn(self.deaths + 1, (MAX_ATTEMPTS, MAX_ATTEMPTS + 1))
        print(f"  {self.deaths + 1} deaths", flush=True)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub", "stdbuf")
    rig.main()
