# SPDX-License-Identifier: MIT
"""The configuration of postbag relay: what is refused, and how."""
import re
import unittest

from harness import CliTest, NOT_FOUND, USAGE

GOOD = """[postbag]
db = {db}
[mqtt]
uri = tcp://127.0.0.1:1
client_id = x
"""


class Config(CliTest):
    def refuses(self, word, text, mode=0o644):
        path = self.write("relay.ini", text, mode)
        self.refused(USAGE, path + word, "relay", "--config", path)

    def test_config_is_required_and_must_exist(self):
        self.refused(USAGE, "--config", "relay")
        self.refused(NOT_FOUND, "none.ini", "relay", "--config",
                     self.path("none.ini"))

    def test_config_unknown_keys_and_sections_are_named(self):
        self.refuses(':2: there is no key "windov" in [postbag]',
                     "[postbag]\nwindov = 3\n")
        self.refuses(':2: there is no key "window" in [mqtt]',
                     "[mqtt]\nwindow = 3\n")
        self.refuses(':4: there is no key "uri" in [inbound]',
                     "[postbag]\ndb = x\n[inbound]\nuri = y\n")
        self.refuses(':1: there is no key "db" in []', "db = x\n")

    def test_config_bad_values_are_named_with_their_range(self):
        for value in ("0", "15", "1001", "-1", "many", "5 x", "0x10", "",
                      "99999999999999999999"):
            self.refuses(":2: window must be a number, 16..1000 messages",
                         f"[postbag]\nwindow = {value}\n")
        self.refuses(":2: dest must have 1..64 bytes",
                     "[postbag]\ndest = " + "d" * 65 + "\n")
        self.refuses(":3: window is given twice",
                     "[postbag]\nwindow = 32\nwindow = 32\n")

    def test_config_only_the_first_mistake_is_told(self):
        path = self.write("relay.ini", "[postbag]\na = 1\nb = 2\n")
        result = self.run_cli("relay", "--config", path)
        self.assertEqual(result.err.count("\n"), 1)

    def test_config_lines_that_inih_would_cut_or_skip_are_refused(self):
        self.refuses(":2: the line is longer",
                     "[postbag]\ndb = /" + "x" * 5000 + "\n")
        self.refuses(":2: neither [section] nor key = value",
                     "[postbag]\nwindow\n")

    def test_config_missing_keys_are_named(self):
        self.refuses(": db is missing in [postbag]", "")
        self.refuses(": uri is missing in [mqtt]", "[postbag]\ndb = x\n")
        self.refuses(": client_id: is required when mqtt_version is 4",
                     f"[postbag]\ndb = {self.db}\n[mqtt]\n"
                     "uri = tcp://127.0.0.1\nmqtt_version = 4\n")

    def test_config_with_a_password_must_be_private(self):
        for key in ("password", "key_password"):
            text = GOOD.format(db=self.db) + f"{key} = secret-word\n"
            for mode in (0o644, 0o640, 0o604):
                self.refuses(": holds a password, but its mode is %03o" % mode,
                             text, mode)
        result = self.run_cli("relay", "--config", self.path("relay.ini"))
        self.assertNotIn("secret-word", result.err)

    def test_config_secret_files_must_not_be_everybodys(self):
        for key in ("password_file", "key_file", "psk_file"):
            secret = self.write("secret", "x", 0o644)
            text = GOOD.format(db=self.db) + f"{key} = {secret}\n"
            self.refuses(f": {key}: everybody can read or write {secret}, "
                         "its mode is 644: chmod o=", text)
            # another mistake, so that it does not start
            for mode in (0o640, 0o600):
                self.write("secret", "x", mode)
                self.refuses(": client_id: is required when mqtt_version is 4"
                             if key == "password_file" else f": {key}: needs",
                             text.replace("client_id = x\n", "") +
                             "mqtt_version = 4\n")

    def test_config_with_the_path_of_a_password_may_be_read_by_all(self):
        """It is read to its end: what is refused comes after it."""
        self.refuses(": will_payload: needs will_topic",
                     GOOD.format(db=self.db) +
                     "password_file = pw\nwill_payload = x\n")

    def test_config_values_that_only_the_transport_can_judge(self):
        text = GOOD.format(db=self.db).replace("tcp:", "carrier-pigeon:")
        path = self.write("relay.ini", text)
        self.refused(USAGE, "uri", "relay", "--config", path)

    def test_config_table_has_every_option_with_its_default(self):
        text = self.ok("relay", "--options")
        keys = re.findall(r"^\| `(\w+)` \|", text, re.M)
        self.assertEqual(len(keys), len(set(keys)))
        for key in ("db", "window", "reply_topics", "uri", "key_password"):
            self.assertIn(key, keys)
        self.assertRegex(text, r"\| `window` \| `64` \| `16..1000` messages \|")
        self.assertRegex(text, r"\| `dest` \| `main` \| 1..64 bytes \|")


if __name__ == "__main__":
    unittest.main()
