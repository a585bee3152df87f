# Written for asyncio; cay/sync has the blocking twin, which tools/unasync.py makes.
"""What a sandbox has to offer, by subject: `box.env`, `box.filesystem`, `box.git`, and so on."""

from __future__ import annotations

import base64
import os
import secrets
from typing import TYPE_CHECKING, Any, AsyncIterator, List, Mapping, Optional, Sequence, Union, cast
from urllib.parse import quote

from . import _aio
from ._http import end

if TYPE_CHECKING:
    from cay import _models as m

    from ._api import Api
    from ._frames import Upgraded
    from ._http import Client
    from ._websocket import WebSocket

__all__ = [
    "CodeInterpreter",
    "EnvManager",
    "FileSystem",
    "GitManager",
    "MonitorManager",
    "PortManager",
    "ProcessManager",
    "QueueManager",
    "StreamManager",
    "TerminalManager",
]

WORKSPACE = "/workspace"
CHUNK = 1 << 20


class _Manager:
    def __init__(self, client: Client, sandbox_id: str) -> None:
        self._client = client
        self._id = sandbox_id

    @property
    def _api(self) -> Api:
        return self._client.api


class EnvManager(_Manager):
    """The environment that every command of a sandbox has."""

    async def get(self, key: str) -> m.EnvValue:
        """A variable: `.value` is None, and `.exists` false, when there is none."""
        return await self._api.env_get(self._id, key)

    async def set(self, vars: Mapping[str, str]) -> m.EnvSet:
        """Sets variables, for commands that start from now on."""
        return await self._api.env_set(self._id, vars)

    async def list(self) -> m.EnvList:
        """All of them, in `.vars`."""
        return await self._api.env_list(self._id)

    async def delete(self, key: str) -> m.EnvDeleted:
        """Takes one away."""
        return await self._api.env_delete(self._id, key)


class FileSystem(_Manager):
    """Files of a sandbox. Paths are absolute or relative to /workspace, and inside it unless `anywhere` is true."""

    async def read(self, path: str, *, anywhere: Optional[bool] = None) -> str:
        """A file's text; bytes that are none are replaced."""
        return await self._api.fs_read(self._id, path, anywhere=anywhere)

    async def write(self, path: str, content: str, *, anywhere: Optional[bool] = None) -> m.Success:
        """Replaces a file with a text, and makes the folders above it."""
        return await self._api.fs_write(self._id, path, content, anywhere=anywhere)

    async def read_bytes(self, path: str, *, anywhere: Optional[bool] = None) -> bytes:
        """A file's bytes."""
        parts = []
        async for part in self.read_stream(path, anywhere=anywhere):
            parts.append(part)
        return b"".join(parts)

    def read_stream(self, path: str, *, anywhere: Optional[bool] = None) -> AsyncIterator[bytes]:
        """A file's bytes, piece by piece."""
        return self._api.fs_download(self._id, path, anywhere=anywhere)

    async def write_bytes(
        self,
        path: str,
        content: Union[bytes, AsyncIterator[bytes]],
        *,
        mode: Optional[str] = None,
        anywhere: Optional[bool] = None,
    ) -> m.Success:
        """Replaces a file with bytes, or with all that an iterator gives."""
        return await self._api.fs_upload(self._id, content=content, path=path, mode=mode, anywhere=anywhere)

    async def upload(
        self, path: str, content: Union[str, bytes], *, mode: Optional[str] = None, anywhere: Optional[bool] = None
    ) -> m.Success:
        """Replaces a file with bytes; text is base64."""
        data = base64.b64decode(content, validate=True) if isinstance(content, str) else content
        return await self.write_bytes(path, data, mode=mode, anywhere=anywhere)

    async def download(self, path: str, *, anywhere: Optional[bool] = None) -> str:
        """A file's bytes in base64; `read_bytes` gives them as they are."""
        return base64.b64encode(await self.read_bytes(path, anywhere=anywhere)).decode()

    async def upload_file(
        self,
        local: Union[str, os.PathLike[str]],
        path: str,
        *,
        mode: Optional[str] = None,
        anywhere: Optional[bool] = None,
    ) -> m.Success:
        """Copies a file of this machine into the sandbox, whatever its size."""
        chunks = _chunks_of(local)
        try:
            return await self.write_bytes(path, chunks, mode=mode, anywhere=anywhere)
        finally:
            await end(chunks)

    async def download_file(
        self, path: str, local: Union[str, os.PathLike[str]], *, anywhere: Optional[bool] = None
    ) -> None:
        """Copies a file of the sandbox to this machine. One that breaks off is not left there as if it were whole."""
        part = f"{os.fspath(local)}.{secrets.token_hex(4)}.part"
        stream = self.read_stream(path, anywhere=anywhere)
        try:
            with open(part, "xb") as file:
                async for chunk in stream:
                    await _aio.in_thread(file.write, chunk)
            os.replace(part, local)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise
        finally:
            await end(stream)

    async def delete(self, path: str, *, anywhere: Optional[bool] = None) -> m.Success:
        """Removes a file; it is no error when there is none."""
        return await self._api.fs_delete(self._id, path, anywhere=anywhere)

    async def list(self, path: str = WORKSPACE, *, anywhere: Optional[bool] = None) -> List[m.FileInfo]:
        """What is in a folder; nothing when there is no such folder."""
        return await self._api.fs_list(self._id, path=path, anywhere=anywhere)

    async def search(self, pattern: str, dir: str = WORKSPACE, *, anywhere: Optional[bool] = None) -> List[str]:
        """The paths of files whose name fits a glob, in a folder and below it."""
        return await self._api.fs_search(self._id, pattern, dir=dir, anywhere=anywhere)

    async def info(self, paths: Sequence[str], *, anywhere: Optional[bool] = None) -> List[m.FileMeta]:
        """What these files are, in that order."""
        answer = await self._api.fs_info(self._id, paths=[*paths], anywhere=anywhere)
        return cast("List[m.FileMeta]", answer)

    async def stat(self, path: str, *, anywhere: Optional[bool] = None) -> m.FileMeta:
        """What a file is."""
        return cast("m.FileMeta", await self._api.fs_info(self._id, path=path, anywhere=anywhere))

    async def move(self, source: str, target: str, *, anywhere: Optional[bool] = None) -> m.Success:
        """Moves a file or folder as `mv` does: onto a folder means into it."""
        return await self._api.fs_move(self._id, [{"from": source, "to": target}], anywhere=anywhere)

    async def mkdir(self, *paths: str, anywhere: Optional[bool] = None) -> m.Success:
        """Makes folders, and those above them."""
        return await self._api.fs_mkdir(self._id, paths=[*paths], anywhere=anywhere)

    async def rmdir(self, *paths: str, anywhere: Optional[bool] = None) -> m.Success:
        """Removes folders with all that is in them."""
        return await self._api.fs_rmdir(self._id, paths=[*paths], anywhere=anywhere)

    async def chmod(self, path: str, mode: str, *, anywhere: Optional[bool] = None) -> m.Success:
        """Changes who may do what: "755", or "u+x"."""
        return await self._api.fs_chmod(self._id, path, mode, anywhere=anywhere)

    def watch(
        self,
        path: str = WORKSPACE,
        *,
        recursive: Optional[bool] = None,
        events: Optional[Sequence[str]] = None,
        ignore: Optional[Sequence[str]] = None,
        publish: Optional[bool] = None,
        anywhere: Optional[bool] = None,
    ) -> AsyncIterator[m.FileChange]:
        """Tells of changes as they happen: the first event says that it has begun."""
        return self._api.fs_watch(
            self._id,
            path=path,
            recursive=recursive,
            events=None if events is None else [*events],
            ignore=None if ignore is None else [*ignore],
            publish=publish,
            anywhere=anywhere,
        )


async def _chunks_of(local: Union[str, os.PathLike[str]]) -> AsyncIterator[bytes]:
    with open(local, "rb") as file:
        while True:
            chunk = await _aio.in_thread(file.read, CHUNK)
            if not chunk:
                return
            yield chunk


class GitManager(_Manager):
    """git in a sandbox. What git itself refuses is a result with its exit code, not an exception."""

    async def clone(
        self,
        url: str,
        *,
        path: Optional[str] = None,
        branch: Optional[str] = None,
        depth: Optional[int] = None,
        username: Optional[str] = None,
        password: Optional[str] = None,
        token: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> m.ExecResult:
        """Clones a repository. Credentials are used for this call and stay nowhere."""
        return await self._api.git_clone(
            self._id,
            url,
            path=path,
            branch=branch,
            depth=depth,
            username=username,
            password=password,
            token=token,
            timeout=timeout,
        )

    async def status(self, path: Optional[str] = None) -> m.GitStatus:
        """Branch, and which files have changed."""
        return await self._api.git_status(self._id, path=path)

    async def commit(
        self,
        message: str,
        *,
        path: Optional[str] = None,
        all: Optional[bool] = None,
        author_name: Optional[str] = None,
        author_email: Optional[str] = None,
    ) -> m.ExecResult:
        """Commits what is staged; with `all` everything is staged first."""
        return await self._api.git_commit(
            self._id, message, path=path, all=all, author_name=author_name, author_email=author_email
        )

    async def diff(
        self, *, path: Optional[str] = None, staged: Optional[bool] = None, file: Optional[str] = None
    ) -> m.GitDiff:
        """What has changed, in `.diff`."""
        return await self._api.git_diff(self._id, path=path, staged=staged, file=file)

    async def log(self, *, path: Optional[str] = None, count: Optional[int] = None) -> m.GitLog:
        """The last commits, in `.entries`."""
        return await self._api.git_log(self._id, path=path, count=count)

    async def branch(
        self,
        *,
        path: Optional[str] = None,
        name: Optional[str] = None,
        delete: Optional[bool] = None,
        force: Optional[bool] = None,
        start: Optional[str] = None,
    ) -> m.GitBranches:
        """The branches; with a name, one is made and checked out, or deleted."""
        return await self._api.git_branch(self._id, path=path, name=name, delete=delete, force=force, start=start)

    async def checkout(self, ref: str, path: Optional[str] = None) -> m.ExecResult:
        """Checks out a branch, tag or commit."""
        return await self._api.git_checkout(self._id, ref, path=path)

    async def push(
        self,
        *,
        path: Optional[str] = None,
        remote: Optional[str] = None,
        branch: Optional[str] = None,
        force: Optional[bool] = None,
        set_upstream: Optional[bool] = None,
        username: Optional[str] = None,
        password: Optional[str] = None,
        token: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> m.ExecResult:
        """Sends commits to a remote."""
        return await self._api.git_push(
            self._id,
            path=path,
            remote=remote,
            branch=branch,
            force=force,
            set_upstream=set_upstream,
            username=username,
            password=password,
            token=token,
            timeout=timeout,
        )

    async def pull(
        self,
        *,
        path: Optional[str] = None,
        remote: Optional[str] = None,
        branch: Optional[str] = None,
        rebase: Optional[bool] = None,
        username: Optional[str] = None,
        password: Optional[str] = None,
        token: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> m.ExecResult:
        """Takes commits from a remote."""
        return await self._api.git_pull(
            self._id,
            path=path,
            remote=remote,
            branch=branch,
            rebase=rebase,
            username=username,
            password=password,
            token=token,
            timeout=timeout,
        )


class CodeInterpreter(_Manager):
    """Code in a sandbox: at once, or in a context that keeps its variables."""

    async def run(
        self,
        code: str,
        language: str = "python",
        *,
        context: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> m.Execution:
        """Runs code. `.error` is None when it ended well; `.results` has values and pictures, of a context."""
        return await self._api.interp_execute(
            self._id,
            code,
            language=None if context else language,
            context_id=context,
            cwd=cwd,
            env=env,
            user=user,
            timeout=timeout,
        )

    def stream(
        self,
        code: str,
        language: str = "python",
        *,
        context: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> AsyncIterator[m.ExecutionEvent]:
        """Runs code, and tells what it prints and gives as it happens."""
        return self._api.interp_execute_events(
            self._id,
            code,
            language=None if context else language,
            context_id=context,
            cwd=cwd,
            env=env,
            user=user,
            timeout=timeout,
        )

    async def install(
        self, packages: Sequence[str], manager: str = "pip", *, timeout: Optional[float] = None
    ) -> m.Installed:
        """Installs packages with pip, npm or go."""
        return await self._api.interp_install(self._id, [*packages], manager=manager, timeout=timeout)

    async def kernels(self) -> List[m.Kernel]:
        """The languages that the sandbox has."""
        return await self._api.interp_kernels(self._id)

    async def create_context(
        self,
        language: str = "python",
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        imports: Optional[Sequence[str]] = None,
        idle_timeout: Optional[int] = None,
    ) -> m.CodeContext:
        """A context: what is run in it by its `.id` keeps its variables."""
        return await self._api.interp_context_create(
            self._id,
            language=language,
            cwd=cwd,
            env=env,
            user=user,
            imports=None if imports is None else [*imports],
            idle_timeout=idle_timeout,
        )

    async def contexts(self) -> m.CodeContextList:
        """The contexts that there are."""
        return await self._api.interp_context_list(self._id)

    async def context(self, context_id: str) -> m.CodeContext:
        """One of them."""
        return await self._api.interp_context_get(self._id, context_id)

    async def delete_context(self, context_id: str) -> m.Success:
        """Ends one."""
        return await self._api.interp_context_delete(self._id, context_id)

    async def restart_context(self, context_id: str) -> m.CodeContext:
        """Begins one anew, without its variables."""
        return await self._api.interp_context_restart(self._id, context_id)

    async def interrupt_context(self, context_id: str) -> m.Success:
        """Ends what runs in one, which keeps its variables."""
        return await self._api.interp_context_interrupt(self._id, context_id)


class ProcessManager(_Manager):
    """Processes of a sandbox, by the numbers that they have inside."""

    async def list(self) -> m.ProcessList:
        """Those that there are."""
        return await self._api.proc_list(self._id)

    async def kill(self, pid: int, signal: Optional[str] = None) -> m.ProcessKilled:
        """Sends a signal (TERM when none is named)."""
        return await self._api.proc_kill(self._id, pid, signal=signal)

    async def top(self) -> m.ProcessTop:
        """Those that there are, with what they use."""
        return await self._api.proc_top(self._id)


class PortManager(_Manager):
    """Ports of a sandbox: on the host, through the proxy, or dialled."""

    async def expose(
        self,
        container_port: int,
        host_port: Optional[int] = None,
        protocol: Optional[str] = None,
        *,
        host_address: Optional[str] = None,
    ) -> m.Port:
        """Makes a port reachable on the host."""
        return await self._api.port_expose(
            self._id, container_port, host_port=host_port, protocol=protocol, host_address=host_address
        )

    async def list(self) -> m.PortList:
        """Those that are exposed, in `.ports`."""
        return await self._api.port_list(self._id)

    async def unexpose(self, container_port: int, protocol: Optional[str] = None) -> m.PortRemoved:
        """Takes one back."""
        return await self._api.port_unexpose(self._id, container_port, protocol=protocol)

    async def dial(self, port: int) -> Upgraded:
        """A connection to a TCP port in the sandbox, exposed or not: read(), write(), and close it."""
        return await self._api.port_dial(self._id, port)

    async def request(
        self,
        port: int,
        path: str = "/",
        *,
        method: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
        body: Optional[str] = None,
    ) -> m.ProxyAnswer:
        """One HTTP request to a server in the sandbox."""
        return await self._api.proxy_request(self._id, port, method=method, path=path, headers=headers, body=body)

    async def configure_proxy(
        self,
        *,
        cors: Optional[str] = None,
        require_auth: Optional[bool] = None,
        timeout: Optional[int] = None,
        revoke_signed: Optional[bool] = None,
    ) -> m.ProxyConfig:
        """How the proxy treats this sandbox; without arguments, how it does now."""
        return await self._api.proxy_config(
            self._id, cors=cors, require_auth=require_auth, timeout=timeout, revoke_signed=revoke_signed
        )

    async def sign_url(
        self, port: int, *, expires_in: Optional[int] = None, path: Optional[str] = None
    ) -> m.ProxySigned:
        """An address that opens in a browser without a token, for a while."""
        return await self._api.proxy_sign(self._id, port, expires_in=expires_in, path=path)

    def get_proxy_url(self, container_port: int) -> str:
        """The address of `request` for this port, once the client has spoken to the daemon."""
        base = self._client.base_url or ""
        return f"{base.rstrip('/')}/sandbox/proxy/{quote(self._id, safe='')}/{container_port}"


class QueueManager(_Manager):
    """Commands that wait for their turn, are tried again, and outlive the daemon."""

    async def submit(
        self,
        command: Union[str, Sequence[str]],
        *,
        max_retries: Optional[int] = None,
        timeout: Optional[float] = None,
        **more: Any,
    ) -> m.Job:
        """Puts a command into the queue. More: retry_on_exit, retry_delay, priority, delay, run_at, cwd, env, user."""
        line: Any = command if isinstance(command, str) else [*command]
        return await self._api.queue_submit(self._id, line, max_retries=max_retries, timeout=timeout, **more)

    async def list(
        self, *, status: Optional[str] = None, limit: Optional[int] = None, offset: Optional[int] = None
    ) -> m.JobList:
        """The jobs of this sandbox."""
        return await self._api.queue_list(sandbox_id=self._id, status=status, limit=limit, offset=offset)

    async def status(self, job_id: str) -> m.Job:
        """How a job is; `.result` once it has run."""
        return await self._api.queue_status(job_id)

    async def logs(self, job_id: str, cursor: Optional[int] = None) -> m.JobLogs:
        """What a job has put out, also while it runs."""
        return await self._api.queue_logs(job_id, cursor=cursor)

    async def cancel(self, job_id: str) -> m.JobCancelled:
        """Takes a job out of the queue."""
        return await self._api.queue_cancel(job_id)

    async def dlq(self, limit: Optional[int] = None, *, offset: Optional[int] = None) -> m.JobList:
        """Jobs that have failed for good."""
        return await self._api.queue_dlq(sandbox_id=self._id, limit=limit, offset=offset)

    async def purge(self) -> m.JobsPurged:
        """Forgets those."""
        return await self._api.queue_purge(sandbox_id=self._id)

    async def requeue(self, job_id: str) -> m.Job:
        """Tries one of those again."""
        return await self._api.queue_requeue(job_id)

    async def forget(self, job_id: str) -> m.JobsPurged:
        """Forgets one of those."""
        return await self._api.queue_forget(job_id)


class StreamManager(_Manager):
    """What goes on in a sandbox, as it happens."""

    def logs(self, *, tail: Optional[int] = None, follow: Optional[bool] = None) -> AsyncIterator[m.LogEvent]:
        """Lines of the main process."""
        return self._api.stream_logs(self._id, tail=tail, follow=follow)

    def metrics(self, interval: Optional[int] = None) -> AsyncIterator[m.Metrics]:
        """What it uses, every so many seconds."""
        return self._api.stream_metrics(self._id, interval=interval)

    def network(self, *, tail: Optional[int] = None) -> AsyncIterator[m.NetworkDenial]:
        """What it tried to reach and may not."""
        return self._api.stream_network(self._id, tail=tail)


class MonitorManager(_Manager):
    """Alerts: what is to happen when a sandbox uses too much."""

    async def set_alert(self, metric: str, threshold: float, action: Optional[str] = None) -> m.Alert:
        """Of cpu, memory or pids; notify, pause or kill."""
        return await self._api.monitor_set_alert(self._id, metric, threshold, action=action)

    async def list_alerts(self) -> m.AlertList:
        """Those that are set, in `.alerts`."""
        return await self._api.monitor_list_alerts(self._id)

    async def delete_alert(self, alert_id: str) -> m.AlertDeleted:
        """Takes one back."""
        return await self._api.monitor_delete_alert(alert_id)

    async def history(self, limit: Optional[int] = None) -> m.AlertHistory:
        """What they have seen, in `.events`."""
        return await self._api.monitor_alert_history(self._id, limit=limit)


class TerminalManager(_Manager):
    """Shells that go on whoever looks at them."""

    async def create(
        self,
        *,
        cols: Optional[int] = None,
        rows: Optional[int] = None,
        shell: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        record: Optional[bool] = None,
    ) -> m.Terminal:
        """Starts one; `attach` with its `.session_id` shows it."""
        return await self._api.terminal_create(
            self._id, cols=cols, rows=rows, shell=shell, cwd=cwd, env=env, user=user, record=record
        )

    async def list(self) -> m.TerminalList:
        """Those that run, and the last that ended."""
        return await self._api.terminal_list(self._id)

    async def get(self, session_id: str) -> m.Terminal:
        """One of them."""
        return await self._api.terminal_get(self._id, session_id)

    async def resize(self, session_id: str, cols: int, rows: int) -> m.TerminalSize:
        """Another size."""
        return await self._api.terminal_resize(self._id, session_id, cols, rows)

    async def close(self, session_id: str) -> m.TerminalClosed:
        """Ends the shell and all that it started."""
        return await self._api.terminal_close(self._id, session_id)

    async def attach(
        self,
        session_id: str,
        *,
        cursor: Optional[int] = None,
        read_only: Optional[bool] = None,
        cols: Optional[int] = None,
        rows: Optional[int] = None,
    ) -> WebSocket:
        """What it shows and takes: bytes are bytes; texts are JSON, which docs/terminals.md describes."""
        return await self._api.terminal_attach(
            self._id, session_id, cursor=cursor, read_only=read_only, cols=cols, rows=rows
        )

    def recording(self, session_id: str) -> AsyncIterator[bytes]:
        """What was shown, as asciicast, of one that was made with `record`."""
        return self._api.terminal_recording(self._id, session_id)
