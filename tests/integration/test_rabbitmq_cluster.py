# SPDX-License-Identifier: MIT
"""Three nodes of RabbitMQ, all three in the relay's list of uris.  One is
killed: the relay goes on with the next.  A second one ends: the third, alone,
serves nobody, and the relay backs off.  With --prove they come back, which
takes RabbitMQ 3.10 minutes (each waits for the others before it registers
client ids), and all that was committed is in the queue, which the nodes keep
copies of."""
import os
import signal
import subprocess
import sys
import tempfile

import arrivals
import proof
import rig
import test_rabbitmq

UP = "outbound link: connected"
PUT = 500
HEAL_S = 600


class Cluster(rig.Case):
    def node(self, name, beside=None):
        folder = tempfile.mkdtemp(dir=self.folder)
        return self.keep(test_rabbitmq.Node(folder, name, beside))

    def set_up(self):
        first = self.node("node1")
        self.nodes = [first, self.node("node2", first),
                      self.node("node3", first)]
        for node in self.nodes:
            node.wait_booted()
        for node in self.nodes[1:]:
            node.control("stop_app")
            node.control("join_cluster", first.node)
            node.control("start_app")
        first.control("set_policy", "copies", ".*",
                      '{"ha-mode":"all","ha-sync-mode":"automatic"}')
        subprocess.run(
            first.client("mosquitto_sub", "-c", "-E", "-i", "keeper", "-t",
                         "t"), check=True, timeout=rig.WAIT_S)
        for node in self.nodes:
            node.save_bindings()

    def put_through(self):
        """Acknowledged, by whoever there is."""
        self.own.put_many(self.own.counts()["put"], PUT)
        counts = self.own.wait_settled(test_rabbitmq.BOOT_S)
        self.assertEqual(counts["delivered"], counts["put"])

    def test_F23_one_node_down_goes_on_two_down_wait_all_arrives(self):
        self.set_up()
        self.relay = self.gateway(
            ", ".join(node.uri() for node in self.nodes), "mqtt_version=4",
            f"username={test_rabbitmq.Node.USER}", "envelope=raw",
            f"password={test_rabbitmq.Node.PASSWORD}",
            "connect_timeout_ms=5000", "first_server_s=3600")
        self.relay.wait_err(UP)
        self.own = self.database()
        self.put_through()
        ups = self.relay.err().count(UP)
        self.nodes[0].kill()
        self.put_through()
        self.relay.wait_err(UP, ups + 1)
        tries = self.relay.err().count("next try in")
        self.nodes[1].signal(signal.SIGTERM)
        self.nodes[1].popen.wait(test_rabbitmq.BOOT_S)
        before = self.own.counts()["delivered"]
        self.relay.wait_err("next try in", tries + 5, test_rabbitmq.BOOT_S)
        self.own.put_many(self.own.counts()["put"], PUT)
        counts = self.own.counts()
        self.assertEqual((counts["delivered"], counts["held"]), (before, 0))
        if rig.PROVE:
            self.come_back()
        self.assert_sound(self.own)
        proof.say("F23", 1)

    def come_back(self):
        for node in self.nodes[:2]:
            node.begin()
        counts = self.own.wait_settled(HEAL_S)
        put = counts["put"]
        self.assertEqual(counts["delivered"], put)
        for node in self.nodes[:2]:
            node.wait_booted(HEAL_S)
        sub = self.keep(test_rabbitmq.Subscriber(
            self.folder, self.nodes[0], "keeper"))
        committed = [str(n) for n in range(put)]
        rig.wait_long(
            lambda: arrivals.lost(committed, sub.messages()) == ([], []),
            "all arrive", lambda: len(sub.messages()))
        noticed, _ = arrivals.lost(committed, [
            m for m in sub.messages() if m.payload != "7"])
        self.assertEqual(noticed, ["7"])
        proof.control("F23", "one_taken_away", len(noticed), 1)


if __name__ == "__main__":
    rig.need("mosquitto_sub", "mosquitto_pub", "stdbuf", "epmd")
    if not os.access(test_rabbitmq.SERVER, os.X_OK):
        print("skipped: not installed: rabbitmq-server"
              " (tests/support/install.sh full)")
        sys.exit(77)
    rig.main()
