# SPDX-License-Identifier: MIT
"""How a firmware ends, in whatever state it is: in order, soon, and with all
that it had not delivered kept; how it stands still and goes on; and what its
children see of it."""
import contextlib
import os
import signal
import time

import mqtt5
import proof
import rig

# of each state
TRIALS = 40 if rig.PROVE else 3 if rig.FULL else 1
LATER_S = 0.05


class Ends(rig.Case):
    def setUp(self):
        super().setUp()
        self.lives = self.put = 0

    def firmware(self, uri, *words):
        self.lives += 1
        return self.gateway(uri, "client_id=gw", "reconnect_base_ms=20",
                            *words, name=f"life{self.lives}")

    def put_some(self):
        own = self.database()
        own.put_many(self.put + 1, 10)
        self.put += 10
        own.connection.close()

    def end(self, firmware):
        """At a random moment of the state; rig's deadline is the watchdog."""
        time.sleep(self.random.uniform(0, LATER_S))  # which moment, no wait
        self.assertEqual(firmware.end(), 0, firmware.err()[-2000:])
        self.verify()
        self.put_some()

    def deliver_all(self):
        """Another life, with a broker that answers; then each has come."""
        broker = self.broker(name="good", lines=["log_type none"])
        arrived = {}
        client = mqtt5.Client(
            broker.port, "test", take=lambda m: arrived.setdefault(
                m.payload, set()).add(m.properties["id"]))
        self.addCleanup(client.close)
        firmware = self.firmware(broker.uri())
        own = self.database()
        own.wait_settled()
        client.barrier()
        settled_before = self.put - len(arrived)
        self.assertEqual(sorted(int(n) for n in arrived),
                         list(range(settled_before + 1, self.put + 1)))
        self.assertTrue(all(len(ids) == 1 for ids in arrived.values()))
        self.assertEqual(firmware.end(), 0)
        return settled_before

    def in_each_trial(self, uri, reach, words=()):
        for _ in range(TRIALS):
            firmware = self.firmware(uri, *words)
            reach(firmware)
            self.end(firmware)
        proof.say("F28_shutdown", TRIALS, (rig.SEED, rig.SEED))

    def test_connecting_it_ends_and_keeps_all(self):
        broker = self.fake_broker("dropconnack=1")
        self.in_each_trial(broker.uri(), lambda f: broker.wait_log(
            "< CONNECT", self.lives))
        self.assertEqual(self.deliver_all(), 0)

    def test_backing_off_it_ends_and_keeps_all(self):
        broker = self.fake_broker("refuse=136")
        self.in_each_trial(
            broker.uri(), lambda f: f.wait_err("outbound link:"),
            ("reconnect_base_ms=60000",))
        self.assertEqual(self.deliver_all(), 0)

    def test_without_a_network_it_ends_and_keeps_all(self):
        self.in_each_trial(f"tcp://127.0.0.1:{rig.free_port()}",
                           lambda f: f.wait_err("outbound link:"))
        self.assertEqual(self.deliver_all(), 0)

    def test_with_messages_in_flight_it_ends_in_its_grace_and_keeps_them(self):
        broker = self.fake_broker("noack=1")
        self.firmware(broker.uri()).end()
        self.put_some()
        self.in_each_trial(broker.uri(), lambda f: broker.wait_log(
            "< PUBLISH", self.lives - 1))
        self.assertEqual(self.deliver_all(), 0)

    def test_idle_it_ends_with_all_delivered(self):
        broker = self.broker()
        self.in_each_trial(broker.uri(),
                           lambda f: (f.wait_err("outbound link: connected"),
                                      self.database().wait_settled()))
        self.assertEqual(self.deliver_all(), self.put - 10)

    def test_at_work_it_ends_after_a_whole_transaction(self):
        broker = self.broker()
        for _ in range(TRIALS):
            firmware = self.firmware(broker.uri(), "work=4000000000")
            firmware.wait_out("committed ", 20)
            time.sleep(self.random.uniform(0, LATER_S))  # which moment
            self.assertEqual(firmware.end(), 0)
            own = self.database()
            self.assertEqual(own.value("SELECT count(*) FROM state"),
                             own.counts()["put"])
            told = firmware.out().split("committed ")[-1].split()[0]
            self.assertEqual(own.value("SELECT max(n) FROM state"), int(told))
        proof.say("F28_shutdown", TRIALS, (rig.SEED, rig.SEED))

    def test_handling_a_command_it_ends_behind_its_handler(self):
        broker = self.broker()
        words = ("slow=cmd", "slow_ms=300", "commands=other")
        for trial in range(1, TRIALS + 1):
            firmware = self.firmware(broker.uri(), *words)
            firmware.wait_err("inbound link: subscribed")
            self.publish(broker, "cmd", "do", "-D", "publish",
                         "user-property", "id", f"c{trial}")
            firmware.wait_out("slow begins")
            self.end(firmware)
            self.assertIn("slow ends", firmware.out())
            own = self.database()
            self.assertEqual(own.value("SELECT count(*) FROM effect"), trial)
            self.assertEqual(own.rows("SELECT DISTINCT state FROM inbox"),
                             [("done",)])
        proof.say("F28_shutdown", TRIALS, (rig.SEED, rig.SEED))

    def test_standing_by_it_ends_and_leaves_the_owner_alone(self):
        broker = self.broker()
        owner = self.firmware(broker.uri(), "client_id=owner")
        owner.wait_err("relay owns destination main, epoch 1")
        self.in_each_trial(broker.uri(), lambda f: f.wait_err("standing by"))
        self.database().wait_settled()
        self.assertTrue(owner.is_running())
        self.assertEqual(
            self.database().value("SELECT epoch FROM outbox_dest"), 1)

    # ---- stopped, and going on ----------------------------------------------

    def test_stopped_again_and_again_it_loses_nothing(self):
        """SIGSTOP whenever, also with the write lock: the other waits."""
        broker = self.broker()
        sub = self.subscriber(broker)
        relay = self.firmware(broker.uri(), "client_id=relay")
        relay.wait_err("relay owns destination main, epoch 1")
        writer = self.firmware(broker.uri(), "work=4000000000", "gap_us=2000")
        for _ in range(5 * TRIALS):
            victim = self.random.choice((relay, writer))
            victim.pause()
            time.sleep(self.random.uniform(0, LATER_S))  # how long it stands
            victim.resume()
            before = writer.out().count("committed")
            writer.wait_out("committed", before + 10)
        self.assertEqual(writer.end(), 0)
        own = self.database()
        put = own.wait_settled()["delivered"]
        rig.wait_for(lambda: len(set(sub.payloads())) == put, "all arrive")
        self.assertEqual(put, own.value("SELECT count(*) FROM state"))
        proof.say("F14_sigstop", 5 * TRIALS, (rig.SEED, rig.SEED))

    # ---- children -----------------------------------------------------------

    def children(self, firmware, count):
        firmware.signal(signal.SIGHUP)
        firmware.wait_out("fork ", count)
        pids = {line.split()[0]: int(line.split()[1])
                for line in firmware.out().splitlines()
                if line.startswith(("exec ", "fork "))}
        rig.wait_for(lambda: os.readlink(f"/proc/{pids['exec']}/exe").endswith(
            ("sleep", "coreutils", "busybox")), "the child runs sleep")
        return pids["exec"], pids["fork"]

    def descriptors(self, pid):
        """What they stand for, but for the first three."""
        names = set()
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                names.add((fd, os.readlink(f"/proc/{pid}/fd/{fd}")))
        return {name for fd, name in names if int(fd) > 2}

    def test_child_that_runs_another_program_sees_none_of_ours(self):
        broker = self.broker()
        firmware = self.firmware(broker.uri(), "commands=cmd")
        firmware.wait_err("outbound link: connected")
        firmware.wait_err("inbound link: subscribed")
        self.put_some()
        self.database().wait_settled()
        for trial in range(1, TRIALS + 1):
            other, forked = self.children(firmware, trial)
            ours = self.descriptors(firmware.pid)
            # a program has files of its own
            self.assertEqual(self.descriptors(other) & ours, set())
            # the control: who only forks has them all
            seen = self.descriptors(forked) & ours
            proof.control("F28_exec", "fork", len(seen) > 4, 1)
            self.assertGreater(len(seen), 4)
            self.assertTrue(any("socket" in name for name in seen))
        proof.say("F28_exec", TRIALS)

    def test_firmware_whose_child_forked_goes_on_and_so_does_the_next(self):
        """The child keeps the files open; it does nothing with them."""
        broker = self.broker()
        firmware = self.firmware(broker.uri())
        firmware.wait_err("outbound link: connected")
        _, forked = self.children(firmware, 1)
        self.put_some()
        self.database().wait_settled()
        os.kill(forked, signal.SIGKILL)
        self.put_some()
        self.database().wait_settled()
        self.children(firmware, 2)
        self.assertEqual(firmware.end(), 0)
        second = self.firmware(broker.uri())
        second.wait_err("relay owns destination main, epoch 2")
        self.put_some()
        self.database().wait_settled()
        proof.say("F28_fork", 1)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "mosquitto_pub", "stdbuf")
    rig.main()
