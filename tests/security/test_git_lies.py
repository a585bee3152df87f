"""A sandbox whose git is not git."""

import threading

import pytest

from cay_harness import rss_kib, wait_until
from cay_order import comes_before

pytestmark = pytest.mark.core


@pytest.fixture
def lying(api, make):
    """A sandbox with that script in git's place."""
    def lying(script):
        box = make(env={"PATH": "/workspace/bin:/usr/bin:/bin"})["id"]
        api.sh(box, f"mkdir -p bin; printf '#!/bin/sh\\n%s\\n' \"$S\" >bin/git; chmod 755 bin/git",
               cwd="/workspace", env={"S": script})
        return box

    return lying


class Peak:
    """How much memory a process had at most meanwhile, in MiB."""

    def __init__(self, pid):
        self.pid, self.most, self.over = pid, rss_kib(pid), threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, rss_kib(self.pid))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.most >>= 10


@pytest.mark.parametrize("method, route, script", [
    ("GET", "log", "exec head -c 30000000 /dev/zero"),
    ("GET", "status", "yes '? a' | tr '\\n' '\\0' | head -c 30000000"),
    ("POST", "branch", "yes ' Qrefs/heads/' | tr Q '\\0' | head -c 30000000"),
])
def test_a_few_bytes_are_not_gigabytes(api, lying, shared, method, route, script):
    """Nor hours: the answer comes before the same output has been printed a hundred times."""
    box = lying(script)
    before = rss_kib(shared.process.pid) >> 10
    with Peak(shared.process.pid) as peak, api.again() as own:
        answer = comes_before(lambda: own.call(method, f"/sandboxes/{box}/git/{route}", {} if method == "POST" else None).ok(),
                              lambda: api.sh(box, "git | wc -c", timeout=60), 100)
    assert peak.most < before + 160
    assert answer.get("truncated") or len(answer["entries"]) == 1000


def test_progress_without_end_is_told_now_and_then(api, lying, shared):
    """Others' events stay, and the caller is not flooded."""
    box = lying("yes 'x: 100% (1/1), done' | head -n 200000 | tr '\\n' '\\r' >&2; "
                "yes 'y: 10% (1/10)' | head -n 200000 | tr '\\n' '\\r' >&2")
    before = rss_kib(shared.process.pid) >> 10
    with Peak(shared.process.pid) as peak, api.again() as own:
        response = own.start("POST", f"/sandboxes/{box}/git/clone", {"url": "https://nobody.invalid/x"},
                             headers={"Accept": "text/event-stream"})
        shown = sum(b'"progress"' in line for line in response)
    assert 1 <= shown < 2000
    assert peak.most < before + 64
    told = api.get(f"/events/history?topic=git.progress&sandboxId={box}&limit=1000").ok()
    assert 1 <= told["total"] < 200


def test_the_second_command_may_take_its_time(api, lying):
    """It has a connection of its own, whose number may be that of the first: its end is seen when it comes, and not when
    the daemon looks whether its caller is still there, every 2 s."""
    box = lying("case \"$*\" in *rev-parse*) touch first; until [ -e one ]; do sleep 0.02; done; exit 0;; esac; "
                "echo one; touch second; until [ -e two ]; do sleep 0.02; done; echo two")

    def let(command, word):
        wait_until(lambda: api.exec(box, f"test -e {command}")["exitCode"] == 0, 60, what=f"the {command} command")
        api.sh(box, f"touch {word}")

    def diff():
        with api.again(timeout=120) as own:
            got.append(own.get(f"/sandboxes/{box}/git/diff"))

    got = []
    thread = threading.Thread(target=diff)
    thread.start()
    try:
        let("first", "one")
        let("second", "two")
        comes_before(thread.join, lambda: api.exec(box, "true"), 50)
    finally:
        thread.join()
    assert got[0].ok()["diff"] == "one\ntwo\n"
