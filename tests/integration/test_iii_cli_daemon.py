"""The commands of iii with a daemon of ours: whole ways, and what its file of settings does."""

import contextlib
import json
import os
import socket
import subprocess
import time

import pytest

from cay_harness import CAY, SLOW, wait_until
from cay_iii import websockets  # noqa: F401 (a fixture)
from cay_iii_engine import Engine
from cay_order import longer_and_longer
from test_iii_worker import Worker

pytestmark = pytest.mark.core


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Iii:
    """`cay sandbox` and `cay trigger` for one daemon."""

    def __init__(self, port):
        self.port = port

    @property
    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_"))}
        return {**env, "CAY_WS_PORT": str(self.port)}

    def __call__(self, *words, status=0, input=None, errors=True):
        done = subprocess.run([CAY, *words], env=self.environment, capture_output=True, timeout=60, input=input)
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return done.stdout, done.stderr.decode() if errors else done.stderr

    @contextlib.contextmanager
    def start(self, *words):
        """One that runs; its output is read by the test."""
        with subprocess.Popen([CAY, *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def create(self, *words):
        return self("sandbox", "create", *words)[0].decode().strip()


@pytest.fixture
def iii(daemon_of):
    port = free_port()
    daemon_of(env={"CAY_WS_PORT": port}).start()
    return Iii(port)


def test_a_sandbox_from_its_first_word_to_its_last(iii, tmp_path):
    sandbox = iii.create("host", "--name", "mine", "-e", "A=1")
    assert iii("sandbox", "exec", sandbox, "-e", "B=2", "--", "sh", "-c", "echo $A$B; exit 4", status=4) == (b"12\n", "")
    assert iii("sandbox", "exec", "-i", sandbox, "--", "cat", input=b"piped")[0] == b"piped"
    assert iii("sandbox", "exec", sandbox, "--", "no-such-program", status=127)[0] == b""
    assert "[S200]" in iii("sandbox", "exec", sandbox, "--timeout", "200ms", "--", "sleep", "60", status=124)[1]
    assert iii("sandbox", "list")[0].decode().splitlines()[1].split() == [sandbox, "host", "0", "mine"]
    assert iii("sandbox", "stop", sandbox)[0].decode() == f"stopped {sandbox}\n"
    assert iii("sandbox", "stop", sandbox, status=1)[1].startswith("error: [S002] ")


def in_flight(iii):
    return sum(s["exec_in_flight"] for s in json.loads(iii("trigger", "sandbox::list")[0])["sandboxes"])


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_is_shown_while_the_command_runs(iii, stream):
    sandbox = iii.create("host")
    to = "" if stream == "stdout" else " >&2"
    with iii.start("sandbox", "exec", sandbox, "--", "sh", "-c",
                   f"(echo first; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo second){to}; exit 6") as process:
        assert getattr(process, stream).readline() == b"first\n"
        assert process.poll() is None
        iii("sandbox", "exec", sandbox, "--", "touch", "/tmp/go")
        out, err = process.communicate(timeout=60)
    assert (process.returncode, {"stdout": out, "stderr": err}[stream], out + err) == (6, b"second\n", b"second\n")


def test_run_shows_output_while_the_command_runs(iii):
    with iii.start("sandbox", "run", "host", "--", "sh", "-c", "echo first; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo second") as process:
        assert process.stdout.readline() == b"first\n"
        row, = json.loads(iii("trigger", "sandbox::list")[0])["sandboxes"]
        iii("sandbox", "exec", row["sandbox_id"], "--", "touch", "/tmp/go")
        assert (process.communicate(timeout=60), process.returncode) == ((b"second\n", b""), 0)
    assert json.loads(iii("trigger", "sandbox::list")[0]) == {"sandboxes": []}


def until_timeout(iii, sandbox, command):
    """Runs a command that comes to its end and then sleeps until its timeout. Returns that timeout, and what was shown."""
    for timeout in longer_and_longer():
        out, err = iii("sandbox", "exec", sandbox, "--timeout", f"{timeout * 1000:.0f}ms", "--", "sh", "-c",
                       f"{command}; touch /tmp/ended-{timeout}; exec sleep 1000", status=124)
        if iii("sandbox", "exec", sandbox, "--", "sh", "-c", f"[ -e /tmp/ended-{timeout} ] && echo yes; true")[0] == b"yes\n":
            return timeout, out, err


def test_what_came_before_a_timeout_is_shown(iii):
    sandbox = iii.create("host")
    timeout, out, err = until_timeout(iii, sandbox, "echo out; echo err >&2")
    assert (out, err) == (b"out\n", f"err\nerror: [S200] exec timed out after {timeout * 1000:.0f}ms\n")


def test_output_is_every_byte_and_more_than_an_answer_holds(iii, tmp_path):
    sandbox, data = iii.create("host"), os.urandom(3_000_000)
    (tmp_path / "in").write_bytes(data)
    iii("sandbox", "upload", sandbox, str(tmp_path / "in"), "/tmp/data")
    assert iii("sandbox", "exec", sandbox, "--", "cat", "/tmp/data") == (data, "")
    assert iii("sandbox", "exec", sandbox, "--", "sh", "-c", "cat /tmp/data | tee /dev/stderr | wc -c", errors=False) == (b"3000000\n", data)
    assert json.loads(iii("sandbox", "exec", "--json", sandbox, "--", "cat", "/tmp/data")[0])["truncated"] is True


def test_a_reader_that_goes_ends_the_command(iii):
    sandbox = iii.create("host")
    with iii.start("sandbox", "exec", sandbox, "--", "yes") as process:
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(60) == 141
    wait_until(lambda: in_flight(iii) == 0, 60, "the end of the command")
    with iii.start("sandbox", "run", "host", "--", "yes") as process:
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(60) == 141
    assert [s["sandbox_id"] for s in json.loads(iii("trigger", "sandbox::list")[0])["sandboxes"]] == [sandbox]


def test_output_comes_through_another_engine_too(websockets):  # noqa: F811
    """Its channels are the engine's: the daemon is a worker there, and writes to them."""
    with Engine() as engine:
        worker = Worker(engine)
        try:
            worker.start()
            engine.registered()
            iii = Iii(engine.port)
            sandbox = iii.create("host")
            with iii.start("sandbox", "exec", sandbox, "--", "sh", "-c",
                           "echo first; while [ ! -e /tmp/go ]; do sleep 0.02; done; head -c 500000 /dev/zero; echo err >&2; exit 6") as process:
                assert process.stdout.readline() == b"first\n"
                iii("sandbox", "exec", sandbox, "--", "touch", "/tmp/go")
                assert process.communicate(timeout=60) == (bytes(500_000), b"err\n") and process.returncode == 6
            assert until_timeout(iii, sandbox, "echo out")[1] == b"out\n"
        finally:
            worker.destroy()


def test_a_command_has_the_time_of_the_daemon_when_it_asks_for_none(daemon_of):
    port = free_port()
    daemon_of(env={"CAY_WS_PORT": port, "CAY_III_EXEC_TIMEOUT": 1}).start()
    iii = Iii(port)
    sandbox = iii.create("host")
    with iii.start("sandbox", "exec", sandbox, "--timeout", "60s", "--", "sh", "-c",
                   "echo first; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo last") as longer:
        assert longer.stdout.readline() == b"first\n"
        assert iii("sandbox", "exec", sandbox, "--", "sleep", "1000", status=124) == \
            (b"", "error: [S200] exec timed out after 1000ms, which is the limit (CAY_III_EXEC_TIMEOUT; timeout_ms sets another)\n")
        # The command that asked for more time began earlier and still runs.
        iii("sandbox", "exec", sandbox, "--timeout", "60s", "--", "touch", "/tmp/go")
        assert longer.communicate(timeout=60 * SLOW) == (b"last\n", b"") and longer.returncode == 0
    script = json.dumps({"image": "host", "lang": "sh", "code": "sleep 1000"})
    assert "exec timed out after 1000ms" in iii("trigger", "sandbox::run", "--json", script, status=1)[1]


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_files_go_in_and_come_out_as_they_are(iii, tmp_path, size):
    data, sandbox = os.urandom(size), iii.create("host")
    (tmp_path / "in").write_bytes(data)
    assert iii("sandbox", "upload", sandbox, str(tmp_path / "in"), "/tmp/a/b", "--parents", "--mode", "0640")[0] == f"{size} bytes\n".encode()
    assert iii("sandbox", "exec", sandbox, "--", "stat", "-c", "%a %s", "/tmp/a/b")[0].decode() == f"640 {size}\n"
    assert iii("sandbox", "download", sandbox, "/tmp/a/b", str(tmp_path / "out"))[0] == f"{size} bytes\n".encode()
    assert (tmp_path / "out").read_bytes() == data == iii("sandbox", "download", sandbox, "/tmp/a/b", "-")[0]
    assert "[S211]" in iii("sandbox", "upload", sandbox, str(tmp_path / "in"), "/none/at/all", status=1)[1]
    assert "[S211]" in iii("sandbox", "download", sandbox, "/none", str(tmp_path / "none"), status=1)[1]
    assert not (tmp_path / "none").exists()


def test_an_upload_that_is_interrupted_leaves_the_file_as_it_was(iii, tmp_path):
    sandbox = iii.create("host")
    (tmp_path / "old").write_bytes(b"old")
    iii("sandbox", "upload", sandbox, str(tmp_path / "old"), "/tmp/f")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_"))}
    for _ in range(10):
        with subprocess.Popen([CAY, "sandbox", "upload", sandbox, "-", "/tmp/f"], env={**env, "CAY_WS_PORT": str(iii.port)},
                              stdin=subprocess.PIPE, bufsize=0) as process:
            process.stdin.write(bytes(60000))
            time.sleep(0.05)
            process.terminate()
            assert process.wait(60) == -15
        time.sleep(0.05)
        assert iii("sandbox", "exec", sandbox, "--", "cat", "/tmp/f")[0] == b"old"


def test_run_leaves_nothing(iii):
    assert iii("sandbox", "run", "host", "--", "sh", "-c", "echo out; echo err >&2; exit 5", status=5) == (b"out\n", "err\n")
    assert iii("sandbox", "list")[0].count(b"\n") == 1


def test_every_function_can_be_called_and_tells_what_it_takes(iii):
    made = json.loads(iii("trigger", "sandbox::create", "image=host", "memory_mb=128")[0])
    assert json.loads(iii("trigger", "sandbox::list")[0])["sandboxes"][0]["memory_mb"] == 128
    assert json.loads(iii("trigger", "sandbox::stop", "sandbox_id=" + made["sandbox_id"])[0])["stopped"] is True
    assert "sandbox_id  string, needed" in iii("trigger", "sandbox::exec", "--help")[0].decode()
    assert json.loads(iii("trigger", "none::such", status=1)[1])["code"] == "function_not_found"


def test_the_file_of_an_engine_says_which_images_and_how_many(daemon_of, tmp_path):
    port, file = free_port(), tmp_path / "config.yaml"
    file.write_text(f"""
workers:
  - name: iii-worker-manager
    config: {{port: {port}}}
  - name: of-mine
  - name: iii-sandbox
    config:
      image_allowlist: [python, capped]
      auto_install: false
      custom_images:
        capped: registry.example/capped:1
        hidden: registry.example/hidden:1
      per_image_caps:
        capped: {{max_cpus: 1}}
""")
    daemon = daemon_of(args=["--config", str(file)])
    daemon.extra.pop("CAY_WS_PORT", None)
    env = daemon.environment()
    env.pop("CAY_WS_PORT", None)
    daemon.start(env=env)
    iii = Iii(port)
    assert "unknown, and not started: of-mine" in daemon.log()
    for image in "hidden", "node", "host", "registry.example/capped:1":
        assert iii("sandbox", "create", image, status=1)[1].startswith("error: [S100] "), image
    assert iii("sandbox", "create", "capped", status=1)[1].startswith("error: [S400] ")
    assert iii("sandbox", "create", "python", status=1)[1].startswith("error: [S101] ")


def test_what_waits_ends_with_ctrl_c_and_takes_the_sandbox_along(iii):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CAY_", "III_"))}
    with subprocess.Popen([CAY, "sandbox", "run", "host", "--", "sleep", "60"], env={**env, "CAY_WS_PORT": str(iii.port)},
                          stdin=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while not any(s["exec_in_progress"] for s in json.loads(iii("trigger", "sandbox::list")[0])["sandboxes"]):
            assert time.monotonic() < until
        process.send_signal(2)
        assert process.wait(60) == 130
    assert json.loads(iii("trigger", "sandbox::list")[0]) == {"sandboxes": []}


# ---- iii-config.yaml ----

def seed_file(folder, port, host="127.0.0.1"):
    """As the public README prints it."""
    file = folder / "iii-config.yaml"
    file.write_text(f"""modules:
  - type: StateModule
    config:
      adapter: !FileBased
        path: ./data/state_store.db
  - type: RestApiModule
    config:
      port: {port}
      host: "{host}"
  - type: QueueModule
    config:
      adapter: !Builtin {{}}
  - type: CronModule
    config:
      adapter: !KvCron {{}}
""")
    return file


def without_rest(daemon):
    """Neither port nor host of the REST API are set."""
    return {k: v for k, v in daemon.environment().items() if k not in ("CAY_REST_PORT", "CAY_REST_HOST")}


def test_the_port_of_the_rest_module_is_served(daemon_of, tmp_path):
    port = free_port()
    daemon = daemon_of(args=["--config", str(seed_file(tmp_path, port))])
    daemon.start(env=without_rest(daemon))
    assert daemon.port == port
    with daemon.api() as api:
        api.get("/health").ok()
    log = daemon.log()
    assert "iii-config.yaml:4: the file ./data/state_store.db is not used: cay keeps its state" in log
    assert "not needed for sandboxes: QueueModule, CronModule." in log


def test_as_iii_it_starts_with_the_file(daemon_of, tmp_path):
    port = free_port()
    file = seed_file(tmp_path, port)
    (tmp_path / "iii").symlink_to(CAY)
    daemon = daemon_of()
    ready, write = os.pipe()
    with open(daemon.log_path, "ab") as log, os.fdopen(ready) as said:
        daemon.process = subprocess.Popen([tmp_path / "iii", "-c", file, "--ready-fd", str(write)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          env=without_rest(daemon), pass_fds=[write])
        os.close(write)
        assert "ready" in said.readline(), daemon.log()
    daemon.port = port
    with daemon.api() as api:
        api.get("/health").ok()


def test_a_file_does_not_open_the_daemon_to_other_machines(daemon_of, tmp_path):
    daemon = daemon_of(args=["--config", str(seed_file(tmp_path, 0, host="0.0.0.0"))])
    status, said = daemon.refused(env=without_rest(daemon))
    assert status != 0 and "iii-config.yaml:9: host: 0.0.0.0 can be reached from other machines: set CAY_AUTH_TOKEN" in said
    env = {**without_rest(daemon), "CAY_REST_HOST": "127.0.0.1"}
    daemon.start(env=env)


def test_a_bad_port_is_told_with_its_line(daemon_of, tmp_path):
    daemon = daemon_of(args=["--config", str(seed_file(tmp_path, 70000))])
    status, said = daemon.refused(env=without_rest(daemon))
    assert status == 2 and "iii-config.yaml:8: port must be a whole number from 0 to 65535" in said
