"""The twelve file calls, the path rule, streams of bytes, whole or not at all."""

import hashlib
import itertools
import os
import re
import socket
import threading
import time

import pytest

from cay_harness import cay, wait_until
from cay_watching import Watching, words

pytestmark = pytest.mark.core


def test_write_and_read(api, box):
    assert api.file(box, "write", path="/workspace/a.txt", content="héllo\n").ok() == {"success": True}
    assert api.read(box, "/workspace/a.txt") == "héllo\n"
    assert api.read(box, "a.txt") == "héllo\n"
    assert api.sh(box, "cat /workspace/a.txt") == "héllo\n"


def test_a_relative_path_is_in_the_workspace(api, box):
    api.write(box, "deep/er/file", "x")
    assert api.sh(box, "cat /workspace/deep/er/file") == "x"


def test_a_new_file_is_0644_and_an_old_one_keeps_its_mode(api, box):
    api.write(box, "f", "1")
    assert api.sh(box, "stat -c %a f") == "644\n"
    api.sh(box, "chmod 751 f")
    api.write(box, "f", "2")
    assert api.sh(box, "stat -c %a f; cat f") == "751\n2"


def test_empty_files_and_names_with_odd_characters(api, box):
    api.write(box, "empty", "")
    assert api.read(box, "empty") == ""
    for name in ("a b", "a'b", 'a"b', "a\nb", "-rf", "ü漢", "a..b", "$(x)", "*"):
        api.write(box, "odd/" + name, name)
        assert api.read(box, "odd/" + name) == name
    names = {f["name"] for f in api.file(box, "list", path="odd").ok()}
    assert names == {"a b", "a'b", 'a"b', "a\nb", "-rf", "ü漢", "a..b", "$(x)", "*"}


def test_a_part_of_a_file_can_be_read(api, box):
    data = bytes(range(256)) * 2000
    api.upload(box, "bytes", data)
    for offset, limit in ((0, 1), (1, 1000), (255_999, 70_000), (511_999, 5), (512_000, 5), (600_000, 1)):
        assert api.download(box, "bytes", offset=offset, limit=limit) == data[offset:offset + limit]
    assert api.download(box, "bytes", offset=300_000) == data[300_000:]
    raw = api.call("POST", f"/sandboxes/{box}/files/download", {"path": "bytes", "offset": 5, "limit": 7},
                   headers={"Accept": "application/octet-stream"})
    assert raw.body == data[5:12] and raw.headers["Content-Length"] == "7"
    api.write(box, "lines", "one\ntwo\n")
    assert api.read(box, "lines", offset=4) == "two\n" and api.read(box, "lines", limit=3) == "one"
    assert api.read(box, "/proc/version", anywhere=True, limit=5) == "Linux"
    assert api.read(box, "lines", offset=8) == ""
    for wrong in ({"offset": -1}, {"limit": 0}, {"limit": -1}, {"offset": "x"}):
        api.file(box, "read", path="lines", **wrong).failed(400)


def test_files_and_folders_are_copied(api, box):
    api.sh(box, "mkdir -p d/e; echo one > d/e/f; chmod 640 d/e/f; ln -s e d/l; echo two > g")
    assert api.file(box, "copy", **{"from": "g", "to": "new/h"}).ok() == {"success": True}
    api.file(box, "copy", **{"from": "d", "to": "copy"}).ok()
    assert api.sh(box, "cat new/h copy/e/f; stat -c %a copy/e/f; readlink copy/l") == "two\none\n640\ne\n"
    api.file(box, "copy", **{"from": "g", "to": "new/h"}).failed(409, "conflict")
    api.sh(box, "echo three > g")
    api.file(box, "copy", **{"from": "g", "to": "new/h", "replace": True}).ok()
    assert api.read(box, "new/h") == "three\n"
    api.file(box, "copy", **{"from": "d", "to": "d/e/inside"}).failed(400)
    api.file(box, "copy", **{"from": "missing", "to": "x"}).failed(404, "file_not_found")
    api.file(box, "copy", **{"from": "/etc/passwd", "to": "x"}).failed(400, "path_traversal")
    api.file(box, "copy", **{"from": "/etc/passwd", "to": "x", "anywhere": True}).ok()


def test_a_copy_that_fails_leaves_what_there_was(api, box):
    api.sh(box, "mkdir -p from to && echo new > from/a && echo old > to/b && "
                "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"from/z\")'")  # which nobody can copy
    for there in ({"to": "to", "replace": True}, {"to": "nowhere"}):
        assert api.file(box, "copy", **{"from": "from"}, **there).status >= 400
    assert api.sh(box, "cat to/b; ls -A") == "old\nfrom\nto\n"


def test_links_are_made_and_told(api, box):
    api.write(box, "file", "x")
    api.file(box, "symlink", path="in/link", target="../file").ok()
    assert api.read(box, "in/link") == "x"
    said = api.file(box, "info", path="in/link").ok()
    assert said["isSymlink"] and said["target"] == "../file" and said["mode"] == "0777"
    listed = {f["name"]: f for f in api.file(box, "list", path="in").ok() + api.file(box, "list").ok()}
    assert listed["link"]["isSymlink"] and listed["link"]["target"] == "../file"
    assert not listed["file"]["isSymlink"] and "target" not in listed["file"] and listed["file"]["mode"] == "0644"
    api.file(box, "symlink", path="file", target="x").failed(409, "conflict")
    api.file(box, "symlink", path="file", target="/nowhere", replace=True).ok()
    assert api.sh(box, "readlink file") == "/nowhere\n"


def test_reading_what_is_not_there_is_not_found(api, box):
    api.file(box, "read", path="missing").failed(404)
    api.file(box, "download", path="missing").failed(404)
    api.file(box, "info", path="missing").failed(404)
    api.file(box, "move", moves=[{"from": "missing", "to": "x"}]).failed(404)


def test_reading_a_directory_or_a_fifo_is_refused_and_does_not_block(api, box):
    api.sh(box, "mkdir dir; mkfifo fifo; ln -s /dev/zero zero")
    for path in ("dir", "fifo", "zero"):
        assert api.file(box, "read", path=path).failed((400, 409))
        assert api.file(box, "download", path=path).failed((400, 409))


def test_bytes_round_trip_exactly(api, box):
    for data in (b"", b"\0", bytes(range(256)) * 700, os.urandom(300_000)):
        api.upload(box, "bytes", data)
        assert api.download(box, "bytes") == data
    assert api.read(box, "bytes")  # lossy, but text


def test_bad_base64_is_refused_and_writes_nothing(api, box):
    for text in ("a", "ab=c", "!!!!", "YQ", "YQ==\n", " YQ==", "YR==x"):
        api.file(box, "upload", path="never", content=text).failed(400, text="Invalid base64")
    api.file(box, "read", path="never").failed(404)


def test_octet_streams_go_up_and_down(api, box):
    data = os.urandom(5_000_000)
    reply = api.post(f"/sandboxes/{box}/files/upload?path=/workspace/big", raw=data,
                     type="application/octet-stream")
    assert reply.ok() == {"success": True}
    down = api.post(f"/sandboxes/{box}/files/download", {"path": "/workspace/big"},
                    headers={"Accept": "application/octet-stream"})
    assert down.status == 200
    assert down.headers["Content-Type"] == "application/octet-stream"
    assert int(down.headers["Content-Length"]) == len(data) and down.body == data
    assert api.sh(box, "sha256sum < big").split()[0] == hashlib.sha256(data).hexdigest()


def test_a_large_stream_is_not_held_in_memory(api, box, shared):
    def rss():
        return int(next(l for l in open(f"/proc/{shared.pid}/status") if "VmHWM" in l).split()[1])

    size = 64 << 20
    before = rss()
    block = b"\xa5" * (1 << 20)
    with api.again() as own:
        c = own._connection()
        c.putrequest("POST", f"/sandbox/sandboxes/{box}/files/upload?path=huge")
        c.putheader("Content-Type", "application/octet-stream")
        c.putheader("Content-Length", str(size))
        c.endheaders()
        for _ in range(64):
            c.send(block)
        r = c.getresponse()
        assert r.status == 200, r.read()
        r.read()
        r = own.start("POST", f"/sandboxes/{box}/files/download", {"path": "huge"},
                      headers={"Accept": "application/octet-stream"})
        total = 0
        while piece := r.read(1 << 20):
            total += len(piece)
        assert total == size
    assert rss() - before < 16 << 10, "KiB more"


def test_reading_a_large_file_as_json_says_to_stream_it(api, box):
    api.sh(box, "head -c 80000000 /dev/zero > big")
    said = api.file(box, "read", path="big").failed(413)
    assert "octet-stream" in said["error"]


def test_an_upload_that_breaks_off_leaves_the_old_file(api, box):
    api.write(box, "keep", "old")
    s = socket.create_connection(("127.0.0.1", api.port))
    s.sendall(f"POST /sandbox/sandboxes/{box}/files/upload?path=keep HTTP/1.1\r\nHost: localhost\r\n"
              "Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n".encode()
              + b"n" * 500_000)
    s.close()
    api.exec(box, "true")

    def settled():
        return api.sh(box, "ls -A").split() == ["keep"]

    wait_until(settled, what="no partial file beside it")
    assert api.read(box, "keep") == "old"


def test_a_reader_never_sees_half_a_write(api, box):
    a, b = "a" * 200_000, "b" * 200_000
    api.write(box, "whole", a)
    stop = threading.Event()

    def writer():
        with api.again() as own:
            while not stop.is_set():
                own.write(box, "whole", b)
                own.write(box, "whole", a)

    t = threading.Thread(target=writer)
    t.start()
    try:
        for _ in range(40):
            assert api.read(box, "whole") in (a, b)
    finally:
        stop.set()
        t.join()


def test_delete_takes_files_not_directories(api, box):
    api.write(box, "d/f", "x")
    assert api.file(box, "delete", path="d/f").ok() == {"success": True}
    assert api.file(box, "delete", path="d/f").ok() == {"success": True}
    assert api.file(box, "delete", path="d").status >= 400
    assert api.sh(box, "ls -A; ls -A d") == "d\n"


def test_list_is_one_level(api, box):
    api.write(box, "l/file", "12345")
    api.write(box, "l/sub/inner", "x")
    found = {f["name"]: f for f in api.file(box, "list", path="/workspace/l").ok()}
    assert set(found) == {"file", "sub"}
    f = found["file"]
    assert set(f) >= {"name", "path", "size", "isDirectory", "modifiedAt"}
    assert (f["path"], f["size"], f["isDirectory"]) == ("/workspace/l/file", 5, False)
    assert found["sub"]["isDirectory"] is True
    assert abs(f["modifiedAt"] - time.time() * 1000) < 60_000
    assert api.file(box, "list", path="nothing-here").ok() == []
    assert {f["name"] for f in api.file(box, "list").ok()} == {"l"}


def test_search_finds_regular_files_by_glob(api, box):
    for path in ("s/a.py", "s/x/b.py", "s/c.txt", "s/x/y/d.py"):
        api.write(box, path, "")
    api.sh(box, "mkdir s/dir.py; ln -s a.py s/link.py")
    found = api.file(box, "search", pattern="*.py", dir="/workspace/s").ok()
    assert sorted(found) == ["/workspace/s/a.py", "/workspace/s/x/b.py", "/workspace/s/x/y/d.py"]
    assert sorted(api.file(box, "search", pattern="[ac].*").ok()) == ["/workspace/s/a.py",
                                                                      "/workspace/s/c.txt"]
    assert api.file(box, "search", pattern="*.none").ok() == []
    assert api.file(box, "search", pattern="*", dir="absent").ok() == []


def test_search_refuses_bad_patterns(api, box):
    """tests/unit/test_base.c has them all."""
    for pattern in ("", "a;b", None, 5):
        api.file(box, "search", pattern=pattern).failed(400, text="pattern")


def test_info_of_one_and_of_many(api, box):
    api.write(box, "i", "abc")
    api.sh(box, "chmod 640 i; mkdir di; ln -s i li")
    one = api.file(box, "info", path="i").ok()
    assert (one["path"], one["size"], one["permissions"]) == ("/workspace/i", 3, "-rw-r-----")
    assert one["owner"] == "root" and one["group"] == "root"
    assert (one["isDirectory"], one["isSymlink"]) == (False, False)
    assert isinstance(one["modifiedAt"], int) and one["modifiedAt"] > 10**12
    many = api.file(box, "info", paths=["di", "li", "i"]).ok()
    assert [(m["isDirectory"], m["isSymlink"]) for m in many] == [(True, False), (False, True),
                                                                  (False, False)]
    assert many[0]["permissions"].startswith("d") and many[1]["permissions"].startswith("l")
    api.file(box, "info", paths=["i", "missing"]).failed(404)
    api.file(box, "info").failed(400)


# Times before 1970, as milliseconds. A tmpfs keeps any 64-bit number of seconds: those that no client can use are clamped.
FAR_MS = 8_640_000_000_000_000


def test_times_before_1970_and_beyond_all_calendars(shared, api, box, tmp_path):
    def run(*args):
        return cay(shared, *args, check=True, text=True).stdout

    api.sh(box, "mkdir -p old && touch -d 1969-12-31T23:59:59Z old/f && touch -d 1901-12-14T00:00:00.25Z old/g && "
                "touch -d 1969-12-31T23:59:58.5Z old")
    at = {"f": -1000, "g": -2_147_471_999_750}
    assert {f["name"]: f["modifiedAt"] for f in api.file(box, "list", path="old").ok()} == at
    assert [f["modifiedAt"] for f in api.file(box, "info", paths=["old/f", "old/g", "old"]).ok()] == [
        at["f"], at["g"], -1500]
    assert api.read(box, "old/f") == "" and api.download(box, "old/g") == b""
    api.file(box, "copy", **{"from": "old", "to": "copy"}).ok()
    assert api.file(box, "info", path="copy/g").ok()["modifiedAt"] == at["g"]
    rows = run("file", "ls", box, "old").splitlines()[1:]
    assert len(rows) == 2 and all(re.search(r"\d{5}d ago", row) for row in rows), rows
    run("cp", f"{box}:old", tmp_path / "tree")
    run("cp", f"{box}:old/f", tmp_path / "one")
    for path, ms in ((tmp_path / "tree/f", -1000), (tmp_path / "tree", -2000), (tmp_path / "one", -1000)):
        assert path.stat().st_mtime_ns // 10**9 == ms // 1000, path
    run("cp", tmp_path / "tree", f"{box}:back")
    assert api.file(box, "info", path="back/f").ok()["modifiedAt"] == -1000
    api.sh(box, "touch -d @-9223372036854775807 /dev/shm/past; touch -d @9223372036854775807 /dev/shm/future")
    ends = {f["name"]: f["modifiedAt"] for f in api.file(box, "list", path="/dev/shm", anywhere=True).ok()}
    assert ends == {"past": -FAR_MS, "future": FAR_MS}
    run("file", "ls", "--anywhere", box, "/dev/shm")


def test_a_watch_tells_of_files_dated_before_1970(api, box):
    with Watching(api, box) as w:
        api.sh(box, "touch -d 1969-12-31T23:59:59Z f; mv f g; : >end")
        assert ("rename", "g") in words(w.until(("create", "/workspace/end")))


def test_moves_are_done_in_order_until_one_fails(api, box):
    api.write(box, "m1", "1")
    api.file(box, "move", moves=[{"from": "m1", "to": "m2"}, {"from": "m2", "to": "m3"}]).ok()
    assert api.read(box, "m3") == "1"
    api.write(box, "n1", "n")
    api.file(box, "move", moves=[{"from": "n1", "to": "n2"}, {"from": "nope", "to": "x"},
                                 {"from": "n2", "to": "n3"}]).failed(404)
    assert api.read(box, "n2") == "n"
    for bad in ([], [{}], [{"from": "a"}], "x", [5], [{"from": 1, "to": "b"}]):
        api.file(box, "move", moves=bad).failed(400)


def test_mkdir_makes_parents_and_rmdir_takes_all(api, box):
    api.file(box, "mkdir", paths=["p/q/r", "p/s"]).ok()
    api.file(box, "mkdir", path="p/q/r").ok()
    api.write(box, "p/q/r/file", "x")
    assert api.sh(box, "ls -A p") == "q\ns\n"
    api.file(box, "rmdir", paths=["p", "never-was"]).ok()
    assert api.sh(box, "ls -A") == ""


def test_rmdir_does_not_follow_links(api, box):
    api.sh(box, "mkdir -p /tmp/other t; touch /tmp/other/kept; ln -s /tmp/other t/link")
    api.file(box, "rmdir", paths=["t"]).ok()
    assert api.sh(box, "ls /tmp/other") == "kept\n"


def test_chmod_by_number_and_by_clause(api, box):
    """tests/unit/test_base.c has more modes, and all that are none."""
    for mode, result in (("600", "600"), ("0755", "755"), ("u+x", "744"), ("a-r", "200"), ("go=rw", "666"), ("+x", "755")):
        api.write(box, mode, "")
        api.file(box, "chmod", path=mode, mode=mode).ok()
        assert api.sh(box, f"stat -c %a {mode}") == result + "\n"
    for mode in ("", "u+s", "888", 755, None):
        api.file(box, "chmod", path="600", mode=mode).failed(400, text="mode")
    assert api.sh(box, "stat -c %a 600") == "600\n"


ESCAPES = ["/etc/passwd", "/etc/shadow", "../../x", "/workspace/../etc/passwd",
           "/../../../etc/hostname", "..", "a/../../b", "/", "/workspacex", "//etc/passwd",
           "/workspace/./../etc", "/proc/self/root/etc/passwd", "/tmp/x"]


def with_path(fields, path):
    """Fields with a path wherever there is an ellipsis."""
    if fields is ...:
        return path
    if isinstance(fields, list):
        return [with_path(item, path) for item in fields]
    return {key: with_path(item, path) for key, item in fields.items()} if isinstance(fields, dict) else fields


def test_paths_outside_the_workspace_are_refused_by_every_call(api, box):
    before = api.sh(box, "ls -lA /etc /tmp /home /root; ls -A /")
    for path, (what, fields) in itertools.product(ESCAPES, [
            ("read", {"path": ...}), ("write", {"path": ..., "content": "x"}),
            ("delete", {"path": ...}), ("list", {"path": ...}),
            ("search", {"pattern": "*", "dir": ...}),
            ("upload", {"path": ..., "content": "eA=="}), ("download", {"path": ...}),
            ("info", {"path": ...}), ("info", {"paths": [...]}),
            ("move", {"moves": [{"from": ..., "to": "x"}]}),
            ("move", {"moves": [{"from": "x", "to": ...}]}), ("mkdir", {"paths": [...]}),
            ("rmdir", {"paths": [...]}), ("chmod", {"path": ..., "mode": "777"})]):
        said = api.file(box, what, **with_path(fields, path)).failed(400, "path_traversal")
        assert "Path traversal detected" in said["error"], (what, path, said)
    assert api.sh(box, "ls -lA /etc /tmp /home /root; ls -A /") == before


def test_a_dotdot_that_stays_inside_may_be_used_or_refused_but_not_misread(api, box):
    api.write(box, "in/x", "1")
    reply = api.file(box, "read", path="in/../in/x")
    assert reply.status == 400 or reply.json == "1"


def test_paths_that_cannot_be_are_refused(api, box):
    for path in ("a\0b", "", "x" * 5000, "x" * 300, 5, None, ["a"]):
        api.file(box, "write", path=path, content="x").failed((400, 413))
    assert api.sh(box, "ls -A") == ""


def test_anywhere_lifts_the_workspace_but_not_the_sandbox(api, box):
    assert "root:" in api.read(box, "/etc/passwd", anywhere=True)
    api.write(box, "/tmp/there", "x", anywhere=True)
    assert api.sh(box, "cat /tmp/there") == "x"
    assert api.file(box, "list", path="/../..", anywhere=True).status < 500
    host = open("/etc/passwd").read()
    inside = api.read(box, "/../../../../../etc/passwd", anywhere=True) if api.file(
        box, "read", path="/../../etc/passwd", anywhere=True).status == 200 else ""
    assert inside != host


def test_links_in_the_workspace_lead_nowhere_else_than_inside(api, box):
    api.sh(box, "ln -s /etc/passwd l; ln -s /proc/1/root r; ln -s loop loop")
    reply = api.file(box, "read", path="l")
    assert reply.status >= 400 or reply.json == api.sh(box, "cat /etc/passwd")
    api.file(box, "read", path="loop").failed((400, 404, 409))
    assert api.file(box, "read", path="r/etc/passwd").status >= 400


def test_writing_through_a_full_directory_depth_is_refused_cleanly(api, box):
    reply = api.file(box, "write", path="/".join(["d"] * 2500), content="x")
    reply.failed((400, 413))


def test_a_file_written_as_text_must_be_text(api, box):
    for bad in (5, None, ["a"], {"a": 1}):
        api.file(box, "write", path="w", content=bad).failed(400)


def test_a_name_that_is_a_directory_is_not_overwritten(api, box):
    api.sh(box, "mkdir isdir; touch isdir/f")
    api.file(box, "write", path="isdir", content="x").failed((400, 409))
    assert api.sh(box, "ls isdir") == "f\n"
