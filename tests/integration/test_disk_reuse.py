"""The disk of a sandbox that is gone may be the next one's: as if it were new, and only if that is certain."""

import glob
import time
from pathlib import Path

import pytest

from cay_harness import read_text, wait_until

pytestmark = pytest.mark.core

MARK = "of-the-one-before"


def loop_of(daemon, id):
    """The device, and when it got its file: one that was freed and set up again is another."""
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        if read_text(path).strip() == str(daemon.data / "sandboxes" / f"{id}.img"):
            return path.split("/")[3], read_text(path.replace("loop/backing_file", "diskseq"))
    return None


def spare_loops(daemon):
    return [path for path in glob.glob("/sys/block/loop*/loop/backing_file")
            if read_text(path).startswith(str(daemon.data / "scratch"))]


def create_on(daemon, api, loop):
    """Those that were made ahead come first."""
    for _ in range(6):
        id = api.create()["id"]
        if loop_of(daemon, id) == loop:
            return id
    raise AssertionError("no sandbox got the disk")


def look_around(api, id):
    return api.sh(id, "cd /; find . -xdev ! -path './usr/*' ! -path './proc/*' ! -path './sys/*' "
                      "! -path './dev/*' -printf '%p %y %m %u %g %s\\n' | sort")


def test_the_next_sandbox_sees_nothing_of_the_one_before(own):
    with own.api() as api:
        new = api.create()["id"]
        id = api.create()["id"]
        loop = loop_of(own, id)
        assert loop
        api.sh(id, f"echo {MARK} > /root/secret; mkdir -p /srv/{MARK}/deep; rm -rf /etc/passwd; "
                   f"chmod 1777 /; ln -s {MARK} /etc/link; echo {MARK} >> /etc/profile; "
                   f"mkfifo /root/fifo; (exec 9>/root/unlinked; rm /root/unlinked; echo {MARK} >&9; "
                   "sleep 1000) >/dev/null 2>&1 &")
        api.background(id, f"echo {MARK}; sleep 1000")
        api.remove(id)
        wait_until(own.spares, what="the disk to be kept")
        removed = time.time()
        time.sleep(0.05)  # the kernel's clock of files is a few milliseconds behind
        again = create_on(own, api, loop)
        times = [float(t) for t in api.sh(again, "stat -c '%.9W %.9X %.9Y %.9Z' /").split()]
        assert min(times) > removed, "when the last one went can be told"
        assert look_around(api, again) == look_around(api, new)
        assert api.try_exec(again, f"grep -r {MARK} /etc /root /srv /tmp /var").json["exitCode"] != 0
        assert api.sh(again, "stat -fc '%b %c' /") == api.sh(new, "stat -fc '%b %c' /")
        api.write(again, "mark", "of the second")
        assert api.read(again, "mark") == "of the second"


@pytest.mark.parametrize("much", [
    "mkdir /root/d; cd /root/d; for i in $(seq 300); do echo $i > $i; done",
    "head -c 2000000 /dev/zero > /root/f",
])
def test_a_disk_with_much_on_it_is_not_used_again(own, much):
    with own.api() as api:
        id = api.create()["id"]
        api.sh(id, much)
        api.remove(id)
        wait_until(lambda: not (own.data / "sandboxes" / f"{id}.img").exists(), what="it to go")
        assert own.spares() == []


@pytest.mark.counts_rows
def test_kill_9_loses_no_sandbox_on_a_used_disk_and_leaves_no_spare(own):
    with own.api() as api:
        first, second = api.create()["id"], api.create()["id"]
        loop = loop_of(own, first)
        api.remove(first)
        wait_until(own.spares, what="the disk to be kept")
        kept = create_on(own, api, loop)
        api.write(kept, "mark", "still here")
        api.remove(second)
        wait_until(own.spares, what="the other disk to be kept")
        own.kill9()
        wait_until(lambda: not spare_loops(own), what="the kernel to let go of spare disks")
        own.start()
        assert own.spares() == []
        assert api.read(kept, "mark") == "still here"
        assert api.get("/admin/strays").ok()["strays"] == []
        api.remove(kept)  # nobody knows what it was used for before
        wait_until(lambda: not (own.data / "sandboxes" / f"{kept}.img").exists(), what="it to go")
        assert own.spares() == []


def test_a_daemon_that_ends_gives_spare_disks_up(own):
    with own.api() as api:
        api.remove(api.create()["id"])
        wait_until(own.spares, what="the disk to be kept")
        assert own.stop() == 0
        assert own.spares() == []
        wait_until(lambda: not spare_loops(own), what="the kernel to let go of spare disks")
        own.start()


def test_the_disk_of_a_create_that_failed_is_kept_by_its_own_size(daemon_of):
    """The sandbox asks for a smaller disk, and for more processor than its parent has."""
    daemon = daemon_of(env={"CAY_POOL": 0}).start()
    quota = Path("/sys/fs/cgroup/cpu") / daemon.cgroup_name() / "cpu.cfs_quota_us"
    if not quota.exists():
        pytest.skip("on cgroup v2 a parent's quota refuses nothing")
    with daemon.api() as api:
        quota.write_text("150000")
        assert "cfs_quota" in api.try_create(cpu=2, disk=100).failed(500)["error"]
        quota.write_text("-1")
        wait_until(lambda: len(daemon.spares()) == 2, what="both disks to be kept")
        for _ in range(2):
            id = api.create(disk=4096)["id"]
            assert int(api.sh(id, "df -m --output=size / | tail -1")) > 4000
