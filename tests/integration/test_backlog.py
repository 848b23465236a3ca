# SPDX-License-Identifier: MIT
"""Weeks offline: the relay's memory does not grow with what waits, all of it
is delivered when the broker is back, and the file does not keep growing."""
import os

import rig

ROWS = 100_000 if rig.FULL else 20_000
FIRST = 1000
PAYLOAD = 64
RSS_GROWTH_KB = 1024


def memory_kb(process):
    """What the process has for itself, without files mapped."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    raise AssertionError("no RssAnon")


class Backlog(rig.Case):
    def wait_seen(self, rows):
        rig.wait_for(
            lambda: self.live_state().get("put_seq") == str(rows),
            f"the relay has seen {rows} rows", 60)

    def drain(self, gateway, broker, sub, total):
        """The broker comes back; who listens is there before the relay is."""
        gateway.pause()
        subscribed = broker.err().count(f"SUBACK to {sub.name}\n")
        broker.restart()
        sub.wait_subscribed(subscribed + 1)
        gateway.resume()
        rig.wait_for(lambda: len(set(sub.ids())) == total,
                     f"{total} ids arrive", 300)

    def test_backlog_is_flat_in_memory_delivered_and_purged(self):
        broker = self.broker()
        sub = self.subscriber(broker)
        broker.end()
        gateway = self.gateway(broker.uri(), "poll_ms=1000")
        own = self.database()

        own.put_many(1, FIRST, PAYLOAD)
        self.wait_seen(FIRST)
        before = memory_kb(gateway)
        for first in range(FIRST + 1, ROWS, FIRST):
            own.put_many(first, FIRST, PAYLOAD)
        self.wait_seen(ROWS)
        growth = memory_kb(gateway) - before
        print(f"{ROWS} rows wait: RssAnon {before} kB, {growth:+} kB",
              flush=True)
        if not os.environ.get("POSTBAG_SANITIZE"):
            # a sanitizer keeps what each attempt to connect has freed
            self.assertLess(growth, RSS_GROWTH_KB)

        self.drain(gateway, broker, sub, ROWS)
        self.assertEqual({int(p) for p in sub.payloads()},
                         set(range(1, ROWS + 1)))
        counts = own.wait_settled()
        self.assertEqual(counts["delivered"], ROWS)
        rig.wait_for(
            lambda: own.value("SELECT count(*) FROM outbox") <= 1024,
            "the delivered rows are purged", 60)
        self.assert_sound(own)

        # a second time, in the pages of the first
        pages = own.value("PRAGMA page_count")
        broker.end()
        gateway.wait_err("outbound link: ", 2)
        for first in range(ROWS + 1, ROWS + ROWS // 2, FIRST):
            own.put_many(first, FIRST, PAYLOAD)
        self.assertLessEqual(own.value("PRAGMA page_count"), pages * 1.02)
        self.drain(gateway, broker, sub, ROWS + ROWS // 2)
        self.assert_sound(own)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
