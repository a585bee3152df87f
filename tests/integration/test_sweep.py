"""What happens when a sandbox's time is over."""

import contextlib
import time

import pytest

from cay_harness import wait_until

pytestmark = pytest.mark.core


def expire(daemon, *ids):
    """Turns the clock of these on while the daemon is away."""
    marks = ",".join("?" * len(ids))
    with contextlib.closing(daemon.database()) as db:
        db.execute(f"update sandbox set expires_ms = ?, deadline_ns = 1 where id in ({marks})",
                   (int(time.time() * 1000) - 1000, *ids))
        db.commit()


def test_the_sweep_removes_what_has_expired_and_nothing_else(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 3600}).start()
    with daemon.api() as api:
        ids = [api.create()["id"] for _ in range(4)]
        api.post(f"/sandboxes/{ids[1]}/pause").ok()
        daemon.stop()
        expire(daemon, ids[0], ids[1])
        daemon.start()
        before = set(api.ids())
        swept = api.post("/admin/sweep").ok()["swept"]
        assert set(api.ids()) == set(ids[2:])
        assert swept == len(before) - 2
        assert api.post("/admin/sweep").ok() == {"swept": 0}
        for id in ids[:2]:
            api.get(f"/sandboxes/{id}").failed(404)
        for id in ids[2:]:
            assert api.sh(id, "echo on") == "on\n"
        assert api.get("/metrics").ok()["totalExpired"] == 2


def test_the_sweep_comes_by_itself(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 1}).start()
    with daemon.api() as api:
        gone, stays = api.create()["id"], api.create()["id"]
        daemon.stop()
        expire(daemon, gone)
        daemon.start()
        wait_until(lambda: api.get(f"/sandboxes/{gone}").status == 404, what="the sweep")
        assert api.sandbox(stays)["status"] == "running"


def test_a_renewed_sandbox_is_not_swept(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 3600}).start()
    with daemon.api() as api:
        id = api.create()["id"]
        daemon.stop()
        expire(daemon, id)
        daemon.start()
        if api.get(f"/sandboxes/{id}").status == 200:  # not swept at start: renewing saves it
            api.post(f"/sandboxes/{id}/renew", {"expiresAt": int(time.time() * 1000) + 300_000}).ok()
            assert api.post("/admin/sweep").ok() == {"swept": 0}
            assert api.sh(id, "echo on") == "on\n"


def test_a_wall_clock_that_jumped_sweeps_nothing(daemon_of):
    """The time left is counted by a clock that cannot be set (F15)."""
    daemon = daemon_of().start()
    with daemon.api() as api:
        id = api.create()["id"]
        daemon.stop()
        daemon.change_sandboxes("expires_ms = 1000")
        daemon.start()
        assert api.post("/admin/sweep").ok() == {"swept": 0}
        assert api.sh(id, "echo on") == "on\n"
