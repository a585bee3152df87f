"""Idempotency-Key: the same request sent twice makes one thing, whatever happens in between."""

import random
import threading

import pytest

from test_replace import replace

pytestmark = [pytest.mark.core, pytest.mark.counts_rows]


def keyed(key):
    return {"Idempotency-Key": key}


def create(api, key, **fields):
    return api.post("/sandboxes", {"image": "host", **fields}, headers=keyed(key))


def test_same_key_same_answer(own):
    with own.api() as api:
        first, second = create(api, "k"), create(api, "k")
        assert first.ok() == second.ok()
        assert first.headers["Idempotent-Replayed"] is None
        assert second.headers["Idempotent-Replayed"] == "true"
        assert api.ids() == [first.json["id"]]
        create(api, "k", name="other").failed(409, "idempotency_key_reused")
        # What was made may be gone: the answer is still that of then.
        api.remove(first.json["id"])
        assert create(api, "k").ok() == first.json
        assert api.ids() == []


def test_events_end_with_the_same_answer(own):
    with own.api() as api:
        made = create(api, "k").ok()
        response = api.start("POST", "/sandboxes", {"image": "host"},
                             headers={**keyed("k"), "Accept": "text/event-stream"})
        assert response.headers["Idempotent-Replayed"] == "true"
        assert made["id"] in response.read().decode()
        assert api.ids() == [made["id"]]


def test_who_fails_can_try_again_with_the_same_key(own):
    with own.api() as api:
        create(api, "k", image="no/such:1", pull="never").failed(404)
        create(api, "k", image="no/such:1", pull="never").failed(404)
        create(api, "k").ok()


def test_keys_that_are_none(own):
    with own.api() as api:
        for bad in ("", "two words", "x" * 256):
            create(api, bad).failed(400, "bad_idempotency_key")
        assert api.ids() == []
        # Rows that make nothing do not care.
        assert api.get("/sandboxes", headers=keyed("two words")).status == 200


THINGS = [("snapshots", {"name": "s"}), ("clone", {}), ("fork", {"count": 2}), ("terminal", {}),
          ("exec/background", {"command": "true"})]


def test_other_things_are_made_once(own):
    with own.api() as api:
        box = create(api, "box").ok()["id"]
        for path, body in THINGS:
            where = f"/sandboxes/{box}/{path}"
            first = api.post(where, body, headers=keyed(path))
            second = api.post(where, body, headers=keyed(path))
            assert first.ok() == second.ok() and second.headers["Idempotent-Replayed"] == "true"
            assert api.post(where, body, headers=keyed(path + "2")).ok() != first.json


def at_once(daemon, n, work):
    results = []

    def go():
        with daemon.api() as api:
            results.append(work(api))

    threads = [threading.Thread(target=go) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def test_at_once_one_is_made(own):
    with own.api() as api:
        for round in range(5):
            replies = at_once(own, 16, lambda a: create(a, f"k{round}"))
            assert {r.ok()["id"] for r in replies} == {replies[0].json["id"]}
            assert sum(r.headers["Idempotent-Replayed"] is None for r in replies) == 1
            assert len(api.ids()) == round + 1


def settle(daemon, keys):
    """Every key is sent again, twice; each has made one sandbox and no more."""
    with daemon.api() as api:
        for key in keys:
            first = create(api, key, metadata={"key": key}).ok()
            assert create(api, key, metadata={"key": key}).ok()["id"] == first["id"]
        found = [api.sandbox(id)["metadata"]["key"] for id in api.ids()]
        assert sorted(found) == sorted(keys)


class Storm:
    """Creates with keys, side by side, until the daemon is gone."""

    def __init__(self, daemon, name):
        self.daemon, self.name, self.keys, self.n = daemon, name, [], 0
        self.lock, self.some = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(4)]
        for t in self.threads:
            t.start()

    def run(self):
        api = self.daemon.api()
        while True:
            with self.lock:
                self.n += 1
                if self.n > 12:
                    break
                key = f"{self.name}-{self.n}"
                self.keys.append(key)
            try:
                create(api, key, metadata={"key": key})
            except Exception:
                break
            self.some.set()
        api.close()

    def join(self):
        for t in self.threads:
            t.join()


def test_kill_9_at_any_point(daemon_of):
    daemon = daemon_of(env={"CAY_MAX_SANDBOXES": 200}).start()
    rng, keys = random.Random(16), []
    for round in range(4):
        storm = Storm(daemon, f"r{round}")
        storm.some.wait(60)
        threading.Event().wait(rng.random() * 0.02)
        daemon.process.kill()
        daemon.process.wait()
        storm.join()
        daemon.start()
        settle(daemon, keys + storm.keys)
        keys += storm.keys


def test_replaced_by_another_daemon(daemon_of):
    daemon = daemon_of(env={"CAY_MAX_SANDBOXES": 200}).start()
    storm = Storm(daemon, "k")
    storm.some.wait(60)
    replace(daemon)
    storm.join()
    settle(daemon, storm.keys)
    replace(daemon)
    settle(daemon, storm.keys)
