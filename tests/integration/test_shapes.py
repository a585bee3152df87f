"""The harness holds every answer against its row: it must notice one that deviates."""

import json
import subprocess

import pytest

import cay_shapes
from cay_harness import CAY, raw_http

pytestmark = pytest.mark.core

METRICS = {"sandboxId": "sbx_1", "cpuPercent": 0.5, "memoryUsageMb": 1, "memoryLimitMb": 64.0,
           "networkRxBytes": 0, "networkTxBytes": 0, "pids": 1}
OF_METRICS = ("GET", "/sandboxes/sbx_1/metrics")


def noted(method, path, status, body, kind="application/json"):
    """What the harness would fail this test for."""
    answer = cay_shapes.Answer(CAY, method, path)
    answer.head(status, kind)
    answer.body(status, kind, json.dumps(body))
    found, cay_shapes.deviations[:] = cay_shapes.deviations[:], []
    return "; ".join(found)


def test_an_answer_as_it_must_be_is_not_noted():
    assert noted(*OF_METRICS, 200, METRICS) == ""
    assert noted(*OF_METRICS, 404, {"error": "x", "code": "sandbox_not_found"}) == ""
    assert noted(*OF_METRICS, 400, {"error": "x", "code": "bad_query"}) == ""


@pytest.mark.parametrize("change, says", [
    ({"pids": None}, "Metrics.pids is no integer"),
    ({"pids": True}, "Metrics.pids is no integer"),
    ({"pids": 1.5}, "Metrics.pids is no integer"),
    ({"sandboxId": 5}, "Metrics.sandboxId is no string"),
    ({"more": 1}, "Metrics has more, which its shape has not"),
])
def test_a_wrong_key_is_noted(change, says):
    assert says in noted(*OF_METRICS, 200, {**METRICS, **change})


def test_a_missing_key_is_noted():
    assert "Metrics has no pids" in noted(*OF_METRICS, 200, {k: METRICS[k] for k in METRICS if k != "pids"})


@pytest.mark.parametrize("status, code, says", [
    (404, "no_such_code", "is in no list"),
    (404, "exec_not_found", "is not one of this row's"),
    (400, "sandbox_not_found", "comes with 400"),
])
def test_a_wrong_code_is_noted(status, code, says):
    assert says in noted(*OF_METRICS, status, {"error": "x", "code": code})


def test_success_where_there_is_no_route_is_noted():
    assert "no success of this row" in noted("GET", "/no/such/route", 200, {})


def test_an_event_is_held_against_its_shape():
    answer = cay_shapes.Answer(CAY, "POST", "/images/pull")
    answer.event({"event": "storing"})
    assert cay_shapes.deviations == []
    answer.event({"event": "storing", "more": 1})
    answer.event({"event": "error", "status": 404, "error": "x", "code": "exec_not_found"})
    found, cay_shapes.deviations[:] = cay_shapes.deviations[:], []
    assert len(found) == 2 and "StoringEvent has more" not in found[1]


def test_answers_to_raw_bytes_are_looked_at(shared):
    raw_http(shared.port, b"GET /sandbox/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert cay_shapes.deviations == []
    reply = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}'
    cay_shapes.check_raw(CAY, "/sandbox", b"GET /sandbox/health HTTP/1.1\r\n\r\n", reply)
    found, cay_shapes.deviations[:] = cay_shapes.deviations[:], []
    assert found == ["GET /health: Health has no status"]


def test_no_example_contradicts_itself():
    """One that shows a good end has no word about a bad one; a name that is text needs no base64."""
    document = json.loads(subprocess.run([CAY, "serve", "--openapi"], capture_output=True, check=True).stdout)

    def look(value):
        if isinstance(value, dict):
            if value.get("reason") == "exit" or value.get("running") is True or value.get("type") == "stdout":
                assert not value.keys() & {"oom", "message", "code"}, value
            assert "pathBase64" not in value, value
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)
        elif isinstance(value, str) and value.startswith("data: {"):
            look(json.loads(value.removeprefix("data: ")))

    look(document["paths"])
