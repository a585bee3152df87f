"""Processes of the agent that wait for calls, and what happens when the kernel kills them."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from cay_harness import SLOW, read_text, wait_until

pytestmark = [pytest.mark.core, pytest.mark.alone]

ROUNDS = 12


def below(pid):
    return [int(child) for child in read_text(f"/proc/{pid}/task/{pid}/children").split()]


def spares(agent):
    """The supervisors that have no command."""
    spawners = [pid for pid in below(agent) if read_text(f"/proc/{pid}/comm") == "cay-spawn\n"]
    return [pid for spawner in spawners for pid in below(spawner) if not below(pid)]


def some_spares(own, id, agent):
    """Execs that run together leave more than one."""
    def run():
        with own.api() as api:
            api.exec(id, ["sleep", "0.3"])

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: len(spares(agent)) > 1, 60, "spares")
    return spares(agent)


@pytest.fixture
def busy():
    """A processor on which nothing idle gets its turn soon."""
    cpu = min(os.sched_getaffinity(0))
    hog = subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{cpu}])\nwhile True: pass"])
    yield cpu
    hog.kill()
    hog.wait()


def test_a_caller_is_served_though_the_spare_that_it_woke_is_dying(own, busy):
    with own.api(timeout=60) as api:
        id = api.create()["id"]
        agent = own.agent_pid(id)
        for _ in range(ROUNDS):
            dying = sorted(some_spares(own, id, agent))[:-1]
            for pid in dying:
                os.sched_setaffinity(pid, [busy])
                os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
            for pid in dying:
                os.kill(pid, signal.SIGKILL)
            assert api.sh(id, ["echo", "served"]) == "served\n"


def at_once(supervisors):
    """The first of them that has a child. It is looked for without a pause."""
    deadline = time.monotonic() + 60 * SLOW
    while time.monotonic() < deadline:
        for pid in supervisors:
            if below(pid):
                return pid
    raise AssertionError("no command was started")


def test_a_command_whose_supervisor_dies_while_it_starts_is_ended(own):
    with own.api(timeout=60) as api:
        id = api.create()["id"]
        agent = own.agent_pid(id)

        def run():
            with own.api() as caller:
                caller.try_exec(id, ["sleep", "9999"])

        for _ in range(ROUNDS):
            waiting = some_spares(own, id, agent)
            caller = threading.Thread(target=run)
            caller.start()
            os.kill(at_once(waiting), signal.SIGKILL)
            caller.join()
        wait_until(lambda: not any("sleep" in process["command"] for process in api.processes(id)),
                   60, "the end of the commands")
