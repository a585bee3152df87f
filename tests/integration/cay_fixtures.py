"""The fixtures and hooks of both suites; each conftest.py takes all of them."""

import contextlib
import os
import random
import re
import signal

import pytest

import cay_shapes
from cay_harness import CAY, CRASHES, SANITIZED, SLOW, Daemon, Leak, must_have
from cay_ledger import Ledger, settled_ledger, take_away, wait_for_ledger
from cay_world import net, net_box, online, online_of, whole_world, world  # noqa: F401

pytest_needs = ("binary", "root", "cgroup", "loop")


def pytest_configure(config):
    os.umask(0o022)  # tests look at the modes of files that they made
    for mark in ("needs(*what): what the machine must have (cay_harness.lacking), else the case is skipped, or fails in tools/check",
                 "core: `make check` runs the file", "full: only `make check-all` runs the file",
                 "alone: the file needs the whole machine, so it runs at the end, beside no other",
                 "counts_rows: the case would see a lost or doubled row, so it has no second chance"):
        config.addinivalue_line("markers", mark)
    for warning in ("PytestUnhandledThreadExceptionWarning", "PytestReturnNotNoneWarning"):
        config.addinivalue_line("filterwarnings", f"error::pytest.{warning}")
    config.cay_pid = os.getpid()
    if "CAY_BIN" in os.environ and not os.access(CAY, os.X_OK):
        pytest.exit(f"{CAY}, which CAY_BIN names, is not there", 2)


def pytest_runtest_setup(item):
    """Everything here drives real sandboxes."""
    must_have(*pytest_needs, *(need for mark in item.iter_markers("needs") for need in mark.args))


def pytest_collection_modifyitems(items):
    """Each file is in one tier. CAY_TEST_SHUFFLE, a number, puts the files and the cases of each into another order."""
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    for path, inside in files.items():
        if sum(bool(inside[0].get_closest_marker(tier)) for tier in ("core", "full")) != 1:
            raise pytest.UsageError(f"{path}: pytestmark must have one of pytest.mark.core and pytest.mark.full")
    if seed := os.environ.get("CAY_TEST_SHUFFLE"):
        order = random.Random(int(seed))
        for inside in files.values():
            order.shuffle(inside)
        items[:] = [item for inside in order.sample(list(files.values()), len(files)) for item in inside]


# How a failure shows that a program of ours crashed: in the daemons' logs, and in what the case printed or compared.
CRASHED = re.compile(r"(?:by |with |of |[(\x22])signal (?:%s)\b|(?:returncode=|assert )-(?:%s)\b|signal of a crash|Segmentation fault|Aborted"
                     % (("|".join(str(int(s)) for s in CRASHES),) * 2))


def why_no_second_chance(item, call, report):
    """Reads the failure of a case; "" means that tools/check may run the case once more."""
    logs = [report.longreprtext, report.capstdout, report.capstderr, *(daemon.log() for daemon in Daemon.everyone)]
    return next((why for why, found in (
        ("a security test", "/security/" in item.path.as_posix()),
        ("it counts rows", item.get_closest_marker("counts_rows")),
        ("a leak on the host", getattr(item, "leaked", False) or call.excinfo and call.excinfo.errisinstance(Leak)),
        ("a sanitizer report", any(map(SANITIZED.search, logs))),
        ("a daemon that failed", getattr(item, "daemon_failed", False) or any(daemon.failed for daemon in Daemon.everyone)),
        ("a crash", getattr(item, "crashed", False) or any(map(CRASHED.search, logs)) or any(daemon.has_crashed() for daemon in Daemon.everyone)),
    ) if found), "")


class TooLong(BaseException):
    """No handler of a case takes it for an error of the case's own."""


def limited(item):
    """Ends a case that hangs: it fails by its name, and the run goes on."""
    def late(*_):
        raise TooLong(f"the case took more than {CASE_LIMIT} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, CASE_LIMIT * SLOW, 5)  # again every 5 s: a callback, for instance, swallows the exception
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


CASE_LIMIT = 600  # seconds for the case itself, and as many for the end of its fixtures
pytest_runtest_call = pytest.hookimpl(hookwrapper=True)(limited)
pytest_runtest_teardown = pytest.hookimpl(hookwrapper=True)(limited)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """The daemons' logs belong to a failure, and for tools/check the name of the case and whether it may run again."""
    outcome = yield
    if os.getpid() != item.config.cay_pid:
        os._exit(70)  # a child that the case forked has raised: it must not run the cases that follow
    report = outcome.get_result()
    if not report.failed:
        return
    about = [("nodeid", item.nodeid)]
    if why := why_no_second_chance(item, call, report):
        about.append(("no second chance", why))
    item.user_properties += about
    report.user_properties += about
    for daemon in Daemon.everyone:
        text = daemon.log()
        if text:
            report.sections.append((f"log of {daemon.root}", "\n".join(text.splitlines()[-60:])))


@pytest.fixture(scope="session")
def shared():
    """One daemon for all tests that do not disturb it."""
    daemon = Daemon("shared", env={"CAY_MAX_SANDBOXES": 200})
    try:
        daemon.start()
        with daemon.api() as api:  # what is opened on first use is open from here on
            id = api.create()["id"]
            api.exec(id, "true")
            api.get("//openapi.json")
            api.remove(id)
        yield daemon
    finally:
        Daemon.everyone.remove(daemon)
        daemon.destroy()


@pytest.fixture(autouse=True)
def answers_follow_their_shapes():
    """Whatever the test was about."""
    yield
    found, cay_shapes.deviations[:] = cay_shapes.deviations[:], []
    assert not found, "answers that are not what /openapi.json says:\n" + "\n".join(found[:20])


@pytest.fixture(autouse=True)
def nothing_left_behind(request):
    """The ledger before and after each test, shared daemon and all."""
    for name in ("shared", "online"):
        if name in request.fixturenames:
            request.getfixturevalue(name)
    before = Ledger()
    if before != last_good.get("ledger"):
        before = settled_ledger()
    yield
    last_good.clear()
    gone = [d for d in Daemon.everyone if not d.root.exists()]
    # For why_no_second_chance(): pytest reports only the first of several failures at the end of a case.
    request.node.crashed = any(d.has_crashed() for d in gone)
    request.node.daemon_failed = any(d.failed for d in gone)
    try:
        wait_for_ledger(before)
    except Leak:
        request.node.leaked = True
        for daemon in gone:
            take_away(daemon)
        raise
    finally:
        Daemon.everyone[:] = [d for d in Daemon.everyone if d not in gone]
    last_good["ledger"] = before


last_good = {}  # the ledger after the last test, when it was as before it


@pytest.fixture
def api(shared):
    with shared.api() as api:
        yield api
        shared.apis.remove(api)


@pytest.fixture
def box(api):
    """A sandbox of the shared daemon."""
    sandbox = api.create()
    yield sandbox["id"]
    api.delete(f"/sandboxes/{sandbox['id']}")


@pytest.fixture
def make(api):
    """Makes sandboxes on the shared daemon that the test need not remove."""
    made = []

    def create(**fields):
        sandbox = api.create(**fields)
        made.append(sandbox["id"])
        return sandbox

    yield create
    for id in made:
        api.delete(f"/sandboxes/{id}")


@pytest.fixture
def daemon_of():
    """Makes daemons of this test's own: daemon_of(env={…}), not started."""
    with contextlib.ExitStack() as stack:

        def new(name="own", **how):
            daemon = Daemon(name, **how)
            stack.callback(daemon.destroy)
            return daemon

        yield new


@pytest.fixture
def own(daemon_of):
    """A started daemon of this test's own."""
    return daemon_of().start()
