"""A private cay daemon for the run, and what it and its sandboxes take of the machine's memory."""
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time


class Unix(http.client.HTTPConnection):
    def __init__(self, path, timeout=120):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Daemon:
    """pool: how many boxes it prepares ahead; None leaves that to it. warm: how many wait of each of the profiles. within: argv of
    the network namespace that it runs in; then it is asked through its unix socket only. settings: further ones, by variable."""

    def __init__(self, program, work, max_sandboxes, pool=None, warm=0, profiles="", within=(), settings=None):
        self.program = program
        self.within = list(within)
        self.pool = pool
        self.warm = {"CAY_POOL_SIZE": str(warm), "CAY_POOL_PROFILES": profiles}
        self.settings = settings or {}
        self.work = work
        self.max_sandboxes = max_sandboxes
        self.process = None
        self.run = None

    def start(self):
        # In memory, as /run is wherever systemd is.
        self.run = run = pathlib.Path(tempfile.mkdtemp(prefix="cay-bench-", dir="/dev/shm"))
        env = dict(os.environ, CAY_DATA=str(self.work / "data"), CAY_RUN=str(run),
                   CAY_REST_PORT="0", CAY_WS_PORT="0", CAY_MAX_SANDBOXES=str(self.max_sandboxes))
        env.pop("CAY_AUTH_TOKEN", None)
        env.update(self.warm)
        if self.pool is not None:
            env["CAY_POOL"] = str(self.pool)
        env.update(self.settings)
        with open(self.work / "cay.log", "wb") as log:
            # A session of its own: Ctrl-C is for the bench, which then ends the daemon in order.
            self.process = subprocess.Popen([*self.within, str(self.program), "serve", "--stop-sandboxes"],
                                            env=env, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        end = time.monotonic() + 30
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.port = int((run / "port").read_text())
                self.get("/sandbox/health")
                return
            except (OSError, ValueError):
                time.sleep(0.05)
        raise RuntimeError("the daemon does not start: " + self.complaint())

    @property
    def url(self):
        return f"unix:{self.run}/cay.sock"

    def complaint(self):
        lines = (self.work / "cay.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def connection(self):
        if self.within:
            return Unix(self.run / "cay.sock")
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def get(self, path):
        connection = self.connection()
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def call(self, method, path, body=None, noun="sandboxes"):
        """Of a sandbox, whose path comes after those of all; or of another noun."""
        connection = self.connection()
        try:
            connection.request(method, f"/sandbox/{noun}{path}", json.dumps(body) if body else None,
                               {"Content-Type": "application/json"} if body else {})
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        if reply.status != 200:
            raise RuntimeError(f"{method} {path}: {reply.status} {text.decode(errors='replace')[:200]}")
        return json.loads(text)

    def import_image(self, root, name):
        subprocess.run([str(self.program), "image", "import", str(root), name], check=True,
                       env=dict(os.environ, CAY_HOST=self.url), stdout=subprocess.DEVNULL)

    def rss_mib(self):
        """Of the daemon's own process."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines()
                    if line.startswith("VmRSS:")) / 1024

    def pss_mib(self):
        """Memory of the daemon and every process it started (launcher, prepared boxes): PSS, in which a page
        that several share counts once."""
        parents = {}
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                pass  # it ended meanwhile
        total = 0
        for pid in parents:
            above = pid
            while above > 1 and above != self.process.pid:
                above = parents.get(above, 0)
            if above == self.process.pid:
                rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += sum(int(line.split()[1]) for line in rollup.splitlines()
                             if line.startswith("Pss:"))
        return total / 1024

    def cgroup_mib(self):
        """Memory charged to the sandboxes' cgroups, in the mean."""
        ids, page, full = set(), 0, True
        while full:
            page += 1
            items = self.get(f"/sandbox/sandboxes?pageSize=200&page={page}")["items"]
            ids |= {item["id"] for item in items}
            full = len(items) == 200
        total = 0
        for folder, below, files in os.walk("/sys/fs/cgroup"):
            if not any(i in os.path.basename(folder) for i in ids):
                continue
            below.clear()  # the usage of a folder has that of those in it
            for name in ("memory.usage_in_bytes", "memory.current"):
                if name in files:
                    total += int(pathlib.Path(folder, name).read_text())
        return total / max(1, len(ids)) / 1048576

    def stop(self):
        self.end()
        if self.run:
            shutil.rmtree(self.run, ignore_errors=True)

    def end(self):
        if not self.process or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            print("bench: the daemon did not end in time and was killed; sandboxes may be left")


def available_mib():
    """After a moment for what ended to be freed and what was written to reach the disk."""
    os.sync()
    time.sleep(1)
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1024
    return 0
