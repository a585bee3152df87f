# Made from cay/_logs.py by tools/unasync.py: change that one.
"""What a sandbox has put out: its main process, its commands, and what happened to the sandbox itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional
from urllib.parse import quote

from cay.enums import LogReadSource, LogSource, checked
from cay.errors import CayError, SandboxNotFoundError, SandboxNotRunningError
from cay.records import LogEntry

from . import _aio
from ._http import Client

LOOK_SECONDS = 0.25
MAIN = 0  # the session of the main process; commands count from 1

_ALL = [LogReadSource.STDOUT, LogReadSource.STDERR, LogReadSource.OUTPUT]


def is_within(entry: LogEntry, since_ms: Optional[float], until_ms: Optional[float]) -> bool:
    return (since_ms is None or entry.timestamp_ms >= since_ms) and (until_ms is None or entry.timestamp_ms <= until_ms)


class LogStream:
    """Entries of a log, one after the other."""

    def __init__(self, entries: Iterator[LogEntry]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[LogEntry]:
        return self

    def __next__(self) -> LogEntry:
        return self._entries.__next__()


def _place(entry: LogEntry) -> tuple[float, int, str]:
    return entry.timestamp_ms, -1 if entry.session_id is None else entry.session_id, entry.cursor


class _Reader:
    """Reads on from where it was."""

    def __init__(self, client: Client, sandbox_id: str, sources: Optional[Sequence[LogReadSource]]) -> None:
        self._client = client
        self._id = sandbox_id
        self._path = f"/sandboxes/{quote(sandbox_id, safe='')}"
        wanted = [checked(one, LogReadSource, "sources") for one in sources or _ALL]
        self._sources = {str(s) for s in LogSource} if LogReadSource.ALL in wanted else {str(s) for s in wanted}
        self._cursors: dict[str, int] = {}
        self._ended: set[str] = set()
        self._sessions: dict[str, int] = {}
        self._lines = 0
        self._events: set[str] = set()

    def more(self) -> list[LogEntry]:
        """What came since the last time."""
        entries: list[LogEntry] = []
        if self._sources != {str(LogSource.SYSTEM)}:
            try:
                self._main(entries)
                self._commands(entries)
            except SandboxNotRunningError:
                pass  # what is kept is kept in the sandbox, and is there again when it is started
        if str(LogSource.SYSTEM) in self._sources:
            self._system(entries)
        return sorted((e for e in entries if str(e.source) in self._sources), key=_place)

    def _add(
        self, to: list[LogEntry], ms: float, source: LogSource, session: Optional[int], at: Any, data: str
    ) -> None:
        if data:
            cursor = f"{int(ms):015d}.{-1 if session is None else session:06d}.{source}.{at}"
            to.append(LogEntry(float(ms), source, session, cursor, data.encode()))

    def _main(self, entries: list[LogEntry]) -> None:
        lines = []
        try:
            for wire in self._client.events("GET", self._path + "/stream/logs", query={"follow": False}):
                if wire.get("type") in ("stdout", "stderr"):
                    lines.append(wire)
        except CayError as error:
            if error.code != "log_not_found":
                raise
        for at, wire in enumerate(lines[self._lines :], self._lines):
            self._add(entries, wire["timestamp"], LogSource(wire["type"]), MAIN, f"{at:09d}", wire["data"] + "\n")
        self._lines = len(lines)

    def _commands(self, entries: list[LogEntry]) -> None:
        found = (self._client.call("GET", self._path + "/exec"))["execs"]
        for one in sorted(found, key=lambda e: (e["startedAt"], e["id"])):
            session = self._sessions.setdefault(one["id"], len(self._sessions) + 1)
            if one["id"] not in self._ended:
                self._command(entries, one["id"], session)

    def _command(self, entries: list[LogEntry], exec_id: str, session: int) -> None:
        while True:
            at = self._cursors.get(exec_id, 0)
            try:
                wire = self._client.call("GET", f"{self._path}/exec/{exec_id}", query={"cursor": at})
            except CayError as error:
                if error.code != "exec_not_found":
                    raise
                self._ended.add(exec_id)
                return
            ms = wire["startedAt"] if at == 0 else wire.get("finishedAt", wire["startedAt"])
            out = LogSource.OUTPUT if wire["tty"] else LogSource.STDOUT
            self._add(entries, ms, out, session, f"{at:012d}", wire["stdout"])
            self._add(entries, ms, LogSource.STDERR, session, f"{at:012d}", wire["stderr"])
            self._cursors[exec_id] = wire["cursor"]
            if not wire["more"]:
                if not wire["running"]:
                    self._ended.add(exec_id)
                return

    def _system(self, entries: list[LogEntry]) -> None:
        query = {"sandboxId": self._id, "limit": 1000}
        for event in (self._client.call("GET", "/events/history", query=query))["events"]:
            if (
                event["id"] in self._events
                or not event["topic"].startswith("sandbox.")
                or event["topic"] == "sandbox.exec"
            ):
                continue
            self._events.add(event["id"])
            reason = event["data"].get("reason")
            text = event["topic"] + (f" ({reason})" if reason else "") + "\n"
            self._add(entries, event["timestamp"], LogSource.SYSTEM, None, event["id"], text)


def read(client: Client, sandbox_id: str, sources: Optional[Sequence[LogReadSource]]) -> list[LogEntry]:
    """All that is there now, by time."""
    return _Reader(client, sandbox_id, sources).more()


def stream(
    client: Client,
    sandbox_id: str,
    sources: Optional[Sequence[LogReadSource]],
    since_ms: Optional[float],
    from_cursor: Optional[str],
    until_ms: Optional[float],
    follow: bool,
) -> Iterator[LogEntry]:
    """All that is there, and with *follow* what comes until the sandbox does not run any more."""
    reader = _Reader(client, sandbox_id, sources)
    is_on = True
    while True:
        for entry in reader.more():
            if is_within(entry, since_ms, until_ms) and (from_cursor is None or entry.cursor > from_cursor):
                yield entry
        if not follow or not is_on:
            return
        try:
            is_on = (client.call("GET", f"/sandboxes/{quote(sandbox_id, safe='')}"))["status"] != "stopped"
        except SandboxNotFoundError:
            return
        _aio.sleep(LOOK_SECONDS)
