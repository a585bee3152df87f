"""Volumes: a size that holds, shared, kept, attached to what runs and again after whatever happens."""

import contextlib
import json
import os
import random
import re
import subprocess
import threading

import pytest

from cay_harness import cay, read_text, wait_until
from test_launcher import launcher
from test_state_faults import injected

pytestmark = pytest.mark.core


@pytest.fixture
def volume(shared):
    """Makes volumes by name in the shared daemon, and removes them at the end."""
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(shared.api())

        def make(name, mb=32):
            v = api.post("/volumes", {"name": name, "sizeMb": mb}).ok()
            stack.callback(lambda: api.delete(f"/volumes/{v['id']}"))
            return v
        yield api, make


def mounts_of(daemon, id):
    """Mount points in a sandbox, as the kernel has them."""
    lines = read_text(f"/proc/{daemon.agent_pid(id)}/mountinfo").splitlines()
    return [line.split()[4] for line in lines]


def loops_of(daemon):
    files = (read_text(f"/sys/block/{n}/loop/backing_file") for n in os.listdir("/sys/block"))
    return [f for f in files if f.startswith(str(daemon.data / "volumes"))]


def test_a_volume_is_listed_and_goes(volume):
    api, make = volume
    v = make("listed")
    assert (v["size"], v["sizeBytes"]) == ("32MB", 32 << 20)
    assert v["dockerVolumeName"] and v["attachments"] == []
    assert v["id"] in [x["id"] for x in api.get("/volumes").ok()["volumes"]]
    assert api.get("/volumes/listed").ok()["id"] == v["id"]
    assert api.delete(f"/volumes/{v['id']}").ok() == {"deleted": v["id"]}
    api.get(f"/volumes/{v['id']}").failed(404, "volume_not_found")
    api.delete(f"/volumes/{v['id']}").failed(404, "volume_not_found")


def test_names_may_repeat_and_are_then_refused(volume):
    api, make = volume
    make("twice"), make("twice")
    api.get("/volumes/twice").failed(409, "name_ambiguous")
    api.post("/volumes", {"name": "vol_x"}).failed(400)
    api.post("/volumes", {"name": "a/b"}).failed(400)
    api.post("/volumes", {"name": "small", "sizeMb": 8}).failed(400)


def test_at_create_shared_and_kept_after_death(volume):
    api, make = volume
    make("kept")
    a = api.create(volumes=[{"name": "kept", "mountPath": "/data"}])
    b = api.create(volumes=[{"name": "kept", "mountPath": "/deep/er", "readOnly": True}])
    assert a["config"]["mounts"][0]["mountPath"] == "/data"
    api.sh(a["id"], "echo 1 >/data/f; mkdir /data/d")
    assert api.sh(b["id"], "cat /deep/er/f") == "1\n"
    assert "Read-only" in api.exec(b["id"], "touch /deep/er/x")["stderr"]
    api.delete("/volumes/kept").failed(409, "volume_in_use", a["id"])
    api.remove(a["id"]), api.remove(b["id"])
    c = api.create(volumes=[{"name": "kept", "mountPath": "/data"}])
    assert api.sh(c["id"], "cat /data/f; ls -n /data/f | cut -d' ' -f3") == "1\n0\n"
    api.remove(c["id"])


def test_the_size_holds_for_all_who_share_it(volume):
    api, make = volume
    make("small", 16)
    ids = [api.create(volumes=[{"name": "small", "mountPath": "/v"}])["id"] for _ in range(2)]
    said = api.exec(ids[0], "head -c 40000000 /dev/zero >/v/big")["stderr"]
    assert "No space left" in said
    assert "No space left" in api.exec(ids[1], "head -c 5000000 /dev/zero >/v/other")["stderr"]
    assert api.sh(ids[1], "rm /v/*; head -c 5000000 /dev/zero >/v/other && echo fits") == "fits\n"
    api.post("/volumes/small/files/write", {"path": "/x", "content": "x" * 15000000}).failed(429, "no_space")
    for id in ids:
        api.remove(id)


def test_attach_and_detach_on_what_runs(shared, volume):
    api, make = volume
    v = make("live")
    id = api.create(name="liver")["id"]
    assert api.post("/volumes/live/attach", {"sandboxId": "liver", "mountPath": "/a/b/../b"}).code == "path_traversal"
    got = api.post("/volumes/live/attach", {"sandboxId": "liver", "mountPath": "/a/./b//"}).ok()
    assert got == {"attached": True, "mountPath": "/a/b", "sandboxId": id, "volumeId": v["id"]}
    api.sh(id, "echo here >/a/b/f; ls -ldn /a | grep -q ' 0 0 '")
    api.post("/volumes/live/attach", {"sandboxId": id, "mountPath": "/c"}).failed(409, "volume_attached")
    make("other")
    api.post("/volumes/other/attach", {"sandboxId": id, "mountPath": "/a"}).failed(409, "mount_path_taken")
    assert api.get("/volumes/live").ok()["attachments"] == [{"sandboxId": id, "mountPath": "/a/b", "readOnly": False}]
    assert api.post("/volumes/live/detach").ok()["detached"] is True
    assert api.sh(id, "ls /a/b") == ""
    assert "/a/b" not in mounts_of(shared, id)
    api.post("/volumes/live/detach").failed(409, "volume_not_attached")
    assert api.sandbox(id)["config"].get("mounts") is None
    api.remove(id)


def test_a_detach_that_cannot_be_stored_has_not_happened(shared, volume):
    """Else the volume could be removed that the sandbox's row still names, and it never starts again."""
    api, make = volume
    make("named")
    id = api.create(volumes=[{"name": "named", "mountPath": "/n"}])["id"]
    with contextlib.closing(shared.database()) as db:
        db.execute(f"CREATE TRIGGER refuse BEFORE UPDATE ON sandbox WHEN NEW.id = '{id}' "
                   "BEGIN SELECT RAISE(ABORT, 'refused'); END")
        db.commit()
        api.post("/volumes/named/detach").failed(500)
        db.execute("DROP TRIGGER refuse")
        db.commit()
    api.delete("/volumes/named").failed(409, "volume_in_use")
    api.post("/volumes/named/detach").ok()
    assert api.sh(id, "ls /n") == ""
    api.delete("/volumes/named").ok()
    api.remove(id)


def test_a_volume_whose_file_is_gone_can_be_removed(shared, volume):
    api, make = volume
    lost = make("lost")["id"]
    (shared.data / "volumes" / f"{lost}.img").unlink()
    assert api.try_create(volumes=[{"name": "lost", "mountPath": "/l"}]).status >= 400
    api.delete("/volumes/lost").ok()
    api.get("/volumes/lost").failed(404, "volume_not_found")


def test_what_was_just_attached_is_in_nobodys_hands(volume):
    api, make = volume
    make("brief")
    id = api.create()["id"]
    for _ in range(150):
        api.post("/volumes/brief/attach", {"sandboxId": id, "mountPath": "/b"}).ok()
        api.post("/volumes/brief/detach").ok()
    api.remove(id)


def test_detach_names_who_has_files_open(volume):
    api, make = volume
    make("busy")
    id = api.create(volumes=[{"name": "busy", "mountPath": "/busy"}])["id"]
    x = api.background(id, "exec 5>/busy/open; echo ready; exec sleep 1000")
    wait_until(lambda: api.background_logs(x["id"])["output"] == "ready\n")
    reply = api.post("/volumes/busy/detach")
    reply.failed(409, "volume_busy", "/busy/open")
    assert reply.json["processes"] == [{"pid": x["pid"], "command": "sleep 1000", "path": "/busy/open"}]
    y = api.background(id, "cd /busy; echo ready; exec sleep 1001")
    wait_until(lambda: api.background_logs(y["id"])["output"] == "ready\n")
    assert {p["pid"] for p in api.post("/volumes/busy/detach").json["processes"]} == {x["pid"], y["pid"]}
    api.post(f"/sandboxes/{id}/pause").ok()
    api.post("/volumes/busy/detach").failed(409, "volume_busy")
    api.post(f"/sandboxes/{id}/resume").ok()
    api.sh(id, f"kill {x['pid']} {y['pid']}")
    for b in (x, y):
        api.background_end(b["id"])
    api.post("/volumes/busy/detach").ok()
    api.remove(id)


@pytest.mark.needs("program:strace")
def test_a_search_for_open_files_that_hangs_does_not_hold_up_a_detach(own):
    """In place of a process whose mappings cannot be read for minutes: each link that is read takes as long."""
    hang = "readlinkat:delay_enter=100000000"
    with own.api() as api:
        api.post("/volumes", {"name": "v", "sizeMb": 16}).ok()
        id = api.create(volumes=[{"name": "v", "mountPath": "/v"}])["id"]
        x = api.background(id, "exec 5>/v/open; echo ready; exec sleep 1000")
        wait_until(lambda: api.background_logs(x["id"])["output"] == "ready\n")
        with injected(own.pid, hang), injected(launcher(own), hang):
            api.post("/volumes/v/detach").failed(409, "volume_busy", "cannot be named")
        api.post("/volumes/v/detach").failed(409, "volume_busy", "sleep 1000")
        api.remove(id)
        api.delete("/volumes/v").ok()


def test_which_one_is_meant_when_several_have_it(volume):
    api, make = volume
    make("several")
    ids = [api.create(volumes=[{"name": "several", "mountPath": "/s"}])["id"] for _ in range(2)]
    api.post("/volumes/several/detach").failed(409, "volume_ambiguous", ids[0])
    assert api.post("/volumes/several/detach", {"sandboxId": ids[0]}).ok()["sandboxId"] == ids[0]
    assert api.post("/volumes/several/detach").ok()["sandboxId"] == ids[1]
    for id in ids:
        api.remove(id)


def test_sub_paths_flags_and_one_in_another(volume):
    api, make = volume
    make("parts")
    id = api.create(volumes=[{"name": "parts", "mountPath": "/p/inner", "subPath": "x/y", "noexec": True},
                             {"name": "parts", "mountPath": "/p"}],
                    tmpfs=[{"mountPath": "/p/mem", "sizeMb": 8}])["id"]
    api.sh(id, "echo 1 >/p/inner/f; cat /p/x/y/f; cp /bin/true /p/inner/; /p/x/y/true")
    assert "Permission denied" in api.exec(id, "/p/inner/true")["stderr"]
    assert "No space left" in api.exec(id, "head -c 9000000 /dev/zero >/p/mem/f")["stderr"]
    api.post("/volumes/parts/detach", {"mountPath": "/p"}).failed(409, "volume_busy", "/p/inner")
    api.remove(id)


def test_a_sub_path_that_cannot_be_made(volume):
    api, make = volume
    make("narrow", 16)
    id = api.create(volumes=[{"name": "narrow", "mountPath": "/n"}])["id"]
    attach = {"sandboxId": id, "mountPath": "/s"}
    api.post("/volumes/narrow/attach", {**attach, "subPath": "x" * 300}).failed(400, "bad_sub_path", "too long")
    api.exec(id, "cat /dev/zero >/n/all; i=0; while mkdir /n/$i; do i=$((i + 1)); done")
    api.post("/volumes/narrow/attach", {**attach, "subPath": "more"}).failed(429, "no_space", "full")
    api.post("/volumes/narrow/attach", {**attach, "subPath": "0"}).ok()
    api.remove(id)


def test_a_tmpfs_is_part_of_the_memory(shared):
    with shared.api() as api:
        api.try_create(memory=64, tmpfs=[{"mountPath": "/t", "sizeMb": 65}]).failed(400)
        id = api.create(memory=64, tmpfs=[{"mountPath": "/t", "sizeMb": 64}])["id"]
        assert api.sh(id, "stat -f -c %T /t; echo 1 >/t/f; cat /t/f") == "tmpfs\n1\n"
        assert api.exec(id, "head -c 100000000 /dev/zero >/t/f")["exitCode"] != 0
        api.remove(id)


def test_the_tmpfs_of_a_clone_is_part_of_the_memory_that_is_left(shared):
    with shared.api() as api:
        id = api.create(memory=96, tmpfs=[{"mountPath": "/t", "sizeMb": 80}])["id"]
        api.call("PATCH", f"/sandboxes/{id}", {"memory": 64}).ok()
        made = api.post(f"/sandboxes/{id}/clone", {}).ok()
        assert [m["sizeMb"] for m in made["config"]["mounts"]] == [64], made
        assert api.sh(made["id"], "df -m /t | awk 'NR==2 {print $2}'") == "64\n"
        api.remove(made["id"])
        api.remove(id)


def test_files_may_be_as_long_as_the_volume(volume):
    """Also where the sandbox's own disk is smaller."""
    api, make = volume
    make("long", 256), make("longer", 300)
    id = api.create(disk=64, volumes=[{"name": "long", "mountPath": "/l"}])["id"]
    assert api.sh(id, "head -c 100000000 /dev/zero >/l/f; stat -c %s /l/f; rm /l/f") == "100000000\n"
    api.post("/volumes/longer/attach", {"sandboxId": id, "mountPath": "/m"}).ok()
    capabilities = int(re.search(r"CapEff:\t(\w+)", read_text("/proc/self/status"))[1], 16)
    if capabilities >> 24 & 1:  # CAP_SYS_RESOURCE: limits of what runs can be raised
        assert api.sh(id, "truncate -s 280000000 /m/f && stat -c %s /m/f") == "280000000\n"
    api.remove(id)


def test_a_restore_keeps_volumes(volume):
    api, make = volume
    make("stays")
    id = api.create(volumes=[{"name": "stays", "mountPath": "/v"}])["id"]
    s = api.post(f"/sandboxes/{id}/snapshots", {"name": "s"}).ok()
    api.sh(id, "echo after >/v/f; echo after >/root/f")
    api.post(f"/sandboxes/{id}/snapshots/restore", {"snapshotId": s["id"]}).ok()
    assert api.sh(id, "cat /v/f; ls /root/f 2>/dev/null || true") == "after\n"
    api.remove(id)
    api.delete(f"/snapshots/{s['id']}").ok()


def test_the_workspace_may_be_a_volume(volume):
    api, make = volume
    make("work")
    id = api.create(workdir="/workspace/app", volumes=[{"name": "work", "mountPath": "/workspace"}])["id"]
    assert api.sh(id, "pwd; echo 1 >f") == "/workspace/app\n"
    assert api.read(id, "app/f") == "1\n"
    api.remove(id)
    assert api.post("/volumes/work/files/read", {"path": "/app/f"}).ok() == "1\n"


def test_no_more_mounts_than_there_may_be(volume):
    api, make = volume
    make("many")
    mounts = [{"name": "many", "mountPath": f"/m{i}", "subPath": f"{i}"} for i in range(17)]
    api.try_create(volumes=mounts).failed(429, "mount_limit")
    id = api.create(volumes=mounts[:16])["id"]
    assert api.sh(id, "ls -d /m[0-9]*").count("\n") == 16
    api.post("/volumes/many/attach", {"sandboxId": id, "mountPath": "/x"}).failed(429, "mount_limit")
    api.remove(id)


def test_a_failed_mount_fails_the_create_and_leaves_nothing(volume):
    api, make = volume
    make("bad")
    before = api.ids()
    api.try_create(volumes=[{"name": "bad", "mountPath": "/usr/x"}]).failed(400, "bad_mount_path")
    api.try_create(volumes=[{"name": "none", "mountPath": "/x"}]).failed(404, "volume_not_found")
    api.try_create(volumes=[{"name": "bad", "mountPath": "/bin/x"}]).failed(400, "bad_mount_path")
    assert api.ids() == before
    api.delete("/volumes/bad").ok()


def test_files_without_a_sandbox(shared, volume, tmp_path):
    api, make = volume
    v = make("files")
    files = "/volumes/files/files"
    api.post(f"{files}/mkdir", {"path": "/a/b"}).ok()
    api.post(f"{files}/write", {"path": "/a/b/c", "content": "text"}).ok()
    api.post(f"{files}/upload?path=/a/raw&mode=0600", raw=b"\0\xff", type="application/octet-stream").ok()
    assert sorted(e["path"] for e in api.post(f"{files}/list", {"path": "/a"}).ok()) == ["/a/b", "/a/raw"]
    assert api.post(f"{files}/download", {"path": "/a/raw"}).ok() == "AP8="
    assert api.post(f"{files}/info", {"path": "/a/raw"}).ok()["permissions"] == "-rw-------"
    assert api.post(f"{files}/read", {"path": "/a/b/c"}).ok() == "text"
    cay(shared, "run", "-v", "files:/v", "host", "touch", "-d", "1969-12-31T23:59:59Z", "/v/a/raw", check=True)
    old = {e["name"]: e["modifiedAt"] for e in api.post(f"{files}/list", {"path": "/a"}).ok()}
    assert old["raw"] == api.post(f"{files}/info", {"path": "/a/raw"}).ok()["modifiedAt"] == -1000
    cay(shared, "volume", "cp", "files:/a/raw", tmp_path / "raw", check=True)
    assert (tmp_path / "raw").stat().st_mtime == -1
    api.post(f"{files}/delete", {"path": "/a"}).failed(400, "is_a_directory")
    api.post(f"{files}/delete", {"path": "/a", "recursive": True}).ok()
    assert api.post(f"{files}/list").ok() == []
    wait_until(lambda: not [f for f in loops_of(shared) if v["id"] in f], what="the loop device to go")


def test_the_command_line(own, tmp_path):
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/deep/f").write_text("from here")
    def run(*args):
        return cay(own, *args, text=True)
    assert run("volume", "create", "-s", "32M", "cli").stdout.startswith("vol_")
    again = run("volume", "create", "cli")
    assert again.returncode == 1 and "there is a volume cli already: vol_" in again.stderr
    assert run("volume", "cp", str(tmp_path / "in"), "cli:/").returncode == 0
    assert run("volume", "ls", "-q", "cli").stdout == "in\n" and run("volume", "ls", "-q", "cli:in/deep").stdout == "f\n"
    assert json.loads(run("volume", "ls", "--json", "cli:/in/deep").stdout)[0]["path"] == "/in/deep/f"
    assert "file_not_found" in run("volume", "ls", "cli:/no").stderr
    (tmp_path / "links").mkdir()
    (tmp_path / "links/l").symlink_to("x")
    assert "l is skipped: it is a link" in run("volume", "cp", str(tmp_path / "links"), "cli:/links").stderr
    said = run("run", "-v", "cli:/c", "-v", "made:/m:ro", "--tmpfs", "/t:size=16m", "host", "sh", "-c",
               "cat /c/in/deep/f; echo more >/c/more; touch /m/x || stat -f -c %T /t")
    assert said.stdout == "from heretmpfs\n", said
    assert run("volume", "cp", "cli:/", str(tmp_path / "out")).returncode == 0
    assert (tmp_path / "out/more").read_text() == "more\n"
    assert {v["name"] for v in json.loads(run("volume", "ls", "--json").stdout)} == {"cli", "made"}
    id = run("create", "--mount", "type=volume,src=cli,dst=/c,subpath=in/deep,ro").stdout.strip()
    assert run("exec", id, "cat", "/c/f").stdout == "from here"
    assert "volume_in_use" in run("volume", "rm", "cli").stderr
    assert run("volume", "detach", "cli", id).stdout.strip() == id
    assert run("volume", "attach", "--ro", "cli", id, "/again").stdout == "/again\n"
    run("rm", id)
    assert run("volume", "rm", "cli", "made").returncode == 0


# ---- the daemon goes ----


@pytest.mark.counts_rows
def test_after_kill_9_after_stop_and_start(own):
    with own.api() as api:
        api.post("/volumes", {"name": "v", "sizeMb": 32}).ok()
        id = api.create(volumes=[{"name": "v", "mountPath": "/v"}],
                        tmpfs=[{"mountPath": "/t", "sizeMb": 8}])["id"]
        other = api.create()["id"]
        api.post("/volumes/v/attach", {"sandboxId": other, "mountPath": "/w"}).ok()
        api.sh(id, "echo 1 >/v/f")
        own.kill9()
        own.start()
        assert api.sh(other, "cat /w/f; echo 2 >/w/f") == "1\n"
        assert len(loops_of(own)) == 1
        assert mounts_of(own, id).count("/v") == 1
        api.post(f"/sandboxes/{id}/stop").ok()
        assert api.delete("/volumes/v").code == "volume_in_use"
        api.post("/volumes/v/detach", {"sandboxId": other}).ok()
        wait_until(lambda: loops_of(own) == [], what="the loop device to go")
        api.post(f"/sandboxes/{id}/start").ok()
        assert api.sh(id, "cat /v/f; stat -f -c %T /t") == "2\ntmpfs\n"
        api.remove(id)
        api.delete("/volumes/v").ok()


@pytest.mark.counts_rows
def test_attached_while_stopped(own):
    with own.api() as api:
        api.post("/volumes", {"name": "v", "sizeMb": 32}).ok()
        ids = [api.create()["id"] for _ in range(2)]
        for id in ids:
            api.post(f"/sandboxes/{id}/stop").ok()
        api.write(ids[1], "f", "its files have a quiet box now")
        for id in ids:
            api.post("/volumes/v/attach", {"sandboxId": id, "mountPath": "/v"}).ok()
        for id in ids:
            api.post(f"/sandboxes/{id}/start").ok()
            api.sh(id, "echo 1 >/v/f")
            api.remove(id)
        api.delete("/volumes/v").ok()


@pytest.mark.counts_rows
def test_killed_between_the_row_and_the_mount(own):
    """The two halves of an attach and of a detach, as a daemon that was killed leaves them."""
    with own.api() as api:
        v = api.post("/volumes", {"name": "v", "sizeMb": 32}).ok()
        id = api.create(volumes=[{"name": "v", "mountPath": "/out"}])["id"]
        agent = own.agent_pid(id)
        own.kill9()
        subprocess.run(["nsenter", "-t", str(agent), "-m", "umount", "/out"], check=True)
        more = {"type": "volume", "volumeId": v["id"], "mountPath": "/in", "subPath": "s", "readOnly": False,
                "noexec": False}
        with contextlib.closing(own.database()) as db:
            config = json.loads(db.execute("select config from sandbox where id = ?", (id,)).fetchone()[0])
            config["mounts"].append(more)
            db.execute("update sandbox set config = ? where id = ?", (json.dumps(config), id))
            db.commit()
        own.start()
        assert sorted(p for p in mounts_of(own, id) if p in ("/in", "/out")) == ["/in", "/out"]
        assert api.sh(id, "echo 1 >/in/f; cat /out/s/f") == "1\n"
        api.remove(id)
        api.delete("/volumes/v").ok()


@pytest.mark.counts_rows
def test_killed_while_a_volume_is_made_or_removed(own):
    """What each step leaves on the disk becomes the old state or the new one."""
    with own.api() as api:
        made = api.post("/volumes", {"name": "made", "sizeMb": 32}).ok()["id"]
        gone = api.post("/volumes", {"name": "gone", "sizeMb": 32}).ok()["id"]
        lost = api.post("/volumes", {"name": "lost", "sizeMb": 32}).ok()["id"]
        api.post("/volumes/lost/files/write", {"path": "/f", "content": "kept"}).ok()
        own.kill9()
        folder = own.data / "volumes"
        (folder / f"{made}.img").rename(folder / f"{made}.img.new")
        (folder / f"{gone}.img").rename(folder / f"{gone}.img.gone")
        (folder / f"{lost}.json").unlink()
        (folder / f"vol_{'0' * 24}.img.new").write_bytes(b"half")
        own.start()
        assert sorted(v["name"] for v in api.get("/volumes").ok()["volumes"]) == sorted(["made", lost])
        assert api.post(f"/volumes/{lost}/files/read", {"path": "/f"}).ok() == "kept"
        assert sorted(os.listdir(folder)) == sorted(f"{id}.{end}" for id in (made, lost) for end in ("img", "json"))
        for id in (made, lost):
            api.delete(f"/volumes/{id}").ok()
        assert os.listdir(folder) == []


@pytest.mark.counts_rows
def test_kill_9_at_any_moment(own):
    """The row and the kernel agree afterwards, whenever it was."""
    luck = random.Random(7)
    with own.api() as api:
        v = api.post("/volumes", {"name": "v", "sizeMb": 32}).ok()["id"]
        id = api.create()["id"]
        api.sh(id, "mkdir /v")
        for i in range(int(os.environ.get("CAY_KILLS", "8"))):
            def work(api=api.again()):
                with contextlib.suppress(Exception):
                    for _ in range(100):
                        api.post("/volumes/v/attach", {"sandboxId": id, "mountPath": "/v"})
                        api.post("/volumes", {"name": f"n{i}", "sizeMb": 16})
                        api.post("/volumes/v/detach")
                        api.delete(f"/volumes/n{i}")
                api.close()
            thread = threading.Thread(target=work)
            thread.start()
            threading.Event().wait(luck.random() * 0.3)  # where in its work it is killed
            own.kill9()
            thread.join(30)
            own.start()
            said = [m["mountPath"] for m in api.sandbox(id)["config"].get("mounts", [])]
            assert [p for p in mounts_of(own, id) if p == "/v"] == said
            names = [x["name"] for x in api.get("/volumes").ok()["volumes"]]
            for name in set(names) - {"v"}:
                api.delete(f"/volumes/{name}").ok()
            assert sorted(os.listdir(own.data / "volumes")) == [f"{v}.img", f"{v}.json"]
        api.remove(id)
        api.delete("/volumes/v").ok()


@pytest.mark.parametrize("step", ["prepare a mount", "enter the box", "attach", "detach"])
def test_a_failed_step_changes_nothing(daemon_of, step):
    own = daemon_of(env={"CAY_FAULT": step}).start()
    with own.api() as api:
        api.post("/volumes", {"name": "v", "sizeMb": 32}).ok()
        id = api.create()["id"]
        reply = api.post("/volumes/v/attach", {"sandboxId": id, "mountPath": "/v"})
        if step == "detach":
            reply.ok()
            assert api.post("/volumes/v/detach").status >= 400
            assert "/v" in mounts_of(own, id) and api.get("/volumes/v").ok()["sandboxId"] == id
        else:
            assert reply.status >= 400
            assert "/v" not in mounts_of(own, id) and api.get("/volumes/v").ok()["attachments"] == []
            assert loops_of(own) == []
        api.remove(id)
        api.delete("/volumes/v").ok()
