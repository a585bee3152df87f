"""The internet of the tests: one namespace that has every address there is, and answers on every port of it.

DNS is cay_dns; ports 80 and 443 are HTTP with certificates of an authority of our own; any other port, TCP or UDP,
sends back what it gets. What leaks out of a sandbox therefore always arrives, and a test that sees nothing arrive has
seen that nothing leaked."""

import contextlib
import hashlib
import http.server
import io
import json
import os
import socket
import ssl
import struct
import subprocess
import tarfile
import threading
import time
import zipfile

SO_ORIGINAL_DST = 80

# Names and addresses as the real ones have them; here they exist in namespaces without a way out only.
HOSTS = {
    "allowed.test": "93.184.10.10",
    "www.allowed.test": "93.184.10.11",
    "deep.www.allowed.test": "93.184.10.12",
    "shared-a.test": "93.184.10.20",  # two names, one address, as at a CDN
    "shared-b.test": "93.184.10.20",
    "other.test": "93.184.10.30",
    "evil.test": "66.66.66.66",
    "doh.test": "66.66.66.53",
    "pypi.org": "151.101.1.223",
    "files.pythonhosted.org": "151.101.1.224",
    "registry.npmjs.org": "104.16.1.34",
    "github.com": "140.82.121.3",
    "codeload.github.com": "140.82.121.10",
}
HOSTS6 = {"allowed.test": "2a0f:20::10", "six.test": "2a0f:20::66"}
INSIDE = {"metadata.google.internal": "169.254.169.254", "lan.test": "192.168.50.10"}


def plain(address):
    return address.removeprefix("::ffff:")


# ---- certificates ----


def make_authority(where):
    """{ca, cert, key}: an authority of our own, and one certificate of it for every name."""
    where.mkdir(parents=True)

    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], cwd=where, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-days", 2, "-subj", "/CN=the tests' internet",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", *curve, "-keyout", "key.pem", "-out", "csr.pem", "-subj", "/CN=allowed.test")
    names = [f"DNS:{n}" for n in [*HOSTS, *HOSTS6, *INSIDE, "*.evil.test", "*.allowed.test"]]
    (where / "ext").write_text(f"subjectAltName={','.join(names)},IP:93.184.10.10,IP:66.66.66.66\n"
                               "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n")
    openssl("x509", "-req", "-in", "csr.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", 2, "-CAcreateserial",
            "-extfile", "ext", "-out", "cert.pem")
    return {"ca": where / "ca.pem", "cert": where / "cert.pem", "key": where / "key.pem"}


# ---- HTTP ----


class Request:
    """One that arrived, with the address that it was sent to."""

    def __init__(self, handler):
        connection = handler.connection
        self.scheme = "https" if isinstance(connection, ssl.SSLSocket) else "http"
        self.sni = getattr(connection, "asked_name", None)
        self.address = plain(connection.getsockname()[0])
        self.client = plain(handler.client_address[0])
        self.method, self.path, self.headers = handler.command, handler.path, handler.headers
        self.host = (handler.headers.get("Host") or "").split(":")[0]
        length = int(handler.headers.get("Content-Length") or 0)
        self.body = handler.rfile.read(length) if length else b""

    def told(self):
        return {"scheme": self.scheme, "sni": self.sni, "address": self.address, "client": self.client,
                "method": self.method, "path": self.path, "host": self.host, "body": self.body.decode("latin-1")}

    def __repr__(self):
        return f"{self.method} {self.scheme}://{self.host}{self.path} at {self.address} (SNI {self.sni})"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *_):
        pass

    def setup(self):
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(30)
            self.request.do_handshake()
        super().setup()

    def any_method(self):
        request = Request(self)
        web = self.server.web
        web.requests.append(request)
        if request.path == "/stream":
            return self.stream()
        status, kind, body, *headers = web.answer(request)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def stream(self):
        """A line ten times a second until somebody hangs up."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for number in range(600):
            self.wfile.write(b"%d\n" % number)
            self.wfile.flush()
            time.sleep(0.1)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = any_method


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    address_family = socket.AF_INET6

    def __init__(self, space, port, web, context=None):
        super().__init__(("::", port), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = space.call(socket.create_server, ("::", port), family=socket.AF_INET6, dualstack_ipv6=True,
                                 backlog=256)
        self.web, self.context = web, context
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def get_request(self):
        connection, client = self.socket.accept()
        if self.context:
            connection = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, client

    def handle_error(self, *_):
        pass  # clients that go away, or do not like our certificate

    def stop(self):
        self.shutdown()
        self.server_close()


class Web:
    """Ports 80 and 443 of every address. `sites` has {host: function(request) → (status, type, body, *headers)}; any other host
    tells what arrived as JSON."""

    def __init__(self, space, authority):
        self.sites, self.requests = {}, []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority["cert"], authority["key"])
        context.sni_callback = self._note_name
        self.servers = [Server(space, 80, self), Server(space, 443, self, context)]

    @staticmethod
    def _note_name(connection, name, _):
        connection.asked_name = name

    def answer(self, request):
        if request.host in self.sites:
            return self.sites[request.host](request)
        return 200, "application/json", json.dumps(request.told()).encode()

    def seen(self, **want):
        return [r for r in list(self.requests) if all(getattr(r, k) == v for k, v in want.items())]

    def stop(self):
        for server in self.servers:
            server.stop()


# ---- echo ----


class Echo:
    """Sends back what it gets, on one port of TCP and UDP; with `everywhere`, on every port that nobody else has."""

    def __init__(self, space, port=7, everywhere=False, address=("0.0.0.0", "::")):
        self.connections, self.datagrams, self.sockets = [], [], []
        if everywhere:
            space.nft("table inet echo {\n chain pre {\n  type nat hook prerouting priority dstnat;\n"
                      f"  tcp dport != {{ 53, 80, 443 }} redirect to :{port}\n"
                      f"  udp dport != 53 redirect to :{port}\n }}\n}}\n")
        for host in address:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            tcp = space.call(socket.create_server, (host, port), family=family, backlog=1024)
            udp = space.call(socket.socket, family, socket.SOCK_DGRAM)
            if family == socket.AF_INET6:
                udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            udp.bind((host, port))
            self.sockets += [tcp, udp]
            threading.Thread(target=self._accept, args=(tcp, family), daemon=True).start()
            threading.Thread(target=self._datagrams, args=(udp,), daemon=True).start()

    def _accept(self, listener, family):
        while True:
            try:
                connection, client = listener.accept()
            except OSError:
                return
            self.connections.append(self._meant(connection, family))
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    @staticmethod
    def _meant(connection, family):
        """(address, port) that the client had in mind."""
        with contextlib.suppress(OSError):
            if family == socket.AF_INET:
                data = connection.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
                return socket.inet_ntoa(data[4:8]), struct.unpack("!H", data[2:4])[0]
            data = connection.getsockopt(socket.IPPROTO_IPV6, SO_ORIGINAL_DST, 28)
            return socket.inet_ntop(family, data[8:24]), struct.unpack("!H", data[2:4])[0]
        return connection.getsockname()[:2]

    @staticmethod
    def _talk(connection):
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := connection.recv(65536):
                connection.sendall(data)

    def _datagrams(self, udp):
        while True:
            try:
                data, client = udp.recvfrom(65536)
            except OSError:
                return
            if client is None:
                return  # woken by stop()
            self.datagrams.append(data)
            with contextlib.suppress(OSError):
                udp.sendto(data, client)

    def stop(self):
        for s in self.sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()


# ---- packages ----

INDEX = "application/json"


def wheel(name="caydemo", version="1.0"):
    """(file name, bytes) of a package that pip installs."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": "WORD = 'from the index'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", data.getvalue()


def serve_pypi(web):
    name, data = wheel()
    digest = hashlib.sha256(data).hexdigest()

    def index(request):
        if request.path == "/simple/caydemo/":
            link = f"https://files.pythonhosted.org/packages/{name}#sha256={digest}"
            return 200, "text/html", f'<html><body><a href="{link}">{name}</a></body></html>'.encode()
        return 404, "text/plain", b"no such package\n"

    def files(request):
        if request.path == f"/packages/{name}":
            return 200, "application/octet-stream", data
        return 404, "text/plain", b"no such file\n"

    web.sites["pypi.org"], web.sites["files.pythonhosted.org"] = index, files


def tarball():
    """The bytes of a package that npm installs, cay-demo 1.0.0."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path, text in (("package/package.json", '{"name": "cay-demo", "version": "1.0.0", "main": "index.js"}'),
                           ("package/index.js", "module.exports = 'from the registry';\n")):
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


def serve_npm(web):
    data = tarball()
    document = {"name": "cay-demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": "cay-demo", "version": "1.0.0", "dist": {
            "tarball": "https://registry.npmjs.org/cay-demo/-/cay-demo-1.0.0.tgz",
            "shasum": hashlib.sha1(data).hexdigest()}}}}

    def registry(request):
        if request.path == "/cay-demo":
            return 200, INDEX, json.dumps(document).encode()
        if request.path.endswith(".tgz"):
            return 200, "application/octet-stream", data
        return 404, INDEX, b'{"error": "not found"}'

    web.sites["registry.npmjs.org"] = registry


def serve_git(web, where):
    """A repository at https://github.com/cay/demo.git, in the plain files that git also takes."""
    work, bare = where / "work", where / "demo.git"
    work.mkdir(parents=True)
    (work / "README").write_text("from the git server\n")
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_AUTHOR_NAME="t",
               GIT_AUTHOR_EMAIL="t@test", GIT_COMMITTER_NAME="t", GIT_COMMITTER_EMAIL="t@test")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"],
                  ["clone", "-q", "--bare", ".", str(bare)], ["-C", str(bare), "update-server-info"]):
        subprocess.run(["git", *words], cwd=work, env=env, check=True, capture_output=True)

    def files(request):
        path = bare / request.path.split("?")[0].removeprefix("/cay/demo.git/")
        if request.path.startswith("/cay/demo.git/") and path.is_file():
            return 200, "application/octet-stream", path.read_bytes()
        return 404, "text/plain", b"not found\n"

    web.sites["github.com"] = files
