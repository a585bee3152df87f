# Made from cay/volume.py by tools/unasync.py: change that one.
"""Volumes: folders of a fixed size that outlive sandboxes, and the makers of mounts."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping
from typing import Any, Optional, Union
from urllib.parse import quote

from cay.enums import DiskImageFormat, MountKind, NamedVolumeMode, VolumeKind, checked
from cay.errors import InvalidConfigError, UnsupportedError
from cay.mounts import MountConfig
from cay.sizes import MiBs, mib_of

from ._http import Client, default_client
from .fs import VolumeFs

__all__ = ["Volume", "VolumeHandle"]


class VolumeHandle:
    """A volume as it was when it was asked for."""

    def __init__(self, client: Client, wire: Mapping[str, Any]) -> None:
        self._client = client
        self._wire = wire

    @property
    def id(self) -> str:
        return str(self._wire["id"])

    @property
    def name(self) -> str:
        return str(self._wire["name"])

    @property
    def is_default(self) -> bool:
        return False

    @property
    def kind(self) -> VolumeKind:
        return VolumeKind.DIRECTORY

    @property
    def quota_mib(self) -> Optional[int]:
        return int(self._wire["sizeBytes"]) >> 20

    @property
    def used_bytes(self) -> int:
        return int(self._wire["usedBytes"])

    @property
    def capacity_bytes(self) -> Optional[int]:
        return int(self._wire["sizeBytes"])

    @property
    def disk_format(self) -> Optional[DiskImageFormat]:
        return None

    @property
    def disk_fstype(self) -> Optional[str]:
        return None

    @property
    def labels(self) -> dict[str, str]:
        return dict(self._wire.get("labels", {}))

    @property
    def created_at(self) -> Optional[float]:
        return float(self._wire["createdAt"]) / 1000

    @property
    def sandboxes(self) -> builtins.list[str]:
        """Ids of those that have it."""
        return [one["sandboxId"] for one in self._wire["attachments"]]

    @property
    def fs(self) -> VolumeFs:
        """Its files, with no sandbox needed."""
        return VolumeFs(self._client, self.id)

    def remove(self) -> None:
        """Removes it with all that is in it; not while a sandbox has it."""
        self._client.call("DELETE", f"/volumes/{quote(self.id, safe='')}")

    def __repr__(self) -> str:
        return f"VolumeHandle(name={self.name!r}, id={self.id!r})"


class Volume:
    """A volume that was made; and the makers of mounts, for ``volumes=`` of a sandbox."""

    def __init__(self, handle: VolumeHandle) -> None:
        self._handle = handle

    @property
    def id(self) -> str:
        return self._handle.id

    @property
    def name(self) -> str:
        return self._handle.name

    @property
    def path(self) -> str:
        """Where it is below the daemon's data."""
        return f"volumes/{self.id}"

    @property
    def fs(self) -> VolumeFs:
        """Its files, with no sandbox needed."""
        return self._handle.fs

    def __repr__(self) -> str:
        return f"Volume(name={self.name!r}, id={self.id!r})"

    @classmethod
    def create(
        cls,
        name: str,
        *,
        quota: Optional[MiBs] = None,
        kind: VolumeKind = VolumeKind.DIRECTORY,
        size_mib: Optional[int] = None,
        quota_mib: Optional[int] = None,
        labels: Optional[Mapping[str, str]] = None,
        client: Optional[Client] = None,
    ) -> Volume:
        """Makes a volume of that name, which none may have yet. Its size is *quota* in MiB (also *size_mib* or *quota_mib*)."""
        if checked(kind, VolumeKind, "kind") is VolumeKind.DISK:
            raise UnsupportedError(operation="volume.disk", hint="volumes are folders: leave kind as it is")
        if labels:
            raise UnsupportedError(operation="volume.labels", hint="put it into the name")
        client = client or default_client()
        if any(one.name == name for one in cls.list(client=client)):
            raise InvalidConfigError(f"there is a volume {name!r} already", code="volume_exists", status=409)
        size = next((s for s in (quota, size_mib, quota_mib) if s is not None), None)
        body: dict[str, Any] = {"name": name}
        if size is not None:
            body["sizeMb"] = mib_of(size, "quota")
        return cls(VolumeHandle(client, client.call("POST", "/volumes", json=body, idempotent=True)))

    @staticmethod
    def get(name: str, *, client: Optional[Client] = None) -> VolumeHandle:
        """By name or id."""
        client = client or default_client()
        return VolumeHandle(client, client.call("GET", f"/volumes/{quote(name, safe='')}"))

    @staticmethod
    def get_default() -> VolumeHandle:
        """Of an account in a cloud, which a daemon of one's own has none of."""
        raise UnsupportedError(operation="volume.get_default", hint="name a volume")

    @staticmethod
    def list(*, client: Optional[Client] = None) -> builtins.list[VolumeHandle]:
        client = client or default_client()
        return [VolumeHandle(client, wire) for wire in (client.call("GET", "/volumes"))["volumes"]]

    @staticmethod
    def remove(name: str, *, client: Optional[Client] = None) -> None:
        """Removes it with all that is in it; not while a sandbox has it."""
        client = client or default_client()
        client.call("DELETE", f"/volumes/{quote(name, safe='')}")

    # Mounts

    @staticmethod
    def bind(
        path: Union[str, os.PathLike[str]],
        *,
        readonly: bool = False,
        noexec: bool = False,
        nosuid: bool = False,
        nodev: bool = False,
    ) -> MountConfig:
        """A folder of the daemon's machine, which has to allow it (CAY_BIND_ALLOW)."""
        return MountConfig(
            MountKind.BIND, bind=os.fspath(path), readonly=readonly, noexec=noexec, nosuid=nosuid, nodev=nodev
        )

    @staticmethod
    def named(
        name: str,
        *,
        mode: Optional[NamedVolumeMode] = None,
        kind: Optional[VolumeKind] = None,
        size_mib: Optional[int] = None,
        quota_mib: Optional[int] = None,
        readonly: bool = False,
        noexec: bool = False,
        nosuid: bool = False,
        nodev: bool = False,
    ) -> MountConfig:
        """A volume, which must be there unless *mode* says otherwise."""
        if mode is not None:
            checked(mode, NamedVolumeMode, "mode")
        return MountConfig(
            MountKind.NAMED,
            named=name,
            named_mode=mode,
            named_kind=kind,
            size_mib=size_mib,
            quota_mib=quota_mib,
            readonly=readonly,
            noexec=noexec,
            nosuid=nosuid,
            nodev=nodev,
        )

    @staticmethod
    def tmpfs(
        *,
        size_mib: Optional[int] = None,
        readonly: bool = False,
        noexec: bool = False,
        nosuid: bool = False,
        nodev: bool = False,
    ) -> MountConfig:
        """A folder in memory, which counts as the sandbox's."""
        return MountConfig(
            MountKind.TMPFS, size_mib=size_mib, readonly=readonly, noexec=noexec, nosuid=nosuid, nodev=nodev
        )

    @staticmethod
    def disk(
        path: str,
        *,
        format: Optional[DiskImageFormat] = None,
        fstype: Optional[str] = None,
        readonly: bool = False,
        noexec: bool = False,
        nosuid: bool = False,
        nodev: bool = False,
    ) -> MountConfig:
        """A disk of a virtual machine: a sandbox with one is refused."""
        return MountConfig(
            MountKind.DISK,
            disk=path,
            format=format,
            fstype=fstype,
            readonly=readonly,
            noexec=noexec,
            nosuid=nosuid,
            nodev=nodev,
        )
