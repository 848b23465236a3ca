# SPDX-License-Identifier: MIT
"""The consumer in PostgreSQL, and its pipe."""
import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

import proof
import rig
from test_sqlite import WORKER


def find(program):
    """Debian keeps a server's programs out of the PATH."""
    path = shutil.which(program) or max(
        glob.glob(f"/usr/lib/postgresql/*/bin/{program}"), default=None)
    return path or proof.skip("not installed: postgresql")


class Server(rig.Process):
    """In a folder of its own, which is all that can reach it; as the owner of
    that folder, since root is refused."""

    def __init__(self, folder):
        self.folder = folder
        self.owner = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(folder, user.pw_uid, user.pw_gid)
            self.owner = {"user": user.pw_uid, "group": user.pw_gid,
                          "extra_groups": []}
        data = os.path.join(folder, "data")
        subprocess.run(
            [find("initdb"), "--pgdata", data, "--username=app",
             "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"],
            check=True, cwd=folder, stdout=subprocess.DEVNULL, **self.owner)
        super().__init__(folder, "postgres", [
            find("postgres"), "-D", data, "-k", folder, "-h", "",
            "-c", "fsync=off", "-c", "dynamic_shared_memory_type=mmap",
        ], cwd=folder, **self.owner)
        self.wait_err("ready to accept connections")

    def clean_up(self):
        """At once, and nothing of it stays."""
        self.signal(signal.SIGQUIT)
        self.popen.wait(rig.WAIT_S)


def run_psql(database, *words):
    subprocess.run([*PSQL, "-d", database, *words], check=True,
                   timeout=rig.WAIT_S)


class Session(rig.Process):
    """psql; its transaction ends with it."""

    def __init__(self, folder, name, database):
        super().__init__(folder, name, [*PSQL, "-d", database],
                         stdin=subprocess.PIPE, text=True)
        self.asked = self.known = 0

    def ask(self, text):
        self.begin(text)
        return self.answer()

    def begin(self, text):
        self.asked += 1
        self.popen.stdin.write(f"{text};\n\\echo done {self.asked}\n")
        self.popen.stdin.flush()

    def answer(self):
        """The lines that it says to what was begun."""
        self.wait_out(f"done {self.asked}\n")
        lines = self.out().splitlines()
        new, self.known = lines[self.known:-1], len(lines)
        return new

    def clean_up(self):
        self.popen.stdin.close()
        self.popen.wait(rig.WAIT_S)


class Postgresql(proof.Proof, rig.Case):
    FILES = ("postbag_events.py", "consumer_postgresql.py",
             "consumer_postgresql.sql")
    OWN_MARKER = (
        ("consumer_postgresql.sql", """\
  INSERT INTO seen(source, id) VALUES (of_source, of_id)
    ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
""", """\
  IF EXISTS (SELECT FROM seen WHERE source = of_source AND id = of_id) THEN
"""),
        ("consumer_postgresql.py", """\
    postbag_events.run(lambda event: take(db, event), host, int(port),
                       client_id, topic_filter)
""", """\
    tell = postbag_events.tell

    def tell_and_mark(event, found):
        tell(event, found)
        with db.cursor() as cursor:
            cursor.execute("INSERT INTO seen(source, id) VALUES (%s, %s)"
                           " ON CONFLICT DO NOTHING",
                           (event.source, event.id))

    postbag_events.tell = tell_and_mark
    postbag_events.run(lambda event: take(db, event), host, int(port),
                       client_id, topic_filter)
"""))
    EARLY_ACK = (("postbag_events.py", *WORKER),)
    FORBID = ("ALTER TABLE reading ADD CONSTRAINT no"
              " CHECK (payload <> 'poison')")
    PERMIT = "ALTER TABLE reading DROP CONSTRAINT no"
    TEXT = "convert_from(payload, 'UTF8')"

    databases = 0

    def setUp(self):
        super().setUp()
        Postgresql.databases += 1
        self.name = f"case{self.databases}"
        run_psql("postgres", "-c", f"CREATE DATABASE {self.name}")
        self.loaded = False
        self.sql = self.session("asker").ask

    def session(self, name):
        return self.keep(Session(self.folder, name, self.name))

    def start(self, stdout=None):
        if not self.loaded:
            run_psql(self.name, "-f", os.path.join(
                self.copy, "consumer_postgresql.sql"))
            self.loaded = True
        return super().start(stdout)

    def command(self, folder):
        return [PYTHON, "-B", os.path.join(folder, "consumer_postgresql.py")]

    def place(self):
        return f"host={SERVER.folder} user=app dbname={self.name}"

    @contextlib.contextmanager
    def locked(self):
        locker = self.session("locker")
        locker.ask("BEGIN; LOCK TABLE seen IN EXCLUSIVE MODE")
        yield
        locker.ask("ROLLBACK")

    def take_in_two_sessions(self, end):
        """What the second one gets for an event whose first is still open,
        and then ends so."""
        self.introduce()
        take = "SELECT coalesce(take('s', '1', NULL, NULL, 'x'), 'effect')"
        first, second = self.session("first"), self.session("second")
        self.assertEqual(first.ask(f"BEGIN; {take}"), ["effect"])
        second.begin(take)
        rig.wait_for(lambda: second.out() or self.sql(
            "SELECT 1 FROM pg_locks WHERE NOT granted"), "it waits, or not")
        first.ask(end)
        return second.answer()

    def test_two_sessions_with_one_event_have_one_effect(self):
        self.assertEqual(self.take_in_two_sessions("COMMIT"),
                         ["duplicate 1"])
        self.assertEqual(self.effects(), ["x"])

    def test_session_that_rolls_back_leaves_the_event_to_the_other(self):
        self.assertEqual(self.take_in_two_sessions("ROLLBACK"), ["effect"])
        self.assertEqual(self.effects(), ["x"])

    def test_control_without_the_constraint_two_sessions_have_two(self):
        proof.spoil(self.copy, self.OWN_MARKER[:1])
        self.assertEqual(self.take_in_two_sessions("COMMIT"), ["effect"])
        self.assertEqual(self.effects(), ["x", "x"])


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub", "psql")
    PYTHON = proof.python_with("paho.mqtt.client, psycopg2",
                               "python3-paho-mqtt python3-psycopg2")
    with tempfile.TemporaryDirectory(prefix="postbag-pg-") as FOLDER:
        SERVER = Server(FOLDER)
        PSQL = ["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", FOLDER, "-U",
                "app"]
        try:
            rig.main()
        finally:
            SERVER.clean_up()
