#!/usr/bin/env python3
"""The adapter of `cay` for Python: sdk/conformance/README.md has the protocol. It translates, and does nothing else."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
import time
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, List, Optional, Union

import cay
from cay import errors

Json = Dict[str, Any]
LIMIT = 65536

client = cay.Client()
boxes: Dict[str, cay.Sandbox] = {}
operations: Dict[str, Callable[..., Awaitable[Optional[Json]]]] = {}


def op(function: Callable[..., Awaitable[Optional[Json]]]) -> Callable[..., Awaitable[Optional[Json]]]:
    operations[function.__name__.rstrip("_")] = function
    return function


# ---- data ----


async def pieces(data: Json) -> AsyncIterator[bytes]:
    if "base64" in data:
        yield base64.b64decode(data["base64"], validate=True)
        return
    left = data["size"]
    block = bytes((i * 31 + (i >> 8) * 17 + data["pattern"]) & 255 for i in range(65536))
    while left > 0:
        yield block[:left]
        left -= len(block)


async def whole(data: Json) -> bytes:
    return b"".join([piece async for piece in pieces(data)])


class Told:
    """Data of a result, which comes in pieces."""

    def __init__(self) -> None:
        self.digest, self.size, self.head = hashlib.sha256(), 0, b""

    def add(self, piece: bytes) -> Told:
        self.digest.update(piece)
        self.size += len(piece)
        if self.size <= LIMIT:
            self.head += piece
        return self

    def value(self, exact: bool = True) -> Any:
        if self.size > LIMIT:
            return {"size": self.size, "sha256": self.digest.hexdigest()}
        try:
            return self.head.decode(errors="strict" if exact else "replace")
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(self.head).decode()}


def tell(data: bytes, exact: bool = True) -> Any:
    return Told().add(data if exact else data.decode(errors="replace").encode()).value()


async def box_of(word: str) -> cay.Sandbox:
    if word not in boxes:
        box = await cay.get_sandbox(word, client=client)
        boxes[box.id] = box
        return box
    return boxes[word]


# ---- sandboxes ----


def told(info: Any) -> Json:
    return {key: info[key] for key in ("id", "name", "image", "status", "metadata")}


@op
async def create(**fields: Any) -> Json:
    box = await cay.create_sandbox(client=client, **fields)
    boxes[box.id] = box
    return told(box.info)


@op
async def get(sandbox: str) -> Json:
    return told((await cay.get_sandbox(sandbox, client=client)).info)


@op
async def list_(metadata: Optional[Json] = None, status: Optional[str] = None) -> Json:
    found = await cay.list_sandboxes(metadata=metadata, status=status, client=client)
    return {"ids": [box.id for box in found]}


@op
async def pause(sandbox: str) -> Json:
    return {"status": (await client.api.sandbox_pause(sandbox)).status}


@op
async def resume(sandbox: str) -> Json:
    return {"status": (await client.api.sandbox_resume(sandbox)).status}


@op
async def stop(sandbox: str) -> Json:
    return {"status": (await client.api.sandbox_stop(sandbox)).status}


@op
async def start(sandbox: str) -> Json:
    return {"status": (await client.api.sandbox_start(sandbox)).status}


@op
async def renew(sandbox: str, timeout: float) -> Json:
    info = await client.api.sandbox_renew(sandbox, int((time.time() + timeout) * 1000))
    return {"expires_in": int(info.expires_at / 1000 - time.time())}


@op
async def kill(sandbox: str) -> None:
    await client.api.sandbox_kill(sandbox)


@op
async def clone(sandbox: str, name: Optional[str] = None) -> Json:
    return told(await client.api.sandbox_clone(sandbox, name=name))


@op
async def connect(url: Optional[str] = None, token: Optional[str] = None) -> None:
    async with cay.Client(url, token) as other:
        await cay.list_sandboxes(client=other)


# ---- commands ----


def line_of(command: Union[str, List[str]]) -> Json:
    if isinstance(command, str):
        return {"cmd": command}
    return {"cmd": command[0] if command else "", "args": command[1:]}


async def call_of(stdin: Optional[Json], fields: Json) -> Json:
    return {**line_of(fields.pop("command")), **fields, **({} if stdin is None else {"stdin": await whole(stdin)})}


@op
async def exec(sandbox: str, stdin: Optional[Json] = None, bytes: bool = False, **fields: Any) -> Json:
    box = await box_of(sandbox)
    output = await box.exec(**await call_of(stdin, fields))
    return {
        "exit_code": output.exit_code,
        "stdout": tell(output.stdout_bytes, bytes),
        "stderr": tell(output.stderr_bytes, bytes),
        "truncated": output.truncated,
        "reason": output.reason,
    }


@op
async def exec_stream(
    sandbox: str,
    stdin: Optional[Json] = None,
    bytes: bool = False,
    cancel_after_bytes: Optional[int] = None,
    **fields: Any,
) -> Json:
    box = await box_of(sandbox)
    out, err = Told(), Told()
    async with await box.exec_stream(**await call_of(stdin, fields)) as handle:
        async for event in handle.events():
            if isinstance(event, cay.StdoutEvent):
                out.add(event.data)
                if cancel_after_bytes and out.size >= cancel_after_bytes:
                    return {"cancelled": True}
            elif isinstance(event, cay.StderrEvent):
                err.add(event.data)
            elif isinstance(event, cay.ExitedEvent):
                return {
                    "exit_code": event.code,
                    "reason": event.reason,
                    "stdout": out.value(bytes),
                    "stderr": err.value(bytes),
                }
    raise errors.IoError("the stream ended without an end", code="connection_lost")


@op
async def background(sandbox: str, command: Any) -> Json:
    return {"exec_id": (await client.api.cmd_background(sandbox, command)).id}


@op
async def background_wait(sandbox: str, exec_id: str) -> Json:
    while True:
        state = await client.api.cmd_background_status(exec_id)
        if not state.running:
            break
        await asyncio.sleep(0.05)
    output, cursor = "", 0
    while True:
        logs = await client.api.cmd_background_logs(exec_id, cursor=cursor)
        output += logs.output
        if logs.cursor == cursor:
            return {"exit_code": state.exit_code, "stdout": tell(output.encode())}
        cursor = logs.cursor


# ---- files ----


def files(sandbox: str) -> cay.FileSystem:
    return cay.FileSystem(client, sandbox)


@op
async def write_file(sandbox: str, path: str, content: str, anywhere: Optional[bool] = None) -> None:
    await files(sandbox).write(path, content, anywhere=anywhere)


@op
async def read_file(sandbox: str, path: str, anywhere: Optional[bool] = None) -> Json:
    return {"content": tell((await files(sandbox).read(path, anywhere=anywhere)).encode())}


@op
async def upload(
    sandbox: str, path: str, bytes: Json, mode: Optional[str] = None, anywhere: Optional[bool] = None
) -> None:
    small = bytes.get("size", 0) <= LIMIT
    content: Any = await whole(bytes) if small else pieces(bytes)
    await files(sandbox).write_bytes(path, content, mode=mode, anywhere=anywhere)


@op
async def download(sandbox: str, path: str, anywhere: Optional[bool] = None) -> Json:
    data = Told()
    async for piece in files(sandbox).read_stream(path, anywhere=anywhere):
        data.add(piece)
    return {"bytes": data.value()}


@op
async def list_files(sandbox: str, path: Optional[str] = None, anywhere: Optional[bool] = None) -> Json:
    entries = await files(sandbox).list(path or "/workspace", anywhere=anywhere)
    return {"names": [entry.name for entry in entries]}


@op
async def stat(sandbox: str, path: str, anywhere: Optional[bool] = None) -> Json:
    meta = await files(sandbox).stat(path, anywhere=anywhere)
    kind = "link" if meta.is_symlink else "directory" if meta.is_directory else "file"
    return {"kind": kind, "size": meta.size, "permissions": meta.permissions}


@op
async def mkdir(sandbox: str, path: str, anywhere: Optional[bool] = None) -> None:
    await files(sandbox).mkdir(path, anywhere=anywhere)


@op
async def remove_file(sandbox: str, path: str, anywhere: Optional[bool] = None) -> None:
    await files(sandbox).delete(path, anywhere=anywhere)


@op
async def remove_dir(sandbox: str, path: str, anywhere: Optional[bool] = None) -> None:
    await files(sandbox).rmdir(path, anywhere=anywhere)


@op
async def move_file(sandbox: str, to: str, anywhere: Optional[bool] = None, **source: str) -> None:
    await files(sandbox).move(source["from"], to, anywhere=anywhere)


@op
async def chmod(sandbox: str, path: str, mode: str) -> None:
    await files(sandbox).chmod(path, mode)


@op
async def search(sandbox: str, pattern: str, dir: str = "/workspace") -> Json:
    return {"paths": await files(sandbox).search(pattern, dir)}


# ---- the rest ----


@op
async def env_set(sandbox: str, vars: Dict[str, str]) -> None:
    await cay.EnvManager(client, sandbox).set(vars)


@op
async def env_get(sandbox: str, key: str) -> Json:
    value = await cay.EnvManager(client, sandbox).get(key)
    return {"exists": value.exists, "value": value.value}


@op
async def env_list(sandbox: str) -> Json:
    return {"vars": (await cay.EnvManager(client, sandbox).list()).vars}


@op
async def env_delete(sandbox: str, key: str) -> None:
    await cay.EnvManager(client, sandbox).delete(key)


@op
async def process_list(sandbox: str) -> Json:
    found = (await cay.ProcessManager(client, sandbox).list()).processes
    return {"processes": [{"pid": process.pid, "command": process.command} for process in found]}


@op
async def process_kill(sandbox: str, pid: int, signal: Optional[str] = None) -> None:
    await cay.ProcessManager(client, sandbox).kill(pid, signal)


@op
async def run_code(sandbox: str, code: str, language: str = "python", context: Optional[str] = None) -> Json:
    ran = await cay.CodeInterpreter(client, sandbox).run(code, language, context=context)
    return {"output": ran.output, "error": ran.error}


@op
async def context_create(sandbox: str, language: str = "python") -> Json:
    return {"id": (await cay.CodeInterpreter(client, sandbox).create_context(language)).id}


@op
async def context_delete(sandbox: str, context: str) -> None:
    await cay.CodeInterpreter(client, sandbox).delete_context(context)


@op
async def git_clone(sandbox: str, url: str, **fields: Any) -> Json:
    return {"exit_code": (await cay.GitManager(client, sandbox).clone(url, **fields)).exit_code}


@op
async def git_status(sandbox: str, path: Optional[str] = None) -> Json:
    status = await cay.GitManager(client, sandbox).status(path)
    files = [{"path": file.path, "status": file.status} for file in status.files]
    return {"branch": status.branch, "clean": status.clean, "files": files}


@op
async def git_commit(sandbox: str, message: str, **fields: Any) -> Json:
    return {"exit_code": (await cay.GitManager(client, sandbox).commit(message, **fields)).exit_code}


@op
async def git_log(sandbox: str, **fields: Any) -> Json:
    entries = (await cay.GitManager(client, sandbox).log(**fields)).entries
    return {"messages": [entry.message for entry in entries]}


@op
async def git_diff(sandbox: str, **fields: Any) -> Json:
    return {"diff": (await cay.GitManager(client, sandbox).diff(**fields)).diff}


@op
async def snapshot(sandbox: str, name: Optional[str] = None) -> Json:
    return {"id": (await client.api.snapshot_create(sandbox, name=name)).id}


@op
async def list_snapshots(sandbox: str) -> Json:
    return {"ids": [found.id for found in (await client.api.snapshot_list(sandbox)).snapshots]}


@op
async def restore(sandbox: str, snapshot: str) -> Json:
    return {"status": (await client.api.snapshot_restore(sandbox, snapshot)).status}


@op
async def delete_snapshot(snapshot: str) -> None:
    await cay.SnapshotManager(client).delete(snapshot)


@op
async def queue_submit(sandbox: str, command: Any, **fields: Any) -> Json:
    job = await cay.QueueManager(client, sandbox).submit(command, **fields)
    return {"id": job.id, "status": job.status}


@op
async def queue_status(job: str) -> Json:
    state = await cay.QueueManager(client, "").status(job)
    answer: Json = {"status": state.status}
    if state.result:
        answer.update(exit_code=state.result.exit_code, stdout=state.result.stdout, stderr=state.result.stderr)
    return answer


@op
async def queue_cancel(job: str) -> None:
    await cay.QueueManager(client, "").cancel(job)


@op
async def port_expose(sandbox: str, port: int, host_port: Optional[int] = None) -> Json:
    exposed = await cay.PortManager(client, sandbox).expose(port, host_port)
    return {"port": exposed.container_port, "host_port": exposed.host_port}


@op
async def port_list(sandbox: str) -> Json:
    return {"ports": [port.container_port for port in (await cay.PortManager(client, sandbox).list()).ports]}


@op
async def port_unexpose(sandbox: str, port: int) -> None:
    await cay.PortManager(client, sandbox).unexpose(port)


@op
async def volume_create(name: str, size_mb: Optional[int] = None) -> Json:
    volume = await cay.VolumeManager(client).create(name, size_mb=size_mb)
    return {"id": volume.id, "name": volume.name}


@op
async def volume_list() -> Json:
    return {"ids": [volume.id for volume in (await cay.VolumeManager(client).list()).volumes]}


@op
async def volume_attach(volume: str, sandbox: str, path: str) -> None:
    await cay.VolumeManager(client).attach(volume, sandbox, path)


@op
async def volume_detach(volume: str, sandbox: Optional[str] = None) -> None:
    await cay.VolumeManager(client).detach(volume, sandbox)


@op
async def volume_delete(volume: str) -> None:
    await cay.VolumeManager(client).delete(volume)


@op
async def network_create(name: str) -> Json:
    network = await cay.NetworkManager(client).create(name)
    return {"id": network.id, "name": network.name}


@op
async def network_list() -> Json:
    return {"ids": [network.id for network in (await cay.NetworkManager(client).list()).networks]}


@op
async def network_connect(network: str, sandbox: str) -> None:
    await cay.NetworkManager(client).connect(network, sandbox)


@op
async def network_disconnect(network: str, sandbox: str) -> None:
    await cay.NetworkManager(client).disconnect(network, sandbox)


@op
async def network_delete(network: str) -> None:
    await cay.NetworkManager(client).delete(network)


@op
async def event_publish(topic: str, sandbox: str, data: Optional[Json] = None) -> Json:
    return {"id": (await cay.EventManager(client).publish(topic, sandbox, data)).id}


@op
async def events(sandbox: Optional[str] = None, topic: Optional[str] = None) -> Json:
    history = await cay.EventManager(client).history(sandbox_id=sandbox, topic=topic)
    return {"topics": [event.topic for event in history.events]}


@op
async def alert_set(sandbox: str, metric: str, threshold: float, action: Optional[str] = None) -> Json:
    return {"id": (await cay.MonitorManager(client, sandbox).set_alert(metric, threshold, action)).id}


@op
async def alert_list(sandbox: str) -> Json:
    return {"ids": [alert.id for alert in (await cay.MonitorManager(client, sandbox).list_alerts()).alerts]}


@op
async def alert_delete(alert: str) -> None:
    await cay.MonitorManager(client, "").delete_alert(alert)


@op
async def metrics(sandbox: str) -> Json:
    used = await client.api.metrics_sandbox(sandbox)
    return {"memory_limit_mb": used.memory_limit_mb, "pids": used.pids}


@op
async def template_list() -> Json:
    return {"names": [template.name for template in await cay.list_templates(client=client)]}


@op
async def logs(sandbox: str, tail: Optional[int] = None) -> Json:
    lines = []
    async for event in cay.StreamManager(client, sandbox).logs(tail=tail, follow=False):
        if event.type != "end":
            lines.append(event.data)
    return {"lines": lines}


@op
async def terminal(
    sandbox: str, input: str, until: str, cols: Optional[int] = None, rows: Optional[int] = None
) -> Json:
    terminals = cay.TerminalManager(client, sandbox)
    session = (await terminals.create(cols=cols, rows=rows)).session_id
    shown = ""
    async with await terminals.attach(session) as socket:
        await socket.send(input.encode())
        async for message in socket:
            if isinstance(message, bytes):
                shown += message.decode(errors="replace")
            if until in shown:
                break
    await terminals.close(session)
    return {"seen": until in shown}


# ---- the protocol ----

CODES = {"connection_lost": "unreachable", "no_daemon": "unreachable", "client_timeout": "unreachable"}


def failure(error: Exception) -> Json:
    if isinstance(error, asyncio.CancelledError):
        return {"code": "cancelled", "message": "the caller cancelled it"}
    if isinstance(error, errors.CayError):
        said: Json = {"code": CODES.get(error.code, error.code), "message": str(error)}
        if isinstance(error, errors.InvalidConfigError) and not error.status:
            return {"code": "invalid", "status": 400, "message": str(error)}  # what the client itself refuses
        if error.status:
            said["status"] = error.status
        if isinstance(error, errors.ExecTimeoutError):
            said.update(stdout=tell(error.stdout), stderr=tell(error.stderr), status=error.status or 408)
        return said
    if isinstance(error, TypeError):
        return {"code": "bad_args", "message": str(error)}
    return {"code": "adapter_failed", "message": f"{type(error).__name__}: {error}"}


def say(answer: Json) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def perform(request: Json) -> None:
    answer: Json = {"id": request["id"]}
    operation = operations.get(request["op"])
    try:
        if operation is None:
            answer["error"] = {"code": "unsupported_op", "message": request["op"]}
        else:
            answer["ok"] = await operation(**request.get("args", {})) or {}
    except asyncio.CancelledError as error:
        answer["error"] = failure(error)
    except Exception as error:
        answer["error"] = failure(error)
    say(answer)


async def main() -> None:
    loop = asyncio.get_running_loop()
    pending: Dict[int, asyncio.Task[None]] = {}
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        if request["op"] == "cancel":
            task = pending.get(request["args"]["id"])
            if task:
                task.cancel()
            say({"id": request["id"], "ok": {}})
            continue
        task = pending[request["id"]] = asyncio.ensure_future(perform(request))
        task.add_done_callback(lambda _, number=request["id"]: pending.pop(number, None))
    await client.aclose()


if __name__ == "__main__":
    asyncio.run(main())
