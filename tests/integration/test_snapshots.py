"""Snapshots, clones and forks: what a sandbox's disk was, kept, looked at and made into others."""


import json
import os
import select
import signal
import subprocess
import tarfile
import threading

import pytest

from cay_harness import cay, wait_until
from cay_registry import half_made

pytestmark = pytest.mark.core


@pytest.fixture
def snap(api):
    """Takes snapshots on the shared daemon that the test need not remove."""
    made = []

    def take(id, **fields):
        one = api.post(f"/sandboxes/{id}/snapshots", fields).ok()
        made.append(one["id"])
        return one

    yield take
    for id in made:
        api.delete(f"/snapshots/{id}")


@pytest.fixture
def clone(api):
    """Sandboxes from snapshots or sandboxes, which the test need not remove."""
    made = []

    def make(path, **fields):
        one = api.post(f"{path}/clone", fields).ok()
        made.append(one["id"])
        return one

    yield make
    for id in made:
        api.delete(f"/sandboxes/{id}")


TREE = """
mkdir -p /root/t/sub/deep /root/t/empty; cd /root/t
echo plain >plain; echo 2 >sub/deep/two; chmod 4755 plain; chmod 1777 empty
ln plain twin; ln -s ../plain sub/soft; ln -s /nowhere dangling
touch -d '2001-02-03 04:05:06' sub/deep/two; touch -d '2002-02-03 04:05:06' sub/deep; touch -d '1969-12-31 23:59:59Z' empty
truncate -s 40M sparse; echo end >>sparse
chown 1234:1235 sub/deep/two; printf '' >none
printf 'x' >"$(printf 'odd\\nname \\377')"
"""
LOOK = r"""
cd /root/t; find . | LC_ALL=C sort | while read -r f; do
    size=%s; [ -L "$f" ] || [ ! -d "$f" ] || size=-  # each filesystem has its own of a folder
    stat -c "%n %F %a %u:%g $size %Y %h" "$f"
done 2>/dev/null
readlink sub/soft dangling; stat -c %b sparse; tail -c 4 sparse; [ plain -ef twin ] && echo same
ls -b
"""


def test_a_clone_has_what_the_sandbox_had(api, make, snap, clone):
    box = make(env={"A": "b"}, metadata={"team": "blue"}, memory=256)["id"]
    api.sh(box, TREE)
    before = api.sh(box, LOOK)
    assert "same" in before and "4755" in before and "1234:1235" in before
    one = snap(box, name="tree", labels={"step": "1"})
    assert one["sandboxId"] == box and one["name"] == "tree" and one["labels"] == {"step": "1"}
    assert 0 < one["size"] < 1_000_000, "holes are not copied"
    api.sh(box, "rm -rf /root/t; echo later >/root/later")
    twin = clone(f"/snapshots/{one['id']}", name="twin")
    assert twin["name"] == "twin" and twin["id"] != box and twin["status"] == "running"
    assert twin["metadata"] == {"team": "blue"} and twin["config"]["memory"] == 256
    assert api.sh(twin["id"], LOOK) == before
    assert api.sh(twin["id"], "echo $A; ls /root") == "b\nt\n"


def test_what_was_hidden_stays_hidden(api, make, snap, clone):
    """Whiteouts and opaque folders over the image, and over a snapshot below."""
    box = make()["id"]
    api.sh(box, "mkdir -p /root/d/e; echo a >/root/d/a; echo b >/root/d/e/b; echo k >/root/kept")
    first = snap(box)
    second_box = clone(f"/snapshots/{first['id']}")["id"]
    api.sh(second_box, "rm /root/d/a /root/kept; rm -r /root/d/e; mkdir /root/d/e; echo n >/root/d/e/n; "
                       "rm /etc/hostname 2>/dev/null; rm -rf /home/user")
    second = snap(second_box)
    third = clone(f"/snapshots/{second['id']}")["id"]
    assert api.sh(third, "cd /root; find . | LC_ALL=C sort") == ".\n./d\n./d/e\n./d/e/n\n"
    assert api.sh(third, "ls /home") == ""
    assert api.sh(clone(f"/snapshots/{first['id']}")["id"], "cat /root/d/a /root/d/e/b /root/kept") == "a\nb\nk\n"


def test_what_a_pipe_replaced_does_not_come_back(own):
    with own.api() as api:
        box = api.create()["id"]
        api.sh(box, "cd /root; mkdir d; echo x >d/x; echo old >f; echo old >g")
        second = api.post(f"/sandboxes/{box}/clone", {}).ok()["id"]
        api.sh(second, "cd /root; rm -r d f; mkfifo -m 640 d f new; mkdir own; mkfifo own/one; chown 5 f")
        look = "cd /root; stat -c '%n %F %a %u' * own/*"
        before = api.sh(second, look)
        assert "f fifo 640 5\n" in before and "own/one fifo" in before
        third = api.post(f"/sandboxes/{second}/clone", {}).ok()["id"]
        assert api.sh(third, look) == before
        api.post(f"/sandboxes/{second}/commit", {"name": "piped:1"}).ok()
        assert api.sh(api.create(image="piped:1")["id"], look) == before


def test_user_attributes_are_kept(api, make, snap, clone):
    box = make()["id"]
    set_one = "import os; open('/root/f','w').close(); os.setxattr('/root/f', 'user.colour', b'blue')"
    api.sh(box, ["python3", "-c", set_one])
    twin = clone(f"/snapshots/{snap(box)['id']}")["id"]
    get = "import os; print(os.getxattr('/root/f', 'user.colour'))"
    assert "blue" in api.exec(twin, ["python3", "-c", get])["stdout"]


def test_paused_ones_stay_paused_and_running_ones_run(api, make, snap):
    box = make()["id"]
    api.background(box, "while :; do date >/root/now; sleep 0.05; done")
    snap(box)
    assert api.sandbox(box)["status"] == "running"
    first = api.sh(box, "stat -c %y /root/now")
    wait_until(lambda: api.sh(box, "stat -c %y /root/now") != first, 60, "its processes to go on")
    api.post(f"/sandboxes/{box}/pause").ok()
    snap(box)
    assert api.sandbox(box)["status"] == "paused"
    api.post(f"/sandboxes/{box}/resume").ok()


def test_lists_names_and_labels(api, make, snap):
    box, other = make()["id"], make()["id"]
    a, b, c = snap(box, name="a", labels={"x": "1"}), snap(box, name="same"), snap(other, name="same")
    ids = [s["id"] for s in api.get(f"/sandboxes/{box}/snapshots").ok()["snapshots"]]
    assert ids == [b["id"], a["id"]], "the newest first"
    assert {a["id"], b["id"], c["id"]} <= {s["id"] for s in api.get("/snapshots").ok()["snapshots"]}
    assert api.get("/snapshots/a").ok()["id"] == a["id"]
    api.get("/snapshots/same").failed(409, "name_ambiguous")
    api.get("/snapshots/none").failed(404, "snapshot_not_found", "Snapshot not found")
    labelled = api.post("/snapshots/a/label", {"name": "z", "labels": {"x": "", "y": "2"}}).ok()
    assert labelled["name"] == "z" and labelled["labels"] == {"y": "2"}
    assert api.get(f"/snapshots/{a['id']}").ok() == labelled
    api.remove(other)
    gone = api.get(f"/sandboxes/{other}/snapshots").ok()["snapshots"]
    assert [s["id"] for s in gone] == [c["id"]], "they outlive the sandbox"


def test_a_name_that_several_have_is_that_of_the_sandbox(api, make, snap):
    """Branches of an agent call their steps alike."""
    one, two = make()["id"], make()["id"]
    for box in (one, two):
        api.sh(box, f"echo {box} >/root/who")
        snap(box, name="step")
        api.sh(box, "rm /root/who")
    for box in (one, two):
        changes = api.get(f"/sandboxes/{box}/diff?snapshotId=step").ok()["changes"]
        assert [(c["kind"], c["path"]) for c in changes] == [("D", "/root/who")]
        api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": "step"}).ok()
        assert api.sh(box, "cat /root/who") == f"{box}\n"
    snap(one, name="step")
    api.post(f"/sandboxes/{one}/snapshots/restore", {"snapshotId": "step"}).failed(409, "name_ambiguous")


def test_a_clone_of_a_sandbox_needs_no_snapshot(api, make, clone):
    box = make()["id"]
    api.sh(box, "echo here >/root/f")
    twin = clone(f"/sandboxes/{box}", name="direct")["id"]
    api.sh(box, "echo changed >/root/f")
    assert api.sh(twin, "cat /root/f") == "here\n"
    assert not api.get(f"/sandboxes/{box}/snapshots").ok()["snapshots"]


def test_clones_and_forks_have_the_mounts_of_the_other(daemon_of, tmp_path):
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "f").write_text("of the host\n")
    own = daemon_of(env={"CAY_BIND_ALLOW": str(tmp_path)}).start()
    with own.api() as api:
        api.post("/volumes", {"name": "shared", "sizeMb": 16}).ok()
        box = api.create(volumes=[{"name": "shared", "mountPath": "/v", "subPath": "part", "noexec": True},
                                  {"path": str(shown), "mountPath": "/h", "readOnly": True}],
                         tmpfs=[{"mountPath": "/t", "sizeMb": 8}])
        api.sh(box["id"], "echo first >/v/f; echo mine >/t/f; echo disk >/root/f")
        taken = api.post(f"/sandboxes/{box['id']}/snapshots", {}).ok()
        forks = api.post(f"/sandboxes/{box['id']}/fork", {"count": 2}).ok()["sandboxes"]
        later = api.post(f"/snapshots/{taken['id']}/clone", {}).ok()
        for one in forks + [later]:
            assert one["config"]["mounts"] == box["config"]["mounts"] and "warnings" not in one
            assert api.sh(one["id"], "cat /v/f /h/f /root/f; ls /t; df -m /t | awk 'NR==2 {print $2}'") == \
                "first\nof the host\ndisk\n8\n", "a tmpfs is a new one"
        api.sh(later["id"], "echo more >>/v/f")
        assert api.sh(box["id"], "cat /v/f") == "first\nmore\n", "a volume is shared"
        for one in forks + [later]:
            api.remove(one["id"])
        api.post("/volumes/shared/detach", {"sandboxId": box["id"]}).ok()
        api.delete("/volumes/shared").ok()
        left = api.post(f"/snapshots/{taken['id']}/clone", {}).ok()
        assert [m["mountPath"] for m in left["config"]["mounts"]] == ["/h", "/t"] and "warnings" not in left, left
        for one in (left, box):
            api.remove(one["id"])
        left = api.post(f"/snapshots/{taken['id']}/clone", {}).ok()
        assert [m["mountPath"] for m in left["config"]["mounts"]] == ["/t"], left
        assert sorted(text.split()[4].rstrip(":") for text in left["warnings"]) == ["/h", "/v"], left
        out = cay(own, "snapshot", "clone", taken["id"])
        assert b"is gone" in out.stderr, out
        api.remove(out.stdout.decode().strip())
        api.remove(left["id"])
        api.delete(f"/snapshots/{taken['id']}").ok()


def test_names_of_clones_can_be_unique_and_are_for_the_command_line(shared, api, make, clone):
    box = make(name="the-first")["id"]
    api.post(f"/sandboxes/{box}/clone", {"name": "the-first", "unique": True}).failed(409, "name_taken", box)
    api.post(f"/sandboxes/{box}/clone", {"unique": True}).failed(400)
    taken = clone(f"/sandboxes/{box}", name="many-2", unique=True)["id"]
    api.post(f"/sandboxes/{box}/fork", {"count": 3, "name": "many", "unique": True}).failed(409, "name_taken", taken)
    api.get("/sandboxes/many-1").failed(404)  # all of them or none
    out = cay(shared, "fork", "--name", "the-first", box)
    assert out.returncode == 1 and box.encode() in out.stderr, out
    assert cay(shared, "fork", "--name", "-x", box).returncode == 2
    assert cay(shared, "fork", "--name", "a b", box).returncode == 2


def test_what_is_not_allowed_any_more_is_not_cloned(own):
    with own.api() as api:
        config = {"image": "host", "setup": ["echo built >/etc/built"]}
        api.post("/templates", {"name": "built", "config": config}).ok()
        box, other = api.create()["id"], api.post("/sandboxes", {"template": "built"}).ok()
        taken = api.post(f"/sandboxes/{box}/snapshots", {}).ok()["id"]
        own.stop()
        own.extra["CAY_ALLOWED_IMAGES"] = "python"
        own.start()
        api.post(f"/snapshots/{taken}/clone", {}).failed(403, "image_not_allowed")
        api.post(f"/sandboxes/{box}/fork", {}).failed(403, "image_not_allowed")
        twin = api.post(f"/sandboxes/{other['id']}/clone", {}).ok()
        for key in ("template", "templateBuild"):
            assert twin["config"][key] == other["config"][key]
        third = api.post(f"/sandboxes/{twin['id']}/clone", {}).ok()
        assert api.sh(third["id"], "cat /etc/built") == "built\n"
        for id in (box, other["id"], twin["id"], third["id"]):
            api.remove(id)


def test_deleting_frees_the_disk(own):
    with own.api() as api:
        box = api.create()["id"]
        api.sh(box, "head -c 3000000 /dev/urandom >/root/f")
        layers = own.data / "images/layers"
        one = api.post(f"/sandboxes/{box}/snapshots", {}).ok()
        twin = api.post(f"/snapshots/{one['id']}/clone", {}).ok()["id"]
        assert len(list(layers.iterdir())) == 1
        assert api.delete(f"/snapshots/{one['id']}").ok() == {"deleted": one["id"]}
        api.delete(f"/snapshots/{one['id']}").failed(404, "snapshot_not_found")
        assert api.sh(twin, "wc -c </root/f").strip() == "3000000", "a sandbox stands on it"
        api.remove(twin)
        wait_until(lambda: not list(layers.iterdir()), what="the layer to go with its last user")
        assert not list((own.data / "images/records").iterdir())
        two = api.post(f"/sandboxes/{box}/snapshots", {}).ok()
        api.delete(f"/snapshots/{two['id']}").ok()
        assert not list(layers.iterdir()), "at once, where nobody needs it"


def test_forks_are_all_or_none(daemon_of):
    own = daemon_of(env={"CAY_MAX_SANDBOXES": 5}).start()
    with own.api() as api:
        box = api.create()["id"]
        api.sh(box, "echo x >/root/f")
        made = api.post(f"/sandboxes/{box}/fork", {"count": 3, "name": "f"}).ok()["sandboxes"]
        assert [s["name"] for s in made] == ["f-1", "f-2", "f-3"]
        assert all(api.sh(s["id"], "cat /root/f") == "x\n" for s in made)
        api.post(f"/sandboxes/{box}/fork", {"count": 2}).failed(429, "sandbox_limit")
        assert sorted(api.ids()) == sorted([box] + [s["id"] for s in made])
        for s in made:
            api.remove(s["id"])
        wait_until(lambda: not list((own.data / "images/layers").iterdir()), what="its image to go")
        # Several are made at once: those that came before the one that failed go too.
        api.post(f"/sandboxes/{box}/fork", {"count": 20, "name": "m"}).failed(429, "sandbox_limit")
        assert api.ids() == [box]
        made = api.post(f"/sandboxes/{box}/fork", {"count": 4, "name": "m"}).ok()["sandboxes"]
        assert [s["name"] for s in made] == ["m-1", "m-2", "m-3", "m-4"]


@pytest.mark.parametrize("what", ["clone", "fork", "snapshots"])
def test_who_does_not_wait_gets_no_sandbox(own, what):
    """It closes its connection while the copy is made. A snapshot stays: it is in the list for all."""
    with own.api() as api, own.api() as hasty:
        box = api.create()["id"]
        known = {box}
        for files in (4000, 16000, 64000):  # slow to copy, in little room; until the copy is seen under way
            api.sh(box, f"mkdir -p /root/many && cd /root/many && seq {files} | xargs touch", timeout=120)
            connection = hasty._connection()
            connection.request("POST", f"/sandbox/sandboxes/{box}/{what}", body=b'{"count": 3}' if what == "fork" else b"{}",
                               headers={"Content-Type": "application/json"})

            def answered():
                return select.select([connection.sock], [], [], 0)[0]

            def under_way():
                return list((own.data / "images/layers").glob("tmp_*"))

            wait_until(lambda: answered() or under_way(), 60, "the copy")
            os.kill(own.pid, signal.SIGSTOP)  # so that the copy does not end before the connection does
            try:
                os.waitid(os.P_PID, own.pid, os.WSTOPPED)
                if under_way() and not answered():
                    hasty.close()
                    break
            finally:
                os.kill(own.pid, signal.SIGCONT)
            assert connection.getresponse().read()
            known.update(api.ids())
            for id in set(api.ids()) - {box}:
                api.remove(id)
            for one in api.get("/snapshots").ok()["snapshots"]:
                api.delete(f"/snapshots/{one['id']}").ok()
        else:
            raise AssertionError("the caller got each answer")
        wait_until(lambda: api.try_exec(box, "true").status == 200, 60, "it to go on")
        if what == "snapshots":
            wait_until(lambda: api.get("/snapshots").ok()["snapshots"], 60, "the snapshot")
            api.delete("/snapshots/" + api.get("/snapshots").ok()["snapshots"][0]["id"]).ok()
        wait_until(lambda: api.ids() == [box], 30, "no other sandbox")
        made = api.get("/events/history?topic=sandbox.created&limit=1000").ok()["events"]
        assert {e["sandboxId"] for e in made} == known, "a sandbox was there for a moment"
        # what was copied is gone: another of it finds nothing in its way
        api.remove(api.post(f"/sandboxes/{box}/clone", {}).ok()["id"])


def test_there_are_so_many_and_no_more(daemon_of):
    own = daemon_of(env={"CAY_MAX_SNAPSHOTS": 1}).start()
    with own.api() as api:
        box = api.create()["id"]
        one = api.post(f"/sandboxes/{box}/snapshots", {}).ok()
        api.post(f"/sandboxes/{box}/snapshots", {}).failed(429, "snapshot_limit", "CAY_MAX_SNAPSHOTS")
        api.delete(f"/snapshots/{one['id']}").ok()
        api.post(f"/sandboxes/{box}/snapshots", {}).ok()


def test_a_removed_sandbox_leaves_its_snapshot_and_a_restart_too(own):
    with own.api() as api:
        box = api.create(env={"K": "v"})["id"]
        api.sh(box, "echo kept >/root/f")
        one = api.post(f"/sandboxes/{box}/snapshots", {"name": "kept"}).ok()
        api.remove(box)
        own.restart()
        assert api.get("/snapshots/kept").ok() == one
        twin = api.post("/snapshots/kept/clone", {}).ok()["id"]
        assert api.sh(twin, "cat /root/f; echo $K") == "kept\nv\n"


def test_a_snapshot_of_a_snapshots_clone_many_times(api, make, snap, clone):
    box = make()["id"]
    for n in range(5):
        api.sh(box, f"echo {n} >/root/{n}; rm -f /root/{n - 2}")
        box = clone(f"/snapshots/{snap(box)['id']}")["id"]
    assert api.sh(box, "cd /root; ls; cat 4").split() == ["3", "4", "4"]


# ---- restore ----


def test_restore_gives_the_files_back_under_the_same_id(api, make, snap):
    box = make(name="again", entrypoint=["sh", "-c", "echo run >>/root/runs; exec sleep 1000"], env={"A": "b"})
    id = box["id"]
    wait_until(lambda: api.exec(id, "cat /root/runs")["stdout"] == "run\n", what="the entrypoint")
    api.sh(id, "echo good >/root/f; mkdir /root/d; echo x >/root/d/x")
    one = snap(id, name="good")
    api.sh(id, "echo bad >/root/f; rm -r /root/d; echo more >/root/more")
    api.background(id, "exec sleep 1000")
    back = api.post(f"/sandboxes/{id}/snapshots/restore", {"snapshotId": one["id"]}).ok()
    assert back["id"] == id and back["status"] == "running" and back["name"] == "again"
    assert back["expiresAt"] == box["expiresAt"]
    assert api.sh(id, "cat /root/f /root/d/x; echo $A; ls /root") == "good\nx\nb\nd\nf\nruns\n"
    wait_until(lambda: api.sh(id, "cat /root/runs") == "run\nrun\n", what="the entrypoint to run again")
    # Again, by name, from a paused one, and to a snapshot of what was restored.
    api.sh(id, "echo third >/root/third")
    two = snap(id)
    api.sh(id, "rm /root/third")
    api.post(f"/sandboxes/{id}/pause").ok()
    assert api.post(f"/sandboxes/{id}/snapshots/restore", {"snapshotId": "good"}).ok()["status"] == "running"
    assert api.exec(id, "cat /root/third")["exitCode"] != 0
    api.post(f"/sandboxes/{id}/snapshots/restore", {"snapshotId": two["id"]}).ok()
    assert api.sh(id, "cat /root/f /root/third") == "good\nthird\n"


def test_restore_refuses_what_it_cannot_do(api, make, snap):
    box, other = make()["id"], make()["id"]
    theirs = snap(other)
    path = f"/sandboxes/{box}/snapshots/restore"
    api.post(path, {"snapshotId": theirs["id"]}).failed(409, "snapshot_of_another", "clone")
    api.post(path, {"snapshotId": "none"}).failed(404, "snapshot_not_found")
    api.post(path, {}).failed(400, "invalid")
    assert api.sandbox(box)["status"] == "running"


def test_a_stopped_sandbox_is_snapshot_cloned_and_restored(api, make, snap, clone):
    box = make()["id"]
    api.sh(box, "echo one >/root/f")
    one = snap(box)
    api.sh(box, "echo two >/root/f")
    api.post(f"/sandboxes/{box}/stop").ok()
    two = snap(box)
    assert api.sandbox(box)["status"] == "stopped"
    assert api.sh(clone(f"/snapshots/{two['id']}")["id"], "cat /root/f") == "two\n"
    assert api.sh(clone(f"/sandboxes/{box}")["id"], "cat /root/f") == "two\n"
    assert api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": one["id"]}).ok()["status"] == "running"
    assert api.sh(box, "cat /root/f") == "one\n"


def test_a_snapshot_after_half_a_restore_is_of_what_was_restored(shared, api, make, snap, clone):
    box = make()["id"]
    disks = shared.data / "sandboxes"
    api.sh(box, "echo one >/root/f")
    one = snap(box)
    api.sh(box, "echo two >/root/f")
    api.post(f"/sandboxes/{box}/stop").ok()
    # What is in the folder can be written, and none of it be removed.
    if subprocess.run(["chattr", "+i", disks], capture_output=True).returncode:
        pytest.skip("the disk cannot be made to stay")
    try:
        reply = api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": one["id"]})
    finally:
        subprocess.run(["chattr", "-i", disks], check=True)
    assert reply.status >= 500 and api.sandbox(box)["reason"] == "restoring"
    two = snap(box)
    assert api.sh(clone(f"/snapshots/{two['id']}")["id"], "cat /root/f") == "one\n"
    api.post(f"/sandboxes/{box}/start").ok()
    assert api.sh(box, "cat /root/f") == "one\n"


def test_a_restored_sandbox_outlives_its_snapshot_and_a_restart(own):
    with own.api() as api:
        box = api.create()["id"]
        api.sh(box, "echo one >/root/f")
        one = api.post(f"/sandboxes/{box}/snapshots", {}).ok()
        api.sh(box, "echo two >/root/f")
        api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": one["id"]}).ok()
        api.sh(box, "echo later >/root/later")
        api.delete(f"/snapshots/{one['id']}").ok()
        own.restart()
        assert api.sh(box, "cat /root/f /root/later") == "one\nlater\n"
        api.post(f"/sandboxes/{box}/stop").ok()
        api.post(f"/sandboxes/{box}/start").ok()
        assert api.sh(box, "cat /root/f /root/later") == "one\nlater\n"
        api.remove(box)
        wait_until(lambda: not list((own.data / "images/layers").iterdir()), what="its layer to go")


# ---- chains ----


def own_layers(daemon, snapshot):
    record = json.loads((daemon.data / "images/records" / (snapshot["imageId"][7:] + ".json")).read_text())
    return sum(layer.get("own", False) for layer in record["layers"])


def step(n):
    """Adds, changes, hides, brings back, and replaces a folder by a file and a file by a folder."""
    return (f"cd /root; echo {n} >n; mkdir -p d{n % 3}; echo {n} >d{n % 3}/{n}; rm -rf d{(n + 1) % 3}; "
            f"rm -rf turn; if [ {n % 2} = 0 ]; then mkdir turn; echo {n} >turn/{n}; else echo {n} >turn; fi; "
            f"rm -f kept; ln n kept; rm -rf /home/user; mkdir -p /home/user/{n}; echo alone >/home/user/f; touch -d '2001-01-{n + 1:02} 00:00:00' n")


SHOW = """cd /; find root home -type d | LC_ALL=C sort | while read -r f; do stat -c '%n %a %u' $f; done
find root home ! -type d | LC_ALL=C sort | while read -r f; do stat -c '%n %F %a %u %s %Y' $f; done
[ /root/n -ef /root/kept ] && stat -c %h /home/user/f; cat /root/n; cat /root/turn /root/turn/* 2>/dev/null; true"""


def test_a_long_chain_stays_short_and_shows_the_same(own):
    with own.api() as api:
        box = api.create()["id"]
        for n in range(20):
            api.sh(box, step(n))
            before = api.sh(box, SHOW)
            one = api.post(f"/sandboxes/{box}/snapshots", {}).ok()
            api.remove(box)
            box = api.post(f"/snapshots/{one['id']}/clone", {}).ok()["id"]
            assert api.sh(box, SHOW) == before, n
        last = one["id"]

        def short():
            return own_layers(own, api.get(f"/snapshots/{last}").ok()) <= 4

        wait_until(short, 60, "its layers to be merged")
        twin = api.post(f"/snapshots/{last}/clone", {}).ok()["id"]
        assert api.sh(twin, SHOW) == before
        for s in api.get("/snapshots").ok()["snapshots"]:
            api.delete(f"/snapshots/{s['id']}").ok()
        api.remove(twin)
        assert api.sh(box, SHOW) == before, "it stands on layers that nobody else has"
        api.remove(box)
        wait_until(lambda: not list((own.data / "images/layers").iterdir()), what="all layers to go")


# ---- what changed ----


def changes(api, id, against=None):
    found = api.get(f"/sandboxes/{id}/diff" + (f"?snapshotId={against}" if against else "")).ok()
    assert not found["truncated"]
    return [f"{c['kind']} {c['path']}" for c in found["changes"] if c["path"].startswith("/root")]


def test_diff_tells_what_was_added_modified_and_deleted(api, make, snap, clone):
    box = make()["id"]
    assert changes(api, box) == []
    api.sh(box, "mkdir -p /root/d/e; echo a >/root/d/a; echo b >/root/d/e/b; ln -s a /root/l; echo k >/root/kept")
    assert changes(api, box) == ["A /root/d", "A /root/d/a", "A /root/d/e", "A /root/d/e/b", "A /root/kept", "A /root/l"]
    one = snap(box, name="one")
    assert changes(api, box, "one") == []
    api.sh(box, "echo more >>/root/d/a; rm -r /root/d/e; ln -sf b /root/l; chmod 600 /root/kept; echo n >/root/new")
    wanted = ["M /root/d/a", "D /root/d/e", "M /root/kept", "M /root/l", "A /root/new"]
    assert changes(api, box, "one") == wanted
    # The same for a box that stands on the snapshot, where deleting makes whiteouts and opaque folders.
    twin = clone(f"/snapshots/{one['id']}")["id"]
    assert changes(api, twin) == changes(api, twin, "one") == []
    api.sh(twin, "echo more >>/root/d/a; rm -r /root/d/e; ln -sf b /root/l; chmod 600 /root/kept; echo n >/root/new")
    assert changes(api, twin) == wanted
    api.sh(twin, "mkdir /root/d/e; echo c >/root/d/e/c")
    assert changes(api, twin) == ["M /root/d/a", "D /root/d/e/b", "A /root/d/e/c", "M /root/kept", "M /root/l", "A /root/new"]
    api.sh(twin, "rm -r /root/d; echo file >/root/d")
    assert "M /root/d" in changes(api, twin)


# ---- the command line ----


def test_diff_sees_what_has_the_same_size_and_time(api, make, snap):
    box = make()["id"]
    api.sh(box, "cd /root; for f in a b c; do echo one >$f; touch -d 2001-01-01 $f; done")
    one = snap(box)["id"]
    api.sh(box, "cd /root; echo two >a; echo one >b; touch -d 2001-01-01 a b")
    changes = api.get(f"/sandboxes/{box}/diff?snapshotId={one}").ok()["changes"]
    assert [(c["kind"], c["path"]) for c in changes] == [("M", "/root/a")]


def test_the_command_line(own):
    with own.api() as api:
        box = api.create(name="web")["id"]
        api.sh(box, "echo one >/root/f")
        id = cay(own, "snapshot", "create", "-l", "step=1", "web", "first", check=True).stdout.decode().strip()
        assert id.startswith("snap_")
        api.sh(box, "echo two >/root/f; echo x >/root/x")
        assert cay(own, "diff", "web", "first", check=True).stdout.decode() == "M /root/f\nA /root/x\n"
        assert json.loads(cay(own, "diff", "--json", "web", "first", check=True).stdout.decode())[1]["path"] == "/root/x"
        listed = cay(own, "snapshot", "ls", "web", check=True).stdout.decode().splitlines()
        assert listed[0].split() == ["ID", "NAME", "SANDBOX", "SIZE", "AGE", "LABELS"]
        assert listed[1].split()[:3] == [id, "first", "web"] and listed[1].split()[-1] == "step=1"
        assert cay(own, "snapshots", "-q", check=True).stdout.decode() == id + "\n"
        cay(own, "snapshot", "label", "first", "step=", "good=yes", check=True)
        assert json.loads(cay(own, "snapshot", "inspect", id, check=True).stdout.decode())["labels"] == {"good": "yes"}
        forks = cay(own, "fork", "-n", "3", "--name", "try", "web", check=True).stdout.decode().split()
        assert len(forks) == 3 and all(api.sh(f, "cat /root/f") == "two\n" for f in forks)
        assert cay(own, "snapshot", "restore", "web", "first", check=True).stdout.decode().strip() == box
        assert api.sh(box, "cat /root/f") == "one\n"
        twin = cay(own, "snapshot", "clone", "--name", "twin", "first", check=True).stdout.decode().strip()
        assert api.sandbox(twin)["name"] == "twin" and api.sh(twin, "cat /root/f") == "one\n"
        assert cay(own, "snapshot", "rm", "first", check=True).stdout.decode() == "first\n"
        gone = cay(own, "snapshot", "rm", "first")
        assert gone.returncode == 1 and "Snapshot not found: first" in gone.stderr.decode()


# ---- out and in ----


def test_a_snapshot_leaves_as_a_layer_and_comes_back(own, tmp_path):
    with own.api() as api:
        box = api.create(name="web")["id"]
        api.sh(box, TREE + "\nrm -rf /home/user")
        before = api.sh(box, LOOK)
        cay(own, "snapshot", "create", "web", "first", check=True)
        layer = tmp_path / "layer.tar"
        cay(own, "snapshot", "export", "first", str(layer), check=True)
        names = tarfile.open(layer).getnames()
        assert "root/t/plain" in names and "home/.wh.user" in names, names
        cay(own, "snapshot", "rm", "first", check=True)
        id = cay(own, "snapshot", "import", "--name", "back", "-l", "from=file", str(layer), "host", check=True)
        back = api.get("/snapshots/back").ok()
        assert id.stdout.decode().strip() == back["id"] and back["labels"] == {"from": "file"}
        twin = api.post("/snapshots/back/clone", {}).ok()["id"]
        after = api.sh(twin, LOOK)
        assert [line for line in after.splitlines() if "sparse" not in line and not line.isdigit()] == \
               [line for line in before.splitlines() if "sparse" not in line and not line.isdigit()]
        assert api.sh(twin, "ls /home") == ""
        # One that has several layers leaves as one.
        for n in range(2):
            api.sh(twin, f"echo {n} >/root/{n}; rm -f /root/t/plain")
            one = api.post(f"/sandboxes/{twin}/snapshots", {"name": f"n{n}"}).ok()
            twin = api.post(f"/snapshots/{one['id']}/clone", {}).ok()["id"]
        cay(own, "snapshot", "export", "n1", str(layer), check=True)
        names = tarfile.open(layer).getnames()
        assert {"root/0", "root/1", "root/t/twin", "home/.wh.user"} <= set(names), names
        assert not {"root/t/plain", "root/t/.wh.plain"} & set(names), "what is not below needs no hiding"
        api.post("/snapshots/import", {"path": str(layer), "image": "host"}).failed(403, "local_only")
        with own.unix_api() as root:
            root.post("/snapshots/import", {"path": str(layer), "image": "none:1"}).failed(404, "image_not_found")
            root.post("/snapshots/import", {"path": str(tmp_path), "image": "host"}).failed(400, "bad_path")
            broken = tmp_path / "broken"
            broken.write_bytes(b"no archive")
            assert root.post("/snapshots/import", {"path": str(broken), "image": "host"}).status == 400
        assert not [n for n in os.listdir(own.data / "images/layers") if n.startswith("tmp_")]


def test_what_merged_layers_hid_from_one_another_is_not_seen(own):
    """A whiteout of nothing would be a name in its folder that cannot be looked at or removed."""
    with own.api() as api:
        box = api.create()["id"]
        for n in range(5):
            api.sh(box, f"mkdir -p /root/d/e; cd /root/d; rm -rf gone* e/gone*; echo >gone{n}; echo >e/gone{n}")
            one = api.post(f"/sandboxes/{box}/snapshots", {}).ok()
            box = api.post(f"/sandboxes/{box}/clone", {}).ok()["id"]
        path = f"/snapshots/{one['id']}"
        wait_until(lambda: api.get(path).ok()["imageId"] != one["imageId"], 60, "the layers to be merged")
        twin = api.post(f"{path}/clone", {}).ok()["id"]
        assert api.sh(twin, "cd /root/d; ls -A . e") == ".:\ne\ngone4\n\ne:\ngone4\n"
        assert api.sh(twin, "rm -r /root/d && ls -A /root") == ""


def test_a_snapshot_is_exported_twice_at_once(own):
    """Its layers are merged for that, and only one of the two gives the snapshot what it made."""
    with own.api() as api, own.api() as other:
        box = api.create()["id"]
        api.sh(box, "cd /root; seq 1000 | split -l 1")
        box = api.post(f"/sandboxes/{box}/clone", {}).ok()["id"]
        one = api.post(f"/sandboxes/{box}/snapshots", {}).ok()["id"]
        layers = []
        second = threading.Thread(target=lambda: layers.append(other.get(f"/snapshots/{one}/export")))
        second.start()
        layers.append(api.get(f"/snapshots/{one}/export"))
        second.join()
        assert [layer.status for layer in layers] == [200, 200], [layer.body[:200] for layer in layers]


def test_a_restore_that_waits_finds_its_snapshot_though_its_layers_were_merged(own):
    with own.api(timeout=120) as api, own.api(timeout=120) as other:
        box = api.create(disk=1024)["id"]
        for n in range(3):
            api.sh(box, f"mkdir /root/{n}; cd /root/{n}; seq 200 | split -l 1")
            box = api.post(f"/sandboxes/{box}/clone", {}).ok()["id"]
        api.sh(box, "head -c 100000000 /dev/zero | tr '\\0' x >/root/big; echo kept >/root/kept")
        one = api.post(f"/sandboxes/{box}/snapshots", {}).ok()["id"]
        before = half_made(own)
        busy = threading.Thread(target=lambda: other.post(f"/sandboxes/{box}/commit", {"name": "busy:1"}))
        busy.start()  # what the restore waits for, while the first one's layers are merged
        wait_until(lambda: half_made(own) - before or not busy.is_alive(), what="a layer in the making")
        api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": one}).ok()
        busy.join()
        assert api.sh(box, "cat /root/kept; ls /root/0 | wc -l") == "kept\n200\n"


# ---- paths that no layer has ----


LONG = """n=$(printf 'n%.0s' $(seq 250)); cd /root; echo kept >beside
for i in $(seq 20); do mkdir $n; cd $n 2>/dev/null; echo $i >f; done"""
FOLDERS = "find /root -type d -name 'nnn*' | wc -l"


def test_a_path_of_more_than_4096_bytes_is_left_out_and_the_rest_is_kept(api, box, snap, clone):
    """The answer of whatever copies the disk names the path, and what was copied is whole but for it."""
    api.sh(box, LONG)
    assert int(api.sh(box, FOLDERS)) > 16
    taken = snap(box)
    image = api.post(f"/sandboxes/{box}/commit", {"name": "too-long:1"}).ok()
    cloned = clone(f"/sandboxes/{box}")
    forks = api.post(f"/sandboxes/{box}/fork", {"count": 2}).ok()["sandboxes"]
    try:
        for answer in (taken, image, cloned, *forks):
            (warning,) = answer["warnings"]
            assert warning.startswith("1 file or folder was left out") and "longer than 4096 bytes" in warning and "root/nnnn" in warning
        for other in (cloned["id"], clone(f"/snapshots/{taken['id']}")["id"], forks[1]["id"]):
            assert api.sh(other, "cat /root/beside") == "kept\n"
            assert int(api.sh(other, FOLDERS)) == 16
        made = api.create(image="too-long:1")["id"]
        assert api.sh(made, "cat /root/beside") == "kept\n"
        api.delete(f"/sandboxes/{made}")
        # What is read later has no warning: it is the answer's.
        assert "warnings" not in api.get(f"/snapshots/{taken['id']}").ok()
    finally:
        for one in forks:
            api.delete(f"/sandboxes/{one['id']}")
        api.delete("/images/too-long:1")


def test_the_command_line_says_what_a_snapshot_and_a_commit_have_left_out(own):
    with own.api() as api:
        id = api.create(name="web")["id"]
        api.sh(id, LONG)
        for words in (("snapshot", "create", "web"), ("image", "commit", "web", "too-long:1")):
            done = cay(own, *words, check=True)
            assert done.stdout.startswith(b"snap_" if words[0] == "snapshot" else b"sha256:")
            assert b"1 file or folder was left out" in done.stderr


def test_a_snapshot_has_its_id_twice(api, box, snap):
    """As the SDKs of iii and their README have it."""
    one = snap(box, name="twice")
    assert one["snapshotId"] == one["id"]
    assert api.get("/snapshots/twice").ok()["snapshotId"] == one["id"]
    assert api.post(f"/snapshots/{one['id']}/label", {"name": "again"}).ok()["snapshotId"] == one["id"]
    for path in ("/snapshots", f"/sandboxes/{box}/snapshots"):
        assert one["id"] in [x["snapshotId"] for x in api.get(path).ok()["snapshots"]]
    assert api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": one["snapshotId"]}).ok()["id"] == box
