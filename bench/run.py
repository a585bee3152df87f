"""Measures cay, the floor and the peers in turns, so that what else the machine does hits all of them."""
import argparse
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
CROWD = 500
SETTLE_S = 0.5  # what one column leaves running is not measured as part of the next
IDLE_CROWD = 200
IMAGE = "bench"


class Bench:
    def __init__(self, args, work):
        self.args = args
        self.work = work
        self.root = work / "root"
        self.programs = args.build / "bench"
        self.samples = {}
        self.missing = {}
        self.started = []  # what has to be stopped, in order
        self.cay = None

    def say(self, text):
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)

    def add(self, column, key, values):
        self.samples.setdefault(column, {}).setdefault(key, []).extend(values)

    def measure(self, column, *argv, rename=lambda key: key, host=False):
        """Runs the program of a column, floor or client, and keeps the rows it prints. The boxes show the
        same small root as those of the peers, or with host the machine's own /usr."""
        if column in self.missing:
            return
        if column == "floor":
            argv = [str(self.programs / "floor"), *argv]
        else:
            argv = [str(self.programs / "client"), self.cay.url, *argv]
        env = dict(os.environ, CAY_BENCH_ROOT=str(self.root), CAY_BENCH_IMAGE=IMAGE)
        if host:
            del env["CAY_BENCH_ROOT"], env["CAY_BENCH_IMAGE"]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv[-3:])}: {done.stderr.strip()}")
        for line in done.stdout.splitlines():
            row = json.loads(line)
            if rename(row["name"]):
                self.add(column, rename(row["name"]), row["samples"])

    def start(self):
        self.began = time.monotonic()
        if (load := os.getloadavg()[0]) > 1:
            self.say(f"the machine is busy (load {load:.1f}): ratios suffer, wait or run again")
        for column in report.COLUMNS:
            if column not in self.args.columns:
                self.missing[column] = "left out on request"
        peers.busybox_root(self.root)
        if "cay" not in self.missing:
            (self.work / "cay").mkdir()
            self.cay = daemon.Daemon(self.args.build / "cay", self.work / "cay", CROWD + 100)
            self.started.append(self.cay)
            self.cay.start()
            self.cay.import_image(self.root, IMAGE)
        self.peers = []
        for kind in peers.ALL:
            if kind.name in self.missing:
                continue
            peer = kind(self.work)
            self.started.append(peer)
            try:
                peer.start()
                self.peers.append(peer)
            except peers.Unavailable as e:
                self.missing[kind.name] = str(e)
                self.say(f"without {kind.name}: {e}")
                peer.stop()

    def rounds(self):
        for i in range(self.args.rounds):
            self.say(f"round {i + 1} of {self.args.rounds}")
            for column in ("floor", "cay"):
                self.measure(column, "rows", "30")
                self.measure(column, "parallel", "4")
                self.measure(column, "rows", "10", host=True,
                             rename=lambda key: f"{key}_host" if key in ("create", "exec") else None)
                time.sleep(SETTLE_S)
            for peer in self.peers:
                for key, values in peer.measure(2).items():
                    self.add(peer.name, key, values)
                time.sleep(SETTLE_S)

    def throughput(self):
        for i in range(max(1, self.args.rounds // 4)):
            self.say("throughput")
            for clients in (1, 8, 32):
                for column in ("floor", "cay"):
                    self.measure(column, "throughput", str(clients), "1",
                                 rename=lambda key, n=clients: f"{key}_{n}")

    def crowd_rows(self, suffix):
        self.measure("cay", "rows", "100",
                     rename=lambda key: f"{key}_{suffix}" if key in ("create", "exec") else None)

    def crowd(self):
        """What 200 idle sandboxes take, and what 500 do to the others."""
        self.crowd_rows(1)
        self.say(f"memory of {IDLE_CROWD} idle sandboxes")
        before = daemon.available_mib()
        self.measure("cay", "fill", str(IDLE_CROWD), rename=lambda key: None)
        self.add("cay", "memory", [(before - daemon.available_mib()) / IDLE_CROWD])
        self.add("cay", "memory_cgroup", [self.cay.cgroup_mib()])
        self.say(f"with {CROWD} sandboxes")
        self.measure("cay", "fill", str(CROWD - IDLE_CROWD), rename=lambda key: None)
        self.crowd_rows(CROWD)
        self.measure("cay", "drain")
        self.say("without them again")
        self.crowd_rows(1)

    def run(self):
        self.start()
        if self.cay:
            self.cay_rss()
        self.rounds()
        self.throughput()
        if self.cay:
            self.crowd()
            self.cay_rss()
        return report.results(self.samples, self.missing)

    def cay_rss(self):
        self.add("cay", "rss", [self.cay.rss_mib()])
        self.add("cay", "pss", [self.cay.pss_mib()])

    def stop(self):
        for thing in reversed(self.started):
            try:
                thing.stop()
            except Exception as e:  # the others have to be stopped too
                print(f"bench: {type(thing).__name__} was not cleaned up: {e}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench", description="cay beside its floor and peers")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=24, help="rounds, a few seconds each (24)")
    parser.add_argument("--columns", type=lambda s: s.split(","), default=report.COLUMNS,
                        help="which of " + ",".join(report.COLUMNS))
    parser.add_argument("--markdown", action="store_true",
                        help="print the table of the last run for the README, without a new run")
    args = parser.parse_args()
    results = args.build / "bench.json"
    if args.markdown:
        if not results.exists():
            sys.exit(f"bench: {results} does not exist: run tools/bench first")
        print(report.markdown(json.loads(results.read_text())))
        return 0
    rows = session.run(lambda work: Bench(args, work))
    results.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(report.text(rows) + "\n")
    return session.verdict(report.bars(rows))


if __name__ == "__main__":
    sys.exit(main())
