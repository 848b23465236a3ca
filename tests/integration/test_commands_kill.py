# SPDX-License-Identifier: MIT
"""Commands that come more than once, to a firmware that is killed again and
again and whose COMMITs fail: each takes effect once, and none is acknowledged
before it is on disk.

The firmware dies at points of its own choice (see trouble.h) or of ours.  What
kills while it is at a point kills before it has passed it."""
import collections
import subprocess
import time

import ackproxy
import proof
import rig

FAILED_OF_1000 = 20
LONGEST_LIFE_S = 0.3
HANDLING = ("handle.begun", "handler", "handle.marked", "handle.sync",
            "handle.committed")
ACCEPTING = ("accept.stored", "accept.sync", "accept.committed")


class Cloud:
    """Sends commands, each one to COPIES times; the copies come anywhere."""

    def __init__(self, case):
        names = [f"c{i}" for i in range(case.COMMANDS)
                 for _ in range(case.random.randint(1, case.COPIES))]
        case.random.shuffle(names)
        self.copies = collections.Counter(names)
        self.waiting = names
        self.process = case.keep(rig.Process(
            case.folder, "cloud",
            case.link.client("mosquitto_pub", "-t", "gw/cmd", "-l"),
            stdin=subprocess.PIPE, text=True))
        case.addCleanup(self.process.popen.stdin.close)

    def send(self, count):
        now, self.waiting = self.waiting[:count], self.waiting[count:]
        self.process.popen.stdin.write("".join(
            f'{{"id":"{name}","source":"cloud"}}\n' for name in now))
        self.process.popen.stdin.flush()

    def finish(self):
        self.send(len(self.waiting))
        self.process.popen.stdin.close()
        if self.process.popen.wait(rig.WAIT_S) != 0:
            raise AssertionError(self.process.err())


class Mosquitto(rig.Broker):
    def client(self, program, *words):
        return [program, "-h", "127.0.0.1", "-p", str(self.port), "-q", "1",
                *words]


class Commands(rig.Case):
    COMMANDS = 3000 if rig.FULL else 300
    KILLS = 120 if rig.FULL else 20
    LOGIN = ()
    COPIES = 4
    TAKES = "commands"
    POINTS = (*ACCEPTING, *HANDLING)

    def start_broker(self):
        return self.keep(Mosquitto(self.folder,
                                   lines=["max_inflight_messages 20"]))

    def setUp(self):
        super().setUp()
        self.link = self.start_broker()
        self.proxy = ackproxy.AckProxy(self.link.port, self.db_path)
        self.addCleanup(self.proxy.close)
        self.lives = 0

    def firmware(self, *words):
        self.lives += 1
        return self.keep(rig.Process(self.folder, f"gateway{self.lives}", [
            rig.GATEWAY, self.db_path, f"uri={self.proxy.uri()}",
            "client_id=gateway", "run_dir=none", "reconnect_base_ms=10",
            "reconnect_cap_ms=100", f"{self.TAKES}=gw/cmd",
            f"seed={self.random.randrange(1 << 32)}",
            f"fail_commits={FAILED_OF_1000}", *self.LOGIN, *words]))

    def live_and_die(self, cloud, per_life):
        """At a point, when it comes there in its time, or at any time."""
        point = self.random.choice((*self.POINTS, None))
        words = () if point is None else (
            f"die_at={point}", f"die_after={self.random.randint(1, per_life)}")
        firmware = self.firmware(*words)
        cloud.send(per_life)
        end = time.monotonic() + (self.random.uniform(0, LONGEST_LIFE_S)
                                  if point is None else 3 * LONGEST_LIFE_S)
        while firmware.is_running() and time.monotonic() < end:
            time.sleep(0.002)
        died = point if not firmware.is_running() else "any time"
        if died == "any time":
            firmware.kill()
        self.assertEqual(firmware.popen.wait(), -9, firmware.err()[-2000:])
        return died

    def settle(self, cloud):
        firmware = self.firmware("fail_commits=0")
        own = self.database()

        def at():
            return (sum(self.proxy.acknowledged.values()),
                    own.value("SELECT count(*) FROM inbox"
                              " WHERE state = 'done'"))

        # each delivery is acknowledged in the end, some of them more often
        rig.wait_long(
            lambda: at()[1] == len(cloud.copies) and
            all(self.proxy.acknowledged["cloud", name] >= count
                for name, count in cloud.copies.items()),
            "all commands are done, each copy acknowledged", at)
        self.assertEqual(firmware.end(), 0)
        return own

    def kill_and_compare(self):
        firmware = self.firmware("fail_commits=0")
        firmware.wait_err("inbound link: subscribed")
        self.assertEqual(firmware.end(), 0)
        cloud = Cloud(self)
        per_life = max(1, len(cloud.waiting) // self.KILLS)
        died = collections.Counter(self.live_and_die(cloud, per_life)
                                   for _ in range(self.KILLS))
        cloud.finish()
        own = self.settle(cloud)
        effects = collections.Counter(
            row[0] for row in own.rows("SELECT command FROM effect"))
        self.assertEqual(self.proxy.early, [])
        self.assertEqual(effects, collections.Counter(set(cloud.copies)))
        self.assert_sound(own)
        print(f"  {len(cloud.copies)} commands, {cloud.copies.total()} copies,"
              f" {self.proxy.delivered} deliveries"
              f" ({self.proxy.again} of them again), {self.KILLS} kills:",
              ", ".join(f"{count} at {point}"
                        for point, count in sorted(died.items())),
              f"; 95 % bound {3 / self.KILLS:.3f} per kill", flush=True)


class Kill(Commands):
    def test_T6_killed_firmware_has_each_effect_once_and_no_early_puback(
            self):
        self.kill_and_compare()
        proof.say("T6_real", self.KILLS, (rig.SEED, rig.SEED))

    def test_T6_killed_in_the_fdatasync_of_a_command_has_it_after_a_restart(
            self):
        firmware = self.firmware("fail_commits=0", "die_at=accept.sync")
        firmware.wait_err("inbound link: subscribed")
        self.publish(self.link, "gw/cmd", '{"id":"c1","source":"cloud"}')
        self.assertEqual(firmware.popen.wait(rig.WAIT_S), -9)
        self.assertEqual(self.proxy.acknowledged, {})
        self.firmware("fail_commits=0")
        own = self.database()
        rig.wait_for(lambda: own.rows("SELECT command FROM effect") ==
                     [("c1",)], "it has its effect")
        rig.wait_for(lambda: self.proxy.acknowledged,
                     "and is acknowledged")
        self.assertEqual(self.proxy.early, [])
        self.assertGreater(self.proxy.again, 0)
        proof.say("T6_real", 1)

    def test_T6_proxy_sees_a_puback_before_the_commit(self):
        """A control: mosquitto_sub acknowledges what it stores nowhere."""
        self.firmware("fail_commits=0").wait_out("ready")
        self.keep(rig.Process(self.folder, "hasty", [
            "mosquitto_sub", "-h", "127.0.0.1", "-p", str(self.proxy.port),
            "-q", "1", "-i", "hasty", "-t", "other"]))
        self.link.wait_err("Sending SUBACK to hasty\n")
        self.publish(self.link, "other", '{"id":"c1","source":"cloud"}')
        rig.wait_for(lambda: self.proxy.early == [("cloud", "c1")],
                     "it is caught")
        proof.control("T6_real", "puback_before_commit",
                      len(self.proxy.early), 1)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "mosquitto_pub")
    rig.main()
