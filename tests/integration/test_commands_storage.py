# SPDX-License-Identifier: MIT
"""Commands while nothing can be stored: another program holds SQLite's lock,
or the disk is full.  They come later, all of them; none is acknowledged before
it is stored; and messages leave meanwhile."""
import os
import subprocess
import time

import ackproxy
import rig
import test_disk_full

SECONDS = 10 if rig.FULL else 3
COMMANDS = 50
MESSAGES = 2000
# more in all than what messages leave behind on a full disk has room for at
# once; what is done makes room for the next
SIZE = 60000


class Storage(rig.Case):
    def set_up(self):
        self.link = self.broker()
        self.proxy = ackproxy.AckProxy(self.link.port, self.db_path)
        self.addCleanup(self.proxy.close)
        self.firmware = self.gateway(
            self.proxy.uri(), "commands=cmd/#", "reconnect_cap_ms=300")
        self.link.wait_err("Sending SUBACK to gateway-in\n")
        self.own = self.database()
        self.send("before")
        self.wait_effects(1)

    def send(self, *names):
        """Done when the broker has them."""
        subprocess.run(
            ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(self.link.port),
             "-q", "1", "-t", "cmd/1", "-l"], check=True, text=True,
            timeout=rig.WAIT_S, input="".join(
                f'{{"id":"{name}","source":"cloud","pad":"{"p" * SIZE}"}}\n'
                for name in names))

    def effects(self):
        return self.own.value("SELECT count(*) FROM effect")

    def wait_effects(self, count):
        rig.wait_long(lambda: self.effects() == count,
                      f"{count} commands have had their effect", self.effects)

    def put_behind_a_silent_broker(self):
        """So that they are still there when the trouble begins."""
        self.link.pause()
        sent = self.proxy.published
        self.own.put_many(1, MESSAGES, 200)
        rig.wait_for(lambda: self.proxy.published > sent,
                     "the first are sent")

    def acknowledged(self):
        return sum(self.proxy.acknowledged.values())

    def wait_out(self, begun, keep_up=lambda: None):
        """Until the trouble has lasted long enough."""
        while time.monotonic() < begun + SECONDS:
            keep_up()
            time.sleep(0.02)

    def check(self, since):
        self.wait_effects(COMMANDS + 1)
        rig.wait_for(lambda: self.acknowledged() >= COMMANDS + 1,
                     "all are acknowledged")
        self.own.wait_settled()
        self.assertEqual(self.proxy.early, [])
        self.assertEqual(
            self.firmware.err().count("outbound link: connected"), 1)
        self.assertEqual(self.effects(), COMMANDS + 1)
        self.assertEqual(
            self.own.value("SELECT count(DISTINCT command) FROM effect"),
            COMMANDS + 1)
        print(f"  {since}; {self.proxy.delivered} deliveries of"
              f" {COMMANDS + 1} commands", flush=True)

    def test_locked_database_delays_commands_and_not_messages(self):
        """What is reserved leaves without the lock."""
        self.set_up()
        self.put_behind_a_silent_broker()
        self.own.run("BEGIN IMMEDIATE")
        begun, sent = time.monotonic(), self.proxy.published
        acknowledged = self.acknowledged()
        self.link.resume()
        self.send(*(f"c{i}" for i in range(COMMANDS)))
        self.firmware.wait_err("inbound link: a message was not taken", 2)
        rig.wait_for(lambda: self.proxy.published > sent, "more leave")
        self.wait_out(begun)
        self.assertEqual(self.acknowledged(), acknowledged)
        left = self.proxy.published
        self.own.run("COMMIT")
        self.check(f"locked for {time.monotonic() - begun:.1f} s:"
                   f" {left - sent} messages left")

    def test_full_disk_delays_commands_and_loses_nothing(self):
        volume = test_disk_full.Volume(self.folder, "tmpfs")
        self.addCleanup(volume.remove)
        self.db_path = os.path.join(volume.at, "gw.db")
        self.set_up()
        # both files have had so many before, and are as large as that needs
        self.own.put_many(1, MESSAGES, 200)
        self.own.wait_settled()
        self.put_behind_a_silent_broker()
        volume.fill(0)
        begun = time.monotonic()
        self.link.resume()
        self.send(*(f"c{i}" for i in range(COMMANDS)))
        # a WAL that is drained is cut, which would end the trouble
        rig.wait_for(lambda: volume.fill(0) or
                     "could not be stored" in self.firmware.err(),
                     "a command finds no room")
        self.wait_out(begun, lambda: volume.fill(0))
        left = self.own.counts()["delivered"]
        stored = self.own.value("SELECT count(*) FROM inbox")
        volume.empty()
        # how many leave meanwhile depends on the room that the files had
        self.check(f"full for {time.monotonic() - begun:.1f} s:"
                   f" {left} messages left,"
                   f" {stored - 1} commands found room")


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub")
    test_disk_full.need_mounts()
    rig.main()
