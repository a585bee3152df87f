"""What it costs to run code: in a context, in a process of its own, and in a sandbox that is made for it with an
interpreter that has waited, beside the same lines given to a plain python3 through a pipe (the floor).

`tools/bench interpreter` prints a table, writes build/bench-interpreter.json and checks the bars."""
import argparse
import json
import pathlib
import subprocess
import sys
import time

import daemon
import report
import session

TOP = pathlib.Path(__file__).resolve().parent.parent
CALL_MS, FIRST_MS = 2.0, 4.0
POOL = 4
ROWS = [
    ("python", "`1+1` in a context, python"),
    ("javascript", "`1+1` in a context, javascript"),
    ("events", "`print(1+1)` in a context, as events"),
    ("create_context", "a new context, python"),
    ("cold", "`print(1+1)` in a process of its own"),
    ("warm", "the same, in what has waited"),
    ("create", "create from the pool"),
    ("first", "create and `print(1+1)`, in what has waited"),
    ("floor_pipe", "floor: a line to a running python3 and back"),
    ("floor_start", "floor: `python3 -c 'print(1+1)'` on the host"),
]
# What a driver cannot do without: a line in, one evaluated, a line out.
ECHO = "import sys\nfor line in sys.stdin: print(eval(line), flush=True)"


class Bench:
    def __init__(self, args, work):
        self.args, self.work, self.samples = args, work, {}
        self.served = daemon.Daemon(args.build / "cay", work, 100)

    def stop(self):
        self.served.stop()

    def call(self, method, path, body=None):
        self.http.request(method, "/sandbox" + path, json.dumps(body) if body is not None else None,
                          {"Content-Type": "application/json"} if body is not None else {})
        reply = self.http.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{method} {path}: {reply.status} {text.decode(errors='replace')[:200]}")
        return json.loads(text)

    def events(self, path, body):
        self.http.request("POST", "/sandbox" + path, json.dumps(body),
                          {"Content-Type": "application/json", "Accept": "text/event-stream"})
        return self.http.getresponse().read()

    def timed(self, key, function, *args):
        start = time.monotonic_ns()
        value = function(*args)
        self.samples.setdefault(key, []).append((time.monotonic_ns() - start) / 1e6)
        return value

    def contexts(self):
        box = self.call("POST", "/sandboxes", {"image": "host"})["id"]
        path = f"/sandboxes/{box}/interpret"
        for language in "python", "javascript":
            context = self.call("POST", f"{path}/contexts", {"language": language})["id"]
            body = {"code": "1+1", "contextId": context}
            for _ in range(20):
                self.call("POST", f"{path}/execute", body)
            for _ in range(self.args.rounds):
                self.timed(language, self.call, "POST", f"{path}/execute", body)
            if language == "python":
                for _ in range(self.args.rounds):
                    self.timed("events", self.events, f"{path}/execute", {**body, "code": "print(1+1)"})
        for _ in range(self.args.starts):
            made = self.timed("create_context", self.call, "POST", f"{path}/contexts", {})
            self.call("DELETE", f"{path}/contexts/{made['id']}")
            self.timed("cold", self.call, "POST", f"{path}/execute", {"code": "print(1+1)"})
        self.call("DELETE", f"/sandboxes/{box}")

    def pool_is_full(self):
        end = time.monotonic() + 30
        while self.call("GET", "/pool/status")["ready"] < POOL:
            if time.monotonic() > end:
                raise RuntimeError("the pool is not filled")
            time.sleep(0.02)

    def from_pool(self):
        self.call("POST", "/pool/profiles", {"image": "host", "size": POOL, "interpreter": {"imports": ["json"]}})
        for _ in range(self.args.starts):
            self.pool_is_full()
            start = time.monotonic_ns()
            box = self.timed("create", self.call, "POST", "/sandboxes", {"image": "host"})["id"]
            done = self.call("POST", f"/sandboxes/{box}/interpret/execute", {"code": "print(1+1)"})
            self.samples.setdefault("first", []).append((time.monotonic_ns() - start) / 1e6)
            if done["output"] != "2\n":
                raise RuntimeError(f"1+1 is not 2: {done}")
            for _ in range(3):
                self.timed("warm", self.call, "POST", f"/sandboxes/{box}/interpret/execute", {"code": "print(1+1)"})
            self.call("DELETE", f"/sandboxes/{box}")

    def floors(self):
        with subprocess.Popen(["/usr/bin/python3", "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as python:
            def ask():
                python.stdin.write(b"1+1\n")
                python.stdin.flush()
                return python.stdout.readline()
            for _ in range(self.args.rounds):
                self.timed("floor_pipe", ask)
            python.stdin.close()
        for _ in range(self.args.starts):
            self.timed("floor_start", lambda: subprocess.run(["/usr/bin/python3", "-c", "print(1+1)"],
                                                             stdout=subprocess.DEVNULL, check=True))

    def run(self):
        self.served.start()
        self.http = daemon.Unix(self.served.run / "cay.sock")
        self.contexts()
        self.from_pool()
        self.floors()
        return [row(key, name, sorted(self.samples[key])) for key, name in ROWS]


def row(key, name, values):
    return {"key": key, "name": name, "n": len(values), "p50": values[len(values) // 2],
            "p99": values[min(len(values) - 1, int(len(values) * 0.99))]}


def table(rows):
    return [["", "p50 ms", "p99 ms"]] + [[r["name"], f"{r['p50']:.2f}", f"{r['p99']:.2f}"] for r in rows]


def bars(rows):
    p50 = {r["key"]: r["p50"] for r in rows}
    return [(f"`1+1` in a context of python takes at most {CALL_MS:g} ms", f"{p50['python']:.2f} ms", p50["python"] <= CALL_MS),
            (f"create and print(1+1) take at most {FIRST_MS:g} ms", f"{p50['first']:.2f} ms", p50["first"] <= FIRST_MS)]


def markdown(rows):
    lines = ["| " + " | ".join(line) + " |" for line in table(rows)]
    return "\n".join([lines[0], "|---|---:|---:|", *lines[1:]])


def main():
    parser = argparse.ArgumentParser(prog="tools/bench interpreter", description="code in contexts, alone, and in warm sandboxes")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder")
    parser.add_argument("--rounds", type=int, default=500, help="runs in a context (500)")
    parser.add_argument("--starts", type=int, default=40, help="processes and sandboxes (40)")
    parser.add_argument("--markdown", action="store_true", help="print the table of the last run for a page")
    args = parser.parse_args()
    args.build = args.build.resolve()
    file = args.build / "bench-interpreter.json"
    if args.markdown:
        print(markdown(json.loads(file.read_text())))
        return 0
    rows = session.run(lambda work: Bench(args, work))
    file.write_text(json.dumps(rows, indent=1) + "\n")
    print(report.aligned(table(rows)) + "\n")
    return session.verdict(bars(rows))


if __name__ == "__main__":
    sys.exit(main())
