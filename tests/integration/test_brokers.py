# SPDX-License-Identifier: MIT
"""What real brokers do to the relay, end to end: versions, TLS, refusals
and silence."""
import base64
import json
import os
import subprocess

import arrivals
import proof
import rig

COMMAND = os.environ.get("POSTBAG_COMMAND")


class Versions(rig.Case):
    def test_mqtt_5_carries_a_cloudevent_in_properties(self):
        broker = self.broker()
        sub = self.subscriber(broker)
        self.gateway(broker.uri(), "source=/gw/7")
        own = self.database()
        own.run("BEGIN IMMEDIATE")
        own.run("INSERT INTO outbox(topic, payload, key, type, content_type,"
                " headers) VALUES ('t', '21', 'k', 'com.example.r',"
                " 'text/plain', '{\"x\":\"y\",\"n\":7}')")
        expected = {
            "specversion": "1.0", "id": own.id_of("21"), "source": "/gw/7",
            "type": "com.example.r", "partitionkey": "k", "x": "y", "n": "7"}
        own.run("COMMIT")
        sub.wait_payload("21")
        event, = sub.messages()
        self.assertEqual({name: event.property(name) for name in expected},
                         expected)
        self.assertEqual(event.content_type, "text/plain")
        self.assertRegex(event.property("sequence"), r"^[0-9a-f]{32}-0{19}1$")

    def test_mqtt_311_carries_a_cloudevent_in_json(self):
        broker = self.broker()
        sub = self.subscriber(broker, version="mqttv311")
        self.gateway(broker.uri(), "mqtt_version=4", "source=/gw/7")
        own = self.database()
        for payload in ('{"c":21}', "plain", b"\x00\xff"):
            own.run("INSERT INTO outbox(topic, payload, key, type, headers)"
                    " VALUES ('t', ?, 'k', 'com.example.r', '{\"x\":\"y\"}')",
                    payload)
        rig.wait_for(lambda: len(sub.messages()) == 3, "three events")
        events = [json.loads(payload) for payload in sub.payloads()]
        self.assertEqual(events[0]["data"], {"c": 21})
        self.assertEqual(events[1]["data"], "plain")
        self.assertEqual(base64.b64decode(events[2]["data_base64"]),
                         b"\x00\xff")
        for event in events:
            self.assertEqual(
                (event["specversion"], event["source"], event["type"],
                 event["partitionkey"], event["x"]),
                ("1.0", "/gw/7", "com.example.r", "k", "y"))
        self.assertEqual(len({event["id"] for event in events}), 3)
        self.assertLess(events[0]["sequence"], events[1]["sequence"])

    def test_tls_checks_who_answers(self):
        cert = os.path.join(self.folder, "cert.pem")
        key = os.path.join(self.folder, "key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-keyout", key, "-out", cert], check=True, capture_output=True)
        broker = self.broker(lines=(f"certfile {cert}", f"keyfile {key}"))
        right = self.gateway(broker.uri("ssl", "localhost"),
                             f"ca_file={cert}", name="right")
        right.wait_err("outbound link: connected")
        self.database().put("over tls")
        self.database().wait_settled()
        self.assertEqual(right.end(), 0)
        for name, uri, more in (
                ("host", broker.uri("ssl", "127.0.0.1"), (f"ca_file={cert}",)),
                ("ca", broker.uri("ssl", "localhost"), ())):
            wrong = self.gateway(uri, *more, name=name)
            wrong.wait_err("next try in", 2)
            self.assertNotIn("outbound link: connected", wrong.err())
            self.assertEqual(wrong.end(), 0)


class Refusals(rig.Case):
    def test_wrong_password_is_named_and_not_shown(self):
        users = os.path.join(self.folder, "users")
        subprocess.run(["mosquitto_passwd", "-b", "-c", users, "gw", "right"],
                       check=True, capture_output=True)
        broker = self.broker(
            lines=("allow_anonymous false", f"password_file {users}"))
        wrong = self.gateway(broker.uri(), "username=gw", "password=wr0ng",
                             name="wrong")
        wrong.wait_err("refused the connection: 0x87 (not authorized)", 2)
        self.assertNotIn("wr0ng", wrong.err())
        self.assertEqual(wrong.end(), 0)
        right = self.gateway(broker.uri(), "username=gw", "password=right",
                             name="right")
        right.wait_err("outbound link: connected")

    def test_T8_refused_topic_waits_dies_and_is_requeued_with_its_id(self):
        acl = os.path.join(self.folder, "acl")

        def allow(*topics):
            with open(acl, "w", encoding="utf-8") as file:
                file.writelines(f"topic readwrite {t}\n" for t in topics)

        allow("good/#")
        broker = self.broker(lines=(f"acl_file {acl}",))
        sub = self.subscriber(broker)
        self.gateway(broker.uri(), "max_attempts=3", "retry_base_ms=20",
                     "retry_cap_ms=100")
        own = self.database()
        own.put("forbidden", "bad/t")
        for n in range(100):
            own.put(str(n), "good/t")
        rig.wait_for(lambda: len(sub.messages()) == 100, "the good ones flow")
        rig.wait_for(lambda: own.rows(
            "SELECT attempts FROM outbox_held WHERE state = 'dead'")
            == [(3,)], "the refused one is dead after three attempts")
        self.assertIn("not authorized (0x87)",
                      own.value("SELECT error FROM outbox_held"))
        id_of_it = own.id_of("forbidden")

        allow("good/#", "bad/#")
        broker.signal(rig.signal.SIGHUP)
        broker.wait_err("Reloading config")
        subprocess.run([COMMAND, "dead", "requeue", self.db_path, "--all"],
                       check=True, capture_output=True, timeout=rig.WAIT_S)
        sub.wait_payload("forbidden")
        self.assertEqual(sub.messages()[-1].id, id_of_it)
        rig.wait_for(lambda: own.value("SELECT count(*) FROM outbox_held") == 0,
                     "it is no longer held")
        self.assert_sound(own)
        expected = {*map(str, range(100)), "forbidden"}
        self.assertEqual(arrivals.lost(expected, sub.messages()), ([], []))
        proof.say("T8_real", 1)
        noticed, _ = arrivals.lost(expected, sub.messages()[:-1])
        self.assertEqual(noticed, ["forbidden"])
        proof.control("T8_real", "never_requeued", len(noticed), 1)


class Acceptance(rig.Case):
    """What a PUBACK of mosquitto is worth."""

    def start(self, *words):
        acl = os.path.join(self.folder, "acl")
        with open(acl, "w", encoding="ascii") as file:
            file.write("topic readwrite good/#\n")
        broker = self.broker(lines=(f"acl_file {acl}",
                                    "message_size_limit 1000"))
        self.sub = self.subscriber(broker)
        self.gateway(broker.uri(), "max_attempts=2", "retry_base_ms=10",
                     "retry_cap_ms=20", *words)
        self.own = self.database()
        self.own.put("forbidden", "bad/t")
        self.own.put("x" * 1001, "good/t")
        self.own.put("fine", "good/t")
        self.sub.wait_payload("fine")

    def test_mqtt_5_refused_or_oversized_is_never_delivered(self):
        self.start()
        rig.wait_for(lambda: self.own.rows(
            "SELECT seq, state, attempts FROM outbox_held ORDER BY seq")
            == [(1, "dead", 2), (2, "dead", 1)], "both are dead")
        (refused,), (oversized,) = self.own.rows(
            "SELECT error FROM outbox_held ORDER BY seq")
        self.assertIn("0x87", refused)
        self.assertIn("0x95", oversized)
        counts = self.own.wait_settled()
        self.assertEqual((counts["delivered"], counts["held"]), (1, 2))
        self.assertEqual(self.sub.payloads(), ["fine"])

    def test_mqtt_311_dropped_in_silence_counts_as_delivered(self):
        """The price of option mqtt_version=4, and why 5 is the default."""
        self.start("mqtt_version=4", "envelope=raw")
        counts = self.own.wait_settled()
        self.assertEqual((counts["delivered"], counts["held"]), (3, 0))
        self.assertEqual(self.sub.payloads(), ["fine"])


class Silence(rig.Case):
    def test_broker_that_stands_still_is_left_and_nothing_is_lost(self):
        broker = self.broker()
        sub = self.subscriber(broker)
        gateway = self.gateway(broker.uri(), "ack_timeout_ms=2000",
                               "connect_timeout_ms=1000")
        gateway.wait_err("outbound link: connected")
        own = self.database()
        own.put("before")
        sub.wait_payload("before")
        broker.pause()
        own.put_many(1, 50)
        gateway.wait_err("no PUBACK in time")
        broker.resume()
        expected = {str(n) for n in range(1, 51)} | {"before"}
        rig.wait_for(lambda: set(sub.payloads()) == expected, "all arrive")
        self.assertEqual(len(set(sub.ids())), 51)
        self.assertEqual(own.wait_settled()["delivered"], 51)
        self.assertEqual(own.value("SELECT count(*) FROM outbox_held"), 0)

    def test_broker_restarts_and_nothing_is_lost(self):
        broker = self.broker(lines=(
            "persistence true", f"persistence_location {self.folder}/"))
        sub = self.subscriber(broker, login=("-c",))
        self.gateway(broker.uri())
        own = self.database()
        for turn in range(5):
            own.put_many(turn * 100 + 1, 100)
            broker.restart()
        counts = own.wait_settled()
        self.assertEqual(counts["delivered"], 500)
        rig.wait_for(lambda: {int(p) for p in sub.payloads()}
                     == set(range(1, 501)), "all arrive")


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "mosquitto_pub", "openssl",
             "mosquitto_passwd", "stdbuf")
    rig.main()
