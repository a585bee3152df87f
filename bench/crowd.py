"""What short calls cost beside thousands that wait: idle streams, sleeping execs, attached terminals."""
import argparse
import http.client
import json
import os
import pathlib
import subprocess
import sys
import time

import daemon
import peers
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "integration"))

from cay_crowd import ENTRYPOINT, WHOLE, Crowd, parked, status_of  # noqa: E402

SANDBOXES = 30
IMAGE = "bench"
GROWTH_MAX_MIB = 64
SLOWER_MAX = 3
SLICE = 20  # sandboxes that one daemon makes and removes before it is the other's turn
SETTLE_S = 1  # the start of 700 commands is not what is measured
COLUMNS = ["idle", "crowd"]


class Bench:
    """Two daemons with the same sandboxes, one of them with the crowd, asked in turns: what else the machine
    does hits both."""

    def __init__(self, args, work):
        self.args = args
        self.work = work
        self.samples = {column: {} for column in COLUMNS}
        self.daemons = {}

    def say(self, text):
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)

    def add(self, column, key, values):
        self.samples[column].setdefault(key, []).extend(values)

    def start(self, column, root):
        """Gives the sandboxes that the crowd is spread over."""
        work = self.work / column
        work.mkdir()
        cay = self.daemons[column] = daemon.Daemon(self.args.build / "cay", work, SANDBOXES + 50)
        cay.start()
        cay.import_image(root, IMAGE)
        return [make_sandbox(cay) for _ in range(SANDBOXES)]

    def measure(self, column):
        cay = self.daemons[column]
        argv = [str(self.args.build / "bench" / "client"), cay.url, "short", str(SLICE)]
        done = subprocess.run(argv, capture_output=True, text=True,
                              env=dict(os.environ, CAY_BENCH_IMAGE=IMAGE))
        if done.returncode != 0:
            raise RuntimeError(f"{column}: {done.stderr.strip()}")
        for line in done.stdout.splitlines():
            row = json.loads(line)
            self.add(column, row["name"], row["samples"])
        self.add(column, "rss", [cay.rss_mib()])
        self.add(column, "threads", [status_of(cay.process.pid, "Threads")])

    def in_turns(self, pid, alone):
        deadline = time.monotonic() + 60
        while parked(pid) < alone + sum(WHOLE):
            if time.monotonic() > deadline:
                raise RuntimeError("the crowd was not parked")
            time.sleep(0.05)
        time.sleep(SETTLE_S)
        self.say(f"{self.args.slices} times {SLICE} sandboxes in turns")
        for i in range(self.args.slices):
            for column in COLUMNS if i % 2 else reversed(COLUMNS):
                self.measure(column)
        if parked(pid) < alone + sum(WHOLE):
            raise RuntimeError("some of the crowd did not stay")

    def run(self):
        self.began = time.monotonic()
        root = self.work / "root"
        peers.busybox_root(root)
        self.start("idle", root)
        ids = self.start("crowd", root)
        cay = self.daemons["crowd"]
        alone = parked(cay.process.pid)
        self.say(f"a crowd of {sum(WHOLE)}")
        with Crowd(cay.port) as crowd:
            crowd.gather(ids)
            self.in_turns(cay.process.pid, alone)
        return results(self.samples)

    def stop(self):
        for cay in self.daemons.values():
            cay.stop()


def make_sandbox(cay):
    connection = http.client.HTTPConnection("127.0.0.1", cay.port, timeout=30)
    try:
        connection.request("POST", "/sandbox/sandboxes",
                           json.dumps({"image": IMAGE, "entrypoint": ENTRYPOINT}),
                           {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())["id"]
    finally:
        connection.close()


# ---- results ----

ROWS = [
    ("health", "health", "us"),
    ("delete", "DELETE of a sandbox", "us"),
    ("rss", "daemon, RSS", "MiB"),
    ("threads", "daemon, threads", "threads"),
]


def results(samples):
    """The form of bench.json, with the columns idle and crowd."""
    out = []
    for key, name, unit in ROWS:
        row = {"name": name, "unit": unit}
        for column, found in samples.items():
            values = found[key]
            row[column] = {"p50": round(report.percentile(values, 50), 3),
                           "p99": round(report.percentile(values, 99), 3), "n": len(values)}
        out.append(row)
    return out


def table(rows):
    lines = [["", "idle p50", "p99", "in a crowd p50", "p99", "p99 ÷ p99", "n"]]
    for row in rows:
        def cell(column, which, row=row):
            value = row[column][which]
            return f"{value:.0f}" if row["unit"] == "threads" else report.number(value, row["unit"])

        lines.append([row["name"], cell("idle", "p50"), cell("idle", "p99"), cell("crowd", "p50"),
                      cell("crowd", "p99"), report.times(row["crowd"]["p99"] / row["idle"]["p99"]),
                      str(row["crowd"]["n"])])
    return report.aligned(lines)


def bars(rows):
    """[(claim, what was measured, passed)]"""
    by_name = {row["name"]: row for row in rows}
    checks = []
    for _, name, unit in ROWS[:2]:
        slower = by_name[name]["crowd"]["p99"] / by_name[name]["idle"]["p99"]
        checks.append((f"{name}: p99 in a crowd at most {SLOWER_MAX}× of idle", report.times(slower),
                       slower <= SLOWER_MAX))
    rss = by_name["daemon, RSS"]
    grown = rss["crowd"]["p99"] - rss["idle"]["p50"]
    checks.append((f"daemon: grows by at most {GROWTH_MAX_MIB} MiB", f"{grown:.1f} MiB",
                   grown <= GROWTH_MAX_MIB))
    return checks


def main():
    parser = argparse.ArgumentParser(prog="tools/bench crowd",
                                     description="short calls beside thousands that wait")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--slices", type=int, default=50, help=f"turns of each daemon, {SLICE} deletes and "
                        f"five times as many calls of health (50, which sees two pings of every stream)")
    args = parser.parse_args()
    args.build = args.build.resolve()
    rows = session.run(lambda work: Bench(args, work))
    (args.build / "bench-crowd.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(table(rows) + "\n")
    return session.verdict(bars(rows))


if __name__ == "__main__":
    sys.exit(main())
