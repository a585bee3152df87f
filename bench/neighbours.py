"""What a quiet sandbox's commands cost while its neighbour is a bomb."""
import argparse
import json
import pathlib
import subprocess
import sys
import time

import daemon
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
SLOWER_MAX = 2
SLICE_MS = 1500
SETTLE_S = 0.5  # until a bomb is at its worst, or what is left of it is gone
FLOOD_CLIENTS = 32

# Each runs in a sandbox of the default size, on the host image, until the sandbox is removed.
BOMBS = [
    ("cpu", "cpu: 16 spinning processes", "for i in $(seq 16); do while :; do :; done & done; wait"),
    ("fork", "fork bomb", "b() { b | b & }; b; sleep 1000"),
    ("memory", "memory, killed again and again", ["python3", "-c", """
import os
while True:
    if os.fork() == 0:
        x = []
        while True: x.append(bytearray(1 << 24))
    os.wait()
"""]),
    ("shm", "shared memory, filled and emptied", ["python3", "-c", """
import os
block = bytes(1 << 20)
while True:
    fd = os.open("/dev/shm/x", os.O_RDWR | os.O_CREAT)
    try:
        while True: os.write(fd, block)
    except OSError: pass
    os.close(fd)
    os.unlink("/dev/shm/x")
"""]),
    ("dirty", "dirty page cache", ["python3", "-c", """
import os
block = bytes(1 << 20)
fd = os.open("x", os.O_RDWR | os.O_CREAT)
while True:
    os.lseek(fd, 0, 0)
    for _ in range(1500): os.write(fd, block)
"""]),
    ("fsync", "fsync by 4 processes", ["python3", "-c", """
import os
for i in range(4):
    if os.fork() == 0:
        fd = os.open(f"x{i}", os.O_RDWR | os.O_CREAT)
        while True:
            os.pwrite(fd, bytes(4096), 0)
            os.fsync(fd)
os.wait()
"""]),
    ("fd", "descriptors, 40 processes with all they may have", ["python3", "-c", """
import os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
for _ in range(40):
    if os.fork() == 0:
        while True:
            held = []
            try:
                while True: held.append(os.open("/etc/passwd", 0))
            except OSError: pass
            for fd in held: os.close(fd)
os.wait()
"""]),
    ("zombies", "zombies, 200 at a time", ["python3", "-c", """
import os
while True:
    n = 0
    try:
        while n < 200:
            if os.fork() == 0: os._exit(0)
            n += 1
    except OSError: pass
    for _ in range(n): os.wait()
"""]),
    ("disk", "disk, filled and emptied", ["python3", "-c", """
import os
block = bytes(1 << 20)
while True:
    fd = os.open("x", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        while True: os.write(fd, block)
    except OSError: pass
    os.close(fd)
"""]),
    ("flood", f"exec flood, {FLOOD_CLIENTS} callers", None),
]


FLOOR = ("floor", "no cay: 16 spinning, bare cgroups on one core", None)


class Bench:
    """One daemon, one quiet sandbox, and one bomb at a time in a sandbox of its own. Quiet and bombed slices take
    turns, so that whatever else the machine does hits both."""

    def __init__(self, args, work):
        self.args = args
        self.work = work
        self.samples = {}
        self.cay = None
        self.caller = None

    def say(self, text):
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)

    def client(self, *argv):
        return [str(self.args.build / "bench" / "client"), self.cay.url, *map(str, argv)]

    def create(self, **fields):
        return self.cay.call("POST", "", {"image": "host", **fields})["id"]

    def slice(self, key, column):
        """Execs of the quiet sandbox, or commands beside the floor's bomb."""
        argv = self.client("execs", self.quiet, SLICE_MS)
        if key == "floor":
            argv = [str(self.args.build / "bench" / "floor-neighbour"), str(SLICE_MS), column]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{key}, {column}: {done.stderr.strip()}")
        for line in done.stdout.splitlines():
            self.samples.setdefault(key, {}).setdefault(column, []).extend(json.loads(line)["samples"])

    def bombed(self, key, command):
        if key == "floor":
            self.slice(key, "bombed")
            return
        bomb = self.create(memory=512, disk=1024)
        try:
            if command:
                self.cay.call("POST", f"/{bomb}/exec/background", {"command": command})
            else:
                seconds = int(SETTLE_S + SLICE_MS / 1000) + 1
                self.caller = subprocess.Popen(self.client("flood", bomb, FLOOD_CLIENTS, seconds))
            time.sleep(SETTLE_S)
            self.slice(key, "bombed")
        finally:
            if self.caller:
                self.caller.wait()
                self.caller = None
            self.cay.call("DELETE", f"/{bomb}")
        time.sleep(SETTLE_S)

    def run(self):
        self.began = time.monotonic()
        self.cay = daemon.Daemon(self.args.build / "cay", self.work, 10)
        self.cay.start()
        self.quiet = self.create()
        self.slice("warm", "quiet")
        for key, name, command in self.args.bombs:
            self.say(f"{name}, {self.args.rounds} times")
            for _ in range(self.args.rounds):
                self.slice(key, "quiet")
                self.bombed(key, command)
        return results(self.samples, self.args.bombs)

    def stop(self):
        if self.caller:
            self.caller.terminate()
            self.caller.wait()
        if self.cay:
            self.cay.stop()


# ---- results ----


def results(samples, bombs):
    """The form of bench.json, with the columns quiet and bombed."""
    out = []
    for key, name, _ in bombs:
        row = {"name": name, "unit": "us"}
        for column in ("quiet", "bombed"):
            values = samples[key][column]
            row[column] = {"p50": round(report.percentile(values, 50), 3),
                           "p99": round(report.percentile(values, 99), 3), "n": len(values)}
        out.append(row)
    return out


def slower(row, which):
    return row["bombed"][which] / row["quiet"][which]


def lines(rows):
    out = [["neighbour", "quiet p50", "p99", "bombed p50", "p99", "p50 ÷ p50", "p99 ÷ p99", "n"]]
    for row in rows:
        out.append([row["name"], *(report.number(row[c][w], "us") for c in ("quiet", "bombed") for w in ("p50", "p99")),
                    report.times(slower(row, "p50")), report.times(slower(row, "p99")), str(row["bombed"]["n"])])
    return out


def markdown(rows):
    table = lines(rows)
    out = ["| " + " | ".join(line) + " |" for line in table]
    out.insert(1, "|---" + "|---:" * (len(table[0]) - 1) + "|")
    return "\n".join(out)


def bars(rows):
    """[(claim, what was measured, passed)]: the floor's is that of the kernel."""
    return [(f"{row['name']}: p99 of an exec beside it at most {SLOWER_MAX}× of quiet",
             report.times(slower(row, "p99")), slower(row, "p99") <= SLOWER_MAX) for row in rows
            if row["name"] != FLOOR[1]]


def main():
    parser = argparse.ArgumentParser(prog="tools/bench neighbours",
                                     description="commands of a quiet sandbox beside a bomb")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=5, help="turns of quiet and bombed for each bomb (5)")
    parser.add_argument("--only", help="bombs to try, of " + ",".join(b[0] for b in [FLOOR, *BOMBS]))
    parser.add_argument("--markdown", action="store_true", help="print the table of the last run, for SECURITY.md")
    args = parser.parse_args()
    args.build = args.build.resolve()
    if args.markdown:
        print(markdown(json.loads((args.build / "bench-neighbours.json").read_text())))
        return 0
    args.bombs = [b for b in [FLOOR, *BOMBS] if not args.only or b[0] in args.only.split(",")]
    rows = session.run(lambda work: Bench(args, work))
    (args.build / "bench-neighbours.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(report.aligned(lines(rows)) + "\n")
    return session.verdict(bars(rows))


if __name__ == "__main__":
    sys.exit(main())
