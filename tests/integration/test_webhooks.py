"""Webhooks: events are brought to URLs, signed, until they are taken; none is lost, and nobody waits for a dead target."""

import contextlib
import itertools
import os
import signal
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cay_harness import SLOW, Daemon, cay, wait_until
from cay_oci import make_certificates
from cay_order import unhindered
from cay_receiver import Receiver, courier_pid, end_courier

pytestmark = pytest.mark.core

RETRY_MS = 40
ENV = {"CAY_WEBHOOK_ALLOW": "127.0.0.1,localhost", "CAY_WEBHOOK_RETRY_MS": RETRY_MS}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def told(certificates):
    daemon = Daemon("webhooks", env={**ENV, "CAY_WEBHOOK_CA": certificates["ca"], "CAY_WEBHOOK_TIMEOUT": 60})
    try:
        yield daemon.start()
    finally:
        daemon.destroy()


@pytest.fixture
def api(told):
    with told.api() as api:
        yield api
        for webhook in api.get("/webhooks").ok()["webhooks"]:
            api.delete(f"/webhooks/{webhook['id']}").ok()
    end_courier(told)  # which ends by itself only when there has been nothing to bring for a while


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


def make(api, url, *topics, **fields):
    return api.post("/webhooks", {"url": url, **({"topics": list(topics)} if topics else {}), **fields}).ok()


def publish(api, topic, **data):
    return api.post("/events/publish", {"topic": topic, "sandboxId": "none", "data": data}).ok()


def deliveries(api, webhook):
    return api.get(f"/webhooks/{webhook['id']}/deliveries").ok()["deliveries"]


def delivery_of(api, webhook, event):
    return next((d for d in deliveries(api, webhook) if d["eventId"] == event["id"]), None)


def test_what_happens_to_a_sandbox_arrives_signed(api, receiver):
    webhook = make(api, receiver.url(), "sandbox.created", "sandbox.killed")
    sandbox = api.create(name="watched")
    api.remove(sandbox["id"])
    # Both may be on their way at once; ids sort as events happened.
    first, last = sorted(receiver.wait(lambda got: len(got) == 2), key=lambda m: m.event["id"])
    assert [first.topic, last.topic] == ["sandbox.created", "sandbox.killed"]
    for message in (first, last):
        assert message.is_signed_with(webhook["secret"]) and not message.is_signed_with(webhook["secret"] + "x")
        assert message.event["sandboxId"] == sandbox["id"]
        assert message.headers["X-Cay-Event"] == message.topic and message.headers["X-Cay-Webhook"] == webhook["id"]
        assert message.headers["Content-Type"] == "application/json" and message.attempt == 1
    assert first.delivery != last.delivery
    known = {e["id"]: e for e in api.get("/events/history?topic=sandbox.created&limit=1000").ok()["events"]}
    assert known[first.event["id"]] == first.event
    done = wait_until(lambda: (d := deliveries(api, webhook)) and len(d) == 2 and d)
    assert {(d["id"], d["state"], d["status"], d["attempts"]) for d in done} == \
        {(m.delivery, "delivered", 204, 1) for m in (first, last)}


def test_a_webhook_for_one_sandbox_and_topics_hears_of_nothing_else(api, receiver):
    one, other = (api.create()["id"] for _ in range(2))
    make(api, receiver.url("/one"), "mine.*", sandboxId=one)
    make(api, receiver.url("/all"), "mine.*", secret="a-secret-of-our-own")
    for topic, id in (("mine.a", one), ("mine.b", other), ("yours", one), ("mine.c", one)):
        api.post("/events/publish", {"topic": topic, "sandboxId": id}).ok()
    got = receiver.wait(lambda got: len(got) == 5)
    assert sorted(receiver.topics("/one")) == ["mine.a", "mine.c"]
    assert sorted(receiver.topics("/all")) == ["mine.a", "mine.b", "mine.c"]
    assert all(m.is_signed_with("a-secret-of-our-own") for m in got if m.path == "/all")
    for id in (one, other):
        api.remove(id)


def test_what_fails_is_tried_again_later_each_time_and_then_the_rest_comes(told, api):
    gaps = []
    with told.api() as asking:

        def answer(message):
            if message.event["data"].get("n") != 0 or message.attempt > 5:
                return 200
            if message.attempt > 1:  # what the attempt before this one said of the next
                before = wait_until(lambda: (d := delivery_of(asking, webhook, message.event)) and
                                    d["attempts"] == message.attempt - 1 and d)
                assert before["state"] == "retrying" and before["status"] == 503
                gaps.append(before["nextAttemptAt"] - before["timestamp"])
            return 503

        receiver = Receiver(answer)
        webhook = make(api, receiver.url(), "try")
        first = publish(api, "try", n=0)
        receiver.wait(lambda got: got)
        later = [publish(api, "try", n=n) for n in range(1, 12)]
        got = receiver.wait(lambda got: len({m.event["id"] for m in got}) == 12 and any(m.attempt == 6 for m in got))
        receiver.close()
    of_first = [m for m in got if m.event["id"] == first["id"]]
    assert [m.attempt for m in of_first] == [1, 2, 3, 4, 5, 6] and len({m.delivery for m in of_first}) == 1
    assert {m.event["id"] for m in got} == {first["id"], *(e["id"] for e in later)}
    assert len(gaps) == 4
    for n, gap in enumerate(gaps):  # twice as long each time, a quarter more or less
        assert RETRY_MS * 2**n * 0.7 - 2 <= gap <= RETRY_MS * 2**n * 1.3 + 2, gaps
    assert wait_until(lambda: (d := delivery_of(api, webhook, first))["state"] == "delivered" and d)["attempts"] == 6
    wait_until(lambda: api.get(f"/webhooks/{webhook['id']}").ok()["failures"] == 0)


def test_what_a_target_does_not_want_is_given_up_and_told(api):
    receiver = Receiver(lambda message: 400 if message.topic == "bad" else 200)
    webhook = make(api, receiver.url(), "bad", "good", "webhook.*")
    bad = publish(api, "bad")
    receiver.wait(lambda got: got)
    publish(api, "good")
    receiver.wait(lambda got: any(m.topic == "good" for m in got) and [m.topic for m in got].count("bad") == 5)
    event = wait_until(lambda: [e for e in api.get("/events/history?topic=webhook.failed").ok()["events"]
                                if e["data"]["webhookId"] == webhook["id"]])[0]
    assert event["data"] == {"webhookId": webhook["id"], "eventId": bad["id"], "topic": "bad", "attempts": 5,
                             "status": 400, "error": ""}
    wait_until(lambda: (d := delivery_of(api, webhook, bad)) and d["state"] == "failed", what="that is kept")
    publish(api, "good")  # behind the event of its own failure, of which it is not told
    got = receiver.wait(lambda got: [m.topic for m in got].count("good") == 2)
    assert sorted(m.topic for m in got) == 5 * ["bad"] + 2 * ["good"]
    receiver.close()


def test_targets_that_take_nothing_do_not_tell_of_each_other_without_end(api):
    receiver = Receiver(lambda message: 400)
    topics = "bad2", "webhook.failed"
    webhooks = [make(api, receiver.url(), *topics) for _ in range(2)]
    publish(api, "bad2")

    def given_up(webhook):
        return {d["topic"] for d in deliveries(api, webhook) if d["state"] == "failed"} == set(topics)

    wait_until(lambda: all(map(given_up, webhooks)), timeout=60, what="all is given up")
    ids = {w["id"] for w in webhooks}
    told = [e for e in api.get("/events/history?topic=webhook.failed").ok()["events"] if e["data"]["webhookId"] in ids]
    assert sorted(e["data"]["topic"] for e in told) == ["bad2", "bad2"]
    receiver.close()


@pytest.mark.parametrize("said, status, error", [
    (b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", 302, None),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"x" * (1 << 20), 200, None),
    (b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(500)) + b"\r\n", None, "broken"),
    (b"\x16\x03\x01\x02\x00 this is no HTTP", None, "broken"),
    (b"", None, "broken"),
], ids=["redirect", "huge", "headers", "nonsense", "nothing"])
def test_odd_answers(api, said, status, error):
    receiver = Receiver(lambda message: said)
    webhook = make(api, receiver.url(), "never")
    got = api.post(f"/webhooks/{webhook['id']}/test").ok()
    assert (got["status"], got["error"]) == (status, error) and got["attempts"] == 1
    assert [m.path for m in receiver.messages] == ["/hook"] and receiver.topics() == ["webhook.test"]
    assert receiver.messages[0].is_signed_with(webhook["secret"])
    assert deliveries(api, webhook)[0] == got
    receiver.close()


def test_nobody_listens(told, api):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    webhook = make(api, f"http://127.0.0.1:{port}/", "never")
    got = api.post(f"/webhooks/{webhook['id']}/test").ok()
    assert (got["state"], got["status"], got["error"]) == ("failed", None, "no_connection") and got["message"]
    done = cay(told, "webhook", "test", webhook["id"])
    assert done.returncode == 1 and done.stdout.startswith(b"failed: no_connection")


def test_certificates_are_checked(api, certificates, tmp_path):
    trusted, stranger = Receiver(tls=certificates), Receiver(tls=make_certificates(tmp_path / "other"))
    for receiver, host, error in ((trusted, "127.0.0.1", None), (trusted, "localhost", None), (stranger, "127.0.0.1", "no_trust")):
        webhook = make(api, receiver.url(host=host), "never")
        got = api.post(f"/webhooks/{webhook['id']}/test").ok()
        assert got["error"] == error, got
    assert len(trusted.messages) == 2 and not stranger.messages
    trusted.close()
    stranger.close()


@pytest.mark.counts_rows
def test_a_killed_daemon_loses_no_event_between_failure_and_retry(daemon_of):
    works = []
    receiver = Receiver(lambda message: 200 if works else 503)
    own = daemon_of(env={**ENV, "CAY_WEBHOOK_RETRY_MS": 3600000}).start()
    with own.api() as api:
        webhook = make(api, receiver.url(), "kept.*")
        events = [publish(api, "kept.a", n=n) for n in range(20)]
        wait_until(lambda: delivery_of(api, webhook, events[0]))
    own.kill9()
    assert {m.attempt for m in receiver.messages} == {1}
    first = {m.event["id"]: m.delivery for m in receiver.messages}
    works.append(True)
    own.start()
    with own.api() as api:
        got = receiver.wait(lambda got: {m.event["id"] for m in got if m.attempt > 1 or m.event["id"] not in first} and
                            {m.event["id"] for m in got} == {e["id"] for e in events})
        done = wait_until(lambda: all((delivery_of(api, webhook, e) or {}).get("state") == "delivered" for e in events))
        assert done
        again = [m for m in got if m.event["id"] == events[0]["id"]]
        assert again[-1].attempt == 2 and again[-1].delivery == first[events[0]["id"]]
        # And what was delivered is not sent again after a whole restart.
        wait_until(lambda: api.get(f"/webhooks/{webhook['id']}").ok()["failures"] == 0)
        count = len(receiver.messages)
        own.restart()
        last = publish(api, "kept.b")
        got = receiver.wait(lambda got: got[-1].event["id"] == last["id"])
        assert len(got) == count + 1
        listed = api.get("/webhooks").ok()["webhooks"]
        assert [w["id"] for w in listed] == [webhook["id"]] and listed[0]["lastStatus"] == 200
    receiver.close()


def test_a_hundred_dead_targets_do_not_hold_up_a_live_one(api, receiver):
    silent = Receiver(lambda message: None)
    make(api, receiver.url(), "news")
    rounds = itertools.count()

    def news_arrives():
        event = publish(api, "news")
        receiver.wait(lambda got: event["id"] in {m.event["id"] for m in got}, 60)

    @contextlib.contextmanager
    def crowd():
        which = next(rounds)
        paths = {f"/{which}/{n}" for n in range(99)}
        ids = {make(api, silent.url(path), "news")["id"] for path in paths}
        api.post("/webhooks", {"url": receiver.url()}).failed(429, "webhook_limit")
        news_arrives()
        silent.wait(lambda got: paths <= {m.path for m in got}, 60, what="each of the others has something on its way")
        yield lambda: [w for w in api.get("/webhooks").ok()["webhooks"] if w["id"] in ids and (w["failures"] or w["lastAttemptAt"])]
        for id in ids:
            api.delete(f"/webhooks/{id}").ok()

    # It arrives while no delivery to the others is given up, which each is after 60 s (CAY_WEBHOOK_TIMEOUT).
    unhindered(crowd, news_arrives)
    silent.close()


@pytest.mark.counts_rows
def test_a_killed_courier_is_started_again(told, api, receiver):
    webhook = make(api, receiver.url(), "news")
    publish(api, "news")
    receiver.wait(lambda got: got)
    pid = courier_pid(told)
    os.kill(pid, signal.SIGKILL)
    publish(api, "news")
    receiver.wait(lambda got: len({m.event["id"] for m in got}) == 2)
    assert wait_until(lambda: courier_pid(told)) != pid
    held = Receiver(lambda message: None if message.attempt == 1 else 200)
    on_its_way = make(api, held.url(), "held")
    event = publish(api, "held")
    held.wait(lambda got: got)
    os.kill(courier_pid(told), signal.SIGKILL)
    held.wait(lambda got: len(got) == 2)
    assert wait_until(lambda: (d := delivery_of(api, on_its_way, event)) and d["state"] == "delivered" and d)["attempts"] == 2
    held.close()
    assert api.get(f"/webhooks/{webhook['id']}").ok()["lastStatus"] == 204


def test_a_stop_does_not_wait_for_a_silent_target(daemon_of):
    daemon = daemon_of(env=ENV).start()
    silent = Receiver(lambda message: None)
    with daemon.unix_api() as api, ThreadPoolExecutor() as pool:
        test = pool.submit(api.post, f"/webhooks/{make(api, silent.url())['id']}/test")
        silent.wait(lambda got: any(m.topic == "webhook.test" for m in got))
        os.kill(courier_pid(daemon), signal.SIGSTOP)  # so that it never says that the target's time is over
        daemon.process.send_signal(signal.SIGTERM)
        test.result().failed(503, text="stopping")
        assert daemon.process.wait(60 * SLOW) == 0
    silent.close()


def test_what_is_put_off_waits(api, receiver):
    webhook = make(api, receiver.url("/one"), "news")
    make(api, receiver.url("/other"), "news")
    assert api.call("PUT", f"/webhooks/{webhook['id']}", {"active": False}).ok()["active"] is False
    for n in range(3):
        publish(api, "news", n=n)
    receiver.wait(lambda got: len(got) == 3)
    assert receiver.topics("/one") == []
    api.call("PUT", f"/webhooks/{webhook['id']}", {"active": True}).ok()
    receiver.wait(lambda got: len(got) == 6)
    assert len(receiver.topics("/one")) == 3


@pytest.mark.parametrize("fields, code", [
    ({"url": "ftp://hooks.example.com/"}, "bad_webhook"),
    ({"url": "hooks.example.com"}, "bad_webhook"),
    ({"url": "http://"}, "bad_webhook"),
    ({"url": "http://hooks.example.com:0/"}, "bad_webhook"),
    ({"url": "http://hooks.example.com:99999/"}, "bad_webhook"),
    ({"url": "http://ann:secret@hooks.example.com/"}, "bad_webhook"),
    ({"url": "http://hooks.example.com/#part"}, "bad_webhook"),
    ({"url": "http://hooks.example.com/a b"}, "bad_webhook"),
    ({"url": "http://hooks.example.com/\r\nX-Evil: 1"}, "bad_webhook"),
    ({"url": "http://hooks.example.com/é"}, "bad_webhook"),
    ({"url": "http://10.0.0.1/"}, "webhook_target_refused"),
    ({"url": "http://169.254.169.254/latest/"}, "webhook_target_refused"),
    ({"url": "http://[::1]/"}, "webhook_target_refused"),
    ({"url": "http://[::ffff:10.0.0.1]/"}, "webhook_target_refused"),
    ({"url": "http://2130706433/"}, "webhook_target_refused"),
    ({"url": "http://0x7f.1/"}, "webhook_target_refused"),
    ({"topics": ["a b"]}, "bad_webhook"),
    ({"topics": ["a,b"]}, "bad_webhook"),
    ({"topics": [f"t{n}" for n in range(33)]}, "bad_webhook"),
    ({"secret": "short"}, "invalid"),
    ({"secret": "sixteen long ones"}, "bad_webhook"),
    ({"sandboxId": "sbx_000000000000000000000000"}, "sandbox_not_found"),
])
def test_what_is_no_webhook_is_refused(api, fields, code):
    reply = api.post("/webhooks", {"url": "https://hooks.example.com/", **fields})
    reply.failed(404 if code == "sandbox_not_found" else 400, code)
    assert api.get("/webhooks").ok()["webhooks"] == []


def test_a_secret_is_shown_once_and_kept_from_others(told, api, receiver):
    webhook = make(api, receiver.url(), "never")
    assert webhook["secret"].startswith("whsec_") and len(webhook["secret"]) >= 40
    assert make(api, receiver.url(), "never")["secret"] != webhook["secret"]
    for path in ("/webhooks", f"/webhooks/{webhook['id']}"):
        assert webhook["secret"] not in str(api.get(path).ok())
    document = told.data / "webhooks" / f"{webhook['id']}.json"
    assert stat.S_IMODE(document.stat().st_mode) & 0o077 == 0 or stat.S_IMODE(Path(told.data).stat().st_mode) & 0o077 == 0
    api.delete(f"/webhooks/{webhook['id']}").ok()
    assert not document.exists()
    api.get(f"/webhooks/{webhook['id']}").failed(404, "webhook_not_found")


def test_a_removed_webhook_is_sent_nothing_more(api):
    held = Receiver(lambda message: None)
    webhook = make(api, held.url(), "news")
    publish(api, "news")
    held.wait(lambda got: got)
    api.delete(f"/webhooks/{webhook['id']}").ok()
    other = Receiver()
    make(api, other.url(), "news")
    publish(api, "news")
    other.wait(lambda got: got)
    assert len(held.messages) == 1
    held.close()
    other.close()


def test_by_hand(told, api, receiver):
    made = cay(told, "webhook", "create", "-t", "news", "-t", "other.*", receiver.url(), check=True).stdout.decode().split()
    assert cay(told, "webhook", "test", made[0], check=True).stdout.startswith(b"delivered: it answered 204")
    assert receiver.messages[0].is_signed_with(made[1])
    table = cay(told, "webhook", "ls", check=True).stdout.decode()
    assert made[0] in table and "news,other.*" in table and made[1] not in table
    shown = wait_until(lambda: "webhook.test" in (text := cay(told, "webhook", "deliveries", made[0], check=True).stdout.decode()) and text)
    assert "delivered" in shown
    cay(told, "webhook", "pause", made[0], check=True)
    assert b"paused" in cay(told, "webhook", "ls", check=True).stdout
    cay(told, "webhook", "resume", made[0], check=True)
    cay(told, "webhook", "rm", made[0], check=True)
    assert cay(told, "webhook", "ls", "-q", check=True).stdout == b""
