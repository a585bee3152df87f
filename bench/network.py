"""What a network costs: create with one, throughput and latency out of a box, a thousand of them with policies, the proxy
and terminals, beside bare veth and masquerade, Docker's bridge and nginx.

`tools/bench network` prints a table, writes build/bench-network.json and checks the bars. Everything runs in network
namespaces of the run's own that have no way out of the machine."""
import argparse
import base64
import contextlib
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time

import daemon
import peers
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "integration"))
from cay_space import Space, plug  # noqa: E402

COLUMNS = ["cay", "bare", "docker", "nginx"]
OUTSIDE = "93.184.10.10"
IPERF, ECHO = 5201, 7007
CROWD = 1000
ADDED_MAX_US, DOCKER_FASTER, THROUGHPUT_MIN, LATENCY_MAX = 1000, 40, 0.9, 1.1
PROXY_MIN, PROXY_ADDED_US, CROWD_MAX, TERMINAL_US = 0.5, 200, 1.3, 2000
IMAGE = "bench"
POLICY = {"default": "deny", "profiles": ["pypi", "npm", "github"],
          "rules": [{"action": "allow", "destination": OUTSIDE, "protocol": "tcp"}]}

ROWS = [
    ("plain", "create without a network", "us"),
    ("create", "create with a network", "us"),
    ("added", "what the network adds to a create", "us"),
    ("throughput", "TCP out of a box", "Gbit/s"),
    ("rtt", "a byte there and back", "us"),
    ("connect", "connect, a byte there and back", "us"),
    ("create_alone", "create with a policy, alone", "us"),
    ("create_crowd", "create with a policy, in the crowd", "us"),
    ("first_alone", "its first connect, alone", "us"),
    ("first_crowd", "its first connect, in the crowd", "us"),
    ("proxy", "proxy, 32 connections", "req/s"),
    ("proxy_one", "one request by the proxy", "us"),
    ("proxy_direct", "the same without a proxy", "us"),
    ("terminal", "a key in a terminal and its echo", "us"),
]
NAMES = {key: name for key, name, _ in ROWS}
RATES = ("Gbit/s", "req/s")


# ---- the places ----


class Place:
    """A host whose boxes are measured, with a cable to the world outside."""

    count = 0

    def __init__(self, outside, name):
        Place.count += 1
        self.space, number = Space(name), Place.count
        plug(self.space, "wan0", outside, f"wan{number}")
        self.address = f"45.{number}.0.2"
        self.space.run("ip", "addr", "add", f"{self.address}/24", "dev", "wan0")
        outside.run("ip", "addr", "add", f"45.{number}.0.1/24", "dev", f"wan{number}")
        self.space.run("ip", "route", "add", "default", "via", f"45.{number}.0.1")


class Bare:
    """One box by hand: a namespace, a veth pair, forwarding and masquerade."""

    def __init__(self, outside):
        self.host = Place(outside, "bare").space
        self.box = Space("bare box")
        plug(self.host, "b0", self.box, "eth0")
        self.host.run("ip", "addr", "add", "10.9.0.1/24", "dev", "b0")
        self.box.run("ip", "addr", "add", "10.9.0.2/24", "dev", "eth0")
        self.box.run("ip", "route", "add", "default", "via", "10.9.0.1")
        self.host.sysctl("ipv4.ip_forward", 1)
        self.host.nft("table ip nat {\n chain post {\n  type nat hook postrouting priority srcnat;\n  oifname wan0 masquerade\n }\n}\n")

    def close(self):
        self.box.close()
        self.host.close()


def process_of(ident):
    """Of a sandbox: the process of its cgroups that is the first inside."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if ident in pathlib.Path(f"/proc/{pid}/cgroup").read_text():
                if pathlib.Path(f"/proc/{pid}/status").read_text().split("NSpid:")[1].split("\n")[0].split()[-1] == "1":
                    return int(pid)
    raise RuntimeError(f"{ident} has no process")


class Cay:
    """Through one kept connection, as Docker is asked."""

    def __init__(self, served):
        self.http = daemon.Unix(served.run / "cay.sock")

    def call(self, method, path, body=None):
        self.http.request(method, "/sandbox" + path, json.dumps(body) if body is not None else None,
                          {"Content-Type": "application/json"} if body is not None else {})
        reply = self.http.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{method} {path}: {reply.status} {text.decode(errors='replace')[:200]}")
        return json.loads(text)

    def create(self, network, **more):
        return self.call("POST", "/sandboxes", {"image": IMAGE, "network": network, **more})["id"]

    def remove(self, *idents):
        for ident in idents:
            self.call("DELETE", f"/sandboxes/{ident}")


# ---- the run ----


class Bench:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.samples, self.missing, self.started, self.processes, self.spaces = {}, {}, [], [], []
        self.docker = None
        self.began = time.monotonic()

    def say(self, words):
        print(f"[{time.monotonic() - self.began:4.0f} s] {words}", file=sys.stderr, flush=True)

    def add(self, column, key, *values):
        self.samples.setdefault(column, {}).setdefault(key, []).extend(values)

    def timed(self, column, key, function, *args, **how):
        start = time.monotonic_ns()
        value = function(*args, **how)
        self.add(column, key, (time.monotonic_ns() - start) / 1000)
        return value

    def start(self):
        self.outside = Space("outside")
        self.spaces.append(self.outside)
        self.outside.run("ip", "addr", "add", f"{OUTSIDE}/32", "dev", "lo")
        self.background(self.outside.argv("iperf3", "-s", "-p", IPERF))
        echo = self.background(self.outside.argv(self.args.build / "bench/pingpong", "serve", ECHO), subprocess.PIPE)
        echo.stdout.readline()
        self.bare = Bare(self.outside)
        self.spaces += [self.bare.host, self.bare.box]
        self.start_cay()
        self.start_docker()

    def start_cay(self):
        place = Place(self.outside, "H")
        self.host = place.space
        self.spaces.append(self.host)
        (self.work / "cay").mkdir()
        os.environ["CAY_NET_NAMESERVERS"] = "9.9.9.9"
        self.served = daemon.Daemon(self.args.build / "cay", self.work / "cay", 4 * CROWD, within=self.host.argv())
        self.started.append(self.served)
        self.served.start()
        peers.busybox_root(self.work / "rootfs")
        self.served.import_image(self.work / "rootfs", IMAGE)
        self.cay = Cay(self.served)

    def start_docker(self):
        place = Place(self.outside, "docker")
        self.spaces.append(place.space)
        docker = peers.Docker(self.work, within=place.space.argv())
        self.started.append(docker)
        try:
            docker.start()
            self.docker = docker
        except peers.Unavailable as e:
            self.missing["docker"] = str(e)
            self.say(f"without Docker: {e}")

    def background(self, argv, stdout=subprocess.DEVNULL):
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=stdout,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        self.processes.append(process)
        return process

    # ---- create ----

    def creates(self):
        cay = self.cay
        for i in range(self.args.creates + 20):
            column = "cay" if i >= 20 else "warming"
            for key, network in (("plain", False), ("create", True)):
                time.sleep(peers.REST)
                ident = self.timed(column, key, cay.create, network)
                cay.remove(ident)
        rows = self.samples["cay"]
        self.add("cay", "added", report.percentile(rows["create"], 50) - report.percentile(rows["plain"], 50))
        if self.docker:
            for i in range(self.args.peers + 1):
                box = self.docker.boxes(1)[0]
                time.sleep(peers.REST)
                self.timed("docker" if i else "warming", "create", box.create)
                box.remove()

    # ---- the path out ----

    def paths(self):
        """Every column's box at once, so that rounds can go round; the tools are the machine's own, so that only the path
        differs."""
        ident = self.cay.create(True)
        boxes = {"cay": Space.of(process_of(ident)), "bare": self.bare.box}
        if self.docker:
            box = self.docker.boxes(1)[0]
            box.create()
            pid = json.loads(box.call("GET", f"/containers/{box.live}/json"))["State"]["Pid"]
            boxes["docker"] = Space.of(pid)
        for i in range(self.args.rounds):
            for column, space in boxes.items():
                self.add(column, "throughput", self.throughput(space))
                self.add(column, "rtt", *self.pingpong(space, "ask", 3000))
                self.add(column, "connect", *self.pingpong(space, "connect", 200))
            self.say(f"paths, round {i + 1} of {self.args.rounds}")
        for column in boxes:
            if column != "bare":
                boxes[column].close()
        self.cay.remove(ident)
        if self.docker:
            box.remove()

    def throughput(self, space):
        text = subprocess.run(space.argv("iperf3", "-c", OUTSIDE, "-p", IPERF, "-t", self.args.seconds, "-O", "0.5", "-J"),
                              capture_output=True, check=True).stdout
        return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9

    def pingpong(self, space, what, count):
        text = subprocess.run(space.argv(self.args.build / "bench/pingpong", what, OUTSIDE, ECHO, count),
                              capture_output=True, check=True).stdout
        return json.loads(text)["samples"]

    # ---- a crowd ----

    def crowd(self):
        cay, made = self.cay, []
        self.some("alone")
        try:
            while len(made) < self.args.crowd:
                made.append(cay.create(POLICY))
                if len(made) % 250 == 0:
                    self.say(f"{len(made)} sandboxes with a policy")
            self.some("crowd")
        finally:
            self.say("removing them")
            cay.remove(*made)

    def some(self, where):
        for i in range(self.args.some + 3):
            column = "cay" if i >= 3 else "warming"
            time.sleep(peers.REST)
            ident = self.timed(column, f"create_{where}", self.cay.create, POLICY)
            with Space.of(process_of(ident)) as space:
                self.add(column, f"first_{where}", *self.pingpong(space, "connect", 1))
            self.cay.remove(ident)

    # ---- the proxy ----

    def backend(self, folder, port):
        folder.mkdir()
        (folder / "conf").write_text(
            f"daemon off; worker_processes 1; pid {folder}/pid; error_log stderr; events {{ worker_connections 1024; }}\n"
            f"http {{ access_log off; keepalive_requests 1000000;\n server {{ listen 127.0.0.1:{port}; location / {{ return 200 \"hello\\n\"; }} }} }}\n")
        return ["nginx", "-c", str(folder / "conf")]

    def proxies(self):
        """wrk beside what it asks, in H: nginx in front of an nginx, and cay in front of one in a sandbox."""
        conf = self.work / "nginx"
        self.background(self.host.argv(*self.backend(conf, 8081)))
        front = self.work / "front"
        front.mkdir()
        (front / "conf").write_text(
            f"daemon off; worker_processes 1; pid {front}/pid; error_log stderr; events {{ worker_connections 1024; }}\n"
            "http { access_log off; keepalive_requests 1000000;\n upstream b { server 127.0.0.1:8081; keepalive 64; keepalive_requests 1000000; }\n"
            " server { listen 127.0.0.1:8082; location / { proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection \"\"; } } }\n")
        self.background(self.host.argv("nginx", "-c", front / "conf"))
        ident = self.cay.call("POST", "/sandboxes", {"image": "host", "memory": 1024, "cpu": 2})["id"]
        text = (conf / "conf").read_text().replace(str(conf), "/workspace").replace("8081", "8080")
        self.cay.call("POST", f"/sandboxes/{ident}/files/write", {"path": "/workspace/conf", "content": text})
        self.cay.call("POST", f"/sandboxes/{ident}/exec/background",
                      {"command": "mkdir -p /var/lib/nginx/body /var/log/nginx; exec /usr/sbin/nginx -c /workspace/conf"})
        self.cay.call("POST", f"/sandboxes/{ident}/ports", {"containerPort": 8080, "hostPort": 0})
        urls = {"nginx": "http://127.0.0.1:8082/", "cay": f"http://127.0.0.1:{self.served.port}/sandbox/proxy/{ident}/8080/",
                "direct": "http://127.0.0.1:8081/"}
        for url in urls.values():
            self.until_answered(url)
        for i in range(self.args.rounds):
            for column in ("nginx", "cay"):
                self.add(column, "proxy", self.wrk(urls[column], 32)[0])
            for column in ("nginx", "cay", "direct"):
                us = self.wrk(urls[column], 1)[1]
                self.add(*(("cay", "proxy_direct") if column == "direct" else (column, "proxy_one")), us)
            self.say(f"proxies, round {i + 1} of {self.args.rounds}")
        self.cay.remove(ident)

    def until_answered(self, url):
        for _ in range(100):
            done = subprocess.run(self.host.argv("curl", "-sf", "--max-time", "5", url), capture_output=True)
            if done.stdout == b"hello\n":
                return
            time.sleep(0.1)
        raise RuntimeError(f"{url} does not answer: {done.stdout[:200]!r}")

    def wrk(self, url, connections):
        """(requests a second, microseconds of one at the median)"""
        text = subprocess.run(self.host.argv("wrk", "-t1", f"-c{connections}", f"-d{self.args.seconds}s", "--latency", url),
                              capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in text or "Socket errors" in text:
            raise RuntimeError(f"{url}: {text}")
        half = text.split("50%")[1].split()[0]
        unit = next(u for u in ("us", "ms", "s") if half.endswith(u))
        us = float(half.removesuffix(unit)) * {"us": 1, "ms": 1000, "s": 1e6}[unit]
        return float(text.split("Requests/sec:")[1].split()[0]), us

    # ---- terminals ----

    def terminals(self):
        ident = self.cay.create(False)
        opened = self.cay.call("POST", f"/sandboxes/{ident}/terminal", {"cols": 80, "rows": 24})
        path = f"/sandbox/sandboxes/{ident}/terminal/{opened['sessionId']}/ws"
        with WebSocket(self.served.run / "cay.sock", path) as ws:
            for i in range(self.args.keys + 50):
                if i % 26 == 0:
                    ws.send(b"\x15")  # an empty line again
                key = b"%c" % (ord("a") + i % 26)
                time.sleep(0.002)
                start = time.monotonic_ns()
                ws.send(key)
                ws.until(key)
                self.add("cay" if i >= 50 else "warming", "terminal", (time.monotonic_ns() - start) / 1000)
        self.cay.remove(ident)

    # ---- all of it ----

    PARTS = ("creates", "paths", "crowd", "proxies", "terminals")

    def run(self):
        self.start()
        for part in self.PARTS:
            if self.args.only and part not in self.args.only.split(","):
                continue
            self.say(part)
            try:
                getattr(self, part)()
            except (RuntimeError, subprocess.CalledProcessError, OSError) as e:
                self.missing[part] = str(e)
                self.say(f"{part}: {e}")
        return results(self.samples)

    def stop(self):
        for thing in reversed(self.started):
            try:
                thing.stop()
            except Exception as e:  # the others have to be stopped too
                print(f"bench: {type(thing).__name__} was not cleaned up: {e}", file=sys.stderr)
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        for space in self.spaces:
            space.close()


class WebSocket:
    """As much of one as a terminal needs: short frames, no fragments."""

    def __init__(self, path, target):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(path))
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        self.stream = self.socket.makefile("rb")
        status = self.stream.readline()
        if b" 101 " not in status:
            raise RuntimeError(f"no WebSocket: {status!r}")
        while self.stream.readline() not in (b"\r\n", b""):
            pass

    def send(self, data):
        self.socket.sendall(struct.pack("!BB", 0x82, 0x80 | len(data)) + b"\0\0\0\0" + data)

    def until(self, wanted):
        while True:
            head = self.stream.read(2)
            size = head[1] & 127
            if size == 126:
                size = struct.unpack("!H", self.stream.read(2))[0]
            if wanted in self.stream.read(size):
                return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()


# ---- results ----


def results(samples):
    out = []
    for key, name, unit in ROWS:
        row = {"name": name, "unit": unit}
        for column in COLUMNS:
            values = samples.get(column, {}).get(key)
            if values:
                row[column] = {"p50": round(report.percentile(values, 50), 3),
                               "p99": round(report.percentile(values, 1 if unit in RATES else 99), 3), "n": len(values)}
        out.append(row)
    return out


def cell(row, column, which="p50"):
    if which not in row.get(column, {}):
        return "–"
    value, unit = row[column][which], row["unit"]
    if unit == "Gbit/s":
        return f"{value:.1f} Gbit/s"
    if unit == "req/s":
        return f"{value:,.0f}/s"
    return f"{value:.0f} µs" if abs(value) < 1000 else f"{value / 1000:.2f} ms" if value < 99950 else f"{value / 1000:.0f} ms"


def table(rows):
    lines = [["", "cay p50", "p99", "bare veth", "Docker", "nginx"]]
    for row in rows:
        lines.append([row["name"], cell(row, "cay"), cell(row, "cay", "p99"), *(cell(row, c) for c in COLUMNS[1:])])
    return lines


def markdown(rows):
    lines = table(rows)
    out = ["| " + " | ".join(line) + " |" for line in lines]
    out.insert(1, "|---" + "|---:" * (len(lines[0]) - 1) + "|")
    return "\n".join(out)


def bars(rows):
    """[(claim, what was measured, passed; None when it was not measured)]"""
    by_name = {row["name"]: row for row in rows}
    checks = []

    def p50(key, column="cay"):
        return by_name[NAMES[key]].get(column, {}).get("p50")

    def check(claim, value, passed, shown=report.times):
        checks.append((claim, "not measured" if value is None else shown(value), None if value is None else passed(value)))

    def part(one, other):
        return one / other if one is not None and other else None

    def us(value):
        return f"{value:.0f} µs"

    check(f"a network adds at most {ADDED_MAX_US} µs to a create", p50("added"), lambda v: v <= ADDED_MAX_US, us)
    check(f"create with a network: at least {DOCKER_FASTER}× faster than Docker with its bridge",
          part(p50("create", "docker"), p50("create")), lambda v: v >= DOCKER_FASTER)
    check(f"TCP out of a box: at least {THROUGHPUT_MIN}× of a bare veth", part(p50("throughput"), p50("throughput", "bare")),
          lambda v: v >= THROUGHPUT_MIN)
    check("TCP out of a box: at least as much as Docker's", part(p50("throughput"), p50("throughput", "docker")), lambda v: v >= 1)
    check(f"a byte there and back: at most {LATENCY_MAX}× of a bare veth", part(p50("rtt"), p50("rtt", "bare")),
          lambda v: v <= LATENCY_MAX)
    check("a byte there and back: at most Docker's", part(p50("rtt"), p50("rtt", "docker")), lambda v: v <= 1)
    for key, name in (("create", "create"), ("first", "first connect")):
        check(f"{name} with a policy in the crowd: at most {CROWD_MAX}× of alone",
              part(p50(f"{key}_crowd"), p50(f"{key}_alone")), lambda v: v <= CROWD_MAX)
    check(f"proxy: at least {PROXY_MIN}× of nginx's requests", part(p50("proxy"), p50("proxy", "nginx")), lambda v: v >= PROXY_MIN)
    added = p50("proxy_one") - p50("proxy_direct") if p50("proxy_one") and p50("proxy_direct") else None
    check(f"proxy: adds at most {PROXY_ADDED_US} µs", added, lambda v: v <= PROXY_ADDED_US, us)
    check(f"a key in a terminal: at most {TERMINAL_US} µs", p50("terminal"), lambda v: v <= TERMINAL_US, us)
    return checks


def main():
    parser = argparse.ArgumentParser(prog="tools/bench network", description="networks, the proxy and terminals")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--creates", type=int, default=200, help="creates of either kind (200)")
    parser.add_argument("--peers", type=int, default=15, help="creates of Docker's (15)")
    parser.add_argument("--rounds", type=int, default=5, help="of throughput and proxies (5)")
    parser.add_argument("--seconds", type=int, default=2, help="of one such measurement (2)")
    parser.add_argument("--crowd", type=int, default=CROWD, help=f"sandboxes ({CROWD})")
    parser.add_argument("--some", type=int, default=60, help="creates alone and in the crowd (60)")
    parser.add_argument("--keys", type=int, default=500, help="keys typed in a terminal (500)")
    parser.add_argument("--only", help="some of " + ",".join(Bench.PARTS))
    parser.add_argument("--markdown", action="store_true", help="print the table of the last run for a page")
    args = parser.parse_args()
    args.build = args.build.resolve()
    file = args.build / "bench-network.json"
    if args.markdown:
        print(markdown(json.loads(file.read_text())))
        return 0
    rows = session.run(lambda work: Bench(args, work))
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(report.aligned(table(rows)) + "\n")
    return session.verdict(bars(rows))


if __name__ == "__main__":
    sys.exit(main())
