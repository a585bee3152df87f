"""What it costs that every call leaves a trace: the same commands through a daemon that remembers them and through one that
does not, in turns, and what it takes to ask for them when there are as many as may be.

`tools/bench traces` prints a table, writes build/bench-traces.json and checks the bars."""
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
COLUMNS = ["with traces", "without"]
EXEC_MAX = 1.05
KEPT = 100000
FILLERS = 8
ROWS = [
    ("exec", "exec", "us"),
    ("get", "GET of a sandbox", "us"),
    ("list", "the newest 100 traces", "us"),
    ("list_of", "the newest 100 of one sandbox", "us"),
    ("list_function", "the newest 100 of one function", "us"),
    ("summary", "percentiles", "us"),
    ("scrape", "/metrics", "us"),
]
NAMES = {key: name for key, name, _ in ROWS}


class Bench:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.samples, self.served, self.boxes = {}, {}, {}

    def say(self, text):
        print(f"bench: {text}", file=sys.stderr, flush=True)

    def start(self):
        for column in COLUMNS:
            work = self.work / column.replace(" ", "-")
            work.mkdir()
            os.environ["CAY_TRACES"] = "true" if column == COLUMNS[0] else "false"
            served = daemon.Daemon(self.args.build / "cay", work, 20)
            self.served[column] = served
            served.start()
            self.boxes[column] = served.call("POST", "", {"image": "host"})["id"]
        os.environ.pop("CAY_TRACES")

    def add(self, column, key, values):
        self.samples.setdefault(column, {}).setdefault(key, []).extend(values)

    def execs(self, column, ms):
        out = subprocess.run([str(self.args.build / "bench" / "client"), self.served[column].url, "execs",
                              self.boxes[column], str(ms)], check=True, capture_output=True, text=True).stdout
        for line in out.splitlines():
            self.add(column, "exec", json.loads(line)["samples"])

    def timed(self, column, key, path, n):
        http = daemon.Unix(self.served[column].run / "cay.sock")
        values = []
        for _ in range(n):
            start = time.perf_counter_ns()
            http.request("GET", path)
            http.getresponse().read()
            values.append((time.perf_counter_ns() - start) / 1000)
        http.close()
        self.add(column, key, values)

    def turns(self):
        """In turns, and who is first in turns too: the machine changes while it is measured."""
        for i in range(self.args.rounds + 1):
            if i == 1:
                self.samples.clear()  # the first round warms
            for column in COLUMNS if i % 2 else reversed(COLUMNS):
                self.execs(column, self.args.ms)
                self.timed(column, "get", f"/sandbox/sandboxes/{self.boxes[column]}", 500)
            self.say(f"round {i} of {self.args.rounds}")

    def fill(self):
        """Until as many are kept as may be."""
        served, column = self.served[COLUMNS[0]], COLUMNS[0]
        while served.get("/sandbox/observability/traces?limit=1")["total"] < KEPT:
            subprocess.run([str(self.args.build / "bench" / "client"), served.url, "gets", str(FILLERS), "1"], check=True,
                           capture_output=True)
        ident = self.boxes[column]
        traces = "/sandbox/observability/traces"
        for key, path in (("list", traces), ("list_of", f"{traces}?sandboxId={ident}"),
                          ("list_function", f"{traces}?functionId=cmd::run"),
                          ("summary", "/sandbox/observability/metrics"), ("scrape", "/metrics")):
            self.timed(column, key, path, 30)

    def run(self):
        self.start()
        self.turns()
        self.say(f"{KEPT:,} traces")
        self.fill()
        return results(self.samples)

    def stop(self):
        for served in self.served.values():
            try:
                served.stop()
            except Exception as e:  # the other has to be stopped too
                print(f"bench: a daemon was not cleaned up: {e}", file=sys.stderr)


def results(samples):
    out = []
    for key, name, unit in ROWS:
        row = {"name": name, "unit": unit}
        for column in COLUMNS:
            values = samples.get(column, {}).get(key)
            if values:
                row[column] = {"p50": report.percentile(values, 50), "p99": report.percentile(values, 99), "n": len(values)}
        out.append(row)
    return out


def table(rows):
    lines = [["", "with traces, p50", "p99", "without, p50", "p99", "with ÷ without"]]
    for row in rows:
        lines.append([row["name"], *(report.cell(row, c, p) for c in COLUMNS for p in ("p50", "p99")),
                      report.times(report.ratio(row, *COLUMNS))])
    return lines


def markdown(rows):
    lines = table(rows)
    out = ["| " + " | ".join(line) + " |" for line in lines]
    out.insert(1, "|---" + "|---:" * (len(lines[0]) - 1) + "|")
    return "\n".join(out)


def bars(rows):
    value = report.ratio(next(row for row in rows if row["name"] == NAMES["exec"]), *COLUMNS)
    return [(f"exec with traces: at most {EXEC_MAX}× of without", report.times(value), value <= EXEC_MAX)]


def main():
    parser = argparse.ArgumentParser(prog="tools/bench traces", description="what it costs to remember calls")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of both (10)")
    parser.add_argument("--ms", type=int, default=1500, help="how long commands are run in each, ms (1500)")
    parser.add_argument("--markdown", action="store_true", help="print the table of the last run for a page")
    args = parser.parse_args()
    args.build = args.build.resolve()
    file = args.build / "bench-traces.json"
    if args.markdown:
        print(markdown(json.loads(file.read_text())))
        return 0
    rows = session.run(lambda work: Bench(args, work))
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(report.aligned(table(rows)) + "\n")
    return session.verdict(bars(rows))


if __name__ == "__main__":
    sys.exit(main())
