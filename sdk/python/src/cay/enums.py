"""The closed sets of values. A member is its word: ``PullPolicy.NEVER == "never"``."""

from __future__ import annotations

import enum
from typing import Any, TypeVar


class StrEnum(str, enum.Enum):
    """``enum.StrEnum`` for the Pythons that have none (before 3.11)."""

    def __str__(self) -> str:
        return str(self.value)


E_ = TypeVar("E_", bound=StrEnum)


def checked(value: Any, kind: type[E_], name: str) -> E_:
    """*value* if it is a member of *kind*: a plain word is refused, as a typing mistake in one would go unseen."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
    return value


class PullPolicy(StrEnum):
    """When an image is pulled."""

    ALWAYS = "always"
    IF_MISSING = "if-missing"
    NEVER = "never"


class CpuPlacement(StrEnum):
    INHERIT = "inherit"
    AUTO = "auto"
    SPREAD = "spread"
    COMPACT = "compact"


class LogLevel(StrEnum):
    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class SecurityProfile(StrEnum):
    """cay's own hardening is always on, so both mean the same here."""

    DEFAULT = "default"
    RESTRICTED = "restricted"


class DeploymentProfile(StrEnum):
    """Sandboxes of cay are always kept apart as those of strangers are, so both mean the same here."""

    SINGLE_TENANT = "single-tenant"
    MULTI_TENANT = "multi-tenant"


class SandboxStatus(StrEnum):
    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    CRASHED = "crashed"
    DRAINING = "draining"
    PAUSED = "paused"


class BackendKind(StrEnum):
    LOCAL = "local"
    CLOUD = "cloud"


class ModificationPolicy(StrEnum):
    """What :meth:`Sandbox.modify` may do to reach its end."""

    NO_RESTART = "no_restart"
    NEXT_START = "next_start"
    RESTART = "restart"


class PlannedChangeKind(StrEnum):
    CONFIG = "config"
    SECRET = "secret"


class ChangeKind(StrEnum):
    ADDED = "added"
    UPDATED = "updated"
    REMOVED = "removed"


class SecretChangeKind(StrEnum):
    ADDED = "added"
    ROTATED = "rotated"
    REMOVED = "removed"
    RENAMED = "renamed"
    HOSTS_UPDATED = "hosts updated"
    PLACEHOLDER_UPDATED = "placeholder updated"


class ModificationDisposition(StrEnum):
    LIVE = "live"
    NEXT_START = "next start"
    REQUIRES_RESTART = "requires restart"
    UNSUPPORTED = "unsupported"


class ResourceKind(StrEnum):
    CPUS = "cpus"
    MEMORY = "memory"


class ResourceConvergenceState(StrEnum):
    ACCEPTED = "accepted"
    CONVERGING = "converging"
    APPLIED = "applied"
    GUEST_REFUSED = "guest-refused"
    FAILED = "failed"


class StdinMode(StrEnum):
    NULL = "null"
    PIPE = "pipe"
    BYTES = "bytes"


class ExecEventType(StrEnum):
    STARTED = "started"
    STDOUT = "stdout"
    STDERR = "stderr"
    EXITED = "exited"
    FAILED = "failed"
    STDIN_ERROR = "stdin_error"


class PullEventType(StrEnum):
    RESOLVING = "resolving"
    RESOLVED = "resolved"
    LAYER_DOWNLOAD_PROGRESS = "layer_download_progress"
    LAYER_DOWNLOAD_COMPLETE = "layer_download_complete"
    LAYER_DOWNLOAD_VERIFYING = "layer_download_verifying"
    LAYER_MATERIALIZE_STARTED = "layer_materialize_started"
    LAYER_MATERIALIZE_PROGRESS = "layer_materialize_progress"
    LAYER_MATERIALIZE_WRITING = "layer_materialize_writing"
    LAYER_MATERIALIZE_COMPLETE = "layer_materialize_complete"
    STITCH_MERGING_TREES = "stitch_merging_trees"
    STITCH_WRITING_FSMETA = "stitch_writing_fsmeta"
    STITCH_WRITING_VMDK = "stitch_writing_vmdk"
    STITCH_COMPLETE = "stitch_complete"
    COMPLETE = "complete"


class Action(StrEnum):
    ALLOW = "allow"
    DENY = "deny"


class Direction(StrEnum):
    EGRESS = "egress"
    INGRESS = "ingress"
    ANY = "any"


class Protocol(StrEnum):
    TCP = "tcp"
    UDP = "udp"
    ICMPV4 = "icmpv4"
    ICMPV6 = "icmpv6"


class PortProtocol(StrEnum):
    TCP = "tcp"
    UDP = "udp"


class VsockSocketType(StrEnum):
    STREAM = "stream"
    DGRAM = "dgram"


class DestGroup(StrEnum):
    """Addresses that belong together; docs/network-policy.md says which are in each."""

    PUBLIC = "public"
    LOOPBACK = "loopback"
    PRIVATE = "private"
    LINK_LOCAL = "link-local"
    METADATA = "metadata"
    MULTICAST = "multicast"
    HOST = "host"


class NetworkProfile(StrEnum):
    PUBLIC = "public"
    PRIVATE = "private"
    HOST = "host"


class NetworkDestinationKind(StrEnum):
    ANY = "any"
    IP = "ip"
    CIDR = "cidr"
    DOMAIN = "domain"
    DOMAIN_SUFFIX = "domain_suffix"
    GROUP = "group"


class ViolationAction(StrEnum):
    BLOCK = "block"
    BLOCK_AND_LOG = "block-and-log"
    BLOCK_AND_TERMINATE = "block-and-terminate"
    PASSTHROUGH = "passthrough"


class MountKind(StrEnum):
    BIND = "bind"
    NAMED = "named"
    TMPFS = "tmpfs"
    DISK = "disk"


class StatVirtualization(StrEnum):
    STRICT = "strict"
    RELAXED = "relaxed"
    OFF = "off"


class HostPermissions(StrEnum):
    PRIVATE = "private"
    MIRROR = "mirror"


class FsEntryKind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


class DiskImageFormat(StrEnum):
    QCOW2 = "qcow2"
    RAW = "raw"
    VMDK = "vmdk"


class VolumeKind(StrEnum):
    DIRECTORY = "dir"
    DISK = "disk"


class NamedVolumeMode(StrEnum):
    """What to do about a volume of that name at the create of a sandbox."""

    EXISTING = "existing"
    CREATE = "create"
    ENSURE_EXISTS = "ensure-exists"


class ImageArchiveFormat(StrEnum):
    DOCKER = "docker"
    OCI = "oci"


class RootDiskKind(StrEnum):
    MANAGED = "managed"
    TMPFS = "tmpfs"
    DISK_IMAGE = "disk-image"
    FLAT = "flat"


class FlatClone(StrEnum):
    AUTO = "auto"
    COPY = "copy"
    REFLINK = "reflink"


class ImageSourceKind(StrEnum):
    OCI = "oci"
    BIND = "bind"
    DISK = "disk"


class PatchKind(StrEnum):
    TEXT = "text"
    FILE = "file"
    MKDIR = "mkdir"
    APPEND = "append"
    COPY_FILE = "copy_file"
    COPY_DIR = "copy_dir"
    SYMLINK = "symlink"
    REMOVE = "remove"


class SnapshotStateKind(StrEnum):
    FILE = "file"
    CHECKPOINT = "checkpoint"


class SnapshotFormat(StrEnum):
    RAW = "raw"
    QCOW2 = "qcow2"


class SnapshotScope(StrEnum):
    DISK = "disk"
    RESUMABLE = "resumable"


class RlimitResource(StrEnum):
    """What setrlimit(2) can limit."""

    CPU = "cpu"
    FSIZE = "fsize"
    DATA = "data"
    STACK = "stack"
    CORE = "core"
    RSS = "rss"
    NPROC = "nproc"
    NOFILE = "nofile"
    MEMLOCK = "memlock"
    AS = "as"
    LOCKS = "locks"
    SIGPENDING = "sigpending"
    MSGQUEUE = "msgqueue"
    NICE = "nice"
    RTPRIO = "rtprio"
    RTTIME = "rttime"


class LogSource(StrEnum):
    """Where a line of a log came from: a terminal is OUTPUT, cay itself is SYSTEM."""

    STDOUT = "stdout"
    STDERR = "stderr"
    OUTPUT = "output"
    SYSTEM = "system"


class LogReadSource(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    OUTPUT = "output"
    SYSTEM = "system"
    ALL = "all"
