# SPDX-License-Identifier: MIT
"""A full outbox refuses puts, in plain SQL too, until the relay has drained
it; nothing else is stopped by it."""
import sqlite3

import rig

LIMIT = 300
MAX_ROWS = 342  # an eighth is kept for urgent messages


class Limits(rig.Case):
    def fill(self, own):
        """As many messages as are taken; how many that were."""
        for count in range(2 * LIMIT):
            try:
                own.put(str(count))
            except sqlite3.IntegrityError as error:
                self.assertIn("postbag: outbox is full: max_rows (342)",
                              str(error))
                return count
        self.fail("it is never full")

    def test_full_outbox_refuses_and_takes_again_after_the_drain(self):
        uri = f"tcp://127.0.0.1:{rig.free_port()}"
        gateway = self.gateway(uri, f"max_rows={MAX_ROWS}")
        own = self.database()
        self.assertEqual(self.fill(own), LIMIT)
        own.run("INSERT INTO outbox(topic, payload, priority)"
                " VALUES ('t', 'alarm', 3)")
        # the other statements of a transaction stay
        own.run("CREATE TABLE valve(value)")
        own.run("BEGIN IMMEDIATE")
        own.run("INSERT INTO valve VALUES (7)")
        with self.assertRaises(sqlite3.IntegrityError):
            own.put("refused")
        own.run("COMMIT")
        self.assertEqual(own.value("SELECT value FROM valve"), 7)
        gateway.kill()

        broker = self.broker()
        sub = self.subscriber(broker)
        self.gateway(broker.uri(), f"max_rows={MAX_ROWS}", name="second")
        own.wait_settled()
        own.put("again")
        sub.wait_payload("again")
        self.assertEqual(
            sub.payloads(),
            ["alarm"] + [str(i) for i in range(LIMIT)] + ["again"])
        own.wait_settled()
        self.assert_sound(own)
        counts = own.counts()
        self.assertEqual((counts["put"], counts["delivered"]),
                         (LIMIT + 2, LIMIT + 2))

    def test_producer_that_waits_for_room_loses_nothing(self):
        broker = self.broker()
        sub = self.subscriber(broker)
        self.gateway(broker.uri(), "max_rows=20", "max_bytes=40",
                     "ack_batch=4")
        own = self.database()
        refused = 0

        def took(payload):
            nonlocal refused
            try:
                own.put(payload)
                return True
            except sqlite3.IntegrityError as error:
                self.assertIn("postbag: outbox is full", str(error))
                refused += 1
                return False

        for i in range(LIMIT):
            rig.wait_for(lambda i=i: took(str(i)), f"room for {i}")
        sub.wait_payload(str(LIMIT - 1))
        self.assertEqual(sub.payloads(), [str(i) for i in range(LIMIT)])
        self.assertGreater(refused, 0)
        own.wait_settled()
        self.assert_sound(own)

    def test_outbox_that_drops_the_oldest_keeps_the_newest(self):
        broker = self.broker()
        words = ("max_rows=57", "overflow=drop_oldest")
        gateway = self.gateway(broker.uri(), *words)
        own = self.database()
        sub = self.subscriber(broker)
        own.put("first")
        sub.wait_payload("first")
        own.wait_settled()
        broker.end()
        gateway.wait_err("no connection")
        for i in range(LIMIT):
            own.put(str(i))
        own.run("INSERT INTO outbox(topic, payload, priority)"
                " VALUES ('t', 'alarm', 3)")
        gateway.kill()
        broker.restart()
        again = self.subscriber(broker, name="again")
        self.gateway(broker.uri(), *words, name="second")
        own.wait_settled()
        again.wait_payload(str(LIMIT - 1))
        self.assertEqual(
            sorted(again.payloads()),
            sorted(["alarm"] + [str(i) for i in range(LIMIT - 50, LIMIT)]))
        self.assert_sound(own)
        self.assertEqual(
            own.rows("SELECT lo, hi, n, reason FROM outbox_lost"),
            [(2, LIMIT - 49, LIMIT - 50, "limit")])
        self.assertEqual(own.counts()["dropped"], LIMIT - 50)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
