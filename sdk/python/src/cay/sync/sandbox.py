# Made from cay/sandbox.py by tools/unasync.py: change that one.
"""Sandboxes."""

from __future__ import annotations

import builtins
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union
from urllib.parse import quote

from cay import _kept
from cay._awaitable import Flag, Name
from cay._kept import GRACE_SECONDS, SCRIPTS, SETTINGS, Settings
from cay._lifeline import lifelines
from cay.enums import BackendKind, LogReadSource, ModificationPolicy, SandboxStatus, checked
from cay.errors import (
    CayError,
    ExecTimeoutError,
    InvalidConfigError,
    MetricsUnavailableError,
    NoDefaultCommandError,
    SandboxError,
    SandboxNotFoundError,
    SandboxNotRunningError,
    SandboxStillRunningError,
)
from cay.execution import Args, ExecChunk, ExecOutput, Invocation, Rlimit, StderrEvent, Stdin, StdoutEvent, invocation

from . import _aio
from ._aio import pending
from ._http import Client, default_client
from .exec import ExecHandle, execute

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cay import _models as models
    from cay._pending import Pending
    from cay.options import CreateOptions, CreateRequest
    from cay.records import (
        LogEntry,
        PullEvent,
        SandboxMetrics,
        SandboxModificationPlan,
        SandboxPingResult,
        SandboxStopResult,
        SandboxTouchResult,
    )
    from cay.secret import SecretModifySpec
    from cay.sizes import MiBs

    from ._logs import LogStream
    from .fs import HostPath, SandboxFsOps
    from .managers import (
        CodeInterpreter,
        EnvManager,
        FileSystem,
        GitManager,
        MonitorManager,
        PortManager,
        ProcessManager,
        QueueManager,
        StreamManager,
        TerminalManager,
    )
    from .snapshot import Snapshot
    from .ssh import SandboxSshOps

__all__ = ["MetricsStream", "PullSession", "Sandbox", "SandboxHandle", "SandboxPage", "all_sandbox_metrics"]

LOOK_SECONDS = 0.05
LOOK_SECONDS_MAX = 0.5
PAGE = 20
PAGE_MAX = 100

_STATUSES = {
    "creating": SandboxStatus.STARTING,
    "running": SandboxStatus.RUNNING,
    "paused": SandboxStatus.PAUSED,
    "stopped": SandboxStatus.STOPPED,
    "removing": SandboxStatus.DRAINING,
}
_CRASHES = ("crashed", "agent_lost", "lost")


def _path(sandbox: str, rest: str = "") -> str:
    return f"/sandboxes/{quote(sandbox, safe='')}{rest}"


def status_of(wire: Mapping[str, Any]) -> SandboxStatus:
    """The daemon's status in these words; one that is not known yet is taken for running."""
    status = _STATUSES.get(wire["status"], SandboxStatus.RUNNING)
    if status is SandboxStatus.RUNNING and wire.get("draining"):
        return SandboxStatus.DRAINING
    if status is SandboxStatus.STOPPED and wire.get("reason") in _CRASHES:
        return SandboxStatus.CRASHED
    return status


class MetricsStream:
    """What a sandbox uses, again and again."""

    def __init__(self, samples: Iterator[SandboxMetrics]) -> None:
        self._samples = samples

    def __iter__(self) -> Iterator[SandboxMetrics]:
        return self

    def __next__(self) -> SandboxMetrics:
        return self._samples.__next__()


class _Calls:
    """What can be done with a sandbox whether or not anybody is connected to it."""

    def __init__(self, client: Client, wire: Mapping[str, Any]) -> None:
        self._client = client
        self._wire = wire

    # What it is

    @property
    def id(self) -> str:
        return str(self._wire["id"])

    @property
    def status(self) -> SandboxStatus:
        """As of when it was last asked for: ``refresh()`` asks again."""
        return status_of(self._wire)

    @property
    def state(self) -> str:
        """``status`` as a word."""
        return str(self.status)

    @property
    def image(self) -> str:
        return str(self._wire["image"])

    @property
    def labels(self) -> dict[str, str]:
        """What the caller keeps with it."""
        return {key: value for key, value in (self._wire.get("metadata") or {}).items() if key != SETTINGS}

    @property
    def metadata(self) -> dict[str, str]:
        """The same as ``labels``."""
        return self.labels

    @property
    def created_at(self) -> Optional[float]:
        """In seconds since 1970."""
        return float(self._wire["createdAt"]) / 1000

    @property
    def updated_at(self) -> Optional[float]:
        return float(self._wire.get("updatedAt", self._wire["createdAt"])) / 1000

    @property
    def config_json(self) -> str:
        """How it was made, as JSON."""
        return json.dumps(self.config())

    def config(self) -> dict[str, Any]:
        """How it was made."""
        return dict(self._wire["config"])

    @property
    def _settings(self) -> Settings:
        kept: Settings = json.loads((self._wire.get("metadata") or {}).get(SETTINGS, "{}"))
        return kept

    @property
    def _label(self) -> str:
        return str(self._wire["name"])

    def _call(self, method: str, rest: str = "", body: Optional[Mapping[str, Any]] = None, **how: Any) -> Any:
        return self._client.call(method, _path(self.id, rest), json=body, **how)

    def _look(self) -> Mapping[str, Any]:
        self._wire = self._call("GET")
        return self._wire

    # How it goes on

    def stop(self, timeout: Optional[float] = None) -> None:
        """Ends every process and keeps the files: ``start`` goes on with them. Its main process has *timeout* seconds (10) to end
        by itself; one that has to be killed counts as stopped, too."""
        self._wire = self._call(
            "POST", "/stop", {"timeout": GRACE_SECONDS if timeout is None else timeout}, timeout=120.0, again=True
        )

    def request_stop(self) -> None:
        """Like ``stop``, without waiting for the end."""
        self._call("POST", "/stop", {"wait": False}, again=True)

    def kill(self, timeout: Optional[float] = None) -> None:
        """Ends every process at once, and keeps the files."""
        self._wire = self._call("POST", "/stop", {"timeout": 0}, again=True)

    def request_kill(self) -> None:
        """Like ``kill``, without waiting for the end."""
        self._call("POST", "/stop", {"timeout": 0, "wait": False}, again=True)

    def request_drain(self) -> None:
        """Lets running commands end, refuses new ones, and then stops."""
        self._call("POST", "/stop", {"drain": True}, again=True)

    def drain(self) -> None:
        """The same, and waits until it has stopped."""
        self.request_drain()
        self.wait_until_stopped()

    def wait_until_stopped(self) -> SandboxStopResult:
        """Waits until it has stopped, by whatever; it does not stop it."""
        from cay.records import SandboxStopResult

        pause = LOOK_SECONDS
        while True:
            try:
                wire = self._look()
            except SandboxNotFoundError as gone:
                return SandboxStopResult(self._label, SandboxStatus.STOPPED, None, None, time.time(), gone.code)
            if wire["status"] == "stopped":
                end = wire.get("entrypointState") or {}
                code = end.get("exitCode")
                sign = code - 128 if code is not None and end.get("reason") == "signal" else None
                return SandboxStopResult(self._label, status_of(wire), code, sign, time.time(), wire.get("reason"))
            _aio.sleep(pause)
            pause = min(2 * pause, LOOK_SECONDS_MAX)

    def ping(self) -> SandboxPingResult:
        """Asks the sandbox itself, which counts as no work. SandboxNotRunningError when it does not run."""
        from cay.records import SandboxPingResult

        begin = time.monotonic()
        self._call("GET", "/processes")
        return SandboxPingResult(self._label, (time.monotonic() - begin) * 1000)

    def touch(self) -> SandboxTouchResult:
        """A sign of life: the idle time begins anew."""
        from cay.records import SandboxTouchResult

        self._wire = self._call("POST", "/touch", again=True)
        return SandboxTouchResult(self._label, int(self._wire.get("idleAt") or 0))

    def modify(
        self,
        *,
        cpus: Optional[float] = None,
        max_cpus: Optional[float] = None,
        memory: Optional[MiBs] = None,
        max_memory: Optional[MiBs] = None,
        root_disk_size: Optional[int] = None,
        env: Optional[Mapping[str, str]] = None,
        env_rm: Optional[Sequence[str]] = None,
        labels: Optional[Mapping[str, str]] = None,
        labels_rm: Optional[Sequence[str]] = None,
        workdir: Optional[str] = None,
        secrets: Optional[Mapping[str, SecretModifySpec]] = None,
        secrets_rm: Optional[Sequence[str]] = None,
        policy: Optional[ModificationPolicy] = None,
        dry_run: bool = False,
    ) -> SandboxModificationPlan:
        """Changes a sandbox that is there: all of it or nothing. *policy* says whether it may be restarted for that, which
        cay never has to; *dry_run* only tells what would be done."""
        from . import _modify

        plan = _modify.Plan(self._look(), status_of(self._wire), self._settings)
        plan.limits(cpus=cpus, max_cpus=max_cpus, memory=memory, max_memory=max_memory)
        plan.texts("env", env, env_rm)
        plan.texts("labels", labels, labels_rm)
        plan.refused(root_disk_size=root_disk_size, workdir=workdir, secrets=secrets, secrets_rm=secrets_rm)
        chosen = checked(policy or ModificationPolicy.NO_RESTART, ModificationPolicy, "policy")
        wire = plan.apply(self._client, self.id, dry_run)
        if wire is not None:
            self._wire = wire
        return plan.told(self._label, chosen)

    # What it does

    def metrics(self) -> SandboxMetrics:
        """What it uses now. MetricsUnavailableError when it does not run."""
        wire = self._call("GET", "/metrics")
        if self._wire["status"] == "stopped" and (self._look())["status"] == "stopped":
            raise MetricsUnavailableError(f"{self._label} does not run", code="sandbox_not_running", status=409)
        return self._sample(wire)

    def _sample(self, wire: Mapping[str, Any]) -> SandboxMetrics:
        from cay.records import SandboxMetrics

        return SandboxMetrics.from_wire(wire, now_ms=time.time() * 1000, since_ms=self._wire["createdAt"])

    def metrics_stream(self, interval: float = 1.0) -> MetricsStream:
        """What it uses, every *interval* seconds; to iterate over, awaited or not."""
        return pending(lambda: self._metrics_stream(interval), lambda: self._samples(interval))

    def _metrics_stream(self, interval: float) -> MetricsStream:
        return MetricsStream(self._samples(interval))

    def _samples(self, interval: float) -> Iterator[SandboxMetrics]:
        for wire in self._client.events("GET", _path(self.id, "/stream/metrics"), query={"interval": interval}):
            if "cpuPercent" in wire:
                yield self._sample(wire)

    def logs(
        self,
        tail: Optional[int] = None,
        since_ms: Optional[float] = None,
        until_ms: Optional[float] = None,
        sources: Optional[Sequence[LogReadSource]] = None,
    ) -> builtins.list[LogEntry]:
        """What its main process and its commands have put out, as far as it is kept, by time. SYSTEM is what happened to the
        sandbox itself."""
        from . import _logs

        entries = _logs.read(self._client, self.id, sources)
        kept = [e for e in entries if _logs.is_within(e, since_ms, until_ms)]
        return kept if tail is None else kept[max(0, len(kept) - tail) :]

    def log_stream(
        self,
        sources: Optional[Sequence[LogReadSource]] = None,
        since_ms: Optional[float] = None,
        from_cursor: Optional[str] = None,
        until_ms: Optional[float] = None,
        follow: bool = False,
    ) -> LogStream:
        """The same one after the other; with *follow* it goes on while the sandbox does."""
        from . import _logs

        return _logs.LogStream(_logs.stream(self._client, self.id, sources, since_ms, from_cursor, until_ms, follow))

    def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Keeps its files as they are now."""
        from .snapshot import Snapshot

        body = {"name": name} if name is not None else {}
        return Snapshot(self._client, self._call("POST", "/snapshots", body, idempotent=True, timeout=600.0))


class SandboxHandle(_Calls):
    """A sandbox as it was when it was asked for, with nobody connected to it: ``connect()`` does that."""

    @property
    def name(self) -> str:
        return self._label

    def refresh(self) -> SandboxHandle:
        """As it is now."""
        return SandboxHandle(self._client, self._call("GET"))

    def connect(self, timeout: Optional[float] = None) -> Sandbox:
        """To use it. It must run; *timeout* is how many seconds (10) to wait for one that is just being started."""
        give_up = time.monotonic() + (GRACE_SECONDS if timeout is None else timeout)
        while (self._look())["status"] == "creating" and time.monotonic() < give_up:
            _aio.sleep(LOOK_SECONDS)
        if self._wire["status"] != "running":
            raise SandboxNotRunningError(
                f"{self._label} is {self._wire['status']}", code="sandbox_not_running", status=409
            )
        return Sandbox(self._client, self._wire)

    def start(self, *, detached: bool = False) -> Sandbox:
        """Starts one that is stopped."""
        return Sandbox.start(self.id, detached=detached, client=self._client)

    def remove(self) -> None:
        """Removes one that is stopped; SandboxStillRunningError else."""
        Sandbox.remove(self.id, client=self._client)

    def __repr__(self) -> str:
        return f"SandboxHandle(name={self.name!r}, status={self.status})"


class SandboxPage(Sequence[SandboxHandle]):
    """Some sandboxes, the newest first. ``next_cursor`` goes into ``list_with`` for those after them."""

    def __init__(self, sandboxes: builtins.list[SandboxHandle], next_cursor: Optional[str]) -> None:
        self.sandboxes = sandboxes
        self.next_cursor = next_cursor

    def __len__(self) -> int:
        return len(self.sandboxes)

    def __getitem__(self, index: Any) -> Any:
        return self.sandboxes[index]

    def __repr__(self) -> str:
        return repr(self.sandboxes)


class PullSession:
    """A sandbox that is being made. ``progress`` tells of its image meanwhile, and ``result()`` is the sandbox."""

    def __init__(self, client: Client, name: Optional[str], request: CreateRequest) -> None:
        self._client = client
        self._request = request
        self._queue: _aio.Queue[Optional[PullEvent]] = _aio.Queue()
        self._task = _aio.spawn(self._run)

    def _run(self) -> Sandbox:
        try:
            return Sandbox._make(self._client, self._request, self._queue)
        finally:
            self._queue.put(None)

    @property
    def progress(self) -> Iterator[PullEvent]:
        """What happens, until the sandbox is made or cannot be."""
        return self._events()

    def _events(self) -> Iterator[PullEvent]:
        while (event := self._queue.get()) is not None:
            yield event
        self._queue.put(None)  # for who asks again

    def result(self) -> Sandbox:
        """Waits for the sandbox; raises why there is none."""
        return self._task.wait()

    def __enter__(self) -> PullSession:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._task.end()


class Sandbox(_Calls):
    """A place to run code that you did not write.

    ``with Sandbox.create("name", image="python:3.12-slim") as sandbox`` removes it at the end. See docs/sdk-python.md.
    """

    def __init__(
        self,
        client: Client,
        wire: Mapping[str, Any],
        *,
        ephemeral: bool = False,
        kill_removes: bool = False,
    ) -> None:
        super().__init__(client, wire)
        self._ephemeral = ephemeral
        self._kill_removes = kill_removes
        self._is_consumed = False

    # Making and finding

    @classmethod
    def create(cls, name: Optional[str] = None, **options: Unpack[CreateOptions]) -> Sandbox:
        """Makes a sandbox and starts it; :class:`cay.options.CreateOptions` has all that can be said of it.

        One with a name goes when this process does (see ``detached``) and its name is its own: SandboxAlreadyExistsError when
        another has it. One without lives until its ``timeout``. What the daemon cannot do raises UnsupportedError before anything
        is made.
        """
        return pending(lambda: cls._create(name, options))

    @classmethod
    def create_detached(cls, name: Optional[str] = None, **options: Unpack[CreateOptions]) -> Sandbox:
        """Makes one that outlives this process."""
        return pending(lambda: cls._create(name, {**options, "detached": True}))

    @staticmethod
    def create_with_progress(name: Optional[str] = None, **options: Unpack[CreateOptions]) -> PullSession:
        """Like ``create``, and tells how far the image is. It has begun when this returns."""
        from cay.options import create_request

        request = create_request(name, options)
        return PullSession(request.client or default_client(), name, request)

    @classmethod
    def _create(cls, name: Optional[str], options: Mapping[str, Any]) -> Sandbox:
        from cay.options import create_request

        request = create_request(name, options)
        return cls._make(request.client or default_client(), request, None)

    @classmethod
    def _make(
        cls, client: Client, request: CreateRequest, told: Optional[_aio.Queue[Optional[PullEvent]]]
    ) -> Sandbox:
        cls._prepare(client, request, told)
        if request.snapshot is not None:
            wire = cls._clone_of(client, request, request.snapshot)
        elif told is None:
            wire = client.call("POST", "/sandboxes", json=request.body, idempotent=True, timeout=3600.0)
        else:
            wire = cls._make_told(client, request.body, told)
        sandbox = cls(client, wire, ephemeral=request.ephemeral, kill_removes=request.kill_removes)
        if not request.detached:
            sandbox._hold()
        try:
            if request.has_scripts:
                path = (sandbox.exec("printenv", ["PATH"])).stdout.strip()
                sandbox._call("POST", "/env", {"vars": {"PATH": f"{SCRIPTS}:{path}"}})
            for command in request.setup:
                output = sandbox.exec(command)
                if not output.success:
                    raise InvalidConfigError(
                        f"setup_commands: {command!r} ended with {output.exit_code}: {output.stderr.strip()[-500:]}"
                    )
        except BaseException:
            sandbox.destroy()
            raise
        return sandbox

    @classmethod
    def _prepare(
        cls, client: Client, request: CreateRequest, told: Optional[_aio.Queue[Optional[PullEvent]]]
    ) -> None:
        from cay.records import PullProgress

        if request.new_volumes:
            there = {one["name"] for one in (client.call("GET", "/volumes"))["volumes"]}
            for name in request.new_volumes:
                if name in there:
                    raise InvalidConfigError(f"there is a volume {name!r} already", code="volume_exists", status=409)
        if request.pull is not None:
            if told is None:
                client.call("POST", "/images/pull", json=request.pull, timeout=3600.0)
            else:
                progress = PullProgress()
                for event in client.events("POST", "/images/pull", json=request.pull):
                    for one in progress.read(event):
                        told.put(one)
        if request.replace and "name" in request.body:
            try:
                old = client.call("GET", _path(request.body["name"]))
                if request.grace > 0 and old["status"] == "running":
                    client.call("POST", _path(old["id"], "/stop"), json={"timeout": request.grace}, timeout=120.0)
                client.call("DELETE", _path(old["id"]))
            except SandboxNotFoundError:
                pass

    @staticmethod
    def _make_told(
        client: Client, body: Mapping[str, Any], told: _aio.Queue[Optional[PullEvent]]
    ) -> Mapping[str, Any]:
        from cay.records import PullProgress

        progress = PullProgress()
        for event in client.events("POST", "/sandboxes", json=body, idempotent=True):
            for one in progress.read(event):
                told.put(one)
            if event.get("event") == "sandbox":
                wire: Mapping[str, Any] = event["sandbox"]
                return wire
        raise CayError("the daemon ended the stream before the sandbox was made")

    @staticmethod
    def _clone_of(client: Client, request: CreateRequest, snapshot: str) -> Mapping[str, Any]:
        """From a snapshot; what the caller wants to be otherwise is changed before it is handed over."""
        named: dict[str, Any] = {
            key: request.body[key] for key in ("name", "unique", "onTimeout") if key in request.body
        }
        path = f"/snapshots/{quote(snapshot, safe='')}/clone"
        wire: Mapping[str, Any] = client.call("POST", path, json=named, idempotent=True, timeout=600.0)
        other = {key: value for key, value in request.body.items() if key not in named}
        if not other:
            return wire
        try:
            for key, has in (("metadata", wire.get("metadata")), ("env", wire["config"].get("env"))):
                if key in other:
                    other[key] = {**(has or {}), **other[key]}
            changed: Mapping[str, Any] = client.call("PATCH", _path(wire["id"]), json=other)
        except BaseException:
            client.call("DELETE", _path(wire["id"]))
            raise
        return changed

    @classmethod
    def _from(cls, client: Client, wire: Mapping[str, Any], *, kill_removes: bool = True) -> Sandbox:
        """One that the daemon told of."""
        return cls(client, wire, kill_removes=kill_removes)

    @staticmethod
    def start(name: str, *, detached: bool = False, client: Optional[Client] = None) -> Sandbox:
        """Starts one that is stopped. It goes with this process, unless *detached*."""
        client = client or default_client()
        wire = client.call("POST", _path(name, "/start"), again=True, timeout=120.0)
        sandbox = Sandbox(client, wire)
        if detached:
            sandbox._outlive()
        elif wire["config"].get("idleTimeout"):
            sandbox._hold()
        return sandbox

    @staticmethod
    def get(name: str, *, client: Optional[Client] = None) -> SandboxHandle:
        """By name or id."""
        client = client or default_client()
        return SandboxHandle(client, client.call("GET", _path(name)))

    @staticmethod
    def list(*, client: Optional[Client] = None) -> SandboxPage:
        """The newest of them."""
        return Sandbox.list_with(client=client)

    @staticmethod
    def list_with(
        *,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
        labels: Optional[Mapping[str, str]] = None,
        client: Optional[Client] = None,
    ) -> SandboxPage:
        """At most *limit* (20, and up to 100) of those that have all of *labels*, from *cursor* on."""
        if limit is not None and not 1 <= limit <= PAGE_MAX:
            raise InvalidConfigError(f"limit must be from 1 to {PAGE_MAX}")
        client = client or default_client()
        query: dict[str, Any] = {
            "pageSize": limit or PAGE,
            "cursor": cursor,
            "metadata": dict(labels) if labels else None,
        }
        wire = client.call("GET", "/sandboxes", query=query)
        after = wire.get("nextCursor")
        return SandboxPage([SandboxHandle(client, one) for one in wire["items"]], None if after is None else str(after))

    @staticmethod
    def remove(name: str, *, client: Optional[Client] = None) -> None:
        """Removes one that is stopped, with its files; SandboxStillRunningError when it is not."""
        client = client or default_client()
        wire = client.call("GET", _path(name))
        if wire["status"] != "stopped":
            raise SandboxStillRunningError(
                f"{name} is {wire['status']}: stop it before", code="sandbox_still_running", status=409
            )
        client.call("DELETE", _path(wire["id"]))

    @classmethod
    def find(
        cls, labels: Mapping[str, str], provider: Optional[str] = None, *, client: Optional[Client] = None
    ) -> Optional[Sandbox]:
        """The newest one that runs and has all of *labels*; None when there is none."""
        client = client or default_client()
        query: dict[str, Any] = {"status": "running", "pageSize": 1, "metadata": dict(labels)}
        found = (client.call("GET", "/sandboxes", query=query))["items"]
        return cls(client, found[0]) if found else None

    @classmethod
    def get_or_create(cls, labels: Mapping[str, str], **options: Any) -> Sandbox:
        """``find``, else ``create`` with these labels. It outlives this process, so that another finds it."""
        return pending(lambda: cls._get_or_create(labels, options))

    @classmethod
    def _get_or_create(cls, labels: Mapping[str, str], options: Mapping[str, Any]) -> Sandbox:
        found = cls.find(labels, client=options.get("client"))
        if found is not None:
            return found
        return cls._create(None, {"detached": True, **options, "labels": labels})

    # What it is

    @property
    def name(self) -> Name:
        """Its name; ``sandbox.name`` is the same."""
        return Name(self._label)

    @property
    def info(self) -> models.Sandbox:
        """All that the daemon says of it, as of when it was last asked."""
        from cay import _models as models

        return models.Sandbox.model_validate(self._wire)

    @property
    def backend_kind(self) -> BackendKind:
        return BackendKind.LOCAL

    @property
    def owns_lifecycle(self) -> Flag:
        """Does it go with this process? ``await`` of it is the same."""
        return Flag(lifelines.holds(self.id))

    def refresh(self) -> models.Sandbox:
        """Asks the daemon again."""
        self._look()
        return self.info

    def __repr__(self) -> str:
        return f"Sandbox(name={self._label!r}, id={self.id!r}, status={self.status})"

    def _call(self, method: str, rest: str = "", body: Optional[Mapping[str, Any]] = None, **how: Any) -> Any:
        self._check()
        return super()._call(method, rest, body, **how)

    def _check(self) -> None:
        if self._is_consumed:
            raise RuntimeError(f"the sandbox {self._label} was consumed by detach(); Sandbox.get() finds it again")

    def _hold(self) -> None:
        lifelines.hold(
            self.id,
            self._client.url,
            self._client.token,
            is_removed=self._ephemeral,
            has_signs=self._has_lifeline,
        )

    @property
    def _has_lifeline(self) -> bool:
        """Is its idle time the SDK's own, and not one that somebody asked for?"""
        return self._wire["config"].get("idleTimeout") == _kept.IDLE_SECONDS and "idle" not in self._settings

    def _outlive(self) -> None:
        """It needs no signs of life from here on."""
        if self._has_lifeline:
            self._wire = self._call("PATCH", "", {"idleTimeout": 0})
        lifelines.let_go(self.id)

    # Its files, and what manages the rest

    @property
    def fs(self) -> SandboxFsOps:
        """Its files."""
        from .fs import SandboxFsOps

        self._check()
        return SandboxFsOps(self._client, self.id)

    def ssh(self) -> SandboxSshOps:
        """Commands and files in the words of ssh and sftp."""
        from .ssh import SandboxSshOps

        return SandboxSshOps(self)

    @property
    def env(self) -> EnvManager:
        """The environment of its commands."""
        from .managers import EnvManager

        return EnvManager(self._client, self.id)

    @property
    def filesystem(self) -> FileSystem:
        """Files in the words of the REST API; ``fs`` has bytes and streams."""
        from .managers import FileSystem

        return FileSystem(self._client, self.id)

    @property
    def git(self) -> GitManager:
        from .managers import GitManager

        return GitManager(self._client, self.id)

    @property
    def interpreter(self) -> CodeInterpreter:
        """Code with state, and what it shows."""
        from .managers import CodeInterpreter

        return CodeInterpreter(self._client, self.id)

    @property
    def processes(self) -> ProcessManager:
        from .managers import ProcessManager

        return ProcessManager(self._client, self.id)

    @property
    def ports(self) -> PortManager:
        """Ports of it on the host."""
        from .managers import PortManager

        return PortManager(self._client, self.id)

    @property
    def queue(self) -> QueueManager:
        """Commands that wait for their turn, and are tried again."""
        from .managers import QueueManager

        return QueueManager(self._client, self.id)

    @property
    def streams(self) -> StreamManager:
        from .managers import StreamManager

        return StreamManager(self._client, self.id)

    @property
    def monitor(self) -> MonitorManager:
        """Alerts on what it uses."""
        from .managers import MonitorManager

        return MonitorManager(self._client, self.id)

    @property
    def terminal(self) -> TerminalManager:
        """Shells that go on, whoever looks at them."""
        from .managers import TerminalManager

        return TerminalManager(self._client, self.id)

    # Commands

    def _invocation(self, cmd: str, args: Args, given: Mapping[str, Any]) -> Invocation:
        self._check()
        settings = self._settings
        made = invocation(cmd, args, {**given, "user": given.get("user") or settings.get("user")})
        shell = settings.get("shell")
        if isinstance(made.command, str) and shell:
            return _with_command(made, [shell, "-c", made.command])
        return made

    def exec(
        self,
        cmd: str,
        args: Args = None,
        *,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        stdin: Union[Stdin, bytes, str, None] = None,
        tty: bool = False,
        rlimits: Optional[Sequence[Rlimit]] = None,
    ) -> ExecOutput:
        """Runs a command to its end. ``exec("ls -l | wc")`` is a line for the shell, ``exec("ls", ["-l"])`` a program.

        A code other than 0 is a result. What cannot be started raises ExecFailedError, and what runs longer than *timeout* seconds
        (the daemon's CAY_MAX_CMD_TIMEOUT where none is given) ExecTimeoutError, with what was put out until then.
        """
        given = {
            "cwd": cwd,
            "user": user,
            "env": env,
            "timeout": timeout,
            "stdin": stdin,
            "tty": tty,
            "rlimits": rlimits,
        }
        return execute(self._client, self.id, self._invocation(cmd, args, given))

    def exec_stream(
        self,
        cmd: str,
        args: Args = None,
        *,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        stdin: Union[Stdin, bytes, str, None] = None,
        stdin_pipe: bool = False,
        tty: bool = False,
        rlimits: Optional[Sequence[Rlimit]] = None,
    ) -> ExecHandle:
        """Runs a command and hands it over: ``handle = sandbox.exec_stream(…)``. ``for chunk in
        sandbox.exec_stream(…)`` gives its output as text, and ends the command when the loop is left."""
        given = {
            "cwd": cwd,
            "user": user,
            "env": env,
            "timeout": timeout,
            "stdin": Stdin.pipe() if stdin_pipe else stdin,
            "tty": tty,
            "rlimits": rlimits,
        }
        made = self._invocation(cmd, args, given)
        return pending(lambda: ExecHandle.start(self._client, self.id, made), lambda: self._chunks(made))

    def _chunks(self, made: Invocation) -> Iterator[ExecChunk]:
        from codecs import getincrementaldecoder

        decoders = {kind: getincrementaldecoder("utf-8")("replace") for kind in ("stdout", "stderr")}
        with ExecHandle.start(self._client, self.id, made) as handle:
            for event in handle.events():
                if isinstance(event, (StdoutEvent, StderrEvent)):
                    if text := decoders[event.type].decode(event.data):
                        yield ExecChunk(event.type, text, int(time.time() * 1000))
                elif event.code is not None:
                    for kind, decoder in decoders.items():
                        if text := decoder.decode(b"", True):
                            yield ExecChunk(kind, text, int(time.time() * 1000))
                    yield ExecChunk("exit", str(event.code), int(time.time() * 1000))

    def shell(
        self,
        script: str,
        *,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        stdin: Union[Stdin, bytes, str, None] = None,
        tty: bool = False,
        rlimits: Optional[Sequence[Rlimit]] = None,
    ) -> ExecOutput:
        """Runs lines in the sandbox's shell."""
        return self.exec(
            script, cwd=cwd, user=user, env=env, timeout=timeout, stdin=stdin, tty=tty, rlimits=rlimits
        )

    def shell_stream(
        self,
        script: str,
        *,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        stdin: Union[Stdin, bytes, str, None] = None,
        stdin_pipe: bool = False,
        tty: bool = False,
        rlimits: Optional[Sequence[Rlimit]] = None,
    ) -> ExecHandle:
        """Runs lines in the sandbox's shell, and hands them over."""
        return self.exec_stream(
            script,
            cwd=cwd,
            user=user,
            env=env,
            timeout=timeout,
            stdin=stdin,
            stdin_pipe=stdin_pipe,
            tty=tty,
            rlimits=rlimits,
        )

    def _default(self) -> builtins.list[str]:
        """What the image runs, or what create() was told in its place."""
        settings = self._settings
        words = settings.get("entrypoint", []) + settings.get("cmd", [])
        if "entrypoint" not in settings:
            image: Mapping[str, Any] = {}
            try:
                image = self._client.call("GET", f"/images/{quote(self.image, safe='')}")
            except CayError as error:
                if error.status != 404:
                    raise
            words = [*image.get("entrypoint", []), *(settings.get("cmd") or image.get("cmd", []))]
        if not words:
            raise NoDefaultCommandError(
                f"the image {self.image} has no command of its own", code="no_default_command", status=400
            )
        return words

    def exec_default(
        self,
        *,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        stdin: Union[Stdin, bytes, str, None] = None,
        tty: bool = False,
        rlimits: Optional[Sequence[Rlimit]] = None,
    ) -> ExecOutput:
        """Runs the image's own command to its end; NoDefaultCommandError when it has none."""
        program, *args = self._default()
        return self.exec(
            program, args, cwd=cwd, user=user, env=env, timeout=timeout, stdin=stdin, tty=tty, rlimits=rlimits
        )

    def exec_default_stream(
        self,
        *,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        stdin: Union[Stdin, bytes, str, None] = None,
        tty: bool = False,
        rlimits: Optional[Sequence[Rlimit]] = None,
    ) -> ExecHandle:
        """Runs the image's own command and hands it over."""
        program, *args = self._default()
        return self.exec_stream(
            program, args, cwd=cwd, user=user, env=env, timeout=timeout, stdin=stdin, tty=tty, rlimits=rlimits
        )

    def attach(
        self,
        cmd: Optional[str] = None,
        args: Optional[Sequence[str]] = None,
        *,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        detach_keys: Optional[str] = None,
    ) -> int:
        """Runs a command on this terminal, or a shell, and gives its exit code. *detach_keys* ("ctrl-p,ctrl-q") leave it
        running."""
        if cmd is None:
            return self.attach_shell()
        from . import _terminal

        made = self._invocation(cmd, args, {"cwd": cwd, "user": user, "env": env})
        return _terminal.attach(self._client, self.id, made, detach_keys)

    def attach_default(
        self,
        *,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        detach_keys: Optional[str] = None,
    ) -> int:
        """Runs the image's own command on this terminal."""
        program, *args = self._default()
        return self.attach(program, args, cwd=cwd, user=user, env=env, detach_keys=detach_keys)

    def attach_shell(self) -> int:
        """A shell on this terminal: the sandbox's own, else bash where there is one."""
        shell = self._settings.get("shell")
        if shell:
            return self.attach(shell, [])
        return self.attach("exec $(command -v bash || command -v sh)")

    # The same in other words

    def execute(
        self, command: str, env_vars: Optional[Mapping[str, str]] = None, timeout: Optional[float] = None
    ) -> ExecOutput:
        """Runs a line in the shell. One that takes too long is a result here: ``timed_out``, with the exit code -1."""
        try:
            return self.exec(command, env=env_vars, timeout=timeout)
        except ExecTimeoutError as error:
            return ExecOutput(
                -1,
                error.stdout,
                error.stderr,
                truncated=error.truncated,
                timed_out=True,
                exec_id=error.exec_id,
                reason="timeout",
            )

    def execute_many(
        self,
        commands: Sequence[str],
        stop_on_error: bool = True,
        env_vars: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> builtins.list[ExecOutput]:
        """One line after the other; the first that fails is the last one, unless *stop_on_error* is False."""
        results: builtins.list[ExecOutput] = []
        for command in commands:
            results.append(self.execute(command, env_vars, timeout))
            if stop_on_error and not results[-1].success:
                break
        return results

    def stream(
        self, command: str, env_vars: Optional[Mapping[str, str]] = None, timeout: Optional[float] = None
    ) -> Iterator[str]:
        """What a line in the shell puts out, as it comes. It ends when the loop is left."""
        made = self._invocation(command, None, {"env": env_vars, "timeout": timeout})
        for chunk in self._chunks(made):
            if chunk.type != "exit":
                yield chunk.data

    def upload(self, local_path: HostPath, remote_path: str) -> None:
        """Copies a file of this machine into the sandbox."""
        local = os.fspath(local_path)
        if ".." in local.split(os.sep) or not os.path.isfile(local) or not os.access(local, os.R_OK):
            raise SandboxError(f"{local} is no file that can be read")
        self.fs.copy_from_host(local, remote_path)

    def download(self, remote_path: str, local_path: HostPath) -> None:
        """Copies a file of the sandbox to this machine."""
        local = os.fspath(local_path)
        folder = os.path.dirname(local) or "."
        if ".." in local.split(os.sep) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise SandboxError(f"{local} is in no folder that can be written to")
        self.fs.copy_to_host(remote_path, local)

    # How it goes on

    def pause(self) -> None:
        """Its processes stand still."""
        self._wire = self._call("POST", "/pause", again=True)

    def resume(self) -> None:
        """And go on."""
        self._wire = self._call("POST", "/resume", again=True)

    def renew(self, timeout: float) -> None:
        """It shall live for *timeout* more seconds."""
        self._wire = self._call("POST", "/renew", {"expiresAt": int((time.time() + timeout) * 1000)}, again=True)

    def stop(self, timeout: Optional[float] = None) -> None:
        """Ends every process and keeps the files (of an ephemeral one: nothing); ``Sandbox.start(name)`` goes on with them."""
        if self._ephemeral:
            return self.destroy()
        super().stop(timeout)
        lifelines.let_go(self.id)
        return None

    def kill(self, timeout: Optional[float] = None) -> None:
        """Ends every process at once. One of ``create_sandbox``, or an ephemeral one, is removed by that; another keeps its
        files."""
        if self._kill_removes:
            return self.destroy()
        super().kill(timeout)
        lifelines.let_go(self.id)
        return None

    def destroy(self) -> None:
        """Removes it with all that is in it; one that is gone is fine."""
        try:
            self._call("DELETE")
        except SandboxNotFoundError:
            pass
        lifelines.let_go(self.id)

    def remove_persisted(self) -> None:
        """Removes it when it is stopped."""
        Sandbox.remove(self.id, client=self._client)

    def stop_and_wait(self) -> tuple[int, bool]:
        """Stops it; how its main process ended, and whether well."""
        self.stop()
        end = self.wait_until_stopped()
        return end.exit_code or 0, not end.exit_code

    def wait(self) -> tuple[int, bool]:
        """Waits until it has stopped."""
        end = self.wait_until_stopped()
        return end.exit_code or 0, not end.exit_code

    def detach(self) -> None:
        """Gives it up: it outlives this process, and this object is of no use any more."""
        if lifelines.holds(self.id):
            self._outlive()
        self._is_consumed = True

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_consumed:
            try:
                self.destroy()
            except CayError:
                pass  # it goes by itself; what happened inside of the block matters more

    # Snapshots

    def clone(self, name: Optional[str] = None) -> Sandbox:
        """Another one with the same files."""
        body = {"name": name} if name is not None else {}
        wire = self._call("POST", "/clone", body, idempotent=True, timeout=600.0)
        return Sandbox(self._client, wire, kill_removes=self._kill_removes)

    def fork(self, count: int = 1, *, name: Optional[str] = None) -> builtins.list[Sandbox]:
        """*count* of them at once: all are made, or none."""
        wire = self._call("POST", "/fork", {"count": count, "name": name}, idempotent=True, timeout=600.0)
        return [Sandbox(self._client, one, kill_removes=self._kill_removes) for one in wire["sandboxes"]]

    def restore(self, snapshot_id: str) -> models.Sandbox:
        """Its files become those of one of its snapshots."""
        self._wire = self._call("POST", "/snapshots/restore", {"snapshotId": snapshot_id}, timeout=600.0)
        return self.info

    def list_snapshots(self) -> builtins.list[Snapshot]:
        """Those of this one."""
        from .snapshot import Snapshot

        return [Snapshot(self._client, wire) for wire in (self._call("GET", "/snapshots"))["snapshots"]]


def _with_command(made: Invocation, command: builtins.list[str]) -> Invocation:
    from dataclasses import replace

    return replace(made, command=command)


def all_sandbox_metrics(*, client: Optional[Client] = None) -> dict[str, SandboxMetrics]:
    """What each sandbox that runs uses, by name; one that ends meanwhile is left out."""
    client = client or default_client()
    found: dict[str, SandboxMetrics] = {}
    cursor: Optional[str] = None
    while True:
        query: dict[str, Any] = {"status": "running", "pageSize": PAGE_MAX, "cursor": cursor}
        wire = client.call("GET", "/sandboxes", query=query)
        for one in wire["items"]:
            try:
                found[one["name"]] = SandboxHandle(client, one).metrics()
            except (SandboxNotFoundError, MetricsUnavailableError, SandboxNotRunningError):
                pass
        cursor = wire.get("nextCursor")
        if cursor is None:
            return found
