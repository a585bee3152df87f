"""The surface of microsandbox on cay: each name and each example of its documents, with `from microsandbox import …`, against a
real daemon."""

import asyncio
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from zipfile import ZipFile

import pytest

import cay_oci
import cay_sdk
from cay_harness import REPO, SLOW, Daemon, cay, wait_until
from cay_registry import Proxy
from cay_sdk import importable  # noqa: F401
from cay_world import needs_network

pytestmark = pytest.mark.full

HOME = REPO / "sdk" / "microsandbox"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """Of all tests here, with a folder that sandboxes may have."""
    folder = Path(os.path.realpath(tmp_path_factory.mktemp("bound")))
    os.chmod(folder, 0o755)
    made = Daemon("msb", env={"CAY_BIND_ALLOW": folder, "CAY_MAX_SANDBOXES": 50})
    made.bound = folder
    try:
        yield made.start()
    finally:
        made.destroy()
        Daemon.everyone.remove(made)


@pytest.fixture
def sdk(importable, daemon, monkeypatch):  # noqa: F811
    return cay_sdk.of(daemon, monkeypatch)


@pytest.fixture
def msb(sdk):
    import microsandbox

    return microsandbox


@pytest.fixture
def ids(daemon):
    """What sandboxes there are."""
    with daemon.api() as api:
        yield api.ids
        daemon.apis.remove(api)


def with_box(sdk, msb, use, *args, **how):
    """Runs `use(sandbox)` with one that is gone afterwards."""
    async def main():
        async with await msb.Sandbox.create("box", image="host", **how) as sb:
            return await use(sb, *args)

    return sdk.run(main)


# ---- the document ----


def tiny_python(folder):
    """A root with a real Python in it and little else, for an image of that name."""
    root = folder / "root"
    for name in ("usr/bin", "usr/lib/python3.11", "tmp", "proc", "dev", "sys", "etc"):
        (root / name).mkdir(parents=True)
    program = os.path.realpath("/usr/bin/python3")
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in [program, *re.findall(r"(/\S+) \(", listed)]:
        to = root / os.path.realpath(path).lstrip("/") if path != program else root / "usr/bin/python"
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(Path(path).read_bytes())
        to.chmod(0o755)
        if path != program and not (root / path.lstrip("/")).exists():
            (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (root / path.lstrip("/")).symlink_to(os.path.realpath(path))
    library = Path(f"/usr/lib/{os.path.basename(program)}")
    subprocess.run(["cp", "-r", library / "encodings", *library.glob("*.py"), library / "collections", library / "importlib",
                    root / "usr/lib" / library.name], check=True)
    return root


FIRST = """
from microsandbox import Sandbox, Volume, Secret, NetworkPolicy
sb = await Sandbox.create(
    "my-sandbox",
    image="python",
    memory=512,
    cpus=2,
    env={"PYTHONDONTWRITEBYTECODE": "1"},
    workdir="/app",
    volumes={"/app/src": Volume.bind("./src", readonly=True)},
    network=NetworkPolicy.public_only()
)
output = await sb.exec("python", ["-c", "print('Hello!')"])
print(output.stdout())
await sb.stop()
"""


@needs_network
def test_the_first_example_as_printed(importable, online_of, tmp_path, monkeypatch, capfd):  # noqa: F811
    source = Path(os.path.realpath(tmp_path)) / "src"
    source.mkdir()
    (source / "main.py").write_text("print('mounted')\n")
    daemon = online_of(env={"CAY_BIND_ALLOW": source}).start()
    assert cay(daemon, "image", "import", tiny_python(tmp_path), "python:3.12-slim").returncode == 0
    sdk = cay_sdk.of(daemon, monkeypatch)
    monkeypatch.chdir(source.parent)
    names = sdk.printed(FIRST)
    assert capfd.readouterr().out == "Hello!\n\n"

    async def after():
        import microsandbox

        handle = await microsandbox.Sandbox.get("my-sandbox")
        config = handle.config()
        assert (str(handle.status), config["memory"], config["cpu"], config["workdir"]) == ("stopped", 512, 2, "/app")
        assert config["env"] == {"PYTHONDONTWRITEBYTECODE": "1"}
        sb = await handle.start()
        assert (await sb.exec("python", ["/app/src/main.py"])).stdout_text == "mounted\n"
        assert not (await sb.exec("python", ["-c", "open('/app/src/x', 'w')"])).success
        with daemon.api() as api:
            assert api.get(f"/sandboxes/{sb.id}/network").ok()["network"]["default"] == "deny"
            assert api.get(f"/sandboxes/{sb.id}/network/explain?host=8.8.8.8&port=443").ok()["allowed"]
            assert not api.get(f"/sandboxes/{sb.id}/network/explain?host=10.0.0.1&port=443").ok()["allowed"]
            daemon.apis.remove(api)
        await sb.stop()
        await microsandbox.Sandbox.remove("my-sandbox")

    sdk.run(after)
    assert names["output"].success


STREAMING = """
import sys
from microsandbox import Sandbox, StdoutEvent, ExitedEvent
async with await Sandbox.create("tail", image="host") as sb:
    await sb.fs.mkdir("/var/log")
    await sb.fs.write("/var/log/app.log", b"one\\n")
    handle = await sb.exec_stream("tail", ["-f", "/var/log/app.log"])
    async for event in handle.events():
        match event:
            case StdoutEvent(data=data):
                sys.stdout.buffer.write(data)
                if data == b"one\\n":
                    await sb.fs.write("/tmp/more", b"two\\n")
                    await sb.shell("cat /tmp/more >> /var/log/app.log")
                else:
                    await handle.kill()
            case ExitedEvent(code=code):
                break
"""


@pytest.mark.skipif(sys.version_info < (3, 10), reason="this Python has no match")
def test_the_streaming_example_as_printed(sdk, monkeypatch):
    class Out:
        buffer = io.BytesIO()

    monkeypatch.setattr(sys, "stdout", Out)
    names = sdk.printed(STREAMING)
    assert Out.buffer.getvalue() == b"one\ntwo\n" and names["code"] == 137


# What the document and the contract list, by class.
SURFACE = {
    "Sandbox": "create create_detached create_with_progress start get list list_with remove exec exec_stream shell shell_stream "
               "exec_default exec_default_stream attach attach_default attach_shell ssh fs name owns_lifecycle backend_kind metrics "
               "metrics_stream logs log_stream stop request_stop kill request_kill drain request_drain wait_until_stopped detach "
               "ping touch modify stop_and_wait wait remove_persisted __aenter__ __aexit__",
    "SandboxHandle": "name status config_json config created_at updated_at metrics ping touch modify logs log_stream start connect "
                     "stop kill request_stop request_kill request_drain wait_until_stopped remove refresh snapshot",
    "ExecOutput": "exit_code success stdout stderr stdout_text stderr_text stdout_bytes stderr_bytes",
    "ExecHandle": "id take_stdin recv wait collect signal kill resize events __aiter__ __anext__",
    "ExecSink": "write close",
    "SandboxFsOps": "read read_text read_stream write write_stream list mkdir remove remove_dir copy rename stat exists "
                    "copy_from_host copy_to_host",
    "Volume": "create get get_default list remove bind named tmpfs disk name path",
    "VolumeHandle": "name is_default kind quota_mib used_bytes capacity_bytes disk_format disk_fstype labels created_at fs remove",
    "VolumeFs": "read read_text write list mkdir remove_file remove_dir copy rename stat exists",
    "Network": "none public_only allow_all from_profiles",
    "NetworkPolicy": "none public_only allow_all from_profiles",
    "Rule": "allow deny allow_dns deny_dns",
    "Destination": "any ip cidr domain domain_suffix group",
    "PortBinding": "tcp udp",
    "Secret": "env",
    "ViolationPolicy": "block block_and_log block_and_terminate passthrough",
    "Patch": "text file mkdir append copy_file copy_dir symlink remove",
    "Image": "oci bind disk get list inspect remove prune load save",
    "RootDisk": "managed tmpfs disk flat",
    "Snapshot": "create open get list list_dir remove reindex save load verify",
    "SandboxSshOps": "open_client prepare_server",
    "SshClient": "exec attach sftp close",
    "SftpClient": "read write mkdir remove_file remove_dir rename real_path read_link symlink close",
    "AgentClient": "connect_sandbox connect socket_path request stream send ready_bytes",
    "PullSession": "progress result __aenter__ __aexit__",
    "Stdin": "null pipe bytes",
    "Rlimit": "nofile cpu nproc fsize memlock stack as_",
    "Size": "mib gib",
    "RegistryAuth": "basic",
}
NAMES = """is_installed install version all_sandbox_metrics set_libkrunfw_path set_default_backend backend_scope default_backend_info
    default_backend_kind MiB GiB StartedEvent StdoutEvent StderrEvent ExitedEvent ExecEvent ExecEventType PullEvent PullEventType
    Resolving Resolved LayerDownloadProgress LayerDownloadComplete LayerExtractStarted LayerExtractProgress LayerExtractComplete
    LayerIndexStarted LayerIndexComplete PullComplete ExecOptions RlimitResource SecretInjection ViolationAction DnsConfig TlsConfig
    TokenBucket RateLimiter NetworkRateLimiter NetworkProfile DestGroup Direction Protocol Action SandboxPage SandboxStatus
    SandboxMetrics LogEntry SandboxStopResult SandboxPingResult SandboxTouchResult FsEntry FsMetadata FsEntryKind FsReadStream
    FsWriteSink MountConfig NamedVolumeMode VolumeKind StatVirtualization HostPermissions DiskImageFormat PullPolicy LogLevel
    SecurityProfile DeploymentProfile CpuPlacement ModificationPolicy SandboxModificationPlan SecretModifySpec MicrosandboxError"""


def test_classes_have_all_of_their_names(msb):
    missing = [f"{name}.{word}" for name, words in SURFACE.items() for word in words.split()
               if not hasattr(getattr(msb, name), word)]
    assert not missing


def test_the_package_has_all_names(msb):
    assert not [name for name in NAMES.split() if not hasattr(msb, name)]
    assert msb.Sandbox is __import__("cay").Sandbox and msb.MicrosandboxError is __import__("cay").CayError


def test_what_type_checkers_see_is_what_there_is(msb):
    stub = Path(msb.__file__).with_suffix(".pyi").read_text()
    assert sorted(re.findall(r" as (\w+)\n", stub)) == sorted(set(msb.__all__) - {"MicrosandboxError", "__version__"})


def test_modules_that_others_import_from(msb):
    import microsandbox.errors
    import microsandbox.events
    import microsandbox.types

    assert microsandbox.errors.MicrosandboxError is msb.MicrosandboxError
    assert microsandbox.types.NetworkPolicy is msb.NetworkPolicy and microsandbox.types.PullPolicy is msb.PullPolicy
    assert microsandbox.events.StdoutEvent is msb.StdoutEvent


def test_types_style_and_wheel(tmp_path):
    program, _ = cay_sdk.python()
    for argv in (["mypy", "--cache-dir", REPO / "build-check" / "mypy"], ["ruff", "check", "--no-cache", "."],
                 ["ruff", "format", "--no-cache", "--check", "."],
                 ["pip", "--python", program, "wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation", "-w", tmp_path, HOME]):
        python = sys.executable if argv[0] == "pip" else program  # the venv has no pip
        done = subprocess.run([python, "-m", *argv], cwd=HOME, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("cay_microsandbox-*.whl")
    names = ZipFile(wheel).namelist()
    assert {"microsandbox/__init__.py", "microsandbox/__init__.pyi", "microsandbox/py.typed"} <= set(names)
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]


def test_what_its_page_shows_runs(sdk, ids):
    (shown,) = re.findall(r"```python\n(.*?)```", (HOME / "README.md").read_text(), re.S)
    process = sdk.script(shown)
    assert process.communicate()[0] == "hello\n\n" and process.returncode == 0 and ids() == []


# ---- lifecycle ----


def test_create_boots_with_what_it_is_given(sdk, msb):
    async def use(sb):
        out = await sb.exec("echo $A in $(pwd) as $(id -un); nproc")
        assert out.stdout == "1 in /tmp as root\n2\n"
        assert (await sb.exec("greet", ["you"])).stdout_text == "hello you\n"
        handle = await msb.Sandbox.get("box")
        assert handle.config()["memory"] == 256 and sb.labels == {"team": "a"}
        assert await sb.name == "box" == sb.name == await sb.name()
        assert await sb.owns_lifecycle and sb.backend_kind is msb.BackendKind.LOCAL

    with_box(sdk, msb, use, memory=msb.Size.mib(256), cpus=2, env={"A": "1"}, workdir="/tmp", labels={"team": "a"},
             scripts={"greet": "#!/bin/sh\necho hello $1\n"}, security=msb.SecurityProfile.RESTRICTED, max_duration=600)


def test_a_user_and_a_shell_hold_for_all_commands(sdk, msb):
    async def use(sb):
        assert (await sb.exec("id", ["-un"])).stdout_text == "nobody\n"
        assert (await sb.shell("echo $0")).stdout_text == "/bin/bash\n"
        again = await (await msb.Sandbox.get("box")).connect()
        assert (await again.exec("id", ["-un"])).stdout_text == "nobody\n"
        assert (await again.exec("id", ["-un"], user="root")).stdout_text == "root\n"
        assert sb.labels == {}

    with_box(sdk, msb, use, user="nobody", shell="/bin/bash")


def test_names_are_taken_once_unless_replaced(sdk, msb, ids):
    async def use(sb):
        with pytest.raises(msb.SandboxAlreadyExistsError):
            await msb.Sandbox.create("box", image="host")
        other = await msb.Sandbox.create("box", image="host", replace=True)
        assert other.id != sb.id and ids() == [other.id]
        await other.destroy()

    with_box(sdk, msb, use)


def test_lists_are_pages_the_newest_first(sdk, msb):
    async def main():
        boxes = [await msb.Sandbox.create(f"p{i}", image="host", labels={"n": str(i % 2)}) for i in range(3)]
        page = await msb.Sandbox.list()
        assert [handle.name for handle in page.sandboxes] == ["p2", "p1", "p0"] == [h.name for h in page]
        first = await msb.Sandbox.list_with(limit=2)
        rest = await msb.Sandbox.list_with(limit=2, cursor=first.next_cursor)
        assert (len(first), [h.name for h in rest], rest.next_cursor) == (2, ["p0"], None)
        assert [h.name for h in await msb.Sandbox.list_with(labels={"n": "0"})] == ["p2", "p0"]
        for box in boxes:
            await box.destroy()

    sdk.run(main)


def test_stopped_ones_are_started_again_or_removed(sdk, msb):
    async def main():
        sb = await msb.Sandbox.create("kept", image="host")
        await sb.fs.write("/root/note", b"kept")
        with pytest.raises(msb.SandboxStillRunningError):
            await msb.Sandbox.remove("kept")
        await sb.stop()
        handle = await msb.Sandbox.get("kept")
        assert handle.status is msb.SandboxStatus.STOPPED and handle.created_at <= time.time()
        with pytest.raises(msb.SandboxNotRunningError):
            await handle.connect()
        again = await msb.Sandbox.start("kept")
        assert await again.fs.read("/root/note") == b"kept"
        await again.kill()
        assert (await handle.refresh()).status is msb.SandboxStatus.STOPPED
        await handle.remove()
        with pytest.raises(msb.SandboxNotFoundError):
            await msb.Sandbox.get("kept")

    sdk.run(main)


def test_an_ephemeral_one_is_gone_when_it_stops(sdk, msb, ids):
    async def main():
        sb = await msb.Sandbox.create("short", image="host", ephemeral=True)
        await sb.stop()
        assert ids() == []

    sdk.run(main)


def test_drain_lets_commands_end_and_no_new_ones_begin(sdk, msb):
    async def use(sb):
        handle = await sb.exec_stream("sh", ["-c", "echo on; read x; echo $x"], stdin=msb.Stdin.pipe())
        while not isinstance(await handle.recv(), msb.StdoutEvent):
            pass
        await sb.request_drain()
        assert (await msb.Sandbox.get("box")).status is msb.SandboxStatus.DRAINING
        with pytest.raises(msb.SandboxNotRunningError):
            await sb.exec("true")
        stdin = handle.take_stdin()
        await stdin.write(b"said\n")
        assert (await handle.collect()).stdout_bytes == b"said\n"
        end = await sb.wait_until_stopped()
        assert (end.name, end.status) == ("box", msb.SandboxStatus.STOPPED) and end.observed_at <= time.time()

    with_box(sdk, msb, use)


def test_detach_gives_it_up(sdk, msb):
    async def main():
        sb = await msb.Sandbox.create("free", image="host")
        await sb.detach()
        with pytest.raises(RuntimeError, match="consumed"):
            await sb.exec("true")
        handle = await msb.Sandbox.get("free")
        assert "idleTimeout" not in handle.config()
        await handle.kill()
        await handle.remove()

    sdk.run(main)


def test_one_that_is_started_to_stay_needs_no_signs_of_life(sdk, msb):
    from cay import create_sandbox

    async def main():
        await (await msb.Sandbox.create("stays", image="host")).stop()
        sb = await msb.Sandbox.start("stays", detached=True)
        assert not sb.config().get("idleTimeout") and not sb.owns_lifecycle
        await sb.destroy()
        other = await create_sandbox(name="stays", idle_timeout=600)
        await other.stop()
        assert (await msb.Sandbox.start("stays", detached=True)).config()["idleTimeout"] == 600
        await other.destroy()

    sdk.run(main)


IDLES = """
import asyncio
import cay._lifeline
cay._lifeline.SIGN_SECONDS = 0.2
from microsandbox import Sandbox

async def main():
    async with await Sandbox.create("idle", image="host", idle_timeout=1) as sb:
        print(bool(sb.owns_lifecycle), (await asyncio.wait_for(sb.wait_until_stopped(), LIMIT)).status)
        sb = await Sandbox.start("idle")
        print(bool(sb.owns_lifecycle), (await asyncio.wait_for(sb.wait_until_stopped(), LIMIT)).status)
        print((await Sandbox.start("idle", detached=True)).config()["idleTimeout"])

asyncio.run(main())
""".replace("LIMIT", str(60 * SLOW))


def test_an_idle_time_that_was_asked_for_is_one(sdk):
    with sdk.script(IDLES) as process:
        assert process.communicate(timeout=180 * SLOW)[0] == "True stopped\nTrue stopped\n1\n"


MAKES = """
import asyncio, os, signal, sys
import cay._lifeline
cay._lifeline.SIGN_SECONDS = 0.1
from microsandbox import Sandbox

async def main():
    make = Sandbox.create_detached if "detached" in sys.argv else Sandbox.create
    await make("made", image="host")
    print("made", flush=True)
    if "killed" in sys.argv:
        await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("how, status", [("ends", "stopped"), ("killed", "stopped"), ("detached", "running")])
def test_what_becomes_of_it_when_the_process_ends(sdk, msb, how, status):
    async def end():
        handle = await msb.Sandbox.get("made")
        found = str(handle.status)
        if found == "running":
            await handle.kill()
        await handle.remove()
        return found

    process = sdk.script(MAKES, how)
    try:
        if how == "killed":
            assert process.stdout.readline() == "made\n"
            with sdk.daemon.api() as api:
                (id,) = (one["id"] for one in api.get("/sandboxes").ok()["items"] if one["name"] == "made")
                for _ in range(2):  # each sign of life begins the idle time anew
                    idle_at = api.sandbox(id)["idleAt"]
                    wait_until(lambda: api.sandbox(id)["idleAt"] > idle_at, what="a sign of life")
                with process.stdout:
                    process.kill()
                    process.wait()
                # Without signs of life the sandbox is stopped when its idle time is over, which is shortened from 60 s.
                api.call("PATCH", f"/sandboxes/{id}", {"idleTimeout": 1}).ok()
                wait_until(lambda: api.sandbox(id)["status"] == "stopped", what="the end of the idle time")
            sdk.daemon.apis.remove(api)
        else:
            assert process.communicate()[0] == "made\n" and process.returncode == 0
        assert sdk.run(end) == status
    finally:
        process.kill()
        process.wait()


def test_the_context_removes_it_whatever_happens(sdk, msb, ids):
    async def main():
        with pytest.raises(KeyError):
            async with await msb.Sandbox.create("c", image="host"):
                raise KeyError
        async with msb.Sandbox.create("c", image="host"):
            assert len(ids()) == 1

    sdk.run(main)
    assert ids() == []


def test_modify_changes_it_while_it_runs(sdk, msb):
    async def use(sb):
        plan = await sb.modify(memory=256, cpus=1, env={"B": "2"}, env_rm=["A"], labels={"x": "y"}, dry_run=True)
        assert not plan["applied"] and {c["field"] for c in plan["changes"]} == {"memory", "cpus", "env.B", "env.A", "labels.x"}
        plan = await sb.modify(memory=256, cpus=1, env={"B": "2"}, env_rm=["A"], labels={"x": "y"})
        assert plan["applied"] and {s["state"] for s in plan["resize_status"]} == {msb.ResourceConvergenceState.APPLIED}
        assert (await sb.exec("echo [$A] [$B]")).stdout == "[] [2]\n" and (await msb.Sandbox.get("box")).config()["cpu"] == 1
        assert (await sb.metrics()).memory_limit_bytes == 256 << 20 and sb.labels == {"x": "y"}
        plan = await sb.modify(memory=1024)
        assert not plan["applied"] and plan["conflicts"][0]["field"] == "memory"
        with pytest.raises(msb.UnsupportedError):
            await sb.modify(secrets_rm=["KEY"])

    with_box(sdk, msb, use, memory=128, max_memory=512, cpus=2, env={"A": "1"})


def test_ping_touch_and_metrics(sdk, msb):
    async def use(sb):
        assert (await sb.ping()).latency_ms > 0
        first, second = await sb.touch(), await sb.touch()
        assert first.name == "box" and 0 < first.activity_seq <= second.activity_seq
        used = await sb.metrics()
        await sb.exec("dd if=/dev/zero of=/root/x bs=1M count=4 conv=fsync")
        after = await sb.metrics()
        assert after.disk_write_bytes >= 4 << 20 and after.vcpu_time_ns > used.vcpu_time_ns > 0 and after.upper_used_bytes
        assert used.memory_limit_bytes == 512 << 20 and used.uptime_ms >= 0 and used.pids >= 1
        for stream in (await sb.metrics_stream(0.2), sb.metrics_stream(0.2)):
            async for sample in stream:
                assert sample.sandbox_id == sb.id
                break
        assert list(await msb.all_sandbox_metrics()) == ["box"]

    with_box(sdk, msb, use)


def test_logs_have_what_commands_put_out(sdk, msb):
    async def use(sb):
        await sb.exec("echo one; echo two >&2")
        await sb.exec("echo three", tty=True)
        entries = await sb.logs()
        assert {(e.text(), str(e.source)) for e in entries} == {("one\n", "stdout"), ("two\n", "stderr"), ("three\r\n", "output")}
        assert [e.text() for e in await sb.logs(sources=[msb.LogReadSource.STDERR])] == ["two\n"]
        assert [e.text() for e in await sb.logs(tail=1)] == ["three\r\n"]
        assert "sandbox.created\n" in [e.text() for e in await sb.logs(sources=[msb.LogReadSource.SYSTEM])]
        after = [e async for e in await sb.log_stream(from_cursor=entries[-2].cursor)]
        assert [e.text() for e in after] == ["three\r\n"]

        async def follow():
            async for entry in await sb.log_stream(since_ms=entries[-1].timestamp_ms + 1, follow=True):
                return entry.text()

        following = asyncio.ensure_future(follow())
        await sb.exec("echo four")
        assert await following == "four\n"

    with_box(sdk, msb, use)


# ---- commands ----


def test_exec_takes_all_that_a_command_can_have(sdk, msb):
    async def use(sb):
        out = await sb.exec("sh", ["-c", "pwd; echo $X; id -u; ulimit -n; cat"], cwd="/usr", env={"X": "y"}, user="65534",
                            stdin=b"in\xff", rlimits=[msb.Rlimit.nofile(64)], timeout=60)
        assert out.stdout_bytes == b"/usr\ny\n65534\n64\nin\xff" and out.success
        with pytest.raises(UnicodeDecodeError):
            out.stdout_text
        assert out.stdout.endswith("in\ufffd") and out.stdout == out.stdout()
        same = {"args": ["-c", "pwd; cat"], "cwd": "/usr", "stdin_data": b"x"}
        assert (await sb.exec("sh", same)).stdout_text == "/usr\nx"
        with pytest.raises(TypeError, match="wat"):
            await sb.exec("sh", {"wat": 1})
        failed = await sb.exec("echo no >&2; exit 7")
        assert (failed.exit_code, failed.success, failed.stderr_text) == (7, False, "no\n")
        assert (await sb.exec("tty", [], tty=True)).stdout_text.startswith("/dev/pts/")
        big = b"0123456789abcdef" * (1 << 17)
        assert (await sb.exec("sha256sum", [], stdin=msb.Stdin.bytes(big))).exit_code == 0
        assert (await sb.exec("wc", ["-c"], stdin=big)).stdout_text == f"{len(big)}\n"

    with_box(sdk, msb, use)


def test_streams_can_be_written_to_signalled_and_resized(sdk, msb):
    async def use(sb):
        handle = await sb.exec_stream("cat", [], stdin=msb.Stdin.pipe())
        sink = handle.take_stdin()
        assert handle.take_stdin() is None and re.fullmatch("ex_[0-9a-f]{24}", handle.id)
        await sink.write(b"a")
        await sink.close()
        kinds = [event.event_type async for event in handle]
        assert (kinds[0], kinds[-1]) == (msb.ExecEventType.STARTED, msb.ExecEventType.EXITED)
        handle = await sb.exec_stream("cat", [], stdin_pipe=True)
        await handle.take_stdin().close()
        assert await handle.wait() == (0, True)
        handle = await sb.shell_stream("trap 'exit 9' USR1; echo on; while :; do sleep 0.01; done")
        while not isinstance(await handle.recv(), msb.StdoutEvent):
            pass
        await handle.signal(signal.SIGUSR1)
        assert await handle.wait() == (9, False)
        handle = await sb.exec_stream("sh", ["-c", "read x; stty size"], stdin_pipe=True, tty=True)
        await handle.resize(33, 99)
        await handle.take_stdin().write(b"\n")
        assert (await handle.collect()).stdout_text.endswith("33 99\r\n")

    with_box(sdk, msb, use)


def test_closing_a_stream_ends_the_command(sdk, msb):
    async def use(sb):
        async with await sb.exec_stream("sleep", ["271828"]) as handle:
            assert isinstance(await handle.recv(), msb.StartedEvent)
        async for chunk in sb.exec_stream("echo on; exec sleep 271828"):
            assert (chunk.type, chunk.data) == ("stdout", "on\n")
            break
        waiting = asyncio.ensure_future(sb.exec("sleep 314159"))
        while "314159" not in str(await sb.processes.list()):
            await asyncio.sleep(0.01)
        waiting.cancel()
        while "271828" in (listed := str(await sb.processes.list())) or "314159" in listed:
            await asyncio.sleep(0.01)

    with_box(sdk, msb, use)


def test_closing_a_stream_ends_the_command_also_when_the_daemon_was_restarted(importable, own, monkeypatch):  # noqa: F811
    sdk = cay_sdk.of(own, monkeypatch)
    import microsandbox as msb

    async def said(handle):
        while not isinstance(event := await handle.recv(), msb.StdoutEvent):
            pass
        return event.data

    async def main():
        async with await msb.Sandbox.create("box", image="host") as sb:
            handle = await sb.exec_stream("echo on; until [ -e /tmp/go ]; do sleep 0.01; done; echo back; exec sleep 141421")
            assert await said(handle) == b"on\n"
            own.kill9()
            own.start()
            await sb.fs.write("/tmp/go", b"")
            assert await said(handle) == b"back\n"
            await handle.aclose()
            await asyncio.wait_for(gone(sb, "141421"), 60)

    async def gone(sb, word):
        while word in str(await sb.processes.list()):
            await asyncio.sleep(0.01)

    sdk.run(main)


def test_the_image_s_own_command(sdk, msb):
    async def use(sb):
        assert (await sb.exec_default()).stdout_text == "a b\n"
        assert (await (await sb.exec_default_stream()).collect()).stdout_text == "a b\n"

    with_box(sdk, msb, use, entrypoint=["echo", "a"], cmd=["b"])


ATTACHES = """
import asyncio, sys
from microsandbox import Sandbox

async def main():
    sb = await (await Sandbox.get("box")).connect()
    code = await (sb.attach_shell() if len(sys.argv) == 1 else sb.attach("sh", ["-c", sys.argv[1]]))
    print("code", code, flush=True)

asyncio.run(main())
"""


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, sdk, text, *args):
        self.parent, child = pty.openpty()
        program, env = cay_sdk.python()
        self.process = subprocess.Popen([program, "-c", text, *args], stdin=child, stdout=child, stderr=child,
                                        start_new_session=True, env={**os.environ, **env, **sdk.env, "TERM": "xterm"})
        os.close(child)
        self.seen = b""

    def until(self, what):
        deadline = time.monotonic() + 60 * SLOW
        while what not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.parent], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.parent, 4096)
                except OSError:
                    break
        assert what in self.seen, self.seen
        self.seen = self.seen.partition(what)[2]

    def type(self, keys):
        os.write(self.parent, keys)

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.parent)


def test_attach_bridges_the_terminal(sdk, msb):
    async def use(sb):
        await asyncio.to_thread(by_hand)
        # Left alone it went on.
        assert "314159" in str(await sb.processes.list())

    def by_hand():
        terminal = Terminal(sdk, ATTACHES)
        try:
            terminal.until(b"# ")
            terminal.type(b"echo $((6*7)) $TERM\r")
            terminal.until(b"42 xterm")
            terminal.type(b"exit 5\r")
            terminal.until(b"code 5")
        finally:
            terminal.end()
        terminal = Terminal(sdk, ATTACHES, "echo on; exec sleep 314159")
        try:
            terminal.until(b"on\r\n")
            terminal.type(b"\x10\x11")
            terminal.until(b"code 0")
        finally:
            terminal.end()

    with_box(sdk, msb, use)


def test_attach_without_a_terminal_uses_pipes(sdk, msb):
    async def use(sb):
        process = sdk.script(ATTACHES, "cat; echo end >&2; exit 3", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = await asyncio.to_thread(process.communicate, "given")
        assert (out, err) == ("givencode 3\n", "end\n")

    with_box(sdk, msb, use)


def test_ssh_words(sdk, msb):
    async def use(sb):
        async with await sb.ssh().open_client(user="nobody") as client:
            done = await client.exec("id -un; exit 2")
            assert (done.status, done.success, done.stdout_text) == (2, False, "nobody\n")
            sftp = await client.sftp()
            await sftp.mkdir("/tmp/s")
            await sftp.write("/tmp/s/a", b"x")
            await sftp.symlink("a", "/tmp/s/l")
            assert (await sftp.read_link("/tmp/s/l"), await sftp.real_path("/tmp/s/../s/l")) == ("a", "/tmp/s/a")
            await sftp.rename("/tmp/s/a", "/tmp/s/b")
            assert await sftp.read("/tmp/s/b") == b"x"
            await sftp.remove_file("/tmp/s/b")
            await sftp.remove_dir("/tmp/s")
        with pytest.raises(msb.UnsupportedError):
            await sb.ssh().prepare_server()

    with_box(sdk, msb, use)


# ---- files ----


def test_files(sdk, msb, tmp_path):
    data = bytes(range(256)) * 4096

    async def use(sb):
        fs = sb.fs
        await fs.write("/srv/a/data", data)
        assert await fs.read("/srv/a/data") == data
        await fs.write("/srv/a/text", "é\n".encode(), mode=0o640)
        assert await fs.read_text("/srv/a/text") == "é\n"
        pieces = [piece async for piece in await fs.read_stream("/srv/a/data")]
        assert b"".join(pieces) == data and await (await fs.read_stream("/srv/a/data")).collect() == data
        async with await fs.write_stream("/srv/a/stream") as sink:
            for start in range(0, len(data), 100_000):
                await sink.write(data[start:start + 100_000])
        assert await fs.read("/srv/a/stream") == data
        with pytest.raises(KeyError):
            async with await fs.write_stream("/srv/a/text") as sink:
                await sink.write(b"half")
                raise KeyError
        assert await fs.read_text("/srv/a/text") == "é\n"
        await fs.symlink("text", "/srv/a/link")
        listed = {entry.path: entry for entry in await fs.list("/srv/a")}
        assert {path: str(entry.kind) for path, entry in listed.items()} == {
            "/srv/a/data": "file", "/srv/a/link": "symlink", "/srv/a/stream": "file", "/srv/a/text": "file"}
        assert listed["/srv/a/text"].mode == 0o640 and listed["/srv/a/data"].size == len(data)
        about = await fs.stat("/srv/a")
        assert about.kind is msb.FsEntryKind.DIRECTORY and not about.readonly and abs(about.modified - time.time()) < 60
        await fs.copy("/srv/a", "/srv/b")
        await fs.rename("/srv/b/data", "/srv/b/moved")
        assert await fs.exists("/srv/b/moved") and not await fs.exists("/srv/b/data") and not await fs.exists("/srv/b/text/x")
        await fs.remove("/srv/b/moved")
        await fs.remove_dir("/srv/b")
        assert not await fs.exists("/srv/b")
        # Names that are no UTF-8.
        await sb.exec("printf x > $(printf '/srv/odd\\377')")
        await fs.rename("/srv/a/text", "/srv/a/with space # % ?")
        odd = [entry.path for entry in await fs.list("/srv")][-1]
        assert os.fsencode(odd) == b"/srv/odd\xff" and await fs.read(odd) == b"x"
        # With this machine.
        (tmp_path / "up" / "in").mkdir(parents=True)
        (tmp_path / "up" / "in" / "f").write_bytes(data)
        (tmp_path / "up" / "run").write_text("#!/bin/sh\necho ran\n")
        (tmp_path / "up" / "run").chmod(0o755)
        (tmp_path / "up" / "loop").symlink_to("..")
        await fs.copy_from_host(tmp_path / "up", "/srv/up")
        assert (await sb.exec("/srv/up/run; readlink /srv/up/loop")).stdout == "ran\n..\n"
        assert await fs.read_link("/srv/up/loop") == ".." and await fs.real_path("/srv/up/loop") == "/srv"
        await fs.copy_to_host("/srv/up", tmp_path / "down")
        assert (tmp_path / "down" / "in" / "f").read_bytes() == data and (tmp_path / "down" / "run").stat().st_mode & 0o111
        # A link that is there already leads nowhere.
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "prepared").mkdir()
        (tmp_path / "prepared" / "in").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(msb.MicrosandboxError, match="link"):
            await fs.copy_to_host("/srv/up", tmp_path / "prepared")
        assert not list((tmp_path / "elsewhere").iterdir())

    with_box(sdk, msb, use)


# ---- volumes ----


def test_volumes_outlive_sandboxes(sdk, msb, daemon):
    async def main():
        (daemon.bound / "of-the-host").write_text("bound")
        volume = await msb.Volume.create("data", quota=16)
        with pytest.raises(msb.InvalidConfigError):
            await msb.Volume.create("data")
        mounts = {"/data": msb.Volume.named("data"), "/tmp/t": msb.Volume.tmpfs(size_mib=8), "/bound": msb.Volume.bind(daemon.bound, readonly=True)}
        async with await msb.Sandbox.create("v", image="host", volumes=mounts) as sb:
            out = await sb.exec("echo kept > /data/f; cat /data/f /bound/of-the-host; echo x > /bound/g")
            assert out.stdout == "kept\nbound" and "Read-only" in out.stderr
            assert "tmpfs" in (await sb.exec("df", ["-T", "/tmp/t"])).stdout
        handle = await msb.Volume.get("data")
        assert (handle.quota_mib, handle.capacity_bytes, handle.kind) == (16, 16 << 20, msb.VolumeKind.DIRECTORY)
        fs = handle.fs
        assert await fs.read_text("/f") == "kept\n"
        await fs.mkdir("/d")
        await fs.write("/d/g", b"g")
        await fs.copy("/d/g", "/h")
        await fs.rename("/h", "/i")
        assert [entry.path for entry in await fs.list("/d")] == ["/d/g"] and (await fs.stat("/i")).size == 1
        await fs.remove_file("/i")
        await fs.remove_dir("/d")
        assert not await fs.exists("/d") and not await fs.exists("/i") and volume.name == "data"
        assert [one.name for one in await msb.Volume.list()] == ["data"]
        for mode, there in ((msb.NamedVolumeMode.CREATE, True), (msb.NamedVolumeMode.EXISTING, False)):
            with pytest.raises((msb.InvalidConfigError, msb.VolumeNotFoundError)):
                await msb.Sandbox.create("w", image="host",
                                         volumes={"/v": msb.Volume.named("data" if there else "none", mode=mode)})
        made = {"/v": msb.Volume.named("more", mode=msb.NamedVolumeMode.ENSURE_EXISTS, size_mib=16)}
        async with await msb.Sandbox.create("w", image="host", volumes=made):
            pass
        await msb.Volume.remove("data")
        await (await msb.Volume.get("more")).remove()
        with pytest.raises(msb.VolumeNotFoundError):
            await msb.Volume.get("data")

    sdk.run(main)


# ---- networks ----


def test_policies_are_the_daemon_s(msb):
    rule, to = msb.Rule, msb.Destination
    policy = msb.NetworkPolicy(rules=(
        *rule.allow_dns(), rule.allow(destination=to.domain_suffix("example.com"), protocol=msb.Protocol.TCP, port=443),
        rule.deny(destination=to.cidr("10.0.0.0/8"), port="1-1024"), rule.allow(destination=to.group(msb.DestGroup.HOST)),
        rule.allow(direction=msb.Direction.INGRESS, destination=to.ip("192.0.2.1")), rule.deny(protocol=msb.Protocol.ICMPV4)))
    assert policy.to_wire() == {"default": "deny", "defaultIngress": "allow", "rules": [
        {"action": "allow", "direction": "egress", "destination": "dns"},
        {"action": "allow", "direction": "egress", "destination": "*.example.com", "protocol": "tcp", "port": "443"},
        {"action": "deny", "direction": "egress", "destination": "10.0.0.0/8", "port": "1-1024"},
        {"action": "allow", "direction": "egress", "destination": "host"},
        {"action": "allow", "direction": "ingress", "destination": "192.0.2.1"},
        {"action": "deny", "direction": "egress", "destination": "*", "protocol": "icmp"}]}
    network = msb.Network(policy=msb.NetworkPolicy.allow_all(), deny_domains=("a.example",), deny_domain_suffixes=("b.example",),
                          dns=msb.DnsConfig(nameservers=("192.0.2.53",), query_timeout_ms=100), max_connections=9,
                          rate_limiter=msb.NetworkRateLimiter(egress=msb.RateLimiter(msb.TokenBucket(1000, 100))))
    assert network.to_wire() == {
        "default": "allow", "defaultIngress": "allow", "profiles": ["public", "private"],
        "rules": [{"action": "deny", "direction": "egress", "destination": "a.example"},
                  {"action": "deny", "direction": "egress", "destination": "*.b.example"}],
        "dns": {"rebindProtection": True, "nameservers": ["192.0.2.53"], "queryTimeout": 100}, "maxConnections": 9,
        "rateLimit": {"egress": {"bytesPerSecond": 10000, "burst": 1000}}}
    with pytest.raises(TypeError):
        rule("allow")
    with pytest.raises(msb.UnsupportedError):
        msb.Network(tls=msb.TlsConfig()).to_wire()


@needs_network
def test_policies_hold(importable, world, online, net, monkeypatch):  # noqa: F811
    sdk = cay_sdk.of(online, monkeypatch)
    import microsandbox as msb

    def explained(id, host, port=443):
        return net.get(f"/sandboxes/{id}/network/explain?host={host}&port={port}").ok()["allowed"]

    async def main():
        seen = {}
        only = msb.NetworkPolicy(rules=(msb.Rule.allow(destination=msb.Destination.cidr("192.168.7.0/24")),))
        denied = msb.Network(policy=msb.NetworkPolicy.public_only(), deny_domains=("ads.example",))
        for name, network in (("none", msb.NetworkPolicy.none()), ("public", msb.NetworkPolicy.public_only()),
                              ("all", msb.Network.allow_all()), ("only", only), ("denied", denied),
                              ("private", msb.Network.from_profiles(msb.NetworkProfile.PRIVATE))):
            async with await msb.Sandbox.create(name, image="host", network=network) as sb:
                seen[name] = "".join("ny"[explained(sb.id, host)] for host in (
                    "8.8.8.8", "192.168.7.1", "169.254.169.254", "ads.example"))
        return seen

    seen = sdk.run(main)
    assert (seen["none"], seen["public"][:3], seen["all"][:3], seen["only"][:3], seen["private"][:3]) == (
        "nnnn", "ynn", "yyn", "nyn", "nyn")
    assert seen["denied"][3] == "n"


def test_ports_lead_in(sdk, msb):
    async def use(sb):
        (found,) = (await sb.ports.list()).ports
        assert found.container_port == 8000 and found.host_port not in (0, 8000)  # any that is free

    with_box(sdk, msb, use, ports=[msb.PortBinding.tcp(0, 8000)])


# ---- secrets, patches ----


def test_secrets_are_checked_and_refused_before_anything_is_made(sdk, msb, ids):
    secret = msb.Secret.env("API_KEY", value="s3cret", allow_hosts=["api.example.com"])
    assert secret.placeholder == "$MSB_API_KEY" and "s3cret" not in repr(secret)
    for wrong in ({"allow_hosts": []}, {"allow_hosts": ["a"], "placeholder": "a\nb"}, {"allow_hosts": ["a"], "placeholder": ""}):
        with pytest.raises(msb.InvalidConfigError):
            msb.Secret.env("KEY", value="v", **wrong)
    with pytest.raises(msb.InvalidConfigError):
        msb.Secret.env("A=B", value="v", allow_hosts=["a"])

    async def main():
        with pytest.raises(msb.UnsupportedError) as caught:
            await msb.Sandbox.create("s", image="host", secrets=[secret])
        assert caught.value.operation == "secrets" and caught.value.hint

    sdk.run(main)
    assert ids() == []


def test_what_the_daemon_cannot_do_is_refused_before_anything_is_made(sdk, msb, ids):
    async def main():
        for name, value in (("vsock", {"/run/x": 1}), ("init", "auto"), ("hostname", "h"), ("thp", "always"),
                            ("log_level", msb.LogLevel.DEBUG), ("cpu_placement", msb.CpuPlacement.SPREAD),
                            ("placement_profile", "p"), ("registry_ca_certs", [b"pem"]),
                            ("image", msb.Image.bind("/srv")), ("image", Path("/srv")), ("image", "./rootfs"),
                            ("image", msb.Image.disk("/x.qcow2")), ("image", msb.Image.oci("host", root_disk=msb.RootDisk.tmpfs())),
                            ("volumes", {"/v": msb.Volume.disk("/x.raw")}), ("network", msb.Network(tls=msb.TlsConfig())),
                            ("network", msb.Network(ipv4_pool="10.0.0.0/8"))):
            with pytest.raises(msb.UnsupportedError) as caught:
                await msb.Sandbox.create("u", **{"image": "host", name: value})
            assert caught.value.operation and caught.value.hint, name
        with pytest.raises(TypeError, match="imge"):
            await msb.Sandbox.create("u", imge="host")
        with pytest.raises(ValueError):
            await msb.Sandbox.create("u", image="host", from_snapshot="s")
        with pytest.raises(TypeError):
            await msb.Sandbox.create("u", image="host", pull_policy="always")
        with pytest.raises(msb.InvalidConfigError):
            await msb.Sandbox.create("x" * 129, image="host")
        with pytest.raises(msb.UnsupportedError):
            msb.AgentClient.connect_sandbox("u")
        with pytest.raises(msb.UnsupportedError):
            msb.set_libkrunfw_path("/x")
        with pytest.raises(msb.UnsupportedError):
            await msb.Volume.get_default()

    sdk.run(main)
    assert ids() == []


def test_patches_are_there_before_anything_runs(sdk, msb, tmp_path):
    (tmp_path / "tree" / "in").mkdir(parents=True)
    (tmp_path / "tree" / "in" / "f").write_text("of the host")
    (tmp_path / "tree" / "l").symlink_to("in/f")
    patch = msb.Patch

    async def use(sb):
        out = await sb.exec("cd /srv; cat t b a c tree/in/f tree/l l; stat -c %a t b d c; ls gone || true")
        assert out.stdout == "text\nbytes\xff".replace("\xff", "\ufffd") + "onetwoof the hostof the hostof the hosttext\n600\n644\n700\n755\n"

    with_box(sdk, msb, use, patches=[
        patch.text("/srv/t", "text\n", mode=0o600), patch.file("/srv/b", b"bytes\xff"), patch.mkdir("/srv/d", mode=0o700),
        patch.text("/srv/a", "one"), patch.append("/srv/a", "two"), patch.copy_file(tmp_path / "tree/in/f", "/srv/c", mode=0o755),
        patch.copy_dir(tmp_path / "tree", "/srv/tree"), patch.symlink("t", "/srv/l"), patch.text("/srv/gone", ""),
        patch.remove("/srv/gone")])

    async def refused():
        with pytest.raises(msb.MicrosandboxError) as caught:
            await msb.Sandbox.create("p", image="host", patches=[patch.text("/srv/x", "1"), patch.text("/srv/x", "2")])
        assert caught.value.code == "patch_failed"

    sdk.run(refused)


# ---- images, snapshots ----


@pytest.fixture(scope="module")
def images(daemon):
    """A registry without TLS."""
    made = Proxy()
    made.serve_image("t/app:1", cay_oci.Image(cay_oci.base_layer(), config={
        "Env": ["FROM=image"], "Entrypoint": ["/bin/echo"], "Cmd": ["hello"], "WorkingDir": "/home", "Labels": {"a": "b"}}))
    yield made
    made.stop()


def test_images_are_pulled_looked_at_and_saved(sdk, msb, images, tmp_path):
    reference = images.ref("t/app:1")

    async def main():
        session = msb.Sandbox.create_with_progress("app", image=reference, registry_insecure=True)
        async with session:
            kinds = [event.event_type async for event in session.progress]
            sb = await session.result()
        assert kinds[0] is msb.PullEventType.RESOLVING and msb.PullEventType.RESOLVED in kinds
        assert msb.PullEventType.LAYER_MATERIALIZE_COMPLETE in kinds and kinds[-1] is msb.PullEventType.COMPLETE
        assert (await sb.exec_default()).stdout_text == "hello\n"
        assert (await sb.exec("echo $FROM; pwd")).stdout == "image\n/home\n"
        with pytest.raises(msb.ImageInUseError):
            await msb.Image.remove(reference)
        await sb.destroy()
        detail = await msb.Image.inspect(reference)
        assert detail.config.cmd == ["hello"] and "FROM=image" in detail.config.env and detail.config.labels == {"a": "b"}
        handle = detail.handle
        assert handle.layer_count == 1 == len(detail.layers) and handle.os == "linux" and handle.size_bytes > 0
        assert reference in [one.reference for one in await msb.Image.list()]
        await msb.Image.save(reference, output_path=tmp_path / "app.tar")
        await (await msb.Image.get(reference)).remove()
        with pytest.raises(msb.ImageNotFoundError):
            await msb.Image.get(reference)
        loaded = await msb.Image.load(tmp_path / "app.tar", tag="loaded:1")
        assert [one.reference for one in loaded] == ["loaded:1"]
        async with await msb.Sandbox.create("loaded", image=msb.Image.oci("loaded:1", root_disk=128)) as sb:
            assert (await sb.exec_default()).stdout_text == "hello\n"
        report = await msb.Image.prune()
        assert report.image_refs_removed == 1 and report.bytes_reclaimed > 0

    sdk.run(main)


def test_snapshots_are_made_moved_and_started_from(sdk, msb, tmp_path):
    async def main():
        async with await msb.Sandbox.create("one", image="host", env={"E": "1"}) as sb:
            await sb.fs.write("/root/f", b"then")
            made = await msb.Snapshot.create("snap", from_sandbox="one", labels={"a": "b"})
            with pytest.raises(msb.InvalidConfigError):
                await msb.Snapshot.create("snap", from_sandbox="one")
            again = await (await msb.Sandbox.get("one")).snapshot("other")
            assert made.labels == {"a": "b"} and made.image_ref == "host" and made.source_sandbox == sb.id
        async with await msb.Sandbox.create("two", from_snapshot="snap", env={"F": "2"}, memory=256) as sb:
            assert (await sb.exec("cat /root/f; echo $E$F")).stdout == "then12\n"
            assert (await sb.metrics()).memory_limit_bytes == 256 << 20
        assert [h.name for h in await msb.Snapshot.list(labels={"a": "b"})] == ["snap"] and await msb.Snapshot.reindex() == 2
        checked = await (await msb.Snapshot.open("snap")).verify()
        assert checked["ok"] and checked["bytes"] > 0
        await msb.Snapshot.save("snap", tmp_path / "snap.tar")
        handle = await msb.Snapshot.get("snap")
        assert (handle.scope, handle.availability) == (msb.SnapshotScope.DISK, "available")
        await handle.remove()
        with pytest.raises(msb.SnapshotMigrationError):
            await msb.Snapshot.load(tmp_path / "snap.tar")
        await msb.Snapshot.load(tmp_path / "snap.tar", image="host", name="back")
        async with await msb.Sandbox.create("three", from_snapshot="back") as sb:
            assert await sb.fs.read("/root/f") == b"then"
        for name in ("back", again.name):
            await msb.Snapshot.remove(name)
        await msb.Snapshot.remove("none", force=True)
        with pytest.raises(msb.UnsupportedError):
            await msb.Snapshot.create("x", from_sandbox="one", resumable=True)
        with pytest.raises(msb.UnsupportedError):
            await msb.Snapshot.list_dir(tmp_path)

    sdk.run(main)


# ---- what is installed ----


def test_what_is_installed(sdk, msb, monkeypatch):
    assert msb.is_installed() and re.match(r"\d+\.\d+", msb.version())
    assert msb.install() is not None

    async def main():
        assert await msb.install() is None
        assert msb.default_backend_info().kind is msb.BackendKind.LOCAL
        address = os.environ["CAY_HOST"]
        monkeypatch.setenv("CAY_HOST", "unix:/nowhere.sock")
        with msb.backend_scope(msb.BackendKind.LOCAL, url=address):
            assert msb.default_backend_info().url == address
            assert len(await msb.Sandbox.list()) == 0
            await msb.default_client().aclose()
        with pytest.raises(msb.IoError):
            await msb.Sandbox.list()

    sdk.run(main)
    monkeypatch.delenv("CAY_HOST")
    monkeypatch.setenv("CAY_RUN", "/nowhere")
    monkeypatch.setenv("CAY_REST_PORT", "1")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CAY_BIN", raising=False)
    assert not msb.is_installed()
    with pytest.raises(msb.UnsupportedError):
        msb.install()


def test_the_blocking_twin_does_the_same(importable, daemon, sdk):  # noqa: F811
    from cay.sync import ExitedEvent, Image, Patch, Sandbox, Snapshot, StdoutEvent, Volume, default_client

    with Sandbox.create("sync", image="host", patches=[Patch.text("/srv/p", "patched")]) as sb:
        assert sb.exec("cat", ["/srv/p"]).stdout() == "patched" and sb.name == "sync"
        assert sb.exec("cat", [], stdin=b"x" * 3_000_000).stdout_bytes == b"x" * 3_000_000
        with sb.exec_stream("cat", [], stdin_pipe=True) as handle:
            sink = handle.take_stdin()
            sink.write(b"in")
            sink.close()
            events = list(handle.events())
        assert StdoutEvent(b"in") in events and events[-1] == ExitedEvent(0)
        with sb.fs.write_stream("/srv/s") as sink:
            sink.write(b"1" * 2_000_000)
        assert sb.fs.read("/srv/s") == b"1" * 2_000_000 and [e.name for e in sb.fs.list("/srv")] == ["p", "s"]
        assert [e.text() for e in sb.logs(tail=1)]
        assert "".join(sb.stream("echo a; echo b")) == "a\nb\n"
        assert sb.metrics().pids >= 1
        snapshot = Snapshot.create("syncsnap", from_sandbox="sync")
    with Sandbox.create("sync2", from_snapshot="syncsnap") as sb:
        assert sb.fs.read("/srv/p") == b"patched"
    snapshot.remove("syncsnap")
    Volume.create("syncvol", quota=16)
    Volume.remove("syncvol")
    assert Image.list() and Sandbox.list().sandboxes == []
    session = Sandbox.create_with_progress("sync3", image="host")
    assert [e for e in session.progress] and session.result().name == "sync3"
    session.result().destroy()
    default_client().close()


# ---- errors ----


RAISED = {}


def raises(name, code=None):
    """A coroutine function that must raise this one, whose word of the daemon is `code`."""
    def keep(function):
        RAISED[name] = (function, code)
        return function

    return keep


@raises("NoDefaultCommandError")
async def _(msb, sb):
    await sb.exec_default()


@raises("SandboxNotFoundError", "sandbox_not_found")
async def _(msb, sb):
    await msb.Sandbox.get("no-such")


@raises("ExecTimeoutError", "command_timeout")
async def _(msb, sb):
    for timeout in (0.5, 5, 25):  # until it is long enough on this machine for the output
        try:
            await sb.exec("echo before; sleep 1000", timeout=timeout)
        except msb.ExecTimeoutError as error:
            if error.stdout or timeout == 25:
                raise


@raises("ExecFailedError", "command_not_found")
async def _(msb, sb):
    await sb.exec("no-such-program", [])


@raises("NetworkPolicyError")
async def _(msb, sb):
    await msb.Sandbox.create("n", image="host", network=msb.NetworkPolicy(
        rules=(msb.Rule.allow(destination=msb.Destination.cidr("127.0.0.0/8")),)))


@raises("UnsupportedError")
async def _(msb, sb):
    await msb.Sandbox.create("u", image="host", vsock={"/run/x": 1})


# From agents of an older version, which no test can make: the daemon's word for it is mapped.
OLD = {"UnsupportedOperationError": "agent_too_old"}


@pytest.mark.parametrize("name", RAISED)
def test_an_error_is_really_raised(sdk, msb, name):
    function, code = RAISED[name]

    async def use(sb):
        with pytest.raises(getattr(msb, name)) as caught:
            await function(msb, sb)
        return caught.value

    error = with_box(sdk, msb, use)
    assert type(error) is getattr(msb, name) and isinstance(error, msb.MicrosandboxError)
    assert code is None or error.code == code
    fields = {"ExecTimeoutError": lambda e: e.stdout == b"before\n" and e.timeout in (0.5, 5, 25),
              "ExecFailedError": lambda e: (e.kind, e.errno) == ("not_found", 2) and e.stage,
              "UnsupportedError": lambda e: e.operation == "vsock" and e.hint,
              "SandboxNotFoundError": lambda e: (e.status, e.method, e.path) == (404, "GET", "/sandboxes/no-such")}
    assert fields.get(name, lambda e: True)(error), vars(error)


def test_all_24_errors_are_those_of_cay(msb):
    """sdk/python/tests/test_errors.py raises each of them; here are those that have a cause or fields of their own."""
    import cay.errors

    all = {"InvalidConfigError", "NoDefaultCommandError", "CloudHttpError", "SandboxNotFoundError", "SandboxNotRunningError",
           "SandboxAlreadyExistsError", "SandboxStillRunningError", "ExecTimeoutError", "ExecFailedError", "FilesystemError",
           "PathNotFoundError", "VolumeNotFoundError", "ImageNotFoundError", "ImageInUseError", "ImagePullFailedError",
           "NetworkPolicyError", "SecretViolationError", "TlsError", "IoError", "MetricsDisabledError", "MetricsUnavailableError",
           "UnsupportedOperationError", "UnsupportedError", "SnapshotMigrationError"}
    assert len(all) == 24 and set(RAISED) | set(OLD) <= all
    for name in all:
        error = getattr(msb, name)
        assert error is getattr(cay.errors, name) and issubclass(error, msb.MicrosandboxError)
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", error.code)
    for name, word in OLD.items():
        assert cay.errors.error_class(word, 501) is getattr(msb, name)


def test_what_cannot_start_says_why(sdk, msb):
    cases = [("no-such", {}, "not_found"), ("/etc/passwd", {}, "permission_denied"), ("/srv/junk", {}, "not_executable"),
             ("true", {"cwd": "/no/such"}, "bad_cwd"), ("true", {"user": "nobody-such"}, "user_setup_failed")]

    async def use(sb):
        for program, how, kind in cases:
            for start in (sb.exec, sb.exec_stream):
                with pytest.raises(msb.ExecFailedError) as caught:
                    await start(program, [], **how)
                assert caught.value.kind == kind and caught.value.stage, vars(caught.value)

    with_box(sdk, msb, use, patches=[msb.Patch.file("/srv/junk", b"\x01\x02\x03\x04", mode=0o755)])
