"""Commands as data: what goes in, what came out, what happens meanwhile. The calls are in ``exec.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, TypedDict, Union

from cay.enums import ExecEventType, RlimitResource, StdinMode, checked
from cay.errors import InvalidConfigError


class Text(str):
    """A ``str`` that may also be called: ``output.stdout`` and ``output.stdout()`` are the same text."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class ExitStatus:
    """How a command ended."""

    code: int
    success: bool


_Bytes = bytes  # Stdin has a maker of that name


@dataclass(frozen=True)
class Stdin:
    """What a command reads."""

    mode: StdinMode
    data: Optional[_Bytes] = None

    @classmethod
    def null(cls) -> Stdin:
        """Nothing: it is at its end from the start."""
        return cls(StdinMode.NULL)

    @classmethod
    def pipe(cls) -> Stdin:
        """What :meth:`ExecHandle.take_stdin` is given."""
        return cls(StdinMode.PIPE)

    @classmethod
    def bytes(cls, data: _Bytes) -> Stdin:
        return cls(StdinMode.BYTES, data)

    @classmethod
    def of(cls, value: Union[Stdin, _Bytes, str, None]) -> Stdin:
        """*value* itself, or what it stands for."""
        if value is None:
            return cls.null()
        if isinstance(value, Stdin):
            return value
        return cls(StdinMode.BYTES, value.encode() if isinstance(value, str) else _Bytes(value))


@dataclass(frozen=True)
class Rlimit:
    """A limit of one command, as setrlimit(2) has them: counts, bytes or seconds."""

    resource: RlimitResource
    soft: int
    hard: int

    def __post_init__(self) -> None:
        checked(self.resource, RlimitResource, "resource")
        if self.soft < 0 or self.hard < 0 or self.soft > self.hard:
            raise InvalidConfigError(f"the soft limit of {self.resource} must be from 0 to the hard one")

    @classmethod
    def nofile(cls, limit: int) -> Rlimit:
        return cls(RlimitResource.NOFILE, limit, limit)

    @classmethod
    def cpu(cls, secs: int) -> Rlimit:
        return cls(RlimitResource.CPU, secs, secs)

    @classmethod
    def as_(cls, *, soft: int, hard: int) -> Rlimit:
        """Address space."""
        return cls(RlimitResource.AS, soft, hard)

    @classmethod
    def nproc(cls, limit: int) -> Rlimit:
        return cls(RlimitResource.NPROC, limit, limit)

    @classmethod
    def fsize(cls, limit: int) -> Rlimit:
        return cls(RlimitResource.FSIZE, limit, limit)

    @classmethod
    def memlock(cls, limit: int) -> Rlimit:
        return cls(RlimitResource.MEMLOCK, limit, limit)

    @classmethod
    def stack(cls, limit: int) -> Rlimit:
        return cls(RlimitResource.STACK, limit, limit)

    def to_wire(self) -> dict[str, Any]:
        return {"resource": str(self.resource), "soft": self.soft, "hard": self.hard}


class ExecOptions(TypedDict, total=False):
    """All that can be said of a command, as one value: the second argument of ``exec`` and ``exec_stream``."""

    args: list[str]
    cwd: str
    user: str
    env: Mapping[str, str]
    timeout: float
    stdin: Union[Stdin, bytes]
    stdin_data: bytes
    tty: bool
    rlimits: list[Rlimit]


OPTIONS = ("args", "cwd", "user", "env", "timeout", "stdin", "stdin_data", "tty", "rlimits")

Args = Union[Sequence[str], ExecOptions, float, None]


@dataclass(frozen=True)
class Invocation:
    """A command as it is to be run."""

    command: Union[str, list[str]]  # a line for the shell, or a program and its arguments
    cwd: Optional[str] = None
    user: Optional[str] = None
    env: Optional[Mapping[str, str]] = None
    timeout: Optional[float] = None
    stdin: Stdin = Stdin(StdinMode.NULL)
    tty: bool = False
    rlimits: Sequence[Rlimit] = ()

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"command": self.command}
        for name in ("cwd", "user"):
            if getattr(self, name) is not None:
                wire[name] = getattr(self, name)
        if self.env:
            wire["env"] = {str(k): str(v) for k, v in self.env.items()}
        if self.timeout is not None:
            wire["timeout"] = self.timeout
        if self.tty:
            wire["tty"] = True
        if self.stdin.mode is not StdinMode.NULL:
            wire["stdin"] = True
        if self.rlimits:
            wire["rlimits"] = [limit.to_wire() for limit in self.rlimits]
        return wire


def invocation(cmd: str, args: Args, given: Mapping[str, Any]) -> Invocation:
    """What a call of ``exec`` means. Without arguments *cmd* is a line for the shell; with some, even none of them (``[]``), it
    is a program. A number in their place is the timeout. *given* are the keywords of the call; None is not given."""
    said: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    words: Optional[Sequence[str]] = None
    if isinstance(args, Mapping):
        unknown = sorted(set(args) - set(OPTIONS))
        if unknown:
            raise TypeError(f"ExecOptions has no {unknown[0]!r}")
        said = {**args, **said}
        words = said.pop("args", None)
        data = said.pop("stdin_data", None)
        if data is not None:
            said["stdin"] = data
    elif isinstance(args, (int, float)):
        said.setdefault("timeout", args)
    else:
        words = args
    if isinstance(words, str):
        raise TypeError("args must be a list of strings, not one string")
    command: Union[str, list[str]] = cmd if words is None else [cmd, *(str(word) for word in words)]
    limit = said.get("timeout")
    if limit is not None and (not isinstance(limit, (int, float)) or limit <= 0):
        raise InvalidConfigError(f"timeout must be a number of seconds, more than 0, and not {limit!r}")
    if not all(isinstance(one, Rlimit) for one in said.get("rlimits", ())):
        raise TypeError("rlimits must be a list of Rlimit, such as [Rlimit.nofile(1024)]")
    said["stdin"] = Stdin.of(said.get("stdin"))
    return Invocation(command, **said)


class ExecOutput:
    """What a command put out, and how it ended. A code other than 0 is a result and no exception."""

    __slots__ = ("_stderr", "_stdout", "duration_ms", "exec_id", "exit_code", "reason", "timed_out", "truncated")

    def __init__(
        self,
        exit_code: int,
        stdout: bytes = b"",
        stderr: bytes = b"",
        *,
        duration_ms: float = 0.0,
        truncated: bool = False,
        timed_out: bool = False,
        exec_id: Optional[str] = None,
        reason: str = "exit",
    ) -> None:
        self.exit_code = exit_code
        self._stdout = stdout
        self._stderr = stderr
        self.duration_ms = duration_ms
        self.truncated = truncated
        """More came than is kept of a stream (10 MiB)."""
        self.timed_out = timed_out
        self.exec_id = exec_id
        self.reason = reason
        """exit, signal, oom, timeout, cancelled or lost."""

    @property
    def success(self) -> bool:
        """Code 0, and in time."""
        return self.exit_code == 0 and not self.timed_out

    @property
    def stdout(self) -> Text:
        """As text; what is no UTF-8 is shown as U+FFFD. ``stdout()`` is the same."""
        return Text(self._stdout.decode(errors="replace"))

    @property
    def stderr(self) -> Text:
        """As text; what is no UTF-8 is shown as U+FFFD. ``stderr()`` is the same."""
        return Text(self._stderr.decode(errors="replace"))

    @property
    def stdout_text(self) -> str:
        """As text; raises UnicodeDecodeError for what is none."""
        return self._stdout.decode()

    @property
    def stderr_text(self) -> str:
        """As text; raises UnicodeDecodeError for what is none."""
        return self._stderr.decode()

    @property
    def stdout_bytes(self) -> bytes:
        return self._stdout

    @property
    def stderr_bytes(self) -> bytes:
        return self._stderr

    @property
    def duration(self) -> float:
        """In milliseconds, as the daemon has it."""
        return self.duration_ms

    def __repr__(self) -> str:
        return f"ExecOutput(exit_code={self.exit_code}, stdout={self._stdout[:80]!r}, stderr={self._stderr[:80]!r})"


@dataclass(frozen=True)
class ExecChunk:
    """A piece of a command's output as text: ``type`` is stdout, stderr or exit, which has the code as its data."""

    type: str
    data: str
    timestamp: int


# Events of a command


class ExecEvent:
    """Something that a command did. The classes below are what comes, for ``match``; or look at ``event_type``, and those of
    ``pid``, ``data`` and ``code`` that it has."""

    __slots__ = ("code", "data", "pid")
    event_type: ExecEventType

    def __init__(self, *, pid: Optional[int] = None, data: Optional[bytes] = None, code: Optional[int] = None) -> None:
        self.pid = pid
        self.data = data
        self.code = code

    @property
    def type(self) -> str:
        return str(self.event_type)

    @property
    def text(self) -> str:
        """``data`` as text; a character may be split between two events."""
        return (self.data or b"").decode(errors="replace")

    def _fields(self) -> tuple[Any, ...]:
        return (self.event_type, self.pid, self.data, self.code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecEvent) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        has = ", ".join(f"{n}={getattr(self, n)!r}" for n in ("pid", "data", "code") if getattr(self, n) is not None)
        return f"{self.__class__.__name__}({has})"


class StartedEvent(ExecEvent):
    """It runs, as process *pid* of the sandbox."""

    __slots__ = ()
    __match_args__ = ("pid",)
    event_type = ExecEventType.STARTED
    pid: int

    def __init__(self, pid: int) -> None:
        super().__init__(pid=pid)


class StdoutEvent(ExecEvent):
    """It put out *data*; with a terminal that is all that it shows."""

    __slots__ = ()
    __match_args__ = ("data",)
    event_type = ExecEventType.STDOUT
    data: bytes

    def __init__(self, data: bytes) -> None:
        super().__init__(data=data)


class StderrEvent(ExecEvent):
    __slots__ = ()
    __match_args__ = ("data",)
    event_type = ExecEventType.STDERR
    data: bytes

    def __init__(self, data: bytes) -> None:
        super().__init__(data=data)


class ExitedEvent(ExecEvent):
    """The last event: it ended with *code*, which is -1 after a timeout."""

    __slots__ = ("reason",)
    __match_args__ = ("code",)
    event_type = ExecEventType.EXITED
    code: int

    def __init__(self, code: int, reason: str = "exit") -> None:
        super().__init__(code=code)
        self.reason = reason


class FailedEvent(ExecEvent):
    """It cannot be followed any more; *data* says why."""

    __slots__ = ()
    __match_args__ = ("data", "code")
    event_type = ExecEventType.FAILED
    data: bytes

    def __init__(self, data: bytes, code: Optional[int] = None) -> None:
        super().__init__(data=data, code=code)


class StdinErrorEvent(ExecEvent):
    """What was written to it could not be."""

    __slots__ = ()
    __match_args__ = ("data", "code")
    event_type = ExecEventType.STDIN_ERROR
    data: bytes

    def __init__(self, data: bytes, code: Optional[int] = None) -> None:
        super().__init__(data=data, code=code)
