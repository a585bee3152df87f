"""Queues of iii that have rules of their own, over the wire."""

from cay_iii import *  # noqa: F401,F403 (fixtures too)


def enqueue(wire, queue, function_id, data):
    assert "messageReceiptId" in wire.call(function_id, data, action={"type": "enqueue", "queue": queue})


def test_a_queue_that_is_defined(wire, connect):
    """As programs of iii define theirs at their start, again and again; others use it."""
    other = connect().announce()
    wire.register("cay.queues::work")
    config = {"type": "fifo", "message_group_field": "user", "max_retries": 1}
    for _ in range(2):
        assert other.call("queue::define", {"queue": "cay-queues", "config": config}) == {"queue": "cay-queues"}
    other.close()  # it stays
    told = wire.call("engine::queue::topic_stats", {"queue": "cay-queues"})
    assert told == {"depth": 0, "consumer_count": 0, "dlq_depth": 0, "config": {**config, "concurrency": 10, "backoff_ms": 1000}}

    for user, n in (("a", 1), ("a", 2), ("b", 3)):
        enqueue(wire, "cay-queues", "cay.queues::work", {"user": user, "n": n})
    calls = {call["data"]["n"]: call for call in (wire.take("invokefunction"), wire.take("invokefunction"))}
    assert sorted(calls) == [1, 3]
    assert wire.settle() == []
    wire.answer(calls[1], error={"code": "invocation_failed", "message": "on purpose"})
    second = wire.take("invokefunction")
    assert second["data"]["n"] == 2
    for call in (calls[3], second):
        wire.answer(call, result={})
    dead = wire.call("engine::queue::dlq_messages", {"queue": "cay-queues"})
    assert [letter["payload"]["n"] for letter in dead] == [1]
    assert wire.call("iii::queue::discard_message", {"queue": "cay-queues", "message_id": dead[0]["id"]})


def test_rules_that_make_no_sense(wire):
    for data in ({}, {"queue": "cay-bad", "config": {"type": "lifo"}}, {"queue": "cay-bad", "config": {"concurrency": -1}}):
        assert wire.refused("queue::define", data).code == "INVALID_ARGUMENTS"
    assert "cay-bad" not in [q["name"] for q in wire.call("engine::queue::list_topics")]


def test_who_may_define(iii_of, wire_of):
    daemon = iii_of(env={"CAY_AUTH_TOKEN": "secret-of-the-tests"}).start()
    with daemon.api(token="secret-of-the-tests") as api:
        tokens = {scopes: api.post("/tokens", {"name": scopes, "scopes": scopes.split()}).ok()["token"] for scopes in ("read", "read exec")}
    daemon.apis.remove(api)
    assert wire_of(daemon, token=tokens["read"]).announce().refused("queue::define", {"queue": "q"}).code == "FORBIDDEN"
    weak = wire_of(daemon, token=tokens["read exec"]).announce()
    strong = wire_of(daemon, token="secret-of-the-tests").announce()
    assert weak.call("queue::define", {"queue": "mine"}) == strong.call("queue::define", {"queue": "mine"}) == {"queue": "mine"}
    strong.call("queue::define", {"queue": "other"})
    assert weak.refused("queue::define", {"queue": "other"}).code == "FORBIDDEN"
