"""What the SDKs cost: a command through each beside plain HTTP in the same language and process, and a hundred sandboxes made,
used and killed by one process beside what the daemon needs for them.

`tools/bench clients` prints a table, writes build/bench-clients.json and checks the bars. A language is a program that is given the
daemon's address and a number of rounds and prints one JSON object: exec_raw and exec (lists of us), lives (s for a hundred), import (ms)
where there is such a thing. One whose tools are not here is left out, by name."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import daemon
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
OVERHEAD_MAX, IMPORT_MAX_MS = 1.2, 150
LIVES_MAX_S, LIVES_DAEMON_S = 1.0, 0.8
WORKERS = 64  # as many at once as the client in C can be

# Key, name, unit, digits.
ROWS = [
    ("exec_raw", "a command, by plain HTTP", "us", 0),
    ("exec", "a command", "us", 0),
    ("lives", "100 sandboxes made, used and killed", "s", 2),
    ("import", "import", "ms", 0),
]


class Missing(Exception):
    """What a language needs is not here."""


def python(args):
    sys.path.insert(0, str(TOP / "tests" / "integration"))
    try:
        from cay_kept import NotInstalled
        from cay_pypi import python as of
        program = of("sdk-python")
    except (ImportError, NotInstalled) as why:
        raise Missing(str(why))
    return ["env", f"PYTHONPATH={TOP / 'sdk' / 'python' / 'src'}", program, TOP / "bench" / "client_python.py"]


def c(args):
    return [args.build / "bench" / "client-libcay"]


def typescript(args):
    sys.path.insert(0, str(TOP / "tests" / "integration"))
    try:
        from cay_npm import node, typescript_sdk
        from cay_kept import NotInstalled
        return [node(), typescript_sdk() / "out" / "bench" / "overhead.js"]
    except (ImportError, FileNotFoundError, NotInstalled) as why:
        raise Missing(str(why))


def rust(args):
    sys.path.insert(0, str(TOP / "tests" / "integration"))
    import cay_cargo
    from cay_kept import NotInstalled
    try:
        if why := cay_cargo.lacking():
            raise Missing(why)
        return [cay_cargo.example("bench", release=True)]
    except NotInstalled as why:
        raise Missing(str(why))


# Each gives the command of its program, or raises Missing.
LANGUAGES = {
    "Python": python,
    "C": c,
    "TypeScript": typescript,
    "Rust": rust,
}


class Bench:
    def __init__(self, args, work):
        self.args = args
        self.daemon = daemon.Daemon(args.build / "cay", work, 400)

    def alone(self):
        """What the daemon needs for a hundred lives, asked by a client in C."""
        out = subprocess.run([str(self.args.build / "bench" / "client"), self.daemon.url, "lives", str(WORKERS),
                              str(self.args.seconds)], check=True, capture_output=True, text=True).stdout
        return 100 / json.loads(out.splitlines()[0])["samples"][0]

    def measure(self, command):
        done = subprocess.run([*map(str, command), f"unix:{self.daemon.run / 'cay.sock'}", str(self.args.rounds)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-2000:])
        said = json.loads(done.stdout)
        return {key: min(samples) if key == "import" else statistics.median(samples) for key, samples in said.items() if samples}

    def run(self):
        self.daemon.start()
        values = {}
        for name in self.args.languages:
            try:
                command = LANGUAGES[name](self.args)
            except Missing as why:
                print(f"bench: {name} is left out: {why}", file=sys.stderr)
                continue
            # Before and after: what else the machine does counts for both.
            before = self.alone()
            values[name] = self.measure(command)
            values[name]["alone"] = (before + self.alone()) / 2
        return values

    def stop(self):
        self.daemon.stop()


def table(values):
    lines = [["", *values]]
    for key, name, unit, digits in [*ROWS, ("alone", "the same, by a client in C", "s", 2)]:
        lines.append([name, *(f"{one[key]:,.{digits}f} {unit}" if key in one else "" for one in values.values())])
    lines.insert(3, ["beside plain HTTP", *(f"{one['exec'] / one['exec_raw']:.2f}x" for one in values.values())])
    return lines


def bars(values):
    checks = []
    for name, one in values.items():
        ratio = one["exec"] / one["exec_raw"]
        checks.append((f"{name}: a command takes at most {OVERHEAD_MAX} times what plain HTTP does", f"{ratio:.2f}x", ratio <= OVERHEAD_MAX))
        if "lives" in one:
            # Where the daemon alone is slower than the bar thinks, it is allowed as much more.
            bar = LIVES_MAX_S * max(1, one["alone"] / LIVES_DAEMON_S)
            checks.append((f"{name}: 100 sandboxes in at most {bar:.2f} s, where the daemon alone takes {one['alone']:.2f} s",
                           f"{one['lives']:.2f} s", one["lives"] <= bar))
        if "import" in one:
            checks.append((f"{name}: the import takes at most {IMPORT_MAX_MS} ms", f"{one['import']:.0f} ms",
                           one["import"] <= IMPORT_MAX_MS))
    return checks


def main():
    parser = argparse.ArgumentParser(prog="tools/bench clients", description="what the SDKs cost beside plain HTTP")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=500, help="commands of each kind (500)")
    parser.add_argument("--seconds", type=int, default=2, help="of lives by the client in C, before and after each language (2)")
    parser.add_argument("--languages", type=lambda text: text.split(","), default=list(LANGUAGES), help="by comma (all)")
    parser.add_argument("--markdown", action="store_true", help="print the table of the last run for a page")
    args = parser.parse_args()
    args.build = args.build.resolve()
    file = args.build / "bench-clients.json"
    if args.markdown:
        lines = table(json.loads(file.read_text()))
        lines.insert(1, ["---"] + ["---:"] * (len(lines[0]) - 1))
        print("\n".join("| " + " | ".join(line) + " |" for line in lines))
        return 0
    values = session.run(lambda work: Bench(args, work))
    file.write_text(json.dumps(values, indent=1) + "\n")
    print(report.aligned(table(values)) + "\n")
    return session.verdict(bars(values))


if __name__ == "__main__":
    sys.exit(main())
