"""Thousands of clients in one thread, all of which wait: for a test and for a benchmark."""

import collections
import json
import os
import re
import resource
import selectors
import socket
import time

AT_ONCE = 16  # clients that have asked and have not heard yet
FOLLOWERS = 8  # of a sandbox's log, among the readers of streams

Shares = collections.namedtuple("Shares", "streams execs terminals")
WHOLE = Shares(streams=2000, execs=500, terminals=200)


def request(method, path, body=None, *headers):
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} /sandbox{path} HTTP/1.1", "Host: localhost", *headers]
    if data:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return "\r\n".join([*lines, "", ""]).encode() + data


class Client:
    """One connection with one request. It has arrived when `sign` has come back."""

    def __init__(self, data, sign):
        self.data, self.sign = data, sign
        self.got = b""
        self.socket = None

    def connect(self, port):
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex(("127.0.0.1", port))

    def send(self):
        sent = self.socket.send(self.data)
        assert sent == len(self.data), "a request is longer than a socket's buffer"

    def take(self):
        """True once it has arrived."""
        piece = self.socket.recv(65536)
        self.got += piece
        assert piece or self.sign in self.got, f"closed after {self.got[:500]!r}, asked {self.data[:200]!r}"
        return self.sign in self.got


def metrics_reader(id):
    return Client(request("GET", f"/sandboxes/{id}/stream/metrics?interval=3600"), b"\n\n")


def log_follower(id):
    return Client(request("GET", f"/sandboxes/{id}/stream/logs"), b"the main process")


def sleeping_exec(id):
    """It hears nothing until its command ends, so it counts as arrived when it has asked."""
    return Client(request("POST", f"/sandboxes/{id}/exec", {"command": ["sleep", "1000"]}), b"")


def terminal(id):
    body = {"command": "echo a terminal; exec sleep 1000", "tty": True, "stdin": True}
    return Client(request("POST", f"/sandboxes/{id}/exec/attach", body, "Connection: Upgrade",
                          "Upgrade: cay-exec"), b"a terminal")


ENTRYPOINT = ["sh", "-c", "echo the main process; exec sleep 1000"]  # of a crowd's sandboxes


class Crowd:
    """Clients of a daemon that stay, spread over sandboxes that were made with ENTRYPOINT."""

    def __init__(self, port):
        self.port = port
        self.clients = []
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def gather(self, ids, shares=WHOLE, timeout=180):
        followers = FOLLOWERS * len(ids)
        kinds = [(metrics_reader, shares.streams - followers), (log_follower, followers),
                 (terminal, shares.terminals), (sleeping_exec, shares.execs)]
        self.join([make(ids[i % len(ids)]) for make, n in kinds for i in range(n)], timeout)

    def join(self, clients, timeout=180):
        """Returns when each of them has arrived."""
        coming = collections.deque(clients)
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as news:
            while coming or news.get_map():
                while coming and len(news.get_map()) < AT_ONCE:
                    client = coming.popleft()
                    client.connect(self.port)
                    self.clients.append(client)
                    news.register(client.socket, selectors.EVENT_WRITE, client)
                left = deadline - time.monotonic()
                assert left > 0, f"{len(news.get_map()) + len(coming)} clients did not arrive"
                for key, events in news.select(left):
                    self.go_on(news, key.data, events)

    def go_on(self, news, client, events):
        if events & selectors.EVENT_WRITE:
            client.send()
            news.modify(client.socket, selectors.EVENT_READ, client)
            arrived = not client.sign
        else:
            arrived = client.take()
        if arrived:
            news.unregister(client.socket)

    def leave(self):
        for client in self.clients:
            client.socket.close()
        self.clients.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()


# ---- what a daemon's process holds ----


def links(pid):
    """What the descriptors of a process lead to."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            pass  # it was closed meanwhile
    return found


def parked(pid):
    """Requests that wait without a thread, each with an epoll set, and the few sets of the server itself."""
    return links(pid).count("anon_inode:[eventpoll]")


def descriptors(pid):
    """Without disks: how many of those are kept for the next sandbox is a matter of time."""
    return len([link for link in links(pid) if link != "/"])


def status_of(pid, key):
    """A number of /proc/PID/status, such as Threads or VmRSS (KiB)."""
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(rf"^{key}:\s+(\d+)", f.read(), re.M)[1])
