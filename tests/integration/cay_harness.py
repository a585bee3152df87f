"""What the integration and security suites share: a daemon of their own, a client, the ledger."""

import base64
import collections
import contextlib
import glob
import http.client
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import cay_shapes

REPO = Path(__file__).resolve().parents[2]
# What a sanitizer keeps of memory that was freed comes on top of what a test allows.
SANITIZER = os.environ.get("CAY_TEST_SANITIZER")  # "address" or "thread"
RSS_SLACK_KIB = 131072 if SANITIZER else 0
CAY = os.path.abspath(os.environ.get("CAY_BIN", REPO / "build" / "cay"))
ID = re.compile(r"sbx_[0-9a-f]{24}")
FOLDER = os.environ.get("CAY_TEST_FOLDER")  # where daemons have their data, when it is not that of all temporary files
WARM = os.environ.get("CAY_TEST_WARM", "0")  # sandboxes of the host image that wait for somebody; test_pool.py has its own
SLOW = float(os.environ.get("CAY_TEST_SLOW", "1"))  # on an emulated machine: how much slower it is

CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGSYS}
SANITIZED = re.compile(r"\w+Sanitizer\b|: runtime error: ")  # how the log of a program of ours shows a sanitizer's report

# Uses up all processes that it can have, and says so.
FILL_PROCESSES = """
import os, signal
try:
    while True:
        if os.fork() == 0:
            signal.pause()
except OSError:
    print("full", flush=True)
    signal.pause()
"""


# ---- waiting for events ----


def wait_until(condition, timeout=60.0, what=None):
    """Polls until condition() is true and returns its value; the deadline is a failure."""
    deadline = time.monotonic() + timeout * SLOW
    pause = 0.002
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what or condition} did not come true within {timeout} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def read_text(path):
    """What is in a file, "" if it is gone: files of /proc come and go under a reader."""
    try:
        with open(path, "rb", buffering=0) as f:
            return f.readall().decode(errors="replace")
    except OSError:
        return ""


def rss_kib(pid):
    return int(re.search(r"^VmRSS:\s+(\d+)", read_text(f"/proc/{pid}/status"), re.M)[1])


def read_link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def cgroups_of(pid):
    """The cgroups of a process, one per hierarchy, and their parents: a daemon makes its own below one of them."""
    own = {line.split(":", 2)[2].strip("/") for line in read_text(f"/proc/{pid}/cgroup").splitlines()}
    return own | {os.path.dirname(path) for path in own}


def pids():
    return [name for name in os.listdir("/proc") if name.isdigit()]


# ---- HTTP ----


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=30):
        super().__init__("localhost", timeout=timeout)
        self.unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.unix_path)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def code(self):
        return self.json["code"]

    def ok(self):
        assert self.status == 200, f"{self.status}: {self.body[:500]!r}"
        return self.json

    def failed(self, status, code=None, text=None):
        """Checks a refusal: its status, and that it says something to programs and to people."""
        want = (status,) if isinstance(status, int) else tuple(status)
        assert self.status in want, f"{self.status}, not {want}: {self.body[:500]!r}"
        said = self.json
        assert isinstance(said.get("error"), str) and said["error"], said
        assert re.fullmatch(r"[a-z][a-z0-9_]*", said.get("code", "")), said
        if code:
            assert said["code"] == code, said
        if text:
            assert text in said["error"], said
        return said


class Api:
    """A client with one kept-alive connection, over TCP or the unix socket."""

    def __init__(self, port=None, unix=None, token=None, timeout=30, prefix="/sandbox"):
        self.port, self.unix, self.token = port, unix, token
        self.timeout, self.prefix = timeout * SLOW, prefix
        self.connection = None

    def again(self, **change):
        """Another client of the same daemon, with a connection of its own."""
        mine = dict(port=self.port, unix=self.unix, token=self.token, timeout=self.timeout / SLOW,
                    prefix=self.prefix)
        return Api(**{**mine, **change})

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _connection(self):
        if not self.connection:
            if self.unix:
                self.connection = UnixConnection(str(self.unix), self.timeout)
            else:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                             timeout=self.timeout)
        return self.connection

    def start(self, method, path, body=None, raw=None, type=None, headers=None):
        """Sends a request and returns the http.client response, unread; its head has been checked."""
        path = path[1:] if path.startswith("//") else self.prefix + path
        response = self._send(method, path, body, raw, type, headers)
        response.answer = cay_shapes.Answer(CAY, method, cay_shapes.below(self.prefix, path))
        response.kind = cay_shapes.media_type(response.headers["Content-Type"])
        response.answer.head(response.status, response.kind)
        return response

    def _send(self, method, path, body, raw, type, headers):
        send = dict(headers or {})
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
            type = type or "application/json"
        if type:
            send.setdefault("Content-Type", type)
        if self.token is not None:
            send.setdefault("Authorization", f"Bearer {self.token}")
        connection = self._connection()
        fresh = connection.sock is None
        try:
            connection.request(method, path, body=data, headers=send)
            return connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self.close()
            if fresh:
                raise
            connection = self._connection()  # the daemon was restarted under a kept connection
            connection.request(method, path, body=data, headers=send)
            return connection.getresponse()
        except Exception:
            self.close()
            raise

    def call(self, method, path, body=None, **how):
        response = self.start(method, path, body, **how)
        data = response.read()
        reply = Reply(response.status, response.headers, data)
        response.answer.body(response.status, response.kind, data)
        if response.will_close:
            self.close()
        return reply

    def get(self, path, **how):
        return self.call("GET", path, **how)

    def post(self, path, body=None, **how):
        return self.call("POST", path, body, **how)

    def delete(self, path, **how):
        return self.call("DELETE", path, **how)

    # -- the resources --

    def try_create(self, image="host", **fields):
        return self.post("/sandboxes", {"image": image, **fields})

    def create(self, image="host", **fields):
        return self.try_create(image, **fields).ok()

    def remove(self, id):
        return self.delete(f"/sandboxes/{id}").ok()

    def sandbox(self, id):
        return self.get(f"/sandboxes/{id}").ok()

    def ids(self):
        """Every sandbox, page by page."""
        found, page = [], 1
        while True:
            answer = self.get(f"/sandboxes?page={page}&pageSize=200").ok()
            found += [s["id"] for s in answer["items"]]
            if len(found) >= answer["total"] or not answer["items"]:
                return found
            page += 1

    def try_exec(self, id, command, **fields):
        return self.post(f"/sandboxes/{id}/exec", {"command": command, **fields})

    def exec(self, id, command, **fields):
        return self.try_exec(id, command, **fields).ok()

    def sh(self, id, command, **fields):
        """The stdout of a command that must succeed."""
        done = self.exec(id, command, **fields)
        assert done["exitCode"] == 0, done
        return done["stdout"]

    def file(self, id, what, **fields):
        return self.post(f"/sandboxes/{id}/files/{what}", fields)

    def write(self, id, path, content, **fields):
        return self.file(id, "write", path=path, content=content, **fields).ok()

    def read(self, id, path, **fields):
        return self.file(id, "read", path=path, **fields).ok()

    def upload(self, id, path, data, **fields):
        text = base64.b64encode(data).decode()
        return self.file(id, "upload", path=path, content=text, **fields).ok()

    def download(self, id, path, **fields):
        return base64.b64decode(self.file(id, "download", path=path, **fields).ok(), validate=True)

    def background(self, id, command, **fields):
        return self.post(f"/sandboxes/{id}/exec/background", {"command": command, **fields}).ok()

    def background_status(self, exec_id):
        return self.get(f"/exec/background/{exec_id}/status").ok()

    def background_logs(self, exec_id, cursor=0):
        return self.get(f"/exec/background/{exec_id}/logs?cursor={cursor}").ok()

    def background_end(self, exec_id, timeout=60):
        def ended():
            status = self.background_status(exec_id)
            return None if status["running"] else status

        return wait_until(ended, timeout, f"end of {exec_id}")

    def processes(self, id):
        return self.get(f"/sandboxes/{id}/processes").ok()["processes"]

    def events(self, method, path, body=None, timeout=None):
        """Server-sent events, parsed as strictly as the clients do."""
        with self.again(**({"timeout": timeout} if timeout else {})) as own:
            response = own.start(method, path, body, headers={"Accept": "text/event-stream"})
            if response.status != 200:
                raise AssertionError(f"{response.status}: {response.read()!r}")
            assert response.headers["Content-Type"].split(";")[0] == "text/event-stream"
            assert response.headers["Cache-Control"] == "no-cache"
            try:
                yield from read_events(response)
            finally:
                response.close()

    def exec_stream(self, id, command, **fields):
        return list(self.events("POST", f"/sandboxes/{id}/exec/stream",
                                {"command": command, **fields}))


def read_events(response):
    """A frame is `data: ` + one line of ASCII JSON + an empty line; comments are skipped."""
    while True:
        line = response.readline()
        if not line:
            return
        assert line.endswith(b"\n"), f"cut line {line!r}"
        line = line[:-1]
        if line == b"" or line.startswith((b":", b"id: ")):
            continue
        assert line.startswith(b"data: "), line
        assert line.isascii(), line
        event = json.loads(line[6:])
        response.answer.event(event)
        yield event
        assert response.readline() == b"\n"


def raw_http(port, data, timeout=60, unix=None):
    """Sends bytes as they are and returns all that comes back until the server closes."""
    timeout *= SLOW
    if unix:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(str(unix))
    else:
        s = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    with s:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            s.sendall(data)
        out = b""
        with contextlib.suppress(ConnectionResetError):
            while True:
                piece = s.recv(65536)
                if not piece:
                    break
                out += piece
        cay_shapes.check_raw(CAY, "/sandbox", data, out)
        return out


# ---- the daemon ----


class Leak(AssertionError):
    """A test left something on the host. Such a case has no second chance."""


class Daemon:
    """`cay serve` with folders of its own. The log goes to a file and is shown when a test fails."""

    everyone = []  # all that were made in this session, for the ledger
    within = ()  # what it is started by, in front of the program

    def __init__(self, name="d", env=None, args=(), parent=None):
        self.root = Path(tempfile.mkdtemp(prefix=f"cay-test-{name}-", dir=parent or FOLDER))
        self.data, self.run = self.root / "data", self.root / "run"
        self.log_path = self.root / "log"
        self.extra = {k: str(v) for k, v in (env or {}).items()}
        self.args = list(args)
        self.process, self.crashed, self.failed = None, False, False
        self.token = self.extra.get("CAY_AUTH_TOKEN")
        self.apis = []
        self.cgroup_places = {"", self.extra.get("CAY_CGROUP", "").strip("/")}
        Daemon.everyone.append(self)

    def environment(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_"))}
        return {**kept, "CAY_DATA": str(self.data), "CAY_RUN": str(self.run), "CAY_REST_PORT": "0",
                "CAY_POOL": "1", "CAY_POOL_SIZE": WARM, "CAY_LOG_LEVEL": "debug",
                "CAY_WS_PORT": "0",  # its default is one number for the whole machine; cay_iii.py gives out others
                "CAY_NETWORK": "false",  # nothing is made in the machine's own namespace; cay_world.py has one of its own
                **self.extra}

    def spawn(self, args=(), **popen):
        """Starts the process and returns the read end of its ready pipe."""
        self.forget_process()
        ready, write = os.pipe()
        with open(self.log_path, "ab") as log:
            popen.setdefault("pass_fds", ())
            popen["pass_fds"] = (*popen["pass_fds"], write)
            popen.setdefault("stdin", subprocess.DEVNULL)
            popen.setdefault("stdout", log)
            popen.setdefault("stderr", log)
            popen.setdefault("env", self.environment())
            self.process = subprocess.Popen(
                [*self.within, CAY, "serve", "--ready-fd", str(write), *self.args, *args], **popen)
        os.close(write)
        self.cgroup_places |= cgroups_of(self.pid)  # also of a daemon that never gets ready
        return ready

    def start(self, args=(), timeout=60, **popen):
        ready = self.spawn(args, **popen)
        try:
            said = b""
            deadline = time.monotonic() + timeout * SLOW
            while b"ready" not in said:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([ready], [], [], left)[0]:
                    raise AssertionError(f"not ready within {timeout} s\n{self.log()}")
                piece = os.read(ready, 100)
                if not piece:
                    self.process.wait(60 * SLOW)
                    raise AssertionError(f"ended with {self.process.returncode}\n{self.log()}")
                said += piece
        except BaseException:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            raise
        finally:
            os.close(ready)
        self.port = int((self.run / "port").read_text())
        self.cgroup_places |= cgroups_of(self.pid)
        for api in self.apis:
            api.close()
            api.port = self.port
        return self

    def refused(self, timeout=60, **popen):
        """Starts a daemon that must refuse to; returns its exit status and what it said."""
        ready = self.spawn(**popen)
        try:
            status = self.process.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it did not refuse to start\n{self.log()}")
        finally:
            os.close(ready)
            self.forget_process()
        return status, self.log()

    def log(self):
        return read_text(self.log_path)

    @property
    def pid(self):
        return self.process.pid

    @property
    def socket_path(self):
        return self.run / "cay.sock"

    def api(self, **how):
        how.setdefault("token", self.token)
        api = Api(port=self.port, **how)
        self.apis.append(api)
        return api

    def unix_api(self, **how):
        return self.api(unix=self.socket_path, **how)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def has_crashed(self):
        """Whether the present process, or one before it, ended with a signal of a crash."""
        return self.crashed or self.process is not None and -(self.process.poll() or 0) in CRASHES

    def forget_process(self):
        self.crashed = self.has_crashed()
        self.process = None

    def stop(self, sig=signal.SIGTERM, timeout=30):
        for api in self.apis:
            api.close()
        self.process.send_signal(sig)
        status = self.process.wait(timeout * SLOW)
        self.failed |= status not in (0, -signal.SIGKILL)
        self.forget_process()
        return status

    def kill9(self):
        self.process.kill()
        self.process.wait()
        self.forget_process()

    def restart(self, **how):
        if self.running():
            self.stop()
        return self.start(**how)

    def spares(self):
        """The disks of sandboxes that are gone, which the next ones get."""
        with contextlib.suppress(OSError):
            return os.listdir(self.data / "scratch" / "spares")
        return []

    def wait_for_note(self, id, text=""):
        """What is noted beside a disk comes a moment after its row."""
        note = self.data / "sandboxes" / f"{id}.json"
        wait_until(lambda: note.exists() and note.stat().st_size > 0 and text in note.read_text(),
                   what=f"the note of {id}")

    def database(self):
        """The database, for reading what a client cannot see or, while stopped, for changing it."""
        return sqlite3.connect(self.data / "cay.db", timeout=10)

    def agent_pid(self, id):
        """Pid of a sandbox's agent on the host: the process of its cgroups that is 1 inside."""
        for pid in pids():
            if id in read_text(f"/proc/{pid}/cgroup"):
                if re.search(r"^NSpid:.*\t1$", read_text(f"/proc/{pid}/status"), re.M):
                    return int(pid)
        raise AssertionError(f"{id} has no agent")

    def change_sandboxes(self, change, *values):
        """`update sandbox set <change>` while the daemon is down."""
        assert not self.running()
        with contextlib.closing(self.database()) as db:
            db.execute(f"update sandbox set {change}", values)
            db.commit()

    def cgroup_name(self):
        """The name of the parent of all its cgroups: a hash (FNV-1a) of the data folder."""
        value = 2166136261
        for byte in os.fsencode(self.data):
            value = (value ^ byte) * 16777619 & 0xffffffff
        return f"cay-{value:08x}"

    def crossroads(self):
        """What its gateway has of sandboxes; see OnlineDaemon."""
        return []

    def destroy(self):
        """Removes its sandboxes, ends it and takes its folders away. What is left is the test's find."""
        self.failed |= self.process is not None and (self.process.poll() or 0) not in (0, -signal.SIGKILL)
        try:
            if not self.running() and (self.data / "cay.db").exists():
                with contextlib.suppress(AssertionError):
                    self.start()
            if self.running():
                with self.again_quiet() as api:
                    for id in api.ids():
                        api.delete(f"/sandboxes/{id}")
                self.stop()
        finally:
            for api in self.apis:
                api.close()
            if self.running():
                self.kill9()
        left = [line for line in open("/proc/self/mountinfo") if f" {self.root}" in line]
        if left:
            raise Leak(f"mounts are left: {left}")
        log = self.log()
        for folder in (self.run, self.root):  # a case may have put the first elsewhere
            shutil.rmtree(folder, ignore_errors=True)
        assert not self.has_crashed(), f"the daemon ended with a signal of a crash\n{log}"
        assert not SANITIZED.search(log), f"a sanitizer report\n{log}"
        assert not self.failed, f"the daemon did not end with status 0\n{log}"

    def again_quiet(self):
        return Api(unix=self.socket_path, token=self.token)


# ---- the CLI ----


def cli_environment(daemon, **env):
    kept = daemon.environment()
    kept.update({k: str(v) for k, v in env.items()})
    return kept


def cay(daemon, *args, input=None, timeout=60, env=None, check=False, **how):
    """Runs the CLI against a daemon; stdout and stderr come back as bytes."""
    if input is None:
        how.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([CAY, *map(str, args)], input=input, capture_output=True, timeout=timeout * SLOW,
                          env=cli_environment(daemon, **(env or {})), **how)
    assert not isinstance(done.stderr, bytes) or not SANITIZED.search((done.stdout + done.stderr).decode(errors="replace")), done
    if check:
        assert done.returncode == 0, done
    return done


# ---- a root file system for images ----


def busybox_root(folder):
    """A whole root file system from one static program."""
    for name in ("bin", "etc", "tmp", "root", "proc", "sys", "dev", "usr/bin"):
        (folder / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), folder / "bin" / "busybox")
    for name in ("sh", "ls", "cat", "echo", "id", "sleep", "wc", "touch", "stat"):
        (folder / "bin" / name).symlink_to("busybox")
    (folder / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc" / "group").write_text("root:x:0:\n")
    (folder / "etc" / "mark").write_text("of the image\n")
    return folder


# ---- what this machine has ----


def lacking(need):
    """Why a need is not met here, or None."""
    if need == "root":
        return None if os.geteuid() == 0 else "needs root"
    if need == "cgroup":
        v2 = read_text("/sys/fs/cgroup/cgroup.controllers").split()
        if {"memory", "pids", "cpu"} <= set(v2):
            return None
        v1 = [f"/sys/fs/cgroup/{c}" for c in ("memory", "pids", "freezer")]
        if all(os.path.isdir(p) and os.access(p, os.W_OK) for p in v1):
            return None
        return "needs writable cgroup controllers memory, pids and cpu"
    if need == "loop":
        return None if os.path.exists("/dev/loop-control") else "needs loop devices"
    if need.startswith("program:"):
        program = need.split(":", 1)[1]
        return None if shutil.which(program) else f"needs the program {program}"
    if need.startswith("module:"):
        module = need.split(":", 1)[1]
        return None if importlib.util.find_spec(module) else f"needs the Python module {module}"
    if need.startswith("built:"):
        path = Path(CAY).parent / need.split(":", 1)[1]
        return None if path.exists() else f"needs {path}, which the build of cay makes"
    if need == "binary":
        return None if os.access(CAY, os.X_OK) else f"needs {CAY} (set CAY_BIN)"
    raise ValueError(need)


def must_have(*needs):
    """Ends the case if this machine lacks one of the needs: the case is skipped, or fails where CAY_TEST_MUST is native, as in tools/check."""
    for why in filter(None, map(lacking, needs)):
        if os.environ.get("CAY_TEST_MUST") == "native":
            pytest.fail(f"{why}, and CAY_TEST_MUST asks for it", pytrace=False)
        pytest.skip(why)
