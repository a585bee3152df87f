"""A small client of the REST contract, in Python's own library: every call of ../calls.txt, each with its effect.

CAY_URL says where the daemon is, CAY_TEST_ENV what sandboxes get as their environment, and CAY_TEST_CA what they trust."""

import base64
import http.client
import json
import os
import time
import urllib.parse

LIMIT = 60 * float(os.environ.get("CAY_TEST_SLOW", "1"))  # seconds of a wait
BASE = urllib.parse.urlsplit(os.environ["CAY_URL"])


class Failed(Exception):
    def __init__(self, method, path, status, body):
        super().__init__(f"{method} {path} failed: {status} {body}")
        self.status = status


class Client:
    """Sends as public clients do: JSON with every request, null for what is not set, no body where there is none."""

    def __init__(self):
        self.connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=LIMIT)

    def request(self, method, path, body=None):
        self.connection.request(method, f"/sandbox{path}", None if body is None else json.dumps(body),
                                {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read().decode()
        if not 200 <= answer.status < 300:
            raise Failed(method, path, answer.status, text)
        return json.loads(text)

    def get(self, path, /, **query):
        words = urllib.parse.urlencode({k: str(v).lower() if isinstance(v, bool) else v for k, v in query.items()})
        return self.request("GET", f"{path}?{words}" if words else path)

    def post(self, path, /, **body):
        return self.request("POST", path, body or None)

    def delete(self, path):
        return self.request("DELETE", path)

    def stream(self, method, path, body=None):
        """Events as they come: a line each, of which only those count that begin with "data: "."""
        connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=LIMIT)
        connection.request(method, f"/sandbox{path}", None if body is None else json.dumps(body),
                           {"Content-Type": "application/json", "Accept": "text/event-stream"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise Failed(method, path, answer.status, answer.read().decode())
        try:
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:].decode("ascii"))
        finally:
            connection.close()


KINDS = {
    "Sandbox": {"id": str, "name": str, "image": str, "status": str, "createdAt": int, "expiresAt": int, "config": dict, "metadata": dict},
    "Exec": {"exitCode": int, "stdout": str, "stderr": str, "duration": float},
    "FileInfo": {"name": str, "path": str, "size": int, "isDirectory": bool, "modifiedAt": int},
    "Metrics": {"sandboxId": str, "cpuPercent": float, "memoryUsageMb": float, "memoryLimitMb": float, "networkRxBytes": int,
                "networkTxBytes": int, "pids": int},
    "Snapshot": {"id": str, "sandboxId": str, "name": str, "imageId": str, "size": int, "createdAt": int},
    "Template": {"id": str, "name": str, "description": str, "config": dict, "builtin": bool, "createdAt": int},
    "Job": {"id": str, "sandboxId": str, "command": str, "status": str, "retries": int, "maxRetries": int, "createdAt": int},
    "Event": {"id": str, "topic": str, "sandboxId": str, "data": dict, "timestamp": int},
    "Alert": {"id": str, "sandboxId": str, "metric": str, "threshold": float, "action": str, "triggered": bool, "createdAt": int},
    "AlertEvent": {"alertId": str, "sandboxId": str, "metric": str, "value": float, "threshold": float, "action": str, "timestamp": int},
    "Network": {"id": str, "name": str, "dockerNetworkId": str, "sandboxes": list, "createdAt": int},
    "Volume": {"id": str, "name": str, "dockerVolumeName": str, "createdAt": int},
    "Port": {"containerPort": int, "hostPort": int, "protocol": str, "state": str},
    "Trace": {"id": str, "functionId": str, "duration": float, "status": str, "timestamp": int},
    "Kernel": {"name": str, "language": str, "displayName": str},
    "Process": {"pid": int, "user": str, "cpu": str, "memory": str, "command": str},
    "ProcessUsage": {"pid": int, "cpu": str, "mem": str, "vsz": int, "rss": int, "command": str},
    "Terminal": {"sessionId": str, "sandboxId": str, "execId": str, "cols": int, "rows": int, "shell": str, "status": str, "createdAt": int},
}


def typed(kind, value):
    """The value, if it is what a client with fixed types can read."""
    for key, type_ in KINDS[kind].items():
        got = value[key]
        fits = isinstance(got, (int, float) if type_ is float else type_) and (type_ is bool or not isinstance(got, bool))
        assert fits, f"{kind}.{key} is {got!r}"
    return value


def wait_for(ask, what):
    end = time.monotonic() + LIMIT
    while not (got := ask()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return got


def ok(name):
    print("ok", name, flush=True)


client = Client()
made = []


def create(**fields):
    sandbox = typed("Sandbox", client.post("/sandboxes", image="host", **fields))
    made.append(sandbox["id"])
    return sandbox


def sandboxes():
    box = create(name="contract-py", timeout=600, memory=512, cpu=1, network=True, env=json.loads(os.environ.get("CAY_TEST_ENV", "{}")),
                 workdir=None, template=None, metadata={"by": "python"})
    assert box["status"] == "running" and box["image"] == "host"
    ok("createSandbox")
    listed = client.get("/sandboxes")
    assert box["id"] in [typed("Sandbox", s)["id"] for s in listed["items"]] and listed["total"] >= 1
    ok("listSandboxes")
    assert typed("Sandbox", client.get(f"/sandboxes/{box['id']}"))["name"] == "contract-py"
    ok("getSandbox")
    assert any(typed("Template", t)["builtin"] for t in client.get("/templates")["templates"])
    ok("listTemplates")
    return f"/sandboxes/{box['id']}", box["id"]


def commands(at):
    done = typed("Exec", client.post(f"{at}/exec", command="echo out; echo err >&2; exit 3", timeout=None))
    assert (done["exitCode"], done["stdout"], done["stderr"]) == (3, "out\n", "err\n") and done["duration"] > 0
    ok("sandbox.exec")
    seen = list(client.stream("POST", f"{at}/exec/stream", {"command": "echo a; exit 4"}))
    assert [e["type"] for e in seen] == ["stdout", "exit"] and seen[0]["data"] == "a\n" and seen[1]["data"] == "4"
    ok("sandbox.execStream")
    assert client.post(f"{at}/pause")["status"] == "paused"
    ok("sandbox.pause")
    assert client.post(f"{at}/resume")["status"] == "running"
    ok("sandbox.resume")
    assert typed("Metrics", client.get(f"{at}/metrics"))["pids"] >= 1
    ok("sandbox.metrics")
    assert client.get(at)["status"] == "running"
    ok("sandbox.refresh")


def snapshots(at):
    client.post(f"{at}/files/write", path="/workspace/kept", content="before")
    shot = typed("Snapshot", client.post(f"{at}/snapshots", name=None))
    ok("sandbox.snapshot")
    assert shot["id"] in [typed("Snapshot", s)["id"] for s in client.get(f"{at}/snapshots")["snapshots"]]
    ok("sandbox.listSnapshots")
    client.post(f"{at}/files/write", path="/workspace/kept", content="after")
    assert typed("Sandbox", client.post(f"{at}/snapshots/restore", snapshotId=shot["id"]))["status"] == "running"
    assert client.post(f"{at}/files/read", path="/workspace/kept") == "before"
    ok("sandbox.restore")
    twin = typed("Sandbox", client.post(f"{at}/clone", name="contract-py-twin"))
    made.append(twin["id"])
    assert client.post(f"/sandboxes/{twin['id']}/files/read", path="/workspace/kept") == "before"
    ok("sandbox.clone")
    assert client.delete(f"/sandboxes/{twin['id']}") == {"success": True}
    made.remove(twin["id"])
    try:
        client.get(f"/sandboxes/{twin['id']}")
        raise AssertionError("it is still there")
    except Failed as e:
        assert e.status == 404
    ok("sandbox.kill")
    client.delete(f"/snapshots/{shot['id']}")


def environment(at):
    assert client.post(f"{at}/env", vars={"CONTRACT": "1 2"}) == {"set": ["CONTRACT"], "count": 1}
    assert client.post(f"{at}/exec", command="echo $CONTRACT")["stdout"] == "1 2\n"
    ok("env.set")
    assert client.post(f"{at}/env/get", key="CONTRACT") == {"key": "CONTRACT", "value": "1 2", "exists": True}
    ok("env.get")
    assert client.get(f"{at}/env")["vars"]["CONTRACT"] == "1 2"
    ok("env.list")
    assert client.post(f"{at}/env/delete", key="CONTRACT")["deleted"] == "CONTRACT"
    assert client.post(f"{at}/env/get", key="CONTRACT")["exists"] is False
    ok("env.delete")


def files(at):
    assert client.post(f"{at}/files/write", path="/workspace/d/f.txt", content="grüße\n") == {"success": True}
    ok("filesystem.write")
    assert client.post(f"{at}/files/read", path="/workspace/d/f.txt") == "grüße\n"
    ok("filesystem.read")
    found = [typed("FileInfo", f) for f in client.post(f"{at}/files/list", path="/workspace/d")]
    assert [f["name"] for f in found] == ["f.txt"]
    ok("filesystem.list")
    assert client.post(f"{at}/files/search", pattern="*.txt", dir="/workspace/d") == ["/workspace/d/f.txt"]
    ok("filesystem.search")
    data = bytes(range(256)) * 40
    client.post(f"{at}/files/upload", path="/workspace/d/b", content=base64.b64encode(data).decode())
    ok("filesystem.upload")
    assert base64.b64decode(client.post(f"{at}/files/download", path="/workspace/d/b")) == data
    ok("filesystem.download")
    client.post(f"{at}/files/delete", path="/workspace/d/b")
    assert client.post(f"{at}/exec", command="test ! -e /workspace/d/b")["exitCode"] == 0
    ok("filesystem.delete")


def git(at):
    client.post(f"{at}/exec", command="git init -q --bare -b main /workspace/origin.git")
    path = "/workspace/repo"
    assert typed("Exec", client.post(f"{at}/git/clone", url="/workspace/origin.git", path=path, branch=None, depth=None))["exitCode"] == 0
    ok("git.clone")
    client.post(f"{at}/exec", command="git config user.name C; git config user.email c@example.com; git checkout -q -b main", cwd=path)
    client.post(f"{at}/files/write", path=f"{path}/a.txt", content="one\n")
    assert [(f["status"], f["path"]) for f in client.get(f"{at}/git/status", path=path)["files"]] == [("??", "a.txt")]
    ok("git.status")
    assert client.post(f"{at}/git/commit", message="first", path=path, all=True)["exitCode"] == 0
    ok("git.commit")
    client.post(f"{at}/files/write", path=f"{path}/a.txt", content="two\n")
    assert "+two" in client.get(f"{at}/git/diff", path=path, staged=False)["diff"]
    ok("git.diff")
    entry = client.get(f"{at}/git/log", path=path, count=1)["entries"][0]
    assert entry["message"] == "first" and set(entry) >= {"hash", "message", "author", "date"}
    ok("git.log")
    branches = client.post(f"{at}/git/branch", path=path, name="side", delete=None)
    assert branches["current"] == "side" and "main" in branches["branches"]
    ok("git.branch")
    assert client.post(f"{at}/git/checkout", ref="main", path=path)["exitCode"] == 0
    ok("git.checkout")
    assert client.post(f"{at}/git/push", path=path, remote="origin", branch="main", force=None)["exitCode"] == 0
    ok("git.push")
    assert client.post(f"{at}/git/pull", path=path, remote="origin", branch="main")["exitCode"] == 0
    ok("git.pull")


def interpreter(at):
    ran = client.post(f"{at}/interpret/execute", code="print(6 * 7)", language="python")
    assert ran["output"] == "42\n" and ran["error"] is None and ran["executionTime"] > 0
    broken = client.post(f"{at}/interpret/execute", code="1 / 0", language="python")
    assert "ZeroDivisionError" in broken["error"]
    ok("interpreter.run")
    assert "python" in [typed("Kernel", k)["language"] for k in client.get(f"{at}/interpret/kernels")]
    ok("interpreter.kernels")
    if "CAY_TEST_CA" in os.environ:
        client.post(f"{at}/files/upload", path=os.environ["CAY_TEST_CA_AT"],
                    content=base64.b64encode(open(os.environ["CAY_TEST_CA"], "rb").read()).decode())
    assert isinstance(client.post(f"{at}/interpret/install", packages=["cay-demo"], manager="npm")["output"], str)
    ok("interpreter.install")


def processes(at):
    pid = client.post(f"{at}/exec/background", command="exec sleep 1000")["pid"]
    assert pid in [typed("Process", p)["pid"] for p in client.get(f"{at}/processes")["processes"]]
    ok("processes.list")
    assert pid in [typed("ProcessUsage", p)["pid"] for p in client.get(f"{at}/processes/top")["processes"]]
    ok("processes.top")
    assert client.post(f"{at}/processes/kill", pid=pid, signal=None)["killed"] == pid
    wait_for(lambda: pid not in [p["pid"] for p in client.get(f"{at}/processes")["processes"]], "it is not killed")
    ok("processes.kill")


def ports(at, id):
    serve = client.post(f"{at}/exec/background", command="exec python3 -m http.server 8123 --bind 127.0.0.1 --directory /workspace")
    port = typed("Port", client.post(f"{at}/ports", containerPort=8123, hostPort=0, protocol=None))
    assert port["hostPort"] > 0
    ok("ports.expose")
    assert [typed("Port", p)["containerPort"] for p in client.get(f"{at}/ports")["ports"]] == [8123]
    ok("ports.list")

    def answered():
        try:
            return client.post(f"/proxy/{id}/8123", method="GET", path="/")
        except Failed:
            return None

    answer = wait_for(answered, "the server does not answer")
    assert answer["statusCode"] == 200 and "repo" in answer["body"]
    ok("ports.getProxyUrl")
    assert client.delete(f"{at}/ports?containerPort=8123") == {"removed": 8123}
    ok("ports.unexpose")
    client.post(f"{at}/processes/kill", pid=serve["pid"], signal="KILL")


def queue(at, id):
    job = typed("Job", client.post(f"{at}/exec/queue", command="echo queued; exit 5", maxRetries=None, timeout=20))
    assert job["status"] == "pending" and job["sandboxId"] == id
    ok("queue.submit")
    job = wait_for(lambda: (j := client.get(f"/queue/{job['id']}/status"))["status"] == "completed" and j, "it does not end")
    assert typed("Exec", typed("Job", job)["result"])["exitCode"] == 5 and job["result"]["stdout"] == "queued\n"
    ok("queue.status")
    later = client.post(f"{at}/exec/queue", command="true", delay=600)
    assert client.post(f"/queue/{later['id']}/cancel") == {"cancelled": later["id"]}
    assert client.get(f"/queue/{later['id']}/status")["status"] == "cancelled"
    ok("queue.cancel")
    dead = client.get("/queue/dlq", limit=5)
    assert isinstance(dead["jobs"], list) and isinstance(dead["total"], int)
    ok("queue.dlq")


def streams():
    talker = create(entrypoint=["sh", "-c", "echo one; echo two >&2; exec sleep 1000"])
    at = f"/sandboxes/{talker['id']}"

    def lines():
        seen = list(client.stream("GET", f"{at}/stream/logs?tail=10&follow=false"))
        assert seen[-1]["type"] == "end"
        return sorted((e["type"], e["data"]) for e in seen[:-1]) == [("stderr", "two"), ("stdout", "one")]

    wait_for(lines, "the log has other lines")
    ok("streams.logs")
    for sample in client.stream("GET", f"{at}/stream/metrics?interval=1"):
        assert typed("Metrics", sample)["sandboxId"] == talker["id"]
        break
    ok("streams.metrics")


def monitor(at):
    alert = typed("Alert", client.post(f"{at}/alerts", metric="pids", threshold=1, action=None))
    assert alert["action"] == "notify"
    ok("monitor.setAlert")
    assert alert["id"] in [typed("Alert", a)["id"] for a in client.get(f"{at}/alerts")["alerts"]]
    ok("monitor.listAlerts")
    fired = wait_for(lambda: client.get(f"{at}/alerts/history", limit=5)["events"], "it does not fire")
    assert typed("AlertEvent", fired[0])["alertId"] == alert["id"]
    ok("monitor.history")
    assert client.delete(f"/alerts/{alert['id']}") == {"deleted": alert["id"]}
    ok("monitor.deleteAlert")


def terminal(at):
    session = typed("Terminal", client.post(f"{at}/terminal", cols=100, rows=30, shell="/bin/sh"))
    ok("terminal.create")
    assert client.post(f"{at}/terminal/{session['sessionId']}/resize", cols=120, rows=40) == {"cols": 120, "rows": 40}
    ok("terminal.resize")
    assert client.delete(f"{at}/terminal/{session['sessionId']}") == {"closed": session["sessionId"]}
    ok("terminal.close")


def events(id):
    event = typed("Event", client.post("/events/publish", topic="contract.python", sandboxId=id, data=None))
    assert event["data"] == {}
    ok("events.publish")

    def told():
        return client.get("/events/history", sandboxId=id, topic="contract.python", limit=5)["events"]

    assert [typed("Event", e)["id"] for e in wait_for(told, "it is not in the history")] == [event["id"]]
    ok("events.history")


def networks(id):
    network = typed("Network", client.post("/networks", name="contract-py", driver=None))
    ok("networks.create")
    other = create()
    assert client.post(f"/networks/{network['id']}/connect", sandboxId=other["id"])["connected"] is True
    ok("networks.connect")
    listed = [typed("Network", n) for n in client.get("/networks")["networks"] if n["id"] == network["id"]]
    assert listed[0]["sandboxes"] == [other["id"]]
    ok("networks.list")
    assert client.post(f"/networks/{network['id']}/disconnect", sandboxId=other["id"])["disconnected"] is True
    ok("networks.disconnect")
    assert client.delete(f"/networks/{network['id']}")["deleted"] == network["id"]
    ok("networks.delete")


def observability(id):
    def seen():
        traces = client.get("/observability/traces", sandboxId=id, functionId="cmd::run", limit=3)["traces"]
        return traces and all(typed("Trace", t)["functionId"] == "cmd::run" for t in traces)

    wait_for(seen, "there is no trace")
    ok("observability.traces")
    numbers = client.get("/observability/metrics")
    assert numbers["totalRequests"] > 0 and numbers["functionCounts"]["cmd::run"] > 0 and numbers["p95Duration"] >= 0
    ok("observability.metrics")
    assert isinstance(client.post("/observability/clear", before=1)["cleared"], int)
    ok("observability.clear")


def volumes(at, id):
    volume = typed("Volume", client.post("/volumes", name="contract-py", driver=None))
    ok("volumes.create")
    attached = client.post(f"/volumes/{volume['id']}/attach", sandboxId=id, mountPath="/data")
    assert attached["attached"] is True and attached["mountPath"] == "/data"
    client.post(f"{at}/exec", command="echo kept >/data/f")
    ok("volumes.attach")
    assert [typed("Volume", v)["sandboxId"] for v in client.get("/volumes")["volumes"] if v["id"] == volume["id"]] == [id]
    ok("volumes.list")
    assert client.post(f"/volumes/{volume['id']}/detach")["detached"] is True
    ok("volumes.detach")
    assert client.delete(f"/volumes/{volume['id']}")["deleted"] == volume["id"]
    ok("volumes.delete")


def main():
    at, id = sandboxes()
    commands(at)
    environment(at)
    files(at)
    git(at)
    interpreter(at)
    processes(at)
    ports(at, id)
    queue(at, id)
    streams()
    monitor(at)
    terminal(at)
    events(id)
    networks(id)
    observability(id)
    volumes(at, id)
    snapshots(at)


try:
    main()
finally:
    for id in made:
        client.delete(f"/sandboxes/{id}")
