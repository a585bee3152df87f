"""The Model Context Protocol, message by message: over HTTP at /mcp, and on the stdin and stdout of `cay mcp`."""

import base64
import concurrent.futures
import contextlib
import http.client
import http.server
import json
import os
import re
import select
import socket
import subprocess
import threading

import pytest

from cay_harness import CAY, SLOW, wait_until
from cay_mcp import ACCEPT, VERSION, WITHOUT_SESSIONS, Bridge, Mcp, Refused, events, notification, opening, request

pytestmark = pytest.mark.core

CONTRACT = {
    "sandbox_create", "sandbox_exec", "sandbox_run_code", "sandbox_read_file", "sandbox_write_file", "sandbox_list_files",
    "sandbox_install_package", "sandbox_list", "sandbox_kill", "sandbox_metrics", "sandbox_env_get", "sandbox_env_set",
    "sandbox_env_list", "sandbox_git_clone", "sandbox_git_status", "sandbox_git_commit", "sandbox_git_diff", "sandbox_process_list",
    "sandbox_process_kill", "sandbox_template_list", "sandbox_snapshot_create", "sandbox_snapshot_restore", "sandbox_snapshot_list",
    "sandbox_clone", "sandbox_port_expose", "sandbox_port_list", "sandbox_exec_queue", "sandbox_queue_status",
    "sandbox_events_history", "sandbox_events_publish", "sandbox_network_create", "sandbox_network_connect", "sandbox_stream_logs",
    "sandbox_traces", "sandbox_metrics_dashboard", "sandbox_set_alert", "sandbox_alert_history", "sandbox_volume_create",
    "sandbox_volume_attach"}


@pytest.fixture
def mcp(shared):
    client = Mcp(shared)
    yield client
    client.send("DELETE")[0].close()


def runs(api, box, word):
    return any(word in p["command"] for p in api.processes(box))


# ---- tools ----

def test_the_tools_of_the_contract_are_there_with_what_they_take(mcp):
    tools = {tool["name"]: tool for tool in mcp.result("tools/list")["tools"]}
    assert set(tools) == CONTRACT
    required = {name: set(tool["inputSchema"].get("required", ())) for name, tool in tools.items()}
    assert required["sandbox_exec"] == {"sandboxId", "command"}
    assert required["sandbox_set_alert"] == {"sandboxId", "metric", "threshold"}
    assert required["sandbox_volume_attach"] == {"volumeId", "sandboxId", "mountPath"}
    assert required["sandbox_create"] == required["sandbox_list"] == set()
    assert tools["sandbox_create"]["inputSchema"]["properties"]["image"]["default"] == "python:3.12-slim"
    assert tools["sandbox_read_file"]["annotations"]["readOnlyHint"]
    assert tools["sandbox_kill"]["annotations"]["destructiveHint"]
    assert all(tool["outputSchema"]["type"] == "object" for tool in tools.values())


def test_a_sandbox_from_its_making_to_its_end(mcp, api):
    made = mcp.tool("sandbox_create", image="host", name="mcp-life")
    id = made["structuredContent"]["id"]
    assert json.loads(made["content"][0]["text"])["id"] == id
    assert mcp.text("sandbox_exec", sandboxId=id, command="echo hello") == "hello\n"
    assert mcp.text("sandbox_exec", sandboxId="mcp-life", command="echo a; echo b >&2") == "STDOUT:\na\n\nSTDERR:\nb\n"
    failed = mcp.tool("sandbox_exec", sandboxId=id, command="exit 3")
    assert failed["isError"] and failed["structuredContent"]["exitCode"] == 3
    assert mcp.text("sandbox_write_file", sandboxId=id, path="/workspace/a.txt", content="text") == "Written to /workspace/a.txt"
    assert mcp.text("sandbox_read_file", sandboxId=id, path="/workspace/a.txt") == "text"
    assert [f["name"] for f in json.loads(mcp.text("sandbox_list_files", sandboxId=id))] == ["a.txt"]
    assert mcp.text("sandbox_env_set", sandboxId=id, vars={"A": "1", "B": "2"}) == "Set 2 variable(s): A, B"
    assert mcp.text("sandbox_env_get", sandboxId=id, key="A") == "A=1"
    assert mcp.text("sandbox_env_get", sandboxId=id, key="C") == "C is not set"
    assert json.loads(mcp.text("sandbox_env_list", sandboxId=id))["B"] == "2"
    assert mcp.text("sandbox_run_code", sandboxId=id, code="echo $((6 * 7))", language="bash") == "42\n"
    wrong = mcp.tool("sandbox_run_code", sandboxId=id, code="echo out; echo bad >&2; exit 1", language="bash")
    assert wrong["isError"] and wrong["content"][0]["text"].startswith("ERROR:\nbad")
    snapshot = json.loads(mcp.text("sandbox_snapshot_create", sandboxId=id, name="s"))
    assert [s["id"] for s in json.loads(mcp.text("sandbox_snapshot_list", sandboxId=id))] == [snapshot["id"]]
    assert id in [s["id"] for s in json.loads(mcp.text("sandbox_list"))]
    assert mcp.text("sandbox_stream_logs", sandboxId=id) == "(no logs)"
    assert mcp.text("sandbox_stream_logs", sandboxId=id, execId=None) == "(no logs)"  # as models say that there is none
    assert mcp.text("sandbox_kill", sandboxId=id) == f"Sandbox {id} killed"
    api.delete(f"/snapshots/{snapshot['id']}").ok()


def test_no_schema_has_words_that_models_functions_do_not(mcp):
    """What Gemini and OpenAI take to describe a function has anyOf, and neither oneOf nor references."""
    tools = mcp.result("tools/list")["tools"]
    assert not re.findall(r'"(?:oneOf|allOf|not|\$ref)":', json.dumps(tools))
    command = {tool["name"]: tool for tool in tools}["sandbox_exec"]["inputSchema"]["properties"]["command"]
    assert [form["type"] for form in command["anyOf"]] == ["string", "array"]


def test_a_command_that_fails_and_says_nothing_is_told_of(mcp, box):
    assert mcp.tool("sandbox_exec", sandboxId=box, command="exit 3")["content"] == [{"type": "text", "text": "(no output; exit code 3)"}]
    assert mcp.text("sandbox_exec", sandboxId=box, command="true") == ""


def drawn(method, returns):
    return f"class Drawing:\n def {method}(self): return {returns}\n def __repr__(self): return 'a drawing'\nDrawing()"


def test_a_picture_is_content_and_one_that_cannot_be_is_told_in_words(mcp, box):
    png = mcp.tool("sandbox_run_code", sandboxId=box, code=drawn("_repr_png_", "b'png'"))
    assert png["content"] == [{"type": "image", "data": base64.b64encode(b"png").decode(), "mimeType": "image/png"}]
    svg = mcp.tool("sandbox_run_code", sandboxId=box, code=drawn("_repr_svg_", "'<svg/>'"))
    assert svg["content"] == [{"type": "text", "text": "a drawing"}]
    assert svg["structuredContent"]["results"][0]["data"] == "<svg/>"


def test_a_refused_call_is_a_result_that_says_why(mcp):
    said = mcp.tool("sandbox_exec", sandboxId="nobody", command="true")
    assert said["isError"] and "structuredContent" not in said
    assert said["content"][0]["text"].startswith("POST /sandbox/sandboxes/nobody/exec failed: 404 {")
    assert said["_meta"]["dev.cay/error"] == {"code": "sandbox_not_found", "status": 404}
    assert mcp.tool("sandbox_exec", sandboxId="nobody")["_meta"]["dev.cay/error"]["status"] == 400
    assert mcp.ask("tools/call", name="sandbox_nope")[0]["error"]["code"] == -32602
    assert mcp.ask("nope")[0]["error"]["code"] == -32601


def test_a_choice_of_tools(shared):
    core = Mcp(shared, query="?tools=core")
    names = {tool["name"] for tool in core.result("tools/list")["tools"]}
    assert len(names) == 10 and {"sandbox_exec", "sandbox_read_file"} <= names <= CONTRACT
    assert core.ask("tools/call", name="sandbox_traces", arguments={})[0]["error"]["code"] == -32602
    few = Mcp(shared, query="?tools=sandbox_exec,sandbox_list&readOnly=true")
    assert [tool["name"] for tool in few.result("tools/list")["tools"]] == ["sandbox_list"]
    with pytest.raises(Refused, match="400"):
        Mcp(shared, query="?tools=")


def test_long_output_is_cut_and_can_be_read_on(mcp, box):
    said = mcp.tool("sandbox_exec", sandboxId=box, command="seq 1 30000")
    text = said["content"][0]["text"]
    whole = "".join(f"{n}\n" for n in range(1, 30001))
    assert len(text) < 40000 and "dev.cay/cut" in said["_meta"]
    call = re.search(r"to read on: sandbox_stream_logs (\{.*\})\]$", text)
    arguments = json.loads(call[1])
    head = whole[:arguments["cursor"]]
    assert text.startswith(head) and len(head) > 10000
    for _ in range(20):
        more = mcp.tool("sandbox_stream_logs", **arguments)
        piece = more["structuredContent"]["stdout"]
        call = re.search(r"to read on: sandbox_stream_logs (\{.*\})\]$", more["content"][0]["text"])
        if not call:
            head += piece
            break
        following = json.loads(call[1])
        head += piece[:following["cursor"] - arguments["cursor"]]
        arguments = following
    assert head == whole


def test_a_long_list_and_a_long_file_are_cut(mcp, api, box):
    api.sh(box, "mkdir /workspace/many && cd /workspace/many && seq 1 3000 | xargs touch")
    text = mcp.text("sandbox_list_files", sandboxId=box, path="/workspace/many")
    assert len(text) < 60000 and re.search(r"\[cut: .*of 3000 .*; to see the rest list one of the folders in it\]$", text)
    mcp.tool("sandbox_env_set", sandboxId=box, vars={f"V{n}": "x" * 200 for n in range(500)})
    text = mcp.text("sandbox_env_list", sandboxId=box)
    assert len(text) < 40000 and re.search(r"\[cut: vars: of \d+ the first \d+ are shown; to see the rest use sandbox_env_get\]$", text)
    api.write(box, "/workspace/long.txt", "xé" * 25000)
    arguments, whole = {"sandboxId": box, "path": "/workspace/long.txt"}, ""
    for _ in range(5):
        text = mcp.text("sandbox_read_file", **arguments)
        call = re.search(r"\n\[cut: .* are shown; to read on: sandbox_read_file (\{.*\})\]$", text)
        whole += text[:call.start()] if call else text
        assert len(text) < 40000
        if not call:
            break
        arguments = json.loads(call[1])
    assert whole == "xé" * 25000


# ---- resources and prompts ----

def test_sandboxes_and_files_are_resources(mcp, api, box):
    assert f"sandbox://{box}" in [r["uri"] for r in mcp.result("resources/list")["resources"]]
    assert len(mcp.result("resources/templates/list")["resourceTemplates"]) == 2
    api.write(box, "/workspace/a b.txt", "hello")
    api.upload(box, "/workspace/bin", bytes(range(256)))

    def read(uri):
        return mcp.result("resources/read", uri=uri)["contents"][0]

    assert json.loads(read(f"sandbox://{box}")["text"])["id"] == box
    assert read(f"sandbox://{box}/workspace/a%20b.txt")["text"] == "hello"
    assert base64.b64decode(read(f"sandbox://{box}/workspace/bin")["blob"]) == bytes(range(256))
    assert {f["name"] for f in json.loads(read(f"sandbox://{box}/workspace")["text"])} == {"a b.txt", "bin"}
    for uri in (f"sandbox://{box}/nope", "sandbox://nobody/a", "file:///etc/passwd", f"sandbox://{box}/%zz"):
        assert mcp.ask("resources/read", uri=uri)[0]["error"]["code"] == -32002
    api.write(box, "/workspace/long", "x" * 100000)
    text, cut = mcp.result("resources/read", uri=f"sandbox://{box}/workspace/long")["contents"]
    assert text["text"] == "x" * 32768 and "of 100000 bytes 32768 are shown" in cut["text"]


def test_who_has_subscribed_hears_of_changes(mcp, api, box):
    api.write(box, "/workspace/watched", "1")
    file, whole = (notification("notifications/resources/updated", uri=uri)
                   for uri in (f"sandbox://{box}/workspace/watched", f"sandbox://{box}"))
    for said in (file, whole):
        mcp.result("resources/subscribe", uri=said["params"]["uri"])
    connection, stream = mcp.send("GET")
    heard = events(stream)
    api.write(box, "/workspace/watched", "2")
    assert file in heard  # more than once: when it is watched, made and written; word of the box's making may come first
    api.post(f"/sandboxes/{box}/pause").ok()
    assert whole in heard
    api.post(f"/sandboxes/{box}/resume").ok()
    mcp.result("resources/unsubscribe", uri=f"sandbox://{box}/workspace/watched")
    assert mcp.ask("resources/subscribe", uri=f"sandbox://{box}/workspace/nope")[0]["error"]["code"] == -32002
    response_closed(connection, stream)


def response_closed(connection, stream):
    stream.close()
    connection.close()


def test_prompts_and_completion(mcp, api, box):
    names = {p["name"]: p for p in mcp.result("prompts/list")["prompts"]}
    assert "run-in-sandbox" in names
    said = mcp.result("prompts/get", name="run-in-sandbox", arguments={"task": "count to three"})
    assert "count to three" in said["messages"][0]["content"]["text"] and "{image}" not in said["messages"][0]["content"]["text"]
    assert mcp.ask("prompts/get", name="run-in-sandbox")[0]["error"]["code"] == -32602
    assert mcp.ask("prompts/get", name="nope")[0]["error"]["code"] == -32602
    file = {"type": "ref/resource", "uri": "sandbox://{sandboxId}/{+path}"}
    ids = mcp.result("completion/complete", ref=file, argument={"name": "sandboxId", "value": box[:12]})
    assert ids["completion"]["values"] == [box]
    paths = mcp.result("completion/complete", ref=file, argument={"name": "path", "value": "works"}, context={"arguments": {"sandboxId": box}})
    assert paths["completion"]["values"] == ["workspace"]


# ---- long work ----

def waiting(box, id, token):
    """A call whose command waits for the file /tmp/go."""
    return request(id, "tools/call", name="sandbox_exec", _meta={"progressToken": token},
                   arguments={"sandboxId": box, "command": "echo 1; until [ -e /tmp/go ]; do sleep 0.02; done"})


def test_progress_of_a_command(mcp, api, box):
    connection, response = mcp.send("POST", waiting(box, "p1", "mine"))
    with contextlib.closing(connection):
        messages = events(response)
        told = [next(messages) for _ in range(2)]  # while the command runs
        api.sh(box, "touch /tmp/go")
        *more, answer = messages
    assert answer["id"] == "p1" and not answer["result"]["isError"]
    told = [m["params"] for m in told + more if m["method"] == "notifications/progress"]
    assert len(told) >= 2 and all(p["progressToken"] == "mine" for p in told)
    assert [p["progress"] for p in told] == sorted({p["progress"] for p in told})


def test_code_whose_progress_is_told_has_its_output_all_the_same(mcp, box):
    answer, ahead = mcp.ask("tools/call", name="sandbox_run_code", _meta={"progressToken": 7},
                            arguments={"sandboxId": box, "code": "import sys\nprint('out')\nprint('bad', file=sys.stderr)\n6 * 7"})
    told, said = [m["params"]["message"] for m in ahead], answer["result"]
    assert "out" in told and said["content"][0]["text"] == "out\n\n42"
    assert said["structuredContent"]["output"] == "out\n" and said["structuredContent"]["stderr"] == "bad\n"
    assert [result["data"] for result in said["structuredContent"]["results"]] == ["42"]


def test_what_comes_back_with_every_message_is_short(mcp, api, box):
    with pytest.raises(Refused, match="400"):
        mcp.post(request("a" * 1025, "ping"))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        long = pool.submit(mcp.post, waiting(box, "p1", "a" * 1025))
        wait_until(lambda: runs(api, box, "/tmp/go"), what="the command")
        connection, response = mcp.send("POST", waiting(box, "p2", "a" * 1024))
        with contextlib.closing(connection):
            # The progress of a call that began later: that of the first would have been told by then.
            assert next(events(response))["params"]["progressToken"] == "a" * 1024
            api.sh(box, "touch /tmp/go")
            said, = long.result()[1]
            assert said["id"] == "p1" and said["result"]["content"][0]["text"] == "1\n"
            *_, last = events(response)
            assert last["result"]["content"][0]["text"] == "1\n"


def wait_in(mcp, box, word, id):
    """A call that waits, in a thread: when it ends, what came of it."""
    ended = []

    def call():
        ended.append(mcp.post(request(id, "tools/call", name="sandbox_exec", arguments={"sandboxId": box, "command": word})))

    thread = threading.Thread(target=call)
    thread.start()
    return thread, ended


def test_a_cancel_ends_the_command_inside(mcp, api, box):
    thread, ended = wait_in(mcp, box, "sleep 12345", "c1")
    wait_until(lambda: runs(api, box, "sleep 12345"))
    mcp.post(notification("notifications/cancelled", requestId="c1", reason="enough"))
    thread.join()
    assert ended[0][1] == []  # no answer
    wait_until(lambda: not runs(api, box, "sleep 12345"))


@pytest.mark.parametrize("sessions", [True, False])
def test_hanging_up_ends_the_command_inside(shared, mcp, api, box, sessions):
    message = request(1, "tools/call", name="sandbox_exec", arguments={"sandboxId": box, "command": "sleep 12346"})
    headers = {}
    if not sessions:
        message["params"]["_meta"] = {"io.modelcontextprotocol/protocolVersion": WITHOUT_SESSIONS,
                                      "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 1}
        headers = {"MCP-Protocol-Version": WITHOUT_SESSIONS, "Mcp-Method": "tools/call", "Mcp-Name": "sandbox_exec"}
    else:
        message["params"]["_meta"] = {"progressToken": 1}
    connection, response = mcp.send("POST", message, **headers)  # its head comes with the first word of progress
    assert next(events(response))["method"] == "notifications/progress"
    wait_until(lambda: runs(api, box, "sleep 12346"))
    response.close()
    connection.close()
    wait_until(lambda: not runs(api, box, "sleep 12346"))


def test_the_end_of_a_session_ends_its_commands_and_its_stream(mcp, api, box):
    connection, stream = mcp.send("GET")
    thread, ended = wait_in(mcp, box, "sleep 12347", 5)
    wait_until(lambda: runs(api, box, "sleep 12347"))
    assert mcp.send("DELETE")[1].status == 204
    assert list(events(stream)) == []
    connection.close()
    thread.join()
    wait_until(lambda: not runs(api, box, "sleep 12347"))
    with pytest.raises(Refused, match="404"):
        mcp.result("ping")


# ---- who may ----

def test_pages_of_others_and_names_of_others_are_refused(shared, mcp):
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        with pytest.raises(Refused, match="403"):
            mcp.post(request(1, "ping"), **headers)
    with pytest.raises(Refused, match="415"):
        mcp.post(request(1, "ping"), **{"Content-Type": "text/plain"})


def test_tokens_decide_what_is_seen(daemon_of):
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": "admin-secret"}).start()
    with pytest.raises(Refused, match="401"):
        Mcp(daemon)
    with pytest.raises(Refused, match="403"):
        Mcp(daemon, token="wrong")
    admin = Mcp(daemon, token="admin-secret")
    assert len(admin.result("tools/list")["tools"]) == 39
    with daemon.api() as api:
        mine, other = api.create()["id"], api.create()["id"]
        token = api.post("/tokens", {"name": "one", "scopes": ["read", "exec"], "sandboxId": mine}).ok()
        guest = Mcp(daemon, token=token["token"])
        names = {tool["name"] for tool in guest.result("tools/list")["tools"]}
        assert "sandbox_exec" in names and not names & {"sandbox_create", "sandbox_kill", "sandbox_volume_create", "sandbox_write_file"}
        assert guest.text("sandbox_exec", sandboxId=mine, command="echo mine") == "mine\n"
        assert guest.tool("sandbox_exec", sandboxId=other, command="true")["_meta"]["dev.cay/error"]["status"] == 404
        assert [s["id"] for s in json.loads(guest.text("sandbox_list"))] == [mine]
        assert guest.ask("tools/call", name="sandbox_kill", arguments={"sandboxId": mine})[0]["error"]["code"] == -32602
        thief = Mcp(daemon, token=token["token"])
        thief.session = admin.session  # which is not its own
        with pytest.raises(Refused, match="404"):
            thief.result("ping")
        connection, stream = guest.send("GET")
        thread, ended = wait_in(guest, mine, "sleep 12348", 9)
        wait_until(lambda: runs(api, mine, "sleep 12348"))
        api.delete(f"/tokens/{token['id']}").ok()
        thread.join()  # the call ends with its token, and so does the stream
        assert list(events(stream)) == []
        connection.close()
        wait_until(lambda: not runs(api, mine, "sleep 12348"))
        lines = api.get("/audit?limit=200").ok()["entries"]
        assert any(e.get("face") == "mcp" and e["function"] == "cmd::run" for e in lines)
        traces = api.get("/observability/traces?limit=200").ok()["traces"]
        assert any(t["face"] == "mcp" and t["functionId"] == "cmd::run" for t in traces)


def listening(daemon, token, uris):
    """What is acknowledged of them to a request that listens, and the connection that it goes on at."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30 * SLOW)
    meta = {"io.modelcontextprotocol/protocolVersion": WITHOUT_SESSIONS, "io.modelcontextprotocol/clientCapabilities": {}}
    message = request(1, "subscriptions/listen", notifications={"resourceSubscriptions": uris}, _meta=meta)
    connection.request("POST", "/mcp", json.dumps(message), {
        "Content-Type": "application/json", "Accept": ACCEPT, "Authorization": f"Bearer {token}",
        "MCP-Protocol-Version": WITHOUT_SESSIONS, "Mcp-Method": "subscriptions/listen"})
    first = next(events(connection.getresponse()))
    return len(first["params"]["notifications"].get("resourceSubscriptions", ())), connection


def test_a_stream_ends_with_its_token(daemon_of):
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": "admin-secret"}).start()
    with daemon.api() as api:
        token = api.post("/tokens", {"name": "one", "scopes": ["read"]}).ok()
        connection, stream = Mcp(daemon, token=token["token"]).send("GET")
        assert stream.readline() == b"retry: 1000\n"
        api.delete(f"/tokens/{token['id']}").ok()
        stream.read()
        connection.close()


def test_a_token_leaves_places_to_others(daemon_of):
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": "admin-secret", "CAY_MCP_SESSIONS": 4}).start()
    with daemon.api() as api, contextlib.ExitStack() as open_ones:
        box = api.create()["id"]
        token = api.post("/tokens", {"name": "one", "scopes": ["read"], "sandboxId": box}).ok()["token"]
        for _ in range(2):
            open_ones.callback(response_closed, *Mcp(daemon, token=token).send("GET"))
        with pytest.raises(Refused, match="503"):
            Mcp(daemon, token=token)
        got = []
        for _ in range(10):
            n, connection = listening(daemon, token, [f"sandbox://{box}"] * 64)
            open_ones.callback(connection.close)
            got.append(n)
        assert got == [64] * 8 + [0] * 2
        admin = Mcp(daemon, token="admin-secret")
        assert admin.result("resources/subscribe", uri=f"sandbox://{box}") == {}
        api.remove(box)


def test_switched_off_there_is_none(daemon_of):
    daemon = daemon_of(env={"CAY_MCP": "false"}).start()
    with pytest.raises(Refused, match="404"):
        Mcp(daemon)


# ---- daemons come and go ----

def test_a_session_is_unknown_to_the_next_daemon(own):
    client = Mcp(own, unix=True)
    own.kill9()
    own.start()
    with pytest.raises(Refused) as refused:
        client.result("tools/list")
    assert refused.value.status == 404 and refused.value.body["error"]["code"] == -32001
    assert len(Mcp(own, unix=True).result("tools/list")["tools"]) == 39


def test_the_bridge_outlives_the_daemon(own):
    with own.api() as api:
        box = api.create()["id"]
        with Bridge(own) as bridge:
            bridge.begin()
            assert bridge.tool(1, "sandbox_exec", sandboxId=box, command="echo one")["result"]["content"][0]["text"] == "one\n"
            bridge.say(request(2, "tools/call", name="sandbox_exec", arguments={"sandboxId": box, "command": "sleep 12349"}))
            wait_until(lambda: runs(api, box, "sleep 12349"))
            own.kill9()
            lost = bridge.hear()
            assert lost["id"] == 2 and "not known" in lost["error"]["message"]
            own.start()
            again = bridge.tool(3, "sandbox_exec", sandboxId=box, command="echo two")
            assert again["result"]["content"][0]["text"] == "two\n"


class Forgetful(http.server.BaseHTTPRequestHandler):
    """No daemon: it has forgotten the session, and says in turn what it was told to say to initialize."""

    def do_GET(self):
        self.send_error(405)

    do_DELETE = do_GET

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, said = 404, b"\xe4" * 500
        if message["method"] == "initialize":
            status, said = self.server.turns.pop(0)()
        elif message["method"] == "bad":
            status = 500
        elif self.headers["Mcp-Session-Id"] == "second":
            status, said = 200, json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": {}}).encode()
        elif "id" not in message:
            status, said = 202, b""
        self.send_response(status)
        if message["method"] == "initialize" and status == 200:
            self.send_header("Mcp-Session-Id", self.server.names.pop(0))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def forgetful(*turns):
    """A bridge to one that answers to initialize with what these give; its sessions are called first and second."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forgetful)
    server.turns, server.names = list(turns), ["first", "second"]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with Bridge(env={"CAY_HOST": f"127.0.0.1:{server.server_port}"}) as bridge:
            bridge.begin()
            yield bridge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def opens():
    return 200, json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": VERSION}}).encode()


def test_the_bridge_answers_when_no_session_can_be_had_and_tries_again():
    with forgetful(opens, lambda: (503, b"\xe4" * 500), opens) as bridge:
        assert "gives no other" in bridge.ask(request(1, "tools/list"))["error"]["message"]
        assert bridge.ask(request(2, "tools/list"))["result"] == {}
        assert "refused it (500)" in bridge.ask(request(3, "bad"))["error"]["message"]


def test_what_comes_while_the_bridge_begins_a_session_anew_is_answered_too():
    begins, goes_on = threading.Event(), threading.Event()

    def opens_slowly():
        begins.set()
        goes_on.wait(30 * SLOW)
        return opens()

    with forgetful(opens, opens_slowly) as bridge:
        bridge.say(request(1, "tools/list"))
        assert begins.wait(30 * SLOW)
        bridge.say(request(2, "tools/list"))
        bridge.process.stdin.write("{no json\n")  # is answered at once, and so after the line before it was read
        assert bridge.ask(request(3, "nope"))["error"]["code"] == -32700
        assert bridge.lines.empty()  # the others wait for the session
        goes_on.set()
        assert [bridge.hear()["result"] for _ in range(3)] == [{}, {}, {}]


def test_the_bridge_ends_with_its_client_while_no_daemon_is_there(own):
    with Bridge(own) as bridge:
        bridge.begin()
        own.stop()
        bridge.say(request(1, "tools/list"))
        bridge.say(notification("notifications/roots/list_changed"))
    # It ended before it had given the daemon up, which it would have told of both.
    assert bridge.lines.empty(), bridge.lines.get()


def test_the_bridge_cancels_and_has_several_at_once(shared, api, box):
    with Bridge(shared) as bridge:
        bridge.begin()
        bridge.say(request("long", "tools/call", name="sandbox_exec", arguments={"sandboxId": box, "command": "sleep 12350"}))
        wait_until(lambda: runs(api, box, "sleep 12350"))
        assert bridge.ask(request(2, "ping"))["id"] == 2  # beside it
        bridge.say(notification("notifications/cancelled", requestId="long"))
        wait_until(lambda: not runs(api, box, "sleep 12350"))
        assert bridge.ask(request(3, "ping"))["id"] == 3  # and no answer of the other came first
        bridge.process.stdin.write("{no json\n")
        assert bridge.ask(request(4, "nope"))["error"]["code"] == -32700
        assert bridge.hear()["error"]["code"] == -32601


def test_the_bridge_has_a_daemon_of_its_own_when_there_is_none(tmp_path):
    with Bridge(None, "--tools", "core", env={"CAY_RUN": str(tmp_path), "CAY_REST_PORT": "1", "CAY_NETWORK": "false"}) as bridge:
        bridge.begin("2024-11-05")
        made = bridge.tool(1, "sandbox_create")  # what it would pull would be gone with it
        id = json.loads(made["result"]["content"][0]["text"])["id"]
        assert bridge.tool(2, "sandbox_exec", sandboxId=id, command="echo alone")["result"]["content"][0]["text"] == "alone\n"
        assert len(bridge.ask(request(3, "tools/list"))["result"]["tools"]) == 10


def test_the_bridge_passes_what_a_command_puts_out(shared, box):
    with Bridge(shared) as bridge:
        bridge.begin()
        said = bridge.ask(request(1, "tools/call", name="sandbox_exec", _meta={"progressToken": 1},
                                  arguments={"sandboxId": box, "command": r"printf 'a\0b'"}))
        while "method" in said:
            said = bridge.hear()
        assert said["result"]["structuredContent"]["stdout"] == "a\0b"


def test_the_bridge_waits_for_pipes_that_do_not_block(shared):
    """Some programs leave them so. Answers to 20 lists of tools are more than a pipe holds."""
    (stdin, tell), (hear, stdout) = os.pipe(), os.pipe()
    for end in (stdin, stdout):
        os.set_blocking(end, False)
    with subprocess.Popen([CAY, "mcp"], stdin=stdin, stdout=stdout, env={"CAY_HOST": f"unix:{shared.socket_path}"}) as bridge:
        os.close(stdin)
        with open(hear) as said, open(tell, "w") as say:
            say.write(json.dumps(opening()) + "\n")
            say.flush()
            assert json.loads(said.readline())["id"] == 0
            say.write("".join(json.dumps(request(n, "tools/list")) + "\n" for n in range(1, 21)))
            say.flush()
            room = select.poll()
            room.register(stdout, select.POLLOUT)
            wait_until(lambda: not room.poll(0), 60, what="the pipe to be full")
            os.close(stdout)
            answers = [json.loads(said.readline()) for _ in range(20)]
            say.close()
            assert said.read() == ""
    assert bridge.returncode == 0
    assert {answer["id"] for answer in answers} == set(range(1, 21))


DEEP = b'{"error": {"a": ' + b"[" * 2040 + b"]" * 2040 + b"}}"


@pytest.mark.parametrize("status, body", [
    (b"502 Bad", b"<p>\xe9"), (b"500 No", DEEP), (b"200 OK", b"<p>\nlog in"), (b"307 There", b""), (b"200 OK", b'{"id":\n1}')])
def test_the_bridge_bears_what_is_no_daemon(status, body):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(b"HTTP/1.1 %s\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: %d\r\n\r\n%s"
                                           % (status, len(body), body))

        thread = threading.Thread(target=answer)
        thread.start()
        said = subprocess.run([CAY, "mcp"], input=json.dumps(request(1, "ping")), capture_output=True, text=True, timeout=30 * SLOW,
                              env={"CAY_HOST": f"http://127.0.0.1:{listener.getsockname()[1]}"})
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert said.returncode == 0
    assert re.fullmatch(r'{.*"id": ?1\b.*}\n', said.stdout)


# ---- many ----

def test_fifty_clients_at_once(shared, box):
    def use(n):
        client = Mcp(shared)
        said = [client.text("sandbox_exec", sandboxId=box, command=f"echo {n}-{i}") for i in range(3)]
        client.send("DELETE")[0].close()
        return said

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        assert list(pool.map(use, range(50))) == [[f"{n}-{i}\n" for i in range(3)] for n in range(50)]
