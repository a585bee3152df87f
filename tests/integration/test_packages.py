"""tools/fetch-packages: what it takes from a registry is what the lock file says, and is fetched once."""

import base64
import hashlib
import http.server
import json
import os
import subprocess
import threading
import time

import pytest

import cay_kept
from cay_harness import REPO
from cay_internet import tarball, wheel

pytestmark = pytest.mark.full

WRONG = hashlib.sha512(b"something else")


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """No daemon takes part."""


class Registry:
    """An index of pip and a registry of npm on this machine's loopback, each with one package."""

    def __init__(self):
        self.wheel_name, self.wheel = wheel()
        self.tarball = tarball()
        self.asked = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                type, body = outer.answer(self.path)
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path):
        if path == "/simple/caydemo/":
            return "text/html", f'<a href="/files/{self.wheel_name}">{self.wheel_name}</a>'.encode()
        if path == f"/files/{self.wheel_name}":
            return "application/octet-stream", self.wheel
        if path == "/cay-demo":
            version = {"name": "cay-demo", "version": "1.0.0", "dist": {"tarball": f"{self.url}/cay-demo/-/cay-demo-1.0.0.tgz"}}
            return "application/json", json.dumps({"name": "cay-demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()
        if path == "/cay-demo/-/cay-demo-1.0.0.tgz":
            return "application/octet-stream", self.tarball
        return "text/plain", b""

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def registry():
    registry = Registry()
    yield registry
    registry.close()


def pip_lock(registry, folder, digest):
    lock = folder / "requirements.txt"
    lock.write_text(f"caydemo==1.0 --hash=sha256:{(digest or hashlib.sha256(registry.wheel)).hexdigest()[:64]}\n")
    return lock


def npm_lock(registry, folder, digest):
    wanted = {"cay-demo": "1.0.0"}
    integrity = "sha512-" + base64.b64encode((digest or hashlib.sha512(registry.tarball)).digest()).decode()
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": wanted}))
    lock = folder / "package-lock.json"
    lock.write_text(json.dumps({"name": "tests", "lockfileVersion": 3, "requires": True, "packages": {
        "": {"dependencies": wanted}, "node_modules/cay-demo": {"version": "1.0.0", "integrity": integrity}}}))
    return lock


LOCKS = {"pip": (pip_lock, "caydemo"), "npm": (npm_lock, "cay-demo")}


def start(registry, home, lock):
    kept = {key: value for key, value in os.environ.items() if not key.lower().startswith(("pip_", "npm_config_")) and not key.lower().endswith("_proxy")}
    env = {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home), "PIP_INDEX_URL": f"{registry.url}/simple", "npm_config_registry": registry.url}
    return subprocess.Popen([REPO / "tools" / "fetch-packages", lock], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def fetch(registry, home, lock):
    with start(registry, home, lock) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.parametrize("client", LOCKS)
def test_what_is_there_is_not_fetched_again(registry, tmp_path, client):
    lock = LOCKS[client][0](registry, tmp_path, None)
    done = fetch(registry, tmp_path, lock)
    assert done.returncode == 0 and registry.asked, done.stderr
    asked = len(registry.asked)
    done = fetch(registry, tmp_path, lock)
    assert (done.returncode, done.stdout, done.stderr, len(registry.asked)) == (0, "", "", asked)


def test_two_clones_fetch_a_package_once(registry, tmp_path):
    lock = npm_lock(registry, tmp_path, None)
    both = [start(registry, tmp_path, lock) for _ in range(2)]
    for process in both:
        with process:
            assert process.wait() == 0, process.stderr.read()
    assert len([path for path in registry.asked if path.endswith(".tgz")]) == 1


def test_an_entry_that_nobody_used_for_14_days_is_removed(registry, tmp_path):
    entries = {}
    for name, days in (("old", 15), ("young", 13)):
        entries[name] = tmp_path / "cay-check" / "packages" / f"{name}-0123456789ab"
        entries[name].mkdir(parents=True)
        (entries[name] / "whole").touch()
        os.utime(entries[name] / "whole", (time.time() - days * 24 * 3600,) * 2)
    assert fetch(registry, tmp_path, npm_lock(registry, tmp_path, None)).returncode == 0
    assert entries["young"].exists() and not entries["old"].exists()
    assert not list(tmp_path.glob("cay-check/packages/old-*"))


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError])
def test_an_entry_that_cannot_be_removed_stops_nothing(monkeypatch, tmp_path, error):
    entries = [tmp_path / "packages" / name for name in ("one", "two")]
    for entry in entries:
        entry.mkdir(parents=True)
        (entry / "whole").touch()
        os.utime(entry / "whole", (0, 0))

    def rmtree(folder):
        tried.append(folder)
        raise error(folder)

    tried = []
    monkeypatch.setattr(cay_kept, "ROOT", tmp_path)
    monkeypatch.setattr(cay_kept.shutil, "rmtree", rmtree)
    cay_kept.remove_unused()
    assert sorted(tried) == entries and not any(cay_kept.is_whole(entry) for entry in entries)


def test_a_test_that_lacks_its_packages_fails_and_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(cay_kept, "ROOT", tmp_path)
    with pytest.raises(cay_kept.NotInstalled, match="run tools/packages install test"):
        cay_kept.environment("otlp")


def reason(done):
    """What follows the line that names the lock file."""
    return done.stderr.partition("cannot fetch the packages of ")[2].partition(":\n")[2]


@pytest.mark.parametrize("client", LOCKS)
def test_a_package_with_a_wrong_digest_is_refused_by_its_name(registry, tmp_path, client):
    make, name = LOCKS[client]
    done = fetch(registry, tmp_path, make(registry, tmp_path, WRONG))
    assert done.returncode == 1 and name in reason(done), done.stderr
    assert not list(tmp_path.glob("cay-check/*/*/whole"))


@pytest.mark.parametrize("client", LOCKS)
def test_a_package_that_the_registry_lacks_is_named(registry, tmp_path, client):
    make, name = LOCKS[client]
    lock = make(registry, tmp_path, None)
    registry.answer = lambda path: ("text/plain", b"")
    done = fetch(registry, tmp_path, lock)
    assert done.returncode == 1 and name in reason(done), done.stderr
