"""What a caller may ask for ends where the operator says; a life may have no end where he allows it."""

import time
from pathlib import Path

import pytest

import cay_harness
from cay_harness import SLOW, read_text, wait_until
from cay_ledger import cgroup_parents

pytestmark = pytest.mark.core

V2 = "memory" in read_text("/sys/fs/cgroup/cgroup.controllers")

THREADS = """
import errno, os, sys, threading
threading.stack_size(65536)
done, n = threading.Event(), 0
try:
    for _ in range(%d):
        threading.Thread(target=done.wait).start()
        n += 1
    word = "all"
except RuntimeError:
    try:
        os.fork()
    except OSError as e:
        word = errno.errorcode[e.errno]
done.set()
print(word, n)
"""


def threads(api, id, n):
    word, got = api.sh(id, ["python3", "-c", THREADS % n], timeout=60 * SLOW).split()
    return word, int(got)


def pids_max(daemon, id):
    if V2:
        return int((Path(cgroup_parents(daemon)[0]) / id / "work" / "pids.max").read_text())
    return int((Path("/sys/fs/cgroup/pids") / daemon.cgroup_name() / id / "pids.max").read_text())


def cay(daemon, *args, status=0):
    """What it prints; what it complains of when it is to fail."""
    done = cay_harness.cay(daemon, *args)
    assert done.returncode == status, done
    return (done.stdout if status == 0 else done.stderr).decode()


# ---- processes and threads ----


def test_three_hundred_threads_are_no_trouble_and_eleven_hundred_are(api, make):
    box = make()
    assert box["config"]["pids"] == 1024
    assert threads(api, box["id"], 300) == ("all", 300)
    word, n = threads(api, box["id"], 1100)
    assert word == "EAGAIN" and 1000 < n < 1024
    assert api.sh(box["id"], "echo alive") == "alive\n"


def test_a_sandbox_has_as_many_processes_as_it_was_made_for(api, make, shared):
    few, many = make(pids=32)["id"], make(pids=2000)["id"]
    assert pids_max(shared, few) == 32 and pids_max(shared, many) == 2000
    word, n = threads(api, few, 100)
    assert word == "EAGAIN" and n < 32
    assert threads(api, many, 1100) == ("all", 1100)


def test_a_bomb_of_as_many_as_a_sandbox_has_by_default_stays_inside(api, make):
    id, other = make()["id"], make()["id"]
    # The shell is a static program. Processes that fork hold the kernel's lock of each file that they map, and with the lock of the C library
    # they would delay commands of other tests (SECURITY.md, "What neighbours notice").
    api.background(id, "exec busybox sh -c 'b() { b | b & }; b; sleep 1000'")
    wait_until(lambda: api.get(f"/sandboxes/{id}/metrics").ok()["pids"] > 900, what="the bomb")
    for _ in range(8):  # some processes hold the lock that guards their command lines, and have no CPU time to release it
        assert api.processes(id)
    assert api.get(f"/sandboxes/{id}/metrics").ok()["pids"] <= 1024
    assert api.sh(other, "echo fine") == "fine\n"
    api.remove(id)


def test_the_fewest_processes_are_enough_for_a_command(api, make):
    id = make(pids=1)["id"]
    assert api.sandbox(id)["config"]["pids"] == 16
    assert api.sh(id, "echo a | cat | cat") == "a\n"


def test_groups_that_are_used_again_get_the_limit_of_their_box(daemon_of):
    own = daemon_of(env={"CAY_POOL": 1}).start()
    with own.api() as api:
        for pids in (32, 1024, 700, 16, 4096, 1024):
            id = api.create(pids=pids)["id"]
            assert pids_max(own, id) == pids
            api.remove(id)


def test_the_limit_on_processes_outlives_the_daemon(daemon_of):
    own = daemon_of().start()
    with own.api() as api:
        id = api.create(pids=40)["id"]
    own.kill9()
    own.start()
    with own.api() as api:
        assert api.sandbox(id)["config"]["pids"] == 40 == pids_max(own, id)
        assert threads(api, id, 100)[0] == "EAGAIN"


def test_a_sandbox_of_the_version_before_keeps_its_limit(daemon_of):
    """It had 256 in its row and in its group, and a ceiling that is lower changes neither."""
    own = daemon_of(env={"CAY_DEFAULT_PIDS": 256}).start()
    with own.api() as api:
        id = api.create()["id"]
    own.stop()
    own.extra.pop("CAY_DEFAULT_PIDS")
    own.extra["CAY_MAX_PIDS"] = "100"
    own.start()
    with own.api() as api:
        assert api.sandbox(id)["config"]["pids"] == 256 == pids_max(own, id)
        assert api.create()["config"]["pids"] == 100


# ---- ceilings ----


@pytest.fixture
def wide(daemon_of):
    return daemon_of(env={"CAY_MAX_MEMORY": 6000, "CAY_MAX_CPU": 6.5, "CAY_MAX_PIDS": 5000,
                          "CAY_MAX_TIMEOUT": 100000}).start()


def test_the_api_takes_the_ceiling_for_what_is_beyond(wide):
    with wide.api() as api:
        limits = api.get("/info").ok()["limits"]
        assert (limits["memoryMaxMb"], limits["cpuMax"], limits["pidsMax"], limits["timeoutMax"]) == (
            6000, 6.5, 5000, 100000)
        made = api.create(memory=10**12, cpu=99, pids=10**9, timeout=10**15)
        config = made["config"]
        assert (config["memory"], config["cpu"], config["pids"], config["timeout"]) == (6000, 6.5, 5000, 100000)
        assert made["expiresAt"] - made["createdAt"] == 100000 * 1000
        assert pids_max(wide, made["id"]) == 5000
        asked = time.time() * 1000
        again = api.post(f"/sandboxes/{made['id']}/renew", {"expiresAt": 10**15}).ok()
        assert asked - 10 <= again["expiresAt"] - 100000 * 1000 <= time.time() * 1000 + 10


def test_the_command_line_refuses_with_the_range_of_the_daemon(wide):
    for flag, value, says in (("--memory", "7000", "from 64 to 6000 MB"), ("--cpu", "7", "from 0.5 to 6.5 cores"),
                              ("--pids", "6000", "from 16 to 5000 processes"),
                              ("--timeout", "2d", "from 60 to 100000 seconds")):
        said = cay(wide, "create", flag, value, status=2)
        assert says in said and f"CAY_MAX_{flag[2:].upper()}" in said, said
    assert "from 16 to 5000 processes, not 3" in cay(wide, "run", "--pids", "3", "host", "true", status=2)
    id = cay(wide, "create", "--memory", "5G", "--cpu", "6", "--pids-limit", "4500", "--timeout", "25h").strip()
    with wide.api() as api:
        config = api.sandbox(id)["config"]
    assert (config["memory"], config["cpu"], config["pids"], config["timeout"]) == (5120, 6, 4500, 90000)
    assert "6000 MB, 6.5 cores, 5000 processes and 100000 seconds" in cay(wide, "doctor")


def test_a_default_does_not_pass_its_ceiling(daemon_of):
    own = daemon_of(env={"CAY_MAX_MEMORY": 128, "CAY_MAX_PIDS": 64, "CAY_MAX_TIMEOUT": 120}).start()
    with own.api() as api:
        config = api.create()["config"]
        assert (config["memory"], config["pids"], config["timeout"]) == (128, 64, 120)
    status, said = daemon_of(env={"CAY_MAX_MEMORY": 128, "CAY_DEFAULT_MEMORY": 256}).refused()
    assert status == 2 and "CAY_DEFAULT_MEMORY=256 is beyond CAY_MAX_MEMORY=128" in said


def test_the_least_total_holds_a_sandbox(daemon_of):
    """That less is refused is in tests/unit/test_config.c."""
    own = daemon_of(env={"CAY_TOTAL_MEMORY": 64, "CAY_TOTAL_PIDS": 32, "CAY_POOL": 0}).start()
    with own.api() as api:
        assert api.sh(api.create()["id"], "echo one") == "one\n"


# ---- lives without an end ----


def test_zero_is_the_least_where_there_is_a_ceiling(api, make, shared):
    """As in the public worker."""
    made = make(timeout=0)
    assert made["config"]["timeout"] == 60 and made["expiresAt"] - made["createdAt"] == 60000
    asked = time.time() * 1000
    again = api.post(f"/sandboxes/{made['id']}/renew", {"expiresAt": 0}).ok()
    assert asked - 10 <= again["expiresAt"] - 60000 <= time.time() * 1000 + 10
    said = cay(shared, "create", "--timeout", "0", status=2)
    assert "from 60 to 86400 seconds" in said and "CAY_MAX_TIMEOUT=0" in said
    assert "CAY_MAX_TIMEOUT=0" in cay(shared, "renew", made["id"], "0", status=2)


def test_a_sandbox_without_an_end_stays(daemon_of):
    own = daemon_of(env={"CAY_MAX_TIMEOUT": 0, "CAY_TTL_SWEEP": 1}).start()
    id = cay(own, "create", "--timeout", "0", "--name", "stays").strip()
    with own.api() as api:
        assert "timeoutMax" not in api.get("/info").ok()["limits"]
        ends = api.create(timeout=60)["id"]
        box = api.sandbox(id)
        assert box["expiresAt"] == 0 and box["config"]["timeout"] == 0
        assert "never" in next(line for line in cay(own, "ls").splitlines() if id in line)
    own.kill9()
    # As after hours away: its neighbour's end has come, and it has none.
    own.change_sandboxes("deadline_ns = 1, expires_ms = 1 WHERE id = ?", ends)
    own.start()
    with own.api() as api:
        wait_until(lambda: api.get(f"/sandboxes/{ends}").status == 404)
        assert api.post("/admin/sweep").ok()["swept"] == 0
        assert api.sandbox(id)["expiresAt"] == 0
        assert api.sh(id, "echo alive") == "alive\n"
    own.stop()
    # As after a reboot.
    own.change_sandboxes("boot_id = 'another' WHERE id = ?", id)
    own.start()
    with own.api() as api:
        assert api.post("/admin/sweep").ok()["swept"] == 0
        assert api.sandbox(id)["status"] == "stopped" and api.sandbox(id)["expiresAt"] == 0


def test_an_end_can_be_given_and_taken_away(daemon_of):
    own = daemon_of(env={"CAY_MAX_TIMEOUT": 0, "CAY_DEFAULT_TIMEOUT": 0}).start()
    with own.api() as api:
        id = api.create()["id"]
        assert api.sandbox(id)["expiresAt"] == 0
        cay(own, "renew", id, "2h")
        assert api.sandbox(id)["expiresAt"] > 0
        cay(own, "renew", id, "0")
        assert api.sandbox(id)["expiresAt"] == 0
        cay(own, "renew", id, "400d")
        assert api.sandbox(id)["expiresAt"] - api.sandbox(id)["createdAt"] > 399 * 86400 * 1000
        cay(own, "renew", id)
        assert api.sandbox(id)["expiresAt"] == 0
        assert "60 seconds or more" in cay(own, "renew", id, "5", status=2)
        own.stop()
        own.extra["CAY_MAX_TIMEOUT"] = own.extra["CAY_DEFAULT_TIMEOUT"] = "3600"
        own.start()
    # It is not shortened by a renewal that says no time.
    with own.api() as api:
        assert "from 60 to 3600 seconds" in cay(own, "renew", id, status=2)
        assert api.sandbox(id)["expiresAt"] == 0


def test_a_command_has_no_time_where_the_operator_says_so(daemon_of):
    own = daemon_of(env={"CAY_MAX_CMD_TIMEOUT": 0}).start()
    with own.api() as api:
        assert "maxCommandSeconds" not in api.get("/info").ok()["limits"]
        id = api.create()["id"]
        assert api.sh(id, "echo fine", timeout=0) == "fine\n"
        assert api.sh(id, "echo fine") == "fine\n"
        api.try_exec(id, "sleep 1000", timeout=1).failed(408, "command_timeout", "after 1000ms")
