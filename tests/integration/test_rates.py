"""Rate limits: of a caller, and of a sandbox."""

import math
import time

import pytest

from cay_harness import Reply

pytestmark = pytest.mark.core

TOKEN = "a-token-of-this-test"


@pytest.fixture
def limited(daemon_of):
    """Some commands and calls for files a minute, and many requests."""
    return daemon_of(env={"CAY_RATE_LIMIT_ENABLED": "true", "CAY_RATE_SBX_EXEC_PM": 3, "CAY_RATE_SBX_FS_PM": 4,
                          "CAY_RATE_TOKEN_BURST": 60, "CAY_RATE_TOKEN_RPM": 60, "CAY_AUTH_TOKEN": TOKEN}).start()


def left(reply):
    return {k: int(reply.headers["RateLimit-" + k]) for k in ("Limit", "Remaining", "Reset")}


class Bucket:
    """What the headers must say of a bucket that was full at first: exactly, but for what came back to it since then, which
    the clock says."""

    def __init__(self, limit, per_minute):
        self.limit, self.seconds, self.began, self.taken = limit, 60 / per_minute, time.monotonic(), 0

    def take(self, call):
        """Makes a call, which takes a token or is refused; there are no more tokens than the clock allows."""
        reply = call()
        self.taken += reply.status != 429
        assert self.taken <= self.limit + (time.monotonic() - self.began) / self.seconds, self.taken
        return reply

    def refused(self, call, text=None):
        """The refusal of a call when the bucket is empty. Tokens that came back meanwhile are taken first."""
        while (reply := self.take(call)).status != 429:
            pass
        reply.failed(429, "rate_limited", text)
        return reply

    def check(self, reply, taken):
        passed = time.monotonic() - self.began
        said = left(reply)
        assert said["Limit"] == self.limit
        assert self.limit - taken <= said["Remaining"] <= self.limit - taken + passed / self.seconds, (said, passed)
        assert taken * self.seconds - passed <= said["Reset"] <= math.ceil(taken * self.seconds), (said, passed)


def post(api, path, body):
    """The reply to a POST. Only a refusal is read to its end: a terminal or a watch that began has none."""
    with api.again() as own:
        reply = own.start("POST", path, body)
        return Reply(reply.status, reply.headers, reply.read() if reply.status == 429 else b"")


def test_answers_tell_what_is_left(limited):
    with limited.api() as api:
        bucket = Bucket(60, 60)
        first, second = api.get("/sandboxes"), api.get("/sandboxes")
        for n, reply in enumerate((first, second), 1):
            bucket.check(reply, taken=n)
        assert first.headers["RateLimit-Policy"] == "60;w=60;burst=60"
        assert left(api.get("/sandboxes/none"))["Limit"] == 60  # failures do, too
        assert api.get("/health").headers["RateLimit-Limit"] is None


def test_a_sandbox_has_a_rate_for_commands_and_one_for_files(limited):
    with limited.api() as api:
        box, other = api.create()["id"], api.create()["id"]
        bucket, files = Bucket(3, 3), Bucket(4, 4)
        for n in range(3):
            reply = bucket.take(lambda: api.try_exec(box, "true"))
            assert reply.status == 200
            bucket.check(reply, taken=n + 1)
        reply = bucket.refused(lambda: api.try_exec(box, "true"), "CAY_RATE_SBX_EXEC_PM")
        assert 1 <= int(reply.headers["Retry-After"]) <= 20 and left(reply)["Remaining"] == 0
        for how in ("exec/background", "exec/stream", "terminal", "interpret/execute", "exec/queue"):
            body = {"code": "1"} if "interpret" in how else {} if how == "terminal" else {"command": "true"}
            bucket.refused(lambda: post(api, f"/sandboxes/{box}/{how}", body))
        bucket.refused(lambda: api.post(f"/sandboxes/{box}/interpret/contexts", {"language": "python"}))
        bucket.refused(lambda: api.get(f"/sandboxes/{box}/interpret/kernels"))
        api.try_exec(other, "true").ok()
        for _ in range(4):
            files.take(lambda: api.file(box, "list")).ok()
        files.refused(lambda: api.file(box, "list"), "CAY_RATE_SBX_FS_PM")
        files.refused(lambda: post(api, f"/sandboxes/{box}/files/watch", {}))
        # What ends something is not refused, nor is anything else of it.
        api.post(f"/sandboxes/{box}/exec/interrupt", {}).ok()
        api.sandbox(box)


def test_by_name_it_is_the_same_sandbox(limited):
    with limited.api() as api:
        box = api.create(name="mine")["id"]
        bucket = Bucket(3, 3)
        for word in ("mine", box, "mine"):
            bucket.take(lambda: api.try_exec(word, "true")).ok()
        for word in ("mine", box):
            bucket.refused(lambda: api.try_exec(word, "true"))


def test_the_unix_socket_is_not_limited(limited):
    with limited.unix_api() as api:
        box = api.create()["id"]
        for _ in range(10):
            assert api.try_exec(box, "true").headers["RateLimit-Limit"] is None
            api.file(box, "list").ok()


def test_tokens_have_buckets_of_their_own(daemon_of):
    daemon = daemon_of(env={"CAY_RATE_LIMIT_ENABLED": "true", "CAY_RATE_TOKEN_BURST": 3, "CAY_RATE_TOKEN_RPM": 1,
                            "CAY_AUTH_TOKEN": TOKEN}).start()
    with daemon.unix_api() as root:
        mine, other = (root.post("/tokens", {"name": n, "scopes": ["read"]}).ok()["token"] for n in ("a", "b"))
    with daemon.api(token=mine) as api:
        assert [api.get("/sandboxes").status for _ in range(4)] == [200, 200, 200, 429]
    with daemon.api(token=other) as api:
        assert api.get("/sandboxes").status == 200


def test_tokens_that_are_made_up_fill_nothing_and_free_nobody(daemon_of):
    daemon = daemon_of(env={"CAY_RATE_LIMIT_ENABLED": "true", "CAY_RATE_TOKEN_BURST": 2, "CAY_RATE_TOKEN_RPM": 1,
                            "CAY_AUTH_TOKEN": TOKEN}).start()
    with daemon.api() as api, daemon.api(token=None) as stranger:
        began = time.monotonic()
        assert [api.get("/sandboxes").status for _ in range(3)] == [200, 200, 429]
        for n in range(5000):
            assert stranger.get("/sandboxes", headers={"Authorization": f"Bearer made-up-{n}"}).status == 403
        again = [api.get("/sandboxes").status for _ in range(2)]
        assert again.count(200) <= (time.monotonic() - began) / 60, again  # one per minute comes back, and none is made up
    open_daemon = daemon_of(env={"CAY_RATE_LIMIT_ENABLED": "true", "CAY_RATE_TOKEN_BURST": 2, "CAY_RATE_TOKEN_RPM": 1}).start()
    with open_daemon.api() as api:  # where none is needed
        assert [api.get("/sandboxes", headers={"Authorization": f"Bearer made-up-{n}"}).status for n in range(3)][-1] == 429


def test_ids_that_are_made_up_free_no_sandbox(limited):
    with limited.api() as api, limited.unix_api() as root:
        box = root.create()["id"]
        bucket = Bucket(3, 3)
        for _ in range(3):
            bucket.take(lambda: api.try_exec(box, "true")).ok()
        for n in range(20):
            api.try_exec(f"sbx_{n:024x}", "true").failed(404)
        bucket.refused(lambda: api.try_exec(box, "true"))
