# SPDX-License-Identifier: MIT
"""An alarm overtakes a backlog, a flood of alarms leaves bulk its share, and
bulk keeps the pace that a broker allows."""
import re
import time

import rig

ROWS = 100_000
WINDOW = 64
SHARE = 8
# what the broker allows in a second, and what it is given
ALLOWED, RATE = 50, 40
QUICK = ("reconnect_base_ms=10", "reconnect_cap_ms=50")
PUBLISH = re.compile(r"< PUBLISH .* topic=(\S+) .* at=(\S+)")


class Lanes(rig.Case):
    def start(self, *words):
        self.gateway(self.fake.uri(), *QUICK, f"window={WINDOW}", *words)

    def put_many(self, topic, count, priority):
        self.own.run(
            "INSERT INTO outbox(topic, payload, priority) WITH RECURSIVE n(i)"
            " AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)"
            " SELECT ?1, 'x', ?3 FROM n", topic, count, priority)

    def sent(self):
        """(topic, when), in the order in which they arrived."""
        return [(topic, float(at)) for topic, at
                in PUBLISH.findall(self.fake.log())]

    def prepare(self, *backlog):
        """A database in which this waits: (topic, count, priority)."""
        # slow to answer, so that what is in flight has been logged
        self.fake = self.fake_broker("times=1", "hold=1", "ackdelay=40")
        self.start()
        self.own = self.database()
        self.fake.wait_log("CONNACK")
        for lane in backlog:
            self.put_many(*lane)
        self.fake.wait_log("< PUBLISH")
        self.fake.tell("set hold=")

    def commit_alarm(self, priority):
        """In the middle of the drain; when it was committed."""
        rig.wait_for(lambda: len(self.sent()) > 1000, "the drain runs")
        self.own.run("INSERT INTO outbox(topic, payload, priority)"
                     " VALUES ('alarm', 'x', ?)", priority)
        return time.monotonic()


class Overtaking(Lanes):
    def test_alarm_waits_for_less_than_a_window_of_a_backlog(self):
        self.prepare(("bulk", ROWS, 0))
        committed = self.commit_alarm(3)
        rig.wait_for(lambda: "topic=alarm " in self.fake.log(), "the alarm")
        sent = self.sent()
        place = [topic for topic, _ in sent].index("alarm")
        before = [at for _, at in sent[:place] if at > committed]
        print(f"{len(before)} bulk messages between commit and alarm,"
              f" {place} before it", flush=True)
        self.assertLessEqual(len(before), WINDOW)
        self.assertLess(place, ROWS / 2)

    def test_alarm_that_is_bulk_comes_last(self):
        self.prepare(("bulk", 4000, 0))
        self.commit_alarm(0)
        self.own.wait_settled()
        topics = [topic for topic, _ in self.sent()]
        self.assertEqual(topics, ["bulk"] * 4000 + ["alarm"])

    def test_flood_of_urgent_messages_leaves_bulk_its_share(self):
        self.prepare(("bulk", 600, 0), ("urgent", 4000, 2))
        count = SHARE * 400
        rig.wait_for(lambda: len(self.sent()) > WINDOW + count, "the flood")
        # the first window may have left before the flood was there
        topics = [topic for topic, _ in self.sent()][WINDOW:WINDOW + count]
        self.assertAlmostEqual(topics.count("bulk"), count / SHARE, delta=2)


class Pace(Lanes):
    def test_paced_relay_is_never_too_fast_for_the_broker(self):
        self.fake = self.fake_broker(f"maxrate={ALLOWED}")
        self.start(f"bulk_rate={RATE}")
        self.own = self.database()
        self.fake.wait_log("CONNACK")
        # each after a pause, with a burst
        for _ in range(2):
            self.put_many("bulk", 3 * RATE, 0)
            self.own.wait_settled()
        self.assertNotIn("> RESET", self.fake.log())
        self.assertEqual(self.fake.log().count("< CONNECT"), 1)
        self.assert_sound(self.own)

    def test_relay_without_a_pace_is_too_fast(self):
        self.fake = self.fake_broker(f"maxrate={ALLOWED}")
        self.start()
        self.own = self.database()
        self.fake.wait_log("CONNACK")
        self.put_many("bulk", 3000, 0)
        self.fake.wait_log("> RESET")


if __name__ == "__main__":
    rig.main()
