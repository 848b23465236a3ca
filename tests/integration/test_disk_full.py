# SPDX-License-Identifier: MIT
"""A disk without room: nobody dies of it, each transaction is there whole or
not at all, and all goes on by itself when room returns.

On file systems of their own, which only root can mount.  ext4 with blocks of
1 KiB is the usual one for small partitions, and the worst: a file that is
mapped has holes there, and a write to one is a SIGBUS."""
import contextlib
import ctypes
import os
import sqlite3
import subprocess
import sys
import tempfile
import time

import rig

KIB = 1024
STEPS = range(0, 100, 4 if rig.FULL else 12)
SIZE = 10 * KIB * KIB
PREPARED = 20000 if rig.FULL else 4000
# puts may take all of the disk
ALL = "min_free_bytes=1"


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


class Volume:
    """A small file system, mounted in a folder.  kind: tmpfs, or ext4-1024 and
    the like; options are mkfs's."""

    def __init__(self, folder, kind, *options):
        self.at = os.path.join(folder, kind)
        self.image = os.path.join(folder, kind + ".img")
        self.filler = os.path.join(self.at, "filler")
        os.mkdir(self.at)
        if kind == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", self.at)
            return
        with open(self.image, "wb") as file:
            file.truncate(SIZE)
        run("mkfs.ext4", "-q", "-m", "0", "-b", kind.split("-")[1], *options,
            self.image)
        self.mount()

    def mount(self):
        """The loop device goes with the mount."""
        run("mount", "-o", "loop,errors=remount-ro", self.image, self.at)

    def free(self):
        stat = os.statvfs(self.at)
        return stat.f_bavail * stat.f_frsize

    def fill(self, leave):
        """Leave about so many bytes free."""
        fd = os.open(self.filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with contextlib.closing(os.fdopen(fd, "wb", 0)) as file:
            with contextlib.suppress(OSError):
                while (room := self.free() - leave) > 0:
                    # a file's own tables take room, too
                    file.write(bytes(max(min(room // 2, 64 * KIB), KIB)))
                    os.fsync(fd)

    def fill_inodes(self):
        os.mkdir(self.filler)
        with contextlib.suppress(OSError):
            for i in range(10000):
                with open(os.path.join(self.filler, str(i)), "xb"):
                    pass

    def empty(self):
        if os.path.isdir(self.filler):
            for name in os.listdir(self.filler):
                os.unlink(os.path.join(self.filler, name))
            os.rmdir(self.filler)
        else:
            os.unlink(self.filler)

    def break_down(self):
        """As after an error of the disk: from now on it is read-only."""
        device = os.path.basename(subprocess.run(
            ["findmnt", "-no", "SOURCE", self.at], check=True,
            capture_output=True, text=True).stdout.strip())
        with open(f"/sys/fs/ext4/{device}/trigger_fs_error", "w",
                  encoding="ascii") as file:
            file.write("a test")

    def repair(self):
        run("umount", self.at)
        done = subprocess.run(["e2fsck", "-fy", self.image], check=False,
                              capture_output=True)
        if done.returncode not in (0, 1):
            raise AssertionError(done.stdout.decode())
        self.mount()

    def remove(self):
        run("umount", self.at)


class Firmware(rig.Process):
    """The gateway on a volume, at work unless told not to; it may refuse to
    start."""

    def __init__(self, case, name, *words):
        super().__init__(case.folder, name, [
            rig.GATEWAY, case.db_path, f"uri={case.broker.uri()}",
            "client_id=gateway", "run_dir=none", "reconnect_base_ms=10",
            "reconnect_cap_ms=100", "ack_delay_ms=50", "gap_us=3000",
            "tolerate=1", *words])
        case.addCleanup(self.clean_up)
        self._told, self._offset = [], 0

    def told(self):
        """(committed or refused, n, why) of each transaction so far."""
        with open(self.out_path, "rb") as file:
            file.seek(self._offset)
            text = file.read()
        text = text[:text.rfind(b"\n") + 1]
        self._offset += len(text)
        for line in text.decode().splitlines():
            word, *rest = line.split()
            if word in ("committed", "refused"):
                self._told.append((word, int(rest[0]), *rest[1:]))
        return self._told

    def count(self, what):
        return sum(line[0] == what for line in self.told())

    def starts(self):
        """True: it runs; False: it said why not and ended."""
        rig.wait_for(lambda: "thread " in self.out() or not self.is_running(),
                     "it starts, or not")
        if self.is_running():
            return True
        if self.popen.returncode != 1 or "storage is full" not in self.err():
            raise AssertionError(f"{self.popen.returncode}: {self.err()}")
        return False

    def fails(self):
        """Has a transaction been refused?"""
        if not self.is_running():
            raise AssertionError(f"{self.popen.returncode}: {self.err()}")
        return self.count("refused")

    def wait_for_the_end_of_the_disk(self):
        """Until a transaction is refused, or so many are not that they find
        room in the files that are there."""
        refused, committed = self.fails(), self.count("committed")
        rig.wait_for(lambda: self.fails() > refused or
                     self.count("committed") > committed + 60,
                     "it works, or does not")

    def wait_for(self, what, more=1):
        """So many more transactions of this outcome."""
        want = self.count(what) + more
        rig.wait_for(lambda: (self.fails(), self.count(what))[1] >= want,
                     f"{what} {want}")


class DiskFull(rig.Case):
    def set_up(self, kind, *options):
        self.volume = Volume(self.folder, kind, *options)
        self.addCleanup(self.volume.remove)
        self.db_path = os.path.join(self.volume.at, "gw.db")
        self.broker = rig.Case.broker(self)
        self.sub = self.subscriber(self.broker, topic="gw/data")
        self.lives = []

    def firmware(self, *words, work=4000000000):
        self.lives.append(Firmware(self, f"gateway{len(self.lives)}",
                                   f"work={work}", *words))
        return self.lives[-1]

    def arrived(self):
        return {(int(m.payload), m.id.replace("-", ""))
                for m in self.sub.messages()}

    def check(self, names):
        """After another life: state, messages and what the firmware was told
        are of one mind; it was told no other error than these."""
        self.lives[-1].wait_for("committed", 5)
        self.assertEqual(self.lives[-1].end(), 0, self.lives[-1].err())
        self.assertTrue(self.firmware(work=0).starts())
        own = self.database()
        own.wait_settled()
        self.assert_sound(own)
        state = {(n, blob.hex()) for n, blob in
                 own.rows("SELECT n, id FROM state")}
        rig.wait_for(lambda: self.arrived() >= state, "all arrive")
        self.assertEqual(self.arrived(), state)
        own.connection.close()
        stored = {n for n, _ in state}
        committed, refused = self.told()
        self.assertLessEqual(committed, stored)
        self.assertLessEqual(set(refused.values()), names)
        # with EIO its outcome is unknown
        self.assertEqual([n for n, why in refused.items()
                          if n in stored and why != "EIO"], [])
        print(f"  {len(stored)} stored, {len(refused)} refused, "
              f"{len(self.sub.messages()) - len(stored)} delivered again",
              flush=True)

    def told(self):
        """Those committed, and why the others were not."""
        committed, refused = set(), {}
        for life in self.lives:
            for word, n, *why in life.told():
                if word == "committed":
                    committed.add(n)
                    refused.pop(n, None)  # a later life used it again
                else:
                    refused[n] = why[0]
        return committed, refused

    def wait_drained(self, own):
        """The firmware puts more meanwhile."""
        put = own.counts()["put"]
        rig.wait_for(lambda: own.counts()["settled"] >= put,
                     "it drains with no room at all")

    def run_out(self, kind):
        """While it runs and the broker is silent; then the relay drains all the
        same, and the firmware goes on when there is room."""
        self.set_up(kind)
        firmware = self.firmware(ALL)
        self.assertTrue(firmware.starts())
        own = self.database()
        for step in STEPS:
            firmware.wait_for("committed")
            self.broker.pause()
            self.volume.fill(step * KIB)
            firmware.wait_for_the_end_of_the_disk()
            self.broker.resume()
            self.wait_drained(own)
            self.volume.empty()
            firmware.wait_for("committed", 5)
        own.connection.close()
        self.check({"ENOSPC", "EFULL"})

    def test_ext4_of_1_kib_blocks_runs_out_of_room(self):
        self.run_out("ext4-1024")

    def test_ext4_of_4_kib_blocks_runs_out_of_room(self):
        self.run_out("ext4-4096")

    def test_tmpfs_runs_out_of_room(self):
        self.run_out("tmpfs")

    def start_without_room(self, kind):
        """Each start finds a disk as full as the last end left it."""
        self.set_up(kind)
        self.assertTrue(self.firmware(ALL).starts())
        for step in STEPS:
            for is_orderly in (False, True):
                before = self.lives[-1]
                before.wait_for("committed", 3)
                if is_orderly:
                    self.assertEqual(before.end(), 0, before.err())
                else:
                    before.kill()
                self.volume.fill(step * KIB)
                now = self.firmware(ALL)
                runs = now.starts()
                if runs:
                    now.wait_for_the_end_of_the_disk()
                self.volume.empty()
                if not runs:
                    self.assertTrue(self.firmware(ALL).starts())
        self.check({"ENOSPC", "EFULL"})

    def test_ext4_of_1_kib_blocks_is_full_at_the_start(self):
        self.start_without_room("ext4-1024")

    def test_ext4_of_4_kib_blocks_is_full_at_the_start(self):
        self.start_without_room("ext4-4096")

    def test_tmpfs_is_full_at_the_start(self):
        self.start_without_room("tmpfs")

    def put_plainly(self, own):
        """By plain SQL until it is refused.  The relay must come to look: so
        the puts are no single burst."""
        try:
            while True:
                own.run("INSERT INTO outbox(topic, payload) VALUES ('gw/sql',"
                        " zeroblob(2000))")
                time.sleep(0.005)
        except sqlite3.IntegrityError as error:
            self.assertIn("min_free_bytes", str(error))

    def drain_in_the_room_that_is_left(self, kind):
        """Puts leave some to the relay; nor does it need that, once it is
        lost to others."""
        self.set_up(kind)
        firmware = self.firmware()
        self.assertTrue(firmware.starts())
        firmware.wait_for("committed", 20)
        own = self.database()
        self.broker.pause()
        self.volume.fill(1000 * KIB)
        self.put_plainly(own)
        firmware.wait_for("refused", 5)
        self.volume.fill(0)
        self.broker.resume()
        self.wait_drained(own)
        own.connection.close()
        self.volume.empty()
        self.check({"EFULL", "ENOSPC"})

    def test_relay_drains_in_the_room_that_is_left_on_tmpfs(self):
        self.drain_in_the_room_that_is_left("tmpfs")

    def test_relay_drains_in_the_room_that_is_left_on_ext4(self):
        self.drain_in_the_room_that_is_left("ext4-1024")

    def test_prepared_files_need_no_room(self):
        self.set_up("tmpfs")
        run(rig.COMMAND, "init", self.db_path, "--prepare", "4194304")
        self.volume.fill(0)
        firmware = Firmware(self, "gateway0", f"work={PREPARED}",
                            "gap_us=300")
        self.lives.append(firmware)
        self.assertTrue(firmware.starts())
        rig.wait_long(lambda: "worked" in firmware.out(), "it has worked",
                      lambda: firmware.count("committed"))
        own = self.database()
        own.wait_settled()
        self.assertEqual(self.volume.free(), 0)
        self.assertEqual(own.counts()["delivered"], PREPARED, own.counts())
        self.assertEqual(firmware.count("refused"), 0)
        self.assertNotIn("3 ENOSPC", firmware.err())
        self.assert_sound(own)

    def test_no_inode_is_left(self):
        self.set_up("ext4-4096", "-N", "64")
        self.assertTrue(self.firmware().starts())
        self.volume.fill_inodes()
        self.lives[0].wait_for("committed", 5)
        self.assertEqual(self.lives[0].end(), 0)
        self.volume.empty()
        self.volume.fill_inodes()
        self.assertFalse(self.firmware().starts())
        self.volume.empty()
        self.assertTrue(self.firmware().starts())
        self.check(set())

    def test_file_system_turns_read_only(self):
        self.set_up("ext4-4096")
        firmware = self.firmware()
        self.assertTrue(firmware.starts())
        firmware.wait_for("committed", 5)
        self.volume.break_down()
        firmware.wait_for("refused", 5)
        firmware.wait_err("EIO: ")
        firmware.kill()
        self.volume.repair()
        self.assertTrue(self.firmware().starts())
        self.check({"EIO"})


def need_mounts():
    """Skip the whole file where no file system can be mounted.  The mounts are
    seen by this process and its children alone, and end with them, however."""
    if ctypes.CDLL(None).unshare(0x20000) != 0:  # CLONE_NEWNS
        print("skipped: not permitted: a mount namespace")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="postbag-") as folder:
        try:
            run("mount", "--make-rprivate", "/")  # fails in a chroot
            for kind in ("tmpfs", "ext4-1024"):
                Volume(folder, kind).remove()
        except subprocess.CalledProcessError as error:
            why = error.stderr.decode().strip().split("\n")[0]
            print(f"skipped: not permitted: to mount a file system: {why}")
            sys.exit(77)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf", "mkfs.ext4", "e2fsck",
             "findmnt")
    need_mounts()
    rig.main()
