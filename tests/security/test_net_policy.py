"""A policy from its first packet to its last: empty (N13), senseless (N14), tightened (N15), before the first packet (N16),
while somebody flushes the rules (N17), and what a refusal looks like (N20)."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from cay_harness import cay, wait_until
from cay_netprobe import Prober, dns, http, name, rules, tcp, udp
from cay_world import NAMESERVER, needs_network

pytestmark = [pytest.mark.core, needs_network]
GOOD, BAD = "93.184.10.10", "66.66.66.66"


def put(net, id, network):
    return net.call("PUT", f"/sandboxes/{id}/network", {"network": network})


# ---- N13, N14 ----


@pytest.mark.parametrize("policy", [{"default": "deny", "rules": []}, {"rules": []}, {}, {"default": "deny"}, {"profiles": []},
                                    "none", False], ids=str)
def test_n13_an_empty_list_is_nothing_at_all(world, net, net_box, policy):
    probe = Prober(net, net_box(policy))
    results = probe.all(tcp(GOOD, 80), udp(GOOD, 443), name("allowed.test"), dns(NAMESERVER, "allowed.test"), silent=30)
    assert not [r for r in results if r.word == "reached" or (r.word == "answered" and r.data[0] == 0)], results
    assert not [r for r in results if r.word == "timeout"], results
    assert not [p for p in world.arrived() if p.protocol in (6, 17)]


@pytest.mark.parametrize("destination", ["127.0.0.1", "127.0.0.0/8", "127.0.0.0/16", "::1", "::1/128", "0.0.0.0/8", "0.0.0.0",
                                         "localhost"])
def test_n14_a_range_that_can_never_apply_is_refused(net, destination):
    said = net.try_create(network=rules("allowed.test", destination)).failed(400, "bad_policy")
    assert "rules[1]" in said["error"], said


@pytest.mark.parametrize("rule", [{"destination": "10.0.0.0/33"}, {"destination": "300.1.1.1"}, {"destination": ""},
                                  {"destination": "a..b"}, {"destination": "allowed.test", "port": 0},
                                  {"destination": "allowed.test", "port": "9-1"}, {"destination": "allowed.test", "port": 70000},
                                  {"destination": "allowed.test", "protocol": "sctp"}, {"destination": "a.*.test"},
                                  {"action": "maybe", "destination": "allowed.test"}, {"destination": "allowed.test", "extra": 1}],
                         ids=str)
def test_n14_what_makes_no_sense_is_refused_and_never_left_out(net, rule):
    before = net.ids()
    net.try_create(network={"rules": [{"action": "allow", **rule}]}).failed(400, "bad_policy")
    assert net.ids() == before


# ---- N15 ----

# Keeps a flow busy. Prints "ready" at the first answer, "unanswered" with the time of each beat that had no answer when the
# next one is sent, and "ended" when an error or the other side ends the flow.
FLOW = """
import socket, sys, time
kind, to, port = sys.argv[1:4]
s = socket.socket(type=socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
s.settimeout(60)
s.connect((to, int(port)))
if kind == "tcp":
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.settimeout(0.2)
said = False
while True:
    try:
        beat = time.monotonic_ns()
        s.send(b"beat %d" % beat)
        if not s.recv(1000):
            break
        if not said:
            print("ready", flush=True)
            said = True
        time.sleep(0.02)
    except TimeoutError:
        print("unanswered", beat, flush=True)
    except OSError:
        break
print("ended", flush=True)
"""
STREAM = """
import ssl, urllib.request, sys
r = urllib.request.urlopen(sys.argv[1])
r.readline(); print("ready", flush=True)
try:
    while r.readline(): pass
except OSError: pass
print("ended", flush=True)
"""
# Says a word again and again and how often it came back, and at last how it ended.
TALK = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
s.settimeout(30)
try:
    n = 0
    while True:
        s.sendall(b"word\\n")
        assert s.recv(1000)
        if n % 10 == 0:
            print("ready", n, flush=True)
        n += 1
        time.sleep(0.02)
except (OSError, AssertionError) as why:
    print("ended", type(why).__name__, flush=True)
"""


def start(net, id, *argv):
    job = net.background(id, ["/usr/bin/python3", "-c", *argv])["id"]
    wait_until(lambda: "ready" in net.background_logs(job)["output"], what=f"the flow of {argv[1:]}")
    return job


def ended(net, job):
    wait_until(lambda: "ended" in net.background_logs(job)["output"], what="the end of the flow")


def is_over(net, job, since):
    """True if the flow has ended, or has sent three beats since then that had no answer."""
    output = net.background_logs(job)["output"]
    return "ended" in output or sum(int(beat) > since for beat in re.findall(r"unanswered (\d+)\n", output)) >= 3


def when_sent(packet):
    """By the clock of FLOW, which is this one's too; 0 for what is none of its words."""
    beat = re.search(rb"beat (\d+)", packet.data)
    return int(beat[1]) if beat else 0


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_n15_an_open_flow_is_cut_when_the_policy_no_longer_has_it(world, net, net_box, kind):
    id = net_box(rules(GOOD, "93.184.10.30"))
    cut, kept = start(net, id, FLOW, kind, GOOD, "4711"), start(net, id, FLOW, kind, "93.184.10.30", "4711")
    put(net, id, rules("93.184.10.30")).ok()
    answered = time.monotonic_ns()

    def sent_later(to):
        return [p for p in world.arrived(to=to) if when_sent(p) > answered]

    wait_until(lambda: sent_later("93.184.10.30"), what="the flow that is still allowed")
    before = len(world.arrived(to=GOOD))  # whatever had been sent before the answer has come, or has been dropped
    ended(net, cut)
    Prober(net, id).refused(tcp(GOOD, 4711))
    assert not sent_later(GOOD)
    assert len(world.arrived(to=GOOD)) == before
    assert "ended" not in net.background_logs(kept)["output"]
    seen = len(world.arrived(to="93.184.10.30"))
    wait_until(lambda: len(world.arrived(to="93.184.10.30")) > seen, what="the flow that is still allowed")


@pytest.mark.parametrize("url", ["https://allowed.test/stream", "http://allowed.test/stream"])
def test_n15_so_is_one_that_a_name_had_let_in(world, net, net_box, url):
    id = net_box(rules("allowed.test", "www.allowed.test"))
    cut, kept = start(net, id, STREAM, url), start(net, id, STREAM, url.replace("allowed", "www.allowed"))
    put(net, id, rules("www.allowed.test")).ok()
    ended(net, cut)
    assert not Prober(net, id).one(name("allowed.test")).reached
    assert "ended" not in net.background_logs(kept)["output"]


def test_n15_what_every_policy_allows_goes_on(world, net, net_box):
    id = net_box(rules("allowed.test"))
    talk = start(net, id, TALK, "allowed.test", "4711")
    for policy in (rules("93.184.10.30", "allowed.test"), True, rules("allowed.test", "93.184.10.30")):
        put(net, id, policy).ok()
        seen = len(net.background_logs(talk)["output"])
        wait_until(lambda: len(net.background_logs(talk)["output"]) > seen + 20, what=f"more words after {policy}")
        assert "ended" not in net.background_logs(talk)["output"]


def test_n15_one_that_had_to_say_a_name_by_now_is_cut(world, net, net_box):
    id = net_box(True)
    talk = start(net, id, TALK, GOOD, "4711")
    put(net, id, {"default": "allow", "rules": [{"action": "deny", "destination": "denied.test", "port": 4711}]}).ok()
    ended(net, talk)
    assert "Timeout" not in net.background_logs(talk)["output"]
    assert Prober(net, id).one(tcp(GOOD, 4711)).reached


def test_n15_none_at_all_cuts_everything(world, net, net_box):
    id, other = net_box(True), net_box(True)
    jobs = [start(net, id, FLOW, kind, GOOD, "4711") for kind in ("tcp", "udp")]
    start(net, other, FLOW, "udp", "93.184.10.30", "4711")  # the control: what is sent does arrive
    put(net, id, False).ok()
    answered = time.monotonic_ns()

    def arrives(after, to):
        return any(when_sent(p) > after for p in world.arrived(to=to))

    wait_until(lambda: arrives(answered, "93.184.10.30"), what="the flow of the other sandbox")
    before = len(world.arrived(to=GOOD))  # packets that left before the answer have arrived, or have been dropped
    for job in jobs:  # packets are dropped without a refusal, and a socket of TCP notices nothing
        wait_until(lambda job=job: is_over(net, job, answered), what="three beats without an answer")
    last = time.monotonic_ns()
    wait_until(lambda: arrives(last, "93.184.10.30"), what="the flow of the other sandbox")
    assert not arrives(answered, GOOD)
    assert len(world.arrived(to=GOOD)) == before
    ended(net, jobs[1])  # the link is removed soon after, which a socket of UDP notices; from then on attempts fail at once
    results = Prober(net, id).all(tcp(GOOD, 4711), udp(GOOD, 4711), name("allowed.test"))
    assert not [r for r in results if r.reached], results
    put(net, id, True).ok()  # and back: the same sandbox is let out again
    Prober(net, id).reach(tcp(GOOD, 4711), name("allowed.test"))


# ---- N16 ----

# From its first instruction on: what is refused, and what is allowed, as fast as it can. One socket for all that is
# allowed, since flows are counted.
HAMMER = ["/usr/bin/python3", "-c", """
import socket, time
u = socket.socket(type=socket.SOCK_DGRAM)
while True:
    for to in ("66.66.66.66", "169.254.169.254", "93.184.10.10"):
        try: u.sendto(b"beat", (to, 4711))
        except OSError: pass
    for to in ("66.66.66.66", "169.254.169.254"):
        s = socket.socket(); s.setblocking(False)
        s.connect_ex((to, 4711))
        s.close()
    time.sleep(0.0005)
"""]
REFUSED = (BAD, "169.254.169.254")


def leaked(world):
    return [p for to in REFUSED for p in world.arrived(to=to)]


def test_n16_nothing_leaves_before_the_rules(world, net, net_box):
    """The main process tries from its start on, in many sandboxes: the control is that it does get out where it may."""
    ids = [net_box(rules(GOOD), entrypoint=HAMMER) for _ in range(8)]
    wait_until(lambda: len(world.arrived(to=GOOD)) > 50, 60, what="the packets that are allowed")
    for id in ids:
        net.remove(id)
    assert not leaked(world)


def test_n16_nor_after_a_stop_and_a_start_a_restore_or_in_a_clone(world, net, net_box):
    id = net_box(rules(GOOD), entrypoint=HAMMER)
    made = []
    try:
        for again in (lambda: (net.post(f"/sandboxes/{id}/stop").ok(), net.post(f"/sandboxes/{id}/start").ok()),
                      lambda: made.append(net.post(f"/sandboxes/{id}/clone").ok()["id"])):
            world.arrivals.packets.clear()
            again()
            wait_until(lambda: world.arrived(to=GOOD), 60, what="the packets that are allowed")
            assert not leaked(world)
    finally:
        for other in made:
            net.remove(other)


def test_n16_a_new_daemon_does_not_open_a_gap(world, online_of):
    """Killed and started again under sandboxes that try all the time; what was allowed goes on meanwhile."""
    daemon = online_of().start()
    with daemon.api() as api:
        id = api.create(network=rules(GOOD), entrypoint=HAMMER)["id"]
        wait_until(lambda: world.arrived(to=GOOD), 60, what="the first packet")
        for _ in range(3):
            daemon.kill9()
            seen = len(world.arrived(to=GOOD))
            wait_until(lambda: len(world.arrived(to=GOOD)) > seen, what="traffic without a daemon")
            daemon.start()
            seen = len(world.arrived(to=GOOD))
            wait_until(lambda: len(world.arrived(to=GOOD)) > seen, what="traffic with the new daemon")
        assert api.sandbox(id)["status"] == "running"
        assert not leaked(world)
        Prober(api, id).refused(tcp(BAD, 80))


def test_n16_the_end_of_the_gateway_opens_nothing(world, online_of):
    """What needs no inspection goes on; what does is refused until there is another one, which comes by itself."""
    daemon = online_of().start()
    with daemon.api() as api:
        policy = rules(GOOD, "allowed.test", "www.allowed.test")
        id = api.create(network=policy, entrypoint=HAMMER)["id"]
        probe = Prober(api, id)
        probe.reach(name("www.allowed.test"))
        before = daemon.gateway_pids()
        assert before
        for pid in before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        seen = len(world.arrived(to=GOOD))
        wait_until(lambda: len(world.arrived(to=GOOD)) > seen, what="traffic without a gateway process")
        wait_until(lambda: probe.one(name("allowed.test")).reached, 60, what="names again")
        wait_until(lambda: probe.one(name("www.allowed.test")).reached and
                   probe.one(http("93.184.10.11", host="www.allowed.test")).reached, what="inspection again")
        assert set(daemon.gateway_pids()) - set(before)
        assert not leaked(world)
        probe.refused(tcp(BAD, 80))


# ---- N17 ----


def crossroads(daemon):
    """argv of a command in the namespace where the sandboxes' cables end."""
    return ["nsenter", f"--net={daemon.run / 'netns'}", "--"]


def test_n17_rules_that_somebody_flushes_come_back_and_nothing_gets_out_meanwhile(world, online_of):
    daemon = online_of().start()
    with daemon.api() as api:
        id = api.create(network=rules(GOOD), entrypoint=HAMMER)["id"]
        wait_until(lambda: world.arrived(to=GOOD), 60, what="the first packet")
        cross = crossroads(daemon)
        host = world.host.argv()
        for argv in ([*host, "nft", "flush", "ruleset"], [*cross, "nft", "flush", "ruleset"],
                     [*cross, "nft", "flush", "table", "inet", "cay"], [*cross, "nft", "delete", "table", "inet", "cay"],
                     [*host, "nft", "flush", "ruleset"]):
            subprocess.run(argv, check=True, capture_output=True)
            seen = len(world.arrived(to=GOOD))
            wait_until(lambda: len(world.arrived(to=GOOD)) > seen, what=f"traffic again after {argv}")
            assert not leaked(world), argv
        probe = Prober(api, id)
        probe.reach(tcp(GOOD, 80))
        probe.refused(tcp(BAD, 80), tcp("192.168.50.10", 22), tcp("45.10.0.2", 2375))


def test_n17_the_host_does_not_become_a_router_for_others(world, online, net):
    """Forwarding that we needed is ours alone: a neighbour in the LAN gets nowhere through the host."""
    with world.lan.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as s:
        for to in (GOOD, "10.241.0.2"):
            s.sendto(b"through the host", (to, 4711))
    with world.host.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"the control", (GOOD, 4711))
    wait_until(lambda: b"the control" in world.echo.datagrams, what="the control")
    assert b"through the host" not in world.echo.datagrams


# ---- N20 ----


def test_n20_a_refusal_is_told_at_once_and_in_words(world, net, online, net_box):
    id = net_box(rules("allowed.test", "shared-a.test"))
    probe = Prober(net, id)
    results = probe.refused(tcp(BAD, 443), tcp(BAD, 80), udp(BAD, 443), tcp("10.0.0.1", 22), tcp("169.254.169.254", 80))
    assert {r.word for r in results} <= {"ECONNREFUSED", "EHOSTUNREACH", "EACCES", "ENETUNREACH", "EPERM"}, results
    assert probe.one(name("evil.test")).word == "gaierror"
    assert probe.one(dns(NAMESERVER, "evil.test")).data == [3, 0]
    probe.reach(name("shared-a.test"))
    page = probe.one(http("93.184.10.20", host="shared-b.test"))
    assert page.reached and page.data.split("\r\n")[0].split()[1] == "403", page
    assert "shared-b.test" in page.data and "polic" in page.data.lower(), page

    def told():
        return net.get(f"/sandboxes/{id}/network/log").ok()["denied"]

    def has(**want):
        return any(all(one.get(k) == v for k, v in want.items()) for one in told())

    wait_until(lambda: has(address=BAD, port=443), what="a line for the refused connection")
    wait_until(lambda: has(name="evil.test"), what="a line for the refused name")
    wait_until(lambda: has(name="shared-b.test"), what="a line for the refused page")
    out = cay(online, "logs", "--network", id, check=True).stdout.decode()
    assert BAD in out and "evil.test" in out, out
    explained = cay(online, "net", "explain", id, "evil.test:443", check=False).stdout.decode()
    assert "evil.test" in explained and ("den" in explained or "refus" in explained), explained
    explained = cay(online, "net", "explain", id, "allowed.test:443", check=True).stdout.decode()
    assert "rules[0]" in explained, explained


def test_n20_pip_without_a_network_ends_at_once(net, net_box):
    id = net_box(False)
    done = net.exec(id, ["/usr/bin/python3", "-m", "pip", "install", "--retries", "0", "--target", "/workspace/p", "caydemo"], timeout=60)
    assert done["exitCode"] != 0 and not done.get("timedOut"), done
