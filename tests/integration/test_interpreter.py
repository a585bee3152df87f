"""Code in processes of its own: languages, packages, kernels; side by side, late, long and strange."""

import concurrent.futures
import re

import pytest

from cay_harness import wait_until
from cay_order import longer_and_longer

pytestmark = pytest.mark.core

NOBODY = "sbx_" + "0" * 24


@pytest.fixture
def box(shared):
    with shared.api() as api:
        sandbox = api.create()["id"]
        yield Box(api, sandbox)
        api.remove(sandbox)


class Box:
    def __init__(self, api, id):
        self.api, self.id = api, id
        self.path = f"/sandboxes/{id}/interpret"

    def run(self, code, language="python", api=None, **fields):
        return (api or self.api).post(f"{self.path}/execute",
                                      {"code": code, "language": language, **fields})

    def events(self, code, language="python", **fields):
        return list(self.api.events("POST", f"{self.path}/execute",
                                    {"code": code, "language": language, **fields}))


HAS = {"python": "python3", "javascript": "node", "go": "go", "bash": "bash"}


def needs(language):
    """The sandbox has the host's /usr, and /usr/bin is in its PATH."""
    return pytest.mark.needs(f"program:/usr/bin/{HAS[language]}")


HELLO = {
    "python": "print(1 + 1)",
    "javascript": "console.log(1 + 1)",
    "go": 'package main\nimport "fmt"\nfunc main() { fmt.Println(1 + 1) }',
    "bash": "echo $((1 + 1))",
}


@pytest.mark.parametrize("language", [pytest.param(n, marks=needs(n)) for n in HELLO])
def test_code_of_a_language_runs(box, language):
    done = box.run(HELLO[language], language).ok()
    assert (done["output"], done["error"], done["exitCode"]) == ("2\n", None, 0)
    assert done["executionTime"] > 0 and done["truncated"] is False


def test_python_is_what_is_meant_when_nothing_is_said(box):
    assert box.api.post(f"{box.path}/execute", {"code": "print(2)"}).ok()["output"] == "2\n"


@pytest.mark.parametrize("language,code", [("bash", "echo out; echo no >&2; exit 3"), ("python",
    "import sys; print('out'); print('no', file=sys.stderr); sys.exit(3)")])
def test_what_fails_says_why_in_error_and_keeps_its_output(box, language, code):
    done = box.run(code, language).ok()
    assert (done["output"], done["error"], done["exitCode"]) == ("out\n", "no\n", 3)


def test_an_end_without_words_is_an_error_that_is_not_empty(box):
    assert "3" in box.run("exit 3", "bash").ok()["error"]


def test_code_of_bash_is_never_a_flag(box):
    assert "-x: command not found" in box.run("-x", "bash").ok()["error"]


def test_stderr_of_what_succeeds_is_no_error(box):
    done = box.run("echo no >&2", "bash").ok()
    assert (done["error"], done["stderr"]) == (None, "no\n")


def test_a_traceback_shows_the_lines_of_the_code_and_nothing_of_ours(box):
    done = box.run("def f():\n    return 1 / 0\n\nf()").ok()
    assert "ZeroDivisionError" in done["error"] and "return 1 / 0" in done["error"]
    assert re.findall(r'File "([^"]+)", line (\d+)', done["error"]) == [("<code>", "4"), ("<code>", "2")]


def test_aliases_and_unknown_languages(box):
    assert box.run("echo 1", "sh").ok()["output"] == "1\n"
    box.run("x", "cobol").failed(400, "invalid", "python, javascript")


def test_a_language_that_is_not_there_is_named(box):
    box.run("print(1)", env={"PATH": "/nowhere"}).failed(409, "interpreter_missing", "python3")
    box.run("1", "javascript", env={"PATH": "/nowhere"}).failed(409, "interpreter_missing", "node")


def test_runs_side_by_side_do_not_meet(box):
    def one(n):
        with box.api.again() as own:
            return box.run(f"import time; time.sleep(0.05); print({n})", api=own).ok()["output"]

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert list(pool.map(one, range(24))) == [f"{n}\n" for n in range(24)]
    assert box.api.sh(box.id, "ls -A /tmp") == ""


def test_long_bash_leaves_no_file(box):
    done = box.run(f"echo {'x' * 300_000} | wc -c; exit 2", "bash").ok()
    assert (done["output"], done["exitCode"]) == ("300001\n", 2)
    assert box.api.sh(box.id, "ls -A /tmp") == ""


def test_long_code_and_odd_characters_arrive_as_they_are(box):
    text = "ä€😀\\\"'\r\t" * 20_000
    assert box.run(f"s = {text!r}\nprint(len(s), s[:3])").ok()["output"] == f"{len(text)} ä€😀\n"
    box.run("#" * (1 << 20) + "x").failed(400, "invalid", "code")


def test_output_that_is_no_text_and_more_than_an_answer_has(box):
    done = box.run("import sys; sys.stdout.buffer.write(b'\\xff\\x00ok')").ok()
    assert done["output"] == "�\0ok"
    done = box.run("print('x' * (9 << 20))").ok()
    assert done["truncated"] and set(done["output"]) == {"x"} and len(done["output"]) >= 1 << 20


def test_code_has_no_input_and_says_so_at_once(box):
    assert "EOFError" in box.run("input()").ok()["error"]


def test_what_takes_too_long_is_ended_and_told_with_its_output(box):
    for timeout in longer_and_longer():
        said = box.run("import time; print('begun', flush=True); open('/tmp/begun', 'w'); time.sleep(100)", timeout=timeout).failed(
            408, "command_timeout", "timed out")
        if box.api.exec(box.id, "test -e /tmp/begun")["exitCode"] == 0:
            break
    assert said["stdout"] == "begun\n"
    assert not [p for p in box.api.processes(box.id) if "python3" in p["command"]]


def test_cwd_env_and_user(box):
    box.api.sh(box.id, "mkdir -p /workspace/d && echo 'A = 5' > /workspace/d/mine.py")
    code = "import os, mine; print(os.getcwd(), os.environ['B'], os.getuid(), mine.A)"
    done = box.run(code, cwd="/workspace/d", env={"B": "b"}, user="1000").ok()
    assert done["output"] == "/workspace/d b 1000 5\n", done


def test_events_come_while_it_runs(box):
    code = "print('a', flush=True)\nimport os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nprint('b')\n1/0"
    stream = box.api.events("POST", f"{box.path}/execute", {"code": code, "language": "python"})
    assert next(e for e in stream if e["event"] == "stdout")["text"] == "a\n"
    box.api.sh(box.id, "touch /tmp/go")
    got = list(stream)
    assert [e["text"] for e in got if e["event"] == "stdout"] == ["b\n"] and got[-1]["event"] == "done"
    end = got[-1]["execution"]
    assert end["exitCode"] == 1 and "ZeroDivisionError" in end["error"] and "output" not in end


def test_kernels_are_what_is_there(box):
    kernels = {k["language"]: k for k in box.api.get(f"{box.path}/kernels").ok()}
    for language, program in HAS.items():
        has = box.api.exec(box.id, f"command -v {program}")["exitCode"] == 0
        assert (language in kernels) == has, language
    assert kernels["python"]["name"] == "python3" and kernels["python"]["displayName"] == "Python 3"
    assert kernels["python"]["version"] == box.run(
        "import sys; print(sys.version.split()[0], end='')").ok()["output"]


def test_what_cannot_be_installed_says_why(box):
    said = box.api.post(f"{box.path}/install", {"packages": ["/none/x.whl"]}).failed(
        409, "install_failed", "Install failed: ")
    assert said["exitCode"] != 0 and said["output"]
    box.api.post(f"{box.path}/install", {"packages": ["-r"]}).failed(400, "invalid", "dash")
    box.api.post(f"{box.path}/install", {"packages": ["x"], "manager": "cpan"}).failed(400, "invalid")
    box.api.post(f"{box.path}/install", {"packages": []}).failed(400, "invalid", "packages")


WHEEL = """
import zipfile
with zipfile.ZipFile("/tmp/tiny_thing-1.0-py3-none-any.whl", "w") as z:
    z.writestr("tiny_thing.py", "value = 42\\n")
    z.writestr("tiny_thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny-thing\\nVersion: 1.0\\n")
    z.writestr("tiny_thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr("tiny_thing-1.0.dist-info/RECORD", "tiny_thing.py,,\\ntiny_thing-1.0.dist-info/METADATA,,\\n"
               "tiny_thing-1.0.dist-info/WHEEL,,\\ntiny_thing-1.0.dist-info/RECORD,,\\n")
"""


@pytest.mark.needs("module:pip")
@pytest.mark.parametrize("manager", ["pip", "python"])
def test_a_python_package_is_there_afterwards(box, manager):
    box.run(WHEEL).ok()
    wheel = "/tmp/tiny_thing-1.0-py3-none-any.whl"
    done = box.api.post(f"{box.path}/install", {"packages": [wheel], "manager": manager}).ok()
    assert "tiny" in done["output"]
    assert box.run("import tiny_thing; print(tiny_thing.value)").ok()["output"] == "42\n"


@needs("javascript")
@pytest.mark.needs("program:/usr/bin/npm")
def test_a_node_package_is_there_afterwards(box):
    box.api.sh(box.id, "mkdir /tmp/tiny && cd /tmp/tiny && echo 'module.exports = 42' > index.js && "
                       "echo '{\"name\": \"tiny\", \"version\": \"1.0.0\"}' > package.json && "
                       "cd /tmp && npm pack ./tiny --silent")
    box.api.post(f"{box.path}/install",
                 {"packages": ["/tmp/tiny-1.0.0.tgz"], "manager": "npm"}).ok()
    assert box.run("console.log(require('tiny'))", "javascript").ok()["output"] == "42\n"


def test_sandboxes_that_are_not_there_or_do_not_run(box):
    for method, what, body in (("POST", "execute", {"code": "1"}), ("GET", "kernels", None),
                               ("POST", "install", {"packages": ["x"]})):
        box.api.call(method, f"/sandboxes/{NOBODY}/interpret/{what}", body).failed(
            404, "sandbox_not_found")
    box.api.post(f"/sandboxes/{box.id}/pause").ok()
    box.run("print(1)").failed(409, "sandbox_not_running")


def test_events_say_that_code_ran_and_not_how(box):
    box.run("print('hidden')").ok()
    box.run("echo hidden", "bash").ok()
    context = box.api.post(f"{box.path}/contexts", {"language": "python"}).ok()["id"]
    wait_until(lambda: told(box)[:3] == ["context: python", "code: bash", "code: python"], what="the events")
    box.api.delete(f"{box.path}/contexts/{context}").ok()


def told(box):
    found = box.api.get(f"/events/history?topic=exec.started&sandboxId={box.id}").ok()["events"]
    return [e["data"]["command"] for e in found]
