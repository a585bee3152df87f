"""Commands that outlive their caller, and the daemon."""

import pytest

from cay_harness import wait_until
from cay_order import commands_of, end_sleep

pytestmark = pytest.mark.core


def test_a_background_exec_is_the_object_of_the_contract(api, box):
    x = api.background(box, "echo hi; exit 4")
    assert x["id"].startswith("bg_") and x["sandboxId"] == box and x["running"] is True
    assert x["command"] == "echo hi; exit 4" and isinstance(x["startedAt"], int) and x["pid"] > 0
    end = api.background_end(x["id"])
    assert end["exitCode"] == 4 and end["finishedAt"] >= end["startedAt"]
    assert end["command"] == x["command"] and end["sandboxId"] == box
    assert api.background_logs(x["id"]) == {"output": "hi\n", "cursor": 3}


def test_logs_are_read_by_cursor(api, box):
    x = api.background(box, "printf one; echo two >&2; until [ -e /tmp/go ]; do sleep 0.01; done; "
                            "printf three")
    first = wait_until(lambda: (lambda l: l if l["cursor"] == 7 else None)(
        api.background_logs(x["id"])))
    assert first["output"] == "onetwo\n"
    assert api.background_logs(x["id"], 7) == {"output": "", "cursor": 7}
    api.sh(box, "touch /tmp/go")
    api.background_end(x["id"])
    assert api.background_logs(x["id"], 7) == {"output": "three", "cursor": 12}
    assert api.background_logs(x["id"], 3)["output"] == "two\nthree"
    assert api.background_logs(x["id"], 10**9)["output"] == ""


def test_long_logs_come_in_pieces_that_join_without_a_gap(api, box):
    x = api.background(box, "head -c 3000000 /dev/zero | tr '\\0' q")
    api.background_end(x["id"])
    cursor, got = 0, ""
    while True:
        piece = api.background_logs(x["id"], cursor)
        if not piece["output"]:
            break
        got += piece["output"]
        cursor = piece["cursor"]
    assert len(got) == 3_000_000 and cursor == 3_000_000


def test_an_unknown_exec_is_not_found(api):
    for what in ("status", "logs"):
        said = api.get(f"/exec/background/bg_000000000000000000000000/{what}").failed(404)
        assert "Background exec not found" in said["error"]
        api.get(f"/exec/background/..%2f..%2fetc/{what}").failed((400, 404))


def test_a_bad_cursor_is_refused(api, box):
    x = api.background(box, "true")
    api.background_end(x["id"])
    for cursor in ("-1", "abc", "1e400"):
        api.get(f"/exec/background/{x['id']}/logs?cursor={cursor}").failed(400)


def test_an_array_runs_in_the_background_too(api, box):
    x = api.background(box, ["sh", "-c", "echo $0", "arg"])
    api.background_end(x["id"])
    assert api.background_logs(x["id"])["output"] == "arg\n"


def test_a_killed_background_exec_says_so(api, box):
    x = api.background(box, "exec sleep 1000")
    api.post(f"/sandboxes/{box}/processes/kill", {"pid": x["pid"], "signal": "KILL"}).ok()
    assert api.background_end(x["id"])["exitCode"] == 137


def test_it_goes_on_when_the_daemon_is_killed(own):
    with own.api() as api:
        id = api.create()["id"]
        x = api.background(id, "echo before; until [ -e /tmp/go ]; do sleep 0.01; done; "
                               "echo after; exit 6")
        wait_until(lambda: api.background_logs(x["id"])["output"])
        own.kill9()
        own.start()
        status = api.background_status(x["id"])
        assert status["running"] and status["pid"] == x["pid"]
        assert status["startedAt"] == x["startedAt"]
        api.sh(id, "touch /tmp/go")
        end = api.background_end(x["id"])
        assert end["exitCode"] == 6
        assert api.background_logs(x["id"])["output"] == "before\nafter\n"


@pytest.mark.counts_rows
def test_one_that_ends_while_the_daemon_is_away_is_not_lost(own):
    with own.api() as api:
        id = api.create()["id"]
        x = api.background(id, "sleep 271828; echo done; exit 7")
        own.kill9()
        end_sleep(id, 271828)
        wait_until(lambda: not any("exit 7" in command for command in commands_of(id).values()), what="the end of the command")
        own.start()
        assert api.background_end(x["id"])["exitCode"] == 7
        assert api.background_logs(x["id"])["output"] == "done\n"
