#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Test of examples/quickstart.c: its row is stored and its message heard."""
import os
import sqlite3
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from stage import Stage, wait_for, without_proxies  # noqa: E402

TOPIC = "gw/gw1/evt/door"


def run(stage):
    stage.start_broker()
    stage.start_subscriber([TOPIC])
    program = stage.run(
        "quickstart.log", os.path.join(stage.bin, "postbag_quickstart"),
        f"tcp://127.0.0.1:{stage.port}", stage.db, stdin=subprocess.PIPE,
        env=without_proxies())
    wait_for("the message is heard", lambda: stage.heard)
    program.communicate(b"\n", timeout=10)
    assert program.returncode == 0, stage.text("quickstart.log")
    (_, message), = stage.heard_first
    assert message["topic"] == TOPIC and message["payload"] == "open", message
    db = sqlite3.connect(stage.db)
    rows, = db.execute("SELECT count(*) FROM door").fetchone()
    db.close()
    assert rows == 1, rows


def main():
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder, os.path.abspath(sys.argv[1]))
        try:
            run(stage)
        finally:
            stage.end_all()


if __name__ == "__main__":
    main()
