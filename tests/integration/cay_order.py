"""What came first: checks that hold however slow the machine is, because both sides of the comparison are as slow."""

import select
import threading


def comes_before(call, other, times):
    """Returns what call() returns, which runs beside other(), again and again. other() is the measure: a failure if it
    has run that many times and call() has not returned."""
    got = {}

    def run():
        try:
            got["value"] = call()
        except BaseException as e:  # raised again in the thread of the test
            got["error"] = e

    thread = threading.Thread(target=run)
    thread.start()
    n = 0
    try:
        while thread.is_alive() and n < times:
            other()
            n += 1
        in_time = not thread.is_alive()
    finally:
        thread.join()
    if "error" in got:
        raise got["error"]
    assert in_time, f"it had not returned when the other calls had returned {times} times"
    return got["value"]


def hung_up(sockets):
    """Those whose other end has closed; what it sent before need not have been read."""
    ends = select.poll()
    for s in sockets:
        ends.register(s, select.POLLRDHUP)
    return {fd for fd, _ in ends.poll(0)}


def unhindered(call, lost, most=20):
    """Returns what call() returns, when lost() was the same before and after it: what was lost meanwhile is not what it
    waited for. On a slow machine something may be lost at that moment for another reason, so it is called up to
    `most` times."""
    for _ in range(most):
        before = lost()
        value = call()
        after = lost()
        if after == before:
            return value
    raise AssertionError(f"each of {most} calls returned only when something else had been lost, at last {after}")
