"""Jobs outlive the daemon: kill -9 at any point loses none, and runs none twice."""

import collections
import http.client
import random
import threading

import pytest

from cay_harness import pids, read_link, read_text, wait_until
from cay_order import end_sleep
from test_queue import becomes, ended, is_up, lines, processes, status, submit, waits

pytestmark = [pytest.mark.core, pytest.mark.counts_rows]


def test_a_job_that_runs_is_found_again(own):
    with own.unix_api() as api:
        box = api.create()["id"]
        job = submit(api, box, "echo before; " + waits("k") + "; echo after; exit 5", retryOnExit=True, maxRetries=1)
        is_up(api, box, "k")
        own.kill9()
    own.start()
    with own.unix_api() as api:
        assert status(api, job)["status"] == "running"
        wait_until(lambda: api.get(f"/queue/{job}/logs").ok()["stdout"] == "before\n")
        api.sh(box, "touch /tmp/go")
        now = ended(api, job)
        assert (now["exitCode"], now["retries"], now["result"]["stdout"]) == (5, 1, "before\nafter\n")
        assert lines(api, box) == ["k"]


def test_a_job_that_ends_while_nobody_is_there_has_ended(own):
    with own.unix_api() as api:
        box = api.create()["id"]
        job = submit(api, box, waits("e") + "; echo x$(seq -s, 5000); touch /tmp/over")
        is_up(api, box, "e")
        api.background(box, "sleep 271828; touch /tmp/go")
        agent = own.agent_pid(box)
        own.kill9()
    end_sleep(box, 271828)
    wait_until(lambda: not any("/tmp/go" in c for c in commands_below(agent)), what="the job ends by itself")
    own.start()
    with own.unix_api() as api:
        now = ended(api, job)
        assert now["status"] == "completed" and now["retries"] == 0
        assert now["result"]["stdout"].startswith("x1,2,") and now["result"]["stdout"].endswith(",5000\n")
        assert lines(api, box) == ["e"]


def test_much_output_of_others_does_not_make_a_job_run_again(daemon_of):
    """Of long outputs a sandbox keeps some; that a command ran must not be forgotten with what it put out."""
    own, names = daemon_of(env={"CAY_QUEUE_CONCURRENCY": 40}).start(), [f"n{i}" for i in range(40)]
    with own.unix_api() as api:
        box = api.create()["id"]
        jobs = [submit(api, box, f"{waits(n)}; head -c 70000 /dev/zero; echo {n} >>/tmp/over") for n in names]
        wait_until(lambda: sorted(lines(api, box)) == sorted(names), what="all of them run")
        api.background(box, "sleep 271828; touch /tmp/go")
        agent = own.agent_pid(box)
        own.kill9()
    end_sleep(box, 271828)
    wait_until(lambda: not any("/tmp/go" in c for c in commands_below(agent)), what="the jobs end by themselves")
    own.start()
    with own.unix_api() as api:
        for job in jobs:
            now = ended(api, job)
            assert (now["status"], now["retries"], now["exitCode"]) == ("completed", 0, 0)
        assert sorted(lines(api, box)) == sorted(lines(api, box, "/tmp/over")) == sorted(names)


def commands_below(agent):
    """What runs in the box of that agent, as the host sees it."""
    space = read_link(f"/proc/{agent}/ns/mnt")
    return [read_text(f"/proc/{pid}/cmdline").replace("\0", " ") for pid in pids()
            if read_link(f"/proc/{pid}/ns/mnt") == space]


def test_a_cancelled_job_ends_also_after_a_crash(own):
    with own.unix_api() as api:
        box = api.create()["id"]
        job = submit(api, box, "touch /tmp/up-c; sleep 98765")
        is_up(api, box, "c")
        api.post(f"/sandboxes/{box}/pause").ok()
        own.kill9()
    own.start()
    with own.unix_api() as api:
        api.post(f"/queue/{job}/cancel").ok()
        own.kill9()
    own.start()
    with own.unix_api() as api:
        assert status(api, job)["status"] == "cancelled"
        api.post(f"/sandboxes/{box}/resume").ok()
        wait_until(lambda: processes(api, box, "98765") == [], what="end of a cancelled job")


def test_a_stop_of_the_daemon_ends_no_job(own):
    with own.unix_api() as api:
        box = api.create()["id"]
        job = submit(api, box, waits("s"))
        is_up(api, box, "s")
    own.stop()
    own.start()
    with own.unix_api() as api:
        becomes(api, job, "running")
        api.sh(box, "touch /tmp/go")
        assert ended(api, job)["retries"] == 0 and lines(api, box) == ["s"]


def test_jobs_that_wait_outlive_the_daemon(own):
    with own.unix_api() as api:
        box = api.create()["id"]
        api.post(f"/sandboxes/{box}/pause").ok()
        jobs = [submit(api, box, f"echo {n} >>/tmp/ran") for n in range(20)]
        late = submit(api, box, "echo late >>/tmp/ran", delay=0.2)
        own.kill9()
    own.start()
    with own.unix_api() as api:
        api.post(f"/sandboxes/{box}/resume").ok()
        for job in [*jobs, late]:
            assert ended(api, job)["status"] == "completed"
        assert collections.Counter(lines(api, box)) == collections.Counter([*map(str, range(20)), "late"])


class Load(threading.Thread):
    """Submits jobs, each with a number, until it cannot; says which were acknowledged."""

    def __init__(self, daemon, box, first):
        super().__init__()
        self.daemon_process, self.box, self.number, self.known = daemon, box, first, {}

    def run(self):
        try:
            with self.daemon_process.unix_api() as api:
                while True:
                    n = self.number
                    self.number += 1
                    self.known[submit(api, self.box, f"echo {n} >>/tmp/count; exit {n % 3}")] = n
        except (OSError, http.client.HTTPException):
            pass  # it was killed


@pytest.mark.parametrize("seed", range(4))
def test_each_job_runs_once_whenever_the_daemon_is_killed(own, seed):
    chance = random.Random(seed)
    known = {}
    with own.unix_api() as api:
        box = api.create()["id"]
    for turn in range(4):
        load = [Load(own, box, 100000 * turn + 10000 * n) for n in range(3)]
        for t in load:
            t.start()
        want = chance.randrange(5, 120)
        wait_until(lambda: sum(len(t.known) for t in load) >= want, 60, what="jobs are submitted")
        own.kill9()
        for t in load:
            t.join()
            known.update(t.known)
        own.start()
    with own.unix_api() as api:
        wait_until(lambda: api.get("/queue?status=pending&limit=1").ok()["total"] == 0 and
                   api.get("/queue?status=running&limit=1").ok()["total"] == 0, timeout=60, what="the queue is empty")
        for job, n in known.items():
            now = status(api, job)
            assert (now["status"], now["exitCode"], now["retries"]) == ("completed", n % 3, 0), now
        count = collections.Counter(api.exec(box, "cat /tmp/count")["stdout"].split())
        assert {n: c for n, c in count.items() if c != 1} == {}
        assert set(map(str, known.values())) <= set(count)
        # One that was not acknowledged may have run; then the queue knows it.
        assert len(count) == api.get("/queue?status=completed&limit=1").ok()["total"]
