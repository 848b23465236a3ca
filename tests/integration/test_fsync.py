# SPDX-License-Identifier: MIT
"""What the relay costs whom: no fsync more in the firmware's commits, and
nothing at all while there is nothing to do."""
import os
import re
import time

import rig

COMMITS = 400
RATIO = 1.02
WATCH_S = 10


class Firmware(rig.Case):
    def syncs_of(self, broker, name, *words):
        """fdatasync calls of the committing thread, relay beside it."""
        trace = os.path.join(self.folder, name + ".strace")
        self.db_path = os.path.join(self.folder, name + ".db")
        # -D: the traced program is our child, strace its grandchild
        gateway = self.gateway(
            broker.uri(), f"work={COMMITS}", "gap_us=500", *words, name=name,
            prefix=("strace", "-D", "-f", "-e", "trace=fdatasync,fsync",
                    "-o", trace))
        gateway.wait_out("worked", seconds=120)
        thread = re.search(r"thread (\d+)", gateway.out()).group(1)
        delivered = self.database().wait_settled()["delivered"]
        self.assertEqual(gateway.end(), 0)
        with open(trace, encoding="ascii", errors="replace") as file:
            calls = [line for line in file
                     if re.match(rf"{thread} +f(data)?sync\(", line)]
        return len(calls), delivered

    def test_put_adds_no_fsync_to_a_commit(self):
        broker = self.broker()
        without, _ = self.syncs_of(broker, "without", "no_put=1")
        with_put, delivered = self.syncs_of(broker, "with")
        print(f"{COMMITS} commits: {without} fsyncs without put,"
              f" {with_put} with", flush=True)
        self.assertEqual(delivered, COMMITS)
        self.assertGreaterEqual(without, COMMITS, "synchronous is FULL")
        self.assertLessEqual(with_put, without * RATIO)


def switches(process, name):
    """Times that a thread of the process went to sleep."""
    tasks = f"/proc/{process.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/comm", encoding="ascii") as file:
            if file.read().strip() != name:
                continue
        with open(f"{tasks}/{task}/status", encoding="ascii") as file:
            return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)",
                                 file.read(), re.MULTILINE).group(1))
    raise AssertionError(f"no thread {name}")


class Idle(rig.Case):
    def files(self):
        return [(os.stat(self.db_path + end).st_size,
                 os.stat(self.db_path + end).st_mtime_ns)
                for end in ("", "-wal")]

    def test_idle_relay_commits_nothing_and_sleeps(self):
        broker = self.broker()
        gateway = self.gateway(broker.uri(), "ack_delay_ms=100")
        gateway.wait_err("outbound link: connected")
        own = self.database()
        own.put("x")
        own.wait_settled()

        def quiet():
            before = switches(gateway, "postbag-relay")
            time.sleep(1.5)  # the length of the observation
            return switches(gateway, "postbag-relay") - before <= 2
        rig.wait_for(quiet, "the relay calms down after its last commit")

        version = own.value("PRAGMA data_version")
        files = self.files()
        before = switches(gateway, "postbag-relay")
        time.sleep(WATCH_S)  # the length of the observation
        woken = switches(gateway, "postbag-relay") - before
        print(f"woken {woken} times in {WATCH_S} s", flush=True)
        self.assertLessEqual(woken, WATCH_S)
        self.assertEqual(own.value("PRAGMA data_version"), version)
        self.assertEqual(self.files(), files)


if __name__ == "__main__":
    rig.need("mosquitto", "strace")
    rig.main()
