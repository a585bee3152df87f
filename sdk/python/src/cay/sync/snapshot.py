# Made from cay/snapshot.py by tools/unasync.py: change that one.
"""Snapshots: what a sandbox's files were at one moment. They outlive their sandbox."""

from __future__ import annotations

import builtins
import hashlib
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Optional, Union
from urllib.parse import quote

from cay.enums import SnapshotFormat, SnapshotScope, SnapshotStateKind
from cay.errors import InvalidConfigError, SnapshotMigrationError, UnsupportedError

from ._http import Client, default_client
from .image import save_stream

__all__ = ["Snapshot", "SnapshotHandle"]

HostPath = Union[str, "os.PathLike[str]"]


def _path(name: str, rest: str = "") -> str:
    return f"/snapshots/{quote(name, safe='')}{rest}"


class _Record:
    """What both of them know."""

    def __init__(self, client: Client, wire: Mapping[str, Any]) -> None:
        self._client = client
        self._wire = wire

    @property
    def id(self) -> str:
        return str(self._wire["id"])

    @property
    def name(self) -> Optional[str]:
        return str(self._wire["name"])

    @property
    def digest(self) -> str:
        """Of the image that it is."""
        return str(self._wire["imageId"])

    @property
    def image_id(self) -> str:
        return str(self._wire["imageId"])

    @property
    def sandbox_id(self) -> str:
        return str(self._wire["sandboxId"])

    @property
    def size(self) -> int:
        return int(self._wire["size"])

    @property
    def size_bytes(self) -> Optional[int]:
        return int(self._wire["size"])

    @property
    def image_ref(self) -> str:
        """What the sandbox was made from."""
        return str(self._wire.get("config", {}).get("image", ""))

    @property
    def state_kind(self) -> SnapshotStateKind:
        return SnapshotStateKind.FILE

    @property
    def scope(self) -> SnapshotScope:
        """Files; processes and memory are no part of it."""
        return SnapshotScope.DISK

    @property
    def format(self) -> Optional[SnapshotFormat]:
        return None

    @property
    def fstype(self) -> Optional[str]:
        return None

    @property
    def checkpoint_manifest_digest(self) -> Optional[str]:
        return None

    @property
    def labels(self) -> dict[str, str]:
        return dict(self._wire.get("labels") or {})

    @property
    def path(self) -> str:
        """Where the daemon has it, below its address."""
        return _path(self.id)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(name={self.name!r}, id={self.id!r})"


class Snapshot(_Record):
    """A snapshot, as it was when it was made or opened."""

    @staticmethod
    def create(
        name: str,
        *,
        from_sandbox: str,
        dest_dir: Optional[HostPath] = None,
        labels: Optional[Mapping[str, str]] = None,
        force: bool = False,
        record_integrity: bool = False,
        resumable: bool = False,
        client: Optional[Client] = None,
    ) -> Snapshot:
        """Keeps the files of a sandbox, which may run: it stands still for a moment. With *force* a snapshot of that name goes
        first. Every snapshot can be verified, whatever *record_integrity* says."""
        if resumable:
            raise UnsupportedError(operation="snapshot.resumable", hint="snapshots are of files; processes start again")
        if dest_dir is not None:
            raise UnsupportedError(operation="snapshot.dest_dir", hint="Snapshot.save(name, path) writes it to a file")
        client = client or default_client()
        same = [one for one in Snapshot.list(client=client) if one.name == name]
        if same and not force:
            raise InvalidConfigError(
                f"there is a snapshot {name!r} already; force=True replaces it", code="snapshot_exists"
            )
        body = {"name": name, "labels": dict(labels) if labels else None}
        path = f"/sandboxes/{quote(from_sandbox, safe='')}/snapshots"
        made = Snapshot(client, client.call("POST", path, json=body, idempotent=True, timeout=600.0))
        for one in same:
            one.remove()
        return made

    @staticmethod
    def open(path_or_name: str, *, client: Optional[Client] = None) -> Snapshot:
        """By name or id."""
        client = client or default_client()
        return Snapshot(client, client.call("GET", _path(path_or_name)))

    @staticmethod
    def get(name_or_digest: str, *, client: Optional[Client] = None) -> SnapshotHandle:
        """By name or id."""
        client = client or default_client()
        return SnapshotHandle(client, client.call("GET", _path(name_or_digest)))

    @staticmethod
    def list(
        *, labels: Optional[Mapping[str, str]] = None, client: Optional[Client] = None
    ) -> builtins.list[SnapshotHandle]:
        """All of them, or those with all of these labels."""
        client = client or default_client()
        query = {"labels": dict(labels)} if labels else None
        return [
            SnapshotHandle(client, wire) for wire in (client.call("GET", "/snapshots", query=query))["snapshots"]
        ]

    @staticmethod
    def list_dir(dir: HostPath) -> builtins.list[Snapshot]:
        """Snapshots are the daemon's, and in no folder."""
        raise UnsupportedError(operation="snapshot.list_dir", hint="Snapshot.list() has all of them")

    @staticmethod
    def reindex(dir: Optional[HostPath] = None, *, client: Optional[Client] = None) -> int:
        """How many there are: the daemon's list is always right."""
        if dir is not None:
            raise UnsupportedError(
                operation="snapshot.reindex", hint="snapshots are in no folder; Snapshot.load() takes one in"
            )
        return len(Snapshot.list(client=client))

    @staticmethod
    def remove(path_or_name: str, *, force: bool = False, client: Optional[Client] = None) -> None:
        """Removes it; with *force* one that is gone is fine."""
        client = client or default_client()
        try:
            client.call("DELETE", _path(path_or_name))
        except Exception as error:
            if not force or getattr(error, "code", "") != "snapshot_not_found":
                raise

    @staticmethod
    def save(
        name_or_path: str,
        out: HostPath,
        *,
        with_parents: bool = False,
        with_image: bool = False,
        plain_tar: bool = False,
        client: Optional[Client] = None,
    ) -> None:
        """Writes what it has beyond its image to a file, as a layer in a tar archive. Its parents are part of that."""
        if with_image:
            raise UnsupportedError(operation="snapshot.save(with_image=True)", hint="Image.save() writes the image")
        client = client or default_client()
        save_stream(
            client.download(_path(name_or_path, "/export"), method="GET", accept="application/x-tar"), out
        )

    @staticmethod
    def load(
        archive: HostPath,
        *,
        dest: Optional[HostPath] = None,
        image: Optional[str] = None,
        name: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        client: Optional[Client] = None,
    ) -> SnapshotHandle:
        """Takes a layer in that :meth:`save` wrote. *image* is what it was on top of, which an archive does not say. The daemon
        reads the path itself, for root on its own machine only."""
        if dest is not None:
            raise UnsupportedError(operation="snapshot.load(dest=)", hint="the daemon keeps its snapshots")
        if image is None:
            raise SnapshotMigrationError(
                "the archive does not say what it is on top of: load(archive, image=…)", code="image_missing"
            )
        client = client or default_client()
        body = {
            "path": os.path.abspath(os.fspath(archive)),
            "image": image,
            "name": name,
            "labels": dict(labels) if labels else None,
        }
        return SnapshotHandle(
            client, client.call("POST", "/snapshots/import", json=body, idempotent=True, timeout=3600.0)
        )

    @property
    def image_manifest_digest(self) -> str:
        return self.digest

    @property
    def checkpoint_id(self) -> Optional[str]:
        return None

    @property
    def parent(self) -> Optional[str]:
        return None

    @property
    def source_sandbox(self) -> Optional[str]:
        return self.sandbox_id

    @property
    def created_at(self) -> str:
        """In words of ISO 8601."""
        return datetime.fromtimestamp(self._wire["createdAt"] / 1000, timezone.utc).isoformat()

    def verify(self) -> dict[str, Any]:
        """Reads all of it, which the daemon checks on the way, and tells its digest."""
        digest, size = hashlib.sha256(), 0
        for piece in self._client.download(_path(self.id, "/export"), method="GET", accept="application/x-tar"):
            digest.update(piece)
            size += len(piece)
        return {"ok": True, "digest": f"sha256:{digest.hexdigest()}", "bytes": size}


class SnapshotHandle(_Record):
    """A snapshot of a list, as it was then."""

    @property
    def created_at(self) -> float:
        return float(self._wire["createdAt"]) / 1000

    @property
    def parent_digest(self) -> Optional[str]:
        return None

    @property
    def locality(self) -> str:
        return "local"

    @property
    def availability(self) -> str:
        return "available"

    @property
    def migration_state(self) -> str:
        return "current"

    @property
    def migration_error_code(self) -> Optional[str]:
        return None

    def open(self) -> Snapshot:
        return Snapshot.open(self.id, client=self._client)

    def remove(self, *, force: bool = False) -> None:
        Snapshot.remove(self.id, force=force, client=self._client)
