"""`cay serve --replace`: another daemon takes over, and no request is lost."""

import contextlib
import http.client
import os
import select
import signal
import socket
import subprocess
import threading

import pytest

from cay_harness import CAY, UnixConnection, read_text, wait_until

pytestmark = pytest.mark.core


@contextlib.contextmanager
def successor(daemon, *args, **env):
    """Another `cay serve --replace` with the folders of a daemon; (process, end of its ready pipe)."""
    ready, write = os.pipe()
    with open(daemon.log_path, "ab") as log:
        process = subprocess.Popen(
            [CAY, "serve", "--replace", "--ready-fd", str(write), *args], stderr=log, stdout=log,
            stdin=subprocess.DEVNULL, pass_fds=(write,), env={**daemon.environment(), **env})
    os.close(write)
    try:
        yield process, ready
    finally:
        os.close(ready)
        if daemon.process is not process and process.poll() is None:
            process.kill()
            process.wait()


def replace(daemon, *args, **env):
    """Returns when the new one serves and the old one has ended."""
    old = daemon.process
    with successor(daemon, *args, **env) as (process, ready):
        assert os.read(ready, 100) == b"ready\n", daemon.log()
        assert old.wait(30) == 0
        daemon.process = process


class Load:
    """Requests without end, each over a connection of its own; what came of them is kept."""

    def __init__(self, daemon, make, method="GET", path="/sandbox/health", body=None):
        self.make, self.what = make, (method, path, body)
        self.done, self.errors, self.stop = 0, [], threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        method, path, body = self.what
        while not self.stop.is_set():
            connection = self.make()
            try:
                connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
                response = connection.getresponse()
                text = response.read()
                if response.status != 200:
                    self.errors.append((response.status, text))
            except OSError as e:
                self.errors.append(e)
            except http.client.HTTPException as e:
                self.errors.append(e)
            finally:
                connection.close()
            self.done += 1

    def further(self, n=10):
        """Waits for some that began from now on."""
        start = self.done
        wait_until(lambda: self.done > start + n, 30, "requests")

    def end(self):
        self.stop.set()
        self.thread.join()
        assert not self.errors, self.errors[:5]


def tcp(daemon):
    return lambda: http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)


def unix(daemon):
    return lambda: UnixConnection(str(daemon.socket_path), 60)


@pytest.mark.counts_rows
def test_no_request_is_lost(own):
    """New connections over both sockets, commands too, through three replacements."""
    with own.api() as api:
        id = api.create()["id"]
        command = f"/sandbox/sandboxes/{id}/exec"
        loads = [Load(own, tcp(own)), Load(own, unix(own)), Load(own, tcp(own)),
                 Load(own, unix(own), "POST", command, '{"command": "echo x"}')]
        for _ in range(3):
            [load.further() for load in loads]
            replace(own)
        [load.further() for load in loads]
        [load.end() for load in loads]
        assert api.sh(id, "echo on") == "on\n"
        assert int((own.run / "port").read_text()) == own.port


@pytest.mark.counts_rows
def test_a_job_and_a_context_go_on_with_the_new_one(own):
    with own.unix_api() as api:
        id = api.create()["id"]
        context = api.post(f"/sandboxes/{id}/interpret/contexts", {"language": "python"}).ok()["id"]
        code = f"/sandboxes/{id}/interpret/execute"
        api.post(code, {"code": "x = 41", "contextId": context}).ok()
        job = api.post(f"/sandboxes/{id}/exec/queue", {"command": "echo run >>runs; until [ -e go ]; do sleep 0.05; done; echo over"}).ok()["id"]
        wait_until(lambda: api.sh(id, "cat runs 2>/dev/null || true") == "run\n", what="the job")
        replace(own)
        assert api.post(code, {"code": "print(x + 1)", "contextId": context}).ok()["output"] == "42\n"
        api.write(id, "go", "")
        wait_until(lambda: api.get(f"/queue/{job}/status").ok()["status"] == "completed", what="the end of the job")
        assert api.get(f"/queue/{job}/status").ok()["result"]["stdout"] == "over\n"
        assert api.read(id, "runs") == "run\n"


def test_a_kept_connection_goes_on_with_the_new_one_or_is_told_to_close(own):
    """Idle ones are given over as they are; of one that is answered while the old one ends it is said."""
    idle = [tcp(own)() for _ in range(3)] + [unix(own)() for _ in range(3)]
    fresh = tcp(own)()
    fresh.connect()  # and has not sent anything
    for connection in idle:
        connection.request("GET", "/sandbox/health")
        assert connection.getresponse().read()
    replace(own)
    for connection in [*idle, fresh]:
        before = connection.sock
        connection.request("GET", "/sandbox/health")
        response = connection.getresponse()
        assert response.status == 200 and response.read()
        assert before is not None and connection.sock is before
        connection.close()


def test_a_call_under_way_is_answered_by_the_old_one(own):
    with own.api() as api:
        id = api.create()["id"]
        busy = tcp(own)()
        busy.request("POST", f"/sandbox/sandboxes/{id}/exec",
                     '{"command": "touch /tmp/on; until test -e /tmp/off; do sleep 0.01; done; echo done"}',
                     {"Content-Type": "application/json"})
        wait_until(lambda: api.exec(id, "test -e /tmp/on")["exitCode"] == 0)
        with successor(own) as (process, ready):
            wait_until(lambda: "giving up for the daemon" in own.log(), what="the old one to end")
            api.close()
            late = tcp(own)()  # waits to be accepted
            late.request("GET", "/sandbox/health")
            # The sandbox itself is asked to go on, since nobody serves now.
            pid = own.agent_pid(id)
            open(f"/proc/{pid}/root/tmp/off", "w").close()
            response = busy.getresponse()
            assert response.headers["Connection"] == "close"
            assert b"done" in response.read()
            assert late.getresponse().status == 200
            assert os.read(ready, 100) == b"ready\n"
            assert own.process.wait(30) == 0
            own.process = process


def test_without_a_daemon_it_just_starts(daemon_of):
    daemon = daemon_of(args=["--replace"]).start()
    with daemon.api() as api:
        assert api.get("/health").ok()["status"] == "healthy"
    assert "there is no daemon to replace" in daemon.log()


@pytest.mark.parametrize("wrong", ["config", "port", "data"])
def test_one_that_cannot_serve_changes_nothing(own, wrong, tmp_path):
    """It finds out before the old one gives up."""
    taken = socket.create_server(("127.0.0.1", 0))
    args, env = {
        "config": ([], {"CAY_DEFAULT_MEMORY": "much"}),
        "port": (["--listen", f"127.0.0.1:{taken.getsockname()[1]}"], {}),
        "data": (["--data", str(tmp_path / "other")], {}),
    }[wrong]
    with taken, own.api() as api:
        load = Load(own, tcp(own))
        with successor(own, *args, **env) as (process, _):
            assert process.wait(30) != 0
        load.further()
        load.end()
        assert own.running() and api.get("/health").ok()
        assert "giving up for the daemon" not in own.log()
        replace(own)


STEPS = ("asks to replace this one", "giving up for the daemon")


def die_at(own, step):
    """Kills a successor when a step has begun; False when it served before, and was left alone."""
    said = own.log().count(step)
    with successor(own) as (process, ready):
        wait_until(lambda: own.log().count(step) > said, what=step)
        process.send_signal(signal.SIGSTOP)
        if select.select([ready], [], [], 0)[0]:
            process.send_signal(signal.SIGCONT)
            own.process.wait(30)
            own.process = process
            return False
        process.kill()
        process.wait()
    return True


@pytest.mark.parametrize("step", STEPS)
def test_the_old_one_goes_on_when_the_new_one_dies(own, step):
    """Also after it has given everything up: then it starts over, with the same sockets."""
    with own.api() as api:
        id = api.create()["id"]
        kept = tcp(own)()
        kept.request("GET", "/sandbox/health")
        assert kept.getresponse().read()
        load = Load(own, unix(own))
        while not die_at(own, step):
            pass
        load.further()
        load.end()
        kept.request("GET", "/sandbox/health")
        assert kept.getresponse().status == 200
        kept.close()
        assert api.sh(id, "echo on") == "on\n"
        replace(own)
        assert api.sh(id, "echo on") == "on\n"


def test_a_hangup_does_not_end_one_that_waits_for_its_successor(own):
    """It may yet have to go on."""
    step, held = STEPS[1], False
    with own.api() as api:
        while not held:
            said = own.log().count(step)
            with successor(own) as (process, ready):
                wait_until(lambda: own.log().count(step) > said, what=step)
                process.send_signal(signal.SIGSTOP)
                held = not select.select([ready], [], [], 0)[0]
                if held:
                    own.process.send_signal(signal.SIGHUP)
                    pending = f"/proc/{own.process.pid}/status"
                    wait_until(lambda: "ShdPnd:\t0000000000000000" in read_text(pending),
                               what="the signal to be taken")
                    process.kill()
                else:
                    process.send_signal(signal.SIGCONT)
                    own.process.wait(30)
                    own.process = process
        wait_until(lambda: own.log().count("did not come up; going on"), what="the old one to go on")
        assert api.get("/health").ok()


@pytest.mark.parametrize("step", STEPS)
def test_the_new_one_serves_when_the_old_one_dies(own, step):
    with own.api() as api:
        id = api.create()["id"]
        with successor(own) as (process, ready):
            wait_until(lambda: step in own.log(), what=step)
            own.process.kill()
            own.process.wait()
            assert os.read(ready, 100) == b"ready\n", own.log()
            own.process = process
        assert api.sh(id, "echo on") == "on\n"


def test_of_two_at_once_one_is_refused_and_one_serves(own):
    with own.api() as api:
        load = Load(own, tcp(own))
        with successor(own) as (first, ready_1), successor(own) as (second, ready_2):
            said = [os.read(ready_1, 100), os.read(ready_2, 100)]
            assert b"ready\n" in said
            winner = first if said[0] else second
            old, own.process = own.process, winner
            old.wait(30)
            if all(said):  # one after the other: the second has replaced the first
                own.process = next(p for p in (first, second) if p.poll() is None)
            else:
                assert (second if winner is first else first).wait(30) != 0
            load.further()
            load.end()
        assert api.get("/health").ok()


def test_nobody_else_can_ask(own):
    """The socket is the daemon's own user's."""
    path = own.run / "replace.sock"
    assert path.stat().st_mode & 0o077 == 0
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    done = subprocess.run(["/usr/bin/python3", "-c", code], user=65534, group=65534, capture_output=True)
    assert b"PermissionError" in done.stderr
    assert subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True).returncode == 0  # the control


def test_garbage_at_the_socket_changes_nothing(own):
    with own.api() as api:
        for data in (b"", b"x", b"\0" * 24, b"\xff" * 4096):
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(str(own.run / "replace.sock"))
                with contextlib.suppress(OSError):
                    s.sendall(data)
        assert api.get("/health").ok()
        replace(own)
        assert api.get("/health").ok()


def test_another_address_is_taken_when_the_new_one_wants_it(own):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    old = own.port
    replace(own, "--listen", f"127.0.0.1:{port}")
    own.port = int((own.run / "port").read_text())
    assert own.port == port
    with own.api() as api:
        assert api.get("/health").ok()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", old))


def test_no_port_is_told_when_the_new_one_has_none(own):
    old = own.port
    replace(own, "--no-tcp")
    assert not (own.run / "port").exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", old))
    connection = unix(own)()
    connection.request("GET", "/sandbox/health")
    assert connection.getresponse().status == 200
    connection.close()


def test_detached_it_returns_when_it_serves_or_cannot(own):
    """As a unit's ExecReload runs it."""
    wrong = subprocess.run([CAY, "serve", "--replace", "--detach", "--data", str(own.run)],
                           env=own.environment(), capture_output=True, timeout=60)
    assert wrong.returncode == 1 and b"keeps its state elsewhere" in wrong.stderr
    assert own.running()
    with open(own.log_path, "ab") as log:
        done = subprocess.run([CAY, "serve", "--replace", "--detach"], env=own.environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, timeout=60)
    assert done.returncode == 0 and done.stdout == b"", "who reads its output is not held up until the daemon ends"
    assert own.process.wait(30) == 0
    replace_detached(own)


def replace_detached(daemon):
    """By one whose end we can wait for, since nobody here is the parent of the detached one."""
    with successor(daemon) as (process, ready):
        assert os.read(ready, 100) == b"ready\n"
        daemon.process = process


def test_systemd_is_told_which_process_is_the_main_one(daemon_of, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(tmp_path / "notify"))
        s.settimeout(30)
        own = daemon_of(env={"NOTIFY_SOCKET": str(tmp_path / "notify")}).start()
        assert s.recv(1000) == b"MAINPID=%d\nREADY=1" % own.pid
        replace(own)
        assert s.recv(1000) == b"MAINPID=%d\nREADY=1" % own.pid  # and not that the old one stops
        own.stop()
        assert s.recv(1000) == b"STOPPING=1"
