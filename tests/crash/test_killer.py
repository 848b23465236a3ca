# SPDX-License-Identifier: MIT
"""A message that kills the firmware whenever it is handed to the transport: it
is found and given up, all others arrive, in order."""
import rig

# The first crash after an orderly end, two more with it in company, three
# alone, and max_attempts as suspect.
MAX_ATTEMPTS = 2
DEATHS = 1 + 2 + 3 + MAX_ATTEMPTS
WORDS = ("deadly=bad", f"max_attempts={MAX_ATTEMPTS}", "stable_ms=300",
         "retry_base_ms=10", "retry_cap_ms=10", "reconnect_base_ms=10")


class Killer(rig.Case):
    def setUp(self):
        super().setUp()
        self.mosquitto = self.broker()
        self.sub = self.subscriber(self.mosquitto)
        self.deaths = 0
        self.puts = 0

    def put(self, topic, key=None):
        self.puts += 1
        self.own.run("INSERT INTO outbox(topic, payload, key)"
                     " VALUES (?, ?, ?)", topic, str(self.puts), key)

    def live(self):
        """A life of the firmware, until it dies or all is settled."""
        firmware = self.gateway(self.mosquitto.uri(), *WORDS)

        def is_over():
            if not firmware.is_running():
                return True
            now = self.own.counts()
            return now["settled"] == now["put"] and not self.own.value(
                "SELECT count(*) FROM outbox_held WHERE state <> 'dead'")
        rig.wait_for(is_over, "it dies, or all is settled")
        if firmware.is_running():
            self.assertEqual(firmware.end(), 0)
            return True
        self.deaths += 1
        return False

    def test_killer_is_found_and_all_others_arrive(self):
        firmware = self.gateway(self.mosquitto.uri(), *WORDS)
        self.assertEqual(firmware.end(), 0)
        self.own = self.database()
        self.own.put_many(1001, 20)
        for topic in ("good", "bad", "next", "next"):
            self.put(topic, "k")
        self.own.put_many(1021, 20)
        while not self.live():
            self.assertLessEqual(self.deaths, DEATHS)
            self.put("other")  # by which a link proves itself
        self.assertEqual(self.deaths, DEATHS)
        rows = self.own.rows("SELECT topic, state, attempts, deaths, error"
                             " FROM outbox_held")
        self.assertEqual([row[:4] for row in rows],
                         [("bad", "dead", 1, 5 + MAX_ATTEMPTS)])
        self.assertIn("the relay died with it in flight", rows[0][4])
        self.sub.wait_payload(str(self.puts))
        topics = [m.topic for m in self.sub.messages()]
        self.assertNotIn("bad", topics)
        arrived = {m.payload.strip() for m in self.sub.messages()}
        expected = {str(n) for n in (*range(1, self.puts + 1),
                                     *range(1001, 1041))} - {"2"}
        self.assertEqual(arrived, expected)
        self.assertLess(topics.index("good"), topics.index("next"))
        now = self.own.counts()
        self.assertEqual(now["delivered"], now["put"] - 1)
        print(f"  {self.deaths} deaths", flush=True)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
