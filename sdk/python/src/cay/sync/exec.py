# Made from cay/exec.py by tools/unasync.py: change that one.
"""Commands that are followed while they run."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
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

    def write(self, data: bytes) -> None:
        """Sends all of *data*."""
        self._command.send_stdin(data)

    def close(self) -> None:
        """The end of the input."""
        self._command.close_stdin()


class ExecHandle:
    """A command that runs. Iterate over it, or over ``events()``, for what it does; or ``collect()`` it all.

    Its other calls can be made while somebody waits for the next event. Closing it (``with``, ``close()``) ends the
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
    def start(cls, client: Client, sandbox_id: str, invocation: Invocation) -> ExecHandle:
        """Starts a command; one that cannot be started raises ExecFailedError."""
        return cls(Command.start(client, sandbox_id, invocation.to_wire()), invocation)

    def _feed(self, data: bytes) -> None:
        try:
            self._command.send_stdin(data)
            self._command.close_stdin()
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

    def recv(self) -> Optional[ExecEvent]:
        """What it does next; None after it has exited."""
        if self._exit is not None:
            return None
        if self._trouble:
            return self._trouble.pop()
        while (frame := self._command.recv()) is not None:
            kind, payload = frame
            if kind == STARTED:
                return StartedEvent(self._command.pid or 0)
            if kind == STDOUT:
                return StdoutEvent(payload)
            if kind == STDERR:
                return StderrEvent(payload)
            if kind == EXIT:
                self._exit = self._command.result()
                return ExitedEvent(self._exit["exitCode"], self._exit["reason"])
        return None

    def events(self) -> Iterator[ExecEvent]:
        """What it does, until it has exited."""
        while (event := self.recv()) is not None:
            yield event

    def __iter__(self) -> Iterator[ExecEvent]:
        return self

    def __next__(self) -> ExecEvent:
        event = self.recv()
        if event is None:
            raise StopIteration
        return event

    def wait(self) -> tuple[int, bool]:
        """The exit code, and whether that is 0. What it puts out until then is dropped."""
        while self.recv() is not None:
            pass
        self._check()
        return self._end()["exitCode"], self._end()["exitCode"] == 0

    def collect(self) -> ExecOutput:
        """All that it still puts out, and how it ended."""
        return self._gather(None)

    def _gather(self, at_most: Optional[int]) -> ExecOutput:
        out, err = bytearray(), bytearray()
        is_cut = False
        while (event := self.recv()) is not None:
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

    def signal(self, sig: int) -> None:
        """Sends a signal to all processes of the command."""
        self._command.signal(int(sig))

    def kill(self) -> None:
        """Ends it with all that it started."""
        self._command.kill()

    def resize(self, rows: int, cols: int) -> None:
        """Another size of its terminal."""
        self._command.resize(rows, cols)

    def close(self) -> None:
        """Hangs up; a command that still runs ends by that."""
        self._command.close()
        if self._feeding is not None:
            self._feeding.end()

    def __enter__(self) -> ExecHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def execute(client: Client, sandbox_id: str, invocation: Invocation) -> ExecOutput:
    """Runs a command to its end."""
    if invocation.stdin.mode is StdinMode.PIPE:
        raise ValueError("nobody could write to the input of exec(): use exec_stream(), or Stdin.bytes()")
    request = invocation.to_wire()
    data = invocation.stdin.data or b""
    if invocation.stdin.mode is StdinMode.BYTES:
        request.update(stdin=b64encode(data).decode(), stdinEncoding="base64")
    if invocation.tty or len(data) > STDIN_MAX:
        with ExecHandle.start(client, sandbox_id, invocation) as handle:
            return handle._gather(KEPT)
    end = run(client, sandbox_id, request)
    return ExecOutput(
        end["exitCode"],
        end["stdoutBytes"],
        end["stderrBytes"],
        duration_ms=end["duration"],
        truncated=end["truncated"],
        exec_id=end.get("execId"),
        reason=end["reason"],
    )
