"""Names of files that are no UTF-8, or that a terminal would take for orders, by the API and by the command line."""

import base64
import json
import os

import pytest

from test_cli import on_terminal, run  # noqa: F401 (a fixture)

pytestmark = pytest.mark.core

BAD = b"caf\xe9\x1b]0;x\x07"


def b64(data):
    return base64.b64encode(data).decode()


def encoded(api, box, what, **fields):
    return api.file(box, what, pathEncoding="base64", **fields)


def make_bad(api, box):
    api.sh(box, r"mkdir -p dir; cd dir; printf hello >$(printf 'caf\351\033]0;x\007')")


def test_a_list_leads_back_to_every_file(api, box):
    make_bad(api, box)
    (one,) = api.file(box, "list", path="dir").ok()
    assert one["name"] == "caf\ufffd\x1b]0;x\x07" and one["path"] == "/workspace/dir/" + one["name"]
    assert base64.b64decode(one["pathBase64"]) == b"/workspace/dir/" + BAD
    api.file(box, "read", path=one["path"]).failed(404)
    assert encoded(api, box, "read", path=one["pathBase64"]).ok() == "hello"
    (same,) = encoded(api, box, "list", path=b64(b"dir")).ok()
    assert same["path"] == one["pathBase64"] and base64.b64decode(same["name"]) == BAD
    assert same["pathBase64"] == one["pathBase64"]
    api.write(box, "plain", "x")
    assert all("pathBase64" not in f for f in api.file(box, "list").ok())


def test_every_call_reaches_such_a_file(api, box):
    bad = b64(b"/workspace/d\xff/" + BAD)
    encoded(api, box, "mkdir", paths=[b64(b"d\xff")]).ok()
    encoded(api, box, "write", path=bad, content="1").ok()
    encoded(api, box, "upload", path=bad, content=b64(b"\0two")).ok()
    assert encoded(api, box, "download", path=bad).ok() == b64(b"\0two")
    encoded(api, box, "chmod", path=bad, mode="700").ok()
    meta = encoded(api, box, "info", path=bad).ok()
    assert meta["path"] == bad and meta["permissions"] == "-rwx------"
    assert encoded(api, box, "info", paths=[bad]).ok() == [meta]
    assert encoded(api, box, "search", pattern="caf*", dir=b64(b"/workspace")).ok() == [bad]
    assert encoded(api, box, "search", pattern="caf*").ok() == [bad]
    query = bad.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    api.post(f"/sandboxes/{box}/files/upload?path={query}&pathEncoding=base64", raw=b"raw",
             type="application/octet-stream").ok()
    assert encoded(api, box, "read", path=bad).ok() == "raw"
    moved = b64(b"m\xfe")
    encoded(api, box, "move", moves=[{"from": bad, "to": moved}]).ok()
    assert api.sh(box, "ls | od -An -c | tr -d ' '") == "d377\\nm376\\n\n"
    encoded(api, box, "delete", path=moved).ok()
    encoded(api, box, "rmdir", paths=[b64(b"d\xff")]).ok()
    assert api.sh(box, "ls -A") == ""


def test_what_is_no_path_in_base64_is_refused(api, box):
    for path in ("!", "YQ", "", b64(b"a\0b"), "caf\u00e9"):
        encoded(api, box, "read", path=path).failed(400)
    said = encoded(api, box, "read", path=b64(b"../\xff")).failed(400, "path_traversal")
    assert said["error"].startswith("Path traversal detected: ")
    encoded(api, box, "read", path=b64(b"/etc/\xff")).failed(400, "path_traversal")
    encoded(api, box, "read", path=b64(b"no\xff")).failed(404)
    encoded(api, box, "read", path=b64(b"x" * 4095)).failed((400, 404))
    api.file(box, "read", path="x", pathEncoding="rot13").failed(400)
    encoded(api, box, "info", paths=[b64(b"a"), "%"]).failed(400, "bad_base64")
    encoded(api, box, "move", moves=[{"from": "%", "to": b64(b"a")}]).failed(400, "bad_base64")


def on_bytes(run):
    """run, with arguments that may be bytes."""
    return lambda *argv, **how: run(*(os.fsdecode(a) if isinstance(a, bytes) else a for a in argv), **how)


def test_the_command_line_reaches_such_files(run, api, box, shared, tmp_path):
    bad = b"d\xff/" + BAD
    run = on_bytes(run)
    run("file", "write", box, bad, input=b"in", check=True)
    assert run("file", "read", box, bad, check=True).stdout == b"in"
    assert run("file", "ls", "-q", box, b"d\xff", check=True).stdout == BAD + b"\n"
    assert b"caf\\xe9\\x1b]0;x\\x07" in run("file", "ls", box, b"d\xff", check=True).stdout
    shown, status, _ = on_terminal(shared, ["file", "ls", "-q", box, b"d\xff"], [])
    assert status == 0 and b"caf\\xe9\\x1b]0;x\\x07" in shown and b"\x1b]" not in shown
    (listed,) = json.loads(run("file", "ls", "--json", box, b"d\xff", check=True).stdout)
    assert base64.b64decode(listed["pathBase64"]) == b"/workspace/" + bad

    here = os.fsencode(tmp_path)
    run("cp", box.encode() + b":" + bad, here + b"/out\xfe", check=True)
    with open(here + b"/out\xfe", "rb") as f:
        assert f.read() == b"in"
    os.utime(here + b"/out\xfe", (1_000_000_000, 1_000_000_000))
    run("cp", here + b"/out\xfe", box.encode() + b":", check=True)
    meta = api.file(box, "info", path=b64(b"out\xfe"), pathEncoding="base64").ok()
    assert meta["modifiedAt"] == 1_000_000_000_000
    run("cp", box.encode() + b":d\xff", here, check=True)
    assert os.listdir(here + b"/d\xff") == [BAD]
    run("cp", here + b"/d\xff", box.encode() + b":copy\xfd", check=True)
    assert run("file", "ls", "-q", box, b"copy\xfd", check=True).stdout == BAD + b"\n"
    run("file", "rm", box, bad, check=True)
    assert run("file", "read", box, bad).returncode == 1
    run("file", "rm", "-r", box, b"copy\xfd", b"d\xff", b"out\xfe", check=True)
    assert api.file(box, "list").ok() == []


def test_cp_of_such_names_without_tar(run, box, tmp_path):
    run("exec", box, "mkdir bin; for p in sh touch; do ln -s $(command -v $p) bin/; done", check=True)
    run("env", "set", box, "PATH=/workspace/bin", check=True)
    run = on_bytes(run)
    here = os.fsencode(tmp_path)
    os.makedirs(here + b"/src/in\xff")
    for name in (BAD, b"two\nlines", b"in\xff/x"):
        with open(here + b"/src/" + name, "wb") as f:
            f.write(name)
    said = run("cp", here + b"/src", box + ":src", check=True)
    assert b"no `tar`" in said.stderr
    said = run("cp", box + ":src", here + b"/back", check=True)
    assert b"no `tar`" in said.stderr
    assert sorted(os.listdir(here + b"/back")) == sorted([BAD, b"two\nlines", b"in\xff"])
    with open(here + b"/back/in\xff/x", "rb") as f:
        assert f.read() == b"in\xff/x"
