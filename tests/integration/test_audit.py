"""The audit log, as an operator and as somebody with a hand in the files sees it."""

import hashlib
import json
import os
import re

import pytest

from cay_harness import cay

pytestmark = pytest.mark.core

TOKEN = "a-token-of-this-test"


@pytest.fixture
def audited(daemon_of):
    return daemon_of(env={"CAY_AUTH_TOKEN": TOKEN}).start()


def operator(daemon, *args, **how):
    return cay(daemon, *args, env={"CAY_TOKEN": TOKEN}, **how)


def log_of(daemon):
    return sorted((daemon.data / "audit").glob("*.jsonl"))[-1]


def entries(daemon, **want):
    lines = [json.loads(line) for line in log_of(daemon).read_text().splitlines()]
    return [e for e in lines if all(e.get(k) == v for k, v in want.items())]


def test_who_did_what_is_there_with_how_it_ended(audited):
    with audited.api() as api, audited.unix_api(token=None) as root:
        id = api.create(name="seen")["id"]
        made = api.post("/tokens", {"scopes": ["read", "exec"], "sandboxId": id, "name": "ci"}).ok()
        with audited.api(token=made["token"]) as mine:
            mine.sh(id, "echo hello")
            mine.delete(f"/sandboxes/{id}").failed(403, "scope_missing")
            mine.get("/volumes").failed(403, "token_restricted")
        with audited.api(token="wrong") as stranger:
            stranger.get("/sandboxes").failed(403)
        with audited.api(token=None) as stranger:
            stranger.get("/sandboxes").failed(401)
        root.remove(id)
    assert entries(audited, function="sandbox::create")[0]["who"] == "admin"
    assert entries(audited, function="sandbox::create")[0]["sandboxId"] == id
    ran = entries(audited, function="cmd::run")[0]
    assert (ran["who"], ran["result"], ran["detail"]["command"], ran["from"]) == (made["id"], "ok", "echo hello", "127.0.0.1")
    denied = entries(audited, who=made["id"], result="refused")
    assert [(e["function"], e["code"]) for e in denied] == [("sandbox::kill", "scope_missing"), ("volume::list", "token_restricted")]
    assert [e["code"] for e in entries(audited, who="anyone")] == ["invalid_token", "unauthorized"]
    assert entries(audited, function="sandbox::kill", result="ok")[0]["who"] == "root"
    assert not entries(audited, function="sandbox::list", result="ok")  # who only looks is not told
    said = operator(audited, "audit", "--who", made["id"], check=True).stdout.decode()
    assert "echo hello" in said and "scope_missing" in said and "sandbox::create" not in said


def test_no_secret_is_written_down(audited):
    with audited.api() as api:
        id = api.create(env={"PASSWORD": "CANARY-env"})["id"]
        api.write(id, "f", "CANARY-content")
        api.post(f"/sandboxes/{id}/env", {"vars": {"A": "CANARY-var"}}).ok()
        api.exec(id, "true", env={"K": "CANARY-exec"}, stdin="CANARY-stdin")
        api.exec(id, "DB_PASSWORD=CANARY-command true --token CANARY-flag; : https://me:CANARY-url@h.test/?key=CANARY-query")
        api.post("/images/pull", {"reference": "127.0.0.1:1/none", "registry_auth": {"username": "u", "password": "CANARY-registry"}})
        api.post(f"/sandboxes/{id}/git/clone", {"url": "https://u:CANARY-git@127.0.0.1:1/x", "password": "CANARY-pass"})
        token = api.post("/tokens", {"scopes": ["read"]}).ok()["token"]
    text = log_of(audited).read_text()
    assert "CANARY" not in text and TOKEN not in text and token.split("_")[2] not in text
    assert "cmd::run" in text and "image::pull" in text and "token::create" in text


@pytest.mark.counts_rows
def test_the_chain_can_be_checked_without_cay_and_goes_on_after_kill_9(audited):
    with audited.api() as api:
        id = api.create()["id"]
        for _ in range(20):
            api.exec(id, "true")
    audited.kill9()
    audited.start()
    with audited.api() as api:
        api.exec(id, "true")
    assert len(entries(audited, function="cmd::run", result="ok")) == 21
    assert len(entries(audited, function="daemon.started")) == 2
    prev = "0" * 64
    for n, line in enumerate(log_of(audited).read_text().splitlines(), 1):
        entry = json.loads(line)
        assert entry["n"] == n and entry["prev"] == prev
        assert hashlib.sha256(line[:line.rindex(',"hash":')].encode()).hexdigest() == entry["hash"]
        prev = entry["hash"]


def test_what_somebody_changed_is_named(audited):
    with audited.api() as api:
        id = api.create()["id"]
        for i in range(5):
            api.exec(id, f"echo {i}")
    done = operator(audited, "audit", "verify")
    assert done.returncode == 0 and b"whole" in done.stdout
    head = re.search(rb"^head \d+:([0-9a-f]{64})$", done.stdout, re.M)[1].decode()
    path = log_of(audited)
    good = path.read_text()
    lines = good.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "echo 2" in line)
    bent = {
        f"line {at + 1}: a line was changed": [*lines[:at], lines[at].replace("echo 2", "echo 9"), *lines[at + 1:]],
        f"line {at + 1}: lines were removed before": [*lines[:at], *lines[at + 1:]],
        f"line {at + 2}: a line was put in": [*lines[:at + 1], lines[at], *lines[at + 1:]],
        f"line {len(lines) - 2}: lines were removed from the end": lines[:-2],
    }
    for problem, text in bent.items():
        path.write_text("".join(text))
        done = operator(audited, "audit", "verify")
        assert done.returncode == 1 and problem.encode() in done.stdout, (problem, done)
    path.write_text(good)
    assert operator(audited, "audit", "verify", "--head", head).returncode == 0
    assert operator(audited, "audit", "verify", "--head", "0" * 64).returncode == 1


def forged_after(line):
    """A line that goes on with the right chain."""
    last = json.loads(line)
    entry = {**last, "n": last["n"] + 1, "function": "forged", "prev": last["hash"]}
    del entry["hash"]
    text = json.dumps(entry, separators=(",", ":"))[:-1]
    return text + f',"hash":"{hashlib.sha256(text.encode()).hexdigest()}"}}\n'


def test_what_somebody_appends_is_named_while_the_daemon_runs(audited):
    with audited.api() as api:
        id = api.create()["id"]
    path = log_of(audited)
    good = path.read_text()
    lines = good.splitlines(keepends=True)
    for text in (forged_after(lines[-1]), lines[-1], "noise\n", "noise"):
        with open(path, "a") as f:
            f.write(text)
        done = operator(audited, "audit", "verify")
        assert done.returncode == 1, (text, done)
        assert f"line {len(lines) + 1}: something was appended".encode() in done.stdout, (text, done)
        os.truncate(path, len(good))
        assert operator(audited, "audit", "verify").returncode == 0
    with open(path, "a") as f:
        f.write(forged_after(lines[-1]))
    with audited.api() as api:
        api.remove(id)  # the daemon's own line stands behind the forged one
    assert operator(audited, "audit", "verify").returncode == 1


def test_a_head_kept_elsewhere_tells_of_a_tail_that_was_cut_or_replaced(audited):
    with audited.api() as api:
        api.remove(api.create()["id"])
    audited.kill9()
    path = log_of(audited)
    lines = path.read_text().splitlines(keepends=True)
    audited.start()
    head = operator(audited, "audit", "head", check=True).stdout.decode().strip()
    said = json.loads(operator(audited, "audit", "head", "--json", check=True).stdout)
    assert said["head"] == head == f"{said['n']}:{said['hash']}"
    assert operator(audited, "audit", "verify", "--head", head).returncode == 0
    for tail, problem in ((lines[:-2], b"lines were cut off"),
                          ([*lines, forged_after(lines[-1])], b"the line of the head was replaced")):
        audited.kill9()
        path.write_text("".join(tail))
        audited.start()
        assert operator(audited, "audit", "verify").returncode == 0
        done = operator(audited, "audit", "verify", "--head", head)
        assert done.returncode == 1 and problem in done.stderr, done
        report = json.loads(operator(audited, "audit", "verify", "--json", "--head", head).stdout)
        assert report["ok"] and not report["headFound"] and problem.decode() in report["headProblem"]
    refused = operator(audited, "audit", "verify", "--head", "42")
    assert refused.returncode == 1 and b"head" in refused.stderr


def test_the_log_is_for_operators(audited):
    assert oct(log_of(audited).stat().st_mode & 0o777) == "0o600"
    with audited.api() as api:
        token = api.post("/tokens", {"scopes": ["read", "exec", "write"]}).ok()["token"]
    with audited.api(token=token) as api:
        api.get("/audit").failed(403, "scope_missing")
        api.get("/audit/verify").failed(403, "scope_missing")


def test_following_shows_what_comes_and_does_not_feed_on_itself(audited):
    import subprocess

    from cay_harness import CAY, cli_environment

    with audited.api() as api:
        id = api.create()["id"]
        follower = subprocess.Popen([CAY, "audit", "-f", "--json"], stdout=subprocess.PIPE, text=True,
                                    env=cli_environment(audited, CAY_TOKEN=TOKEN))
        try:
            assert "sandbox::create" in iter_until(follower.stdout, "sandbox::create")
            api.exec(id, "echo followed")
            assert "followed" in iter_until(follower.stdout, "followed")
        finally:
            follower.terminate()
            follower.wait(60)
            follower.stdout.close()
    assert not entries(audited, function="audit::list")


def iter_until(stream, word):
    return next(line for line in stream if word in line)


def test_a_log_that_is_off_is_not_there(daemon_of):
    daemon = daemon_of(env={"CAY_AUDIT": "false"}).start()
    with daemon.api() as api:
        api.create()
        api.get("/audit").failed(501, "unsupported", "CAY_AUDIT")
    assert not (daemon.data / "audit").exists()
