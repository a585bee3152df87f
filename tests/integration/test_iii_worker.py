"""cay as the worker `iii-sandbox` of an iii engine: a scripted one of either version, which loses connections and refuses where a test
says so."""

import contextlib
import hashlib
import os
import signal
import subprocess

import pytest

from cay_iii_engine import FUNCTION_CONFLICT, FUNCTIONS, OPS, VERSIONS, WORKER_CONFLICT, Engine
from cay_harness import CAY, SLOW, Daemon, wait_until
from cay_iii import *  # noqa: F401,F403 (fixtures too)
from cay_iii import NOBODY, UUID, Refused, Socket, channel_path

pytestmark = pytest.mark.core

OURS = FUNCTIONS | {"sandbox::exec::cancel"}
either = pytest.mark.parametrize("engine", VERSIONS, indirect=True)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Worker(Daemon):
    """`cay worker --engine URL`, with folders of its own."""

    command = "worker"

    def __init__(self, engine, name="worker", args=None, env=(), **how):
        env = {"CAY_ENGINE_RETRY_MS": "100", **dict(env)}
        super().__init__(name, args=["--engine", engine.url] if args is None else args, env=env, **how)

    def spawn(self, args=(), **popen):
        ready, write = os.pipe()
        with open(self.log_path, "ab") as log:
            popen["pass_fds"] = (*popen.get("pass_fds", ()), write)
            popen.setdefault("stdin", subprocess.DEVNULL)
            popen.setdefault("stdout", log)
            popen.setdefault("stderr", log)
            popen.setdefault("env", self.environment())
            self.process = subprocess.Popen([CAY, self.command, "--ready-fd", str(write), *map(str, self.args), *args], **popen)
        os.close(write)
        return ready

    def ended(self, timeout=30):
        """Its status, once it has ended by itself."""
        status = self.process.wait(timeout * SLOW)
        self.process = None
        return status


@pytest.fixture
def engine(websockets, request):
    with Engine(version=getattr(request, "param", VERSIONS[-1])) as engine:
        yield engine


@pytest.fixture
def worker_of():
    made = []

    def new(engine, **how):
        made.append(Worker(engine, **how))
        return made[-1]

    yield new
    for worker in reversed(made):
        worker.destroy()


@pytest.fixture
def worker(engine, worker_of):
    """One that has registered."""
    worker = worker_of(engine).start()
    engine.registered()
    return worker


@contextlib.contextmanager
def box(engine):
    id = engine.call("sandbox::create", {"image": "host"})["sandbox_id"]
    try:
        yield id
    finally:
        with contextlib.suppress(Refused):
            engine.call("sandbox::stop", {"sandbox_id": id})


@either
def test_it_registers_itself_first_and_then_its_functions(engine, worker):
    first, *others = engine.of(1)
    looks, others = others[:2], others[2:]
    assert [m["function_id"] for m in looks] == ["engine::functions::list", "engine::workers::list"]
    assert first["type"] == "invokefunction" and first["function_id"] == "engine::workers::register"
    assert first["action"] == {"type": "void"} and not first.get("invocation_id")
    assert (first["data"]["name"], first["data"]["pid"]) == ("iii-sandbox", worker.pid)
    assert first["data"]["description"] and first["data"]["version"] and first["data"]["runtime"] and first["data"]["os"]
    assert [m["type"] for m in others] == ["registerfunction"] * len(others)
    assert OURS == {m["id"] for m in others} and len(others) == len(OURS)
    assert "reattach" not in {m["type"] for m in engine.of(1)}
    for message in others:
        assert message["description"], message
        assert message["request_format"]["type"] == "object", message["id"]
        assert message["id"] not in FUNCTIONS or message["response_format"]["type"] == "object", message["id"]
    formats = {m["id"]: m["request_format"] for m in others}
    assert "image" in formats["sandbox::create"]["required"] and "sandbox_id" in formats["sandbox::exec"]["required"]


def test_calls_are_answered_side_by_side_and_with_their_trace(engine, worker):
    with box(engine) as id:
        slow = engine.invoke("sandbox::exec", {"sandbox_id": id, "argv": ["sh", "-c", "while [ ! -e /tmp/go ]; do sleep 0.02; done; echo slow"]})
        quick = engine.invoke("sandbox::exec", {"sandbox_id": id, "cmd": "touch", "args": ["/tmp/go"], "_caller_worker_id": NOBODY},
                              traceparent=TRACE, baggage="a=b", metadata={"x": 1})
        answer = quick.message()
        assert answer["function_id"] == "sandbox::exec" and answer["result"]["exit_code"] == 0 and answer.get("error") is None
        assert answer["traceparent"].split("-")[1] == TRACE.split("-")[1] and "a=b" in answer["baggage"]
        assert slow.result()["stdout"] == "slow\n"


def test_errors_have_the_envelope_of_the_genuine_worker(engine, worker):
    def refused(function, data):
        with pytest.raises(Refused) as caught:
            engine.call(function, data)
        return caught.value

    assert refused("sandbox::exec", {"sandbox_id": NOBODY, "cmd": "true"}).s == "S002"
    assert refused("sandbox::stop", {"sandbox_id": "no-uuid"}).s == "S001"
    for wrong in ({}, {"image": 5}, None):
        call = engine.invoke("sandbox::create", wrong) if wrong is not None else engine.invoke("sandbox::create", [])
        with pytest.raises(Refused, match="serialization error: ") as caught:
            call.result()
        assert caught.value.code == "invocation_failed"


def test_a_call_without_an_id_is_done_and_not_answered(engine, worker):
    with box(engine) as id:
        engine.send(1, type="invokefunction", function_id="sandbox::exec", data={"sandbox_id": id, "cmd": "touch", "args": ["/tmp/done"]})
        wait_until(lambda: engine.call("sandbox::exec", {"sandbox_id": id, "cmd": "test", "args": ["-e", "/tmp/done"]})["success"])
    assert all(UUID.fullmatch(m["invocation_id"]) for m in engine.of(1) if m["type"] == "invocationresult")


def test_a_function_that_it_does_not_have(engine, worker):
    engine.send(1, type="invokefunction", invocation_id=NOBODY, function_id="sandbox::nonesuch", data={})
    said = engine.wait(lambda: next((m for m in engine.of(1) if m.get("invocation_id") == NOBODY), None), "an answer")
    assert said["error"]["code"] == "function_not_found"


def test_frames_that_it_cannot_use_are_passed_over(engine, worker):
    for message in ({"type": "nonesuch"}, {"type": "invokefunction"}, {"type": "registertrigger", "id": "x"}, {"type": "workerregistered"},
                    {"type": "unregistertrigger", "id": "x"}, {"type": "error", "error": {}}, {"type": "invocationresult", "invocation_id": NOBODY}):
        engine.send(1, **message)
    engine.send(1, type="ping")
    engine.wait(lambda: any(m["type"] == "pong" for m in engine.of(1)), "a pong")
    assert "sandboxes" in engine.call("sandbox::list")


def test_bytes_go_through_channels_of_the_engine(engine, worker):
    data = os.urandom(5 << 20)
    with box(engine) as id:
        writer, reader = engine.channel()
        call = engine.invoke("sandbox::fs::write", {"sandbox_id": id, "path": "/tmp/up", "content": reader})
        with Socket(engine.port, channel_path(writer)) as sink:
            for n in range(0, len(data), 65536):
                sink.send(data[n:n + 65536])
        assert call.result()["bytes_written"] == len(data)
        got = engine.call("sandbox::fs::read", {"sandbox_id": id, "path": "/tmp/up"})
        assert got["size"] == len(data) and got["content"]["channel_id"] in engine.channels
        with Socket(engine.port, channel_path(got["content"])) as source:
            assert hashlib.sha256(b"".join(source.rest())).digest() == hashlib.sha256(data).digest()
    assert any(m.get("function_id") == "engine::channels::create" for m in engine.of(1))


def test_an_upload_whose_channel_is_not_there(engine, worker):
    with box(engine) as id:
        ref = {"channel_id": NOBODY, "access_key": "x", "direction": "read"}
        with pytest.raises(Refused) as caught:
            engine.call("sandbox::fs::write", {"sandbox_id": id, "path": "/tmp/up", "content": ref})
        assert caught.value.s == "S218"


# ---- a connection that is lost ----


@either
def test_it_comes_back_with_its_token(engine, worker):
    old = engine.connected(1)
    with box(engine) as id:
        engine.lose(1)
        engine.registered(2)
        first, second, *_ = engine.of(2)
        assert first == {"type": "reattach", "previous_worker_id": old.id, "reattach_token": old.token}
        assert second["function_id"] == "engine::workers::register"
        assert engine.call("sandbox::exec", {"sandbox_id": id, "cmd": "echo", "args": ["still there"]})["stdout"] == "still there\n"


def test_the_connection_is_lost_at_each_message(engine, worker_of, websockets):
    """At the first, at the second, … of a connection, each with an engine of its own; every worker is whole in the end. Of the messages that
    register functions at the first, one in the middle and the last: tests/unit/test_link.c has them all."""
    some = (1, 2, 3, 4, 12, 3 + len(OURS))
    with contextlib.ExitStack() as stack:
        engines = [stack.enter_context(Engine()) for _ in some]
        for one, at in zip(engines, some):
            one.cut = lambda peer, message, at=at: peer.number == 1 and peer.count == at
        workers = [worker_of(one, name=f"cut{at}") for one, at in zip(engines, some)]
        for worker in workers:
            worker.spawned = worker.spawn()
        for one, at, worker in zip(engines, some, workers):
            peer = one.registered(2)
            assert OURS == set(peer.functions), at
            assert len(one.of(1)) == at
        for worker in workers:
            os.close(worker.spawned)
            worker.destroy()


def test_the_connection_is_lost_while_calls_are_under_way(engine, worker):
    """The answer has nobody to go to; what was called has run."""
    with box(engine) as id:
        engine.cut = lambda peer, message: peer.number == 1 and message["type"] == "invocationresult"
        call = engine.invoke("sandbox::fs::write", {"sandbox_id": id, "path": "/tmp/mark", "content": "x"})
        with pytest.raises(Refused) as caught:
            call.result()
        assert caught.value.code == "invocation_stopped"
        engine.registered(2)
        assert engine.call("sandbox::fs::stat", {"sandbox_id": id, "path": "/tmp/mark"})["size"] == 1
        assert not [m for m in engine.of(2) if m["type"] == "invocationresult" and m.get("invocation_id") == call.id]


@either
def test_sandboxes_outlive_the_engine(engine, worker):
    with box(engine) as id:
        engine.stop()
        assert worker.running()
        engine.start()
        engine.registered(2)
        assert [s["sandbox_id"] for s in engine.call("sandbox::list")["sandboxes"]] == [id]
        assert engine.call("sandbox::exec", {"sandbox_id": id, "cmd": "true"})["success"]


def test_it_waits_for_an_engine_that_comes_later(websockets, worker_of):
    engine = Engine()
    worker = worker_of(engine)
    ready = worker.spawn()
    try:
        wait_until(lambda: "connect" in worker.log() or "engine" in worker.log(), what="a first try")
        with engine:
            engine.registered()
    finally:
        os.close(ready)


# ---- other workers ----


def started(engine, worker_of, command, *args, **how):
    """A daemon that is a worker of the engine, and its API."""
    worker = worker_of(engine, args=["--engine", engine.url, "--listen", "127.0.0.1:0", *args], **how)
    worker.command = command
    worker.start()
    return worker, worker.api()


def healthy(api):
    return api.get("/health").ok()["status"] == "healthy"


def looked(engine, times=1):
    """Waits until workers have asked that many more times for the owner of the functions."""
    before = engine.looks()
    engine.wait(lambda: engine.looks() >= before + times, "a look")


@either
@pytest.mark.parametrize("command, standby, name", [("serve", False, "iii-sandbox"), ("serve", True, "another"), ("worker", False, "another")])
def test_another_worker_is_left_in_place_and_followed(engine, worker_of, command, standby, name):
    other = engine.join(name, FUNCTIONS)
    worker, api = started(engine, worker_of, command, *(["--standby"] if standby else []))
    with api:
        engine.connected(2)
        assert healthy(api)
        assert all(engine.owner(id) is other for id in FUNCTIONS)
        assert not [m for _, m in engine.frames if m["type"] == "registerfunction"]
        engine.invoke("sandbox::list")
        assert other.asked == ["sandbox::list"]
        said = [line for line in worker.log().splitlines() if "other worker" in line]
        assert len(said) == 1 and ("level=info" in said[0] if standby else "level=error" in said[0] and "CAY_ENGINE_NAMESPACE" in said[0])
        engine.leave(other)
        engine.registered()
        assert healthy(api) and "sandboxes" in engine.call("sandbox::list")


@pytest.mark.parametrize("what, code", [("iii-sandbox", WORKER_CONFLICT), ("sandbox::exec", FUNCTION_CONFLICT),
                                        ("iii-sandbox", "SOMETHING_NEW"), ("sandbox::fs::sed", "SOMETHING_NEW")])
def test_no_refusal_ends_it(engine, worker_of, what, code):
    engine.reject[what] = code
    worker, api = started(engine, worker_of, "serve")
    with api:
        engine.connected(2)
        assert healthy(api)
        assert code in worker.log() and what in worker.log()
        engine.reject.clear()
        engine.registered()
        assert healthy(api) and "sandboxes" in engine.call("sandbox::list")


@either
def test_its_other_functions_on_request_and_not_those_of_others(engine, worker_of):
    other = engine.owner("worker::list") or engine.join(OPS, ["worker::list"])
    worker, api = started(engine, worker_of, "serve", env={"CAY_ENGINE_EXTRA": "true"})
    with api:
        for n in (1, 2):
            peer = engine.registered(n)
            engine.wait(lambda: engine.owner("fs::read") is peer, "an additional function")
            assert engine.owner("worker::list") is other and OURS < set(peer.functions)
            assert "sandboxes" in engine.call("sandbox::list") and healthy(api)
            if n == 1:
                engine.stop()
                assert healthy(api)
                engine.start()
    said = [line for line in worker.log().splitlines() if "worker::list" in line]
    assert len(said) == 2, "once per connection"


def test_an_additional_function_that_is_refused(engine, worker_of):
    engine.reject["fs::read"] = FUNCTION_CONFLICT
    worker, api = started(engine, worker_of, "serve", env={"CAY_ENGINE_EXTRA": "true"})
    with api:
        peer = engine.registered()
        wait_until(lambda: "fs::read" in worker.log(), what="a line about it")
        assert "sandboxes" in engine.call("sandbox::list") and healthy(api)
        assert engine.owner("fs::write") is peer and len(engine.peers) == 1


def test_a_start_with_a_variable_of_before(engine, worker_of):
    worker = worker_of(engine, env={"CAY_ENGINE_STRICT": "true"}).start()
    assert OURS == set(engine.registered().functions)
    assert "CAY_ENGINE_EXTRA" in worker.log()


@pytest.mark.parametrize("engine", ["0.22.1"], indirect=True)
@pytest.mark.parametrize("name", ["iii-sandbox", "another"])
def test_it_registers_again_when_a_worker_that_replaced_it_has_gone(engine, worker_of, name):
    worker, api = started(engine, worker_of, "serve")
    with api:
        engine.registered(1)
        other = engine.join(name, FUNCTIONS)
        looked(engine)
        assert all(engine.owner(id) is other for id in FUNCTIONS) and healthy(api)
        engine.leave(other)
        engine.registered(1)
        assert healthy(api) and "sandboxes" in engine.call("sandbox::list")
        assert len(engine.peers) == 1


@either
def test_the_second_of_two_follows_the_first(engine, worker_of):
    first, second = worker_of(engine, name="first").start(), worker_of(engine, name="second", args=["--engine", engine.url, "--standby"])
    one = engine.registered(1)
    second.start()
    engine.connected(3)
    assert all(engine.owner(id) is one for id in OURS) and first.running() and second.running()
    first.stop()
    assert engine.registered().meta["pid"] == second.pid
    assert "sandboxes" in engine.call("sandbox::list")


# ---- ends ----


@pytest.mark.parametrize("command", ["worker", "serve"])
def test_the_end_of_the_lifeline_ends_it(engine, worker_of, command):
    """The pipe's other end is the engine's: when that is gone, there is nobody to work for."""
    read, write = os.pipe()
    worker = worker_of(engine, env={"III_LIFELINE_FD": read})
    worker.command = command
    worker.start(pass_fds=(read,))
    os.close(read)
    engine.registered()
    os.close(write)
    assert worker.ended() == 0


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(engine, worker, sig):
    """What is under way is answered or at least not half done; the connection ends with a Close, and sandboxes stay for the next start."""
    id = engine.call("sandbox::create", {"image": "host"})["sandbox_id"]
    assert worker.stop(sig) == 0
    peer = engine.connected(1)
    engine.wait(peer.gone.is_set, "the end of the connection")
    assert peer.socket.close_code in (1000, 1001)
    worker.start()
    engine.registered(2)
    assert [s["sandbox_id"] for s in engine.call("sandbox::list")["sandboxes"]] == [id]
    engine.call("sandbox::stop", {"sandbox_id": id})


def test_the_engine_can_be_named_by_the_environment(engine, worker_of):
    worker = worker_of(engine, args=[], env={"III_ENGINE_URL": engine.url})
    worker.start()
    assert engine.registered().meta["name"] == "iii-sandbox"


def test_a_daemon_can_be_a_worker_too(engine, daemon_of):
    daemon = daemon_of(args=["--engine", engine.url]).start()
    engine.registered()
    with daemon.api() as api:
        id = engine.call("sandbox::create", {"image": "host", "name": "of the engine"})["sandbox_id"]
        assert len(api.ids()) == 1
        engine.call("sandbox::stop", {"sandbox_id": id})
        wait_until(lambda: api.ids() == [])


def test_as_the_engine_starts_it(engine, worker_of, tmp_path):
    """`iii-worker sandbox-daemon --config FILE`, by a link of that name, with the flat file that the engine writes."""
    (tmp_path / "iii-worker").symlink_to(CAY)
    (tmp_path / "c.yaml").write_text("image_allowlist: [python]\nmax_concurrent_sandboxes: 3\n")
    worker = worker_of(engine, args=[], env={"III_ENGINE_URL": engine.url, "III_URL": engine.url})
    with open(worker.log_path, "ab") as log:
        worker.process = subprocess.Popen([tmp_path / "iii-worker", "sandbox-daemon", "--config", tmp_path / "c.yaml"], stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=log, env=worker.environment())
    engine.registered()
    with pytest.raises(Refused) as caught:
        engine.call("sandbox::create", {"image": "host"})
    assert caught.value.s == "S100"


def test_a_daemon_is_not_the_worker_of_itself(iii_of, wire_of):
    daemon = iii_of()
    daemon.extra["III_ENGINE_URL"] = daemon.iii_url
    daemon.start()
    wait_until(lambda: "the engine is this daemon itself" in daemon.log(), what="the end of the link")
    assert "cannot be the sandbox worker" not in daemon.log()
    assert [w["name"] for w in wire_of(daemon).call("engine::workers::list")["workers"]] == ["iii-sandbox"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "ws://", "nonsense", "ws://127.0.0.1:99999"])
def test_an_address_that_is_none(worker_of, engine, url):
    worker = worker_of(engine, args=["--engine", url])
    os.close(worker.spawn())
    assert worker.ended() == 2
    assert url in worker.log() or "--engine" in worker.log()
