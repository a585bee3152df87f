"""Contexts: what they keep, what they give, who waits for whom, and what they outlive."""

import base64
import concurrent.futures
import json
import threading

import pytest

from cay_harness import cay, wait_until
from cay_order import longer_and_longer
from test_interpreter import NOBODY, Box, box, needs  # noqa: F401

pytestmark = pytest.mark.core

NO_CONTEXT = "ctx_" + "0" * 24


class Context:
    """A context of a box; run() gives its answer."""

    def __init__(self, box, language="python", **fields):
        self.box, self.api, self.language = box, box.api, language
        self.made = box.api.post(f"{box.path}/contexts", {"language": language, **fields}).ok()
        self.id = self.made["id"]
        self.path = f"{box.path}/contexts/{self.id}"

    def try_run(self, code, api=None, **fields):
        return self.box.run(code, api=api, contextId=self.id, **fields)

    def run(self, code, **fields):
        done = self.try_run(code, **fields).ok()
        assert done["error"] is None, done
        return done

    def value(self, code, mime="text/plain"):
        return next(r["data"] for r in self.run(code)["results"] if r["mime"] == mime)

    def events(self, code, **fields):
        return self.box.api.events("POST", f"{self.box.path}/execute",
                                   {"code": code, "contextId": self.id, **fields})


@pytest.fixture
def python(box):
    return Context(box)


@pytest.fixture
def node(box):
    return Context(box, "javascript")


# ---- what they keep ----


def test_variables_live_between_runs_of_python(python):
    python.run("import math\nx = 40\ndef f(n): return n + math.floor(2.5)")
    assert python.value("f(x)") == "42"
    assert python.run("f(x);")["results"] == []
    assert python.run("print(x)")["output"] == "40\n"


@needs("javascript")
def test_variables_live_between_runs_of_javascript(node):
    node.run("const x = 40; function f(n) { return n + 2 }; class A {}")
    node.run("const x = 41; class A {}")
    assert node.value("f(x)") == "43"
    assert node.value("{ a: 1 }", "application/json") == {"a": 1}
    assert node.value("await Promise.resolve(7)") == "7"
    assert node.value("import os, { EOL as end } from 'os'; typeof os.cpus + end.length") == "'function1'"


def test_await_and_loops_are_those_of_a_notebook(python):
    python.run("import asyncio\nasync def f(): await asyncio.sleep(0); return 7")
    assert python.value("await f()") == "7"
    python.run("q = asyncio.Queue(); await q.put(5)")
    assert python.value("await q.get()") == "5"


def test_two_contexts_know_nothing_of_each_other(box):
    one, two = Context(box), Context(box)
    one.run("x = 1")
    assert two.try_run("x").ok()["exception"]["name"] == "NameError"
    got = box.api.get(f"{box.path}/contexts").ok()["contexts"]
    assert {c["id"] for c in got} == {one.id, two.id}
    assert all(c["sandboxId"] == box.id and c["language"] == "python" for c in got)
    assert box.api.get(one.path).ok()["execId"] == "ex_" + one.id[4:]


def test_settings_hold_and_a_restart_has_them_again(box):
    box.api.sh(box.id, "mkdir -p /workspace/d && echo 'A = 5' > /workspace/d/mine.py")
    c = Context(box, cwd="/workspace/d", env={"B": "b"}, user="1000", imports=["mine"])
    see = "import os, sys; print(os.getcwd(), os.environ['B'], os.getuid(), 'mine' in sys.modules)"
    assert c.run(see)["output"] == "/workspace/d b 1000 True\n"
    c.run("x = 1; import subprocess; subprocess.Popen(['sleep', '1000'])")
    again = box.api.post(f"{c.path}/restart").ok()
    assert again["id"] == c.id and again["version"].startswith("3.")
    assert c.run(see)["output"] == "/workspace/d b 1000 True\n"
    assert c.try_run("x").ok()["exception"]["name"] == "NameError"
    assert not [p for p in box.api.processes(box.id) if "sleep 1000" in p["command"]]


def test_a_context_that_is_removed_is_gone_with_its_processes(box, python):
    python.run("import subprocess; subprocess.Popen(['sleep', '1000'])")
    box.api.delete(python.path).ok()
    assert box.api.get(f"{box.path}/contexts").ok() == {"contexts": []}
    assert not [p for p in box.api.processes(box.id) if "python3" in p["command"] or "sleep" in p["command"]]
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/restart"), ("POST", "/interrupt")):
        box.api.call(method, python.path + path).failed(404, "context_not_found")
    python.try_run("1").failed(404, "context_not_found")


def test_what_is_no_context_is_not_found(box):
    for id in (NO_CONTEXT, "ctx_x", "x"):
        box.run("1", contextId=id).failed(404, "context_not_found")
        box.api.get(f"{box.path}/contexts/{id}").failed(404, "context_not_found")
    background = box.api.background(box.id, "sleep 1000")
    box.api.get(f"{box.path}/contexts/ctx_{background['id'][3:]}").failed(404, "context_not_found")
    box.api.post(f"{box.path}/contexts", {"language": "go"}).failed(400, "invalid")
    box.api.post(f"{box.path}/contexts", {"env": {"PATH": "/nowhere"}}).failed(
        409, "interpreter_missing", "python3")
    box.api.post(f"/sandboxes/{NOBODY}/interpret/contexts", {}).failed(404, "sandbox_not_found")


# ---- what they give ----


def test_a_traceback_is_a_structure(python):
    done = python.try_run("def f():\n    return 1 / 0\n\nf()").ok()
    e = done["exception"]
    assert (e["name"], e["value"], e["line"]) == ("ZeroDivisionError", "division by zero", 2)
    assert [(p["file"], p["line"], p["function"], p["text"]) for p in e["traceback"]] == [
        ("<cell 1>", 4, "<module>", "f()"), ("<cell 1>", 2, "f", "return 1 / 0")]
    assert done["exitCode"] == 1 and done["error"] == e["text"]
    e = python.try_run("1 +").ok()["exception"]
    assert (e["name"], e["line"], e["traceback"]) == ("SyntaxError", 1, [])


@needs("javascript")
def test_a_traceback_of_javascript_is_one_too(node):
    e = node.try_run("function f() {\n  throw new TypeError('no')\n}\nf()").ok()["exception"]
    assert (e["name"], e["value"], e["line"]) == ("TypeError", "no", 2)
    assert [(p["line"], p["function"]) for p in e["traceback"]] == [(4, "<anonymous>"), (2, "f")]
    assert node.try_run("const = 1").ok()["exception"]["name"] == "SyntaxError"
    assert node.try_run("throw 5").ok()["exception"]["value"] == "5"


def test_values_come_in_all_their_forms(python):
    python.run("class R:\n"
               "    def _repr_html_(self): return '<b>ä</b>'\n"
               "    def _repr_json_(self): return {'a': [1, None, float('nan')], 'big': 2**70}\n"
               "    def _repr_svg_(self): return '<svg/>'\n"
               "    def _repr_png_(self): return b'\\x89PNG'\n"
               "    def _repr_markdown_(self): raise ValueError\n"
               "    def __repr__(self): return 'R()'")
    got = {r["mime"]: r for r in python.run("R()")["results"]}
    assert {m: r["type"] for m, r in got.items()} == {
        "text/plain": "text", "text/html": "html", "application/json": "json",
        "image/svg+xml": "svg", "image/png": "image"}
    assert got["text/html"]["data"] == "<b>ä</b>" and got["text/plain"]["data"] == "R()"
    assert got["application/json"]["data"] == {"a": [1, None, None], "big": pytest.approx(2.0**70)}
    assert base64.b64decode(got["image/png"]["data"]) == b"\x89PNG"
    assert all(r["main"] for r in got.values()) and len({r["group"] for r in got.values()}) == 1
    shown = python.run("display(1, 'two')\n3")["results"]
    assert [(r["data"], r.get("main", False)) for r in shown] == [("1", False), ("'two'", False), ("3", True)]


def test_odd_values_do_not_break_anything(python):
    python.run("class Bad:\n    def __repr__(self): raise RuntimeError\nloop = []; loop.append(loop)")
    assert "Bad" in python.value("Bad()")
    assert python.value("loop") == "[[...]]"
    assert python.value("'\\ud800'") == "'\\ud800'"
    assert python.run("print('\\ud800\\0é')")["output"] == "\\ud800\0é\n"
    assert python.value("{'k': '\\ud800\\0'}", "application/json") == {"k": "?\0"}
    done = python.run("'x' * (3 << 20)")
    assert done["truncated"] and len(done["results"][0]["data"]) > 100_000
    done = python.run("list(range(200_000))")
    assert [r["mime"] for r in done["results"]] == ["text/plain"]


@pytest.mark.needs("module:matplotlib")
def test_figures_are_pictures(python):
    done = python.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('then')\n"
                      "plt.figure(); plt.plot([2, 1]);")
    pictures = [r for r in done["results"] if r["mime"] == "image/png"]
    assert len(pictures) == 2 and {r["type"] for r in pictures} == {"image"}
    assert all(base64.b64decode(r["data"]).startswith(b"\x89PNG\r\n") for r in pictures)
    assert done["stderr"] == "" and done["output"] == "then\n"
    assert python.run("1")["results"][0]["mime"] == "text/plain"  # and none is shown twice
    got = list(python.events("plt.plot([1]); plt.show(); print('then')"))
    assert [e["event"] for e in got] == ["result", "stdout", "done"]
    done = python.run("plt.rcParams['savefig.format'] = 'svg'\nfig, ax = plt.subplots()\nfig")
    assert [r["type"] for r in done["results"]] == ["svg"] and "<svg" in done["results"][0]["data"]


@pytest.mark.needs("module:pandas")
def test_data_frames_are_tables(python):
    python.run("import pandas as pd\n"
               "d = pd.DataFrame({'n': [1, 2], 's': ['a', None], 't': pd.to_datetime(['2020-01-02'] * 2)})")
    got = {r["type"]: r["data"] for r in python.run("d")["results"]}
    assert got["table"] == {"columns": ["n", "s", "t"], "index": [0, 1], "total": 2,
                            "rows": [[1, "a", "2020-01-02 00:00:00"], [2, None, "2020-01-02 00:00:00"]]}
    assert "<table" in got["html"] and "2020" in got["text"]
    assert python.value("d['n']", "application/vnd.cay.table+json")["rows"] == [[1], [2]]
    big = python.value("pd.DataFrame({'x': range(100_000)})", "application/vnd.cay.table+json")
    assert big["total"] == 100_000 and len(big["rows"]) == 1000


def test_runs_without_a_context_give_results_too(box):
    done = box.run("print(1)\n{'a': 1}").ok()
    assert done["output"] == "1\n" and {"type": "json", "mime": "application/json", "data": {"a": 1},
                                        "main": True, "group": 1} in done["results"]


def test_what_other_programs_print_comes_in_its_order(python):
    done = python.run("import os, sys\nprint('a'); os.system('echo b; echo c >&2'); print('d')\n"
                      "os.write(1, b'e\\n'); print('f', file=sys.stderr);")
    assert done["output"] == "a\nb\nd\ne\n" and done["stderr"] == "c\nf\n"


@needs("javascript")
def test_what_other_programs_print_past_node_is_not_lost(node):
    for n in range(5):
        done = node.run(f"require('child_process').execSync('echo sub {n}', {{ stdio: 'inherit' }}); 1")
        assert done["output"] == f"sub {n}\n"
    done = node.run("console.log('a'); process.stderr.write('b\\n'); process.stdout.write(Buffer.from('é\\n'));")
    assert (done["output"], done["stderr"]) == ("a\né\n", "b\n")


def test_it_comes_as_it_happens(python):
    stream = python.events("import time\nprint('first')\ndisplay(5)\n"
                           "while not __import__('os').path.exists('/tmp/go'): time.sleep(0.01)\nprint('last')")
    stream = iter(stream)
    assert next(stream) == {"event": "stdout", "text": "first\n"}
    assert next(stream)["result"]["data"] == "5"
    python.api.sh(python.box.id, "touch /tmp/go")
    assert [e["event"] for e in stream] == ["stdout", "done"]


def test_long_code_arrives_whole(python):
    text = "ä€😀\\\"'" * 40_000
    assert python.value(f"s = {text!r}\nlen(s)") == str(len(text))


# ---- who waits ----


def test_runs_of_several_callers_take_turns(box, python):
    python.run("seen = []")

    def one(n):
        with box.api.again() as own:
            done = python.try_run(f"seen.append({n}); print({n}); {n}", api=own).ok()
            return done["output"], done["results"][0]["data"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(40))) == [(f"{n}\n", str(n)) for n in range(40)]
    assert python.value("sorted(seen) == list(range(40))") == "True"


@needs("javascript")
def test_who_waits_is_not_given_what_programs_of_others_print(box, node):
    def one(n):
        with box.api.again() as own:
            done = node.try_run(f"require('child_process').execSync('echo {n}', {{ stdio: 'inherit' }}); {n}",
                                api=own).ok()
            return done["output"], done["stderr"], done["results"][0]["data"]

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, range(30))) == [(f"{n}\n", "", str(n)) for n in range(30)]


def started(box, code):
    """Waits until code in some context has said so by a file."""
    wait_until(lambda: box.api.exec(box.id, "rm /tmp/begun")["exitCode"] == 0, what="a run that began")


BEGUN = "open('/tmp/begun', 'w').close()\n"


@pytest.mark.parametrize("how", ["import time\ntime.sleep(1000)", "while True: pass",
                                 "import os\nos.system('sleep 1000')\n1/0"])
def test_an_interrupt_ends_the_run_and_keeps_the_rest(box, python, how):
    python.run("x = 5")
    with concurrent.futures.ThreadPoolExecutor(1) as pool, box.api.again() as own:
        running = pool.submit(python.try_run, BEGUN + how, api=own)
        started(box, how)
        box.api.post(f"{python.path}/interrupt").ok()
        done = running.result().ok()
    assert done["exception"]["name"] in ("KeyboardInterrupt", "ZeroDivisionError"), done
    assert python.value("x") == "5"
    box.api.post(f"{python.path}/interrupt").ok()  # of one that runs nothing
    assert python.value("x") == "5"


@needs("javascript")
@pytest.mark.parametrize("how", ["while (true) {}", "await new Promise(() => {})"])
def test_an_interrupt_of_javascript_does_too(box, node, how):
    node.run("const x = 5")
    with concurrent.futures.ThreadPoolExecutor(1) as pool, box.api.again() as own:
        running = pool.submit(node.try_run, "require('fs').writeFileSync('/tmp/begun', '')\n" + how, api=own)
        started(box, how)
        box.api.post(f"{node.path}/interrupt").ok()
        assert running.result().ok()["exception"]["name"] == "KeyboardInterrupt"
    assert node.value("x") == "5"


def timed_out(box, code):
    """Runs code that makes /tmp/begun and does not end. Returns the refusal and the context. A run that did not begin in time may cost its
    context, so each timeout has a context of its own."""
    for timeout in longer_and_longer():
        context = Context(box)
        context.run("x = 5")
        said = context.try_run(code, timeout=timeout).failed(408, "command_timeout")
        if box.api.exec(box.id, "test -e /tmp/begun")["exitCode"] == 0:
            return said, context
        box.api.delete(context.path)


def test_a_run_that_takes_too_long_is_interrupted(box):
    said, python = timed_out(box, "import time\nprint('begun')\nopen('/tmp/begun', 'w')\ntime.sleep(1000)")
    assert "interrupted" in said["error"] and said["stdout"] == "begun\n"
    assert python.value("x") == "5"


def test_one_that_cannot_be_interrupted_loses_its_context(box):
    stubborn = ("import time\nwhile True:\n    try:\n        open('/tmp/begun', 'w')\n        time.sleep(1000)\n"
                "    except KeyboardInterrupt:\n        pass")
    said, python = timed_out(box, stubborn)
    assert "ended" in said["error"]
    python.try_run("1").failed(404, "context_not_found")
    assert not [p for p in box.api.processes(box.id) if "python3" in p["command"]]


def test_one_whose_time_is_over_while_it_waits_ends_no_other(box, python):
    wait = BEGUN + "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nx = 5"
    with concurrent.futures.ThreadPoolExecutor(1) as pool, box.api.again() as own:
        running = pool.submit(python.try_run, wait, api=own)
        started(box, wait)
        python.try_run("x = 6", timeout=0.3).failed(408, "command_timeout", "did not begin")
        box.api.sh(box.id, "touch /tmp/go")
        assert running.result().ok()["error"] is None
    assert python.value("x") == "5"


def test_who_hangs_up_ends_the_run_and_not_the_context(box, python):
    python.run("x = 5")
    own = box.api.again()
    thread = threading.Thread(target=lambda: hang_up_later(python, own))
    thread.start()
    started(box, "")
    own.connection.sock.shutdown(2)
    thread.join()
    assert python.value("x") == "5"


def hang_up_later(context, own):
    try:
        context.try_run(BEGUN + "import time\ntime.sleep(1000)", api=own)
    except Exception:
        pass


# ---- what they outlive ----


def test_contexts_outlive_the_daemon(own):
    with own.api() as api:
        box = Box(api, api.create()["id"])
        contexts = [Context(box)] + [Context(box, "javascript")] * bool(has_node(box))
        for c in contexts:
            c.run("x = 41")
        own.kill9()
        own.start()
        with own.api() as later:
            for c in contexts:
                c.api = c.box.api = later
                assert c.value("x + 1") == "42"
            assert len(later.get(f"{box.path}/contexts").ok()["contexts"]) == len(contexts)
            later.post(f"{contexts[0].path}/restart").ok()
            later.remove(box.id)


def has_node(box):
    return box.api.exec(box.id, "command -v node")["exitCode"] == 0


def test_a_stopped_sandbox_has_none_and_a_paused_one_keeps_them(box, python):
    python.run("x = 5")
    box.api.post(f"/sandboxes/{box.id}/pause").ok()
    python.try_run("x").failed(409, "sandbox_not_running")
    box.api.post(f"/sandboxes/{box.id}/resume").ok()
    assert python.value("x") == "5"
    box.api.post(f"/sandboxes/{box.id}/stop").ok()
    box.api.post(f"/sandboxes/{box.id}/start").ok()
    assert box.api.get(f"{box.path}/contexts").ok() == {"contexts": []}
    python.try_run("x").failed(404, "context_not_found")


def test_an_idle_context_ends_itself(box):
    c = Context(box, idleTimeout=1)
    wait_until(lambda: not box.api.get(f"{box.path}/contexts").ok()["contexts"], what="its end")
    c.try_run("1").failed(409, "context_ended")


@needs("javascript")
def test_a_context_is_not_idle_while_it_runs(box):
    c = Context(box, "javascript", idleTimeout=1)
    assert c.value("await new Promise(done => setTimeout(done, 1500)); 5") == "5"
    wait_until(lambda: not box.api.get(f"{box.path}/contexts").ok()["contexts"], what="its end")


@needs("javascript")
@pytest.mark.parametrize("language", ["python", "javascript"])
def test_one_that_may_idle_for_a_year_runs(box, language):
    c = Context(box, language, idleTimeout=31536000)
    assert c.value("1 + 1") == "2"
    assert c.value("2 + 1") == "3"


def test_one_that_kills_itself_says_how_it_ended(box, python):
    said = python.try_run("print('last words', flush=True)\nimport os\nos.kill(os.getpid(), 9)").failed(
        409, "context_ended")
    assert said["stdout"] == "last words\n"
    assert box.api.get(f"{box.path}/contexts").ok() == {"contexts": []}


def test_there_are_sixteen_at_most(box):
    def make(_):
        with box.api.again() as own:
            return own.post(f"{box.path}/contexts", {})

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        made = list(pool.map(make, range(20)))
    assert sorted(r.status for r in made) == [200] * 16 + [429] * 4
    assert {r.code for r in made if r.status == 429} == {"context_limit"}
    assert len(box.api.get(f"{box.path}/contexts").ok()["contexts"]) == 16


def test_exit_is_an_exception_and_no_end(python):
    python.run("x = 5")
    assert python.try_run("exit(3)").ok()["exception"]["name"] == "SystemExit"
    assert python.value("x") == "5"
    assert "EOFError" in json.dumps(python.try_run("input()").ok())


# ---- cay code ----


def test_the_command_line_runs_code_and_keeps_contexts(shared, box, tmp_path):
    def run(*words, status=0, **how):
        done = cay(shared, *words, **how)
        assert done.returncode == status, (words, done)
        return done.stdout.decode()

    assert run("code", "-c", "print(1 + 1)\n3", box.id) == "2\n3\n"
    (tmp_path / "x.sh").write_text("echo hi; exit 3")
    assert run("code", box.id, str(tmp_path / "x.sh"), status=3) == "hi\n"
    assert run("code", box.id, status=1, input=b"1/0") == ""
    context = run("context", "create", box.id).strip()
    run("code", "--context", context, "-c", "x = 5", box.id)
    assert run("code", "--context", context, "-c", "x", box.id) == "5\n"
    assert context in run("context", "ls", box.id)
    assert max(len(line) for line in run("ps", box.id).splitlines()) < 250  # its driver is pages long
    assert run("context", "ls", "-q", box.id) == f"{context}\n"
    assert [c["id"] for c in json.loads(run("context", "ls", "--json", box.id))] == [context]
    assert run("context", "restart", box.id, context) == f"{context}\n"
    run("code", "--context", context, "-c", "x", box.id, status=1)
    run("context", "interrupt", box.id, context)
    picture = "class P:\n    def _repr_png_(self): return b'PNG'\nP()"
    run("code", "--context", context, "-c", picture, "--save", str(tmp_path), box.id)
    assert (tmp_path / "result-1.png").read_bytes() == b"PNG"
    run("context", "rm", box.id, context)
    run("code", "--context", context, "-c", "x", box.id, status=125)
    run("code", "-c", "while True: pass", "--timeout", "1", box.id, status=124)
    assert run("code", "-l", "sh", "-c", "echo 1", box.id) == "1\n"
    assert json.loads(run("code", "--json", "-c", "5", box.id))["results"][0]["data"] == "5"
