"""What came first: checks that hold however slow the machine is, because both sides of the comparison are as slow."""

import os
import select
import signal
import threading
import time

from cay_harness import SLOW, pids, read_text, wait_until


def comes_before(call, other, times, grace=60):
    """Returns what call() returns, which runs beside other(), again and again. other() is the measure: a failure if it
    has run that many times and call() has not returned. A call that has not returned `grace` seconds after that is left
    behind in its thread, so that it does not hold up the test as well."""
    got = {}

    def run():
        try:
            got["value"] = call()
        except BaseException as e:  # raised again in the thread of the test
            got["error"] = e

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    n = 0
    try:
        while thread.is_alive() and n < times:
            other()
            n += 1
        in_time = not thread.is_alive()
    finally:
        thread.join(grace * SLOW)
    assert not thread.is_alive(), f"it had not returned {grace} s after the other calls, which returned {n} times"
    if "error" in got:
        raise got["error"]
    assert in_time, f"it had not returned when the other calls had returned {times} times"
    return got["value"]


def longer_and_longer():
    """Timeouts in seconds for a test whose first part must be over before one passes: the shortest that this machine can do."""
    yield from (0.3, 1.2, 4.8, 20)
    raise AssertionError("this machine is too slow")


def hung_up(sockets):
    """Those Unix sockets whose other end has closed; what it sent before need not have been read. (Of TCP the end is not
    seen before there is room for what was sent.)"""
    ends = select.poll()
    for s in sockets:
        ends.register(s, select.POLLRDHUP)
    return {fd for fd, _ in ends.poll(0)}


def settled(count, looks=10, apart=0.1, timeout=60):
    """Returns count() when it is not 0 and was the same in that many looks, which are at least `apart` seconds apart."""
    deadline = time.monotonic() + timeout * SLOW
    seen = []
    while time.monotonic() < deadline:
        seen.append(count())
        if seen[-1] and seen[-looks:] == [seen[-1]] * looks:
            return seen[-1]
        time.sleep(apart)
    raise AssertionError(f"it did not settle within {timeout} s: {seen[-looks:]}")


def unhindered(crowd, call, most=5):
    """Returns what call() returns beside a crowd of connections that the daemon closes after some time. crowd() is a context
    manager: it makes a crowd and yields lost(), which returns the members that the daemon has closed. The call runs once, beside
    a crowd that is whole, and fails if the daemon has closed a member when it returns: then the call may have waited for that.
    Only making the crowd is repeated, when a slow machine takes so long for it that a member is closed before the call."""
    seen = []
    for _ in range(most):
        with crowd() as lost:
            before = len(lost())
            if before:
                seen.append(before)
                continue
            value = call()
            after = len(lost())
            assert not after, f"the daemon had closed {after} of the crowd when the call returned"
            return value
    raise AssertionError(f"no crowd was whole before the call: the daemon had closed {seen} of its members")


def commands_of(id):
    """Returns the command line of each process of a sandbox, by its pid on the host: also while the daemon is down."""
    return {int(pid): read_text(f"/proc/{pid}/cmdline").replace("\0", " ").strip() for pid in pids() if id in read_text(f"/proc/{pid}/cgroup")}


def end_sleep(id, seconds):
    """Ends `sleep SECONDS` of a sandbox from the host, so that the shell that waits for it continues. With SIGPIPE, because a shell
    prints a line for most other signals."""
    wait_until(lambda: f"sleep {seconds}" in commands_of(id).values(), what="the sleep")
    (pid,) = (pid for pid, command in commands_of(id).items() if command == f"sleep {seconds}")
    os.kill(pid, signal.SIGPIPE)
