"""What a sandbox may not reach by address, whatever its policy is called (N01–N05), and by which protocols (N10)."""

import contextlib
import json
import socket
import struct

import pytest

from cay_harness import wait_until
from cay_netprobe import Prober, dns, http, name, rules, tcp, udp
from cay_space import Space
from cay_world import HOST, HOST6, HOST_LAN, HOST_PORT, LOOPBACK_PORT, NEIGHBOUR, needs_network

pytestmark = [pytest.mark.core, needs_network]

PRESETS = [True, "public", "packages", "allow-all", {"default": "allow"}]
METADATA = ["169.254.169.254", "169.254.170.2", "100.100.100.200"]
METADATA6 = ["fd00:ec2::254"]
SPECIAL = ["10.0.0.1", "10.255.255.53", "172.16.0.1", "172.31.255.254", "192.168.0.1", NEIGHBOUR, "100.64.0.1",
           "100.127.255.254", "169.254.1.1", "0.0.0.5", "192.0.0.8", "198.18.0.1", "240.0.0.1"]
GROUPS = ["224.0.0.251", "239.255.255.250", "255.255.255.255"]
SPECIAL6 = ["fc00::1", "fd12:3456::1", "2001:db8::1", "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "2002:a00:1::1",
            "2001:0:a00:1::1", "100::1"]
# Link-local answers depend on a link that is named, so these are tried apart.
LINK_LOCAL6 = ["fe80::1%eth0", "ff02::1%eth0"]


def id_of(value):
    return value if isinstance(value, str) else json.dumps(value)


# ---- N01 ----


@pytest.mark.parametrize("preset", PRESETS, ids=id_of)
def test_n01_metadata_is_out_of_reach_of_every_preset(world, net, net_box, preset):
    probe = Prober(net, net_box(preset))
    probe.refused(*(http(a) for a in METADATA), *(tcp(a, 8080) for a in METADATA), name("metadata.google.internal"),
                  http("169.254.169.254", path="/latest/meta-data/"))
    # Without a rule for IPv6 there may be none at all; what matters is that nothing answers.
    assert not any(r.reached for r in probe.all(*(http(a) for a in METADATA6)))
    assert not [p for a in METADATA + METADATA6 for p in world.arrived(to=a)]
    assert not world.web.requests


def test_n01_a_rule_that_names_it_reaches_metadata(world, net, net_box):
    probe = Prober(net, net_box(rules(*METADATA)))
    probe.reach(*(http(a) for a in METADATA))
    assert {r.address for r in world.web.requests} == set(METADATA)


# ---- N02 ----


def host_addresses(world):
    """Every address of H, with the one of the cable to the gateway."""
    told = json.loads(world.host.run("ip", "-j", "addr"))
    return [a["local"] for link in told for a in link["addr_info"] if link["ifname"] != "lo" and a["scope"] == "global"]


@pytest.mark.parametrize("preset", PRESETS, ids=id_of)
def test_n02_the_host_is_out_of_reach(world, net, online, net_box, preset):
    probe = Prober(net, net_box(preset))
    gateway = net.sh(probe.id, "sed -n 's/^nameserver //p' /etc/resolv.conf").split()
    addresses = {HOST, HOST_LAN, *gateway, *host_addresses(world)}
    ports = (HOST_PORT, LOOPBACK_PORT, online.port, 22, 80)
    results = probe.all(*(tcp(a, p) for a in addresses if ":" not in a for p in ports))
    assert not [r for r in results if r.reached], "reached"
    assert not [r for r in results if r.word == "timeout"], "left hanging"
    assert not [r for r in probe.all(*(tcp(a, HOST_PORT) for a in (HOST6, *addresses) if ":" in a)) if r.reached]
    for word in ("host.docker.internal", "host.cay.internal", "gateway.docker.internal", "localhost.localdomain"):
        got = probe.one(name(word))
        assert not got.reached or set(got.data) <= {"127.0.0.1", "::1"}, got
    assert not world.host_echo.connections and not world.loopback_echo.connections
    assert not world.host_echo.datagrams
    # The loopback in a sandbox is its own.
    probe.refused(tcp("127.0.0.1", LOOPBACK_PORT), tcp("127.0.0.1", HOST_PORT), tcp("127.0.0.1", online.port))


def test_n02_a_rule_for_the_host_reaches_what_it_names(world, net, online, net_box):
    policy = {"rules": [{"action": "allow", "destination": "host", "protocol": "tcp", "port": port}
                        for port in (LOOPBACK_PORT, online.port)]}
    probe = Prober(net, net_box(policy))
    address = probe.one(name("host.cay.internal"))
    assert address.reached, address
    probe.reach(tcp(address.data[0], LOOPBACK_PORT))
    assert world.loopback_echo.connections
    probe.refused(tcp(address.data[0], HOST_PORT))
    # The daemon's own port is nobody's, whatever a rule says.
    got = probe.one(http(address.data[0], online.port, path="/sandbox/health"))
    assert not got.reached or got.data.startswith(("HTTP/1.1 502 ", "HTTP/1.1 403 ")), got


# ---- N03, N04 ----


@pytest.mark.parametrize("preset", [True, "public"], ids=id_of)
def test_n03_what_is_not_public_is_refused(world, net, net_box, preset):
    probe = Prober(net, net_box(preset))
    probe.reach(tcp("93.184.10.10", 4711), http("8.8.8.8"))  # the control: what is public answers
    probe.refused(*(tcp(a, 80) for a in SPECIAL))
    results = probe.all(*(tcp(a, 80) for a in GROUPS),
                        *(udp(a, 5353, marker=("tcp", "93.184.10.10", 4711)) for a in SPECIAL + GROUPS))
    assert not [r for r in results if r.reached]
    wrong = [p for a in SPECIAL + GROUPS for p in world.arrived(to=a)]
    assert not wrong and not world.lan_echo.connections and not world.lan_echo.datagrams


def test_n03_a_rule_that_names_a_range_reaches_it(world, net, net_box):
    probe = Prober(net, net_box(rules("10.0.0.0/8", NEIGHBOUR, "198.18.0.0/15")))
    probe.reach(tcp("10.0.0.1", 22), tcp(NEIGHBOUR, 22), tcp("198.18.0.1", 22), udp("10.0.0.1", 4000))
    probe.refused(tcp("172.16.0.1", 22), tcp("192.168.50.11", 22), tcp("93.184.10.10", 22))


def ipv6(net, id):
    """Does the sandbox have an address of IPv6 that is not only its link's?"""
    return "eth0" in net.sh(id, "grep -v ^fe80 /proc/net/if_inet6 || true")


@pytest.mark.parametrize("preset", [True, "public", "allow-all"], ids=id_of)
def test_n04_ipv6_has_the_same_fence_or_is_off(world, net, net_box, preset):
    probe = Prober(net, net_box(preset))
    if ipv6(net, probe.id):
        probe.reach(tcp("2a0f:20::10", 4711))
    else:
        assert not probe.one(tcp("2a0f:20::10", 4711)).reached
    special = SPECIAL6 if preset != "allow-all" else [a for a in SPECIAL6 if a.startswith(("64:", "2002:", "2001:0:", "100:"))]
    mapped = ["::ffff:169.254.169.254", f"::ffff:{HOST}"] + (["::ffff:10.0.0.1"] if preset != "allow-all" else [])
    attempts = [tcp(a, 80) for a in special + METADATA6 + mapped + [HOST6] + LINK_LOCAL6]
    results = probe.all(*attempts, *(udp(a, 443) for a in special + METADATA6))
    assert not [r for r in results if r.reached]
    assert not [p for a in special + METADATA6 + ["169.254.169.254", "10.0.0.1"] for p in world.arrived(to=a)
                if preset != "allow-all" or a != "10.0.0.1"]


def test_n04_an_advertisement_from_inside_changes_nothing(world, net, online, net_box):
    """Neither our side of the cable nor another sandbox takes a route from one."""
    one, other = net_box(True), net_box(True)
    before = net.sh(other, "cat /proc/net/ipv6_route /proc/net/if_inet6")
    advertisement = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0)
    with Space.of(online.agent_pid(one)) as space:
        space.call(send_advertisement, advertisement)
    assert net.sh(other, "cat /proc/net/ipv6_route /proc/net/if_inet6") == before
    assert world.host.run("ip", "-6", "route", "show", "proto", "ra") == ""


def send_advertisement(data):
    """As somebody with more power than any command in a sandbox has."""
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as s, contextlib.suppress(OSError):
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        s.sendto(data, ("ff02::1", 0, 0, socket.if_nametoindex("eth0")))


# ---- N05 ----

ODD = ["0xA9FEA9FE", "2852039166", "0251.0376.0251.0376", "169.254.43518", "0xa9.254.0251.254", "169.16689662"]


def test_n05_an_odd_spelling_is_the_address_it_means(world, net, net_box):
    id = net_box(True)
    for spelling in ODD:
        done = net.exec(id, ["curl", "-sS", "-o", "/dev/null", "--max-time", "5", f"http://{spelling}/"])
        assert done["exitCode"] == 7, done  # could not connect, and at once
    assert not world.web.requests and not world.arrived(to="169.254.169.254")
    # The control: where the address is allowed, the odd spelling reaches it.
    id = net_box(rules("169.254.169.254"))
    assert net.exec(id, ["curl", "-sS", "--max-time", "5", f"http://{ODD[0]}/"])["exitCode"] == 0


def test_n05_a_host_header_with_an_odd_spelling_is_no_allowed_name(world, net, net_box):
    """Plain HTTP to an allowed name: each request's Host is judged, spelled as it may be."""
    probe = Prober(net, net_box(rules("allowed.test")))
    address = probe.one(name("allowed.test")).data[0]
    good = probe.one(http(address, host="allowed.test"))
    assert good.reached and "200" in good.data.split("\r\n")[0], good
    for host in (*ODD, "127.0.0.1", "0x7f.1", "[::ffff:7f00:1]", "allowed.test@evil.test", "allowed.test.evil.test",
                 "allowed.test:443@evil.test", "evil.test#allowed.test"):
        got = probe.one(http(address, host=host))
        assert not got.reached or " 403 " in got.data.split("\r\n")[0] or " 400 " in got.data.split("\r\n")[0], got
    assert {r.host for r in world.web.requests} == {"allowed.test"}


@pytest.mark.parametrize("spelling", ["0xA9FEA9FE", "2852039166", "0251.0376.0251.0376", "169.254.43518"])
def test_n05_a_rule_is_not_written_in_one(net, spelling):
    net.try_create(network=rules(spelling)).failed(400, "bad_policy")


# ---- N10 ----


def send_raw(packet, to):
    """A whole IP packet by the sandbox's own link, as root of the machine would send it."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as s, contextlib.suppress(PermissionError):
        s.sendto(packet, (to, 0))


def ip_packet(source, to, protocol, payload, flags=0, options=b""):
    length = 20 + len(options)
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | length // 4, 0, length + len(payload), 77, flags, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(to)) + options
    total = sum(struct.unpack(f"!{len(head) // 2}H", head))
    total = (total & 0xffff) + (total >> 16)
    total = (total & 0xffff) + (total >> 16)
    return head[:10] + struct.pack("!H", ~total & 0xffff) + head[12:] + payload


def address_of(net, id):
    """The sandbox's own, as it sees it."""
    return net.sh(id, ["/usr/bin/python3", "-c", "import socket; s = socket.socket(type=socket.SOCK_DGRAM); "
                       "s.connect(('93.184.10.10', 9)); print(s.getsockname()[0])"]).strip()


def udp_payload(data, port=4711):
    return struct.pack("!HHHH", 4000, port, 8 + len(data), 0) + data


def test_n10_other_protocols_do_not_pass(world, net, online, net_box):
    id = net_box(True)
    mine, to = address_of(net, id), "93.184.10.10"
    route = b"\x83\x07\x04" + bytes([66, 66, 66, 66]) + b"\0"  # loose source route by another machine
    echo = b"\x08\0\xf7\xfe\0\0\0\1"  # an ICMP echo request
    packets = {
        "SCTP": ip_packet(mine, to, 132, b"\x0f\xa0\0\x50" + b"\0" * 8 + b"\1\0\0\x14" + b"\0" * 16),
        "GRE": ip_packet(mine, to, 47, b"\0\0\x08\0" + ip_packet(mine, to, 17, udp_payload(b"in GRE"))),
        "IP in IP": ip_packet(mine, to, 4, ip_packet(mine, to, 17, udp_payload(b"in IP"))),
        "a protocol for experiments": ip_packet(mine, to, 253, b"word"),
        "ICMP": ip_packet(mine, to, 1, echo),
        "a source route": ip_packet(mine, to, 17, udp_payload(b"routed"), options=route),
        "a fragment without its first": ip_packet(mine, to, 17, b"x" * 64, flags=185),
        "a first fragment alone": ip_packet(mine, to, 17, udp_payload(b"x" * 64), flags=0x2000),
    }
    with Space.of(online.agent_pid(id)) as space:
        space.call(send_raw, ip_packet(mine, to, 17, udp_payload(b"control")), to)
        for packet in packets.values():
            space.call(send_raw, packet, to)
        space.call(send_raw, ip_packet(mine, to, 17, udp_payload(b"control 2")), to)
    wait_until(lambda: {b"control", b"control 2"} <= set(world.echo.datagrams), what="the control")
    strange = [p for p in world.arrived() if p.to in (to, "66.66.66.66") and not (p.protocol == 17 and p.port == 4711)]
    assert not strange
    assert set(world.echo.datagrams) == {b"control", b"control 2"}


def test_n10_a_command_cannot_make_such_sockets(world, net, net_box):
    tried = net.sh(net_box(True), ["/usr/bin/python3", "-c", """
import socket
for family, kind, protocol in ((2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 3, 768), (2, 1, 132), (2, 5, 132), (16, 3, 0)):
    try:
        s = socket.socket(family, kind, protocol)
        if family == 16:
            s.bind((0, 0))
        print(family, kind, protocol, "made")
    except OSError as e:
        print(family, kind, protocol, e.errno)
"""])
    made = [line for line in tried.splitlines() if line.endswith("made") and not line.startswith("16 ")]
    assert not made, tried


def test_n10_udp_and_quic_pass_only_where_they_are_listed(world, net, net_box):
    probe = Prober(net, net_box({"rules": [{"action": "allow", "destination": "93.184.10.10", "protocol": "tcp"},
                                           {"action": "allow", "destination": "93.184.10.30", "protocol": "udp", "port": 443}]}))
    probe.reach(tcp("93.184.10.10", 443 + 8000), udp("93.184.10.30", 443))
    probe.refused(udp("93.184.10.10", 443), udp("93.184.10.30", 444), tcp("93.184.10.30", 443), udp("66.66.66.66", 443))
    assert not world.arrived(to="66.66.66.66") and not world.arrived(to="93.184.10.10", protocol=17)


def test_n10_fragments_do_not_pass_even_where_the_rest_does(world, net, net_box):
    """A datagram that is too big for one packet is no more than dropped, wherever it goes."""
    big = "x" * 4000
    probe = Prober(net, net_box(rules("93.184.10.10", protocol="udp")))
    probe.reach(udp("93.184.10.10", 4711))
    marker = ("udp", "93.184.10.10", 4711)
    results = probe.all(*(udp(to, 4711, send=big, marker=marker) for to in ("93.184.10.10", "93.184.10.30")))
    assert not [r for r in results if r.reached]
    assert not world.arrived(to="93.184.10.30")
    arrived = {p.data[28:] for p in world.arrived(to="93.184.10.10")}
    assert arrived == {b"word", b"marker 1\n", b"marker 2\n", b"marker 3\n"}


PING = """
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
s.settimeout(int(sys.argv[1]))
try:
    s.connect(("93.184.10.10", 0))
    s.send(struct.pack("!BBHHH", 8, 0, 0, 0, 1) + b"tunnel")
    print("reached" if b"tunnel" in s.recv(1000) else "other")
except OSError as e:
    print("refused", e)
"""


def test_n10_icmp_passes_only_where_it_is_listed(world, net, net_box):
    assert net.sh(net_box(True), ["/usr/bin/python3", "-c", PING, "5"]).startswith("refused")
    assert not world.arrived(to="93.184.10.10", protocol=1)
    listed = {"default": "deny", "rules": [{"action": "allow", "destination": "93.184.10.10", "protocol": "icmp"}]}
    done = net.sh(net_box(listed), ["/usr/bin/python3", "-c", PING, "25"])
    # A sandbox whose commands may not make such a socket has none to send; what is listed passes if it has one.
    if "Permission" not in done and "not permitted" not in done and "not supported" not in done:
        assert done.startswith("reached"), done


def test_n10_dns_is_no_way_round(world, net, net_box):
    """Port 53 of anybody is ours, whatever the policy says of that address."""
    probe = Prober(net, net_box(rules("allowed.test")))
    assert probe.one(dns("66.66.66.66", "allowed.test")).data == [0, 1]
    assert not world.arrived(to="66.66.66.66")
