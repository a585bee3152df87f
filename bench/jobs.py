"""Jobs of the queue a second: put into it by many clients at once, each on the disk when it is answered, and run; beside
what the disk can sync and what commands without the queue come to.

`tools/bench jobs` prints a table, writes build/bench-jobs.json and checks the bars."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import daemon
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
BOXES = 8
SUBMITS_MIN, RUNS_MIN = 2000, 500
# Key, name, unit.
ROWS = [
    ("sync", "syncs of 4 KiB by one writer", "/s"),
    ("submit_1", "jobs submitted by 1 client", "/s"),
    ("submit_8", "jobs submitted by 8 clients", "/s"),
    ("submit_64", "jobs submitted by 64 clients", "/s"),
    ("exec", "commands by 32 clients, without the queue", "/s"),
    ("run", f"jobs run in {BOXES} sandboxes", "/s"),
    ("run_1", "jobs run in one sandbox", "/s"),
    ("wait", "from submit to start, p50", "ms"),
]


class Bench:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.daemon = daemon.Daemon(args.build / "cay", work, 64)
        self.values = {}

    def client(self, *words):
        out = subprocess.run([str(self.args.build / "bench" / "client"), self.daemon.url, *map(str, words)],
                             check=True, capture_output=True, text=True).stdout
        return json.loads(out.splitlines()[0])["samples"][0]

    def call(self, method, path, body=None):
        self.http.request(method, "/sandbox" + path, json.dumps(body) if body is not None else None,
                          {"Content-Type": "application/json"} if body is not None else {})
        reply = self.http.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{method} {path}: {reply.status} {text.decode(errors='replace')[:200]}")
        return json.loads(text)

    def sync(self):
        """The floor: what a log on this disk can be synced."""
        file = os.open(self.work / "sync", os.O_RDWR | os.O_CREAT)
        page, n = os.urandom(4096), 0
        os.pwrite(file, page * 256, 0)
        os.fsync(file)
        began = time.monotonic()
        while time.monotonic() - began < 1:
            os.pwrite(file, page, n % 256 * 4096)
            os.fdatasync(file)
            n += 1
        os.close(file)
        return n / (time.monotonic() - began)

    def run_jobs(self, boxes, count):
        """They wait while their sandboxes are paused, and all start with these."""
        ids = [self.call("POST", "/sandboxes", {"image": "host"})["id"] for _ in range(boxes)]
        for id in ids:
            self.call("POST", f"/sandboxes/{id}/pause", {})
        jobs = [self.call("POST", f"/sandboxes/{ids[n % boxes]}/exec/queue", {"command": "true"})["id"]
                for n in range(count)]
        began = time.monotonic()
        for id in ids:
            self.call("POST", f"/sandboxes/{id}/resume", {})
        while self.call("GET", "/queue?status=pending&limit=1")["total"]:
            time.sleep(0.02)
        while self.call("GET", "/queue?status=running&limit=1")["total"]:
            time.sleep(0.005)
        took = time.monotonic() - began
        for job in jobs[:: len(jobs) // 20]:
            now = self.call("GET", f"/queue/{job}/status")
            assert (now["status"], now["exitCode"], now["retries"]) == ("completed", 0, 0), now
        for id in ids:
            self.call("DELETE", f"/sandboxes/{id}")
        return count / took

    def wait(self, count):
        """Of jobs that nothing is before."""
        id = self.call("POST", "/sandboxes", {"image": "host"})["id"]
        waits = []
        for _ in range(count):
            job = self.call("POST", f"/sandboxes/{id}/exec/queue", {"command": "true"})["id"]
            while "completedAt" not in (now := self.call("GET", f"/queue/{job}/status")):
                time.sleep(0.001)
            waits.append(now["startedAt"] - now["createdAt"])
        self.call("DELETE", f"/sandboxes/{id}")
        return sorted(waits)[count // 2]

    def run(self):
        os.environ.update({"CAY_QUEUE_KEEP": "100000", "CAY_QUEUE_MAX": "1000000", "CAY_QUEUE_SANDBOX_MAX": "1000000"})
        self.daemon.start()
        self.http = daemon.Unix(self.daemon.run / "cay.sock")
        self.values["sync"] = self.sync()
        for clients in (1, 8, 64):
            self.values[f"submit_{clients}"] = self.client("submits", clients, self.args.seconds)
        self.values["exec"] = self.client("throughput", 32, self.args.seconds)
        self.values["run"] = self.run_jobs(BOXES, self.args.jobs)
        self.values["run_1"] = self.run_jobs(1, self.args.jobs // 4)
        self.values["wait"] = self.wait(50)
        return self.values

    def stop(self):
        self.daemon.stop()


def table(values):
    return [["", "cay"], *([name, f"{values[key]:,.0f} {unit}" if unit == "/s" else f"{values[key]:.0f} {unit}"]
                           for key, name, unit in ROWS)]


def bars(values):
    return [(f"at least {SUBMITS_MIN:,} jobs a second on the disk, submitted by 64 clients", f"{values['submit_64']:,.0f}",
             values["submit_64"] >= SUBMITS_MIN),
            (f"at least {RUNS_MIN} jobs a second run", f"{values['run']:,.0f}", values["run"] >= RUNS_MIN)]


def main():
    parser = argparse.ArgumentParser(prog="tools/bench jobs", description="jobs a second, submitted and run")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--seconds", type=int, default=4, help="of each row that goes on for a while (4)")
    parser.add_argument("--jobs", type=int, default=4000, help="that are run (4000)")
    parser.add_argument("--markdown", action="store_true", help="print the table of the last run for a page")
    args = parser.parse_args()
    args.build = args.build.resolve()
    file = args.build / "bench-jobs.json"
    if args.markdown:
        lines = table(json.loads(file.read_text()))
        lines.insert(1, ["---", "---:"])
        print("\n".join("| " + " | ".join(line) + " |" for line in lines))
        return 0
    values = session.run(lambda work: Bench(args, work))
    file.write_text(json.dumps(values, indent=1) + "\n")
    print(report.aligned(table(values)) + "\n")
    return session.verdict(bars(values))


if __name__ == "__main__":
    sys.exit(main())
