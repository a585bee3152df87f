"""The git routes: the sandbox's own git on real repositories, and a server that wants name and password, of which
nothing may stay behind."""

import os
import subprocess
import threading

import pytest

from cay_git import Forge
from cay_harness import wait_until
from cay_world import needs_network

pytestmark = [pytest.mark.core, pytest.mark.needs("program:git")]

HOST, EVIL = "allowed.test", "evil.test"


def git(api, id, what, **fields):
    return api.post(f"/sandboxes/{id}/git/{what}", fields)


def look(api, id, what, **query):
    words = "&".join(f"{k}={v}" for k, v in query.items())
    return api.get(f"/sandboxes/{id}/git/{what}?{words}")


def runs(api, id, what, **fields):
    done = git(api, id, what, **fields).ok()
    assert done["exitCode"] == 0, done
    return done


# ---- a repository ----


@pytest.fixture
def repo(api, box):
    api.sh(box, "git init -q -b main && echo one >a")
    return box


def test_a_new_file_becomes_a_commit(api, repo):
    was = look(api, repo, "status").ok()
    assert (was["branch"], was["clean"], was["repository"]) == ("main", False, True)
    assert was["files"] == [{"status": "??", "path": "a", "staged": False}]
    assert look(api, repo, "log").ok() == {"entries": []}
    done = runs(api, repo, "commit", message="it's \"$(first)\"", all=True)
    assert done["duration"] > 0 and "1 file changed" in done["stdout"]
    assert look(api, repo, "status").ok()["clean"]
    entry, = look(api, repo, "log").ok()["entries"]
    assert entry["message"] == "it's \"$(first)\"" and len(entry["hash"]) == 40 and entry["author"] and entry["date"][:2] == "20"


def test_a_commit_has_the_author_that_is_configured_or_given(api, repo):
    api.sh(repo, "git config user.name Ada && git config user.email ada@test")
    runs(api, repo, "commit", message="one", all=True)
    api.sh(repo, "echo two >>a")
    runs(api, repo, "commit", message="two", all=True, authorName="Bob", authorEmail="bob@test")
    entries = look(api, repo, "log").ok()["entries"]
    assert [(e["message"], e["author"], e["email"]) for e in entries] == [("two", "Bob", "bob@test"), ("one", "Ada", "ada@test")]
    assert len(look(api, repo, "log", count=1).ok()["entries"]) == 1


def test_status_and_diff_know_staged_changed_and_renamed_files(api, repo):
    api.sh(repo, "seq 30 >long; echo x >'sp ace'; echo ü >ü")
    runs(api, repo, "commit", message="one", all=True)
    api.sh(repo, "git mv long longer; echo two >>a; rm 'sp ace'; echo ü >>ü; git add ü")
    files = {f["path"]: f for f in look(api, repo, "status").ok()["files"]}
    assert {p: (f["status"], f["staged"]) for p, f in files.items()} == {
        "longer": ("R", True), "a": ("M", False), "sp ace": ("D", False), "ü": ("M", True)}
    assert files["longer"]["from"] == "long"
    assert "+two" in look(api, repo, "diff").ok()["diff"]
    assert "b/ü" in look(api, repo, "diff", staged="true").ok()["diff"]
    assert "sp ace" not in look(api, repo, "diff", file="a").ok()["diff"]
    assert look(api, repo, "diff", file="none").ok()["diff"] == ""


def test_nothing_to_commit_is_a_result(api, repo):
    runs(api, repo, "commit", message="one", all=True)
    assert git(api, repo, "commit", message="two").ok()["exitCode"] == 1


def test_branches_are_made_listed_and_deleted(api, repo):
    assert git(api, repo, "branch").ok() == {"branches": [], "current": "main"}
    runs(api, repo, "commit", message="one", all=True)
    assert git(api, repo, "branch", name="feat/x").ok() == {"branches": ["feat/x", "main"], "current": "feat/x"}
    git(api, repo, "branch", name="feat/x").failed(409, "git_failed", "already exists")
    api.sh(repo, "echo two >>a")
    runs(api, repo, "commit", message="two", all=True)
    runs(api, repo, "checkout", ref="main")
    git(api, repo, "branch", name="feat/x", delete=True).failed(409, "git_failed", "not fully merged")
    assert git(api, repo, "branch", name="feat/x", delete=True, force=True).ok() == {"branches": ["main"], "current": "main"}
    runs(api, repo, "checkout", ref=look(api, repo, "log").ok()["entries"][0]["hash"])
    assert git(api, repo, "branch").ok() == {"branches": ["main"], "current": "HEAD"}
    assert look(api, repo, "status").ok()["branch"] == "HEAD"
    assert git(api, repo, "checkout", ref="nowhere").ok()["exitCode"] != 0


def test_a_repository_below_the_workspace_and_one_of_another_user(api, box):
    api.sh(box, "git init -q /workspace/deep && chown -R 1000 /workspace/deep && touch deep/a && git init -q /tmp/far")
    assert look(api, box, "status", path="deep").ok()["files"][0]["path"] == "a"
    assert look(api, box, "status", path="/tmp/far").ok()["clean"]


# ---- what is missing ----


def test_without_a_repository_all_but_the_workspaces_status_say_so(api, box):
    was = look(api, box, "status").ok()
    assert (was["branch"], was["clean"], was["files"], was["repository"]) == ("HEAD", True, [], False)
    for what in ("log", "diff", "status"):
        look(api, box, what, path="/tmp").failed(409, "not_a_repository", "git init")
    for what, fields in (("commit", {"message": "m"}), ("branch", {}), ("branch", {"name": "b"}), ("checkout", {"ref": "main"}),
                         ("pull", {}), ("push", {})):
        git(api, box, what, **fields).failed(409, "not_a_repository")
    git(api, box, "pull", path="nowhere").failed(400, "bad_cwd")


def test_without_git_they_say_how_to_get_it(api, make):
    for path in ("/nowhere", "/workspace/bin"):
        id = make(env={"PATH": path})["id"]
        api.sh(id, "/bin/mkdir bin && /bin/ln -s /bin/sh bin/sh") if path != "/nowhere" else None
        assert look(api, id, "status").ok()["repository"] is False
        look(api, id, "log").failed(409, "git_missing", "apt-get")
        git(api, id, "clone", url="https://u:p@nowhere.test/x.git").failed(409, "git_missing")
        git(api, id, "commit", message="m").failed(409, "git_missing")


def test_a_paused_or_removed_sandbox_refuses(api, box):
    api.post(f"/sandboxes/{box}/pause").ok()
    look(api, box, "status").failed(409, "sandbox_not_running")
    git(api, box, "clone", url="https://nowhere.test/x").failed(409, "sandbox_not_running")


# ---- words that are not what they seem ----

NASTY = ["-x", "--upload-pack=touch /workspace/owned", "$(touch /workspace/owned)", "`touch /workspace/owned`", "; touch /workspace/owned",
         "'; touch /workspace/owned; '", "\"; touch /workspace/owned; \"", "a\ntouch /workspace/owned", "ext::sh -c touch% /workspace/owned",
         "--exec=touch /workspace/owned", "| touch /workspace/owned", "&& touch /workspace/owned", "../../x", "-c core.pager=touch"]


def test_no_field_is_an_option_or_a_command(api, repo):
    runs(api, repo, "commit", message="one", all=True)
    for nasty in NASTY:
        for what, field, more in (("clone", "url", {}), ("clone", "branch", {"url": "file:///workspace"}), ("branch", "name", {}),
                                  ("clone", "path", {"url": "file:///workspace"}), ("branch", "start", {"name": "new"}), ("checkout", "ref", {}),
                                  ("push", "remote", {}), ("push", "branch", {}), ("pull", "remote", {}), ("pull", "branch", {}),
                                  ("commit", "path", {"message": "m"}), ("commit", "authorName", {"message": "m"}), ("commit", "message", {}),
                                  ("clone", "username", {"url": "https://nowhere.test/x"}), ("clone", "password", {"url": "https://nowhere.test/x"})):
            reply = git(api, repo, what, **{**more, field: nasty})
            assert reply.status < 500, (what, field, nasty, reply.body)
        for what, field in (("diff", "file"), ("diff", "path"), ("log", "path"), ("status", "path")):
            reply = api.call("GET", f"/sandboxes/{repo}/git/{what}", {field: nasty})
            assert reply.status < 500, (what, field, nasty, reply.body)
    api.sh(repo, "test ! -e /workspace/owned && ! find / -xdev -type f -name owned | grep .")
    for field in ("ref", "name", "branch", "remote"):
        what = {"ref": "checkout", "name": "branch"}.get(field, "push")
        git(api, repo, what, **{field: "-q"}).failed(400, "bad_ref")
    for url in NASTY[:4]:
        git(api, repo, "clone", url=url).failed(400, "bad_url")


def test_who_only_looks_runs_nothing_that_a_repository_names(api, repo):
    runs(api, repo, "commit", message="one", all=True)
    api.sh(repo, "echo more >>a; printf '#!/bin/sh\\ntouch /workspace/ran\\n' >/tmp/ran; chmod +x /tmp/ran; git config core.fsmonitor /tmp/ran;"
                 "git config diff.external /tmp/ran; git config core.pager /tmp/ran; echo '* diff=x' >.git/info/attributes;"
                 "git config diff.x.textconv /tmp/ran; git config diff.x.command /tmp/ran")
    for what in ("status", "diff", "log"):
        look(api, repo, what).ok()
    api.sh(repo, "test ! -e ran")


# ---- a server ----


@pytest.fixture
def forge(world, tmp_path):
    return Forge(world.web, HOST, tmp_path / "forge")


def login(forge):
    return {"username": forge.user, "password": forge.password}


@needs_network
def test_clone_push_and_pull_with_a_password(net, net_box, forge):
    url, id = forge.repository(), net_box()
    assert git(net, id, "clone", url=url).ok()["exitCode"] != 0  # and nobody is asked at a terminal
    assert git(net, id, "clone", url=url, username="ada", password="wrong").ok()["exitCode"] != 0
    done = runs(net, id, "clone", url=url, credentials=login(forge))
    assert net.sh(id, "cat demo/file0") == "line\n" and "Receiving" not in done["stdout"]
    assert look(net, id, "status", path="demo").ok()["upstream"] == "origin/main"
    net.write(id, "/workspace/demo/new", "text")
    runs(net, id, "commit", path="demo", message="from the box", all=True)
    assert look(net, id, "status", path="demo").ok()["ahead"] == 1
    assert git(net, id, "push", path="demo").ok()["exitCode"] != 0
    runs(net, id, "push", path="demo", **login(forge))
    assert "from the box" in forge.heads()
    runs(net, id, "clone", url=url, path="shallow", depth=1, branch="side", **login(forge))
    assert len(look(net, id, "log", path="shallow").ok()["entries"]) == 1
    runs(net, id, "pull", path="shallow", remote="origin", branch="main", rebase=True, **login(forge))
    assert "remotes/origin/side" in git(net, id, "branch", path="shallow").ok()["branches"]


@needs_network
def test_a_token_and_a_password_in_the_url(net, net_box, world, tmp_path):
    forge, id = Forge(world.web, HOST, tmp_path / "forge", user="x-access-token", password="tok_s3cr3t"), net_box()
    url = forge.repository()
    runs(net, id, "clone", url=url, token="tok_s3cr3t", path="a")
    runs(net, id, "clone", url=url.replace("https://", "https://x-access-token:tok_s3cr3t@"), path="b")
    assert net.sh(id, "git -C b config remote.origin.url") == url + "\n"
    runs(net, id, "pull", path="b", remote=url.replace("https://", "https://x-access-token:tok_s3cr3t@"), branch="main")
    assert "tok_s3cr3t" not in net.sh(id, "cat a/.git/config b/.git/config b/.git/FETCH_HEAD b/.git/logs/HEAD")


@needs_network
def test_progress_comes_as_events(net, net_box, forge):
    url, id = forge.repository(commits=20), net_box()
    events = list(net.events("POST", f"/sandboxes/{id}/git/clone", {"url": url, **login(forge)}))
    assert "Receiving objects" in {e.get("phase") for e in events}
    assert events[-1]["event"] == "result" and events[-1]["result"]["exitCode"] == 0
    assert max(e.get("percent", 0) for e in events) == 100
    told = net.get(f"/events/history?topic=git.progress&sandboxId={id}").ok()["events"]
    assert {"clone"} == {e["data"]["command"] for e in told} and "Receiving objects" in {e["data"]["phase"] for e in told}


# ---- nothing of it stays ----

SECRET = "hunter2-NEVER-LEFT-behind"

# Every file and every process that root in the box can read; what the search itself is made of is left out.
SEARCH = """import os, sys
word = bytes.fromhex(sys.argv[1])
for top, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(top, f) not in ("/sys", "/usr", "/proc", "/dev", "/lib", "/opt", "/boot")]
    for path in (os.path.join(top, f) for f in files):
        try:
            if os.path.isfile(path) and word in open(path, "rb").read():
                print(path)
        except OSError:
            pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for what in ("environ", "cmdline"):
        try:
            if int(pid) != os.getpid() and word in open(f"/proc/{pid}/{what}", "rb").read():
                print(pid, what)
        except OSError:
            pass"""


def found_in_box(api, id, word=SECRET):
    return api.sh(id, ["python3", "-c", SEARCH, word.encode().hex()])


def has_bytes(path, word):
    """Disks of sandboxes are large, and nearly all of each is a hole."""
    with open(path, "rb") as file:
        end, at = os.fstat(file.fileno()).st_size, 0
        while at < end:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return False
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            if word in os.pread(file.fileno(), at - start, start):
                return True
    return False


def found_outside(daemon, id, word=SECRET):
    """In all that the daemon has written, the sandbox's disk too."""
    subprocess.run(["sync", "--file-system", str(daemon.root)], check=True)
    files = [os.path.join(top, name) for top, folders, names in os.walk(daemon.root) for name in names]
    files = [f for f in files if os.path.isfile(f) and (id in f or os.stat(f).st_size < 64 << 20)]
    assert any(id in f for f in files), "the sandbox's disk is not there"
    return [f for f in files if has_bytes(f, word.encode())]


@needs_network
def test_nothing_of_a_password_stays(net, net_box, online, world, tmp_path):
    forge = Forge(world.web, HOST, tmp_path / "forge", password=SECRET)
    url, id = forge.repository(), net_box()
    net.sh(id, "git config --global credential.helper store; git config --global credential.https://allowed.test.helper store")
    runs(net, id, "clone", url=url, **login(forge))
    net.sh(id, "cd demo && echo more >>file0 && git -c user.name=a -c user.email=a@b commit -qam more")
    runs(net, id, "push", path="demo", **login(forge))
    runs(net, id, "pull", path="demo", credentials=login(forge))
    runs(net, id, "clone", url=url.replace("https://", f"https://ada:{SECRET}@"), path="other")
    assert git(net, id, "clone", url=url.replace("demo", "none"), path="third", **login(forge)).ok()["exitCode"] != 0
    execs = net.get(f"/sandboxes/{id}/exec").ok()
    assert SECRET not in str(execs) and SECRET not in str(net.get("/events/history").body)
    assert found_in_box(net, id) == ""
    net.sh(id, "sync")
    assert found_outside(online, id) == []
    assert SECRET not in online.log()
    net.write(id, "/workspace/planted", SECRET)  # the search does find what is there
    net.sh(id, "sync")
    assert found_in_box(net, id) != "" and found_outside(online, id) != []


@needs_network
def test_while_git_runs_no_file_argument_or_environment_has_it(net, net_box, world, tmp_path):
    forge, id = Forge(world.web, HOST, tmp_path / "forge", password=SECRET), net_box()
    url, arrived, go = forge.repository(), threading.Event(), threading.Event()
    backend = forge.backend

    def stall(request):
        arrived.set()
        go.wait(300)
        return backend(request)

    forge.backend = stall
    done = []
    with net.again() as other:
        thread = threading.Thread(target=lambda: done.append(git(other, id, "clone", url=url, **login(forge)).ok()))
        thread.start()
        try:
            assert arrived.wait(60)
            assert found_in_box(net, id) == ""
        finally:
            go.set()
            thread.join(30)
    assert done[0]["exitCode"] == 0


@needs_network
def test_only_the_server_that_was_meant_is_told(net, net_box, world, forge):
    id, evil = net_box(), Forge(world.web, EVIL, forge.folder, password="other")
    url = forge.repository()
    moved = forge.answer
    world.web.sites[HOST] = lambda request: (302, "text/plain", b"", ("Location", f"https://{EVIL}{request.path}"))
    assert git(net, id, "clone", url=url, **login(forge)).ok()["exitCode"] != 0
    assert evil.turned_away and set(evil.turned_away) == {""}, "the other server was told"
    world.web.sites[HOST] = lambda request: (302, "text/plain", b"", ("Location", f"http://{HOST}/again{request.path}"))
    seen = len(world.web.requests)
    assert git(net, id, "clone", url=url, **login(forge)).ok()["exitCode"] != 0
    assert not any(r.headers.get("authorization") for r in world.web.requests[seen:] if r.scheme == "http"), "told in the clear"
    world.web.sites[HOST] = moved
    runs(net, id, "clone", url=url, **login(forge))
    net.sh(id, f"git -C demo remote set-url --push origin https://{EVIL}/demo.git")
    assert git(net, id, "push", path="demo", **login(forge)).ok()["exitCode"] != 0
    assert set(evil.turned_away) == {""}


@needs_network
def test_a_caller_who_hangs_up_ends_git(net, net_box, world, tmp_path):
    forge, id = Forge(world.web, HOST, tmp_path / "forge"), net_box()
    url, arrived, go = forge.repository(), threading.Event(), threading.Event()
    forge.backend = lambda request: (arrived.set(), go.wait(300), (500, "text/plain", b""))[2]
    try:
        with net.again() as other:
            thread = threading.Thread(target=lambda: pytest.raises(Exception, git, other, id, "clone", url=url, **login(forge)))
            thread.start()
            assert arrived.wait(60)
            other.connection.sock.shutdown(2)
            thread.join(60)
        wait_until(lambda: "git" not in net.sh(id, "ps -eo comm || cat /proc/[0-9]*/comm"), what="the end of git")
    finally:
        go.set()
    assert os.path.basename(url) == "demo.git" and net.sh(id, "test ! -e demo/.git/HEAD; echo $?") in ("0\n", "1\n")
