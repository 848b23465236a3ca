# SPDX-License-Identifier: MIT
"""The CloudEvents SDK for JavaScript reads, in strict mode, what an MQTT client
received from mosquitto.

The SDK comes from npm, pinned by cloudevents/package-lock.json, into the build
folder, and only if POSTBAG_FULL=1 or CI=true allows the network; else, and
without node, the test is skipped.  9.0.0 is the newest that names Node 18,
which is Debian 12's.
"""
import json
import os
import shutil
import subprocess
import sys

import rig

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ("package.json", "package-lock.json", ".npmrc", "read.js")
FOLDER = os.path.join(os.environ["POSTBAG_BUILD"], "cloudevents")
STRUCTURED = "application/cloudevents+json"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def get_sdk():
    """FOLDER has read.js and the SDK."""
    os.makedirs(FOLDER, exist_ok=True)
    for name in FILES:
        shutil.copy(os.path.join(HERE, "cloudevents", name), FOLDER)
    done = os.path.join(FOLDER, "installed.json")
    lock = os.path.join(FOLDER, "package-lock.json")
    if os.path.exists(done) and read(done) == read(lock):
        return
    if not rig.FULL and os.environ.get("CI") != "true":
        skip("the CloudEvents SDK is not there yet; POSTBAG_FULL=1 gets it"
             " from npm")
    npm = subprocess.run(["npm", "ci"], cwd=FOLDER, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False,
                         timeout=240)
    if npm.returncode != 0:
        print(npm.stdout)
        skip("npm ci failed")
    shutil.copy(lock, done)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Received(rig.Message):
    """What mosquitto_sub received, losing nothing."""

    FORMAT = "%j\t%x"

    def __init__(self, line):
        said, self.hex = line.rsplit("\t", 1)
        given = json.loads(said, object_pairs_hook=self.once)["properties"] \
            if '"properties"' in said else {}
        self.content_type = given.get("content-type", "")
        self.user = given.get("user-properties", {})

    @staticmethod
    def once(pairs):
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            raise AssertionError(f"a property came twice: {names}")
        return dict(pairs)


# payload, content type
PAYLOADS = (
    ("21.5 °C", "text/plain"), ("21", "text/plain"), ('"q"', "text/plain"),
    ('{"c":21.5,"on":true}', "application/json"), ("21", "application/json"),
    ('"q"', "application/json"), ("[1,2]", "application/senml+json"),
    (b"\x00\xff\x00", "application/octet-stream"), (b"\xfe", None),
    ("plain", None), ("21", None), ('{"c":21.5}', None), ("", None),
)
HEADERS = {"time": "2026-01-01T00:00:00Z", "subject": "room 7",
           "traceparent": "00-0af7651916cd43dd8448eb211c80319c-"
                          "b7ad6b7169203331-01",
           "correlationid": "c-1", "dataschema": "https://example.com/s.json",
           "response_topic": "re/1", "correlation_data": "c"}


class Sdk(rig.Case):
    def events_of(self, version, *words):
        """What the SDK makes of the payloads, sent with this relay."""
        broker = self.broker()
        sub = self.subscriber(
            broker, version=("mqttv311", "mqttv5")[version == 5],
            kind=Received)
        self.gateway(broker.uri(), f"mqtt_version={version}", "source=/gw/7",
                     *words)
        self.own = self.database()
        self.own.run("BEGIN IMMEDIATE")
        for payload, content_type in PAYLOADS:
            self.own.run(
                "INSERT INTO outbox(topic, payload, key, key_version, type,"
                " content_type, headers, ttl_ms) VALUES"
                " ('t', ?, 'valve 3', 12, 'com.example.r', ?, ?, 60000)",
                payload, content_type, json.dumps(HEADERS))
        self.ids = [self.text_of(raw) for raw, in self.own.rows(
            "SELECT id FROM outbox ORDER BY seq")]
        self.own.run("COMMIT")
        rig.wait_for(lambda: len(sub.messages()) == len(PAYLOADS), "all")
        return self.ask([
            {"contentType": m.content_type if version == 5 else STRUCTURED,
             "properties": m.user, "payload": m.hex} for m in sub.messages()])

    @staticmethod
    def text_of(raw):
        text = raw.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20],
                         text[20:]))

    @staticmethod
    def ask(messages):
        done = subprocess.run(
            ["node", "read.js"], cwd=FOLDER, check=True, text=True,
            input="".join(json.dumps(m) + "\n" for m in messages),
            stdout=subprocess.PIPE, timeout=rig.WAIT_S)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check(self, version):
        stream = self.own_stream
        for n, answer in enumerate(self.events_of(version), 1):
            payload, content_type = PAYLOADS[n - 1]
            self.assertNotIn("error", answer, (n, answer))
            self.assertEqual(bytes.fromhex(answer["data"]),
                             payload if isinstance(payload, bytes)
                             else payload.encode(), (n, answer))
            event = answer["event"]
            expected = {
                **{name: HEADERS[name] for name in
                   ("subject", "traceparent", "correlationid", "dataschema")},
                "specversion": "1.0", "id": self.ids[n - 1],
                "source": "/gw/7", "type": "com.example.r",
                "partitionkey": "valve 3", "keyversion": "12",
                "sequence": f"{stream()}-{n:020}"}
            self.assertEqual({name: event.get(name) for name in expected},
                             expected, (n, event))
            self.assertTrue(event["time"].startswith("2026-01-01T00:00:00"))
            self.check_more(version, event, content_type)

    def own_stream(self):
        return self.own.value("SELECT value FROM outbox_meta"
                              " WHERE key = 'stream'").hex()

    def check_more(self, version, event, content_type):
        if version == 5:
            self.assertNotIn("expirytime", event)
            return
        self.assertEqual(event["responsetopic"], "re/1")
        self.assertEqual(event["correlationdata"], "c")
        self.assertRegex(event["expirytime"], r"^20\d\d-.*Z$")
        if content_type is not None:
            self.assertEqual(event["datacontenttype"], content_type)

    def test_mqtt_5_is_read_in_strict_mode(self):
        self.check(5)

    def test_mqtt_311_is_read_in_strict_mode(self):
        self.check(4)

    def test_what_is_no_event_is_refused(self):
        """The control: strict is strict."""
        for answer in self.events_of(5, "envelope=raw"):
            self.assertEqual(answer["error"], "No CloudEvent detected")
        answer, = self.ask([{
            "contentType": STRUCTURED, "properties": {}, "payload":
            json.dumps({"specversion": "1.0", "id": "1", "source": "/", "type":
                        "t", "response_topic": "no"}).encode().hex()}])
        self.assertIn("response_topic", answer["error"])


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf", "node", "npm")
    get_sdk()
    rig.main()
