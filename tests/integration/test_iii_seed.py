"""The public page about sandboxes of iii: every block of it is run as it is printed, at the port that it takes for granted."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from cay_harness import CAY, SLOW, Daemon, cay
from cay_iii import CLIENTS, UUID
from cay_kept import environment
from cay_npm import node
from cay_space import Space
from test_sdk_microsandbox import tiny_python

pytestmark = [pytest.mark.full, pytest.mark.needs("program:busybox")]

PAGE = CLIENTS / "page"
TABLE = re.compile(r"SANDBOX_ID +IMAGE +AGE_SECS +NAME\n")


class PageDaemon(Daemon):
    """In a network of its own, where the port of iii is free; asked over its unix socket, which is no part of a network."""

    def __init__(self, space, folder, **how):
        super().__init__("iii-page", **how)
        self.within, self.space = space.argv(), space
        self.folder, self.opened = folder, False

    def environment(self):
        env = super().environment()
        if self.opened:
            del env["CAY_WS_PORT"]  # as it is when nobody says anything
        return env

    def api(self, **how):
        how.setdefault("unix", self.socket_path)
        return super().api(**how)

    def with_images(self, *names):
        """Images of these names, with this machine's Python in them. What is on the page is not asked of a registry."""
        root = tiny_python(self.folder)
        shutil.copy(shutil.which("busybox"), root / "usr/bin/busybox")
        for name in ("sh", "cat", "echo", "env", "sleep", "stat", "test", "true"):
            (root / "usr/bin" / name).symlink_to("busybox")
        (root / "usr/bin/printenv").write_text('#!/bin/sh\neval "echo \\$$1"\n')
        (root / "usr/bin/printenv").chmod(0o755)
        (root / "bin").symlink_to("usr/bin")
        next((root / "usr/lib").glob("python3*")).joinpath("lib-dynload").mkdir()
        (root / "usr/bin/python3").symlink_to("python")
        self.start()
        for name in names:
            cay(self, "image", "import", root, name, check=True)
        self.stop()
        self.opened = True
        return self

    def run_in(self, *argv, timeout=60, **env):
        """With `iii` on the path, which is this program by that name."""
        link = self.folder / "bin" / "iii"
        if not link.exists():
            link.parent.mkdir()
            link.symlink_to(CAY)
        words = {**self.environment(), "PATH": f"{link.parent}:{os.environ['PATH']}", "HOME": str(self.folder), **env}
        words = {key: value for key, value in words.items() if not key.startswith("CAY_")}
        return subprocess.run(self.space.argv(*argv), env=words, cwd=self.folder, capture_output=True, text=True, timeout=timeout * SLOW,
                              stdin=subprocess.DEVNULL)

    def shell(self, script, **env):
        """Ends at the first line that fails."""
        return self.run_in("/bin/sh", "-ec", script, **env)

    def iii(self, *words, **how):
        return self.run_in("iii", "sandbox", *words, **how)

    def block(self, name, expression="null", sdk=None, **env):
        """What it printed, and the value of the expression at its end."""
        done = self.run_in(node(), PAGE / "run.mjs", sdk, PAGE / name, expression, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        *printed, last = done.stdout.rstrip("\n").split("\n")
        return "\n".join(printed), json.loads(last), done.stderr


@pytest.fixture(scope="module")
def space():
    space = Space("page")
    yield space
    space.close()


def page_daemon(space, config, *images):
    with tempfile.TemporaryDirectory(prefix="cay-test-page-") as name:
        daemon = PageDaemon(space, Path(name))
        try:
            daemon.with_images(*images)
            yield daemon.start(["--config", PAGE / config])
        finally:
            daemon.opened = False
            daemon.destroy()
            Daemon.everyone.remove(daemon)


@pytest.fixture(scope="module")
def page(space):
    """With the configuration of "Engine setup"."""
    yield from page_daemon(space, "config.yaml", "python:3.12-slim")


@pytest.fixture(autouse=True)
def no_sandboxes(request):
    """Blocks that stop nothing leave a sandbox."""
    yield
    for name in ("page", "custom"):
        if name in request.fixturenames:
            daemon = request.getfixturevalue(name)
            with daemon.api() as api:
                for id in api.ids():
                    api.remove(id)
            daemon.apis.remove(api)


@pytest.fixture(scope="module")
def sdk():
    """Of the time of the page."""
    return environment("iii-node-0.11")


def one(page):
    with page.api() as api:
        return api.ids()


# ---- from code ----


def test_quickstart(page, sdk):
    assert page.block("quickstart.js", "out", sdk)[:1] == ("hi\n",)
    assert one(page) == []


def test_full_lifecycle(page, sdk):
    _, (a, b), _ = page.block("lifecycle.js", "[a, b]", sdk)
    assert a["stdout"] == "4\n" and re.match(r"3\.\d+", b["stdout"])
    assert one(page) == []


def test_creating_and_running(page, sdk):
    printed, out, _ = page.block("creating_and_running.js", "out", sdk)
    assert printed == "en_US.UTF-8"
    assert set(out) >= {"stdout", "stderr", "exit_code", "timed_out", "duration_ms", "success"}
    assert (out["exit_code"], out["timed_out"], out["success"]) == (0, False, True)


def test_one_shot(page, sdk):
    assert page.block("one_shot.js", "out.stdout", sdk)[1] == "1024\n"
    assert one(page) == []


def test_list(page, sdk):
    name = page.iii("create", "python", "--name", "listed")
    assert name.returncode == 0, name.stderr
    _, (row,), _ = page.block("list.js", "sandboxes", sdk)
    assert (row["sandbox_id"], row["name"], row["image"], row["exec_in_progress"], row["stopped"]) == \
        (name.stdout.strip(), "listed", "python", False, False)
    assert isinstance(row["age_secs"], int)


def test_environment(page, sdk):
    """The page prints nothing there: the same commands, asked again, tell what they gave."""
    _, id, _ = page.block("environment.js", "sandbox_id", sdk, DATABASE_URL="postgres://db/1")
    def show(*words):
        return page.iii("exec", id, *words).stdout
    code = 'import os; print(os.environ["DATABASE_URL"], os.environ["LANG"], os.environ.get("REQUEST_ID"))'
    assert show("--", "python3", "-c", code) == "postgres://db/1 en_US.UTF-8 None\n"
    assert show("-e", "REQUEST_ID=req-42", "-e", "LANG=C", "--", "python3", "-c", code) == "postgres://db/1 C req-42\n"


def test_error_handling(page, sdk):
    assert "timed out; raise timeout_ms or split the work" in page.block("errors.js", "null", sdk)[2]


def test_testing(page, sdk):
    """The block needs nothing of an engine; what it stands for has the shapes that the real ones have."""
    body = "await (async (iii) => { const { sandbox_id } = await iii.trigger({ function_id: 'sandbox::create', payload: {} }); " \
        "return [sandbox_id, await iii.trigger({ function_id: 'sandbox::exec', payload: { sandbox_id } })] })(mockIii)"
    _, (id, out), _ = page.block("testing.js", body, sdk)
    _, real, _ = page.block("quickstart.js", "out", sdk)
    assert id == "test-sb-uuid" and set(out) <= set(real) and out["stdout"] == real["stdout"]


# ---- from the terminal ----


@pytest.mark.parametrize("name, printed", [("one_shot.sh", "hi\n"), ("one_shot_sized.sh", "1024\n"), ("lifecycle.sh", r"4\n3\.\d+.*\n")])
def test_shell_blocks(page, name, printed):
    done = page.shell((PAGE / name).read_text())
    assert done.returncode == 0, done.stderr
    assert re.match(printed, done.stdout) and done.stderr == "", done
    assert one(page) == []


def test_every_flag_of_the_reference(page):
    done = page.iii("create", "python", "--cpus", "1", "--memory", "256", "--idle-timeout", "60", "--name", "label", "-e", "A=1", "--env", "B=2",
                    "-e", "skipped", "--port", "49134")
    assert (done.returncode, done.stderr) == (0, ""), done
    id = done.stdout.strip()
    assert UUID.fullmatch(id) and done.stdout == f"{id}\n"
    done = page.iii("exec", id, "--timeout", "30s", "-e", "B=3", "--port", "49134", "--", "sh", "-c", "echo $A $B; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "1 3\n", "err\n")
    for words in (["list"], ["list", "--all"], ["list", "--port", "49134"]):
        done = page.iii(*words)
        assert done.returncode == 0 and TABLE.match(done.stdout), done
        assert re.search(rf"^{id}  python +\d+  label$", done.stdout, re.M), done.stdout
    done = page.iii("stop", id, "--port", "49134")
    assert (done.returncode, done.stdout) == (0, f"stopped {id}\n")


def test_statuses(page):
    id = page.iii("create", "python").stdout.strip()
    assert page.iii("exec", id, "--timeout", "300ms", "--", "sleep", "1000").returncode == 124
    assert page.iii("exec", id, "--", "no-such-program").returncode == 127
    assert page.iii("exec", id, "--", "sh", "-c", "kill -9 $$").returncode == 137
    for words in (["exec", id], ["exec", id, "--timeout", "soon", "--", "true"], ["run", "python"]):
        assert page.iii(*words).returncode == 2, words
    page.iii("stop", id)
    done = page.iii("exec", id, "--", "true")
    assert done.returncode == 1 and re.search(r"error: \[S004\] ", done.stderr), done
    done = page.iii("create", "python", "--port", "1")
    assert done.returncode == 1 and done.stdout == "" and done.stderr, done


def test_what_the_table_of_codes_says(page):
    done = page.iii("create", "debian")
    assert done.returncode == 1 and "[S100]" in done.stderr, done
    done = page.iii("stop", "no-uuid")
    assert done.returncode == 1 and "[S001]" in done.stderr, done


def test_on_a_terminal_it_tells_how_long_it_took(page):
    done = page.run_in("script", "-qec", "iii sandbox create python", "/dev/null")
    assert re.search(r"ready in \d+(\.\d+)?s", done.stdout) and UUID.search(done.stdout), done


def test_iii_worker_sandbox_is_the_same(page):
    done = page.run_in("iii", "worker", "sandbox", "run", "python", "--", "echo", "also so")
    assert (done.returncode, done.stdout) == (0, "also so\n"), done


def test_files_up_and_down(page):
    id = page.iii("create", "python").stdout.strip()
    data = os.urandom(300_000)
    (page.folder / "up").write_bytes(data)
    done = page.iii("upload", id, "up", "/tmp/a/b", "--parents", "--mode", "0640")
    assert done.returncode == 0 and "300000" in done.stdout, done
    assert page.iii("exec", id, "--", "stat", "-c", "%a %s", "/tmp/a/b").stdout == "640 300000\n"
    done = page.iii("download", id, "/tmp/a/b", "down")
    assert done.returncode == 0 and "300000" in done.stdout, done
    assert (page.folder / "down").read_bytes() == data
    assert page.shell(f"echo typed | iii sandbox upload {id} - /tmp/c; iii sandbox download {id} /tmp/c -").stdout.endswith("typed\n")
    done = page.iii("upload", id, "missing", "/tmp/never")
    assert done.returncode == 1, done
    assert page.iii("exec", id, "--", "test", "-e", "/tmp/never").returncode == 1, "it looks at its own file first"


def test_trigger(page):
    def trigger(*words):
        return page.run_in("iii", "trigger", *words)
    made = json.loads(trigger("sandbox::create", "image=python", "name=by-hand").stdout)
    out = json.loads(trigger("sandbox::exec", f"sandbox_id={made['sandbox_id']}", '--json', '{"cmd": "echo", "args": ["x"]}').stdout)
    assert out["stdout"] == "x\n"
    done = trigger("sandbox::exec", f"sandbox_id={made['sandbox_id']}", "cmd=echo", 'args=["a b", "c"]')
    assert json.loads(done.stdout)["stdout"] == "a b c\n"
    done = trigger("no::such")
    assert done.returncode == 1 and json.loads(done.stderr)["code"] == "function_not_found", done


# ---- with images of one's own ----


@pytest.fixture(scope="module")
def other_space():
    space = Space("page-custom")
    yield space
    space.close()


@pytest.fixture(scope="module")
def custom(other_space):
    yield from page_daemon(other_space, "custom_images.yaml", "ghcr.io/acme/my-app:1.2.3")


def test_a_custom_image(custom, sdk):
    _, id, _ = custom.block("custom_image.js", "sandbox_id", sdk)
    assert custom.iii("exec", id, "--", "python3", "-c", "print('of my-app')").stdout == "of my-app\n"
    catalog = json.loads(custom.run_in("iii", "trigger", "sandbox::catalog::list").stdout)["images"]
    kinds = [(i["name"], i["kind"]) for i in catalog]
    assert kinds[:2] == [("python", "preset"), ("node", "preset")] and kinds[-2:] == [("gpu-worker", "custom"), ("my-app", "custom")]
    done = custom.iii("create", "node")
    assert "[S100]" in done.stderr, "a preset that is not in the list"


@pytest.mark.parametrize("text, why", [
    ("custom_images:\n  python: x:1\n", "python"), ("sandbox:\n  image_allowlist: []\n", "sandbox"), ("image_allowlist: [", "")])
def test_a_configuration_that_is_refused(daemon_of, tmp_path, text, why):
    (tmp_path / "c.yaml").write_text(text)
    status, log = daemon_of(args=["--config", tmp_path / "c.yaml"]).refused()
    assert status == 2 and why in log and "c.yaml" in log


def test_an_empty_list_denies_every_image(space, page, tmp_path):
    """Started beside the other, with a port of its own."""
    (tmp_path / "c.yaml").write_text("max_concurrent_sandboxes: 2\n")
    daemon = PageDaemon(space, tmp_path, env={"CAY_WS_PORT": "49135"})
    try:
        daemon.start(["--config", tmp_path / "c.yaml"])
        done = daemon.iii("create", "python", "--port", "49135")
        assert done.returncode == 1 and "[S100]" in done.stderr, done
    finally:
        daemon.destroy()
        shutil.rmtree(tmp_path, ignore_errors=True)
