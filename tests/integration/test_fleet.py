# SPDX-License-Identifier: MIT
"""A fleet loses its broker in one moment, and comes back one by one."""
import os
import re
import time

import rig

PARTS = 10  # of the jitter's range; the first is left out by its floor
# most relays in one part, and parts with any: else but by chance once in a
# million runs
RELAYS, BASE_MS, MOST, LEAST = (
    (50, 10000, 20, 5) if rig.FULL else (12, 3000, 9, 3))


class Fleet(rig.Case):
    def start(self, broker):
        """One relay for each of as many databases."""
        for n in range(RELAYS):
            self.db_path = os.path.join(self.folder, f"gw{n}.db")
            self.gateway(broker.uri(), f"reconnect_base_ms={BASE_MS}",
                         "reconnect_cap_ms=300000", "run_dir=none",
                         name=f"relay{n}")

    def connects(self, broker):
        return [float(at) for at in
                re.findall(r" accepted at=([\d.]+)", broker.log())]

    def show(self, delays):
        """Delays by the parts of the range, later ones with the last."""
        parts = [0] * PARTS
        for delay in delays:
            parts[min(int(delay * 1000 / BASE_MS * PARTS), PARTS - 1)] += 1
        for n, count in enumerate(parts):
            print(f"{n * BASE_MS // PARTS:6} ms {'#' * count}", flush=True)
        return parts

    def test_connects_spread_over_the_jitter(self):
        broker = self.fake_broker()
        self.start(broker)
        broker.wait_log("> CONNACK", RELAYS)
        begun = time.monotonic()
        broker.restart()
        broker.wait_log("> CONNACK", 2 * RELAYS)
        delays = [at - begun for at in self.connects(broker)[RELAYS:]]
        parts = self.show(delays)
        self.assertEqual(len(delays), RELAYS)
        self.assertLessEqual(max(parts), MOST)
        self.assertGreaterEqual(sum(count > 0 for count in parts), LEAST)


if __name__ == "__main__":
    rig.main()
