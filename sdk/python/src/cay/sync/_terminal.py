# Made from cay/_terminal.py by tools/unasync.py: change that one.
"""A command on the terminal of whoever called."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Optional

from cay.errors import InvalidConfigError, IoError
from cay.execution import Invocation, StderrEvent, Stdin, StdoutEvent

from . import _aio
from ._commands import Command
from ._http import Client
from .exec import ExecHandle

DETACH_KEYS = "ctrl-p,ctrl-q"
LOOK_SECONDS = 0.25  # how often the size of the terminal is looked at
READ_MAX = 64 * 1024


def keys_of(text: str) -> bytes:
    """The bytes of ``ctrl-p,ctrl-q`` or ``ctrl-]``: what is typed to leave a command running."""
    keys = bytearray()
    for word in text.split(","):
        name = word.strip()
        if name.startswith("ctrl-") and len(name) == 6 and "@" <= name[5].upper() <= "_":
            keys.append(ord(name[5].upper()) & 0x1F)
        elif len(name) == 1 and name.isascii():
            keys.append(ord(name))
        else:
            raise InvalidConfigError(f"detach_keys: {word!r} is neither a letter nor ctrl- and one")
    return bytes(keys)


class Keys:
    """Looks for the keys to leave in what is typed. A beginning of them is held back until it is one or none."""

    def __init__(self, keys: bytes) -> None:
        self._keys = keys
        self._held = b""

    def read(self, data: bytes) -> tuple[bytes, bool]:
        """What is to be sent on, and whether the keys came."""
        data = self._held + data
        self._held = b""
        at = data.find(self._keys)
        if at >= 0:
            return data[:at], True
        for size in range(min(len(self._keys) - 1, len(data)), 0, -1):
            if data.endswith(self._keys[:size]):
                self._held = data[-size:]
                return data[:-size], False
        return data, False


@contextlib.contextmanager
def raw(fd: int) -> Iterator[None]:
    """Every key goes to the command, until this is over."""
    import termios
    import tty

    before = termios.tcgetattr(fd)
    tty.setraw(fd, termios.TCSADRAIN)  # what was typed already is for the command
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def size_of(fd: int) -> os.terminal_size:
    """Of a terminal; one that does not know its own is taken for one of old."""
    size = os.get_terminal_size(fd)
    return os.terminal_size((size.columns or 80, size.lines or 24))


class _Bridge:
    """Between this process's own input and output, and a command."""

    def __init__(self, command: Command, handle: ExecHandle, keys: bytes, is_tty: bool) -> None:
        self._command = command
        self._handle = handle
        self._keys = Keys(keys)
        self._is_tty = is_tty
        self._is_over = False
        self.has_left = False

    def run(self) -> int:
        typing = _aio.spawn(self._type)
        try:
            while (event := self._handle.recv()) is not None:
                if isinstance(event, (StdoutEvent, StderrEvent)):
                    to = 2 if isinstance(event, StderrEvent) else 1
                    _aio.in_thread(write_all, to, event.data)
        finally:
            self._is_over = True
            typing.end()
        if self.has_left:
            return 0
        return (self._handle.wait())[0]

    def _type(self) -> None:
        size: Optional[os.terminal_size] = None
        while not self._is_over:
            if self._is_tty and size_of(0) != size:
                size = size_of(0)
                self._handle.resize(size.lines, size.columns)
            if not _aio.is_readable(0, LOOK_SECONDS) or self._is_over:
                continue
            data = os.read(0, READ_MAX)
            if not data:
                return self._command.close_stdin()
            if self._is_tty:
                data, self.has_left = self._keys.read(data)
            self._command.send_stdin(data)
            if self.has_left:
                return self._command.close()
        return None


def attach(client: Client, sandbox_id: str, invocation: Invocation, detach_keys: Optional[str]) -> int:
    """Runs a command on this terminal and gives its exit code. Where there is none, its input and output are this process's.
    After *detach_keys* it goes on alone, and the answer is 0."""
    keys = keys_of(detach_keys or DETACH_KEYS)
    is_tty = sys.stdin.isatty() and sys.stdout.isatty()
    request = replace(invocation, stdin=Stdin.pipe(), tty=is_tty).to_wire()
    if is_tty:
        size = size_of(0)
        request.update(rows=size.lines, cols=size.columns, detach=True)
        request["env"] = {"TERM": os.environ.get("TERM", "xterm"), **request.get("env", {})}
    sys.stdout.flush()
    command = Command.start(client, sandbox_id, request)
    bridge = _Bridge(command, ExecHandle(command, replace(invocation, stdin=Stdin.null())), keys, is_tty)
    with raw(0) if is_tty else contextlib.nullcontext():
        try:
            return bridge.run()
        finally:
            if is_tty and not bridge.has_left:
                with contextlib.suppress(IoError):
                    command.kill()
            command.close()
