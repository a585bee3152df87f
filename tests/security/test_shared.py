"""What a sandbox shares with the host and with its neighbours is data, never an object that one can
lock, watch or lease so that another notices (E47, E49)."""

import json
import os
import platform
import subprocess

import pytest

from cay_harness import busybox_root, cay, wait_until
from cay_probe import Probe

pytestmark = pytest.mark.core

LOCKED = ["/usr/bin/env", "/usr/bin", "/usr", "/dev", "/dev/null", "/dev/tty", "/dev/shm", "/proc", "/proc/acpi",
          "/proc/fs", "/proc/keys", "/proc/sys/kernel", "/sys", "/sys/block", "/sys/fs/cgroup",
          "/sys/devices/system/cpu", "/etc/passwd", "/etc", "/"]
LOCKED_IN_LAYERS = ["/bin/busybox", "/bin", "/etc/passwd", "/etc", "/"]
# What the agent does not use itself.
WATCHED = ["/usr/bin/env", "/usr/bin", "/usr", "/dev/null", "/dev", "/sys"]
WATCHED_IN_LAYERS = ["/bin/busybox", "/bin"]


@pytest.fixture
def layered(shared, tmp_path):
    done = cay(shared, "image", "import", busybox_root(tmp_path / "root"), "layered:1")
    assert done.returncode == 0, done
    yield "layered:1"
    wait_until(lambda: cay(shared, "image", "rm", "layered:1").returncode == 0,
               what="the end of the sandboxes that used the image")


@pytest.fixture
def two(api, make, probe_path):
    """Two neighbours of that image, each with the probe."""
    def of(image="host"):
        return [Probe(api, make(image=image)["id"], probe_path) for _ in range(2)]

    return of


def exists(probe, path):
    return probe.api.file(probe.id, "info", path=path).status == 200


def in_layer(shared, path):
    """Where the host has that file of the image."""
    layers = [p for p in (shared.data / "images/layers").iterdir() if (p / "bin/busybox").exists()]
    return max(layers, key=lambda p: p.stat().st_ctime) / path[1:]


def no_lock_is_seen(a, b, paths, outside=lambda path: path):
    paths = [path for path in paths if a.inside("try", path)["flock"] == "0"]  # else it is not there
    assert len(paths) >= len(LOCKED_IN_LAYERS)
    for n, path in enumerate(paths):
        a.api.background(a.id, ["/workspace/probe", "hold", path, f"/workspace/ready{n}"])
        wait_until(lambda: exists(a, f"/workspace/ready{n}"), what=f"the lock of {path}")
    busy = {}
    for path in paths:
        assert a.inside("try", path)["flock"] == "EAGAIN", f"control: {path} is locked"
        for where, got in (("beside", b.inside("try", path)), ("outside", a.outside("try", outside(path)))):
            if "EAGAIN" in got.values():
                busy[path] = where
    assert not busy, busy


def test_a_lock_is_seen_by_nobody_else(two):
    no_lock_is_seen(*two(), LOCKED)


@pytest.mark.needs("program:busybox")
def test_a_lock_on_a_file_of_a_layer_is_seen_by_nobody_else(layered, two, shared):
    no_lock_is_seen(*two(layered), LOCKED_IN_LAYERS, lambda path: in_layer(shared, path))


class Watch:
    """inotify in that sandbox, until it is ended and says how many events there were."""

    def __init__(self, probe, path, number):
        self.probe, self.folder = probe, f"/workspace/watch{number}"
        probe.api.file(probe.id, "mkdir", path=self.folder).ok()
        self.id = probe.api.background(probe.id, ["/workspace/probe", "watch", path, self.folder])["id"]
        wait_until(lambda: exists(probe, f"{self.folder}/ready"), what=f"the watch on {path}")

    def end(self):
        self.probe.api.file(self.probe.id, "mkdir", path=f"{self.folder}/end").ok()
        self.probe.api.background_end(self.id)
        return json.loads(self.probe.api.background_logs(self.id)["output"])["seen"]


def no_use_is_seen(a, b, paths, use, outside=lambda path: path):
    """Neighbour and host use what A watches; the control is that A sees a use of its own."""
    running = {path: Watch(a, path, n) for n, path in enumerate(paths)}
    for path in paths:
        b.inside("try", path)
        a.outside("try", outside(path))
    use()
    seen = {path: watch.end() for path, watch in running.items()}
    assert not any(seen.values()), seen
    running = {path: Watch(a, path, n + 100) for n, path in enumerate(paths)}
    for path in paths:
        a.inside("try", path)
    assert all(watch.end() for watch in running.values()), "control"


def test_what_others_do_is_not_seen(two):
    a, b = two()

    def use():
        subprocess.run(["/usr/bin/env", "true"], check=True)
        os.listdir("/usr/bin")
        b.api.sh(b.id, "env; ls /usr/bin /dev; echo x > /dev/null")

    no_use_is_seen(a, b, WATCHED, use)


@pytest.mark.needs("program:busybox")
def test_what_others_do_with_a_layer_is_not_seen(layered, two, shared):
    a, b = two(layered)
    no_use_is_seen(a, b, WATCHED_IN_LAYERS,
                   lambda: b.api.exec(b.id, ["/bin/sh", "-c", "ls -l /bin; cat /etc/passwd"]),
                   lambda path: in_layer(shared, path))


@pytest.mark.parametrize("path", ["/usr/bin/env", "/etc/passwd", "/workspace/probe"])
def test_no_lease_and_no_dnotify(probe, path):
    assert probe.inside("lease", path, "/usr/bin") == {"lease": "EPERM", "dnotify": "EPERM"}


SYS_FCNTL = {"x86_64": 72, "aarch64": 25}[platform.machine()]
LEASE = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("f", os.O_RDWR | os.O_CREAT)
def lease(*key):
    r = libc.syscall(%d, fd, 1024, 1, *[ctypes.c_ulong(k) for k in key])
    return "0" if r == 0 else errno.errorcode[ctypes.get_errno()]
print(lease(0x6361796c, 0x68656c64), lease(0, 0))
"""


def test_the_agents_key_to_leases_is_not_what_the_source_has(api, box):
    """It holds one on /proc/meminfo; the filter knows it by a key that is drawn at start."""
    assert api.sh(box, ["python3", "-c", LEASE % SYS_FCNTL]) == "EPERM EPERM\n"
    assert api.exec(box, "cat /proc/1/environ")["exitCode"] != 0


def test_leases_and_dnotify_exist(probe, tmp_path):
    """The control of the test above."""
    (tmp_path / "f").write_text("x")
    assert probe.outside("lease", tmp_path / "f", tmp_path) == {"lease": "0", "dnotify": "0"}
