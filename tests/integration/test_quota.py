"""Disks where the data directory is on XFS with project quotas: folders instead of images."""

import os
import subprocess

import pytest

from cay_harness import Daemon, wait_until

pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.needs("program:mkfs.xfs")]


@pytest.fixture
def daemon(tmp_path):
    image, point = tmp_path / "xfs.img", tmp_path / "xfs"
    point.mkdir()
    with open(image, "wb") as f:
        f.truncate(512 << 20)
    subprocess.run(["mkfs.xfs", "-q", str(image)], check=True)
    mount = subprocess.run(["mount", "-o", "loop,prjquota", str(image), str(point)],
                           capture_output=True, text=True)
    if mount.returncode != 0:
        pytest.skip("this kernel has no XFS with project quotas")
    daemon = Daemon("quota", parent=str(point))
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.destroy()
        wait_until(lambda: subprocess.run(["umount", str(point)], capture_output=True).returncode == 0, 30,
                   "the kernel to let go of what was in it")


def folders(daemon):
    return [name for name in os.listdir(os.path.join(daemon.root, "data", "sandboxes")) if name != "mark"]  # of the notes


def test_a_full_quota_is_a_full_disk(daemon):
    with daemon.api() as api:
        id = api.create(disk=64)["id"]
        assert id in folders(daemon), "the disk is a folder, not an image"
        done = api.exec(id, "head -c 100000000 /dev/zero > /workspace/big")
        assert done["exitCode"] != 0 and "No space left on device" in done["stderr"]
        size = api.file(id, "info", path="/workspace/big").ok()["size"]
        assert 32 << 20 < size <= 64 << 20
        other = api.create(disk=64)["id"]
        assert api.exec(other, "head -c 30000000 /dev/zero > /workspace/big")["exitCode"] == 0
        api.file(id, "delete", path="/workspace/big").ok()
        assert api.exec(id, "head -c 30000000 /dev/zero > /workspace/big")["exitCode"] == 0
        api.remove(id)
        api.remove(other)


def test_a_removed_sandbox_leaves_no_folder(daemon):
    with daemon.api() as api:
        id = api.create()["id"]
        api.exec(id, "mkdir -p a/b/c && touch a/b/c/d && ln -s / a/root")
        api.remove(id)
    daemon.stop()
    assert folders(daemon) == []


def test_a_stopped_sandbox_finds_its_folder_again(daemon):
    with daemon.api() as api:
        id = api.create()["id"]
        api.exec(id, "echo kept > /workspace/f")
        api.post(f"/sandboxes/{id}/stop").ok()
        api.post(f"/sandboxes/{id}/start").ok()
        assert api.exec(id, "cat /workspace/f")["stdout"] == "kept\n"
        api.remove(id)
