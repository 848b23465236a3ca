# SPDX-License-Identifier: MIT
"""A firmware that lives on while all about it goes wrong: its broker stands
still or drops it, programs that put or read beside it are killed, commands
come in.  Whatever it has, it has no more of at the end than in the middle."""
import contextlib
import os
import statistics
import subprocess
import sys
import time

import mqtt5
import proof
import rig

SECONDS = 600 if rig.PROVE else 30 if rig.FULL else 6
# The inbox keeps so many done commands, and no fewer can be asked for.
DONE_ROWS = 1000
# By how much the last third may be above the second one.
MORE = {"rss": 512 << 10, "fds": 2, "wal": 512 << 10, "file": 256 << 10}
SHELL = ("BEGIN IMMEDIATE; INSERT INTO outbox(topic, payload)"
         " VALUES ('shell', 'x'); SELECT count(*) FROM outbox;\n")


def measure(pid, path=None):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    size = {"rss": pages * os.sysconf("SC_PAGE_SIZE"),
            "fds": len(os.listdir(f"/proc/{pid}/fd"))}
    if path:
        size["wal"] = os.path.getsize(path + "-wal")
        size["file"] = os.path.getsize(path)
    return size


def grown(samples):
    """What has more at the end, and by how much."""
    third = len(samples) // 3

    def level(name, part):
        return statistics.median(sample[name] for sample in part)
    more = {name: level(name, samples[-third:])
            - level(name, samples[third:-third]) for name in samples[0]}
    return {name: by for name, by in more.items() if by > MORE[name]}


class Soak(rig.Case):
    def setUp(self):
        super().setUp()
        self.numbers, self.again, self.commands = set(), 0, 0
        self.mosquitto = self.broker(lines=["log_type none"])
        self.client = mqtt5.Client(self.mosquitto.port, "test", "gw/+",
                                   self.take)
        self.addCleanup(self.client.close)

    def take(self, message):
        if message.topic == "gw/data":
            self.again += int(message.payload) in self.numbers
            self.numbers.add(int(message.payload))

    def command(self):
        self.commands += 1
        self.client.publish("cmd", f'{{"id":"c{self.commands}",'
                            '"source":"cloud"}')

    # ---- what goes wrong ----------------------------------------------------

    def stop_the_broker(self):
        self.mosquitto.pause()
        time.sleep(self.random.uniform(0, 0.2))  # how long it stands still
        self.mosquitto.resume()

    def take_over_the_client(self):
        """The broker hangs up on who had this client id before."""
        with contextlib.closing(mqtt5.Client(
                self.mosquitto.port, "gw", "nothing")):
            pass

    def kill_a_program(self):
        """With a transaction open."""
        shell = subprocess.Popen(
            ["sqlite3", "-cmd", ".timeout 20000", self.db_path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        shell.stdin.write(SHELL.encode())
        shell.stdin.flush()
        shell.stdout.readline()
        shell.kill()
        shell.communicate()

    def kill_a_standby(self):
        self.made = getattr(self, "made", 0) + 1
        standby = self.gateway(self.mosquitto.uri(), "client_id=standby",
                               name=f"standby{self.made}")
        standby.wait_err("standing by")
        standby.kill()

    def trim(self, own):
        """The application's own rows."""
        own.run("DELETE FROM state WHERE n < (SELECT max(n) FROM state) - 100")
        own.run("DELETE FROM effect WHERE rowid <"
                " (SELECT max(rowid) FROM effect)")

    # ---- the run ------------------------------------------------------------

    def fill(self, firmware, own):
        """Until the inbox forgets as many as come in."""
        firmware.wait_err("inbound link: subscribed")
        for _ in range(DONE_ROWS + 200):
            self.command()

        def is_done():
            self.client.pump(0.05)
            return own.value("SELECT ifnull(max(arrival), 0) FROM inbox"
                             " WHERE state = 'done'") >= self.commands
        rig.wait_long(is_done, "the inbox is full", lambda: own.value(
            "SELECT max(arrival) FROM inbox WHERE state = 'done'"))
        self.trim(own)

    def live(self, firmware, own):
        samples, faults = [], 0
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.client.pump(max(0.1, SECONDS / 600))
            for _ in range(self.random.randrange(4)):
                self.command()
            if self.random.random() < 0.3:
                faults += 1
                self.random.choice((
                    self.stop_the_broker, self.take_over_the_client,
                    self.kill_a_program, self.kill_a_standby))()
            self.trim(own)
            samples.append(measure(firmware.pid, self.db_path))
        return samples, faults

    def test_firmware_in_trouble_has_no_more_of_anything_in_the_end(self):
        firmware = self.gateway(
            self.mosquitto.uri(), "client_id=gw", "work=4000000000",
            "gap_us=2000", "commands=cmd", "reconnect_base_ms=10",
            "reconnect_cap_ms=100", f"inbox_done_max_rows={DONE_ROWS}",
            "ack_delay_ms=50")
        own = self.database()
        self.fill(firmware, own)
        samples, faults = self.live(firmware, own)
        self.assertEqual(grown(samples), {})
        effects = "SELECT max(rowid) FROM effect"  # trim() leaves that one
        rig.wait_long(
            lambda: self.client.pump(0.05) or
            own.value(effects) >= self.commands, "all commands are done",
            lambda: own.value(effects))
        self.assertEqual(firmware.end(), 0)
        relay = self.gateway(self.mosquitto.uri(), "client_id=gw",
                             name="relay")
        own.wait_settled()
        self.client.barrier()
        last = own.value("SELECT max(n) FROM state")
        self.assertEqual(self.numbers, set(range(1, last + 1)))
        self.assertEqual(own.value(effects), self.commands)
        self.assertEqual(relay.end(), 0)
        self.assert_sound(own)
        print(f"  {faults} faults, {last} messages, {self.again} came again,"
              f" {self.commands} commands; first and last {samples[0]}"
              f" {samples[-1]}", flush=True)
        proof.say("F31_soak", last + self.commands, (rig.SEED, rig.SEED))

    def test_process_that_leaks_is_noticed(self):
        leaking = self.keep(rig.Process(self.folder, "leaking", [
            sys.executable, "-c", "import time\nkept = []\nwhile True:\n"
            " kept.append((bytearray(100000), open('/dev/null')))\n"
            " print(len(kept), flush=True)\n time.sleep(0.005)\n"]))
        samples = []
        for count in range(10, 130, 4):
            leaking.wait_out(f"\n{count}\n")
            samples.append(measure(leaking.pid))
        hits = len(grown(samples))
        proof.control("F31_soak", "leak", hits, 2)
        self.assertEqual(hits, 2)


if __name__ == "__main__":
    rig.need("mosquitto", "sqlite3")
    rig.main()
