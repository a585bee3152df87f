"""The harness itself: the ledger that ends every test must see what a sandbox leaves."""

from cay_harness import Ledger


def test_the_ledger_sees_each_kind_of_thing(own):
    with own.api() as api:
        before = Ledger()
        id = api.create()["id"]
        api.background(id, "exec sleep 1000")
        after = Ledger()
        api.remove(id)
    grown = {kind for kind in after.items if after.items[kind] - before.items[kind]}
    assert {"cgroups", "ids", "processes", "namespaces"} <= grown, after.compared_with(before)


def test_the_ledger_sees_a_zombie():
    import os
    before = Ledger()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert sum(Ledger().items["zombies"].values()) == sum(before.items["zombies"].values()) + 1
    os.waitpid(pid, 0)
