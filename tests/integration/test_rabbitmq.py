# SPDX-License-Identifier: MIT
"""RabbitMQ with its MQTT plugin, as Debian 12 has it: 3.10, which speaks
MQTT 3.1.1 and not 5.  One node of our own for all cases, with its own folder,
cookie and name service on free ports of the loopback."""
import json
import os
import subprocess
import sys
import tempfile

import arrivals
import proof
import rig

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
CONTROL = "/usr/lib/rabbitmq/bin/rabbitmqctl"
BOOT_S = 90
# of the node, which takes ten seconds to boot; messages for each
KILLS = 25 if rig.PROVE else 2 if rig.FULL else 1
PER_KILL = 2000


class Node(rig.Process):
    """The broker; it listens for MQTT only.  Ends by pid, as does its name
    service, which otherwise would outlive it."""

    USER, PASSWORD = "gw", "right"

    def __init__(self, folder, name="node", beside=None):
        """beside: a node whose name service and cookie it shares."""
        self.folder, self.node = folder, f"{name}@localhost"
        self.port, self.node_port = rig.free_port(), rig.free_port()
        self.home = beside.home if beside else folder
        self.names_port = beside.names_port if beside else rig.free_port()
        self.names = beside.names if beside else rig.Process(
            folder, "epmd", ["epmd", "-port", str(self.names_port),
                             "-address", "127.0.0.1"])
        self.write("conf", f"""\
listeners.tcp = none
mqtt.listeners.tcp.1 = 127.0.0.1:{self.port}
mqtt.allow_anonymous = false
default_user = {self.USER}
default_pass = {self.PASSWORD}
loopback_users = none
log.console = true
log.file = false
cluster_partition_handling = pause_minority
""")
        self.write("plugins", "[rabbitmq_mqtt].\n")
        self.boots = 0
        self.begin()
        if beside is None:
            self.wait_booted()  # it has made the cookie

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w",
                  encoding="ascii") as file:
            file.write(text)

    def path(self, name):
        return os.path.join(self.folder, name)

    def env(self):
        return {
            "HOME": self.home,  # for the cookie
            "ERL_EPMD_PORT": str(self.names_port),
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self.node_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": self.path("none"),
            "RABBITMQ_CONFIG_FILE": self.path("conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.path("plugins"),
            "RABBITMQ_MNESIA_BASE": self.path("data"),
            "RABBITMQ_LOG_BASE": self.path("log"),
            # the script becomes the node, and has no child to wait for
            "RUNNING_UNDER_SYSTEMD": "true"}

    def boot(self):
        self.begin()
        self.wait_booted()

    def begin(self):
        self.boots += 1
        super().__init__(self.folder, "rabbitmq", [SERVER], env=self.env())

    def wait_booted(self, seconds=BOOT_S):
        self.wait_out("Server startup complete", self.boots, seconds)

    def restart(self):
        """After a kill: what it has on disk is all it has."""
        self.boot()

    def save_bindings(self):
        """Which queue gets what stands in a log of the node's that is written
        a little later.  A kill before that (once in eight on a busy machine)
        takes the binding: the node acknowledges what goes nowhere."""
        self.control("eval", "mnesia:sync_log().")

    def control(self, *words):
        """What rabbitmqctl says to it."""
        return subprocess.run(
            [CONTROL, "-n", self.node, *words],
            env={**os.environ, **self.env()}, check=True, text=True,
            stdout=subprocess.PIPE, timeout=BOOT_S).stdout

    def uri(self):
        return f"tcp://127.0.0.1:{self.port}"

    def client(self, program, *words):
        """mosquitto_sub or mosquitto_pub."""
        return [program, "-V", "mqttv311", "-h", "127.0.0.1", "-p",
                str(self.port), "-u", self.USER, "-P", self.PASSWORD, "-q",
                "1", *words]

    def clean_up(self):
        super().clean_up()
        self.names.clean_up()


class Subscriber(rig.Subscriber):
    """Of a session that was made before and kept."""

    def __init__(self, folder, node, name):
        super().__init__(folder, node, name=name, version="mqttv311",
                         login=("-c", "-u", node.USER, "-P", node.PASSWORD))

    def wait_subscribed(self, count):
        """It was before."""


class RabbitMQ(rig.Case):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(
            tempfile.TemporaryDirectory(prefix="postbag-rabbitmq-"))
        cls.node = Node(folder)
        cls.addClassCleanup(cls.node.clean_up)

    def start(self, *words, name):
        return self.gateway(
            self.node.uri(), "mqtt_version=4", f"username={Node.USER}",
            f"password={Node.PASSWORD}", *words, name=name)

    def subscribe(self, name, topic):
        """A session that keeps messages from now on; nobody reads them."""
        subprocess.run(
            self.node.client("mosquitto_sub", "-c", "-E", "-i", name, "-t",
                             topic), check=True, timeout=rig.WAIT_S)

    def read(self, name):
        return self.keep(Subscriber(self.folder, self.node, name))

    def test_outbox_arrives_with_slashes_for_dots(self):
        """Topics are routing keys there: a dot is a slash, and comes out as
        one."""
        self.subscribe("reader", "plant/#")
        relay = self.start("source=/gw/7", name="relay")
        relay.wait_err("outbound link: connected (MQTT 3.1.1")
        own = self.database()
        own.put('{"c":21}', "plant/hall.2/t")
        own.put('{"c":22}', "plant/hall/t")
        sub = self.read("reader")
        rig.wait_for(lambda: len(sub.messages()) == 2, "both arrive")
        self.assertEqual([message.topic for message in sub.messages()],
                         ["plant/hall/2/t", "plant/hall/t"])
        events = [json.loads(payload) for payload in sub.payloads()]
        self.assertEqual([event["data"] for event in events],
                         [{"c": 21}, {"c": 22}])
        self.assertEqual(events[0]["source"], "/gw/7")
        self.assertEqual(own.wait_settled()["delivered"], 2)

    def kill_while_it_drains(self, relay, own, first):
        """At random, after some are acknowledged and before all are."""
        own.put_many(first, PER_KILL)
        enough = own.counts()["delivered"] + self.random.randrange(
            PER_KILL // 2)
        rig.wait_for(lambda: own.counts()["delivered"] >= enough, "some are")
        tries = relay.err().count("next try in")
        self.node.kill()
        relay.wait_err("next try in", tries + 2)
        self.node.restart()

    def test_F22_acknowledged_messages_survive_the_death_of_the_node(self):
        """Its PUBACK comes after the message is in a queue on disk; and the
        relay waits for the node to come back."""
        self.subscribe("keeper", "t")
        self.node.save_bindings()
        relay = self.start("envelope=raw", "ack_delay_ms=10", name="relay2")
        relay.wait_err("outbound link: connected")
        own = self.database()
        for turn in range(KILLS):
            self.kill_while_it_drains(relay, own, turn * PER_KILL)
        put = KILLS * PER_KILL
        self.assertEqual(own.wait_settled(BOOT_S)["delivered"], put)
        self.assert_sound(own)
        sub = self.read("keeper")
        committed = [str(n) for n in range(put)]
        rig.wait_long(
            lambda: arrivals.lost(committed, sub.messages()) == ([], []),
            "all arrive", lambda: len(sub.messages()))
        print(f"  {KILLS} kills, {put} messages,"
              f" {len(sub.messages()) - put} came again", flush=True)
        noticed, _ = arrivals.lost(committed, [
            m for m in sub.messages() if m.payload != "7"])
        self.assertEqual(noticed, ["7"])
        proof.control("F22_rabbitmq", "one_taken_away", len(noticed), 1)
        proof.say("F22_rabbitmq", KILLS, (rig.SEED, rig.SEED))

    def command(self, name):
        event = {"specversion": "1.0", "id": name, "source": "/office",
                 "type": "do", "data": 1}
        subprocess.run(
            self.node.client("mosquitto_pub", "-t", "cmd/1", "-m",
                             json.dumps(event)),
            check=True, timeout=rig.WAIT_S)

    def wait_effects(self, own, *names):
        rig.wait_for(lambda: own.rows("SELECT command FROM effect"
                                      " ORDER BY rowid")
                     == [(name,) for name in names], f"effects: {names}")

    def test_commands_wait_while_the_gateway_is_away(self):
        words = ("commands=cmd/#",)
        relay = self.start(*words, name="relay3")
        relay.wait_err("inbound link: subscribed")
        own = self.database()
        self.command("a")
        self.wait_effects(own, "a")
        self.assertEqual(relay.end(), 0)
        self.command("b")
        again = self.start(*words, name="relay3")
        self.wait_effects(own, "a", "b")
        again.wait_err("inbound link: connected (MQTT 3.1.1, session kept)")

    def test_refused_credentials_are_named_and_not_shown(self):
        relay = self.gateway(
            self.node.uri(), "mqtt_version=4", f"username={Node.USER}",
            "password=wr0ng", name="stranger")
        relay.wait_err("the broker refused the connection: 0x04"
                       " (bad user name or password)", 2)
        self.assertNotIn("wr0ng", relay.err())

    def test_mqtt_5_finds_a_closed_door_and_loses_nothing(self):
        """The node hangs up on such a CONNECT without a word."""
        self.subscribe("late", "t")
        relay = self.gateway(
            self.node.uri(), f"username={Node.USER}",
            f"password={Node.PASSWORD}", name="too-new")
        own = self.database()
        own.put("patient")
        relay.wait_err("outbound link: no connection", 3)
        relay.wait_err("see option mqtt_version")
        self.assertEqual(relay.end(), 0)
        self.start("envelope=raw", name="relay4")
        self.assertEqual(own.wait_settled()["delivered"], 1)
        self.read("late").wait_payload("patient")


if __name__ == "__main__":
    rig.need("mosquitto_sub", "mosquitto_pub", "stdbuf", "epmd")
    if not os.access(SERVER, os.X_OK):
        print("skipped: not installed: rabbitmq-server"
              " (tests/support/install.sh full)")
        sys.exit(77)
    rig.main()
