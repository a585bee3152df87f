"""Tries connections inside a sandbox, many at once, and tells what became of each."""

import json

# One attempt a thread, so that even many that hang cost one timeout. What counts as reached is an answer, not a
# connection: a gateway may take one only to look at it.
PROBE = r'''
import errno, json, socket, struct, sys, threading, time

TIMEOUT = float(sys.argv[2])  # what has not answered by then is left hanging
SILENT = float(sys.argv[3])  # of a datagram, which has no refusal where nothing is sent back

def word(e):
    if isinstance(e, (TimeoutError, socket.timeout)):
        return "timeout"
    return errno.errorcode.get(getattr(e, "errno", None) or 0, type(e).__name__)

def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET

def tcp(to, port, send="word\n", source=None):
    s = socket.socket(family(to))
    s.settimeout(TIMEOUT)
    with s:
        s.connect((to, port))
        s.sendall(send.encode("latin-1"))
        data = s.recv(65536)
        return ("reached", data.decode("latin-1")) if data else ("closed", "")

def http(to, port=80, host=None, path="/"):
    host = host or to
    return tcp(to, port, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (path, host))

def exchange_marker(kind, to, port):
    """Three lines go to an echo that is allowed and come back. A datagram may be lost, and is sent again."""
    end = time.monotonic() + TIMEOUT
    s = socket.socket(family(to), socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    s.settimeout(1 if kind == "udp" else TIMEOUT)
    with s:
        s.connect((to, port))
        for word in (b"marker 1\n", b"marker 2\n", b"marker 3\n"):
            while True:
                try:
                    s.send(word)
                    if s.recv(100) == word:
                        break
                except TimeoutError:
                    pass
                if time.monotonic() > end:
                    raise RuntimeError("the marker does not come back")

def udp(to, port, send="word", marker=None):
    """With a marker the datagram is not waited for any longer than the marker, which follows it on the same link."""
    s = socket.socket(family(to), socket.SOCK_DGRAM)
    s.settimeout(SILENT)
    with s:
        s.connect((to, port))
        s.send(send.encode("latin-1"))
        if marker:
            try:
                exchange_marker(*marker)
            except Exception as e:
                return "no marker", str(e)
            s.setblocking(False)
        try:
            return "reached", s.recv(65536).decode("latin-1")
        except BlockingIOError:
            return "silent", ""

def name(name):
    found = sorted({a[4][0] for a in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)})
    return "reached", found

def dns(server, name, kind=1, tcp=False, port=53):
    """Asks a server by hand, as one does who does not want the resolver."""
    q = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0"
    for label in name.split("."):
        q += bytes([len(label)]) + label.encode("latin-1")
    q += b"\0" + struct.pack("!HH", kind, 1)
    s = socket.socket(family(server), socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(TIMEOUT)
    with s:
        s.connect((server, port))
        if tcp:
            s.sendall(struct.pack("!H", len(q)) + q)
            stream = s.makefile("rb")
            head = stream.read(2)
            data = stream.read(struct.unpack("!H", head)[0]) if head else b""
        else:
            s.send(q)
            data = s.recv(65536)
    if len(data) < 12:
        return "closed", ""
    return "answered", [data[3] & 15, struct.unpack("!H", data[6:8])[0]]

def attempt(number, one):
    kind, args, how = one
    began = time.monotonic()
    try:
        said, data = globals()[kind](*args, **how)
    except Exception as e:
        said, data = word(e), str(e)
    results[number] = [said, data, time.monotonic() - began]

attempts = json.load(open(sys.argv[1]))
results = [None] * len(attempts)
threads = [threading.Thread(target=attempt, args=a) for a in enumerate(attempts)]
for t in threads: t.start()
for t in threads: t.join()
json.dump(results, sys.stdout)
'''


def rules(*destinations, **more):
    """A policy that lets these out and nothing else."""
    return {"default": "deny", "rules": [{"action": "allow", "destination": d, **more} for d in destinations]}


class Result:
    def __init__(self, attempt, told):
        self.attempt = attempt
        self.word, self.data, self.seconds = told

    @property
    def reached(self):
        return self.word in ("reached", "answered")

    def __repr__(self):
        return f"{self.attempt[0]} {self.attempt[1]}: {self.word} {str(self.data)[:80]!r} after {self.seconds:.2f} s"


def tcp(to, port, **how):
    return ["tcp", [to, port], how]


def http(to, port=80, **how):
    return ["http", [to, port], how]


def udp(to, port, **how):
    """marker=(kind, address, port) names an echo that the policy allows. The probe then sends a marker after the datagram and reports
    "silent" as soon as the echo returns the marker; the test also asserts that the datagram did not arrive."""
    return ["udp", [to, port], how]


def name(name):
    return ["name", [name], {}]


def dns(server, name, **how):
    return ["dns", [server, name], how]


class Prober:
    def __init__(self, api, id):
        self.api, self.id, self.count = api, id, 0
        api.write(id, "/workspace/netprobe.py", PROBE)

    def all(self, *attempts, timeout=30, silent=3):
        """What became of each, in their order. The timeout is long, since no answer of a slow machine may take it; a test
        in which something may hang gives a short one. An answer to a datagram has `silent` seconds."""
        self.count += 1
        path = f"/workspace/attempts{self.count}"
        self.api.write(self.id, path, json.dumps(attempts))
        with self.api.again(timeout=150) as own:
            done = own.exec(self.id, ["/usr/bin/python3", "/workspace/netprobe.py", path, str(timeout), str(silent)], timeout=120)
        assert done["exitCode"] == 0, done
        results = [Result(a, told) for a, told in zip(attempts, json.loads(done["stdout"]))]
        assert not [r for r in results if r.word == "no marker"], results
        return results

    def one(self, attempt):
        return self.all(attempt, silent=30)[0]

    def reach(self, *attempts):
        """All of them get an answer: the control, without which a refusal says nothing."""
        failed = [r for r in self.all(*attempts, silent=30) if not r.reached]
        assert not failed, f"not reached: {failed}"

    def refused(self, *attempts):
        """None gets an answer, and none is left hanging."""
        results = self.all(*attempts, silent=30)
        reached = [r for r in results if r.reached]
        assert not reached, f"reached: {reached}"
        hung = [r for r in results if r.word == "timeout"]
        assert not hung, f"left hanging: {hung}"
        return results
