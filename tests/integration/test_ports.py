"""Ports of sandboxes on the host: real servers in boxes, with and without what can go wrong."""

import contextlib
import hashlib
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from cay_harness import CAY, Daemon, cay, wait_until

pytestmark = pytest.mark.core

ECHO = """
import socket, threading
s = socket.socket(socket.{family}); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(({address!r}, {port})); s.listen(200)
def serve(c):
    total = 0
    while True:
        d = c.recv(65536)
        if not d: break
        total += len(d); c.sendall(d)
    c.sendall(b"total %d" % total); c.close()
open("/tmp/up", "w").close()
while True:
    c, _ = s.accept(); threading.Thread(target=serve, args=(c,), daemon=True).start()
"""

# Ends every connection itself, so that the host keeps each in TIME_WAIT at the port that was exposed.
BYE = """
import socket
s = socket.socket(socket.{family}); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(({address!r}, {port})); s.listen(200)
open("/tmp/up", "w").close()
while True:
    c, _ = s.accept(); c.sendall(b"bye"); c.close()
"""

UDP_ECHO = """
import socket
s = socket.socket(socket.{family}, socket.SOCK_DGRAM); s.bind(({address!r}, {port}))
open("/tmp/up", "w").close()
while True:
    d, a = s.recvfrom(65536); s.sendto(b"<" + d + b">", a)
"""


def serve(api, id, program, port=8000, family="AF_INET", address="127.0.0.1"):
    """Starts a program in a sandbox and returns when it listens."""
    api.write(id, "/workspace/serve.py", program.format(port=port, family=family, address=address))
    api.sh(id, "rm -f /tmp/up")
    api.background(id, "python3 /workspace/serve.py")
    wait_until(lambda: api.exec(id, "test -e /tmp/up")["exitCode"] == 0, what="the server listens")


def expose(api, id, port=8000, **fields):
    return api.post(f"/sandboxes/{id}/ports", {"containerPort": port, "hostPort": 0, **fields})


def ports(api, id):
    return api.get(f"/sandboxes/{id}/ports").ok()["ports"]


def connect(port, timeout=60, address="127.0.0.1"):
    s = socket.create_connection((address, port), timeout)
    s.settimeout(timeout)
    return s


def is_readable(s, timeout):
    p = select.poll()
    p.register(s, select.POLLIN)
    return bool(p.poll(timeout * 1000))


def read_all(s):
    data = b""
    while piece := s.recv(65536):
        data += piece
    return data


def talk(port, text=b"hello"):
    """Through and back; the server sees the end of what is sent and can still answer."""
    with connect(port) as s:
        s.sendall(text)
        s.shutdown(socket.SHUT_WR)
        return read_all(s)


def works(port):
    try:
        return talk(port) == b"hellototal 5"
    except OSError:
        return False


def refused(port):
    try:
        connect(port).close()
    except ConnectionRefusedError:
        return True
    return False


def in_time_wait(port):
    with open("/proc/net/tcp") as f:
        return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "06" for line in f)


def leave_time_wait(port):
    """One whole connection, that the server ends first."""
    with connect(port) as s:
        assert read_all(s) == b"bye"
    wait_until(lambda: in_time_wait(port), what="the host keeps the ended connection")


@contextlib.contextmanager
def stolen(port):
    """Listens on a port that another socket is bound to, as only CAP_NET_ADMIN can."""
    with socket.socket() as s:
        s.setsockopt(socket.IPPROTO_TCP, 19, 1)  # TCP_REPAIR
        s.bind(("127.0.0.1", port))
        s.listen()
        yield


@contextlib.contextmanager
def taken(address="127.0.0.1", kind=socket.SOCK_STREAM, port=0):
    """A port that this process has."""
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind((address, port))
        if kind == socket.SOCK_STREAM:
            s.listen()
        yield s.getsockname()[1]


@pytest.fixture
def box(api):
    id = api.create()["id"]
    yield id
    api.remove(id)


# ---- what is answered ----


def test_a_port_is_exposed_listed_and_removed(api, box):
    p = expose(api, box).ok()
    assert p["hostPort"] > 0
    assert p == {"containerPort": 8000, "hostPort": p["hostPort"], "protocol": "tcp",
                 "hostAddress": "127.0.0.1", "state": "active"}
    assert ports(api, box) == [p]
    assert expose(api, box, protocol="udp").ok()["protocol"] == "udp"
    assert api.delete(f"/sandboxes/{box}/ports?containerPort=8000").ok() == {"removed": 8000}
    assert ports(api, box) == [] and refused(p["hostPort"])
    api.delete(f"/sandboxes/{box}/ports?containerPort=8000").failed(404, "port_not_found")


def test_the_port_to_remove_comes_by_body_too_and_one_protocol_can_stay(api, box):
    for protocol in ("tcp", "udp"):
        expose(api, box, protocol=protocol).ok()
    api.delete(f"/sandboxes/{box}/ports", body={"containerPort": 8000, "protocol": "udp"}).ok()
    assert [p["protocol"] for p in ports(api, box)] == ["tcp"]
    api.delete(f"/sandboxes/{box}/ports", body={"containerPort": 8000}).ok()
    assert ports(api, box) == []


def test_the_host_port_is_the_same_unless_another_is_asked_for(api, box):
    with taken() as free:
        pass
    p = api.post(f"/sandboxes/{box}/ports", {"containerPort": free}).ok()
    assert p["hostPort"] == free


def test_what_is_wrong_is_refused(api, box):
    for bad in ({}, {"containerPort": 0}, {"containerPort": 65536}, {"containerPort": "x"},
                {"containerPort": 1, "hostPort": 65536}, {"containerPort": 1, "hostPort": -1},
                {"containerPort": 1, "protocol": "sctp"}, {"containerPort": 1, "hostAddress": "host"},
                {"containerPort": 1, "hostAddress": "127.0.0.1.1"}):
        api.post(f"/sandboxes/{box}/ports", bad).failed(400)
    api.post("/sandboxes/sbx_000000000000000000000000/ports", {"containerPort": 1}).failed(404)
    assert ports(api, box) == []


def test_an_address_that_nobody_can_listen_on_is_the_caller_s_mistake(daemon_of):
    with daemon_of(env={"CAY_PORT_ADDRESSES": "*"}).start().api() as api:
        ports = f"/sandboxes/{api.create()['id']}/ports"
        for address in ("::ffff:127.0.0.1", "fe80::1", "ff02::1", "192.0.2.1"):
            for protocol in ("tcp", "udp"):
                api.post(ports, {"containerPort": 80, "hostPort": 0, "hostAddress": address, "protocol": protocol}).failed(
                    400, "invalid", address)


def test_conflicts_name_who_has_the_port(api, box):
    p = expose(api, box).ok()
    expose(api, box).failed(409, "port_exposed", str(p["hostPort"]))
    other = api.create()["id"]
    try:
        expose(api, other, hostPort=p["hostPort"]).failed(409, "port_in_use", box)
        with taken() as port:
            expose(api, other, hostPort=port).failed(409, "port_in_use", f"pid {os.getpid()}")
        with taken() as port:
            pass  # nobody has it for TCP: of any port that is free for UDP that is not known
        with taken(kind=socket.SOCK_DGRAM, port=port):
            expose(api, other, hostPort=port, protocol="udp").failed(409, "port_in_use", "pid")
        assert expose(api, other, 8001, hostPort=port).ok()["hostPort"] == port  # TCP is free
    finally:
        api.remove(other)
    api.try_create(ports=[{"containerPort": 80, "hostPort": p["hostPort"]}]).failed(409, "port_in_use", box)


def test_a_sandbox_has_a_bounded_number_of_them(api, box):
    for port in range(1, 65):
        expose(api, box, port).ok()
    expose(api, box, 65).failed(429, "port_limit")


def test_a_sandbox_that_does_not_run_gets_none(api, box):
    api.post(f"/sandboxes/{box}/pause").ok()
    expose(api, box).failed(409, "sandbox_not_running")
    api.post(f"/sandboxes/{box}/resume").ok()


# ---- what comes through ----


def test_a_web_server_without_a_network(api, box):
    api.write(box, "/workspace/page.txt", "served from inside")
    api.background(box, "cd /workspace && exec python3 -m http.server 8000 --bind 127.0.0.1")
    port = expose(api, box).ok()["hostPort"]

    def page():
        try:
            with connect(port) as s:
                s.sendall(b"GET /page.txt HTTP/1.0\r\n\r\n")
                return read_all(s)
        except OSError:
            return b""
    wait_until(lambda: b"served from inside" in page(), what="the page is served")


def test_nothing_listens_yet_is_a_reset_and_then_it_works(api, box):
    port = expose(api, box).ok()["hostPort"]
    with pytest.raises(ConnectionResetError), connect(port) as s:  # which may see it already
        s.recv(1)
    serve(api, box, ECHO)
    assert works(port)


def test_a_server_on_ipv6_only(api, box):
    serve(api, box, ECHO, family="AF_INET6", address="::1")
    assert works(expose(api, box).ok()["hostPort"])


def test_ports_at_create(api):
    made = api.create(ports=[{"containerPort": 8000, "hostPort": 0}, {"containerPort": 53, "hostPort": 0, "protocol": "udp"}])
    try:
        assert [p["state"] for p in ports(api, made["id"])] == ["active", "active"]
        serve(api, made["id"], ECHO)
        assert works(made["config"]["ports"][0]["hostPort"])
    finally:
        api.remove(made["id"])
    assert refused(made["config"]["ports"][0]["hostPort"])


def test_many_connections_at_once(api, box):
    serve(api, box, ECHO)
    port = expose(api, box).ok()["hostPort"]
    with contextlib.ExitStack() as stack:
        open_ones = [stack.enter_context(connect(port)) for _ in range(200)]
        for i, s in enumerate(open_ones):
            s.sendall(b"%d" % i)
        for i, s in enumerate(open_ones):
            assert s.recv(10) == b"%d" % i
        for s in open_ones:
            s.shutdown(socket.SHUT_WR)
        for i, s in enumerate(open_ones):
            assert read_all(s) == b"total %d" % len(str(i))


def test_a_large_transfer_is_whole_both_ways(api, box):
    serve(api, box, ECHO)
    port = expose(api, box).ok()["hostPort"]
    piece = os.urandom(1 << 20)
    want, got = hashlib.sha256(), hashlib.sha256()
    total = 64 << 20
    with connect(port, 60) as s:
        def send():
            for _ in range(total // len(piece)):
                want.update(piece)
                s.sendall(piece)
            s.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        left = total
        while left:
            data = s.recv(min(left, 1 << 20))
            assert data
            got.update(data)
            left -= len(data)
        assert read_all(s) == b"total %d" % total
        sender.join()
    assert got.digest() == want.digest()


def test_a_slow_reader_holds_up_nobody_but_its_server(api, box, shared):
    serve(api, box, """
import socket, threading
s = socket.socket(); s.bind(({address!r}, {port})); s.listen(50)
def pour(c):
    n = 0
    try:
        while n < 100: c.sendall(bytes(1 << 20)); n += 1
    finally: c.close()
open("/tmp/up", "w").close()
while True:
    c, _ = s.accept(); threading.Thread(target=pour, args=(c,), daemon=True).start()
#{family}
""")
    port = expose(api, box).ok()["hostPort"]
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(port)) for _ in range(8)]
        for s in slow:
            assert s.recv(1)
        with connect(port, 60) as fast:  # while they read nothing
            assert len(read_all_counted(fast)) == 0


def read_all_counted(s):
    """Reads 100 MiB of zeroes; what is missing of them."""
    left = 100 << 20
    while left and (piece := s.recv(1 << 20)):
        left -= len(piece)
    return bytes(left)


def test_a_client_that_resets_ends_the_server_s_side(api, box):
    serve(api, box, """
import socket
s = socket.socket(); s.bind(({address!r}, {port})); s.listen(5)
open("/tmp/up", "w").close()
c, _ = s.accept(); c.sendall(b"!")
try:
    while c.recv(10): pass
    end = "closed"
except ConnectionResetError: end = "reset"
open("/tmp/end", "w").write(end)
#{family}
""")
    s = connect(expose(api, box).ok()["hostPort"])
    assert s.recv(1) == b"!"
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    wait_until(lambda: api.exec(box, "cat /tmp/end")["stdout"] == "reset", what="the server hears of it")


def test_a_client_that_resets_after_its_end_ends_the_server_s_side(api, box):
    serve(api, box, """
import select, socket
s = socket.socket(); s.bind(({address!r}, {port})); s.listen(5)
open("/tmp/up", "w").close()
c, _ = s.accept()
while c.recv(10): pass
c.sendall(b"!")
p = select.poll(); p.register(c, 0)
open("/tmp/end", "w").write("broken" if p.poll(20000) else "nothing")
#{family}
""")
    s = connect(expose(api, box).ok()["hostPort"])
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b"!"
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    wait_until(lambda: api.exec(box, "cat /tmp/end")["stdout"], timeout=40, what="the server goes on")
    assert api.exec(box, "cat /tmp/end")["stdout"] == "broken"


def test_who_waited_for_peers_of_udp_to_go_is_let_in_then(api, box):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    serve(api, box, ECHO)
    door = expose(api, box).ok()["hostPort"]
    with contextlib.ExitStack() as stack:
        for n in range(4):
            api.write(box, f"/workspace/udp{n}.py", UDP_ECHO.format(family="AF_INET", address="127.0.0.1", port=9000 + n))
            api.background(box, f"python3 /workspace/udp{n}.py")
            port = expose(api, box, 9000 + n, protocol="udp").ok()["hostPort"]
            for _ in range(256):
                s = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                s.connect(("127.0.0.1", port))

                def answered():
                    with contextlib.suppress(ConnectionRefusedError):
                        s.send(b"x")
                        return is_readable(s, 0.3)
                wait_until(answered, what="an answer to a datagram")
        waiting = stack.enter_context(connect(door))
        waiting.sendall(b"x")
        assert not is_readable(waiting, 1)
        for n in range(4):
            api.delete(f"/sandboxes/{box}/ports?containerPort={9000 + n}").ok()
        assert waiting.recv(1) == b"x"


@pytest.mark.parametrize("family,address", [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1")])
def test_udp(api, box, family, address):
    serve(api, box, UDP_ECHO, port=5353, family=family, address=address)
    port = expose(api, box, 5353, protocol="udp").ok()["hostPort"]
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(20)]
        for i, s in enumerate(peers):
            def answered():
                s.sendto(b"%d" % i, ("127.0.0.1", port))
                return select.select([s], [], [], 0.5)[0]
            wait_until(answered, what="an answer to a datagram")
            assert s.recvfrom(100) == (b"<%d>" % i, ("127.0.0.1", port))
        big = os.urandom(8000)
        peers[0].sendto(big, ("127.0.0.1", port))
        peers[0].settimeout(60)
        while (got := peers[0].recv(65536)) != b"<" + big + b">":
            assert got == b"<0>"


def test_removing_a_port_cuts_its_connections(api, box):
    serve(api, box, ECHO)
    port = expose(api, box).ok()["hostPort"]
    with connect(port) as s:
        s.sendall(b"x")
        assert s.recv(1) == b"x"
        api.delete(f"/sandboxes/{box}/ports?containerPort=8000").ok()
        with pytest.raises(ConnectionResetError):
            s.recv(1)
    assert refused(port)


POUR = """
import socket, threading
s = socket.socket(); s.bind(({address!r}, {port})); s.listen(50)
def pour(c):
    try:
        while True: c.sendall(bytes(1 << 20))
    except OSError: c.close()
open("/tmp/up", "w").close()
while True:
    c, _ = s.accept(); threading.Thread(target=pour, args=(c,), daemon=True).start()
#{family}
"""


def swallow(s, most=1 << 40):
    """Reads until so many bytes have come, or it is reset: how many that were."""
    got = 0
    with contextlib.suppress(ConnectionResetError):
        while got < most and (piece := s.recv(1 << 20)):
            got += len(piece)
    return got


def test_connections_that_flow_can_be_cut_and_others_flow_on(api, box):
    for port in (8000, 8001):
        serve(api, box, POUR, port)
    stays = expose(api, box, 8001).ok()["hostPort"]
    with contextlib.ExitStack() as stack:
        on = stack.enter_context(connect(stays))
        for _ in range(5):
            port = expose(api, box).ok()["hostPort"]
            cut = [stack.enter_context(connect(port)) for _ in range(4)]
            for s in cut:
                assert s.recv(1)
            readers = [threading.Thread(target=swallow, args=(s,), daemon=True) for s in cut]
            for thread in readers:
                thread.start()
            assert swallow(on, 4 << 20) >= 4 << 20
            api.delete(f"/sandboxes/{box}/ports?containerPort=8000").ok()
            for thread in readers:
                thread.join(60)
                assert not thread.is_alive(), "a connection that was cut goes on"
            assert swallow(on, 4 << 20) >= 4 << 20


# ---- what becomes of a sandbox ----


def test_of_a_paused_sandbox_connections_wait(api, box):
    serve(api, box, ECHO)
    port = expose(api, box).ok()["hostPort"]
    with connect(port) as before:
        before.sendall(b"x")
        assert before.recv(1) == b"x"
        api.post(f"/sandboxes/{box}/pause").ok()
        assert ports(api, box)[0]["state"] == "active"
        with connect(port) as s:
            s.sendall(b"waited")
            before.sendall(b"y")
            assert not select.select([s, before], [], [], 0.3)[0]
            api.post(f"/sandboxes/{box}/resume").ok()
            assert s.recv(10) == b"waited"
            assert before.recv(1) == b"y"


def test_a_stopped_sandbox_refuses_and_keeps_its_port(api, box):
    serve(api, box, ECHO)
    port = expose(api, box).ok()["hostPort"]
    with connect(port) as s:
        s.sendall(b"x")
        assert s.recv(1) == b"x"
        api.post(f"/sandboxes/{box}/stop").ok()
        with pytest.raises(ConnectionResetError):
            s.recv(1)
    assert ports(api, box)[0]["state"] == "mapped" and refused(port)
    with socket.socket() as thief, pytest.raises(OSError):
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", port))
    other = api.create()["id"]
    expose(api, other, hostPort=port).failed(409, "port_in_use", box)
    api.remove(other)
    api.post(f"/sandboxes/{box}/start").ok()
    assert ports(api, box)[0]["state"] == "active"
    serve(api, box, ECHO)
    assert works(port)


def test_after_a_restore_the_port_is_there(api, box):
    port = expose(api, box).ok()["hostPort"]
    snap = api.post(f"/sandboxes/{box}/snapshots", {}).ok()["id"]
    try:
        api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": snap}).ok()
        serve(api, box, ECHO)
        assert works(port)
    finally:
        api.delete(f"/snapshots/{snap}")


def stop_and_start(api, id):
    api.post(f"/sandboxes/{id}/stop").ok()
    assert ports(api, id)[0]["state"] == "mapped"
    api.post(f"/sandboxes/{id}/start").ok()


def restore(api, id):
    snap = api.post(f"/sandboxes/{id}/snapshots", {}).ok()["id"]
    api.post(f"/sandboxes/{id}/snapshots/restore", {"snapshotId": snap}).ok()
    api.delete(f"/snapshots/{snap}")


@pytest.mark.parametrize("again", [stop_and_start, restore])
def test_a_port_that_had_connections_listens_again(api, box, again):
    serve(api, box, BYE)
    port = expose(api, box).ok()["hostPort"]
    leave_time_wait(port)
    for _ in range(2):
        again(api, box)
        assert in_time_wait(port)
        assert ports(api, box)[0]["state"] == "active"
        serve(api, box, BYE)
        leave_time_wait(port)


def test_a_host_port_that_had_connections_is_free_at_once(api, box):
    serve(api, box, BYE)
    port = expose(api, box).ok()["hostPort"]
    leave_time_wait(port)
    api.delete(f"/sandboxes/{box}/ports?containerPort=8000").ok()
    assert in_time_wait(port)
    other = api.create(ports=[{"containerPort": 8000, "hostPort": port}])["id"]
    try:
        serve(api, other, BYE)
        leave_time_wait(port)
    finally:
        api.remove(other)
    assert in_time_wait(port)
    assert expose(api, box, hostPort=port).ok()["state"] == "active"
    leave_time_wait(port)


def is_asleep(pid):
    """Does every thread of it wait?"""
    def state(thread):
        with open(f"/proc/{pid}/task/{thread}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]
    return all(state(thread) == "S" for thread in os.listdir(f"/proc/{pid}/task"))


def test_a_port_that_cannot_listen_says_so_and_is_tried_again(daemon):
    with daemon.api() as api:
        id, other = api.create()["id"], api.create()["id"]
        port = expose(api, id).ok()["hostPort"]
        api.post(f"/sandboxes/{id}/stop").ok()
        with stolen(port):
            api.post(f"/sandboxes/{id}/start").ok()
            p = ports(api, id)[0]
            assert p["state"] == "mapped" and f"(pid {os.getpid()})" in p["reason"], p
            assert f"(does not listen: {p['reason']})" in cay(daemon, "port", id).stdout.decode()
            expose(api, other, hostPort=port).failed(409, "port_in_use", id)
            wait_until(lambda: all(is_asleep(daemon.pid) for _ in range(20)), what="the daemon has nothing to do")
        wait_until(lambda: ports(api, id)[0]["state"] == "active", what="it listens again")
        assert "reason" not in ports(api, id)[0]
        serve(api, id, ECHO)
        assert works(port)


def test_a_port_that_ended_connections_still_hold_is_said_to_be(api, box):
    with socket.socket() as s:  # without SO_REUSEADDR: what is left of it keeps others out for a minute
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        with connect(port) as client:
            s.accept()[0].close()
            read_all(client)
    wait_until(lambda: in_time_wait(port), what="the host keeps the ended connection")
    expose(api, box, hostPort=port).failed(409, "port_in_use", "a connection that has ended")


def test_a_clone_does_not_take_the_ports(api, box):
    expose(api, box).ok()
    clone = api.post(f"/sandboxes/{box}/clone", {}).ok()["id"]
    try:
        assert ports(api, clone) == []
    finally:
        api.remove(clone)


@pytest.fixture
def daemon():
    d = Daemon("ports")
    try:
        yield d.start()
    finally:
        d.destroy()


@pytest.mark.parametrize("how", ["restart", "kill9"])
def test_a_restart_of_the_daemon_keeps_ports(daemon, how):
    with daemon.api() as api:
        id, stopped = api.create()["id"], api.create()["id"]
        serve(api, id, ECHO)
        port = expose(api, id).ok()["hostPort"]
        serve(api, id, BYE, port=8001)
        bye = expose(api, id, 8001).ok()["hostPort"]
        leave_time_wait(bye)
        udp = expose(api, id, 53, protocol="udp").ok()["hostPort"]
        kept = expose(api, stopped).ok()["hostPort"]
        api.post(f"/sandboxes/{stopped}/stop").ok()
        if how == "kill9":
            daemon.kill9()
        else:
            daemon.stop()
        assert refused(port)
        daemon.start()
        assert {p["hostPort"]: p["state"] for p in ports(api, id)} == {port: "active", bye: "active",
                                                                             udp: "active"}
        assert in_time_wait(bye) and works(port) and refused(kept)
        leave_time_wait(bye)
        api.post(f"/sandboxes/{stopped}/start").ok()
        serve(api, stopped, ECHO)
        assert works(kept)


def test_a_port_that_another_took_meanwhile_comes_back_when_it_is_free(daemon):
    with daemon.api() as api:
        id = api.create()["id"]
        serve(api, id, ECHO)
        any_port = expose(api, id).ok()["hostPort"]
        with taken() as port:
            pass
        expose(api, id, 8001, hostPort=port).ok()
        daemon.stop()
        with socket.socket() as one, socket.socket() as two:
            for s, p in ((one, any_port), (two, port)):
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind(("127.0.0.1", p))
                s.listen()
            daemon.start()
            first, second = ports(api, id)
            assert first["state"] == "active" and first["hostPort"] != any_port and works(first["hostPort"])
            assert second["state"] == "mapped" and second["hostPort"] == port and second["reason"]
        wait_until(lambda: ports(api, id)[1]["state"] == "active", what="the port is had again")


def test_nothing_of_a_removed_sandbox_is_left(daemon):
    with daemon.api() as api:
        id = api.create()["id"]
        serve(api, id, ECHO)
        port = expose(api, id).ok()["hostPort"]
        namespace = os.stat(f"/proc/{daemon.agent_pid(id)}/ns/net").st_ino
        s = connect(port)
        s.sendall(b"x")
        assert s.recv(1) == b"x"
        api.remove(id)
        with s, contextlib.suppress(ConnectionResetError):
            assert s.recv(1) == b""  # when the server's end was quicker
        assert refused(port)

        def sockets():
            fds = f"/proc/{daemon.pid}/fd"
            return [n for n in os.listdir(fds) if str(namespace) in (os.path.realpath(f"{fds}/{n}"))]
        assert sockets() == []
