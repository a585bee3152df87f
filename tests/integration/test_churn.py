"""Many rounds leave nothing; many at once do not trip over each other."""

import os
import threading

import pytest

from cay_harness import RSS_SLACK_KIB, rss_kib, wait_until

pytestmark = [pytest.mark.full, pytest.mark.alone]

ROUNDS = int(os.environ.get("CAY_CHURN", "200"))  # make soak has more


def test_create_exec_kill_leaves_nothing(daemon_of):
    """F24: the ledger of the fixture is the assertion; memory may not creep either."""
    daemon = daemon_of(env={"CAY_POOL": 4}).start()
    errors = []

    def rounds(n):
        with daemon.api() as api:
            for i in range(n):
                try:
                    id = api.create()["id"]
                    assert api.sh(id, "echo hello") == "hello\n"
                    api.remove(id)
                except Exception as e:
                    errors.append(e)
                    return

    def all_rounds(n):
        threads = [threading.Thread(target=rounds, args=(n // 4,)) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not errors, errors

    all_rounds(max(ROUNDS // 4, 40))
    before = rss_kib(daemon.pid)
    all_rounds(ROUNDS - max(ROUNDS // 4, 40))
    with daemon.api() as api:
        assert api.ids() == []
        assert api.get("/metrics").ok()["totalCreated"] >= ROUNDS - 3 - 4
    assert rss_kib(daemon.pid) - before < max(2048, ROUNDS) + RSS_SLACK_KIB


def test_everything_at_once_on_one_sandbox_has_an_order(api):
    """Whoever loses the race is told so: gone, not running, or ended under the call."""
    for _ in range(3):
        id = api.create()["id"]
        statuses = []

        def one(n):
            with api.again() as own:
                for _ in range(4):
                    what = n % 6
                    if what == 0:
                        r = own.try_exec(id, "echo x")
                    elif what == 1:
                        r = own.post(f"/sandboxes/{id}/pause")
                    elif what == 2:
                        r = own.post(f"/sandboxes/{id}/resume")
                    elif what == 3:
                        r = own.file(id, "write", path="f", content="x")
                    elif what == 4:
                        r = own.get(f"/sandboxes/{id}")
                    else:
                        r = own.get(f"/sandboxes/{id}/metrics")
                    statuses.append((what, r.status, r.body[:150]))

        threads = [threading.Thread(target=one, args=(n,)) for n in range(18)]
        threads.append(threading.Thread(target=lambda: remove(api, id, statuses)))
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert {s for _, s, _ in statuses} <= {200, 404, 409, 503}, statuses
        assert all(b"ended" in body for _, status, body in statuses if status == 503), statuses
        api.get(f"/sandboxes/{id}").failed(404)


def remove(api, id, statuses):
    with api.again() as own:
        statuses.append((9, own.delete(f"/sandboxes/{id}").status, b""))


def test_a_sandbox_is_removed_once(api):
    id = api.create()["id"]
    statuses = []

    def one():
        with api.again() as own:
            statuses.append(own.delete(f"/sandboxes/{id}").status)

    threads = [threading.Thread(target=one) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert 200 in statuses and set(statuses) <= {200, 404, 409}


def test_parallel_creates_are_all_different(api):
    ids = []

    def one():
        with api.again() as own:
            for _ in range(3):
                ids.append(own.create()["id"])

    threads = [threading.Thread(target=one) for _ in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(set(ids)) == 18
    assert set(ids) <= set(api.ids())
    for id in ids:
        api.remove(id)


def test_removing_a_sandbox_ends_its_streams_and_execs(api):
    id = api.create()["id"]
    got = {}

    def waiting():
        with api.again() as own:
            got["reply"] = own.try_exec(id, "touch /tmp/on; sleep 1000", timeout=60)

    t = threading.Thread(target=waiting)
    t.start()
    wait_until(lambda: api.exec(id, "test -e /tmp/on")["exitCode"] == 0)
    api.remove(id)
    t.join(60)
    assert not t.is_alive()
    assert got["reply"].status in (200, 404, 409, 500, 503)
