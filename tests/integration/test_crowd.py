"""Thousands who wait hold nobody up: they cost descriptors and a little memory, and no threads."""

import resource

import pytest

from cay_crowd import ENTRYPOINT, WHOLE, Crowd, descriptors, metrics_reader, parked, status_of
from cay_harness import RSS_SLACK_KIB, wait_until

pytestmark = [pytest.mark.full, pytest.mark.alone]

SANDBOXES = 30
THREADS_MAX = 40
GROWTH_MAX_KIB = 64 << 10
FILES_A_SEAT, FILES_KEPT = 4, 512  # what the server reserves, see src/http/server.c


@pytest.fixture
def crowded(daemon_of):
    # Without boxes that are made ahead: those come while descriptors are counted.
    daemon = daemon_of("crowd", env={"CAY_MAX_SANDBOXES": SANDBOXES + 10, "CAY_POOL": 0, "CAY_LOG_LEVEL": "info"})
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < FILES_KEPT + FILES_A_SEAT * (sum(WHOLE) + 100):
        pytest.skip(f"needs more descriptors than {hard}")
    return daemon.start()


def holds(daemon):
    return {"sets": parked(daemon.pid), "descriptors": descriptors(daemon.pid)}


def test_a_crowd_that_waits_holds_nobody_up_and_leaves_nothing(crowded):
    with crowded.api() as api:
        ids = [api.create(entrypoint=ENTRYPOINT)["id"] for _ in range(SANDBOXES)]
        api.exec(ids[0], "true")
        before, rss = holds(crowded), status_of(crowded.pid, "VmRSS")
        with Crowd(crowded.port) as crowd:
            crowd.gather(ids)
            wait_until(lambda: parked(crowded.pid) == before["sets"] + sum(WHOLE), 30,
                       f"parking of {sum(WHOLE)}")
            others_are_served(api, ids[-1])
            assert parked(crowded.pid) > before["sets"] + sum(WHOLE) * (SANDBOXES - 2) // SANDBOXES
            # Those that were needed while all came at once leave after 10 s without work.
            wait_until(lambda: status_of(crowded.pid, "Threads") < THREADS_MAX, 30, "few threads")
            grown = status_of(crowded.pid, "VmRSS") - rss
            assert grown < GROWTH_MAX_KIB + RSS_SLACK_KIB, f"grown by {grown} KiB"
        wait_until(lambda: holds(crowded)["sets"] == before["sets"], 30, "end of all that was parked")
        wait_until(lambda: holds(crowded)["descriptors"] <= before["descriptors"], 30,
                   "closing of the descriptors")
        for id in ids[:-1]:
            wait_until(lambda: not sleepers(api, id), 30, f"end of the commands in {id}")


def others_are_served(api, id):
    for _ in range(50):
        api.get("/health").ok()
    other = api.create()["id"]
    assert api.sh(other, "echo served") == "served\n"
    api.remove(other)
    api.remove(id)
    api.get(f"/sandboxes/{id}").failed(404, "sandbox_removed")


def sleepers(api, id):
    """Those that the crowd started: the main process sleeps too."""
    return len([p for p in api.processes(id) if "sleep 1000" in p["command"]]) - 1


def test_a_call_beyond_the_seats_is_told_to_come_again(daemon_of):
    seats = 20
    limit = FILES_KEPT + FILES_A_SEAT * seats
    daemon = daemon_of("seats", env={"CAY_LOG_LEVEL": "info"}).start(
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
    with daemon.api() as api:
        id = api.create()["id"]
        with Crowd(daemon.port) as crowd:
            crowd.join([metrics_reader(id) for _ in range(seats)])
            for reply in (api.get(f"/sandboxes/{id}/stream/metrics"), api.try_exec(id, "true")):
                reply.failed(503, "busy")
                assert int(reply.headers["Retry-After"]) >= 1
            api.get("/health").ok()
            api.write(id, "note", "a call that does not wait needs no seat")
        wait_until(lambda: api.try_exec(id, "true").status == 200, what="a free seat")


def test_streams_of_a_removed_sandbox_end_also_when_nothing_is_due(own):
    with own.api() as api:
        id = api.create()["id"]
        before = parked(own.pid)
        with Crowd(own.port) as crowd:
            crowd.join([metrics_reader(id) for _ in range(3)])
            wait_until(lambda: parked(own.pid) == before + 3)
            api.remove(id)
            wait_until(lambda: parked(own.pid) == before, 30, "end of the streams")
