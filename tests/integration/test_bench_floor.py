"""The floor of `make bench` makes whole boxes and leaves nothing of them, also when it is told to end."""
import glob
import json
import os
import pathlib
import signal
import subprocess

import pytest

import cay_harness

FLOOR = pathlib.Path(cay_harness.CAY).parent / "bench" / "floor"

pytestmark = [pytest.mark.full, pytest.mark.needs("built:bench/floor")]


def floor(tmp_path, *args):
    """A running floor; its scratch folder is below tmp_path."""
    return subprocess.Popen([str(FLOOR), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, CAY_BENCH_DIR=str(tmp_path)))


def rows_of(process):
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return {row["name"]: row["samples"] for row in map(json.loads, out.splitlines())}


def check_nothing_left(tmp_path, pid):
    assert list(tmp_path.iterdir()) == []
    assert glob.glob(f"/sys/fs/cgroup/**/cay-floor-{pid}", recursive=True) == []
    # A loop device lets go of its file when the last mount is gone, which the kernel does in its own time.
    cay_harness.wait_until(lambda: str(tmp_path) not in subprocess.run(
        ["losetup", "--list", "--noheadings"], text=True, capture_output=True).stdout, what="loop devices to go")


@pytest.mark.parametrize("args, names", [
    (["rows", "1"], {"create", "exec", "write", "read", "pause", "resume", "kill", "run"}),
    (["cold", "1"], {"cold"}),
    (["parallel", "1"], {"create_3"}),
    (["burst", "9"], {"burst"}),
    (["lives", "2", "1"], {"lives", "create"}),
])
def test_a_floor_measures_and_cleans_up(tmp_path, args, names):
    process = floor(tmp_path, *args)
    rows = rows_of(process)
    assert set(rows) == names
    assert all(value > 0 for values in rows.values() for value in values)
    check_nothing_left(tmp_path, process.pid)


def test_an_interrupted_floor_cleans_up(tmp_path):
    process = floor(tmp_path, "fill", "2")
    assert json.loads(process.stdout.readline())["name"] == "fill"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    check_nothing_left(tmp_path, process.pid)
