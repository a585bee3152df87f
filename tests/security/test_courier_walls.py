"""The courier, which calls webhooks: what its process may do, and where it never goes, whatever a name leads to."""

import os
import signal
from pathlib import Path

import pytest

from cay_harness import wait_until
from cay_receiver import Receiver, courier_pid, end_courier
from cay_world import HOST, HOST6, HOST_LAN, HOST_PORT, LOOPBACK_PORT, NEIGHBOUR, OnlineDaemon, needs_network

pytestmark = pytest.mark.core

PUBLIC = "93.184.10.10"


def status(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def make(api, url, *topics):
    return api.post("/webhooks", {"url": url, "topics": list(topics or ["never"])}).ok()


def send(api, url):
    """What became of a test of a new webhook."""
    webhook = make(api, url)
    got = api.post(f"/webhooks/{webhook['id']}/test").ok()
    api.delete(f"/webhooks/{webhook['id']}").ok()
    return got


# ---- its process ----


@pytest.fixture
def courier(daemon_of):
    """A daemon, its courier, which has brought something already, and an api."""
    own = daemon_of(env={"CAY_WEBHOOK_ALLOW": "loopback", "SECRET_OF_THE_OPERATOR": "x", "https_proxy": "http://127.0.0.1:1"}).start()
    receiver = Receiver()
    with own.api() as api:
        assert send(api, receiver.url())["status"] == 204
        yield own, courier_pid(own), api
    receiver.close()


def test_it_has_no_power(courier):
    own, pid, _ = courier
    said = status(pid)
    assert {said[f"Cap{kind}"].strip("0") for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {""}
    assert said["NoNewPrivs"] == "1" and said["Seccomp"] == "2"
    assert "0" not in said["Uid"].split() and "0" not in said["Gid"].split() and not said["Groups"].strip()
    for kind in ("mnt", "ipc", "uts", "cgroup"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/{own.pid}/ns/{kind}"), kind
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert "Max core file size        0 " in limits and "Max data size             536870912" in limits


def test_it_sees_what_names_and_certificates_need_and_can_write_none_of_it(courier):
    _, pid, _ = courier
    root = Path(f"/proc/{pid}/root")
    seen = {str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir() and not p.is_symlink()}
    allowed = ("etc/ssl/certs/", "usr/share/ca-certificates/", "usr/local/share/ca-certificates/")
    names = {"etc/resolv.conf", "etc/hosts", "etc/nsswitch.conf", "etc/host.conf", "etc/gai.conf"}
    assert {p for p in seen if not p.startswith(allowed)} <= names
    for line in Path(f"/proc/{pid}/mounts").read_text().splitlines():
        assert line.split()[3].split(",")[0] == "ro", line


def test_it_has_nothing_of_the_daemons_but_one_socket(courier):
    own, pid, _ = courier
    fds = {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    assert {fds.pop(n) for n in "012"} == {"/dev/null"}
    assert fds.pop("3").startswith("socket:")
    assert all(to.startswith(("socket:", "anon_inode:", "pipe:")) for to in fds.values()), fds
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"SECRET" not in environment and b"CAY_" not in environment and b"proxy" not in environment
    assert b"CAY_" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    unix = {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines()[1:]}
    of_unix = [to for to in fds.values() if to.startswith("socket:") and to[8:-1] in unix]
    assert len(of_unix) <= 2  # with which libcurl wakes itself


def test_it_ends_with_the_daemon_however_that_ends(courier):
    own, pid, _ = courier
    own.kill9()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    own.start()


def test_one_that_hangs_costs_what_it_was_at_and_nothing_else(courier):
    own, pid, api = courier
    os.kill(pid, signal.SIGSTOP)
    receiver = Receiver()
    webhook = make(api, receiver.url(), "news")
    api.post("/events/publish", {"topic": "news", "sandboxId": "none"}).ok()
    sandbox = api.create()  # the daemon does not wait for it
    api.remove(sandbox["id"])
    os.kill(pid, signal.SIGKILL)
    receiver.wait(lambda got: got)
    api.delete(f"/webhooks/{webhook['id']}").ok()
    receiver.close()


# ---- where it goes ----

NAMED = """
mount --make-rprivate /
mount --bind "$0" /etc/resolv.conf
exec "$@"
"""


class Named(OnlineDaemon):
    """In H, with the internet's name server as its own."""

    def __init__(self, world, name="named", **how):
        super().__init__(world, name, **how)
        resolv = self.root / "resolv.conf"
        resolv.write_text("nameserver 9.9.9.9\n")
        self.within = world.host.argv("unshare", "-m", "sh", "-c", NAMED, resolv)


@pytest.fixture
def named_of(world):
    made = []

    def new(**how):
        daemon = Named(world, env={"CAY_NETWORK": "false", "CAY_WEBHOOK_CA": world.authority["ca"], **how})
        made.append(daemon)
        return daemon.start()

    yield new
    for daemon in made:
        end_courier(daemon)
        daemon.destroy()


@needs_network
def test_a_name_of_the_public_internet_is_called(world, named_of):
    with named_of().api() as api:
        got = send(api, "https://allowed.test/hook")
        assert got["status"] == 200 and got["address"] in (PUBLIC, "2a0f:20::10")
    assert [(r.method, r.path, r.sni) for r in world.web.requests] == [("POST", "/hook", "allowed.test")]


@needs_network
def test_a_name_that_leads_inside_is_not_called(world, named_of):
    inside = {
        "loopback": "127.0.0.1", "this": "0.0.0.0", "private": "10.0.0.1", "lan": NEIGHBOUR, "carrier": "100.64.0.1",
        "metadata": "169.254.169.254", "link": "169.254.1.1", "alibaba": "100.100.100.200", "group": "224.0.0.1",
        "reserved": "240.0.0.1", "own": HOST, "own-lan": HOST_LAN, "loopback6": "::1", "own6": HOST6, "local6": "fe80::1",
        "private6": "fd00::1", "metadata6": "fd00:ec2::254", "mapped": "::ffff:127.0.0.1", "nat64": "64:ff9b::7f00:1",
        "six-to-four": "2002:7f00:1::", "teredo": "2001::1",
    }
    for name, address in inside.items():
        world.dns.add(f"{name}.test", address)
    with named_of().api() as api:
        for name, address in inside.items():
            for port in (80, HOST_PORT, LOOPBACK_PORT):
                got = send(api, f"http://{name}.test:{port}/hook")
                assert (got["error"], got["status"]) == ("refused", None), (name, got)
                assert got["address"] == address.removeprefix("::ffff:"), got
        for address in (HOST, f"[{HOST6}]"):  # public ones, so known as the host's only when they are called
            assert send(api, f"http://{address}:{HOST_PORT}/")["error"] == "refused"
        for url in (f"http://{NEIGHBOUR}/", "http://localhost/", "http://metadata.google.internal/", "http://127.1/"):
            api.post("/webhooks", {"url": url}).failed(400, "webhook_target_refused")
    for echo in (world.lan_echo, world.host_echo, world.loopback_echo, world.echo):
        assert not echo.connections
    assert not world.web.requests


@needs_network
def test_it_is_the_address_that_counts_and_not_what_the_name_was_before(world, named_of):
    world.dns.add("both.test", "127.0.0.1", PUBLIC, NEIGHBOUR)
    world.dns.sequence("turns.test", [PUBLIC], ["127.0.0.1"])
    world.dns.records["turns.test", "AAAA"] = []
    daemon = named_of()
    with daemon.api() as api:
        got = send(api, "http://both.test/")
        assert (got["status"], got["address"]) == (200, PUBLIC)
        webhook = make(api, "http://turns.test/")
        seen = set()

        def turned():
            """It keeps what names lead to for a while; another does not know that."""
            end_courier(daemon)
            got = api.post(f"/webhooks/{webhook['id']}/test").ok()
            seen.add((got["status"], got["error"], got["address"]))
            return got["error"]

        wait_until(turned)
    assert (None, "refused", "127.0.0.1") in seen
    assert seen <= {(200, None, PUBLIC), (None, "refused", "127.0.0.1")}
    for echo in (world.lan_echo, world.host_echo, world.loopback_echo):
        assert not echo.connections


@needs_network
def test_a_redirect_leads_nowhere(world, named_of):
    world.web.sites["evil.test"] = lambda request: (302, "text/plain", b"", ("Location", f"http://{HOST}:{HOST_PORT}/"))
    with named_of().api() as api:
        assert send(api, "http://evil.test/")["status"] == 302
    assert not world.host_echo.connections and len(world.web.requests) == 1


@needs_network
def test_a_name_server_that_is_silent_holds_up_nobody(world, named_of):
    with named_of(CAY_WEBHOOK_ALLOW="127.0.0.1").api() as api:
        world.dns.silent = True
        for n in range(20):
            make(api, f"http://silent-{n}.test/", "news")
        api.post("/events/publish", {"topic": "news", "sandboxId": "none"}).ok()
        wait_until(lambda: len({q.name for q in world.dns.queries if "silent-" in q.name}) == 20)
        assert send(api, f"http://{PUBLIC}/")["status"] == 200
        world.dns.silent = False


@needs_network
def test_what_the_operator_lists_is_called(world, named_of):
    world.dns.add("hooks.test", NEIGHBOUR)
    with named_of(CAY_WEBHOOK_ALLOW="hooks.test").api() as api:
        assert send(api, "http://lan.test:8088/")["error"] == "refused" and not world.lan_echo.connections
        assert send(api, "http://hooks.test:8088/")["address"] == NEIGHBOUR
    assert world.lan_echo.connections
