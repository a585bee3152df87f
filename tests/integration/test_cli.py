"""The command line: what it prints where, and its exit codes."""

import hashlib
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cay_harness import CAY, RSS_SLACK_KIB, SLOW, busybox_root, cay, cli_environment, read_link, read_text, wait_until

pytestmark = pytest.mark.core


@pytest.fixture
def run(shared):
    def call(*args, **how):
        return cay(shared, *args, **how)

    return call


def test_run_prints_the_output_and_exits_as_the_command(run):
    done = run("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.returncode) == (b"out\n", 7), done
    assert b"err\n" in done.stderr


def test_run_takes_an_image(run):
    assert run("run", "host", "--", "echo", "hi").stdout == b"hi\n"
    done = run("run", "no-such-image", "--", "true")
    assert done.returncode == 125 and b"no-such-image" in done.stderr and done.stdout == b""


def test_run_says_that_the_first_word_is_an_image(run):
    done = run("run", "--pull", "never", "echo", "hello")
    assert done.returncode == 125 and b"cay run -- echo" in done.stderr


def test_json_is_given_or_refused(run, box):
    """No command takes --json and then prints something else."""
    for words in (["pause"], ["rm"], ["stop"], ["cp"], ["attach"], ["kill"], ["file", "read"], ["file", "rm"],
                  ["image", "rm"], ["image", "tag"], ["job", "logs"], ["job", "wait"], ["env", "set"]):
        done = run(*words, "--json", box, "x")
        assert done.returncode == 2 and b"--json" in done.stderr, words
    for words in (["jobs"], ["top", box], ["stats"], ["ps"], ["env", "list", box], ["inspect", box],
                  ["renew", box], ["image", "inspect", "host"], ["image", "catalog"], ["file", "ls", box]):
        json.loads(run(*words, "--json", check=True).stdout)
    assert json.loads(run("exec", "--json", box, "echo", "o").stdout)["stdout"] == "o\n"
    job = json.loads(run("exec", "-d", "--json", box, "echo", "o").stdout)["id"]
    assert run("logs", "--json", job).returncode == 2
    assert run("exec", "--json", "-t", box, "true").returncode == 2


def test_run_leaves_no_sandbox(run, api):
    before = set(api.ids())
    run("run", "--", "true", check=True)
    assert set(api.ids()) == before


def test_run_passes_arguments_as_they_are(run):
    done = run("run", "--", "printf", "%s|", "a b", "$HOME", "*", "", "--flag", "-x")
    assert done.stdout == b"a b|$HOME|*||--flag|-x|"


@pytest.mark.parametrize("port", ["0", "1"])
def test_run_works_without_a_daemon(shared, tmp_path, port):
    env = {"CAY_DATA": tmp_path / "data", "CAY_RUN": tmp_path / "run", "CAY_REST_PORT": port,
           "TMPDIR": tmp_path}
    done = cay(shared, "run", "--", "sh", "-c", "echo alone; exit 3", env=env)
    assert (done.stdout, done.returncode) == (b"alone\n", 3), done
    assert [p for p in tmp_path.iterdir() if p.name not in ("data", "run")] == []


@pytest.mark.parametrize("port", ["0", "1"])
def test_other_commands_say_that_no_daemon_runs(shared, tmp_path, port):
    env = {"CAY_DATA": tmp_path / "data", "CAY_RUN": tmp_path / "run", "CAY_REST_PORT": port}
    for words in (["ls"], ["create"], ["inspect", "x"], ["ps", "x"]):
        done = cay(shared, *words, env=env)
        assert done.returncode == 69 and b"cay serve" in done.stderr and done.stdout == b""


def test_create_exec_ls_inspect_kill(run, api):
    id = run("create", "--name", "cli-box", check=True).stdout.decode().split()[-1].strip()
    if not id.startswith("sbx_"):
        id = next(s["id"] for s in api.get("/sandboxes?pageSize=200").ok()["items"]
                  if s["name"] == "cli-box")
    try:
        assert id.encode() in run("ls", check=True).stdout
        listed = json.loads(run("ls", "--json", check=True).stdout)
        assert any(s["id"] == id for s in listed)
        one = json.loads(run("inspect", id, check=True).stdout)
        assert one["id"] == id and one["status"] == "running"
        assert run("exec", id, "echo one | cat").stdout == b"one\n"
        assert run("exec", id, "--", "echo", "a  b").stdout == b"a  b\n"
        assert run("exec", "cli-box", "--", "echo", "by name").stdout == b"by name\n"
        run("pause", id, check=True)
        assert json.loads(run("inspect", id).stdout)["status"] == "paused"
        assert run("exec", id, "true").returncode not in (0, None)
        run("resume", id, check=True)
        assert run("exec", id, "true").returncode == 0
        refused = run("kill", id)  # without a terminal nobody can be asked
        assert refused.returncode == 1 and b"cay rm" in refused.stderr and b"--yes" in refused.stderr
        assert json.loads(run("inspect", id).stdout)["status"] == "running"
    finally:
        run("kill", "--yes", id, check=True)
    api.get(f"/sandboxes/{id}").failed(404)
    assert run("kill", "--yes", id).returncode == 1


def test_exec_takes_limits_as_docker_does(run, box):
    done = run("exec", "--ulimit", "nofile=32:64", "--ulimit", "core=0", box, "ulimit -Sn; ulimit -Hn; ulimit -c")
    assert done.stdout == b"32\n64\n0\n"
    for wrong in ("nofile", "nofile=", "nofile=x", "nofile=1:", "files=3", "=3"):
        refused = run("exec", "--ulimit", wrong, box, "true")
        assert refused.returncode == 2 and b"--ulimit" in refused.stderr, wrong


def test_exit_codes_are_those_of_shells(run, box):
    for code in (0, 1, 3, 255):
        assert run("exec", box, f"exit {code}").returncode == code
    assert run("exec", "--timeout", "1", box, "sleep 100").returncode == 124
    assert run("exec", box, "--", "no-such-program").returncode == 127
    run("exec", box, "echo x > /tmp/plain")
    assert run("exec", box, "--", "/tmp/plain").returncode == 126
    assert run("exec", box, "kill -TERM $$").returncode == 128 + signal.SIGTERM
    assert run("exec", "sbx_000000000000000000000000", "true").returncode == 125


def test_what_is_out_of_range_is_wrong_usage_also_of_run(run):
    for words in (["create", "-m", "5"], ["run", "-m", "5", "--", "true"], ["create", "--name", "a b"],
                  ["run", "--name", "a b", "--", "true"], ["run", "-d", "--cpu", "99", "host"]):
        done = run(*words)
        assert done.returncode == 2 and b"cay help" in done.stderr, (words, done)


def test_of_creates_with_one_name_at_once_one_gets_it(run, api):
    with ThreadPoolExecutor(12) as pool:
        done = list(pool.map(lambda _: run("create", "--name", "cli-one"), range(12)))
    ids = [d.stdout.decode().strip() for d in done if d.returncode == 0]
    assert len(ids) == 1
    assert all(b"name_taken" in d.stderr for d in done if d.returncode == 1)
    assert len([d for d in done if d.returncode == 1]) == 11
    # run says so too, with the status that means that cay failed and not the command.
    done = run("run", "--name", "cli-one", "--", "true")
    assert done.returncode == 125 and ids[0].encode() in done.stderr
    run("rm", "cli-one", check=True)
    api.get(f"/sandboxes/{ids[0]}").failed(404)


def test_a_name_that_several_have_is_refused_with_their_ids(run, make):
    ids = [make(name="cli-twins")["id"] for _ in range(2)]
    done = run("exec", "cli-twins", "true")
    assert done.returncode == 125 and all(id.encode() in done.stderr for id in ids)
    assert run("inspect", "cli-twins").returncode == 1


def test_the_beginning_of_an_id_is_enough(run, box):
    assert json.loads(run("inspect", box[:20], check=True).stdout)["id"] == box
    assert b"no sandbox has" in run("inspect", "sbx_zzz").stderr
    assert b"no sandbox has" in run("inspect", "nobody").stderr


def test_names_of_the_api_can_be_used(run, make):
    for name in ("my box", "ünï/☃", "50%"):
        id = make(name=name)["id"]
        assert json.loads(run("inspect", name, check=True).stdout)["id"] == id


def test_wrong_usage_is_2_and_helps(run):
    for words in ([], ["exec"], ["no-such-command"], ["ls", "--no-such-flag"], ["cp", "one"],
                  ["file"], ["image", "import"], ["exec", "x"]):
        done = run(*words)
        assert done.returncode == (2 if words else done.returncode), words
        assert done.stdout == b"" or not words, words
        if words:
            assert done.stderr


def test_flags_that_are_no_text_are_refused(run, api, box):
    """Left out, they would have meant something else: a token for all sandboxes."""
    odd = os.fsdecode(b"\xff")
    before = api.get("/tokens").ok()["tokens"], api.get("/webhooks").ok()["webhooks"]
    for args in (("token", "create", "--scope", "read", "--sandbox", odd),
                 ("token", "create", "--scope", "read", odd),
                 ("webhook", "create", "--topic", odd, "https://a.example"),
                 ("webhook", "create", "--sandbox", odd, "https://a.example"),
                 ("context", "create", "--import", odd, box),
                 ("code", "-c", odd, box), ("code", "-w", odd, "-c", "1", box)):
        done = run(*args)
        assert done.returncode == 2 and b"UTF-8" in done.stderr, done
    assert (api.get("/tokens").ok()["tokens"], api.get("/webhooks").ok()["webhooks"]) == before
    assert b"No such file" in run("create", "--env-file", "/none/" + odd).stderr  # a name of this machine
    done = run("alert", "set", box, "cpu", "nan")
    assert done.returncode == 2 and b"nan" in done.stderr


def test_stdout_and_stderr_stay_apart(run, box):
    done = run("exec", box, "echo o; echo e >&2")
    assert (done.stdout, done.stderr) == (b"o\n", b"e\n")


def test_stdin_is_passed_on(run, box):
    data = os.urandom(2_000_000)
    done = run("exec", "-i", box, "--", "sha256sum", input=data)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest(), done.stderr
    done = run("exec", "-i", box, "--", "cat", input=data)
    assert done.stdout == data


def test_binary_output_is_not_touched(run, box):
    done = run("exec", box, "--", "head", "-c", "100000", "/dev/urandom")
    assert len(done.stdout) == 100_000


def test_a_command_that_ends_before_its_input_does(run, box):
    done = run("exec", "-i", box, "--", "head", "-c", "3", input=b"abc" * 1_000_000)
    assert done.stdout == b"abc" and done.returncode == 0


def test_a_reader_that_closes_early_ends_it(shared, box):
    p = subprocess.Popen([CAY, "exec", box, "--", "yes"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=cli_environment(shared))
    assert p.stdout.read(4) == b"y\ny\n"
    p.stdout.close()
    assert p.wait(60) is not None
    p.stderr.close()
    with shared.api() as api:
        wait_until(lambda: not [x for x in api.processes(box) if x["command"] == "yes"])
        shared.apis.remove(api)


@pytest.mark.parametrize("words", [("code", "-c", "while True: print('y')", "BOX"),
                                   ("queue", "submit", "--wait", "BOX", "while echo y; do sleep 0.01; done")])
def test_a_reader_that_closes_early_ends_who_follows(shared, box, words):
    p = subprocess.Popen([CAY, *(box if word == "BOX" else word for word in words)], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, env=cli_environment(shared))
    assert p.stdout.read(4) == b"y\ny\n"
    p.stdout.close()
    try:
        assert p.wait(30 * SLOW) == 128 + signal.SIGPIPE
    finally:
        p.kill()
        p.wait()


def test_ctrl_c_reaches_the_command(shared, box):
    p = subprocess.Popen([CAY, "exec", box, "trap 'echo got; exit 5' INT; echo on; "
                                            "while :; do sleep 0.05; done"],
                         stdout=subprocess.PIPE, env=cli_environment(shared))
    assert p.stdout.readline() == b"on\n"
    p.send_signal(signal.SIGINT)
    assert p.stdout.read() == b"got\n"
    assert p.wait(60) == 5
    p.stdout.close()


def on_terminal(shared, argv, script, timeout=60, size=(40, 123)):
    """Runs the CLI on a pty of its own; script is (wait for, then type) pairs. Output and status."""
    import fcntl
    import struct
    import termios
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(CAY, [CAY, *argv], cli_environment(shared, TERM="xterm"))
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    out = b""
    steps = list(script)
    deadline = time.monotonic() + timeout * SLOW
    while time.monotonic() < deadline:
        if steps and re.search(steps[0][0], out):
            act = steps.pop(0)[1]
            act(fd) if callable(act) else os.write(fd, act)
        if select.select([fd], [], [], 0.05)[0]:
            try:
                piece = os.read(fd, 65536)
            except OSError:
                break
            if not piece:
                break
            out += piece
    else:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    return out, status, steps


def test_t_gives_a_terminal_of_the_right_size(shared, box):
    out, status, left = on_terminal(
        shared, ["exec", "-t", "-i", box, "--", "sh", "-c",
                 "tty; stty size; echo re''ady; read x; echo \"got:$x\"; exit 6"],
        [(rb"ready", b"typed\n")])
    assert not left and status == 6, out
    assert b"/dev/pts/" in out and b"got:typed" in out
    assert b"40 123" in out or b"24 80" in out


def test_a_resize_reaches_the_command(shared, box):
    import fcntl
    import struct
    import termios

    def resize(fd):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 51, 99, 0, 0))

    out, status, left = on_terminal(
        shared, ["exec", "-t", "-i", box, "--", "sh", "-c",
                 "trap 'stty size; exit 0' WINCH; echo re''ady; while :; do sleep 0.05; done"],
        [(rb"ready", resize)])
    assert not left and status == 0 and b"51 99" in out, out


def test_ctrl_c_on_a_terminal_goes_to_the_program_there(shared, box):
    out, status, left = on_terminal(
        shared, ["exec", "-t", "-i", box, "--", "sh", "-c",
                 "trap 'echo in''t; exit 9' INT; echo re''ady; while :; do sleep 0.05; done"],
        [(rb"ready", b"\x03")])
    assert not left and status == 9 and b"int" in out, out


def test_cp_moves_files_both_ways(run, box, tmp_path):
    data = os.urandom(3_000_000)
    (tmp_path / "in").write_bytes(data)
    os.chmod(tmp_path / "in", 0o750)
    run("cp", tmp_path / "in", f"{box}:/workspace/there", check=True)
    assert run("exec", box, "sha256sum < there; stat -c %a there").stdout.decode().split() == [
        hashlib.sha256(data).hexdigest(), "-", "750"]
    run("cp", f"{box}:/workspace/there", tmp_path / "back", check=True)
    assert (tmp_path / "back").read_bytes() == data


def test_cp_moves_directories(run, box, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub" / "deep").mkdir(parents=True)
    (tree / "a").write_text("A")
    (tree / "sub" / "b c").write_text("B")
    (tree / "sub" / "deep" / "empty").write_text("")
    run("cp", tree, f"{box}:/workspace/", check=True)
    found = run("exec", box, "cd tree && find . | sort; cat a 'sub/b c'").stdout.decode()
    assert "./sub/deep/empty" in found and found.endswith("AB")
    run("cp", f"{box}:/workspace/tree", tmp_path / "out", check=True)
    out = tmp_path / "out"
    out = out if (out / "a").exists() else out / "tree"
    assert (out / "a").read_text() == "A" and (out / "sub" / "b c").read_text() == "B"
    assert (out / "sub" / "deep" / "empty").read_text() == ""


def test_cp_into_a_folder_or_as_one(run, box, tmp_path):
    """As cp -r and docker cp: into what is there, else it becomes that."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a").write_text("A")
    (tmp_path / "f").write_text("F")

    def there():
        return run("exec", box, "find . -type f | sort").stdout.decode().split()

    run("cp", tmp_path / "src", f"{box}:new/", check=True)
    assert there() == ["./new/a"]
    run("cp", tmp_path / "src", f"{box}:new/", check=True)
    run("cp", tmp_path / "src", f"{box}:new2", check=True)
    run("cp", f"{tmp_path}/src/.", f"{box}:new3/", check=True)
    run("cp", f"{tmp_path}/src/.", f"{box}:new2", check=True)
    run("cp", tmp_path / "f", f"{box}:made/", check=True)
    assert there() == ["./made/f", "./new/a", "./new/src/a", "./new2/a", "./new3/a"]
    run("cp", f"{box}:new2", f"{tmp_path}/out/", check=True)
    run("cp", f"{box}:new2", f"{tmp_path}/out/", check=True)
    assert sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*")) == ["a", "new2", "new2/a"]
    assert run("cp", f"{box}:made/f", f"{tmp_path}/nowhere/").returncode == 1
    assert not (tmp_path / "nowhere").exists()


def a_tree(folder):
    """What a copy must keep: links, modes, times, and a name that is no text."""
    tree = folder / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "a").write_text("A")
    (tree / "sub" / ("long" * 40)).write_text("L")
    (tree / "link").symlink_to("a")
    (tree / "sub" / "dangling").symlink_to("/no/such/file")
    with open(os.fsencode(tree) + b"/n\xff", "wb") as f:
        f.write(b"N")
    os.chmod(tree / "a", 0o751)
    os.utime(tree / "a", (1_000_000_000, 1_000_000_000))
    os.chmod(tree / "sub", 0o700)
    os.utime(tree / "sub", (1_100_000_000, 1_100_000_000))
    return tree


def seen(tree):
    found = {}
    for path, dirs, files in os.walk(os.fsencode(tree)):
        for name in dirs + files:
            full = os.path.join(path, name)
            st = os.lstat(full)
            link = os.readlink(full) if os.path.islink(full) else None
            found[os.path.relpath(full, os.fsencode(tree))] = (oct(st.st_mode), int(st.st_mtime), link)
    return found


def test_cp_keeps_links_modes_times_and_odd_names(run, box, tmp_path):
    tree = a_tree(tmp_path)
    run("cp", tree, f"{box}:", check=True)
    assert run("exec", box, "readlink tree/link; stat -c '%a %Y' tree/a tree/sub").stdout.split() == [
        b"a", b"751", b"1000000000", b"700", b"1100000000"]
    run("cp", f"{box}:tree", tmp_path / "back", check=True)
    assert seen(tmp_path / "back") == seen(tree)
    run("cp", tree / "a", f"{box}:one", check=True)
    run("cp", f"{box}:one", tmp_path / "one", check=True)
    assert int((tmp_path / "one").stat().st_mtime) == 1_000_000_000


def test_cp_leaves_the_mode_of_a_folder_that_was_here(run, box, tmp_path):
    run("exec", box, "mkdir -p t/new; echo A >t/a; chmod 777 t t/new", check=True)
    private = tmp_path / "t"
    private.mkdir(mode=0o700)
    run("cp", f"{box}:t", tmp_path, check=True)
    assert (private / "a").read_text() == "A\n"
    assert [oct(p.stat().st_mode & 0o777) for p in (private, private / "new")] == ["0o700", "0o755"]


def test_cp_dash_is_a_tar_stream_both_ways(run, box, tmp_path):
    tree = a_tree(tmp_path)
    packed = subprocess.run(["tar", "c", "-C", tmp_path, "tree"], check=True, capture_output=True)
    run("cp", "-", f"{box}:made/here", input=packed.stdout, check=True)
    (tmp_path / "out").mkdir()
    stream = run("cp", f"{box}:made/here/tree", "-", check=True).stdout
    subprocess.run(["tar", "xp", "-C", tmp_path / "out"], input=stream, check=True)
    assert seen(tmp_path / "out" / "tree") == seen(tree)
    done = run("cp", "-", f"{box}:made", input=b"no archive")
    assert done.returncode == 1 and b"tar in the sandbox failed" in done.stderr


def test_cp_without_tar_in_the_sandbox(run, box, tmp_path):
    """File by file, as far as that goes."""
    tree = a_tree(tmp_path)
    os.unlink(os.fsencode(tree) + b"/n\xff")
    run("exec", box, "mkdir bin; for p in sh cat touch stat; do ln -s $(command -v $p) bin/; done", check=True)
    run("env", "set", box, "PATH=/workspace/bin", check=True)
    done = run("cp", tree, f"{box}:")
    assert done.returncode == 1 and b"tree/link" in done.stderr and b"2 entries" in done.stderr
    assert run("exec", box, "cat tree/a; stat -c %a tree/a").stdout == b"A751\n"
    done = run("cp", f"{box}:tree", "-")
    assert done.returncode == 1 and b"no `tar`" in done.stderr


def test_cp_out_of_a_hostile_tar(run, box, tmp_path):
    """The program that packs is the sandbox's own, and so is what it says."""
    make = ("import io, sys, tarfile; t = tarfile.open(fileobj=sys.stdout.buffer, mode='w|')\n"
            "def add(name, type=tarfile.REGTYPE, link='', data=b'evil'):\n"
            "    i = tarfile.TarInfo(name); i.type = type; i.linkname = link\n"
            "    i.size = len(data) if type == tarfile.REGTYPE else 0; i.mode = 0o7777\n"
            "    t.addfile(i, io.BytesIO(data))\n"
            "add('t', tarfile.DIRTYPE)\n")
    cases = ["add('../climbs')", "add('t/../../climbs')", "add('/climbs')", "add('t/..', tarfile.DIRTYPE)",
             "add('t/l', tarfile.SYMTYPE, '..'); add('t/l/climbs')",
             "add('t/l', tarfile.SYMTYPE, 'climbs'); add('t/l')",
             "add('t/h', tarfile.LNKTYPE, '../secret')", "add('t/h', tarfile.LNKTYPE, 't/../../secret')",
             "add('other/x')", "add('t/' + 'd/' * 200 + 'x')"]
    contents = ["add('./..')", "add('../climbs')", "add('.')", "add('l', tarfile.SYMTYPE, '..'); add('l/climbs')",
                "add('h', tarfile.LNKTYPE, '../secret')"]
    run("exec", box, "mkdir t bin", check=True)
    run("env", "set", box, "PATH=/workspace/bin:/usr/bin:/bin", check=True)
    (tmp_path / "secret").write_text("secret")
    for i, case in enumerate(cases + contents):
        body = f"#!/usr/bin/python3\n{make}{case}\nt.close()\n"
        run("file", "write", box, "bin/tar", "-", input=body.encode(), check=True)
        run("exec", box, "chmod +x bin/tar", check=True)
        out = tmp_path / f"out{i}"
        out.mkdir()
        done = run("cp", f"{box}:t/." if case in contents else f"{box}:t", out)
        assert done.returncode == 1 and done.stderr, case
        assert sorted(p.name for p in tmp_path.iterdir()) == [
            *sorted(f"out{n}" for n in range(i + 1)), "secret"], case
        assert {p.name for p in out.iterdir()} <= {"t", "l"}, case
        assert not [p for p in out.rglob("*") if p.is_file() and not p.is_symlink()], case
    body = f"#!/usr/bin/python3\n{make}add('t/set')\nt.close()\n"
    run("file", "write", box, "bin/tar", "-", input=body.encode(), check=True)
    run("exec", box, "chmod +x bin/tar", check=True)
    run("cp", f"{box}:t", tmp_path / "modes", check=True)
    assert (tmp_path / "modes" / "set").stat().st_mode & 0o7000 == 0


def own_tar(run, box, body):
    """Gives the sandbox a `tar` of its own."""
    run("exec", box, "mkdir -p t bin", check=True)
    run("env", "set", box, "PATH=/workspace/bin:/usr/bin:/bin", check=True)
    run("file", "write", box, "bin/tar", "-", input=f"#!/bin/sh\n{body}\n".encode(), check=True)
    run("exec", box, "chmod +x bin/tar", check=True)


def test_cp_shows_no_escape_sequences_of_the_tar_there(shared, run, box, tmp_path):
    own_tar(run, box, """printf '\\033]0;title\\007said' >&2; exec /usr/bin/tar "$@\"""")
    out, status, _ = on_terminal(shared, ["cp", f"{box}:t", str(tmp_path)], [])
    assert status == 0 and b"said" in out and b"\x1b]" not in out, out
    out, status, _ = on_terminal(shared, ["cp", str(tmp_path), f"{box}:back"], [])
    assert status == 0 and b"said" in out and b"\x1b]" not in out, out


def test_cp_out_gives_the_sandbox_none_of_our_input(run, box):
    """Whatever what is copied is called."""
    own_tar(run, box, """[ $1 = --help ] && exit; cat >/workspace/got; exec /usr/bin/tar "$@\"""")
    run("file", "write", box, "-", "x", check=True)
    run("cp", f"{box}:-", "-", input=b"the next lines of a list", check=True)
    assert run("file", "read", box, "got", check=True).stdout == b""


@pytest.mark.parametrize("sends, why", [
    ("printf %01024d 7", b"broken"),
    ("head -c 1024 /dev/zero; yes", b"after the archive's end"),
])
def test_cp_does_not_wait_for_a_tar_that_will_not_end(run, box, tmp_path, sends, why):
    own_tar(run, box, f"[ $1 = --help ] && exit; trap '' INT TERM HUP PIPE; {sends}; exec sleep 1000")
    done = run("cp", f"{box}:t", tmp_path)
    assert done.returncode == 1 and why in done.stderr


@pytest.mark.parametrize("sends, why", [
    ("exit 0", b"sent nothing"),
    ("head -c 10240 /dev/zero", b"sent nothing"),
    ("/usr/bin/tar \"$@\" | head -c 512", b"without its end"),
])
def test_cp_fails_when_the_tar_there_succeeds_without_a_whole_archive(run, box, tmp_path, sends, why):
    own_tar(run, box, f"[ $1 = --help ] && exit; {sends}")
    done = run("cp", f"{box}:t", tmp_path / "t")
    assert done.returncode == 1 and why in done.stderr, done
    done = run("cp", f"{box}:t", "-")
    assert (done.returncode == 1 and b"sent nothing" in done.stderr) == (sends == "exit 0"), done


def test_cp_keeps_little_of_folders_with_long_names(shared, run, box, tmp_path):
    make = ("import sys, tarfile\n"
            "for i in range(0 if sys.argv[1] == '--help' else 3000):\n"
            "    e = tarfile.TarInfo('t/' + ('d' * 250 + '/') * 90 + str(i)); e.type = tarfile.DIRTYPE; e.mode = 0o755\n"
            "    sys.stdout.buffer.write(e.tobuf(tarfile.GNU_FORMAT))\n"
            "sys.stdout.buffer.write(bytes(1024))\n")
    own_tar(run, box, f"exec /usr/bin/python3 -c \"{make}\" $1")
    # By a process that is small itself: what it was before it became another counts as the other's.
    measure = ("import resource, subprocess, sys\n"
               "subprocess.run(sys.argv[1:], check=True)\n"
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n")
    peak = subprocess.run([sys.executable, "-c", measure, CAY, "cp", f"{box}:t", str(tmp_path)], check=True,
                          env=cli_environment(shared), stdout=subprocess.PIPE)
    assert int(peak.stdout) < (64 << 10) + RSS_SLACK_KIB
    shutil.rmtree(tmp_path / "t")


def test_cp_that_is_killed_leaves_no_process(shared, run, box, tmp_path):
    own_tar(run, box, "[ $1 = --help ] && exit; head -c 512 /dev/zero; touch /workspace/here; exec sleep 1000")
    with subprocess.Popen([CAY, "cp", f"{box}:t", str(tmp_path)], env=cli_environment(shared)) as copy:
        try:
            wait_until(lambda: run("file", "read", box, "here").returncode == 0)
            children = read_text(f"/proc/{copy.pid}/task/{copy.pid}/children").split()
        finally:
            copy.kill()
    assert len(children) == 1
    wait_until(lambda: not os.path.exists(f"/proc/{children[0]}/fd/1"), what="the end of the child")


def test_cp_that_is_interrupted_leaves_no_piece_of_a_file(shared, run, box, tmp_path):
    body = ("#!/usr/bin/python3\nimport os, sys, tarfile, time\nif '--help' in sys.argv: sys.exit()\n"
            "d = tarfile.TarInfo('t'); d.type = tarfile.DIRTYPE; f = tarfile.TarInfo('t/a'); f.size = 1 << 20\n"
            "os.write(1, d.tobuf() + f.tobuf() + b'x' * 9000); time.sleep(1000)\n")
    run("exec", box, "mkdir t bin", check=True)
    run("env", "set", box, "PATH=/workspace/bin:/usr/bin:/bin", check=True)
    run("file", "write", box, "bin/tar", "-", input=body.encode(), check=True)
    run("exec", box, "chmod +x bin/tar", check=True)
    def is_written(fd):
        return f"{tmp_path}/t/" in read_link(fd) and fd.stat().st_size == 9000

    with subprocess.Popen([CAY, "cp", f"{box}:t", tmp_path / "t"], env=cli_environment(shared)) as p:
        try:
            wait_until((tmp_path / "t").is_dir)
            # Until the piece is written: it is the only file in that folder that is open.
            wait_until(lambda: any(map(is_written, pathlib.Path(f"/proc/{p.pid}/fd").iterdir())))
        finally:
            p.terminate()
    assert list((tmp_path / "t").iterdir()) == []


def test_cp_says_what_it_skips(run, box, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("A")
    os.mkfifo(tree / "pipe")
    done = run("cp", tree, f"{box}:/workspace/")
    assert done.returncode == 1 and b"pipe" in done.stderr
    assert run("file", "read", box, "tree/a").stdout == b"A"


def test_a_name_with_a_newline_makes_no_line_of_its_own(run, box, tmp_path):
    run("exec", box, "mkdir t; mkfifo 't/pipe\ncay: copied'", check=True)
    done = run("cp", f"{box}:t", tmp_path)
    assert done.returncode == 1 and rb"pipe\x0acay: copied" in done.stderr, done.stderr
    assert b"\ncay: copied" not in done.stderr


def test_cp_says_what_is_missing(run, box, tmp_path):
    done = run("cp", tmp_path / "nothing", f"{box}:/workspace/x")
    assert done.returncode == 1 and b"nothing" in done.stderr
    done = run("cp", f"{box}:/workspace/nothing", tmp_path / "x")
    assert done.returncode == 1 and b"nothing" in done.stderr
    assert not (tmp_path / "x").exists()


def test_file_write_read_ls_rm(run, box):
    run("file", "write", box, "notes.txt", "hello there", check=True)
    assert run("file", "read", box, "notes.txt", check=True).stdout == b"hello there"
    run("file", "write", box, "piped", input=b"from \0 stdin\xff", check=True)
    assert run("file", "read", box, "piped", check=True).stdout == b"from \0 stdin\xff"
    listed = run("file", "ls", box, check=True).stdout
    assert b"notes.txt" in listed and b"piped" in listed
    names = {f["name"] for f in json.loads(run("file", "ls", "--json", box, check=True).stdout)}
    assert names == {"notes.txt", "piped"}
    run("file", "rm", box, "notes.txt", check=True)
    assert run("file", "read", box, "notes.txt").returncode == 1


def test_ps_and_stats(run, box, api):
    api.background(box, "exec sleep 987")
    wait_until(lambda: b"sleep 987" in run("ps", box, check=True).stdout)
    listed = json.loads(run("ps", "--json", box, check=True).stdout)
    listed = listed if isinstance(listed, list) else listed["processes"]
    assert any(p["command"] == "sleep 987" for p in listed)
    stats = json.loads(run("stats", "--json", "--no-stream", box).stdout or
                       run("stats", "--json", box, check=True).stdout)
    stats = stats[0] if isinstance(stats, list) else stats
    assert stats["sandboxId"] == box and stats["pids"] >= 1


def test_logs_shows_the_main_process(run, make):
    id = make(entrypoint=["sh", "-c", "echo from main; exec sleep 1000"])["id"]
    wait_until(lambda: run("logs", id, check=True).stdout == b"from main\n")


def test_logs_keeps_the_streams_apart_and_says_when(run, api, make, shared):
    id = make(entrypoint=["sh", "-c", "echo out; printf '\\033[2Jerr\\n' >&2; exec sleep 1000"])["id"]
    wait_until(lambda: (lambda r: r.stdout == b"out\n" and r.stderr == b"\x1b[2Jerr\n")(run("logs", id, check=True)))
    line = run("logs", "-t", id, check=True).stdout.decode()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z out\n", line)
    assert run("logs", "-t", id, check=True).stdout.decode() == line, "when it was written, not when it was read"
    api.post(f"/sandboxes/{id}/pause").ok()
    assert run("logs", id, check=True).stdout == b"out\n"
    shown, status, _ = on_terminal(shared, ["logs", id], [])
    assert status == 0 and b"\x1b[2J" not in shown and b"err" in shown
    assert run("logs", "-t", id, "ex_1").returncode == 2


@pytest.mark.needs("program:busybox")
def test_exec_where_there_is_no_shell_says_how(run, tmp_path):
    (tmp_path / "root").mkdir()
    shutil.copy(shutil.which("busybox"), tmp_path / "root" / "busybox")
    run("image", "import", tmp_path / "root", "shell-less:1", check=True)
    id = run("create", "shell-less:1", check=True).stdout.decode().strip()
    for flags in ([], ["-d"]):
        done = run("exec", *flags, id, "/busybox")
        assert done.returncode == 127 and b'stands after "--": cay exec ID -- PROGRAM' in done.stderr
    assert b"BusyBox" in run("exec", id, "--", "/busybox", check=True).stdout
    done = run("exec", id, "--", "/nothing")
    assert done.returncode == 127 and b"stands after" not in done.stderr
    run("rm", id, check=True)
    wait_until(lambda: run("rmi", "shell-less:1").returncode == 0, what="the image to be free")


@pytest.mark.needs("program:busybox")
@pytest.mark.parametrize("form", ["directory", "tar", "tar.gz"])
def test_image_import_ls_rm(run, api, tmp_path, form):
    root = busybox_root(tmp_path / "root")
    path = root
    if form != "directory":
        path = tmp_path / f"root.{form}"
        with tarfile.open(path, "w:gz" if form == "tar.gz" else "w") as tar:
            for item in sorted(os.listdir(root)):
                tar.add(root / item, item)
    name = f"bb-{form.replace('.', '-')}:1"
    run("image", "import", path, name, check=True)
    try:
        assert name.encode() in run("image", "ls", check=True).stdout
        listed = json.loads(run("image", "ls", "--json", check=True).stdout)
        names = [i["name"] for i in (listed if isinstance(listed, list) else listed["images"])]
        assert name in names and names[0] == "host"
        done = run("run", name, "--", "sh", "-c", "cat /etc/mark; id -u; echo x > /new; cat /new")
        assert done.stdout == b"of the image\n0\nx\n", done
        assert not (root / "new").exists()
        s = api.create(name)
        assert s["image"] == name
        assert run("image", "rm", name).returncode == 1, "in use"
        api.remove(s["id"])
    finally:
        wait_until(lambda: run("image", "rm", name).returncode == 0, what="the image to be free")
    assert name.encode() not in run("image", "ls", check=True).stdout
    assert run("image", "rm", "host").returncode != 0
    assert run("image", "rm", name).returncode == 1


def test_an_image_that_is_not_one_is_refused(run, tmp_path):
    (tmp_path / "junk").write_bytes(b"junk" * 100)
    for path in (tmp_path / "junk", tmp_path / "missing", "/dev/zero"):
        done = run("image", "import", path, "junk:1", timeout=30)
        assert done.returncode == 1 and done.stderr
    (tmp_path / "empty").mkdir()
    for name in ("../x", "", "a b", "UPPER$", "host"):
        assert run("image", "import", tmp_path / "empty", name).returncode in (1, 2), name


def test_doctor_says_what_works(run):
    done = run("doctor")
    assert done.returncode in (0, 1) and b"cgroup" in done.stdout.lower()
    assert json.loads(run("doctor", "--json").stdout)


def test_version_and_help(run):
    done = run("version", check=True)
    assert re.search(rb"\d+\.\d+\.\d+", done.stdout)
    helped = run("help", check=True)
    for word in (b"run", b"exec", b"create", b"serve", b"doctor"):
        assert word in helped.stdout
    assert run("exec", "--help").returncode == 0


@pytest.mark.parametrize("shell", [pytest.param(s, marks=pytest.mark.needs(f"program:{s}")) for s in ("bash", "zsh", "fish")])
def test_completion_is_a_script_of_that_shell(run, shell, tmp_path):
    script = run("completion", shell, check=True).stdout
    assert b"cay" in script
    (tmp_path / "c").write_bytes(script)
    subprocess.run([shell, "-n", tmp_path / "c"], check=True)
    assert run("completion", "tcsh").returncode == 2


def test_completion_offers_only_what_is_here_to_remove(run):
    def offered(*words):
        lines = run("completion", "--line", "--", *words, "").stdout.decode().splitlines()
        return {line.split("\t")[0] for line in lines}

    assert "python" in offered("run") and "host" in offered("image", "inspect")
    assert "python" not in offered("rmi") | offered("image", "export") | offered("image", "tag")


def test_completion_offers_volumes_snapshots_and_templates(run, shared, make):
    def offered(*words):
        lines = run("completion", "--line", "--", *words, "").stdout.decode().splitlines()
        return {line.split("\t")[0] for line in lines}

    box = make()["id"]
    with shared.api() as api:
        volume = api.post("/volumes", {"name": "offered-v", "sizeMb": 16}).ok()["id"]
        taken = api.post(f"/sandboxes/{box}/snapshots", {"name": "offered-s"}).ok()["id"]
        try:
            assert {"offered-v", volume} <= offered("volume", "rm") & offered("volume", "detach")
            assert box in offered("volume", "attach", "offered-v")
            assert {"offered-v:", ":file"} <= offered("volume", "cp") & offered("run", "-v")
            assert {"offered-s", taken} <= offered("snapshot", "rm") & offered("restore", box) & offered("diff", box)
            assert "node-web" in offered("run", "--template") & offered("template", "build")
        finally:
            api.delete(f"/volumes/{volume}")
            api.delete(f"/snapshots/{taken}")


def test_completion_offers_no_name_that_is_something_else_to_a_shell(run, make):
    odd = [make(name=name)["id"] for name in ("--all", "$(id)", "~root", ":file")]
    fine = make(name="plain-1")["id"]
    offered = [line.split("\t")[0] for line in run("completion", "--line", "--", "rm", "").stdout.decode().splitlines()]
    assert {*odd, fine, "plain-1"} <= set(offered)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", word) for word in offered), offered


def test_bash_gets_names_of_files_quoted_beside_those_of_sandboxes(run, tmp_path):
    (tmp_path / "we $(id)").touch()
    script = run("completion", "bash", check=True).stdout.decode() + """
        cay() { printf 'web:\\tx\\n:nospace\\n:file\\n'; }
        compopt() { :; }
        COMP_LINE='cay cp we' COMP_POINT=9
        _cay
        printf '%s\\n' "${COMPREPLY[@]}" """
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["web:", r"we\ \$\(id\)"], done


def test_an_id_that_looks_like_a_flag_is_not_one(run):
    done = run("inspect", "--", "-rf")
    assert done.returncode in (1, 2) and done.stdout == b""


def test_json_is_one_document_on_stdout(run, box):
    for words in (["ls", "--json"], ["inspect", box], ["ps", box, "--json"], ["image", "ls", "--json"],
                  ["file", "ls", box, "--json"], ["version", "--json"]):
        json.loads(run(*words, check=True).stdout)


def test_control_bytes_do_not_reach_a_terminal_in_lists(shared, api, make):
    make(name="evil\x1b]0;title\x07name")
    out, status, _ = on_terminal(shared, ["ls"], [])
    assert status == 0 and b"\x1b]0;" not in out and b"evil" in out


def test_since_before_1970_is_all(run, make):
    id = make()["id"]
    for args in (("stats", id), ("events",), ("audit",)):
        run(*args, "--since", "1000000h", check=True)


# What turns the direction of text, or ends a line, without being seen.
TURNS = "\u202e\u2066\u061c\u2028\u2029\u0085"


def test_characters_that_turn_directions_are_shown_in_lists_warnings_and_diffs(shared, run, api, make):
    name = f"ev{TURNS}il"
    id = make(name=name)["id"]
    run("exec", id, f"touch '{name}'", check=True)
    listed = on_terminal(shared, ["file", "ls", id], [])[0]
    for shown in (run("ls", check=True).stdout, run("diff", id, check=True).stdout,
                  run("file", "read", id, f"no{TURNS}ne").stderr, run("inspect", f"no{TURNS}ne").stderr, listed):
        assert b"\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xd8\\x9c\\xe2\\x80\\xa8\\xe2\\x80\\xa9\\xc2\\x85" in shown, shown
        assert not [c for c in TURNS if c.encode() in shown]
    # What a program prints, and names for programs, are bytes.
    assert run("exec", id, f"printf '{TURNS}'", check=True).stdout.decode() == TURNS
    assert run("file", "ls", "-q", id, check=True).stdout.decode() == name + "\n"
    assert json.loads(run("inspect", id, check=True).stdout)["name"] == name


def test_a_broken_connection_is_not_a_success(daemon_of):
    """The CLI does not reconnect after it sent input, which may or may not have arrived. How long a command without
    input waits for a daemon that is away is unit-libcay's."""
    daemon = daemon_of().start()
    with daemon.api() as api:
        id = api.create()["id"]
        p = subprocess.Popen([CAY, "exec", "-i", id, "read word; echo $word; sleep 1000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=cli_environment(daemon))
        p.stdin.write(b"on\n")
        p.stdin.flush()
        assert p.stdout.readline() == b"on\n"
        daemon.kill9()
        assert p.wait(30) not in (0, None)
        assert b"cay attach " + id.encode() + b" ex_" in p.stderr.read()
        p.stdin.close()
        p.stdout.close()
        p.stderr.close()
