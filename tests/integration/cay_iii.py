"""The iii endpoint: daemons that have one, a client that shows every frame, and programs that use a genuine SDK."""

import base64
import contextlib
import json
import os
import queue
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import uuid

import pytest

import cay_cargo
import cay_npm
from cay_harness import REPO, SLOW, Daemon
from cay_ledger import settled_ledger, wait_for_ledger
from cay_kept import environment
from cay_npm import node
from cay_pypi import import_from, python

CLIENTS = REPO / "tests" / "clients" / "iii"
NOBODY = "00000000-0000-4000-8000-000000000000"  # a well-formed id that no sandbox has
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
PATIENCE = 60 * SLOW  # of which only what fails uses much


def free_port():
    """One that nobody listens on, below those that the kernel gives to clients."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


# ---- the daemon ----


class IiiDaemon(Daemon):
    """`cay serve` with an iii endpoint on a port of its own, which it keeps when it is started again."""

    def __init__(self, name="iii", env=None, **how):
        self.iii_port = free_port()
        super().__init__(name, env={"CAY_WS_PORT": self.iii_port, **(env or {})}, **how)

    @property
    def iii_url(self):
        return f"ws://127.0.0.1:{self.iii_port}"


@pytest.fixture(scope="session")
def websockets():
    """The library of PyPI: can be imported from here on."""
    undo = import_from("websockets")
    import websockets.sync.client
    yield websockets
    undo()


@pytest.fixture(scope="module")
def served(websockets):
    """One daemon with an endpoint for the tests of a file that do not disturb it."""
    daemon = IiiDaemon("iii-shared", env={"CAY_MAX_SANDBOXES": 100})
    try:
        daemon.start()
        with Wire(daemon.iii_port) as wire:  # what is opened on first use is open from here on, and while somebody is connected
            wire.announce()
            with wire.box() as id:
                wire.exec(id, "true")
            yield daemon
    finally:
        daemon.destroy()
        Daemon.everyone.remove(daemon)


@pytest.fixture(scope="module")
def nothing_left_in_the_end(served):
    """The ledger before and after a file of many short tests: the daemon forgets a connection a second after its end, which is too long to
    wait for after each of them."""
    before = settled_ledger()
    yield
    gone = [d for d in Daemon.everyone if not d.root.exists()]
    try:
        wait_for_ledger(before)
    finally:
        Daemon.everyone[:] = [d for d in Daemon.everyone if d not in gone]


@pytest.fixture
def iii_of(websockets):
    """Makes daemons of this test's own that have an endpoint: iii_of(env={…}), not started."""
    made = []

    def new(name="iii", **how):
        made.append(IiiDaemon(name, **how))
        return made[-1]

    yield new
    for daemon in reversed(made):
        daemon.destroy()


@pytest.fixture
def wire_of():
    """wire_of(daemon): clients that are gone when the test is over."""
    with contextlib.ExitStack() as stack:
        yield lambda daemon, **how: stack.enter_context(Wire(daemon.iii_port, **how))


@pytest.fixture
def connect(served, wire_of):
    """connect(): a client of the shared daemon."""
    return lambda **how: wire_of(served, **how)


@pytest.fixture
def wire(connect):
    """One that has told its name."""
    return connect().announce()


# ---- frames ----


class Refused(Exception):
    """The error of an invocationresult."""

    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.error, self.code, self.message = error, error["code"], error["message"]

    @property
    def envelope(self):
        """What a sandbox function says about its failure: JSON after a prefix, as all who read it cut it out."""
        assert self.code == "invocation_failed", self.error
        found = re.match(r"handler error: (\{.*\})$", self.message, re.S)
        assert found, self.error
        said = json.loads(found[1])
        assert set(said) >= {"type", "code", "message", "docs_url", "retryable", "fix", "fix_note"}, said
        return said

    @property
    def s(self):
        return self.envelope["code"]


class Closed(Exception):
    """The other side has ended the connection."""

    def __init__(self, code):
        super().__init__(f"closed with {code}")
        self.code = code


class Socket:
    """A WebSocket whose messages come one by one, with a deadline that is a failure."""

    def __init__(self, port, path="/", token=None, headers=None, **how):
        from websockets.sync.client import connect
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        how.setdefault("max_size", None)
        how.setdefault("compression", None)
        self.socket = connect(f"ws://127.0.0.1:{port}{path}", additional_headers=headers, proxy=None, ping_interval=None, **how)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    close = __exit__

    def drop(self):
        """Without a word: as when the process was killed."""
        self.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def send(self, message):
        self.socket.send(message)

    def receive(self, timeout=PATIENCE):
        from websockets.exceptions import ConnectionClosed
        try:
            return self.socket.recv(timeout=timeout)
        except ConnectionClosed as e:
            raise Closed(e.rcvd.code if e.rcvd else 1006) from None

    def rest(self):
        """All messages up to the end of the connection."""
        out = []
        while True:
            try:
                out.append(self.receive())
            except Closed as e:
                self.closed = e.code
                return out


class Wire(Socket):
    """A client of the worker socket, frame by frame."""

    def __init__(self, port, **how):
        super().__init__(port, **how)
        self.port, self.kept = port, []
        self.hello = self.receive_json()
        assert self.hello["type"] == "workerregistered", self.hello
        self.id, self.token = self.hello["worker_id"], self.hello.get("reattach_token")

    def send(self, message):
        super().send(json.dumps(message) if isinstance(message, dict) else message)

    def say(self, type, **fields):
        self.send({"type": type, **fields})

    def receive_json(self, **how):
        text = self.receive(**how)
        assert isinstance(text, str), text
        return json.loads(text)

    def take(self, type=None, **want):
        """The next message that has all these; others are kept for those who want them."""
        def fits(message):
            return (type is None or message["type"] == type) and all(message.get(key) == value for key, value in want.items())

        for message in self.kept:
            if fits(message):
                self.kept.remove(message)
                return message
        while not fits(message := self.receive_json()):
            self.kept.append(message)
        return message

    def settle(self):
        """All that was sent before has been looked at; returns what has come and nobody took."""
        self.say("ping")
        self.take("pong")
        kept, self.kept = self.kept, []
        return kept

    # -- calls --

    def invoke(self, function_id, data=None, **fields):
        """Sends a call and returns its id."""
        id = fields.pop("invocation_id", None) or str(uuid.uuid4())
        self.say("invokefunction", invocation_id=id, function_id=function_id, data={} if data is None else data, **fields)
        return id

    def result(self, id):
        """Of a call: what it gave, or Refused."""
        message = self.take("invocationresult", invocation_id=id)
        if message.get("error") is not None:
            raise Refused(message["error"])
        return message.get("result")

    def call(self, function_id, data=None, **fields):
        return self.result(self.invoke(function_id, data, **fields))

    def refused(self, function_id, data=None, **fields):
        """The error of a call that must fail."""
        with pytest.raises(Refused) as caught:
            got = self.call(function_id, data, **fields)
            pytest.fail(f"{function_id} {data} gave {got}")
        return caught.value

    def announce(self, name=None, **fields):
        """Tells who it is; registrations that came before are in force afterwards."""
        self.name = name or f"wire-{uuid.uuid4()}"
        data = {"runtime": "python", "version": "0", "name": self.name, "os": "linux", "pid": os.getpid(), "isolation": None, **fields}
        assert self.call("engine::workers::register", data) == {"success": True}
        return self

    def register(self, *ids, **fields):
        for id in ids:
            self.say("registerfunction", id=id, **fields)
        return self.settle()

    def answer(self, call, **fields):
        self.say("invocationresult", invocation_id=call["invocation_id"], function_id=call["function_id"], **fields)

    # -- sandboxes --

    def create(self, image="host", **fields):
        return self.call("sandbox::create", {"image": image, **fields})["sandbox_id"]

    @contextlib.contextmanager
    def box(self, image="host", **fields):
        id = self.create(image, **fields)
        try:
            yield id
        finally:
            with contextlib.suppress(Refused):
                self.call("sandbox::stop", {"sandbox_id": id})

    def exec(self, id, *argv, **fields):
        return self.call("sandbox::exec", {"sandbox_id": id, "argv": list(argv), **fields})

    def sh(self, id, command, **fields):
        done = self.exec(id, "/bin/sh", "-c", command, **fields)
        assert done["exit_code"] == 0, done
        return done["stdout"]

    def fs(self, what, id, **fields):
        return self.call(f"sandbox::fs::{what}", {"sandbox_id": id, **fields})

    def fs_refused(self, what, id, **fields):
        return self.refused(f"sandbox::fs::{what}", {"sandbox_id": id, **fields})

    # -- channels --

    def channel(self, **fields):
        made = self.call("engine::channels::create", fields)
        return made["writer"], made["reader"]

    def end(self, ref, **how):
        """A connection to one end of a channel."""
        return Socket(self.port, channel_path(ref), **how)

    def download(self, id, path):
        got = self.fs("read", id, path=path)
        with self.end(got["content"]) as reader:
            return got, b"".join(reader.rest())

    def upload(self, id, path, pieces, **fields):
        writer, reader = self.channel()
        call = self.invoke("sandbox::fs::write", {"sandbox_id": id, "path": path, "content": reader, **fields})
        with self.end(writer) as out:
            for piece in pieces:
                out.send(piece)
        return self.result(call)


def channel_path(ref, direction=None, key=None):
    from urllib.parse import quote
    return (f"/ws/channels/{ref['channel_id']}?key={quote(ref['access_key'] if key is None else key, safe='')}"
            f"&dir={direction or ref['direction']}")


def b64(data):
    return base64.b64encode(data).decode()


# ---- between a client and the daemon ----


class Relay:
    """Passes bytes on, until it loses its clients: the daemon then still has their connections, and hears nothing more."""

    def __init__(self, port):
        self.target, self.pairs, self.lost, self.lock = port, [], [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            for end in [end for pair in self.pairs + self.lost for end in pair]:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                try:
                    pair = (client, socket.create_connection(("127.0.0.1", self.target)))
                except OSError:
                    client.close()
                    continue
                with self.lock:
                    self.pairs.append(pair)
                for way in (pair, pair[::-1]):
                    threading.Thread(target=self.pump, args=(pair, *way), daemon=True).start()

    def pump(self, pair, source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
            with self.lock:
                if pair in self.pairs:
                    target.shutdown(socket.SHUT_WR)

    def lose_clients(self):
        """What is connected is cut off on the clients' side only; new connections are passed on as before."""
        with self.lock:
            self.lost, self.pairs = self.lost + self.pairs, []
            for client, _ in self.lost:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)


# ---- programs ----


class Program:
    """Runs in the background and tells by lines what it has come to; told by lines what to do next."""

    def __init__(self, argv, **env):
        self.home = tempfile.mkdtemp(prefix="cay-test-iii-")  # SDKs leave notes in a home
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_", "OTEL_"))}
        self.process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, bufsize=1, cwd=self.home,
                                        env={**kept, "HOME": self.home, "TMPDIR": self.home, "NO_PROXY": "*", "no_proxy": "*",
                                             "CAY_TEST_SLOW": str(SLOW), **env})
        self.lines, self.said, self.errors = queue.Queue(), [], []
        self.threads = [threading.Thread(target=self.follow, args=(self.process.stdout, self.lines.put), daemon=True),
                        threading.Thread(target=self.follow, args=(self.process.stderr, self.errors.append), daemon=True)]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def follow(pipe, to):
        for line in pipe:
            to(line.rstrip("\n"))
        to(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        self.process.stdout.close()
        self.process.stderr.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def trouble(self, why):
        errors = "\n".join(filter(None, self.errors[-60:]))
        return AssertionError(f"{why}\nit said: {self.said}\n{errors}")

    def until(self, word, timeout=60):
        """Reads lines up to one that is, or begins with, the word; what comes after it in that line."""
        deadline = time.monotonic() + timeout * SLOW
        while True:
            try:
                line = self.lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise self.trouble(f"no {word!r} within {timeout} s") from None
            if line is None:
                self.threads[1].join()
                raise self.trouble(f"it ended with {self.process.wait()} before it said {word!r}")
            self.said.append(line)
            if line == word or line.startswith(f"{word} "):
                return line[len(word) + 1:]

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def ends(self, timeout=120):
        """Its end, which must be a good one; all its lines."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            raise self.trouble(f"it did not end within {timeout} s") from None
        for thread in self.threads:
            thread.join()
        while (line := self.lines.get()) is not None:
            self.said.append(line)
        if self.process.returncode != 0:
            raise self.trouble(f"it ended with {self.process.returncode}")
        return self.said


def node_client(version):
    """The program that uses an iii-sdk of npm."""
    why = cay_npm.lacking()
    if why:
        pytest.skip(why)
    return [node(), CLIENTS / "node" / "client.mjs", environment(f"iii-node-{version}")]


def rust_client():
    """The program that uses the iii-sdk of crates.io."""
    why = cay_cargo.lacking(CLIENTS / "rust")
    if why:
        pytest.skip(why)
    return [cay_cargo.program(CLIENTS / "rust", "cay-iii-client")]


FAMILIES = {
    "node-0.9.0": lambda: node_client("0.9"),
    "node-0.11.6": lambda: node_client("0.11"),
    "node-0.22.1": lambda: node_client("0.22"),
    "python-0.11.6": lambda: [python("iii-python-0.11"), CLIENTS / "python" / "client.py"],
    "python-0.25.0": lambda: [python("iii-python-0.25"), CLIENTS / "python" / "client.py"],
    "rust-0.25.0": rust_client,
}
NEWEST = ("node-0.22.1", "python-0.25.0", "rust-0.25.0")


def program_of(family, url, *words, **env):
    """Starts the program of one SDK against an endpoint."""
    return Program([*FAMILIES[family](), *words], III_URL=url, **env)
