"""The database is lost or damaged: no sandbox is, and no disk goes without an operator's word."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from cay_harness import ID, cay, read_text, wait_until

pytestmark = [pytest.mark.core, pytest.mark.counts_rows]


def lose_database(daemon):
    assert not daemon.running()
    for extra in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            (daemon.data / f"cay.db{extra}").unlink()


def damage_database(daemon):
    for extra in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            (daemon.data / f"cay.db{extra}").unlink()
    path = daemon.data / "cay.db"
    path.write_bytes(b"\xff" * 100 + path.read_bytes()[100:])


def lose_notes(daemon):
    """As a cay left it that wrote none."""
    for note in (daemon.data / "sandboxes").glob("*.json"):
        note.unlink()


def disks(daemon):
    return {p.name.removesuffix(".img") for p in (daemon.data / "sandboxes").iterdir()
            if ID.fullmatch(p.name.removesuffix(".img"))}


def rows(daemon):
    with contextlib.closing(daemon.database()) as db:
        return db.execute("SELECT id FROM sandbox").fetchall()


def end_agent(daemon, api, id):
    os.kill(daemon.agent_pid(id), signal.SIGKILL)
    wait_until(lambda: api.sandbox(id)["status"] == "stopped", what="the end to be noticed")


def everything(api):
    return {id: api.sandbox(id) for id in api.ids()}


@pytest.mark.parametrize("lose", [lose_database, damage_database])
def test_a_lost_database_loses_no_sandbox(own, lose):
    """However often it is lost, and however often the daemon starts: the same sandboxes, whole."""
    with own.api() as api:
        runs = api.create(name="n", metadata={"a": "b"}, env={"K": "v"}, memory=128, disk=100,
                          timeout=3000, entrypoint=["sleep", "1000"])["id"]
        paused, stopped, removed = [api.create()["id"] for _ in range(3)]
        api.write(runs, "mark", "still here")
        api.post(f"/sandboxes/{runs}/env", {"vars": {"LATER": "w"}}).ok()
        api.post(f"/sandboxes/{paused}/pause").ok()
        end_agent(own, api, stopped)
        api.remove(removed)
        wait_until(lambda: removed not in disks(own), what="the disk of the removed to go")
        before = everything(api)
        assert sorted(before) == sorted([runs, paused, stopped])
        for start in range(4):
            own.kill9() if start == 1 else own.stop()
            if start < 2:
                lose(own)
            own.start()
            assert everything(api) == before
            assert set(before) <= disks(own)
            assert api.read(runs, "mark") == "still here"
            assert api.sh(runs, "echo $K $LATER") == "v w\n"
        assert len(list(own.data.glob("cay.db.corrupt-*"))) == (2 if lose is damage_database else 0)
        api.post(f"/sandboxes/{paused}/resume").ok()
        assert api.sh(paused, "echo on") == "on\n"
        for id in before:
            api.remove(id)
        wait_until(lambda: not disks(own) & set(before), what="the disks to go")
        assert not list((own.data / "sandboxes").glob("*.json"))


def test_after_a_reboot_too(own):
    """Another boot id in the notes, and nothing runs: the disk is there to be looked at."""
    with own.api() as api:
        id = api.create(name="n")["id"]
        api.write(id, "/root/mark", "still here", anywhere=True)
        end_agent(own, api, id)
        own.wait_for_note(id, '"stopped"')
        own.kill9()
        lose_database(own)
        path = own.data / "sandboxes" / f"{id}.json"
        note = json.loads(path.read_text())
        note.update(bootId="00000000-0000-0000-0000-000000000000", state="running")
        path.write_text(json.dumps(note))
        for _ in range(2):
            own.restart()
            s = api.sandbox(id)
            assert (s["status"], s["reason"], s["name"]) == ("stopped", "reboot", "n")
            assert id in disks(own)
        api.remove(id)


def test_what_was_made_ahead_goes_and_nothing_else(daemon_of):
    own = daemon_of(env={"CAY_POOL": 3}).start()
    with own.api() as api:
        id = api.create()["id"]
        wait_until(lambda: len(disks(own)) == 4, what="the disks that are made ahead")
        ahead = disks(own) - {id}
        own.wait_for_note(id)
        own.kill9()
        lose_database(own)
        own.start()
        assert api.ids() == [id]
        wait_until(lambda: not ahead & disks(own), what="the old disks made ahead to go")
        assert api.sh(id, "echo on") == "on\n"
        assert json.loads(cay(own, "doctor", "--json").stdout)[-1]["level"] == "ok"


def test_an_older_copy_of_the_database_costs_no_sandbox(daemon_of, tmp_path):
    """Also where it says of a disk that it was made ahead, which somebody has got since."""
    own = daemon_of(env={"CAY_POOL": 2}).start()
    with own.api() as api:
        wait_until(lambda: len(disks(own)) == 2, what="the disks that are made ahead")
        ahead = disks(own)
        with contextlib.closing(own.database()) as live, \
                contextlib.closing(sqlite3.connect(tmp_path / "older.db")) as older:
            live.backup(older)
        ids = [api.create()["id"] for _ in range(3)]
        assert ahead & set(ids)
        for id in ids:
            api.write(id, "mark", "still here")
        end_agent(own, api, ids[0])
        own.stop()
        lose_database(own)
        shutil.copy(tmp_path / "older.db", own.data / "cay.db")
        own.start()
        assert set(api.ids()) == set(ids)
        assert [api.sandbox(id)["status"] for id in ids] == ["stopped", "running", "running"]
        assert [api.sh(id, "cat mark") for id in ids[1:]] == 2 * ["still here"]
        assert set(ids) <= disks(own)


def slot_of(daemon, id):
    return (daemon.run / id / "pid").read_text().split()[2]


def test_an_id_range_stays_with_who_has_it_now(daemon_of, tmp_path):
    """An older copy of the database brings back a sandbox that is gone, and whose range is not
    its own any more."""
    own = daemon_of(env={"CAY_POOL": 0}).start()
    with own.api() as api:
        gone = api.create()["id"]
        slot = slot_of(own, gone)
        own.stop()
        shutil.copy(own.data / "cay.db", tmp_path / "older.db")
        own.start()
        api.remove(gone)
        wait_until(lambda: not disks(own), what="the disk to go")
        own.restart()
        made = [api.create()["id"]]
        while slot_of(own, made[-1]) != slot and len(made) < 20:
            made.append(api.create()["id"])
        if slot_of(own, made[-1]) != slot:
            pytest.skip("another daemon has taken the range")
        own.stop()
        lose_database(own)
        shutil.copy(tmp_path / "older.db", own.data / "cay.db")
        own.start()
        assert api.sandbox(gone)["status"] == "stopped"
        api.remove(gone)
        wait_until(lambda: len(rows(own)) == len(made), what="the row to go")
        assert os.path.islink(f"/run/cay.ids/{slot}")
        api.remove(made[-1])
        wait_until(lambda: not os.path.islink(f"/run/cay.ids/{slot}"), what="the range to be free")


def test_an_id_range_that_another_daemon_took_after_a_reboot_stays_its(own, tmp_path):
    with own.api() as api:
        id = api.create()["id"]
        mark = Path("/run/cay.ids") / slot_of(own, id)  # its folder goes some time after its end
        end_agent(own, api, id)
        own.stop()
        mark.unlink()
        mark.symlink_to(tmp_path)
        try:
            own.start()
            api.remove(id)
            wait_until(lambda: id not in disks(own), what="the disk to go")
            own.restart()
            assert mark.readlink() == tmp_path
        finally:
            mark.unlink()


OWNERS = "stat -c '%u:%g %a %n' mine theirs /root /workspace; cat mine theirs"


def test_a_sandbox_whose_id_range_another_daemon_took_gets_another(own, tmp_path):
    """Two daemons after a reboot: each takes any range, also that of a sandbox which the other has stopped."""
    with own.api() as api:
        id = api.create()["id"]
        slot = slot_of(own, id)
        mark = Path("/run/cay.ids") / slot
        api.sh(id, "echo a >mine; echo b >theirs; chown 1000:1001 theirs; chmod 4711 theirs")
        before = api.sh(id, OWNERS)
        api.post(f"/sandboxes/{id}/stop").ok()
        own.stop()
        mark.unlink()
        mark.symlink_to(tmp_path)
        try:
            own.start()
            assert api.sh(api.post(f"/sandboxes/{id}/start").ok()["id"], OWNERS) == before
            assert slot_of(own, id) != slot
            base = 0x70000000 + int(slot_of(own, id)) * 65536
            assert read_text(f"/proc/{own.agent_pid(id)}/uid_map").split()[:3] == ["0", str(base), "65536"]
            api.sh(id, "echo c >>mine; touch new; chown 7 new")
            assert api.exec(id, "test -w mine", user="1000")["exitCode"] == 1
            assert api.exec(id, "test -w theirs", user="1000")["exitCode"] == 0
            snapshot = api.post(f"/sandboxes/{id}/snapshots", {}).ok()["id"]
            clone = api.post(f"/snapshots/{snapshot}/clone").ok()["id"]
            for other in (id, clone):
                assert api.sh(other, OWNERS + "; stat -c %u new") == before.replace("a\n", "a\nc\n") + "7\n"
            own.kill9()
            own.start()
            assert api.sh(id, "cat mine") == "a\nc\n"
            api.post(f"/sandboxes/{id}/stop").ok()
            assert api.read(id, "mine") == "a\nc\n"
            api.post(f"/sandboxes/{id}/start").ok()
            assert api.sh(id, OWNERS) == before.replace("a\n", "a\nc\n")
            assert mark.readlink() == tmp_path
            taken = Path("/run/cay.ids") / slot_of(own, id)
            for other in (id, clone):
                api.remove(other)
            api.delete(f"/snapshots/{snapshot}").ok()
            wait_until(lambda: not taken.is_symlink(), what="the range to be free")
        finally:
            mark.unlink()


def test_a_row_is_not_taken_back_from_an_older_note(own):
    """What the database says is right; a note only counts where it says nothing."""
    with own.api() as api:
        id = api.create(name="new")["id"]
        own.stop()
        path = own.data / "sandboxes" / f"{id}.json"
        path.write_text(path.read_text().replace('"name":"new"', '"name":"old"'))
        own.start()
        assert api.sandbox(id)["name"] == "new"


def test_a_sandbox_of_a_cay_that_wrote_no_notes_gets_one(own):
    with own.api() as api:
        id = api.create(name="n")["id"]
        before = api.sandbox(id)
        own.stop()
        lose_notes(own)
        own.start()
        own.wait_for_note(id)
        own.kill9()
        lose_database(own)
        own.start()
        assert api.sandbox(id) == before


def strays_of(api):
    return {s["id"]: s for s in api.get("/admin/strays").ok()["strays"]}


def test_what_has_neither_row_nor_note_waits_for_an_operator(own):
    """Disks of a cay that wrote no notes: what runs is a sandbox again, the rest is shown."""
    with own.api() as api:
        runs, adopted, removed = [api.create()["id"] for _ in range(3)]
        for id in (runs, adopted, removed):
            api.write(id, "mark", id)
        for id in (adopted, removed):
            end_agent(own, api, id)
        own.stop()
        lose_database(own)
        lose_notes(own)
        for _ in range(3):
            own.start()
            assert api.ids() == [runs]
            assert api.sandbox(runs)["metadata"] == {"recovered": "true"}
            assert api.read(runs, "mark") == runs
            found = strays_of(api)
            assert set(found) == {adopted, removed} <= disks(own)
            for id, stray in found.items():
                assert stray["path"].startswith(str(own.data)) and id in stray["path"]
                assert stray["bytes"] > 0 and stray["processes"] == 0
            own.stop()
        own.start()

        done = cay(own, "doctor")
        assert b"belong to no sandbox" in done.stdout
        done = cay(own, "doctor", "--repair", "remove")
        assert done.returncode == 1 and removed.encode() in done.stderr
        assert {adopted, removed} <= disks(own), "nobody said yes"
        assert cay(own, "doctor", "--repair", "everything", "--yes").returncode == 2
        done = cay(own, "doctor", "--repair", "remove", "--yes", removed, "sbx_" + 24 * "0")
        assert done.returncode == 1 and b"sbx_" + 24 * b"0" in done.stderr
        assert {adopted, removed} <= disks(own), "one of the ids was a slip"
        done = cay(own, "doctor", "--repair", "remove", "--yes", "--json", removed, check=True)
        assert [s["id"] for s in json.loads(done.stdout)] == [removed]
        assert removed not in disks(own) and adopted in disks(own)
        cay(own, "doctor", "--repair", "adopt", "--yes", check=True)
        assert strays_of(api) == {}
        own.restart()
        s = api.sandbox(adopted)
        assert (s["status"], s["reason"]) == ("stopped", "recovered")
        api.delete(f"/admin/strays/{runs}").failed(404, "stray_not_found")
        assert api.read(runs, "mark") == runs
        for id in (runs, adopted):
            api.remove(id)


def mark_of(owner):
    """Takes a free id range for that owner, as daemons do, from the other end than they."""
    for slot in range(4093, 0, -1):
        mark = Path(f"/run/cay.ids/{slot}")
        with contextlib.suppress(FileExistsError):
            mark.symlink_to(owner)
            return mark
    raise AssertionError("no id range is free")


def test_what_is_left_without_a_disk_goes(own):
    """Empty folders and marks of an id that nobody knows; what is another daemon's stays."""
    with own.api() as api:
        stays = api.create()["id"]
        own.stop()
        theirs, ours = mark_of("/nowhere/cay-test"), mark_of(own.data)
        folder = own.run / ("sbx_" + "0" * 24)
        try:
            folder.mkdir()
            (folder / "pid").write_text(f"999999999 1 {ours.name}\n")
            own.start()
            wait_until(lambda: not folder.exists(), what="the folder to go")
            wait_until(lambda: not ours.is_symlink(), what="the mark to go")
            assert theirs.is_symlink()
            assert api.sh(stays, "echo on") == "on\n"
        finally:
            theirs.unlink()
            if ours.is_symlink() and os.readlink(ours) == str(own.data):
                ours.unlink()


def test_a_note_that_cannot_be_read_keeps_its_disk(own):
    with own.api() as api:
        id = api.create()["id"]
        end_agent(own, api, id)
        own.stop()
        lose_database(own)
        (own.data / "sandboxes" / f"{id}.json").write_text('{"note": 1, "id": ')
        for _ in range(2):
            own.start()
            assert set(strays_of(api)) == {id} <= disks(own)
            own.stop()
        assert "note that cannot be read" in own.log()
        own.start()
        api.delete(f"/admin/strays/{id}").ok()
        wait_until(lambda: id not in disks(own))
