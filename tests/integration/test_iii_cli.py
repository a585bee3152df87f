"""`cay sandbox` and `cay trigger`, and the names of iii that the program may have, against a stand-in for an engine."""

import asyncio
import base64
import collections
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from cay_harness import CAY, read_text, wait_until
from cay_iii import websockets  # noqa: F401 (a fixture)
from cay_iii_engine import BREAK, END, Failure, Functions

pytestmark = pytest.mark.core

ID = "0f6b2a52-7c1d-4e6b-9a3f-5f0c1e6b2a9d"
DONE = {"stdout": "", "stderr": "", "exit_code": 0, "timed_out": False, "duration_ms": 1, "success": True}


@pytest.fixture
def engine(websockets):  # noqa: F811
    with Functions() as engine:
        engine.functions["sandbox::create"] = lambda data: {"sandbox_id": ID, "image": data["image"]}
        engine.functions["sandbox::exec"] = lambda data: DONE
        engine.functions["sandbox::stop"] = lambda data: {"sandbox_id": data["sandbox_id"], "stopped": True}
        yield engine


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_"))}
    return {**env, **more}


@pytest.fixture
def cay(engine):
    def run(*words, status=0, program=CAY, input=None, env=None):
        words = list(words)
        place = words.index("--") if "--" in words else len(words)
        words[place:place] = ["--port", str(engine.port)]
        done = subprocess.run([program, *words], env=environment(**(env or {})), capture_output=True, timeout=60,
                              input=input, stdin=subprocess.DEVNULL if input is None else None)
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        done.out, done.err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return done
    return run


def fails(code, message, **how):
    def function(data):
        raise Failure(code, message, **how)
    return function


def commands(engine):
    """What sandbox::exec was asked for, without the channels that its output may go to."""
    out = []
    for data in engine.named("sandbox::exec"):
        assert [data[name]["direction"] for name in ("stdout", "stderr")] == ["write"] * 2
        out.append({key: value for key, value in data.items() if key not in ("stdout", "stderr")})
    return out


# ---- create, exec, list, stop ----

def test_create_prints_the_id_and_nothing_else(cay, engine):
    done = cay("sandbox", "create", "python", "--idle-timeout", "60", "--name", "n", "--network", "-e", "A=1", "-e", "NONE",
               "-e", "HERE", env={"HERE": "too"})
    assert (done.out, done.err) == (ID + "\n", "")
    assert engine.named("sandbox::create") == [{
        "image": "python", "cpus": 1, "memory_mb": 512, "idle_timeout_secs": 60, "name": "n", "network": True,
        "env": ["A=1", "HERE=too"]}]


def read_terminal(leader):
    shown = b""
    with contextlib.suppress(OSError):  # EIO: every process has closed it
        while got := os.read(leader, 4096):
            shown += got
    return shown


def on_terminal(engine, *words, last=(), decode=True):
    """What a terminal is sent."""
    leader, follower = pty.openpty()
    with subprocess.Popen([CAY, *words, "--port", str(engine.port), *last], stdin=follower, stdout=follower, stderr=follower,
                          env=environment()) as process:
        assert process.wait(60) == 0
        os.close(follower)
        shown = read_terminal(leader)
    os.close(leader)
    return shown.decode() if decode else shown


def test_create_says_on_a_terminal_how_long_it_took(engine):
    lines = on_terminal(engine, "sandbox", "create", "python").splitlines()
    assert re.search(r"✓ sandbox ready in \d+\.", lines[0]) and lines[1] == ID


def test_an_id_cannot_speak_to_the_terminal(cay, engine):
    engine.functions["sandbox::create"] = lambda data: {"sandbox_id": "a\x1b]52;c;eA==\x07\x9b2J\nb", "image": "x"}
    for words in ("create", "python"), ("create", "--json", "python"):
        shown = on_terminal(engine, "sandbox", *words)
        assert not set(shown) & set("\x1b\x07\x9b") and "52;c;eA==" in shown, shown
    assert cay("sandbox", "create", "python").out == "a\\x1b]52;c;eA==\\x07\\xc2\\x9b2J\\x0ab\n"


def test_flags_of_create_and_json(cay, engine):
    done = cay("sandbox", "create", "--json", "--cpus", "3", "--memory", "2G", "node")
    assert json.loads(done.out) == {"sandbox_id": ID, "image": "node"}
    assert engine.named("sandbox::create")[0] == {"image": "node", "cpus": 3, "memory_mb": 2048}


def test_an_error_has_its_code_in_brackets(cay, engine):
    engine.functions["sandbox::create"] = fails("S100", "image not allowed: x {really}")
    done = cay("sandbox", "create", "x", status=1)
    assert (done.out, done.err) == ("", "error: [S100] image not allowed: x {really}\n")
    engine.functions["sandbox::create"] = fails("invocation_stopped", "the worker has gone", envelope=False)
    assert cay("sandbox", "create", "x", status=1).err == "error: invocation_stopped: the worker has gone\n"


def test_exec_gives_output_and_status(cay, engine):
    engine.functions["sandbox::exec"] = lambda data: {**DONE, "stdout": "out\n", "stderr": "err\n", "exit_code": 7}
    done = cay("sandbox", "exec", ID, "--timeout", "1m 30s", "-e", "A=b", "-w", "/tmp", "--", "sh", "-c", "exit 7", status=7)
    assert (done.out, done.err) == ("out\n", "err\n")
    assert commands(engine) == [{
        "sandbox_id": ID, "cmd": "sh", "args": ["-c", "exit 7"], "workdir": "/tmp", "timeout_ms": 90000, "env": ["A=b"]}]


def test_output_of_an_answer_may_have_a_nul(cay, engine):
    engine.functions["sandbox::exec"] = lambda data: {**DONE, "stdout": "a\0b\n"}
    assert cay("sandbox", "exec", ID, "--", "a").out == "a\0b\n"
    assert json.loads(cay("sandbox", "exec", "--json", ID, "--", "a").out)["stdout"] == "a\0b\n"
    assert on_terminal(engine, "sandbox", "exec", ID, last=["--", "a"]) == "a\\x00b\r\n"


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_output_that_cannot_be_written_is_told(engine, size):
    engine.functions["sandbox::exec"] = lambda data: {**DONE, "stdout": "x" * size}
    with open("/dev/full", "wb") as full:
        done = subprocess.run([CAY, "sandbox", "exec", ID, "--port", str(engine.port), "--", "a"], env=environment(), timeout=60,
                              stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"cay: cannot write the output: No space left on device\n")


def test_exec_passes_flags_of_the_command_and_odd_names_on(cay, engine):
    cay("sandbox", "exec", ID, "--", "ls", "--json", "--port", "1", "--", "-x")
    cay("sandbox", "exec", ID, "--", "my prog")
    assert engine.named("sandbox::exec")[0]["args"] == ["--json", "--port", "1", "--", "-x"]
    assert commands(engine)[1] == {"sandbox_id": ID, "argv": ["my prog"]}


def test_exec_sends_a_pipe_as_stdin_when_asked(cay, engine):
    cay("sandbox", "exec", ID, "--", "cat", input=b"not read")
    cay("sandbox", "exec", "-i", ID, "--", "cat", input=b"\0\xffyes")
    first, second = engine.named("sandbox::exec")
    assert "stdin" not in first and base64.b64decode(second["stdin"]) == b"\0\xffyes"


def test_the_exit_status_is_the_commands(cay, engine):
    for result, status in (({"exit_code": None}, 1), ({"exit_code": 127}, 127), ({"exit_code": 137}, 137),
                           ({"exit_code": None, "timed_out": True}, 124), ({"exit_code": 0}, 0)):
        engine.functions["sandbox::exec"] = lambda data, result=result: {**DONE, **result}
        cay("sandbox", "exec", ID, "--", "true", status=status)


def test_a_command_that_took_too_long_is_124(cay, engine):
    engine.functions["sandbox::exec"] = fails("S200", "exec timed out after 500ms")
    assert cay("sandbox", "exec", ID, "--timeout", "500ms", "--", "sleep", "9", status=124).err == \
        "error: [S200] exec timed out after 500ms\n"
    done = cay("sandbox", "exec", "--json", ID, "--timeout", "500ms", "--", "sleep", "9", status=124)
    assert (done.out, done.err) == ("", "error: [S200] exec timed out after 500ms\n")


def test_wrong_use_is_2_and_asks_nobody(engine):
    for words in (
            ["exec", ID], ["exec", ID, "--timeout", "30", "--", "a"], ["exec", ID, "--timeout", "soon", "--", "a"], ["exec", "--", "a"],
            ["run", "python"], ["run", "python", "python3"], ["create"], ["create", "a", "b"], ["stop"], ["upload", ID, "x"], ["nope"],
            ["exec", ID, "--nope", "--", "a"], ["upload", "--mode", "rw", ID, "x", "/y"], ["list", "--port", "x"],
            ["list", "--host", "unix:/x"]):
        done = subprocess.run([CAY, "sandbox", *words], env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 2 and done.stderr and not engine.asked, (words, done.stderr)


def test_list_is_a_table(cay, engine):
    engine.functions["sandbox::list"] = lambda data: {"sandboxes": [
        {"sandbox_id": ID, "name": "web", "image": "python", "age_secs": 12},
        {"sandbox_id": ID, "name": None, "image": "a-very-long-image", "age_secs": 123456789}]}
    assert cay("sandbox", "list", "--all").out == (
        "SANDBOX_ID                            IMAGE       AGE_SECS  NAME\n"
        f"{ID}  python            12  web\n"
        f"{ID}  a-very-long-image  123456789  \n")
    assert len(json.loads(cay("sandbox", "list", "--json").out)["sandboxes"]) == 2


def test_stop_says_what_it_stopped(cay, engine):
    assert cay("sandbox", "stop", ID).out == f"stopped {ID}\n"
    assert engine.named("sandbox::stop") == [{"sandbox_id": ID, "wait": True}]
    engine.functions["sandbox::stop"] = fails("S002", "sandbox not found: x")
    assert cay("sandbox", "stop", "x", status=1).err == "error: [S002] sandbox not found: x\n"


# ---- output that comes while the command runs ----

PIPED = {**DONE, "truncated": False, "stdout_truncated": False, "stderr_truncated": False}  # of a worker that knows of channels


@contextlib.contextmanager
def started(engine, *words, program=CAY, **how):
    """One that runs; its output is read by the test."""
    with subprocess.Popen([program, "sandbox", *words[:2], "--port", str(engine.port), *words[2:]], env=environment(),
                          **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def prints(engine, *pieces, result=PIPED, stream="stdout"):
    """A command whose output goes over its channel, and which then ends."""
    def run(data):
        engine.feed(data[stream], *pieces)
        for name in ("stdout", "stderr"):
            engine.feed(data[name], END)
        if isinstance(result, Exception):
            raise result
        return result
    return run


@pytest.mark.parametrize("words", [("exec", ID), ("run", "python")])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_is_shown_while_the_command_runs(engine, words, stream):
    seen = threading.Event()

    def run(data):
        engine.feed(data[stream], b"first\n")
        assert seen.wait(60)
        return prints(engine, b"sec", b"ond\n", stream=stream, result={**PIPED, "exit_code": 3})(data)

    engine.functions["sandbox::exec"] = run
    with started(engine, *words, "--", "a") as process:
        assert getattr(process, stream).readline() == b"first\n"
        assert process.poll() is None
        seen.set()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, {"stdout": out, "stderr": err}[stream], out + err) == (3, b"second\n", b"second\n")


@pytest.mark.parametrize("code, status", [(0, 1), (3, 3)])
def test_output_that_breaks_off_is_told(cay, engine, code, status):
    def run(data):
        engine.feed(data["stdout"], b"some\n", BREAK)
        engine.feed(data["stderr"], END)
        return {**PIPED, "exit_code": code}

    engine.functions["sandbox::exec"] = run
    done = cay("sandbox", "exec", ID, "--", "a", status=status)
    assert done.stdout == b"some\n" and b"some of the output is missing" in done.stderr


def test_bytes_are_shown_as_they_are(cay, engine):
    data = bytes(range(256)) * 1000
    engine.functions["sandbox::exec"] = prints(engine, data, data, b"end")
    assert cay("sandbox", "exec", ID, "--", "a").stdout == data + data + b"end"


def test_what_came_before_a_timeout_is_shown(cay, engine):
    engine.functions["sandbox::exec"] = prints(engine, b"some\n", result=Failure("S200", "exec timed out after 500ms"))
    done = cay("sandbox", "exec", ID, "--", "a", status=124)
    assert (done.out, done.err) == ("some\n", "error: [S200] exec timed out after 500ms\n")


def test_what_came_before_the_engine_went_is_shown(cay, engine):
    engine.functions["sandbox::exec"] = prints(engine, b"some\n", result=ConnectionError())
    done = cay("sandbox", "exec", ID, "--", "a", status=1)
    assert done.out == "some\n" and done.err.endswith("has closed the connection before it has answered\n")


def test_a_text_in_the_answer_is_shown_where_the_channel_carried_nothing(cay, engine):
    engine.functions["sandbox::exec"] = prints(engine, b"out\n", result={**PIPED, "stderr": "a: command not found\n", "exit_code": 127})
    done = cay("sandbox", "exec", ID, "--", "a", status=127)
    assert (done.out, done.err) == ("out\n", "a: command not found\n")


def test_a_text_is_not_shown_twice(cay, engine):
    engine.functions["sandbox::exec"] = prints(engine, b"out\n", result={**PIPED, "stdout": "out\n"})
    assert cay("sandbox", "exec", ID, "--", "a").out == "out\n"


def test_an_engine_without_channels_gives_the_output_at_the_end(cay, engine):
    engine.has_channels = False
    engine.functions["sandbox::exec"] = lambda data: {**DONE, "stdout": "out\n", "stderr": "err\n"}
    done = cay("sandbox", "exec", ID, "--", "a")
    assert (done.out, done.err) == ("out\n", "err\n")
    assert engine.named("sandbox::exec") == [{"sandbox_id": ID, "cmd": "a", "args": []}]


def test_json_has_the_whole_result_and_no_channels(cay, engine):
    engine.functions["sandbox::exec"] = lambda data: {**DONE, "stdout": "out\n"}
    assert json.loads(cay("sandbox", "exec", "--json", ID, "--", "a").out)["stdout"] == "out\n"
    assert engine.named("sandbox::exec") == [{"sandbox_id": ID, "cmd": "a", "args": []}] and not engine.channels


def test_a_channel_that_does_not_end_is_not_waited_for_without_end(cay, engine):
    def run(data):
        engine.feed(data["stdout"], b"some\n")
        return PIPED
    engine.functions["sandbox::exec"] = run
    done = cay("sandbox", "exec", ID, "--", "a", status=1)
    assert done.out == "some\n" and "some of the output is missing" in done.err


def test_output_in_pieces_cannot_speak_to_the_terminal(engine):
    engine.functions["sandbox::exec"] = prints(engine, b"\xc3", b"\xbc \x1b", b"[31mred\x1b[", b"0m \x1b", b"]52;c;eA==\x07\xc2", b"\x9b2J \xe2\x82")
    shown = on_terminal(engine, "sandbox", "exec", ID, last=["--", "a"])
    assert shown == "ü \x1b[31mred\x1b[0m \\x1b]52;c;eA==\\x07\\xc2\\x9b2J \\xe2\\x82"
    shown = on_terminal(engine, "sandbox", "exec", "--raw", ID, last=["--", "a"], decode=False)
    assert shown == b"\xc3\xbc \x1b[31mred\x1b[0m \x1b]52;c;eA==\x07\xc2\x9b2J \xe2\x82"


@pytest.mark.parametrize("blocking", [True, False], ids=["whole", "short writes"])
@pytest.mark.parametrize("colours, title", [("stdout", "stderr"), ("stderr", "stdout")])
def test_two_streams_cannot_speak_to_the_terminal_together(engine, colours, title, blocking):
    """Both streams wait in cay before the terminal is read, so that pieces of both take turns."""
    output = {colours: "\x1b[31mé€🏝".encode() * 14000, title: b"]0;PWNED " * 20000}
    fed = threading.Event()

    def run(data):
        for name in ("stdout", "stderr"):
            engine.feed(data[name], output[name], END)
        fed.set()
        return PIPED
    engine.functions["sandbox::exec"] = run
    leader, follower = pty.openpty()
    os.set_blocking(follower, blocking)
    with started(engine, "exec", ID, "--", "a", stdout=follower, stderr=follower) as process:
        os.close(follower)
        assert fed.wait(60)
        shown = read_terminal(leader)
        assert process.wait(60) == 0
    os.close(leader)
    assert collections.Counter(shown) == collections.Counter(b"".join(output.values()))
    assert shown.decode().count("\x1b[31mé€🏝") > 13900  # nothing comes between the parts of a character
    assert shown.count(b"\x1b[31m") == 14000


@pytest.mark.parametrize("words", [("exec", ID), ("run", "python")])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_goes_ends_it(engine, words, stream):
    fed, over = threading.Event(), threading.Event()

    def run(data):
        engine.feed(data[stream], *[b"line\n" * 10000] * 50)  # more than a pipe takes, and less than the channel
        fed.set()
        over.wait(60)
        return PIPED
    engine.functions["sandbox::exec"] = run
    with started(engine, *words, "--", "yes") as process:
        pipe = getattr(process, stream)
        assert pipe.readline() == b"line\n"
        pipe.close()
        assert process.wait(60) == 141
        other = process.stdout if stream == "stderr" else process.stderr
        assert other.read() == b""
    assert fed.wait(60)
    over.set()
    assert engine.named("sandbox::stop") == ([{"sandbox_id": ID, "wait": True}] if words[0] == "run" else [])


def test_a_slow_reader_gets_all_of_it(engine):
    """All has come, and the call is over, before the first byte is read."""
    data = os.urandom(65536) * 100
    answered = threading.Event()

    def run(asked):
        try:
            return prints(engine, *[data[at:at + 65536] for at in range(0, len(data), 65536)])(asked)
        finally:
            answered.set()
    engine.functions["sandbox::exec"] = run
    with started(engine, "exec", ID, "--", "a") as process:
        assert answered.wait(60)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out == data, err) == (0, True, b"")


def test_ctrl_c_stops_the_sandbox_also_when_nobody_reads_the_output(engine):
    fed, over = threading.Event(), threading.Event()

    def run(data):
        engine.feed(data["stdout"], bytes(1 << 20))
        fed.set()
        over.wait(60)
        return PIPED
    engine.functions["sandbox::exec"] = run
    with started(engine, "run", "python", "--", "a") as process:
        assert fed.wait(60)
        assert process.stdout.read(1) == b"\0"  # it has come, and most of it does not fit into the pipe
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert engine.named("sandbox::stop") == [{"sandbox_id": ID, "wait": True}]
    over.set()


EMPTY, TEXT = b"\x82\x00", b"\x81\x01x"  # whole frames of a WebSocket


def flood(engine, frame, count=1_000_000):
    """Every channel gets frames, without end and faster than cay takes them. Returns an event that is set once many were sent."""
    many, frames = threading.Event(), frame * count

    def send_all(sock):
        sock.settimeout(60)
        with sock, contextlib.suppress(OSError):  # cay has gone
            while True:
                sock.sendall(frames)
                many.set()

    async def send(websocket, id, direction):
        sock = websocket.transport.get_extra_info("socket").dup()
        await asyncio.get_running_loop().run_in_executor(None, send_all, sock)
    engine._end = send
    return many


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_run_while_frames_without_output_come(engine, number):
    many, began, over = flood(engine, EMPTY), threading.Event(), threading.Event()
    engine.functions["sandbox::exec"] = lambda data: began.set() or over.wait(60) and PIPED
    with started(engine, "run", "python", "--", "a") as process:
        assert began.wait(60) and many.wait(60)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert engine.named("sandbox::stop") == [{"sandbox_id": ID, "wait": True}]
    over.set()


@pytest.mark.parametrize("frame", [EMPTY, TEXT], ids=["empty", "text"])
def test_frames_without_output_behind_the_answer_are_not_waited_for(engine, frame):
    many = flood(engine, frame)
    engine.functions["sandbox::exec"] = lambda data: many.wait(60) and {**PIPED, "exit_code": 3}
    with started(engine, "exec", ID, "--", "a") as process:
        assert process.wait(60) == 3


def test_output_behind_the_answer_is_not_waited_for_without_end(engine):
    """How long a slow stream is waited for is unit-iii_cli's."""
    many = flood(engine, b"\x82\x7e\x40\x00" + bytes(1 << 14), 100)
    engine.functions["sandbox::exec"] = lambda data: many.wait(60) and PIPED
    with started(engine, "exec", ID, "--", "a", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert process.wait(30) == 1


def test_streamed_output_that_cannot_be_written_is_told(engine):
    engine.functions["sandbox::exec"] = prints(engine, b"x" * 100_000)
    with open("/dev/full", "wb") as full, started(engine, "exec", ID, "--", "a", stdout=full) as process:
        assert (process.communicate(timeout=60)[1], process.returncode) == (b"cay: cannot write the output: No space left on device\n", 1)


@pytest.mark.parametrize("closed, stream", [(1, "stdout"), (2, "stderr")])
def test_a_closed_descriptor_is_not_taken_by_a_connection(engine, closed, stream):
    engine.functions["sandbox::exec"] = prints(engine, b"for nobody\n", stream=stream)
    with started(engine, "exec", ID, "--", "a", preexec_fn=lambda: os.close(closed)) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, b"")
    assert err == (b"cay: cannot write the output: Bad file descriptor\n" if closed == 1 else b"")


# ---- run ----

def test_run_makes_runs_and_stops(cay, engine):
    engine.functions["sandbox::exec"] = lambda data: {**DONE, "stdout": "1024\n", "exit_code": 3}
    done = cay("sandbox", "run", "python", "--cpus", "2", "-e", "A=1", "--", "python3", "-c", "print(2 ** 10)", status=3)
    assert (done.out, done.err) == ("1024\n", "")
    assert [name for name, _, _ in engine.asked if name.startswith("sandbox::")] == ["sandbox::create", "sandbox::exec", "sandbox::stop"]
    assert engine.named("sandbox::create")[0]["cpus"] == 2 and engine.named("sandbox::create")[0]["env"] == ["A=1"]
    assert "env" not in engine.named("sandbox::exec")[0]


def test_run_stops_what_it_made_when_the_command_fails(cay, engine):
    engine.functions["sandbox::exec"] = fails("S300", "shell transport failed")
    assert cay("sandbox", "run", "python", "--", "a", status=1).err == "error: [S300] shell transport failed\n"
    assert engine.named("sandbox::stop") == [{"sandbox_id": ID, "wait": True}]


@pytest.mark.parametrize("during", ["sandbox::create", "sandbox::exec"])
def test_ctrl_c_stops_the_sandbox_of_run(engine, during):
    began, go_on, was = threading.Event(), threading.Event(), engine.functions[during]

    def slow(data):
        began.set()
        assert go_on.wait(60)
        return was(data)
    engine.functions[during] = slow
    with subprocess.Popen([CAY, "sandbox", "run", "python", "--port", str(engine.port), "--", "sleep", "9"], env=environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert began.wait(60)
        process.send_signal(signal.SIGINT)
        if during == "sandbox::create":  # its id is needed first
            assert process.stderr.readline() == b"stopping\n"
            go_on.set()
        assert process.wait(60) == 130
        go_on.set()
    assert engine.named("sandbox::stop") == [{"sandbox_id": ID, "wait": True}]


def test_run_that_waits_for_stdin_ends_by_a_signal_and_has_made_nothing(engine):
    with subprocess.Popen([CAY, "sandbox", "run", "-i", "python", "--port", str(engine.port), "--", "cat"], env=environment(),
                          stdin=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        wait_until(lambda: read_text(f"/proc/{process.pid}/wchan").endswith("pipe_read"), 60, "a read of its input")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
    assert not engine.asked


# ---- files ----

@pytest.mark.parametrize("size", [0, 1, 70000, 5_000_000])
def test_upload_sends_a_file_through_a_channel(cay, engine, tmp_path, size):
    data, got = os.urandom(size), {}

    def write(asked):
        got["data"], got["reason"] = engine.read_channel(asked["content"])
        return {"bytes_written": len(got["data"]), "path": asked["path"]}
    engine.functions["sandbox::fs::write"] = write
    (tmp_path / "f").write_bytes(data)
    done = cay("sandbox", "upload", ID, str(tmp_path / "f"), "/srv/f", "--mode", "0600", "--parents")
    assert done.out == f"{size} bytes\n" and got == {"data": data, "reason": "stream_complete"}
    asked = engine.named("sandbox::fs::write")[0]
    assert asked.pop("content")["direction"] == "read"
    assert asked == {"sandbox_id": ID, "path": "/srv/f", "mode": "0600", "parents": True}


def test_upload_takes_stdin(cay, engine):
    got = []
    engine.functions["sandbox::fs::write"] = lambda asked: got.append(engine.read_channel(asked["content"])[0]) or {
        "bytes_written": len(got[0]), "path": asked["path"]}
    assert cay("sandbox", "upload", ID, "-", "/x", input=b"from a pipe").out == "11 bytes\n"
    assert got == [b"from a pipe"]


def test_upload_of_what_is_not_there_asks_nobody(cay, engine, tmp_path):
    assert cay("sandbox", "upload", ID, str(tmp_path / "none"), "/x", status=1).err == \
        f"error: open {tmp_path}/none: No such file or directory\n"
    assert "is a folder" in cay("sandbox", "upload", ID, str(tmp_path), "/x", status=1).err
    assert not engine.asked


def test_upload_that_is_refused_ends_at_once(cay, engine, tmp_path):
    """Nobody reads the channel then, and most of the file is still here."""
    (tmp_path / "f").write_bytes(bytes(50_000_000))
    engine.functions["sandbox::fs::write"] = fails("S211", "no such folder: /none")
    assert cay("sandbox", "upload", ID, str(tmp_path / "f"), "/none/x", status=1).err == "error: [S211] no such folder: /none\n"


def reads(engine, pieces, size=None):
    def read(asked):
        size_now = sum(len(p) for p in pieces if isinstance(p, bytes)) if size is None else size
        return {"content": engine.write_channel(pieces), "size": size_now, "mode": "0640", "mtime": 1700000000}
    return read


def test_download_writes_a_file(cay, engine, tmp_path):
    pieces = [os.urandom(65536) for _ in range(40)] + [b"end"]
    engine.functions["sandbox::fs::read"] = reads(engine, pieces)
    assert cay("sandbox", "download", ID, "/srv/f", str(tmp_path / "g")).out == f"{40 * 65536 + 3} bytes\n"
    assert (tmp_path / "g").read_bytes() == b"".join(pieces) and (tmp_path / "g").stat().st_mode & 0o777 == 0o640
    assert engine.named("sandbox::fs::read") == [{"sandbox_id": ID, "path": "/srv/f"}]
    cay("sandbox", "download", ID, "/srv/f", str(tmp_path))
    assert (tmp_path / "f").read_bytes() == b"".join(pieces)


def test_download_to_stdout_is_bytes_only(cay, engine):
    engine.functions["sandbox::fs::read"] = reads(engine, [b"a\0b", b"\xff"])
    assert cay("sandbox", "download", ID, "/x", "-").stdout == b"a\0b\xff"
    engine.functions["sandbox::fs::read"] = reads(engine, [])
    assert cay("sandbox", "download", ID, "/x", "-").stdout == b""


@pytest.mark.parametrize("pieces,size,why", [([b"half"], 8, "only 4 of 8 bytes have come"),
                                             ([b"half", json.dumps({"error": "the disk is broken"})], 8, "the disk is broken")])
def test_a_download_that_breaks_off_leaves_no_file(cay, engine, tmp_path, pieces, size, why):
    engine.functions["sandbox::fs::read"] = reads(engine, pieces, size)
    assert cay("sandbox", "download", ID, "/x", str(tmp_path / "g"), status=1).err == f"error: {why}\n"
    assert not list(tmp_path.iterdir())


def test_a_download_that_is_refused_leaves_no_file(cay, engine, tmp_path):
    engine.functions["sandbox::fs::read"] = fails("S211", "no such file: /x")
    assert cay("sandbox", "download", ID, "/x", str(tmp_path / "g"), status=1).err == "error: [S211] no such file: /x\n"
    assert not list(tmp_path.iterdir())


# ---- trigger ----

def test_trigger_reads_values_as_json_or_text(cay, engine):
    engine.functions["f"] = lambda data: {"got": data}
    done = cay("trigger", "f", "n=5", "t=true", "text=a b", "list=[1,2]", "x=a=b", "e=", "--json", '{"n":1,"k":null}', "-n", "ns")
    assert json.loads(done.out) == {"got": {"n": 5, "k": None, "t": True, "text": "a b", "list": [1, 2], "x": "a=b", "e": ""}}
    assert engine.asked[0][2]["namespace"] == "ns"
    cay("trigger", "f")
    assert engine.asked[1][1] == {} and "namespace" not in engine.asked[1][2]
    cay("trigger", "f", "--json", "-", input=b'["piped"]')
    assert engine.asked[2][1] == ["piped"]


def test_trigger_prints_nothing_for_null(cay, engine):
    engine.functions["f"] = lambda data: None
    assert cay("trigger", "f").out == ""
    engine.functions["f"] = lambda data: "text"
    assert cay("trigger", "f").out == '"text"\n'


def test_trigger_prints_an_error_as_it_came(cay, engine):
    assert json.loads(cay("trigger", "nope", status=1).err) == {"code": "function_not_found", "message": "no such function"}
    engine.functions["f"] = fails("S002", "sandbox not found")
    assert json.loads(cay("trigger", "f", status=1).err)["message"].startswith('handler error: {"type"')


def test_trigger_waits_no_longer_than_told(cay, engine):
    never = threading.Event()
    engine.functions["f"] = lambda data: never.wait(60)
    assert cay("trigger", "f", "--timeout-ms", "50", status=1).err == "error: f has not answered in 50 ms\n"
    never.set()


def test_who_sends_without_end_does_not_hold_a_call_up(cay, engine):
    """Its time is over also while messages come, which is always: the engine writes faster than they are read."""
    frames = b"\x81\x02{}" * 65536

    async def flood():
        transport = engine.peers[-1].socket.transport
        with contextlib.suppress(RuntimeError):  # it has been told Close
            while not transport.is_closing():
                if transport.get_write_buffer_size() < len(frames):
                    transport.write(frames)
                await asyncio.sleep(0)

    engine.functions["f"] = lambda data: asyncio.run_coroutine_threadsafe(flood(), engine.loop).result()
    assert cay("trigger", "f", "--timeout-ms", "200", status=1).err == "error: f has not answered in 200 ms\n"


def test_trigger_refuses_what_it_cannot_send(cay, engine):
    """tests/unit/test_iii_cli.c has more."""
    for words in (["f", "novalue"], ["f", "--json", "{"], []):
        cay("trigger", *words, status=2)
    assert not engine.asked


def test_trigger_tells_what_a_function_takes(cay, engine):
    engine.functions["engine::functions::info"] = lambda data: {
        "function_id": data["function_id"], "worker_name": "iii-sandbox", "description": "Stops a sandbox.",
        "request_schema": {"type": "object", "required": ["sandbox_id"], "properties": {
            "sandbox_id": {"type": "string", "description": "its id"}, "wait": {"type": ["boolean", "null"]}}},
        "response_schema": {"properties": {"stopped": {"type": "boolean"}}}}
    assert cay("trigger", "sandbox::stop", "--help").out == (
        "Usage: cay trigger sandbox::stop [KEY=VALUE...] [--json JSON]\n\nStops a sandbox.\n\nTakes:\n"
        "  sandbox_id  string, needed\n      its id\n  wait  boolean or null\n\nGives:\n  stopped  boolean\n\n"
        "Offered by iii-sandbox.\n")
    assert "cay trigger [flags] FUNCTION" in subprocess.run([CAY, "trigger", "--help"], capture_output=True, text=True).stdout


# ---- connections ----

def test_without_an_engine_it_says_what_to_start():
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    done = subprocess.run([CAY, "sandbox", "list", "--port", str(port)], env=environment(), capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith(f"error: nobody answers at 127.0.0.1:{port} (")
    assert "cay serve" in done.stderr


def test_a_token_is_sent_to_the_engine_and_not_to_channels(engine, tmp_path):
    engine.token = "secret"
    engine.functions["sandbox::fs::read"] = reads(engine, [b"x"])
    words = [CAY, "sandbox", "download", ID, "/x", "-", "--port", str(engine.port)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True)
    assert done.returncode == 1 and "401" in done.stderr
    done = subprocess.run(words, env=environment(CAY_TOKEN="secret"), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "x")


def test_where_it_connects_can_be_said_in_many_ways(engine):
    engine.functions["sandbox::list"] = lambda data: {"sandboxes": []}
    for how in ("--host=127.0.0.1:{}", "--host=ws://127.0.0.1:{}/", "--address=localhost --port={}", "III_URL=ws://127.0.0.1:{}",
                "CAY_WS_PORT={}", "CAY_HOST=ws://127.0.0.1:{}", "CAY_HOST=http://127.0.0.1:1 CAY_WS_PORT={}", "CAY_HOST=unix:/x CAY_WS_PORT={}",
                "CAY_WS_PORT={} CAY_WS_HOST=0.0.0.0"):
        words = how.format(engine.port).split()
        flags = [word for word in words if word.startswith("--")]
        done = subprocess.run([CAY, "sandbox", "list", *flags], capture_output=True, text=True,
                              env=environment(**dict(word.split("=", 1) for word in words if word not in flags)))
        assert done.returncode == 0, (how, done.stderr)


def test_an_engine_that_goes_away_is_told(cay, engine):
    def leave(data):
        raise ConnectionError
    engine.functions["sandbox::stop"] = leave
    assert cay("sandbox", "stop", ID, status=1).err == \
        f"error: ws://127.0.0.1:{engine.port} has closed the connection before it has answered\n"


# ---- names of iii ----

@pytest.fixture
def linked(tmp_path):
    def link(name):
        (tmp_path / name).symlink_to(CAY)
        return str(tmp_path / name)
    return link


def test_as_iii_it_has_both_spellings(cay, engine, linked):
    iii = linked("iii")
    assert cay("sandbox", "create", "python", program=iii).out == ID + "\n"
    assert cay("worker", "sandbox", "stop", ID, program=iii).out == f"stopped {ID}\n"
    engine.functions["f"] = lambda data: 5
    assert cay("trigger", "f", program=iii).out == "5\n"
    assert cay("sandbox", "stop", ID, program=linked("iii-worker")).out == f"stopped {ID}\n"


@pytest.mark.parametrize("name,words", [("iii", ["sandbox"]), ("iii", ["worker", "sandbox"]), ("iii-worker", ["sandbox"])])
def test_as_iii_a_variable_without_a_value_is_left_out(cay, engine, linked, name, words):
    program = linked(name)
    cay(*words, "create", "python", "-e", "HERE", "-e", "A=1", "-e", "B=", env={"HERE": "too"}, program=program)
    assert engine.named("sandbox::create")[0]["env"] == ["A=1", "B="]
    cay(*words, "exec", ID, "-e", "HERE", "-e", "A=1", "--", "env", env={"HERE": "too"}, program=program)
    assert engine.named("sandbox::exec")[0]["env"] == ["A=1"]
    cay(*words, "run", "python", "-e", "HERE", "--", "env", env={"HERE": "too"}, program=program)
    assert engine.named("sandbox::create")[1]["env"] == []


@pytest.mark.parametrize("name,words", [("iii", ["start"]), ("iii", []), ("iii", ["worker", "add", "x"]), ("iii-worker", ["start"])])
def test_as_iii_it_names_what_is_there(linked, name, words):
    done = subprocess.run([linked(name), *words], env=environment(), capture_output=True, text=True)
    assert done.returncode == 2 and f"{name} sandbox" in done.stderr


# ---- the next iii-worker ----

class Path:
    """Folders for PATH, each with an iii-worker."""

    def __init__(self, root):
        self.root, self.folders = root, []

    def add(self):
        folder = self.root / f"bin{len(self.folders)}"
        folder.mkdir()
        self.folders.append(folder)
        return folder / "iii-worker"

    def link(self):
        self.add().symlink_to(CAY)

    def copy(self):
        shutil.copy(CAY, self.add())

    def script(self, *lines):
        file = self.add()
        file.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        file.chmod(0o755)

    def words(self, *words):
        """The first of them runs."""
        return {"args": [str(self.folders[0] / "iii-worker"), *words],
                "env": environment(PATH=":".join([*map(str, self.folders), os.environ["PATH"]]))}

    def run(self, *words, **how):
        return subprocess.run(**self.words(*words), capture_output=True, text=True, timeout=60, **how)


@pytest.fixture
def path(tmp_path):
    return Path(tmp_path)


GENUINE = ('echo "genuine $*" "$WORD"', "cat", "exit 7")


def test_a_command_of_another_iii_worker_is_passed_on(path):
    path.link()
    path.script(*GENUINE)
    for words in (["start", "a b", "--port", "1"], [], ["--help"], ["worker-manager-daemon"]):
        done = path.run(*words, input="from stdin")
        assert (done.returncode, done.stdout, done.stderr) == (7, f"genuine {' '.join(words)} \nfrom stdin", "")


def test_commands_of_ours_are_not_passed_on(path):
    path.link()
    path.script(*GENUINE)
    assert "cay" in path.run("--version").stdout
    assert "genuine" not in path.run("sandbox").stdout
    assert path.run("sandbox-daemon", "--config", "/nowhere").returncode == 2


def test_links_and_copies_of_cay_are_passed_over(path):
    path.link()
    path.copy()
    path.link()
    path.copy()
    path.script(*GENUINE)
    done = path.run("start", "x", input="")
    assert (done.returncode, done.stdout) == (7, "genuine start x \n"), done.stderr


def test_a_genuine_one_ahead_of_ours_is_found(path):
    path.link()
    path.script(*GENUINE)
    words = path.words("start")
    words["env"]["PATH"] = ":".join([str(path.folders[1]), str(path.folders[0]), "/usr/bin", "/bin"])
    assert subprocess.run(**words, stdin=subprocess.DEVNULL).returncode == 7


def test_without_another_one_the_command_is_refused(path):
    path.link()
    path.copy()
    path.link()
    done = path.run("start")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "no other iii-worker on PATH" in done.stderr


def test_a_script_that_comes_back_to_us_does_not_go_round_for_ever(path):
    for way in "", "exec ":
        path.folders.clear()
        path.root = path.root / f"way{len(way)}"
        path.root.mkdir()
        path.link()
        path.script(f'{way}"{path.folders[0]}/iii-worker" "$@"')
        done = path.run("start")
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr


def test_a_child_of_a_genuine_one_is_passed_on_again(path):
    path.link()
    path.script('test "$1" = outer && exec_again=$(iii-worker inner) && echo "outer, $exec_again" || echo "$1"')
    assert path.run("outer").stdout == "outer, inner\n"


@pytest.fixture
def manager(path):
    """Starts worker-manager-daemon where there is no other iii-worker."""
    with contextlib.ExitStack() as stack:
        def start(**how):
            if not path.folders:
                path.link()
            words = path.words("worker-manager-daemon")
            words["env"].update(how.pop("env", {}))
            process = stack.enter_context(subprocess.Popen(**words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **how))
            stack.callback(process.kill)
            assert "does nothing" in process.stderr.readline()
            return process
        yield start


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_manager_of_nobody_waits_for_a_signal(manager, number):
    process = manager()
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(60) == 0


def test_a_worker_manager_of_nobody_ends_with_its_engine(manager):
    read, write = os.pipe()
    process = manager(env={"III_LIFELINE_FD": str(read)}, pass_fds=[read])
    os.close(read)
    os.write(write, b"some bytes")
    assert process.poll() is None
    os.close(write)
    assert process.wait(60) == 0


# ---- the daemon's file ----

def test_a_bad_file_of_settings_is_2_with_its_line(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("workers:\n  - name: iii-sandbox\n    config:\n      default_cpus: many\n")
    done = subprocess.run([CAY, "serve", "--config", str(file)], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"cay serve: {file}:4: default_cpus must be a whole number\n")
    done = subprocess.run([CAY, "serve", "--config", str(tmp_path / "none")], env=environment(), capture_output=True, text=True)
    assert done.returncode == 2 and "No such file" in done.stderr
