# SPDX-License-Identifier: MIT
"""Coalescing, put by plain SQL: offline only the last value leaves; under a
late broker and with crashes it always arrives, and last."""
import re
import time

import rig

COUNT = 1000
VALUES = ("a", "b", "c")


class Coalesce(rig.Case):
    @staticmethod
    def put(own, value, number):
        own.run("INSERT INTO outbox(topic, payload, coalesce)"
                " VALUES (?1, ?2, ?1)", value, f"{value}{number}")

    def assert_balance(self, own):
        """All that was put went somewhere, and what was dropped is recorded.
        """
        self.assert_sound(own)
        put, = own.rows("SELECT max(seq) FROM outbox")[0]
        delivered, dropped = own.rows(
            "SELECT sum(delivered), sum(dropped) FROM outbox_cursor")[0]
        self.assertEqual(delivered + dropped, put)
        self.assertEqual(
            own.rows("SELECT reason, sum(n) FROM outbox_lost GROUP BY reason"),
            [("coalesced", dropped)])
        return delivered

    def test_values_put_offline_are_one_message(self):
        broker = self.broker()
        sub = self.subscriber(broker)
        gateway = self.gateway(broker.uri())
        own = self.database()
        own.put("first")
        sub.wait_payload("first")
        own.wait_settled()
        broker.end()
        gateway.wait_err("no connection")
        for number in range(COUNT):
            self.put(own, "a", number)
        broker.restart()
        again = self.subscriber(broker, name="again")
        again.wait_payload(f"a{COUNT - 1}")
        own.wait_settled()
        self.assertEqual(again.payloads(), [f"a{COUNT - 1}"])
        self.assertEqual(self.assert_balance(own), 2)

    def test_last_value_arrives_last_whatever_is_killed(self):
        broker = self.fake_broker("ackdelay=20")
        own, last = None, {}
        for generation in range(6):
            gateway = self.gateway(broker.uri(), "window=16",
                                   name=f"gateway{generation}")
            own = own or self.database()
            end = time.monotonic() + 0.3 + self.random.random()
            while time.monotonic() < end:
                value = self.random.choice(VALUES)
                last[value] = last.get(value, 0) + 1
                self.put(own, value, last[value])
            gateway.kill()
        self.gateway(broker.uri(), "window=16")
        own.wait_settled()
        delivered = self.assert_balance(own)
        print(f"  {sum(last.values())} put, {delivered} delivered", flush=True)
        self.assertLess(delivered, sum(last.values()))
        for value, number in last.items():
            sent = [int(found) for found in re.findall(
                rf"< PUBLISH .* payload=b'{value}(\d+)'", broker.log())]
            self.assertEqual(sent[-1], number)
            # again after a crash, but never an older one after a newer
            self.assertEqual(sent, sorted(sent))


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
