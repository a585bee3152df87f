"""Listeners of the iii endpoint that have rules of their own (`rbac` of config.yaml): who is let in, and what it may do there."""

import contextlib
import http.client
import os
import threading

import pytest

from cay_harness import SLOW, wait_until
from cay_iii import *  # noqa: F401,F403 (fixtures too)
from cay_iii import CLIENTS, Closed, Program, Socket, Wire, free_port, node, node_sdk

RULES = """
workers:
  - name: iii-worker-manager
    config:
      host: {host}
      port: {port}
      {more}
      rbac:
        auth_function_id: ops::auth
        expose_functions:
          - match("demo::*")
          - metadata: {{public: true}}
"""


@pytest.fixture
def guarded_of(iii_of, tmp_path):
    """guarded_of(env=…, text=…): a daemon with a listener for all and one with rules, at daemon.guarded; not started."""
    def new(text=RULES, host="127.0.0.1", more="", **how):
        port, file = free_port(), tmp_path / "config.yaml"
        file.write_text(text.format(host=host, port=port, more=more))
        daemon = iii_of(args=["--config", str(file)], **how)
        daemon.guarded, daemon.file = port, file
        return daemon

    return new


class Operator(Wire):
    """The worker that says who may come in: {key: rules}, by the header X-Key."""

    def __init__(self, port, rules, **how):
        super().__init__(port, **how)
        self.announce()
        self.rules, self.asked, self.lock = rules, [], threading.Lock()
        self.register("ops::auth", "demo::one", "other::one")
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while True:
                call = self.take("invokefunction")
                if call["function_id"] == "ops::auth":
                    self.judge(call)
                else:
                    self.answer(call, result={"called": call["function_id"], **(call["data"] or {})})
        except Closed:
            pass

    def judge(self, call):
        self.asked.append(call["data"])
        rules = self.rules.get(call["data"]["headers"].get("x-key"))
        if rules is None:
            self.answer(call, error={"code": "invocation_failed", "message": "wrong key"})
        else:
            self.answer(call, result=rules)

    def __exit__(self, *_):
        self.socket.close()
        self.thread.join()


def enter(stack_of, port, key, **how):
    return stack_of(Wire(port, headers={"X-Key": key}, **how))


@pytest.fixture
def keep():
    """keep(x): is closed when the test is over."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context


def status_of(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30 * SLOW)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def refused_with(port, path):
    """The status of a WebSocket that does not come to be."""
    from websockets.exceptions import InvalidStatus
    with pytest.raises(InvalidStatus) as refused:
        Socket(port, path)
    return refused.value.response.status_code


def test_the_auth_function_says_who_comes_in_and_what_it_may(guarded_of, keep):
    daemon = guarded_of().start()
    rules = {"user": {"allowed_functions": ["sandbox::create", "sandbox::exec", "sandbox::stop"], "context": {"caller": "ann"}}}
    operator = keep(Operator(daemon.iii_port, rules))
    client = enter(keep, daemon.guarded, "user", path="/?a=1&a=2")
    assert operator.asked[0]["query_params"] == {"a": ["1", "2"]} and operator.asked[0]["ip_address"] == "127.0.0.1"
    assert client.call("demo::one", {"x": 1})["x"] == 1
    assert client.refused("other::one").code == "FORBIDDEN"
    assert client.refused("sandbox::list").code == "FORBIDDEN"
    assert client.refused("engine::functions::list").code == "FORBIDDEN"
    with client.box() as id:
        assert client.sh(id, "echo in") == "in\n"
    with Socket(daemon.guarded) as stranger:
        said = stranger.rest()
        assert '"AUTH_ERROR"' in said[0] and "wrong key" in said[0] and len(said) == 1
        assert stranger.closed == 1008
    with daemon.api() as api:
        entries = api.get("/audit").ok()["entries"]
    assert any(e.get("who") == "rbac:ann" for e in entries), entries


def test_nothing_else_is_served_there_without_a_token(guarded_of, keep):
    """The other faces of the daemon, which has no tokens, are open at its own ports only."""
    daemon = guarded_of().start()
    operator = keep(Operator(daemon.iii_port, {"user": {}}))
    operator.say("registertrigger", id="t", trigger_type="http", function_id="demo::one", config={"api_path": "/hello", "http_method": "GET"})
    operator.say("ping")
    wait_until(lambda: status_of(daemon.port, "/hello") == 200, what="the path")
    for path in ("/hello", "/sandbox/sandboxes", "/mcp"):
        assert status_of(daemon.guarded, path) == 401, path
    assert status_of(daemon.port, "/sandbox/sandboxes") == 200
    assert status_of(daemon.guarded, "/sandbox/health") == 200  # is open to all, with little in it
    assert refused_with(daemon.guarded, "/otel") == 401


def knock(port, address):
    """The status that a client from there gets for its WebSocket."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SLOW, source_address=(address, 0))
    try:
        connection.request("GET", "/", headers={"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                                                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="})
        return connection.getresponse().status
    finally:
        connection.close()


def test_who_knocks_too_often_does_not_keep_others_out(guarded_of):
    daemon = guarded_of(env={"CAY_RATE_LIMIT_ENABLED": "true", "CAY_RATE_TOKEN_RPM": 1, "CAY_RATE_TOKEN_BURST": 8}).start()
    assert 429 in [knock(daemon.guarded, "127.0.0.1") for _ in range(12)]
    assert knock(daemon.guarded, "127.0.0.2") == 101


def test_it_is_the_alternative_to_a_token(guarded_of, keep):
    """On a daemon that wants tokens: the operator's worker comes in by one, at the same listener, and others by its word."""
    daemon = guarded_of(env={"CAY_AUTH_TOKEN": "secret-of-the-tests"}).start()
    assert refused_with(daemon.iii_port, "/") == 401
    with Socket(daemon.guarded, token="of-somebody-else") as early:
        assert "ops::auth not found" in early.rest()[0]
    operator = keep(Operator(daemon.guarded, {"user": {}}, token="secret-of-the-tests"))
    assert operator.thread.is_alive()
    client = enter(keep, daemon.guarded, "user", token="of-somebody-else")
    assert client.call("demo::one")["called"] == "demo::one"
    assert client.refused("sandbox::list").code == "FORBIDDEN"


def test_another_address_wants_a_token_or_an_auth_function(guarded_of, keep):
    text = RULES.replace("        auth_function_id: ops::auth\n", "")
    status, log = guarded_of(text=text, host="0.0.0.0").refused()
    assert status == 1 and "config.yaml:5" in log and "can be reached from other machines" in log, log
    daemon = guarded_of(host="0.0.0.0").start()
    keep(Operator(daemon.iii_port, {"user": {}}))
    assert enter(keep, daemon.guarded, "user").call("demo::one")["called"] == "demo::one"


def test_a_daemon_that_takes_over_has_the_same_rules(guarded_of, keep):
    """Its listeners are handed on, and what waits on one of their connections is told the same."""
    daemon = guarded_of().start()
    with_operator = Operator(daemon.iii_port, {"user": {}})
    assert enter(keep, daemon.guarded, "user").call("demo::one")["called"] == "demo::one"
    idle = http.client.HTTPConnection("127.0.0.1", daemon.guarded, timeout=30 * SLOW)
    idle.request("GET", "/sandbox/sandboxes")
    assert idle.getresponse().read() and idle.sock
    local = idle.sock.getsockname()
    with_operator.__exit__()
    old, ready = daemon.process, daemon.spawn(["--replace"])
    try:
        assert os.read(ready, 100) == b"ready\n", daemon.log()[-2000:]
        assert old.wait(60 * SLOW) == 0
    finally:
        os.close(ready)
    idle.request("GET", "/sandbox/sandboxes")
    assert idle.getresponse().status == 401 and idle.sock.getsockname() == local
    idle.close()
    keep(Operator(daemon.iii_port, {"user": {}}))
    assert enter(keep, daemon.guarded, "user").call("demo::one")["called"] == "demo::one"
    with Socket(daemon.guarded) as stranger:
        assert "AUTH_ERROR" in stranger.rest()[0]


def test_a_port_that_is_taken_stops_the_start(guarded_of):
    daemon = guarded_of()
    daemon.file.write_text(daemon.file.read_text().replace(str(daemon.guarded), str(daemon.iii_port)))
    status, log = daemon.refused()
    assert status == 1 and "is taken by another program, or stands there twice" in log, log


def test_a_genuine_sdk_on_both_sides(guarded_of):
    """As its own documentation has it: auth function, middleware and hook of a worker, and a client that they are for."""
    more = "middleware_function_id: ops::middleware"
    text = RULES.replace("        expose_functions:", "        on_function_registration_function_id: ops::on-function\n        expose_functions:")
    folder = node_sdk("0.22.1")
    daemon = guarded_of(text=text, more=more).start()
    with Program([node(), CLIENTS / "node" / "rbac.mjs", folder], III_URL=daemon.iii_url,
                 III_RBAC_URL=f"ws://127.0.0.1:{daemon.guarded}") as program:
        said = program.ends()
    assert [line for line in said if line.startswith("ok ")] == ["ok middleware", "ok rules", "ok registrations"], program.trouble("steps are missing")
