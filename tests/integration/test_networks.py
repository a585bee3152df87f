"""Named networks: sandboxes in one see each other by name and address, and nothing else."""

import json
import os
import signal
from pathlib import Path

import pytest

from cay_harness import cay, wait_until
from cay_world import needs_network

pytestmark = [pytest.mark.core, needs_network]

# Answers every connection on port 7000 with a word, until it is killed.
SERVER = """
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", 7000))
s.listen(16)
while True:
    c, _ = s.accept()
    c.recv(100)
    c.sendall(sys.argv[1].encode())
    c.close()
"""
# Prints what it is told, or the error.
ASK = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])) as s:
        s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        print(s.recv(100).decode() or "nothing")
except OSError as e:
    print("failed:", e)
"""

# Takes what comes on port 7001, and says nothing.
SILENT = """
import socket
s = socket.socket()
s.bind(("0.0.0.0", 7001))
s.listen()
c, _ = s.accept()
while c.recv(100):
    pass
"""
# Talks to it until that fails.
TALK = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], 7001), 60)
print("open", flush=True)
try:
    while True:
        s.sendall(b"x")
        time.sleep(0.05)
except OSError:
    print("over", flush=True)
"""


def ask(api, id, host, port=7000, patience=25):
    return api.exec(id, ["python3", "-c", ASK, host, str(port), str(patience)],
                    env={"RES_OPTIONS": f"timeout:{patience}"})["stdout"].strip()


def cut_off(api, id, host):
    """It reaches nothing there. Packets of a sandbox without a network are dropped, so the time of the attempt passes."""
    return failed(ask(api, id, host, patience=1))


def serve(api, id, word):
    api.background(id, ["python3", "-c", SERVER, word])
    wait_until(lambda: ask(api, id, "127.0.0.1") == word)


def address(api, id):
    """Its own, as the kernel in it tells: the only one that is not loopback's."""
    lines = api.sh(id, "cat /proc/net/fib_trie").splitlines()
    found = {a.split()[-1] for a, b in zip(lines, lines[1:]) if "/32 host LOCAL" in b}
    (own,) = found - {"127.0.0.1"}
    return own


def failed(told):
    return told.startswith("failed:")


@pytest.fixture
def clean():
    """clean(api, path) removes it after the test; the last first."""
    made = []
    yield lambda api, path: made.append((api, path))
    for api, path in reversed(made):
        api.delete(path)


@pytest.fixture
def network(net, clean):
    def create(name, **fields):
        made = net.post("/networks", {"name": name, **fields}).ok()
        clean(net, f"/networks/{made['id']}")
        return made

    return create


@pytest.fixture
def box(net, clean):
    def create(**fields):
        id = net.create(**fields)["id"]
        clean(net, f"/sandboxes/{id}")
        return id

    return create


def connect(api, network, *ids):
    for id in ids:
        assert api.post(f"/networks/{network}/connect", {"sandboxId": id}).ok() == {"connected": True}


def test_a_network_has_the_contracts_shape(net, network):
    made = network("shape-net", driver="bridge")
    assert set(made) == {"id", "name", "dockerNetworkId", "sandboxes", "createdAt"}
    assert made["name"] == "shape-net" and made["sandboxes"] == [] and made["id"].startswith("net_")
    assert made in net.get("/networks").ok()["networks"]
    assert net.get("/networks/shape-net").ok() == made
    assert net.delete(f"/networks/{made['id']}").ok() == {"deleted": made["id"]}
    net.get("/networks/shape-net").failed(404, "network_not_found")


def test_names_are_unique_and_checked(net, network):
    first = network("one-of-a-kind")
    told = net.post("/networks", {"name": "one-of-a-kind"}).failed(409)
    assert told["code"] == "network_exists" and first["id"] in told["error"]
    for name in ("", "a b", "net_x", "x" * 64, ".x", "ü"):
        net.post("/networks", {"name": name}).failed(400)


def test_members_without_network_see_each_other_and_nobody_else(net, world, network, box):
    n = network("pair")["id"]
    web, db, other = box(name="pair-web"), box(name="pair-db"), box(name="pair-other")
    connect(net, n, web, db)
    assert net.get(f"/networks/{n}").ok()["sandboxes"] == [web, db]
    assert net.sandbox(web)["config"]["networks"] == [n]
    serve(net, db, "from db")
    assert ask(net, web, "pair-db") == "from db"
    assert ask(net, web, "pair-db.pair") == "from db"
    there = address(net, db)
    assert ask(net, web, there) == "from db"
    # Who is not in it, and what is not in it.
    assert failed(ask(net, other, "pair-db")) and failed(ask(net, other, there))
    assert failed(ask(net, web, "pair-other"))
    assert failed(ask(net, web, "93.184.10.10", 443)) and failed(ask(net, web, "allowed.test", 443))
    assert not world.arrived(to="93.184.10.10") and "allowed.test" not in str(world.dns.asked)


def test_a_member_keeps_its_own_policy(net, network, box):
    n = network("mixed")["id"]
    out, inner = box(name="mixed-out", network=True), box(name="mixed-inner")
    connect(net, n, out, inner)
    serve(net, inner, "inner")
    assert ask(net, out, "mixed-inner") == "inner"
    assert not failed(ask(net, out, "93.184.10.10", 80))
    assert failed(ask(net, inner, "93.184.10.10", 80))


def test_two_networks_are_not_joined_by_a_sandbox_in_both(net, network, box):
    left, right = network("left")["id"], network("right")["id"]
    a, both, b = box(name="lr-a"), box(name="lr-both"), box(name="lr-b")
    connect(net, left, a, both)
    connect(net, right, b, both)
    serve(net, both, "both")
    serve(net, b, "b")
    assert ask(net, a, "lr-both") == "both" and ask(net, b, "lr-both") == "both" and ask(net, both, "lr-b") == "b"
    assert failed(ask(net, a, "lr-b")) and failed(ask(net, a, address(net, b)))


def test_connecting_twice_and_disconnecting_twice_fail(net, network, box):
    n, id = network("twice")["id"], box()
    connect(net, n, id)
    net.post(f"/networks/{n}/connect", {"sandboxId": id}).failed(409, "network_connected")
    assert net.post(f"/networks/{n}/disconnect", {"sandboxId": id}).ok() == {"disconnected": True}
    net.post(f"/networks/{n}/disconnect", {"sandboxId": id}).failed(409, "network_not_connected")
    assert "networks" not in net.sandbox(id)["config"]
    net.post(f"/networks/{n}/connect", {"sandboxId": "sbx_nobody"}).failed(404)
    net.post("/networks/nothing/connect", {"sandboxId": id}).failed(404)


def test_a_disconnect_cuts_what_is_open(net, network, box):
    n = network("cut")["id"]
    a, b = box(name="cut-a"), box(name="cut-b")
    connect(net, n, a, b)
    serve(net, b, "b")
    assert ask(net, a, "cut-b") == "b"
    there = address(net, b)
    net.background(b, ["python3", "-c", SILENT])
    wait_until(lambda: ":1B59 " in net.sh(b, "cat /proc/net/tcp"))
    job = net.background(a, ["python3", "-c", TALK, there])["id"]
    wait_until(lambda: "open" in str(net.background_logs(job)))
    net.post(f"/networks/{n}/disconnect", {"sandboxId": b}).ok()
    wait_until(lambda: "over" in str(net.background_logs(job)))
    assert cut_off(net, a, there) and cut_off(net, a, "cut-b")


def test_a_removed_network_lets_its_sandboxes_go(net, network, box):
    made = network("short")
    a, b = box(name="short-a"), box(name="short-b")
    connect(net, made["id"], a, b)
    serve(net, b, "b")
    there = address(net, b)
    assert ask(net, a, there) == "b"
    net.delete(f"/networks/{made['id']}").ok()
    assert cut_off(net, a, there) and cut_off(net, a, "short-b")
    assert "networks" not in net.sandbox(a)["config"]
    assert network("short")["sandboxes"] == []


def test_a_create_can_name_networks(net, network, box):
    n = network("at-create")["id"]
    a, b = box(name="ac-a", networks=["at-create"]), box(name="ac-b", networks=[n])
    serve(net, b, "b")
    assert ask(net, a, "ac-b") == "b"
    net.try_create(networks=["nothing"]).failed(404, "network_not_found")


def test_a_stopped_member_is_back_when_it_is_started(net, network, box):
    n = network("restart")["id"]
    a, b = box(name="rs-a"), box(name="rs-b")
    connect(net, n, a, b)
    net.post(f"/sandboxes/{b}/stop").ok()
    assert failed(ask(net, a, "rs-b"))
    net.post(f"/sandboxes/{b}/start").ok()
    serve(net, b, "again")
    assert ask(net, a, "rs-b") == "again"
    # One that is connected while it is stopped.
    c = box(name="rs-c")
    net.post(f"/sandboxes/{c}/stop").ok()
    connect(net, n, c)
    net.post(f"/sandboxes/{c}/start").ok()
    assert ask(net, c, "rs-b") == "again"


def test_a_clone_is_in_the_networks_of_the_other(net, network, box, clean):
    n = network("clones")["id"]
    a, b = box(name="cl-a"), box(name="cl-b")
    connect(net, n, a, b)
    serve(net, b, "b")
    clone = net.post(f"/sandboxes/{a}/clone", {"name": "cl-c"}).ok()["id"]
    clean(net, f"/sandboxes/{clone}")
    assert ask(net, clone, "cl-b") == "b"


def test_a_clone_is_in_the_networks_that_the_other_is_in_now(net, network, box, clean):
    """A27: also that of a snapshot from before, and of a sandbox that is gone it is in none."""
    left, joined = network("left-since")["id"], network("joined-since")["id"]
    a = box(name="now-a")
    connect(net, left, a)
    taken = net.post(f"/sandboxes/{a}/snapshots", {}).ok()["id"]
    clean(net, f"/snapshots/{taken}")
    net.post(f"/networks/{left}/disconnect", {"sandboxId": a}).ok()
    connect(net, joined, a)

    def cloned(warnings):
        made = net.post(f"/snapshots/{taken}/clone", {}).ok()
        clean(net, f"/sandboxes/{made['id']}")
        assert len(made.get("warnings", [])) == warnings, made
        return [n for n in (left, joined) if made["id"] in net.get(f"/networks/{n}").ok()["sandboxes"]]

    assert cloned(0) == [joined]
    net.remove(a)
    assert cloned(1) == []


def test_networks_outlive_the_daemon(online_of):
    daemon = online_of()
    daemon.start()
    with daemon.api() as api:
        n = api.post("/networks", {"name": "lasting"}).ok()["id"]
        a, b = api.create(name="l-a")["id"], api.create(name="l-b")["id"]
        connect(api, n, a, b)
        serve(api, b, "b")
        assert ask(api, a, "l-b") == "b"
    daemon.stop(signal.SIGKILL)
    daemon.start()
    with daemon.api() as api:
        assert api.get(f"/networks/{n}").ok()["sandboxes"] == [a, b]
        assert ask(api, a, "l-b") == "b"
        c = api.create(name="l-c", networks=["lasting"])["id"]
        assert ask(api, c, "l-b") == "b"
        api.post(f"/networks/{n}/disconnect", {"sandboxId": a}).ok()
        assert cut_off(api, a, "l-b")


def test_members_are_known_by_name_to_a_gateway_that_is_new(online_of):
    own = online_of().start()
    with own.api() as api:
        n = api.post("/networks", {"name": "lasting"}).ok()["id"]
        a, b = (api.create(name=name)["id"] for name in ("gw-a", "gw-b"))
        connect(api, n, a, b)
        serve(api, b, "known")
        assert ask(api, a, "gw-b") == "known"
        before = own.gateway_pids()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: (now := own.gateway_pids()) and not set(now) & set(before), 60, "another gateway")
        assert wait_until(lambda: ask(api, a, "gw-b", patience=5) == "known", 60, "its name")


def test_a_removal_that_was_begun_is_finished(online_of):
    daemon = online_of()
    daemon.start()
    with daemon.api() as api:
        n = api.post("/networks", {"name": "half"}).ok()["id"]
        a, b = api.create(name="h-a")["id"], api.create(name="h-b")["id"]
        connect(api, n, a, b)
        serve(api, b, "b")
        there = address(api, b)
    daemon.stop(signal.SIGKILL)
    document = Path(daemon.data) / "networks" / f"{n}.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), "removing": True}))
    daemon.start()
    with daemon.api() as api:
        assert api.get("/networks").ok() == {"networks": []} and not document.exists()
        assert "networks" not in api.sandbox(a)["config"]
        assert cut_off(api, a, there) and cut_off(api, a, "h-b")
        api.post("/networks", {"name": "half"}).ok()


def test_who_is_a_peer_is_explained(net, network, box):
    n = network("told")["id"]
    a, b = box(name="told-a"), box(name="told-b")
    connect(net, n, a, b)
    for host, allowed in (("told-b", True), ("Told-B.told", True), (address(net, b), True), ("93.184.10.10", False)):
        said = net.get(f"/sandboxes/{a}/network/explain?host={host}&port=7000").ok()
        assert said["allowed"] is allowed, said
        assert not allowed or b in said["why"]


def test_the_command_line_makes_and_shows_networks(net, online, box, clean):
    def run(*words):
        return cay(online, "network", *words, text=True)

    id = run("create", "by-hand").stdout.strip()
    clean(net, f"/networks/{id}")
    a, b = box(name="bh-a"), box(name="bh-b")
    assert run("connect", "by-hand", "bh-a", b).stdout.split() == ["bh-a", b]
    assert id in run("ls").stdout and json.loads(run("inspect", "by-hand").stdout)["sandboxes"] == [a, b]
    assert run("connect", "by-hand", a).returncode != 0
    assert run("disconnect", "-q", id, a).stdout == ""
    assert run("rm", "by-hand").returncode == 0 and run("ls", "-q").stdout.split().count(id) == 0
