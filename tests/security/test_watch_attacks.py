"""What a sandbox does against those who watch its files: floods, loops, links, depth; and too many who watch."""

import contextlib
import itertools
import math
import os
import time

import pytest

from cay_harness import pids, read_text, wait_until
from cay_watching import Watching

pytestmark = pytest.mark.core


def py(api, box, code, **how):
    return api.sh(box, "exec python3 - <<'E'\nimport os\nos.chdir('/workspace')\n" + code + "\nE", timeout=120, **how)


def lives(api, box):
    """The agent answers, and a new caller is served."""
    assert api.sh(box, "echo yes") == "yes\n"
    with Watching(api, box) as w:
        api.sh(box, ": >/workspace/sign")
        w.until(("create", "/workspace/sign"))
    api.sh(box, "rm /workspace/sign")


def test_more_directories_than_may_be(api, box):
    with Watching(api, box, recursive=True, events=["remove"]) as w:
        py(api, box, "for i in range(9000): os.mkdir(f'd{i}')")
        told = w.until(lambda c: c["type"] == "overflow" and "directories" in c)[-1]
        assert told["path"].startswith("/workspace/d")
        # At the beginning it is a refusal.
        api.post(f"/sandboxes/{box}/files/watch", {"recursive": True}).failed(429, "watch_limit")
    py(api, box, "import shutil\nfor d in os.listdir('.'): os.rmdir(d)")
    wait_until(lambda: api.post(f"/sandboxes/{box}/files/info", {"path": "/workspace"}).status == 200)
    lives(api, box)


def test_all_callers_together_have_so_many(api, box):
    py(api, box, "for i in range(5000): os.mkdir(f'd{i}')")
    with Watching(api, box, recursive=True):
        api.post(f"/sandboxes/{box}/files/watch", {"recursive": True}).failed(429, "watch_limit")
    # What one had is free when it has gone.
    wait_until(lambda: taken(api, box, recursive=True))


def taken(api, box, **fields):
    """True if another is served."""
    with api.again() as own:
        response = own.start("POST", f"/sandboxes/{box}/files/watch", fields)
        line = response.readline()
        return response.status == 200 and b"ready" in line


def test_no_more_callers_than_may_be(api, box):
    some = [Watching(api, box) for _ in range(8)]
    try:
        for _ in range(20):
            api.post(f"/sandboxes/{box}/files/watch", {}).failed(429, "watch_limit")
        assert api.sh(box, "echo yes") == "yes\n"
    finally:
        for w in some:
            w.close()
    wait_until(lambda: taken(api, box))


def watchers(box):
    """The processes of the agent that watch files."""
    return [int(p) for p in pids() if box in read_text(f"/proc/{p}/cgroup") and "anon_inode:inotify" in links(p)]


def links(pid):
    """What a process has open; nothing of one that has ended."""
    found = []
    with contextlib.suppress(OSError):
        for fd in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.append(os.readlink(fd.path))
    return found


LOOPS = """
import os, sys
os.chdir('/workspace')
for i in range(8): os.makedirs(f'a/{i}/x')
n = 0
while n < 300 if sys.argv[1] == 'few' else not os.path.exists('/tmp/stop'):
    os.rename('a', 'b'); os.rename('b/7', 'b/7x'); os.rename('b/7x', 'b/7'); os.rename('b', '/tmp/c'); os.rename('/tmp/c', 'a')
    n += 1
open('end', 'w').close()
"""


@pytest.mark.parametrize("loops", ["few", "until-some-is-lost"])
def test_renames_in_loops(api, box, loops):
    with Watching(api, box, recursive=True) as w:
        api.background(box, ["python3", "-c", LOOPS, loops])
        w.until(lambda c: (c.get("path") == "/workspace/end" and loops == "few") or c["type"] == "overflow", timeout=60)
        api.sh(box, "touch /tmp/stop; until [ -e end ]; do sleep 0.01; done")
        # Wherever it got to, it knows the tree again.
        for n in itertools.count():
            sign = f"/workspace/a/7/x/after{n}"
            api.sh(box, f": >{sign}")
            if w.until(lambda c: c.get("path") == sign or c["type"] == "overflow", timeout=60)[-1]["type"] != "overflow":
                break
    lives(api, box)


def test_more_changes_than_anybody_reads(api, box):
    """A caller that does not read costs no memory, and is told when it does."""
    with api.again() as own:
        response = own.start("POST", f"/sandboxes/{box}/files/watch", {"recursive": True})
        assert b"ready" in response.readline()
        py(api, box, """
name = 'n' * 240
for i in range(60000):
    open(name + str(i % 50), 'w').close(); os.unlink(name + str(i % 50))
""")
        assert api.sh(box, "echo yes") == "yes\n"
        for line in response:
            if b'"overflow"' in line:
                break
        api.sh(box, ": >/workspace/after")
        for line in response:
            if b"/workspace/after" in line:
                break
            if b'"overflow"' in line:  # it was among what nobody had read
                api.sh(box, ": >/workspace/after")
    lives(api, box)


def test_floods_with_as_many_callers_as_may_be(api, box):
    some = [Watching(api, box, recursive=True) for _ in range(8)]
    try:
        py(api, box, """
name = 'n' * 240
for i in range(4000):
    os.mkdir(name + str(i % 50)); os.rmdir(name + str(i % 50))
open('end', 'w').close()
""")
        for w in some:
            w.until(lambda c: c["type"] == "overflow" or c.get("path") == "/workspace/end", timeout=60)
        assert api.sandbox(box)["status"] == "running"
    finally:
        for w in some:
            w.close()
    wait_until(lambda: taken(api, box))
    lives(api, box)


@pytest.mark.parametrize("target", ["/", "/proc", "/sys", "/etc"])
def test_links_are_not_followed_below(api, box, target):
    api.sh(box, f"ln -s {target} /workspace/link")
    with Watching(api, box, recursive=True) as w:
        api.sh(box, "echo 1 >/workspace/link/new; rm -f /etc/x; echo 1 >/etc/x; : >/workspace/end; true")
        assert {c["path"] for c in w.until(("create", "/workspace/end"))} == {"/workspace/end"}


def test_a_link_leads_nowhere_but_into_the_sandbox(api, box):
    """As a path it is the sandbox's own: nothing of the host is seen through it."""
    with open("/etc/hostname") as f:
        host = f.read()
    api.sh(box, "ln -s /etc /workspace/link")
    with Watching(api, box, path="link") as w:
        api.sh(box, "echo mine >/etc/hostname.new")
        assert w.until(("create", "/workspace/link/hostname.new"))
    with open("/etc/hostname") as f:
        assert f.read() == host


def test_kernel_trees_are_left_out(api, box):
    response = api.again().start("POST", f"/sandboxes/{box}/files/watch",
                                 {"path": "/", "anywhere": True, "recursive": True,
                                  "ignore": ["usr", "lib*"]})
    first = response.readline()
    assert b"ready" in first or response.status == 429, first
    response.close()
    lives(api, box)


def test_a_tree_that_is_deeper_than_any_path(api, box):
    with Watching(api, box, recursive=True) as w:
        py(api, box, """
for i in range(600):
    os.mkdir('d' * 100); os.chdir('d' * 100)
os.chdir('/workspace'); open('end', 'w').close()
""")
        w.until(("create", "/workspace/end"), timeout=60)
    api.sh(box, "rm -rf /workspace/d*")
    lives(api, box)


RENAME = "os.rename('a', '/tmp/a'); os.rename('/tmp/a', 'a')"
RENAMES = f"import os\nos.chdir('/workspace')\nwhile True: {RENAME}"


def test_deep_trees_that_are_renamed_are_not_worked_on_all_the_time(api, box):
    """The agent's processor time is not the box's: while the renames go on, each watcher sleeps twice as long as it works,
    and it is gone when its caller is."""
    def spent():
        """For each watcher the nanoseconds that it has run, and those that it has slept: it did not wait for a processor."""
        found = []
        for p in mine:
            ran, waited = map(int, read_text(f"/proc/{p}/schedstat").split()[:2])
            found.append((ran, time.monotonic_ns() - ran - waited))
        return found

    def spent_since(before):
        return [(ran - ran_before, slept - slept_before) for (ran, slept), (ran_before, slept_before) in zip(spent(), before)]

    signs = (f"/workspace/sign{n}" for n in itertools.count())

    def rename(n):
        """Returns when all watchers have sent what came of n renames, before they rest."""
        sign = next(signs)
        py(api, box, f"for i in range({n}): {RENAME}\nopen('{sign}', 'w').close()")
        for w in some:
            while w.until(lambda c: c["type"] == "overflow" or c.get("path") == sign, timeout=60)[-1]["type"] == "overflow":
                sign = next(signs)  # the first may be lost
                api.sh(box, f": >{sign}")

    py(api, box, "os.makedirs('a/' + '/'.join(['x'] * 100))")
    some = [Watching(api, box, recursive=True) for _ in range(2)]
    try:
        mine = watchers(box)
        before = spent()
        rename(1)
        n = math.ceil(40 * 10**6 / min(ran for ran, _ in spent_since(before)))  # a watcher rests after 20 ms of work
        rename(n)
        before = spent()
        for _ in range(4):
            rename(n)
        each = spent_since(before)
        # Waiting for a processor counts as neither, so a busy machine changes nothing. A rest is at most 5 s, hence not 2 * ran.
        assert all(slept > ran for ran, slept in each), f"(ran, slept) in ns: {each}"
        api.background(box, ["python3", "-c", RENAMES])
    finally:
        for w in some:
            w.close()
    wait_until(lambda: not watchers(box), 60, "the end of the watchers")
    lives(api, box)
