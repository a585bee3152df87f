"""cgroup v2: sandboxes are in the part of the tree that was delegated, and nowhere else."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest
from cay_harness import read_text, wait_until

TOP = Path("/sys/fs/cgroup")

pytestmark = [pytest.mark.core, pytest.mark.alone, pytest.mark.skipif("memory" not in read_text(TOP / "cgroup.controllers"), reason="needs cgroup v2 with its controllers")]


@pytest.fixture
def group():
    """One as a service manager makes it."""
    (TOP / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    path = TOP / f"cay-test-{os.getpid()}.service"
    path.mkdir()
    yield path
    for leaf in ("daemon", "."):
        with contextlib.suppress(FileNotFoundError):
            wait_until(lambda leaf=leaf: not read_text(path / leaf / "cgroup.procs"))
            (path / leaf).rmdir()


def into(group):
    """For a process that is about to be started."""
    return lambda: (group / "cgroup.procs").write_text(str(os.getpid()))


def group_of(pid):
    return next(line[3:] for line in read_text(f"/proc/{pid}/cgroup").splitlines() if line.startswith("0::"))


def check_sandbox(daemon, place):
    with daemon.api() as api:
        id = api.create(memory=64)["id"]
        assert group_of(daemon.agent_pid(id)) == f"{place}/{daemon.cgroup_name()}/{id}/agent"
        assert "0::/" in api.sh(id, "cat /proc/self/cgroup").split("\n")
        assert api.exec(id, "python3 -c 'bytearray(200 << 20)'")["reason"] == "oom"
        api.post(f"/sandboxes/{id}/pause").ok()
        api.post(f"/sandboxes/{id}/resume").ok()
        weight = TOP / str(place).lstrip("/") / daemon.cgroup_name() / id / "agent" / "cpu.weight"
        assert int(weight.read_text()) > 100
        api.remove(id)


def test_a_delegated_group_is_used_and_its_processes_make_room(daemon_of, group):
    os.setxattr(group, "user.delegate", b"1")
    own = daemon_of()
    own.start(preexec_fn=into(group))
    assert group_of(own.pid) == f"/{group.name}/daemon"
    check_sandbox(own, f"/{group.name}")
    assert not (TOP / own.cgroup_name()).exists()
    # The next daemon may be put into the leaf, or into the group, which has none of its own now.
    own.stop()
    own.start(preexec_fn=into(group / "daemon"))
    check_sandbox(own, f"/{group.name}")
    own.destroy()


def test_a_group_that_was_named_is_used_and_its_holder_makes_room(daemon_of, group):
    holder = subprocess.Popen(["sleep", "1000"], preexec_fn=into(group))
    try:
        own = daemon_of(env={"CAY_CGROUP": f"/{group.name}"}).start()
        assert group_of(holder.pid) == f"/{group.name}/daemon"
        check_sandbox(own, f"/{group.name}")
        own.destroy()
    finally:
        holder.kill()
        holder.wait()


def test_one_that_was_not_delegated_is_left_alone(daemon_of, group):
    own = daemon_of()
    own.start(preexec_fn=into(group))
    assert group_of(own.pid) == f"/{group.name}"
    check_sandbox(own, "")
    own.destroy()


def test_a_group_that_is_not_there_stops_the_start(daemon_of):
    own = daemon_of(env={"CAY_CGROUP": "/cay-test-none.service"})
    status, said = own.refused()
    assert status == 1 and "CAY_CGROUP" in said
