"""What others take for the same: bubblewrap, runc and the Docker Engine, driven as their users drive them.

A peer has a name, start(), measure(n) -> {row: [microseconds]}, and stop(), which may be called at any
time and more than once. start() raises Unavailable with the reason when this machine cannot run it. One that
keeps boxes has boxes(n): so many with create(), exec() and remove(), which threads may use side by side.
"""
import errno
import http.client
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import threading
import time

ECHO = ["sh", "-c", "echo hello"]
EXECS_PER_SANDBOX = 5  # as in samples.h
FILE_SIZE = 1024
REST = 0.02  # between two sandboxes, as in the floor and in cay


class Unavailable(Exception):
    pass


def need(program):
    path = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if not path:
        raise Unavailable(f"{program} is not installed")
    return path


def timed(rows, row, function, *args):
    """Calls, adds the time to the row, and returns it in microseconds."""
    start = time.monotonic_ns()
    function(*args)
    us = (time.monotonic_ns() - start) / 1000
    rows.setdefault(row, []).append(us)
    return us


def run(argv, output=False):
    """As cheaply as Python can: no shell, no fork of a large process. Returns stdout if wanted."""
    actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
    if output:
        reader, writer = os.pipe()
        actions.append((os.POSIX_SPAWN_DUP2, writer, 1))
    else:
        actions.append((os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0))
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
    text = b""
    if output:
        os.close(writer)
        with os.fdopen(reader, "rb") as f:
            text = f.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        raise RuntimeError(f"{' '.join(argv)} ended with {status}")
    return text


def busybox_root(root):
    """A small root filesystem: one static program and its names."""
    busybox = need("busybox")
    for name in ("bin", "etc", "proc", "sys", "dev", "tmp", "workspace"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(busybox, root / "bin/busybox")
    for name in ("sh", "echo", "sleep", "cat"):
        (root / "bin" / name).symlink_to("busybox")
    if subprocess.run(["chroot", root, "/bin/busybox", "true"], capture_output=True).returncode != 0:
        raise Unavailable("busybox does not run alone (install busybox-static)")


def remove_cgroups(name):
    """Ours only: the folder of that name in each hierarchy, and what is in it."""
    groups = pathlib.Path("/sys/fs/cgroup")
    for top in [*groups.glob(name), *groups.glob(f"*/{name}")]:
        for group, _, _ in sorted(os.walk(top), reverse=True):
            remove_cgroup(group)


def remove_cgroup(group):
    for _ in range(50):  # members that were killed need a moment to leave
        try:
            return os.rmdir(group)
        except OSError as e:
            if e.errno != errno.EBUSY:
                raise
            time.sleep(0.1)
    return os.rmdir(group)


class Bubblewrap:
    """Has no daemon and keeps nothing: only the whole run of a command can be compared."""

    name = "bubblewrap"

    def __init__(self, work):
        self.root = work / "bubblewrap"

    def start(self):
        busybox_root(self.root)
        self.argv = [need("bwrap"), "--unshare-all", "--new-session", "--die-with-parent",
                     "--ro-bind", str(self.root), "/", "--proc", "/proc", "--dev", "/dev",
                     "--tmpfs", "/tmp", *ECHO]
        try:
            run(self.argv)
        except (RuntimeError, OSError) as e:
            raise Unavailable(f"bwrap does not run here: {e}") from e

    def measure(self, n):
        rows = {}
        for _ in range(n * 4):
            time.sleep(REST)
            timed(rows, "run", run, self.argv, True)
        return rows

    def stop(self):
        pass


class RuncBox:
    """A bundle of its own, since the cgroup is named in it."""

    def __init__(self, runc, number):
        self.argv = runc.argv
        self.bundle = runc.work / f"bundle-{number}"
        self.bundle.mkdir()
        spec = dict(runc.spec, linux=dict(runc.spec["linux"], cgroupsPath=f"/{runc.group}/{number}"))
        (self.bundle / "config.json").write_text(json.dumps(spec))
        self.name = f"cay-bench-{os.getpid()}-{number}"
        self.live = False

    def create(self):
        self.live = True
        run([*self.argv, "run", "--detach", "--bundle", str(self.bundle), self.name])

    def exec(self):
        run([*self.argv, "exec", self.name, *ECHO], True)

    def control(self, verb):
        run([*self.argv, verb, self.name])

    def remove(self):
        run([*self.argv, "delete", "--force", self.name])
        self.live = False


class Runc:
    name = "runc"
    group = f"cay-bench-runc-{os.getpid()}"

    def __init__(self, work):
        self.work = work / "runc"
        self.made = []

    def start(self):
        runc = need("runc")
        busybox_root(self.work / "rootfs")
        self.argv = [runc, "--root", str(self.work / "state")]
        subprocess.run([runc, "spec", "--bundle", str(self.work)], check=True)
        spec = self.spec = json.loads((self.work / "config.json").read_text())
        spec["process"].update(terminal=False, args=["sleep", "1000000"])
        spec["root"].update(path=str(self.work / "rootfs"), readonly=False)
        spec["linux"]["resources"].update(memory={"limit": 512 << 20}, pids={"limit": 256},
                                          cpu={"quota": 100000, "period": 100000})
        try:
            self.measure(1)
        except (RuntimeError, OSError) as e:
            raise Unavailable(f"runc does not run here: {e}") from e

    def boxes(self, n):
        while len(self.made) < n:
            self.made.append(RuncBox(self, len(self.made)))
        return self.made[:n]

    def measure(self, n):
        rows = {}
        box = self.boxes(1)[0]
        for _ in range(n):
            time.sleep(REST)
            total = timed(rows, "create", box.create)
            execs = [timed(rows, "exec", box.exec) for _ in range(EXECS_PER_SANDBOX)]
            timed(rows, "pause", box.control, "pause")
            timed(rows, "resume", box.control, "resume")
            total += timed(rows, "kill", box.remove)
            rows.setdefault("run", []).append(total + execs[0])
        return rows

    def stop(self):
        for box in self.made:
            if box.live:
                subprocess.run([*self.argv, "delete", "--force", box.name], capture_output=True)
                box.live = False
        remove_cgroups(self.group)


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class DockerBox:
    """A container on a connection of its own."""

    def __init__(self, sock, bridged=False):
        self.http = UnixHTTP(str(sock))
        self.bridged = bridged
        self.live = None

    def call(self, method, path, body=None, kind="application/json"):
        if body is not None and kind == "application/json":
            body = json.dumps(body)
        headers = {"Content-Type": kind} if body is not None else {}
        self.http.request(method, path, body, headers)
        answer = self.http.getresponse()
        data = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:200]!r}")
        return data

    def create(self):
        spec = {"Image": "bench", "Cmd": ["sleep", "1000000"], "NetworkDisabled": not self.bridged,
                "HostConfig": {"NetworkMode": "bridge" if self.bridged else "none", "Memory": 512 << 20, "PidsLimit": 256,
                               "NanoCpus": 1000000000}}
        self.live = json.loads(self.call("POST", "/containers/create", spec))["Id"]
        self.call("POST", f"/containers/{self.live}/start")

    def exec(self):
        """Output and exit status, as cay's one call gives them."""
        spec = {"Cmd": ECHO, "AttachStdout": True, "AttachStderr": True}
        ident = json.loads(self.call("POST", f"/containers/{self.live}/exec", spec))["Id"]
        output = self.call("POST", f"/exec/{ident}/start", {"Detach": False, "Tty": False})
        state = json.loads(self.call("GET", f"/exec/{ident}/json"))
        if b"hello\n" not in output or state["ExitCode"] != 0:
            raise RuntimeError(f"exec gave {output!r}, {state['ExitCode']}")

    def write(self):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            info = tarfile.TarInfo("file")
            info.size = FILE_SIZE
            tar.addfile(info, io.BytesIO(b"x" * FILE_SIZE))
        self.call("PUT", f"/containers/{self.live}/archive?path=/workspace", data.getvalue(),
                  "application/x-tar")

    def read(self):
        data = self.call("GET", f"/containers/{self.live}/archive?path=/workspace/file")
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            if len(tar.extractfile("file").read()) != FILE_SIZE:
                raise RuntimeError("the file came back with another size")

    def remove(self):
        self.call("DELETE", f"/containers/{self.live}?force=true")
        self.live = None

    def control(self, verb):
        self.call("POST", f"/containers/{self.live}/{verb}")


class Docker:
    """A Docker Engine of our own, through its HTTP API, with a kept connection for each box."""

    name = "docker"
    group = f"cay-bench-docker-{os.getpid()}"

    def __init__(self, work, within=None):
        """within: argv of a network namespace of its own, where it may make its bridge and rules; else it has none."""
        self.work = work / "docker"
        self.within = within or []
        self.network = ["--bip", "172.30.0.1/16"] if within else ["--iptables=false", "--ip6tables=false", "--bridge=none"]
        self.process = None
        self.sock = self.work / "sock"
        self.made = []
        # Docker leaves these behind, empty.
        self.litter = [path for path in ("/run/docker/plugins", "/run/containerd/s")
                       if not os.path.exists(path)]

    def start(self):
        dockerd = need("dockerd")
        need("containerd")
        self.work.mkdir()
        for driver in ("overlay2", "vfs"):
            if self.serve(dockerd, driver):
                break
            self.stop()
        else:
            raise Unavailable("dockerd does not start here: " + self.complaint())
        try:
            self.import_image()
            self.measure(1)
        except (RuntimeError, OSError, http.client.HTTPException) as e:
            raise Unavailable(f"Docker cannot run a container here: {e}") from e

    def serve(self, dockerd, driver):
        with open(self.work / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.within, dockerd, "--data-root", str(self.work / "data"),
                 "--exec-root", str(self.work / "exec"), "--pidfile", str(self.work / "pid"),
                 "--host", f"unix://{self.sock}", "--storage-driver", driver, *self.network,
                 "--cgroup-parent", f"/{self.group}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        first = self.boxes(1)[0]
        for _ in range(300):
            if self.process.poll() is not None:
                return False
            try:
                first.call("GET", "/_ping")
                return True
            except OSError:
                first.http.close()
                time.sleep(0.1)
        return False

    def complaint(self):
        lines = (self.work / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][-200:] if lines else "no message"

    def import_image(self):
        busybox_root(self.work / "rootfs")
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            tar.add(self.work / "rootfs", ".")
        self.made[0].call("POST", "/images/create?fromSrc=-&repo=bench&tag=latest", data.getvalue(),
                          "application/x-tar")

    def boxes(self, n):
        while len(self.made) < n:
            self.made.append(DockerBox(self.sock, bool(self.within)))
        return self.made[:n]

    def measure(self, n):
        rows = {}
        box = self.boxes(1)[0]
        for _ in range(n):
            time.sleep(REST)
            total = timed(rows, "create", box.create)
            execs = [timed(rows, "exec", box.exec) for _ in range(EXECS_PER_SANDBOX)]
            timed(rows, "write", box.write)
            timed(rows, "read", box.read)
            timed(rows, "pause", box.control, "pause")
            timed(rows, "resume", box.control, "unpause")
            total += timed(rows, "kill", box.remove)
            rows.setdefault("run", []).append(total + execs[0])
        return rows

    def stop(self):
        if self.process and self.process.poll() is None:
            for box in self.made:
                box.http.close()  # an interrupted request may be half read
                try:
                    if box.live:
                        box.remove()
                except (RuntimeError, OSError, http.client.HTTPException):
                    pass  # dockerd ends what is left
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None
        for path in self.litter:
            try:
                os.removedirs(path)
            except OSError:
                pass  # not made, or somebody uses it
        remove_cgroups(self.group)


ALL = [Bubblewrap, Runc, Docker]


# ---- many boxes of a peer ----

def at_once(function, boxes):
    """Calls function(box, stopped) in a thread for each, and gives the seconds until the last was done. When it is
    interrupted, the event stopped is set and waited for, so that nothing is made any more after it."""
    failed = []
    stopped = threading.Event()

    def body(box):
        ready.wait()
        try:
            function(box, stopped)
        except Exception as e:  # any: it is told in the thread that measures
            failed.append(e)

    ready = threading.Barrier(len(boxes) + 1)
    threads = [threading.Thread(target=body, args=(box,), daemon=True) for box in boxes]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.monotonic()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        stopped.set()
        for thread in threads:
            thread.join()
        raise
    if failed:
        raise RuntimeError(f"{failed[0]}")
    return time.monotonic() - start


def lives(peer, clients, seconds):
    """{"lives": [a second], "create": [microseconds]} of so many threads that each make whole lives."""
    rows = {"create": []}
    done = []
    end = time.monotonic() + seconds

    def live(box, stopped):
        while time.monotonic() < end and not stopped.is_set():
            timed(rows, "create", box.create)
            box.exec()
            box.remove()
            done.append(box)

    took = at_once(live, peer.boxes(clients))
    rows["lives"] = [len(done) / took]
    return rows


def burst(peer, n):
    """Microseconds until the last of n that were created at once was there."""
    boxes = peer.boxes(n)
    took = at_once(lambda box, _: box.create(), boxes)
    at_once(lambda box, _: box.remove(), boxes)
    return took * 1e6
