"""What lasts, cut off anywhere: the old state or the new one, whole, and nothing left on the host.

Each operation is run once undisturbed, for its length, and then again and again with the daemon killed (-9) at moments spread over
that length; and each step of a launch fails once under a start."""

import contextlib
import http.client
import os
import random
import re
import signal
import subprocess
import threading
import time

import pytest

from cay_harness import read_text, wait_until
from cay_ledger import Ledger, settled_ledger, wait_for_ledger
from test_faults import BESIDE, STEPS

pytestmark = [pytest.mark.full, pytest.mark.counts_rows]

MOMENTS = int(os.environ.get("CAY_KILLS", "8"))
SIZE = 300  # files of a generation, so that copying them takes a while

# A generation of files is told from a mix of two.
WRITE = ('mkdir -p /root/g; cd /root/g; i=0; while [ $i -lt %d ]; do echo {0} >f$i; i=$((i+1)); done; '
         'head -c 3000000 /dev/zero | tr "\\0" {0} >large; sync') % SIZE
LOOK = 'cd /root/g; cat f* | sort -u | tr -d "\\n"; ls | wc -l | tr -d "\\n"; tr -d "\\0" <large | head -c1'


def write(api, id, letter):
    api.sh(id, WRITE.format(letter))


def generation(api, id):
    """The letter of all files in it."""
    seen = api.sh(id, LOOK)
    letter = seen[0]
    assert seen == f"{letter}{SIZE + 1}{letter}", f"a mix: {seen!r}"
    return letter


class Killed:
    """Runs an operation with the daemon killed after some time; .status is what its caller was told, or None."""

    def __init__(self, daemon, call, after):
        self.status = self.json = None

        def run():
            with daemon.api(timeout=60) as mine, contextlib.suppress(OSError, http.client.HTTPException):
                reply = call(mine)
                self.json, self.status = reply.json, reply.status

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(after)  # the moment of the crash is the test's input
        daemon.kill9()
        thread.join()
        daemon.start()


def length_of(call, api):
    began = time.monotonic()
    reply = call(api)
    took = time.monotonic() - began
    assert reply.status == 200, reply.body
    return took, reply.json


def moments(took):
    """From the first instant to a little after the end."""
    return [took * 1.2 * i / (MOMENTS - 1) for i in range(MOMENTS)]


@pytest.fixture
def kept(daemon_of):
    """A daemon that makes nothing ahead, so that what is there is what was asked for."""
    return daemon_of(env={"CAY_POOL": 0}).start()


def state_of(api, id, *allowed):
    status = api.sandbox(id)["status"]
    assert status in allowed, status
    return status


def test_stop_that_is_cut_off(kept):
    def stop(api):
        return api.post(f"/sandboxes/{id}/stop")

    with kept.api() as api:
        id = api.create(entrypoint=["sleep", "1000"])["id"]
        write(api, id, "a")
        took, _ = length_of(stop, api)
        api.post(f"/sandboxes/{id}/start").ok()
        for after in moments(took):
            done = Killed(kept, stop, after)
            status = state_of(api, id, "running", "stopped")
            assert done.status != 200 or status == "stopped", "it was told that it is stopped"
            if status == "running":  # its main process may have been asked to end, and that is told
                runs = [p for p in api.processes(id) if p["command"] == "sleep 1000"]
                wait_until(lambda: runs or "exitCode" in api.sandbox(id)["entrypointState"], what="the main's end")
                api.post(f"/sandboxes/{id}/stop").ok()
            assert not agents_of(kept, id)
            api.post(f"/sandboxes/{id}/start").ok()
            assert generation(api, id) == "a"
        api.remove(id)


def agents_of(daemon, id):
    try:
        return daemon.agent_pid(id)
    except AssertionError:
        return None


def test_start_that_is_cut_off(kept):
    def start(api):
        return api.post(f"/sandboxes/{id}/start")

    with kept.api() as api:
        id = api.create(entrypoint=["sleep", "1000"])["id"]
        write(api, id, "a")
        api.post(f"/sandboxes/{id}/stop").ok()
        took, _ = length_of(start, api)
        for after in moments(took):
            api.post(f"/sandboxes/{id}/stop").ok()
            done = Killed(kept, start, after)
            status = state_of(api, id, "running", "stopped")
            assert done.status != 200 or status == "running", "it was told that it runs"
            if status == "stopped":
                assert not agents_of(kept, id)
                api.post(f"/sandboxes/{id}/start").ok()
            wait_until(lambda: [p for p in api.processes(id) if p["command"] == "sleep 1000"], what="its entrypoint")
            assert generation(api, id) == "a"
        api.remove(id)


def test_a_launch_that_fails_leaves_a_stopped_sandbox_stopped(daemon_of):
    """Each step of it, under a start; the same disk can be started afterwards."""
    daemon = daemon_of(env={"CAY_POOL": 0}).start()
    with daemon.api() as api:
        id = api.create()["id"]
        write(api, id, "a")
        api.post(f"/sandboxes/{id}/stop").ok()
        daemon.stop()
        before = settled_ledger()
        for step in [s for s in STEPS if s != "wait for the start"] + BESIDE:
            daemon.extra["CAY_FAULT"] = step
            daemon.start()
            reply = api.post(f"/sandboxes/{id}/start")
            assert reply.status == 500, (step, reply.body)
            assert api.sandbox(id)["status"] == "stopped", step
            assert not agents_of(daemon, id), step
            daemon.stop()
            wait_for_ledger(before)
        del daemon.extra["CAY_FAULT"]
        daemon.start()
        api.post(f"/sandboxes/{id}/start").ok()
        assert generation(api, id) == "a"
        api.remove(id)


def snapshots(api):
    return api.get("/snapshots").ok()["snapshots"]


def wait_for_empty_store(daemon):
    """Collections of images run beside requests."""
    def left():
        return {part: os.listdir(daemon.data / "images" / part) for part in ("records", "layers", "names")}

    wait_until(lambda: not any(left().values()), 60, f"an empty store: {left()}")


def test_snapshot_that_is_cut_off(kept):
    """One that is listed is whole, whatever its caller heard; of one that is not nothing is left."""
    def take(api):
        return api.post(f"/sandboxes/{id}/snapshots", {})

    with kept.api() as api:
        id = api.create()["id"]
        write(api, id, "a")
        took, one = length_of(take, api)
        api.delete(f"/snapshots/{one['id']}").ok()
        for i, after in enumerate(moments(took)):
            letter = "abcdefghijklmnopqrstuvwxyz"[i % 26]
            write(api, id, letter)
            done = Killed(kept, take, after)
            listed = snapshots(api)
            assert len(listed) <= 1
            if done.status == 200:
                assert [s["id"] for s in listed] == [done.json["id"]], "one that was told of is lost"
            assert api.sandbox(id)["status"] == "running"
            assert generation(api, id) == letter  # and it is not frozen
            for s in listed:
                twin = api.post(f"/snapshots/{s['id']}/clone", {}).ok()["id"]
                assert generation(api, twin) == letter
                api.remove(twin)
                api.delete(f"/snapshots/{s['id']}").ok()
            wait_for_empty_store(kept)
        api.remove(id)


@pytest.mark.parametrize("of", ["sandbox", "snapshot"])
def test_clone_that_is_cut_off(kept, of):
    with kept.api() as api:
        id = api.create()["id"]
        write(api, id, "a")
        source = f"/sandboxes/{id}"
        if of == "snapshot":
            source = f"/snapshots/{api.post(f'/sandboxes/{id}/snapshots', {}).ok()['id']}"

        def clone(api):
            return api.post(f"{source}/clone", {})

        took, one = length_of(clone, api)
        api.remove(one["id"])
        for after in moments(took):
            done = Killed(kept, clone, after)
            twins = [i for i in api.ids() if i != id]
            assert len(twins) <= 1
            if done.status == 200:
                assert twins == [done.json["id"]], "a clone that was told of is lost"
            for twin in twins:
                assert api.sandbox(twin)["status"] == "running"
                assert generation(api, twin) == "a"
                api.remove(twin)
            assert generation(api, id) == "a"
        if of == "snapshot":
            api.delete(source).ok()
        api.remove(id)
        wait_for_empty_store(kept)
    assert not any("/snapshots/" in path for path in Ledger().items["documents"])


def test_restore_that_is_cut_off(kept):
    """The files are those of before or those of the snapshot, never some of each; what was told is so."""
    def restore(api):
        return api.post(f"/sandboxes/{id}/snapshots/restore", {"snapshotId": one})

    with kept.api() as api:
        id = api.create(metadata={"a": "b"})["id"]
        write(api, id, "s")
        one = api.post(f"/sandboxes/{id}/snapshots", {}).ok()["id"]
        write(api, id, "a")
        took, _ = length_of(restore, api)
        assert generation(api, id) == "s"
        for after in moments(took):
            write(api, id, "a")
            done = Killed(kept, restore, after)
            status = state_of(api, id, "running", "stopped")
            if status == "stopped":
                assert done.status != 200, "it was told that it runs"
                assert not agents_of(kept, id)
                api.post(f"/sandboxes/{id}/start").ok()
            now = generation(api, id)
            assert now == "s" if done.status == 200 or status == "stopped" else now in "as"
            assert api.sandbox(id)["metadata"] == {"a": "b"}
        api.delete(f"/snapshots/{one}")
        assert generation(api, id) in "as"  # it stands on what the snapshot was, which stays for it
        api.remove(id)
        if snapshots(api):
            api.delete(f"/snapshots/{one}").ok()
        wait_for_empty_store(kept)


@pytest.mark.parametrize("step", [STEPS[0], "attach the root filesystem", STEPS[-1], "equip"])
def test_a_launch_that_fails_under_a_restore_leaves_the_snapshot_s_files(daemon_of, step):
    daemon = daemon_of(env={"CAY_POOL": 0}).start()
    with daemon.api() as api:
        id = api.create()["id"]
        write(api, id, "s")
        one = api.post(f"/sandboxes/{id}/snapshots", {}).ok()["id"]
        write(api, id, "a")
        daemon.extra["CAY_FAULT"] = step
        daemon.restart()
        assert api.post(f"/sandboxes/{id}/snapshots/restore", {"snapshotId": one}).status == 500
        was = state_of(api, id, "running", "stopped")
        twins = api.post(f"/snapshots/{one}/clone", {})
        assert twins.status == 500 and api.ids() == [id]
        del daemon.extra["CAY_FAULT"]
        daemon.restart()
        if was == "stopped":
            api.post(f"/sandboxes/{id}/start").ok()
        assert generation(api, id) == ("s" if was == "stopped" else "a")
        api.remove(id)
        api.delete(f"/snapshots/{one}").ok()


# ---- volumes ----


def mounts_in(api, id, path="/vol"):
    return [line for line in api.sh(id, "cat /proc/self/mountinfo").splitlines() if line.split()[4] == path]


@pytest.fixture
def volume(kept):
    with kept.api() as api:
        one = api.post("/volumes", {"name": "kept", "sizeMb": 32}).ok()
        api.post(f"/volumes/{one['id']}/files/write", {"path": "mark", "content": "in the volume"}).ok()
        yield one["id"]
    with kept.api() as api:
        api.delete(f"/volumes/{one['id']}").ok()


def is_attached(api, id):
    """The same by what the sandbox says and by what is in it, whether it runs on or is started again."""
    told = bool(api.sandbox(id)["config"].get("mounts"))
    assert told == bool(mounts_in(api, id)), (api.sandbox(id), mounts_in(api, id))
    if told:
        assert api.sh(id, "cat /vol/mark") == "in the volume"
    return told


def detach(api, volume, id):
    return api.post(f"/volumes/{volume}/detach", {"sandboxId": id, "mountPath": "/vol"})


def attach(api, volume, id):
    return api.post(f"/volumes/{volume}/attach", {"sandboxId": id, "mountPath": "/vol"})


@pytest.mark.parametrize("what", [attach, detach], ids=["attach", "detach"])
def test_attach_and_detach_that_are_cut_off(kept, volume, what):
    other = detach if what is attach else attach
    with kept.api() as api:
        id = api.create()["id"]
        if what is detach:
            attach(api, volume, id).ok()
        took, _ = length_of(lambda api: what(api, volume, id), api)
        for after in moments(took):
            if is_attached(api, id) == (what is attach):
                other(api, volume, id).ok()
            done = Killed(kept, lambda api: what(api, volume, id), after)
            now = is_attached(api, id)
            if done.status == 200:
                assert now == (what is attach), "what was told is not so"
            api.post(f"/sandboxes/{id}/stop").ok()
            api.post(f"/sandboxes/{id}/start").ok()
            assert is_attached(api, id) == now
        api.remove(id)


def test_a_launch_that_fails_with_a_volume_leaves_it_unused(daemon_of):
    daemon = daemon_of(env={"CAY_POOL": 0}).start()
    with daemon.api() as api:
        volume = api.post("/volumes", {"name": "kept", "sizeMb": 32}).ok()["id"]
        for step in ("attach the root filesystem", STEPS[-1], "equip"):
            daemon.extra["CAY_FAULT"] = step
            daemon.restart()
            reply = api.try_create(volumes=[{"name": "kept", "mountPath": "/vol"}])
            assert reply.status == 500 and api.ids() == [], (step, reply.body)
        api.delete(f"/volumes/{volume}").ok()
    assert not any("/volumes/" in path for path in Ledger().items["documents"])


# ---- templates ----


def test_template_build_that_is_cut_off(kept):
    """There is a template whose sandboxes have all of it, or none; no sandbox of a build stays."""
    count = iter(range(1000))
    ours = []

    def make(api):
        name = f"t{next(count)}"
        ours.append(name)
        return api.post("/templates", {"name": name, "config": {
            "image": "host", "files": [{"path": "/srv/name", "content": name}],
            "setup": [f"echo {name} >/srv/one", "cat /srv/one /srv/name >/srv/two"]}})

    with kept.api(timeout=60) as api:
        took, one = length_of(make, api)
        for after in [*moments(took)]:
            done = Killed(kept, make, after)
            wait_until(lambda: api.ids() == [], 60, "the sandboxes of a build to go")
            listed = {t["name"]: t for t in api.get("/templates").ok()["templates"] if t["name"] in ours}
            assert done.status != 200 or ours[-1] in listed, "a template that was told of is lost"
            for name in listed:
                reply = api.post("/sandboxes", {"template": name})
                box = reply.ok()["id"]
                assert api.sh(box, "cat /srv/two") == f"{name}\n{name}"
                api.remove(box)
                api.delete(f"/templates/{name}").ok()
    left = [p for p in Ledger().items["images"] if "tmp_" in p]
    assert not left, left


def test_kill_9_under_a_mixed_load_of_all_of_them(daemon_of):
    """Rounds of everything at once, with the daemon killed somewhere in between."""
    daemon = daemon_of(env={"CAY_POOL": 1, "CAY_MAX_SANDBOXES": 60}).start()
    rng = random.Random(11)
    with daemon.api() as api:
        api.post("/volumes", {"name": "shared", "sizeMb": 32}).ok()
        api.post("/volumes/shared/files/write", {"path": "mark", "content": "in the volume"}).ok()

    def load(stop, seed):
        mine = random.Random(seed)
        with daemon.api(timeout=60) as api:
            while not stop.is_set():
                with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
                    ids, snaps = api.ids(), snapshots(api)
                    one = mine.choice(ids) if ids else None
                    what = mine.choice(["create", "stop", "start", "snapshot", "clone", "from", "delete", "remove",
                                        "restore", "attach", "detach"])
                    if what == "create" or not one:
                        api.try_create(patches=[{"type": "text", "path": "/root/mark", "content": "whole"}])
                    elif what == "remove" and len(ids) > 4:
                        api.delete(f"/sandboxes/{one}")
                    elif what in ("stop", "start", "clone"):
                        api.post(f"/sandboxes/{one}/{what}", {})
                    elif what == "snapshot":
                        api.post(f"/sandboxes/{one}/snapshots", {})
                    elif what == "from" and snaps:
                        api.post(f"/snapshots/{mine.choice(snaps)['id']}/clone", {})
                    elif what == "restore" and snaps:
                        api.post(f"/sandboxes/{one}/snapshots/restore", {"snapshotId": mine.choice(snaps)["id"]})
                    elif what in ("attach", "detach"):
                        api.post(f"/volumes/shared/{what}", {"sandboxId": one, "mountPath": "/vol"})
                    elif what == "delete" and snaps:
                        api.delete(f"/snapshots/{mine.choice(snaps)['id']}")

    for _ in range(MOMENTS):
        stop = threading.Event()
        threads = [threading.Thread(target=load, args=(stop, rng.random())) for _ in range(3)]
        [t.start() for t in threads]
        stop.wait(rng.uniform(0.1, 1.0))  # the moment of the crash is the test's input
        stop.set()
        daemon.kill9()
        [t.join() for t in threads]
        daemon.start()
        with daemon.api() as api:
            for id in api.ids():
                if state_of(api, id, "running", "stopped") == "stopped":
                    api.post(f"/sandboxes/{id}/start").ok()
                assert api.sh(id, "cat /root/mark") == "whole"
                is_attached(api, id)
            for s in snapshots(api):
                twin = api.post(f"/snapshots/{s['id']}/clone", {}).ok()["id"]
                assert api.sh(twin, "cat /root/mark") == "whole"
                api.remove(twin)
            for id in api.ids()[8:]:
                api.remove(id)
            for s in snapshots(api)[3:]:
                api.delete(f"/snapshots/{s['id']}").ok()
    with daemon.api() as api:
        for s in snapshots(api):
            api.delete(f"/snapshots/{s['id']}").ok()
        for id in api.ids():
            api.remove(id)
        api.delete("/volumes/shared").ok()
    wait_for_empty_store(daemon)


# ---- calls of the kernel that fail ----

FAILURES = ["fdatasync:error=EIO", "openat:error=EMFILE", "renameat,renameat2:error=ENOSPC", "mkdirat,mkdir:error=ENOSPC",
            "fsmount,move_mount,open_tree:error=ENOMEM", "sendmsg:error=ENOMEM", "pwrite64:error=EIO", "write:error=ENOSPC",
            "ioctl:error=ENOMEM", "linkat,symlinkat:error=ENOSPC"]


def disk_full(daemon):
    """No row can be written."""
    return failing(daemon, "pwrite64:error=ENOSPC", "1+")


def tracers(pid):
    """Who watches each of its threads; 0 = nobody."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        found = re.search(r"TracerPid:\s(\d+)", read_text(f"/proc/{pid}/task/{thread}/status"))
        if found:
            yield int(found[1])


@contextlib.contextmanager
def injected(pid, what):
    """System calls of a process, its threads and children are changed as strace's inject=WHAT says."""
    tracer = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-e", f"trace={what.split(':')[0]}",
                               "-e", f"inject={what}", "-p", str(pid)],
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        assert b"attached" in tracer.stderr.readline()
        wait_until(lambda: set(tracers(pid)) == {tracer.pid}, what="all threads to be watched")
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        try:
            tracer.communicate(timeout=1)
        except subprocess.TimeoutExpired:  # it waits for a thread that waits for a child, which it has stopped
            tracer.kill()
            tracer.communicate()


def failing(daemon, what, nth):
    """Of each thread of the daemon the nth such call fails, once."""
    return injected(daemon.pid, f"{what}:when={nth}")


def started(api, id):
    """False while what failed is still being cleaned up, which a caller is told to wait for."""
    reply = api.post(f"/sandboxes/{id}/start")
    if reply.status == 503 and reply.json["code"] in ("sandbox_busy", "launcher_lost"):
        return False
    return reply.ok()


def as_before(api, id, volume, letters):
    """Whatever has happened: it can be used, has files of one kind, and is brought back to how it was."""
    if state_of(api, id, "running", "stopped") == "stopped":
        wait_until(lambda: started(api, id), what="a start")
    assert generation(api, id) in letters
    if is_attached(api, id):
        detach(api, volume, id).ok()
    for twin in api.ids():
        if twin != id:
            assert api.sandbox(twin)["status"] == "running"
            assert generation(api, twin) in letters
            api.remove(twin)


OPERATIONS = {
    "stop": lambda api, id, volume, snap: api.post(f"/sandboxes/{id}/stop"),
    "start": lambda api, id, volume, snap: api.post(f"/sandboxes/{id}/start"),
    "snapshot": lambda api, id, volume, snap: api.post(f"/sandboxes/{id}/snapshots", {}),
    "restore": lambda api, id, volume, snap: api.post(f"/sandboxes/{id}/snapshots/restore", {"snapshotId": snap}),
    "clone": lambda api, id, volume, snap: api.post(f"/sandboxes/{id}/clone", {}),
    "attach": lambda api, id, volume, snap: attach(api, volume, id),
    "detach": lambda api, id, volume, snap: detach(api, volume, id),
}


@pytest.mark.needs("program:strace")
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_whose_calls_of_the_kernel_fail(kept, volume, name):
    failed = 0
    with kept.api(timeout=60) as api:
        id = api.create()["id"]
        write(api, id, "s")
        snap = api.post(f"/sandboxes/{id}/snapshots", {}).ok()["id"]
        for what in FAILURES:
            for nth in (1, 2):
                if name == "start":
                    api.post(f"/sandboxes/{id}/stop").ok()
                if name == "detach":
                    attach(api, volume, id).ok()
                with failing(kept, what, nth), kept.api(timeout=60) as mine:
                    with contextlib.suppress(OSError, http.client.HTTPException):
                        failed += OPERATIONS[name](mine, id, volume, snap).status != 200
                assert kept.running(), what
                for one in snapshots(api):
                    if one["id"] != snap:
                        api.delete(f"/snapshots/{one['id']}").ok()
                as_before(api, id, volume, "s")
        assert failed, "no call failed"
        kept.restart()
        as_before(api, id, volume, "s")
        api.delete(f"/snapshots/{snap}").ok()
        api.remove(id)
        wait_for_empty_store(kept)


@pytest.mark.needs("program:strace")
def test_a_folder_that_cannot_be_read_costs_no_images_and_no_files(kept):
    """What is not seen there is not gone: no image goes with it, and no snapshot is without it."""
    with kept.api(timeout=60) as api:
        id = api.create()["id"]
        write(api, id, "s")
        api.post(f"/sandboxes/{id}/commit", {"name": "named:1"}).ok()
        failed = 0
        for nth in range(1, 8):
            with failing(kept, "getdents64:error=EIO", nth), kept.api(timeout=60) as mine:
                taken = mine.post(f"/sandboxes/{id}/snapshots", {})
                for one in snapshots(mine) if taken.status == 200 else []:
                    mine.delete(f"/snapshots/{one['id']}")  # which collects what nobody needs
            failed += taken.status != 200
            other = api.post(f"/sandboxes/{id}/snapshots", {}).ok()["id"]
            with failing(kept, "getdents64:error=EIO", nth), kept.api(timeout=60) as mine:
                mine.delete(f"/snapshots/{other}")
            twin = api.create(image="named:1")["id"]
            assert generation(api, twin) == "s"
            api.remove(twin)
            with failing(kept, "getdents64:error=EIO", nth), kept.api(timeout=60) as mine:
                told = mine.get(f"/sandboxes/{id}/diff")
            if told.status == 200:
                assert len([c for c in told.json["changes"] if c["path"].startswith("/root/g/")]) == SIZE + 1
            failed += told.status != 200
        assert failed, "no call failed"
        for one in snapshots(api):
            api.delete(f"/snapshots/{one['id']}").ok()
        api.remove(id)
        api.delete("/images/named:1").ok()
        wait_for_empty_store(kept)


@pytest.mark.needs("program:strace")
@pytest.mark.parametrize("what", ["read:error=EIO", "recvmsg:error=ENOMEM"])
def test_a_detach_that_cannot_see_or_hear_tells_how_it_is(kept, volume, what):
    """What is mounted could not be read to its end, or the launcher's word that it is done was lost."""
    failed = 0
    with kept.api(timeout=60) as api:
        id = api.create()["id"]
        for nth in range(1, 16):
            if nth > 5 and (failed or what.startswith("recvmsg")):
                break  # else the threads had their first ones before they got this call
            attach(api, volume, id).ok()
            with failing(kept, what, nth), kept.api(timeout=60) as mine:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    failed += detach(mine, volume, id).status != 200
            wait_until(lambda: api.exec(id, "true")["exitCode"] == 0)
            if is_attached(api, id):
                wait_until(lambda: detach(api, volume, id).status == 200, what="the launcher")
        api.remove(id)
    assert failed or what.startswith("recvmsg"), "no call failed"
