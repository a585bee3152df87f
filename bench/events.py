"""What thousands of readers of events cost, and how late they are told.

`tools/bench events` prints a table, writes build/bench-events.json and checks the bars."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import daemon

TOP = pathlib.Path(__file__).resolve().parent.parent
READERS, RATE, SECONDS = 2000, 500, 10
MEMORY_MAX_MIB, LATE_MAX_MS = 64, 50


def status(pid, key):
    return int(re.search(rf"^{key}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def measure(program, served, address, readers, rate, seconds):
    """All readers are told every event; what the daemon takes more of memory is that of its peak."""
    pid = served.process.pid
    before, threads = status(pid, "VmRSS"), status(pid, "Threads")
    crowd = subprocess.Popen([program, address, str(readers), str(rate), str(seconds)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    assert crowd.stdout.readline() == "open\n", "the streams could not be opened"
    idle = status(pid, "VmRSS")
    crowd.stdin.write("\n")
    crowd.stdin.flush()
    row = json.loads(crowd.stdout.readline())
    row.update(readers=readers, rate=rate, idleMib=(idle - before) / 1024, busyMib=(status(pid, "VmRSS") - before) / 1024,
               threads=status(pid, "Threads") - threads)
    crowd.stdin.write("\n")
    crowd.stdin.flush()
    crowd.wait()
    return row


def table(rows):
    lines = ["| readers | over | told | lost | p50 ms | p99 ms | most ms | MiB idle | MiB busy |", "|---|---|---|---|---|---|---|---|---|"]
    for over, r in rows.items():
        lost = r["published"] * r["readers"] - r["delivered"]
        lines.append(f"| {r['readers']:,} | {over} | {r['delivered']:,} | {lost} | {r['p50']} | {r['p99']} | {r['max']} "
                     f"| {r['idleMib']:.1f} | {r['busyMib']:.1f} |")
    return "\n".join(lines)


def bars(rows):
    for over, r in rows.items():
        yield f"{over}: every reader is told every event", r["delivered"] == r["published"] * r["readers"]
        yield f"{over}: {r['readers']:,} readers take at most {MEMORY_MAX_MIB} MiB", r["busyMib"] <= MEMORY_MAX_MIB
        yield f"{over}: p99 at most {LATE_MAX_MS} ms at {r['rate']} events a second", r["p99"] <= LATE_MAX_MS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=TOP / "build", type=pathlib.Path)
    parser.add_argument("--readers", default=READERS, type=int)
    parser.add_argument("--rate", default=RATE, type=int)
    parser.add_argument("--seconds", default=SECONDS, type=int)
    parser.add_argument("--markdown", type=pathlib.Path, help="print the table of an earlier run, and measure nothing")
    args = parser.parse_args()
    if args.markdown:
        print(table(json.loads(args.markdown.read_text())))
        return 0
    rows = {}
    for over in ("TCP", "unix socket"):
        work = pathlib.Path(tempfile.mkdtemp(prefix="cay-bench-", dir=os.environ.get("CAY_BENCH_DIR", "/var/tmp")))
        served = daemon.Daemon(args.build / "cay", work, 10)
        served.start()
        try:
            address = str(served.port) if over == "TCP" else str(served.run / "cay.sock")
            rows[over] = measure(args.build / "bench/event-readers", served, address, args.readers, args.rate, args.seconds)
        finally:
            served.process.terminate()
            served.process.wait()
            shutil.rmtree(work, ignore_errors=True)
            shutil.rmtree(served.run, ignore_errors=True)
    (args.build / "bench-events.json").write_text(json.dumps(rows, indent=1))
    print(table(rows))
    failed = [what for what, met in bars(rows) if not met]
    for what, met in bars(rows):
        print(("met     " if met else "NOT MET ") + what)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
