# SPDX-License-Identifier: MIT
"""Which command it is: by each place that option identity has, over mosquitto;
what becomes of one that has no name, or the name of another; and what versions
of a key say."""
import rig


class Identity(rig.Case):
    def start(self, *options):
        self.link = self.broker()
        self.relay = self.gateway(self.link.uri(), "commands=cmd/#", *options)
        self.link.wait_err("Sending SUBACK to gateway-in\n")
        self.own = self.database()

    def wait_commands(self, *expected):
        """(id, state, error, seen) of each, in the order of arrival."""
        def commands():
            return self.own.rows("SELECT id, state, error, seen FROM inbox"
                                 " ORDER BY arrival")
        rig.wait_for(lambda: commands() == list(expected),
                     f"the commands are {expected}")

    def command(self, topic, payload, *properties):
        options = []
        for name, value in properties:
            options += ["-D", "publish", "user-property", name, value]
        self.publish(self.link, topic, payload, *options)

    def test_places_are_asked_in_the_order_configured(self):
        self.start("identity=json:$.meta.id,topic:3,id")
        both = '{"meta":{"id":"j-1"}}'
        for _ in range(2):
            self.command("cmd/a/t-1", both, ("id", "p-1"))
            self.command("cmd/a/t-2", '{"meta":{}}', ("id", "p-1"))
            self.command("cmd/a", "{not JSON", ("id", "p-1"))
        self.wait_commands(("j-1", "done", None, 2), ("t-2", "done", None, 2),
                           ("p-1", "done", None, 2))

    def test_same_id_with_other_content_is_kept_and_not_handled(self):
        self.start("identity=json:$.id")
        self.command("cmd/a", '{"id":1,"open":true}')
        self.command("cmd/a", '{"id":1,"open":false}')
        rig.wait_for(lambda: self.own.rows(
            "SELECT state, error, CAST(payload AS TEXT) FROM inbox"
            " ORDER BY arrival") == [
                ("done", None, None),
                ("dead", "conflict with 1", '{"id":1,"open":false}')],
            "the other content is kept among the dead")
        self.assertEqual(self.own.rows("SELECT command FROM effect"), [("1",)])

    def test_one_trace_may_be_of_many_commands(self):
        trace = ("traceparent",
                 "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        self.start("no_identity=dead")
        self.command("cmd/a", "open", ("id", "1"), trace)
        self.command("cmd/a", "open", ("id", "2"), trace)
        self.command("cmd/a", "open", trace, ("correlationid", "3"))
        rig.wait_for(lambda: self.own.rows(
            "SELECT state, error FROM inbox ORDER BY arrival") == [
                ("done", None), ("done", None), ("dead", "no id")],
            "two are done, and one has no name")

    def test_nameless_is_done_once_by_its_hash(self):
        self.start("no_identity=hash")
        self.command("cmd/a", "open")
        self.command("cmd/a", "open")
        self.command("cmd/a", "close")
        rig.wait_for(lambda: self.own.rows(
            "SELECT state, seen FROM inbox ORDER BY arrival") == [
                ("done", 2), ("done", 1)], "each content is done once")

    def test_nameless_is_done_each_time_if_unprotected(self):
        self.start("no_identity=unprotected")
        self.command("cmd/a", "open")
        self.command("cmd/a", "open")
        rig.wait_for(lambda: self.own.rows(
            "SELECT state, seen FROM inbox") == [("done", 1)] * 2,
            "each delivery is done")
        self.assertEqual(self.own.value("SELECT count(*) FROM effect"), 2)

    def test_versions_of_a_key_are_compared_and_refused(self):
        self.start("version_back=refuse")
        for version in ("1", "2", "4", "3", "5"):
            self.command("cmd/a", "go", ("id", f"v{version}"),
                         ("partitionkey", "valve"), ("keyversion", version))
        rig.wait_for(lambda: self.own.rows(
            "SELECT key_version, previous_version, state, error FROM inbox"
            " ORDER BY arrival") == [
                (1, None, "done", None), (2, 1, "done", None),
                (4, 2, "done", None), (3, 4, "dead", "version back"),
                (5, 4, "done", None)], "the step back is refused")

    def test_version_that_came_early_waits_for_those_before_it(self):
        self.start("version_gap=defer", "version_defer_ms=60000")
        for version in ("1", "4", "3", "2"):
            self.command("cmd/a", "go", ("id", f"v{version}"),
                         ("partitionkey", "valve"), ("keyversion", version))
        rig.wait_for(lambda: self.own.rows(
            "SELECT command FROM effect ORDER BY rowid") == [
                ("v1",), ("v2",), ("v3",), ("v4",)],
            "effects come in the order of versions")

    def test_version_that_stays_away_is_not_waited_for_for_ever(self):
        self.start("version_gap=defer", "version_defer_ms=300")
        for version in ("1", "3"):
            self.command("cmd/a", "go", ("id", f"v{version}"),
                         ("partitionkey", "valve"), ("keyversion", version))
        rig.wait_for(lambda: self.own.rows(
            "SELECT key_version, previous_version, state FROM inbox"
            " ORDER BY arrival") == [(1, None, "done"), (3, 1, "done")],
            "the gap is passed over")


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub")
    rig.main()
