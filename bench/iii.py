"""What iii's protocol costs: commands and files over its WebSocket beside the same over REST, and a thousand clients that are
connected and do nothing.

`tools/bench iii` prints a table, writes build/bench-iii.json and checks the bars. The measuring is done by bench/client_iii.c, by turns."""
import argparse
import json
import pathlib
import socket
import subprocess
import sys
import time

import daemon
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["iii", "REST"]
EXEC_MAX, FILES_MIN, CROWD_MAX, MEMORY_MAX_MIB = 1.1, 0.5, 1.05, 64
REST_S = 0.5  # until what came or went with the crowd is over
SLICES = 3  # of commands and files, in turns

# key, name, unit
ROWS = [
    ("exec", "exec /bin/true", "us"),
    ("up", "{mib} MiB into the sandbox", "us"),
    ("down", "{mib} MiB out of it", "us"),
    ("alone", "exec, no other client", "us"),
    ("crowd", "exec beside {crowd:,} idle clients", "us"),
    ("memory", "the daemon's memory for them", "MiB"),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Bench:
    def __init__(self, args, work):
        self.args = args
        self.port = free_port()
        self.daemon = daemon.Daemon(args.build / "cay", work, 20,
                                    settings={"CAY_WS_PORT": str(self.port), "CAY_NETWORK": "0"})
        self.samples = {}
        self.crowd = None

    def say(self, text):
        print(f"bench: {text}", file=sys.stderr, flush=True)

    def command(self, *words):
        # Both over TCP of this machine: iii has no unix socket.
        return [str(self.args.build / "bench" / "client-iii"), f"http://127.0.0.1:{self.daemon.port}",
                f"ws://127.0.0.1:{self.port}", *map(str, words)]

    def add(self, key, column, values):
        self.samples.setdefault(key, {}).setdefault(column, []).extend(values)

    def measure(self, *words, key=None):
        done = subprocess.run(self.command(*words), capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip()[-500:])
        for row in map(json.loads, done.stdout.splitlines()):
            name, _, column = row["name"].partition("_")
            self.add(key or name, "iii" if column == "iii" else "REST", row["samples"])

    def join(self):
        self.crowd = subprocess.Popen(self.command("crowd", self.args.crowd), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.crowd.stdout.readline() != "open\n":
            raise RuntimeError("the idle clients could not connect")
        time.sleep(REST_S)

    def leave(self):
        if self.crowd:
            self.crowd.communicate("\n")
            if self.crowd.returncode != 0:
                raise RuntimeError("the idle clients did not stay to the end")
            self.crowd = None
            time.sleep(REST_S)

    def crowds(self, box):
        before = self.daemon.rss_mib()
        for i in range(self.args.rounds):
            # Who is first in turns, too.
            for key in ("alone", "crowd") if i % 2 else ("crowd", "alone"):
                if key == "crowd":
                    self.join()
                self.measure("execs", box, self.args.ms, key=key)
                if key == "crowd":
                    self.add("memory", "iii", [self.daemon.rss_mib() - before])
                    self.leave()
            self.say(f"idle clients, round {i + 1} of {self.args.rounds}")

    def run(self):
        self.daemon.start()
        box = self.daemon.call("POST", "", {"image": "host", "memory": 1024})["id"]
        for i in range(SLICES):
            self.measure("execs", box, self.args.ms)
            self.measure("files", box, self.args.mib, max(1, self.args.transfers // SLICES))
            self.say(f"commands and files, round {i + 1} of {SLICES}")
        self.crowds(box)
        return results(self.samples, self.args)

    def stop(self):
        if self.crowd:
            self.crowd.kill()
            self.crowd.wait()
        self.daemon.stop()


def results(samples, args):
    out = []
    for key, name, unit in ROWS:
        row = {"key": key, "name": name.format(mib=args.mib, crowd=args.crowd), "unit": unit, "mib": args.mib}
        for column, values in samples.get(key, {}).items():
            # Memory is what the worst round took.
            p50 = max(values) if key == "memory" else report.percentile(values, 50)
            row[column] = {"p50": round(p50, 3), "p99": round(report.percentile(values, 99), 3), "n": len(values)}
        out.append(row)
    return out


def speed(row, column):
    return row["mib"] / (row[column]["p50"] / 1e6)


def beside(row):
    """iii's time by REST's; of files its rate by REST's."""
    value = report.ratio(row, "iii", "REST")
    return value and 1 / value if row["key"] in ("up", "down") else value


def table(rows):
    lines = [["", "iii p50", "p99", "REST p50", "p99", "iii ÷ REST"]]
    for row in rows:
        cells = [report.cell(row, c, p) for c in COLUMNS for p in ("p50", "p99")]
        name = row["name"]
        if row["key"] in ("up", "down"):
            name += ", " + " and ".join(f"{speed(row, c):,.0f}" for c in COLUMNS) + " MiB/s"
        if row["key"] == "memory":
            cells[1] = "–"
        lines.append([name, *cells, report.times(beside(row))])
    return lines


def bars(rows):
    of = {row["key"]: row for row in rows}
    value = beside(of["exec"])
    yield f"exec: at most {EXEC_MAX}× of REST", report.times(value), value <= EXEC_MAX
    for key in ("up", "down"):
        value = beside(of[key])
        yield f"{of[key]['name']}: at least {FILES_MIN}× of REST's rate", report.times(value), value >= FILES_MIN
    for column in COLUMNS:
        value = of["crowd"][column]["p50"] / of["alone"][column]["p50"]
        yield f"{of['crowd']['name']}, {column}: at most {CROWD_MAX}× of without", report.times(value), value <= CROWD_MAX
    value = of["memory"]["iii"]["p50"]
    yield f"{of['memory']['name']}: at most {MEMORY_MAX_MIB} MiB", f"{value:.1f} MiB", value <= MEMORY_MAX_MIB


def markdown(rows):
    lines = table(rows)
    out = ["| " + " | ".join(line) + " |" for line in lines]
    out.insert(1, "|---" + "|---:" * (len(lines[0]) - 1) + "|")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench iii", description="what iii's protocol costs beside REST")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--ms", type=int, default=2000, help="how long commands are run at a time, ms (2000)")
    parser.add_argument("--mib", type=int, default=64, help="size of the file (64)")
    parser.add_argument("--transfers", type=int, default=15, help="how often it goes there and back (15)")
    parser.add_argument("--crowd", type=int, default=1000, help="idle clients (1000)")
    parser.add_argument("--rounds", type=int, default=8, help="with and without them (8)")
    parser.add_argument("--markdown", action="store_true", help="print the table of the last run for a page")
    args = parser.parse_args()
    args.build = args.build.resolve()
    file = args.build / "bench-iii.json"
    if args.markdown:
        print(markdown(json.loads(file.read_text())))
        return 0
    rows = session.run(lambda work: Bench(args, work))
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(report.aligned(table(rows)) + "\n")
    return session.verdict(list(bars(rows)))


if __name__ == "__main__":
    sys.exit(main())
