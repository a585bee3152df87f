"""Sandboxes beside each other: what one can do to its link (N11), to another one (N12), and who sees its ports (N21)."""

import socket
import struct

import pytest

from cay_harness import wait_until
from cay_netprobe import Prober, rules, tcp, udp
from cay_space import Capture, Space
from cay_world import HOST, HOST_LAN, needs_network

pytestmark = [pytest.mark.core, needs_network]

# Answers every connection and datagram on port 9000 of all its addresses.
LISTEN = """
import socket, threading
t = socket.create_server(("0.0.0.0", 9000)); u = socket.socket(type=socket.SOCK_DGRAM); u.bind(("0.0.0.0", 9000))
def datagrams():
    while True:
        data, who = u.recvfrom(1000); u.sendto(b"from the other sandbox", who)
threading.Thread(target=datagrams, daemon=True).start()
print("listens", flush=True)
while True:
    c, _ = t.accept()
    with c: c.recv(100); c.sendall(b"from the other sandbox")
"""


def address_of(net, id):
    return net.get(f"/sandboxes/{id}/network").ok()["address"]


def listener(net, id):
    job = net.background(id, ["/usr/bin/python3", "-c", LISTEN])["id"]
    wait_until(lambda: "listens" in net.background_logs(job)["output"], what="the listener")


# ---- N11 ----


def test_n11_commands_have_no_power_over_their_link(net, net_box):
    id = net_box(True)
    for words in (["addr", "add", "10.241.0.77/32", "dev", "eth0"], ["route", "add", "1.2.3.0/24", "dev", "eth0"],
                  ["link", "set", "eth0", "promisc", "on"], ["link", "set", "eth0", "address", "02:00:00:00:00:01"],
                  ["link", "set", "eth0", "down"], ["neigh", "add", "10.241.0.9", "lladdr", "02:00:00:00:00:01", "dev", "eth0"],
                  ["link", "add", "d0", "type", "dummy"], ["rule", "add", "from", "all", "table", "9"]):
        done = net.exec(id, ["ip", *words])
        assert done["exitCode"] != 0 and "not permitted" in done["stderr"].lower() + done["stdout"].lower(), (words, done)
    for words in (["list", "ruleset"], ["add", "table", "inet", "x"]):
        assert net.exec(id, ["nft", *words])["exitCode"] != 0
    tried = net.sh(id, ["/usr/bin/python3", "-c", """
import socket
for family, kind, protocol in ((17, 3, 768), (17, 2, 768), (2, 3, 1), (2, 3, 255), (2, 3, 17)):
    try:
        socket.socket(family, kind, protocol); print("made", family, kind)
    except OSError as e:
        print(e.errno)
s = socket.socket(type=socket.SOCK_DGRAM)
for level, option in ((0, 19), (0, 24)):  # IP_TRANSPARENT, IP_FREEBIND with a source of somebody else's
    try:
        s.setsockopt(level, option, 1); print("set", option)
    except OSError as e:
        print(e.errno)
try:
    s.setsockopt(1, 36, 1); print("made", "a mark")
except OSError as e:
    print(e.errno)
"""])
    assert "made" not in tried and "set 19" not in tried, tried
    for path in ("/proc/sys/net/ipv4/conf/eth0/forwarding", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/eth0/accept_ra"):
        assert net.exec(id, f"echo 1 >{path}")["exitCode"] != 0, path


def frame(own, to_mac, source, to, data):
    """A datagram with any source, on the wire of a link."""
    body = struct.pack("!HHHH", 4000, 4711, 8 + len(data), 0) + data
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(data), 77, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(to))
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xffff) + (total >> 16)
    total = ~((total & 0xffff) + (total >> 16)) & 0xffff
    head = head[:10] + struct.pack("!H", total) + head[12:]
    return to_mac + own + b"\x08\0" + head + body


def neighbour(space):
    """(our MAC, the gateway's MAC) of a sandbox's link."""
    own = space.run("ip", "-o", "link", "show", "eth0").split("link/ether ")[1].split()[0]
    other = next((line.split("lladdr ")[1].split()[0] for line in space.run("ip", "neigh", "show", "dev", "eth0").splitlines()
                  if "lladdr" in line), "ff:ff:ff:ff:ff:ff")
    return tuple(bytes.fromhex(m.replace(":", "")) for m in (own, other))


def send_frames(frames):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
        s.bind(("eth0", 0x0800))
        for data in frames:
            s.send(data)


def test_n11_a_forged_source_is_dropped_at_our_end(world, net, online, net_box):
    """Sent by root of the machine inside the sandbox's namespace: with more power than any command there has."""
    id, other = net_box(True), net_box(True)
    mine, theirs = address_of(net, id), address_of(net, other)
    with Space.of(online.agent_pid(id)) as space:
        own, gateway = neighbour(space)

        def forged(source, word):
            return frame(own, gateway, source, "93.184.10.10", word)

        space.call(send_frames, [forged(mine, b"control")])
        wait_until(lambda: b"control" in world.echo.datagrams, what="the control")
        space.call(send_frames, [forged(source, b"forged") for source in
                                 (theirs, "10.241.0.1", "93.184.10.30", HOST, HOST_LAN, "127.0.0.1", "0.0.0.0", "169.254.1.1")])
        space.call(send_frames, [forged(mine, b"control 2")])
        wait_until(lambda: b"control 2" in world.echo.datagrams, what="the second control")
    assert b"forged" not in world.echo.datagrams
    assert not [p for p in world.arrived() if b"forged" in p.data]


def test_n11_poisoned_neighbours_bring_nobody_elses_packets(world, net, online, net_box):
    """A lie about who has another's address changes neither our table nor the other's."""
    id, other = net_box(True), net_box(True)
    theirs = address_of(net, other)
    with Space.of(online.agent_pid(id)) as space, Space.of(online.agent_pid(other)) as others:
        before = others.run("ip", "neigh", "show")
        own, gateway = neighbour(space)
        reply = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2)
        lies = [to + own + b"\x08\x06" + reply + own + socket.inet_aton(who) + to + socket.inet_aton("10.241.0.1")
                for who in (theirs, "10.241.0.1") for to in (gateway, b"\xff" * 6)]
        space.call(send_frames, lies)
        with Capture(space, incoming_only=True) as heard:
            Prober(net, other).reach(udp("93.184.10.10", 4711, send="to the other one"))
            assert not [p for p in heard.settle() if b"to the other one" in p.data]
        assert others.run("ip", "neigh", "show") == before


# ---- N12 ----


def test_n12_one_sandbox_does_not_reach_another(world, net, net_box):
    for policy in (True, "allow-all", {"default": "deny", "rules": [{"action": "allow", "destination": "10.0.0.0/8"}]}):
        id, other = net_box(policy), net_box(policy)
        listener(net, other)
        Prober(net, other).reach(tcp("127.0.0.1", 9000), udp("127.0.0.1", 9000))  # the control: it does listen
        theirs = address_of(net, other)
        gateway = net.sh(id, "sed -n 's/^nameserver //p' /etc/resolv.conf").split()[0]
        results = Prober(net, id).all(tcp(theirs, 9000), udp(theirs, 9000), tcp(gateway, 9000), udp(gateway, 9000))
        assert not [r for r in results if r.reached], (policy, results)


def test_n12_nor_its_published_port(world, net, net_box):
    id, other = net_box(True), net_box(True)
    listener(net, other)
    port = net.post(f"/sandboxes/{other}/ports", {"containerPort": 9000, "hostPort": 0, "hostAddress": "0.0.0.0"}).ok()["hostPort"]
    with world.internet.call(socket.create_connection, (HOST, port), 10) as s:  # the control: the world reaches it
        s.sendall(b"word")
        assert s.recv(100) == b"from the other sandbox"
    gateway = net.sh(id, "sed -n 's/^nameserver //p' /etc/resolv.conf").split()[0]
    Prober(net, id).refused(tcp(HOST, port), tcp(HOST_LAN, port), tcp(gateway, port))


def test_n12_members_of_a_network_reach_each_other_and_nobody_else(world, net, net_box):
    one, two, three = net_box(True), net_box(False), net_box(True)
    listener(net, two)
    network = net.post("/networks", {"name": "n12"}).ok()["id"]
    try:
        for id in (one, two):
            net.post(f"/networks/{network}/connect", {"sandboxId": id}).ok()
        theirs = address_of(net, two)
        Prober(net, one).reach(tcp(theirs, 9000), udp(theirs, 9000))
        Prober(net, three).refused(tcp(theirs, 9000))
        Prober(net, two).refused(tcp("93.184.10.10", 4711))  # a member without a policy has the network only
        net.post(f"/networks/{network}/disconnect", {"sandboxId": two}).ok()
        assert not Prober(net, one).one(tcp(theirs, 9000)).reached
    finally:
        net.delete(f"/networks/{network}").ok()


@pytest.mark.parametrize("policy", ["allow-all", "private", rules("10.0.0.0/8", "fc00::/7"),
                                    rules("10.241.0.250", "fd63:6179::fa", "10.200.0.1", "fd00::1")],
                         ids=["allow-all", "private", "ranges", "addresses"])
def test_n12_packets_to_the_pool_never_leave_by_the_uplink(world, net, net_box, policy):
    """The addresses of sandboxes are nobody's out there, whether a sandbox has them or not."""
    id = net_box(policy)
    probe = Prober(net, id)
    # The controls: other private addresses answer.
    probe.reach(tcp("10.200.0.1", 9000), udp("10.200.0.1", 9000), tcp("fd00::1", 9000), udp("fd00::1", 9000))
    for tried in (tcp("10.241.0.250", 9000), udp("10.241.0.250", 9000), tcp("fd63:6179::fa", 9000), udp("fd63:6179::fa", 9000)):
        assert probe.refused(tried)[0].word in ("ECONNREFUSED", "EACCES", "EHOSTUNREACH"), tried
    arrived = {p.to for p in world.arrived()}
    assert {"10.200.0.1", "fd00::1"} <= arrived and not {"10.241.0.250", "fd63:6179::fa"} & arrived
    for address in ("10.241.0.250", "fd63:6179::fa"):
        said = net.get(f"/sandboxes/{id}/network/explain?host={address}&port=9000").ok()
        assert not said["allowed"] and "network with this one" in said["why"], said
    assert net.get(f"/sandboxes/{id}/network/explain?host=10.200.0.1&port=9000").ok()["allowed"]


def test_n12_one_that_left_a_network_reaches_its_peer_no_more(world, net, net_box):
    one, two = net_box("allow-all"), net_box("allow-all")
    listener(net, two)
    network = net.post("/networks", {"name": "n12-left"}).ok()["id"]
    try:
        for id in (one, two):
            net.post(f"/networks/{network}/connect", {"sandboxId": id}).ok()
        theirs = net.get(f"/sandboxes/{two}/network").ok()
        probe = Prober(net, one)
        probe.reach(tcp(theirs["address"], 9000), udp(theirs["address"], 9000))
        net.post(f"/networks/{network}/disconnect", {"sandboxId": one}).ok()
        world.reset()
        probe.refused(tcp(theirs["address"], 9000), udp(theirs["address"], 9000), tcp(theirs["address6"], 9000),
                      udp(theirs["address6"], 9000))
        assert not [p for p in world.arrived() if p.to in (theirs["address"], theirs["address6"])]
        net.post(f"/networks/{network}/connect", {"sandboxId": one}).ok()
        probe.reach(tcp(theirs["address"], 9000), udp(theirs["address"], 9000))
    finally:
        net.delete(f"/networks/{network}").ok()


# ---- N21 ----


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_n21_a_published_port_is_the_loopbacks_unless_asked(world, net, net_box, protocol):
    id = net_box(False)
    listener(net, id)
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM

    def ask(space, address, port):
        with space.call(socket.socket, socket.AF_INET, kind) as s:
            s.settimeout(60)  # where nothing listens, an error comes at once
            try:
                s.connect((address, port))
                s.sendall(b"word")
                return s.recv(100)
            except OSError:
                return None

    port = net.post(f"/sandboxes/{id}/ports", {"containerPort": 9000, "hostPort": 0, "protocol": protocol}).ok()["hostPort"]
    answer = b"from the other sandbox"
    assert ask(world.host, "127.0.0.1", port) == answer
    assert ask(world.internet, HOST, port) is None and ask(world.lan, HOST_LAN, port) is None
    assert ask(world.host, HOST, port) is None
    net.delete(f"/sandboxes/{id}/ports?containerPort=9000").ok()
    assert ask(world.host, "127.0.0.1", port) is None
    asked = {"containerPort": 9000, "hostPort": 0, "protocol": protocol, "hostAddress": "0.0.0.0"}
    port = net.post(f"/sandboxes/{id}/ports", asked).ok()["hostPort"]
    assert ask(world.internet, HOST, port) == answer
