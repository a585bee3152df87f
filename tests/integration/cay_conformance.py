"""Runs the cases of sdk/conformance through adapters; its README.md has the protocol and the form of cases.

All adapters and cases run side by side against three daemons: one that nobody disturbs, one that is killed while operations are under way,
and one that is replaced. The two are restarted once for all cases that ask for it: who comes to that step waits for the others.

By hand: cay_conformance.py [ADAPTER [WORD…]] runs the cases that have such a word in their file or name, and shows every line."""

import base64
import collections
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path

import cay_cargo
import cay_npm
import cay_pypi
from cay_gate import Gate
from cay_harness import CAY, REPO, SLOW, Api, Daemon
from cay_npm import node, typescript_sdk

HOME = REPO / "sdk" / "conformance"
BUILT = REPO / "build-check"
PATIENCE = 60  # seconds for one answer
TOKEN = "conformance"


# ---- the adapters ----


class Adapter:
    """How a client is built and started, and what it does not offer, with the reason: an operation, `operation.argument`, or a whole case."""

    def __init__(self, name, about, make, missing=lambda: None, lacks=None, tells_status=True, keeps=True):
        self.name, self.about = name, about
        self.make = make  # builds it and gives the command
        self.missing = functools.lru_cache(missing)  # says why it cannot take part here, or None
        self.lacks, self.tells_status = lacks or {}, tells_status
        self.keeps = keeps  # it sends Cay-Client: its sandboxes are stopped when their time is over


def script(path):
    return lambda: [sys.executable, REPO / path]


def python():
    """The SDK as it is here, not as it is installed."""
    return ["env", f"PYTHONPATH={REPO / 'sdk' / 'python' / 'src'}", cay_pypi.python("sdk-python"), "-B",
            REPO / "sdk" / "python" / "conformance" / "adapter.py"]


def typescript():
    return [node(), typescript_sdk() / "out" / "conformance" / "adapter.js"]


def rust():
    return [cay_cargo.example("conformance")]


ADAPTERS = {adapter.name: adapter for adapter in (
    Adapter("raw", "plain HTTP, the yardstick", script("sdk/conformance/adapters/raw.py"), keeps=False),
    Adapter("cli", "the command line, a `cay` for each operation",
            script("sdk/conformance/adapters/cli.py"), tells_status=False, lacks={
                **dict.fromkeys(("stat", "mkdir", "move_file", "chmod", "search"), "the command line leaves it to `cay exec` and the sandbox's own programs"),
                **dict.fromkeys(("git_clone", "git_status", "git_commit", "git_log", "git_diff"), "the command line leaves it to `cay exec ID git …`"),
                "event_publish": "the command line listens only",
                "sandboxes/names": "names that `cay create` gives need no quotes anywhere",
                "sandboxes/unique_names": "a name that `cay create` gives is always that of one sandbox",
                "list.metadata": "`cay ls` has no such flag; `--json` and jq do it"}),
    Adapter("mcp", "the daemon's tools over MCP", script("sdk/conformance/adapters/mcp.py"), keeps=False, lacks={
        **dict.fromkeys(("get", "pause", "resume", "stop", "start", "renew", "exec_stream", "background", "background_wait", "upload",
                         "download", "stat", "mkdir", "remove_file", "remove_dir", "move_file", "chmod", "search", "env_delete",
                         "context_create", "git_log", "delete_snapshot", "queue_cancel", "port_unexpose", "volume_list", "volume_detach",
                         "volume_delete", "network_list", "network_disconnect", "network_delete", "alert_list", "alert_delete",
                         "terminal"), "none of the 39 tools does it"),
        "exec.bytes": "a model reads text",
        **dict.fromkeys(("exec/long_output", "exec/truncation"), "answers are cut to what a model has room for"),
        **dict.fromkeys(("restart_kill/exec", "restart_kill/ended_meanwhile", "restart_replace/exec", "restart_replace/ended_meanwhile"),
                        "a call of MCP ends with its connection; the command goes on, and `sandbox_stream_logs` has its output")}),
    Adapter("python", "`cay` for Python", python),
    Adapter("typescript", "`@cay/sdk`, in Node", typescript, missing=cay_npm.lacking),
    Adapter("c", "libcay", lambda: [Path(CAY).parent / "tests" / "libcay" / "adapter"]),
    Adapter("rust", "the crate `cay`", rust, missing=cay_cargo.lacking),
)}


# ---- the cases ----


def load():
    """Every case, by `file/name`."""
    cases = {}
    for path in sorted((HOME / "cases").glob("*.json")):
        for case in json.loads(path.read_text()):
            key = f"{path.stem}/{case['name']}"
            assert key not in cases, f"two cases are called {key}"
            cases[key] = case
    return cases


def kinds_of(case):
    """Which daemon a case is for: one with networks, that which is killed, that which is replaced, or the quiet one."""
    if "network" in case.get("needs", ()):
        return "online"
    asked = {step["restart_daemon"] for step in case["steps"] if "restart_daemon" in step}
    assert len(asked) <= 1, case["name"]
    return asked.pop() if asked else "quiet"


# ---- values ----


@functools.lru_cache(maxsize=None)
def pattern(number, size):
    block = bytes((i * 31 + (i >> 8) * 17 + number) & 255 for i in range(65536))
    return (block * (size // 65536 + 1))[:size] if size < 1 << 20 else None


@functools.lru_cache(maxsize=None)
def pattern_digest(number, size):
    digest, left = hashlib.sha256(), size
    block = pattern(number, 65536)
    while left > 0:
        digest.update(block[:left])
        left -= len(block)
    return digest.hexdigest()


def fingerprint(value):
    """(size, sha256) of data in whichever form, None for anything else."""
    if isinstance(value, str):
        data = value.encode(errors="surrogatepass")
    elif not isinstance(value, dict):
        return None
    elif value.keys() == {"size", "sha256"}:
        return value["size"], value["sha256"]
    elif value.keys() == {"pattern", "size"}:
        return value["size"], pattern_digest(value["pattern"], value["size"])
    elif value.keys() == {"base64"}:
        data = base64.b64decode(value["base64"])
    elif value.keys() == {"$repeat"}:
        data = (value["$repeat"][0] * value["$repeat"][1]).encode()
    else:
        return None
    return len(data), hashlib.sha256(data).hexdigest()


def short(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 200 else text[:197] + "…"


MATCHERS = {
    "$has": lambda want, value: all(item in value for item in want),
    "$lacks": lambda want, value: not any(item in value for item in want),
    "$set": lambda want, value: sorted(map(json.dumps, want)) == sorted(map(json.dumps, value)),
    "$count": lambda want, value: len(value) == want,
    "$ge": lambda want, value: value >= want,
    "$le": lambda want, value: value <= want,
    "$match": lambda want, value: re.search(want, value) is not None,
    "$not": lambda want, value: difference(want, value) is not None,
}


def difference(want, value, where="result"):
    """How a value is not as wanted, None when it is."""
    if isinstance(want, dict) and want and want.keys() <= MATCHERS.keys():
        try:
            holds = all(MATCHERS[name](wanted, value) for name, wanted in want.items())
        except TypeError:
            holds = False
        return None if holds else f"{where} is {short(value)}, not {short(want)}"
    if isinstance(want, dict) and fingerprint(want) is None:
        if not isinstance(value, dict):
            return f"{where} is {short(value)}, not {short(want)}"
        for key in want:
            if key not in value:
                return f"{where} has no {key}: {short(value)}"
            found = difference(want[key], value[key], f"{where}.{key}")
            if found:
                return found
        return None
    if isinstance(want, list) and isinstance(value, list) and len(want) == len(value):
        return next(filter(None, (difference(one, other, f"{where}.{n}") for n, (one, other) in enumerate(zip(want, value)))), None)
    if isinstance(value, dict) or isinstance(want, dict):
        return None if fingerprint(want) and fingerprint(want) == fingerprint(value) else \
            f"{where} is {short(value)}, not {short(want)}"
    return None if want == value and isinstance(want, bool) == isinstance(value, bool) else \
        f"{where} is {short(value)}, not {short(want)}"


def filled(value, names):
    """A value of a case with its references filled in."""
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"\$[a-z_]+(\.\w+)*", value):
        return looked_up(value[1:], names)
    return re.sub(r"\$\{([\w.]+)\}", lambda found: str(looked_up(found[1], names)), value)


def looked_up(path, names):
    value = names
    for part in path.split("."):
        value = value[int(part) if isinstance(value, list) else part]
    return value


# ---- talking to an adapter ----


class Gone(Exception):
    """The adapter has ended."""


class Talk:
    """An adapter's process, which does the operations of many cases side by side."""

    def __init__(self, adapter, command, daemon, url, aloud=False):
        self.adapter, self.aloud = adapter, aloud
        self.lock, self.next, self.waiting, self.over = threading.Lock(), 1, {}, None
        self.errors = collections.deque(maxlen=40)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_"))}
        env.update(CAY_URL=url, CAY_HOST=url, CAY_AUTH_TOKEN=TOKEN, CAY_BIN=CAY, CAY_RUN=str(daemon.run), NO_PROXY="*", no_proxy="*")
        self.process = subprocess.Popen([str(word) for word in command], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.listen, self.overhear)]
        for thread in self.threads:
            thread.start()

    def listen(self):
        for line in self.process.stdout:
            if self.aloud:
                print(f"← {line[:2000].rstrip()}", flush=True)
            try:
                answer = json.loads(line)
                future = self.waiting.pop(answer["id"])
            except (ValueError, KeyError, TypeError):
                self.errors.append(f"said what nobody asked for: {line[:300]!r}\n")
                continue
            future.set_result(answer)
        self.over = True
        with self.lock:
            left, self.waiting = self.waiting, {}
        for future in left.values():
            future.set_exception(Gone())

    def overhear(self):
        for line in self.process.stderr:
            self.errors.append(line)
            if self.aloud:
                print(f"  {line.rstrip()}", flush=True)

    def ask(self, op, args):
        """Sends a request; (its number, the future of its answer)."""
        future = concurrent.futures.Future()
        with self.lock:
            number, self.next = self.next, self.next + 1
            line = json.dumps({"id": number, "op": op, "args": args})
            if self.aloud:
                print(f"→ {line[:2000]}", flush=True)
            if self.over:
                future.set_exception(Gone())
                return number, future
            self.waiting[number] = future
            try:
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()
            except OSError:
                pass  # listen() comes to the end too
        return number, future

    def close(self):
        """The end of its input is the end of an adapter."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            status = self.process.wait(60 * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        for thread in self.threads:
            thread.join()
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()
        return status

    def last_words(self):
        return "".join(self.errors)[-1500:]


# ---- one case, one adapter ----


class Differs(Exception):
    pass


class NotOffered(Exception):
    pass


class Run:
    """A case with an adapter: its outcome is `same`, or (`differs` | `not offered`, why)."""

    def __init__(self, key, case, talk, daemon, storm):
        self.key, self.case, self.talk, self.daemon, self.storm = key, case, talk, daemon, storm
        self.names = {"unique": f"c{secrets.token_hex(5)}"}
        self.started, self.made, self.left_out = {}, [], {}
        self.outcome, self.seconds = None, 0

    def __call__(self):
        began = time.monotonic()
        try:
            self.look_ahead()
            for number, step in enumerate(self.case["steps"], 1):
                try:
                    self.step(step)
                except Differs as found:
                    raise Differs(f"step {number} ({self.title(step)}): {found}") from None
            self.check_expiry()
            left = [f"without `{op}`: {why}" for op, why in self.left_out.items()]
            self.outcome = ("same", "; ".join(left))
        except NotOffered as found:
            self.outcome = ("not offered", str(found))
        except Differs as found:
            self.outcome = ("differs", str(found))
        except Gone:
            self.outcome = ("differs", f"the adapter ended: {self.talk.last_words()}")
        except Exception as error:
            self.outcome = ("differs", f"the case cannot be run: {type(error).__name__}: {error}")
        finally:
            if self.storm:
                self.storm.leave()
            self.clean()
            self.seconds = time.monotonic() - began

    def look_ahead(self):
        """A case that cannot come to its end is not begun."""
        needed = [step["do"] for step in self.case["steps"] if "do" in step and not step.get("if_offered")]
        for word in (self.key, *needed):
            if word in self.talk.adapter.lacks:
                raise NotOffered(self.talk.adapter.lacks[word])

    @staticmethod
    def title(step):
        return next(f"{key} {step[key]}" for key in ("do", "wait", "cancel", "restart_daemon") if key in step)

    def step(self, step):
        if step.get("if_offered") and step["do"] in self.talk.adapter.lacks:
            self.left_out[step["do"]] = self.talk.adapter.lacks[step["do"]]
        elif "restart_daemon" in step:
            self.storm.arrive()
        elif "cancel" in step:
            self.answer_of(self.talk.ask("cancel", {"id": self.started[step["cancel"]][0]}))
        elif "wait" in step:
            op, asked = self.started[step["wait"]][1:]
            self.check(step, op, self.answer_of(asked), step["wait"])
        elif step.get("start"):
            asked = self.talk.ask(step["do"], filled(step.get("args", {}), self.names))
            self.started[step["as"]] = (asked[0], step["do"], asked)
            if step.get("held") and not self.storm.gate.wait_held(self.names["unique"], 60 * SLOW):
                raise Differs("it was not under way within 60 s")
        elif "prints_before" in step:
            self.do_before_timeout(step)
        else:
            self.do(step)

    def do_before_timeout(self, step):
        """Runs the command of a step with longer and longer timeouts, until it had come to the file that it makes before it sleeps."""
        sandbox = step["args"]["sandbox"]
        for timeout in (1, 5, 20):
            self.names["timeout"] = timeout
            answer = self.answer_of(self.talk.ask(step["do"], filled(step["args"], self.names)))
            made = filled({"sandbox": sandbox, "command": "test -e " + step["prints_before"]}, self.names)
            if self.answer_of(self.talk.ask("exec", made)).get("result", {}).get("exit_code") == 0:
                break
            if answer.get("error", {}).get("code") == "unsupported_op":
                break
        self.check(step, step["do"], answer, step.get("as"))

    def do(self, step):
        deadline = time.monotonic() + 60 * SLOW
        while True:
            answer = self.answer_of(self.talk.ask(step["do"], filled(step.get("args", {}), self.names)))
            try:
                return self.check(step, step["do"], answer, step.get("as"))
            except Differs:
                if not step.get("until") or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def answer_of(self, asked):
        try:
            return asked[1].result(PATIENCE * SLOW)
        except concurrent.futures.TimeoutError:
            raise Differs(f"no answer within {PATIENCE} s") from None

    def check(self, step, op, answer, name):
        error = answer.get("error")
        if error and error.get("code") == "unsupported_op":
            lacks = self.talk.adapter.lacks
            args = [f"{op}.{key}" for key in step.get("args", {})]
            why = next((lacks[word] for word in (op, *args) if word in lacks), None)
            if why and step.get("if_offered"):
                self.left_out[op] = why
                return
            if why:
                raise NotOffered(why)
            raise Differs(f"{op} is not offered, and its table does not say so: {error.get('message')}")
        if "ok" in answer and isinstance(answer["ok"], dict):
            if name:
                self.names[name] = answer["ok"]
            self.note(op, answer["ok"])
        choices = step.get("any") or [{key: step[key] for key in ("expect", "error") if key in step}]
        found = [self.unlike(choice, answer) for choice in choices]
        if all(found):
            raise Differs("; ".join(found))

    def unlike(self, choice, answer):
        """How an answer is not what a step says."""
        if "error" in choice:
            want = dict(filled(choice["error"], self.names))
            if not self.talk.adapter.tells_status:
                want.pop("status", None)
            if "error" not in answer:
                return f"it did not fail: {short(answer.get('ok'))}"
            return difference(want, answer["error"], "error")
        if "ok" not in answer:
            return f"it failed: {short(answer.get('error'))}"
        return difference(filled(choice.get("expect", {}), self.names), answer["ok"])

    PLACES = {"create": "sandboxes", "clone": "sandboxes", "volume_create": "volumes", "network_create": "networks",
              "snapshot": "snapshots"}

    def note(self, op, ok):
        if op in self.PLACES and "id" in ok:
            self.made.append((self.PLACES[op], ok["id"]))

    def check_expiry(self):
        """What the client's sandboxes are told to do at the end of their time."""
        want = "stop" if self.talk.adapter.keeps else None
        made = [id for place, id in self.made if place == "sandboxes"] if self.key.startswith("sandboxes/") else []
        with Api(unix=self.daemon.socket_path, token=TOKEN) as api:
            for said in (api.get(f"/sandboxes/{id}") for id in made):
                if said.status == 200 and said.ok()["config"].get("onTimeout") != want:
                    raise Differs(f"onTimeout is {said.ok()['config'].get('onTimeout')} and not {want}: does it send Cay-Client?")

    def clean(self):
        """What the case made goes: sandboxes first."""
        with Api(unix=self.daemon.socket_path, token=TOKEN) as api:
            for place, id in sorted(self.made, key=lambda made: made[0] != "sandboxes"):
                api.delete(f"/{place}/{id}")


# ---- all of them ----


class Storm:
    """Where the cases of one daemon meet when it is to be restarted."""

    def __init__(self, restart, count, gate):
        self.restart, self.left, self.gate = restart, count, gate
        self.here, self.round, self.error = 0, 0, None
        self.changed = threading.Condition()

    def arrive(self):
        with self.changed:
            self.here += 1
            mine = self.round
            self.perhaps()
            while self.round == mine:
                self.changed.wait()
            if self.error:
                raise Differs(f"the daemon was not restarted: {self.error}")

    def leave(self):
        with self.changed:
            self.left -= 1
            self.perhaps()

    def perhaps(self):
        """The last one to come restarts it for all; they all hold still meanwhile."""
        if not self.here or self.here < self.left:
            return
        try:
            self.restart()
        except Exception as error:
            self.error = error
        self.gate.open()
        self.here = 0
        self.round += 1
        self.changed.notify_all()


def replace(daemon):
    """Returns when the new one serves and the old one has ended."""
    old, ready = daemon.process, daemon.spawn(["--replace"])
    try:
        assert os.read(ready, 100) == b"ready\n", daemon.log()[-2000:]
        assert old.wait(60 * SLOW) == 0
    finally:
        os.close(ready)


def kill(daemon):
    daemon.kill9()
    daemon.start()


class Conformance:
    """Daemons, adapters and runs of a whole session."""

    RESTARTS = {"kill": kill, "replace": replace}

    def __init__(self, pairs, aloud=False, online=None):
        """pairs: (adapter's name, key of a case); online: somebody's daemon whose sandboxes can have networks."""
        self.cases, self.online = load(), online
        self.pairs = [(name, key) for name, key in pairs
                      if not ADAPTERS[name].missing() and (online or kinds_of(self.cases[key]) != "online")]
        self.aloud = aloud
        self.daemons, self.talks, self.commands, self.bad_ends = {}, {}, {}, {}
        self.gates, self.urls = {}, {}
        self.runs, self.strangers, self.stale = {}, [], []

    def build(self):
        """All adapters at once."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            made = {name: pool.submit(ADAPTERS[name].make) for name in {name for name, _ in self.pairs}}
        self.commands = {name: future.result() for name, future in made.items()}

    def start(self):
        for kind in sorted({kinds_of(self.cases[key]) for _, key in self.pairs}):
            self.daemons[kind] = self.online if kind == "online" else Daemon(f"conformance-{kind}", env={
                "CAY_AUTH_TOKEN": TOKEN, "CAY_MAX_SANDBOXES": 500, "CAY_POOL": "8", "CAY_DRAIN_TIMEOUT": 1}).start()

            self.open_gate(kind)

    def open_gate(self, kind):
        """The one that is replaced is reached over a unix socket, the others over TCP; those that are restarted through a gate, which has
        their own socket on its other side: its name is theirs while they are down, as that of a port is not."""
        daemon = self.daemons[kind]
        url = f"http://127.0.0.1:{daemon.port}"
        if kind == "online":  # it is in a namespace of its own
            url = f"unix:{daemon.socket_path}"
        elif kind == "kill":
            self.gates[kind] = Gate(("127.0.0.1", 0), str(daemon.socket_path))
            url = "http://127.0.0.1:%d" % self.gates[kind].address[1]
        elif kind == "replace":
            self.gates[kind] = Gate(str(daemon.root / "gate.sock"), str(daemon.socket_path))
            url = f"unix:{self.gates[kind].address}"
        self.urls[kind] = url

    def talk(self, name, kind):
        if (name, kind) not in self.talks:
            daemon, url = self.daemons[kind], self.urls[kind]
            self.talks[name, kind] = Talk(ADAPTERS[name], self.commands[name], daemon, url, self.aloud)
        return self.talks[name, kind]

    def work(self):
        for name in self.commands:
            self.check_lacks(name)
        groups = collections.defaultdict(list)
        for name, key in self.pairs:
            groups[kinds_of(self.cases[key])].append((name, key))
        threads = [threading.Thread(target=self.work_group, args=(kind, pairs)) for kind, pairs in groups.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def check_lacks(self, name):
        """What the table says that an adapter lacks, it must lack."""
        ops = [word for word in ADAPTERS[name].lacks if word.isidentifier()]
        kind = next(kinds_of(self.cases[key]) for one, key in self.pairs if one == name)
        asked = [(op, self.talk(name, kind).ask(op, {})[1]) for op in ops]
        for op, future in asked:
            if future.result(PATIENCE * SLOW).get("error", {}).get("code") != "unsupported_op":
                self.stale.append(f"{name} has {op}")

    def work_group(self, kind, pairs):
        daemon = self.daemons[kind]
        storm = Storm(lambda: self.RESTARTS[kind](daemon), len(pairs), self.gates[kind]) if kind in self.gates else None
        pairs = sorted(pairs, key=lambda pair: not self.cases[pair[1]].get("long"))
        for name, key in pairs:
            self.runs[name, key] = Run(key, self.cases[key], self.talk(name, kind), daemon, storm)
        with concurrent.futures.ThreadPoolExecutor(len(pairs) if storm else 10) as pool:
            for pair in pairs:
                pool.submit(self.runs[pair])

    def end(self):
        """Adapters first; then what is left of sandboxes is nobody's."""
        for (name, _), talk in self.talks.items():
            status = talk.close()
            if status != 0:
                self.bad_ends[name] = f"ended with {status}: {talk.last_words()}"
        for gate in self.gates.values():
            gate.close()
        for kind, daemon in self.daemons.items():
            if daemon.running():
                with daemon.again_quiet() as api:
                    self.strangers += api.ids()
            if kind != "online":
                daemon.destroy()

    def forget(self):
        for kind, daemon in self.daemons.items():
            if kind != "online":
                Daemon.everyone.remove(daemon)


# ---- the table ----


def page(outcomes):
    """The page of a table of (adapter, case) to outcome."""
    names = [name for name in ADAPTERS if any(pair[0] == name for pair in outcomes)]
    lines = ["# Conformance", "",
             "What came of the cases in [sdk/conformance](../sdk/conformance/README.md) with each client, against a live daemon. Made by",
             "`tests/integration/test_conformance.py`, which fails when it is not current; do not edit.", "",
             *(f"- **{name}**: {ADAPTERS[name].about}" for name in names), "",
             "✓ is the same as all others; – is not offered by that client, for the reason below; ✗ differs. A ✓ with a number is without the",
             "operations that are named there.", "",
             "| case | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    reasons = []
    for key, case in load().items():
        cells = [cell(outcomes.get((name, key)), reasons) for name in names]
        lines.append(f"| `{key}`: {case['about']} | " + " | ".join(cells) + " |")
    lines += ["", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))]
    return "\n".join(lines).rstrip() + "\n"


def cell(outcome, reasons):
    if outcome is None:
        return " "
    kind, why = outcome
    sign = {"same": "✓", "not offered": "–", "differs": "✗"}[kind]
    if not why:
        return sign
    if why not in reasons:
        reasons.append(why)
    return f"{sign} ({reasons.index(why) + 1})"


def read_page(text):
    """(adapter, case) to what a page says of it, with the reason."""
    reasons = dict(re.findall(r"^(\d+)\. (.*)$", text, re.M))
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    told = {}
    for row in rows[1:]:
        key = re.match(r"`(.*?)`", row[0])[1]
        for name, said in zip(rows[0][1:], row[1:]):
            number = re.search(r"\((\d+)\)", said)
            told[name, key] = (said[0], reasons[number[1]] if number else "")
    return {pair: said for pair, said in told.items() if said[0] != " "}


def main(name=None, *words):
    names = [name] if name else list(ADAPTERS)
    pairs = [(n, key) for n in names for key in load() if not words or any(word in key for word in words)]
    all = Conformance(pairs, aloud=bool(words))
    try:
        all.build()
        all.start()
        began = time.monotonic()
        all.work()
        took = time.monotonic() - began
    finally:
        all.end()
    for (n, key), run in all.runs.items():
        if run.outcome[0] == "differs":
            print(n, key, *run.outcome)
    for (n, key), run in sorted(all.runs.items(), key=lambda item: -item[1].seconds)[:8]:
        print(f"{run.seconds:6.2f} s  {n} {key}")
    print(collections.Counter((pair[0], run.outcome[0]) for pair, run in all.runs.items()), f"{took:.1f} s", all.bad_ends, all.strangers, all.stale)


if __name__ == "__main__":
    main(*sys.argv[1:])
