"""Traces, what they add up to, /metrics, and what sandboxes used."""

import json
import os
import re
import subprocess
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cay_collector import Collector, as_protobuf_json, attributes
from cay_harness import CAY, REPO, wait_until
from cay_pypi import import_from

pytestmark = pytest.mark.core

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOBODY = "sbx_" + 24 * "0"


def traces(api, **filters):
    query = "&".join(f"{k}={v}" for k, v in filters.items())
    return api.get(f"/observability/traces?{query}").ok()


def scrape(api):
    """All samples: {name: {labels: value}}; the text must be what Prometheus reads."""
    answer = api.get("//metrics")
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.body.decode()
    families = list(text_string_to_metric_families(text))
    assert len({f.name for f in families}) == len(families)
    assert all(f.type in ("counter", "gauge", "histogram") and f.documentation for f in families)
    found = {}
    for family in families:
        for s in family.samples:
            labels = tuple(sorted(s.labels.items()))
            assert labels not in found.setdefault(s.name, {}), "a sample is there twice"
            found[s.name][labels] = s.value
    return found


def count(metrics, function, status="200"):
    return metrics["cay_http_requests_total"].get((("function", function), ("status", status)), 0)


# ---- traces ----


def test_every_call_leaves_a_trace(api, box):
    api.exec(box, "true")
    api.try_exec(NOBODY, "true").failed(404)
    missing, ran = traces(api, functionId="cmd::run", limit=2)["traces"]
    assert ran["functionId"] == "cmd::run" and ran["sandboxId"] == box and ran["status"] == "ok"
    assert ran["duration"] > 0 and ran["face"] == "rest" and ran["caller"] == "anyone"
    assert abs(ran["timestamp"] - time.time() * 1000) < 60000
    assert missing["status"] == "error" and missing["code"] == "sandbox_not_found" and NOBODY in missing["error"]
    assert re.fullmatch("trc_[0-9a-f]{24}", ran["id"]) and ran["id"] != missing["id"]


@pytest.mark.parametrize("path", ["stream/events", "sandboxes/{}/stream/metrics"])
def test_who_leaves_a_stream_that_only_shows_has_not_failed(api, box, path):
    trace = os.urandom(16).hex()
    subprocess.run(["curl", "-sN", "-m", "2", "-H", f"traceparent: 00-{trace}-b7ad6b7169203331-01",
                    f"http://127.0.0.1:{api.port}/sandbox/{path.format(box)}"], capture_output=True)
    wait_until(lambda: traces(api, traceId=trace)["total"] == 1)
    assert traces(api, traceId=trace)["traces"][0]["status"] == "ok"


def test_a_create_leads_to_what_it_made(api, make):
    id = make()["id"]
    found = traces(api, sandboxId=id)
    assert [t["functionId"] for t in found["traces"]] == ["sandbox::create"] and found["total"] == 1


def test_traces_are_filtered_and_paged(api, box):
    for i in range(5):
        api.exec(box, f"exit {i}")
    api.file(box, "read", path="none").failed(404)
    assert traces(api, sandboxId=box, functionId="cmd::run")["total"] == 5
    assert [t["code"] for t in traces(api, sandboxId=box, status="error")["traces"]] == ["file_not_found"]
    page = traces(api, sandboxId=box, functionId="cmd::run", limit=2, offset=2)
    assert len(page["traces"]) == 2 and page["total"] == 5
    whole = traces(api, sandboxId=box, functionId="cmd::run")["traces"]
    assert page["traces"] == whole[2:4]
    assert traces(api, sandboxId=box, since=whole[0]["timestamp"] + 1, functionId="cmd::run")["total"] == 0
    api.get("/observability/traces?traceId=nope").failed(400, "invalid")


def test_a_call_joins_its_callers_trace_and_so_does_the_command(api, box):
    headers = {"traceparent": PARENT, "tracestate": "vendor=1"}
    out = api.post(f"/sandboxes/{box}/exec", {"command": "echo $TRACEPARENT $TRACESTATE"}, headers=headers).ok()["stdout"]
    parent, state = out.split()
    found = traces(api, traceId=PARENT.split("-")[1], sandboxId=box)["traces"]
    assert [t["parentSpanId"] for t in found] == [PARENT.split("-")[2]] and state == "vendor=1"
    assert parent == f"00-{found[0]['traceId']}-{found[0]['spanId']}-01"
    assert api.exec(box, "echo ${TRACEPARENT-none}")["stdout"] == "none\n"
    own = api.post(f"/sandboxes/{box}/exec", {"command": "echo $TRACEPARENT", "env": {"TRACEPARENT": "mine"}}, headers=headers)
    assert own.ok()["stdout"] == "mine\n"
    bad = api.post(f"/sandboxes/{box}/exec", {"command": "echo ${TRACEPARENT-none}"}, headers={"traceparent": "00-x-y-z"})
    assert bad.ok()["stdout"] == "none\n"


def test_whatever_is_started_for_a_call_is_part_of_its_trace(api, box):
    headers = {"traceparent": PARENT}
    code = {"language": "python", "code": "import os; print(os.environ['TRACEPARENT'])"}
    ran = api.post(f"/sandboxes/{box}/interpret/execute", code, headers=headers).ok()
    assert PARENT[:36] in json.dumps(ran)
    job = api.post(f"/sandboxes/{box}/exec/queue", {"command": "echo $TRACEPARENT"}, headers=headers).ok()["id"]
    done = wait_until(lambda: (j := api.get(f"/queue/{job}/status").ok())["status"] == "completed" and j)
    assert done["result"]["stdout"].startswith(PARENT[:36])
    started = api.post(f"/sandboxes/{box}/exec/background", {"command": "echo $TRACEPARENT"}, headers=headers).ok()["id"]
    api.background_end(started)
    assert api.background_logs(started)["output"].startswith(PARENT[:36])


def test_totals_and_counters_outlive_a_restart_and_a_kill(own):
    api = own.api()
    id = api.create()["id"]
    for _ in range(3):
        api.exec(id, "true")
    api.try_exec(NOBODY, "true").failed(404)
    before = scrape(api)
    assert count(before, "cmd::run") == 3 and count(before, "cmd::run", "404") == 1
    for end in (own.stop, own.kill9):
        summary = api.get("/observability/metrics").ok()
        traces(api, limit=1)  # what was put until here is written
        end()
        own.start()
        after = scrape(api)
        assert count(after, "cmd::run") == 3 and count(after, "cmd::run", "404") == 1
        assert after["cay_exec_duration_seconds_count"][()] == 3
        again = api.get("/observability/metrics").ok()
        assert again["functionCounts"]["cmd::run"] == 4 and again["totalErrors"] == summary["totalErrors"]
        assert again["totalRequests"] > summary["totalRequests"]
        assert traces(api, functionId="cmd::run")["total"] == 4
    assert again["activeSandboxes"] == 1
    of_run = next(f for f in again["functions"] if f["functionId"] == "cmd::run")
    assert of_run["count"] == 4 and of_run["errors"] == 1
    assert 0 < of_run["p50Duration"] <= of_run["p95Duration"] <= of_run["p99Duration"]
    api.remove(id)


def test_a_clear_forgets_traces_and_no_counters(own):
    api = own.api()
    for _ in range(5):
        api.get("/sandboxes").ok()
    first = traces(api, functionId="sandbox::list")["traces"][-1]["timestamp"]
    assert api.post("/observability/clear", {"before": first}).ok() == {"cleared": 0}
    time_of_all = traces(api)["traces"][0]["timestamp"]
    cleared = api.post("/observability/clear", {"before": time_of_all + 60000}).ok()["cleared"]
    assert cleared >= 7
    left = traces(api)
    assert [t["functionId"] for t in left["traces"]] == ["observability::clear"]
    summary = api.get("/observability/metrics").ok()
    assert summary["totalRequests"] == 2 and "sandbox::list" not in summary["functionCounts"]
    assert count(scrape(api), "sandbox::list") == 5
    api.post("/observability/clear", {"before": -1}).failed(400, "invalid")


def test_only_so_many_traces_are_kept(daemon_of):
    own = daemon_of(env={"CAY_TRACES_MAX": 100}).start()
    api = own.api()
    for _ in range(150):
        api.get("/health").ok()
    found = traces(api, limit=1000)
    assert found["total"] == 100 and len(found["traces"]) == 100
    assert api.get("/observability/metrics").ok()["functionCounts"]["metrics::health"] == 150


def test_without_traces_all_else_is_there(daemon_of):
    own = daemon_of(env={"CAY_TRACES": "false", "CAY_METRICS_INTERVAL": 0}).start()
    api = own.api()
    assert traces(api) == {"traces": [], "total": 0}
    assert api.get("/observability/metrics").ok()["totalRequests"] == 0
    assert api.post("/observability/clear", {}).ok() == {"cleared": 0}
    metrics = scrape(api)
    assert "cay_http_requests_total" not in metrics and metrics["cay_sandboxes"][(("state", "running"),)] == 0
    id = api.create()["id"]
    headers = {"traceparent": PARENT}
    out = api.post(f"/sandboxes/{id}/exec", {"command": "echo $TRACEPARENT"}, headers=headers).ok()["stdout"]
    assert out.split("-")[1] == PARENT.split("-")[1]
    api.get(f"/sandboxes/{id}/metrics/history").failed(501, "unsupported")
    assert not (own.data / "traces.db").exists()
    api.remove(id)


# ---- Prometheus and Grafana ----


def test_metrics_are_what_prometheus_reads(api, box):
    before = scrape(api)
    api.exec(box, "true")
    after = scrape(api)
    assert count(after, "cmd::run") == count(before, "cmd::run") + 1
    assert after["cay_sandboxes"][(("state", "running"),)] >= 1
    assert after["cay_build_info"] and after["process_resident_memory_bytes"][()] > 1 << 20
    assert after["process_start_time_seconds"][()] == pytest.approx(time.time(), abs=3600)
    of_run = {dict(k)["le"]: v for k, v in after["cay_http_request_duration_seconds_bucket"].items()
              if dict(k)["function"] == "cmd::run"}
    values = list(of_run.values())
    assert values == sorted(values) and of_run["+Inf"] == values[-1]
    assert of_run["+Inf"] == after["cay_http_request_duration_seconds_count"][(("function", "cmd::run"),)]
    assert after["cay_exec_duration_seconds_count"][()] == before["cay_exec_duration_seconds_count"][()] + 1


@pytest.mark.needs("program:promtool")
def test_promtool_finds_nothing_wrong(api):
    check = subprocess.run(["promtool", "check", "metrics"], input=api.get("//metrics").body, capture_output=True)
    assert (check.returncode, check.stdout + check.stderr) == (0, b"")


def test_metrics_need_the_token(daemon_of):
    own = daemon_of(env={"CAY_AUTH_TOKEN": "secret"}).start()
    assert own.api(token=None).get("//metrics").status == 401
    own.api().get("/no-such-route").failed(404, "route_not_found")
    metrics = scrape(own.api())
    assert metrics["cay_build_info"] and count(metrics, "refused", "401") == 1 and count(metrics, "refused", "404") == 1


def names_in(expression):
    """The metrics of a PromQL expression: what is no function, no label and no number."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(?:by|without) \([^)]*\)|\"[^\"]*\"", "", expression)
    words = set(re.findall(r"\b[a-z][a-z0-9_:]*\b(?!\s*\()", bare))
    return words - {"or", "and", "unless", "by"}


def test_the_dashboard_asks_for_what_is_there(daemon_of):
    own = daemon_of(env={"CAY_OTLP_ENDPOINT": "http://127.0.0.1:9", "CAY_METRICS_INTERVAL": 1}).start()
    api = own.api()
    id = api.create()["id"]
    api.exec(id, "true")
    wait_until(lambda: scrape(api).get("cay_sandbox_memory_bytes"))
    metrics = scrape(api)
    dashboard = json.loads((REPO / "packaging/grafana/cay.json").read_text())
    expressions = [t["expr"] for p in dashboard["panels"] for t in p.get("targets", [])]
    assert len(expressions) > 30
    asked = set.union(*map(names_in, expressions))
    assert asked - set(metrics) == set()
    labels = {k for name in asked for sample in metrics[name] for k, _ in sample}
    used = {label for e in expressions for label in re.findall(r"(\w+)(?:=~|!=|=)\"", e)}
    used |= {label for e in expressions for group in re.findall(r"by \(([^)]*)\)", e) for label in group.split(", ")}
    assert used - labels - {"job", "le"} == set()
    page = (REPO / "docs/observability.md").read_text()
    told = {name for name in metrics if not name.endswith(("_bucket", "_sum", "_count")) and not name.startswith("process_")}
    short = {n for n in told if n not in page and not any(n.endswith(s) for s in ("_killed_total", "_expired_total"))}
    assert not short, "docs/observability.md does not name these"
    api.remove(id)


# ---- a collector ----


@pytest.fixture
def collector():
    c = Collector()
    yield c
    c.close()


def test_traces_reach_a_collector(daemon_of, collector):
    own = daemon_of(env={"CAY_OTLP_ENDPOINT": collector.url + "/", "CAY_OTLP_HEADERS": "api-key=a%20b,x=y=z",
                         "CAY_OTLP_SERVICE": "mine"}).start()
    api = own.api()
    id = api.create()["id"]
    api.post(f"/sandboxes/{id}/exec", {"command": "true"}, headers={"traceparent": PARENT}).ok()
    api.post(f"/sandboxes/{id}/exec", {"command": "true"}, headers={"traceparent": PARENT[:-1] + "0"}).ok()  # not sampled
    api.try_exec(NOBODY, "true").failed(404)
    api.remove(id)
    own.stop()  # sends what is left
    [joined] = collector.spans(name="cmd::run", parentSpanId="b7ad6b7169203331")
    [failed] = [s for s in collector.spans(name="cmd::run") if "code" in s["status"]]
    assert joined["traceId"] == PARENT.split("-")[1] and joined["kind"] == 2 and joined["status"] == {}
    assert attributes(joined)["cay.sandbox.id"] == id and attributes(joined)["http.response.status_code"] == "200"
    assert 0 < int(joined["endTimeUnixNano"]) - int(joined["startTimeUnixNano"]) < 60e9
    assert failed["status"]["code"] == 2 and NOBODY in failed["status"]["message"]
    assert attributes(failed)["error.type"] == "sandbox_not_found" and "parentSpanId" not in failed
    path, headers, body, _ = collector.requests[0]
    assert path == "/v1/traces" and headers["Content-Type"] == "application/json"
    assert headers["api-key"] == "a b" and headers["x"] == "y=z"
    resource = {a["key"]: a["value"]["stringValue"] for a in json.loads(body)["resourceSpans"][0]["resource"]["attributes"]}
    assert resource["service.name"] == "mine" and resource["service.version"]


def test_what_is_sent_is_what_opentelemetry_says(daemon_of, collector):
    undo = import_from("otlp")
    try:
        from google.protobuf import json_format
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        own = daemon_of(env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}).start()
        own.api().try_exec(NOBODY, "true").failed(404)
        own.api().get("/health", headers={"traceparent": PARENT}).ok()
        own.stop()
        spans = []
        for message in collector.messages():  # an unknown field, or one of another type, is refused
            parsed = json_format.ParseDict(as_protobuf_json(message), ExportTraceServiceRequest())
            spans += [s for r in parsed.resource_spans for scope in r.scope_spans for s in scope.spans]
        named = {s.name: s for s in spans}
        assert named["metrics::health"].parent_span_id.hex() == "b7ad6b7169203331"
        assert named["cmd::run"].status.code == 2 and len(named["cmd::run"].trace_id) == 16
    finally:
        undo()


def test_a_collector_that_is_away_gets_them_later(daemon_of, collector):
    own = daemon_of(env={"CAY_OTLP_ENDPOINT": collector.url}).start()
    api = own.api()
    collector.refuse += [429]
    api.get("/sandboxes").ok()
    wait_until(lambda: collector.spans(name="sandbox::list"), timeout=30)
    assert [s for _, _, _, s in collector.requests][:2] == [429, 200]
    assert len(collector.spans(name="sandbox::list")) == 1
    assert scrape(api)["cay_otlp_spans_lost_total"][()] == 0
    collector.refuse += [400]  # is not worth another try
    api.get("/sandboxes").ok()
    wait_until(lambda: scrape(api)["cay_otlp_spans_lost_total"][()] > 0, timeout=30)
    assert "it answered 400" in own.log() and "it answered 429" in own.log()


def test_a_dead_collector_holds_nobody_up(daemon_of):
    own = daemon_of(env={"CAY_OTLP_ENDPOINT": "http://127.0.0.1:9"}).start()
    api = own.api()
    for _ in range(50):
        api.get("/health").ok()
    assert traces(api, functionId="metrics::health")["total"] == 50
    own.stop()


def test_an_endpoint_that_is_none_is_told(daemon_of):
    status, said = daemon_of(env={"CAY_OTLP_ENDPOINT": "localhost:4317"}).refused()
    assert status != 0 and "CAY_OTLP_ENDPOINT must begin with http:// or https://" in said
    status, said = daemon_of(env={"CAY_OTLP_ENDPOINT": "http://a", "CAY_OTLP_HEADERS": "a%0ab=c"}).refused()
    assert status != 0 and "CAY_OTLP_HEADERS" in said
    own = daemon_of(env={"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4317"}).start()  # another program's
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in own.log()


# ---- what sandboxes used ----


def test_history_of_what_a_sandbox_used(daemon_of):
    own = daemon_of(env={"CAY_METRICS_INTERVAL": 1}).start()
    api = own.api()
    id = api.create(memory=256)["id"]
    api.background(id, "while :; do :; done")

    def history(since=0):
        return api.get(f"/sandboxes/{id}/metrics/history?since={since}").ok()

    busy = wait_until(lambda: [s for s in history()["samples"] if s["cpuPercent"] > 5])
    found = history()
    times = [s["timestamp"] for s in found["samples"]]
    assert found["sandboxId"] == id and found["interval"] == 1 and found["memoryLimitMb"] == 256
    assert times == sorted(times) and busy[-1]["memoryUsageMb"] > 0 and busy[-1]["pids"] >= 1
    assert [s["timestamp"] for s in history(times[-1])["samples"]][0] == times[-1]
    assert history(int(time.time() * 1000) + 60000)["samples"] == []
    wait_until(lambda: scrape(api)["cay_sandboxes_cpu_seconds_total"][()] > 0)
    assert (("sandbox", id),) in scrape(api)["cay_sandbox_memory_bytes"]

    def stats(*words):
        return subprocess.run([CAY, "stats", "--since", "10m", *words, id], capture_output=True, text=True,
                              env={**os.environ, "CAY_HOST": f"unix:{own.socket_path}"}, check=True).stdout

    lines = stats().splitlines()
    assert lines[0].split() == ["ID", "AGO", "CPU%", "MEMORY", "PIDS", "NET", "IN", "NET", "OUT"] and len(lines) > 1
    [told] = json.loads(stats("--json"))
    assert told["sandboxId"] == id and told["samples"]
    api.remove(id)
    api.get(f"/sandboxes/{id}/metrics/history").failed(404)
    wait_until(lambda: not scrape(api).get("cay_sandbox_memory_bytes"))
