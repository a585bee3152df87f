"""Server-sent events, exactly as the SDKs parse them."""

import time

import pytest

from cay_harness import wait_until
from cay_order import longer_and_longer

pytestmark = pytest.mark.core


def test_exec_stream_ends_with_the_exit_code_as_text(api, box):
    events = api.exec_stream(box, "echo out; echo err >&2; exit 5")
    for event in events:
        assert set(event) >= {"type", "data", "timestamp"} and isinstance(event["timestamp"], int)
        assert isinstance(event["data"], str)
        assert abs(event["timestamp"] - time.time() * 1000) < 60_000
    assert "".join(e["data"] for e in events if e["type"] == "stdout") == "out\n"
    assert "".join(e["data"] for e in events if e["type"] == "stderr") == "err\n"
    assert events[-1]["type"] == "exit" and events[-1]["data"] == "5"


def test_output_comes_as_it_is_made(api, box):
    stream = api.events("POST", f"/sandboxes/{box}/exec/stream",
                        {"command": "echo one; until [ -e /tmp/go ]; do sleep 0.01; done; echo two"})
    assert next(stream)["data"] == "one\n"
    api.sh(box, "touch /tmp/go")
    assert next(stream)["data"] == "two\n"
    last = next(stream)
    assert (last["type"], last["data"]) == ("exit", "0")
    assert list(stream) == []


def test_a_timeout_in_a_stream_is_exit_minus_one(api, box):
    for timeout in longer_and_longer():
        events = api.exec_stream(box, f"echo begun; touch begun-{timeout}; sleep 100", timeout=timeout)
        if api.exec(box, f"test -e begun-{timeout}")["exitCode"] == 0:
            break
    assert events[0]["data"] == "begun\n"
    assert (events[-1]["type"], events[-1]["data"]) == ("exit", "-1")
    wait_until(lambda: not [p for p in api.processes(box) if "sleep 100" in p["command"]])


def test_a_signal_in_a_stream_is_128_and_its_number(api, box):
    assert api.exec_stream(box, ["sh", "-c", "kill -9 $$"])[-1]["data"] == "137"


def test_unicode_that_is_cut_by_reads_arrives_whole(api, box):
    text = "ü漢🏝" * 30_000
    api.upload(box, "text", text.encode())
    events = api.exec_stream(box, "cat text")
    assert "".join(e["data"] for e in events if e["type"] == "stdout") == text


def test_bytes_that_are_not_utf8_do_not_break_a_stream(api, box):
    events = api.exec_stream(box, r"printf '\377\376a\000b\n'; echo after")
    out = "".join(e["data"] for e in events if e["type"] == "stdout")
    assert "a" in out and out.endswith("after\n") and "\ufffd" in out
    assert events[-1]["data"] == "0"


def test_more_output_than_the_blocking_cap_streams_whole(api, box):
    total = 0
    for event in api.events("POST", f"/sandboxes/{box}/exec/stream",
                            {"command": "head -c 15000000 /dev/zero | tr '\\0' z"}):
        if event["type"] == "stdout":
            total += len(event["data"])
    assert total == 15_000_000 and event["data"] == "0"


def test_a_background_child_does_not_hold_the_stream(api, box):
    events = api.exec_stream(box, "sleep 998 & echo $!")
    assert events[-1]["type"] == "exit"
    api.post(f"/sandboxes/{box}/processes/kill", {"pid": int(events[0]["data"]), "signal": "KILL"})


def test_a_reader_that_leaves_ends_the_command(api, box):
    stream = api.events("POST", f"/sandboxes/{box}/exec/stream", {"command": "echo x; sleep 555"})
    assert next(stream)["data"] == "x\n"
    stream.close()
    wait_until(lambda: not [p for p in api.processes(box) if "sleep 555" in p["command"]])


def test_errors_before_the_stream_are_plain_answers(api, box):
    api.post("/sandboxes/sbx_000000000000000000000000/exec/stream", {"command": "true"}).failed(404)
    api.post(f"/sandboxes/{box}/exec/stream", {}).failed(400)
    api.post(f"/sandboxes/{box}/exec/stream", {"command": "x", "cwd": "/no"}).failed(400, "bad_cwd")


def test_logs_are_empty_without_a_main_process(api, box):
    events = list(api.events("GET", f"/sandboxes/{box}/stream/logs?follow=false"))
    assert [(e["type"], e["data"]) for e in events] == [("end", "")]
    assert isinstance(events[0]["timestamp"], int)


def test_logs_are_the_lines_of_the_main_process(api, make):
    id = make(entrypoint=["sh", "-c", "for i in $(seq 1 150); do echo line $i; done; "
                                      "touch /tmp/done; exec sleep 1000"])["id"]
    wait_until(lambda: api.exec(id, "test -e /tmp/done")["exitCode"] == 0)
    lines = [e["data"] for e in api.events("GET", f"/sandboxes/{id}/stream/logs?follow=false&tail=200")]
    assert lines == [f"line {i}" for i in range(1, 151)] + [""]
    lines = [e["data"] for e in api.events("GET", f"/sandboxes/{id}/stream/logs?follow=false")]
    assert lines == [f"line {i}" for i in range(51, 151)] + [""]
    lines = [e["data"] for e in api.events("GET", f"/sandboxes/{id}/stream/logs?follow=false&tail=2")]
    assert lines == ["line 149", "line 150", ""]


def test_logs_that_are_followed_go_on_until_the_main_process_ends(api, make):
    id = make(entrypoint=["sh", "-c", "echo a; until [ -e /tmp/go ]; do sleep 0.01; done; echo b"])["id"]
    stream = api.events("GET", f"/sandboxes/{id}/stream/logs?follow=true")
    assert next(stream)["data"] == "a"
    api.sh(id, "touch /tmp/go")
    assert next(stream)["data"] == "b"
    assert next(stream)["type"] == "end"
    assert list(stream) == []


def test_logs_tell_the_streams_apart_and_when_a_line_was_written(api, make):
    before = int(time.time() * 1000)
    id = make(entrypoint=["sh", "-c", "echo out; until [ -e /tmp/go ]; do sleep 0.01; done; "
                                      "printf half; echo err >&2; echo ' a line'; touch /tmp/done; exec sleep 1000"])["id"]
    api.sh(id, "touch /tmp/go")
    wait_until(lambda: api.exec(id, "test -e /tmp/done")["exitCode"] == 0)
    written = int(time.time() * 1000)
    path = f"/sandboxes/{id}/stream/logs?follow=false"
    first = wait_until(lambda: (lambda all: all if len(all) == 4 else None)(list(api.events("GET", path))))
    assert sorted((e["type"], e["data"]) for e in first) == \
        [("end", ""), ("stderr", "err"), ("stdout", "half a line"), ("stdout", "out")]
    lines = [e for e in first if e["type"] != "end"]
    assert all(before <= e["timestamp"] <= written for e in lines)
    again = [e for e in api.events("GET", path) if e["type"] != "end"]
    assert again == lines


def test_the_end_of_the_sandbox_ends_its_followed_logs(api, make):
    id = make(entrypoint=["sh", "-c", "echo a; exec sleep 1000"])["id"]
    stream = api.events("GET", f"/sandboxes/{id}/stream/logs", timeout=60)
    assert next(stream)["data"] == "a"
    api.remove(id)
    rest = list(stream)
    assert all(e["type"] == "end" for e in rest)


def test_metrics_stream_begins_at_once(api, box):
    """With an interval that no test would wait for."""
    stream = api.events("GET", f"/sandboxes/{box}/stream/metrics?interval=3600", timeout=30)
    first = next(stream)
    assert first["sandboxId"] == box and first["pids"] >= 1
    stream.close()


def test_metrics_come_again_and_again(api, box):
    stream = api.events("GET", f"/sandboxes/{box}/stream/metrics?interval=1")
    assert [next(stream)["sandboxId"] for _ in range(2)] == [box, box]
    stream.close()


def test_metrics_stream_of_an_unknown_sandbox_is_not_found(api):
    api.get("/sandboxes/sbx_000000000000000000000000/stream/metrics").failed(404)
