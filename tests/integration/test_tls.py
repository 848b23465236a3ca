# SPDX-License-Identifier: MIT
"""Certificates that are wrong, on mosquitto: nothing is sent, nothing is lost,
nothing falls back to plain text, no message is charged; the relay goes on
trying, says why, and delivers when the certificates are exchanged, on either
side, without a restart of the firmware."""
import os
import shutil
import subprocess

import faultproxy
import proof
import rig

HANDSHAKE, FIRST_HELLO = 0x16, 3  # a record's type, and its version's major

# name: (the broker's certificate, the firmware's, its key, what it trusts,
# in the relay's log)
GOOD = ("server", "client", "client", "ca")
CASES = {
    "expired": (("server-expired", *GOOD[1:]), "expired"),
    "not_yet_valid": (("server-early", *GOOD[1:]), "is the clock set?"),
    "wrong_host": (("server-elsewhere", *GOOD[1:]), "broker.example"),
    "wrong_ca": ((*GOOD[:3], "other-ca"), "certificate"),
    "no_client": (("server", None, None, "ca"), "client certificate"),
    "foreign_client": (("server", "client-other", "client", "ca"), ""),
    "expired_client": (("server", "client-expired", "client", "ca"), ""),
}


class Wire(faultproxy.Proxy):
    """What the firmware says first on each connection."""

    def __init__(self, *args, **more):
        self.begins = {}
        super().__init__(*args, framed=False, **more)

    def raw(self, link, side, data):
        if side == "client":
            self.begins.setdefault(link.number, bytes(data[:3]))

    def plain(self):
        return [begin for begin in self.begins.values()
                if begin[:2] != bytes((HANDSHAKE, FIRST_HELLO))]


class Certificates(rig.Case):
    def setUp(self):
        super().setUp()
        # all that the contract's tests have, then the ones in use
        subprocess.run(
            ["sh", os.path.join(rig.HERE, "certificates.sh")], check=True,
            cwd=self.folder, capture_output=True, timeout=rig.WAIT_S)

    def path(self, name):
        return os.path.join(self.folder, name)

    def use(self, name, as_name):
        """In one step, as certificates are exchanged."""
        for end in (".pem", ".key"):
            if os.path.exists(self.path(name + end)):
                shutil.copy(self.path(name + end), self.path("new"))
                os.rename(self.path("new"), self.path(as_name + end))

    def install(self, server, client, key, ca):
        self.use(server, "used-server")
        shutil.copy(self.path("server.key"), self.path("used-server.key"))
        shutil.copy(self.path(ca + ".pem"), self.path("used-ca.pem"))
        if client:
            self.use(client, "used-client")
            shutil.copy(self.path(key + ".key"), self.path("used-client.key"))

    def start(self, name, files):
        self.install(*files)
        self.link = self.broker(name=f"broker_{name}", lines=(
            f"certfile {self.path('used-server.pem')}",
            f"keyfile {self.path('used-server.key')}",
            f"cafile {self.path('ca.pem')}", "require_certificate true"))
        self.proxy = Wire(self.link.port, seed=rig.SEED)
        self.addCleanup(self.proxy.close)
        own = () if files[1] is None else (
            f"cert_file={self.path('used-client.pem')}",
            f"key_file={self.path('used-client.key')}")
        self.db_path = self.path(f"{name}.db")
        self.relay = self.gateway(
            self.proxy.uri("ssl", "localhost"), "run_dir=none",
            f"ca_file={self.path('used-ca.pem')}", *own, name=name)
        self.own = self.database()

    def refused(self, name, files, words):
        self.start(name, files)
        self.own.put("secret")
        self.relay.wait_err("next try in", 3)
        self.assertNotIn("outbound link: connected", self.relay.err())
        said = [line for line in self.relay.err().splitlines()
                if "next try in" in line]
        self.assertTrue(any(words in line for line in said), said)
        print(f"  {name}: {said[0]}", flush=True)
        self.assert_nothing_left()

    def assert_nothing_left(self):
        """Neither in plain text, nor at the broker, nor from the outbox."""
        self.assertGreaterEqual(len(self.proxy.begins), 3)
        self.assertEqual(self.proxy.plain(), [])
        self.assertNotIn("Received PUBLISH", self.link.err())
        self.assertEqual(self.own.counts()["delivered"], 0)
        self.assertEqual(self.own.rows("SELECT * FROM outbox_held"), [])

    def recovered(self):
        """With the right ones, which are exchanged under its feet."""
        self.install(*GOOD)
        self.link.restart()
        self.relay.wait_err("outbound link: connected")
        self.assertEqual(self.own.wait_settled()["delivered"], 1)
        self.assertEqual(self.proxy.plain(), [])
        self.assertEqual(self.relay.end(), 0)

    def test_F25_wrong_certificates_send_nothing_and_recover_when_right(self):
        for name, (files, words) in CASES.items():
            with self.subTest(name):
                self.refused(name, files, words)
                if name == "no_client":  # which is a matter of options
                    self.assertEqual(self.relay.end(), 0)
                    continue
                self.recovered()
        proof.say("F25", len(CASES))

    def test_F25_certificates_rotated_in_mid_run_lose_nothing(self):
        """The CA's, the broker's and ours, three times while messages leave;
        the broker is started again with its own."""
        self.start("rotated", GOOD)
        self.relay.wait_err("outbound link: connected")
        for turn in range(1, 4):
            self.own.put_many(turn * 100, 100)
            subprocess.run(
                ["sh", os.path.join(rig.HERE, "certificates.sh")], check=True,
                cwd=self.fresh_folder(turn), capture_output=True,
                timeout=rig.WAIT_S)
            self.install_from(self.path(f"turn{turn}"))
            self.link.restart()
            self.relay.wait_err("outbound link: connected", turn + 1)
            self.assertEqual(self.own.wait_settled()["delivered"], turn * 100)
        self.assertEqual(self.proxy.plain(), [])
        self.assertEqual(self.own.rows("SELECT * FROM outbox_held"), [])
        proof.say("F25", 3)

    def fresh_folder(self, turn):
        os.mkdir(self.path(f"turn{turn}"))
        return self.path(f"turn{turn}")

    def install_from(self, folder):
        for name in os.listdir(folder):
            if name.endswith((".pem", ".key")):
                shutil.copy(os.path.join(folder, name), self.path(name))
        self.install(*GOOD)

    def test_F25_plain_text_on_the_wire_is_noticed(self):
        """The control: a firmware that is told to use none."""
        link = self.broker()
        proxy = Wire(link.port, seed=rig.SEED)
        self.addCleanup(proxy.close)
        self.gateway(proxy.uri()).wait_err("outbound link: connected")
        rig.wait_for(lambda: proxy.begins, "it speaks")
        self.assertEqual(len(proxy.plain()), len(proxy.begins))
        proof.control("F25", "plain_text", len(proxy.plain()),
                      len(proxy.begins))


if __name__ == "__main__":
    rig.need("mosquitto", "openssl")
    rig.main()
