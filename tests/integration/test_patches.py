"""Changes to the files of a new sandbox, made before anything runs in it: all of them, or no sandbox."""

import base64
import contextlib
import http.client
import json
import threading

import pytest

from cay_harness import cay, wait_until

pytestmark = pytest.mark.core

MIB = 1 << 20


def refused(api, patches, status=400, code="patch_failed", text=None, **fields):
    before = set(api.ids())
    said = api.try_create(patches=patches, **fields).failed(status, code, text)
    assert set(api.ids()) == before
    return said["error"]


def b64(data):
    return base64.b64encode(data).decode()


def test_each_kind_of_patch_does_what_it_says(make, api):
    data = bytes(range(256))
    id = make(patches=[
        {"type": "text", "path": "/srv/new/a.txt", "content": "é\n"},
        {"type": "text", "path": "/srv/run.sh", "content": "#!/bin/sh\necho ran\n", "mode": "0755"},
        {"type": "file", "path": "/srv/bytes", "content": b64(data), "mode": "0600"},
        {"type": "file", "path": "/srv/empty", "content": ""},
        {"type": "text", "path": "relative", "content": "in the workspace"},
        {"type": "append", "path": "/srv/new/a.txt", "content": "two\n"},
        {"type": "append", "path": "/srv/appended", "content": "made\n"},
        {"type": "mkdir", "path": "/srv/deep/er/est", "mode": "0700"},
        {"type": "mkdir", "path": "/srv/deep"},
        {"type": "symlink", "path": "/srv/link", "target": "new/a.txt"},
        {"type": "copy", "path": "/srv/copied", "from": "/srv/new"},
        {"type": "copy", "path": "/srv/run2.sh", "from": "/srv/run.sh"},
        {"type": "copy", "path": "/srv/run3.sh", "from": "/srv/run.sh", "mode": "0640"},
        {"type": "remove", "path": "/srv/copied/a.txt"},
        {"type": "remove", "path": "/srv/was/never/there"},
        {"type": "chmod", "path": "/srv/empty", "mode": "4711"},
    ])["id"]
    assert api.sh(id, "cat /srv/new/a.txt") == "é\ntwo\n"
    assert api.sh(id, "/srv/run.sh && /srv/run2.sh") == "ran\nran\n"
    assert api.download(id, "/srv/bytes", anywhere=True) == data
    assert api.read(id, "relative") == "in the workspace"
    assert api.sh(id, "cat /srv/appended") == "made\n"
    assert api.sh(id, "cat /srv/link; readlink /srv/link") == "é\ntwo\nnew/a.txt\n"
    assert api.sh(id, "ls -A /srv/copied") == ""
    modes = api.sh(id, "cd /srv; stat -c '%n %a %U:%G' new/a.txt run.sh bytes empty deep deep/er deep/er/est "
                       "run3.sh")
    assert modes.split("\n")[:-1] == [
        "new/a.txt 644 root:root", "run.sh 755 root:root", "bytes 600 root:root", "empty 4711 root:root",
        "deep 755 root:root", "deep/er 755 root:root", "deep/er/est 700 root:root", "run3.sh 640 root:root"]
    assert "patches" not in api.sandbox(id)["config"]


@pytest.mark.parametrize("patch", [
    {"type": "text", "content": "x"}, {"type": "file", "content": b64(b"x")},
    {"type": "symlink", "target": "x"}, {"type": "copy", "from": "/etc/passwd"}],
    ids=lambda p: p["type"])
def test_what_is_there_is_replaced_by_wish_only(api, make, patch):
    first = {"type": "symlink", "path": "/srv/x", "target": "/srv/elsewhere"}
    said = refused(api, [first, {**patch, "path": "/srv/x"}])
    assert said.startswith("patches[1] /srv/x: ") and "replace" in said
    id = make(patches=[first, {**patch, "path": "/srv/x", "replace": True}])["id"]
    # It is the link that was replaced, and not what it pointed to.
    assert api.exec(id, "test -e /srv/elsewhere")["exitCode"] == 1
    want = "x\n" if patch["type"] == "symlink" else ""
    assert api.sh(id, "readlink /srv/x || true") == want


def test_a_file_that_is_a_mount_is_written_over(api, make):
    id = make(patches=[{"type": "append", "path": "/etc/hosts", "content": "10.1.2.3 db\n"}])["id"]
    hosts = api.sh(id, "cat /etc/hosts")
    assert "localhost" in hosts and hosts.endswith("10.1.2.3 db\n")
    id = make(patches=[{"type": "text", "path": "/etc/hosts", "content": "127.0.0.1 me\n", "replace": True}])["id"]
    assert api.sh(id, "cat /etc/hosts") == "127.0.0.1 me\n"


def test_they_are_there_before_the_entrypoint(api, make):
    id = make(patches=[{"type": "text", "path": "/srv/say", "content": "early"}],
              entrypoint=["sh", "-c", "cat /srv/say > /tmp/seen; exec sleep 1000"])["id"]
    assert api.sh(id, "while ! [ -s /tmp/seen ]; do sleep 0.01; done; cat /tmp/seen") == "early"


def test_one_that_cannot_be_applied_refuses_all_and_says_which(api):
    good = {"type": "text", "path": "/srv/good", "content": "x"}
    for bad, text in [
            ({"type": "append", "path": "/srv", "content": "x"}, "directory"),
            ({"type": "mkdir", "path": "/srv/good"}, "directory"),
            ({"type": "text", "path": "/srv/good/x", "content": "x"}, "directory"),
            ({"type": "copy", "path": "/srv/c", "from": "/srv/none"}, "no such file"),
            ({"type": "copy", "path": "/srv/in/me", "from": "/srv"}, "in one another"),
            ({"type": "chmod", "path": "/srv/none", "mode": "644"}, "no such file"),
            ({"type": "text", "path": "/proc/new", "content": "x"}, ""),
            ({"type": "remove", "path": "/usr/bin/env"}, ""),
            ({"type": "text", "path": "/srv", "content": "x", "replace": True}, "directory")]:
        said = refused(api, [good, good | {"path": "/srv/two"}, bad])
        assert said.startswith(f"patches[2] {bad['path']}: ") and text in said, said


def test_what_is_no_patch_is_refused_before_anything_is_made(api):
    for bad, text in [
            ({"path": "/srv/x"}, "patches[0].type is required"),
            ({"type": "text", "path": "/srv/x"}, "patches[0] /srv/x: text needs content"),
            ({"type": "text", "content": "x"}, "patches[0].path is required"),
            ({"type": "burn", "path": "/srv/x"}, "patches[0].type"),
            ({"type": "mkdir", "path": "/srv/x", "content": "x"}, "mkdir has no content"),
            ({"type": "mkdir", "path": "/"}, "below /"),
            ({"type": "mkdir", "path": "/srv/x", "mode": "rwx"}, "octal"),
            ({"type": "file", "path": "/srv/x", "content": "no base64"}, "base64"),
            ({"type": "symlink", "path": "/srv/x", "target": ""}, "target is required")]:
        refused(api, [bad], code="invalid", text=text)
    refused(api, [{"type": "mkdir", "path": "/srv/../etc/x"}], code="path_traversal")
    refused(api, [{"type": "mkdir", "path": f"/srv/{i}"} for i in range(1001)], 413, "too_large")
    half = "x" * (9 * MIB)
    refused(api, [{"type": "text", "path": f"/srv/{i}", "content": half} for i in range(2)], 413, "too_large")


def test_links_lead_nowhere_but_into_the_box(api, make, tmp_path):
    """The host's files are not there to be reached, by no way of writing."""
    mark = tmp_path / "mark"
    mark.write_text("the host's")
    id = make(patches=[
        {"type": "symlink", "path": "/srv/up", "target": "../../../.." + str(tmp_path)},
        {"type": "text", "path": f"{tmp_path}/mark", "content": "the box's"},
        {"type": "append", "path": "/srv/up/mark", "content": ", and more"},
        {"type": "copy", "path": "/srv/mark", "from": "/srv/up/mark"}])["id"]
    assert mark.read_text() == "the host's"
    assert api.sh(id, "cat /srv/mark") == "the box's, and more"
    refused(api, [{"type": "copy", "path": "/srv/x", "from": str(mark)}], text="no such file")


def test_a_disk_that_is_full_is_told_as_such(api):
    disk = {"disk": 64}
    some = {"type": "text", "path": "/srv/a", "content": "x" * (8 * MIB)}
    copies = [{"type": "copy", "path": f"/srv/b{i}", "from": "/srv/a"} for i in range(10)]
    refused(api, [some, *copies], 429, "no_space", **disk)


def test_many_small_ones_and_one_large(api, make):
    large = bytes(i % 251 for i in range(3 * MIB))
    id = make(patches=[{"type": "text", "path": f"/srv/many/{i}", "content": str(i)} for i in range(900)]
              + [{"type": "file", "path": "/srv/large", "content": b64(large)}])["id"]
    assert api.sh(id, "ls /srv/many | wc -l; cat /srv/many/899") == "900\n899"
    assert api.download(id, "/srv/large", anywhere=True) == large


def test_they_are_kept_by_a_restart_and_not_made_again(own):
    with own.api() as api:
        id = api.create(patches=[{"type": "text", "path": "/srv/x", "content": "1"}])["id"]
        api.sh(id, "echo 2 > /srv/x")
        own.kill9()
        own.start()
        assert api.sh(id, "cat /srv/x") == "2\n"
        api.remove(id)


@pytest.mark.counts_rows
def test_kill_9_in_their_midst_leaves_a_whole_sandbox_or_none(own):
    """One that was cut off is not finished by the next start, which does not know what was asked for."""
    patches = [{"type": "text", "path": f"/srv/many/{i}", "content": "x" * 4000} for i in range(900)]
    cut = 0
    for wait in (0, 0.01, 0.03, 0.06, 0.1, 0.2):
        reply = {}

        def create():
            with own.api() as mine, contextlib.suppress(OSError, http.client.HTTPException):
                reply["status"] = mine.try_create(patches=patches, entrypoint=["sleep", "1000"]).status

        thread = threading.Thread(target=create)
        with own.api() as api:
            thread.start()
            wait_until(lambda: api.ids() or not thread.is_alive(), what="the create to begin")
        thread.join(wait)  # the moment of the crash is the test's input
        own.kill9()
        thread.join()
        own.start()
        with own.api() as api:
            ids = api.ids()
            assert len(ids) == 1 or reply.get("status") != 200
            cut += not ids
            for id in ids:
                assert api.sandbox(id)["status"] == "running"
                assert api.sh(id, "ls /srv/many | wc -l; cat /srv/many/899").startswith("900\nxxx")
                assert [p for p in api.processes(id) if p["command"] == "sleep 1000"]
                api.remove(id)
    assert cut, "no create was cut off"


# ---- the CLI ----


def test_the_cli_copies_files_and_folders_in(shared, api, tmp_path):
    tree = tmp_path / "app"
    (tree / "sub").mkdir(parents=True)
    (tree / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "run.sh").chmod(0o755)
    (tree / "sub" / "bytes").write_bytes(bytes(range(256)))
    (tree / "to-bytes").symlink_to("sub/bytes")
    (tmp_path / "one:two.txt").write_text("colon")
    done = cay(shared, "create", "-q", "--copy", f"{tree}:/srv/app", "--copy", f"{tree}/run.sh:/srv/bin/",
               "--copy", f"{tmp_path}/one:two.txt:/etc/hosts", check=True)
    id = done.stdout.decode().strip()
    assert api.sh(id, "/srv/app/run.sh; /srv/bin/run.sh; cat /etc/hosts") == "ran\nran\ncolon"
    assert api.sh(id, "readlink /srv/app/to-bytes; stat -c %a /srv/app/run.sh /srv/app/sub/bytes") == \
        "sub/bytes\n755\n644\n"
    assert api.download(id, "/srv/app/sub/bytes", anywhere=True) == bytes(range(256))
    api.remove(id)


def test_the_cli_takes_patches_from_files_and_stdin(shared, tmp_path):
    patches = [{"type": "text", "path": "/srv/a", "content": "one\n"}]
    more = [{"type": "append", "path": "/srv/a", "content": "two\n"}]
    (tmp_path / "p.json").write_text(json.dumps(patches))
    done = cay(shared, "run", "--patch", tmp_path / "p.json", "--patch", "-", "host", "cat", "/srv/a",
               input=json.dumps({"patches": more}).encode(), check=True)
    assert done.stdout == b"one\ntwo\n"


def test_the_cli_says_what_is_wrong(shared, api, tmp_path):
    (tmp_path / "bad.json").write_text("[{]")
    (tmp_path / "none.json").write_text('{}')
    (tmp_path / "no.json").write_text(json.dumps([{"type": "text", "path": "/etc/hosts", "content": ""}]))
    (tmp_path / "large").write_bytes(b"x" * (17 * MIB))
    before = set(api.ids())
    for args, status, text in [
            (["--patch", tmp_path / "bad.json"], 2, "line 1"),
            (["--patch", tmp_path / "none.json"], 2, "must be a JSON array"),
            (["--patch", tmp_path / "missing"], 2, "No such file"),
            (["--copy", "only"], 2, "SRC:DST"),
            (["--copy", f"{tmp_path}/large:/srv/x"], 2, "16 MiB"),
            (["--patch", tmp_path / "no.json"], 1, "patches[0] /etc/hosts: it exists already")]:
        done = cay(shared, "create", *args)
        assert done.returncode == status and text in done.stderr.decode(), done
    assert set(api.ids()) == before
