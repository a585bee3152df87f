"""Sandboxes of the pool in which an interpreter has started before anybody asked."""

import concurrent.futures

import pytest

from cay_harness import cay, wait_until

pytestmark = pytest.mark.core

READY = "python3 -c # Runs code"


@pytest.fixture
def pool(own):
    with own.api() as api:
        made = api.post("/pool/profiles", {"image": "host", "size": 1,
                                           "interpreter": {"imports": ["decimal"]}}).ok()
        assert made["interpreter"] == {"language": "python", "imports": ["decimal"]}
        wait_ready(api)
        yield api


def wait_ready(api):
    wait_until(lambda: api.get("/pool/status").ok()["ready"] == 1, 30, what="a box that is ready")


def run(api, id, code, **fields):
    return api.post(f"/sandboxes/{id}/interpret/execute", {"code": code, **fields})


def waits(api, id):
    return [p for p in api.processes(id) if p["command"].startswith(READY)]


def test_code_runs_in_what_has_waited(pool):
    id = pool.create(env={"MINE": "m"})["id"]
    assert waits(pool, id)
    see = "import os, sys; print('decimal' in sys.modules, os.environ['MINE'], os.environ.get('B'), os.getcwd())"
    assert run(pool, id, see).ok()["output"] == "True m None /workspace\n"
    assert run(pool, id, see, env={"B": "b"}, cwd="/tmp").ok()["output"] == "True m b /tmp\n"
    assert run(pool, id, "import sys; print('decimal' in sys.modules)", user="1000").ok()["output"] == "False\n"
    run(pool, id, "x = 1").ok()
    assert run(pool, id, "x").ok()["exception"]["name"] == "NameError"
    done = run(pool, id, "import sys; print('a'); {'k': 1}").ok()
    assert done["output"] == "a\n" and done["results"][-1]["data"] == {"k": 1}
    assert run(pool, id, "raise SystemExit(4)").ok()["exitCode"] == 4
    assert run(pool, id, "import os; os.kill(os.getpid(), 9)").ok()["exitCode"] == 137
    assert run(pool, id, "print(len(__import__('random').__file__) > 0)").ok()["output"] == "True\n"
    assert run(pool, id, "import random; random.random()").ok() != run(pool, id, "import random; random.random()").ok()
    assert waits(pool, id)


def test_runs_side_by_side_do_not_wait_for_it(pool):
    id = pool.create()["id"]

    def one(n):
        with pool.again() as own:
            return run(own, id, f"import time; time.sleep(0.2); print({n})").ok()["output"]

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(one, range(8))) == [f"{n}\n" for n in range(8)]


def test_one_that_is_gone_is_done_without(pool):
    id = pool.create()["id"]
    run(pool, id, "import time; time.sleep(1000)", timeout=0.3).failed(408, "command_timeout")
    wait_until(lambda: not waits(pool, id), what="its end")
    assert run(pool, id, "print(2)").ok()["output"] == "2\n"
    pool.remove(id)
    wait_ready(pool)
    id = pool.create()["id"]
    pool.exec(id, "pkill -9 python3")
    assert run(pool, id, "print(3)").ok()["output"] == "3\n"
    pool.post(f"/sandboxes/{id}/stop").ok()
    pool.post(f"/sandboxes/{id}/start").ok()
    assert run(pool, id, "print(4)").ok()["output"] == "4\n"


def test_it_is_kept_over_a_restart_and_can_be_asked_for_by_hand(own, pool):
    id = pool.create()["id"]
    assert run(pool, id, "print(1)").ok()["output"] == "1\n"
    own.kill9()
    own.start()
    with own.api() as api:
        assert run(api, id, "print(2)").ok()["output"] == "2\n"
        profile = api.get("/pool/profiles").ok()["profiles"][-1]
        assert profile["interpreter"]["imports"] == ["decimal"]
        wait_ready(api)
        assert waits(api, api.create()["id"])
        cay(own, "pool", "rm", profile["id"], check=True)
        assert cay(own, "pool", "add", "--import", "json", "host", check=True).stdout.startswith(b"wp_")
        api.post("/pool/profiles", {"image": "host", "memory": 256, "interpreter": {"language": "go"}}).failed(
            400, "invalid", "python")
