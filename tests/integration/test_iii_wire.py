"""The iii endpoint frame by frame: what it takes, what it answers, and what it lets pass without a word."""

import contextlib
import hashlib
import json
import os
import socket
import threading
import time
import uuid

import pytest

from cay_harness import rss_kib, wait_until
from cay_iii import *  # noqa: F401,F403 (fixtures too)
from cay_iii import NOBODY, PATIENCE, UUID, Closed, Refused, Socket, Wire, channel_path

pytestmark = pytest.mark.core

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MESSAGE_MAX = 16 << 20


@pytest.fixture(autouse=True)
def nothing_left_behind(nothing_left_in_the_end):
    """Looked at once, for the whole file."""


def fresh(word="cay.wire"):
    """An id that no other test has."""
    return f"{word}::{uuid.uuid4().hex[:12]}"


# ---- the listener ----


def upgrade(served, path, **headers):
    """The status line of a request to upgrade."""
    lines = {"Host": f"127.0.0.1:{served.iii_port}", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers}
    with socket.create_connection(("127.0.0.1", served.iii_port), timeout=PATIENCE) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\n".encode() + b"".join(f"{k}: {v}\r\n".encode() for k, v in lines.items() if v) + b"\r\n")
        return s.recv(65536).split(b"\r\n")[0].decode()


def test_paths(served):
    for path, status in (("/", 101), ("/otel", 101), ("/?x=1", 101), ("/other", 404), ("/ws/channels/", 404),
                         ("/ws/channels/nobody?key=x&dir=read", 404), (f"/ws/channels/{NOBODY}?key=x&dir=read", 404)):
        assert upgrade(served, path).split()[1] == str(status), path


def test_a_request_that_is_no_upgrade_is_refused(served):
    assert upgrade(served, "/", Upgrade=None, Connection=None).split()[1] in ("400", "404", "405", "426")


def test_an_offer_of_compression_is_not_taken(served):
    with Socket(served.iii_port, compression="deflate") as s:
        assert json.loads(s.receive())["type"] == "workerregistered"


# ---- frames ----


def test_who_connects_is_told_its_id_and_a_token(connect):
    a, b = connect(), connect()
    assert UUID.fullmatch(a.id) and UUID.fullmatch(a.token)
    assert len({a.id, a.token, b.id, b.token}) == 4


FRAMES = [
    "", "  \n", "{", "nonsense", "[]", "1", "null", '"text"', "{}", '{"type": 5}', '{"type": "nonesuch"}', '{"type": null}',
    '{"type": "invokefunction"}', '{"type": "registerfunction"}', '{"type": "registerfunction", "id": 5}', '{"type": "invocationresult"}',
    '{"type": "invocationresult", "invocation_id": "x"}', '{"type": "invocationresult", "invocation_id": "%s"}' % NOBODY,
    '{"type": "unregisterfunction", "id": "nobody::has"}', '{"type": "unregistertriggertype", "id": "x", "description": "y"}',
    '{"type": "unregistertrigger", "id": "x"}', '{"type": "registerservice", "id": "x"}', '{"type": "reattach"}',
    '{"type": "reattach", "previous_worker_id": "x"}', '{"type": "triggerregistrationresult", "id": "x"}', '{"type": "pong"}',
    '{"type": "invokefunction", "function_id": "sandbox::list", "data": {}}', '{"type": "registertrigger"}',
    '{"type": "registertriggertype", "id": "cay.wire.type", "description": "x", "stray": 1}',
    b"", b"OTLP{}", b"MTRC{", b"LOGS\xff\xfe", b"\xff\0\1", b"{", b"OTL", "[" * 100000, '{"type":' * 50000]


def test_what_cannot_be_used_is_passed_over(wire):
    """All on one connection, which goes on."""
    for frame in FRAMES:
        wire.send(frame)
        assert wire.settle() == [], repr(frame[:40])
    assert "sandboxes" in wire.call("sandbox::list")


def test_a_trigger_is_refused_with_a_word_about_the_engine(connect):
    wire = connect()
    for kind in ("cron", "durable:subscriber", "nobody.provides"):
        id = str(uuid.uuid4())
        wire.say("registertrigger", id=id, trigger_type=kind, function_id="x::y", config={}, message_type="registertrigger")
        said = wire.take("triggerregistrationresult")
        assert (said["id"], said["trigger_type"], said["function_id"]) == (id, kind, "x::y")
        assert said["error"]["code"] == "trigger_registration_failed" and "genuine iii engine" in said["error"]["message"]
    assert wire.settle() == []


def test_what_only_an_engine_serves_is_logged_once_per_connection(iii_of, wire_of):
    daemon = iii_of().start()
    wire = wire_of(daemon).announce()
    for _ in range(20):
        wire.say("registertriggertype", id="x", description="y")
        wire.say("nonesuch")
    wire.settle()
    log = daemon.log()
    assert log.count("uses triggers") == 1 and log.count("unknown type") == 1


def test_unknown_fields_are_passed_over(wire):
    id = wire.invoke("sandbox::list", {"_caller_worker_id": "x", "more": [1]}, stray={"a": 1}, message_type="x")
    assert "sandboxes" in wire.result(id)


def test_a_binary_frame_of_json_is_a_message(wire):
    id = str(uuid.uuid4())
    wire.send(json.dumps({"type": "invokefunction", "invocation_id": id, "function_id": "sandbox::list", "data": {}}).encode())
    assert "sandboxes" in wire.result(id)


def test_telemetry_has_a_socket_of_its_own_that_never_answers(served, wire):
    before = len(wire.call("engine::workers::list")["workers"])
    with Socket(served.iii_port, "/otel") as s:
        for frame in (b'OTLP{"resourceSpans":[]}', b"MTRC{}", b"LOGS{}", b"", "text", '{"type":"ping"}', b"\0" * 300000):
            s.send(frame)
        assert s.socket.ping(b"still there").wait(PATIENCE)
        with pytest.raises(TimeoutError):
            s.receive(timeout=0)
        assert len(wire.call("engine::workers::list")["workers"]) == before


def test_pings(wire):
    assert wire.socket.ping(b"payload").wait(PATIENCE)
    wire.say("ping")
    assert wire.receive_json() == {"type": "pong"}


def test_messages_in_pieces(wire):
    id = str(uuid.uuid4())
    text = json.dumps({"type": "invokefunction", "invocation_id": id, "function_id": "sandbox::list", "data": {"pad": "ü" * 5000}}, ensure_ascii=False)
    wire.send(text[n:n + 1000] for n in range(0, len(text), 1000))
    assert "sandboxes" in wire.result(id)


def test_the_other_side_ends_a_connection_in_order(connect):
    wire = connect()
    wire.socket.close(1000, "done")
    assert wire.socket.protocol.close_rcvd.code == 1000


# ---- calls ----


def test_a_call_without_data_is_answered(wire):
    """A genuine engine drops it, and its caller waits in vain."""
    id = str(uuid.uuid4())
    wire.say("invokefunction", invocation_id=id, function_id="sandbox::list")
    with contextlib.suppress(Refused):
        assert "sandboxes" in wire.result(id)


def test_an_id_that_is_no_uuid_is_not_answered(wire):
    wire.say("invokefunction", invocation_id="no-uuid", function_id="sandbox::list", data={})
    wire.call("sandbox::list")
    assert wire.settle() == []


def test_an_unknown_function(wire):
    error = wire.refused("nobody::has-this", {})
    assert error.code == "function_not_found" and "nobody::has-this" in error.message


def test_calls_of_one_connection_run_side_by_side(wire):
    """The slow one was first and is answered last."""
    with wire.box() as id:
        slow = wire.invoke("sandbox::exec", {"sandbox_id": id, "argv": ["sh", "-c", "while [ ! -e /tmp/go ]; do sleep 0.02; done"]})
        assert wire.exec(id, "touch", "/tmp/go")["exit_code"] == 0
        assert wire.result(slow)["exit_code"] == 0


def test_void_calls_are_not_answered(wire):
    for fields in ({"invocation_id": str(uuid.uuid4())}, {}):
        for function in ("sandbox::list", "nobody::has-this"):
            wire.say("invokefunction", function_id=function, data={}, action={"type": "void"}, **fields)
    wire.say("invokefunction", function_id="sandbox::list", data={})
    wire.call("sandbox::list")
    assert wire.settle() == []


@pytest.fixture
def owner(connect):
    """A client with one function: owner.function."""
    wire = connect().announce()
    wire.function = fresh()
    wire.register(wire.function)
    return wire


def test_a_function_of_another_client(owner, wire):
    data = {"x": [1, {"y": None}], "text": "ü\U0001f600"}
    id = wire.invoke(owner.function, data, traceparent=TRACE, baggage="a=b", metadata={"tenant": 1})
    call = owner.take("invokefunction")
    assert UUID.fullmatch(call["invocation_id"]) and call["function_id"] == owner.function
    assert call["data"] == {**data, "_caller_worker_id": wire.id}
    assert call["traceparent"] == TRACE and "a=b" in call["baggage"] and call["metadata"] == {"tenant": 1}
    assert not {"action", "namespace"} & {key for key, value in call.items() if value is not None}
    owner.answer(call, result={"sum": 5}, traceparent=TRACE, baggage="a=c")
    got = wire.take("invocationresult", invocation_id=id)
    assert got["result"] == {"sum": 5} and got.get("error") is None and got["function_id"] == owner.function
    assert got["traceparent"] == TRACE and got["baggage"]


def test_data_that_is_no_object_goes_through_as_it_is(owner, wire):
    for data in (None, 5, "text", [1, 2], True):
        id = str(uuid.uuid4())
        wire.say("invokefunction", invocation_id=id, function_id=owner.function, data=data)
        call = owner.take("invokefunction")
        assert call.get("data") == data
        owner.answer(call, result=data)
        assert wire.result(id) == data


def test_errors_go_through_and_win(owner, wire):
    id = wire.invoke(owner.function)
    call = owner.take("invokefunction")
    owner.answer({**call, "function_id": "something::else"}, result={"x": 1}, error={"code": "mine", "message": "no", "stacktrace": "at x"})
    got = wire.take("invocationresult", invocation_id=id)
    assert got["error"] == {"code": "mine", "message": "no", "stacktrace": "at x"} and got.get("result") is None


def test_answers_to_nothing_and_second_answers_are_dropped(owner, wire):
    id = wire.invoke(owner.function)
    call = owner.take("invokefunction")
    owner.say("invocationresult", invocation_id=str(uuid.uuid4()), function_id=owner.function, result="stray")
    wire.say("invocationresult", invocation_id=call["invocation_id"], function_id=owner.function, result="not its own")
    wire.settle()
    owner.answer(call, result="first")
    owner.answer(call, result="second")
    owner.settle()
    assert wire.result(id) == "first"
    assert wire.settle() == [] and owner.settle() == []


def test_callers_choose_ids_and_may_choose_the_same(owner, connect):
    a, b = connect(), connect()
    id = str(uuid.uuid4())
    for wire, word in ((a, "a"), (b, "b")):
        wire.invoke(owner.function, {"word": word}, invocation_id=id)
    calls = [owner.take("invokefunction") for _ in "ab"]
    assert calls[0]["invocation_id"] != calls[1]["invocation_id"]
    for call in reversed(calls):
        owner.answer(call, result=call["data"]["word"])
    assert (a.result(id), b.result(id)) == ("a", "b")


def test_void_calls_reach_their_function(owner, wire):
    wire.say("invokefunction", function_id=owner.function, data={"n": 1}, action={"type": "void"})
    call = owner.take("invokefunction")
    assert UUID.fullmatch(call["invocation_id"]) and call["data"]["n"] == 1
    owner.answer(call, result="nobody wants it")
    owner.settle()
    assert wire.settle() == []


def test_a_client_may_call_a_function_of_its_own(owner):
    id = owner.invoke(owner.function, {"n": 1})
    owner.answer(owner.take("invokefunction"), result="by myself")
    assert owner.result(id) == "by myself"


@pytest.mark.parametrize("how", ["close", "drop"])
def test_the_owner_goes_while_it_is_called(connect, wire, how):
    owner = connect().announce()
    function = fresh()
    owner.register(function)
    ids = [wire.invoke(function) for _ in range(3)]
    for _ in ids:
        owner.take("invokefunction")
    getattr(owner, how)()
    for id in ids:
        with pytest.raises(Refused) as caught:
            wire.result(id)
        assert caught.value.code == "invocation_stopped"
    assert wire.refused(function).code == "function_not_found"


def test_the_caller_goes_before_its_answer(owner, connect):
    caller = connect()
    caller.invoke(owner.function)
    call = owner.take("invokefunction")
    caller.drop()
    owner.answer(call, result="too late")
    assert owner.settle() == []


def test_a_function_that_is_taken_back(owner, wire):
    owner.say("unregisterfunction", id=owner.function)
    owner.settle()
    assert wire.refused(owner.function).code == "function_not_found"


def test_enqueue_is_refused_and_nothing_is_called(owner, wire):
    error = wire.refused(owner.function, {"job": 1}, action={"type": "enqueue", "queue": "jobs"})
    assert error.code == "enqueue_error" and "genuine iii engine" in error.message
    assert owner.settle() == []


# ---- names, namespaces, conflicts ----


def test_a_function_that_somebody_has_stays_his(owner, connect):
    other = connect().announce()
    said = other.register(owner.function)
    assert [m["type"] for m in said] == ["registrationrejected"]
    assert (said[0]["code"], said[0]["function_id"], said[0]["owner_worker_id"], said[0]["namespace"]) == \
        ("FUNCTION_NAMESPACE_CONFLICT", owner.function, owner.id, "default")
    id = other.invoke(owner.function)
    owner.answer(owner.take("invokefunction"), result="still mine")
    assert other.result(id) == "still mine"


def test_the_same_client_may_register_again(owner, wire):
    assert owner.register(owner.function, description="now with words") == []
    assert wire.call("engine::functions::info", {"function_id": owner.function})["description"] == "now with words"


def test_what_its_owner_has_left_is_free(connect, wire):
    first, second, function = connect().announce(), connect().announce(), fresh()
    first.register(function)
    assert second.register(function)[0]["code"] == "FUNCTION_NAMESPACE_CONFLICT"
    first.close()
    wait_until(lambda: second.register(function) == [], what="that it is free")
    id = wire.invoke(function)
    second.answer(second.take("invokefunction"), result="mine now")
    assert wire.result(id) == "mine now"


def test_our_own_functions_are_ours(wire):
    for function in ("sandbox::exec", "sandbox::fs::read"):
        said = wire.register(function)
        assert [(m["type"], m["code"], m["function_id"]) for m in said] == [("registrationrejected", "FUNCTION_NAMESPACE_CONFLICT", function)]
    assert "sandboxes" in wire.call("sandbox::list")


def test_two_of_one_name(connect):
    first = connect().announce()
    second = connect()
    second.say("invokefunction", function_id="engine::workers::register", data={"name": first.name, "runtime": "x", "pid": 1},
               action={"type": "void"})
    said = second.take("registrationrejected")
    assert (said["code"], said["worker_name"], said["owner_worker_id"], said["namespace"]) == \
        ("WORKER_NAMESPACE_CONFLICT", first.name, first.id, "default")
    assert second.rest() == []
    assert "sandboxes" in first.call("sandbox::list")


def test_a_namespace_has_functions_of_its_own(owner, connect, wire):
    blue = connect()
    blue.say("registerfunction", id=owner.function)  # waits for the name, which has the namespace
    assert blue.announce(namespace="blue").settle() == []
    for namespace, peer in (("blue", blue), ("default", owner), (None, owner)):
        fields = {"namespace": namespace} if namespace else {}
        id = wire.invoke(owner.function, **fields)
        peer.answer(peer.take("invokefunction"), result=namespace)
        assert wire.result(id) == namespace
    assert wire.refused(owner.function, namespace="red").code == "function_not_found"
    only = fresh()
    blue.register(only)
    assert wire.refused(only).code == "function_not_found"


def test_names_of_workers_are_of_a_namespace_too(connect):
    first, name = connect().announce(), None
    name = first.name
    assert connect().announce(name, namespace="blue").name == name


def test_a_blank_namespace(wire):
    for namespace in ("", "  "):
        assert wire.refused("sandbox::list", namespace=namespace).code == "INVALID_NAMESPACE"


def test_functions_of_the_engine_belong_to_the_default_namespace(connect):
    blue = connect().announce(namespace="blue")
    said = blue.register("engine::mine")
    assert [(m["code"], m["owner_worker_id"]) for m in said] == [("FUNCTION_NAMESPACE_CONFLICT", "")]


# ---- reattach ----


def test_reattach_with_the_token_ends_the_old_connection(owner, connect, wire):
    again = connect()
    again.say("reattach", previous_worker_id=owner.id, reattach_token=owner.token)
    again.announce(owner.name)
    assert again.register(owner.function) == []
    owner.rest()
    id = wire.invoke(owner.function)
    again.answer(again.take("invokefunction"), result="back")
    assert wire.result(id) == "back"


@pytest.mark.parametrize("how", ["wrong", "missing", "nobody"])
def test_reattach_without_it_changes_nothing(owner, connect, how):
    other = connect()
    fields = {"wrong": {"reattach_token": str(uuid.uuid4())}, "missing": {}, "nobody": {"reattach_token": owner.token}}[how]
    other.say("reattach", previous_worker_id=NOBODY if how == "nobody" else owner.id, **fields)
    other.announce()
    assert other.register(owner.function)[0]["code"] == "FUNCTION_NAMESPACE_CONFLICT"
    assert owner.settle() == []


def test_what_the_old_connection_was_asked_is_stopped(owner, connect, wire):
    id = wire.invoke(owner.function)
    owner.take("invokefunction")
    connect().say("reattach", previous_worker_id=owner.id, reattach_token=owner.token)
    with pytest.raises(Refused) as caught:
        wire.result(id)
    assert caught.value.code == "invocation_stopped"


# ---- introspection ----


def test_the_list_of_functions(owner, wire):
    owner.register(hidden := fresh(), metadata={"internal": True})
    functions = wire.call("engine::functions::list")["functions"]
    rows = {f["function_id"]: f for f in functions}
    mine = rows[owner.function]
    assert (mine["namespace"], mine["worker_name"]) == ("default", owner.name)
    assert hidden not in rows and not [id for id in rows if id.startswith("engine::")]
    ours = [f for f in functions if f["function_id"].startswith("sandbox::")]
    assert {f["worker_name"] for f in ours} == {"iii-sandbox"} and all(f["description"] for f in ours)
    wanted = {f"sandbox::{name}" for name in ("create", "exec", "stop", "list", "run", "catalog::list")} | \
        {f"sandbox::fs::{name}" for name in ("ls", "stat", "mkdir", "write", "read", "rm", "chmod", "mv", "grep", "sed")}
    assert wanted <= set(rows)
    for fields, want in (({"prefix": "sandbox::fs::"}, lambda id: id.startswith("sandbox::fs::")),
                         ({"search": owner.function[-8:]}, lambda id: id == owner.function),
                         ({"worker": owner.name}, lambda id: id == owner.function),
                         ({"workers": [owner.name]}, lambda id: id == owner.function)):
        got = [f["function_id"] for f in wire.call("engine::functions::list", fields)["functions"]]
        assert got and all(want(id) for id in got), (fields, got)
    inside = wire.call("engine::functions::list", {"include_internal": True})["functions"]
    assert hidden in {f["function_id"] for f in inside}


def test_about_a_function(owner, wire):
    schema = {"type": "object", "properties": {"x": {"type": "number"}}}
    owner.register(function := fresh(), description="adds", request_format=schema, response_format={"type": "number"}, metadata={"a": 1})
    about = wire.call("engine::functions::info", {"function_id": function})
    assert {key: about[key] for key in ("function_id", "namespace", "worker_name", "description", "metadata", "registered_triggers")} == \
        {"function_id": function, "namespace": "default", "worker_name": owner.name, "description": "adds", "metadata": {"a": 1},
         "registered_triggers": []}
    assert (about["request_schema"], about["response_schema"]) == (schema, {"type": "number"})
    ours = wire.call("engine::functions::info", {"function_id": "sandbox::create"})
    assert "image" in ours["request_schema"]["properties"] and "sandbox_id" in ours["response_schema"]["properties"]
    many = wire.call("engine::functions::info", {"function_ids": [function, "no::such"]})["functions"]
    assert many[0]["function_id"] == function and many[1] == {"function_id": "no::such", "error": "not_found"}
    assert wire.refused("engine::functions::info", {"function_id": "no::such"}).code == "NOT_FOUND"
    for wrong in ({}, {"function_id": function, "function_ids": [function]}, {"function_ids": ["x::y"] * 33}):
        assert wire.refused("engine::functions::info", wrong).code == "INVALID_ARGUMENTS", wrong


def test_the_list_of_workers(owner, connect, wire):
    quiet = connect()
    quiet.call("engine::workers::register", {"name": "without-a-pid", "runtime": "x"})
    odd = connect().announce(f"odd\x07\u202e{uuid.uuid4().hex}", description="d\x07\n" + "x" * 500)
    workers = wire.call("engine::workers::list")["workers"]
    me = next(w for w in workers if w["id"] == owner.id)
    assert set(me) >= {"name", "description", "version", "id", "namespace", "runtime", "os", "status", "function_count", "connected_at_ms",
                       "active_invocations", "isolation", "ip_address"}
    assert (me["name"], me["namespace"], me["runtime"], me["version"], me["function_count"], me["active_invocations"]) == \
        (owner.name, "default", "python", "0", 1, 0)
    assert abs(me["connected_at_ms"] - time.time() * 1000) < 600000
    assert quiet.id not in {w["id"] for w in workers}
    strange = next(w for w in workers if w["id"] == odd.id)
    assert strange["name"].isprintable() and len(strange["description"]) <= 280 and strange["description"].isprintable()
    assert [w["id"] for w in wire.call("engine::workers::list", {"search": owner.name})["workers"]] == [owner.id]
    assert wire.call("engine::workers::list", {"runtime": "cobol"})["workers"] == []
    call = wire.invoke(owner.function)
    asked = owner.take("invokefunction")
    busy = next(w for w in wire.call("engine::workers::list")["workers"] if w["id"] == owner.id)
    assert busy["active_invocations"] == 1
    owner.answer(asked, result=1)
    wire.result(call)


def test_about_a_worker(owner, wire):
    about = wire.call("engine::workers::info", {"name": owner.name})
    assert (about["worker"]["id"], about["worker"]["pid"]) == (owner.id, os.getpid())
    assert [f["function_id"] if isinstance(f, dict) else f for f in about["functions"]] == [owner.function]
    assert about["trigger_types"] == [] and about["registered_triggers"] == []
    assert wire.refused("engine::workers::info", {"name": "nobody"}).code == "NOT_FOUND"
    assert len(wire.call("engine::workers::info", {"name": "iii-sandbox"})["functions"]) >= 16


@pytest.mark.parametrize("what", ["triggers", "registered-triggers"])
def test_the_lists_of_triggers(wire, what):
    got = wire.call(f"engine::{what}::list")
    assert all(isinstance(rows, list) for rows in got.values()) and got


# ---- channels ----


def test_a_channel(wire):
    writer, reader = wire.channel()
    assert set(writer) == set(reader) == {"channel_id", "access_key", "direction"}
    assert (writer["direction"], reader["direction"]) == ("write", "read")
    assert all(writer[key] == reader[key] for key in ("channel_id", "access_key"))
    with wire.end(reader) as source, wire.end(writer) as sink:
        for item in (b"bytes", "text", b"", b"\0" * 70000, "ü"):
            sink.send(item)
            assert source.receive() == item
        sink.close()
        assert source.rest() == []
        assert source.closed in (1000, 1005)


def test_sizes_of_channels(wire):
    for size in (1, 64, 1024, 5000, None):
        writer, reader = wire.channel(buffer_size=size)
        with wire.end(writer) as sink:
            sink.send(b"x")
            with wire.end(reader) as source:
                assert source.receive() == b"x"


def test_a_wrong_key_is_no_channel(served, wire):
    _, reader = wire.channel()
    for change in ({"key": "wrong"}, {"key": ""}, {"direction": "both"}):
        assert upgrade(served, channel_path(reader, **change)).split()[1] == "404"
    assert upgrade(served, channel_path(reader)).split()[1] == "101"


def test_an_end_is_taken_once(wire):
    writer, reader = wire.channel()
    with wire.end(reader) as first, wire.end(reader) as second, wire.end(writer) as sink, wire.end(writer) as other:
        assert second.rest() == [] and other.rest() == []
        sink.send(b"for the first")
        assert first.receive() == b"for the first"


def test_the_writer_may_be_gone_before_the_reader_comes(wire):
    writer, reader = wire.channel()
    with wire.end(writer) as sink:
        for n in range(20):
            sink.send(f"{n}")
    with wire.end(reader) as source:
        assert source.rest() == [str(n) for n in range(20)]


def test_a_writer_that_drops_is_an_end(wire):
    writer, reader = wire.channel()
    with wire.end(reader) as source:
        with wire.end(writer) as sink:
            sink.send(b"some")
            assert source.receive() == b"some"
            sink.socket.socket.shutdown(socket.SHUT_RDWR)
        assert source.rest() == []


def test_a_reader_that_goes_ends_the_writer(wire):
    writer, reader = wire.channel()
    with wire.end(writer) as sink:
        with wire.end(reader) as source:
            sink.send(b"x")
            source.receive()
        with pytest.raises(Exception, match="(?i)clos|sent|reset|pipe"):
            for _ in range(4096):
                sink.send(b"\0" * 65536)


def test_a_writer_waits_for_its_reader(served, wire):
    """What does not fit stays with the writer, not in the daemon's memory; all of it comes, in order."""
    total, piece = 48 << 20, os.urandom(65536)
    writer, reader = wire.channel()
    sent, want = [0], hashlib.sha256()
    before = rss_kib(served.pid)

    def write():
        with wire.end(writer) as sink:
            while sent[0] < total:
                sink.send(piece)
                want.update(piece)
                sent[0] += len(piece)

    thread = threading.Thread(target=write)
    thread.start()
    with wire.end(reader) as source:
        got = hashlib.sha256(first := source.receive())
        stuck(sent)
        assert sent[0] < total, "the writer did not wait"
        assert rss_kib(served.pid) - before < 32 << 10
        count = len(first)
        for item in source.rest():
            got.update(item)
            count += len(item)
    thread.join()
    assert count == total and got.digest() == want.digest()


def stuck(sent):
    """Until a writer has sent nothing between two looks."""
    state = {"last": -1, "same": 0}

    def still():
        state["same"] = state["same"] + 1 if sent[0] == state["last"] else 0
        state["last"] = sent[0]
        return sent[0] > 0 and state["same"] >= 4

    wait_until(still, what="that the writer waits")


def test_both_ways_through_files(wire):
    data = os.urandom(3 << 20)
    with wire.box() as id:
        wrote = wire.upload(id, "/tmp/up", [data[n:n + 65536] for n in range(0, len(data), 65536)], mode="0640")
        assert wrote == {"bytes_written": len(data), "path": "/tmp/up"}
        about, got = wire.download(id, "/tmp/up")
        assert (about["size"], about["mode"]) == (len(data), "0640") and "body" not in about
        assert got == data
        wire.sh(id, "cp /tmp/up '/tmp/odd name'; : >/tmp/empty")
        assert wire.download(id, "/tmp/empty")[1] == b""
        assert wire.fs("read", id, path="/tmp/empty")["body"] == ""
        assert wire.upload(id, "/tmp/empty", [])["bytes_written"] == 0


# ---- who is gone, and what is too much ----


@pytest.mark.parametrize("how", ["close", "drop"])
def test_the_exec_of_a_caller_that_is_gone_ends(served, connect, wire, how):
    with wire.box() as id, served.api() as api:
        caller = connect()
        caller.invoke("sandbox::exec", {"sandbox_id": id, "argv": ["sleep", "4242"]})
        sandbox, = [s for s in api.ids() if sleeping(api, s)] or [wait_until(lambda: next((s for s in api.ids() if sleeping(api, s)), None))]
        getattr(caller, how)()
        wait_until(lambda: not sleeping(api, sandbox), what="the end of its command")
        assert wire.sh(id, "echo still there") == "still there\n"
        served.apis.remove(api)


def sleeping(api, sandbox):
    return [p for p in api.processes(sandbox) if "4242" in p["command"]]


def test_a_message_that_is_too_large_ends_the_connection(connect, wire):
    big = connect()
    with contextlib.suppress(Exception):  # it may end while this is still being sent
        big.say("invokefunction", invocation_id=str(uuid.uuid4()), function_id="sandbox::list", data={"pad": "x" * (MESSAGE_MAX + 1)})
    assert big.rest() == [] and big.closed in (1009, 1006)
    assert "sandboxes" in wire.call("sandbox::list")


def upgraded(served, path):
    """A connection behind its handshake, for bytes that no library would send."""
    s = socket.create_connection(("127.0.0.1", served.iii_port), timeout=PATIENCE)
    s.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.iii_port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += s.recv(1)
    assert head.startswith(b"HTTP/1.1 101 "), head
    return s


def close_code(s):
    """Of the Close that comes, behind messages that are short; the connection ends after it."""
    with s, s.makefile("rb") as frames:
        while True:
            first, length = frames.read(2)
            if length == 126:
                length = int.from_bytes(frames.read(2), "big")
            payload = frames.read(length)
            if first == 0x88:
                return int.from_bytes(payload[:2], "big")


@pytest.mark.parametrize("path", ["/", "/otel", "channel"])
def test_a_frame_that_announces_too_much_is_closed_before_it_comes(served, wire, path):
    """On each socket; tests/unit/test_websocket.c has more lengths."""
    if path == "channel":
        path = channel_path(wire.channel()[0])
    s = upgraded(served, path)
    s.sendall(b"\x82\xff" + (1 << 62).to_bytes(8, "big"))
    assert close_code(s) == 1009


def test_a_large_message_goes_through(wire):
    text = "x" * (12 << 20)
    with wire.box() as id:
        assert wire.fs("write", id, path="/tmp/large", content=text)["bytes_written"] == len(text)
        assert wire.sh(id, "wc -c </tmp/large").strip() == str(len(text))


@pytest.mark.parametrize("byte", ["x", "\\001"])  # which is six bytes as JSON
def test_no_answer_is_longer_than_python_takes(connect, byte):
    """Its clients close at a message of more than 1 MiB, which is the preset of their library."""
    wire = connect(max_size=1 << 20).announce()
    fields = {"traceparent": "t" * 1000, "baggage": "\x01" * 8000}
    write = f"head -c 3000000 /dev/zero | tr '\\0' '{byte}'"
    with wire.box() as id:
        ends = {"sandbox_id": id, "argv": ["sh", "-c", f"{write}; {write} >&2"]}
        done = wire.result(wire.invoke("sandbox::exec", ends, **fields))
        assert len(done["stdout"]) == len(done["stderr"]) > (70000 if byte != "x" else 450000)
        assert (done["exit_code"], done["stdout_truncated"], done["stderr_truncated"]) == (0, True, True)
        assert wire.sh(id, f"{write} | head -c 1048575 >/tmp/file") == ""
        assert "body" not in wire.result(wire.invoke("sandbox::fs::read", {"sandbox_id": id, "path": "/tmp/file"}, **fields))
        wire.sh(id, f"for i in 1 2 3 4 5 6; do {write} | head -c 200000; echo end; done >/tmp/file")
        found = wire.result(wire.invoke("sandbox::fs::grep", {"sandbox_id": id, "path": "/tmp/file", "pattern": ".", "max_line_bytes": 65536,
                                                               "max_matches": 50000}, **fields))
        assert found["matches"]
    done = wire.result(wire.invoke("sandbox::run", {"image": "host", "lang": "sh", "code": write}, **fields))
    assert done["stdout_truncated"] and not done["stderr_truncated"]


def test_functions_and_calls_have_bounds(connect, wire):
    """Of one connection: what is too much is refused, and the connection and the daemon go on."""
    owner = connect().announce()
    word = fresh()
    for n in range(1100):
        owner.say("registerfunction", id=f"{word}::{n}")
    owner.settle()
    mine = [f for f in wire.call("engine::functions::list", {"prefix": word})["functions"]]
    assert 512 <= len(mine) < 1100
    owner.say("registerfunction", id="x" * 100000)
    calls = [wire.invoke(f"{word}::0", {"n": n}) for n in range(600)]
    for _ in calls:
        owner.answer(owner.take("invokefunction"), result=1)
    assert [wire.result(id) for id in calls] == [1] * 600
    assert "sandboxes" in owner.call("sandbox::list")


def test_a_client_that_calls_itself_often_is_not_stuck(owner):
    """Its answers come over the same connection as its calls: whoever stops reading it at a bound waits for them forever."""
    calls = [owner.invoke(owner.function) for _ in range(600)]
    ended = 0
    while ended < len(calls):
        message = owner.receive_json()
        if message["type"] == "invokefunction":
            owner.answer(message, result=1)
        ended += message["type"] == "invocationresult"


def test_channels_have_a_bound(iii_of, wire_of):
    """Of all together, and of one caller; what is refused is told."""
    wire, made = wire_of(iii_of().start()), []
    with pytest.raises(Refused):
        for _ in range(5000):
            made.append(wire.channel())
    assert len(made) >= 500
    for writer, _ in made[:2]:
        with wire.end(writer):
            pass
    assert "sandboxes" in wire.call("sandbox::list")


def test_reads_whose_channels_nobody_takes_are_not_used_up(wire):
    """Short files come as `body`, too: many a client never opens the channel."""
    with wire.box() as id:
        wire.fs("write", id, path="/tmp/x", content="short")
        for _ in range(1100):
            assert wire.fs("read", id, path="/tmp/x")["body"] == "short"


def test_many_connections_come_and_go(served, wire):
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(served.iii_port)) for _ in range(100)]
        for one in wires:
            one.say("invokefunction", invocation_id=one.id, function_id="sandbox::list", data={})
        assert all("sandboxes" in one.result(one.id) for one in wires)
        for one in wires[::2]:
            one.drop()
    assert "sandboxes" in wire.call("sandbox::list")


# ---- who may ----


def test_a_token_is_wanted_for_the_worker_socket_and_for_telemetry(iii_of):
    daemon = iii_of(env={"CAY_AUTH_TOKEN": "secret-of-the-tests"}).start()
    for path in ("/", "/otel"):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret-of-the-tests"}):
            assert upgrade(daemon, path, **headers).split()[1] in ("401", "403"), (path, headers)
    with Wire(daemon.iii_port, token="secret-of-the-tests") as wire:
        wire.announce()
        writer, reader = wire.channel()
        with wire.end(writer) as sink, wire.end(reader) as source:  # whose key is all the secret
            sink.send(b"x")
            assert source.receive() == b"x"


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}])
def test_a_page_of_the_web_is_kept_out(served, headers):
    """A browser would connect for it, and without a token there is nothing else that could tell."""
    assert upgrade(served, "/", **headers).split()[1] in ("400", "401", "403", "404", "421")
