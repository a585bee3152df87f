"""What a public fuzzer of APIs finds when it has /openapi.json and a live daemon: no failure of the server, and no answer
that the document does not tell of."""

import collections
import json
import re
import subprocess
import time

import pytest

from cay_kept import environment

pytestmark = pytest.mark.full

CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "ignored_auth", "missing_required_header")

# 501 says what this daemon was not given, 502 and 504 that nothing listens in a sandbox, 503 that a registry cannot be
# reached; each has its code in the document. Streams have no end of their own, and what ends or stops the sandbox that all
# others need is left out. What is removed is another one than what all others are asked about.
CONFIG = """
headers = {{ Authorization = "Bearer {token}" }}
[parameters]
{parameters}
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 501, 502, 503, 504]
[[operations]]
include-name = "DELETE /sandbox/sandboxes/{{sandboxId}}"
enabled = false
[[operations]]
include-path-regex = "stream|attach|/ws|/images/pull|/channels|/stop|/pause|/restore|/exec$|/watch"
enabled = false
[[operations]]
include-method = "DELETE"
[operations.parameters]
{removed}
"""

# What needs something that is there, so that the fuzzer has not only met refusals.
MET = [f"{method} /sandbox{path}" for method, path in [
    ("GET", "/queue/{jobId}/status"), ("GET", "/queue/{jobId}/logs"), ("GET", "/webhooks/{webhookId}"), ("PUT", "/webhooks/{webhookId}"),
    ("GET", "/webhooks/{webhookId}/deliveries"), ("POST", "/webhooks/{webhookId}/test"), ("DELETE", "/webhooks/{webhookId}"),
    ("DELETE", "/tokens/{tokenId}"), ("DELETE", "/alerts/{alertId}"), ("GET", "/sandboxes/{sandboxId}/alerts"),
    ("GET", "/sandboxes/{sandboxId}/interpret/contexts/{contextId}"), ("DELETE", "/sandboxes/{sandboxId}/interpret/contexts/{contextId}"),
    ("POST", "/sandboxes/{sandboxId}/interpret/contexts/{contextId}/restart"), ("GET", "/sandboxes/{sandboxId}/git/log"),
    ("GET", "/sandboxes/{sandboxId}/git/status"), ("POST", "/sandboxes/{sandboxId}/git/branch"), ("GET", "/templates/{templateId}"),
    ("GET", "/snapshots/{snapshotId}"), ("DELETE", "/snapshots/{snapshotId}"), ("GET", "/sandboxes/{sandboxId}/terminal/{sessionId}"),
]]


def objects(api, box):
    """Of each kind one that is there, by the name of the parameter that means it."""
    post = lambda path, **body: api.post(path, body).ok()
    of = f"/sandboxes/{box}"
    return {
        "sandboxId": box, "snapshotId": post(f"{of}/snapshots")["id"], "volumeId": post("/volumes", name="fuzzed", sizeMb=16)["id"],
        "sessionId": post(f"{of}/terminal", record=True)["sessionId"], "execId": api.background(box, "exec sleep 1000")["id"],
        "templateId": post("/templates", name=f"fuzzed-{time.monotonic_ns()}", config={"image": "host"})["id"],
        "jobId": post(f"{of}/exec/queue", command="true")["id"], "alertId": post(f"{of}/alerts", metric="pids", threshold=200)["id"],
        "contextId": post(f"{of}/interpret/contexts", language="python")["id"],
        "webhookId": post("/webhooks", url="http://127.0.0.1:9/")["id"], "tokenId": post("/tokens", scopes=["read"])["id"],
        "name": "host", "image": "host",
    }


def parameters(known):
    return "\n".join(f'"path.{name}" = "{value}"' for name, value in known.items())


def without_keys(document):
    """A fuzzer sends the same few keys again and again, and would be told so instead of what it asks for."""
    for item in document["paths"].values():
        for operation in item.values():
            operation["parameters"] = [p for p in operation.get("parameters", ()) if p["name"] != "Idempotency-Key"]
    return document


def answered(report):
    """How often each operation was answered with what status."""
    told = collections.defaultdict(collections.Counter)
    for line in report.read_text().splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        for id, said in recorder.get("interactions", {}).items():
            case = recorder["cases"][id]["value"]
            if said.get("response"):
                told[f"{case['method']} {case['path']}"][said["response"]["status_code"]] += 1
    return told


def test_a_fuzzer_finds_nothing(daemon_of, tmp_path):
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": "secret", "CAY_MAX_CMD_TIMEOUT": "5", "CAY_WEBHOOK_ALLOW": "127.0.0.1"}).start()
    with daemon.api(timeout=60) as api:
        box = api.create(name="fuzzed")["id"]
        api.sh(box, "git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one")
        known, removed = objects(api, box), objects(api, box)
        document = api.get("//openapi.json").ok()
    (tmp_path / "openapi.json").write_text(json.dumps(without_keys(document)))
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG.format(token="secret", parameters=parameters(known), removed=parameters(removed)))
    done = subprocess.run([environment("schemathesis") / "bin" / "schemathesis", "--config-file", config, "run", tmp_path / "openapi.json", "--url", f"http://127.0.0.1:{daemon.port}",
                           "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--max-examples", "3",
                           "--generation-deterministic", "--max-time", "30", "--request-timeout", "30", "--no-color",
                           "--report", "ndjson", "--report-ndjson-path", tmp_path / "report"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr
    assert int(re.search(r"(\d+) generated", done.stdout)[1]) > 1000
    told = answered(tmp_path / "report")
    for operation in MET:
        assert told[operation][200], (operation, told[operation])
    assert daemon.running() and "request failed" not in re.sub(r".*level=warn.*", "", daemon.log())
