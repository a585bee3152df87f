"""What came first: checks that hold however slow the machine is, because both sides of the comparison are as slow."""

import select
import threading
import time

from cay_harness import SLOW


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
    """Returns what call() returns beside a crowd of connections that the daemon gives up after some time. crowd() is a
    context manager: it makes a crowd and yields lost(), which returns those of its members that were given up. None of
    them may be lost before the call or after it, so the call did not wait until the daemon gave one up. A slow machine may
    lose one at any moment, so there are up to `most` tries, each with a new crowd."""
    seen = []
    for _ in range(most):
        with crowd() as lost:
            before = len(lost())
            if before:
                seen.append(f"{before} before the call")
                continue
            value = call()
            after = len(lost())
            if not after:
                return value
            seen.append(f"{after} after it")
    raise AssertionError(f"in each of {most} tries members of the crowd were given up: {', '.join(seen)}")
