"""Files of ours that somebody took away or cut short: what is asked for says so, all else goes on, and the rest can be removed."""

import os

import pytest

from cay_harness import wait_until
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
