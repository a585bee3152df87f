"""The power goes: of what the daemon wrote there is what it had synced, and who was told something finds it so."""

import contextlib
import fcntl
import glob
import os
import shutil
import signal
import struct
import subprocess
import threading

import pytest

from cay_harness import Daemon, pids, read_link, read_text, wait_until
from cay_space import check, libc

pytestmark = [pytest.mark.full, pytest.mark.counts_rows]

CLONE_NEWNS = 0x20000
HOST_MB = 4000

# EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH: from now on nothing reaches the disk.
SHUTDOWN = 0x8004587d
NO_FLUSH = 2


@pytest.fixture(scope="module", autouse=True)
def mounts_of_our_own():
    """Else every daemon that another test starts while the disk is mounted has it, too, and for as long as it lives; as we would
    have theirs. Tests after these stay there."""
    check(libc.unshare(CLONE_NEWNS))
    for line in read_text("/proc/thread-self/mounts").splitlines():
        device, point = line.split()[:2]
        if device.startswith("/dev/loop"):
            subprocess.run(["umount", "--lazy", point], check=True)


class Host:
    """A daemon whose data folder is on a disk of its own, which can be cut off."""

    def __init__(self, tmp_path):
        self.image, self.point = tmp_path / "host.img", tmp_path / "host"
        self.point.mkdir()
        with open(self.image, "wb") as f:
            f.truncate(HOST_MB << 20)
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", str(self.image)], check=True)
        self.mount()
        self.daemon = Daemon("power", parent=str(self.point), env={"CAY_DISK_RESERVE": 1, "CAY_POOL": 2,
                                                                   "CAY_MAX_SANDBOXES": 200})
        self.daemon.log_path = tmp_path / "log"
        self.daemon.run = tmp_path / "run"  # as on a real host, where it is in memory

    def mount(self):
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.point)], check=True)

    def unmount(self):
        return subprocess.run(["umount", str(self.point)], stderr=subprocess.DEVNULL).returncode == 0

    def cut(self):
        fd = os.open(self.point, os.O_RDONLY)
        fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", NO_FLUSH))
        os.close(fd)

    def in_use(self):
        return any(read_text(path).strip() == str(self.image)
                   for path in glob.glob("/sys/block/loop*/loop/backing_file"))

    def boxes(self):
        name = self.daemon.cgroup_name()
        return [int(pid) for pid in pids() if name in read_text(f"/proc/{pid}/cgroup")]

    def come_back(self):
        """After a cut, as another boot."""
        self.daemon.kill9()
        while self.boxes():
            for pid in self.boxes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        wait_until(self.unmount, what="the mounts of boxes to go")
        wait_until(lambda: not self.in_use(), what="the kernel to let go of the disk")
        self.mount()
        shutil.rmtree(self.daemon.run)
        for name in os.listdir("/run/cay.ids"):
            if read_link(f"/run/cay.ids/{name}") == str(self.daemon.data):  # those of other daemons come and go
                os.unlink(f"/run/cay.ids/{name}")
        self.daemon.change_sandboxes("boot_id = '00000000-0000-0000-0000-000000000000'")
        self.daemon.start()


@pytest.fixture
def host(tmp_path):
    h = Host(tmp_path)
    try:
        h.daemon.start()
        yield h
    finally:
        h.daemon.destroy()
        wait_until(h.unmount, 30, "the kernel to let go of the disks of boxes")


def churn(api, told, stop):
    """Makes and removes; of what is under way when the power goes nothing is known."""
    mine = []
    with contextlib.suppress(Exception):
        while not stop.is_set():
            reply = api.try_create()
            id = reply.json["id"] if reply.status in (200, 201) else None
            if not id:
                return
            mine.append(id)
            told[id] = "made"
            if len(mine) > 2:
                id = mine.pop(0)
                told[id] = "unknown"
                if api.delete(f"/sandboxes/{id}").status >= 300:
                    return
                told[id] = "removed"


def test_who_was_told_finds_it_so_after_a_power_cut(host):
    for _ in range(3):
        told, stop = {}, threading.Event()
        with host.daemon.api() as api:
            apis = [api.again(timeout=20) for _ in range(4)]
            threads = [threading.Thread(target=churn, args=(a, told, stop)) for a in apis]
            for t in threads:
                t.start()
            wait_until(lambda: list(told.values()).count("removed") > 20, 90, "some to be removed")
            known = dict(told)
            host.cut()
            stop.set()
            for t in threads:
                t.join()
            for a in apis:
                a.close()
            host.come_back()
            found = {id: api.sandbox(id) for id in api.ids()}
            assert {s["status"] for s in found.values()} <= {"stopped"}
            for id, what in known.items():
                if told[id] == what == "made":
                    assert id in found, f"{id} was made and is not there"
                if what == "removed":
                    assert id not in found, f"{id} was removed and is back"
            for id in found:
                api.remove(id)
            assert api.ids() == []


def test_what_was_removed_does_not_come_back_with_its_note(host):
    """The rows are synced, and the folder with the disks and the notes is not."""
    with host.daemon.api() as api:
        ids = [api.create()["id"] for _ in range(5)]
        for id in ids:
            host.daemon.wait_for_note(id)
        os.sync()
        for id in ids:
            api.remove(id)
        wait_until(lambda: not any((host.daemon.data / "sandboxes" / f"{id}.img").exists() for id in ids),
                   what="the disks to go")
        kept = api.create()["id"]
        host.cut()
        host.come_back()
        assert api.ids() == [kept]
        wait_until(lambda: api.get("/admin/strays").ok()["strays"] == [], what="strays to go")
        assert not any((host.daemon.data / "sandboxes" / f"{id}.img").exists() for id in ids)


def test_what_could_not_be_made_is_not_there(host):
    with host.daemon.api() as api:
        assert api.try_create(entrypoint=["/nowhere"]).status >= 400
        kept = api.create()["id"]
        host.cut()
        host.come_back()
        assert api.ids() == [kept]
