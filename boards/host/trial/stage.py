# SPDX-License-Identifier: MIT
"""The processes of the demo: broker, subscriber, firmware, and the commands
that are sent to it.

All are ended by their pid, whatever happens.  All files are in one folder.
"""
import json
import os
import shutil
import socket
import subprocess
import threading
import time

from wire import Wire

WAIT_S = 10
DEVICE = "gw/host"
TOPICS = [f"{DEVICE}/evt/#", f"{DEVICE}/alarm/#", f"{DEVICE}/cmd/+/res"]


class Trouble(Exception):
    """The demo cannot go on; says why in one line."""


def comes_true(condition, seconds=WAIT_S):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def wait_for(what, condition, seconds=WAIT_S):
    if not comes_true(condition, seconds):
        raise Trouble(f"waited {seconds} s in vain: {what}")


def program(name):
    # Debian keeps mosquitto where only root's PATH looks.
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if found is None:
        raise Trouble(f"{name} is not installed")
    return found


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def is_accepting(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def without_proxies():
    """The environment: a proxy for the web is none for MQTT."""
    return {name: value for name, value in os.environ.items()
            if not name.lower().endswith("_proxy")}


class Stage:
    def __init__(self, folder, bin_folder):
        self.folder = folder
        self.bin = bin_folder
        self.processes = []
        self.broker = self.subscriber = self.firmware = self.wire = None
        self.heard = {}        # id: how often
        self.heard_first = []  # (id, message), each id once, in order
        self.db = self.path("gateway.db")

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as f:
            return f.read()

    def run(self, log, *command, **options):
        """Start a process; what it says goes to a log."""
        # A session of its own: Ctrl-C is for the demo, which then ends all.
        with open(self.path(log), "ab") as f:
            options = {"stdout": f, "stderr": f, "stdin": subprocess.DEVNULL,
                       "start_new_session": True} | options
            process = subprocess.Popen(command, **options)
        self.processes.append(process)
        return process

    def end_all(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # ---- broker ------------------------------------------------------------

    def start_broker(self):
        """The first time on a port that is free, later on the same."""
        for _ in range(5):
            if not hasattr(self, "port"):
                self._write_broker_config(free_port())
            self.broker = self.run("broker.log", program("mosquitto"), "-c",
                                   self.path("broker.conf"))
            wait_for("the broker accepts connections", lambda:
                     self.broker.poll() is not None or is_accepting(self.port))
            if self.broker.poll() is None:
                return
            if self.subscriber is not None:
                break
            del self.port  # somebody else was faster
        raise Trouble("mosquitto ends at once, see broker.log")

    def _write_broker_config(self, port):
        self.port = port
        lines = [
            f"listener {port} 127.0.0.1",
            "allow_anonymous true",
            # What it has acknowledged it keeps, also when it is stopped.
            "persistence true",
            f"persistence_location {self.folder}/",
            # As much in flight and waiting as there is: it may drop nothing.
            "max_inflight_messages 0",
            "max_queued_messages 0",
            # Else a PUBACK now and then waits 40 ms for another packet.
            "set_tcp_nodelay true",
            "log_dest stderr",
            "log_type error",
            "log_type warning",
            "log_type notice",
            "log_type subscribe",
        ]
        if os.geteuid() == 0:
            lines.append("user root")  # else it could not read the folder
        with open(self.path("broker.conf"), "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")

    def stop_broker(self):
        self.broker.terminate()
        self.broker.wait(WAIT_S)

    # ---- subscriber --------------------------------------------------------

    def start_subscriber(self, topics):
        """mosquitto_sub: not our library, a session that the broker keeps."""
        filters = [word for topic in topics for word in ("-t", topic)]
        self.subscriber = self.run(
            "subscriber.log", program("mosquitto_sub"), "-h", "127.0.0.1",
            "-p", str(self.port), "-V", "5", "-i", "checker", "-c", "-x",
            "3600", "-q", "1", *filters, "-F", "%j", stdout=subprocess.PIPE)
        threading.Thread(target=self._listen, daemon=True).start()
        self.wait_for_subscription("checker", topics[-1])

    def wait_for_subscription(self, client, topic):
        """Before that the broker keeps nothing for the client."""
        wait_for(f"{client} has subscribed", lambda:
                 f"{client} 1 {topic}" in self.text("broker.log"))

    def _listen(self):
        for line in self.subscriber.stdout:
            message = json.loads(line)
            name = message["properties"]["user-properties"]["id"]
            if name not in self.heard:
                self.heard_first.append((name, message))
            self.heard[name] = self.heard.get(name, 0) + 1

    # ---- firmware ----------------------------------------------------------

    def start_firmware(self):
        environment = without_proxies() | {
            # Not as a path: there a space would end it.
            "LD_PRELOAD": "postbag_count_io.so",
            "LD_LIBRARY_PATH": self.bin,
            "POSTBAG_COUNT_IO": self.path("io.counts"),
        }
        with open(self.path("commits.txt"), "ab") as commits:
            self.firmware = self.run(
                "firmware.log",
                os.path.join(self.bin, "postbag_demo_firmware"), self.db,
                f"tcp://127.0.0.1:{self.wire.port}", self.path("run"),
                stdout=commits, env=environment)

    def kill_firmware(self):
        if self.firmware.poll() is not None:
            raise Trouble("the firmware ended by itself, see firmware.log")
        self.firmware.kill()
        self.firmware.wait()

    def stop_firmware(self):
        self.firmware.terminate()
        code = self.firmware.wait(WAIT_S + 5)
        if code != 0:
            raise Trouble(f"the firmware ended with {code}, see firmware.log")

    def open_wire(self):
        self.wire = Wire(self.port)

    # ---- looking and commanding --------------------------------------------

    def status(self):
        """What `postbag status -o json` says; None before there is a file."""
        if not os.path.exists(self.db):
            return None
        answer = subprocess.run(
            [os.path.join(self.bin, "postbag"), "status", self.db, "-o",
             "json", "--run-dir", self.path("run")],
            capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            return None
        whole = json.loads(answer.stdout)
        return whole["destinations"][0] | {"inbox": whole["inbox"]}

    def publish_command(self, number, command):
        """One copy, straight to the broker: the wire is not on its way."""
        topic = f"{DEVICE}/cmd/{command['word']}"
        subprocess.run(
            [program("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(self.port),
             "-V", "5", "-q", "1", "-t", topic, "-m", command["payload"],
             "-D", "publish", "user-property", "id", command["id"],
             "-D", "publish", "user-property", "source", "/demo",
             "-D", "publish", "response-topic", f"{topic}/res",
             "-D", "publish", "correlation-data", str(number)],
            check=True, timeout=WAIT_S)
