"""The world that tests of networks run in: three network namespaces without any way out of the machine.

    H         the host that the daemon under test runs on: 45.10.0.2, 2a0f:10::2, and 192.168.50.2 in its LAN
    internet  every other address there is (cay_internet), behind 45.10.0.1
    lan       192.168.50.10, the neighbour that nobody outside may reach

They have no names and end with this process. What a daemon under test leaves behind when this process is killed is
taken away by a janitor, a process that waits for that.

Fixtures: `world` (its logs empty, its names as in cay_internet), `online` (a daemon in H that tests share), `net` (a
client of it), `net_box(network=…)` (makes sandboxes there), `online_of` (daemons in H of a test's own)."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cay_dns import Dns
from cay_harness import Daemon, Leak, read_text, wait_until
from cay_internet import HOSTS, HOSTS6, INSIDE, Echo, Web, make_authority, serve_git, serve_npm, serve_pypi
from cay_ledger import take_away
from cay_space import Capture, Space, nft_list, plug, routes

PROGRAMS = ("nsenter", "ip", "nft", "openssl", "git")
needs_network = pytest.mark.needs(*(f"program:{p}" for p in PROGRAMS))

HOST, HOST6, HOST_LAN = "45.10.0.2", "2a0f:10::2", "192.168.50.2"
NEIGHBOUR = "192.168.50.10"
NAMESERVER = "9.9.9.9"
HOST_PORT = 2375  # on every address of H, as an open dockerd has it
LOOPBACK_PORT = 8099  # on 127.0.0.1 of H only

# Of sandboxes at the crossroads. Other sets only count, and forget by themselves.
LINK = re.compile(r"c\d+")
SETS = ("policy4", "policy6", "ingress", "peers4", "peers6", "pins4", "pins6")

FORWARDING = ("ipv4.ip_forward", "ipv6.conf.all.forwarding")

# Where the tools of a sandbox find the authority, which trust() puts there.
AUTHORITY = "/workspace/ca.pem"
TRUST = {"SSL_CERT_FILE": AUTHORITY, "CURL_CA_BUNDLE": AUTHORITY, "REQUESTS_CA_BUNDLE": AUTHORITY, "PIP_CERT": AUTHORITY,
         "NODE_EXTRA_CA_CERTS": AUTHORITY, "GIT_SSL_CAINFO": AUTHORITY, "PIP_DISABLE_PIP_VERSION_CHECK": "1",
         "NPM_CONFIG_CAFILE": AUTHORITY, "HOME": "/workspace"}


class World:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="cay-test-world-"))
        self.parts, self.spaces, self.captures = [], [], []
        self.janitor = Janitor()
        self.janitor.tell("folder", self.folder)
        try:
            self._lay_cables()
            self._open()
        except BaseException:
            self.close()
            raise

    def _lay_cables(self):
        self.host, self.internet, self.lan = (self._space(name) for name in ("H", "internet", "lan"))
        self.janitor.tell("space", self.host.inode)
        plug(self.host, "wan0", self.internet, "wan1")
        plug(self.host, "lan0", self.lan, "lan1")
        host, internet, lan = self.host.run, self.internet.run, self.lan.run
        for key in FORWARDING:  # as the machine's own may have it
            self.host.sysctl(key, 0)
        host("ip", "addr", "add", f"{HOST}/24", "dev", "wan0")
        host("ip", "addr", "add", f"{HOST6}/64", "dev", "wan0", "nodad")
        host("ip", "addr", "add", f"{HOST_LAN}/24", "dev", "lan0")
        internet("ip", "addr", "add", "45.10.0.1/24", "dev", "wan1")
        internet("ip", "addr", "add", "2a0f:10::1/64", "dev", "wan1", "nodad")
        lan("ip", "addr", "add", f"{NEIGHBOUR}/24", "dev", "lan1")
        lan("ip", "route", "add", "default", "via", HOST_LAN)
        host("ip", "route", "add", "default", "via", "45.10.0.1")
        host("ip", "-6", "route", "add", "default", "via", "2a0f:10::1")
        # Every address is local there, but for the cable's own: so that answers find back.
        internet("ip", "route", "add", "45.10.0.0/24", "dev", "wan1", "table", "local")
        internet("ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "local")
        internet("ip", "-6", "route", "add", "2a0f:10::/64", "dev", "wan1", "table", "local")
        internet("ip", "-6", "route", "add", "local", "::/0", "dev", "lo", "table", "local")

    def _space(self, name):
        space = Space(name)
        self.spaces.append(space)
        return space

    def _open(self):
        self.authority = make_authority(self.folder / "authority")
        self.dns = self._part(Dns(self.internet))
        self.web = self._part(Web(self.internet, self.authority))
        self.echo = self._part(Echo(self.internet, everywhere=True))
        self.lan_echo = self._part(Echo(self.lan, everywhere=True))
        self.host_echo = self._part(Echo(self.host, HOST_PORT))
        self.loopback_echo = self._part(Echo(self.host, LOOPBACK_PORT, address=("127.0.0.1", "::1")))
        serve_pypi(self.web)
        serve_npm(self.web)
        serve_git(self.web, self.folder / "git")
        self.sites = dict(self.web.sites)
        self.arrivals = self._part(Capture(self.internet, incoming_only=True))
        self.reset()

    def _part(self, part):
        self.parts.append(part)
        return part

    def reset(self):
        """As a test finds it: no logs, the names of cay_internet and no others."""
        self.dns.reset()
        for names in (HOSTS, HOSTS6, INSIDE):
            for name, address in names.items():
                self.dns.add(name, address)
        self.web.sites = dict(self.sites)
        self.web.requests.clear()
        for echo in (self.echo, self.lan_echo, self.host_echo, self.loopback_echo):
            echo.connections.clear()
            echo.datagrams.clear()
        self.arrivals.settle()
        self.arrivals.packets.clear()

    # -- what tests ask --

    def capture(self, space=None, **how):
        """Packets at the links of H, or of another namespace; `with` ends it."""
        return Capture(space or self.host, **how)

    def arrived(self, **want):
        """Packets that came to the internet since the test began."""
        return self.arrivals.seen(**want)

    def left_in_host(self):
        """What somebody else made in H: links, rules of nft, forwarding."""
        links = [link for link in self.host.links() if link not in ("lo", "wan0", "lan0")]
        rules = self.host.run("nft", "list", "tables").splitlines()
        forwarding = [key for key in FORWARDING if self.host.sysctl(key) != "0"]
        return links + rules + forwarding

    def trust(self, api, id):
        """Puts the authority into a sandbox; its tools need the environment TRUST as well."""
        api.upload(id, AUTHORITY, self.authority["ca"].read_bytes())

    def close(self):
        for part in reversed(self.parts):
            part.stop()
        for space in self.spaces:
            space.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.janitor.dismiss()


class OnlineDaemon(Daemon):
    """`cay serve` inside H. Its clients come through the unix socket, which is no part of a network namespace."""

    def __init__(self, world, name="online", env=None, **how):
        super().__init__(name, env={"CAY_NETWORK": "true", "CAY_NET_NAMESERVERS": NAMESERVER, **(env or {})}, **how)
        self.world = world
        self.within = world.host.argv()
        world.janitor.tell("daemon", self.root)

    def api(self, **how):
        how.setdefault("unix", self.socket_path)
        return super().api(**how)

    def gateway_pids(self):
        """Of the processes that hold the crossroads: by the namespace that is pinned in the run folder, and by name."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if read_text(f"/proc/{pid}/stat").partition("(")[2].startswith("cay-gateway") and
                str(self.run) in read_text(f"/proc/{pid}/cmdline") + read_text(f"/proc/{pid}/environ")]

    def gateway_has_unread_requests(self):
        """The daemon waits for an answer."""
        said = subprocess.run(["nsenter", f"--net=/proc/{self.pid}/ns/net", "ss", "-xHn"], capture_output=True, text=True, check=True)
        rows = [row.split() for row in said.stdout.splitlines() if "/gateway.sock " in row]
        return any(int(row[2]) for row in rows if row[1] == "ESTAB")

    def crossroads(self):
        """Of every sandbox: its link, its routes, and its elements in the sets of the rules."""
        def look():
            found = ["link" for _, name in socket.if_nameindex() if LINK.fullmatch(name)]
            for family in (socket.AF_INET, socket.AF_INET6):
                found += ["route" for name in routes(family, 101) if LINK.fullmatch(name)]
            for item in nft_list("table inet cay"):
                kept = item.get("set") or item.get("map") or {}
                if kept.get("name") in SETS:
                    found += [f"element of {kept['name']}" for _ in kept.get("elem", ())]
            return found

        try:
            with Space.at(self.run / "netns") as space:
                return space.call(look)
        except OSError:  # the file is not there, or no namespace is pinned to it any more
            return []

    def destroy(self):
        """The gateway outlives a daemon on purpose; one that is told to stop everything takes it along."""
        try:
            if (self.data / "cay.db").exists():
                if self.running():
                    self.stop()
                with contextlib.suppress(AssertionError):
                    self.start(["--stop-sandboxes"])
        finally:
            super().destroy()


# ---- after a killed run ----


class Janitor:
    """Learns what there is; when this process ends without a word, it ends what is left."""

    def __init__(self):
        reader, self.writer = os.pipe()
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--janitor"], stdin=reader, start_new_session=True)
        os.close(reader)

    def tell(self, kind, what):
        os.write(self.writer, f"{json.dumps([kind, str(what)])}\n".encode())

    def dismiss(self):
        self.tell("clean", "")
        os.close(self.writer)
        self.process.wait(30)


class Left:
    """A daemon of a run that was killed, as far as take_away() needs one."""

    def __init__(self, root):
        self.root, self.data = root, Path(root) / "data"

    cgroup_name = Daemon.cgroup_name


def end_everything(told):
    spaces = {int(what) for kind, what in told if kind == "space"}
    roots = [what for kind, what in told if kind == "daemon"]
    for root in roots:
        with contextlib.suppress(OSError):
            spaces.add(os.stat(f"{root}/run/netns").st_ino)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}/ns/net").st_ino in spaces:
                os.kill(int(pid), signal.SIGKILL)
    for root in roots:
        take_away(Left(root))
        for line in reversed(open("/proc/self/mountinfo").readlines()):
            place = line.split()[4]
            if place.startswith(f"{root}/"):
                subprocess.run(["umount", "--lazy", place], stderr=subprocess.DEVNULL)
    for root in roots + [what for kind, what in told if kind == "folder"]:
        shutil.rmtree(root, ignore_errors=True)


def janitor():
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    told = [json.loads(line) for line in sys.stdin]
    if ["clean", ""] not in told:
        end_everything(told)


# ---- fixtures ----


@pytest.fixture(scope="session")
def whole_world():
    world = World()
    yield world
    world.close()


@pytest.fixture(scope="session")
def online(whole_world):
    """One daemon in H for all tests that do not disturb it; its gateway is there already."""
    daemon = OnlineDaemon(whole_world, env={"CAY_MAX_SANDBOXES": 200, "CAY_PORT_ADDRESSES": "0.0.0.0"})
    try:
        daemon.start()
        with daemon.api() as api:
            id = api.create(network=True)["id"]
            api.exec(id, "curl -s --max-time 5 http://10.0.0.1/")
            wait_until(lambda: api.get(f"/sandboxes/{id}/network/log").ok()["denied"], what="a line for what was refused")
            api.get("//openapi.json")
            api.remove(id)
        yield daemon
    finally:
        Daemon.everyone.remove(daemon)
        daemon.destroy()
    if left := whole_world.left_in_host():
        raise Leak(f"left in the host's namespace: {left}")


@pytest.fixture
def world(whole_world):
    whole_world.reset()
    return whole_world


@pytest.fixture
def net(world, online):
    with online.api() as api:
        yield api
        online.apis.remove(api)


@pytest.fixture
def net_box(world, net):
    """net_box(network) makes a sandbox that trusts our authority, with the tools' settings in its environment."""
    made = []

    def create(network=True, **fields):
        id = net.create(network=network, **{"env": TRUST, **fields})["id"]
        made.append(id)
        world.trust(net, id)
        return id

    yield create
    for id in made:
        net.delete(f"/sandboxes/{id}")


@pytest.fixture
def online_of(world):
    """Makes daemons in H of this test's own: online_of(env={…}), not started."""
    before = world.left_in_host()
    with contextlib.ExitStack() as stack:

        def new(name="own", **how):
            daemon = OnlineDaemon(world, name, **how)
            stack.callback(daemon.destroy)
            return daemon

        yield new
    if (left := world.left_in_host()) != before:
        raise Leak(f"left in the host's namespace: {left}, before the test: {before}")


def main():
    """By hand: `cay_world.py sh` runs a command in H, with the internet beside it."""
    if sys.argv[1:] == ["--janitor"]:
        return janitor()
    world = World()
    try:
        return subprocess.run(world.host.argv(*(sys.argv[1:] or ["sh"])),
                              env=dict(os.environ, CAY_NET_NAMESERVERS=NAMESERVER)).returncode
    finally:
        world.close()


if __name__ == "__main__":
    sys.exit(main())
