"""Who may call a published port: the rules for ingress of a sandbox's policy."""

import contextlib
import socket

import pytest

from cay_world import HOST_LAN, NEIGHBOUR, needs_network
from test_ports import ECHO, serve

pytestmark = [pytest.mark.core, needs_network]


@contextlib.contextmanager
def caller(space, address, port):
    """A connection from that namespace."""
    with space.call(socket.socket) as s:
        s.settimeout(60)
        s.connect((address, port))
        yield s


def may_call(space, address, port):
    with contextlib.suppress(ConnectionError), caller(space, address, port) as s:
        s.sendall(b"here")
        return s.recv(4) == b"here"
    return False


def ingress(action, who):
    return {"default": "deny", "rules": [{"action": action, "direction": "ingress", "destination": who}]}


def test_rules_say_who_may_call_a_port_and_a_change_cuts(world, net, net_box):
    box = net_box({"default": "deny", "defaultIngress": "deny",
                   "rules": [{"action": "allow", "direction": "ingress", "destination": NEIGHBOUR}]})
    serve(net, box, ECHO)
    port = net.post(f"/sandboxes/{box}/ports", {"containerPort": 8000, "hostPort": 0,
                                                "hostAddress": "0.0.0.0"}).ok()["hostPort"]
    assert may_call(world.lan, HOST_LAN, port)
    assert not may_call(world.host, HOST_LAN, port)  # it calls from its own address
    with caller(world.lan, HOST_LAN, port) as s:
        s.sendall(b"one")
        assert s.recv(3) == b"one"
        net.call("PUT", f"/sandboxes/{box}/network", {"network": ingress("deny", NEIGHBOUR)}).ok()
        with contextlib.suppress(ConnectionResetError):
            assert s.recv(1) == b"", "the open connection goes on"
    assert not may_call(world.lan, HOST_LAN, port)
    assert may_call(world.host, HOST_LAN, port)  # ingress is allowed unless a rule says no
