"""A server of raw sockets for the inside of a sandbox: it speaks HTTP well, or in every wrong way. PORT [TAG]"""

import hashlib
import json
import socket
import sys
import threading

poked = threading.Event()
counts = {}
lock = threading.Lock()
connections = 0

# What it answers at /raw/NAME, byte by byte.
RAW = {
    "lf": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
    "folded": b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nhi",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
    "length-and-coding": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "odd-coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "coding-of-1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "space-before-colon": b"HTTP/1.1 200 OK\r\nX-A : b\r\nContent-Length: 2\r\n\r\nhi",
    "nul": b"HTTP/1.1 200 OK\r\nX-A: b\0c\r\nContent-Length: 2\r\n\r\nhi",
    "bare-cr": b"HTTP/1.1 200 OK\r\nX-A: b\rX-Injected: c\r\nContent-Length: 2\r\n\r\nhi",
    "no-status": b"HTTP/1.1 OK\r\nContent-Length: 2\r\n\r\nhi",
    "status-999": b"HTTP/1.1 999 What\r\nContent-Length: 2\r\n\r\nhi",
    "version-2": b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
    "half-a-head": b"HTTP/1.1 200 OK\r\nX-A: b\r\n",
    "unasked-101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    "endless-1xx": b"HTTP/1.1 102 Processing\r\n\r\n" * 100,
    "long-head": b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"b" * 200000 + b"\r\n\r\n",
    "many-headers": b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(1000)) + b"\r\n",
    "bad-chunk-at-once": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhi\r\n0\r\n\r\n",
    "cut-body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhi",
    "cut-chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "until-close": b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it",
    "trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-Sum: 42\r\n"
                b"Content-Length: 7\r\nSet-Cookie: a=b\r\n\r\n",
    "early-hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"
                   b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "no-content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "hop-by-hop": b"HTTP/1.1 200 OK\r\nConnection: X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nAlt-Svc: h3=\":443\"\r\n"
                  b"Proxy-Authenticate: Basic\r\nX-Other: 2\r\nContent-Length: 2\r\n\r\nhi",
    "cookies": b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Domain=localhost; Path=/\r\nSet-Cookie: cay_signature=x\r\n"
               b"Content-Length: 2\r\n\r\nhi",
    "extra": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    "redirect": b"HTTP/1.1 302 Found\r\nLocation: http://localhost:PORT/there?x=1\r\nContent-Length: 0\r\n\r\n",
    "redirect-path": b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n",
    "redirect-away": b"HTTP/1.1 302 Found\r\nLocation: https://example.test/\r\nContent-Length: 0\r\n\r\n",
}


class Peer:
    def __init__(self, sock):
        self.sock, self.rest = sock, b""

    def more(self):
        data = self.sock.recv(65536)
        self.rest += data
        return bool(data)

    def line(self):
        while b"\r\n" not in self.rest:
            if not self.more():
                raise EOFError
        line, self.rest = self.rest.split(b"\r\n", 1)
        return line

    def exactly(self, n, digest):
        while n > 0:
            if not self.rest and not self.more():
                raise EOFError
            piece, self.rest = self.rest[:n], self.rest[n:]
            digest.update(piece)
            n -= len(piece)

    def request(self):
        """(method, path, headers, digest of the body, its length, trailers)"""
        method, path, _ = self.line().decode().split(" ")
        headers = self.headers()
        named = {k.lower(): v for k, v in headers}
        digest, length, trailers = hashlib.sha256(), 0, []
        if "content-length" in named:
            length = int(named["content-length"])
            self.exactly(length, digest)
        elif named.get("transfer-encoding") == "chunked":
            while True:
                size = int(self.line(), 16)
                if size == 0:
                    trailers = self.headers()
                    break
                self.exactly(size, digest)
                length += size
                assert self.line() == b""
        return method, path, headers, digest.hexdigest(), length, trailers

    def headers(self):
        found = []
        while line := self.line():
            name, value = line.decode("latin-1").split(": ", 1)
            found.append((name, value))
        return found

    def answer(self, body, head="", status="200 OK"):
        self.sock.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body)


def stream_bytes(peer, n):
    digest, piece = hashlib.sha256(), bytes(range(256)) * 256
    peer.sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {n}\r\n\r\n".encode())
    while n > 0:
        part = piece[:n]
        peer.sock.sendall(part)
        digest.update(part)
        n -= len(part)


def events(peer):
    send = peer.sock.sendall
    send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    send(b"d\r\ndata: first\n\n\r\n")
    poked.wait(60)
    send(b"e\r\ndata: second\n\n\r\n0\r\n\r\n")


def echo_stream(peer, headers):
    named = {k.lower(): v for k, v in headers}
    peer.sock.sendall(f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                      f"Upgrade: {named['upgrade']}\r\n\r\nhello ".encode())
    peer.sock.sendall(peer.rest)
    while data := peer.sock.recv(65536):
        peer.sock.sendall(data)
    peer.sock.sendall(b" bye")


def serve_one(peer, number):
    method, path, headers, digest, length, trailers = peer.request()
    with lock:
        counts[path] = counts.get(path, 0) + 1
    if path.startswith("/raw/"):
        peer.sock.sendall(RAW[path[5:]].replace(b"PORT", str(PORT).encode()))
        return path[5:] in ("trailers", "early-hints", "no-content", "hop-by-hop", "cookies", "extra") or path.startswith("/raw/redirect")
    if path == "/sse":
        events(peer)
    elif path == "/poke":
        poked.set()
        peer.answer(b"poked")
    elif path == "/upgrade":
        echo_stream(peer, headers)
        return False
    elif path.startswith("/bytes/"):
        stream_bytes(peer, int(path[7:]))
    elif path == "/hang":
        threading.Event().wait()
    elif path == "/leave":  # answers once, closes when asked again
        if number > 0:
            return False
        peer.answer(b"first")
    elif path == "/counts":
        peer.answer(json.dumps({"counts": counts, "connections": connections}).encode())
    else:
        body = json.dumps({"method": method, "path": path, "headers": headers, "digest": digest, "length": length,
                           "trailers": trailers, "tag": TAG}).encode()
        peer.answer(b"" if method == "HEAD" else body, "Content-Type: application/json\r\n")
    return True


def serve(sock):
    peer, number = Peer(sock), 0
    try:
        while serve_one(peer, number):
            number += 1
    except (EOFError, ConnectionError):
        pass
    sock.close()


PORT = int(sys.argv[1])
TAG = sys.argv[2] if len(sys.argv) > 2 else ""
listener = socket.create_server(("127.0.0.1", PORT), backlog=512)
while True:
    client, _ = listener.accept()
    connections += 1
    threading.Thread(target=serve, args=(client,), daemon=True).start()
