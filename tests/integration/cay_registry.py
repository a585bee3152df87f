"""Fixtures of the image suites: registries, a proxy that misbehaves on request, a daemon with a store."""

import contextlib
import hashlib
import http.client
import http.server
import json
import os
import re
import select
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from cay_harness import SLOW, Daemon, wait_until
from cay_oci import *  # noqa: F401,F403
from cay_oci import MANIFEST, PASSWORD, USER, Registry, basic, make_certificates

PROGRAMS = tuple(f"program:{p}" for p in ("docker-registry", "skopeo", "umoci", "zstd", "openssl",
                                          "busybox"))
needs_registry = pytest.mark.needs(*PROGRAMS)


# ---- a registry that misbehaves on request ----


class Gate:
    """Stops a transfer after some bytes: the test sees that it got there, and lets it go on."""

    def __init__(self, after=0):
        self.after = after
        self.reached, self.opened, self.left = (threading.Event() for _ in range(3))

    def wait(self, connection):
        """Until it is opened or the client is gone; False for the latter."""
        self.reached.set()
        while not self.opened.wait(0.01):
            if select.select([connection], [], [], 0)[0]:
                with contextlib.suppress(OSError):
                    if connection.recv(1) == b"":
                        self.left.set()
                        return False
        return True

    def open(self):
        self.opened.set()

    def wait_reached(self, timeout=60):
        assert self.reached.wait(timeout * SLOW), "nobody came to the gate"


class Seen:
    def __init__(self, method, path, headers):
        self.method, self.path, self.headers = method, path, headers

    def __repr__(self):
        return f"{self.method} {self.path}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.server.proxy.answer(self)

    do_HEAD = do_POST = do_GET

    def reply(self, status, body=b"", type="application/octet-stream", length=None, **headers):
        """Headers first, so that an action may stop in the body."""
        self.send_response(status)
        self.send_header("Content-Type", type)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def hang_up(self):
        self.wfile.flush()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(2)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass  # clients that go away are what many of these tests are about


class Rule:
    def __init__(self, pattern, act, times):
        self.pattern, self.act, self.times, self.hits = re.compile(pattern), act, times, 0


class Proxy:
    """In front of a real registry, or alone with what `serve` was given. A rule takes over the
    requests whose path it matches; all requests are kept in `seen`."""

    def __init__(self, upstream=None, address="127.0.0.1", tls=None):
        self.upstream = upstream
        self.lock = threading.Lock()
        self.reset()
        self.server = Server((address, 0), Handler)
        self.server.proxy = self
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls["cert"], tls["key"])
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.host = f"{address}:{self.server.server_address[1]}"
        self.url = f"{'https' if tls else 'http'}://{self.host}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def reset(self):
        for gate in getattr(self, "gates", []):
            gate.open()
        with self.lock:
            self.rules, self.seen, self.gates, self.documents = [], [], [], {}
            self.token = None

    def stop(self):
        self.reset()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def ref(self, name):
        return f"{self.host}/{name}"

    # -- what a test asks for --

    def on(self, pattern, act, times=None):
        rule = Rule(pattern, act, times)
        with self.lock:
            self.rules.append(rule)
        return rule

    def gate(self, pattern, after=0, times=1):
        gate = Gate(after)
        self.gates.append(gate)
        self.on(pattern, stop_at(gate), times)
        return gate

    def serve(self, path, body, type=MANIFEST):
        self.documents[path] = (type, body)

    def serve_image(self, name, image):
        """An image that no real registry would take; returns its reference."""
        repo, _, tag = name.partition(":")
        for digest, data in image.blobs.items():
            self.serve(f"/v2/{repo}/blobs/{digest}", data, "application/octet-stream")
        for reference in (tag, image.digest):
            self.serve(f"/v2/{repo}/manifests/{reference}", image.manifest, image.type)
        return self.ref(name)

    def asked(self, pattern):
        with self.lock:
            return [s for s in self.seen if re.search(pattern, s.path)]

    def with_tokens(self, realm=None, user=USER, password=PASSWORD):
        """Bearer tokens: the registry part wants one, /token gives one for the right credentials."""
        self.token = {"realm": realm or f"{self.url}/token", "basic": basic(user, password),
                      "value": "tok-" + hashlib.sha256(os.urandom(8)).hexdigest()[:24]}
        return self.token

    # -- serving --

    def answer(self, h):
        length = int(h.headers.get("Content-Length") or 0)
        h.body = h.rfile.read(length) if length else b""
        path = h.path
        with self.lock:
            self.seen.append(Seen(h.command, path, dict(h.headers)))
            rule = next((r for r in self.rules if r.pattern.search(path) and r.times != 0), None)
            if rule:
                rule.hits += 1
                if rule.times:
                    rule.times -= 1
        if self.token and not self.let_in(h):
            return
        if rule:
            rule.act(h, self)
        else:
            self.forward(h)

    def let_in(self, h):
        token = self.token
        if h.path.split("?")[0] == "/token":
            if h.headers.get("Authorization") == token["basic"]:
                h.reply(200, json.dumps({"token": token["value"], "expires_in": 60}).encode(),
                        "application/json")
            else:
                h.reply(401, b"{}", "application/json")
            return False
        if h.headers.get("Authorization") == f"Bearer {token['value']}":
            return True
        repo = h.path.split("/v2/")[1].rsplit("/", 2)[0] if h.path.count("/") > 3 else ""
        h.reply(401, b'{"errors":[{"code":"UNAUTHORIZED"}]}', "application/json",
                WWW_Authenticate=f'Bearer realm="{token["realm"]}",service="cay",'
                                 f'scope="repository:{repo}:pull"')
        return False

    def fetch(self, h, drop=()):
        """What the real registry says: status, headers, body."""
        if h.path in self.documents:
            kind, body = self.documents[h.path]
            return self.part(h, kind, body, drop)
        if not self.upstream:
            return 404, {"Content-Type": "application/json"}, b'{"errors":[{"code":"UNKNOWN"}]}'
        skip = {"host", "authorization", "connection", *drop}
        headers = {k: ", ".join(h.headers.get_all(k)) for k in h.headers if k.lower() not in skip}
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream.port, timeout=30)
        try:
            connection.request(h.command, h.path, headers=headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        finally:
            connection.close()

    @staticmethod
    def part(h, kind, body, drop):
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", h.headers.get("Range", ""))
        if wanted and "range" not in drop:
            first, total = int(wanted.group(1)), len(body)
            last = min(int(wanted.group(2) or total - 1), total - 1)
            return 206, {"Content-Type": kind, "Content-Range": f"bytes {first}-{last}/{total}"}, \
                body[first:last + 1]
        return 200, {"Content-Type": kind}, body

    def forward(self, h, change=None, drop=()):
        status, headers, body = self.fetch(h, drop)
        if change and status < 300:
            body = change(body)
        kept = {k: v for k, v in headers.items()
                if k.lower() in ("content-type", "content-range", "docker-content-digest", "accept-ranges")}
        kind = kept.pop("Content-Type", "application/octet-stream")
        length = headers.get("Content-Length") if h.command == "HEAD" else None
        h.reply(status, body, kind, length, **kept)


# -- actions --


def cut(after):
    """Announces everything, sends a part and hangs up."""
    def act(h, proxy):
        status, headers, body = proxy.fetch(h)
        extra = {k: v for k, v in headers.items() if k.lower() == "content-range"}
        h.reply(status, body[:after], length=len(body), **extra)
        h.hang_up()
    return act


def stop_at(gate):
    def act(h, proxy):
        status, _, body = proxy.fetch(h)
        h.reply(status, body[:gate.after], length=len(body))
        h.wfile.flush()
        if gate.wait(h.connection):
            h.wfile.write(body[gate.after:])
        else:
            h.close_connection = True
    return act


def without_range(h, proxy):
    """A server that knows nothing of ranges: all of it, from the start."""
    proxy.forward(h, drop=("range",))


def changed(change):
    return lambda h, proxy: proxy.forward(h, change)


def flipped(body):
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1:]


def redirect(url, status=307):
    """url, or a function of the path that gives one."""
    def act(h, proxy):
        h.reply(status, b"", Location=url(h.path) if callable(url) else url)
    return act


def status(code, **headers):
    return lambda h, proxy: h.reply(code, b'{"errors":[{"code":"TOOMANYREQUESTS"}]}',
                                    "application/json", **headers)


def body(data, type="application/octet-stream"):
    return lambda h, proxy: h.reply(200, data, type)


# ---- fixtures ----


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Each module takes these fixtures into its own name space, so its registry is its own."""
    made = Registry(tmp_path_factory.mktemp("registry"))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture(scope="module")
def locked(registry, tmp_path_factory):
    """The same contents behind a user name and a password."""
    made = Registry(tmp_path_factory.mktemp("locked"), storage=registry.storage, auth=True)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture(scope="module")
def secure(registry, certificates, tmp_path_factory):
    """The same contents over TLS with a certificate of our own authority."""
    made = Registry(tmp_path_factory.mktemp("secure"), storage=registry.storage, tls=certificates)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture(scope="module")
def module_proxy(registry):
    made = Proxy(registry)
    yield made
    made.stop()


@pytest.fixture
def proxy(module_proxy):
    """The module's proxy, as good as new."""
    module_proxy.reset()
    yield module_proxy
    module_proxy.reset()


@pytest.fixture(scope="module")
def elsewhere_server():
    """Another host, as far as a browser or a registry client is concerned."""
    made = Proxy(address="127.0.0.2")
    yield made
    made.stop()


@pytest.fixture
def elsewhere(elsewhere_server):
    elsewhere_server.reset()
    yield elsewhere_server
    elsewhere_server.reset()


def store_of(daemon):
    return daemon.data / "images"


def layers_dir(daemon):
    return store_of(daemon) / "layers"


def layer_names(daemon):
    return set(os.listdir(layers_dir(daemon)))


def half_made(daemon):
    """Whatever is in the layers' folder that is no layer."""
    return {n for n in layer_names(daemon) if not re.fullmatch(r"[0-9a-f]{64}", n)}


class Images:
    """What the image suites do with a daemon, over its unix socket."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.api = daemon.unix_api(timeout=60)

    @staticmethod
    def path(name):
        return "/images/" + name.replace("/", "%2F").replace(":", "%3A").replace("@", "%40")

    def try_pull(self, reference, **fields):
        return self.api.post("/images/pull", {"reference": reference, **fields})

    def pull(self, reference, **fields):
        return self.try_pull(reference, **fields).ok()

    def pull_events(self, reference, **fields):
        return list(self.api.events("POST", "/images/pull", {"reference": reference, **fields}))

    def try_import(self, path, name=None):
        return self.api.post("/images/import", {"path": str(path), **({"name": name} if name else {})})

    def load(self, path, name=None):
        return self.try_import(path, name).ok()

    def names(self):
        return [i["name"] for i in self.api.get("/images").ok()["images"]]

    def show(self, name):
        return self.api.get(self.path(name)).ok()

    def has(self, name):
        return self.api.get(self.path(name)).status == 200

    def try_remove(self, name):
        return self.api.delete(self.path(name))

    def remove(self, name):
        """Waits for the sandboxes that used it to be gone."""
        wait_until(lambda: self.try_remove(name).status in (200, 404), what=f"{name} to be free")

    def tag(self, name, new):
        return self.api.post(self.path(name) + "/tag", {"name": new})

    def prune(self, **fields):
        return self.api.post("/images/prune", fields)

    def export(self, name, to):
        reply = self.api.get(self.path(name) + "/export")
        assert reply.status == 200, reply.body[:500]
        Path(to).write_bytes(reply.body)
        return to

    @contextlib.contextmanager
    def box(self, image, **fields):
        """A sandbox of it, for a moment."""
        made = self.api.create(image, **fields)
        try:
            yield made["id"]
        finally:
            self.api.delete(f"/sandboxes/{made['id']}")

    def clear(self):
        """Everything but host goes, and so do the layers."""
        for id in self.api.ids():
            self.api.delete(f"/sandboxes/{id}")
        for name in self.names():
            if name != "host":
                self.remove(name)
        wait_until(lambda: not layer_names(self.daemon), 60, "the layers to be gone")


def image_daemon(name, **env):
    daemon = Daemon(name, env={"CAY_MAX_SANDBOXES": 50, "HOME": "/nonexistent", **env})
    try:
        daemon.start()
        with daemon.unix_api() as api:
            id = api.create()["id"]
            api.exec(id, "true")
            api.remove(id)
    except BaseException:
        daemon.destroy()
        raise
    return daemon


@pytest.fixture(scope="module")
def image_env():
    """A module overrides this to give its daemon more settings."""
    return {}


@pytest.fixture(scope="module")
def store_daemon(request, registry, module_proxy, image_env):
    """The module's daemon, which may ask the registry and the proxy over plain http."""
    hosts = f"{registry.host},{module_proxy.host}"
    more = dict(image_env)
    hosts = ",".join([hosts, *([more.pop("CAY_INSECURE_REGISTRIES")]
                               if "CAY_INSECURE_REGISTRIES" in more else [])])
    daemon = image_daemon("images", CAY_INSECURE_REGISTRIES=hosts, **more)
    try:
        yield daemon
    finally:
        daemon.destroy()
        Daemon.everyone.remove(daemon)


@pytest.fixture
def images(store_daemon):
    """The module's daemon, empty before and after."""
    made = Images(store_daemon)
    yield made
    made.clear()
    assert not half_made(store_daemon)
    made.api.close()
    store_daemon.apis.remove(made.api)


# ---- what a tree looks like ----


WALK = r"""
import hashlib, json, os, stat, sys
root, base, out, links = sys.argv[1], int(sys.argv[2]), {}, {}
os.chdir(root)
def look(path):
    info = os.lstat(path)
    kind = stat.S_IFMT(info.st_mode)
    item = {"type": kind, "mode": stat.S_IMODE(info.st_mode), "uid": info.st_uid - base,
            "gid": info.st_gid - base, "mtime": info.st_mtime_ns}
    if kind == stat.S_IFREG:
        with open(path, "rb") as f:
            item["size"], item["hash"] = info.st_size, hashlib.sha256(f.read()).hexdigest()
        links.setdefault((info.st_dev, info.st_ino), []).append(path)
    if kind == stat.S_IFLNK:
        item["target"] = os.readlink(path)
    item["xattrs"] = {n: os.getxattr(path, n, follow_symlinks=False).hex()
                      for n in os.listxattr(path, follow_symlinks=False) if n.startswith("user.")}
    out[path] = item
for top, names, files in os.walk(".", followlinks=False):
    names.sort()
    look(top)
    for name in files + [n for n in names if os.path.islink(os.path.join(top, n))]:
        look(os.path.join(top, name))
for group in links.values():
    for path in group:
        out[path]["group"] = sorted(group)
json.dump(out, sys.stdout)
"""


def look_at(root, base=0):
    """Every entry below root, as a dictionary of what can be seen of it."""
    done = subprocess.run(["/usr/bin/python3", "-c", WALK, str(root), str(base)],
                          capture_output=True, check=True)
    return json.loads(done.stdout)


def look_at_merged(layers, scratch):
    """The same through an overlay of these layers (topmost first), mounted where nobody else sees."""
    scratch.mkdir(exist_ok=True)
    lower = ":".join(layers) + (f":{scratch}/none" if len(layers) == 1 else "")
    (scratch / "none").mkdir(exist_ok=True)
    (scratch / "at").mkdir(exist_ok=True)
    script = ('cd "$3" && mount -t overlay overlay -o "ro,lowerdir=$1" "$2/at" && '
              'exec /usr/bin/python3 -c "$4" "$2/at" 0')
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", lower, str(scratch), "/", WALK],
                          capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def umoci_unpack(layout, name, to):
    """What umoci makes of an OCI layout: the yardstick."""
    subprocess.run(["umoci", "unpack", "--image", f"{layout}:{name}", str(to)], check=True,
                   capture_output=True)
    return to / "rootfs"
