# SPDX-License-Identifier: MIT
"""How long a command may hold up the transport, whose lock all connections
share, while the firmware's own transactions take long."""
import statistics
import subprocess

import rig

COMMANDS = 20
ACCEPT_MS = 100
HOLD_MS = 400
TRANSACTIONS = 10
# what a busy machine adds: a wake-up, and the sync of its own commit
SLACK_MS = 50


class Accept(rig.Case):
    def send(self, link):
        subprocess.run(
            ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(link.port), "-q",
             "1", "-t", "cmd/1", "-l"], check=True, text=True,
            timeout=rig.WAIT_S, input="".join(
                f'{{"id":"{i}","source":"cloud"}}\n'
                for i in range(COMMANDS)))

    def test_long_transactions_delay_commands_and_not_the_transport(self):
        """Back to back, each longer than accept may wait."""
        link = self.broker()
        firmware = self.gateway(
            link.uri(), "commands=cmd/#", "tell_accepts=1",
            f"work={TRANSACTIONS}", f"hold_us={HOLD_MS * 1000}")
        firmware.wait_err("inbound link: subscribed")
        self.send(link)
        firmware.wait_out("worked\n")
        own = self.database()
        rig.wait_for(
            lambda: own.value("SELECT count(*) FROM effect") == COMMANDS,
            "all have their effect once it has paused")
        calls = [line.split()[1:] for line in firmware.out().splitlines()
                 if line.startswith("accept ")]
        refused_ms = [int(us) / 1000 for what, us in calls if what == "EBUSY"]
        self.assertGreater(len(refused_ms), 0)
        print(f"  {len(calls)} calls, {len(refused_ms)} refused after"
              f" {min(refused_ms):.0f} to {max(refused_ms):.0f} ms",
              flush=True)
        self.assertLess(statistics.median(refused_ms), ACCEPT_MS + SLACK_MS)
        self.assertLess(max(refused_ms), HOLD_MS)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub")
    rig.main()
