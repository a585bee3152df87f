"""Templates from a folder: what a Dockerfile says is what its sandboxes have."""

import json
import os
import signal
import subprocess
import tarfile
import threading
import urllib.parse

import pytest

from cay_harness import CAY, busybox_root, cay, cli_environment, wait_until

pytestmark = pytest.mark.core


class Folder:
    """A folder with a Dockerfile, and the daemon that builds it."""

    def __init__(self, daemon, path):
        self.daemon, self.path = daemon, path
        path.mkdir()

    def write(self, name, text, mode=0o644):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def build(self, dockerfile=None, *flags, name="t", check=True):
        """The events, and what was said on stderr."""
        if dockerfile is not None:
            self.write("Dockerfile", dockerfile)
        done = cay(self.daemon, "template", "build", "--json", "-t", name, *flags, self.path, timeout=120)
        assert (done.returncode == 0) == check, done
        self.said = done.stderr.decode()
        return [json.loads(line) for line in done.stdout.splitlines()]

    def cached(self, events):
        """The texts of the steps that were not done again."""
        texts = {e["step"]: e["text"] for e in events if e["event"] == "step"}
        return [texts[e["step"]] for e in events if e["event"] == "stepDone" and e["cached"]]

    def run(self, *command, name="t"):
        return cay(self.daemon, "run", "--template", name, *command, check=True).stdout.decode()


@pytest.fixture
def folder(own, tmp_path):
    return Folder(own, tmp_path / "folder")


@pytest.fixture
def busybox(own, tmp_path):
    """A small image with users of its own."""
    root = busybox_root(tmp_path / "root")
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1234:55::/:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\nstaff:x:50:\n")
    (root / "lib").mkdir()
    (root / "lib64").symlink_to("lib")
    cay(own, "image", "import", root, "bb:1", check=True)


def output(events):
    return "".join(e["data"] for e in events if e["event"] == "output")


# ---- what steps do ----


def test_a_dockerfile_becomes_a_template(folder):
    folder.write("a.txt", "one\n")
    folder.write("sub/run.sh", "#!/bin/sh\necho ran $1\n", 0o755)
    os.symlink("a.txt", folder.path / "link")
    events = folder.build("""\
# syntax=docker/dockerfile:1
ARG BASE=host
FROM ${BASE} AS build
WORKDIR /src
COPY . .
RUN ./sub/run.sh here >out && echo to-stderr >&2

FROM host
ARG WHO=world
ENV GREETING="hello $WHO" \\
    # a comment
    EMPTY=
LABEL kind=test
COPY --from=build --chown=1000:1001 --chmod=640 /src/out /src/link /opt/
EXPOSE 8080 53/udp
STOPSIGNAL SIGINT
USER 1000
WORKDIR /opt
CMD ["sh", "-c", "cat out link; echo $GREETING-$EMPTY; stat -c '%a %u %g' out; pwd; id -u"]
""", "--build-arg", "WHO=you")
    assert "to-stderr\n" in output(events)
    assert [e["steps"] for e in events if e["event"] == "step"][0] == 14
    template = events[-1]["template"]
    assert template["name"] == "t" and template["build"]["source"] == "directory"
    assert folder.run() == "ran here\none\nhello you-\n640 1000 1001\n/opt\n1000\n"
    with folder.daemon.api() as api:
        image = api.get("/images/" + urllib.parse.quote(template["build"]["imageId"], safe="")).ok()
    assert image["labels"] == {"kind": "test"} and sorted(image["ports"]) == ["53/udp", "8080/tcp"]
    assert (image["stopSignal"], image["user"], image["workdir"]) == ("SIGINT", "1000", "/opt")


def test_a_step_that_makes_paths_of_more_than_4096_bytes_says_what_is_left_out(folder):
    """The image lacks the path, and the output of the step names it."""
    events = folder.build("FROM host\nRUN n=$(printf 'n%.0s' $(seq 250)); cd /root; echo kept >beside; "
                          "for i in $(seq 20); do mkdir $n; cd $n 2>/dev/null || exit 0; done\n")
    said = "".join(e["data"] for e in events if e["event"] == "output")
    assert "[warning: 1 file or folder was left out" in said, said
    assert folder.run("cat", "/root/beside") == "kept\n"


def test_where_copies_go(folder, busybox):
    for name in ("a.txt", "b.txt", "dir/c", "dir/deep/d", "own.conf"):
        folder.write(name, name + "\n")
    folder.build("""\
FROM bb:1
COPY a.txt /file
COPY a.txt /tmp
COPY *.txt /many/
COPY dir /copied
COPY dir/de*/d lib64/
COPY --chown=app:staff own.conf /etc/own.conf
COPY --chown=app own.conf /etc/app.conf
COPY <<EOF /etc/here
plain $HOME text "quoted"
EOF
RUN stat -c '%n %u:%g' /etc/own.conf /etc/app.conf
""")
    out = output(folder.build(None, "--no-cache"))
    assert "/etc/own.conf 1234:50\n/etc/app.conf 1234:1234\n" in out
    said = folder.run("/bin/sh", "-c", "cat /file /tmp/a.txt /many/* /copied/c /copied/deep/d /lib/d; "
                                       "cat /etc/here /etc/mark; ls -ld /lib64")
    assert said.startswith("a.txt\na.txt\na.txt\nb.txt\ndir/c\ndir/deep/d\ndir/deep/d\n"
                           "plain  text \"quoted\"\nof the image\n")
    assert "-> lib" in said


def test_several_files_go_into_a_folder_that_is_there(folder, busybox):
    folder.write("a.txt", "a\n")
    folder.write("b.txt", "b\n")
    out = output(folder.build("FROM bb:1\nWORKDIR /app\nCOPY *.txt /app\nRUN cat /app/a.txt /app/b.txt\n"))
    assert out == "a\nb\n"
    folder.build("FROM bb:1\nCOPY *.txt /nothing\n", check=False)
    assert "Dockerfile:2: COPY *.txt /nothing: several files" in folder.said


@pytest.mark.parametrize("what", ["app.tar", "$F", "app*"])
def test_an_archive_is_not_added_as_a_file(folder, busybox, what):
    folder.write("app.tar", "an archive\n")
    folder.build(f"FROM bb:1\nARG F=app.tar\nADD {what} /x/\n", check=False)
    assert f"Dockerfile:3: ADD {what} /x/: ADD does not unpack archives" in folder.said
    folder.build("FROM bb:1\nCOPY app.tar /x/\n")


def test_an_image_of_nothing_has_only_what_is_copied(folder, busybox):
    folder.build("FROM bb:1 AS tools\n"
                 "FROM scratch\n"
                 "COPY --from=tools /bin/busybox /bin/\n"
                 "COPY --from=0 /etc/mark /\n"
                 "ENTRYPOINT [\"/bin/busybox\"]\nCMD [\"find\", \"/bin\", \"/mark\"]\n")
    assert folder.run().split() == ["/bin", "/bin/busybox", "/mark"]


def test_only_stages_that_the_target_needs_are_built(folder):
    folder.write("Dockerfile", "FROM host AS a\nRUN echo a >/a\nFROM host AS b\nRUN exit 1\n"
                               "FROM a AS c\nRUN echo c >/c\nFROM c\nCOPY --from=b /x /y\n")
    events = folder.build(None, "--target", "c")
    assert [e["text"] for e in events if e["event"] == "step"] == [
        "FROM host AS a", "RUN echo a >/a", "FROM a AS c", "RUN echo c >/c"]
    assert folder.run("cat", "/a", "/c") == "a\nc\n"
    folder.build(None, check=False)
    assert "Dockerfile:4: RUN exit 1: exit code 1" in folder.said
    folder.build(None, "--target", "none", check=False)
    assert "there is no stage none" in folder.said


def test_stages_are_found_as_docker_finds_them(folder, busybox):
    """In capitals or not, and of two with one name the later one."""
    out = output(folder.build("""\
FROM bb:1 AS Builder
RUN echo one >/x
FROM bb:1 AS builder
RUN echo two >/x
FROM BUILDER AS Last
COPY --from=Builder /x /y
RUN cat /x /y
FROM host
RUN exit 1
""", "--target", "LAST"))
    assert out == "two\ntwo\n"


def test_a_stage_on_another_has_its_shell(folder, busybox):
    out = output(folder.build("""\
FROM bb:1 AS first
SHELL ["/bin/busybox", "sh", "-xc"]
FROM first
RUN echo hello
"""))
    assert "+ echo hello\n" in out


def test_where_workdir_goes(folder, busybox):
    """Up as well, by the letters of the path; and it is there for who copies from the stage."""
    out = output(folder.build("""\
FROM bb:1 AS first
WORKDIR /nope/../made//deep/./er/
FROM first
RUN pwd; ls -d /nope 2>&1 || true
WORKDIR ../../up
RUN pwd
FROM bb:1
COPY --from=first /made /copied
RUN find /copied
WORKDIR /../..
"""))
    assert out == "/copied\n/copied/deep\n/copied/deep/er\n"
    out = output(folder.build(None, "--target", "1"))
    assert "/made/deep/er\n" in out and "No such file" in out and out.endswith("/made/up\n")


def test_shells_and_here_documents(folder):
    events = folder.build("FROM host\n"
                          "RUN <<EOF\nx=1\necho script $x\nEOF\n"
                          "RUN cat <<-E | tr a-z A-Z\n\tpiped\n\tE\n"
                          "SHELL [\"/bin/bash\", \"-c\"]\n"
                          "RUN [[ abc == a* ]] && echo bash\n"
                          "RUN [\"/bin/echo\", \"$HOME\", \"as it is\"]\n")
    assert output(events) == "script 1\nPIPED\nbash\n$HOME as it is\n"


def test_a_cay_json_is_built_from_its_folder(folder):
    folder.write("app/main.py", "print('main')\n")
    folder.write("cay.json", json.dumps({
        "description": "from a folder", "config": {
            "image": "host", "workdir": "/app", "env": {"A": "b"}, "ready": "test -s made",
            "files": [{"path": "src", "source": "app"}, {"path": "run.sh", "content": "x", "mode": "0755"}],
            "setup": ["cat src/main.py run.sh >made; echo $A >>made"]}}))
    template = folder.build()[-1]["template"]
    assert template["description"] == "from a folder"
    assert folder.run("cat", "made") == "print('main')\nxb\n"
    folder.write("cay.json", '{"image": "host",\n"setup": 7}')
    folder.build(check=False)
    assert "cay.json" in folder.said


# ---- what is sent ----


def test_what_dockerignore_leaves_out_is_not_sent(folder):
    for name in ("Dockerfile.dev", "a.log", "keep.log", "sub/b.log", "sub/c.txt", "node_modules/x/y.js",
                 "node_modules/x/keep.js", "deep/er/tmp/z", "#hash", "docs/a.md", "docs/b.md", ".git/config"):
        folder.write(name, name)
    folder.write(".dockerignore", "# a comment\n\nDockerfile*\n.dockerignore\n*.log\n!keep.log\n**/*.log\n!keep.log\n"
                                  "node_modules\n!node_modules/x/keep.js\n**/tmp\n/docs/*.md\n! docs/b.md\n.git/\n")
    folder.build("FROM host\nCOPY . /c\n")
    assert folder.run("sh", "-c", "cd /c; find . -type f | sort").split() == [
        "./#hash", "./docs/b.md", "./keep.log", "./node_modules/x/keep.js", "./sub/c.txt"]


def test_a_dockerfile_from_elsewhere(folder, tmp_path):
    folder.write("x", "x\n")
    (tmp_path / "Other").write_text("FROM host\nCOPY . /c\nRUN fail\n")
    folder.build(None, "-f", tmp_path / "Other", check=False)
    assert "Other:3: RUN fail: exit code 127" in folder.said
    done = cay(folder.daemon, "template", "build", "-q", "-t", "t", "-f", "-", folder.path,
               input=b"FROM host\nCOPY . /c\n", check=True)
    assert done.stdout.startswith(b"tpl_") and done.stderr == b""
    assert folder.run("ls", "/c") == "x\n"


def test_the_api_takes_an_archive_or_a_text(own, tmp_path):
    folder = Folder(own, tmp_path / "folder")
    folder.write("Dockerfile", "FROM host\nCOPY a /a\n")
    folder.write("a", "in the archive\n")
    with tarfile.open(tmp_path / "c.tar.gz", "w:gz") as tar:
        tar.add(folder.path, arcname=".")
    with own.api(timeout=60) as api:
        made = api.post("/templates/build?name=t", raw=(tmp_path / "c.tar.gz").read_bytes(),
                        type="application/octet-stream").ok()
        assert made["build"]["steps"] == 2
        assert folder.run("cat", "/a") == "in the archive\n"
        again = api.post("/templates/build", {"name": "t", "dockerfile": "FROM host\nENV A=1\n"}).ok()
        assert again["id"] == made["id"], "a template that is built again keeps its id"
        api.post("/templates/build", {"name": "u", "dockerfile": "FROM host\nCOPY a /a\n"}).failed(
            400, "no_context")
        api.post("/templates/build", {"name": "u"}).failed(400, "invalid")
        api.post("/templates/build", {"name": "u", "dockerfile": "FROM host\nVOLUME /x\n"}).failed(
            400, "bad_dockerfile", "Dockerfile:2: VOLUME is not supported")
        api.post("/templates/build?name=u", raw=b"no archive", type="application/octet-stream").failed(
            400, "bad_image")
        failed = api.post("/templates/build", {"name": "u", "dockerfile": "FROM host\nRUN echo why; exit 3\n"})
        failed.failed(409, "build_failed", "exit code 3")
        assert failed.json["output"] == "why\n" and failed.json["command"] == "RUN echo why; exit 3"
        assert api.ids() == []


# ---- what is kept ----


def test_a_step_is_done_again_only_when_what_it_depends_on_has_changed(folder):
    dockerfile = ("FROM host\nENV E=e\nCOPY a /a\nRUN cat /a\nLABEL x=1\nCOPY b /b\nARG V=1\n"
                  "RUN echo $V $E\n")
    folder.write("a", "a")
    folder.write("b", "b")
    first = folder.build(dockerfile)
    assert folder.cached(first) == [] and not first[-1]["template"]["build"]["cached"]
    files = ["COPY a /a", "RUN cat /a", "COPY b /b"]
    again = folder.build()
    assert folder.cached(again) == [*files, "RUN echo $V $E"]
    assert again[-1]["template"]["build"]["imageId"] == first[-1]["template"]["build"]["imageId"]
    assert again[-1]["template"]["build"]["cached"]
    assert folder.cached(folder.build(None, "--no-cache")) == []
    os.utime(folder.path / "a", (0, 0))
    assert folder.cached(folder.build(None, "--build-arg", "V=2")) == files
    (folder.path / "b").write_text("other")
    assert folder.cached(folder.build()) == files[:2]
    (folder.path / "a").chmod(0o600)
    assert folder.cached(folder.build()) == []
    cay(folder.daemon, "image", "prune", "--yes", check=True)
    assert folder.cached(folder.build()) == []


def test_layers_of_a_template_stay_and_go_with_it(folder):
    folder.build("FROM host\nRUN echo kept >/kept\n")
    cay(folder.daemon, "image", "prune", "--yes", check=True)
    folder.daemon.restart()
    assert folder.run("cat", "/kept") == "kept\n"
    with folder.daemon.api() as api:
        api.delete("/templates/t").ok()
    cay(folder.daemon, "image", "prune", "--yes", check=True)
    wait_until(lambda: os.listdir(folder.daemon.data / "images" / "records") == [], what="no records")


# ---- what ends early ----


def running_step(api):
    """The sandbox of a RUN, once its command runs."""
    for sandbox in api.get("/sandboxes?status=running").ok()["items"]:
        reply = api.get(f"/sandboxes/{sandbox['id']}/processes")  # one of another step may be gone by now
        if reply.status == 200 and any("sleep" in p["command"] for p in reply.json["processes"]):
            return sandbox
    return None


class Begun:
    """A build that is not over by itself."""

    def __init__(self, folder, dockerfile):
        folder.write("Dockerfile", dockerfile)
        self.process = subprocess.Popen([CAY, "template", "build", "-t", "t", folder.path],
                                        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        env=cli_environment(folder.daemon))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def end(self):
        """Its status, and what it said."""
        said = self.process.communicate(timeout=30)[1]
        return self.process.returncode, said.decode()


def test_a_client_that_hangs_up_ends_the_step_and_its_sandbox(folder):
    with Begun(folder, "FROM host\nRUN sleep 1000\n") as build, folder.daemon.api() as api:
        step = wait_until(lambda: running_step(api), what="the step")
        assert step["name"].startswith("build_") and step["name"].endswith("-2")
        build.process.send_signal(signal.SIGINT)
        assert build.end()[0] == 130
        wait_until(lambda: api.ids() == [], what="no sandbox")
        api.get("/templates/t").failed(404)


@pytest.mark.counts_rows
def test_a_daemon_that_is_killed_leaves_nothing_of_a_build(folder):
    folder.write("a", "a")
    with Begun(folder, "FROM host\nCOPY a /a\nRUN sleep 1000\n") as build, folder.daemon.api() as api:
        wait_until(lambda: running_step(api), what="the step")
        other = api.create(metadata={"cay.build": "mine"})["id"]
        folder.daemon.kill9()
        assert build.end()[0] != 0
    folder.daemon.start()
    with folder.daemon.api() as api:
        assert api.ids() == [other]
        api.remove(other)
    assert folder.cached(folder.build("FROM host\nCOPY a /a\n")) == ["COPY a /a"]
    cay(folder.daemon, "template", "rm", "t", check=True)
    cay(folder.daemon, "image", "prune", "--yes", check=True)
    for part in ("records", "layers"):
        wait_until(lambda: os.listdir(folder.daemon.data / "images" / part) == [], what=f"no {part}")


@pytest.mark.counts_rows
def test_a_daemon_that_is_killed_at_any_step_leaves_the_old_template_or_the_new_one(folder):
    folder.write("a", "a")
    folder.build("FROM host AS b\nCOPY a /a\nRUN cat /a >/b\nFROM host\nWORKDIR /w\nCOPY --from=b /b .\n"
                 "RUN cat b >c\nENV A=1\n")
    before = folder.run("cat", "c")
    for events in (2, 4, 5, 7, 12, 13, 15):
        command = [CAY, "template", "build", "--json", "--no-cache", "-t", "t", folder.path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env=cli_environment(folder.daemon)) as build:
            for _ in range(events):
                assert build.stdout.readline()
            folder.daemon.kill9()
            build.stdout.read()
        folder.daemon.start()
        with folder.daemon.api() as api:
            assert api.ids() == []
        assert folder.run("cat", "c") == before
    cay(folder.daemon, "template", "rm", "t", check=True)
    cay(folder.daemon, "image", "prune", "--yes", check=True)
    for part in ("records", "layers"):
        wait_until(lambda: os.listdir(folder.daemon.data / "images" / part) == [], what=f"no {part}")


def test_a_daemon_that_stops_ends_a_build(folder):
    with Begun(folder, "FROM host\nRUN sleep 1000\n") as build, folder.daemon.api() as api:
        wait_until(lambda: running_step(api), what="the step")
        folder.daemon.stop()
        status, said = build.end()
    assert status == 1 and "stopping" in said, said
    folder.daemon.start()
    with folder.daemon.api() as api:
        assert api.ids() == []


def test_a_step_that_takes_too_long_or_too_much(folder):
    folder.build("FROM host\nRUN sleep 1000\n", "--step-timeout", "1", check=False)
    assert "it took longer than 1 seconds" in folder.said
    folder.build("FROM host\nRUN tail /dev/zero\n", "--memory", "64", check=False)
    assert "more memory than its sandbox has" in folder.said
    folder.build("FROM host\nRUN head -c 100000000 /dev/zero >/big\n", "--disk", "64", check=False)
    assert "exit code 1" in folder.said
    with folder.daemon.api() as api:
        assert api.ids() == []


def test_a_step_without_a_network_says_so(folder):
    folder.build("FROM host\nRUN echo 'Temporary failure in name resolution'; exit 1\n", check=False)
    assert "a build has no network unless it is given one" in folder.said


# ---- walls ----


@pytest.mark.parametrize("dockerfile, why", [
    ("FROM host\nCOPY ../../../etc/shadow /x\n", "there is no"),
    ("FROM host\nCOPY out /x\n", "there is no out"),
    ("FROM host\nCOPY a /usr/bin/a\n", "the machine's own"),
    ("FROM host\nCOPY a /bin/\n", "the machine's own"),
    ("FROM host\nCOPY a /proc/x/\nRUN test ! -e /proc/x\n", None),
    ("FROM host\nCOPY --chown=nobody-has-this-name a /x\n", "has no nobody-has-this-name"),
    ("FROM host\nCOPY --chmod=9 a /x\n", "octal"),
])
def test_copies_stay_inside(folder, dockerfile, why):
    folder.write("a", "a")
    os.symlink("/etc/passwd", folder.path / "out")  # leads nowhere in the context
    events = folder.build(dockerfile, check=why is None)
    assert why is None or why in folder.said, folder.said
    assert any(e["event"] == "template" for e in events) == (why is None)


def test_a_link_of_the_image_is_followed_inside_of_it(folder, busybox):
    folder.write("a", "a\n")
    folder.build("FROM bb:1\nRUN [\"/bin/busybox\", \"ln\", \"-s\", \"/../../tmp\", \"/way\"]\n"
                 "COPY a /way/out\nCOPY a /way/\n")
    assert folder.run("/bin/sh", "-c", "cat /tmp/out /tmp/a") == "a\na\n"
    assert not os.path.exists("/tmp/out")


def test_builds_of_one_template_take_turns(folder):
    folder.write("a", "a\n")
    folder.write("Dockerfile", "FROM host\nCOPY a /a\nRUN cat /a >/b\n")
    done = []
    threads = [threading.Thread(target=lambda: done.append(
        cay(folder.daemon, "template", "build", "-q", "-t", "t", folder.path, timeout=120).returncode))
        for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [0, 0, 0, 0]
    assert folder.run("cat", "/b") == "a\n"
