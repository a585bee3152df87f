# Made from cay/_commands.py by tools/unasync.py: change that one.
"""Commands in a sandbox. Each has an id that is chosen here, so that a command whose connection was lost, because the
daemon was restarted under it, is found again: nothing of it is lost, and it does not run twice."""

from __future__ import annotations

import secrets
import struct
import time
from typing import Any, Dict, Mapping, Optional, Tuple

from cay.errors import CayError, ExecTimeoutError, IoError, SandboxNotFoundError, from_answer

from . import _aio
from ._frames import ERROR, EXIT, LOST, RESIZE, SIGNAL, STARTED, STDERR, STDIN, STDOUT, Attached
from ._http import Client

__all__ = ["Command", "new_exec_id", "run"]

BACK_SECONDS = 60.0
TRY_SECONDS = 0.1
KEPT = 10 << 20
GRACE_SECONDS = 60.0

_EXIT = struct.Struct("<IIQQQ")
SAW_NO_MEMORY = 1 << 17
KILLED = 128 + 9
TIMED_OUT = -1  # as streams of the daemon have it

# What the first word of an ERROR frame means as a status of HTTP.
_STATUSES = (500, 400, 401, 403, 404, 408, 409, 413, 429, 501, 503, 500)


def new_exec_id() -> str:
    """An id that no other command has."""
    return "ex_" + secrets.token_hex(12)


def _path(sandbox_id: str, exec_id: str = "", rest: str = "") -> str:
    from urllib.parse import quote

    path = f"/sandboxes/{quote(sandbox_id, safe='')}/exec"
    return path + (f"/{exec_id}" if exec_id else "") + rest


def _may_be_back(error: CayError) -> bool:
    """Is this how a daemon answers that is being restarted?"""
    if isinstance(error, IoError):
        return True
    return error.status in (409, 503) and error.code not in ("exec_exists", "sandbox_not_running")


def run(client: Client, sandbox_id: str, body: Mapping[str, Any]) -> Dict[str, Any]:
    """Runs a command to its end: the daemon's ExecResult, and its output as it was in `stdoutBytes` and `stderrBytes`.
    A command that took too long raises ExecTimeoutError."""
    request = {"execId": new_exec_id(), **body}
    try:
        return _run_once(client, sandbox_id, request)
    except IoError as error:
        if error.code != "connection_lost":
            raise
    return _find_again(client, sandbox_id, request)


def _run_once(client: Client, sandbox_id: str, request: Mapping[str, Any]) -> Dict[str, Any]:
    limit = request.get("timeout")
    try:
        result: Dict[str, Any] = client.call(
            "POST",
            _path(sandbox_id),
            json=request,
            timeout=0 if limit is None else float(limit) + GRACE_SECONDS,
        )
    except ExecTimeoutError as error:
        error.timeout = limit
        if error.exec_id and "\ufffd" in error.body.get("stdout", "") + error.body.get("stderr", ""):
            exact = _collect(client, sandbox_id, error.exec_id)
            error.stdout, error.stderr = exact["stdoutBytes"], exact["stderrBytes"]
        raise
    # Text that is whole is the bytes; where something was replaced they are asked for.
    if "\ufffd" in result["stdout"] or "\ufffd" in result["stderr"]:
        exact = _collect(client, sandbox_id, request["execId"])
        result["stdoutBytes"], result["stderrBytes"] = exact["stdoutBytes"], exact["stderrBytes"]
    else:
        result["stdoutBytes"], result["stderrBytes"] = result["stdout"].encode(), result["stderr"].encode()
    return result


def _find_again(client: Client, sandbox_id: str, request: Mapping[str, Any]) -> Dict[str, Any]:
    """The end of a command whose answer was lost on the way."""
    give_up = time.monotonic() + BACK_SECONDS
    while True:
        try:
            result = _collect(client, sandbox_id, request["execId"], ends_with_us=not request.get("detach"))
            break
        except CayError as error:
            if error.code != "exec_not_found":
                raise
        # The sandbox does not know it, so it never began.
        try:
            return _run_once(client, sandbox_id, request)
        except IoError as again:
            if again.code != "connection_lost" or time.monotonic() > give_up:
                raise
        except CayError as error:
            if error.code != "exec_exists":
                raise
    if result["reason"] == "timeout":
        raise _timeout(result, request.get("timeout"), sandbox_id)
    return result


def _timeout(result: Mapping[str, Any], limit: Optional[float], sandbox_id: str) -> ExecTimeoutError:
    error = ExecTimeoutError(
        result.get("message") or "the command took longer than it may",
        code="command_timeout",
        timeout=limit,
        status=408,
        method="POST",
        path=_path(sandbox_id),
        exec_id=result.get("execId"),
        body={"exitCode": 124, "truncated": result.get("truncated", False)},
    )
    error.stdout, error.stderr = result["stdoutBytes"], result["stderrBytes"]
    return error


def _collect(client: Client, sandbox_id: str, exec_id: str, *, ends_with_us: bool = False) -> Dict[str, Any]:
    """All that a command has put out and will, and how it ended."""
    command = Command.again(client, sandbox_id, exec_id)
    command.ends_with_us = ends_with_us
    out = {STDOUT: bytearray(), STDERR: bytearray()}
    truncated = False
    try:
        while True:
            frame = command.recv()
            if frame is None:
                break
            kind, payload = frame
            if kind in out:
                room = KEPT - len(out[kind])
                truncated = truncated or len(payload) > room
                out[kind] += payload[:room]
    finally:
        command.close()
    result = command.result()
    result["truncated"] = result["truncated"] or truncated
    for name, kind in (("stdout", STDOUT), ("stderr", STDERR)):
        result[name + "Bytes"] = bytes(out[kind])
        result[name] = result[name + "Bytes"].decode(errors="replace")
    return result


class Command:
    """A command with its input, output and signals. It ends when this is closed, unless it was started with `detach`, or
    this is one that was come back to."""

    def __init__(self, client: Client, sandbox_id: str, exec_id: str, wants_stdin: bool) -> None:
        self.client = client
        self.sandbox_id = sandbox_id
        self.exec_id = exec_id
        self.pid: Optional[int] = None
        self.timeout: Optional[float] = None
        self.lost = 0
        """Bytes of the output that the daemon did not keep."""
        self.ends_with_us = False
        self._has_come_back = False
        """The daemon ends it with the connection that started it, and no other: now we must."""
        self._wants_stdin = wants_stdin
        self._is_tty = False
        self._has_sent = False
        self._stdin_ended = False
        self._cursor = 0
        self._frames: Optional[Attached] = None
        self._exit: Optional[Tuple[int, int, int, int, int]] = None
        self._is_closed = False

    @classmethod
    def start(cls, client: Client, sandbox_id: str, body: Mapping[str, Any]) -> Command:
        """Starts one. `body` is as of POST …/exec/attach: command, cwd, env, user, timeout, tty, stdin, rows, cols, detach."""
        request = {"execId": new_exec_id(), **body}
        self = cls(client, sandbox_id, request["execId"], bool(request.get("stdin")))
        self.timeout = request.get("timeout")
        self._is_tty = bool(request.get("tty"))
        self.ends_with_us = not request.get("detach")
        try:
            self._frames = client.attach(_path(sandbox_id, rest="/attach"), request)
        except IoError as error:
            if error.code != "connection_lost":
                raise
            self._come_back(error)
        return self

    @classmethod
    def again(
        cls, client: Client, sandbox_id: str, exec_id: str, *, cursor: int = 0, stdin: bool = False
    ) -> Command:
        """Comes back to one. Closing this leaves the command running."""
        self = cls(client, sandbox_id, exec_id, stdin)
        self._cursor = cursor
        self._come_back(None)
        return self

    def _come_back(self, why: Optional[CayError]) -> None:
        """Input that was under way may or may not have arrived, so nobody can go on with that; on a terminal a person sees
        what did."""
        self._has_come_back = True
        if why is not None and self._has_sent and not self._is_tty:
            raise why
        give_up = time.monotonic() + BACK_SECONDS
        request = {"cursor": self._cursor, "stdin": self._wants_stdin}
        while True:
            try:
                path = _path(self.sandbox_id, self.exec_id, "/attach")
                frames = self.client.attach(path, request, again=True)
                break
            except CayError as error:
                if isinstance(error, SandboxNotFoundError) or not _may_be_back(error) or time.monotonic() > give_up:
                    raise
            _aio.sleep(TRY_SECONDS)
        if self._frames is not None:
            self._frames.close()
        self._frames = frames
        if self._is_closed:
            self._leave()  # it was closed meanwhile
        elif self._stdin_ended:
            frames.send(STDIN)  # its end may not have arrived

    def recv(self) -> Optional[Tuple[int, bytes]]:
        """The next frame: STARTED, STDOUT, STDERR, EXIT; None after the last one."""
        while self._exit is None and not self._is_closed:
            frame: Optional[Tuple[int, bytes]] = None
            lost = IoError("the connection to the daemon was lost", code="connection_lost", exec_id=self.exec_id)
            try:
                frame = self._attached().recv()
            except IoError as error:
                lost = error
            if self._is_closed:
                return None
            if frame is None:
                self._come_back(lost)
                continue
            kind, payload = frame
            if kind in (STDOUT, STDERR):
                self._cursor += len(payload)
            elif kind == STARTED:
                self.pid = int.from_bytes(payload[:4], "little")
            elif kind == LOST:
                self._skip(int.from_bytes(payload[:8], "little"))
                continue
            elif kind == EXIT:
                self._exit = _EXIT.unpack(payload[: _EXIT.size])
                self._attached().close()
                self._attached().close()  # nothing follows
            elif kind == ERROR:
                raise _error_of_frame(payload, self.exec_id)
            return kind, payload
        return None

    def _skip(self, size: int) -> None:
        self.lost += size
        self._cursor += size

    def _attached(self) -> Attached:
        if self._frames is None:
            raise IoError("the command is not attached", code="connection_lost", exec_id=self.exec_id)
        return self._frames

    def send_stdin(self, data: bytes) -> None:
        """What the command reads."""
        if data:
            self._has_sent = True
            self._attached().send(STDIN, data)

    def close_stdin(self) -> None:
        """The end of its input."""
        self._stdin_ended = True
        self._attached().send(STDIN)

    def resize(self, rows: int, cols: int) -> None:
        """Another size of its terminal."""
        self._attached().send(RESIZE, struct.pack("<II", rows, cols))

    def signal(self, number: int) -> None:
        """A signal to all of its processes."""
        self._attached().send(SIGNAL, struct.pack("<I", number))

    def kill(self) -> None:
        """Ends it, whoever else is attached."""
        self.client.call("POST", _path(self.sandbox_id, self.exec_id, "/kill"), again=True)

    def result(self) -> Dict[str, Any]:
        """How it ended, after the last frame: the daemon's words for it, as far as it still has them."""
        if self._exit is None:
            raise IoError("the command has not ended, as far as this connection knows", exec_id=self.exec_id)
        how, code, nanoseconds, lost_out, lost_err = self._exit
        exit_code = (code & 0xFF, 128 + (code & 0x7F), TIMED_OUT, KILLED, KILLED)[min(how, 4)]
        reason = ("exit", "signal", "timeout", "cancelled", "lost")[min(how, 4)]
        is_oom = bool(code & SAW_NO_MEMORY)
        return {
            "exitCode": exit_code,
            "reason": "oom" if is_oom and exit_code == KILLED else reason,
            "oom": is_oom,
            "duration": nanoseconds / 1e6,
            "truncated": bool(lost_out or lost_err or self.lost),
            "execId": self.exec_id,
        }

    def close(self) -> None:
        """Hangs up."""
        self._is_closed = True
        self._leave()

    def _leave(self) -> None:
        if self._frames is not None:
            self._frames.close()
        if self.ends_with_us and self._has_come_back and self._exit is None:
            self.ends_with_us = False
            try:
                self.kill()
            except CayError:
                pass  # it has ended, or its sandbox has


def _error_of_frame(payload: bytes, exec_id: str) -> CayError:
    """u32 kind, u32 errno, and two texts (u32 length, bytes): the daemon's word, and its sentence."""
    kind, errno, size = struct.unpack_from("<III", payload)
    code = payload[12 : 12 + size].decode(errors="replace")
    text = payload[16 + size :].decode(errors="replace")
    status = _STATUSES[kind] if kind < len(_STATUSES) else 500
    body = {"error": text, "code": code or "internal", "errno": errno or None, "execId": exec_id}
    return from_answer(status, body, method="POST", path="/exec/attach")
