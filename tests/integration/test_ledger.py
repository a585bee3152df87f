"""The harness itself: the ledger that ends every test must see what a sandbox leaves."""

import os

from cay_harness import Ledger, settled_ledger, wait_until


def test_the_ledger_sees_each_kind_of_thing(own):
    before = settled_ledger()

    def grown():
        after = Ledger()
        return {kind for kind in after.items if after.items[kind] - before.items[kind]}

    with own.api() as api:
        id = api.create()["id"]
        api.background(id, "exec sleep 1000")
        # A create takes a prepared id; it is one more of each when that has been replaced.
        wait_until(lambda: {"cgroups", "ids", "processes", "namespaces"} <= grown(), 10,
                   "one more of each kind")
        api.remove(id)


def test_the_ledger_sees_what_is_in_the_image_store(own):
    before = Ledger()
    for path in ("layers/" + "0" * 64, "layers/tmp_left", "records/" + "0" * 64 + ".json", "names/x:1.json"):
        left = own.data / "images" / path
        left.mkdir()
        said = Ledger().compared_with(before)
        assert said.startswith("images: 1 more: ") and said.endswith(path.replace("tmp_left", "tmp_*"))
        left.rmdir()
    assert Ledger() == before


def test_the_ledger_sees_what_documents_there_are(own):
    before = Ledger()
    for path in ("snapshots/snap_1.json", "volumes/vol_1.img", "templates/tmp_left", "builds/" + "0" * 64 + ".json"):
        left = own.data / path
        left.parent.mkdir(exist_ok=True)
        whole = Ledger()
        left.touch()
        assert Ledger().compared_with(whole) == f"documents: 1 more: {left}"
        left.unlink()
        if not os.listdir(left.parent) and str(left.parent) not in before.items["folders"]:
            left.parent.rmdir()
    assert Ledger() == before


def test_the_ledger_sees_a_zombie():
    before = Ledger()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert sum(Ledger().items["zombies"].values()) == sum(before.items["zombies"].values()) + 1
    os.waitpid(pid, 0)
