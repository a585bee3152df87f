"""F06: the agent itself runs out of memory; and the workload's end is never the agent's."""

import glob
import http.client
import os

import pytest

from cay_harness import wait_until

pytestmark = [pytest.mark.full, pytest.mark.alone]

EAT = "python3 -c \"x = []\nwhile True: x.append(bytearray(1 << 20))\""


def leaf_files(daemon, id):
    """(what it uses, what it may use) of the agent's own cgroup, on v1 and v2."""
    for use, limit in (("memory.usage_in_bytes", "memory.limit_in_bytes"), ("memory.current", "memory.max")):
        for pid_file in glob.glob(f"/sys/fs/cgroup/**/{id}*/**/cgroup.procs", recursive=True):
            folder = os.path.dirname(pid_file)
            with open(pid_file) as f:
                has_agent = str(daemon.agent_pid(id)) in f.read().split()
            if has_agent and os.path.exists(f"{folder}/{limit}"):
                return f"{folder}/{use}", f"{folder}/{limit}"
    raise AssertionError("the agent has no memory cgroup")


def starve(use, limit):
    """Leaves the agent as little as the kernel allows; it may be killed at once."""
    for more in (0, 1 << 12, 1 << 14, 1 << 16, 1 << 18):
        try:
            with open(use) as f:
                now = int(f.read())
            with open(limit, "w") as f:
                f.write(str(now + more))
            return
        except OSError:
            continue
    raise AssertionError("its limit cannot be lowered")


def complaint(api, call):
    """The code of a refusal, None when it worked. An answer that has begun can only break off."""
    try:
        reply = call()
    except http.client.IncompleteRead:
        api.close()
        return "broken off"
    if reply.status == 200:
        return None
    reply.failed((404, 409, 429, 500, 503))
    return reply.code


def test_an_agent_that_is_out_of_memory_is_told_of_and_costs_its_own_sandbox_only(own):
    with own.api() as api:
        id, other = api.create()["id"], api.create()["id"]
        api.sh(id, "for i in $(seq 2000); do echo $i >$i; done")
        use, limit = leaf_files(own, id)
        api.file(id, "list", path=".").ok()  # the control: with its own limit it can
        failures = []

        def ended():
            if not api.sandbox(id)["status"] == "running":
                return True
            starve(use, limit)
            for call in (lambda: api.file(id, "list", path="."), lambda: api.file(id, "search", pattern="*"),
                         lambda: api.get(f"/sandboxes/{id}/processes")):
                if code := complaint(api, call):
                    failures.append(code)
            return len(failures) >= 3

        wait_until(ended, 60, "it to feel it")
        assert api.sandbox(id)["status"] in ("running", "stopped")
        if api.sandbox(id)["status"] == "stopped":
            assert api.sandbox(id)["reason"] == "agent_lost"
        assert api.sh(other, "echo on") == "on\n"
        api.remove(id)


def test_the_workloads_end_is_never_the_agents(own):
    with own.api() as api:
        id = api.create(memory=64)["id"]
        agent = own.agent_pid(id)
        for _ in range(3):
            done = api.exec(id, EAT, timeout=30)
            assert done["reason"] == "oom", done
            assert own.agent_pid(id) == agent
        assert api.sh(id, "echo on") == "on\n"
