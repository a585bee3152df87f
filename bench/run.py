"""Measures cay, the floor and the peers in turns, so that what else the machine does hits all of them."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import daemon
import loads
import peers
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
CROWD = report.CROWDS[-1]
SETTLE_S = 0.5  # what one column leaves running is not measured as part of the next
IDLE_CROWD = 200
WAITING = 100
LIVES_S = 3
CALM_S = 2  # what a column's many lives leave to the kernel and to its daemon is not measured as part of the next
IMAGE = "bench"
CREATES = 40  # whose CPU is counted together, since the clock of /proc/stat is coarse
PEER_CLIENTS = (1, 4, 8)


class Bench:
    def __init__(self, args, work):
        self.args = args
        self.work = work
        self.root = work / "root"
        self.programs = args.build / "bench"
        self.samples = {}
        self.missing = {}
        self.started = []  # what has to be stopped, in order
        self.cay = self.cold = self.warm = None

    def say(self, text):
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)

    def add(self, column, key, values):
        self.samples.setdefault(column, {}).setdefault(key, []).extend(values)

    def command(self, column, argv, host=False):
        """(argv, environment) of the program of a column, floor or client. The boxes show the same small root
        as those of the peers, or with host the machine's own /usr."""
        env = dict(os.environ)
        if not host:
            env.update(CAY_BENCH_ROOT=str(self.root), CAY_BENCH_IMAGE=IMAGE)
        if column == "floor":
            return [str(self.programs / "floor"), *argv], env
        daemon_of = {"cold": self.cold, "warm": self.warm}.get(column, self.cay)
        return [str(self.programs / "client"), daemon_of.url, *argv], env

    def measure(self, column, *argv, rename=lambda key: key, host=False):
        """Runs it and keeps the rows it prints; gives them too. The column cold is cay with nothing ready, warm is cay with
        boxes that wait."""
        owner = "cay" if column in ("cold", "warm") else column
        if owner in self.missing:
            return {}
        argv, env = self.command(column, argv, host)
        output = run_program(argv, env)
        found = {row["name"]: row["samples"] for row in map(json.loads, output.splitlines())}
        for key, values in found.items():
            if rename(key):
                self.add(owner, rename(key), values)
        return found

    def start(self):
        self.began = time.monotonic()
        if (load := os.getloadavg()[0]) > 1:
            self.say(f"the machine is busy (load {load:.1f}): ratios suffer, wait or run again")
        for column in report.COLUMNS:
            if column not in self.args.columns:
                self.missing[column] = "left out on request"
        peers.busybox_root(self.root)
        if "cay" not in self.missing:
            self.cay = self.start_daemon("cay")
            self.cold = self.start_daemon("cold", pool=0)
            self.warm = self.start_daemon("warm", warm=2, profiles=IMAGE)
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

    def start_daemon(self, name, **how):
        (self.work / name).mkdir()
        cay = daemon.Daemon(self.args.build / "cay", self.work / name, CROWD + 100, **how)
        self.started.append(cay)
        cay.start()
        cay.import_image(self.root, IMAGE)
        return cay

    def rounds(self):
        for i in range(self.args.rounds):
            self.say(f"round {i + 1} of {self.args.rounds}")
            for column in ("floor", "cay"):
                self.measure(column, "rows", "30")
                self.measure(column, "parallel", "4")
                self.measure(column, "rows", "10", host=True,
                             rename=lambda key: f"{key}_host" if key in ("create", "exec") else None)
                time.sleep(SETTLE_S)
            self.measure("floor", "cold", "10")
            self.measure("cold", "creates", "10", rename=lambda _: "cold")
            time.sleep(SETTLE_S)
            self.measure("floor", "warm", "20")
            self.measure("warm", "warm", "20")
            time.sleep(SETTLE_S)
            for peer in self.peers:
                for key, values in peer.measure(2).items():
                    self.add(peer.name, key, values)
                    if key == "create":  # they have nothing ready
                        self.add(peer.name, "cold", values)
                time.sleep(SETTLE_S)

    def throughput(self):
        for _ in range(max(1, self.args.rounds // 4)):
            self.say("throughput")
            for clients in (1, 8, 32):
                for column in ("floor", "cay"):
                    self.measure(column, "throughput", str(clients), "1",
                                 rename=lambda key, n=clients: f"{key}_{n}")

    # ---- many at once ----

    def holders(self):
        """The peers that keep boxes."""
        return [peer for peer in self.peers if hasattr(peer, "boxes")]

    def fill_floor(self):
        """Its boxes end with the process, which waits for the end of its input."""
        argv, env = self.command("floor", ["fill", str(CREATES)])
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as filled:
            try:
                with loads.Meter() as meter:
                    filled.stdout.readline()
            finally:
                filled.stdin.close()
                filled.wait()
        if filled.returncode != 0:
            raise RuntimeError(f"floor fill ended with {filled.returncode}")
        return meter.ms / CREATES

    def fill_cay(self):
        with loads.Meter() as meter:
            self.measure("cay", "fill", str(CREATES), rename=lambda _: None)
        self.measure("cay", "drain")
        return meter.ms / CREATES

    def creates(self):
        self.say(f"CPU per create, and bursts of {report.BURST}")
        for _ in range(2):
            if "floor" not in self.missing:
                self.add("floor", "cpu_create", [self.fill_floor()])
            if self.cay:
                self.add("cay", "cpu_create", [self.fill_cay()])
            for peer in self.holders():
                self.add(peer.name, "cpu_create", [loads.peer_creates(peer, CREATES // 4)])
            for column in ("floor", "cay"):
                self.measure(column, "burst", str(report.BURST))
                time.sleep(SETTLE_S)
        for peer in self.holders():
            self.add(peer.name, "burst", [peers.burst(peer, report.BURST)])
            time.sleep(SETTLE_S)

    def keep_lives(self, column, clients, rows, cpu):
        self.add(column, f"lives_{clients}", rows["lives"])
        self.add(column, f"create_lives_{clients}", rows["create"])
        self.add(column, f"cpu_life_{clients}", [cpu / max(1, len(rows["create"]))])

    def lives(self):
        for clients in report.LIVES:
            self.say(f"whole lives, {clients} at a time")
            for column in ("floor", "cay"):
                if column in self.missing:
                    continue
                time.sleep(CALM_S)
                with loads.Meter() as meter:
                    rows = self.measure(column, "lives", str(clients), str(LIVES_S), rename=lambda _: None)
                self.keep_lives(column, clients, rows, meter.ms)
            for peer in self.holders() if clients in PEER_CLIENTS else []:
                time.sleep(CALM_S)
                self.keep_lives(peer.name, clients, *loads.peer_lives(peer, clients, LIVES_S))

    def cycles(self):
        """Whether the rate stays what it is."""
        if not self.cay or not self.args.cycles:
            return
        self.say(f"{self.args.cycles} whole lives, 8 at a time")
        rows = self.measure("cay", "cycles", "8", str(self.args.cycles), rename=lambda _: None)
        self.add("cay", "cycles_first", rows["cycles"][:1])
        self.add("cay", "cycles_last", rows["cycles"][-1:])

    # ---- beside many others ----

    def crowd_rows(self, n):
        self.say("create and exec with " + report.plural(n, "sandbox"))
        self.measure("cay", "rows", "60",
                     rename=lambda key: f"{key}_{n}" if key in ("create", "exec") else None)

    def crowd(self):
        """What 200 idle sandboxes take, and what up to 500 do to the others."""
        self.crowd_rows(1)
        before = daemon.available_mib()
        there = 0
        for n in sorted({IDLE_CROWD, *report.CROWDS[1:]}):
            self.measure("cay", "fill", str(n - there), rename=lambda _: None)
            there = n
            if n in report.CROWDS:
                self.crowd_rows(n)
            if n == IDLE_CROWD:
                self.add("cay", "memory", [(before - daemon.available_mib()) / IDLE_CROWD])
                self.add("cay", "memory_cgroup", [self.cay.cgroup_mib()])
        self.measure("cay", "drain")
        self.crowd_rows(1)

    def run(self):
        self.start()
        if self.cay:
            self.cay_rss()
        self.rounds()
        self.throughput()
        self.creates()
        self.lives()
        if self.cay:
            for _ in range(3):
                self.measure("cay", "gets", "32", "1")
            self.cycles()
            self.crowd()
            self.waiting()
            self.cay_rss()
        return report.results(self.samples, self.missing)

    def waiting(self):
        """What the boxes that wait take."""
        self.say(f"memory of {WAITING} that wait")
        before = daemon.available_mib()
        self.warm.call("POST", "/profiles", {"image": IMAGE, "memory": 1024, "size": WAITING}, noun="pool")
        end = time.monotonic() + 60
        while time.monotonic() < end and self.warm.get("/sandbox/pool/status")["ready"] < WAITING + 2:
            time.sleep(0.2)
        made = self.warm.get("/sandbox/pool/status")["ready"] - 2
        if made > 0:
            self.add("cay", "memory_warm", [(before - daemon.available_mib()) / made])

    def cay_rss(self):
        self.add("cay", "rss", [self.cay.rss_mib()])
        self.add("cay", "pss", [self.cay.pss_mib()])

    def stop(self):
        for thing in reversed(self.started):
            try:
                thing.stop()
            except Exception as e:  # the others have to be stopped too
                print(f"bench: {type(thing).__name__} was not cleaned up: {e}", file=sys.stderr)


def write_tables(rows):
    for page, mark, whole in ((TOP / "README.md", "bench", False), (TOP / "docs/benchmarks.md", "bench all", True)):
        page.write_text(report.put_table(page.read_text(), mark, rows, whole))


def run_program(argv, env):
    """What it printed. When we are interrupted, it has the time to remove what it made."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=env) as program:
        try:
            output, errors = program.communicate()
        except BaseException:
            program.terminate()
            try:
                program.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                program.kill()
            raise
    if program.returncode != 0:
        raise RuntimeError(f"{' '.join(argv[-3:])}: {errors.strip()}")
    return output


def main():
    parser = argparse.ArgumentParser(prog="tools/bench", description="cay beside its floor and peers")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=12, help="rounds, some eight seconds each (12)")
    parser.add_argument("--cycles", type=int, default=report.CYCLES,
                        help=f"whole lives in a row, to see whether the rate stays; 0 = none ({report.CYCLES})")
    parser.add_argument("--columns", type=lambda s: s.split(","), default=report.COLUMNS,
                        help="which of " + ",".join(report.COLUMNS))
    parser.add_argument("--markdown", nargs="?", const="chosen", choices=["chosen", "all", "write"],
                        help="print the table of the last run, without a new run: the rows of the README, or all; "
                        "or write both, to the README and docs/benchmarks.md")
    args = parser.parse_args()
    results = args.build / "bench.json"
    if args.markdown:
        if not results.exists():
            sys.exit(f"bench: {results} does not exist: run tools/bench first")
        rows = json.loads(results.read_text())
        if args.markdown == "write":
            write_tables(rows)
        else:
            print(report.markdown(rows, args.markdown == "all"))
        return 0
    rows = session.run(lambda work: Bench(args, work))
    results.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(report.text(rows) + "\n")
    return session.verdict(report.bars(rows))


if __name__ == "__main__":
    sys.exit(main())
