#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command, run by an emulator, publishes through a broker of this machine.

    publish.py WORKDIR PROGRAM...    as: publish.py dir qemu-x -L root postbag

Half of the messages are put while no relay is there and sent by relay --once,
the others beside a running relay, which has to see the commits of another
process.  A subscriber that the broker knew before must get all of them, in
order.  Afterwards this machine's own SQLite finds the database whole.
"""
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time

COUNT = 20
PATIENCE_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_broker(folder, port):
    path = os.path.join(folder, "mosquitto.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"listener {port} 127.0.0.1\nallow_anonymous true\n"
                   "persistence false\nmax_queued_messages 0\n")
    broker = subprocess.Popen(["mosquitto", "-c", path])
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return broker
        except OSError:
            if broker.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def subscriber(port, *options):
    """mosquitto_sub with a session that the broker keeps."""
    return ["mosquitto_sub", "-h", "127.0.0.1", "-p", str(port), "-c", "-i",
            "listener", "-q", "1", "-t", "cross/#", *options]


def write_config(folder, port):
    path = os.path.join(folder, "relay.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"[postbag]\ndb = {folder}/app.db\nrun_dir = none\n"
                   f"[mqtt]\nuri = tcp://127.0.0.1:{port}\n"
                   "client_id = cross\n")
    return path


def end(process):
    """Ask it to end; its exit code."""
    process.terminate()
    try:
        return process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "killed"


def publish(folder, program, port):
    """What the subscriber got, and how the running relay ended."""
    database = os.path.join(folder, "app.db")
    relay = program + ["relay", "--config", write_config(folder, port)]

    def run(command):
        subprocess.run(command, check=True, timeout=PATIENCE_S,
                       stdout=subprocess.DEVNULL)

    def put(numbers):
        for number in numbers:
            run(program + ["put", database, "cross/reading", "-m",
                           f"reading {number}"])

    run(subscriber(port, "-E"))
    run(program + ["init", database])
    put(range(COUNT // 2))
    run(relay + ["--once"])
    running = subprocess.Popen(relay)
    try:
        put(range(COUNT // 2, COUNT))
        got = subprocess.run(
            subscriber(port, "-C", str(COUNT), "-W", str(PATIENCE_S)),
            stdout=subprocess.PIPE, text=True, check=False).stdout
    finally:
        code = end(running)
    return got.splitlines(), code


def main():
    folder = os.path.abspath(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    port = free_port()
    broker = start_broker(folder, port)
    try:
        got, code = publish(folder, sys.argv[2:], port)
    finally:
        end(broker)
    assert got == [f"reading {number}" for number in range(COUNT)], got
    assert code == 0, f"the relay ended with {code}"
    with sqlite3.connect(os.path.join(folder, "app.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    print(f"{COUNT} messages arrived in order, the database is whole")


if __name__ == "__main__":
    main()
