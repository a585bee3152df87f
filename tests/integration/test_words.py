"""Answers in words: how a command ended, and what became of a sandbox."""

import json
import os
import re
import signal

import pytest

from cay_harness import cay, wait_until

pytestmark = pytest.mark.core

HOG = "python3 -c 'b = bytearray(400 << 20)'"


@pytest.fixture
def small(api):
    id = api.create(memory=64)["id"]
    yield id
    api.delete(f"/sandboxes/{id}")


def listed(api, box):
    return api.get(f"/sandboxes/{box}/exec").ok()["execs"]


def test_every_face_says_that_memory_ran_out(api, small):
    done = api.exec(small, HOG)
    assert done["exitCode"] == 137 and done["reason"] == "oom" and done["oom"] is True
    assert done["message"].startswith("killed: the sandbox's memory limit of 64 MiB was reached")
    job = api.background(small, HOG)
    seen = [api.background_end(job["id"]), api.exec_stream(small, HOG)[-1], *listed(api, small),
            api.get(f"/sandboxes/{small}/exec/{done['execId']}").ok(),
            api.get(f"/sandboxes/{small}/exec/{job['id']}").ok()]
    assert {(x["reason"], x["oom"], x["message"]) for x in seen} == {("oom", True, done["message"])}
    assert len(seen) >= 6


def test_memory_that_ran_out_on_the_way_is_told_too(api, small):
    done = api.exec(small, f"{HOG} || exit 3")
    assert (done["exitCode"], done["reason"], done["oom"]) == (3, "exit", True)
    assert "64 MiB" in done["message"]
    # What was told, or did no harm, is not told of the next one.
    assert "oom" not in api.exec(small, f"{HOG}; exit 0")
    done = api.exec(small, "kill -9 $$")
    assert done["reason"] == "signal" and "oom" not in done
    assert done["message"] == "ended by signal 9 (SIGKILL)"


def test_a_signal_a_timeout_and_an_end_are_named(api, box):
    assert "message" not in api.exec(box, "exit 7")
    assert api.exec(box, "kill -TERM $$")["message"] == "ended by signal 15 (SIGTERM)"
    api.try_exec(box, "sleep 1000", timeout=1, execId="ex_" + "0" * 24).failed(408, "command_timeout")
    job = api.background(box, "sleep 1000")
    api.post(f"/sandboxes/{box}/exec/{job['id']}/kill", {}).ok()
    assert "somebody asked for that" in api.background_end(job["id"])["message"]
    ends = {x["reason"]: x.get("message", "") for x in listed(api, box)}
    assert "timeout was over" in ends["timeout"] and "SIGTERM" in ends["signal"]
    assert ends["exit"] == ""


def test_the_cli_says_how_a_command_ended(shared, api, small):
    def said(*words, status):
        done = cay(shared, *words)
        assert done.returncode == status, done
        return done.stderr.decode()

    assert said("exec", small, HOG, status=137).endswith(
        "cay: killed: the sandbox's memory limit of 64 MiB was reached; raise it with --memory\n")
    assert "cay: a process of the command was killed: the sandbox's memory limit of 64 MiB" in said(
        "exec", small, f"{HOG} || exit 4", status=4)
    assert "limit of 65 MiB" in said("run", "-m", "65", "host", "sh", "-c", HOG, status=137)
    assert said("exec", small, "kill -TERM $$", status=143) == (
        "cay: the command was ended by signal 15 (SIGTERM)\n")
    assert "its --timeout" in said("exec", "--timeout", "1", small, "sleep", "1000", status=124)
    assert said("exec", small, "exit 143", status=143) == ""
    job = cay(shared, "exec", "-d", small, HOG, check=True).stdout.decode().strip()
    assert f"cay: {job}: killed: the sandbox's memory limit" in said("job", "wait", job, status=137)
    told = json.loads(cay(shared, "exec", "--json", small, HOG).stdout)
    assert told["oom"] is True and told["message"].startswith("killed: ") and told["exitCode"] == 137


LOOKUP = "python3 -c 'import socket; socket.getaddrinfo(\"example.org\", 80)'"
HINT = "this sandbox has no network: "


def test_a_failure_for_want_of_a_network_is_explained(shared, api, box):
    done = api.exec(box, LOOKUP)
    assert done["exitCode"] == 1 and done["hint"].startswith("the sandbox has no network")
    assert "hint" not in api.exec(box, f"{LOOKUP}; exit 0")
    assert "hint" not in api.exec(box, "echo other >&2; exit 1")
    done = cay(shared, "exec", box, LOOKUP)
    assert done.returncode == 1 and HINT in done.stderr.decode().splitlines()[-1]
    assert HINT in json.loads(cay(shared, "exec", "--json", box, LOOKUP).stdout)["hint"][:40]
    done = cay(shared, "exec", box, f"({LOOKUP}) 2>/dev/null")
    assert done.returncode == 1 and done.stderr == b""


def test_pip_and_npm_do_not_try_again_where_there_is_no_network(api, box):
    names = "$PIP_RETRIES $npm_config_fetch_retries"
    assert api.sh(box, f"echo {names}") == "1 0\n"
    assert api.sh(box, f"echo {names}", env={"PIP_RETRIES": "7"}) == "7 0\n"
    assert "PIP_RETRIES" not in api.get(f"/sandboxes/{box}/env").ok()["vars"]


@pytest.mark.needs("program:npm")
def test_npm_fails_at_once_and_why_is_told(api, box):
    done = api.exec(box, "npm install left-pad", timeout=60)
    assert done["exitCode"] != 0 and done["hint"].startswith("the sandbox has no network"), done


# ---- sandboxes that are no more ----


def expire(daemon, id):
    """Restarts the daemon with a sandbox whose time is over."""
    daemon.stop()
    daemon.change_sandboxes("deadline_ns = 1")
    daemon.start()
    with daemon.api() as api:
        api.post("/admin/sweep", {})
        wait_until(lambda: id not in api.ids(), what="the sweep")


def test_a_sandbox_that_was_removed_is_remembered(shared, api):
    box = api.create(name="gone-soon")["id"]
    api.remove(box)
    for ask in (api.get, lambda path: api.post(f"{path}/exec", {"command": "true"}),
                lambda path: api.post(f"{path}/files/read", {"path": "a"}), api.delete):
        said = ask(f"/sandboxes/{box}").failed(404, "sandbox_removed")
        assert re.fullmatch(rf"Sandbox not found: {box} was removed (just now|\d+ seconds? ago)", said["error"])
    assert "gone-soon was removed" in api.get("/sandboxes/gone-soon").failed(404, "sandbox_removed")["error"]
    for word in (box, "gone-soon"):
        done = cay(shared, "exec", word, "true")
        assert done.returncode == 125 and b"was removed" in done.stderr, done
    api.get("/sandboxes/sbx_" + "0" * 24).failed(404, "sandbox_not_found")
    again = api.create(name="gone-soon")["id"]
    assert api.get("/sandboxes/gone-soon").ok()["id"] == again
    api.remove(again)


def test_a_sandbox_that_expired_is_remembered_over_starts(daemon_of):
    daemon = daemon_of().start()
    with daemon.api() as api:
        box = api.create(timeout=300, name="short")["id"]
    expire(daemon, box)
    for stop in (daemon.kill9, daemon.stop):
        with daemon.api() as api:
            for word in (box, "short"):
                said = api.get(f"/sandboxes/{word}").failed(404, "sandbox_expired")["error"]
                assert re.fullmatch(rf"Sandbox not found: {word} expired (just now|\d+ seconds? ago) "
                                    r"\(its timeout was 300 s\)", said)
        assert b"expired" in cay(daemon, "inspect", "short").stderr
        stop()
        daemon.start()


def test_a_command_whose_sandbox_goes_is_told_so(api):
    box = api.create()["id"]
    events = api.events("POST", f"/sandboxes/{box}/exec/stream", {"command": "echo on; sleep 1000"})
    assert next(events)["data"] == "on\n"
    api.remove(box)
    rest = list(events)
    assert [e["type"] for e in rest] == ["error", "exit"]
    assert rest[0]["code"] == "sandbox_removed" and f"{box} was removed" in rest[0]["data"]


# ---- what to do about it ----


def test_a_paused_sandbox_says_how_it_goes_on(shared, api, box):
    api.post(f"/sandboxes/{box}/pause").ok()
    for path, body in (("exec", {"command": "true"}), ("files/read", {"path": "a"}), ("pause", None)):
        said = api.post(f"/sandboxes/{box}/{path}", body).failed(409, "sandbox_not_running")["error"]
        assert said.startswith("Sandbox is not running: paused; resume it") and "cay resume" in said
    assert b"cay resume" in cay(shared, "exec", box, "true").stderr
    api.post(f"/sandboxes/{box}/resume").ok()


def test_a_stopped_sandbox_says_what_is_left_to_do(shared, api, box):
    os.kill(shared.agent_pid(box), signal.SIGKILL)
    wait_until(lambda: api.sandbox(box)["status"] == "stopped", what="the end of the sandbox")
    said = api.try_exec(box, "true").failed(409, "sandbox_not_running")["error"]
    assert said.startswith("Sandbox is not running: stopped (agent_lost); ") and "cay start" in said


def test_a_path_that_is_outside_names_what_allows_it(api, box):
    said = api.file(box, "read", path="/etc/passwd").failed(400, "path_traversal")["error"]
    assert "/etc/passwd is outside the workspace /workspace" in said and '"anywhere": true' in said
    assert "root:" in api.file(box, "read", path="/etc/passwd", anywhere=True).ok()
    said = api.file(box, "read", path="../x").failed(400, "path_traversal")["error"]
    assert "anywhere" not in said and '".."' in said


# ---- the main process ----


def main_end(api, id):
    return wait_until(lambda: (lambda m: m if m["state"] == "exited" else None)(
        api.sandbox(id)["entrypointState"]), what="the end of the main process")


def test_the_end_of_the_main_process_is_seen(shared, api):
    box = api.create(entrypoint=["sh", "-c", "echo up; echo no such file >&2; exit 3"])["id"]
    end = main_end(api, box)
    assert (end["exitCode"], end["reason"]) == (3, "exit") and "message" not in end
    assert end["output"] == "up\nno such file\n" and end["finishedAt"] >= end["startedAt"] > 0
    item = next(s for s in api.get("/sandboxes?pageSize=200").ok()["items"] if s["id"] == box)
    assert item["status"] == "running" and item["entrypointState"] == end
    assert re.search(rf"{box} .* running \(entrypoint exited 3\) ", cay(shared, "ls", "--all").stdout.decode())
    assert api.sh(box, "echo on") == "on\n"
    api.post(f"/sandboxes/{box}/pause").ok()
    assert api.sandbox(box)["entrypointState"] == end
    api.remove(box)


def test_a_main_process_that_memory_or_a_signal_ended_says_so(api):
    box = api.create(entrypoint=["sh", "-c", HOG], memory=64)["id"]
    end = main_end(api, box)
    assert end["reason"] == "oom" and end["oom"] is True and "limit of 64 MiB" in end["message"]
    api.remove(box)
    box = api.create(entrypoint=["sh", "-c", "kill -TERM $$"])["id"]
    assert main_end(api, box)["message"] == "ended by signal 15 (SIGTERM)"
    api.remove(box)


def test_only_the_last_lines_of_a_main_process_are_shown(api):
    box = api.create(entrypoint=["sh", "-c", "seq 100000"])["id"]
    assert main_end(api, box)["output"] == "".join(f"{n}\n" for n in range(99991, 100001))
    api.remove(box)


def test_a_main_process_that_cannot_be_started_is_told_at_create(api):
    said = api.try_create(entrypoint=["/no/such/program"]).failed(400, "command_not_found")
    assert "start the entrypoint" in said["error"] and "/no/such/program" in said["error"]


def test_a_list_sees_the_end_of_one_behind_one_that_does_not_answer(own):
    with own.api() as api:
        id = api.create(entrypoint=["sh", "-c", "until [ -e /tmp/go ]; do sleep 0.01; done; exit 3"])["id"]
        silent = own.agent_pid(api.create(entrypoint=["sleep", "1000"])["id"])
        os.kill(silent, signal.SIGSTOP)
        api.sh(id, "touch /tmp/go")
        wait_until(lambda: api.get("/sandboxes").ok()["items"][1]["entrypointState"].get("exitCode") == 3)
        os.kill(silent, signal.SIGCONT)


def test_how_a_main_process_is_survives_a_start(daemon_of):
    daemon = daemon_of().start()
    with daemon.api() as api:
        ended = api.create(entrypoint=["sh", "-c", "echo bye; exit 4"])["id"]
        runs = api.create(entrypoint=["sleep", "1000"])["id"]
        paused = api.create(entrypoint=["sh", "-c", "exit 5"])["id"]
        end = main_end(api, ended)
        main_end(api, paused)
        api.post(f"/sandboxes/{paused}/pause").ok()
        assert api.sandbox(runs)["entrypointState"] == {"state": "running"}
        daemon.kill9()
        daemon.start()
        assert api.sandbox(ended)["entrypointState"] == end
        assert api.sandbox(runs)["entrypointState"] == {"state": "running"}
        assert api.sandbox(paused)["entrypointState"]["exitCode"] == 5
        os.kill(daemon.agent_pid(runs), signal.SIGKILL)
        wait_until(lambda: api.sandbox(runs)["status"] == "stopped", what="the end of the sandbox")
        assert api.sandbox(runs)["entrypointState"] == {"state": "exited", "message": "ended with its sandbox"}
