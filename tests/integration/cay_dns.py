"""A DNS server of the tests' own: answers that change from one question to the next, chains, and a log of who asked."""

import contextlib
import socket
import struct
import threading

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "HTTPS": 65, "ANY": 255}
NAMES = {number: name for name, number in TYPES.items()}


def pack_name(name):
    out = b""
    for label in filter(None, name.rstrip(".").split(".")):
        out += bytes([len(label)]) + label.encode()
    return out + b"\0"


def pack_data(kind, value):
    if kind == "A":
        return socket.inet_aton(value)
    if kind == "AAAA":
        return socket.inet_pton(socket.AF_INET6, value)
    if kind in ("CNAME", "NS", "PTR"):
        return pack_name(value)
    if kind == "TXT":
        data = value.encode()
        return b"".join(bytes([len(data[i:i + 255])]) + data[i:i + 255] for i in range(0, len(data), 255))
    if kind == "MX":
        return struct.pack("!H", 10) + pack_name(value)
    if kind == "HTTPS":  # priority 1, the same name, an ipv4hint
        hints = b"".join(map(socket.inet_aton, value.split()))
        return struct.pack("!H", 1) + b"\0" + struct.pack("!HH", 4, len(hints)) + hints
    return value if isinstance(value, bytes) else value.encode()


def read_question(data):
    """(name, type name, where the question ends) of a message."""
    at, labels = 12, []
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
        at += data[at] + 1
    number = struct.unpack("!H", data[at + 1:at + 3])[0]
    return ".".join(labels).lower(), NAMES.get(number, str(number)), at + 5


class Query:
    def __init__(self, name, kind, transport, server, client):
        self.name, self.kind, self.transport, self.server, self.client = name, kind, transport, server, client

    def __repr__(self):
        return f"{self.name} {self.kind} by {self.transport} to {self.server}"


class Dns:
    """Records are {(name, type): [values]} or a list of such lists, one an answer, the last one for ever after. A name
    below `*.suffix` has that one's. Every server address of the internet is this one."""

    def __init__(self, space):
        self.lock = threading.Lock()
        self.reset()
        self.udp = space.call(socket.socket, socket.AF_INET6, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        self.udp.bind(("::", 53))
        self.tcp = space.call(socket.create_server, ("::", 53), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
        for serve in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=serve, daemon=True).start()

    def reset(self):
        with self.lock:
            self.records, self.queries, self.ttl, self.told = {}, [], {}, {}
            self.silent, self.raw = False, None

    def add(self, name, *addresses, ttl=300, kind=None):
        """Addresses of either kind, or values of a kind."""
        for value in addresses:
            k = kind or ("AAAA" if ":" in value else "A")
            self.records.setdefault((name.lower(), k), []).append(value)
            self.ttl[name.lower(), k] = ttl
        return self

    def sequence(self, name, *answers, kind="A", ttl=0):
        """Each a list of values: the first question gets the first one."""
        self.records[name.lower(), kind] = [list(a) for a in answers]
        self.ttl[name.lower(), kind] = ttl

    def asked(self, name=None, below=None):
        with self.lock:
            return [q for q in self.queries if (name is None or q.name == name)
                    and (below is None or q.name.endswith("." + below) or q.name == below)]

    def _find(self, name, kind):
        key = next((k for k in [(name, kind)] + [("*." + name.split(".", i)[-1], kind) for i in range(1, name.count(".") + 1)]
                    if k in self.records), None)
        if key is None:
            return None, 0
        values = self.records[key]
        if values and isinstance(values[0], list):
            turn = self.told.get(key, 0)
            self.told[key] = turn + 1
            values = values[min(turn, len(values) - 1)]
        return values, self.ttl.get(key, 300)

    def _exists(self, name):
        return any(k[0] == name or (k[0].startswith("*.") and name.endswith(k[0][1:])) for k in self.records)

    def answer(self, data, transport, server, client):
        name, kind, end = read_question(data)
        with self.lock:
            self.queries.append(Query(name, kind, transport, server, client))
            if self.silent:
                return None
            if self.raw:
                return self.raw(data)
            answers, at = [], name
            for _ in range(20):
                values, ttl = self._find(at, kind)
                if values is not None:
                    answers += [(at, kind, ttl, v) for v in values]
                    break
                chain, ttl = self._find(at, "CNAME")
                if chain is None:
                    break
                answers.append((at, "CNAME", ttl, chain[0]))
                at = chain[0].rstrip(".").lower()
            code = 0 if answers or self._exists(name) else 3
        out = b"".join(pack_name(n) + struct.pack("!HHI", TYPES[k], 1, ttl) + struct.pack("!H", len(pack_data(k, v))) + pack_data(k, v)
                       for n, k, ttl, v in answers)
        head = data[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(answers), 0, 0)
        if transport == "udp" and len(head) + end - 12 + len(out) > 1232:
            return data[:2] + struct.pack("!HHHHH", 0x8380 | code, 1, 0, 0, 0) + data[12:end]
        return head + data[12:end] + out

    def _serve_udp(self):
        while True:
            try:
                data, control, _, client = self.udp.recvmsg(4096, 256)
            except OSError:
                return
            if client is None:
                return  # woken by stop()
            info = next(d for level, kind, d in control if kind == socket.IPV6_PKTINFO)
            server = socket.inet_ntop(socket.AF_INET6, info[:16]).removeprefix("::ffff:")
            with contextlib.suppress(Exception):
                reply = self.answer(data, "udp", server, client[0].removeprefix("::ffff:"))
                if reply:
                    # From the address that was asked, by whatever link leads back.
                    back = info[:16] + b"\0\0\0\0"
                    self.udp.sendmsg([reply], [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, back)], 0, client)

    def _serve_tcp(self):
        while True:
            try:
                connection, client = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection, client), daemon=True).start()

    def _talk(self, connection, client):
        with connection, contextlib.suppress(Exception):
            connection.settimeout(30)
            stream = connection.makefile("rb")
            while head := stream.read(2):
                data = stream.read(struct.unpack("!H", head)[0])
                server = connection.getsockname()[0].removeprefix("::ffff:")
                reply = self.answer(data, "tcp", server, client[0].removeprefix("::ffff:"))
                if reply:
                    connection.sendall(struct.pack("!H", len(reply)) + reply)

    def stop(self):
        for s in (self.udp, self.tcp):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)  # wakes who reads, also where it says that nobody is connected
            s.close()
