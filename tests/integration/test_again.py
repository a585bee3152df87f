"""Commands by their ids: they outlive their callers and the daemon, and can be come back to."""

import contextlib
import http.client
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from cay_harness import CAY, cay, cli_environment, wait_until
from cay_order import longer_and_longer
from test_attach import STARTED, STDIN, STDOUT, Attached

pytestmark = pytest.mark.core

# Says that it is there, and waits for a file.
WAITS = "echo before; echo bad >&2; touch /tmp/up; until [ -e /tmp/go ]; do sleep 0.02; done; " \
        "echo after; exit 6"
CHOSEN = "ex_0123456789abcdef01234567"


def state(api, box, id, cursor=0):
    return api.get(f"/sandboxes/{box}/exec/{id}?cursor={cursor}").ok()


def end(api, box, id):
    def ended():
        now = state(api, box, id)
        return None if now["running"] else now

    return wait_until(ended, what=f"end of {id}")


def is_up(api, box):
    wait_until(lambda: api.exec(box, "test -e /tmp/up")["exitCode"] == 0)


def only(api, box):
    """The one that runs."""
    found = [x for x in api.get(f"/sandboxes/{box}/exec").ok()["execs"] if x["running"]]
    assert len(found) == 1, found
    return found[0]["id"]


def check_end(api, box, id):
    api.sh(box, "touch /tmp/go")
    now = end(api, box, id)
    assert (now["exitCode"], now["reason"]) == (6, "exit"), now
    assert (now["stdout"], now["stderr"]) == ("before\nafter\n", "bad\n")
    assert now["cursor"] == 17 and now["lost"] == 0 and not now["more"]
    assert now["finishedAt"] >= now["startedAt"]
    assert state(api, box, id, 11)["stdout"] == "after\n"


@contextlib.contextmanager
def waiting(api, box, up="/tmp/up", **fields):
    """A sync exec of WAITS in a thread, which makes the file `up`; gives what it came to."""
    got = {}

    def run():
        with api.again() as mine:
            try:
                got["reply"] = mine.try_exec(box, WAITS.replace("/tmp/up", up), **fields)
            except (OSError, http.client.HTTPException) as e:
                got["broken"] = e

    t = threading.Thread(target=run)
    t.start()
    wait_until(lambda: api.exec(box, f"test -e {up}")["exitCode"] == 0 or not t.is_alive())
    yield got
    t.join()


# ---- who has which id ----


def test_every_exec_has_an_id(api, box):
    reply = api.try_exec(box, "echo out; echo err >&2; exit 3")
    id = reply.headers["X-Exec-Id"]
    assert reply.json["execId"] == id and id.startswith("ex_")
    now = state(api, box, id)
    assert (now["stdout"], now["stderr"], now["exitCode"]) == ("out\n", "err\n", 3)
    assert now["running"] is False and now["id"] == id and now["tty"] is False
    assert api.exec(box, "true", execId=CHOSEN)["execId"] == CHOSEN
    assert state(api, box, CHOSEN)["exitCode"] == 0
    listed = api.get(f"/sandboxes/{box}/exec").ok()["execs"]
    assert {id, CHOSEN} <= {x["id"] for x in listed}
    assert {x["command"] for x in listed if x["id"] == CHOSEN} == {"true"}
    api.try_exec(box, "true", execId="mine").failed(400, "invalid")


def test_the_list_of_execs_has_the_newest_first(api, box):
    running = api.background(box, "sleep 1000")["id"]
    for _ in range(300):  # more than are kept, so that places are used again
        last = api.exec(box, "true")["execId"]
    newest = api.background(box, "sleep 1000")["id"]
    listed = api.get(f"/sandboxes/{box}/exec").ok()["execs"]
    starts = [x["startedAt"] for x in listed]
    assert starts == sorted(starts, reverse=True) and len(listed) > 200
    assert listed[-1]["id"] == running
    assert {newest, last} <= {x["id"] for x in listed[:5]}


def test_two_that_run_do_not_share_an_id(api, box):
    with waiting(api, box, execId=CHOSEN):
        api.try_exec(box, "touch /tmp/second", execId=CHOSEN).failed(409, "exec_exists", CHOSEN)
        reply = api.post(f"/sandboxes/{box}/exec/stream", {"command": "true", "execId": CHOSEN})
        reply.failed(409, "exec_exists")
        api.post(f"/sandboxes/{box}/exec/{CHOSEN}/kill").ok()
    assert api.sh(box, "ls /tmp/second 2>/dev/null; true") == ""
    assert api.exec(box, "echo again", execId=CHOSEN)["stdout"] == "again\n"


def test_an_output_that_was_cut_says_so_later_too(api, box):
    said = api.exec(box, "head -c 11000000 /dev/zero | tr '\\0' a", execId=CHOSEN)
    assert said["truncated"] is True
    assert state(api, box, CHOSEN)["truncated"] is True
    assert state(api, box, api.exec(box, "echo x")["execId"])["truncated"] is False


def test_a_stream_says_its_id_first(api, box):
    with api.again() as own:
        response = own.start("POST", f"/sandboxes/{box}/exec/stream", {"command": "echo x"})
        id = response.headers["X-Exec-Id"]
        response.read()
    assert state(api, box, id)["stdout"] == "x\n"
    events = api.exec_stream(box, "echo one; echo two")
    assert events[0]["execId"].startswith("ex_") and "execId" not in events[-1]
    assert [e["cursor"] for e in events if e["type"] == "stdout"][-1] == 8


def test_an_attached_one_has_its_id_in_the_head(api, box):
    with Attached(api, box, command="echo x") as a:
        id = a.headers["x-exec-id"]
        assert a.frame()[0] == STARTED
        a.rest()
    assert state(api, box, id)["stdout"] == "x\n"


def test_one_in_the_background_is_found_by_its_id(api, box):
    x = api.background(box, "echo out; echo err >&2; exit 4")
    events = list(api.events("GET", f"/sandboxes/{box}/exec/{x['id']}/stream"))
    assert "".join(e["data"] for e in events if e["type"] == "stdout") == "out\nerr\n"
    assert (events[-1]["type"], events[-1]["data"]) == ("exit", "4")
    assert state(api, box, x["id"])["exitCode"] == 4


def test_ids_that_are_not_there(api, box, make):
    api.get(f"/sandboxes/{box}/exec/{CHOSEN[:-1]}f").failed(404, "exec_not_found")
    api.get(f"/sandboxes/{box}/exec/main").failed(404, "exec_not_found")
    api.get(f"/sandboxes/{box}/exec/..%2f..").failed((400, 404))
    api.post(f"/sandboxes/{box}/exec/{CHOSEN[:-1]}f/kill").failed(404, "exec_not_found")
    api.get(f"/sandboxes/{box}/exec/{CHOSEN[:-1]}f/stream").failed(404, "exec_not_found")
    id = api.exec(box, "true")["execId"]
    api.get(f"/sandboxes/{make()['id']}/exec/{id}").failed(404, "exec_not_found")
    state(api, box, id)


# ---- the daemon is killed ----


def test_a_sync_exec_outlives_the_daemon(own):
    with own.api() as api:
        box = api.create()["id"]
        with waiting(api, box, execId=CHOSEN) as got:
            assert only(api, box) == CHOSEN
            own.kill9()
        assert "broken" in got
        own.start()
        assert state(api, box, CHOSEN)["running"]
        check_end(api, box, CHOSEN)


def test_a_stream_outlives_the_daemon_and_is_read_on(own):
    with own.api() as api:
        box = api.create()["id"]
        stream = api.events("POST", f"/sandboxes/{box}/exec/stream", {"command": WAITS})
        first = next(stream)
        id = first["execId"]
        is_up(api, box)
        own.kill9()
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            list(stream)
        own.start()
        rest = api.events("GET", f"/sandboxes/{box}/exec/{id}/stream?cursor={first['cursor']}")
        second = next(rest)
        assert (second["type"], second["data"], second["execId"]) == ("stderr", "bad\n", id)
        api.sh(box, "touch /tmp/go")
        last = list(rest)
        assert [(e["type"], e["data"]) for e in last] == [("stdout", "after\n"), ("exit", "6")]
        assert last[0]["cursor"] == 17
        check_end(api, box, id)


def test_a_terminal_outlives_the_daemon_and_is_typed_into_again(own):
    with own.api() as api:
        box = api.create()["id"]
        a = Attached(api, box, command="stty -echo; echo ready; read a; echo got $a; stty size; "
                                       "read b; exit $b", tty=True, stdin=True)
        id = a.headers["x-exec-id"]
        assert a.frame()[0] == STARTED and a.frame() == (STDOUT, b"ready\r\n")
        own.kill9()
        own.start()
        a.close()
        with Attached(api, box, again=id, rows=33, cols=44) as b:
            assert b.headers["x-exec-id"] == id and b.frame()[0] == STARTED
            assert b.frame() == (STDOUT, b"ready\r\n")
            b.send(STDIN, b"word\n")
            out = b""
            while b"44" not in out:
                out += b.frame()[1]
            assert out == b"got word\r\n33 44\r\n"
            with Attached(api, box, again=id) as c:
                assert c.status == 409 and b"exec_attached" in c.body
            b.send(STDIN, b"7\n")
            assert b.rest()[2:] == (0, 7)
        now = end(api, box, id)
        assert now["tty"] and now["exitCode"] == 7


def test_a_daemon_that_is_stopped_leaves_commands_running(daemon_of):
    """Its stream is cut off when the time of calls under way is over."""
    own = daemon_of(env={"CAY_DRAIN_TIMEOUT": 0}).start()
    with own.api() as api:
        box = api.create()["id"]
        stream = api.events("POST", f"/sandboxes/{box}/exec/stream", {"command": WAITS})
        id = next(stream)["execId"]
        is_up(api, box)
        assert own.stop() == 0
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            list(stream)
        own.start()
        check_end(api, box, id)


def test_a_flood_goes_on_without_the_daemon(own):
    """What it put out meanwhile is there to the last byte, or counted."""
    with own.api() as api:
        box = api.create()["id"]
        stream = api.events("POST", f"/sandboxes/{box}/exec/stream",
                            {"command": "head -c 50000000 /dev/zero | tr '\\0' x; echo end"})
        id = next(stream)["execId"]
        own.kill9()
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            list(stream)
        own.start()
        end(api, box, id)
        now = state(api, box, id)
        assert now["lost"] > 0 and len(now["stdout"]) == 1 << 20 and now["more"]
        assert now["cursor"] == now["lost"] + (1 << 20)
        last = state(api, box, id, 50_000_000)
        assert last["stdout"] == "end\n" and last["cursor"] == 50_000_004 and not last["more"]
        events = list(api.events("GET", f"/sandboxes/{box}/exec/{id}/stream"))
        assert events[0]["type"] == "lost" and int(events[0]["data"]) == now["lost"]
        got = sum(len(e["data"]) for e in events if e["type"] == "stdout")
        assert got + now["lost"] == 50_000_004


# ---- who hangs up, and who does not want to end it ----


def test_a_caller_that_hangs_up_ends_its_exec(api, box):
    s = socket.create_connection(("127.0.0.1", api.port), timeout=60)
    body = b'{"command": "touch /tmp/up; sleep 1000", "execId": "%s"}' % CHOSEN.encode()
    s.sendall(b"POST /sandbox/sandboxes/%s/exec HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
              b"application/json\r\nContent-Length: %d\r\n\r\n%s" % (box.encode(), len(body), body))
    is_up(api, box)
    s.close()
    assert end(api, box, CHOSEN)["reason"] == "cancelled"


def test_a_caller_that_hangs_up_in_the_middle_of_its_input_ends_its_exec(api, box):
    """The command reads nothing, so there is no room for a word behind the input."""
    with Attached(api, box, command="touch /tmp/up; sleep 1000", stdin=True) as a:
        id = a.headers["x-exec-id"]
        assert a.frame()[0] == STARTED
        # Closed at once: else the end waits behind what the daemon does not read.
        a.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        a.s.setblocking(False)
        data = struct.pack("<IB3x", 65536, STDIN) + bytes(65536)
        with contextlib.suppress(BlockingIOError):
            for _ in range(1000):
                sent = a.s.send(data)
                data = data[sent:] or struct.pack("<IB3x", 65536, STDIN) + bytes(65536)
    assert end(api, box, id)["reason"] == "cancelled"


def test_detach_leaves_it_running(api, box):
    stream = api.events("POST", f"/sandboxes/{box}/exec/stream", {"command": WAITS, "detach": True})
    id = next(stream)["execId"]
    is_up(api, box)
    stream.close()
    assert state(api, box, id)["running"]
    check_end(api, box, id)


def attached_again(api, box, id):
    b = Attached(api, box, again=id)
    if b.status == 101:
        return b
    assert b"exec_attached" in b.body  # the first has not been seen to go
    b.close()
    return None


def test_detach_of_an_attached_one(api, box):
    with Attached(api, box, command="cat", stdin=True, detach=True) as a:
        id = a.headers["x-exec-id"]
        assert a.frame()[0] == STARTED
    with wait_until(lambda: attached_again(api, box, id)) as b:
        assert b.frame()[0] == STARTED
        b.send(STDIN, b"text")
        b.send(STDIN)
        assert b.rest() == (b"text", b"", 0, 0)


@pytest.mark.parametrize("tty", [False, True])
def test_input_that_was_sent_just_before_the_caller_left_arrives(api, box, tty):
    for word in "abcdefgh":
        with Attached(api, box, command="read a; echo got $a; exit 4", stdin=True, tty=tty, detach=True) as a:
            id = a.headers["x-exec-id"]
            assert a.frame()[0] == STARTED
            a.send(STDIN, b"%s\n" % word.encode())
        now = end(api, box, id)
        assert now["exitCode"] == 4 and f"got {word}" in now["stdout"], now


def test_input_that_was_sent_with_a_revoked_token_just_before_the_caller_left_is_dropped(daemon_of):
    own = daemon_of(env={"CAY_AUTH_TOKEN": "secret"}).start()
    with own.api() as api:
        box = api.create()["id"]
        for _ in range(4):
            made = api.post("/tokens", {"scopes": ["exec"]}).ok()
            with own.api(token=made["token"]) as mine, Attached(mine, box, command="cat", stdin=True, detach=True) as a:
                id = a.headers["x-exec-id"]
                assert a.frame()[0] == STARTED
                api.delete(f"/tokens/{made['id']}").ok()
                a.send(STDIN, b"stolen")
            with wait_until(lambda: attached_again(api, box, id)) as b:
                assert b.frame()[0] == STARTED
                b.send(STDIN, b"ours")
                b.send(STDIN)
                assert b.rest() == (b"ours", b"", 0, 0)


def test_who_comes_back_and_leaves_ends_nothing(api, box):
    x = api.events("POST", f"/sandboxes/{box}/exec/stream", {"command": WAITS})
    id = next(x)["execId"]
    along = api.events("GET", f"/sandboxes/{box}/exec/{id}/stream")
    assert next(along)["data"] == "before\n"
    along.close()
    api.sh(box, "touch /tmp/go")
    assert list(x)[-1]["data"] == "6"


def test_one_is_ended_by_its_id(api, box):
    stream = api.events("POST", f"/sandboxes/{box}/exec/stream",
                        {"command": "echo up; sleep 777 & sleep 777"})
    id = next(stream)["execId"]
    ended = api.post(f"/sandboxes/{box}/exec/{id}/kill").ok()
    assert (ended["running"], ended["reason"]) == (False, "cancelled")
    assert list(stream)[-1]["type"] == "exit"
    assert not [p for p in api.processes(box) if "sleep 777" in p["command"]]
    assert api.post(f"/sandboxes/{box}/exec/{id}/kill").ok()["reason"] == "cancelled"
    x = api.background(box, "sleep 778")
    assert api.post(f"/sandboxes/{box}/exec/{x['id']}/kill").ok()["running"] is False
    assert api.background_end(x["id"])["exitCode"] == 137


def test_a_part_of_a_character_is_not_more(api, box):
    stream = api.events("POST", f"/sandboxes/{box}/exec/stream",
                        {"command": r"echo up; printf '\303'; touch /tmp/up; exec sleep 777",
                         "execId": CHOSEN})
    next(stream)
    with api.again() as other:
        is_up(other, box)
        now = wait_until(lambda: (now := state(other, box, CHOSEN))["stdout"] and now)
        assert (now["stdout"], now["cursor"], now["more"]) == ("up\n", 3, False), now
        other.post(f"/sandboxes/{box}/exec/{CHOSEN}/kill").ok()
        assert state(other, box, CHOSEN)["stdout"] == "up\n\ufffd"
    assert list(stream)[-1]["type"] == "exit"


def test_an_id_that_runs_is_taken(api, box):
    stream = api.events("POST", f"/sandboxes/{box}/exec/stream",
                        {"command": "echo up; exec sleep 777", "execId": CHOSEN})
    assert next(stream)["execId"] == CHOSEN
    with api.again() as other:
        other.try_exec(box, "true", execId=CHOSEN).failed(409, "exec_exists")
        assert state(other, box, CHOSEN)["running"]
        other.post(f"/sandboxes/{box}/exec/{CHOSEN}/kill").ok()
    assert list(stream)[-1]["type"] == "exit"
    assert api.exec(box, "echo later", execId=CHOSEN)["stdout"] == "later\n"


def test_one_in_the_background_is_attached_to(shared, api, box):
    id = api.background(box, WAITS)["id"]
    is_up(api, box)
    with subprocess.Popen([CAY, "attach", box, id], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, env=cli_environment(shared)) as p:
        assert p.stdout.readline() == "before\n"
        api.sh(box, "touch /tmp/go")
        assert p.stdout.read() == "bad\nafter\n"
    assert p.returncode == 6


# ---- times ----


def test_a_timeout_returns_what_was_printed(api, box):
    for timeout in longer_and_longer():
        reply = api.try_exec(box, f"echo out; echo err >&2; touch printed-{timeout}; sleep 100", timeout=timeout)
        said = reply.failed(408, "command_timeout", f"timed out after {timeout * 1000:.0f}ms")
        if api.exec(box, f"test -e printed-{timeout}")["exitCode"] == 0:
            break
    assert (said["stdout"], said["stderr"]) == ("out\n", "err\n")
    assert said["exitCode"] == 124 and said["truncated"] is False
    assert said["execId"] == reply.headers["X-Exec-Id"]
    assert state(api, box, said["execId"])["reason"] == "timeout"


def test_a_timeout_returns_much_that_was_printed(api, box):
    for timeout in longer_and_longer():
        reply = api.try_exec(box, f"head -c 3000000 /dev/zero | tr '\\0' x; touch printed-{timeout}; sleep 100", timeout=timeout)
        said = reply.failed(408, "command_timeout")
        if api.exec(box, f"test -e printed-{timeout}")["exitCode"] == 0:
            break
    assert len(said["stdout"]) == 3_000_000


def test_a_timeout_passes_while_the_sandbox_is_paused(api, box):
    """The caller hears of it then; the command ends when the sandbox goes on."""
    for timeout in longer_and_longer():
        began = time.monotonic()
        stream = api.events("POST", f"/sandboxes/{box}/exec/stream", {"command": "echo up; sleep 888", "timeout": timeout})
        id = next(stream)["execId"]
        api.post(f"/sandboxes/{box}/pause").ok()
        was_running = time.monotonic() - began < timeout
        events = list(stream)
        if was_running:
            break
        api.post(f"/sandboxes/{box}/resume").ok()
    error, last = events
    assert (error["type"], error["code"]) == ("error", "command_timeout")
    assert (last["type"], last["data"]) == ("exit", "-1")
    api.get(f"/sandboxes/{box}/exec/{id}").failed(409, "sandbox_not_running")
    api.post(f"/sandboxes/{box}/resume").ok()
    assert end(api, box, id)["reason"] in ("cancelled", "timeout")


def test_a_sync_timeout_passes_while_the_sandbox_is_paused(api, box):
    for timeout in longer_and_longer():
        began = time.monotonic()
        with waiting(api, box, up=f"/tmp/up-{timeout}", timeout=timeout) as got:
            api.post(f"/sandboxes/{box}/pause").ok()
            was_running = time.monotonic() - began < timeout
        if was_running:
            break
        api.post(f"/sandboxes/{box}/resume").ok()
    said = got["reply"].failed(408, "command_timeout")
    assert said["code"] == "command_timeout"
    api.post(f"/sandboxes/{box}/resume").ok()


# ---- rows of background commands ----


@pytest.mark.parametrize("paused", [False, True])
def test_what_has_ended_is_read_after_stop_and_start(api, box, paused):
    short = api.exec(box, "echo out; echo err >&2; exit 3")["execId"]
    long = api.exec(box, "head -c 100000 /dev/zero | tr '\\0' x")["execId"]
    job = api.background(box, "echo in the background")
    api.background_end(job["id"])
    before = {id: state(api, box, id) for id in (short, long, job["id"])}
    assert before[short]["stdout"] == "out\n" and before[short]["exitCode"] == 3
    listed = api.get(f"/sandboxes/{box}/exec").ok()["execs"]
    for _ in range(2):  # the second time from what was read, with no command in between
        if paused:
            api.post(f"/sandboxes/{box}/pause").ok()
        api.post(f"/sandboxes/{box}/stop").ok()
        api.post(f"/sandboxes/{box}/start").ok()
        assert {id: state(api, box, id) for id in before} == before
        assert sorted(x["id"] for x in api.get(f"/sandboxes/{box}/exec").ok()["execs"]) == sorted(
            x["id"] for x in listed)
    after = api.exec(box, "echo after")["execId"]
    assert state(api, box, after)["stdout"] == "after\n" and state(api, box, short) == before[short]


def test_a_row_without_its_command_is_forgotten(own):
    """As a daemon leaves it that is killed between the row and the start."""
    with own.api() as api:
        box = api.create()["id"]
        real = api.background(box, "sleep 1000")
        own.kill9()
        with contextlib.closing(own.database()) as db:
            db.execute("insert into exec values ('bg_000000000000000000000001', ?, 'x', 0, 1)", (box,))
            db.commit()
        own.start()
        api.get("/exec/background/bg_000000000000000000000001/status").failed(404, "exec_not_found")
        assert api.background_status(real["id"])["running"]
        own.stop(signal.SIGTERM)
        with contextlib.closing(own.database()) as db:
            assert [r[0] for r in db.execute("select id from exec")] == [real["id"]]
        own.start()


# ---- the command line ----


def test_the_cli_comes_back_to_its_command(own):
    with own.api() as api:
        box = api.create()["id"]
        p = subprocess.Popen([CAY, "exec", box, WAITS], stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli_environment(own))
        assert p.stdout.readline() == "before\n"
        is_up(api, box)
        own.kill9()
        own.start()
        api.sh(box, "touch /tmp/go")
        out, err = p.communicate(timeout=60)
        assert (out, p.returncode) == ("after\n", 6) and "bad\n" in err, err


def test_the_cli_says_that_there_is_nothing_to_come_back_to(own):
    with own.api() as api:
        box = api.create()["id"]
        p = subprocess.Popen([CAY, "exec", box, WAITS], stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli_environment(own))
        assert p.stdout.readline() == "before\n"
        id = only(api, box)
        p.send_signal(signal.SIGSTOP)
        own.kill9()
        own.start()
        api.sh(box, "touch /tmp/go")
        end(api, box, id)
        for _ in range(260):  # more than are kept
            api.exec(box, "true")
        api.get(f"/sandboxes/{box}/exec/{id}").failed(404, "exec_not_found")
        p.send_signal(signal.SIGCONT)
        _, err = p.communicate(timeout=60)
        assert p.returncode == 125 and "exec_not_found" in err and "goes on" not in err, err


def test_the_cli_says_that_somebody_has_ended_its_command(shared, api, box):
    p = subprocess.Popen([CAY, "exec", box, WAITS], stdin=subprocess.DEVNULL, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli_environment(shared))
    assert p.stdout.readline() == "before\n"
    cay(shared, "attach", "--end", box, only(api, box), check=True)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 137 and "somebody has ended the command" in err, err


def test_the_cli_says_how_to_come_back_where_input_would_be_lost(own):
    with own.api() as api:
        box = api.create()["id"]
        p = subprocess.Popen([CAY, "exec", "-i", box, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=cli_environment(own))
        p.stdin.write(b"text\n")
        p.stdin.flush()
        assert p.stdout.readline() == b"text\n"
        own.kill9()
        assert p.wait(60) == 125
        said = p.stderr.read()
        assert said.endswith(b"`attach --end` ends it\n"), "all of it"
        id = only_id(said)
        for f in (p.stdin, p.stdout, p.stderr):
            f.close()
        own.start()
        done = cay(own, "attach", box, id, input=b"more\n")
        assert (done.stdout, done.returncode) == (b"text\nmore\n", 0), done
        assert cay(own, "logs", box, id).stdout == b"text\nmore\n"
        assert cay(own, "logs", "-f", box, id).stdout == b"text\nmore\n"


def only_id(text):
    return next(w for w in text.decode().replace("`", " ").split() if w.startswith("ex_"))


def test_the_cli_leaves_a_terminal_and_comes_back_to_it(shared, api, box):
    id = cay(shared, "exec", "-dt", box, "stty -echo; echo up; read a; echo got $a",
             check=True).stdout.decode().strip()
    wait_until(lambda: state(api, box, id)["stdout"] == "up\r\n")
    assert state(api, box, id)["running"]
    done = cay(shared, "attach", box, id, input=b"word\n")
    assert done.stdout == b"up\r\ngot word\r\n" and done.returncode == 0, done
    id = cay(shared, "exec", "-dt", box, "sleep 999", check=True).stdout.decode().strip()
    cay(shared, "attach", "--end", box, id, check=True)
    assert state(api, box, id)["reason"] == "cancelled"
    assert cay(shared, "attach", box, "nonsense").returncode == 2
    assert cay(shared, "attach", box, CHOSEN).returncode == 125
