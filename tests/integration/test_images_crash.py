"""kill -9 in the middle of work on images: afterwards there is the old state or the new one."""

import os
import random
import signal
import threading

import pytest

from cay_harness import pids, read_text, wait_until
from cay_registry import *  # noqa: F401,F403 (fixtures too)

pytestmark = [pytest.mark.full, pytest.mark.counts_rows, needs_registry]

SEED = 20261
BLOBS = r"/blobs/sha256:"


@pytest.fixture
def mine(daemon_of, registry, module_proxy):
    daemon = daemon_of(env={"CAY_INSECURE_REGISTRIES": f"{registry.host},{module_proxy.host}"}).start()
    return Images(daemon)


@pytest.fixture(scope="module")
def many_files():
    """A layer of many small files: unpacking it takes a while."""
    return layer(*(e for d in range(30) for e in
                   [folder(f"d{d}"), *(text(f"d{d}/{i}", os.urandom(200)) for i in range(20))]))


def in_background(function, *args, **fields):
    """A request whose connection the crash will break."""
    def run():
        try:
            function(*args, **fields)
        except Exception:
            pass  # what became of it is what the test looks at

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def worker_of(daemon):
    """The image worker's pid, if one runs."""
    for pid in pids():
        stat = read_text(f"/proc/{pid}/stat")
        if stat and int(stat[stat.rindex(")") + 2:].split()[1]) == daemon.pid and \
                "cay-image" in read_text(f"/proc/{pid}/comm"):
            return int(pid)
    return None


def crash(mine, thread=None):
    """Kills the daemon at once, and starts it again. What was not yet on the disk is still there: this is no power cut."""
    worker = worker_of(mine.daemon)
    started = read_text(f"/proc/{worker}/stat").split(")")[-1].split()[19] if worker else None
    mine.daemon.kill9()
    if thread:
        thread.join(30)
    if worker:
        def gone():
            fields = read_text(f"/proc/{worker}/stat").split(")")[-1].split()
            return not fields or fields[0] == "Z" or fields[19] != started

        wait_until(gone, 60, "the worker to end with its daemon")
    mine.daemon.start()
    mine.api.close()


def whole(mine, names):
    """Every image that is listed works, nothing half-made is left, and no layer too many."""
    assert not half_made(mine.daemon)
    listed = [n for n in mine.names() if n != "host"]
    assert set(listed) <= set(names)
    for name in listed:
        with mine.box(name) as id:
            assert mine.api.sh(id, "cat /etc/mark") == "of the image\n"
    if not listed:
        wait_until(lambda: not layer_names(mine.daemon), what="no layers")
    return listed


def test_in_the_middle_of_a_download(mine, proxy, registry):
    made = Image(base_layer(), layer(text("noise", os.urandom(600_000))))
    registry.push("crash/a:1", made)
    gate = proxy.gate(BLOBS + made.parts[1]["digest"][7:], after=100_000)
    thread = in_background(mine.pull, proxy.ref("crash/a:1"))
    gate.wait_reached()
    wait_until(lambda: half_made(mine.daemon), what="a layer in the making")
    crash(mine, thread)
    assert whole(mine, []) == []
    proxy.reset()
    mine.pull(proxy.ref("crash/a:1"))
    assert whole(mine, [proxy.ref("crash/a:1")])


def test_in_the_middle_of_a_newer_one(mine, proxy, registry):
    """The name keeps its old meaning."""
    ref = proxy.ref("crash/moves:1")
    registry.push("crash/moves:1", Image(base_layer(), layer(text("v", "old\n"))))
    mine.pull(ref)
    newer = Image(base_layer(), layer(text("v", "new\n"), text("noise", os.urandom(600_000))))
    registry.push("crash/moves:1", newer)
    gate = proxy.gate(BLOBS + newer.parts[1]["digest"][7:], after=100_000)
    thread = in_background(mine.pull, ref)
    gate.wait_reached()
    crash(mine, thread)
    assert whole(mine, [ref]) == [ref]
    with mine.box(ref) as id:
        assert mine.api.sh(id, "cat /v") == "old\n"
    proxy.reset()
    mine.pull(ref)
    with mine.box(ref) as id:
        assert mine.api.sh(id, "cat /v") == "new\n"


def test_in_the_middle_of_an_unpack(mine, tmp_path, many_files):
    made = Image(base_layer(), many_files).layout(tmp_path / "layout")
    rng = random.Random(SEED)
    for n in (1, *sorted(rng.randrange(2, 30) for _ in range(3))):
        thread = in_background(mine.try_import, made, "unpacked:1")

        def far_enough():
            return any(len(os.listdir(layers_dir(mine.daemon) / t)) >= n for t in half_made(mine.daemon)
                       if (layers_dir(mine.daemon) / t).is_dir()) or not thread.is_alive()

        def look():
            try:
                return far_enough()
            except FileNotFoundError:  # it was put in place meanwhile
                return False

        wait_until(look, 60, f"{n} folders")
        crash(mine, thread)
        whole(mine, ["unpacked:1"])
    mine.load(made, "unpacked:1")
    assert whole(mine, ["unpacked:1"]) == ["unpacked:1"]


def test_at_any_moment_of_a_pull(mine, registry, many_files):
    """After the n-th thing that it told: old or new."""
    ref = registry.push("crash/any:1", Image(base_layer(), many_files))
    rng = random.Random(SEED)
    for n in sorted({0, 2, *(rng.randrange(3, 14) for _ in range(3)), 10_000}):
        seen = 0
        try:
            for event in mine.api.events("POST", "/images/pull", {"reference": ref}):
                seen += 1
                if seen > n or event["event"] == "done":
                    mine.daemon.process.kill()
                    break
        except (OSError, AssertionError):
            pass
        crash(mine)
        if whole(mine, [ref]):
            mine.remove(ref)
            wait_until(lambda: not layer_names(mine.daemon), what="no layers")


def test_in_the_middle_of_a_prune(mine, tmp_path):
    names = [f"prune/{i}:1" for i in range(24)]
    for i, name in enumerate(names):
        extra = layer(folder("own"), *(text(f"own/{j}", f"{i} {j}") for j in range(60)))
        mine.load(Image(base_layer(), extra).layout(tmp_path / str(i)), name)
    rng = random.Random(SEED)
    kept = mine.api.create(names[0])["id"]
    left = set(names)
    while len(left) > 6:
        stop_at = len(left) - rng.randrange(1, 6)
        thread = in_background(mine.prune)

        def far_enough():
            return len(os.listdir(store_of(mine.daemon) / "names")) <= stop_at or not thread.is_alive()

        wait_until(far_enough, 60, "some names to go")
        crash(mine, thread)
        now = set(mine.names()) - {"host"}
        assert now <= left and names[0] in now
        wait_until(lambda: not half_made(mine.daemon), 60, "what was set aside to go")
        if now == left:
            break  # it was over before the first name went
        left = now
        for name in sorted(left)[:2]:
            with mine.box(name) as id:
                assert mine.api.sh(id, "cat /own/7").endswith(" 7")
        wait_until(lambda: len(layer_names(mine.daemon)) == len(left) + 1, 60, "their layers to go")
    assert mine.api.sh(kept, "cat /own/3") == "0 3"


def test_in_the_middle_of_a_commit(mine, tmp_path):
    mine.load(Image(base_layer()).layout(tmp_path / "layout"), "base:1")
    id = mine.api.create("base:1")["id"]
    mine.api.sh(id, "mkdir /many; for i in $(echo 0 1 2 3 4 5 6 7 8 9); do mkdir /many/$i; "
                    "for j in 0 1 2 3 4 5 6 7 8 9; do cat /bin/busybox >/many/$i/$j; done; done")
    thread = in_background(mine.api.again().post, f"/sandboxes/{id}/commit", {"name": "made:1"})
    wait_until(lambda: half_made(mine.daemon) or not thread.is_alive(), 60, "a layer in the making")
    crash(mine, thread)
    assert not half_made(mine.daemon)
    assert mine.api.sandbox(id)["status"] == "running"  # and not as the commit had stopped it
    assert mine.api.sh(id, "ls /many | wc -l").strip() == "10"
    if mine.has("made:1"):
        with mine.box("made:1") as other:
            assert mine.api.sh(other, "ls /many | wc -l").strip() == "10"


def test_a_worker_that_dies_is_only_a_failed_pull(mine, proxy, registry):
    made = Image(base_layer(), layer(text("noise", os.urandom(600_000))))
    registry.push("crash/w:1", made)
    gate = proxy.gate(BLOBS + made.parts[1]["digest"][7:], after=100_000)
    replies = []
    thread = in_background(lambda: replies.append(mine.try_pull(proxy.ref("crash/w:1"))))
    gate.wait_reached()
    os.kill(wait_until(lambda: worker_of(mine.daemon), what="the worker"), signal.SIGKILL)
    thread.join(30)
    replies[0].failed((500, 502, 503))
    wait_until(lambda: not half_made(mine.daemon), what="nothing half-made")
    proxy.reset()
    mine.pull(proxy.ref("crash/w:1"))


def test_what_a_dead_daemon_left_is_cleaned_up(mine, registry):
    """Whatever is in the store that no name leads to goes at the next start."""
    ref = registry.push("crash/left:1", Image(base_layer()))
    mine.pull(ref)
    mine.daemon.stop()
    stray = layers_dir(mine.daemon) / "tmp_0123456789abcdef"
    (stray / "deep" / "er").mkdir(parents=True)
    (stray / "deep" / "file").write_text("x")
    orphan = layers_dir(mine.daemon) / ("ab" * 32)
    (orphan / "etc").mkdir(parents=True)
    mine.daemon.start()
    wait_until(lambda: not stray.exists() and not orphan.exists(), what="both to go")
    assert whole(mine, [ref]) == [ref]
