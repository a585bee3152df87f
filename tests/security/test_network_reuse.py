"""The network of a sandbox that is gone may be the next one's: only if nothing tells that it was ever used."""

import time

import pytest

pytestmark = pytest.mark.core

COOKIE = """
import socket
s = socket.socket()
print(int.from_bytes(s.getsockopt(socket.SOL_SOCKET, 71, 8), "little"))
"""

# What is told of a network inside, but for what is the whole machine's.
TELL = ("cd /proc/net; cat dev snmp netstat snmp6 igmp igmp6 mcfilter mcfilter6 ip6_flowlabel rt6_stats unix tcp tcp6 udp udp6 "
        "icmp icmp6; head -1 sockstat; cat /sys/class/net/lo/statistics/*; ls /proc/net")

USES = {
    "a datagram to itself": "s = socket.socket(type=socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', 9))",
    "a connection that is refused": "socket.socket().connect_ex(('127.0.0.1', 9))",
    "a connection": "l = socket.create_server(('127.0.0.1', 0)); socket.create_connection(l.getsockname()).send(b'x')",
    "a word to nowhere": "socket.socket(type=socket.SOCK_DGRAM).connect_ex(('192.0.2.1', 9))",
    "a datagram of IPv6": "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.sendto(b'x', ('::1', 9))",
    "a flow label that outlives its socket":
        "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
        "s.setsockopt(41, 32, socket.inet_pton(socket.AF_INET6, '::1') + struct.pack('=IBBHHHI', socket.htonl(77), 0, 255, 1, 60, 60, 0))",
}


def cookie(api, id):
    return api.sh(id, ["python3", "-c", COOKIE]).strip()


def told(api, id):
    """The command's own pipe and the agent's sockets differ from one to the next."""
    return [line for line in api.sh(id, TELL).splitlines() if not line.startswith(("0000", "sockets:"))]


def test_one_that_was_never_used_is_used_again(own):
    with own.api() as api:
        id = api.create()["id"]
        first = cookie(api, id)
        api.remove(id)
        others = [api.create()["id"] for _ in range(6)]
        assert first in [cookie(api, other) for other in others]
        assert len({cookie(api, other) for other in others}) == len(others), "two share one"


@pytest.mark.parametrize("use", USES)
def test_one_that_was_used_is_thrown_away(own, use):
    with own.api() as api:
        like_new = told(api, api.create()["id"])
        id = api.create()["id"]
        used = cookie(api, id)
        api.sh(id, ["python3", "-c", f"import socket, struct\n{USES[use]}"])
        api.remove(id)
        for _ in range(6):
            other = api.create()["id"]
            assert cookie(api, other) != used
            assert told(api, other) == like_new


def times(api, id, *paths):
    return [float(word) for word in api.sh(id, ["stat", "-Lc", "%.9Y", *paths]).split()]


def test_what_was_looked_at_and_when_is_not_told(own):
    """A file of sysfs has the time of the first look at it; the node of a terminal that of its last use."""
    paths = "/sys/class/net/lo/mtu", "/sys/devices/system/cpu/possible", "/dev/tty"
    with own.api() as api:
        id = api.create()["id"]
        used, _ = cookie(api, id), times(api, id, *paths)
        gone = time.time()
        api.remove(id)
        time.sleep(0.1)
        for _ in range(6):
            other = api.create()["id"]
            if cookie(api, other) == used:
                break
        else:
            pytest.fail("nobody got its network")
        assert min(times(api, other, *paths)) > gone
