"""Answers in words: how a command ended, and what became of a sandbox."""

import pytest

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
