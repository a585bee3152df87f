# Written for asyncio; cay/sync has the blocking twin, which tools/unasync.py makes.
"""Commands that are followed while they run."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any, Optional

from cay.enums import StdinMode
from cay.errors import CayError, ExecTimeoutError, IoError
from cay.execution import (
    ExecEvent,
    ExecOutput,
    ExitedEvent,
    Invocation,
    StartedEvent,
    StderrEvent,
    StdinErrorEvent,
    StdoutEvent,
)

from . import _aio
from ._commands import KEPT, Command, run
from ._frames import EXIT, STARTED, STDERR, STDOUT
from ._http import Client

__all__ = ["ExecHandle", "ExecSink"]

STDIN_MAX = 1 << 20  # that goes along with a request


class ExecSink:
    """What a command reads. On a terminal its end is not this one's: send what means that there (Ctrl-D, ``b"\\x04"``)."""

    def __init__(self, command: Command) -> None:
        self._command = command

    async def write(self, data: bytes) -> None:
        """Sends all of *data*."""
        await self._command.send_stdin(data)

    async def close(self) -> None:
        """The end of the input."""
        await self._command.close_stdin()


class ExecHandle:
    """A command that runs. Iterate over it, or over ``events()``, for what it does; or ``collect()`` it all.

    Its other calls can be made while somebody waits for the next event. Closing it (``async with``, ``aclose()``) ends the
    command.
    """

    def __init__(self, command: Command, invocation: Invocation) -> None:
        self._command = command
        self._timeout = invocation.timeout
        self._sink = ExecSink(command) if invocation.stdin.mode is StdinMode.PIPE else None
        self._feeding: Optional[_aio.Task[None]] = None
        self._trouble: list[ExecEvent] = []
        self._exit: Optional[dict[str, Any]] = None
        if invocation.stdin.mode is StdinMode.BYTES:
            self._feeding = _aio.spawn(self._feed, invocation.stdin.data or b"")

    @classmethod
    async def start(cls, client: Client, sandbox_id: str, invocation: Invocation) -> ExecHandle:
        """Starts a command; one that cannot be started raises ExecFailedError."""
        return cls(await Command.start(client, sandbox_id, invocation.to_wire()), invocation)

    async def _feed(self, data: bytes) -> None:
        try:
            await self._command.send_stdin(data)
            await self._command.close_stdin()
        except IoError as error:
            # A command may end before it has read all; whoever looks is told.
            self._trouble.append(StdinErrorEvent(str(error).encode()))

    @property
    def id(self) -> str:
        """By which the command is known to the daemon (``ex_…``)."""
        return self._command.exec_id

    @property
    def pid(self) -> Optional[int]:
        """Of the command in the sandbox, once it has started."""
        return self._command.pid

    def take_stdin(self) -> Optional[ExecSink]:
        """Its input, once, when it was started with ``stdin=Stdin.pipe()``; else None."""
        sink, self._sink = self._sink, None
        return sink

    async def recv(self) -> Optional[ExecEvent]:
        """What it does next; None after it has exited."""
        if self._exit is not None:
            return None
        if self._trouble:
            return self._trouble.pop()
        while (frame := await self._command.recv()) is not None:
            kind, payload = frame
            if kind == STARTED:
                return StartedEvent(self._command.pid or 0)
            if kind == STDOUT:
                return StdoutEvent(payload)
            if kind == STDERR:
                return StderrEvent(payload)
            if kind == EXIT:
                self._exit = await self._command.result()
                return ExitedEvent(self._exit["exitCode"], self._exit["reason"])
        return None

    async def events(self) -> AsyncIterator[ExecEvent]:
        """What it does, until it has exited."""
        while (event := await self.recv()) is not None:
            yield event

    def __aiter__(self) -> AsyncIterator[ExecEvent]:
        return self

    async def __anext__(self) -> ExecEvent:
        event = await self.recv()
        if event is None:
            raise StopAsyncIteration
        return event

    async def wait(self) -> tuple[int, bool]:
        """The exit code, and whether that is 0. What it puts out until then is dropped."""
        while await self.recv() is not None:
            pass
        self._check()
        return self._end()["exitCode"], self._end()["exitCode"] == 0

    async def collect(self) -> ExecOutput:
        """All that it still puts out, and how it ended."""
        return await self._gather(None)

    async def _gather(self, at_most: Optional[int]) -> ExecOutput:
        out, err = bytearray(), bytearray()
        is_cut = False
        while (event := await self.recv()) is not None:
            if isinstance(event, (StdoutEvent, StderrEvent)):
                to = out if isinstance(event, StdoutEvent) else err
                room = len(event.data) if at_most is None else at_most - len(to)
                is_cut = is_cut or len(event.data) > room
                to += event.data[:room]
        self._check(bytes(out), bytes(err))
        end = self._end()
        return ExecOutput(
            end["exitCode"],
            bytes(out),
            bytes(err),
            duration_ms=end["duration"],
            truncated=end["truncated"] or is_cut,
            exec_id=self.id,
            reason=end["reason"],
        )

    def _end(self) -> dict[str, Any]:
        if self._exit is None:
            raise CayError("the command was closed before it ended", exec_id=self.id)
        return self._exit

    def _check(self, out: bytes = b"", err: bytes = b"") -> None:
        if self._end()["reason"] != "timeout":
            return
        error = ExecTimeoutError(
            f"the command ran longer than {self._timeout} seconds, and was ended",
            code="command_timeout",
            timeout=self._timeout,
            exec_id=self.id,
        )
        error.stdout, error.stderr = out, err
        raise error

    async def signal(self, sig: int) -> None:
        """Sends a signal to all processes of the command."""
        await self._command.signal(int(sig))

    async def kill(self) -> None:
        """Ends it with all that it started."""
        await self._command.kill()

    async def resize(self, rows: int, cols: int) -> None:
        """Another size of its terminal."""
        await self._command.resize(rows, cols)

    async def aclose(self) -> None:
        """Hangs up; a command that still runs ends by that."""
        await self._command.aclose()
        if self._feeding is not None:
            await self._feeding.end()

    async def __aenter__(self) -> ExecHandle:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def execute(client: Client, sandbox_id: str, invocation: Invocation) -> ExecOutput:
    """Runs a command to its end."""
    if invocation.stdin.mode is StdinMode.PIPE:
        raise ValueError("nobody could write to the input of exec(): use exec_stream(), or Stdin.bytes()")
    request = invocation.to_wire()
    data = invocation.stdin.data or b""
    if invocation.stdin.mode is StdinMode.BYTES:
        request.update(stdin=b64encode(data).decode(), stdinEncoding="base64")
    if invocation.tty or len(data) > STDIN_MAX:
        async with await ExecHandle.start(client, sandbox_id, invocation) as handle:
            return await handle._gather(KEPT)
    end = await run(client, sandbox_id, request)
    return ExecOutput(
        end["exitCode"],
        end["stdoutBytes"],
        end["stderrBytes"],
        duration_ms=end["duration"],
        truncated=end["truncated"],
        exec_id=end.get("execId"),
        reason=end["reason"],
    )
