"""What calls answer with, and the smaller things that they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Optional, TypedDict, Union

from cay.enums import (
    ChangeKind,
    DiskImageFormat,
    FlatClone,
    FsEntryKind,
    ImageSourceKind,
    LogSource,
    ModificationDisposition,
    ModificationPolicy,
    PlannedChangeKind,
    PullEventType,
    ResourceConvergenceState,
    ResourceKind,
    RootDiskKind,
    SandboxStatus,
    SecretChangeKind,
)
from cay.errors import UnsupportedError


@dataclass(frozen=True)
class RegistryAuth:
    """Who one is to a registry."""

    username: str
    password: str = field(repr=False)

    @classmethod
    def basic(cls, username: str, password: str) -> RegistryAuth:
        return cls(username, password)

    def to_wire(self) -> dict[str, str]:
        return {"username": self.username, "password": self.password}


@dataclass(frozen=True)
class InitConfig:
    """A program for process 1, which is the agent's in a sandbox of cay: one with this is refused."""

    cmd: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


class _InitOptionsRequired(TypedDict):
    cmd: str


class InitOptions(_InitOptionsRequired, total=False):
    args: list[str]
    env: dict[str, str]


# Sandboxes


@dataclass(frozen=True)
class SandboxStopResult:
    """How a sandbox came to stop. ``source`` is the daemon's word for who or what did it, where it knows."""

    name: str
    status: SandboxStatus
    exit_code: Optional[int]
    signal: Optional[int]
    observed_at: float
    source: Optional[str] = None


@dataclass(frozen=True)
class SandboxPingResult:
    name: str
    latency_ms: float


@dataclass(frozen=True)
class SandboxTouchResult:
    """``activity_seq`` grows with each sign of life: it is when the sandbox is idle next, in milliseconds (0 = never)."""

    name: str
    activity_seq: int


@dataclass(frozen=True)
class SandboxMetrics:
    """What a sandbox uses. Bytes of disks and networks are counted since it was started; None is what cannot be told now."""

    cpu_percent: float
    memory_bytes: int
    memory_limit_bytes: int
    net_rx_bytes: int
    net_tx_bytes: int
    pids: int
    timestamp_ms: float
    uptime_ms: int
    sandbox_id: str = ""
    vcpu_time_ns: int = 0
    disk_read_bytes: int = 0
    disk_write_bytes: int = 0
    memory_available_bytes: Optional[int] = None
    memory_host_resident_bytes: Optional[int] = None
    upper_used_bytes: Optional[int] = None
    upper_free_bytes: Optional[int] = None
    upper_host_allocated_bytes: Optional[int] = None

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any], *, now_ms: float, since_ms: float) -> SandboxMetrics:
        used, limit = int(wire["memoryUsageMb"] * (1 << 20)), int(wire["memoryLimitMb"] * (1 << 20))
        disk, disk_limit = wire.get("diskUsedBytes"), wire.get("diskLimitBytes")
        return cls(
            cpu_percent=float(wire["cpuPercent"]),
            memory_bytes=used,
            memory_limit_bytes=limit,
            net_rx_bytes=wire["networkRxBytes"],
            net_tx_bytes=wire["networkTxBytes"],
            pids=wire["pids"],
            timestamp_ms=now_ms,
            uptime_ms=max(0, int(now_ms - wire.get("startedAt", since_ms))),
            sandbox_id=wire["sandboxId"],
            vcpu_time_ns=wire.get("cpuTimeNs", 0),
            disk_read_bytes=wire.get("diskReadBytes", 0),
            disk_write_bytes=wire.get("diskWriteBytes", 0),
            memory_available_bytes=max(0, limit - used) if limit else None,
            memory_host_resident_bytes=used,
            upper_used_bytes=disk,
            upper_free_bytes=disk_limit - disk if disk is not None and disk_limit is not None else None,
            upper_host_allocated_bytes=disk,
        )

    # The daemon's own names

    @property
    def memory_usage_mb(self) -> float:
        return self.memory_bytes / (1 << 20)

    @property
    def memory_limit_mb(self) -> float:
        return self.memory_limit_bytes / (1 << 20)

    @property
    def network_rx_bytes(self) -> int:
        return self.net_rx_bytes

    @property
    def network_tx_bytes(self) -> int:
        return self.net_tx_bytes


@dataclass(frozen=True)
class LogEntry:
    """One piece of output. ``cursor`` goes back into ``log_stream(from_cursor=)``; ``session_id`` counts commands, and is None
    for what cay itself says."""

    timestamp_ms: float
    source: LogSource
    session_id: Optional[int]
    cursor: str
    data: bytes

    def text(self) -> str:
        return self.data.decode(errors="replace")


# Modifications


class ModificationConflict(TypedDict):
    field: str
    message: str


class ModificationWarning(TypedDict):
    field: str
    message: str


class ResourceResizeStatus(TypedDict):
    resource: ResourceKind
    requested: str
    actual: str
    enforced: str
    state: ResourceConvergenceState


class _ConfigPlannedChangeRequired(TypedDict):
    kind: Literal[PlannedChangeKind.CONFIG]
    field: str
    change: ChangeKind
    disposition: ModificationDisposition


class ConfigPlannedChange(_ConfigPlannedChangeRequired, total=False):
    before: str
    after: str
    reason: str


class _SecretPlannedChangeRequired(TypedDict):
    kind: Literal[PlannedChangeKind.SECRET]
    field: str
    name: str
    change: SecretChangeKind
    disposition: ModificationDisposition


class SecretPlannedChange(_SecretPlannedChangeRequired, total=False):
    before_ref: str
    after_ref: str
    allow_hosts: list[str]
    reason: str


PlannedChange = Union[ConfigPlannedChange, SecretPlannedChange]


class _SandboxModificationPlanRequired(TypedDict):
    sandbox: str
    status: SandboxStatus
    applied: bool
    policy: ModificationPolicy
    changes: list[PlannedChange]
    conflicts: list[ModificationConflict]
    warnings: list[ModificationWarning]


class SandboxModificationPlan(_SandboxModificationPlanRequired, total=False):
    """What :meth:`Sandbox.modify` changes, or would."""

    resize_status: list[ResourceResizeStatus]


# Files


@dataclass(frozen=True)
class FsEntry:
    """One entry of a folder; ``path`` is the whole of it, and times are in seconds."""

    path: str
    kind: FsEntryKind
    size: int
    mode: int
    modified: Optional[float] = None

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True)
class FsMetadata:
    """What a path is; times are in seconds. ``readonly``: nobody may write it."""

    kind: FsEntryKind
    size: int
    mode: int
    readonly: bool
    modified: Optional[float] = None
    created: Optional[float] = None


_KINDS = {"d": FsEntryKind.DIRECTORY, "l": FsEntryKind.SYMLINK, "-": FsEntryKind.FILE}


def kind_and_mode(permissions: str, is_directory: bool, is_symlink: bool) -> tuple[FsEntryKind, int]:
    """Of what the daemon shows as ``drwxr-xr-x``, or as octal digits."""
    kind = FsEntryKind.DIRECTORY if is_directory else FsEntryKind.SYMLINK if is_symlink else FsEntryKind.FILE
    if permissions.isdigit():
        return kind, int(permissions, 8) & 0o7777
    mode = 0
    for i, letter in enumerate(permissions[1:10]):
        mode |= (letter in "rwxst") << (8 - i)
        mode |= (letter in "sStT") << (11 - i // 3)
    return _KINDS.get(permissions[:1], FsEntryKind.OTHER), mode


# Images


@dataclass(frozen=True)
class RootDiskConfig:
    """The disk of a sandbox; made by :class:`RootDisk`."""

    kind: RootDiskKind
    size_mib: Optional[int] = None
    path: Optional[str] = None
    format: Optional[DiskImageFormat] = None
    fstype: Optional[str] = None
    clone: Optional[FlatClone] = None

    def to_wire(self) -> Optional[int]:
        """``disk`` of a create."""
        if self.kind is not RootDiskKind.MANAGED:
            raise UnsupportedError(
                operation=f"root_disk.{self.kind}", hint="a sandbox has a disk of its own: managed(size_mib)"
            )
        return self.size_mib


class RootDisk:
    """Makes root disks. cay has one kind: a disk of a given size, which :meth:`managed` says."""

    @staticmethod
    def managed(size_mib: Optional[int] = None) -> RootDiskConfig:
        return RootDiskConfig(RootDiskKind.MANAGED, size_mib)

    @staticmethod
    def tmpfs(size_mib: Optional[int] = None) -> RootDiskConfig:
        return RootDiskConfig(RootDiskKind.TMPFS, size_mib)

    @staticmethod
    def disk(path: str, *, format: Optional[DiskImageFormat] = None, fstype: Optional[str] = None) -> RootDiskConfig:
        return RootDiskConfig(RootDiskKind.DISK_IMAGE, None, path, format, fstype)

    @staticmethod
    def flat(
        size_mib: Optional[int] = None, *, fstype: Optional[str] = None, clone: Optional[FlatClone] = None
    ) -> RootDiskConfig:
        return RootDiskConfig(RootDiskKind.FLAT, size_mib, None, None, fstype, clone)


@dataclass(frozen=True)
class ImageSource:
    """What a sandbox is made from; made by :class:`cay.Image`."""

    kind: ImageSourceKind
    reference: str
    root_disk: Union[RootDiskConfig, int, None] = None
    fstype: Optional[str] = None

    def to_wire(self) -> dict[str, Any]:
        """``image`` and ``disk`` of a create."""
        if self.kind is not ImageSourceKind.OCI:
            raise UnsupportedError(
                operation=f"image.{self.kind}",
                hint="Image.load(path, tag=…) makes an image of a folder or an archive"
                if self.kind is ImageSourceKind.BIND
                else "disks of virtual machines are no images here",
            )
        disk = self.root_disk.to_wire() if isinstance(self.root_disk, RootDiskConfig) else self.root_disk
        return {"image": self.reference} if disk is None else {"image": self.reference, "disk": disk}


@dataclass(frozen=True)
class ImageConfigDetail:
    digest: str
    env: list[str]
    cmd: Optional[list[str]]
    entrypoint: Optional[list[str]]
    working_dir: Optional[str]
    user: Optional[str]
    labels: Optional[dict[str, Any]]
    stop_signal: Optional[str]


@dataclass(frozen=True)
class ImageLayerDetail:
    """The daemon tells how many layers there are, not what each is."""

    position: int
    diff_id: str = ""
    blob_digest: str = ""
    media_type: Optional[str] = None
    compressed_size_bytes: Optional[int] = None
    erofs_size_bytes: Optional[int] = None


@dataclass(frozen=True)
class ImagePruneReport:
    image_refs_removed: int
    manifests_removed: int
    layers_removed: int
    bytes_reclaimed: Optional[int]
    fsmeta_removed: int = 0
    vmdk_removed: int = 0


# Progress of a pull


@dataclass(frozen=True)
class PullEvent:
    """Something that happened while an image was fetched. The classes below are what comes, for ``match``; or look at
    ``event_type`` and the fields that are not None."""

    event_type: PullEventType
    reference: Optional[str] = None
    manifest_digest: Optional[str] = None
    layer_count: Optional[int] = None
    total_download_bytes: Optional[int] = None
    layer_index: Optional[int] = None
    digest: Optional[str] = None
    diff_id: Optional[str] = None
    downloaded_bytes: Optional[int] = None
    total_bytes: Optional[int] = None
    bytes_read: Optional[int] = None


class Resolving(PullEvent):
    """The registry is asked what the reference means."""


class Resolved(PullEvent):
    """It means this manifest, of so many layers and bytes."""


class LayerDownloadProgress(PullEvent):
    pass


class LayerDownloadComplete(PullEvent):
    """All of it came, or it was here already."""


class LayerExtractStarted(PullEvent):
    pass


class LayerExtractProgress(PullEvent):
    pass


class LayerExtractComplete(PullEvent):
    pass


class LayerIndexStarted(PullEvent):
    """Layers are put together."""


class LayerIndexComplete(PullEvent):
    pass


class PullComplete(PullEvent):
    """The image is here."""


class PullProgress:
    """Turns the daemon's events of a pull into these, and remembers what it has to."""

    def __init__(self) -> None:
        self._stored = False
        self._extracting: set[int] = set()
        self.reference: Optional[str] = None

    def read(self, wire: Mapping[str, Any]) -> list[PullEvent]:
        what = wire.get("event")
        if what == "resolving":
            self.reference = wire["reference"]
            return [Resolving(PullEventType.RESOLVING, reference=self.reference)]
        if what == "resolved":
            return [
                Resolved(
                    PullEventType.RESOLVED,
                    reference=wire["reference"],
                    manifest_digest=wire["digest"],
                    layer_count=wire["layers"],
                    total_download_bytes=wire["bytes"],
                )
            ]
        if what == "layer":
            return self._layer(wire)
        if what == "storing":
            self._stored = True
            return [LayerIndexStarted(PullEventType.STITCH_MERGING_TREES)]
        if what in ("done", "sandbox"):
            done: list[PullEvent] = []
            if self._stored:
                done.append(LayerIndexComplete(PullEventType.STITCH_COMPLETE))
            return [*done, PullComplete(PullEventType.COMPLETE, reference=self.reference)]
        return []

    def _layer(self, wire: Mapping[str, Any]) -> list[PullEvent]:
        index, state = wire["index"], wire["state"]
        about: dict[str, Any] = {"layer_index": index, "digest": wire["digest"], "total_bytes": wire["total"]}
        if state == "downloading":
            return [
                LayerDownloadProgress(
                    PullEventType.LAYER_DOWNLOAD_PROGRESS, downloaded_bytes=wire["downloaded"], **about
                )
            ]
        if state == "present":
            return [
                LayerDownloadComplete(
                    PullEventType.LAYER_DOWNLOAD_COMPLETE, downloaded_bytes=wire["downloaded"], **about
                )
            ]
        events: list[PullEvent] = []
        if state in ("unpacking", "done") and index not in self._extracting:
            self._extracting.add(index)
            events.append(
                LayerDownloadComplete(
                    PullEventType.LAYER_DOWNLOAD_COMPLETE, downloaded_bytes=wire["downloaded"], **about
                )
            )
            events.append(LayerExtractStarted(PullEventType.LAYER_MATERIALIZE_STARTED, **about))
        if state == "unpacking":
            events.append(
                LayerExtractProgress(PullEventType.LAYER_MATERIALIZE_PROGRESS, bytes_read=wire["unpacked"], **about)
            )
        if state == "done":
            events.append(
                LayerExtractComplete(PullEventType.LAYER_MATERIALIZE_COMPLETE, bytes_read=wire["unpacked"], **about)
            )
        return events
