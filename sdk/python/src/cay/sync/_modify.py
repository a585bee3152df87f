# Made from cay/_modify.py by tools/unasync.py: change that one.
"""Changes of a sandbox that is there: planned, told, and made all at once or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Optional
from urllib.parse import quote

from cay._kept import SETTINGS, Settings
from cay.enums import (
    ChangeKind,
    ModificationDisposition,
    ModificationPolicy,
    PlannedChangeKind,
    ResourceConvergenceState,
    ResourceKind,
    SandboxStatus,
)
from cay.errors import InvalidConfigError, UnsupportedError
from cay.records import (
    ConfigPlannedChange,
    ModificationConflict,
    PlannedChange,
    ResourceResizeStatus,
    SandboxModificationPlan,
)
from cay.sizes import MiBs, mib_of

from ._http import Client

_HINTS = {
    "root_disk_size": "a disk keeps its size; make a sandbox from a snapshot of this one",
    "workdir": "say cwd= for each command",
    "secrets": "the daemon cannot put secrets into requests",
    "secrets_rm": "the daemon cannot put secrets into requests",
}


class Plan:
    """What is to be changed of the sandbox that *wire* tells of."""

    def __init__(self, wire: Mapping[str, Any], status: SandboxStatus, settings: Settings) -> None:
        self._wire = wire
        self._status = status
        self._settings = settings
        self._body: dict[str, Any] = {}
        self._changes: list[PlannedChange] = []
        self._conflicts: list[ModificationConflict] = []
        self._resized: list[ResourceResizeStatus] = []
        self._is_applied = False

    def refused(self, **fields: Any) -> None:
        """What no sandbox of cay can be changed in."""
        for name, value in fields.items():
            if value:
                raise UnsupportedError(operation=f"modify({name}=)", hint=_HINTS[name])

    def limits(
        self,
        *,
        cpus: Optional[float],
        max_cpus: Optional[float],
        memory: Optional[MiBs],
        max_memory: Optional[MiBs],
    ) -> None:
        config, settings = self._wire["config"], dict(self._settings)
        if max_cpus is not None:
            settings["max_cpus"] = float(max_cpus)
        if max_memory is not None:
            settings["max_memory"] = mib_of(max_memory, "max_memory")
        for name in ("max_cpus", "max_memory"):
            if settings.get(name) != self._settings.get(name):
                self._changed(name, self._settings.get(name), settings[name])
        if settings != self._settings:
            self._metadata()[SETTINGS] = json.dumps(settings, separators=(",", ":"))
        if memory is not None:
            self._resize(
                ResourceKind.MEMORY, "memory", config["memory"], mib_of(memory, "memory"), settings.get("max_memory")
            )
        if cpus is not None:
            if cpus <= 0:
                raise InvalidConfigError("cpus must be more than 0")
            self._resize(ResourceKind.CPUS, "cpu", config["cpu"], cpus, settings.get("max_cpus"))

    def _resize(self, kind: ResourceKind, key: str, before: float, after: float, most: Any) -> None:
        if most is not None and after > most:
            self._conflicts.append({"field": str(kind), "message": f"{after} is more than the {most} that it may have"})
            return
        if before == after:
            return
        self._body[key] = after
        self._changed(str(kind), before, after)
        self._resized.append(
            {
                "resource": kind,
                "requested": str(after),
                "actual": str(before),
                "enforced": str(before),
                "state": ResourceConvergenceState.ACCEPTED,
            }
        )

    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self._body.setdefault("metadata", dict(self._wire.get("metadata") or {}))
        return metadata

    def texts(self, field: str, given: Optional[Mapping[str, str]], gone: Optional[Sequence[str]]) -> None:
        """``env`` or ``labels``: some are set, some taken away."""
        if not given and not gone:
            return
        both = set(given or ()) & set(gone or ())
        if both:
            raise InvalidConfigError(f"{field}: {sorted(both)[0]!r} is to be set and to be taken away")
        values = self._metadata() if field == "labels" else dict(self._wire["config"].get("env") or {})
        for name, value in (given or {}).items():
            if values.get(name) != value:
                self._changed(f"{field}.{name}", values.get(name), value)
                values[name] = str(value)
        for name in gone or ():
            if name in values:
                self._changed(f"{field}.{name}", values.pop(name), None)
        if field == "env":
            self._body["env"] = values

    def _changed(self, field: str, before: Any, after: Any) -> None:
        change: ConfigPlannedChange = {
            "kind": PlannedChangeKind.CONFIG,
            "field": field,
            "change": ChangeKind.ADDED
            if before is None
            else ChangeKind.REMOVED
            if after is None
            else ChangeKind.UPDATED,
            "disposition": ModificationDisposition.LIVE,
        }
        if before is not None:
            change["before"] = str(before)
        if after is not None:
            change["after"] = str(after)
        self._changes.append(change)

    def apply(self, client: Client, sandbox_id: str, dry_run: bool) -> Optional[Mapping[str, Any]]:
        """Makes the changes, unless there is a conflict: the sandbox as it is then."""
        if dry_run or self._conflicts or not self._body:
            return None
        path = f"/sandboxes/{quote(sandbox_id, safe='')}"
        wire: Mapping[str, Any] = client.call("PATCH", path, json=self._body)
        self._is_applied = True
        for one in self._resized:
            key = "memory" if one["resource"] is ResourceKind.MEMORY else "cpu"
            one["actual"] = one["enforced"] = str(wire["config"][key])
            one["state"] = ResourceConvergenceState.APPLIED
        return wire

    def told(self, name: str, policy: ModificationPolicy) -> SandboxModificationPlan:
        """What the caller is told."""
        plan: SandboxModificationPlan = {
            "sandbox": name,
            "status": self._status,
            "applied": self._is_applied,
            "policy": policy,
            "changes": self._changes,
            "conflicts": self._conflicts,
            "warnings": [],
        }
        if self._resized:
            plan["resize_status"] = self._resized
        return plan
