"""The harness itself: the ledger that ends every test must see what a sandbox leaves."""

import os

import pytest

from cay_harness import Ledger, read_text, settled_ledger, wait_until
from cay_world import needs_network


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


@needs_network
def test_the_ledger_sees_what_a_network_leaves(online_of):
    own = online_of().start()
    with own.api() as api:
        api.remove(api.create(network=True)["id"])  # its gateway is there now
        wait_until(lambda: not own.crossroads(), 10, "it to be gone")
        before = settled_ledger()
        id, net = api.create(network=True)["id"], api.post("/networks", {"name": "led"}).ok()["id"]
        api.post(f"/networks/{net}/connect", {"sandboxId": id}).ok()
        api.exec(id, "curl -s --max-time 5 http://10.0.0.1/")
        wait_until(lambda: list((own.data / "netlog").iterdir()), 10, "a line for what was refused")
        after = Ledger()
        kinds = after.items["crossroads"] - before.items["crossroads"]
        assert {"link", "route", "element of policy4"} <= set(kinds), kinds
        new = after.items["documents"] - before.items["documents"]
        assert {path.split("/")[-2] for path in new} == {"networks", "netlog"}, new
        api.remove(id)
        api.delete(f"/networks/{net}").ok()
        wait_until(lambda: Ledger() == before, 20, "all of it to go")


@pytest.fixture
def still(daemon_of):
    """A daemon that makes nothing ahead, which would be seen as well."""
    return daemon_of(env={"CAY_POOL": 0}).start()


def test_the_ledger_sees_what_is_in_the_image_store(still):
    own, before = still, settled_ledger()
    for path in ("layers/" + "0" * 64, "layers/tmp_left", "records/" + "0" * 64 + ".json", "names/x:1.json"):
        left = own.data / "images" / path
        left.mkdir()
        said = Ledger().compared_with(before)
        assert said.startswith("images: 1 more: ") and said.endswith(path.replace("tmp_left", "tmp_*"))
        left.rmdir()
    assert Ledger() == before


def test_the_ledger_sees_what_documents_there_are(still):
    own, before = still, settled_ledger()
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
    name = read_text("/proc/thread-self/comm").strip()  # nobody else's are called so
    before = Ledger()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert Ledger().items["zombies"][name] == before.items["zombies"][name] + 1
    os.waitpid(pid, 0)
