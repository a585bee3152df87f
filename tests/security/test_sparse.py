"""Files that say they are larger than they are (R13): what is made of them outside is bounded too."""

import pytest

from cay_harness import wait_until

pytestmark = pytest.mark.core

SPARSE = """
import os
for i in range(40):
    with open(f"hole{i}", "wb") as f: f.truncate(60 << 20)
"""


def used(folder):
    total = 0
    for path in folder.rglob("*"):
        if not path.is_symlink() and path.is_file():
            total += path.stat().st_blocks * 512
    return total


def test_no_file_is_larger_than_the_disk(api, make):
    id = make(disk=64)["id"]
    for size in ("7E", "1T", "100M"):
        done = api.exec(id, f"truncate -s {size} big")
        assert done["exitCode"] == 153 and api.sh(id, "cat big") == "", done  # SIGXFSZ
    assert api.sh(id, "truncate -s 60M big; fallocate -p -o 0 -l 1M big; stat -c '%s %b' big") == f"{60 << 20} 0\n"


def test_a_sparse_file_counts_by_the_size_it_says(api, make):
    id = make(disk=64)["id"]
    api.sh(id, "truncate -s 10M hole; printf end >> hole; truncate -s 60M large")
    data = api.download(id, "hole")
    assert len(data) == (10 << 20) + 3 and data.endswith(b"end")
    api.file(id, "download", path="large").failed(413, "file_too_large")


def test_a_commit_of_many_holes_stops_at_the_cap_and_gives_the_disk_back(daemon_of):
    """2.4 GB by their sizes, on a disk of 64 MB."""
    own = daemon_of(env={"CAY_MAX_IMAGE_SIZE": 200}).start()
    with own.api(timeout=120) as api:
        id = api.create(disk=64)["id"]
        assert api.exec(id, ["python3", "-c", SPARSE])["exitCode"] == 0
        images = own.data / "images"
        before = used(images)
        api.post(f"/sandboxes/{id}/commit", {"name": "holes:1"}).failed(413, "image_too_large")
        wait_until(lambda: used(images) <= before + (1 << 20), what="its space back")
        api.exec(id, "rm hole*; truncate -s 1M hole; echo small > small")
        api.post(f"/sandboxes/{id}/commit", {"name": "holes:1"}).ok()
        api.remove(id)
