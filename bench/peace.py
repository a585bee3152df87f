"""What a quiet sandbox's commands cost while the daemon works for others: lives, creates, pulls, teardown.

`tools/bench peace` prints a table, writes build/bench-peace.json and checks the bar."""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import daemon
import images
import peers
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
SLOWER_MAX = 2
SLICE_MS = 1000
SETTLE_S = 0.3  # until a disturber is at work, or what is left of its work is done
IMAGE = "bench"
LIVES_CLIENTS = 2
BURST_CLIENTS, BURST_EACH = 4, 125  # they are stopped with the slice
PULL_MIB, PULL_LAYERS = 128, 4
WRITERS, WRITTEN_MIB = 8, 64

# Key, name, what of its work is counted. The first two are no work of cay's: what the kernel's scheduler makes of
# busy processors alone.
ALONE = [
    ("floor", "no cay: 16 spinning, bare cgroups on one core", None),
    ("spin", "two spinning processes of the host", None),
]
WORK = [
    ("lives", f"create, exec, kill by {LIVES_CLIENTS} clients", "lives"),
    ("burst", f"creates by {BURST_CLIENTS} clients", "creates"),
    ("pull", f"pulls of {PULL_MIB} MiB, one after the other", "pulls"),
    ("teardown", f"removal of sandboxes that wrote {WRITTEN_MIB} MiB", "removals"),
]


class Bench:
    """One daemon, one quiet sandbox, one disturber at a time. Quiet and disturbed slices take turns, so that whatever
    else the machine does hits both."""

    def __init__(self, args, work):
        self.args, self.work = args, work
        self.samples, self.missing = {}, {}
        self.done = {}  # {key: [work a second]}
        self.callers = []  # programs that disturb
        self.threads = []
        self.over = threading.Event()  # for threads that disturb
        self.started = []  # what has to be stopped, in order

    def say(self, text):
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)

    # ---- the quiet one ----

    def slice(self, key, column):
        argv = [str(self.args.build / "bench" / "client"), self.cay.url, "execs", self.quiet, str(SLICE_MS)]
        if key == "floor":
            argv = [str(self.args.build / "bench" / "floor-neighbour"), str(SLICE_MS),
                    "bombed" if column == "disturbed" else "quiet"]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{key}, {column}: {done.stderr.strip()}")
        for line in done.stdout.splitlines():
            self.samples.setdefault(key, {}).setdefault(column, []).extend(json.loads(line)["samples"])

    # ---- those who disturb: each a context, which counts its work when it ends ----

    def spawn(self, *argv):
        caller = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  text=True, env=dict(os.environ, CAY_BENCH_IMAGE=IMAGE))
        self.callers.append(caller)
        return caller

    def client(self, *argv):
        return self.spawn(self.args.build / "bench" / "client", self.cay.url, *argv)

    def finish(self, *stop_with):
        """Waits for the programs, or ends them. Gives the lines of those that were in order."""
        out = []
        while self.callers:
            caller = self.callers[-1]
            if stop_with and caller.poll() is None:
                caller.send_signal(*stop_with)
            text = caller.communicate()[0]
            self.callers.pop()
            if caller.returncode != 0 and -caller.returncode not in stop_with:
                raise RuntimeError(f"{caller.args[2]} ended with {caller.returncode}")
            out += [json.loads(line) for line in text.splitlines()]
        return out

    @contextlib.contextmanager
    def thread(self, key, body):
        """body(count) works until it sees that it is over, and calls count() for each piece; what it fails with is the
        benchmark's failure."""
        made, failed, began = [0], [], time.monotonic()

        def count():
            made[0] += 1

        def work():
            try:
                body(count)
            except Exception as e:
                failed.append(e)

        thread = threading.Thread(target=work)
        self.over.clear()
        self.threads.append(thread)
        thread.start()
        yield
        self.over.set()
        thread.join()
        self.threads.pop()
        if failed:
            raise RuntimeError(str(failed[0]))
        self.count(key, made[0] / (time.monotonic() - began))

    @contextlib.contextmanager
    def floor(self):
        yield

    @contextlib.contextmanager
    def spin(self):
        for _ in range(2):
            self.spawn("/bin/sh", "-c", "while :; do :; done")
        time.sleep(SETTLE_S)
        yield
        self.finish(signal.SIGKILL)

    @contextlib.contextmanager
    def lives(self):
        self.client("lives", LIVES_CLIENTS, int(SETTLE_S + SLICE_MS / 1000) + 1)
        time.sleep(SETTLE_S)
        yield
        self.count("lives", next(row["samples"][0] for row in self.finish() if row["name"] == "lives"))

    @contextlib.contextmanager
    def burst(self):
        began = time.monotonic()
        for _ in range(BURST_CLIENTS):
            self.client("fill", BURST_EACH)
        yield
        elapsed = time.monotonic() - began
        self.count("burst", sum(len(row["samples"]) for row in self.finish(signal.SIGTERM)) / elapsed)
        self.drain()

    @contextlib.contextmanager
    def pull(self):
        def body(count):
            while not self.over.is_set():
                self.puller.command("image", "pull", "-q", self.ref)
                count()
                self.puller.command("image", "rm", self.ref)

        with self.thread("pull", body):
            time.sleep(SETTLE_S)
            yield

    @contextlib.contextmanager
    def teardown(self):
        """The writing is over, and on the disk, before the slice."""
        writers = [self.create() for _ in range(WRITERS)]
        for box in writers:
            wrote = self.cay.call("POST", f"/{box}/exec", {
                "command": ["/bin/busybox", "dd", "if=/dev/zero", "of=/workspace/x", "bs=1M", f"count={WRITTEN_MIB}"]})
            if wrote["exitCode"] != 0:
                raise RuntimeError(f"dd: {wrote}")
        os.sync()

        def body(count):
            for box in writers:
                self.cay.call("DELETE", f"/{box}")
                count()
                self.over.wait(SLICE_MS / 1000 / WRITERS)

        with self.thread("teardown", body):
            yield

    def count(self, key, rate):
        self.done.setdefault(key, []).append(rate)

    # ---- the run ----

    def create(self):
        return self.cay.call("POST", "", {"image": IMAGE, "memory": 512})["id"]

    def drain(self):
        """All but the quiet one."""
        while True:
            ids = [box["id"] for box in self.cay.call("GET", "?pageSize=200")["items"] if box["id"] != self.quiet]
            if not ids:
                return
            for box in ids:
                self.cay.call("DELETE", f"/{box}")

    def start_registry(self):
        """Before the daemon, which has to be told that it may be spoken to without TLS."""
        if not any(key == "pull" for key, _, _ in self.args.rows):
            return
        if not shutil.which("docker-registry"):
            self.missing["pull"] = "docker-registry is not installed"
            return
        registry = images.Registry(self.work / "registry")
        self.started.append(registry)
        registry.start()
        os.environ["CAY_INSECURE_REGISTRIES"] = registry.host
        self.say(f"an image of {PULL_MIB} MiB of this machine's own files")
        layers = images.slices(("/usr/lib", "/usr/share"), PULL_LAYERS, PULL_MIB * images.MIB // PULL_LAYERS)
        self.ref = registry.push("bench/peace:1", images.Image(*layers, coding="gzip", level=1))

    def start(self):
        self.began = time.monotonic()
        self.start_registry()
        root = self.work / "root"
        peers.busybox_root(root)
        (self.work / "cay").mkdir()
        self.cay = daemon.Daemon(self.args.build / "cay", self.work / "cay", BURST_CLIENTS * BURST_EACH + 50)
        self.started.append(self.cay)
        self.cay.start()
        self.cay.import_image(root, IMAGE)
        self.puller = images.Cay(str(self.args.build / "cay"), self.cay)
        self.quiet = self.create()
        self.slice("warm", "quiet")

    def run(self):
        self.start()
        for key, name, _ in self.args.rows:
            if key in self.missing:
                self.say(f"without {name}: {self.missing[key]}")
                continue
            self.say(f"{name}, {self.args.rounds} times")
            for _ in range(self.args.rounds):
                self.slice(key, "quiet")
                with getattr(self, key)():
                    self.slice(key, "disturbed")
                time.sleep(SETTLE_S)
        return results(self.samples, self.done, self.missing, self.args.rows)

    def stop(self):
        self.over.set()
        for caller in self.callers:
            caller.terminate()
        for caller in self.callers:
            caller.communicate()
        for thread in self.threads:
            thread.join()
        for thing in reversed(self.started):
            try:
                thing.stop()
            except Exception as e:  # the others have to be stopped too
                print(f"bench: {type(thing).__name__} was not cleaned up: {e}", file=sys.stderr)


# ---- results ----


def results(samples, done, missing, wanted):
    """The form of bench.json, with the columns quiet and disturbed, and what the disturber got done a second."""
    out = []
    for key, name, what in wanted:
        row = {"name": name, "unit": "us"}
        if key in missing:
            row["disturbed"] = {"unavailable": missing[key]}
            out.append(row)
            continue
        for column in ("quiet", "disturbed"):
            values = samples[key][column]
            row[column] = {"p50": round(report.percentile(values, 50), 3),
                           "p99": round(report.percentile(values, 99), 3), "n": len(values)}
        if what:
            row["meanwhile"] = {"p50": round(report.percentile(done[key], 50), 3), "unit": f"{what}/s"}
        out.append(row)
    return out


def slower(row, which):
    return row["disturbed"][which] / row["quiet"][which]


def meanwhile(row):
    work = row.get("meanwhile")
    return f"{work['p50']:.{0 if work['p50'] >= 10 else 1}f} {work['unit']}" if work else ""


def lines(rows):
    out = [["beside", "quiet p50", "p99", "disturbed p50", "p99", "p50 ÷ p50", "p99 ÷ p99", "n", "meanwhile"]]
    for row in rows:
        if "quiet" not in row:
            out.append([row["name"], *["–"] * 7, row["disturbed"]["unavailable"]])
            continue
        cells = [report.number(row[c][w], "us") for c in ("quiet", "disturbed") for w in ("p50", "p99")]
        out.append([row["name"], *cells, report.times(slower(row, "p50")), report.times(slower(row, "p99")),
                    str(row["disturbed"]["n"]), meanwhile(row)])
    return out


def markdown(rows):
    table = lines(rows)
    out = ["| " + " | ".join(line) + " |" for line in table]
    out.insert(1, "|---" + "|---:" * (len(table[0]) - 1) + "|")
    return "\n".join(out)


def alone(rows):
    """What the rows say that are no work of cay's: the same without it."""
    names = [name for _, name, _ in ALONE]
    ratios = [report.times(slower(row, "p99")) for row in rows if row["name"] in names and "quiet" in row]
    return f", where the kernel alone has {' and '.join(ratios)}" if ratios else ""


def bars(rows):
    """[(claim, what was measured, passed; None when it was not measured)]: the first rows are the kernel's."""
    checks = []
    for row in rows:
        if row["name"] in (name for _, name, _ in ALONE):
            continue
        claim = f"{row['name']}: p99 of an exec beside it at most {SLOWER_MAX}× of quiet"
        if "quiet" not in row:
            checks.append((claim, "not measured", None))
        elif row["meanwhile"]["p50"] == 0:
            checks.append((claim, "nothing was done beside it", False))
        else:
            ratio = slower(row, "p99")
            checks.append((claim, report.times(ratio) + alone(rows), ratio <= SLOWER_MAX))
    return checks


def main():
    everything = [*ALONE, *WORK]
    parser = argparse.ArgumentParser(prog="tools/bench peace",
                                     description="commands of a quiet sandbox while the daemon works for others")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=8, help="turns of quiet and disturbed for each (8)")
    parser.add_argument("--only", help="what to try, of " + ",".join(key for key, _, _ in everything))
    parser.add_argument("--markdown", action="store_true", help="print the table of the last run, without a new one")
    args = parser.parse_args()
    args.build = args.build.resolve()
    path = args.build / "bench-peace.json"
    if args.markdown:
        if not path.exists():
            sys.exit(f"bench: {path} does not exist: run tools/bench peace first")
        print(markdown(json.loads(path.read_text())))
        return 0
    args.rows = [row for row in everything if not args.only or row[0] in args.only.split(",")]
    rows = session.run(lambda work: Bench(args, work))
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(report.aligned(lines(rows)) + "\n")
    return session.verdict(bars(rows))


if __name__ == "__main__":
    sys.exit(main())
