"""Templates: what sandboxes are made from by one word."""

import concurrent.futures
import json
import socket
import threading

import pytest

from cay_harness import cay, busybox_root, wait_until
from cay_registry import Images, half_made

pytestmark = pytest.mark.core

SDK_IMAGE = "python:3.12-slim"  # what public clients send when nobody named an image
BUILTIN = {"tpl_python-data-science": "python:3.12-slim", "tpl_node-web": "node:20-slim",
           "tpl_go-api": "golang:1.22-alpine", "tpl_rust-cli": "rust:1.77-slim"}
UUID = "cat /proc/sys/kernel/random/uuid >/opt/uuid"  # another one each time it runs


class Templates:
    def __init__(self, api):
        self.api = api

    def make(self, name="t", image="host", build=True, description="", **config):
        return self.api.post("/templates", {"name": name, "description": description, "build": build,
                                            "config": {"image": image, **config}})

    def names(self):
        return [t["name"] for t in self.api.get("/templates").ok()["templates"]]

    def own(self):
        return [t["name"] for t in self.api.get("/templates").ok()["templates"] if not t["builtin"]]

    def show(self, word):
        return self.api.get(f"/templates/{word}").ok()

    def box(self, word="t", image=SDK_IMAGE, **fields):
        """As public clients ask for one."""
        return self.api.try_create(image, template=word, **fields)


@pytest.fixture
def templates(own):
    """Of a daemon of this test's own, since what was built stays in its cache."""
    with own.unix_api(timeout=60) as api:
        yield Templates(api)


@pytest.fixture
def busybox(own, tmp_path):
    """A small image, under any name."""
    images = Images(own)
    n = iter(range(100))

    def load(name, mark="of the image"):
        root = busybox_root(tmp_path / f"root{next(n)}")
        (root / "etc" / "mark").write_text(mark + "\n")
        return images.load(root, name)

    yield load
    images.api.close()


# ---- the noun ----


def test_those_that_are_built_in_are_there_and_stay(api):
    listed = {t["id"]: t for t in api.get("/templates").ok()["templates"]}
    for id, image in BUILTIN.items():
        assert listed[id]["builtin"] and listed[id]["createdAt"] == 0
        assert listed[id]["config"]["image"] == image and listed[id]["name"] == id[4:]
        assert api.get(f"/templates/{id}").ok() == listed[id] == api.get(f"/templates/{id[4:]}").ok()
        api.delete(f"/templates/{id}").failed(403, "template_builtin")
        api.post(f"/templates/{id}/build").failed(403, "template_builtin")
    assert listed["tpl_python-data-science"]["config"]["env"] == {"PYTHONUNBUFFERED": "1"}
    api.get("/templates/nobody").failed(404, "template_not_found", "Template not found: nobody")
    api.try_create(template="nobody").failed(404, "template_not_found")


def test_a_template_is_made_found_and_removed(own, templates):
    made = templates.make("web", description="a server", memory=256, env={"A": "1"}).ok()
    assert made["id"].startswith("tpl_") and not made["builtin"] and "build" not in made
    assert made["config"] == {"image": "host", "memory": 256, "env": {"A": "1"}}
    assert templates.show("web") == templates.show(made["id"]) == made
    templates.make("web").failed(409, "template_exists", made["id"])
    templates.make("node-web").failed(409, "template_exists")
    own.restart()
    assert templates.own() == ["web"]
    assert templates.api.delete("/templates/web").ok() == {"deleted": made["id"]}
    templates.api.delete(f"/templates/{made['id']}").failed(404, "template_not_found")
    assert templates.own() == []
    own.restart()
    assert templates.own() == []


def test_what_cannot_be_a_template_is_refused(api):
    for config, text in (
            ({}, "config.image"), ({"image": ""}, "config.image"), ({"image": "host", "setup": [1]}, "config.setup[0]"),
            ({"image": "host", "setup": "make"}, "config.setup"), ({"image": "host", "files": [{}]}, "config.files[0].path"),
            ({"image": "host", "files": [{"path": "/a", "mode": "99"}]}, "mode"),
            ({"image": "host", "files": [{"path": "/a", "source": "b"}]}, "source"),
            ({"image": "host", "workdir": "here", "setup": ["true"]}, "workdir"),
            ({"image": "host", "readyTimeout": 0}, "config.readyTimeout"),
            ({"image": "host", "entrypoint": ["sh"], "runEntrypoint": True}, "entrypoint")):
        api.post("/templates", {"name": "bad", "config": config}).failed(400, "invalid", text)
    api.get("/templates/bad").failed(404)


def test_names_that_are_none_are_refused(api):
    for name in ("", "tpl_mine", "a\nb", "x" * 256, 7):
        api.post("/templates", {"name": name, "config": {"image": "host"}}).failed(400, "invalid", "name")


def test_there_are_not_too_many_and_not_too_large_ones(daemon_of):
    own = daemon_of(env={"CAY_MAX_TEMPLATES": 2, "CAY_ALLOWED_IMAGES": "host"}).start()
    with own.unix_api() as api:
        t = Templates(api)
        t.make("a").ok()
        t.make("b").ok()
        t.make("c").failed(429, "template_limit", "CAY_MAX_TEMPLATES")
        api.delete("/templates/a").ok()
        t.make("c", files=[{"path": "/x", "content": "x" * 300_000}], build=False).failed(413, "too_large")
        t.make("c", image="debian:12").failed(403, "image_not_allowed")
        t.make("c", network=True).failed(501, "network_unsupported")
        assert t.own() == ["b"]


# ---- sandboxes of it ----


def test_a_create_takes_what_it_does_not_say_from_the_template(templates):
    templates.make(memory=256, cpu=0.5, timeout=900, pids=100, disk=128, env={"A": "1", "B": "2"},
                   metadata={"team": "blue"}, workdir="/srv", entrypoint=["sleep", "1000"]).ok()
    a = templates.box().ok()
    assert a["image"] == "host" and a["config"]["template"] == "t" and "templateBuild" not in a["config"]
    assert {k: a["config"][k] for k in ("memory", "cpu", "timeout", "pids", "disk", "workdir")} == \
        {"memory": 256, "cpu": 0.5, "timeout": 900, "pids": 100, "disk": 128, "workdir": "/srv"}
    assert a["config"]["env"] == {"A": "1", "B": "2"} and a["metadata"] == {"team": "blue"}
    assert a["entrypoint"] == ["sleep", "1000"]
    assert templates.api.sh(a["id"], "echo $A $B $PWD") == "1 2 /srv\n"
    b = templates.box(memory=128, timeout=60, env={"B": "3", "C": "4"}, metadata={"n": "1"}, workdir="/tmp",
                      entrypoint=["sleep", "5"]).ok()
    assert b["config"]["memory"] == 128 and b["config"]["timeout"] == 60 and b["config"]["pids"] == 100
    assert b["config"]["env"] == {"A": "1", "B": "3", "C": "4"}
    assert b["metadata"] == {"team": "blue", "n": "1"} and b["entrypoint"] == ["sleep", "5"]
    assert templates.api.sh(b["id"], "echo $A $B $C $PWD") == "1 3 4 /tmp\n"


def test_the_templates_image_counts_when_a_client_names_none(templates, busybox):
    busybox("mine:1")
    busybox("other:1", "of the other")
    templates.make(image="mine:1").ok()
    for image in (SDK_IMAGE, "mine:1", None):
        made = templates.box(image=image).ok()
        assert made["image"] == "mine:1"
        assert templates.api.sh(made["id"], "cat /etc/mark") == "of the image\n"
    other = templates.box(image="other:1").ok()
    assert other["image"] == "other:1" and templates.api.sh(other["id"], "cat /etc/mark") == "of the other\n"
    templates.api.try_create(None).failed(400, "invalid", "image is required")
    templates.api.try_create("").failed(400, "invalid", "image")


def test_one_that_is_built_in_works_without_the_network_that_it_wants(templates, busybox):
    busybox("node:20-slim")
    made = templates.box("node-web").ok()
    assert made["image"] == "node:20-slim" and made["config"]["memory"] == 512
    assert "network" not in made["config"] and "network" in made["warnings"][0]
    assert "warnings" not in templates.box("tpl_node-web", network=False).ok()
    templates.box("node-web", network=True).failed(501, "network_unsupported")


# ---- setup ----


def test_setup_is_run_once_and_each_sandbox_has_what_it_left(templates):
    events = list(templates.api.events("POST", "/templates", {"name": "t", "config": {
        "image": "host", "env": {"A": "one"}, "workdir": "/srv/app",
        "files": [{"path": "main.sh", "content": "echo main $A\n", "mode": "0755"}, {"path": "/etc/over", "content": ""}],
        "setup": [UUID, "pwd; ./main.sh; echo no >&2", ["sh", "-c", "id -u >uid"]]}}))
    steps = [e["text"] for e in events if e["event"] == "step"]
    assert steps == ["FROM host", "ENV A", "WORKDIR /srv/app", "WRITE /srv/app/main.sh", "WRITE /etc/over",
                     f"RUN {UUID}", "RUN pwd; ./main.sh; echo no >&2", "RUN sh -c id -u >uid"]
    said = {s: "".join(e["data"] for e in events if e["event"] == "output" and e["stream"] == s)
            for s in ("stdout", "stderr")}
    assert said == {"stdout": "/srv/app\nmain one\n", "stderr": "no\n"}
    build = events[-1]["template"]["build"]
    assert events[-1]["event"] == "template" and build["source"] == "config" and build["baseId"] == "host"
    boxes = [templates.box().ok() for _ in range(2)]
    assert {b["config"]["templateBuild"] for b in boxes} == {build["imageId"]}
    seen = {templates.api.sh(b["id"], "cat /opt/uuid uid; ls -l main.sh | cut -c1-10; pwd") for b in boxes}
    assert len(seen) == 1 and seen.pop().splitlines()[1:] == ["0", "-rwxr-xr-x", "/srv/app"]
    templates.box(image="debian:12").failed(400, "invalid", "host")


def test_a_user_of_its_own(templates):
    templates.make(user="nobody", setup=["id -u >/opt/who"]).ok()
    id = templates.box().ok()["id"]
    assert templates.api.sh(id, "id -u; cat /opt/who") == "65534\n0\n"


@pytest.mark.counts_rows
def test_many_creates_of_one_that_is_not_built_yet_build_it_once(templates):
    assert "build" not in templates.make(build=False, setup=[UUID, "sleep 0.5"]).ok()
    replies = []

    def create():
        with templates.api.again() as api:
            replies.append(Templates(api).box().ok())

    threads = [threading.Thread(target=create) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(replies) == 6
    assert len({templates.api.sh(r["id"], "cat /opt/uuid") for r in replies}) == 1
    assert {r["config"]["templateBuild"] for r in replies} == {templates.show("t")["build"]["imageId"]}


def test_a_setup_that_fails_is_told_and_leaves_nothing(templates):
    reply = templates.make(setup=["echo fine", "echo before; echo 'no such thing' >&2; exit 3"])
    body = reply.failed(409, "build_failed", "exit code 3")
    assert body["command"] == "RUN echo before; echo 'no such thing' >&2; exit 3"
    assert body["output"] == "before\nno such thing\n"
    assert templates.own() == [] and templates.api.ids() == []
    *_, last = templates.api.events("POST", "/templates", {"name": "t", "config": {
        "image": "host", "setup": ["echo why; exit 4"]}})
    assert last["event"] == "error" and last["code"] == "build_failed" and last["output"] == "why\n"
    templates.make(build=False, setup=["echo why; exit 5"]).ok()
    assert templates.box().failed(409, "build_failed", "exit code 5")["output"] == "why\n"
    assert templates.api.ids() == [] and "build" not in templates.show("t")


def test_who_hangs_up_ends_the_build(own, templates):
    events = templates.api.events("POST", "/templates", {"name": "t", "config": {
        "image": "host", "setup": ["echo begun; sleep 1000"]}})
    assert any(e.get("data") == "begun\n" for e in events)
    events.close()
    wait_until(lambda: templates.api.ids() == [], what="the build's sandbox to go")
    assert templates.own() == []
    templates.make(setup=["true"]).ok()  # its name is free


def test_its_image_stays_whatever_is_removed_and_goes_with_it(own, templates, busybox):
    images = Images(own)
    busybox("mine:1")
    templates.make(image="mine:1", setup=["echo made >/made"]).ok()
    images.remove("mine:1")
    images.prune().ok()
    own.restart()
    made = templates.box().ok()
    assert templates.api.sh(made["id"], "cat /made /etc/mark") == "made\nof the image\n"
    templates.api.remove(made["id"])
    templates.api.delete("/templates/t").ok()
    images.prune().ok()
    wait_until(lambda: not list((own.data / "images" / "layers").glob("*")), what="no layers")
    images.api.close()


def test_a_name_that_means_another_image_is_told_and_built_on_when_asked(own, templates, busybox):
    busybox("mine:1", "first")
    old = templates.make(image="mine:1", setup=["cat /etc/mark >/made"]).ok()
    assert not templates.show("t")["build"]["stale"]
    busybox("mine:1", "second")
    assert templates.show("t")["build"]["stale"]
    before = templates.box().ok()
    assert before["config"]["templateBuild"] == old["build"]["imageId"]
    assert templates.api.sh(before["id"], "cat /made") == "first\n"
    new = templates.api.post("/templates/t/build", {}).ok()
    assert new["id"] == old["id"] and new["build"]["imageId"] != old["build"]["imageId"]
    assert not templates.show("t")["build"]["stale"]
    after = templates.box().ok()
    assert templates.api.sh(after["id"], "cat /made") == "second\n"
    assert templates.api.sh(before["id"], "cat /made") == "first\n"
    assert templates.api.post("/templates/t/build", {}).ok()["build"]["cached"]
    assert not templates.api.post("/templates/t/build", {"noCache": True}).ok()["build"]["cached"]


# ---- ready ----


def test_a_create_waits_until_its_sandbox_is_ready(templates):
    templates.make(entrypoint=["sh", "-c", "sleep 0.4; echo yes >/tmp/up; sleep 1000"],
                   ready="test -e /tmp/up", readyTimeout=20).ok()
    assert templates.api.sh(templates.box().ok()["id"], "cat /tmp/up") == "yes\n"
    *_, last = templates.api.events("POST", "/sandboxes", {"template": "t"})
    assert last["event"] == "sandbox" and templates.api.sh(last["sandbox"]["id"], "cat /tmp/up") == "yes\n"


def test_a_sandbox_that_is_not_ready_in_time_goes_and_its_caller_is_told_why(templates):
    templates.make(ready="echo n >>/tmp/n; echo tried; echo 'not yet' >&2; exit 9", readyTimeout=3).ok()
    templates.make("hangs", ready=["sleep", "1000"], readyTimeout=1).ok()

    def events():
        with templates.api.again() as own:
            return list(own.events("POST", "/sandboxes", {"template": "t"}))

    def box(word):
        with templates.api.again() as own:
            return Templates(own).box(word)

    with concurrent.futures.ThreadPoolExecutor() as pool:  # they wait beside each other
        told, fails, hangs = pool.submit(events), pool.submit(box, "t"), pool.submit(box, "hangs")
    body = fails.result().failed(408, "template_not_ready", "exit code 9: not yet")
    assert body["exitCode"] == 9 and body["output"] == "tried\nnot yet\n"
    *_, last = told.result()
    assert last["event"] == "error" and last["code"] == "template_not_ready" and "not yet" in last["output"]
    hangs.result().failed(408, "template_not_ready")
    wait_until(lambda: templates.api.ids() == [], what="the removals, which an event of an error may precede")
    templates.make("none", ready=["/no/program"]).ok()
    templates.box("none").failed(400, "command_not_found", "ready command")
    assert templates.api.ids() == []


def test_who_does_not_wait_until_it_is_ready_leaves_no_sandbox(own, templates):
    templates.make(ready="exit 1", readyTimeout=300).ok()
    body = b'{"template": "t"}'
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(own.socket_path))
        caller.sendall(b"POST /sandbox/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        wait_until(lambda: templates.api.ids(), what="the sandbox")
    wait_until(lambda: not templates.api.ids(), what="no sandbox")


# ---- crashes ----


@pytest.mark.counts_rows
@pytest.mark.parametrize("lazily", [False, True])
def test_a_kill_in_the_middle_of_a_build_leaves_nothing_half(own, templates, lazily):
    if lazily:
        templates.make(build=False, setup=["echo begun; test -e /go || sleep 1000"]).ok()
        path, body = "/sandboxes", {"template": "t"}
    else:
        path, body = "/templates", {"name": "t", "config": {"image": "host", "setup": ["echo begun; sleep 1000"]}}
    events = templates.api.events("POST", path, body)
    assert any(e.get("data") == "begun\n" for e in events)
    own.kill9()
    templates.api.close()
    own.start()
    wait_until(lambda: templates.api.ids() == [], what="the build's sandbox to go")
    assert not half_made(own)
    assert templates.own() == (["t"] if lazily else [])
    if lazily:
        assert "build" not in templates.show("t")
        templates.api.delete("/templates/t").ok()
    templates.make(setup=[UUID]).ok()
    assert len(templates.api.sh(templates.box().ok()["id"], "cat /opt/uuid")) == 37


@pytest.mark.counts_rows
def test_a_kill_after_any_event_of_a_build_leaves_the_old_build_or_the_new(own, templates):
    first = templates.make(setup=[UUID]).ok()
    for n in range(1, 8):
        known = templates.show("t")["build"]["imageId"]
        seen = 0
        try:
            for event in templates.api.events("POST", "/templates/t/build", {"noCache": True}):
                seen += 1
                if seen >= n:
                    break
        except (OSError, AssertionError):
            pass
        own.kill9()
        templates.api.close()
        own.start()
        wait_until(lambda: templates.api.ids() == [], what="the build's sandbox to go")
        assert not half_made(own) and templates.show("t")["id"] == first["id"]
        now = templates.show("t")["build"]["imageId"]
        made = templates.box().ok()
        assert made["config"]["templateBuild"] == now and (now == known or n > 1)
        assert len(templates.api.sh(made["id"], "cat /opt/uuid")) == 37
        templates.api.remove(made["id"])


# ---- the command line ----


def test_the_command_line(own, tmp_path):
    (tmp_path / "app.sh").write_text("echo app $A\n")
    made = cay(own, "template", "create", "-r", "echo built; touch /opt/mark", "-f", f"{tmp_path}/app.sh:app.sh",
               "-e", "A=5", "-w", "/srv", "-m", "128", "--ready", "test -e /opt/mark", "web", "host", check=True)
    id = made.stdout.decode().strip()
    assert id.startswith("tpl_") and b"RUN echo built" in made.stderr and b"\nbuilt\n" in made.stderr
    listed = cay(own, "template", "ls", check=True).stdout.decode()
    assert "node-web" in listed and [l.split()[:3] for l in listed.splitlines() if l.startswith("web ")] == \
        [["web", "host", "yes"]]
    assert "web" in cay(own, "templates", "-q", check=True).stdout.decode().split()
    shown = json.loads(cay(own, "template", "show", "web", check=True).stdout)
    assert shown["id"] == id and shown["config"]["files"] == [{"path": "app.sh", "content": "echo app $A\n"}]
    run = cay(own, "run", "--template", "web", "sh", "-c", "sh app.sh; pwd")
    assert (run.returncode, run.stdout) == (0, b"app 5\n/srv\n"), run
    box = cay(own, "create", "--template", "web", "--memory", "256", "--json", "sleep", "1000", check=True)
    box = json.loads(box.stdout)
    assert box["config"]["memory"] == 256 and box["entrypoint"] == ["sleep", "1000"] and box["image"] == "host"
    assert b"RUN echo built; touch /opt/mark  CACHED" in cay(own, "template", "build", "web", check=True).stderr
    failed = cay(own, "template", "create", "-q", "-r", "echo reason; exit 4", "bad", "host")
    assert failed.returncode == 1 and b"reason\n" in failed.stderr and b"exit code 4" in failed.stderr
    assert cay(own, "template", "rm", "web", "go-api").stdout == b"web\n"
    assert b"template_not_found" in cay(own, "run", "--template", "web", "true").stderr
    cay(own, "rm", box["id"], check=True)


def test_a_template_that_is_taken_for_an_image_is_told(own):
    cay(own, "template", "create", "tools", "host", check=True)
    for words in (["run", "--pull", "never", "tools", "true"], ["create", "--pull", "never", "tools"]):
        assert "--template tools" in cay(own, *words, text=True).stderr
    other = cay(own, "run", "--pull", "never", "nosuch", "true", text=True).stderr
    assert "cay run -- nosuch" in other and "template" not in other
    nothing = cay(own, "run", "--template", "tools", text=True)
    assert nothing.returncode == 125 and "cay run --template tools sh" in nothing.stderr and "sha256" not in nothing.stderr


def test_a_template_from_a_file_of_json(own, tmp_path):
    wrapped = {"name": "a", "config": {"image": "host", "setup": ["true"]}}
    flat = {"name": "b", "description": "flat", "image": "host", "env": {"X": "1"}}
    (tmp_path / "a.json").write_text(json.dumps(wrapped))
    cay(own, "template", "create", tmp_path / "a.json", check=True)
    cay(own, "template", "create", "-", input=json.dumps(flat).encode(), check=True)
    assert cay(own, "run", "--template", "b", "--", "sh", "-c", "echo $X").stdout == b"1\n"
    (tmp_path / "bad.json").write_text("{\n\"name\": }")
    assert b"line 2" in cay(own, "template", "create", tmp_path / "bad.json").stderr
    assert json.loads(cay(own, "template", "show", "b", check=True).stdout)["description"] == "flat"


def test_a_prune_does_not_take_what_a_template_was_just_built_to(own):
    """Between the end of a build and the template that says its image, only the cache had it."""
    over = threading.Event()

    def prune():
        with own.api() as api:
            while not over.is_set():
                api.post("/images/prune", {}).ok()

    pruners = [threading.Thread(target=prune) for _ in range(2)]
    for thread in pruners:
        thread.start()
    try:
        with own.api() as api:
            for n in range(10):
                files = [{"path": "/root/n", "content": str(n)}]
                api.post("/templates", {"name": f"t{n}", "config": {"image": "host", "files": files}}).ok()
                box = api.post("/sandboxes", {"template": f"t{n}"}).ok()["id"]
                api.delete(f"/sandboxes/{box}").ok()
                api.delete(f"/templates/t{n}").ok()
    finally:
        over.set()
        for thread in pruners:
            thread.join()
