"""What snapshots can make the daemon hold."""

import pytest

pytestmark = pytest.mark.core


def test_texts_of_snapshots_are_bounded_together(daemon_of):
    """64 KiB of labels, and as much metadata, in each of as many as there may be."""
    own = daemon_of(env={"CAY_MAX_SNAPSHOTS": 20}).start()
    big = {"l": "x" * 60_000}
    with own.api() as api:
        id = api.create(metadata={"m": "y" * 60_000}, env={"a": "z" * 60_000})["id"]
        take = f"/sandboxes/{id}/snapshots"
        ids = [api.post(take, {"labels": big}).ok()["id"] for _ in range(3)]
        api.post(take, {"labels": big}).failed(429, "snapshot_limit", "CAY_MAX_SNAPSHOTS")
        assert len(api.get("/snapshots").body) < 1 << 20
        # Nor do they grow past it, and a start does not forget; what makes them smaller is done.
        own.restart()
        label = f"/snapshots/{ids[0]}/label"
        api.post(label, {"labels": {"more": "x"}}).failed(429, "snapshot_limit")
        assert api.post(label, {"labels": {"l": ""}}).ok()["labels"] == {}
        api.delete(f"/snapshots/{ids[1]}").ok()
        api.post(label, {"labels": {"more": "x"}}).ok()
        api.post(take, {}).ok()
