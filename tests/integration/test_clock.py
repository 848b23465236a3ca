# SPDX-License-Identifier: MIT
"""The wall clock jumps to 1970 and on by a day, again and again, while the
relay waits to try again: nothing waits longer than the cap.  And it is set at
last, on a device that starts in the past."""
import datetime
import glob
import os
import re
import socket
import subprocess
import sys
import threading
import time

import proof
import rig

CAP_MS = 2000
# the cap, a step of the engine, the 1 s in which Paho starts a connection,
# and what a loaded machine adds
MOST_S = CAP_MS / 1000 + 1.5
# a step of the engine each second, and what the connection takes
SET_S = 10
OFFSETS = ("-20780d", "+0d", "+1d", "-20780d", "+1h", "+3650d", "-1h", "+0d")
JUMPS = 100 if rig.PROVE else 12
LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), None)


class Listener:
    """A port that answers and hangs up; remembers when it was called."""

    def __init__(self):
        self.calls = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.calls.append(time.monotonic())
            connection.close()

    def close(self):
        """The port is free when this returns; a second time is fine."""
        if self.socket.fileno() >= 0:
            self.socket.shutdown(socket.SHUT_RDWR)
            self.socket.close()


class Clock(rig.Case):
    def setUp(self):
        super().setUp()
        self.offset = os.path.join(self.folder, "offset")
        self.set_clock("+0d")
        self.env = {"LD_PRELOAD": LIBRARY,
                    "FAKETIME_TIMESTAMP_FILE": self.offset,
                    "FAKETIME_NO_CACHE": "1",
                    "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def relay(self, uri, *words, **more):
        """Its clock is ours to set."""
        relay = self.gateway(uri, *words, env=self.env, **more)
        # killed, it would leave the library's files in /dev/shm
        self.addCleanup(relay.end)
        return relay

    def set_clock(self, offset):
        with open(self.offset + ".new", "w", encoding="ascii") as file:
            file.write(offset + "\n")
        os.rename(self.offset + ".new", self.offset)

    def jump_until(self, enough):
        """Jump about twice a second until there is enough to judge."""
        turn = 0
        end = time.monotonic() + 120
        while not enough():
            self.assertLess(time.monotonic(), end, "too few tries")
            self.set_clock(OFFSETS[turn % len(OFFSETS)])
            turn += 1
            time.sleep(0.4)  # the rhythm of the jumps
        self.set_clock("+0d")

    def assert_no_stall(self, times):
        gaps = [b - a for a, b in zip(times, times[1:])]
        print(f"{len(times)} tries, longest gap {max(gaps):.1f} s", flush=True)
        self.assertEqual(self.too_late(gaps), [])
        noticed = self.too_late([*gaps, MOST_S + 0.1])
        self.assertEqual(len(noticed), 1)
        proof.control("F24", "one_waits_too_long", len(noticed), 1)
        proof.say("F24", len(gaps), (rig.SEED, rig.SEED))

    @staticmethod
    def too_late(gaps):
        return [gap for gap in gaps if gap > MOST_S]

    def test_F24_link_is_tried_within_the_cap(self):
        listener = Listener()
        self.addCleanup(listener.close)
        gateway = self.relay(
            f"tcp://127.0.0.1:{listener.port}", "reconnect_base_ms=500",
            f"reconnect_cap_ms={CAP_MS}")
        self.database().put("x")
        self.jump_until(lambda: len(listener.calls) >= JUMPS)
        self.assert_no_stall(listener.calls)
        listener.close()
        broker = self.broker(port=listener.port)
        gateway.wait_err("outbound link: connected", seconds=MOST_S + 5)
        self.assertEqual(self.database().wait_settled()["delivered"], 1)
        self.assertTrue(broker.is_running())

    def test_F24_refused_message_is_tried_within_the_cap(self):
        acl = os.path.join(self.folder, "acl")
        with open(acl, "w", encoding="ascii") as file:
            file.write("topic readwrite good/#\n")
        broker = self.broker(lines=(f"acl_file {acl}",))
        self.relay(broker.uri(), "retry_base_ms=500", "max_attempts=1000",
                   f"retry_cap_ms={CAP_MS}", "poll_ms=60000")
        own = self.database()
        own.put("x", "bad/t")
        seen = []

        def attempts():
            now = own.rows("SELECT attempts FROM outbox_held")
            if now and (not seen or seen[-1][0] != now[0][0]):
                seen.append((now[0][0], time.monotonic()))
            return len(seen) >= JUMPS
        self.jump_until(attempts)
        self.assert_no_stall([at for _, at in seen])
        with open(acl, "a", encoding="ascii") as file:
            file.write("topic readwrite bad/#\n")
        broker.signal(rig.signal.SIGHUP)
        rig.wait_for(lambda: own.counts()["delivered"] == 1, "delivered")
        self.assertEqual(own.counts()["held"], 0)

    def test_F24_running_link_goes_on_and_keeps_its_office(self):
        broker = self.broker()
        gateway = self.relay(broker.uri(), "lease_ms=1000")
        gateway.wait_err("outbound link: connected")
        second = self.gateway(broker.uri(), "lease_ms=1000", name="second")
        own = self.database()
        for turn, offset in enumerate(OFFSETS, 1):
            self.set_clock(offset)
            own.put_many(turn * 10, 10)
            self.assertEqual(own.wait_settled(MOST_S)["delivered"], turn * 10)
        self.assertEqual(gateway.err().count("outbound link: connected"), 1)
        self.assertNotIn("epoch", second.err())
        proof.say("F24", len(OFFSETS))

    def test_F24_clock_ten_times_too_fast_hurries_no_try(self):
        """Nor do jumps: no try comes before the wait that was said."""
        listener = Listener()
        self.addCleanup(listener.close)
        self.set_clock("+0 x10")
        gateway = self.relay(
            f"tcp://127.0.0.1:{listener.port}", "reconnect_base_ms=500",
            f"reconnect_cap_ms={CAP_MS}")
        self.database().put("x")
        rig.wait_long(lambda: len(listener.calls) > 8, "tries",
                      lambda: len(listener.calls))
        waits_ms = [int(ms) for ms in
                    re.findall(r"next try in (\d+) ms", gateway.err())]
        gaps = [b - a for a, b in zip(listener.calls, listener.calls[1:])]
        early = [gap for gap, wait in zip(gaps, waits_ms) if gap < wait / 1000]
        self.assertEqual(early, [])
        self.assert_no_stall(listener.calls)

    def test_F24_ten_years_at_once_age_nothing(self):
        """Neither what waits with a TTL of a minute, nor what is kept for an
        hour after its delivery."""
        broker = self.broker()
        gateway = self.relay(broker.uri(), "keep_s=3600")
        own = self.database()
        own.put_many(1, 100)
        self.assertEqual(own.wait_settled()["delivered"], 100)
        broker.end()
        gateway.wait_err("next try in", 2)
        own.run("INSERT INTO outbox(topic, payload, ttl_ms)"
                " VALUES ('t', 'young', 60000)")
        rig.wait_for(lambda: self.live_state().get("put_seq") == "101",
                     "the relay has seen it")
        for offset in ("+3650d", "-20780d", "+3650d"):
            tries = gateway.err().count("next try in")
            self.set_clock(offset)
            gateway.wait_err("next try in", tries + 2)
        broker.restart()
        self.assertEqual(own.wait_settled()["delivered"], 101)
        self.assertEqual(own.value("SELECT count(*) FROM outbox"), 101)
        self.assertEqual(own.rows("SELECT * FROM outbox_lost"), [])
        proof.say("F24", 3)

    def test_F24_uptime_that_begins_again_holds_nothing_up(self):
        """The boot is the same, its clock is not: as in a container that is
        moved.  A lease that ends in twelve days is not believed."""
        ahead = ("unshare", "-T", "--monotonic", "1000000", "--boottime",
                 "1000000")
        if subprocess.run([*ahead, "true"], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("not permitted: unshare -T")
        broker = self.broker()
        first = self.gateway(broker.uri(), name="first", prefix=ahead)
        own = self.database()
        own.put("x")
        own.wait_settled()
        first.pause()  # not dead: its lock is held
        self.addCleanup(first.kill)
        self.gateway(broker.uri(), "lease_ms=1000", name="second")
        own.put("y")
        rig.wait_for(lambda: own.counts()["delivered"] == 2, "both are sent")
        proof.say("F24", 1)

    def certificate(self):
        """Valid from now on, for two days."""
        cert = os.path.join(self.folder, "cert.pem")
        key = os.path.join(self.folder, "key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-keyout", key, "-out", cert], check=True, capture_output=True)
        return cert, key

    def test_device_in_2012_connects_by_itself_once_its_clock_is_set(self):
        cert, key = self.certificate()
        broker = self.broker(lines=(f"certfile {cert}", f"keyfile {key}"))
        self.set_clock(f"-{(time.gmtime().tm_year - 2012) * 365}d")
        gateway = self.relay(
            broker.uri("ssl", "localhost"), f"ca_file={cert}", "poll_ms=1000",
            "reconnect_base_ms=300000", "reconnect_cap_ms=300000")
        gateway.wait_err("next try in")
        self.assertIn("is the clock set?", gateway.err())
        wait_ms = re.search(r"next try in (\d+) ms", gateway.err()).group(1)
        self.assertGreater(int(wait_ms), SET_S * 1000)
        self.set_clock("+0d")
        gateway.wait_err("outbound link: connected", seconds=SET_S)
        gateway.wait_err("the broker's certificate expires in ")
        self.assertRegex(gateway.err(), "expires in [12] days")

    def put_in_1970(self, uri, count, name):
        """By a gateway's writer; the moments before and after."""
        self.set_clock("-20780d")
        before = time.time()
        gateway = self.relay(uri, f"work={count}", name=name)
        gateway.wait_out("worked")
        return gateway, before, time.time()

    def test_time_of_what_was_put_in_1970_is_put_right_or_left_out(self):
        broker = self.broker()
        sub = self.subscriber(broker)
        gateway, _, _ = self.put_in_1970(broker.uri(), 1, "first")
        sub.wait_payload("1")
        own = self.database()
        own.wait_settled()
        gateway.end()
        nowhere = f"tcp://127.0.0.1:{rig.free_port()}"
        gateway, before, after = self.put_in_1970(nowhere, 2, "second")
        gateway.end()
        self.assertLess(own.value("SELECT max(created_ms) FROM outbox"), 1e12)
        own.run("INSERT INTO outbox(topic, payload, created_ms)"
                " VALUES ('t', 'plain', 1000)")
        rig.wait_for(lambda: time.time() > after + 1,
                     "the time of the send is none of the put")
        self.set_clock("+0d")
        self.relay(broker.uri(), name="third")
        sub.wait_payload("plain")
        times = [message.property("time") for message in sub.messages()]
        self.assertEqual([times[0], times[3]], [None, None])
        self.assertEqual([message.property("timequality")
                          for message in sub.messages()],
                         ["unset", None, None, "unset"])
        for text in times[1:3]:
            put_at = datetime.datetime.fromisoformat(
                text.replace("Z", "+00:00")).timestamp()
            self.assertTrue(before - 0.5 < put_at < after + 0.5,
                            (before, put_at, after))


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "openssl", "stdbuf")
    if LIBRARY is None:
        print("skipped: not installed: faketime")
        sys.exit(77)
    rig.main()
