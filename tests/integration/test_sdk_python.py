"""The Python package: its own tests against a real daemon, its types and style, what it is made from, the wheel, and the pages
that show it."""

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cay_pypi
from cay_harness import CAY, REPO, SLOW, wait_until

pytestmark = pytest.mark.full

HOME = REPO / "sdk" / "python"
SOURCE = {"PYTHONPATH": str(HOME / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="session")
def python():
    """The interpreter of the environment that the package is tested in."""
    return cay_pypi.python("sdk-python")


def checked(argv, **more):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=240, **more)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done


def openapi():
    return subprocess.run([CAY, "serve", "--openapi"], capture_output=True, check=True).stdout


def env_of(daemon, **more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CAY_", "III_"))}
    return {**kept, **SOURCE, "CAY_HOST": f"unix:{daemon.socket_path}", **more}


def test_what_is_made_from_the_daemons_description_is_as_it_would_be_made_now():
    checked([sys.executable, HOME / "tools" / "generate.py", "--check"], input=openapi().decode())


def test_types_and_style(python):
    checked([python, "-m", "mypy", "--cache-dir", REPO / "build-check" / "mypy"], cwd=HOME)
    checked([python, "-m", "ruff", "check", "--no-cache", "."], cwd=HOME)
    checked([python, "-m", "ruff", "format", "--no-cache", "--check", "."], cwd=HOME)


def test_its_own_tests(python, own):
    checked([python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", HOME / "tests"], cwd=HOME, env=env_of(own))


def test_the_wheel_is_whole(python, tmp_path):
    pip = [sys.executable, "-m", "pip", "--python", python]
    checked([*pip, "wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation", "-w", tmp_path, HOME])
    (wheel,) = tmp_path.glob("cay-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"cay/py.typed", "cay/sync/_http.py", "cay/_models.py"} <= set(names)
    assert not [name for name in names if not name.startswith("cay")]
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
    version = json.loads(openapi())["info"]["version"]
    assert wheel.name.split("-")[1] == version
    checked([*pip, "install", "-q", "--no-index", "--no-deps", "--target", tmp_path / "installed", wheel])
    said = checked([python, "-c", "import cay, cay.sync; print(cay.__version__, cay.__file__)"],
                   env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")}, cwd=tmp_path).stdout.split()
    assert said[0] == version and said[1].startswith(str(tmp_path))


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


@pytest.mark.parametrize("page", ["docs/sdk-python.md", "sdk/python/README.md", "README.md"])
def test_what_the_pages_show_runs(python, shared, tmp_path, page):
    shown = blocks(REPO / page)
    assert shown
    for code in shown:
        done = checked([python, "-W", "default", "-c", code], cwd=tmp_path, env=env_of(shared))
        assert "Warning" not in done.stderr, done.stderr


def test_without_a_daemon_one_is_started_for_the_process(python, tmp_path):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CAY_", "III_"))}
    env.update(SOURCE, CAY_BIN=str(CAY), CAY_RUN=str(tmp_path / "none"), CAY_REST_PORT="0", TMPDIR=str(tmp_path))
    done = checked([python, "-c", "import cay.sync; print(cay.sync.run('echo own').stdout, end='')"], env=env)
    assert done.stdout == "own\n"
    assert re.search(r"^cay: no daemon answers, so this process started its own", done.stderr, re.M)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("cay-python")]


FORKS = """import os, time, cay.sync
cay.sync.run("true")
if os.fork() == 0:
    time.sleep(300)
"""


def test_the_daemon_of_a_process_ends_with_it_whatever_a_fork_does(python, tmp_path):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CAY_", "III_"))}
    env.update(SOURCE, CAY_BIN=str(CAY), CAY_RUN=str(tmp_path / "none"), CAY_REST_PORT="0", TMPDIR=str(tmp_path))
    parent = subprocess.Popen([python, "-c", FORKS], env=env, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        assert parent.wait(60 * SLOW) == 0
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("cay-python")]


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("killed", ["process", "daemon"])
@pytest.mark.parametrize("who", ["python", "mcp"])
def test_nothing_is_left_of_a_daemon_for_a_process(python, tmp_path, who, killed):
    """Neither its sandboxes nor its folder, whichever of the two is killed."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CAY_", "III_"))}
    env.update(SOURCE, CAY_BIN=str(CAY), CAY_RUN=str(tmp_path / "none"), CAY_REST_PORT="0", TMPDIR=str(tmp_path))
    code = "import cay.sync, sys; cay.sync.Sandbox.create('x').exec('true'); print('up', flush=True); sys.stdin.read()"
    argv = [python, "-c", code] if who == "python" else [CAY, "mcp"]
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if who == "mcp":
            call = {"name": "sandbox_create", "arguments": {"image": "host"}}
            print(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}), file=process.stdin)
            print(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}), file=process.stdin, flush=True)
            assert '"id":1' in process.stdout.readline().replace(" ", "")
        said = process.stdout.readline()
        assert "up" in said or "sbx_" in said, said
        assert list(tmp_path.iterdir())
        os.kill(process.pid if killed == "process" else children(process.pid)[0], signal.SIGKILL)
    wait_until(lambda: not list(tmp_path.iterdir()), 30)


def test_without_the_program_it_says_what_to_do(python, tmp_path):
    env = {**SOURCE, "CAY_RUN": str(tmp_path), "CAY_REST_PORT": "0", "PATH": str(tmp_path)}
    done = subprocess.run([python, "-c", "import cay.sync; cay.sync.run('true')"], env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "there is no program `cay` to start one from" in done.stderr


def test_import_loads_nothing_that_is_not_needed(python):
    code = """import sys
from cay import Sandbox
from cay.sync import Sandbox
print([name for name in ("httpx", "httpcore", "pydantic") if name in sys.modules])"""
    assert checked([python, "-c", code], env={**os.environ, **SOURCE}).stdout == "[]\n"
