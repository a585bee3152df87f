"""The network gateway: what its two processes may do, that they come back, and that whoever takes its rules away stops traffic
instead of freeing it."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cay_harness import wait_until
from cay_world import HOST, NEIGHBOUR, OnlineDaemon, World, needs_network

pytestmark = [pytest.mark.core, needs_network]

PUBLIC = "93.184.10.10"

FETCH = "import socket,sys; s=socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])); print('open')"

# Sends a byte over one connection and receives it, again and again, until /workspace/enough is there: whole. Cut when the
# connection ends, or when the kernel has sent a byte as often as argv[3] says and its peer's kernel has confirmed none of them.
TALK = """
import pathlib, socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
s.settimeout(0.05)
pathlib.Path("/workspace/talks").touch()

def answered():
    while True:
        try:
            return s.recv(1) == b"x"
        except TimeoutError:
            unconfirmed = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[2]  # tcpi_retransmits
            if unconfirmed >= int(sys.argv[3]):
                raise

try:
    while not pathlib.Path("/workspace/enough").exists():
        s.sendall(b"x")
        assert answered()
        time.sleep(0.02)
    print("whole")
except (OSError, AssertionError) as why:
    print("cut", why)
"""


def status(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def halves(daemon):
    """The warden and its worker; None while one of them comes or goes."""
    pids = daemon.gateway_pids()
    try:
        parents = {pid: int(status(pid)["PPid"]) for pid in pids}
    except OSError:
        return None
    warden = [pid for pid in pids if parents[pid] not in pids]
    worker = [pid for pid in pids if parents[pid] in warden]
    return (warden[0], worker[0]) if len(warden) == 1 and len(worker) == 1 else None


def flows(daemon):
    """How many the crossroads know."""
    said = subprocess.run(["nsenter", f"--net={daemon.run}/netns", "cat", "/proc/sys/net/netfilter/nf_conntrack_count"],
                          capture_output=True, text=True, check=True)
    return int(said.stdout)


def opens(api, id, address, port=80, patience=20):
    """True if a TCP connection is established within that many seconds. An address that the policy denies answers with a reset at once."""
    return api.exec(id, ["python3", "-c", FETCH, address, str(port), str(patience)], timeout=60)["stdout"].strip() == "open"


@pytest.fixture
def own_net(online_of):
    daemon = online_of()
    daemon.start()
    with daemon.api() as api:
        yield daemon, api


def test_the_worker_has_no_power(own_net):
    daemon, api = own_net
    api.create(network=True)
    warden, worker = wait_until(lambda: halves(daemon))
    said = status(worker)
    assert {said[f"Cap{kind}"].strip("0") for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {""}
    assert said["NoNewPrivs"] == "1" and said["Seccomp"] == "2"
    assert "0" not in said["Uid"].split() and "0" not in said["Gid"].split() and not said["Groups"].strip()
    for kind in ("pid", "mnt", "ipc", "uts", "net", "cgroup"):
        assert os.readlink(f"/proc/{worker}/ns/{kind}") != os.readlink(f"/proc/{warden}/ns/{kind}"), kind
    assert os.listdir(f"/proc/{worker}/root/") == []


def test_the_warden_has_what_it_needs_and_no_more(own_net):
    daemon, api = own_net
    api.create(network=True)
    warden, _ = wait_until(lambda: halves(daemon))
    said = status(warden)
    # setgid, setuid, setpcap, kill; net_admin; sys_admin
    allowed = sum(1 << bit for bit in (5, 6, 7, 8, 12, 21))
    assert int(said["CapEff"], 16) & ~allowed == 0 and int(said["CapBnd"], 16) & ~allowed == 0
    assert said["NoNewPrivs"] == "1" and said["Seccomp"] == "2" and said["Threads"] == "1"


def test_a_killed_worker_is_back_and_flows_without_names_do_not_notice(own_net):
    daemon, api = own_net
    id = api.create(network=True)["id"]
    warden, worker = wait_until(lambda: halves(daemon))
    assert opens(api, id, PUBLIC)
    os.kill(worker, signal.SIGKILL)
    assert opens(api, id, PUBLIC)
    again = wait_until(lambda: (now := halves(daemon)) and now[1] != worker and now)
    assert again[0] == warden


def test_a_killed_warden_is_back_and_boxes_go_on(own_net):
    daemon, api = own_net
    id = api.create(network=True)["id"]
    warden, _ = wait_until(lambda: halves(daemon))
    address = api.sh(id, "cat /proc/net/fib_trie | grep -m1 -o '10.241[0-9.]*' | head -1").strip()
    os.kill(warden, signal.SIGKILL)
    wait_until(lambda: (now := halves(daemon)) and now[0] != warden)
    assert opens(api, id, PUBLIC)
    assert not opens(api, id, NEIGHBOUR)
    assert address == api.sh(id, "cat /proc/net/fib_trie | grep -m1 -o '10.241[0-9.]*' | head -1").strip()


def test_names_of_peers_outlive_the_warden(own_net):
    daemon, api = own_net
    network = api.post("/networks", {"name": "kept"}).ok()["id"]
    a, b = (api.create(name=name, networks=[network])["id"] for name in ("kept-a", "kept-b"))
    warden, _ = wait_until(lambda: halves(daemon))

    def answered():
        asked = api.exec(a, "getent hosts kept-b && getent hosts kept-b.kept", env={"RES_OPTIONS": "timeout:1 attempts:1"})
        return asked["exitCode"] == 0  # a question that nobody receives is given up after 1 s

    wait_until(answered, 60, f"names of peers ({b})")
    os.kill(warden, signal.SIGKILL)
    wait_until(lambda: (now := halves(daemon)) and now[0] != warden)
    wait_until(answered, 60, "names of peers, told to the next warden")


def test_the_process_that_the_daemon_ends_when_it_hangs_is_the_warden(own_net):
    """The daemon kills the process that listens at the socket, if it has this name (unit-engine_gateway)."""
    daemon, api = own_net
    api.create(network=True)
    warden, worker = wait_until(lambda: halves(daemon))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(str(daemon.run / "gateway.sock"))
        assert struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0] == warden
    assert Path(f"/proc/{warden}/comm").read_text() == "cay-gateway\n"
    os.kill(worker, signal.SIGSTOP)  # it ends with the warden, whatever it does
    os.kill(warden, signal.SIGKILL)
    wait_until(lambda: worker not in daemon.gateway_pids())


def test_a_warden_that_comes_after_a_flush_keeps_addresses(own_net, world):
    daemon, api = own_net
    first, id = (api.create(network=True)["id"] for _ in range(2))
    api.delete(f"/sandboxes/{first}").ok()  # its address would be the next one's
    address = api.get(f"/sandboxes/{id}/network").ok()["address"]
    before = wait_until(lambda: halves(daemon))
    os.kill(before[0], signal.SIGSTOP)  # so that it does not set them again
    world.host.run("nsenter", f"--net={daemon.run}/netns", "nft", "flush", "ruleset")
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: (now := halves(daemon)) and now[0] != before[0])
    wait_until(lambda: opens(api, id, PUBLIC), 60)
    assert api.get(f"/sandboxes/{id}/network").ok()["address"] == address


def test_flows_of_a_box_that_ended_unseen_are_not_the_next_ones(own_net, world):
    daemon, api = own_net
    id = api.create(network=True)["id"]
    before = wait_until(lambda: halves(daemon))
    assert opens(api, id, PUBLIC) and flows(daemon) > 0
    os.kill(before[0], signal.SIGSTOP)
    world.host.run("nsenter", f"--net={daemon.run}/netns", "ip", "link", "del", "c1")  # as its end does, sooner or later
    with ThreadPoolExecutor(1) as pool, daemon.api() as other:
        try:
            gone = pool.submit(other.delete, f"/sandboxes/{id}")
            # The daemon kills a warden that has not answered for 5 s.
            wait_until(lambda: daemon.gateway_has_unread_requests() or before[0] not in daemon.gateway_pids(), 60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(before[0], signal.SIGKILL)  # the next is told of the end only
        gone.result().ok()
    wait_until(lambda: (now := halves(daemon)) and now[0] != before[0])
    wait_until(lambda: flows(daemon) == 0, what="the end of its flows")


def test_a_flow_outlives_the_gateways_processes_and_not_its_policy(own_net):
    daemon, api = own_net
    id = api.create(network=True)["id"]
    with ThreadPoolExecutor(1) as pool, daemon.api() as other:
        for ends_it in (False, True):
            api.sh(id, "rm -f /workspace/enough /workspace/talks")
            talk = pool.submit(other.exec, id, ["python3", "-c", TALK, PUBLIC, "7", "2" if ends_it else "7"])
            wait_until(lambda: api.exec(id, "test -e /workspace/talks")["exitCode"] == 0)
            if ends_it:
                api.call("PUT", f"/sandboxes/{id}/network", {"network": False}).ok()
            else:
                for which in (1, 0):
                    before = wait_until(lambda: halves(daemon))
                    os.kill(before[which], signal.SIGKILL)
                    wait_until(lambda: (now := halves(daemon)) and now[which] != before[which])
                api.sh(id, "touch /workspace/enough")
            assert talk.result()["stdout"].split()[0] == ("cut" if ends_it else "whole")


def test_boxes_keep_their_policy_when_the_daemon_is_killed(own_net):
    daemon, api = own_net
    id = api.create(network=True)["id"]
    warden, _ = wait_until(lambda: halves(daemon))
    daemon.kill9()
    daemon.start()
    with daemon.api() as again:
        assert wait_until(lambda: halves(daemon))[0] == warden
        assert opens(again, id, PUBLIC) and not opens(again, id, NEIGHBOUR)


@pytest.mark.parametrize("where", ["crossroads", "host"])
def test_flushed_rules_are_set_again(own_net, world, where):
    daemon, api = own_net
    id = api.create(network=True)["id"]
    assert opens(api, id, PUBLIC)
    inside = ["nsenter", f"--net={daemon.run}/netns"] if where == "crossroads" else []
    world.host.run(*inside, "nft", "flush", "ruleset")
    wait_until(lambda: opens(api, id, PUBLIC), 60)
    assert not opens(api, id, NEIGHBOUR) and not opens(api, id, HOST, 2375)


def test_without_the_gateway_and_its_rules_nothing_passes(own_net, world):
    """Fails closed: rules gone and nobody there to set them."""
    daemon, api = own_net
    id = api.create(network=True)["id"]
    warden, _ = wait_until(lambda: halves(daemon))
    os.kill(warden, signal.SIGSTOP)
    try:
        world.host.run("nsenter", f"--net={daemon.run}/netns", "nft", "flush", "ruleset")
        world.arrivals.settle()
        world.arrivals.packets.clear()
        assert not opens(api, id, PUBLIC, patience=1)  # nothing refuses it, so the whole second passes
        assert not world.arrived(to=PUBLIC)
    finally:
        os.kill(warden, signal.SIGCONT)
    wait_until(lambda: opens(api, id, PUBLIC), 60)


def links_of_daemons(world):
    return {link for link in world.host.links() if link.startswith("cay-")}


@pytest.fixture
def own_world():
    """A host of this test's own, where no other daemon switches forwarding on."""
    world = World()
    yield world
    world.close()


def test_a_way_out_that_was_taken_away_is_made_again(own_world):
    daemon = OnlineDaemon(own_world)
    try:
        daemon.start()
        with daemon.api() as api:
            id = api.create(network=True)["id"]
            link, = links_of_daemons(own_world)
            own_world.host.run("ip", "link", "del", link)
            wait_until(lambda: opens(api, id, PUBLIC), 60)
            own_world.host.run("sysctl", "-qw", "net.ipv4.ip_forward=0")
            wait_until(lambda: opens(api, id, PUBLIC), 60)
    finally:
        daemon.destroy()
    assert own_world.host.sysctl("ipv4.ip_forward") == "0"  # as it was when the gateway switched it on
    assert not own_world.left_in_host()


def test_two_daemons_on_one_host_do_not_meet(online_of, world):
    before = links_of_daemons(world)
    one, two = online_of("one"), online_of("two", env={"CAY_NET_POOL": "10.242.0.0/16"})
    for daemon in (one, two):
        daemon.start()
    with one.api() as a, two.api() as b:
        ids = a.create(network=True)["id"], b.create(network=True)["id"]
        assert opens(a, ids[0], PUBLIC) and opens(b, ids[1], PUBLIC)
        assert len(links_of_daemons(world) - before) == 2
        one.destroy()
        wait_until(lambda: opens(b, ids[1], PUBLIC), 60)
