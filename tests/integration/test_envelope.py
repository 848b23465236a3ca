# SPDX-License-Identifier: MIT
"""The bytes of a message on every attempt, and what is left of its TTL."""
import re
import time

import rig

INSERT = ("INSERT INTO outbox(topic, payload, key, key_version, type,"
          " content_type, headers, retain, ttl_ms, created_ms) VALUES"
          " ('t', ?1, ?2, 3, 'com.example.r', 'application/json',"
          " json_object('traceparent', '00-1', 'response_topic', 're',"
          "  'correlation_data', 'c', 'note', ?2), 1, ?3, ?4)")
EXPIRY = re.compile(r" 0x02=(\d+)")


def wall_ms():
    return int(time.time() * 1000)


class EveryAttempt(rig.Case):
    def published(self):
        """Each PUBLISH as it came, but for the packet id."""
        return re.findall(r"< PUBLISH mid=\d+ inflight=\d+ (.*)",
                          self.fake.log())

    def wait_published(self, count):
        rig.wait_for(lambda: len(self.published()) >= count,
                     f"{count} times PUBLISH: {self.fake.log()}")

    def start(self, version):
        return self.gateway(self.fake.uri(), f"mqtt_version={version}",
                            "retry_base_ms=20", "retry_cap_ms=50")

    def put_and_disturb(self, version, payload):
        """Two messages; the link breaks, then the process dies.  Each was
        published three times when this returns."""
        self.fake = self.fake_broker("hold=1")
        gateway = self.start(version)
        own = self.database()
        for key in ("a", "b"):
            own.run(INSERT, payload, key, 3600000, wall_ms())
        self.wait_published(2)
        self.fake.tell("cut")
        self.wait_published(4)
        gateway.kill()
        self.start(version)
        self.wait_published(6)
        return own

    def assert_same(self):
        """One form for each message, and a TTL that only shrinks."""
        seen = {}
        for line in self.published():
            left = [int(n) for n in EXPIRY.findall(line)]
            seen.setdefault(EXPIRY.sub("", line), []).extend(left)
        self.assertEqual(len(seen), 2, self.fake.log())
        return list(seen.values())

    def test_mqtt_5_sends_the_same_bytes_also_after_a_refusal(self):
        own = self.put_and_disturb(5, "rc=0x87")
        # refused, held, and sent again from there, until the process dies
        self.fake.tell("set hold=")
        self.wait_published(10)
        self.assertEqual(own.value("SELECT count(*) FROM outbox_held"
                                   " WHERE attempts > 0"), 2)
        for ttls in self.assert_same():
            self.assertEqual(ttls, sorted(ttls, reverse=True))
            self.assertTrue(3500 < ttls[-1] <= ttls[0] <= 3600, ttls)

    def test_mqtt_311_sends_the_same_bytes(self):
        own = self.put_and_disturb(4, "{}")
        self.fake.tell("set hold=")
        self.assertEqual(own.wait_settled()["delivered"], 2)
        self.assertEqual(self.assert_same(), [[], []])


class TimeToLive(rig.Case):
    def test_subscriber_is_told_what_is_left(self):
        class Expiry(rig.Message):
            FORMAT = "%E"

            def __init__(self, line):
                self.expiry_s = int(line or 0)

        broker = self.broker()
        sub = self.subscriber(broker, kind=Expiry)
        own_ttls = ((60000, 0), (60000, 20000), (60000, 86400000), (None, 0))
        self.gateway(broker.uri())
        own = self.database()
        for ttl_ms, age_ms in own_ttls:
            own.run(INSERT, "{}", "k", ttl_ms, wall_ms() - age_ms)
        rig.wait_for(lambda: len(sub.messages()) == 4, "four messages")
        fresh, aged, over, endless = (m.expiry_s for m in sub.messages())
        self.assertIn(fresh, range(31, 61))
        self.assertIn(aged, range(11, 41))
        self.assertIn(over, (0, 1))
        self.assertEqual(endless, 0)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
