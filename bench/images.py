"""Pulls one image from one registry on the loopback with cay and with its peers, in turns; and what
layers cost when a sandbox is made from them.

`tools/bench images` prints a table, writes build/bench-images.json and checks the bars."""
import argparse
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import threading
import time

import daemon
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "integration"))

from cay_oci import Image, Registry, busybox_entries, disk_usage, folder, layer, text  # noqa: E402

COLUMNS = ["cay", "skopeo+umoci", "podman"]
CODINGS = {"gzip": 6, "zstd": 3}  # with the levels that most images are made with
LAYERS = 4
MANY = 10  # layers
BATCH = 10  # sandboxes, before it is the other image's turn
MIB = 1 << 20


# ---- the image ----


def files_of(*tops):
    for top in tops:
        for where, names, files in os.walk(top):
            names.sort()
            for name in sorted(files):
                yield os.path.join(where, name)


def slices(tops, n, size):
    """n archives of about that many bytes each: real files, as they are on this machine."""
    source = files_of(*tops)
    for _ in range(n):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in source:
                try:
                    tar.add(path, recursive=False)
                except OSError:
                    continue  # it went away
                if out.tell() >= size:
                    break
        yield out.getvalue()


# ---- who pulls ----


# A process of its own, since a child's peak begins with the size of the process that it was forked from.
MEASURE = """
import json, os, subprocess, sys, time
began = time.monotonic()
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
status, usage = os.wait4(process.pid, 0)[1:]
print(json.dumps([time.monotonic() - began, usage.ru_maxrss / 1024]))
sys.stdout.flush()
os._exit(min(255, abs(os.waitstatus_to_exitcode(status))))
"""


def run(argv, env=None):
    """Time in seconds and peak memory in MiB, of the program and of those that it started."""
    done = subprocess.run([sys.executable, "-SEc", MEASURE, *argv], env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


class SkopeoUmoci:
    name = "skopeo+umoci"

    def __init__(self, work):
        self.work = work / "skopeo"
        for program in ("skopeo", "umoci"):
            if not shutil.which(program):
                raise FileNotFoundError(f"{program} is not installed")

    def pull(self, ref):
        """An OCI layout, and then a directory from it. umoci knows gzip only."""
        self.work.mkdir()
        layout = f"{self.work}/layout:1"
        copy, first = run(["skopeo", "copy", "-q", "--src-tls-verify=false", f"docker://{ref}",
                           f"oci:{layout}"])
        unpack, second = run(["umoci", "unpack", "--image", layout, f"{self.work}/bundle"])
        return copy + unpack, max(first, second)

    def forget(self):
        shutil.rmtree(self.work, ignore_errors=True)


class Podman:
    name = "podman"

    def __init__(self, work, driver):
        if not shutil.which("podman"):
            raise FileNotFoundError("podman is not installed")
        self.work = work / f"podman-{driver}"
        self.base = ["podman", "--root", f"{self.work}/root", "--runroot", f"{self.work}/run", "--tmpdir",
                     f"{self.work}/tmp", "--storage-driver", driver, "--cgroup-manager", "cgroupfs",
                     "--events-backend", "none"]

    def pull(self, ref):
        return run([*self.base, "pull", "-q", "--tls-verify=false", ref])

    def forget(self):
        for where, _, _ in os.walk(self.work):
            if os.path.ismount(where):
                subprocess.run(["umount", "-l", where], capture_output=True)
        shutil.rmtree(self.work, ignore_errors=True)


def podman(work, ref):
    """With the storage driver that is faster on this machine."""
    best = None
    for driver in ("overlay", "vfs"):
        peer = Podman(work, driver)
        try:
            seconds, _ = peer.pull(ref)
        except RuntimeError as e:
            print(f"bench: podman with {driver}: {e}", file=sys.stderr)
            continue
        finally:
            peer.forget()
        if best is None or seconds < best[0]:
            best = (seconds, peer, driver)
    if best is None:
        raise FileNotFoundError("podman pulls with no storage driver here")
    best[1].driver = best[2]
    return best[1]


def status_kib(pid, key, file="status"):
    try:
        for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


def children_of(pid):
    for listed in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from listed.read_text().split()
        except OSError:
            continue


def is_worker(pid):
    try:
        return "cay-image" in pathlib.Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False


class Peak:
    """The most that the image worker's processes had together, what they share counted once, and what the
    daemon grew by meanwhile."""

    def __init__(self, pid):
        self.pid, self.worker, self.over = pid, 0, threading.Event()
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # VmHWM starts anew
        self.before = status_kib(pid, "VmRSS:")
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.over.wait(0.01):
            parts = [p for first in children_of(self.pid) if is_worker(first)
                     for p in (first, *children_of(first))]
            self.worker = max(self.worker, sum(status_kib(p, "Pss:", "smaps_rollup") for p in parts))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.grown = max(0, status_kib(self.pid, "VmHWM:") - self.before)

    @property
    def mib(self):
        return (self.worker + self.grown) / 1024


class Cay:
    name = "cay"

    def __init__(self, program, served):
        self.program, self.served = program, served
        self.env = dict(os.environ, CAY_RUN=str(served.run), CAY_DATA=str(served.work / "data"))

    def command(self, *words):
        done = subprocess.run([self.program, *words], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"cay {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def pull(self, ref):
        with Peak(self.served.process.pid) as peak:
            seconds, _ = run([self.program, "image", "pull", "-q", ref], self.env)
        if not peak.worker:
            raise RuntimeError("the image worker was not seen, so its memory is not known")
        self.ref = ref
        return seconds, peak.mib

    def forget(self):
        self.command("image", "rm", self.ref)
        layers = self.served.work / "data" / "images" / "layers"
        while any(layers.iterdir()):
            time.sleep(0.02)


# ---- the run ----


class Bench:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.samples, self.missing, self.started = {}, {}, []
        self.everyone = []

    def say(self, words):
        print(f"[{time.monotonic() - self.began:4.0f} s] {words}", file=sys.stderr, flush=True)

    def add(self, column, key, value):
        self.samples.setdefault(column, {}).setdefault(key, []).append(value)

    def start(self):
        self.began = time.monotonic()
        self.registry = Registry(self.work / "registry")
        self.registry.start()
        self.started.append(self.registry)
        os.environ["CAY_INSECURE_REGISTRIES"] = self.registry.host
        (self.work / "cay").mkdir()
        served = daemon.Daemon(self.args.build / "cay", self.work / "cay", 50)
        self.started.append(served)
        served.start()
        self.cay = Cay(str(self.args.build / "cay"), served)

    def push(self):
        self.say(f"an image of {self.args.size} MiB of this machine's own files")
        layers = list(slices(("/usr/lib", "/usr/share"), LAYERS, self.args.size * MIB // LAYERS))
        self.refs = {}
        for coding, level in CODINGS.items():
            image = Image(*layers, coding=coding, level=level)
            self.refs[coding] = self.registry.push(f"bench/{coding}:1", image)
            self.say(f"{coding}: {sum(p['size'] for p in image.parts) / MIB:.0f} MiB")

    def peers(self):
        found = []
        for make in (SkopeoUmoci, lambda work: podman(work, self.refs["gzip"])):
            name = "podman" if found else SkopeoUmoci.name
            try:
                found.append(make(self.work))
                if hasattr(found[-1], "driver"):
                    self.say(f"podman with its {found[-1].driver} storage, the faster one here")
            except FileNotFoundError as e:
                self.missing[name] = str(e)
                self.say(f"without {name}: {e}")
        return found

    def pulls(self):
        self.everyone = everyone = [self.cay, *self.peers()]
        for i in range(self.args.rounds):
            for coding, ref in self.refs.items():
                for who in everyone:
                    if coding == "zstd" and who.name == SkopeoUmoci.name:
                        continue  # umoci cannot
                    os.sync()  # what others have still to write is not this one's
                    seconds, mib = who.pull(ref)
                    who.forget()
                    self.add(who.name, f"pull_{coding}", seconds * 1e6)
                    self.add(who.name, f"peak_{coding}", mib)
            self.say(f"round {i + 1} of {self.args.rounds}")

    def client(self, image):
        done = subprocess.run([str(self.args.build / "bench" / "client"), self.cay.served.url, "rows", str(BATCH)],
                              env=dict(os.environ, CAY_BENCH_IMAGE=image), capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"client: {done.stderr.strip()}")
        for line in done.stdout.splitlines():
            row = json.loads(line)
            if row["name"] == "create":
                return row["samples"]
        return []

    def creates(self):
        """From an image of ten layers and from one of one, which hold the same."""
        extra = [[folder(f"l{i}"), text(f"l{i}/file", str(i) * 1000)] for i in range(MANY - 1)]
        bottom = [*busybox_entries(), folder("workspace", 0o777)]
        one = Image(layer(*bottom, *(e for part in extra for e in part)))
        ten = Image(layer(*bottom), *(layer(*part) for part in extra))
        names = {"create_1": self.registry.push("bench/one:1", one),
                 "create_10": self.registry.push("bench/ten:1", ten)}
        for ref in names.values():
            self.cay.command("image", "pull", "-q", ref)
        for i in range(self.args.batches + 1):
            for key, ref in names.items():
                for us in self.client(ref):
                    if i > 0:  # the first batch reads the layers from the disk
                        self.add("cay", key, us)
        self.second_sandbox(names["create_10"])

    def second_sandbox(self, ref):
        """Disk in use with one sandbox that ran something, and with two."""
        def used():
            os.sync()
            time.sleep(1)  # for what is prepared ahead to be there again
            return disk_usage(self.cay.served.work / "data")

        for _ in range(3):
            ids = [self.cay.command("create", ref).strip()]
            self.cay.command("exec", ids[0], "--", "sh", "-c", "true")
            first = used()
            ids.append(self.cay.command("create", ref).strip())
            self.cay.command("exec", ids[1], "--", "sh", "-c", "true")
            self.add("cay", "second", max(0, used() - first) / MIB)
            self.cay.command("rm", *ids)

    def run(self):
        self.start()
        self.push()
        self.pulls()
        self.say(f"creates from 1 and from {MANY} layers")
        self.creates()
        return results(self.samples, self.missing)

    def stop(self):
        for peer in self.everyone[1:]:
            peer.forget()
        for thing in reversed(self.started):
            try:
                thing.stop()
            except Exception as e:  # the others have to be stopped too
                print(f"bench: {type(thing).__name__} was not cleaned up: {e}", file=sys.stderr)


# ---- results ----

ROWS = [
    ("pull_gzip", "pull, gzip layers", "us"),
    ("pull_zstd", "pull, zstd layers", "us"),
    ("peak_gzip", "peak memory, gzip", "MiB"),
    ("peak_zstd", "peak memory, zstd", "MiB"),
    ("create_1", "create from 1 layer", "us"),
    ("create_10", "create from 10 layers", "us"),
    ("second", "disk of a second sandbox", "MiB"),
]


def results(samples, missing):
    """The form of bench.json, with these columns."""
    out = []
    for key, name, unit in ROWS:
        row = {"name": name, "unit": unit}
        for column in COLUMNS:
            values = samples.get(column, {}).get(key)
            if values:
                row[column] = {"p50": round(report.percentile(values, 50), 3),
                               "p99": round(report.percentile(values, 99), 3), "n": len(values)}
            elif column in missing and key.startswith("pull"):
                row[column] = {"unavailable": missing[column]}
        out.append(row)
    return out


def table(rows):
    lines = [["", "cay p50", "worst", "skopeo+umoci", "podman", "faster peer ÷ cay"]]
    for row in rows:
        peers = [row[c]["p50"] for c in COLUMNS[1:] if "p50" in row.get(c, {})]
        cay = row.get("cay", {}).get("p50")
        lines.append([row["name"], report.cell(row, "cay"), report.cell(row, "cay", "p99"),
                      *(report.cell(row, c) for c in COLUMNS[1:]),
                      report.times(min(peers) / cay if peers and cay else None)])
    return report.aligned(lines)


def bars(rows):
    """[(claim, what was measured, passed; None when it was not measured)]"""
    by_name = {row["name"]: row for row in rows}
    checks = []

    def p50(key, column="cay", which="p50"):
        name = next(n for k, n, _ in ROWS if k == key)
        return by_name[name].get(column, {}).get(which)

    for coding in CODINGS:
        peers = [v for c in COLUMNS[1:] if (v := p50(f"pull_{coding}", c))]
        mine = p50(f"pull_{coding}")
        checks.append((f"pull, {coding}: at least as fast as the faster peer",
                       f"{mine / min(peers):.2f}× its time" if peers else "not measured",
                       mine <= min(peers) if peers else None))
        worst = p50(f"peak_{coding}", which="p99")
        checks.append((f"pull, {coding}: at most 64 MiB", f"{worst:.1f} MiB", worst <= 64))
        peaks = [v for c in COLUMNS[1:] if (v := p50(f"peak_{coding}", c))]
        checks.append((f"pull, {coding}: less memory than any peer",
                       f"{worst / min(peaks):.2f}× of theirs" if peaks else "not measured",
                       worst < min(peaks) if peaks else None))
    grown = p50("create_10") / p50("create_1")
    checks.append(("create: from 10 layers at most 1.2× of from 1", f"{grown:.2f}×", grown <= 1.2))
    second = p50("second")
    checks.append(("a second sandbox: at most 1 MiB of disk", f"{second:.2f} MiB", second <= 1))
    return checks


def main():
    parser = argparse.ArgumentParser(prog="tools/bench images", description="pulls, and layers in use")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=5, help="pulls of each kind by each (5)")
    parser.add_argument("--batches", type=int, default=12, help=f"{BATCH} creates from each image (12)")
    parser.add_argument("--size", type=int, default=240, help="MiB of files in the image (240)")
    args = parser.parse_args()
    args.build = args.build.resolve()
    rows = session.run(lambda work: Bench(args, work))
    (args.build / "bench-images.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(table(rows) + "\n")
    return session.verdict(bars(rows))


if __name__ == "__main__":
    sys.exit(main())
