"""The world that tests of networks run in: what it has, that it leads nowhere, and that nothing of it stays."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cay_harness import wait_until
from cay_world import HOST, HOST_PORT, NAMESERVER, NEIGHBOUR, TRUST, needs_network

pytestmark = [pytest.mark.core, needs_network]
HERE = Path(__file__).resolve().parent

# Makes a world, starts something in H that would outlive it and tells its pid, and waits to be killed.
ABANDONED = """
import subprocess, sys, time
from cay_world import World
world = World()
subprocess.Popen(world.host.argv("sh", "-c", "echo $$; exec sleep 1000"), start_new_session=True)
time.sleep(1000)
"""


def curl(world, *args):
    env = {"CURL_CA_BUNDLE": str(world.authority["ca"]), "PATH": os.environ["PATH"]}
    done = subprocess.run(world.host.argv("curl", "-sS", "--max-time", "10", *args), env=env, capture_output=True, text=True)
    assert done.returncode == 0, done
    return done


def test_every_name_has_a_server_with_a_certificate(world):
    for name, address in (("allowed.test", "93.184.10.10"), ("shared-b.test", "93.184.10.20")):
        told = json.loads(curl(world, f"https://{name}/a", "--resolve", f"{name}:443:{address}").stdout)
        assert (told["sni"], told["host"], told["address"], told["path"]) == (name, name, address, "/a")
    assert [r.host for r in world.web.requests] == ["allowed.test", "shared-b.test"]


def test_every_address_and_port_answers(world):
    for address, port in (("169.254.169.254", 80), ("fd00:ec2::254", 80), ("100.100.100.200", 80)):
        host = f"[{address}]" if ":" in address else address
        assert json.loads(curl(world, f"http://{host}/").stdout)["address"] == address
    for address, port in (("8.8.8.8", 4711), ("10.1.2.3", 22), ("2a0f:66::1", 853), (NEIGHBOUR, 22), ("127.0.0.1", HOST_PORT)):
        with world.host.call(socket.create_connection, (address, port), 60) as s:
            s.sendall(b"word")
            assert s.recv(10) == b"word"
    assert world.echo.connections == [("8.8.8.8", 4711), ("10.1.2.3", 22), ("2a0f:66::1", 853)]
    for family, address in ((socket.AF_INET, "8.8.4.4"), (socket.AF_INET6, "2a0f:66::2")):
        with world.host.call(socket.socket, family, socket.SOCK_DGRAM) as s:
            s.settimeout(60)
            s.connect((address, 443))
            s.send(b"datagram")
            assert s.recv(100) == b"datagram"
    assert len(world.arrived(to="8.8.4.4", port=443, protocol=17)) == 1


@pytest.mark.needs("program:dig")
def test_names_are_answered_and_logged(world):
    world.dns.add("chain.test", "allowed.test", kind="CNAME").add("text.test", "some words", kind="TXT")
    world.dns.sequence("rebind.test", ["93.184.10.10"], ["127.0.0.1"])

    def dig(*args):
        return world.host.run("dig", "+short", f"@{NAMESERVER}", *args).split("\n")[:-1]

    assert dig("allowed.test") == ["93.184.10.10"]
    assert dig("+tcp", "allowed.test", "AAAA") == ["2a0f:20::10"]
    assert dig("chain.test") == ["allowed.test.", "93.184.10.10"]
    assert dig("text.test", "TXT") == ['"some words"']
    assert [dig("rebind.test") for _ in range(3)] == [["93.184.10.10"], ["127.0.0.1"], ["127.0.0.1"]]
    assert "NXDOMAIN" in world.host.run("dig", f"@{NAMESERVER}", "nobody.test")
    assert [(q.transport, q.server, q.client) for q in world.dns.asked("allowed.test")] == [
        ("udp", NAMESERVER, HOST), ("tcp", NAMESERVER, HOST)]


def test_packages_and_a_repository_are_there(world, tmp_path):
    env = dict(os.environ, **{k: str(world.authority["ca"]) for k, v in TRUST.items() if v.endswith("ca.pem")})
    done = subprocess.run(world.host.argv("git", "-c", "http.curloptResolve=github.com:443:140.82.121.3", "clone", "-q",
                                          "https://github.com/cay/demo.git", tmp_path / "demo"), env=env, capture_output=True)
    assert done.returncode == 0, done
    assert (tmp_path / "demo" / "README").read_text() == "from the git server\n"


def test_no_cable_leads_to_the_machine(world):
    """Neither end of any link is in the machine's own namespace, and a made-up route does not help."""
    mine = {name for _, name in socket.if_nameindex()}
    assert not mine & {"wan0", "wan1", "lan0", "lan1"}
    # A daemon's uplink leads to a namespace of its own.
    assert [name for name in world.host.links() if not name.startswith("cay-")] == ["lan0", "lo", "wan0"]
    assert world.internet.links() == ["lo", "wan1"]
    assert world.lan.links() == ["lan1", "lo"]


def test_a_capture_sees_what_passes(world):
    with world.capture() as capture:
        curl(world, "http://93.184.10.10/")
        assert {p.link for p in capture.seen(to="93.184.10.10", port=80)} == {"wan0"}
        assert not capture.seen(to="93.184.10.11")


def test_what_a_killed_run_leaves_is_ended():
    process = subprocess.Popen([sys.executable, "-c", ABANDONED], cwd=HERE, stdout=subprocess.PIPE, text=True)
    pid = int(process.stdout.readline())
    space = os.stat(f"/proc/{pid}/ns/net").st_ino
    assert space != os.stat("/proc/self/ns/net").st_ino
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    def ended():
        with contextlib.suppress(OSError):
            return os.stat(f"/proc/{pid}/ns/net").st_ino != space
        return True

    wait_until(ended, what="the end of what ran in the namespace")
