"""files/watch: changes to files, told as they happen."""

import json
import socket
import subprocess
import time

import pytest

from cay_harness import CAY, SLOW, wait_until
from cay_watching import Watching, words

pytestmark = pytest.mark.core


def sh(api, box, command):
    return api.sh(box, command, cwd="/workspace")


def test_each_kind_of_change(api, box):
    with Watching(api, box) as w:
        sh(api, box, "echo 1 >a; echo 2 >>a; mv a b; rm b; mkdir d; rmdir d; : >end")
        seen = words(w.until(("create", "/workspace/end")))
        assert [s for s in seen if s[0] != "write"] == [
            ("create", "a"), ("rename", "b"), ("remove", "b"), ("create", "d"), ("remove", "d"), ("create", "end")]
        assert ("write", "a") in seen


def test_what_a_change_says(api, box):
    with Watching(api, box) as w:
        before = time.time() * 1000
        sh(api, box, "mkdir d; mv d e")
        made, renamed = w.next(), w.next()
        assert made["isDirectory"] is True and renamed["isDirectory"] is True
        assert renamed["from"] == "/workspace/d" and renamed["path"] == "/workspace/e"
        assert before - 5000 < made["timestamp"] < before + 60000


def test_only_the_events_that_were_asked_for(api, box):
    with Watching(api, box, events=["remove", "chmod"]) as w:
        sh(api, box, "echo 1 >a; chmod 600 a; rm a")
        assert [c["type"] for c in w.until(("remove", "/workspace/a"))] == ["chmod", "remove"]


def test_below_only_when_asked(api, box):
    sh(api, box, "mkdir old")
    with Watching(api, box) as flat, Watching(api, box, recursive=True) as deep:
        sh(api, box, ": >old/a; mkdir -p new/x/y; : >new/x/y/f; : >end")
        assert words(flat.until(("create", "/workspace/end"))) == [("create", "new"), ("create", "end")]
        assert words(deep.until(("create", "/workspace/end"))) == [
            ("create", "old/a"), ("create", "new"), ("create", "new/x"), ("create", "new/x/y"),
            ("create", "new/x/y/f"), ("create", "end")]


def test_nothing_in_new_directories_is_missed_or_told_twice(api, box):
    with Watching(api, box, recursive=True, events=["create"]) as w:
        sh(api, box, "for i in $(seq 150); do mkdir -p t/$i/a/b; : >t/$i/a/b/f; done; : >end")
        made = words(w.until(("create", "/workspace/end")))
        assert len(made) == len(set(made)) == 1 + 150 * 4 + 1


def test_directories_are_followed_when_they_move(api, box):
    sh(api, box, "mkdir -p a/b")
    with Watching(api, box, recursive=True) as w:
        sh(api, box, "mv a z; : >z/b/f; mv z/b /tmp/out; : >/tmp/out/unseen; mv /tmp/out in; : >in/g; : >end")
        seen = words(w.until(("create", "/workspace/end")))
        assert seen[:2] == [("rename", "z"), ("create", "z/b/f")]
        assert set(seen[2:]) == {("remove", "z/b"), ("create", "in"), ("create", "in/f"), ("create", "in/unseen"),
                                 ("create", "in/g"), ("create", "end")}
        sh(api, box, "rm -rf *")
        w.until(("remove", "/workspace/end"))
        sh(api, box, "mkdir -p p/q r; : >p/q/f; mv p/q r/q; mv r/q/f r/f; mv r /tmp/r; mkdir r; mv /tmp/r r/s; : >r/s/g; mv r t; : >last")
        there, found = set(), set(sh(api, box, "find . -mindepth 1").split())
        for change in w.until(("create", "/workspace/last")):
            there = after(there, change)
        # A directory that came from an unwatched place is read late, and the removal of the place that it left is reported late.
        while there != found:
            there = after(there, w.next())


def after(there, change):
    """The set of paths after a change."""
    path = change["path"].replace("/workspace", ".")
    if change["type"] == "create":
        return {*there, path}
    if change["type"] == "remove":
        return {p for p in there if p != path and not p.startswith(path + "/")}
    if change["type"] == "rename":
        old = change["from"].replace("/workspace", ".")
        return {path + p[len(old):] if p == old or p.startswith(old + "/") else p for p in there}
    return there


def test_names_that_are_left_out(api, box):
    with Watching(api, box, recursive=True, ignore=["node_modules", "*.tmp"]) as w:
        sh(api, box, "mkdir node_modules; : >node_modules/a; : >x.tmp; mv x.tmp x; mv x y.tmp; : >end")
        assert words(w.until(("create", "/workspace/end"))) == [("create", "x"), ("remove", "x"), ("create", "end")]


def test_a_file_that_a_call_writes_is_told_by_its_own_name_only(api, box):
    sh(api, box, "mkdir old; echo 1 >old/f")
    with Watching(api, box, recursive=True) as w:
        api.write(box, "a", "1")
        api.write(box, "a", "2")
        api.write(box, "new/b", "3")
        sh(api, box, ": >end")
        seen = words(w.until(("create", "/workspace/end")))
        assert not [s for s in seen if ".cay-" in s[1] or s[0] == "rename"], seen
        assert seen[:4] == [("create", "a"), ("write", "a")] * 2
        assert ("create", "new/b") in seen


def test_one_file_also_when_it_is_replaced(api, box):
    api.write(box, "conf", "1")
    with Watching(api, box, path="conf") as w:
        sh(api, box, ": >other; echo 2 >tmp; mv tmp conf; echo 3 >>conf; rm conf; : >conf")
        seen = w.until(("create", "/workspace/conf"))
        assert [c["type"] for c in seen] == ["rename", "write", "remove", "create"]
        assert seen[0]["from"] == "/workspace/tmp"


def test_writes_of_the_api_are_told_too(api, box):
    with Watching(api, box) as w:
        api.write(box, "a", "text")
        assert w.until(lambda c: c["path"] == "/workspace/a")


def test_many_writes_are_few_changes(api, box):
    with Watching(api, box, events=["write", "remove"]) as w:
        sh(api, box, "for i in $(seq 3000); do echo $i >>log; done; rm log")
        assert 1 <= len(w.until(("remove", "/workspace/log"))) - 1 < 1000


def test_it_ends_with_its_path(api, box):
    sh(api, box, "mkdir d")
    with Watching(api, box, path="d") as w:
        sh(api, box, "rmdir d")
        assert [w.next()["type"], w.next()["type"], w.next()] == ["remove", "end", None]


def test_it_ends_with_its_sandbox(api, make):
    box = make()["id"]
    with Watching(api, box) as w:
        api.remove(box)
        assert [w.next()["type"], w.next()] == ["end", None]


def test_names_that_are_no_text(api, box):
    with Watching(api, box) as w:
        sh(api, box, "touch $(printf 'a\\377b')")
        change = w.next()
        assert change["pathBase64"] == "L3dvcmtzcGFjZS9h/2I="


def test_refusals(api, box):
    def watch(**fields):
        return api.post(f"/sandboxes/{box}/files/watch", fields)

    watch(path="none").failed(404, "file_not_found")
    watch(path="../etc").failed(400, "path_traversal")
    watch(path="/etc").failed(400, "path_traversal")
    watch(events=["explode"]).failed(400, "invalid")
    watch(ignore=["a;b"]).failed(400, "invalid")
    watch(ignore=["x"] * 65).failed(400, "invalid")
    api.post(f"/sandboxes/{box}/pause").ok()
    watch().failed(409, "sandbox_not_running")
    api.post(f"/sandboxes/{box}/resume").ok()
    api.get(f"/sandboxes/{box}/files/watch/ws").failed(400, "upgrade_required")


def test_events_when_asked(api, box):
    with Watching(api, box, publish=True) as w:
        sh(api, box, ": >a")
        w.until(("create", "/workspace/a"))

        def told():
            events = api.get(f"/events/history?sandboxId={box}&topic=file.changed").ok()["events"]
            return events and events[0]["data"]

        assert wait_until(told)["path"] == "/workspace/a"


def test_over_a_websocket(shared, api, box):
    with socket.create_connection(("127.0.0.1", api.port), timeout=60 * SLOW) as s:
        s.sendall(f"GET /sandbox/sandboxes/{box}/files/watch/ws?recursive=true HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                  "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
        f = s.makefile("rb")
        assert f.readline().startswith(b"HTTP/1.1 101")
        while f.readline() != b"\r\n":
            pass

        def message():
            head = f.read(2)
            length = head[1] & 127
            if length == 126:
                length = int.from_bytes(f.read(2), "big")
            return json.loads(f.read(length))

        assert message()["type"] == "ready"
        s.sendall(b"\x81\x84\0\0\0\0ping" + b"\x82\x81\0\0\0\0x")  # some clients keep a connection alive so
        s.sendall(b"\x89\x80\0\0\0\0")
        assert f.read(2) == b"\x8a\0"  # what came before the ping has been read
        sh(api, box, ": >a")
        assert message()["path"] == "/workspace/a"


def test_the_command_prints_lines(shared, api, box):
    command = subprocess.Popen([CAY, "file", "watch", "-r", "--json", box], env=shared.environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        assert json.loads(command.stdout.readline())["type"] == "ready"
        sh(api, box, "mkdir d; : >d/f")
        assert json.loads(command.stdout.readline())["path"] == "/workspace/d"
        assert json.loads(command.stdout.readline())["path"] == "/workspace/d/f"
    finally:
        command.kill()
        command.communicate()
