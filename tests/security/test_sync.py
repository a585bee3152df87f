"""sync() and syncfs() inside write the sandbox's own disk, really, and nothing of the host."""

import ctypes
import os

import pytest

from cay_harness import wait_until

pytestmark = [pytest.mark.core, pytest.mark.alone]

CACHESTAT = 451


def dirty_pages(path):
    """Of that file, as the kernel counts them; None where it does not tell (before 6.5)."""
    libc = ctypes.CDLL(None, use_errno=True)
    whole, counts = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    fd = os.open(path, os.O_RDONLY)
    try:
        if libc.syscall(CACHESTAT, fd, whole, counts, 0) < 0:
            return None
    finally:
        os.close(fd)
    return counts[1] + counts[2]


def left_dirty(path, call):
    """Whether data that nobody has written out yet is so afterwards. Others may sync meanwhile, or the
    kernel of itself; then it is tried again."""
    for _ in range(5):
        path.unlink()  # one that is cut off and written again, ext4 writes out at once
        path.write_bytes(os.urandom(1 << 20))
        call()
        if dirty_pages(path) > 0:
            return True
    return False


@pytest.fixture
def file_of_the_host(tmp_path):
    path = tmp_path / "dirty"
    path.write_bytes(b"x")
    if dirty_pages(path) is None:
        pytest.skip("this kernel has no cachestat")
    return path


@pytest.mark.parametrize("command", ["sync", "sync -f /", "sync -f /usr/bin", "sync -f /dev/null",
                                     "sync -d /usr/bin/env"])
def test_nothing_of_the_host_is_written_out(api, box, file_of_the_host, command):
    assert not left_dirty(file_of_the_host, os.sync), "control: outside, sync writes it"
    assert left_dirty(file_of_the_host, lambda: api.sh(box, command))


def disk_has(shared, id, word):
    """Whether the file behind the sandbox's disk holds those bytes."""
    fd = os.open(shared.data / "sandboxes" / f"{id}.img", os.O_RDONLY)
    try:
        at, end = 0, os.fstat(fd).st_size
        while at < end:
            try:
                at = os.lseek(fd, at, os.SEEK_DATA)
            except OSError:  # nothing after it
                return False
            stop = os.lseek(fd, at, os.SEEK_HOLE)
            if word in os.pread(fd, stop - at, at):
                return True
            at = stop
        return False
    finally:
        os.close(fd)


@pytest.mark.parametrize("command", ["sync", "sync -f /workspace"])
def test_what_was_written_is_on_the_disk_afterwards(api, make, shared, command):
    if not list((shared.data / "sandboxes").glob("*.img")):
        pytest.skip("disks are a project quota here; what is on them cannot be told apart")
    early = 0
    for _ in range(3):
        id = make(disk=64)["id"]
        word = os.urandom(16).hex()
        api.write(id, "/workspace/f", word * 1000)
        early += disk_has(shared, id, word.encode())
        api.sh(id, command)
        assert disk_has(shared, id, word.encode())
    assert early < 3, "control: without it the kernel takes its time"


def test_a_descriptor_that_is_none_is_refused(api, box):
    out = api.sh(box, ["python3", "-c", """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syncfs(99), ctypes.get_errno())
print(libc.syncfs(os.open("/", os.O_RDONLY)), libc.syscall(162))
"""])
    assert out == "-1 9\n0 0\n"


def test_many_callers_are_all_answered(api, box):
    out = api.sh(box, "for i in $(seq 40); do sync & done; wait; echo all", timeout=60)
    assert out == "all\n"
    names = [p["command"] for p in api.processes(box)]
    assert not [name for name in names if "sync" in name], names


def test_callers_that_are_killed_do_no_harm(api, box):
    out = api.sh(box, "for i in $(seq 60); do sync & kill -9 $!; done; wait; sync; echo alive", timeout=60)
    assert out.endswith("alive\n")


def test_killing_everybody_leaves_sync_working(api, box):
    """Root inside may kill what it can reach while calls are under way."""
    api.background(box, "while :; do sync; done")
    for _ in range(5):
        api.exec(box, ["python3", "-c", "import os; os.kill(-1, 9)"])
    wait_until(lambda: api.exec(box, "sync; echo alive")["stdout"] == "alive\n", what="sync to work again")
