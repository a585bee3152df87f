"""Each manager does what it says, against the daemon; and every operation of the daemon can be reached."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import pytest

import cay
import cay.sync

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import generate


def test_every_operation_of_the_daemon_is_a_method(daemon: cay.sync.Client) -> None:
    document = daemon.api.system_openapi()
    names = {raw["operationId"] for item in document["paths"].values() for raw in item.values()}
    for package in ("cay", "cay.sync"):
        api = importlib.import_module(f"{package}._api").Api
        assert names - generate.LEFT_OUT <= {name for name, _ in inspect.getmembers(api, inspect.isfunction)}
    assert names >= generate.LEFT_OUT, "what is left out is there no longer"


def test_every_name_is_there() -> None:
    for package in (cay, cay.sync):
        for name in package.__all__:
            assert getattr(package, name) is not None
    assert cay.Sandbox is not cay.sync.Sandbox and cay.CayError is cay.sync.CayError
    with pytest.raises(AttributeError):
        cay.nothing  # noqa: B018


def test_env(box: cay.sync.Sandbox) -> None:
    assert box.env.set({"MODE": "fast"}).set == ["MODE"]
    assert box.env.get("MODE").value == "fast" and box.env.list().vars["MODE"] == "fast"
    assert box.exec("echo $MODE").stdout == "fast\n"
    box.env.delete("MODE")
    assert (box.env.get("MODE").exists, box.env.get("MODE")["value"]) == (False, None)


def test_filesystem(box: cay.sync.Sandbox) -> None:
    files = box.filesystem
    files.write("dir/ä b.txt", "text")
    assert files.read("dir/ä b.txt") == "text"
    files.upload("raw", b"\0\xff")
    files.upload("coded", "AP8=")
    assert files.read_bytes("raw") == files.read_bytes("coded") == b"\0\xff" and files.download("raw") == "AP8="
    assert sorted(entry.name for entry in files.list()) == ["coded", "dir", "raw"]
    assert files.search("*.txt") == ["/workspace/dir/ä b.txt"]
    files.move("raw", "moved")
    files.chmod("moved", "600")
    meta, folder = files.info(["moved", "dir"])
    assert (meta.size, meta.permissions, folder.is_directory) == (2, "-rw-------", True)
    files.mkdir("one/two")
    files.rmdir("one")
    files.delete("moved")
    with pytest.raises(cay.PathNotFoundError):
        files.stat("moved")
    with pytest.raises(cay.FilesystemError):
        files.read("/etc/hostname")


def test_git(box: cay.sync.Sandbox) -> None:
    box.exec("git init -q -b main && git config user.name a && git config user.email a@b && echo 1 > f")
    assert [(file.path, file.status) for file in box.git.status().files] == [("f", "??")]
    assert box.git.commit("first", all=True).exit_code == 0
    box.filesystem.write("f", "2\n")
    assert "+2" in box.git.diff().diff
    assert [entry.message for entry in box.git.log(count=5).entries] == ["first"]
    assert box.git.branch(name="other").current == "other"
    assert box.git.checkout("none").exit_code != 0


def test_interpreter(box: cay.sync.Sandbox) -> None:
    assert box.interpreter.run("print(6 * 7)").output == "42\n"
    failed = box.interpreter.run("1 / 0")
    assert failed.error is not None and "ZeroDivisionError" in failed.error
    assert box.interpreter.run("echo $((6*7))", "bash").output == "42\n"
    context = box.interpreter.create_context()
    box.interpreter.run("x = 41", context=context.id)
    assert box.interpreter.run("print(x + 1)", context=context.id).output == "42\n"
    assert [found.id for found in box.interpreter.contexts().contexts] == [context.id]
    box.interpreter.delete_context(context.id)
    said = list(box.interpreter.stream("print('a')"))
    assert any("a\n" in str(getattr(event, "text", event)) for event in said)
    assert "python" in {kernel.language for kernel in box.interpreter.kernels()}


def test_processes(box: cay.sync.Sandbox) -> None:
    pid = int(box.exec("sleep 4712 >/dev/null 2>&1 & echo $!").stdout)
    assert pid in {process.pid for process in box.processes.list().processes}
    assert pid in {process.pid for process in box.processes.top().processes}
    assert box.processes.kill(pid, "KILL").killed == pid


def test_queue(box: cay.sync.Sandbox) -> None:
    job = box.queue.submit("echo queued", max_retries=0)
    while box.queue.status(job.id).status in ("pending", "running"):
        pass
    state = box.queue.status(job.id)
    assert state.status == "completed" and state.result is not None and state.result.stdout == "queued\n"
    assert [found.id for found in box.queue.list().jobs] == [job.id] and box.queue.dlq().total == 0


def test_monitor_and_streams(box: cay.sync.Sandbox) -> None:
    alert = box.monitor.set_alert("pids", 200)
    assert [found.id for found in box.monitor.list_alerts().alerts] == [alert.id]
    assert box.monitor.delete_alert(alert.id).deleted == alert.id and box.monitor.history().total == 0
    metrics = box.streams.metrics(1)
    assert next(metrics).sandbox_id == box.id
    metrics.close()  # type: ignore[attr-defined]
    assert [event.type for event in box.streams.logs(follow=False)] == ["end"]


def test_terminal(box: cay.sync.Sandbox) -> None:
    session = box.terminal.create(cols=100, rows=30).session_id
    with box.terminal.attach(session) as socket:
        socket.send(b"echo $((6 * 7)); exit 3\n")
        shown = b"".join(message for message in socket if isinstance(message, bytes))
    assert b"42" in shown and socket.close_code == 1000
    assert box.terminal.get(session).session_id == session


def test_ports(box: cay.sync.Sandbox) -> None:
    box.filesystem.write("index.html", "served\n")
    box.exec("python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & echo")
    while True:
        try:
            connection = box.ports.dial(8000)
            break
        except cay.CayError as error:
            assert error.code == "port_closed"
    with connection:
        connection.write(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while data := connection.read():
            answer += data
    assert answer.endswith(b"served\n")
    assert box.ports.get_proxy_url(8000).endswith(f"/sandbox/proxy/{box.id}/8000")
    assert box.ports.list().ports == []


def test_services(daemon: cay.sync.Client, box: cay.sync.Sandbox) -> None:
    name = f"py-{box.id}"
    events = cay.sync.EventManager(daemon)
    sent = events.publish("test.python", box.id, {"n": 1})
    assert [event.id for event in events.history(topic="test.python", sandbox_id=box.id).events] == [sent.id]
    volumes = cay.sync.VolumeManager(daemon)
    volume = volumes.create(name, size_mb=16)
    volumes.attach(volume.id, box.id, "/data")
    box.exec("echo kept > /data/f")
    volumes.detach(volume.id, box.id)
    assert daemon.api.volume_read(volume.id, "f") == "kept\n"
    assert volume.id in {found.id for found in volumes.list().volumes}
    volumes.delete(volume.id)
    with pytest.raises(cay.VolumeNotFoundError):
        volumes.get(volume.id)
    templates = cay.sync.TemplateManager(daemon)
    template = templates.create(name, {"image": "host"}, description="of a test")
    assert template.id in {found.id for found in cay.sync.list_templates(client=daemon)}
    templates.delete(template.id)
    tokens = cay.sync.TokenManager(daemon)
    token = tokens.create(scopes=["read"], name=name)
    assert token.id in {found.id for found in tokens.list().tokens}
    tokens.revoke(token.id)
    assert "cay_" in cay.sync.ObservabilityClient(daemon).prometheus()
    assert cay.sync.ObservabilityClient(daemon).traces(sandbox_id=box.id).total > 0
    assert cay.sync.SystemManager(daemon).health().status == "healthy"
    assert cay.sync.SystemManager(daemon).info().version == cay.__version__
    assert any(image.name == "host" for image in cay.sync.ImageManager(daemon).list().images)
    assert cay.sync.AuditLog(daemon).verify().ok
    assert cay.sync.PoolManager(daemon).status().ready >= 0
    snapshot = daemon.api.snapshot_create(box.id, name=name)
    assert cay.sync.SnapshotManager(daemon).get(name).id == snapshot.id
    assert next(cay.sync.SnapshotManager(daemon).export(snapshot.id))
    cay.sync.SnapshotManager(daemon).delete(snapshot.id)


def test_functions(daemon: cay.sync.Client) -> None:
    box = cay.sync.create_sandbox(name="by-function", metadata={"kind": "function"}, env={"A": "1"}, client=daemon)
    try:
        assert cay.sync.get_sandbox("by-function", client=daemon).id == box.id
        found = cay.sync.list_sandboxes(metadata={"kind": "function"}, client=daemon)
        assert [each.id for each in found] == [box.id]
        assert box.exec("echo $A").stdout == "1\n"
    finally:
        daemon.api.sandbox_kill(box.id)
    with pytest.raises(cay.SandboxNotFoundError) as gone:
        cay.sync.get_sandbox(box.id, client=daemon)
    assert gone.value.code == "sandbox_removed" and type(gone.value).code == "sandbox-not-found"


def test_run_and_run_many(run: Any) -> None:
    assert cay.sync.run("echo one").stdout == "one\n"
    results = cay.sync.run_many(["echo one", "false", "echo never"])
    assert [(result.exit_code, result.success) for result in results] == [(0, True), (1, False)]

    async def main() -> None:
        output = await cay.run("sleep 9", timeout=1)
        assert (output.exit_code, output.timed_out, output.success) == (-1, True, False)

    run(main())
