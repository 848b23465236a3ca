# SPDX-License-Identifier: MIT
"""kill -9 the firmware at random points while messages leave and commands
come in; then compare what its database, the broker's subscriber and the
effects of the commands say."""
import subprocess
import time

import rig

KILLS = 200 if rig.FULL else 30
LONGEST_LIFE_S = 0.4


class Commands:
    """A cloud that sends commands, some of them twice, under its own ids."""

    def __init__(self, case, broker):
        self.random = case.random
        self.sent = 0
        self.twice = 0
        self.process = case.keep(rig.Process(
            case.folder, "cloud",
            ["mosquitto_pub", "-V", "mqttv5", "-h", "127.0.0.1", "-p",
             str(broker.port), "-q", "1", "-t", "gw/cmd", "-l", "-D",
             "publish", "response-topic", "gw/reply"],
            stdin=subprocess.PIPE, text=True))
        case.addCleanup(self.process.popen.stdin.close)

    def send(self, count):
        for _ in range(count):
            self.sent += 1
            line = f'{{"id":"c{self.sent}","source":"cloud"}}\n'
            again = self.random.random() < 0.2
            self.twice += again
            self.process.popen.stdin.write(line * (2 if again else 1))
        self.process.popen.stdin.flush()

    def finish(self):
        self.process.popen.stdin.close()
        if self.process.popen.wait(rig.WAIT_S) != 0:
            raise AssertionError(self.process.err())


class Kill(rig.Case):
    def firmware(self, broker, work, gap_us=0):
        return self.keep(rig.Process(self.folder, "gateway", [
            rig.GATEWAY, self.db_path, f"uri={broker.uri()}",
            "client_id=gateway", "run_dir=none", "reconnect_base_ms=10",
            "reconnect_cap_ms=100", "commands=gw/cmd",
            "reply_topics=gw/reply", f"work={work}", f"gap_us={gap_us}"]))

    def subscribe_commands(self, broker):
        """So that the broker keeps commands for us while we are dead."""
        firmware = self.firmware(broker, 0)
        broker.wait_err("Sending SUBACK to gateway-in\n")
        self.assertEqual(firmware.end(), 0)

    def live_and_die(self, broker, cloud):
        firmware = self.firmware(
            broker, 4000000000, self.random.choice((0, 300, 3000)))
        end = time.monotonic() + self.random.uniform(0, LONGEST_LIFE_S)
        while time.monotonic() < end:
            cloud.send(self.random.randrange(6))
            time.sleep(min(0.01, max(0, end - time.monotonic())))
        self.assertTrue(firmware.is_running(), firmware.err()[-2000:])
        firmware.kill()
        self.verify()

    def settle(self, broker, cloud, sub):
        """A life without a kill, until all that is left is done."""
        firmware = self.firmware(broker, 0)
        own = self.database()

        def done():
            return own.value("SELECT count(*) FROM inbox WHERE state = 'done'")

        def arrived():  # the commands pass by, too, but carry no id property
            return len(set(sub.ids()) - {None})

        # what is left is each command's two fsyncs
        rig.wait_long(lambda: done() == cloud.sent,
                      f"all {cloud.sent} commands are done", done)
        own.wait_settled()
        # a command that comes again is answered again, under the same id
        put = own.value("SELECT count(*) FROM state") + cloud.sent
        rig.wait_long(lambda: arrived() == put, f"all {put} ids arrive",
                      arrived)
        self.assertEqual(firmware.end(), 0)
        return own

    def check_messages(self, own, sub, acknowledged):
        state = {n: blob.hex() for n, blob in
                 own.rows("SELECT n, id FROM state")}
        self.assertLessEqual(acknowledged, set(state))
        data = [(int(m.payload), m.id.replace("-", "")) for m in sub.messages()
                if m.topic == "gw/data"]
        # exactly the committed ones, each under its one id
        self.assertEqual(set(data), set(state.items()))
        firsts = list(dict.fromkeys(n for n, _ in data))
        for key in range(4):
            order = [n for n in firsts if n % 4 == key]
            self.assertEqual(order, sorted(order), f"key k{key}")
        return len(state), len(data) - len(state)

    def check_commands(self, own, sub, cloud):
        everything = sorted(f"c{i + 1}" for i in range(cloud.sent))
        effects = [row[0] for row in own.rows("SELECT command FROM effect")]
        self.assertEqual(sorted(effects), everything)
        replies = {(m.payload, m.id) for m in sub.messages()
                   if m.topic == "gw/reply"}
        self.assertEqual(sorted(command for command, _ in replies),
                         everything)

    def test_kills_lose_nothing_and_repeat_no_effect(self):
        broker = self.broker()
        sub = self.subscriber(broker, topic="gw/+")
        cloud = Commands(self, broker)
        self.subscribe_commands(broker)
        for _ in range(KILLS):
            self.live_and_die(broker, cloud)
        cloud.finish()
        own = self.settle(broker, cloud, sub)
        with open(self.folder + "/gateway.out", encoding="utf-8") as file:
            acknowledged = {int(line.split()[1]) for line in file
                            if line.startswith("committed ")}
        put, again = self.check_messages(own, sub, acknowledged)
        self.check_commands(own, sub, cloud)
        self.assert_sound(own)
        print(f"  {KILLS} kills, {put} messages, {again} delivered again, "
              f"{cloud.sent} commands, {cloud.twice} sent twice; "
              f"0 lost, 95 % bound {3 / KILLS:.3f} per kill", flush=True)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "mosquitto_pub", "stdbuf")
    rig.main()
