"""Commands that the caller waits for."""

import base64
import hashlib
import signal
import threading

import pytest

from cay_harness import wait_until
from cay_order import comes_before

pytestmark = pytest.mark.core


def test_a_string_runs_in_a_shell(api, box):
    done = api.exec(box, "echo hello | tr a-z A-Z; echo oops >&2; exit 3")
    assert (done["stdout"], done["stderr"], done["exitCode"]) == ("HELLO\n", "oops\n", 3)
    assert done["duration"] > 0 and done["reason"] == "exit" and not done["truncated"]


def test_an_array_runs_as_it_is(api, box):
    done = api.exec(box, ["printf", "%s|", "a b", "$HOME", "*"])
    assert done["stdout"] == "a b|$HOME|*|" and done["exitCode"] == 0


@pytest.mark.parametrize("command", ["", [], None, 5, {"a": 1}, [""], ["a", 5], "a\0b", ["a\0b"]])
def test_what_is_not_a_command_is_refused(api, box, command):
    api.try_exec(box, command).failed(400)


def test_a_missing_command_is_named(api, box):
    api.post(f"/sandboxes/{box}/exec", {}).failed(400, text="command is required")


def test_any_cwd_that_exists_is_fine(api, box):
    assert api.sh(box, "pwd") == "/workspace\n"
    assert api.sh(box, "pwd", cwd="/tmp") == "/tmp\n"
    api.sh(box, "mkdir -p /workspace/sub")
    assert api.sh(box, "pwd", cwd="/workspace/sub") == "/workspace/sub\n"
    assert api.sh(box, "pwd", cwd="sub") == "/workspace/sub\n"
    api.try_exec(box, "pwd", cwd="/no/such/place").failed(400, "bad_cwd")
    api.try_exec(box, "pwd", cwd="/etc/passwd").failed(400, "bad_cwd")


def test_a_program_that_is_not_there_is_127_and_one_that_cannot_run_126(api, box):
    assert api.exec(box, "no-such-program-here")["exitCode"] == 127
    api.sh(box, "echo hello > /tmp/plain")
    assert api.exec(box, "/tmp/plain")["exitCode"] == 126


def test_an_array_whose_program_cannot_start_is_an_error_with_a_code(api, box):
    """Nothing ran, so there is no exit code to tell."""
    api.try_exec(box, ["no-such-program-here"]).failed(400, "command_not_found")
    api.sh(box, "echo hello > /tmp/plain")
    api.try_exec(box, ["/tmp/plain"]).failed(400, "not_executable")


@pytest.mark.parametrize("how", ["", "/stream", "/background"])
def test_a_command_that_cannot_start_says_why_and_where(api, box, how):
    def said(command, **fields):
        failed = api.post(f"/sandboxes/{box}/exec{how}", {"command": command, **fields})
        failed.failed((400, 413))
        return tuple(failed.json.get(key) for key in ("kind", "stage", "errnoName"))

    api.sh(box, "echo hello > /tmp/plain; printf '\\1\\2\\3' > /tmp/odd; chmod +x /tmp/odd")
    assert said(["no-such-program-here"]) == ("not_found", "exec", "ENOENT")
    assert said(["/tmp/plain"]) == ("permission_denied", "exec", "EACCES")
    assert said(["/tmp/odd"]) == ("not_executable", "exec", "ENOEXEC")
    assert said("true", cwd="/no/where") == ("bad_cwd", "cwd", "ENOENT")
    assert said("true", user="nobody-at-all")[:2] == ("user_setup_failed", "user")
    assert said("true", rlimits=[{"resource": "nofile", "soft": 1, "hard": -1}]) == ("resource_limit", "rlimit", "EPERM")
    assert said("") == (None, None, None)


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "INT"])
def test_a_signal_is_128_and_its_number(api, box, name):
    done = api.exec(box, ["sh", "-c", f"kill -{name} $$"])
    assert done["exitCode"] == 128 + getattr(signal, "SIG" + name)
    assert done["reason"] == "signal"


def test_every_exit_code_comes_through(api, box):
    for code in (0, 1, 2, 42, 125, 200, 255):
        assert api.exec(box, f"exit {code}")["exitCode"] == code


def test_a_timeout_ends_the_whole_tree(api, box):
    api.try_exec(box, "(setsid sh -c 'echo $$ >/tmp/a; sleep 1000' &) ; "
                      "nohup sh -c 'echo $$ >/tmp/b; sleep 1001' & "
                      "sleep 1002", timeout=1).failed(408, text="Command timed out after 1000ms")
    wait_until(lambda: not [p for p in api.processes(box) if "sleep 100" in p["command"]],
               what="the end of all three")


def test_a_process_that_ignores_sigterm_ends_with_its_timeout(api, box):
    api.try_exec(box, "trap '' TERM INT HUP; while :; do sleep 0.1; done", timeout=1).failed(408)
    wait_until(lambda: not [p for p in api.processes(box) if "trap" in p["command"]])


def test_a_background_child_that_keeps_stdout_does_not_hold_the_answer(api, box):
    """It comes while the child runs, and before 50 other commands have run."""
    with api.again() as own:
        done = comes_before(lambda: own.exec(box, "sleep 999 & echo $!"), lambda: api.exec(box, "true"), 50)
    pid = int(done["stdout"])
    assert any(p["pid"] == pid for p in api.processes(box))
    api.post(f"/sandboxes/{box}/processes/kill", {"pid": pid, "signal": "KILL"}).ok()
    wait_until(lambda: not any(p["pid"] == pid for p in api.processes(box)))


def test_output_just_before_the_end_is_not_lost(api, box):
    for _ in range(30):
        assert api.sh(box, "printf '%050000d' 7") == "%050000d" % 7


def test_output_past_the_cap_is_cut_and_said_so(api, box):
    done = api.exec(box, "head -c 12000000 /dev/zero | tr '\\0' x; echo end >&2")
    assert done["truncated"] is True and done["exitCode"] == 0
    assert len(done["stdout"]) == 10 << 20 and set(done["stdout"]) == {"x"}
    assert done["stderr"] == "end\n"


def test_output_at_the_cap_is_whole(api, box):
    done = api.exec(box, f"head -c {10 << 20} /dev/zero | tr '\\0' y")
    assert done["truncated"] is False and len(done["stdout"]) == 10 << 20


def test_unicode_goes_through_both_ways(api, box):
    text = "grüße 漢字 🏝 \u2028 end"
    assert api.sh(box, ["printf", "%s", text]) == text
    assert api.sh(box, f"printf %s '{text}'") == text


def test_bytes_that_are_not_utf8_still_make_valid_json(api, box):
    done = api.exec(box, r"printf 'a\377\000b\303'")
    assert done["exitCode"] == 0
    assert done["stdout"].startswith("a\ufffd") and "b" in done["stdout"]


def test_stdin_is_empty(api, box):
    assert api.sh(box, "cat; echo done") == "done\n"


def test_a_command_can_be_given_its_input(api, box):
    assert api.sh(box, "cat", stdin="grüß dich\n") == "grüß dich\n"
    assert api.sh(box, "wc -c", stdin="") == "0\n"
    data = bytes(range(256)) * 4096
    sent = base64.b64encode(data).decode()
    assert api.sh(box, "sha256sum", stdin=sent, stdinEncoding="base64").split()[0] == hashlib.sha256(data).hexdigest()
    api.try_exec(box, "cat", stdin=sent + "AAAA", stdinEncoding="base64").failed(400, text="stdin")
    api.try_exec(box, "cat", stdin="x" * ((1 << 20) + 1)).failed(413, text="stdin")
    api.try_exec(box, "cat", stdin="a b", stdinEncoding="base64").failed(400, "bad_base64")


def test_input_that_nobody_reads_holds_up_nobody(api, box):
    assert api.exec(box, "exit 3", stdin="x" * (1 << 20))["exitCode"] == 3
    api.try_exec(box, "sleep 1000", stdin="x" * (1 << 20), timeout=0.5).failed(408)
    wait_until(lambda: not [p for p in api.processes(box) if "sleep" in p["command"]])


def test_a_background_command_can_be_given_its_input(api, box):
    started = api.post(f"/sandboxes/{box}/exec/background", {"command": "cat > /tmp/in", "stdin": "later\n"}).ok()
    wait_until(lambda: not api.get(f"/exec/background/{started['id']}/status").ok()["running"])
    assert api.sh(box, "cat /tmp/in") == "later\n"


def test_a_command_has_the_limits_that_are_asked_for(api, box):
    limits = [{"resource": "nofile", "soft": 64, "hard": 128}, {"resource": "fsize", "soft": 4096}]
    assert api.sh(box, "ulimit -Sn; ulimit -Hn", rlimits=limits) == "64\n128\n"
    assert api.sh(box, "ulimit -Sn", rlimits=limits, user="nobody") == "64\n"
    done = api.exec(box, ["head", "-c", "8192", "/dev/zero"], rlimits=limits)
    assert done["exitCode"] == 0  # a pipe is no file
    assert api.exec(box, "exec head -c 8192 /dev/zero >/tmp/limited", rlimits=limits)["exitCode"] == 128 + signal.SIGXFSZ
    assert api.sh(box, "ulimit -Sn") != "64\n"


@pytest.mark.parametrize("limits", [[{"resource": "files", "soft": 1}], [{"resource": "core"}], [{"soft": 1}],
                                    [{"resource": "core", "soft": -2}], [{"resource": "core", "soft": 2, "hard": 1}],
                                    [{"resource": "core", "soft": 0}] * 2])
def test_what_is_not_a_limit_is_refused(api, box, limits):
    api.try_exec(box, "true", rlimits=limits).failed(400, "invalid")


def test_no_limit_is_raised_above_the_sandboxs(api, box):
    api.try_exec(box, "true", rlimits=[{"resource": "nofile", "soft": 1, "hard": -1}]).failed(400, "bad_rlimit", text="nofile")
    assert "1\n" != api.sh(box, "ulimit -Hn")


def test_env_and_user_of_one_command(api, box):
    out = api.sh(box, "echo $ONLY; id -u; id -g", env={"ONLY": "here"}, user="1000:1000")
    assert out == "here\n1000\n1000\n"
    assert api.sh(box, "echo $ONLY") == "\n"


def test_the_usual_environment_is_there(api, box):
    env = dict(line.split("=", 1) for line in api.sh(box, ["env"]).splitlines())
    assert "/usr/bin" in env["PATH"] and env["HOME"] and env["HOSTNAME"]
    assert not [k for k in env if k.startswith(("CAY_", "III_"))]


def test_many_at_once_do_not_mix(api, box):
    seen = {}

    def one(n):
        with api.again() as own:
            seen[n] = own.exec(box, f"for i in 1 2 3 4 5; do echo {n}; done")["stdout"]

    threads = [threading.Thread(target=one, args=(n,)) for n in range(24)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert seen == {n: f"{n}\n" * 5 for n in range(24)}


def test_a_caller_that_leaves_takes_its_command_along(api, box):
    with api.again() as own:
        connection = own._connection()
        connection.connect()
        connection.putrequest("POST", f"/sandbox/sandboxes/{box}/exec")
        body = b'{"command": "echo x > /tmp/started; sleep 777"}'
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        wait_until(lambda: api.exec(box, "cat /tmp/started")["stdout"])
    wait_until(lambda: not [p for p in api.processes(box) if "sleep 777" in p["command"]],
               what="the end of the cancelled command")


def test_a_large_argument_list_is_fine_and_a_huge_one_is_refused(api, box):
    assert api.sh(box, ["echo", *["x"] * 1000]).count("x") == 1000
    reply = api.try_exec(box, ["echo", *["x"] * 100_000])
    assert reply.status in (400, 413), reply.body[:200]


def test_a_command_may_be_long(api, box):
    assert api.sh(box, "echo " + "y" * 100_000) == "y" * 100_000 + "\n"


def test_exec_leaves_no_zombies(api, box):
    api.exec(box, "for i in 1 2 3 4 5 6 7 8; do (sleep 0 &) ; done")
    wait_until(lambda: "Z" not in api.sh(box, "cut -d' ' -f3 /proc/[0-9]*/stat 2>/dev/null || true"))


def test_interrupt_sends_sigint_to_one_or_to_all(api, box):
    a = api.background(box, "trap 'echo caught; exit 9' INT; echo on; while :; do sleep 0.05; done")
    b = api.background(box, "trap 'echo caught; exit 8' INT; echo on; while :; do sleep 0.05; done")
    for x in (a, b):
        wait_until(lambda: "on" in api.background_logs(x["id"])["output"])
    assert api.post(f"/sandboxes/{box}/exec/interrupt", {"pid": a["pid"]}).ok() == {"success": True, "pending": False}
    assert api.background_end(a["id"])["exitCode"] == 9
    assert api.background_status(b["id"])["running"]
    api.post(f"/sandboxes/{box}/exec/interrupt", {}).ok()
    assert api.background_end(b["id"])["exitCode"] == 8


@pytest.mark.parametrize("command", ["sleep 60; echo not reached", "(sleep 60 | cat)", "python3 -c 'import subprocess; subprocess.run([\"sleep\", \"60\"])'"])
def test_interrupt_reaches_all_processes_of_a_command_and_of_no_other(api, box, command):
    """The shell of a command waits for its child, which has to end first."""
    other = api.background(box, "sleep 61; echo not reached")
    job = api.background(box, f"trap : INT; {command}; echo over")
    wait_until(lambda: {"sleep 60", "sleep 61"} <= {p["command"] for p in api.processes(box)})
    api.post(f"/sandboxes/{box}/exec/interrupt", {"pid": job["pid"]}).ok()
    api.background_end(job["id"])
    assert "over\n" in api.background_logs(job["id"])["output"]
    assert "sleep 60" not in {p["command"] for p in api.processes(box)}
    assert api.background_status(other["id"])["running"]


def test_interrupt_and_kill_of_one_process_reach_only_that(api, box):
    job = api.background(box, "sleep 60; sleep 61; echo over")
    for sleep, end in (("sleep 60", lambda pid: api.post(f"/sandboxes/{box}/exec/interrupt", {"pid": pid})),
                       ("sleep 61", lambda pid: api.post(f"/sandboxes/{box}/processes/kill", {"pid": pid, "signal": "INT"}))):
        wait_until(lambda: [p for p in api.processes(box) if p["command"] == sleep])
        end(next(p["pid"] for p in api.processes(box) if p["command"] == sleep)).ok()
    api.background_end(job["id"])
    assert api.background_logs(job["id"])["output"] == "over\n"


@pytest.mark.parametrize("user", ["root", "1000", "65534:65534"])
def test_standard_streams_can_be_opened_by_name(api, box, user):
    for _ in range(2):
        done = api.exec(box, "echo out > /dev/stdout; echo err > /dev/stderr", user=user)
        assert (done["stdout"], done["stderr"]) == ("out\n", "err\n"), done
    mixed = api.background(box, "echo out > /dev/stdout; echo err > /dev/stderr", user=user)
    api.background_end(mixed["id"])
    assert api.background_logs(mixed["id"])["output"] == "out\nerr\n"
