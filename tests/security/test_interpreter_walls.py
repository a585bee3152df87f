"""Code that turns on its own interpreter, and on the daemon through it."""

import concurrent.futures
import json

import pytest

from cay_harness import rss_kib, wait_until

pytestmark = pytest.mark.core


@pytest.fixture
def run(api, box):
    path = f"/sandboxes/{box}/interpret"

    def run(code, context=None, api=api, **fields):
        return api.post(f"{path}/execute", {"code": code, **({"contextId": context} if context else {}), **fields})

    run.new = lambda **fields: api.post(f"{path}/contexts", fields).ok()["id"]
    run.api = api
    run.list = lambda: [c["id"] for c in api.get(f"{path}/contexts").ok()["contexts"]]
    return run


FORGED = {
    "no JSON": "import os; os.write(4, b'not json\\n')",
    "an array": "import os; os.write(4, b'[1]\\n')",
    "deep": "import os; os.write(4, b'[' * 100000 + b'\\n')",
    "many values": "import os; data = b'{\"t\":\"x\",\"a\":[' + b'0,' * 200000 + b'0]}\\n'\nwhile data: data = data[os.write(4, data):]",
    "a surrogate": "import os; os.write(4, b'{\"t\":\"out\",\"s\":1,\"d\":\"\\\\ud800\"}\\n')",
    "no end": "import os\nfor _ in range(80): os.write(4, b'x' * 65536)",
}


@pytest.mark.parametrize("how", FORGED)
def test_lines_that_are_none_end_the_context_and_nothing_else(run, how):
    context = run.new()
    run("x = 1", context).ok()
    run(FORGED[how], context).failed(409, "context_broken")
    wait_until(lambda: context not in run.list(), what="the end of the context")
    assert run("print(2)").ok()["output"] == "2\n"
    assert run(FORGED[how]).failed(409, "context_broken")


def test_lines_that_are_right_but_forged_are_no_more_than_wrong_results(run):
    context = run.new()
    forged = ("import os\n"
              "os.write(4, b'{\"t\":\"done\",\"id\":\"run_0\",\"exit\":0,\"ms\":1}\\n"
              "{\"t\":\"result\",\"id\":\"\",\"r\":{}}\\n{\"t\":\"ready\"}\\n{}\\n')")
    assert run(forged + "\nprint('mine')", context).ok()["output"] == "mine\n"
    assert run("1", context).ok()["results"][0]["data"] == "1"


@pytest.mark.parametrize("code", ["import os; os.closerange(3, 256)", "import os; os.close(4)",
                                  "import os; os.kill(os.getpid(), 9)",
                                  "import os; os._exit(0)", "import os; os.abort()"])
def test_an_interpreter_that_is_gone_is_told_so(run, code):
    context = run.new()
    run(code, context).failed(409, "context_ended")
    assert run.list() == []
    run("1", context).failed((404, 409))
    done = run(code).ok()
    assert done["exitCode"] != 0 or "_exit(0)" in code
    assert run("print(2)").ok()["output"] == "2\n"


def test_printed_frames_are_text(run):
    line = '{"t":"done","id":"x","exit":0}'
    for context in (None, run.new()):
        done = run(f"print('''{line}''')\nimport os\nos.system('echo more')", context).ok()
        assert done["output"] == f"{line}\nmore\n"


def test_children_that_stay_hold_up_nobody(run, api, box):
    context = run.new()
    stay = "import os, time\nif os.fork() == 0:\n    time.sleep(1000)\nprint('parent')"
    assert run(stay, context).ok()["output"] == "parent\n"
    assert run("1 + 1", context).ok()["results"][0]["data"] == "2"
    talk = ("import os, sys\npid = os.fork()\nprint('child' if pid == 0 else 'parent')\n"
            "if pid: os.waitpid(pid, 0);")
    done = run(talk, context).ok()
    assert sorted(done["output"].split()) == ["child", "parent"]
    assert run("'still'", context).ok()["results"][0]["data"] == "'still'"
    api.delete(f"/sandboxes/{box}/interpret/contexts/{context}").ok()
    assert not [p for p in api.processes(box) if "python3" in p["command"]]


def test_floods_and_huge_results_have_bounds(run, shared):
    context = run.new()
    run("1", context).ok()
    before = rss_kib(shared.process.pid)
    done = run("for _ in range(400): print('x' * (1 << 17))", context).ok()
    assert done["truncated"] and len(done["output"]) <= 4 << 20
    done = run("for _ in range(20): display('y' * (1 << 17))", context).ok()
    assert len(done["results"]) <= 48
    done = run("class H:\n    def _repr_html_(self): return 'h' * (64 << 20)\nH()", context).ok()
    assert done["truncated"] and [r["type"] for r in done["results"]] == ["text"]
    run("raise ValueError('v' * (8 << 20))", context).ok()
    assert run("1", context).ok()["results"][0]["data"] == "1"
    assert rss_kib(shared.process.pid) < before + (96 << 10)


def test_twenty_contexts_side_by_side(api, make):
    boxes = [make()["id"], make()["id"]]
    contexts = [(b, api.post(f"/sandboxes/{b}/interpret/contexts", {}).ok()["id"])
                for b in boxes for _ in range(10)]

    def one(n):
        b, context = contexts[n % 20]
        with api.again() as own:
            body = {"code": f"x = globals().get('x', {n % 20}); print(x)", "contextId": context}
            return own.post(f"/sandboxes/{b}/interpret/execute", body).ok()["output"]

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert list(pool.map(one, range(100))) == [f"{n % 20}\n" for n in range(100)]


def test_a_context_is_of_its_sandbox_alone(api, make):
    mine, other = make()["id"], make()["id"]
    context = api.post(f"/sandboxes/{mine}/interpret/contexts", {}).ok()["id"]
    path = f"/sandboxes/{other}/interpret"
    api.post(f"{path}/execute", {"code": "1", "contextId": context}).failed(404, "context_not_found")
    for method, what in (("GET", ""), ("DELETE", ""), ("POST", "/restart"), ("POST", "/interrupt")):
        api.call(method, f"{path}/contexts/{context}{what}").failed(404, "context_not_found")
    assert api.post(f"/sandboxes/{mine}/interpret/execute", {"code": "5", "contextId": context}).ok()["exitCode"] == 0


def test_what_only_looks_like_a_context_is_not_more_than_a_command(run, api, box):
    exec_id = "ex_" + "7" * 24
    command = ": cay-context python; while read line; do echo nonsense; done; sleep 1000"
    with api.again() as own, concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(own.try_exec, box, command, execId=exec_id, timeout=60)
        wait_until(lambda: "ctx_" + "7" * 24 in run.list())
        run("1", "ctx_" + "7" * 24, timeout=1).failed((404, 408, 409))
        api.delete(f"/sandboxes/{box}/interpret/contexts/ctx_{'7' * 24}")
        waiting.result()


@pytest.mark.parametrize("options", ['{"imports":[1]}', '{"imports":[null]}', '{"imports":{"a":1}}', '{"env":{"a":1}}',
                                     '{"env":[1]}', '{"cwd":[]}', '{"user":5}', '{"user":"0"}', '{"idleTimeout":-5}',
                                     '[' * 100000, '{"imports":[' + '"a",' * 100000 + '"a"]}'],
                         ids=lambda options: options[:20])
def test_a_restart_takes_the_sandbox_at_no_word(api, make, options):
    """An interpreter that is none says how it was started; it was started as that user all the same."""
    box = make(env={"PATH": "/workspace/bin:/usr/bin:/bin"})["id"]
    line = json.dumps({"t": "ready", "options": options, "version": {"a": "b"}})
    api.post(f"/sandboxes/{box}/files/write", {"path": "/workspace/line", "content": line + "\n"}).ok()
    api.sh(box, "mkdir bin; printf '#!/bin/sh\\nid -u >>/tmp/who\\ncat /workspace/line >&4\\nexec sleep 1000\\n' "
                ">bin/python3; chmod 755 bin/python3", cwd="/workspace")
    made = api.post(f"/sandboxes/{box}/interpret/contexts", {"user": "1000"}).ok()
    assert made["version"] == ""
    api.post(f"/sandboxes/{box}/interpret/contexts/{made['id']}/restart").ok()
    assert api.sh(box, "cat /tmp/who") == "1000\n1000\n"


def test_users_of_contexts_are_words(api, box):
    api.post(f"/sandboxes/{box}/interpret/contexts", {"user": "x; touch /tmp/y"}).failed(400)


NOISE = {
    "empty": "import os\nd = b'{}\\n' * 20000\nwhile 1: os.write(4, d)",
    "another's": "import os\nd = b'{\"t\":\"out\",\"id\":\"x\",\"d\":\"' + b'y' * 3000 + b'\"}\\n'\nwhile 1: os.write(4, d)",
    "ready": "import os\nd = b'{\"t\":\"ready\"}\\n' * 5000\nwhile 1: os.write(4, d)",
}


@pytest.mark.parametrize("how", NOISE)
def test_noise_does_not_outlive_its_time(run, how):
    """Lines that are for nobody leave the daemon nothing to tell: it sees all the same what time it is."""
    context = run.new()
    run(NOISE[how], context, timeout=1).failed((408, 409))
    # Nothing else could end it. Now the context runs other code, or has ended with it.
    reply = run("'on'", context)
    if reply.status != 200:
        reply.failed((404, 409))
    else:
        assert reply.json["results"][0]["data"] == "'on'"
    assert run("print(2)").ok()["output"] == "2\n"
