"""Events: each topic when its effect is there, history, and streams that lose nothing and repeat nothing."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import urllib.parse

import pytest

from cay_harness import CAY, cay, cli_environment, wait_until
from cay_order import unhindered

pytestmark = pytest.mark.core


class Stream:
    """A stream of events, read line by line: ids and what they are of."""

    def __init__(self, api, last=None, **query):
        self.api = api.again(timeout=30)
        headers = {"Last-Event-ID": last} if last else None
        path = "/stream/events" + ("?" + urllib.parse.urlencode(query) if query else "")
        self.response = self.api.start("GET", path, headers=headers)
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["Content-Type"] == "text/event-stream"
        self.last = last

    def next(self):
        """The next event; None at the end of the stream."""
        said = None
        while True:
            line = self.response.readline().decode()
            if not line:
                return None
            if line.startswith("id: "):
                said = line[4:].strip()
            elif line.startswith("data: "):
                event = json.loads(line[6:])
                assert event["id"] == said
                self.last = said
                return event

    def until(self, topic):
        while True:
            event = self.next()
            assert event, f"the stream ended before {topic}"
            if event["topic"] == topic:
                return event

    def close(self):
        self.response.close()
        self.api.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def history(api, **query):
    return api.get("/events/history?" + urllib.parse.urlencode(query)).ok()


def topics(api, id, **query):
    """Of one sandbox, the oldest first."""
    return [e["topic"] for e in reversed(history(api, sandboxId=id, limit=1000, **query)["events"])]


def data_of(api, id, topic):
    return history(api, sandboxId=id, topic=topic)["events"][0]["data"]


# ---- each topic ----


def test_the_life_of_a_sandbox(api):
    id = api.create(metadata={"team": "red"})["id"]
    api.post(f"/sandboxes/{id}/pause").ok()
    api.post(f"/sandboxes/{id}/resume").ok()
    api.post(f"/sandboxes/{id}/renew", {"expiresAt": api.sandbox(id)["expiresAt"] + 1000}).ok()
    api.post(f"/sandboxes/{id}/stop").ok()
    api.post(f"/sandboxes/{id}/start").ok()
    api.remove(id)
    assert topics(api, id) == ["sandbox.created", "sandbox.paused", "sandbox.resumed", "sandbox.renewed", "sandbox.stopped",
                               "sandbox.started", "sandbox.killed"]
    created = data_of(api, id, "sandbox.created")
    assert created["sandboxId"] == id and created["metadata"] == {"team": "red"} and created["status"] == "running"


def test_commands(api, box):
    done = api.exec(box, "exit 3")
    assert api.try_exec(box, ["/no/such/program"]).code == "command_not_found"
    api.exec_stream(box, "true")
    job = api.background(box, "true")
    assert topics(api, box, topic="exec.*,sandbox.exec") == ["exec.started", "exec.finished", "sandbox.exec"] * 3 + ["exec.started"]
    events = history(api, sandboxId=box, topic="exec.*", limit=100)["events"]
    first, end = events[-1]["data"], events[-2]["data"]
    assert first["command"] == "exit 3" and first["execId"] == end["execId"]
    assert end["exitCode"] == done["exitCode"] == 3 and end["reason"] == "exit" and end["durationMs"] > 0
    refused = events[-4]["data"]
    assert refused["reason"] == "failed" and refused["code"] == "command_not_found"
    assert events[0]["data"]["background"] is True and events[0]["data"]["execId"] == job["id"]


def test_snapshots_and_what_is_made_of_them(api, make):
    id = make()["id"]
    snap = api.post(f"/sandboxes/{id}/snapshots", {"name": "then"}).ok()["id"]
    api.post(f"/sandboxes/{id}/snapshots/restore", {"snapshotId": snap}).ok()
    clone = api.post(f"/snapshots/{snap}/clone", {}).ok()["id"]
    api.remove(clone)
    api.delete(f"/snapshots/{snap}").ok()
    assert topics(api, id) == ["sandbox.created", "snapshot.created", "sandbox.snapshot", "sandbox.restored", "snapshot.removed"]
    assert data_of(api, id, "sandbox.restored")["snapshotId"] == snap
    assert topics(api, clone) == ["sandbox.created", "sandbox.cloned", "sandbox.killed"]
    assert data_of(api, clone, "sandbox.cloned")["from"] == snap


def test_volumes_ports_and_images(api, make):
    id = make()["id"]
    volume = api.post("/volumes", {"name": "told", "sizeMb": 16}).ok()["id"]
    api.post(f"/volumes/{volume}/attach", {"sandboxId": id, "mountPath": "/data"}).ok()
    api.post(f"/volumes/{volume}/detach", {"sandboxId": id}).ok()
    api.delete(f"/volumes/{volume}").ok()
    port = api.post(f"/sandboxes/{id}/ports", {"containerPort": 80, "hostPort": 0}).ok()
    api.delete(f"/sandboxes/{id}/ports?containerPort=80").ok()
    api.post(f"/sandboxes/{id}/commit", {"name": "told:1"}).ok()
    api.delete("/images/told%3A1").ok()
    assert topics(api, id)[1:] == ["volume.attached", "volume.detached", "port.opened", "port.closed", "image.committed"]
    assert data_of(api, id, "port.opened")["hostPort"] == port["hostPort"]
    others = [e for e in history(api, topic="volume.*,image.removed", limit=1000)["events"] if e["sandboxId"] == ""]
    said = [(e["topic"], e["data"].get("volumeId") or e["data"]["name"]) for e in others]
    assert {("volume.created", volume), ("volume.removed", volume), ("image.removed", "told:1")} <= set(said)


def test_one_that_ends_by_itself(own):
    api = own.api()
    with Stream(api) as stream:
        id = api.create()["id"]
        os.kill(own.agent_pid(id), signal.SIGKILL)
        assert stream.until("sandbox.lost")["data"]["reason"] == "agent_lost"
        assert stream.until("sandbox.error")["data"]["code"] == "agent_lost"
        api.remove(id)


def test_one_that_expires(own):
    api = own.api()
    id = api.create()["id"]
    own.stop()
    own.change_sandboxes("expires_ms = ?, deadline_ns = 1", 1)
    own.start()
    api = own.api()
    api.post("/admin/sweep").ok()
    wait_until(lambda: topics(api, id)[-1] == "sandbox.expired")


def test_a_create_that_fails_is_an_error(daemon_of):
    api = daemon_of(env={"CAY_FAULT": "mount /dev"}).start().api()
    assert api.try_create().status >= 500
    said = history(api, topic="sandbox.error")["events"]
    assert said and said[0]["data"]["error"]


# ---- history, and events of callers ----


def test_what_callers_publish(api):
    made = api.post("/events/publish", {"topic": "deploy.done", "sandboxId": "sbx-any name", "data": {"n": [1, "ä"]}}).ok()
    assert made["published"] is True and made["data"] == {"n": [1, "ä"]}
    assert api.post("/events/publish", {"topic": "sandbox.custom", "sandboxId": "x", "data": None}).ok()["data"] == {}
    assert history(api, topic="deploy.*", sandboxId="sbx-any name")["events"] == [made]
    api.post("/events/publish", {"topic": "a b", "sandboxId": "x"}).failed(400, "bad_topic")
    api.post("/events/publish", {"topic": "x"}).failed(400)
    api.post("/events/publish", {"sandboxId": "x"}).failed(400)
    api.post("/events/publish", {"topic": "x", "sandboxId": "x", "data": {"a": "b" * 70000}}).failed(413, "event_too_large")


def test_history_is_filtered_and_paged(api):
    made = [api.post("/events/publish", {"topic": f"paged.{i}", "sandboxId": "paged"}).ok() for i in range(5)]
    assert history(api, sandboxId="paged", limit=2, offset=1) == {"events": [made[3], made[2]], "total": 5}
    assert history(api, sandboxId="paged", topic="paged.1,paged.3")["events"] == [made[3], made[1]]
    assert history(api, sandboxId="paged", since=made[4]["timestamp"])["events"][0] == made[4]
    assert history(api, sandboxId="paged", until=made[0]["timestamp"])["events"][-1] == made[0]
    api.get("/events/history?topic=a%20b").failed(400, "bad_topic")
    api.get("/stream/events?lastEventId=evt_1").failed(400, "bad_event_id")


# ---- streams ----


def test_a_stream_is_told_what_it_asked_for(api, make):
    with Stream(api, topic="sandbox.*") as all, Stream(api, topic="mine") as mine:
        one, two = make()["id"], make()["id"]
        with Stream(api, sandboxId=two, since=1) as its:
            api.post("/events/publish", {"topic": "mine", "sandboxId": two}).ok()
            assert [its.next()["topic"], its.next()["topic"]] == ["sandbox.created", "mine"]
        assert mine.next()["sandboxId"] == two
        assert all.next()["sandboxId"] == one
        assert all.next()["sandboxId"] == two


def publish_numbers(api, n, done):
    with api.again() as mine:
        for i in range(n):
            mine.post("/events/publish", {"topic": "number", "sandboxId": "numbers", "data": {"i": i}}).ok()
    done.set()


@pytest.mark.counts_rows
def test_who_comes_back_with_the_last_id_misses_nothing_and_sees_nothing_twice(api):
    """While others publish, the connection is broken off again and again, also in the middle of an event."""
    n, done, got = 600, threading.Event(), []
    stream = Stream(api, topic="number")
    thread = threading.Thread(target=publish_numbers, args=(api, n, done))
    thread.start()
    while len(got) < n:
        for _ in range(len(got) % 23 + 1):
            if len(got) == n:
                break
            got.append(stream.next()["data"]["i"])
        if len(got) % 2:
            stream.response.read(7)  # a part of the next, which is told again
        stream.close()
        stream = Stream(api, last=stream.last, topic="number")
    stream.close()
    thread.join()
    assert got == list(range(n))


@pytest.mark.counts_rows
def test_a_reader_that_is_slow_misses_nothing(api):
    with Stream(api, topic="fat") as slow:
        for i in range(300):
            api.post("/events/publish", {"topic": "fat", "sandboxId": "x", "data": {"i": i, "pad": "x" * 40000}}).ok()
        assert [slow.next()["data"]["i"] for _ in range(300)] == list(range(300))


@pytest.mark.counts_rows
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_after_the_end_of_the_daemon_a_stream_goes_on_where_it_was(own, sig):
    api = own.api()
    stream = Stream(api)
    id = api.create()["id"]
    assert stream.until("sandbox.created")["sandboxId"] == id
    kept = [api.post("/events/publish", {"topic": "kept", "sandboxId": id, "data": {"i": i}}).ok()["id"] for i in range(20)]
    if sig == signal.SIGKILL:
        own.kill9()
    else:
        own.stop()
    own.start()
    api = own.api()
    with Stream(api, last=stream.last) as again:
        assert [again.until("kept")["id"] for _ in kept] == kept
        assert again.until("daemon.started")
        api.exec(id, "true")
        assert again.until("exec.finished")["data"]["exitCode"] == 0
    stream.close()
    assert topics(api, id, topic="sandbox.*")[0] == "sandbox.created"


def test_what_is_too_much_goes_and_who_comes_too_late_is_told(daemon_of):
    api = daemon_of(env={"CAY_EVENTS_MAX": 1000}).start().api()
    first = api.post("/events/publish", {"topic": "first", "sandboxId": "x"}).ok()
    for i in range(1100):
        api.post("/events/publish", {"topic": "more", "sandboxId": "x"}).ok()
    wait_until(lambda: history(api, limit=1)["total"] <= 1011)
    assert history(api, topic="first")["events"] == []
    with Stream(api, last=first["id"]) as late:
        lost = late.next()
        assert lost["topic"] == "events.lost" and lost["data"]["to"] == lost["id"]
        assert late.next()["topic"] == "more"


def test_idle_readers_hold_no_thread(own):
    api = own.api()

    def threads():
        return len(os.listdir(f"/proc/{own.pid}/task"))

    before = threads()
    streams = [Stream(api, topic="quiet") for _ in range(300)]
    wait_until(lambda: threads() <= before + 8, 60, "the workers that opened the streams leave, or wait for others")
    api.post("/events/publish", {"topic": "quiet", "sandboxId": "x"}).ok()
    for stream in streams:
        assert stream.next()["topic"] == "quiet"
        stream.close()


# ---- the command ----


def test_the_command_shows_and_follows(own):
    api = own.api()
    follower = subprocess.Popen([CAY, "events", "-f", "-t", "sandbox.*", "--json", "--since", "1h"], env=cli_environment(own),
                                stdout=subprocess.PIPE, text=True)
    id = api.create(name="web")["id"]
    assert json.loads(follower.stdout.readline())["sandboxId"] == id
    own.restart()
    own.api().remove(id)
    assert json.loads(follower.stdout.readline())["topic"] == "sandbox.killed"
    follower.terminate()
    follower.wait()
    follower.stdout.close()
    shown = cay(own, "events", "-s", id, check=True).stdout.decode().splitlines()
    assert "sandbox.created" in shown[0] and "name=web" in shown[0] and "sandbox.killed" in shown[-1]


def test_a_stream_ends_with_its_token(own):
    """Also one that is only ever told, and never woken."""
    api = own.unix_api()
    token = api.post("/tokens", {"name": "reader", "scopes": ["read"]}).ok()
    reader = own.api(token=token["token"])
    with Stream(reader, topic="told") as stream:
        api.post("/events/publish", {"topic": "told", "sandboxId": "x"}).ok()
        assert stream.next()["topic"] == "told"
        api.delete(f"/tokens/{token['id']}").ok()
        api.post("/events/publish", {"topic": "told", "sandboxId": "x"}).ok()
        assert stream.next() is None


def unsent_by(port):
    """Bytes that the kernel holds for those who are connected to a port and do not read."""
    total = 0
    with open("/proc/net/tcp") as f:
        for line in list(f)[1:]:
            _, here, _, _, queues = line.split()[:5]
            if here.endswith(f":{port:04X}"):
                total += int(queues.split(":")[0], 16)
    return total


def closed_by(port, sockets):
    """Those whose other end, which listens at that port, was closed. They are not told: what they do not read is before it."""
    with open("/proc/net/tcp") as f:
        lines = [line.split()[1:4] for line in list(f)[1:]]
    connected = {int(there.split(":")[1], 16) for here, there, state in lines if here.endswith(f":{port:04X}") and state == "01"}
    return [s for s in sockets if s.getsockname()[1] not in connected]


def test_who_does_not_read_keeps_no_other_caller_waiting(daemon_of):
    """Streams share memory for what was not sent: one caller has half of it, and the kernel little for each. The other
    caller is served while all of them are connected, and not when the daemon disconnects them after CAY_STALL_TIMEOUT: that is 600 s here,
    longer than the crowd takes on a slow machine."""
    own = daemon_of(env={"CAY_AUTH_TOKEN": "the-operator", "CAY_STALL_TIMEOUT": 600}).start()
    with own.api() as api:
        id = api.create()["id"]
        token = api.post("/tokens", {"scopes": ["read"], "sandboxId": id}).ok()["token"]

        def fds():
            return len(os.listdir(f"/proc/{own.process.pid}/fd"))

        @contextlib.contextmanager
        def crowd():
            before = fds()
            with contextlib.ExitStack() as stack:
                silent = []
                for _ in range(450):
                    s = stack.enter_context(socket.socket())
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    s.connect(("127.0.0.1", api.port))
                    s.sendall(f"GET /sandbox/stream/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
                    silent.append(s)
                wait_until(lambda: fds() > 4 * 450, 60, "all streams")
                for _ in range(100):
                    api.post("/events/publish", {"topic": "a.b", "sandboxId": id, "data": {"a": "x" * 16000}}).ok()
                yield lambda: closed_by(api.port, silent)
            wait_until(lambda: fds() < before + 50, 60, "the end of the streams")

        def streams():
            said = list(api.events("POST", f"/sandboxes/{id}/exec/stream", {"command": "echo on"}, timeout=120))
            return said, unsent_by(api.port)

        said, unsent = unhindered(crowd, streams)
        assert any(e.get("data") == "on\n" for e in said)
        assert unsent < 450 * (200 << 10)
        api.remove(id)
