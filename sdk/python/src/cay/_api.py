# Written for asyncio; cay/sync has the blocking twin, which tools/unasync.py makes.
# Made from the daemon's /openapi.json by tools/generate.py: change that one, or the daemon.
"""Every operation of the daemon as a method: `client.api.sandbox_list()`. What is None is not sent, and the daemon's own
default counts. Names and meanings are those of docs/api.md, in the spelling of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncIterator, List, Mapping, Optional, Union
from urllib.parse import quote

from cay._model import from_json, from_value

from ._http import Content, end

if TYPE_CHECKING:
    from cay import _models as m

    from ._frames import Attached, Upgraded
    from ._http import Client
    from ._websocket import WebSocket

__all__ = ["Api"]


def _q(part: object) -> str:
    return quote(str(part), safe="")


class Api:
    """The daemon's operations, one by one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def _events(self, model: str, method: str, path: str, **request: Any) -> AsyncIterator[Any]:
        stream = self._client.events(method, path, **request)
        try:
            async for value in stream:
                yield from_value(model, value)
        finally:
            await end(stream)

    async def sandbox_create(
        self,
        *,
        image: Optional[str] = None,
        name: Optional[str] = None,
        unique: Optional[bool] = None,
        timeout: Optional[int] = None,
        on_timeout: Optional[str] = None,
        idle_timeout: Optional[int] = None,
        memory: Optional[int] = None,
        cpu: Optional[float] = None,
        pids: Optional[int] = None,
        disk: Optional[int] = None,
        network: Optional[Union[bool, str, m.NetworkPolicy, Mapping[str, Any]]] = None,
        networks: Optional[List[str]] = None,
        env: Optional[Mapping[str, str]] = None,
        workdir: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        entrypoint: Optional[List[str]] = None,
        run_entrypoint: Optional[bool] = None,
        volumes: Optional[List[Union[m.VolumeMount, Mapping[str, Any]]]] = None,
        tmpfs: Optional[List[Union[m.TmpfsMount, Mapping[str, Any]]]] = None,
        ports: Optional[List[Union[m.PortRequest, Mapping[str, Any]]]] = None,
        patches: Optional[List[Union[m.Patch, Mapping[str, Any]]]] = None,
        pull: Optional[str] = None,
        platform: Optional[str] = None,
        registry_auth: Optional[Union[m.RegistryAuth, Mapping[str, Any]]] = None,
        template: Optional[str] = None,
    ) -> m.Sandbox:
        """Makes a sandbox and starts it."""
        content_ = await self._client.call_bytes(
            "POST", "/sandboxes", json={"image": image, "name": name, "unique": unique, "timeout": timeout, "onTimeout": on_timeout, "idleTimeout": idle_timeout, "memory": memory, "cpu": cpu, "pids": pids, "disk": disk, "network": network, "networks": networks, "env": env, "workdir": workdir, "metadata": metadata, "entrypoint": entrypoint, "runEntrypoint": run_entrypoint, "volumes": volumes, "tmpfs": tmpfs, "ports": ports, "patches": patches, "pull": pull, "platform": platform, "registry_auth": registry_auth, "template": template}, idempotent=True
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    def sandbox_create_events(
        self,
        *,
        image: Optional[str] = None,
        name: Optional[str] = None,
        unique: Optional[bool] = None,
        timeout: Optional[int] = None,
        on_timeout: Optional[str] = None,
        idle_timeout: Optional[int] = None,
        memory: Optional[int] = None,
        cpu: Optional[float] = None,
        pids: Optional[int] = None,
        disk: Optional[int] = None,
        network: Optional[Union[bool, str, m.NetworkPolicy, Mapping[str, Any]]] = None,
        networks: Optional[List[str]] = None,
        env: Optional[Mapping[str, str]] = None,
        workdir: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        entrypoint: Optional[List[str]] = None,
        run_entrypoint: Optional[bool] = None,
        volumes: Optional[List[Union[m.VolumeMount, Mapping[str, Any]]]] = None,
        tmpfs: Optional[List[Union[m.TmpfsMount, Mapping[str, Any]]]] = None,
        ports: Optional[List[Union[m.PortRequest, Mapping[str, Any]]]] = None,
        patches: Optional[List[Union[m.Patch, Mapping[str, Any]]]] = None,
        pull: Optional[str] = None,
        platform: Optional[str] = None,
        registry_auth: Optional[Union[m.RegistryAuth, Mapping[str, Any]]] = None,
        template: Optional[str] = None,
    ) -> AsyncIterator[m.CreateEvent]:
        """Makes a sandbox and starts it, and tells how far it is."""
        return self._events("CreateEvent", "POST", "/sandboxes", json={"image": image, "name": name, "unique": unique, "timeout": timeout, "onTimeout": on_timeout, "idleTimeout": idle_timeout, "memory": memory, "cpu": cpu, "pids": pids, "disk": disk, "network": network, "networks": networks, "env": env, "workdir": workdir, "metadata": metadata, "entrypoint": entrypoint, "runEntrypoint": run_entrypoint, "volumes": volumes, "tmpfs": tmpfs, "ports": ports, "patches": patches, "pull": pull, "platform": platform, "registry_auth": registry_auth, "template": template}, idempotent=True)

    async def sandbox_list(
        self,
        *,
        status: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        page: Optional[int] = None,
        page_size: Optional[int] = None,
        cursor: Optional[int] = None,
    ) -> m.SandboxList:
        """Lists sandboxes, the newest first."""
        content_ = await self._client.call_bytes(
            "GET", "/sandboxes", query={"status": status, "metadata": metadata, "page": page, "pageSize": page_size, "cursor": cursor}
        )
        answer: m.SandboxList = from_json("SandboxList", content_)
        return answer

    async def sandbox_get(self, sandbox_id: str) -> m.Sandbox:
        """Shows a sandbox."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}"
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def sandbox_update(
        self,
        sandbox_id: str,
        *,
        metadata: Optional[Mapping[str, str]] = None,
        env: Optional[Mapping[str, str]] = None,
        memory: Optional[int] = None,
        cpu: Optional[float] = None,
        pids: Optional[int] = None,
        timeout: Optional[int] = None,
        idle_timeout: Optional[int] = None,
    ) -> m.Sandbox:
        """Changes a sandbox; what is not sent stays. Limits hold at once, and programs are told of them with the next start."""
        content_ = await self._client.call_bytes(
            "PATCH", f"/sandboxes/{_q(sandbox_id)}", json={"metadata": metadata, "env": env, "memory": memory, "cpu": cpu, "pids": pids, "timeout": timeout, "idleTimeout": idle_timeout}
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def sandbox_kill(self, sandbox_id: str) -> m.Success:
        """Ends a sandbox and removes it."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/sandboxes/{_q(sandbox_id)}"
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def sandbox_pause(self, sandbox_id: str) -> m.Sandbox:
        """Freezes every process of a sandbox."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/pause"
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def sandbox_resume(self, sandbox_id: str) -> m.Sandbox:
        """Lets a paused sandbox go on."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/resume"
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def sandbox_stop(
        self,
        sandbox_id: str,
        *,
        drain: Optional[bool] = None,
        timeout: Optional[float] = None,
        wait: Optional[bool] = None,
    ) -> m.Sandbox:
        """Ends every process of a sandbox and keeps its files; nothing happens to one that is stopped. It expires after
        CAY_STOPPED_TTL."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/stop", json={"drain": drain, "timeout": timeout, "wait": wait}
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def sandbox_start(self, sandbox_id: str) -> m.Sandbox:
        """Starts a stopped sandbox again, with its files, environment and entrypoint; nothing happens to one that runs. It expires
        after its timeout."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/start"
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def sandbox_touch(self, sandbox_id: str) -> m.Sandbox:
        """Says that a sandbox is in use, so that it is not idle."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/touch"
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def sandbox_renew(self, sandbox_id: str, expires_at: int) -> m.Sandbox:
        """Sets when a sandbox expires."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/renew", json={"expiresAt": expires_at}
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def sandbox_network(self, sandbox_id: str) -> m.SandboxNetwork:
        """Shows what a sandbox may reach, its addresses and what it was refused."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/network"
        )
        answer: m.SandboxNetwork = from_json("SandboxNetwork", content_)
        return answer

    async def sandbox_network_set(
        self,
        sandbox_id: str,
        network: Union[bool, str, Mapping[str, Any]],
    ) -> m.SandboxNetwork:
        """Changes what a sandbox may reach, also while it is paused or stopped; connections that are no longer allowed are cut."""
        content_ = await self._client.call_bytes(
            "PUT", f"/sandboxes/{_q(sandbox_id)}/network", json={"network": network}
        )
        answer: m.SandboxNetwork = from_json("SandboxNetwork", content_)
        return answer

    async def sandbox_network_explain(
        self,
        sandbox_id: str,
        host: str,
        *,
        port: Optional[int] = None,
        protocol: Optional[str] = None,
    ) -> m.NetworkVerdict:
        """Tells what would happen to a connection, and why."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/network/explain", query={"host": host, "port": port, "protocol": protocol}
        )
        answer: m.NetworkVerdict = from_json("NetworkVerdict", content_)
        return answer

    async def sandbox_network_explain_post(
        self,
        sandbox_id: str,
        host: str,
        *,
        port: Optional[int] = None,
        protocol: Optional[str] = None,
    ) -> m.NetworkVerdict:
        """Tells what would happen to a connection, and why."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/network/explain", json={"host": host, "port": port, "protocol": protocol}, again=True
        )
        answer: m.NetworkVerdict = from_json("NetworkVerdict", content_)
        return answer

    async def sandbox_network_log(
        self,
        sandbox_id: str,
        *,
        after: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> m.NetworkLog:
        """Lists what a sandbox was refused."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/network/log", query={"after": after, "limit": limit}
        )
        answer: m.NetworkLog = from_json("NetworkLog", content_)
        return answer

    def stream_network(self, sandbox_id: str, *, tail: Optional[int] = None) -> AsyncIterator[m.NetworkDenial]:
        """Streams what a sandbox is refused, until it is removed."""
        return self._events("NetworkDenial", "GET", f"/sandboxes/{_q(sandbox_id)}/stream/network", query={"tail": tail})

    async def cmd_run(
        self,
        sandbox_id: str,
        command: Union[str, List[str]],
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        rlimits: Optional[List[Union[m.Rlimit, Mapping[str, Any]]]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        stdin_encoding: Optional[str] = None,
        detach: Optional[bool] = None,
        exec_id: Optional[str] = None,
    ) -> m.ExecResult:
        """Runs a command and waits for it."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/exec", json={"command": command, "cwd": cwd, "env": env, "rlimits": rlimits, "user": user, "timeout": timeout, "stdin": stdin, "stdinEncoding": stdin_encoding, "detach": detach, "execId": exec_id}
        )
        answer: m.ExecResult = from_json("ExecResult", content_)
        return answer

    async def cmd_list(self, sandbox_id: str) -> m.ExecList:
        """Lists commands that run, and the last that ended."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/exec"
        )
        answer: m.ExecList = from_json("ExecList", content_)
        return answer

    def cmd_run_stream(
        self,
        sandbox_id: str,
        command: Union[str, List[str]],
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        rlimits: Optional[List[Union[m.Rlimit, Mapping[str, Any]]]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        stdin_encoding: Optional[str] = None,
        detach: Optional[bool] = None,
        exec_id: Optional[str] = None,
    ) -> AsyncIterator[m.ExecEvent]:
        """Runs a command and streams its output."""
        return self._events("ExecEvent", "POST", f"/sandboxes/{_q(sandbox_id)}/exec/stream", json={"command": command, "cwd": cwd, "env": env, "rlimits": rlimits, "user": user, "timeout": timeout, "stdin": stdin, "stdinEncoding": stdin_encoding, "detach": detach, "execId": exec_id})

    async def cmd_attach(
        self,
        sandbox_id: str,
        command: Union[str, List[str]],
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        rlimits: Optional[List[Union[m.Rlimit, Mapping[str, Any]]]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        tty: Optional[bool] = None,
        stdin: Optional[bool] = None,
        rows: Optional[int] = None,
        cols: Optional[int] = None,
        detach: Optional[bool] = None,
        exec_id: Optional[str] = None,
    ) -> Attached:
        """Runs a command with input, output and signals over an upgraded connection."""
        return await self._client.attach(f"/sandboxes/{_q(sandbox_id)}/exec/attach", {"command": command, "cwd": cwd, "env": env, "rlimits": rlimits, "user": user, "timeout": timeout, "tty": tty, "stdin": stdin, "rows": rows, "cols": cols, "detach": detach, "execId": exec_id})

    async def cmd_background(
        self,
        sandbox_id: str,
        command: Union[str, List[str]],
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        rlimits: Optional[List[Union[m.Rlimit, Mapping[str, Any]]]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        stdin_encoding: Optional[str] = None,
    ) -> m.BackgroundExec:
        """Starts a command and leaves it running."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/exec/background", json={"command": command, "cwd": cwd, "env": env, "rlimits": rlimits, "user": user, "timeout": timeout, "stdin": stdin, "stdinEncoding": stdin_encoding}, idempotent=True
        )
        answer: m.BackgroundExec = from_json("BackgroundExec", content_)
        return answer

    async def cmd_background_status(self, exec_id: str) -> m.BackgroundExec:
        """Shows a background command; also while the sandbox is paused."""
        content_ = await self._client.call_bytes(
            "GET", f"/exec/background/{_q(exec_id)}/status"
        )
        answer: m.BackgroundExec = from_json("BackgroundExec", content_)
        return answer

    async def cmd_background_logs(self, exec_id: str, *, cursor: Optional[int] = None) -> m.ExecLogs:
        """Reads the output of a background command; also while the sandbox is paused."""
        content_ = await self._client.call_bytes(
            "GET", f"/exec/background/{_q(exec_id)}/logs", query={"cursor": cursor}
        )
        answer: m.ExecLogs = from_json("ExecLogs", content_)
        return answer

    async def cmd_get(self, sandbox_id: str, exec_id: str, *, cursor: Optional[int] = None) -> m.ExecState:
        """Shows a command and what it has put out."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/exec/{_q(exec_id)}", query={"cursor": cursor}
        )
        answer: m.ExecState = from_json("ExecState", content_)
        return answer

    def cmd_get_stream(
        self,
        sandbox_id: str,
        exec_id: str,
        *,
        cursor: Optional[int] = None,
    ) -> AsyncIterator[m.ExecEvent]:
        """Streams what a command puts out, from a cursor on."""
        return self._events("ExecEvent", "GET", f"/sandboxes/{_q(sandbox_id)}/exec/{_q(exec_id)}/stream", query={"cursor": cursor})

    async def cmd_get_attach(
        self,
        sandbox_id: str,
        exec_id: str,
        *,
        cursor: Optional[int] = None,
        stdin: Optional[bool] = None,
        share: Optional[bool] = None,
        rows: Optional[int] = None,
        cols: Optional[int] = None,
    ) -> Attached:
        """Attaches to a command that runs, over an upgraded connection."""
        return await self._client.attach(f"/sandboxes/{_q(sandbox_id)}/exec/{_q(exec_id)}/attach", {"cursor": cursor, "stdin": stdin, "share": share, "rows": rows, "cols": cols})

    async def cmd_kill(self, sandbox_id: str, exec_id: str) -> m.ExecInfo:
        """Ends a command and all that it started."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/exec/{_q(exec_id)}/kill"
        )
        answer: m.ExecInfo = from_json("ExecInfo", content_)
        return answer

    async def cmd_interrupt(self, sandbox_id: str, *, pid: Optional[int] = None) -> m.Interrupted:
        """Sends SIGINT to a command or to all; to a paused sandbox as well, for when it goes on."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/exec/interrupt", json={"pid": pid}
        )
        answer: m.Interrupted = from_json("Interrupted", content_)
        return answer

    async def fs_read(
        self,
        sandbox_id: str,
        path: str,
        *,
        offset: Optional[int] = None,
        limit: Optional[int] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.FileText:
        """Reads a file as text."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/read", json={"path": path, "offset": offset, "limit": limit, "anywhere": anywhere, "pathEncoding": path_encoding}, again=True
        )
        answer: m.FileText = from_json("FileText", content_)
        return answer

    async def fs_write(
        self,
        sandbox_id: str,
        path: str,
        content: str,
        *,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.Success:
        """Replaces a file with text; parents are made."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/write", json={"path": path, "content": content, "anywhere": anywhere, "pathEncoding": path_encoding}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def fs_delete(
        self,
        sandbox_id: str,
        path: str,
        *,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.Success:
        """Removes a file; fine if it is gone."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/delete", json={"path": path, "anywhere": anywhere, "pathEncoding": path_encoding}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def fs_list(
        self,
        sandbox_id: str,
        *,
        path: Optional[str] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.FileList:
        """Lists a directory."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/list", json={"path": path, "anywhere": anywhere, "pathEncoding": path_encoding}, again=True
        )
        answer: m.FileList = from_json("FileList", content_)
        return answer

    async def fs_search(
        self,
        sandbox_id: str,
        pattern: str,
        *,
        dir: Optional[str] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.FilePaths:
        """Finds regular files by name, in all folders below."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/search", json={"pattern": pattern, "dir": dir, "anywhere": anywhere, "pathEncoding": path_encoding}, again=True
        )
        answer: m.FilePaths = from_json("FilePaths", content_)
        return answer

    async def fs_upload(
        self,
        sandbox_id: str,
        *,
        content: Content = b"",
        path: Optional[str] = None,
        mode: Optional[str] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.Success:
        """Replaces a file with bytes; a stream has no size limit but the sandbox's disk."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/upload", query={"path": path, "mode": mode, "anywhere": anywhere, "pathEncoding": path_encoding}, content=content
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    def fs_download(
        self,
        sandbox_id: str,
        path: str,
        *,
        offset: Optional[int] = None,
        limit: Optional[int] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> AsyncIterator[bytes]:
        """Reads a file's bytes; with Accept: application/octet-stream as they are, piece by piece."""
        return self._client.download(f"/sandboxes/{_q(sandbox_id)}/files/download", json={"path": path, "offset": offset, "limit": limit, "anywhere": anywhere, "pathEncoding": path_encoding})

    async def fs_info(
        self,
        sandbox_id: str,
        *,
        paths: Optional[List[str]] = None,
        path: Optional[str] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.FileMetaAnswer:
        """Shows what paths are."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/info", json={"paths": paths, "path": path, "anywhere": anywhere, "pathEncoding": path_encoding}, again=True
        )
        answer: m.FileMetaAnswer = from_json("FileMetaAnswer", content_)
        return answer

    async def fs_move(
        self,
        sandbox_id: str,
        moves: List[Union[m.FileMove, Mapping[str, Any]]],
        *,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.Success:
        """Moves as mv does: onto a directory means into it, and a directory replaces nothing; stops at the first failure."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/move", json={"moves": moves, "anywhere": anywhere, "pathEncoding": path_encoding}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def fs_copy(
        self,
        sandbox_id: str,
        from_: str,
        to: str,
        *,
        replace: Optional[bool] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.Success:
        """Copies a file, or a directory with all that is in it, with modes, owners and times."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/copy", json={"from": from_, "to": to, "replace": replace, "anywhere": anywhere, "pathEncoding": path_encoding}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def fs_symlink(
        self,
        sandbox_id: str,
        path: str,
        target: str,
        *,
        replace: Optional[bool] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.Success:
        """Makes a symbolic link; parents are made."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/symlink", json={"path": path, "target": target, "replace": replace, "anywhere": anywhere, "pathEncoding": path_encoding}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def fs_mkdir(
        self,
        sandbox_id: str,
        *,
        paths: Optional[List[str]] = None,
        path: Optional[str] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.Success:
        """Makes directories and their parents."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/mkdir", json={"paths": paths, "path": path, "anywhere": anywhere, "pathEncoding": path_encoding}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def fs_rmdir(
        self,
        sandbox_id: str,
        *,
        paths: Optional[List[str]] = None,
        path: Optional[str] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.Success:
        """Removes directories and what is in them."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/rmdir", json={"paths": paths, "path": path, "anywhere": anywhere, "pathEncoding": path_encoding}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def fs_chmod(
        self,
        sandbox_id: str,
        path: str,
        mode: str,
        *,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> m.Success:
        """Changes a file's mode."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/files/chmod", json={"path": path, "mode": mode, "anywhere": anywhere, "pathEncoding": path_encoding}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def queue_submit(
        self,
        sandbox_id: str,
        command: Union[str, List[str]],
        *,
        max_retries: Optional[int] = None,
        timeout: Optional[float] = None,
        retry_on_exit: Optional[bool] = None,
        retry_delay: Optional[float] = None,
        priority: Optional[int] = None,
        delay: Optional[float] = None,
        run_at: Optional[int] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
    ) -> m.Job:
        """Puts a command into the queue, which runs it when its turn comes, also after a restart; while the sandbox is paused or
        stopped it waits."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/exec/queue", json={"command": command, "maxRetries": max_retries, "timeout": timeout, "retryOnExit": retry_on_exit, "retryDelay": retry_delay, "priority": priority, "delay": delay, "runAt": run_at, "cwd": cwd, "env": env, "user": user}, idempotent=True
        )
        answer: m.Job = from_json("Job", content_)
        return answer

    async def queue_list(
        self,
        *,
        sandbox_id: Optional[str] = None,
        status: Optional[str] = None,
        limit: Optional[int] = None,
        offset: Optional[int] = None,
    ) -> m.JobList:
        """Lists jobs, the newest first."""
        content_ = await self._client.call_bytes(
            "GET", "/queue", query={"sandboxId": sandbox_id, "status": status, "limit": limit, "offset": offset}
        )
        answer: m.JobList = from_json("JobList", content_)
        return answer

    async def queue_status(self, job_id: str) -> m.Job:
        """Shows a job, and once it is over its result."""
        content_ = await self._client.call_bytes(
            "GET", f"/queue/{_q(job_id)}/status"
        )
        answer: m.Job = from_json("Job", content_)
        return answer

    async def queue_logs(self, job_id: str, *, cursor: Optional[int] = None) -> m.JobLogs:
        """Gives what a job has put out, also while it runs."""
        content_ = await self._client.call_bytes(
            "GET", f"/queue/{_q(job_id)}/logs", query={"cursor": cursor}
        )
        answer: m.JobLogs = from_json("JobLogs", content_)
        return answer

    async def queue_cancel(self, job_id: str) -> m.JobCancelled:
        """Takes a job out of the queue; one that runs is ended, with all that it started."""
        content_ = await self._client.call_bytes(
            "POST", f"/queue/{_q(job_id)}/cancel"
        )
        answer: m.JobCancelled = from_json("JobCancelled", content_)
        return answer

    async def queue_dlq(
        self,
        *,
        sandbox_id: Optional[str] = None,
        limit: Optional[int] = None,
        offset: Optional[int] = None,
    ) -> m.JobList:
        """Lists the jobs that failed: the dead letters."""
        content_ = await self._client.call_bytes(
            "GET", "/queue/dlq", query={"sandboxId": sandbox_id, "limit": limit, "offset": offset}
        )
        answer: m.JobList = from_json("JobList", content_)
        return answer

    async def queue_purge(self, *, sandbox_id: Optional[str] = None) -> m.JobsPurged:
        """Forgets the jobs that failed."""
        content_ = await self._client.call_bytes(
            "DELETE", "/queue/dlq", query={"sandboxId": sandbox_id}
        )
        answer: m.JobsPurged = from_json("JobsPurged", content_)
        return answer

    async def queue_requeue(self, job_id: str) -> m.Job:
        """Puts a job that failed into the queue again, with all its tries."""
        content_ = await self._client.call_bytes(
            "POST", f"/queue/dlq/{_q(job_id)}/requeue"
        )
        answer: m.Job = from_json("Job", content_)
        return answer

    async def queue_forget(self, job_id: str) -> m.JobsPurged:
        """Forgets a job that failed."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/queue/dlq/{_q(job_id)}"
        )
        answer: m.JobsPurged = from_json("JobsPurged", content_)
        return answer

    def fs_watch(
        self,
        sandbox_id: str,
        *,
        path: Optional[str] = None,
        recursive: Optional[bool] = None,
        events: Optional[List[str]] = None,
        ignore: Optional[List[str]] = None,
        publish: Optional[bool] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> AsyncIterator[m.FileChange]:
        """Tells of changes to files as they happen."""
        return self._events("FileChange", "POST", f"/sandboxes/{_q(sandbox_id)}/files/watch", json={"path": path, "recursive": recursive, "events": events, "ignore": ignore, "publish": publish, "anywhere": anywhere, "pathEncoding": path_encoding})

    async def fs_watch_socket(
        self,
        sandbox_id: str,
        *,
        path: Optional[str] = None,
        recursive: Optional[bool] = None,
        events: Optional[List[str]] = None,
        ignore: Optional[List[str]] = None,
        publish: Optional[bool] = None,
        anywhere: Optional[bool] = None,
        path_encoding: Optional[str] = None,
    ) -> WebSocket:
        """Tells of changes to files as they happen, over a WebSocket."""
        return await self._client.websocket(f"/sandboxes/{_q(sandbox_id)}/files/watch/ws", {"path": path, "recursive": recursive, "events": events, "ignore": ignore, "publish": publish, "anywhere": anywhere, "pathEncoding": path_encoding})

    async def interp_execute(
        self,
        sandbox_id: str,
        code: str,
        *,
        language: Optional[str] = None,
        context_id: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> m.Execution:
        """Runs code and waits for it; what it prints and gives comes as events to who asks for them."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/interpret/execute", json={"code": code, "language": language, "contextId": context_id, "cwd": cwd, "env": env, "user": user, "timeout": timeout}
        )
        answer: m.Execution = from_json("Execution", content_)
        return answer

    def interp_execute_events(
        self,
        sandbox_id: str,
        code: str,
        *,
        language: Optional[str] = None,
        context_id: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> AsyncIterator[m.ExecutionEvent]:
        """Runs code and waits for it; what it prints and gives comes as events to who asks for them, and tells how far it is."""
        return self._events("ExecutionEvent", "POST", f"/sandboxes/{_q(sandbox_id)}/interpret/execute", json={"code": code, "language": language, "contextId": context_id, "cwd": cwd, "env": env, "user": user, "timeout": timeout})

    async def interp_install(
        self,
        sandbox_id: str,
        packages: List[str],
        *,
        manager: Optional[str] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> m.Installed:
        """Installs packages for a language, or of the system."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/interpret/install", json={"packages": packages, "manager": manager, "user": user, "timeout": timeout}
        )
        answer: m.Installed = from_json("Installed", content_)
        return answer

    async def interp_kernels(self, sandbox_id: str) -> m.Kernels:
        """Lists the languages that this sandbox has."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/interpret/kernels"
        )
        answer: m.Kernels = from_json("Kernels", content_)
        return answer

    async def interp_context_create(
        self,
        sandbox_id: str,
        *,
        language: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        imports: Optional[List[str]] = None,
        idle_timeout: Optional[int] = None,
    ) -> m.CodeContext:
        """Starts an interpreter that keeps what code leaves in it."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/interpret/contexts", json={"language": language, "cwd": cwd, "env": env, "user": user, "imports": imports, "idleTimeout": idle_timeout}, idempotent=True
        )
        answer: m.CodeContext = from_json("CodeContext", content_)
        return answer

    async def interp_context_list(self, sandbox_id: str) -> m.CodeContextList:
        """Lists the contexts of a sandbox."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/interpret/contexts"
        )
        answer: m.CodeContextList = from_json("CodeContextList", content_)
        return answer

    async def interp_context_get(self, sandbox_id: str, context_id: str) -> m.CodeContext:
        """Shows a context."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/interpret/contexts/{_q(context_id)}"
        )
        answer: m.CodeContext = from_json("CodeContext", content_)
        return answer

    async def interp_context_delete(self, sandbox_id: str, context_id: str) -> m.Success:
        """Ends a context, with all that it started."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/sandboxes/{_q(sandbox_id)}/interpret/contexts/{_q(context_id)}"
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def interp_context_restart(self, sandbox_id: str, context_id: str) -> m.CodeContext:
        """Ends a context and starts it anew, empty, with the same id and settings."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/interpret/contexts/{_q(context_id)}/restart"
        )
        answer: m.CodeContext = from_json("CodeContext", content_)
        return answer

    async def interp_context_interrupt(self, sandbox_id: str, context_id: str) -> m.Success:
        """Interrupts what a context runs, as Ctrl-C does; what it keeps stays."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/interpret/contexts/{_q(context_id)}/interrupt"
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def env_get(self, sandbox_id: str, key: str) -> m.EnvValue:
        """Reads a variable of the environment."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/env/get", json={"key": key}, again=True
        )
        answer: m.EnvValue = from_json("EnvValue", content_)
        return answer

    async def env_set(self, sandbox_id: str, vars: Mapping[str, str]) -> m.EnvSet:
        """Sets variables for every later command."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/env", json={"vars": vars}
        )
        answer: m.EnvSet = from_json("EnvSet", content_)
        return answer

    async def env_list(self, sandbox_id: str) -> m.EnvList:
        """Lists the environment of commands."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/env"
        )
        answer: m.EnvList = from_json("EnvList", content_)
        return answer

    async def env_delete(self, sandbox_id: str, key: str) -> m.EnvDeleted:
        """Removes a variable."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/env/delete", json={"key": key}
        )
        answer: m.EnvDeleted = from_json("EnvDeleted", content_)
        return answer

    async def git_clone(
        self,
        sandbox_id: str,
        url: str,
        *,
        path: Optional[str] = None,
        branch: Optional[str] = None,
        depth: Optional[int] = None,
        username: Optional[str] = None,
        password: Optional[str] = None,
        token: Optional[str] = None,
        credentials: Optional[Union[m.GitCredentials, Mapping[str, Any]]] = None,
        timeout: Optional[float] = None,
    ) -> m.ExecResult:
        """Clones a repository with the sandbox's git."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/git/clone", json={"url": url, "path": path, "branch": branch, "depth": depth, "username": username, "password": password, "token": token, "credentials": credentials, "timeout": timeout}
        )
        answer: m.ExecResult = from_json("ExecResult", content_)
        return answer

    def git_clone_events(
        self,
        sandbox_id: str,
        url: str,
        *,
        path: Optional[str] = None,
        branch: Optional[str] = None,
        depth: Optional[int] = None,
        username: Optional[str] = None,
        password: Optional[str] = None,
        token: Optional[str] = None,
        credentials: Optional[Union[m.GitCredentials, Mapping[str, Any]]] = None,
        timeout: Optional[float] = None,
    ) -> AsyncIterator[m.GitEvent]:
        """Clones a repository with the sandbox's git, and tells how far it is."""
        return self._events("GitEvent", "POST", f"/sandboxes/{_q(sandbox_id)}/git/clone", json={"url": url, "path": path, "branch": branch, "depth": depth, "username": username, "password": password, "token": token, "credentials": credentials, "timeout": timeout})

    async def git_status(self, sandbox_id: str, *, path: Optional[str] = None) -> m.GitStatus:
        """Shows what is not as in the last commit."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/git/status", query={"path": path}
        )
        answer: m.GitStatus = from_json("GitStatus", content_)
        return answer

    async def git_commit(
        self,
        sandbox_id: str,
        message: str,
        *,
        path: Optional[str] = None,
        all: Optional[bool] = None,
        author_name: Optional[str] = None,
        author_email: Optional[str] = None,
    ) -> m.ExecResult:
        """Makes a commit."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/git/commit", json={"message": message, "path": path, "all": all, "authorName": author_name, "authorEmail": author_email}
        )
        answer: m.ExecResult = from_json("ExecResult", content_)
        return answer

    async def git_diff(
        self,
        sandbox_id: str,
        *,
        path: Optional[str] = None,
        staged: Optional[bool] = None,
        file: Optional[str] = None,
    ) -> m.GitDiff:
        """Shows what has changed."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/git/diff", query={"path": path, "staged": staged, "file": file}
        )
        answer: m.GitDiff = from_json("GitDiff", content_)
        return answer

    async def git_log(self, sandbox_id: str, *, path: Optional[str] = None, count: Optional[int] = None) -> m.GitLog:
        """Lists the last commits."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/git/log", query={"path": path, "count": count}
        )
        answer: m.GitLog = from_json("GitLog", content_)
        return answer

    async def git_branch(
        self,
        sandbox_id: str,
        *,
        path: Optional[str] = None,
        name: Optional[str] = None,
        delete: Optional[bool] = None,
        force: Optional[bool] = None,
        start: Optional[str] = None,
    ) -> m.GitBranches:
        """Lists branches, makes one or deletes one."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/git/branch", json={"path": path, "name": name, "delete": delete, "force": force, "start": start}
        )
        answer: m.GitBranches = from_json("GitBranches", content_)
        return answer

    async def git_checkout(self, sandbox_id: str, ref: str, *, path: Optional[str] = None) -> m.ExecResult:
        """Checks out a branch, a tag or a commit."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/git/checkout", json={"ref": ref, "path": path}
        )
        answer: m.ExecResult = from_json("ExecResult", content_)
        return answer

    async def git_push(
        self,
        sandbox_id: str,
        *,
        path: Optional[str] = None,
        remote: Optional[str] = None,
        branch: Optional[str] = None,
        username: Optional[str] = None,
        password: Optional[str] = None,
        token: Optional[str] = None,
        credentials: Optional[Union[m.GitCredentials, Mapping[str, Any]]] = None,
        timeout: Optional[float] = None,
        force: Optional[bool] = None,
        set_upstream: Optional[bool] = None,
    ) -> m.ExecResult:
        """Pushes commits to a remote."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/git/push", json={"path": path, "remote": remote, "branch": branch, "username": username, "password": password, "token": token, "credentials": credentials, "timeout": timeout, "force": force, "setUpstream": set_upstream}
        )
        answer: m.ExecResult = from_json("ExecResult", content_)
        return answer

    def git_push_events(
        self,
        sandbox_id: str,
        *,
        path: Optional[str] = None,
        remote: Optional[str] = None,
        branch: Optional[str] = None,
        username: Optional[str] = None,
        password: Optional[str] = None,
        token: Optional[str] = None,
        credentials: Optional[Union[m.GitCredentials, Mapping[str, Any]]] = None,
        timeout: Optional[float] = None,
        force: Optional[bool] = None,
        set_upstream: Optional[bool] = None,
    ) -> AsyncIterator[m.GitEvent]:
        """Pushes commits to a remote, and tells how far it is."""
        return self._events("GitEvent", "POST", f"/sandboxes/{_q(sandbox_id)}/git/push", json={"path": path, "remote": remote, "branch": branch, "username": username, "password": password, "token": token, "credentials": credentials, "timeout": timeout, "force": force, "setUpstream": set_upstream})

    async def git_pull(
        self,
        sandbox_id: str,
        *,
        path: Optional[str] = None,
        remote: Optional[str] = None,
        branch: Optional[str] = None,
        username: Optional[str] = None,
        password: Optional[str] = None,
        token: Optional[str] = None,
        credentials: Optional[Union[m.GitCredentials, Mapping[str, Any]]] = None,
        timeout: Optional[float] = None,
        rebase: Optional[bool] = None,
    ) -> m.ExecResult:
        """Takes commits from a remote."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/git/pull", json={"path": path, "remote": remote, "branch": branch, "username": username, "password": password, "token": token, "credentials": credentials, "timeout": timeout, "rebase": rebase}
        )
        answer: m.ExecResult = from_json("ExecResult", content_)
        return answer

    def git_pull_events(
        self,
        sandbox_id: str,
        *,
        path: Optional[str] = None,
        remote: Optional[str] = None,
        branch: Optional[str] = None,
        username: Optional[str] = None,
        password: Optional[str] = None,
        token: Optional[str] = None,
        credentials: Optional[Union[m.GitCredentials, Mapping[str, Any]]] = None,
        timeout: Optional[float] = None,
        rebase: Optional[bool] = None,
    ) -> AsyncIterator[m.GitEvent]:
        """Takes commits from a remote, and tells how far it is."""
        return self._events("GitEvent", "POST", f"/sandboxes/{_q(sandbox_id)}/git/pull", json={"path": path, "remote": remote, "branch": branch, "username": username, "password": password, "token": token, "credentials": credentials, "timeout": timeout, "rebase": rebase})

    async def monitor_set_alert(
        self,
        sandbox_id: str,
        metric: str,
        threshold: float,
        *,
        action: Optional[str] = None,
    ) -> m.Alert:
        """Sets a threshold for what a sandbox uses."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/alerts", json={"metric": metric, "threshold": threshold, "action": action}, idempotent=True
        )
        answer: m.Alert = from_json("Alert", content_)
        return answer

    async def monitor_list_alerts(self, sandbox_id: str) -> m.AlertList:
        """Lists the alerts of a sandbox."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/alerts"
        )
        answer: m.AlertList = from_json("AlertList", content_)
        return answer

    async def monitor_delete_alert(self, alert_id: str) -> m.AlertDeleted:
        """Deletes an alert."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/alerts/{_q(alert_id)}"
        )
        answer: m.AlertDeleted = from_json("AlertDeleted", content_)
        return answer

    async def monitor_alert_history(self, sandbox_id: str, *, limit: Optional[int] = None) -> m.AlertHistory:
        """Tells when alerts of a sandbox have fired."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/alerts/history", query={"limit": limit}
        )
        answer: m.AlertHistory = from_json("AlertHistory", content_)
        return answer

    async def proc_list(self, sandbox_id: str) -> m.ProcessList:
        """Lists the processes of a sandbox."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/processes"
        )
        answer: m.ProcessList = from_json("ProcessList", content_)
        return answer

    async def proc_kill(self, sandbox_id: str, pid: int, *, signal: Optional[str] = None) -> m.ProcessKilled:
        """Sends a signal; fine if the process is gone."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/processes/kill", json={"pid": pid, "signal": signal}
        )
        answer: m.ProcessKilled = from_json("ProcessKilled", content_)
        return answer

    async def proc_top(self, sandbox_id: str) -> m.ProcessTop:
        """Lists the processes with what they use."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/processes/top"
        )
        answer: m.ProcessTop = from_json("ProcessTop", content_)
        return answer

    async def metrics_sandbox(self, sandbox_id: str) -> m.Metrics:
        """Shows what a sandbox uses."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/metrics"
        )
        answer: m.Metrics = from_json("Metrics", content_)
        return answer

    async def metrics_global(self) -> m.GlobalMetrics:
        """Shows counters of the daemon."""
        content_ = await self._client.call_bytes(
            "GET", "/metrics"
        )
        answer: m.GlobalMetrics = from_json("GlobalMetrics", content_)
        return answer

    async def metrics_health(self) -> m.Health:
        """Says that the daemon answers."""
        content_ = await self._client.call_bytes(
            "GET", "/health"
        )
        answer: m.Health = from_json("Health", content_)
        return answer

    async def observability_traces(
        self,
        *,
        sandbox_id: Optional[str] = None,
        function_id: Optional[str] = None,
        status: Optional[str] = None,
        trace_id: Optional[str] = None,
        since: Optional[int] = None,
        limit: Optional[int] = None,
        offset: Optional[int] = None,
    ) -> m.Traces:
        """Lists calls that have ended, newest first."""
        content_ = await self._client.call_bytes(
            "GET", "/observability/traces", query={"sandboxId": sandbox_id, "functionId": function_id, "status": status, "traceId": trace_id, "since": since, "limit": limit, "offset": offset}
        )
        answer: m.Traces = from_json("Traces", content_)
        return answer

    async def observability_metrics(self) -> m.ObservabilityMetrics:
        """Shows what all calls add up to: counts, failures, percentiles."""
        content_ = await self._client.call_bytes(
            "GET", "/observability/metrics"
        )
        answer: m.ObservabilityMetrics = from_json("ObservabilityMetrics", content_)
        return answer

    async def observability_clear(self, *, before: Optional[int] = None) -> m.TracesCleared:
        """Removes traces; counters of /metrics stay."""
        content_ = await self._client.call_bytes(
            "POST", "/observability/clear", json={"before": before}
        )
        answer: m.TracesCleared = from_json("TracesCleared", content_)
        return answer

    async def metrics_prometheus(self) -> str:
        """Tells all metrics as text for Prometheus; also at /metrics without the prefix."""
        return (await self._client.call_bytes("GET", "/metrics/prometheus", accept="text/plain")).decode()

    async def metrics_history(self, sandbox_id: str, *, since: Optional[int] = None) -> m.MetricsHistory:
        """Shows what a sandbox used within the last hour."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/metrics/history", query={"since": since}
        )
        answer: m.MetricsHistory = from_json("MetricsHistory", content_)
        return answer

    def stream_logs(
        self,
        sandbox_id: str,
        *,
        tail: Optional[int] = None,
        follow: Optional[bool] = None,
    ) -> AsyncIterator[m.LogEvent]:
        """Streams the output of the main process, line by line."""
        return self._events("LogEvent", "GET", f"/sandboxes/{_q(sandbox_id)}/stream/logs", query={"tail": tail, "follow": follow})

    def stream_metrics(self, sandbox_id: str, *, interval: Optional[float] = None) -> AsyncIterator[m.Metrics]:
        """Streams what a sandbox uses."""
        return self._events("Metrics", "GET", f"/sandboxes/{_q(sandbox_id)}/stream/metrics", query={"interval": interval})

    async def image_list(self) -> m.ImageList:
        """Lists images."""
        content_ = await self._client.call_bytes(
            "GET", "/images"
        )
        answer: m.ImageList = from_json("ImageList", content_)
        return answer

    async def image_catalog(self) -> m.ImageCatalog:
        """Lists the short names of images and what they stand for."""
        content_ = await self._client.call_bytes(
            "GET", "/images/catalog"
        )
        answer: m.ImageCatalog = from_json("ImageCatalog", content_)
        return answer

    async def image_pull(
        self,
        reference: str,
        *,
        name: Optional[str] = None,
        registry_auth: Optional[Union[m.RegistryAuth, Mapping[str, Any]]] = None,
        insecure: Optional[bool] = None,
        platform: Optional[str] = None,
        policy: Optional[str] = None,
    ) -> m.Image:
        """Gets an image from its registry."""
        content_ = await self._client.call_bytes(
            "POST", "/images/pull", json={"reference": reference, "name": name, "registry_auth": registry_auth, "insecure": insecure, "platform": platform, "policy": policy}
        )
        answer: m.Image = from_json("Image", content_)
        return answer

    def image_pull_events(
        self,
        reference: str,
        *,
        name: Optional[str] = None,
        registry_auth: Optional[Union[m.RegistryAuth, Mapping[str, Any]]] = None,
        insecure: Optional[bool] = None,
        platform: Optional[str] = None,
        policy: Optional[str] = None,
    ) -> AsyncIterator[m.PullEvent]:
        """Gets an image from its registry, and tells how far it is."""
        return self._events("PullEvent", "POST", "/images/pull", json={"reference": reference, "name": name, "registry_auth": registry_auth, "insecure": insecure, "platform": platform, "policy": policy})

    async def image_import(self, path: str, *, name: Optional[str] = None) -> m.Image:
        """Makes an image from a directory or an archive; only for root, on the unix socket."""
        content_ = await self._client.call_bytes(
            "POST", "/images/import", json={"path": path, "name": name}
        )
        answer: m.Image = from_json("Image", content_)
        return answer

    def image_import_events(self, path: str, *, name: Optional[str] = None) -> AsyncIterator[m.PullEvent]:
        """Makes an image from a directory or an archive; only for root, on the unix socket, and tells how far it is."""
        return self._events("PullEvent", "POST", "/images/import", json={"path": path, "name": name})

    async def image_prune(
        self,
        *,
        unused_for: Optional[int] = None,
        keep_mb: Optional[int] = None,
        dry_run: Optional[bool] = None,
    ) -> m.ImagePrune:
        """Removes images that no sandbox uses."""
        content_ = await self._client.call_bytes(
            "POST", "/images/prune", json={"unusedFor": unused_for, "keepMb": keep_mb, "dryRun": dry_run}
        )
        answer: m.ImagePrune = from_json("ImagePrune", content_)
        return answer

    async def image_get(self, name: str) -> m.Image:
        """Shows an image; / and : of its name are percent-encoded."""
        content_ = await self._client.call_bytes(
            "GET", f"/images/{_q(name)}"
        )
        answer: m.Image = from_json("Image", content_)
        return answer

    async def image_remove(self, name: str) -> m.ImageDeleted:
        """Removes an image that no sandbox uses."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/images/{_q(name)}"
        )
        answer: m.ImageDeleted = from_json("ImageDeleted", content_)
        return answer

    async def image_tag(self, image: str, name: str) -> m.Image:
        """Gives an image one more name."""
        content_ = await self._client.call_bytes(
            "POST", f"/images/{_q(image)}/tag", json={"name": name}
        )
        answer: m.Image = from_json("Image", content_)
        return answer

    def image_export(self, name: str) -> AsyncIterator[bytes]:
        """Gives an image as an OCI layout in a tar archive, which docker load takes too, piece by piece."""
        return self._client.download(f"/images/{_q(name)}/export", method="GET", accept="application/x-tar")

    async def image_commit(
        self,
        sandbox_id: str,
        name: str,
        *,
        env: Optional[Mapping[str, str]] = None,
        workdir: Optional[str] = None,
        user: Optional[str] = None,
        entrypoint: Optional[List[str]] = None,
        cmd: Optional[List[str]] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> m.Image:
        """Makes an image of a sandbox as it is; one that runs stands still meanwhile."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/commit", json={"name": name, "env": env, "workdir": workdir, "user": user, "entrypoint": entrypoint, "cmd": cmd, "labels": labels}, idempotent=True
        )
        answer: m.Image = from_json("Image", content_)
        return answer

    async def lifecycle_sweep(self) -> m.Sweep:
        """Removes expired sandboxes now."""
        content_ = await self._client.call_bytes(
            "POST", "/admin/sweep"
        )
        answer: m.Sweep = from_json("Sweep", content_)
        return answer

    async def system_strays(self) -> m.Strays:
        """Lists what is on this machine and belongs to no sandbox."""
        content_ = await self._client.call_bytes(
            "GET", "/admin/strays"
        )
        answer: m.Strays = from_json("Strays", content_)
        return answer

    async def system_stray_adopt(self, stray_id: str) -> m.Sandbox:
        """Makes a stopped sandbox of a disk that belongs to none."""
        content_ = await self._client.call_bytes(
            "POST", f"/admin/strays/{_q(stray_id)}/adopt"
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def system_stray_remove(self, stray_id: str) -> m.Success:
        """Removes a disk that belongs to no sandbox."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/admin/strays/{_q(stray_id)}"
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def system_info(self) -> m.Info:
        """Says what this daemon is."""
        content_ = await self._client.call_bytes(
            "GET", "/info"
        )
        answer: m.Info = from_json("Info", content_)
        return answer

    async def system_openapi(self) -> m.OpenApi:
        """Gives this description; also outside of the prefix."""
        content_ = await self._client.call_bytes(
            "GET", "/openapi.json"
        )
        answer: m.OpenApi = from_json("OpenApi", content_)
        return answer

    async def worker_heartbeat(self) -> m.Worker:
        """Shows this machine as it is now."""
        content_ = await self._client.call_bytes(
            "POST", "/admin/workers/heartbeat"
        )
        answer: m.Worker = from_json("Worker", content_)
        return answer

    async def worker_list(self) -> m.WorkerList:
        """Lists the machines with sandboxes: this one."""
        content_ = await self._client.call_bytes(
            "GET", "/admin/workers"
        )
        answer: m.WorkerList = from_json("WorkerList", content_)
        return answer

    async def worker_select(self) -> m.WorkerSelected:
        """Says on which machine there is room for another sandbox."""
        content_ = await self._client.call_bytes(
            "GET", "/admin/workers/select"
        )
        answer: m.WorkerSelected = from_json("WorkerSelected", content_)
        return answer

    async def worker_reap(self) -> m.WorkersReaped:
        """Takes over what machines had that are gone: of one machine there are none."""
        content_ = await self._client.call_bytes(
            "POST", "/admin/workers/reap"
        )
        answer: m.WorkersReaped = from_json("WorkersReaped", content_)
        return answer

    async def worker_migrate(self) -> m.WorkersMigrated:
        """Gives sandboxes without a machine to this one: all have it already."""
        content_ = await self._client.call_bytes(
            "POST", "/admin/workers/migrate"
        )
        answer: m.WorkersMigrated = from_json("WorkersMigrated", content_)
        return answer

    async def template_create(
        self,
        name: str,
        config: Union[m.TemplateConfig, Mapping[str, Any]],
        *,
        description: Optional[str] = None,
        build: Optional[bool] = None,
    ) -> m.Template:
        """Makes a template; with setup it is built first."""
        content_ = await self._client.call_bytes(
            "POST", "/templates", json={"name": name, "description": description, "config": config, "build": build}, idempotent=True
        )
        answer: m.Template = from_json("Template", content_)
        return answer

    def template_create_events(
        self,
        name: str,
        config: Union[m.TemplateConfig, Mapping[str, Any]],
        *,
        description: Optional[str] = None,
        build: Optional[bool] = None,
    ) -> AsyncIterator[m.TemplateBuildEvent]:
        """Makes a template; with setup it is built first, and tells how far it is."""
        return self._events("TemplateBuildEvent", "POST", "/templates", json={"name": name, "description": description, "config": config, "build": build}, idempotent=True)

    async def template_list(self) -> m.TemplateList:
        """Lists templates."""
        content_ = await self._client.call_bytes(
            "GET", "/templates"
        )
        answer: m.TemplateList = from_json("TemplateList", content_)
        return answer

    async def template_get(self, template_id: str) -> m.Template:
        """Shows a template."""
        content_ = await self._client.call_bytes(
            "GET", f"/templates/{_q(template_id)}"
        )
        answer: m.Template = from_json("Template", content_)
        return answer

    async def template_delete(self, template_id: str) -> m.TemplateDeleted:
        """Removes a template; sandboxes made from it stay."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/templates/{_q(template_id)}"
        )
        answer: m.TemplateDeleted = from_json("TemplateDeleted", content_)
        return answer

    async def template_build(
        self,
        template_id: str,
        *,
        pull: Optional[bool] = None,
        no_cache: Optional[bool] = None,
    ) -> m.Template:
        """Builds a template again, on what its image's name means now."""
        content_ = await self._client.call_bytes(
            "POST", f"/templates/{_q(template_id)}/build", json={"pull": pull, "noCache": no_cache}
        )
        answer: m.Template = from_json("Template", content_)
        return answer

    def template_build_events(
        self,
        template_id: str,
        *,
        pull: Optional[bool] = None,
        no_cache: Optional[bool] = None,
    ) -> AsyncIterator[m.TemplateBuildEvent]:
        """Builds a template again, on what its image's name means now, and tells how far it is."""
        return self._events("TemplateBuildEvent", "POST", f"/templates/{_q(template_id)}/build", json={"pull": pull, "noCache": no_cache})

    async def template_build_directory(
        self,
        *,
        content: Content = b"",
        name: Optional[str] = None,
        description: Optional[str] = None,
        file: Optional[str] = None,
        apart: Optional[str] = None,
        dockerfile: Optional[str] = None,
        target: Optional[str] = None,
        build_args: Optional[Mapping[str, str]] = None,
        no_cache: Optional[bool] = None,
        memory: Optional[int] = None,
        cpu: Optional[float] = None,
        disk: Optional[int] = None,
        network: Optional[Union[bool, str, Mapping[str, Any]]] = None,
        step_timeout: Optional[int] = None,
    ) -> m.Template:
        """Builds a template from a Dockerfile or a cay.json; its files come as a tar archive, application/octet-stream, and the rest
        in the query."""
        content_ = await self._client.call_bytes(
            "POST", "/templates/build", query={"name": name, "description": description, "file": file, "apart": apart, "dockerfile": dockerfile, "target": target, "buildArgs": build_args, "noCache": no_cache, "memory": memory, "cpu": cpu, "disk": disk, "network": network, "stepTimeout": step_timeout}, content=content
        )
        answer: m.Template = from_json("Template", content_)
        return answer

    def template_build_directory_events(
        self,
        *,
        content: Content = b"",
        name: Optional[str] = None,
        description: Optional[str] = None,
        file: Optional[str] = None,
        apart: Optional[str] = None,
        dockerfile: Optional[str] = None,
        target: Optional[str] = None,
        build_args: Optional[Mapping[str, str]] = None,
        no_cache: Optional[bool] = None,
        memory: Optional[int] = None,
        cpu: Optional[float] = None,
        disk: Optional[int] = None,
        network: Optional[Union[bool, str, Mapping[str, Any]]] = None,
        step_timeout: Optional[int] = None,
    ) -> AsyncIterator[m.TemplateBuildEvent]:
        """Builds a template from a Dockerfile or a cay.json; its files come as a tar archive, application/octet-stream, and the rest
        in the query, and tells how far it is."""
        return self._events("TemplateBuildEvent", "POST", "/templates/build", query={"name": name, "description": description, "file": file, "apart": apart, "dockerfile": dockerfile, "target": target, "buildArgs": build_args, "noCache": no_cache, "memory": memory, "cpu": cpu, "disk": disk, "network": network, "stepTimeout": step_timeout}, content=content)

    async def snapshot_create(
        self,
        sandbox_id: str,
        *,
        name: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> m.Snapshot:
        """Keeps a sandbox's disk as it is now; one that runs stands still while what it changed is copied."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/snapshots", json={"name": name, "labels": labels}, idempotent=True
        )
        answer: m.Snapshot = from_json("Snapshot", content_)
        return answer

    async def snapshot_list(self, sandbox_id: str, *, labels: Optional[Mapping[str, str]] = None) -> m.SnapshotList:
        """Lists the snapshots of a sandbox, which may be gone itself; the newest first."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/snapshots", query={"labels": labels}
        )
        answer: m.SnapshotList = from_json("SnapshotList", content_)
        return answer

    async def snapshot_restore(self, sandbox_id: str, snapshot_id: str) -> m.Sandbox:
        """Gives a sandbox the files of its snapshot back; its processes end, and the entrypoint runs again."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/snapshots/restore", json={"snapshotId": snapshot_id}
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def snapshot_all(self, *, labels: Optional[Mapping[str, str]] = None) -> m.SnapshotList:
        """Lists the snapshots of all sandboxes, the newest first."""
        content_ = await self._client.call_bytes(
            "GET", "/snapshots", query={"labels": labels}
        )
        answer: m.SnapshotList = from_json("SnapshotList", content_)
        return answer

    async def snapshot_import(
        self,
        path: str,
        image: str,
        *,
        name: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> m.Snapshot:
        """Makes a snapshot from a layer on top of an image; only for root, on the unix socket."""
        content_ = await self._client.call_bytes(
            "POST", "/snapshots/import", json={"path": path, "image": image, "name": name, "labels": labels}, idempotent=True
        )
        answer: m.Snapshot = from_json("Snapshot", content_)
        return answer

    def snapshot_export(self, snapshot_id: str) -> AsyncIterator[bytes]:
        """Gives what a snapshot has beyond its image, as an OCI layer in a tar archive, piece by piece."""
        return self._client.download(f"/snapshots/{_q(snapshot_id)}/export", method="GET", accept="application/x-tar")

    async def snapshot_get(self, snapshot_id: str) -> m.Snapshot:
        """Shows a snapshot."""
        content_ = await self._client.call_bytes(
            "GET", f"/snapshots/{_q(snapshot_id)}"
        )
        answer: m.Snapshot = from_json("Snapshot", content_)
        return answer

    async def snapshot_delete(self, snapshot_id: str) -> m.SnapshotDeleted:
        """Removes a snapshot."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/snapshots/{_q(snapshot_id)}"
        )
        answer: m.SnapshotDeleted = from_json("SnapshotDeleted", content_)
        return answer

    async def snapshot_label(
        self,
        snapshot_id: str,
        *,
        name: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> m.Snapshot:
        """Gives a snapshot another name, or labels."""
        content_ = await self._client.call_bytes(
            "POST", f"/snapshots/{_q(snapshot_id)}/label", json={"name": name, "labels": labels}
        )
        answer: m.Snapshot = from_json("Snapshot", content_)
        return answer

    async def snapshot_clone(
        self,
        snapshot_id: str,
        *,
        name: Optional[str] = None,
        unique: Optional[bool] = None,
        on_timeout: Optional[str] = None,
    ) -> m.Sandbox:
        """Makes a sandbox from a snapshot."""
        content_ = await self._client.call_bytes(
            "POST", f"/snapshots/{_q(snapshot_id)}/clone", json={"name": name, "unique": unique, "onTimeout": on_timeout}, idempotent=True
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def sandbox_diff(self, sandbox_id: str, *, snapshot_id: Optional[str] = None) -> m.Diff:
        """Tells which files of a sandbox were added, modified or deleted; one that runs stands still meanwhile."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/diff", query={"snapshotId": snapshot_id}
        )
        answer: m.Diff = from_json("Diff", content_)
        return answer

    async def sandbox_clone(
        self,
        sandbox_id: str,
        *,
        name: Optional[str] = None,
        unique: Optional[bool] = None,
        on_timeout: Optional[str] = None,
    ) -> m.Sandbox:
        """Makes a sandbox from another as it is now, with its files and its configuration."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/clone", json={"name": name, "unique": unique, "onTimeout": on_timeout}, idempotent=True
        )
        answer: m.Sandbox = from_json("Sandbox", content_)
        return answer

    async def sandbox_fork(
        self,
        sandbox_id: str,
        *,
        count: Optional[int] = None,
        name: Optional[str] = None,
        unique: Optional[bool] = None,
        on_timeout: Optional[str] = None,
    ) -> m.Fork:
        """Makes several such clones, or none."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/fork", json={"count": count, "name": name, "unique": unique, "onTimeout": on_timeout}, idempotent=True
        )
        answer: m.Fork = from_json("Fork", content_)
        return answer

    async def volume_create(
        self,
        name: str,
        *,
        size_mb: Optional[int] = None,
        driver: Optional[str] = None,
    ) -> m.Volume:
        """Makes a volume."""
        content_ = await self._client.call_bytes(
            "POST", "/volumes", json={"name": name, "sizeMb": size_mb, "driver": driver}, idempotent=True
        )
        answer: m.Volume = from_json("Volume", content_)
        return answer

    async def volume_list(self) -> m.VolumeList:
        """Lists volumes, the newest first."""
        content_ = await self._client.call_bytes(
            "GET", "/volumes"
        )
        answer: m.VolumeList = from_json("VolumeList", content_)
        return answer

    async def volume_get(self, volume_id: str) -> m.Volume:
        """Shows a volume and who has it."""
        content_ = await self._client.call_bytes(
            "GET", f"/volumes/{_q(volume_id)}"
        )
        answer: m.Volume = from_json("Volume", content_)
        return answer

    async def volume_delete(self, volume_id: str) -> m.VolumeDeleted:
        """Removes a volume that no sandbox has, and all that is in it."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/volumes/{_q(volume_id)}"
        )
        answer: m.VolumeDeleted = from_json("VolumeDeleted", content_)
        return answer

    async def volume_attach(
        self,
        volume_id: str,
        sandbox_id: str,
        mount_path: str,
        *,
        read_only: Optional[bool] = None,
        noexec: Optional[bool] = None,
        sub_path: Optional[str] = None,
    ) -> m.VolumeAttached:
        """Mounts a volume in a sandbox, at once and whenever it is started."""
        content_ = await self._client.call_bytes(
            "POST", f"/volumes/{_q(volume_id)}/attach", json={"sandboxId": sandbox_id, "mountPath": mount_path, "readOnly": read_only, "noexec": noexec, "subPath": sub_path}, idempotent=True
        )
        answer: m.VolumeAttached = from_json("VolumeAttached", content_)
        return answer

    async def volume_detach(
        self,
        volume_id: str,
        *,
        sandbox_id: Optional[str] = None,
        mount_path: Optional[str] = None,
    ) -> m.VolumeDetached:
        """Takes a volume out of a sandbox; refused while files of it are open."""
        content_ = await self._client.call_bytes(
            "POST", f"/volumes/{_q(volume_id)}/detach", json={"sandboxId": sandbox_id, "mountPath": mount_path}
        )
        answer: m.VolumeDetached = from_json("VolumeDetached", content_)
        return answer

    async def volume_files(self, volume_id: str, *, path: Optional[str] = None) -> m.FileList:
        """Lists a folder of a volume."""
        content_ = await self._client.call_bytes(
            "POST", f"/volumes/{_q(volume_id)}/files/list", json={"path": path}, again=True
        )
        answer: m.FileList = from_json("FileList", content_)
        return answer

    async def volume_file_info(self, volume_id: str, path: str) -> m.FileMeta:
        """Shows what a path of a volume is."""
        content_ = await self._client.call_bytes(
            "POST", f"/volumes/{_q(volume_id)}/files/info", json={"path": path}, again=True
        )
        answer: m.FileMeta = from_json("FileMeta", content_)
        return answer

    async def volume_read(self, volume_id: str, path: str) -> m.FileText:
        """Reads a file of a volume as text."""
        content_ = await self._client.call_bytes(
            "POST", f"/volumes/{_q(volume_id)}/files/read", json={"path": path}, again=True
        )
        answer: m.FileText = from_json("FileText", content_)
        return answer

    def volume_download(self, volume_id: str, path: str) -> AsyncIterator[bytes]:
        """Reads a file of a volume; with Accept: application/octet-stream as it is, piece by piece."""
        return self._client.download(f"/volumes/{_q(volume_id)}/files/download", json={"path": path})

    async def volume_write(self, volume_id: str, path: str, content: str) -> m.Success:
        """Replaces a file of a volume with text."""
        content_ = await self._client.call_bytes(
            "POST", f"/volumes/{_q(volume_id)}/files/write", json={"path": path, "content": content}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def volume_upload(
        self,
        volume_id: str,
        *,
        content: Content = b"",
        path: Optional[str] = None,
        mode: Optional[str] = None,
    ) -> m.Success:
        """Replaces a file of a volume with bytes."""
        content_ = await self._client.call_bytes(
            "POST", f"/volumes/{_q(volume_id)}/files/upload", query={"path": path, "mode": mode}, content=content
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def volume_mkdir(self, volume_id: str, path: str) -> m.Success:
        """Makes a folder in a volume, with those above it."""
        content_ = await self._client.call_bytes(
            "POST", f"/volumes/{_q(volume_id)}/files/mkdir", json={"path": path}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def volume_remove_file(self, volume_id: str, path: str, *, recursive: Optional[bool] = None) -> m.Success:
        """Removes a file or a folder of a volume."""
        content_ = await self._client.call_bytes(
            "POST", f"/volumes/{_q(volume_id)}/files/delete", json={"path": path, "recursive": recursive}
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def terminal_create(
        self,
        sandbox_id: str,
        *,
        cols: Optional[int] = None,
        rows: Optional[int] = None,
        shell: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        record: Optional[bool] = None,
    ) -> m.Terminal:
        """Starts a shell on a terminal, which goes on until it exits or is closed."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/terminal", json={"cols": cols, "rows": rows, "shell": shell, "cwd": cwd, "env": env, "user": user, "record": record}, idempotent=True
        )
        answer: m.Terminal = from_json("Terminal", content_)
        return answer

    async def terminal_list(self, sandbox_id: str) -> m.TerminalList:
        """Lists terminals, also those of commands; the newest first."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/terminal"
        )
        answer: m.TerminalList = from_json("TerminalList", content_)
        return answer

    async def terminal_get(self, sandbox_id: str, session_id: str) -> m.Terminal:
        """Shows a terminal."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/terminal/{_q(session_id)}"
        )
        answer: m.Terminal = from_json("Terminal", content_)
        return answer

    async def terminal_close(self, sandbox_id: str, session_id: str) -> m.TerminalClosed:
        """Ends the shell of a terminal and all that it started."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/sandboxes/{_q(sandbox_id)}/terminal/{_q(session_id)}"
        )
        answer: m.TerminalClosed = from_json("TerminalClosed", content_)
        return answer

    async def terminal_resize(self, sandbox_id: str, session_id: str, cols: int, rows: int) -> m.TerminalSize:
        """Gives a terminal another size."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/terminal/{_q(session_id)}/resize", json={"cols": cols, "rows": rows}
        )
        answer: m.TerminalSize = from_json("TerminalSize", content_)
        return answer

    async def terminal_attach(
        self,
        sandbox_id: str,
        session_id: str,
        *,
        cursor: Optional[int] = None,
        read_only: Optional[bool] = None,
        cols: Optional[int] = None,
        rows: Optional[int] = None,
    ) -> WebSocket:
        """Shows a terminal and takes what is typed, over a WebSocket."""
        return await self._client.websocket(f"/sandboxes/{_q(sandbox_id)}/terminal/{_q(session_id)}/ws", {"cursor": cursor, "readOnly": read_only, "cols": cols, "rows": rows})

    def terminal_recording(self, sandbox_id: str, session_id: str) -> AsyncIterator[bytes]:
        """What a terminal that is recorded has shown until now, as asciicast v2, piece by piece."""
        return self._client.download(f"/sandboxes/{_q(sandbox_id)}/terminal/{_q(session_id)}/recording", method="GET", accept="application/x-asciicast")

    async def terminal_channel(self, channel_id: str, key: str, dir: str) -> WebSocket:
        """One end of a terminal's channel, over a WebSocket; also without the prefix."""
        return await self._client.websocket(f"/ws/channels/{_q(channel_id)}", {"key": key, "dir": dir})

    async def pool_status(self) -> m.PoolStatus:
        """Says how many sandboxes are ready before somebody asks for one; without a token the numbers only."""
        content_ = await self._client.call_bytes(
            "GET", "/pool/status"
        )
        answer: m.PoolStatus = from_json("PoolStatus", content_)
        return answer

    async def pool_profiles(self) -> m.PoolProfiles:
        """Lists the kinds of sandboxes that the pool has ready."""
        content_ = await self._client.call_bytes(
            "GET", "/pool/profiles"
        )
        answer: m.PoolProfiles = from_json("PoolProfiles", content_)
        return answer

    async def pool_add(
        self,
        *,
        image: Optional[str] = None,
        template: Optional[str] = None,
        size: Optional[int] = None,
        memory: Optional[int] = None,
        cpu: Optional[float] = None,
        pids: Optional[int] = None,
        disk: Optional[int] = None,
        interpreter: Optional[Union[m.PoolInterpreter, Mapping[str, Any]]] = None,
        network: Optional[Union[bool, str, m.NetworkPolicy, Mapping[str, Any]]] = None,
    ) -> m.PoolProfile:
        """Has so many sandboxes of a kind ready from now on, also after a restart."""
        content_ = await self._client.call_bytes(
            "POST", "/pool/profiles", json={"image": image, "template": template, "size": size, "memory": memory, "cpu": cpu, "pids": pids, "disk": disk, "interpreter": interpreter, "network": network}, idempotent=True
        )
        answer: m.PoolProfile = from_json("PoolProfile", content_)
        return answer

    async def pool_remove(self, profile_id: str) -> m.Success:
        """Removes a profile and what is ready of it."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/pool/profiles/{_q(profile_id)}"
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def proxy_request(
        self,
        sandbox_id: str,
        port: int,
        *,
        method: Optional[str] = None,
        path: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
        body: Optional[str] = None,
    ) -> m.ProxyAnswer:
        """Sends one request to an exposed port of a sandbox."""
        content_ = await self._client.call_bytes(
            "POST", f"/proxy/{_q(sandbox_id)}/{_q(port)}", json={"method": method, "path": path, "headers": headers, "body": body}
        )
        answer: m.ProxyAnswer = from_json("ProxyAnswer", content_)
        return answer

    async def proxy_config(
        self,
        sandbox_id: str,
        *,
        cors: Optional[str] = None,
        require_auth: Optional[bool] = None,
        timeout: Optional[int] = None,
        revoke_signed: Optional[bool] = None,
    ) -> m.ProxyConfig:
        """Sets how requests are passed on to a sandbox; tells it when nothing is given."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/proxy/config", json={"cors": cors, "requireAuth": require_auth, "timeout": timeout, "revokeSigned": revoke_signed}
        )
        answer: m.ProxyConfig = from_json("ProxyConfig", content_)
        return answer

    async def proxy_sign(
        self,
        sandbox_id: str,
        port: int,
        *,
        expires_in: Optional[int] = None,
        path: Optional[str] = None,
    ) -> m.ProxySigned:
        """Makes an address that opens one port of a sandbox for a while."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/proxy/sign", json={"port": port, "expiresIn": expires_in, "path": path}
        )
        answer: m.ProxySigned = from_json("ProxySigned", content_)
        return answer

    async def network_create(self, name: str, *, driver: Optional[str] = None) -> m.Network:
        """Makes a network, in which sandboxes see each other."""
        content_ = await self._client.call_bytes(
            "POST", "/networks", json={"name": name, "driver": driver}, idempotent=True
        )
        answer: m.Network = from_json("Network", content_)
        return answer

    async def network_list(self) -> m.NetworkList:
        """Lists networks, the newest first."""
        content_ = await self._client.call_bytes(
            "GET", "/networks"
        )
        answer: m.NetworkList = from_json("NetworkList", content_)
        return answer

    async def network_get(self, network_id: str) -> m.Network:
        """Shows a network and who is in it."""
        content_ = await self._client.call_bytes(
            "GET", f"/networks/{_q(network_id)}"
        )
        answer: m.Network = from_json("Network", content_)
        return answer

    async def network_delete(self, network_id: str) -> m.NetworkDeleted:
        """Removes a network; sandboxes in it are disconnected first."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/networks/{_q(network_id)}"
        )
        answer: m.NetworkDeleted = from_json("NetworkDeleted", content_)
        return answer

    async def network_connect(self, network_id: str, sandbox_id: str) -> m.NetworkConnected:
        """Connects a sandbox, also one without network, at once and whenever it is started."""
        content_ = await self._client.call_bytes(
            "POST", f"/networks/{_q(network_id)}/connect", json={"sandboxId": sandbox_id}, idempotent=True
        )
        answer: m.NetworkConnected = from_json("NetworkConnected", content_)
        return answer

    async def network_disconnect(self, network_id: str, sandbox_id: str) -> m.NetworkDisconnected:
        """Takes a sandbox out of a network; what is open between it and the others is cut."""
        content_ = await self._client.call_bytes(
            "POST", f"/networks/{_q(network_id)}/disconnect", json={"sandboxId": sandbox_id}
        )
        answer: m.NetworkDisconnected = from_json("NetworkDisconnected", content_)
        return answer

    async def port_expose(
        self,
        sandbox_id: str,
        container_port: int,
        *,
        host_port: Optional[int] = None,
        protocol: Optional[str] = None,
        host_address: Optional[str] = None,
    ) -> m.Port:
        """Lets a port of a sandbox be reached on the host, with or without a network."""
        content_ = await self._client.call_bytes(
            "POST", f"/sandboxes/{_q(sandbox_id)}/ports", json={"containerPort": container_port, "hostPort": host_port, "protocol": protocol, "hostAddress": host_address}, idempotent=True
        )
        answer: m.Port = from_json("Port", content_)
        return answer

    async def port_list(self, sandbox_id: str) -> m.PortList:
        """Lists the ports of a sandbox that can be reached on the host."""
        content_ = await self._client.call_bytes(
            "GET", f"/sandboxes/{_q(sandbox_id)}/ports"
        )
        answer: m.PortList = from_json("PortList", content_)
        return answer

    async def port_unexpose(
        self,
        sandbox_id: str,
        container_port: int,
        *,
        protocol: Optional[str] = None,
    ) -> m.PortRemoved:
        """A port cannot be reached on the host any more; connections are cut."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/sandboxes/{_q(sandbox_id)}/ports", query={"containerPort": container_port, "protocol": protocol}
        )
        answer: m.PortRemoved = from_json("PortRemoved", content_)
        return answer

    async def port_dial(self, sandbox_id: str, port: int) -> Upgraded:
        """Connects to a TCP port of a sandbox: the connection becomes that one (Upgrade: cay-dial)."""
        return await self._client.dial(f"/sandboxes/{_q(sandbox_id)}/dial/{_q(port)}")

    async def event_history(
        self,
        *,
        sandbox_id: Optional[str] = None,
        topic: Optional[str] = None,
        since: Optional[int] = None,
        until: Optional[int] = None,
        limit: Optional[int] = None,
        offset: Optional[int] = None,
    ) -> m.EventList:
        """Lists what has happened, the newest first."""
        content_ = await self._client.call_bytes(
            "GET", "/events/history", query={"sandboxId": sandbox_id, "topic": topic, "since": since, "until": until, "limit": limit, "offset": offset}
        )
        answer: m.EventList = from_json("EventList", content_)
        return answer

    async def event_publish(self, topic: str, sandbox_id: str, *, data: Optional[Mapping[str, Any]] = None) -> m.Event:
        """Keeps an event of the caller's own, and tells it to all who listen."""
        content_ = await self._client.call_bytes(
            "POST", "/events/publish", json={"topic": topic, "sandboxId": sandbox_id, "data": data}, idempotent=True
        )
        answer: m.Event = from_json("Event", content_)
        return answer

    def stream_events(
        self,
        *,
        topic: Optional[str] = None,
        sandbox_id: Optional[str] = None,
        since: Optional[int] = None,
        last_event_id: Optional[str] = None,
    ) -> AsyncIterator[m.Event]:
        """Streams what happens; Last-Event-ID goes on where a stream ended."""
        return self._events("Event", "GET", "/stream/events", query={"topic": topic, "sandboxId": sandbox_id, "since": since, "lastEventId": last_event_id})

    async def token_create(
        self,
        scopes: List[str],
        *,
        name: Optional[str] = None,
        sandbox_id: Optional[str] = None,
        label: Optional[Mapping[str, str]] = None,
        expires_in: Optional[int] = None,
    ) -> m.Token:
        """Makes a token for some of what can be done; its text is told once."""
        content_ = await self._client.call_bytes(
            "POST", "/tokens", json={"name": name, "scopes": scopes, "sandboxId": sandbox_id, "label": label, "expiresIn": expires_in}, idempotent=True
        )
        answer: m.Token = from_json("Token", content_)
        return answer

    async def token_list(self) -> m.TokenList:
        """Lists tokens, without their texts."""
        content_ = await self._client.call_bytes(
            "GET", "/tokens"
        )
        answer: m.TokenList = from_json("TokenList", content_)
        return answer

    async def token_revoke(self, token_id: str) -> m.Success:
        """Ends a token, and the streams and terminals that were opened with it."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/tokens/{_q(token_id)}"
        )
        answer: m.Success = from_json("Success", content_)
        return answer

    async def webhook_create(
        self,
        url: str,
        *,
        topics: Optional[List[str]] = None,
        sandbox_id: Optional[str] = None,
        secret: Optional[str] = None,
    ) -> m.WebhookMade:
        """Has events sent to a URL, each signed, until it takes them."""
        content_ = await self._client.call_bytes(
            "POST", "/webhooks", json={"url": url, "topics": topics, "sandboxId": sandbox_id, "secret": secret}, idempotent=True
        )
        answer: m.WebhookMade = from_json("WebhookMade", content_)
        return answer

    async def webhook_list(self) -> m.WebhookList:
        """Lists webhooks, the newest first."""
        content_ = await self._client.call_bytes(
            "GET", "/webhooks"
        )
        answer: m.WebhookList = from_json("WebhookList", content_)
        return answer

    async def webhook_get(self, webhook_id: str) -> m.Webhook:
        """Shows a webhook and how it is doing."""
        content_ = await self._client.call_bytes(
            "GET", f"/webhooks/{_q(webhook_id)}"
        )
        answer: m.Webhook = from_json("Webhook", content_)
        return answer

    async def webhook_update(self, webhook_id: str, active: bool) -> m.Webhook:
        """Puts a webhook off, or lets it go on."""
        content_ = await self._client.call_bytes(
            "PUT", f"/webhooks/{_q(webhook_id)}", json={"active": active}
        )
        answer: m.Webhook = from_json("Webhook", content_)
        return answer

    async def webhook_delete(self, webhook_id: str) -> m.WebhookDeleted:
        """Removes a webhook; what was not sent is not."""
        content_ = await self._client.call_bytes(
            "DELETE", f"/webhooks/{_q(webhook_id)}"
        )
        answer: m.WebhookDeleted = from_json("WebhookDeleted", content_)
        return answer

    async def webhook_test(self, webhook_id: str) -> m.Delivery:
        """Sends a webhook.test once, at once, and tells what came of it."""
        content_ = await self._client.call_bytes(
            "POST", f"/webhooks/{_q(webhook_id)}/test"
        )
        answer: m.Delivery = from_json("Delivery", content_)
        return answer

    async def webhook_deliveries(self, webhook_id: str, *, limit: Optional[int] = None) -> m.DeliveryList:
        """Lists what was sent to a webhook last."""
        content_ = await self._client.call_bytes(
            "GET", f"/webhooks/{_q(webhook_id)}/deliveries", query={"limit": limit}
        )
        answer: m.DeliveryList = from_json("DeliveryList", content_)
        return answer

    async def audit_list(
        self,
        *,
        since: Optional[int] = None,
        after: Optional[int] = None,
        sandbox_id: Optional[str] = None,
        who: Optional[str] = None,
        function: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> m.AuditList:
        """Lists who did what, the oldest of the last first."""
        content_ = await self._client.call_bytes(
            "GET", "/audit", query={"since": since, "after": after, "sandboxId": sandbox_id, "who": who, "function": function, "limit": limit}
        )
        answer: m.AuditList = from_json("AuditList", content_)
        return answer

    async def audit_verify(self, *, head: Optional[str] = None) -> m.AuditReport:
        """Reads the whole audit log and says whether a line was changed, removed, put in or appended by another."""
        content_ = await self._client.call_bytes(
            "GET", "/audit/verify", query={"head": head}
        )
        answer: m.AuditReport = from_json("AuditReport", content_)
        return answer
