"""The harness itself: the ledger that ends every test must see what a sandbox leaves."""

import collections
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import cay_ledger
from cay_harness import REPO, Leak, pids, read_text, wait_until
from cay_ledger import Ledger, cgroup_parents, settled_ledger, wait_for_ledger
from cay_world import needs_network

pytestmark = pytest.mark.core


def test_the_ledger_sees_each_kind_of_thing(own):
    before = settled_ledger()

    def grown():
        after = Ledger()
        return {kind for kind in after.items if after.items[kind] - before.items[kind]}

    with own.api() as api:
        id = api.create()["id"]
        api.background(id, "exec sleep 1000")
        # A create takes a prepared id; it is one more of each when that has been replaced.
        wait_until(lambda: {"cgroups", "ids", "processes", "namespaces"} <= grown(),
                   what="one more of each kind")
        api.remove(id)


@needs_network
def test_the_ledger_sees_what_a_network_leaves(online_of):
    own = online_of().start()
    with own.api() as api:
        api.remove(api.create(network=True)["id"])  # its gateway is there now
        wait_until(lambda: not own.crossroads(), what="it to be gone")
        before = settled_ledger()
        id, net = api.create(network=True)["id"], api.post("/networks", {"name": "led"}).ok()["id"]
        api.post(f"/networks/{net}/connect", {"sandboxId": id}).ok()
        api.exec(id, "curl -s --max-time 5 http://10.0.0.1/")
        wait_until(lambda: list((own.data / "netlog").iterdir()), what="a line for what was refused")
        after = Ledger()
        kinds = after.items["crossroads"] - before.items["crossroads"]
        assert {"link", "route", "element of policy4"} <= set(kinds), kinds
        new = after.items["documents"] - before.items["documents"]
        assert {path.split("/")[-2] for path in new} == {"networks", "netlog"}, new
        api.remove(id)
        api.delete(f"/networks/{net}").ok()
        wait_until(lambda: Ledger() == before, what="all of it to go")


@pytest.fixture
def still(daemon_of):
    """A daemon that makes nothing ahead, which would be seen as well."""
    return daemon_of(env={"CAY_POOL": 0}).start()


def test_the_ledger_sees_what_is_in_the_image_store(still):
    own, before = still, settled_ledger()
    for path in ("layers/" + "0" * 64, "layers/tmp_left", "records/" + "0" * 64 + ".json", "names/x:1.json"):
        left = own.data / "images" / path
        left.mkdir()
        said = Ledger().compared_with(before)
        left.rmdir()
        assert said.startswith("images: 1 more: ") and said.endswith(path.replace("tmp_left", "tmp_*"))
    assert Ledger() == before


def test_the_ledger_sees_what_documents_there_are(still):
    own, before = still, settled_ledger()
    for path in ("snapshots/snap_1.json", "volumes/vol_1.img", "templates/tmp_left", "builds/" + "0" * 64 + ".json"):
        left = own.data / path
        left.parent.mkdir(exist_ok=True)
        whole = Ledger()
        left.touch()
        assert Ledger().compared_with(whole) == f"documents: 1 more: {left}"
        left.unlink()
        if not os.listdir(left.parent) and str(left.parent) not in before.items["folders"]:
            left.parent.rmdir()
    assert Ledger() == before


# ---- one planted leak of each kind, and the words of the find ----


@contextlib.contextmanager
def planted_mount(own):
    subprocess.run(["mount", "-t", "tmpfs", "planted", own.run], check=True)
    try:
        yield f"mounts: 1 more: {own.run}"
    finally:
        subprocess.run(["umount", own.run], check=True)


@contextlib.contextmanager
def planted_cgroup(own):
    path = f"{cgroup_parents(own)[0]}/planted"
    os.mkdir(path)
    try:
        yield f"cgroups: 1 more: {path}"
    finally:
        os.rmdir(path)


@contextlib.contextmanager
def planted_loop(own):
    image = own.root / "planted.img"
    with open(image, "wb") as f:
        f.truncate(1 << 20)
    device = subprocess.run(["losetup", "--find", "--show", image], check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield f"loops: 1 more: {image}"
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextlib.contextmanager
def planted_id_range(own):
    link = f"/run/cay.ids/planted-{os.getpid()}"
    os.symlink(own.data, link)
    try:
        yield "ids: 1 more: range"
    finally:
        os.unlink(link)


@contextlib.contextmanager
def planted_folder(own):
    (own.run / "planted").mkdir()
    try:
        yield f"folders: 1 more: {own.run}/planted"
    finally:
        (own.run / "planted").rmdir()


@contextlib.contextmanager
def child(*argv):
    """A process, which does not outlive the block, however that ends."""
    with subprocess.Popen(argv) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def planted_child(_):
    with child("sleep", "1000"):
        yield "processes: 1 more: sleep"


@contextlib.contextmanager
def orphan(own, program):
    """A program whose process has left the tests' own tree and is in a cgroup of the daemon, as a process of a sandbox is."""
    procs = f"{cgroup_parents(own)[0]}/planted/cgroup.procs"
    os.mkdir(os.path.dirname(procs))
    try:
        with child("sh", "-c", f'setsid sh -c "echo \\$\\$ >{procs}; exec {program}" >/dev/null 2>&1 & wait'):
            wait_until(lambda: read_text(procs), what="the orphan in its cgroup")
        pid = int(read_text(procs).split()[0])
        wait_until(lambda: read_text(f"/proc/{pid}/comm") == f"{program.split()[0]}\n", what="its program")
        yield pid
    finally:
        for pid in read_text(procs).split():
            os.kill(int(pid), 9)
        wait_until(lambda: not read_text(procs), what="its end")
        os.rmdir(os.path.dirname(procs))


@contextlib.contextmanager
def planted_orphan(own):
    with orphan(own, "sleep 1000"):
        yield "processes: 1 more: sleep"


@contextlib.contextmanager
def planted_zombie_of_an_orphan(own):
    """cgroup.procs does not list it."""
    with orphan(own, "python3 -c 'import os, time; os.fork() or os._exit(0); time.sleep(1000)'") as pid:
        zombie = re.compile(rf"^\d+ \(python3\) Z {pid} ")
        wait_until(lambda: any(zombie.match(read_text(f"/proc/{other}/stat")) for other in pids()), what="its zombie")
        yield "zombies: 1 more: python3"


@contextlib.contextmanager
def planted_namespace(_):
    with child("unshare", "--uts", "sleep", "1000") as process:
        wait_until(lambda: read_text(f"/proc/{process.pid}/comm") == "sleep\n", what="its program")
        yield "namespaces: 1 more: uts"


@contextlib.contextmanager
def planted_zombie(_):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        yield f"zombies: 1 more: {read_text('/proc/self/comm').strip()}"
    finally:
        os.waitpid(pid, 0)


@contextlib.contextmanager
def planted_descriptor(own):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(own.socket_path))
        yield "daemon fds: 1 more: socket"


@pytest.mark.parametrize("plant", [planted_mount, planted_cgroup, planted_loop, planted_id_range, planted_folder, planted_child,
                                   planted_orphan, planted_zombie_of_an_orphan, planted_namespace, planted_zombie, planted_descriptor],
                         ids=lambda plant: plant.__name__)
def test_a_planted_leak_is_found(still, plant):
    before = settled_ledger()
    with plant(still) as words:
        wait_until(lambda: Ledger() != before, what=words)
        with pytest.raises(Leak) as found:
            wait_for_ledger(before, timeout=0)
        assert words in str(found.value)
    wait_for_ledger(before)


LEAKY_CASES = """
import subprocess
import pytest
pytestmark = pytest.mark.core

def test_clean():
    pass

def test_leaves_a_process(tmp_path_factory):
    left = subprocess.Popen(["sleep", "1000"])
    (tmp_path_factory.getbasetemp().parent / "pid").write_text(str(left.pid))

def test_after_it():
    pass
"""


def test_a_leak_fails_its_case_for_good(tmp_path):
    """A pytest of its own, with the fixtures of this suite: the case that leaves a process behind fails, and may not run again."""
    sys.path.insert(0, str(REPO / "tools"))
    from checks.results import read_junit
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom cay_fixtures import *\n")
    (tmp_path / "test_leaky.py").write_text(LEAKY_CASES)
    # A leak is reported after 60 s; here after 0.6 s.
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, "--basetemp", tmp_path / "base",
                           "--junitxml", tmp_path / "results.xml", tmp_path / "test_leaky.py"],
                          env={**os.environ, "CAY_TEST_SLOW": "0.01"}, cwd=tmp_path, capture_output=True, text=True)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert done.returncode == 1, done
    cases = {case.name.split("::")[1]: case for case in read_junit("core", tmp_path / "results.xml")}
    assert {name: case.outcome for name, case in cases.items()} == \
        {"test_clean": "passed", "test_leaves_a_process": "failed", "test_after_it": "passed"}, done.stdout
    assert cases["test_leaves_a_process"].final == "a leak on the host" and "processes: 1 more: sleep" in done.stdout


@contextlib.contextmanager
def stranger(own, tmp_path):
    """What a daemon of another run has on the host: yields its folders, and the pids of its processes."""
    group = Path(os.path.dirname(cgroup_parents(own)[0])) / f"stranger-{os.getpid()}"
    boxes = [group / f"box{n}" for n in range(10)]
    data = tmp_path / "cay-test-stranger" / "data" / "sandboxes"
    data.mkdir(parents=True)
    for n in range(100):
        (data / f"box{n}").touch()
    with contextlib.ExitStack() as stack:
        for path in (group, *boxes):
            path.mkdir()
            stack.callback(path.rmdir)

        def members():
            return [int(pid) for box in boxes for pid in read_text(box / "cgroup.procs").split()]

        def end():
            for pid in members():
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not members(), what="the end of its processes")

        stack.callback(end)
        for box in boxes:  # its parent has ended when this returns, so that it is no descendant of the tests
            subprocess.run(["sh", "-c", f"setsid sh -c 'echo $$ >{box}/cgroup.procs; exec sleep 1000' >/dev/null 2>&1 &"], check=True)
        wait_until(lambda: len(members()) == len(boxes), what="its processes")
        yield (str(group), str(data)), members()


def paths_of_one_look(monkeypatch):
    """How often a look opens, lists or follows each path."""
    seen = collections.Counter()

    def counted(call):
        def counting(path=".", *args, **how):
            seen[str(path)] += 1
            return call(path, *args, **how)
        return counting

    with monkeypatch.context() as patch:
        for module, name in ((cay_ledger, "read_text"), (cay_ledger, "read_link"), (os, "listdir"), (os, "scandir")):
            patch.setattr(module, name, counted(getattr(module, name)))
        Ledger()
    return seen


def test_a_look_reads_nothing_of_other_daemons(still, tmp_path, monkeypatch):
    """Of a process that is not ours only the line that says its parent, and of folders and cgroups nothing."""
    with stranger(still, tmp_path) as (folders, others):
        seen = paths_of_one_look(monkeypatch)
        assert seen[f"/proc/{still.pid}/stat"] == 1 and seen[str(still.data)] >= 1 and any(map(seen.get, cgroup_parents(still)))
        assert {path: n for path, n in seen.items() if path.startswith(folders)} == {}
        for pid in others:
            assert {path: n for path, n in seen.items() if path.startswith(f"/proc/{pid}/")} == {f"/proc/{pid}/stat": 1}
