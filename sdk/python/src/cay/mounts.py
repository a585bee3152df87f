"""What can be mounted in a sandbox; :class:`cay.Volume` makes these."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from cay.enums import (
    DiskImageFormat,
    HostPermissions,
    MountKind,
    NamedVolumeMode,
    StatVirtualization,
    VolumeKind,
    checked,
)
from cay.errors import InvalidConfigError, UnsupportedError


@dataclass(frozen=True)
class MountConfig:
    """One mount. Programs with setuid and devices never work in one, so ``nosuid`` and ``nodev`` change nothing."""

    kind: MountKind
    bind: Optional[str] = None
    named: Optional[str] = None
    named_mode: Optional[NamedVolumeMode] = None
    named_kind: Optional[VolumeKind] = None
    quota_mib: Optional[int] = None
    size_mib: Optional[int] = None
    readonly: bool = False
    noexec: bool = False
    nosuid: bool = False
    nodev: bool = False
    disk: Optional[str] = None
    format: Optional[DiskImageFormat] = None
    fstype: Optional[str] = None
    stat_virtualization: Optional[StatVirtualization] = None
    host_permissions: Optional[HostPermissions] = None

    def to_wire(self, where: str) -> dict[str, Any]:
        checked(self.kind, MountKind, "kind")
        if not where.startswith("/"):
            raise InvalidConfigError(f"volumes: {where!r} is not an absolute path")
        self._refuse_what_is_not_there()
        wire: dict[str, Any] = {"mountPath": where}
        if self.readonly:
            wire["readOnly"] = True
        if self.noexec:
            wire["noexec"] = True
        if self.kind is MountKind.BIND:
            wire["path"] = os.path.realpath(self.bind or "")
        if self.kind is MountKind.NAMED:
            if not self.named:
                raise InvalidConfigError("a volume needs a name")
            wire["name"] = self.named
            if self.named_mode in (NamedVolumeMode.CREATE, NamedVolumeMode.ENSURE_EXISTS):
                wire["create"] = True
        size = self.size_mib or self.quota_mib
        if size is not None and self.kind is not MountKind.BIND:
            wire["sizeMb"] = size
        return wire

    def _refuse_what_is_not_there(self) -> None:
        if self.kind is MountKind.DISK or self.named_kind is VolumeKind.DISK:
            raise UnsupportedError(operation="volumes.disk", hint="volumes are folders: Volume.named(name, size_mib=)")
        if self.kind is MountKind.BIND and self.quota_mib is not None:
            raise UnsupportedError(
                operation="volumes.quota_mib", hint="a volume has a size, a folder of the host has none"
            )
        if self.stat_virtualization not in (None, StatVirtualization.STRICT):
            raise UnsupportedError(
                operation="volumes.stat_virtualization", hint="owners are always shown as the sandbox's"
            )
        if self.host_permissions not in (None, HostPermissions.PRIVATE):
            raise UnsupportedError(
                operation="volumes.host_permissions", hint="see docs/volumes.md, Folders of the host"
            )


def mounts_to_wire(volumes: Mapping[str, MountConfig]) -> dict[str, list[dict[str, Any]]]:
    """``volumes`` and ``tmpfs`` of a create."""
    wire: dict[str, list[dict[str, Any]]] = {}
    for where, mount in volumes.items():
        if not isinstance(mount, MountConfig):
            raise TypeError(f"volumes[{where!r}] must be a MountConfig, as Volume.named() gives one")
        wire.setdefault("tmpfs" if mount.kind is MountKind.TMPFS else "volumes", []).append(mount.to_wire(where))
    return wire
