"""Files of ours that somebody took away or cut short: what is asked for says so, all else goes on, and the rest can be removed."""

import argparse
import contextlib
import json
import os
import stat

import pytest

from cay_harness import cay, wait_until
from test_launcher import launcher
from test_state_faults import failing, injected
from test_volumes import loops_of

pytestmark = [pytest.mark.core, pytest.mark.counts_rows]


def gone(path):
    path.unlink()


def cut(path):
    os.truncate(path, 100000)


def overwritten(path):
    with open(path, "r+b") as f:
        f.write(bytes(1 << 20))


def folder(path):
    path.unlink()
    path.mkdir()


def attach(api, volume, id):
    return api.post(f"/volumes/{volume}/attach", {"sandboxId": id, "mountPath": "/vol"})


@pytest.mark.parametrize("damage", [gone, cut, overwritten, folder])
def test_a_volume_without_its_file(own, damage):
    with own.api() as api:
        id = api.create()["id"]
        volume = api.post("/volumes", {"name": "v", "sizeMb": 16}).ok()["id"]
        attach(api, volume, id).ok()
        api.post(f"/sandboxes/{id}/stop").ok()
        path = own.data / "volumes" / f"{volume}.img"
        damage(path)
        for _ in range(2):
            api.post(f"/sandboxes/{id}/start").failed(409, "disk_damaged", volume)
            api.post(f"/volumes/{volume}/files/list", {}).failed(409, "disk_damaged")
            api.try_create(volumes=[{"name": "v", "mountPath": "/v"}]).failed(409, "disk_damaged")
            own.restart()
        api.post(f"/volumes/{volume}/detach", {"sandboxId": id}).ok()
        api.post(f"/sandboxes/{id}/start").ok()
        if damage is folder:
            path.rmdir()
        api.delete(f"/volumes/{volume}").ok()
        own.restart()
        assert api.get("/volumes").ok() == {"volumes": []}
        api.remove(id)


@pytest.mark.needs("program:strace")
def test_a_process_that_attached_a_volume_holds_it_no_longer(own):
    """It is in the sandbox's mount namespace. One that is slow to end must not keep the volume mounted after a stop: a start would
    then use the mount that is still there, whatever has become of the file."""
    with own.api() as api:
        id = api.create()["id"]
        volume = api.post("/volumes", {"name": "v", "sizeMb": 16}).ok()["id"]
        with injected(launcher(own), "exit_group:delay_enter=1000000"):
            attach(api, volume, id).ok()
            api.post(f"/sandboxes/{id}/stop").ok()
            assert loops_of(own) == []
            overwritten(own.data / "volumes" / f"{volume}.img")
            api.post(f"/sandboxes/{id}/start").failed(409, "disk_damaged", volume)
        api.remove(id)
        api.delete(f"/volumes/{volume}").ok()


@pytest.mark.parametrize("damage", [gone, cut, overwritten])
def test_a_stopped_sandbox_without_its_disk(own, damage):
    with own.api() as api:
        id = api.create(disk=64)["id"]
        api.post(f"/sandboxes/{id}/stop").ok()
        own.stop()
        damage(own.data / "sandboxes" / f"{id}.img")
        own.start()
        api.post(f"/sandboxes/{id}/start").failed(409, "disk_damaged", id)
        api.file(id, "read", path="/root/x").failed(409, "disk_damaged")
        api.post(f"/sandboxes/{id}/snapshots", {}).failed(409, "disk_damaged")
        assert api.sandbox(id)["status"] == "stopped"
        api.remove(id)


@pytest.mark.needs("program:strace")
@pytest.mark.parametrize("what", ["openat:error=ENOMEM", "fsync:error=EIO"])
def test_a_volume_whose_removal_failed_is_there(own, what):
    """Or it is gone: but not one that is listed and cannot be used."""
    failed = 0
    with own.api(timeout=60) as api:
        for nth in (1, 2, 3, "1+"):  # a thread may have had its first ones before it got this call
            volume = api.post("/volumes", {"name": "v", "sizeMb": 16}).ok()["id"]
            api.post(f"/volumes/{volume}/files/write", {"path": "f", "content": "kept"}).ok()
            with failing(own, what, nth), own.api(timeout=60) as mine:
                failed += mine.delete(f"/volumes/{volume}").status != 200
            if api.get("/volumes").ok()["volumes"]:
                assert api.post(f"/volumes/{volume}/files/read", {"path": "f"}).ok() == "kept"
                api.delete(f"/volumes/{volume}").ok()
            wait_until(lambda: not api.get("/volumes").ok()["volumes"])
            own.restart()
            assert api.get("/volumes").ok() == {"volumes": []}
    assert failed, "no call failed"


# ---- what is no file ----


def fifo(path):
    os.mkfifo(path)


def device(path):
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(5, 1))  # a console, which waits for its reader


def empty_folder(path):
    path.mkdir()


def noise(path):
    path.write_bytes(os.urandom(5000))


WORDS = {fifo: "a FIFO", device: "a device", empty_folder: "a folder"}
# Without these no daemon starts.
NEEDED = ["lock", "cay.db", "cay.db-wal", "cay.db-shm", "proxy.key", "events.db", "jobs.db", "keys.db", "webhooks.db",
          "audit/audit-0000000000000001.jsonl"]


@contextlib.contextmanager
def odd_instead(paths, odd):
    """Something else stands in the place of each file."""
    for path in paths:
        if path.exists():
            path.rename(path.with_name(path.name + ".kept-by-test"))
        odd(path)
    try:
        yield
    finally:
        for path in paths:
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
            for aside in path.parent.glob(path.name + ".*"):
                if aside.name.endswith(".kept-by-test"):
                    aside.rename(path)
                elif aside.is_dir():
                    aside.rmdir()
                else:
                    aside.unlink()


@pytest.fixture
def killed(own):
    """Of a daemon that was killed: its sandboxes (one runs, one is stopped), a snapshot, a volume, a token."""
    with own.api() as api:
        made = argparse.Namespace(runs=api.create()["id"], stopped=api.create()["id"])
        api.post(f"/sandboxes/{made.stopped}/stop").ok()
        made.snapshot = api.post(f"/sandboxes/{made.runs}/snapshots", {"name": "s"}).ok()["id"]
        made.volume = api.post("/volumes", {"name": "v", "sizeMb": 16}).ok()["id"]
        made.token = api.post("/tokens", {"scopes": ["read"]}).ok()["id"]
    own.kill9()
    yield made
    if not own.running():
        own.start()
    with own.api() as api:
        for path in (f"/volumes/{made.volume}", f"/snapshots/{made.snapshot}"):
            api.delete(path).ok()
        for id in (made.runs, made.stopped):
            api.remove(id)


@pytest.mark.parametrize("odd", WORDS)
def test_what_stands_where_a_file_is_needed_is_named(own, killed, odd):
    for name in NEEDED:
        with odd_instead([own.data / name], odd):
            status, log = own.refused()
            assert status == 1, name
            assert f"{os.path.basename(name)} is {WORDS[odd]} where a file is expected: move it away" in log, log
            found = check_of(own, "files")
            assert found["level"] == "warn" and f"{own.data}/{name} ({WORDS[odd]} where" in found["text"], found


def check_of(daemon, name):
    return next(c for c in json.loads(cay(daemon, "doctor", "--json").stdout) if c["check"] == name)


@pytest.mark.parametrize("odd", WORDS)
def test_the_daemon_starts_and_answers_beside_what_is_no_file(own, killed, odd):
    (record,) = (own.data / "images/records").glob("*.json")
    paths = [own.data / p for p in ("gone", "traces.db", "sandboxes/mark", f"sandboxes/{killed.stopped}.img",
                                    f"tokens/{killed.token}.json", f"volumes/{killed.volume}.img",
                                    f"netlog/{killed.runs}.jsonl")]
    paths += [record, record.with_suffix(".config"), own.run / killed.runs / "pid", own.run / "port"]
    paths += list((own.data / "scratch").glob("template-*.img"))
    with odd_instead([p for p in paths if p.name != "port"], odd):
        own.start()
        with own.api() as api:
            assert {s["id"] for s in api.get("/sandboxes").ok()["items"]} == {killed.runs, killed.stopped}
            api.get("/images").ok()
            assert api.get("/tokens").ok()["tokens"] == []
            assert api.sh(killed.runs, "echo on") == "on\n"
            api.post(f"/sandboxes/{killed.stopped}/start").failed(409, "disk_damaged")
            api.post(f"/volumes/{killed.volume}/files/list", {}).failed(409, "disk_damaged")
            api.post(f"/snapshots/{killed.snapshot}/clone", {}).failed((409, 500))
        found = check_of(own, "files")
        assert found["level"] == "warn" and " odd files: " in found["text"], found
        own.stop()
    with odd_instead([own.run / "port"], odd):
        status, log = own.refused()
        assert status == 1 and f"port is {WORDS[odd]} where a file is expected" in log, log


def test_noise_in_files_is_set_aside_and_named(own, killed):
    names = ["gone", "lock", "traces.db", "events.db", "jobs.db", "keys.db", "webhooks.db", "sandboxes/mark",
             f"tokens/{killed.token}.json"]
    with odd_instead([own.data / n for n in names], noise):
        own.start()
        with own.api() as api:
            assert {s["id"] for s in api.get("/sandboxes").ok()["items"]} == {killed.runs, killed.stopped}
        text = check_of(own, "files")["text"]
        assert "damaged, and set aside" in text and f"tokens/{killed.token}.json.damaged" in text, text
        own.stop()
