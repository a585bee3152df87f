"""The queue: jobs that are kept until they have run, in order, some at a time, and never twice at once."""

import pytest

from cay_harness import wait_until
from cay_order import longer_and_longer

pytestmark = [pytest.mark.core, pytest.mark.counts_rows]

OVER = ("completed", "failed", "cancelled")


def submit(api, box, command, **fields):
    job = api.post(f"/sandboxes/{box}/exec/queue", {"command": command, **fields}).ok()
    assert job["status"] == "pending" and job["sandboxId"] == box
    return job["id"]


def status(api, job):
    return api.get(f"/queue/{job}/status").ok()


def ended(api, job):
    def over():
        now = status(api, job)
        return now if now["status"] in OVER else None

    return wait_until(over, 30, what=f"end of {job}")


def becomes(api, job, word):
    return wait_until(lambda: status(api, job)["status"] == word, what=f"{job} is {word}")


def lines(api, box, path="/tmp/ran"):
    return api.exec(box, f"cat {path} 2>/dev/null; true")["stdout"].split()


# Says that it runs, and waits for a file.
def waits(name):
    return f"echo {name} >>/tmp/ran; touch /tmp/up-{name}; until [ -e /tmp/go ]; do sleep 0.02; done"


def is_up(api, box, name):
    wait_until(lambda: api.exec(box, f"test -e /tmp/up-{name}")["exitCode"] == 0, what=f"{name} runs")


def processes(api, box, word):
    return [p for p in api.get(f"/sandboxes/{box}/processes").ok()["processes"] if word in p["command"]]


@pytest.fixture
def serial(daemon_of):
    """A daemon whose sandboxes run one job at a time."""
    return daemon_of(env={"CAY_QUEUE_CONCURRENCY": 1}).start()


def test_a_job_runs_and_its_result_is_kept(api, box):
    job = submit(api, box, "echo out; echo bad >&2; pwd; echo $A; exit 3", cwd="/tmp", env={"A": "b"})
    now = ended(api, job)
    assert now["status"] == "completed" and now["retries"] == 0 and "error" not in now
    assert now["result"]["exitCode"] == now["exitCode"] == 3
    assert now["result"]["stdout"] == "out\n/tmp\nb\n" and now["result"]["stderr"] == "bad\n"
    assert now["result"]["duration"] > 0 and not now["result"]["truncated"]
    assert now["createdAt"] <= now["startedAt"] <= now["completedAt"]
    logs = api.get(f"/queue/{job}/logs").ok()
    assert (logs["stdout"], logs["stderr"], logs["done"]) == ("out\n/tmp\nb\n", "bad\n", True)
    assert api.get(f"/queue/{job}/logs?cursor={logs['cursor']}").ok()["stdout"] == ""
    assert ended(api, submit(api, box, ["printf", "%s|", "a b", "c"]))["result"]["stdout"] == "a b|c|"


def test_what_is_wrong_is_told_at_once(api, box):
    url = f"/sandboxes/{box}/exec/queue"
    api.post(url, {}).failed(400, "invalid", "command")
    api.post(url, {"command": ""}).failed(400, "invalid", "command")
    api.post(url, {"command": "x", "env": {"A=B": "c"}}).failed(400, "invalid", "A=B")
    api.post("/sandboxes/sbx_000000000000000000000000/exec/queue", {"command": "x"}).failed(404, "sandbox_not_found")
    for what in ("status", "logs"):
        api.get(f"/queue/job_000000000000000000000000/{what}").failed(404, "job_not_found", "Queue job not found: job_0")
    api.post("/queue/nonsense/cancel", {}).failed(404, "job_not_found")


def test_jobs_of_a_sandbox_start_in_order(serial):
    with serial.unix_api() as api:
        box = api.create()["id"]
        jobs = [submit(api, box, f"echo {n} >>/tmp/ran") for n in range(30)]
        assert [ended(api, j)["status"] for j in jobs] == ["completed"] * 30
        assert lines(api, box) == [str(n) for n in range(30)]


def test_as_many_run_at_a_time_as_may(api, box):
    jobs = [submit(api, box, waits(f"n{n}")) for n in range(6)]
    for n in range(4):
        is_up(api, box, f"n{n}")
    assert sorted(lines(api, box)) == ["n0", "n1", "n2", "n3"]
    assert [status(api, j)["status"] for j in jobs] == ["running"] * 4 + ["pending"] * 2
    api.sh(box, "touch /tmp/go")
    assert {ended(api, j)["status"] for j in jobs} == {"completed"}
    assert len(lines(api, box)) == 6


def test_the_highest_priority_starts_first(serial):
    with serial.unix_api() as api:
        box = api.create()["id"]
        first = submit(api, box, waits("first"))
        is_up(api, box, "first")
        jobs = [submit(api, box, f"echo p{p} >>/tmp/ran", priority=p) for p in (-5, 0, 7, 3, 7)]
        api.sh(box, "touch /tmp/go")
        for j in [first, *jobs]:
            ended(api, j)
        assert lines(api, box) == ["first", "p7", "p7", "p3", "p0", "p-5"]


def test_a_delayed_job_does_not_start_before_its_time(api, box):
    for delay in longer_and_longer():  # until one is long enough for this machine to see the job wait
        late = submit(api, box, "date +%s%3N", delay=delay)
        now = status(api, late)
        assert now["runAt"] > now["createdAt"]
        if now["status"] == "pending":
            break
        assert ended(api, late)["startedAt"] >= now["runAt"]
    at = ended(api, submit(api, box, "date +%s%3N", runAt=now["createdAt"] + 300))
    assert at["startedAt"] >= now["createdAt"] + 300
    assert ended(api, late)["startedAt"] >= now["runAt"]
    never = submit(api, box, "true", delay=3600)
    api.post(f"/queue/{never}/cancel").ok()


def test_a_failed_try_is_made_again(serial):
    """Behind the jobs that were submitted after it: it has failed once while one of them runs."""
    with serial.unix_api() as api:
        box = api.create()["id"]
        jobs = [submit(api, box, waits("first"))]
        is_up(api, box, "first")
        job = submit(api, box, "pwd", cwd="/tmp/later", retryDelay=1, maxRetries=10)
        jobs.append(submit(api, box, "touch /tmp/up-second; until [ -e /tmp/go2 ]; do sleep 0.02; done"))
        api.sh(box, "touch /tmp/go")
        is_up(api, box, "second")
        now = status(api, job)
        assert now["status"] == "pending" and now["retries"] == 1 and "later" in now["error"], now
        api.sh(box, "mkdir /tmp/later; touch /tmp/go2")
        now = ended(api, job)
        assert now["status"] == "completed" and now["retries"] == 1 and now["result"]["stdout"] == "/tmp/later\n"
        assert {ended(api, j)["status"] for j in jobs} == {"completed"}


def test_another_exit_code_is_a_failure_only_for_who_says_so(api, box):
    count = "echo x >>/tmp/ran; test $(wc -l </tmp/ran) -ge 3 || exit 7"
    now = ended(api, submit(api, box, count, retryOnExit=True, retryDelay=0.01))
    assert (now["status"], now["retries"], now["exitCode"]) == ("completed", 2, 0)
    now = ended(api, submit(api, box, "echo why >&2; exit 7", retryOnExit=True, retryDelay=0, maxRetries=2))
    assert (now["status"], now["retries"], now["error"]) == ("failed", 2, "Command exited with code 7")
    assert now["result"]["stderr"] == "why\n" and now["result"]["exitCode"] == 7
    assert ended(api, submit(api, box, "exit 7", maxRetries=0))["status"] == "completed"


def test_a_timeout_ends_all_that_a_job_started(api, box):
    job = submit(api, box, "(setsid sleep 12345 &) ; sleep 12345", timeout=0.3, maxRetries=1)
    now = ended(api, job)
    assert (now["status"], now["error"]) == ("failed", "Command timed out after 300ms")
    assert processes(api, box, "12345") == []


def test_a_cancelled_job_does_not_run(api, box):
    waiting = submit(api, box, "touch /tmp/never", delay=3600)
    assert api.post(f"/queue/{waiting}/cancel").ok() == {"cancelled": waiting}
    assert status(api, waiting)["status"] == "cancelled"
    api.post(f"/queue/{waiting}/cancel").failed(409, "job_not_pending", "Job is not pending: cancelled")
    running = submit(api, box, "(setsid sleep 54321 &) ; touch /tmp/up-c; sleep 54321")
    is_up(api, box, "c")
    api.post(f"/queue/{running}/cancel").ok()
    assert status(api, running)["status"] == "cancelled"
    wait_until(lambda: processes(api, box, "54321") == [], what="end of a cancelled job")
    assert status(api, running)["status"] == "cancelled" and "completedAt" in status(api, running)
    done = submit(api, box, "true")
    ended(api, done)
    api.post(f"/queue/{done}/cancel").failed(409, "job_not_pending", "Job is not pending: completed")


def test_the_place_of_a_cancelled_job_is_free(serial):
    with serial.unix_api() as api:
        box = api.create()["id"]
        first = submit(api, box, waits("first"))
        is_up(api, box, "first")
        second = submit(api, box, "echo second")
        api.post(f"/queue/{first}/cancel").ok()
        assert ended(api, second)["result"]["stdout"] == "second\n"


def test_dead_letters_are_put_back_and_forgotten(api, box):
    jobs = [submit(api, box, "test -e /tmp/there", retryOnExit=True, maxRetries=1) for _ in range(3)]
    for j in jobs:
        assert ended(api, j)["status"] == "failed"
    dead = api.get(f"/queue/dlq?sandboxId={box}").ok()
    assert dead["total"] == 3 and [j["id"] for j in dead["jobs"]] == jobs[::-1]
    assert [j["id"] for j in api.get(f"/queue/dlq?sandboxId={box}&limit=1&offset=1").ok()["jobs"]] == [jobs[1]]
    api.sh(box, "touch /tmp/there")
    again = api.post(f"/queue/dlq/{jobs[0]}/requeue").ok()
    assert again["retries"] == 0 and "error" not in again
    assert ended(api, jobs[0])["status"] == "completed"
    api.post(f"/queue/dlq/{jobs[0]}/requeue").failed(409, "job_not_failed")
    assert api.delete(f"/queue/dlq/{jobs[1]}").ok() == {"purged": 1}
    api.get(f"/queue/{jobs[1]}/status").failed(404, "job_not_found")
    assert api.delete(f"/queue/dlq?sandboxId={box}").ok() == {"purged": 1}
    assert api.get(f"/queue/dlq?sandboxId={box}").ok() == {"jobs": [], "total": 0}
    listed = api.get(f"/queue?sandboxId={box}&status=completed").ok()
    assert [j["id"] for j in listed["jobs"]] == [jobs[0]] and "result" not in listed["jobs"][0]


def test_jobs_of_a_paused_or_stopped_sandbox_wait(api, make, box):
    for out, back in (("pause", "resume"), ("stop", "start")):
        api.post(f"/sandboxes/{box}/{out}").ok()
        job = submit(api, box, f"echo {back}")
        ended(api, submit(api, make()["id"], "true"))  # the queue has looked at it since
        assert status(api, job)["status"] == "pending"
        api.post(f"/sandboxes/{box}/{back}").ok()
        now = ended(api, job)
        assert now["result"]["stdout"] == f"{back}\n" and now["retries"] == 0


def test_a_job_that_runs_waits_with_its_paused_sandbox(api, box):
    job = submit(api, box, waits("p"))
    is_up(api, box, "p")
    api.post(f"/sandboxes/{box}/pause").ok()
    assert status(api, job)["status"] == "running"
    api.post(f"/sandboxes/{box}/resume").ok()
    api.sh(box, "touch /tmp/go")
    assert ended(api, job)["retries"] == 0 and lines(api, box) == ["p"]


def test_a_stop_fails_the_try_that_runs(api, box):
    job = submit(api, box, "test -e /tmp/up-s && exit 0; touch /tmp/up-s; sleep 1000", retryDelay=0.01)
    is_up(api, box, "s")
    api.post(f"/sandboxes/{box}/stop").ok()
    wait_until(lambda: status(api, job)["retries"] == 1)
    api.post(f"/sandboxes/{box}/start").ok()
    now = ended(api, job)
    assert (now["status"], now["retries"]) == ("completed", 1)


def test_jobs_of_a_removed_sandbox_fail(api, box):
    running = [submit(api, box, waits(f"r{n}")) for n in range(4)]
    for n in range(4):
        is_up(api, box, f"r{n}")
    waiting, delayed = submit(api, box, "true"), submit(api, box, "true", delay=3600)
    api.delete(f"/sandboxes/{box}").ok()
    for j in [*running, waiting, delayed]:
        now = ended(api, j)
        assert now["status"] == "failed" and now["error"].startswith("Sandbox not found"), now
    api.post(f"/queue/dlq/{waiting}/requeue").failed(404, "sandbox_removed")


def test_what_a_running_job_says_can_be_read(api, box):
    job = submit(api, box, "echo one; " + waits("l") + "; echo two")
    is_up(api, box, "l")
    wait_until(lambda: api.get(f"/queue/{job}/logs").ok()["stdout"] == "one\n")
    first = api.get(f"/queue/{job}/logs").ok()
    assert first["status"] == "running" and not first["done"]
    api.sh(box, "touch /tmp/go")
    ended(api, job)
    rest = api.get(f"/queue/{job}/logs?cursor={first['cursor']}").ok()
    assert rest["stdout"] == "two\n" and rest["done"]


def test_of_a_long_output_the_end_is_kept(api, box):
    job = submit(api, box, "i=0; while [ $i -lt 60000 ]; do echo line $i; i=$((i+1)); done; echo last >&2")
    now = ended(api, job)
    assert now["result"]["truncated"] and now["result"]["stdout"].endswith("line 59999\n")
    assert now["result"]["stderr"] == "last\n"
    assert len(now["result"]["stdout"]) + len(now["result"]["stderr"]) == 128 << 10
    logs = api.get(f"/queue/{job}/logs").ok()
    assert logs["lost"] + (128 << 10) == logs["cursor"]


def test_what_happens_to_jobs_is_told_as_events(api, box):
    good, bad = submit(api, box, "true"), submit(api, box, "false", retryOnExit=True, maxRetries=1)
    gone = submit(api, box, "true", delay=3600)
    ended(api, good), ended(api, bad)
    api.post(f"/queue/{gone}/cancel").ok()
    want = {(good, "queue.submitted"), (good, "queue.started"), (good, "queue.completed"), (bad, "queue.failed"),
            (gone, "queue.cancelled")}

    def told():
        events = api.get(f"/events/history?sandboxId={box}&limit=100").ok()["events"]
        return want <= {(e["data"].get("jobId"), e["topic"]) for e in events}

    wait_until(told, what="events of the queue")
    events = api.get(f"/events/history?sandboxId={box}&topic=queue.*&limit=100").ok()["events"]
    assert [e["topic"] for e in events if e["data"]["jobId"] == good][::-1] == [
        "queue.submitted", "queue.started", "queue.completed"]


def test_old_jobs_are_forgotten(daemon_of):
    own = daemon_of(env={"CAY_QUEUE_KEEP": 3, "CAY_QUEUE_CONCURRENCY": 1}).start()  # those that ended last are kept
    with own.unix_api() as api:
        box = api.create()["id"]
        jobs = [submit(api, box, f"echo {n}") for n in range(8)]
        wait_until(lambda: api.get("/queue").ok()["total"] == 3, what="old jobs are gone")
        api.get(f"/queue/{jobs[0]}/status").failed(404, "job_not_found")
        assert status(api, jobs[-1])["status"] == "completed"


def test_cancelled_jobs_are_forgotten_too(daemon_of):
    own = daemon_of(env={"CAY_QUEUE_KEEP": 3}).start()
    with own.unix_api() as api:
        box = api.create()["id"]
        for job in [submit(api, box, "true", delay=3600) for _ in range(8)]:
            api.post(f"/queue/{job}/cancel").ok()
        wait_until(lambda: api.get("/queue").ok()["total"] == 3, what="old jobs are gone")


def test_a_try_that_says_nothing_has_no_output_of_the_one_before(api, box):
    job = submit(api, box, "test -e /tmp/x || { touch /tmp/x; echo first; exit 1; }", retryOnExit=True, retryDelay=0.01)
    now = ended(api, job)
    assert (now["status"], now["retries"]) == ("completed", 1)
    assert (now["result"]["stdout"], now["result"]["exitCode"]) == ("", 0)
    assert api.get(f"/queue/{job}/logs").ok()["stdout"] == ""
