# SPDX-License-Identifier: MIT
"""The power is cut for a real file system: ext4 or xfs on a loop device is shut
down in the middle of commits, without its log being flushed, and mounted again.

Whatever a writer with synchronous=FULL was told to be committed is there, state
and message are both there or neither, no message has another id, and the
database is sound.  Only root can mount and shut down file systems.

The controls: with synchronous=NORMAL, and with OFF, commits are lost."""
import ctypes
import fcntl
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

import proof
import rig

TRIALS = 500 if rig.PROVE else 20 if rig.FULL else 6
CONTROLS = 30
LONGEST_S = 600
SHUTDOWN = 0x8004587d  # _IOR('X', 125, __u32)
NO_LOG_FLUSH = 2
MIB = 1024 * 1024
KINDS = {
    "ext4-1024": (32 * MIB, ["mkfs.ext4", "-q", "-b", "1024"]),
    "ext4-4096": (32 * MIB, ["mkfs.ext4", "-q", "-b", "4096"]),
    "xfs": (320 * MIB, ["mkfs.xfs", "-q"]),
}
# Says the number and the id of each message when its commit has returned.
WRITER = """
import sqlite3, sys
path, synchronous, first = sys.argv[1:]
db = sqlite3.connect(path, isolation_level=None, timeout=10)
db.execute("PRAGMA synchronous=" + synchronous)
n = int(first)
while True:
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO state VALUES (?)", (n,))
    db.execute("INSERT INTO outbox(topic, payload) VALUES ('t', ?)",
               (str(n) + " " * (n % 7 * 300),))
    (id,) = db.execute("SELECT hex(id) FROM outbox WHERE seq = ?",
                       (n,)).fetchone()
    db.execute("COMMIT")
    sys.stdout.write(f"{n} {id}\\n")
    sys.stdout.flush()
    n += 1
"""


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


class Volume:
    """A file system of its own, mounted in a folder."""

    def __init__(self, folder, kind):
        size, mkfs = KINDS[kind]
        self.at = os.path.join(folder, kind)
        self.image = self.at + ".img"
        os.mkdir(self.at)
        with open(self.image, "wb") as file:
            file.truncate(size)
        run(*mkfs, self.image)
        self.mount()

    def mount(self):
        run("mount", "-o", "loop", self.image, self.at)

    def unmount(self):
        run("umount", self.at)

    def cut(self):
        """From now on nothing reaches the disk, also of what was written."""
        fd = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def remove(self):
        self.unmount()
        os.unlink(self.image)
        os.rmdir(self.at)


def make_database(path):
    run(rig.COMMAND, "init", path)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE state(n INTEGER PRIMARY KEY)")
    db.close()
    os.sync()


def write_until_dark(volume, path, synchronous, first, count):
    """{number: id} of what the writer was told to be committed before the cut.
    Not of what it was told during it: an fsync that xfs is shut down under may
    return 0, which one that the power goes under cannot."""
    with subprocess.Popen(
            [sys.executable, "-c", WRITER, path, synchronous, str(first)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True) as writer:
        told = [writer.stdout.readline() for _ in range(count)]
        volume.cut()
        writer.kill()
    return {int(n): id for n, id in map(str.split, told)}


class Found:
    """What is there after the cut."""

    def __init__(self, path):
        db = sqlite3.connect(path, isolation_level=None)
        self.is_sound = True
        self.ids, self.states = {}, set()
        try:
            self.is_sound = db.execute(
                "PRAGMA integrity_check").fetchone() == ("ok",)
            self.ids = dict(db.execute("SELECT seq, hex(id) FROM outbox"))
            self.states = {n for n, in db.execute("SELECT n FROM state")}
        except sqlite3.DatabaseError:
            self.is_sound = False
        db.close()


def trial(volume, synchronous, luck):
    """(what was told, what was found) on a new database."""
    path = os.path.join(volume.at, "gw.db")
    for end in ("", "-wal", "-shm"):
        if os.path.exists(path + end):
            os.unlink(path + end)
    make_database(path)
    told = write_until_dark(volume, path, synchronous, 1,
                            luck.randrange(5, 150))
    volume.unmount()
    volume.mount()
    found = Found(path)
    return told, found, path


class FileSystemCut(rig.Case):
    def setUp(self):
        super().setUp()
        self.luck = random.Random(rig.SEED)
        self.volumes = {}

    def volume(self, kind):
        if kind not in self.volumes:
            self.volumes[kind] = Volume(self.folder, kind)
            self.addCleanup(self.volumes[kind].remove)
        return self.volumes[kind]

    def test_full_writer_keeps_what_was_committed(self):
        begun = time.monotonic()
        done = 0
        while done < TRIALS and time.monotonic() - begun < LONGEST_S:
            kind = kinds()[done % len(kinds())]
            told, found, path = trial(self.volume(kind), "FULL", self.luck)
            self.assertTrue(found.is_sound, kind)
            self.assertEqual(found.states, set(found.ids), kind)
            self.assertEqual(told, {n: found.ids.get(n) for n in told}, kind)
            run(rig.COMMAND, "verify", path)
            done += 1
        self.assertGreaterEqual(done, 6)
        proof.say("F13", done, (rig.SEED, rig.SEED))

    def lose(self, synchronous):
        for tried in range(1, CONTROLS + 1):
            kind = kinds()[tried % len(kinds())]
            told, found, _ = trial(self.volume(kind), synchronous, self.luck)
            if not set(told) <= set(found.ids):
                proof.control("F13", synchronous.lower(), 1, tried)
                return
        self.fail(f"synchronous={synchronous} lost nothing")

    def test_normal_writer_loses_commits(self):
        self.lose("NORMAL")

    def test_writer_without_syncs_loses_commits(self):
        self.lose("OFF")


def kinds():
    """Those that can be made here."""
    return [kind for kind, (_, mkfs) in KINDS.items()
            if shutil.which(mkfs[0]) is not None]


def need_shutdown():
    """Skip the whole file where no file system can be mounted and shut down.
    The mounts are seen by this process and its children alone, and end with
    them, however."""
    if ctypes.CDLL(None).unshare(0x20000) != 0:  # CLONE_NEWNS
        print("skipped: not permitted: a mount namespace")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="postbag-") as folder:
        try:
            run("mount", "--make-rprivate", "/")  # fails in a chroot
            volume = Volume(folder, "ext4-1024")
            try:
                volume.cut()
            finally:
                volume.remove()
        except subprocess.CalledProcessError as error:
            why = error.stderr.decode().strip().split("\n")[0]
            print(f"skipped: not permitted: to mount a file system: {why}")
            sys.exit(77)
        except OSError as error:
            print(f"skipped: not permitted: to shut one down: {error}")
            sys.exit(77)


if __name__ == "__main__":
    rig.need("mkfs.ext4", "mount")
    need_shutdown()
    rig.main()
