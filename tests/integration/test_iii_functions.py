"""sandbox::* as clients of iii know them: shapes, defaults, and every code that says why not."""

import os

import pytest

from cay_harness import wait_until
from cay_iii import *  # noqa: F401,F403 (fixtures too)
from cay_iii import NOBODY, UUID, Refused, b64
from cay_oci import Image, Registry, base_layer
from cay_registry import needs_registry

pytestmark = pytest.mark.core

TYPES = {"S001": "validation", "S002": "validation", "S003": "validation", "S004": "validation", "S100": "config",
         "S101": "internal", "S102": "transient", "S200": "execution",
         "S218": "transient", "S400": "config"}
ENTRY = {"name", "is_dir", "size", "mode", "mtime", "is_symlink"}


@pytest.fixture(autouse=True)
def nothing_left_behind(nothing_left_in_the_end):
    """Looked at once, for the whole file."""


@pytest.fixture
def box(wire):
    with wire.box() as id:
        yield id


def check(error, code):
    """All that the envelope says follows from the code."""
    said = error.envelope
    assert said["code"] == code, said
    assert said["type"] == TYPES.get(code, "filesystem"), said
    assert said["retryable"] is (code in ("S102", "S218")), said
    assert said["docs_url"].endswith(f"#{code}") or said["docs_url"].endswith(f"#{code.lower()}"), said
    assert said["message"] and isinstance(said["fix_note"], (str, type(None))), said
    return said


# ---- create, list, stop ----


def test_create_and_stop(wire):
    made = wire.call("sandbox::create", {"image": "host", "name": "label", "cpus": 1, "memory_mb": 256, "idle_timeout_secs": 60,
                                         "network": False, "env": {"A": "1"}})
    id = made["sandbox_id"]
    assert UUID.fullmatch(id) and made["image"] == "host"
    row, = [s for s in wire.call("sandbox::list")["sandboxes"] if s["sandbox_id"] == id]
    assert {"name": "label", "image": "host", "exec_in_progress": False, "exec_in_flight": 0, "stopped": False}.items() <= row.items()
    assert row["exec_slots_free"] == 4 and row["age_secs"] >= 0
    assert wire.exec(id, "sh", "-c", "echo $A")["stdout"] == "1\n"
    assert wire.call("sandbox::stop", {"sandbox_id": id, "wait": False}) == {"sandbox_id": id, "stopped": True}
    check(wire.refused("sandbox::stop", {"sandbox_id": id}), "S002")
    for function, fields in (("exec", {"cmd": "true"}), ("fs::ls", {"path": "/"}), ("fs::read", {"path": "/etc/passwd"})):
        said = check(wire.refused(f"sandbox::{function}", {"sandbox_id": id, **fields}), "S004")
        assert said["message"].startswith(f"sandbox is stopped: {id} was removed "), said


def test_a_name_is_only_a_label(wire):
    with wire.box(name="same") as a, wire.box(name="same") as b, wire.box() as c:
        rows = {s["sandbox_id"]: s["name"] for s in wire.call("sandbox::list")["sandboxes"]}
        assert (rows[a], rows[b], rows[c]) == ("same", "same", None)


def test_sandboxes_are_the_same_on_every_face(served, wire):
    with wire.box() as id, served.api() as api:
        ours, = api.ids()
        wire.fs("write", id, path="/tmp/x", content="seen everywhere")
        assert api.read(ours, "/tmp/x", anywhere=True) == "seen everywhere"
        api.post(f"/sandboxes/{ours}/stop", {}).ok()
        check(wire.refused("sandbox::exec", {"sandbox_id": id, "cmd": "true"}), "S004")
        api.remove(ours)
        check(wire.refused("sandbox::exec", {"sandbox_id": id, "cmd": "true"}), "S004")
        made = api.create()["id"]
        row, = wire.call("sandbox::list")["sandboxes"]
        assert wire.exec(row["sandbox_id"], "true")["success"]
        api.remove(made)
    served.apis.remove(api)


def test_what_is_missing_or_of_a_wrong_type_has_no_code(wire):
    """tests/unit/test_iii_rows.c has the table."""
    for function, data in (("create", {}), ("exec", {"sandbox_id": 5, "cmd": "true"}), ("run", {"image": "host"}), ("create", None),
                           ("fs::mkdir", {"sandbox_id": NOBODY, "path": "/x", "parents": "x"})):
        id = f"00000000-0000-4000-9000-{os.urandom(6).hex()}"
        wire.say("invokefunction", invocation_id=id, function_id=f"sandbox::{function}", data=data)
        with pytest.raises(Refused) as caught:
            wire.result(id)
        assert caught.value.code == "invocation_failed" and caught.value.message.startswith("serialization error: "), caught.value.error


def test_ids(wire):
    fields = {"cmd": "true", "path": "/"}
    for function in ("exec", "stop", "fs::ls", "fs::stat", "fs::read", "fs::rm"):
        check(wire.refused(f"sandbox::{function}", {"sandbox_id": "no-uuid", **fields}), "S001")
        check(wire.refused(f"sandbox::{function}", {"sandbox_id": "", **fields}), "S001")
        check(wire.refused(f"sandbox::{function}", {"sandbox_id": NOBODY, **fields}), "S002")


def test_an_id_may_be_written_in_capitals(wire, box):
    assert wire.exec(box.upper(), "true")["success"]


def test_images_that_are_not_allowed(iii_of, wire_of):
    daemon = iii_of(env={"CAY_ALLOWED_IMAGES": "host,python*", "CAY_AUTO_INSTALL": "false", "CAY_IMAGE_CAPS": "host:cpu=1,memory=256"}).start()
    wire = wire_of(daemon)
    assert "(CAY_ALLOWED_IMAGES)" in check(wire.refused("sandbox::create", {"image": "debian"}), "S100")["message"]
    assert "(CAY_AUTO_INSTALL)" in check(wire.refused("sandbox::create", {"image": "python:3.12-slim"}), "S101")["message"]
    assert "(CAY_IMAGE_CAPS)" in check(wire.refused("sandbox::create", {"image": "host", "cpus": 4}), "S400")["message"]
    check(wire.refused("sandbox::create", {"image": "host", "memory_mb": 512}), "S400")


def test_an_image_that_may_not_be_pulled_is_not_installed(iii_of, wire_of):
    wire = wire_of(iii_of(env={"CAY_PULL_POLICY": "never"}).start())
    said = check(wire.refused("sandbox::create", {"image": "python:3.12-slim"}), "S101")
    assert said["message"].endswith("run `cay image pull python:3.12-slim` (CAY_PULL_POLICY)"), said
    check(wire.refused("sandbox::run", {"image": "python:3.12-slim", "lang": "sh", "code": "true"}), "S101")
    check(wire.refused("sandbox::create", {"image": "sha256:" + "0" * 64}), "S100")
    check(wire.refused("sandbox::create", {"image": ""}), "S100")


@pytest.fixture
def registry(tmp_path):
    """Of one test: it is gone when the whole file is looked at."""
    made = Registry(tmp_path)
    try:
        yield made.start()
    finally:
        made.stop()


@needs_registry
def test_a_tag_that_the_registry_does_not_have_is_a_pull_that_failed(iii_of, wire_of, registry):
    registry.push("t/one:1", Image(base_layer()))
    wire = wire_of(iii_of(env={"CAY_INSECURE_REGISTRIES": registry.host}).start())
    for name in ("t/one:none", "t/none:1"):
        said = check(wire.refused("sandbox::create", {"image": registry.ref(name)}), "S102")
        assert "check the name and the tag" in said["message"] and "tag" in said["fix_note"], said
    with wire.box(registry.ref("t/one:1")) as id:
        assert wire.exec(id, "true")["success"]


FILE = """auto_install: false
image_allowlist: [small, python]
custom_images: {small: registry.example/small:1}
per_image_caps:
  small: {max_cpus: 1, max_memory_mb: 512}
max_concurrent_sandboxes: 1
max_concurrent_exec_per_sandbox: 1
max_exec_timeout_ms: 60000
"""


def test_a_limit_names_the_file_and_the_key_that_set_it(iii_of, wire_of, tmp_path):
    (tmp_path / "config.yaml").write_text(FILE)
    with_file = {"args": ["--config", tmp_path / "config.yaml"]}
    wire = wire_of(iii_of(**with_file).start())

    def said(wire, code, function, **data):
        return check(wire.refused(f"sandbox::{function}", data), code)["message"]

    assert said(wire, "S100", "create", image="node").endswith(" (config.yaml:2: image_allowlist)")
    assert said(wire, "S101", "create", image="python").endswith(" (config.yaml:1: auto_install)")
    assert "(config.yaml:5: per_image_caps)" in said(wire, "S400", "create", image="small", cpus=4)
    # With a variable that allows the image of this machine, whose limits are the file's all the same.
    with_host = {"env": {"CAY_IMAGE_STRICT": "false", "CAY_ALLOWED_IMAGES": "host"}, **with_file}
    wire = wire_of(iii_of("iii-both", **with_host).start())
    assert said(wire, "S100", "create", image="node").endswith(" (CAY_ALLOWED_IMAGES)")
    id = wire.create()
    assert said(wire, "S400", "create", image="host").endswith(": 1 (config.yaml:6: max_concurrent_sandboxes)")
    begin_command(wire, id)
    assert said(wire, "S003", "exec", sandbox_id=id, cmd="true").endswith(": 1 (config.yaml:7: max_concurrent_exec_per_sandbox)")
    (tmp_path / "config.yaml").write_text(FILE.replace("60000", "300"))
    wire = wire_of(iii_of("iii-short", **with_host).start())
    id = wire.create()
    why = "exec timed out after 300ms, which is the limit (config.yaml:8: max_exec_timeout_ms)"
    assert said(wire, "S200", "exec", sandbox_id=id, cmd="sleep 1000", timeout_ms=60000) == why
    assert said(wire, "S200", "exec", sandbox_id=id, cmd="sleep 1000", timeout_ms=200) == "exec timed out after 200ms"


def begin_command(wire, id):
    """A command that runs by now, until there is a /tmp/go; its call."""
    call = wire.invoke("sandbox::exec", {"sandbox_id": id, "timeout_ms": 60000, "argv": [
        "sh", "-c", "touch /tmp/up; until [ -e /tmp/go ]; do sleep 0.02; done"]})
    wait_until(lambda: names_in_tmp(wire, id) == ["up"], what="the command")
    return call


def test_so_many_and_no_more(iii_of, wire_of):
    daemon = iii_of(env={"CAY_III_SANDBOXES": 2, "CAY_III_EXECS": 1}).start()
    wire = wire_of(daemon)
    first, _ = wire.create(), wire.create()
    check(wire.refused("sandbox::create", {"image": "host"}), "S400")
    slow = begin_command(wire, first)
    check(wire.refused("sandbox::exec", {"sandbox_id": first, "cmd": "true"}), "S003")
    wire.call("sandbox::fs::mkdir", {"sandbox_id": first, "path": "/tmp/go"})
    assert wire.result(slow)["success"]
    for _ in range(30):  # a client that has its answer may run the next command at once
        assert wire.exec(first, "true")["success"]
    wire.call("sandbox::stop", {"sandbox_id": first})
    wait_until(lambda: can_create(wire), what="room for another")


def names_in_tmp(wire, id):
    return [entry["name"] for entry in wire.call("sandbox::fs::ls", {"sandbox_id": id, "path": "/tmp"})["entries"]]


def test_no_command_runs_longer_than_the_limit(iii_of, wire_of):
    wire = wire_of(iii_of(env={"CAY_III_EXEC_MS": 300}).start())
    id = wire.create()
    for asked in ({}, {"timeout_ms": 60000}):
        said = check(wire.refused("sandbox::exec", {"sandbox_id": id, "argv": ["sleep", "1000"], **asked}), "S200")
        assert said["message"] == "exec timed out after 300ms, which is the limit (CAY_III_EXEC_MS)"


def can_create(wire):
    try:
        return wire.create()
    except Refused:
        return None


def test_names_of_variables(wire):
    for env in ({"1A": "x"}, {"A B": "x"}, {"": "x"}):
        check(wire.refused("sandbox::create", {"image": "host", "env": env}), "S001")


def test_entries_of_a_list_without_an_equals_sign_are_dropped(wire):
    with wire.box(env=["A=1", "nothing", "B=x=y"]) as id:
        assert wire.exec(id, "sh", "-c", "echo $A $B; env | grep -c nothing")["stdout"] == "1 x=y\n0\n"


# ---- exec ----


def test_commands(wire, box):
    """tests/unit/test_iii_rows.c has more ways to say one."""
    for fields, out in (({"cmd": "echo", "args": ["a b", "c"]}, "a b c\n"), ({"argv": ["echo", "x  y"]}, "x  y\n"),
                        ({"cmd": "echo a 'b  c' \"d e\" f\\ g"}, "a b  c d e f g\n"), ({"cmd": "echo a # b"}, "a\n"),
                        ({"cmd": "echo $HOME | cat"}, "$HOME | cat\n"), ({"cmd": "cat", "stdin": b64(b"\xc3\xbc\n")}, "ü\n"),
                        ({"cmd": "cat"}, ""), ({"cmd": "pwd", "workdir": "/usr/bin"}, "/usr/bin\n"),
                        ({"argv": ["printf", "\\377"]}, "\ufffd")):
        done = wire.call("sandbox::exec", {"sandbox_id": box, **fields})
        assert (done["stdout"], done["exit_code"], done["success"]) == (out, 0, True), fields
    check(wire.refused("sandbox::exec", {"sandbox_id": box, "argv": ["x"], "cmd": "y"}), "S001")
    check(wire.refused("sandbox::exec", {"sandbox_id": box, "cmd": "true", "stdin": "!!!"}), "S001")


def test_statuses(wire, box):
    for argv, status in ((["no-such"], 127), (["/etc/passwd"], 126), (["sh", "-c", "exit 9"], 9), (["sh", "-c", "kill -9 $$"], 137)):
        done = wire.exec(box, *argv)
        assert (done["exit_code"], done["success"], done["timed_out"]) == (status, False, False)
        if status in (126, 127):
            assert done["stderr"].count("\n") <= 1


def test_a_deadline(wire, box):
    said = check(wire.refused("sandbox::exec", {"sandbox_id": box, "argv": ["sh", "-c", "sleep 1000 & sleep 1000"], "timeout_ms": 200}), "S200")
    assert "200" in said["message"]
    wait_until(lambda: "sleep" not in wire.sh(box, "cat /proc/[0-9]*/comm"), what="the end of its processes")


def test_a_deadline_that_nobody_asked_for(iii_of, wire_of):
    wire = wire_of(iii_of(env={"CAY_III_EXEC_TIMEOUT": 1}).start())
    with wire.box() as id:
        said = check(wire.refused("sandbox::exec", {"sandbox_id": id, "argv": ["sleep", "1000"]}), "S200")
        assert said["message"].startswith("exec timed out after 1000ms, which is the limit (CAY_III_EXEC_TIMEOUT;")
        assert wire.exec(id, "sleep", "1.2", timeout_ms=60000)["success"]
    said = check(wire.refused("sandbox::run", {"image": "host", "lang": "sh", "code": "sleep 1000"}), "S200")
    assert said["message"].startswith("exec timed out after 1000ms, which is the limit (CAY_III_EXEC_TIMEOUT;")


def test_the_usual_deadline_is_what_the_table_says(wire):
    for function in "exec", "run":
        about = wire.call("engine::functions::info", {"function_id": f"sandbox::{function}"})
        assert about["request_schema"]["properties"]["timeout_ms"]["description"].startswith("30000 when absent")


def test_five_at_once_are_one_too_many(wire, box):
    calls = [wire.invoke("sandbox::exec", {"sandbox_id": box, "argv": ["sh", "-c", "while [ ! -e /tmp/go ]; do sleep 0.02; done"]}) for _ in range(4)]

    def slots():
        row, = [s for s in wire.call("sandbox::list")["sandboxes"] if s["sandbox_id"] == box]
        return row["exec_in_progress"], row["exec_in_flight"], row["exec_slots_free"]

    wait_until(lambda: slots() == (True, 4, 0), 60, "four that run")
    check(wire.refused("sandbox::exec", {"sandbox_id": box, "cmd": "true"}), "S003")
    wire.fs("write", box, path="/tmp/go", content="")  # which does not count
    assert [wire.result(call)["exit_code"] for call in calls] == [0] * 4


# ---- files ----


def test_folders_and_entries(wire, box):
    assert wire.fs("mkdir", box, path="/tmp/d", mode="0750") == {"created": True}
    assert wire.fs("mkdir", box, path="/tmp/d", parents=True) == {"created": False}
    check(wire.fs_refused("mkdir", box, path="/tmp/d"), "S213")
    check(wire.fs_refused("mkdir", box, path="/tmp/none/x"), "S211")
    check(wire.fs_refused("mkdir", box, path="/tmp/y", mode="9x"), "S210")
    wire.sh(box, "cd /tmp/d; echo hello >a; ln -s a link; mkdir sub; ln -s sub dirlink")
    entries = {e["name"]: e for e in wire.fs("ls", box, path="/tmp/d")["entries"]}
    assert set(entries) == {"a", "link", "sub", "dirlink"} and all(set(e) >= ENTRY for e in entries.values())
    assert (entries["a"]["size"], entries["a"]["mode"], entries["a"]["is_dir"]) == (6, "0644", False)
    assert entries["link"]["is_symlink"] and not entries["dirlink"]["is_dir"] and entries["sub"]["is_dir"]
    about = wire.fs("stat", box, path="/tmp/d")
    assert (about["name"], about["is_dir"], about["mode"]) == ("d", True, "0750")
    assert wire.fs("stat", box, path="/tmp/d/link")["is_symlink"]
    check(wire.fs_refused("ls", box, path="/tmp/none"), "S211")
    check(wire.fs_refused("ls", box, path="/tmp/d/a"), "S212")
    check(wire.fs_refused("ls", box, path="/tmp/d/dirlink"), "S212")
    check(wire.fs_refused("stat", box, path="/tmp/none"), "S211")


def test_writing_and_reading(wire, box):
    assert wire.fs("write", box, path="/tmp/a/b", content="ü\n", parents=True) == {"bytes_written": 3, "path": "/tmp/a/b"}
    assert wire.fs("stat", box, path="/tmp/a/b")["mode"] == "0644"
    got = wire.fs("read", box, path="/tmp/a/b")
    assert (got["body"], got["size"], got["mode"]) == ("ü\n", 3, "0644") and got["content"]["direction"] == "read"
    assert wire.fs("write", box, path="/tmp/raw", content_b64=b64(b"\0\xff"))["bytes_written"] == 2
    got, data = wire.download(box, "/tmp/raw")
    assert data == b"\0\xff" and "body" not in got
    wire.sh(box, "touch -d 1969-12-31T23:59:58.5Z /tmp/raw")
    assert wire.fs("stat", box, path="/tmp/raw")["mtime"] == wire.fs("read", box, path="/tmp/raw")["mtime"] == -2
    assert wire.sh(box, "ls -A /tmp/a /tmp").split() == ["/tmp:", "a", "raw", "/tmp/a:", "b"], "nothing half-made is left"
    wire.sh(box, "ln -s b /tmp/a/link")
    assert wire.fs("read", box, path="/tmp/a/link")["body"] == "ü\n"
    for fields in ({}, {"content": "x", "content_b64": b64(b"x")}, {"content_b64": "!!"}):
        check(wire.fs_refused("write", box, path="/tmp/x", **fields), "S001")
    said = check(wire.fs_refused("write", box, path="/tmp/none/x", content="x"), "S211")
    assert said["fix"] == {"parents": True} and said["fix_note"]
    check(wire.fs_refused("read", box, path="/tmp/none"), "S211")
    check(wire.fs_refused("read", box, path="/tmp/a"), "S212")
    check(wire.fs_refused("write", box, path="/tmp/x", content="", mode="8"), "S210")


def test_removing_moving_and_modes(wire, box):
    wire.sh(box, "mkdir -p /tmp/d/e; echo x >/tmp/d/a; echo y >/tmp/d/b; ln -s /tmp/d/a /tmp/d/link")
    check(wire.fs_refused("rm", box, path="/tmp/d"), "S214")
    check(wire.fs_refused("rm", box, path="/tmp/none"), "S211")
    assert wire.fs("rm", box, path="/tmp/d/link") == {"removed": True}
    assert wire.fs("stat", box, path="/tmp/d/a")["size"] == 2, "the link is removed, not what it names"
    assert wire.fs("chmod", box, path="/tmp/d", mode="0700") == {"updated": 1}
    assert wire.fs("chmod", box, path="/tmp/d", mode="0711", recursive=True, uid=5, gid=6) == {"updated": 4}
    assert wire.sh(box, "stat -c '%a %u %g' /tmp/d/a") == "711 5 6\n"
    check(wire.fs_refused("chmod", box, path="/tmp/d", mode="rwx"), "S210")
    check(wire.fs_refused("chmod", box, path="/tmp/none", mode="0600"), "S211")
    check(wire.fs_refused("mv", box, src="/tmp/d/a", dst="/tmp/d/b"), "S213")
    assert wire.fs("mv", box, src="/tmp/d/a", dst="/tmp/d/b", overwrite=True) == {"moved": True}
    check(wire.fs_refused("mv", box, src="/tmp/d/a", dst="/tmp/d/c"), "S211")
    assert wire.sh(box, "cat /tmp/d/b") == "x\n"
    assert wire.fs("rm", box, path="/tmp/d", recursive=True) == {"removed": True}


@pytest.fixture
def tree(wire, box):
    for name, text in (("a.txt", "one\ntwo Two\nthree\n"), ("sub/b.txt", "TWO\n"), ("sub/c.md", "two\n")):
        wire.fs("write", box, path=f"/tmp/t/{name}", content=text, parents=True)
    wire.fs("write", box, path="/tmp/t/bin", content_b64=b64(b"two\0two\n"))
    return box


def test_grep(wire, tree):
    def found(**fields):
        got = wire.fs("grep", tree, **{"path": "/tmp/t", "pattern": "two", **fields})
        return sorted((m["path"].removeprefix("/tmp/t/"), m["line"]) for m in got["matches"]), got

    assert found()[0] == [("a.txt", 2), ("sub/c.md", 1)]
    assert found(ignore_case=True)[0] == [("a.txt", 2), ("sub/b.txt", 1), ("sub/c.md", 1)]
    assert found(include_glob=["*.txt"])[0] == [("a.txt", 2)]
    assert found(exclude_glob=["**/c.md"])[0] == [("a.txt", 2)]
    assert found(pattern=r"^t\w{2}\b")[0] == [("a.txt", 2), ("sub/c.md", 1)]
    assert [m["line"] for m in found(path="/tmp/t/a.txt", recursive=False)[1]["matches"]] == [2]
    assert found(max_matches=1)[1]["truncated"] is True
    assert found(path="/tmp/t/a.txt", pattern="three", max_line_bytes=3)[1]["matches"][0]["content"] == "thr…"
    check(wire.fs_refused("grep", tree, path="/tmp/t", pattern="("), "S217")
    check(wire.fs_refused("grep", tree, path="/tmp/t", pattern=r"(a)\1"), "S217")
    check(wire.fs_refused("grep", tree, path="/tmp/t", pattern="two", recursive=False), "S210")
    check(wire.fs_refused("grep", tree, path="/tmp/none", pattern="two"), "S211")


def test_sed(wire, tree):
    def swap(**fields):
        return wire.fs("sed", tree, **{"pattern": "two", "replacement": "2", **fields})

    got = swap(path="/tmp/t", ignore_case=True, include_glob=["*.txt"])
    assert got["total_replacements"] == 3 and {r["path"]: r["replacements"] for r in got["results"] if r["replacements"]} == \
        {"/tmp/t/a.txt": 2, "/tmp/t/sub/b.txt": 1}
    assert wire.fs("read", tree, path="/tmp/t/a.txt")["body"] == "one\n2 2\nthree\n"
    assert swap(files=["/tmp/t/a.txt"], pattern=r"(\w)(h)(?P<rest>.*)", replacement="$2$1-$rest")["total_replacements"] == 1
    assert wire.fs("read", tree, path="/tmp/t/a.txt")["body"] == "one\n2 2\nht-ree\n"
    assert swap(files=["/tmp/t/a.txt"], pattern="2", replacement="x", first_only=True)["total_replacements"] == 1
    assert swap(files=["/tmp/t/a.txt"], pattern=".", replacement="x", regex=False)["total_replacements"] == 0
    missing = swap(files=["/tmp/t/a.txt", "/tmp/none"])
    assert [r["success"] for r in missing["results"]] == [True, False] and missing["results"][1]["error"]
    check(wire.fs_refused("sed", tree, pattern="x", replacement="y"), "S210")
    check(wire.fs_refused("sed", tree, path="/tmp/t", files=["/tmp/t/a.txt"], pattern="x", replacement="y"), "S210")
    check(wire.fs_refused("sed", tree, path="/tmp/t", pattern="(", replacement="y"), "S217")


# ---- run, catalog ----


def test_run(wire):
    before = len(wire.call("sandbox::list")["sandboxes"])
    for lang, code, out in (("python", "import sys; print(sys.argv[0])", "/tmp/run.py\n"), ("py", "print(1)", "1\n"),
                            ("sh", "echo $0", "/tmp/run.sh\n"), ("bash", "echo b", "b\n"), ("/bin/cat", "the text", "the text")):
        done = wire.call("sandbox::run", {"image": "host", "lang": lang, "code": code})
        assert (done["stdout"], done["exit_code"], done["success"], "sandbox_id" in done) == (out, 0, True, False)
        assert len(wire.call("sandbox::list")["sandboxes"]) == before


def test_run_with_all_that_it_takes(wire):
    done = wire.call("sandbox::run", {"image": "host", "lang": "sh", "code": "cat /tmp/in/file -; echo $A; exit 4", "keep_sandbox": True,
                                      "files": [{"path": "/tmp/in/file", "content": "file\n"}], "env": {"A": "1"}, "stdin": b64(b"typed\n")})
    assert (done["stdout"], done["exit_code"]) == ("file\ntyped\n1\n", 4)
    assert wire.fs("stat", done["sandbox_id"], path="/tmp/in/file")["mode"] == "0644"
    wire.call("sandbox::stop", {"sandbox_id": done["sandbox_id"]})


def test_a_run_that_fails_keeps_the_code_of_what_did(wire):
    before = len(wire.call("sandbox::list")["sandboxes"])
    said = check(wire.refused("sandbox::run", {"image": "host", "lang": "sh", "code": "sleep 1000", "timeout_ms": 100}), "S200")
    assert said["fix"]["inner_code"] == "S200" and UUID.fullmatch(said["fix"]["sandbox_id"]) and said["fix"]["context"]
    assert len(wire.call("sandbox::list")["sandboxes"]) == before


def test_a_run_that_a_killed_daemon_left_is_gone_after_a_start(iii_of, wire_of):
    daemon = iii_of().start()
    wire = wire_of(daemon).announce()
    kept = wire.call("sandbox::create", {"image": "host"})["sandbox_id"]
    wire.invoke("sandbox::run", {"image": "host", "lang": "sh", "code": "exec sleep 1000"})
    with daemon.api() as api:
        def runs():
            ready = [s["id"] for s in api.get("/sandboxes").ok()["items"] if s["status"] == "running"]
            return any("sleep 1000" in p["command"] for id in ready for p in api.processes(id))

        wait_until(runs, 60, "the command under way")
    daemon.apis.remove(api)
    daemon.kill9()
    daemon.start()
    wire = wire_of(daemon).announce()
    wait_until(lambda: [s["sandbox_id"] for s in wire.call("sandbox::list")["sandboxes"]] == [kept], 60, "the end of the other")


def test_the_catalog(wire):
    images = wire.call("sandbox::catalog::list")["images"]
    assert [(i["name"], i["kind"]) for i in images[:2]] == [("python", "preset"), ("node", "preset")]
    assert all(set(i) >= {"name", "oci_ref", "kind"} and ":" in i["oci_ref"] for i in images)


def test_an_idle_sandbox_goes(wire):
    with wire.box(idle_timeout_secs=1) as id, wire.box() as other:
        wait_until(lambda: id not in {s["sandbox_id"] for s in wire.call("sandbox::list")["sandboxes"]}, 40, "its end")
        assert wire.exec(other, "true")["success"]
