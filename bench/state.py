"""What it costs to keep a sandbox's work and to go on from it: snapshots, clones, forks, stop and start, beside a plain
copy of the same files and beside Docker.

`tools/bench state` prints a table, writes build/bench-state.json and checks the bars."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import daemon
import peers
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["cay", "copy", "synced copy", "docker"]
FORKS = 50
DEPTH = 20
SETTLED_S = 0.2  # then what a stop leaves to do in the background is done
DOCKER_FASTER, COPY_MAX, START_MAX, DEPTH_MAX = 10, 1.3, 1.5, 1.2
IMAGE = "bench"

# Key, name, the shell commands that change so much, in a folder of their own.
LOADS = [
    ("files", "1,000 files", "i=0; while [ $i -lt 1000 ]; do echo $i-some-text-of-a-source-file >f$i; i=$((i+1)); done"),
    ("bytes", "100 MiB", "i=0; while [ $i -lt 100 ]; do head -c 1048576 /dev/urandom >b$i; i=$((i+1)); done"),
]
ROWS = [
    *((f"snapshot_{key}", f"snapshot, {name} changed", "us") for key, name, _ in LOADS),
    *((f"clone_{key}", f"sandbox of that snapshot, {name}", "us") for key, name, _ in LOADS),
    *((f"both_{key}", f"snapshot and sandbox of it, {name}", "us") for key, name, _ in LOADS),
    ("create", "create", "us"),
    ("start", "start of a stopped sandbox", "us"),
    ("start_now", "start at once, while the stop is still followed up", "us"),
    ("creates", f"{FORKS} creates, one after the other", "us"),
    ("fork", f"`cay fork -n {FORKS}`", "us"),
    ("depth_1", "clone of the first snapshot of a chain", "us"),
    (f"depth_{DEPTH}", f"clone of the {DEPTH}th", "us"),
]
NAMES = {key: name for key, name, _ in ROWS}


class Cay:
    """Through one kept connection, as the other peers."""

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

    def create(self, **more):
        return self.call("POST", "/sandboxes", {"image": IMAGE, **more})["id"]

    def exec(self, ident, command):
        done = self.call("POST", f"/sandboxes/{ident}/exec", {"command": command})
        if done["exitCode"] != 0:
            raise RuntimeError(f"{command}: {done['stderr']}")

    def remove(self, *idents):
        for ident in idents:
            self.call("DELETE", f"/sandboxes/{ident}")

    def snapshot(self, ident):
        return self.call("POST", f"/sandboxes/{ident}/snapshots", {})["id"]

    def clone(self, snapshot):
        return self.call("POST", f"/snapshots/{snapshot}/clone", {})["id"]

    def forget(self, *snapshots):
        for snapshot in snapshots:
            self.call("DELETE", f"/snapshots/{snapshot}")


class Bench:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.samples, self.missing, self.started = {}, {}, []
        self.docker, self.copies = None, 0

    def say(self, words):
        print(f"[{time.monotonic() - self.began:4.0f} s] {words}", file=sys.stderr, flush=True)

    def timed(self, column, key, function, *args):
        start = time.monotonic_ns()
        value = function(*args)
        us = (time.monotonic_ns() - start) / 1000
        self.samples.setdefault(column, {}).setdefault(key, []).append(us)
        return value

    def add_sum(self, column, key, *parts):
        rows = self.samples[column]
        rows.setdefault(key, []).append(sum(rows[part][-1] for part in parts))

    def start(self):
        self.began = time.monotonic()
        (self.work / "cay").mkdir()
        self.served = daemon.Daemon(self.args.build / "cay", self.work / "cay", 4 * FORKS)
        self.started.append(self.served)
        self.served.start()
        peers.busybox_root(self.work / "rootfs")
        self.served.import_image(self.work / "rootfs", IMAGE)
        self.cay = Cay(self.served)
        os.environ["CAY_HOST"] = self.served.url
        docker = peers.Docker(self.work)
        self.started.append(docker)
        try:
            docker.start()
            self.docker = docker
        except peers.Unavailable as e:
            self.missing["docker"] = str(e)
            self.say(f"without Docker: {e}")

    # ---- snapshots ----

    def cay_round(self, key, commands):
        ident = self.cay.create()
        self.cay.exec(ident, f"mkdir /workspace/load; cd /workspace/load; {commands}")
        snapshot = self.timed("cay", f"snapshot_{key}", self.cay.snapshot, ident)
        clone = self.timed("cay", f"clone_{key}", self.cay.clone, snapshot)
        self.add_sum("cay", f"both_{key}", f"snapshot_{key}", f"clone_{key}")
        self.cay.remove(ident, clone)
        self.cay.forget(snapshot)

    def copy_round(self, key, commands):
        """On the filesystem that holds cay's data, of files that are in memory as the sandbox's are. Each copy gets a
        part of the disk of its own, as cay's layers do: beside files that were just removed, ext4 takes far longer."""
        top = self.work / "cay" / "copies"
        if not top.exists():
            top.mkdir()
            subprocess.run(["chattr", "+T", str(top)], stderr=subprocess.DEVNULL, check=False)  # not every disk can
        self.copies += 1  # a name says where: the same one would get the place of the one before
        folder = top / f"load{self.copies}"
        folder.mkdir()
        subprocess.run(["sh", "-c", commands], cwd=folder, check=True)
        for column, sync in (("copy", []), ("synced copy", ["sync", "-f"])):
            to = top / f"{len(sync)}copied{self.copies}"

            def copy():
                peers.run(["/bin/cp", "-a", str(folder), str(to)])
                if sync:
                    peers.run(["/bin/sync", "-f", str(to)])

            self.timed(column, f"snapshot_{key}", copy)
            shutil.rmtree(to)
        shutil.rmtree(folder)

    def docker_round(self, key, commands):
        box = self.docker.boxes(1)[0]
        box.create()
        spec = {"Cmd": ["sh", "-c", f"mkdir /workspace/load; cd /workspace/load; {commands}"],
                "AttachStdout": True, "AttachStderr": True}
        ident = json.loads(box.call("POST", f"/containers/{box.live}/exec", spec))["Id"]
        box.call("POST", f"/exec/{ident}/start", {"Detach": False, "Tty": False})

        def commit():
            box.call("POST", f"/commit?container={box.live}&repo=kept&tag=1&pause=true", {})

        def clone():
            made = json.loads(box.call("POST", "/containers/create", {
                "Image": "kept:1", "Cmd": ["sleep", "1000000"], "NetworkDisabled": True,
                "HostConfig": {"NetworkMode": "none"}}))["Id"]
            box.call("POST", f"/containers/{made}/start")
            return made

        self.timed("docker", f"snapshot_{key}", commit)
        made = self.timed("docker", f"clone_{key}", clone)
        self.add_sum("docker", f"both_{key}", f"snapshot_{key}", f"clone_{key}")
        box.call("DELETE", f"/containers/{made}?force=true")
        box.remove()
        box.call("DELETE", "/images/kept:1?force=true")

    def snapshots(self):
        for i in range(self.args.rounds + 1):
            if i == 1:
                self.samples.clear()  # the first round warms
            for key, _, commands in LOADS:
                self.cay_round(key, commands)
                self.copy_round(key, commands)
                if self.docker:
                    self.docker_round(key, commands)
            self.say(f"snapshots, round {i} of {self.args.rounds}")

    # ---- stop, start, fork, depth ----

    def starts(self):
        for _ in range(self.args.starts):
            ident = self.timed("cay", "create", self.cay.create)
            self.cay.exec(ident, "echo kept >/workspace/file")
            for key, pause in (("start_now", 0), ("start", SETTLED_S)):
                self.cay.call("POST", f"/sandboxes/{ident}/stop", {})
                time.sleep(pause)
                self.timed("cay", key, self.cay.call, "POST", f"/sandboxes/{ident}/start", {})
                self.cay.exec(ident, "cat /workspace/file")
            self.cay.remove(ident)

    def forks(self):
        program = str(self.args.build / "cay")
        for _ in range(self.args.rounds):
            many = []
            self.timed("cay", "creates", lambda many=many: many.extend(self.cay.create() for _ in range(FORKS)))
            self.cay.remove(*many)
            ident = self.cay.create()
            self.cay.exec(ident, "echo kept >/workspace/file")
            argv = [program, "fork", ident, "-n", str(FORKS)]
            made = self.timed("cay", "fork", peers.run, argv, True).decode().split()
            if len(made) != FORKS:
                raise RuntimeError(f"cay fork made {len(made)}")
            self.cay.remove(ident, *made)

    def depth(self):
        kept, ident = [], self.cay.create()
        for i in range(DEPTH):
            self.cay.exec(ident, f"mkdir -p /workspace/d; echo {i} >/workspace/d/{i}")
            kept.append(self.cay.snapshot(ident))
            self.cay.remove(ident)
            ident = self.cay.clone(kept[-1])
        self.cay.remove(ident)
        for i in range(self.args.starts + 2):
            for key, snapshot in (("depth_1", kept[0]), (f"depth_{DEPTH}", kept[-1])):
                made = self.timed("cay" if i >= 2 else "warming", key, self.cay.clone, snapshot)
                self.cay.exec(made, "cat /workspace/d/0")
                self.cay.remove(made)
        self.cay.forget(*kept)

    def run(self):
        self.start()
        self.snapshots()
        self.say("stop and start")
        self.starts()
        self.say(f"forks of {FORKS}")
        self.forks()
        self.say(f"a chain of {DEPTH}")
        self.depth()
        return results(self.samples, self.missing)

    def stop(self):
        for thing in reversed(self.started):
            try:
                thing.stop()
            except Exception as e:  # the others have to be stopped too
                print(f"bench: {type(thing).__name__} was not cleaned up: {e}", file=sys.stderr)


# ---- results ----


def results(samples, missing):
    out = []
    for key, name, unit in ROWS:
        row = {"name": name, "unit": unit}
        for column in COLUMNS:
            values = samples.get(column, {}).get(key)
            if values:
                row[column] = {"p50": round(report.percentile(values, 50), 3),
                               "p99": round(report.percentile(values, 99), 3), "n": len(values)}
            elif column in missing and key.startswith("both"):
                row[column] = {"unavailable": missing[column]}
        out.append(row)
    return out


def table(rows):
    lines = [["", "cay p50", "worst", "cp -a", "cp -a, synced", "Docker", "cay ÷ cp -a", "Docker ÷ cay"]]
    for row in rows:
        lines.append([row["name"], report.cell(row, "cay"), report.cell(row, "cay", "p99"),
                      *(report.cell(row, c) for c in COLUMNS[1:]),
                      report.times(report.ratio(row, "cay", "copy")), report.times(report.ratio(row, "docker", "cay"))])
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

    def check(claim, value, limit, least=False):
        if value is None:
            checks.append((claim, "not measured", None))
        else:
            checks.append((claim, report.times(value), value >= limit if least else 0 < value <= limit))

    def p50(key):
        return by_name[NAMES[key]].get("cay", {}).get("p50")

    def part(one, other):
        return p50(one) / p50(other) if p50(one) and p50(other) else None

    for key, name, _ in LOADS:
        check(f"snapshot and sandbox of it, {name}: at least {DOCKER_FASTER}× faster than Docker",
              report.ratio(by_name[NAMES[f"both_{key}"]], "docker", "cay"), DOCKER_FASTER, True)
        row = by_name[NAMES[f"snapshot_{key}"]]
        check(f"snapshot, {name}: at most {COPY_MAX}× of `cp -a`", report.ratio(row, "cay", "copy"), COPY_MAX)
        check(f"snapshot, {name}: at most {COPY_MAX}× of `cp -a` that is synced, as a snapshot is",
              report.ratio(row, "cay", "synced copy"), COPY_MAX)
    check(f"start of a stopped sandbox: at most {START_MAX}× of a create", part("start", "create"), START_MAX)
    check(f"fork of {FORKS}: at most {FORKS} creates", part("fork", "creates"), 1)
    check(f"clone at depth {DEPTH}: at most {DEPTH_MAX}× of at depth 1", part(f"depth_{DEPTH}", "depth_1"), DEPTH_MAX)
    return checks


def main():
    parser = argparse.ArgumentParser(prog="tools/bench state", description="snapshots, clones, forks, stop and start")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=8, help="snapshots of each kind, and forks (8)")
    parser.add_argument("--starts", type=int, default=60, help="starts, and clones at each depth (60)")
    parser.add_argument("--markdown", action="store_true", help="print the table of the last run for a page")
    args = parser.parse_args()
    args.build = args.build.resolve()
    file = args.build / "bench-state.json"
    if args.markdown:
        print(markdown(json.loads(file.read_text())))
        return 0
    rows = session.run(lambda work: Bench(args, work))
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(report.aligned(table(rows)) + "\n")
    return session.verdict(bars(rows))


if __name__ == "__main__":
    sys.exit(main())
