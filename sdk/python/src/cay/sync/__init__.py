# Made from cay/__init__.py by tools/unasync.py: change that one.
"""Sandboxes for code that you did not write.

    from cay import Sandbox

    with Sandbox.create("hello") as box:
        print((box.exec("echo hello")).stdout)

`cay.sync` has the same names for code that blocks. Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:
    from cay.enums import Action as Action
    from cay.enums import BackendKind as BackendKind
    from cay.enums import ChangeKind as ChangeKind
    from cay.enums import CpuPlacement as CpuPlacement
    from cay.enums import DeploymentProfile as DeploymentProfile
    from cay.enums import DestGroup as DestGroup
    from cay.enums import Direction as Direction
    from cay.enums import DiskImageFormat as DiskImageFormat
    from cay.enums import ExecEventType as ExecEventType
    from cay.enums import FlatClone as FlatClone
    from cay.enums import FsEntryKind as FsEntryKind
    from cay.enums import HostPermissions as HostPermissions
    from cay.enums import ImageArchiveFormat as ImageArchiveFormat
    from cay.enums import ImageSourceKind as ImageSourceKind
    from cay.enums import LogLevel as LogLevel
    from cay.enums import LogReadSource as LogReadSource
    from cay.enums import LogSource as LogSource
    from cay.enums import ModificationDisposition as ModificationDisposition
    from cay.enums import ModificationPolicy as ModificationPolicy
    from cay.enums import MountKind as MountKind
    from cay.enums import NamedVolumeMode as NamedVolumeMode
    from cay.enums import NetworkDestinationKind as NetworkDestinationKind
    from cay.enums import NetworkProfile as NetworkProfile
    from cay.enums import PatchKind as PatchKind
    from cay.enums import PlannedChangeKind as PlannedChangeKind
    from cay.enums import PortProtocol as PortProtocol
    from cay.enums import Protocol as Protocol
    from cay.enums import PullEventType as PullEventType
    from cay.enums import PullPolicy as PullPolicy
    from cay.enums import ResourceConvergenceState as ResourceConvergenceState
    from cay.enums import ResourceKind as ResourceKind
    from cay.enums import RlimitResource as RlimitResource
    from cay.enums import RootDiskKind as RootDiskKind
    from cay.enums import SandboxStatus as SandboxStatus
    from cay.enums import SecretChangeKind as SecretChangeKind
    from cay.enums import SecurityProfile as SecurityProfile
    from cay.enums import SnapshotFormat as SnapshotFormat
    from cay.enums import SnapshotScope as SnapshotScope
    from cay.enums import SnapshotStateKind as SnapshotStateKind
    from cay.enums import StatVirtualization as StatVirtualization
    from cay.enums import StdinMode as StdinMode
    from cay.enums import ViolationAction as ViolationAction
    from cay.enums import VolumeKind as VolumeKind
    from cay.enums import VsockSocketType as VsockSocketType
    from cay.errors import CayError as CayError
    from cay.errors import CloudHttpError as CloudHttpError
    from cay.errors import ExecFailedError as ExecFailedError
    from cay.errors import ExecTimeoutError as ExecTimeoutError
    from cay.errors import FilesystemError as FilesystemError
    from cay.errors import ImageInUseError as ImageInUseError
    from cay.errors import ImageNotFoundError as ImageNotFoundError
    from cay.errors import ImagePullFailedError as ImagePullFailedError
    from cay.errors import InvalidConfigError as InvalidConfigError
    from cay.errors import IoError as IoError
    from cay.errors import MetricsDisabledError as MetricsDisabledError
    from cay.errors import MetricsUnavailableError as MetricsUnavailableError
    from cay.errors import NetworkPolicyError as NetworkPolicyError
    from cay.errors import NoDefaultCommandError as NoDefaultCommandError
    from cay.errors import PathNotFoundError as PathNotFoundError
    from cay.errors import ProviderError as ProviderError
    from cay.errors import SandboxAlreadyExistsError as SandboxAlreadyExistsError
    from cay.errors import SandboxAuthenticationError as SandboxAuthenticationError
    from cay.errors import SandboxError as SandboxError
    from cay.errors import SandboxNotFoundError as SandboxNotFoundError
    from cay.errors import SandboxNotRunningError as SandboxNotRunningError
    from cay.errors import SandboxQuotaError as SandboxQuotaError
    from cay.errors import SandboxStateError as SandboxStateError
    from cay.errors import SandboxStillRunningError as SandboxStillRunningError
    from cay.errors import SandboxTimeoutError as SandboxTimeoutError
    from cay.errors import SecretViolationError as SecretViolationError
    from cay.errors import SnapshotMigrationError as SnapshotMigrationError
    from cay.errors import TlsError as TlsError
    from cay.errors import UnsupportedError as UnsupportedError
    from cay.errors import UnsupportedOperationError as UnsupportedOperationError
    from cay.errors import VolumeNotFoundError as VolumeNotFoundError
    from cay.execution import ExecChunk as ExecChunk
    from cay.execution import ExecEvent as ExecEvent
    from cay.execution import ExecOptions as ExecOptions
    from cay.execution import ExecOutput as ExecOutput
    from cay.execution import ExitedEvent as ExitedEvent
    from cay.execution import ExitStatus as ExitStatus
    from cay.execution import FailedEvent as FailedEvent
    from cay.execution import Rlimit as Rlimit
    from cay.execution import StartedEvent as StartedEvent
    from cay.execution import StderrEvent as StderrEvent
    from cay.execution import Stdin as Stdin
    from cay.execution import StdinErrorEvent as StdinErrorEvent
    from cay.execution import StdoutEvent as StdoutEvent
    from cay.mounts import MountConfig as MountConfig
    from cay.network import Destination as Destination
    from cay.network import DnsConfig as DnsConfig
    from cay.network import Network as Network
    from cay.network import NetworkDestination as NetworkDestination
    from cay.network import NetworkPolicy as NetworkPolicy
    from cay.network import NetworkRateLimiter as NetworkRateLimiter
    from cay.network import PortBinding as PortBinding
    from cay.network import RateLimiter as RateLimiter
    from cay.network import Rule as Rule
    from cay.network import ScopedUpstreamCACert as ScopedUpstreamCACert
    from cay.network import ScopedVerifyUpstream as ScopedVerifyUpstream
    from cay.network import TlsConfig as TlsConfig
    from cay.network import TokenBucket as TokenBucket
    from cay.network import VsockRoute as VsockRoute
    from cay.options import CreateOptions as CreateOptions
    from cay.patch import Patch as Patch
    from cay.patch import PatchConfig as PatchConfig
    from cay.records import ConfigPlannedChange as ConfigPlannedChange
    from cay.records import FsEntry as FsEntry
    from cay.records import FsMetadata as FsMetadata
    from cay.records import ImageConfigDetail as ImageConfigDetail
    from cay.records import ImageLayerDetail as ImageLayerDetail
    from cay.records import ImagePruneReport as ImagePruneReport
    from cay.records import ImageSource as ImageSource
    from cay.records import InitConfig as InitConfig
    from cay.records import InitOptions as InitOptions
    from cay.records import LayerDownloadComplete as LayerDownloadComplete
    from cay.records import LayerDownloadProgress as LayerDownloadProgress
    from cay.records import LayerExtractComplete as LayerExtractComplete
    from cay.records import LayerExtractProgress as LayerExtractProgress
    from cay.records import LayerExtractStarted as LayerExtractStarted
    from cay.records import LayerIndexComplete as LayerIndexComplete
    from cay.records import LayerIndexStarted as LayerIndexStarted
    from cay.records import LogEntry as LogEntry
    from cay.records import ModificationConflict as ModificationConflict
    from cay.records import ModificationWarning as ModificationWarning
    from cay.records import PlannedChange as PlannedChange
    from cay.records import PullComplete as PullComplete
    from cay.records import PullEvent as PullEvent
    from cay.records import RegistryAuth as RegistryAuth
    from cay.records import Resolved as Resolved
    from cay.records import Resolving as Resolving
    from cay.records import ResourceResizeStatus as ResourceResizeStatus
    from cay.records import RootDisk as RootDisk
    from cay.records import RootDiskConfig as RootDiskConfig
    from cay.records import SandboxMetrics as SandboxMetrics
    from cay.records import SandboxModificationPlan as SandboxModificationPlan
    from cay.records import SandboxPingResult as SandboxPingResult
    from cay.records import SandboxStopResult as SandboxStopResult
    from cay.records import SandboxTouchResult as SandboxTouchResult
    from cay.records import SecretPlannedChange as SecretPlannedChange
    from cay.secret import Secret as Secret
    from cay.secret import SecretEntry as SecretEntry
    from cay.secret import SecretInjection as SecretInjection
    from cay.secret import SecretModifySpec as SecretModifySpec
    from cay.secret import ViolationPolicy as ViolationPolicy
    from cay.sizes import GiB as GiB
    from cay.sizes import MiB as MiB
    from cay.sizes import Size as Size

    from ._http import Client as Client
    from ._http import HttpClient as HttpClient
    from ._http import default_client as default_client
    from ._logs import LogStream as LogStream
    from .exec import ExecHandle as ExecHandle
    from .exec import ExecSink as ExecSink
    from .fs import FsReadStream as FsReadStream
    from .fs import FsWriteSink as FsWriteSink
    from .fs import SandboxFsOps as SandboxFsOps
    from .fs import VolumeFs as VolumeFs
    from .functions import create_sandbox as create_sandbox
    from .functions import get_sandbox as get_sandbox
    from .functions import list_sandboxes as list_sandboxes
    from .functions import list_templates as list_templates
    from .functions import run as run
    from .functions import run_many as run_many
    from .image import Image as Image
    from .image import ImageDetail as ImageDetail
    from .image import ImageHandle as ImageHandle
    from .managers import CodeInterpreter as CodeInterpreter
    from .managers import EnvManager as EnvManager
    from .managers import FileSystem as FileSystem
    from .managers import GitManager as GitManager
    from .managers import MonitorManager as MonitorManager
    from .managers import PortManager as PortManager
    from .managers import ProcessManager as ProcessManager
    from .managers import QueueManager as QueueManager
    from .managers import StreamManager as StreamManager
    from .managers import TerminalManager as TerminalManager
    from .sandbox import MetricsStream as MetricsStream
    from .sandbox import PullSession as PullSession
    from .sandbox import Sandbox as Sandbox
    from .sandbox import SandboxHandle as SandboxHandle
    from .sandbox import SandboxPage as SandboxPage
    from .sandbox import all_sandbox_metrics as all_sandbox_metrics
    from .services import AuditLog as AuditLog
    from .services import EventManager as EventManager
    from .services import ImageManager as ImageManager
    from .services import NetworkManager as NetworkManager
    from .services import ObservabilityClient as ObservabilityClient
    from .services import PoolManager as PoolManager
    from .services import SnapshotManager as SnapshotManager
    from .services import SystemManager as SystemManager
    from .services import TemplateManager as TemplateManager
    from .services import TokenManager as TokenManager
    from .services import VolumeManager as VolumeManager
    from .services import WebhookManager as WebhookManager
    from .setup import AgentClient as AgentClient
    from .setup import BackendInfo as BackendInfo
    from .setup import backend_scope as backend_scope
    from .setup import default_backend_info as default_backend_info
    from .setup import default_backend_kind as default_backend_kind
    from .setup import install as install
    from .setup import is_installed as is_installed
    from .setup import set_default_backend as set_default_backend
    from .setup import set_libkrunfw_path as set_libkrunfw_path
    from .setup import version as version
    from .snapshot import Snapshot as Snapshot
    from .snapshot import SnapshotHandle as SnapshotHandle
    from .ssh import SandboxSshOps as SandboxSshOps
    from .ssh import SftpClient as SftpClient
    from .ssh import SshClient as SshClient
    from .ssh import SshOutput as SshOutput
    from .ssh import SshServer as SshServer
    from .volume import Volume as Volume
    from .volume import VolumeHandle as VolumeHandle

__version__ = "0.1.0"

# Which module has which names. One that begins with a dot has a twin.
_NAMES: Dict[str, str] = {
    "cay.errors": (
        "CayError CloudHttpError ExecFailedError ExecTimeoutError FilesystemError ImageInUseError "
        "ImageNotFoundError ImagePullFailedError InvalidConfigError IoError MetricsDisabledError "
        "MetricsUnavailableError NetworkPolicyError NoDefaultCommandError PathNotFoundError ProviderError "
        "SandboxAlreadyExistsError SandboxAuthenticationError SandboxError SandboxNotFoundError "
        "SandboxNotRunningError SandboxQuotaError SandboxStateError SandboxStillRunningError "
        "SandboxTimeoutError SecretViolationError SnapshotMigrationError TlsError UnsupportedError "
        "UnsupportedOperationError VolumeNotFoundError"
    ),
    "._http": "Client HttpClient default_client",
    ".functions": "create_sandbox get_sandbox list_sandboxes list_templates run run_many",
    ".managers": (
        "CodeInterpreter EnvManager FileSystem GitManager MonitorManager PortManager ProcessManager "
        "QueueManager StreamManager TerminalManager"
    ),
    ".services": (
        "AuditLog EventManager ImageManager NetworkManager ObservabilityClient PoolManager SnapshotManager "
        "SystemManager TemplateManager TokenManager VolumeManager WebhookManager"
    ),
    "cay.enums": (
        "Action BackendKind ChangeKind CpuPlacement DeploymentProfile DestGroup Direction DiskImageFormat "
        "ExecEventType FlatClone FsEntryKind HostPermissions ImageArchiveFormat ImageSourceKind LogLevel "
        "LogReadSource LogSource ModificationDisposition ModificationPolicy MountKind NamedVolumeMode "
        "NetworkDestinationKind NetworkProfile PatchKind PlannedChangeKind PortProtocol Protocol "
        "PullEventType PullPolicy ResourceConvergenceState ResourceKind RlimitResource RootDiskKind "
        "SandboxStatus SecretChangeKind SecurityProfile SnapshotFormat SnapshotScope SnapshotStateKind "
        "StatVirtualization StdinMode ViolationAction VolumeKind VsockSocketType"
    ),
    "cay.execution": (
        "ExecChunk ExecEvent ExecOptions ExecOutput ExitStatus ExitedEvent FailedEvent Rlimit StartedEvent "
        "StderrEvent Stdin StdinErrorEvent StdoutEvent"
    ),
    "cay.mounts": "MountConfig",
    "cay.network": (
        "Destination DnsConfig Network NetworkDestination NetworkPolicy NetworkRateLimiter PortBinding "
        "RateLimiter Rule ScopedUpstreamCACert ScopedVerifyUpstream TlsConfig TokenBucket VsockRoute"
    ),
    "cay.options": "CreateOptions",
    "cay.patch": "Patch PatchConfig",
    "cay.records": (
        "ConfigPlannedChange FsEntry FsMetadata ImageConfigDetail ImageLayerDetail ImagePruneReport "
        "ImageSource InitConfig InitOptions LayerDownloadComplete LayerDownloadProgress LayerExtractComplete "
        "LayerExtractProgress LayerExtractStarted LayerIndexComplete LayerIndexStarted LogEntry "
        "ModificationConflict ModificationWarning PlannedChange PullComplete PullEvent RegistryAuth Resolved "
        "Resolving ResourceResizeStatus RootDisk RootDiskConfig SandboxMetrics SandboxModificationPlan "
        "SandboxPingResult SandboxStopResult SandboxTouchResult SecretPlannedChange"
    ),
    "cay.secret": "Secret SecretEntry SecretInjection SecretModifySpec ViolationPolicy",
    "cay.sizes": "GiB MiB Size",
    ".exec": "ExecHandle ExecSink",
    ".fs": "FsReadStream FsWriteSink SandboxFsOps VolumeFs",
    ".image": "Image ImageDetail ImageHandle",
    "._logs": "LogStream",
    ".sandbox": "MetricsStream PullSession Sandbox SandboxHandle SandboxPage all_sandbox_metrics",
    ".setup": (
        "AgentClient BackendInfo backend_scope default_backend_info default_backend_kind install is_installed "
        "set_default_backend set_libkrunfw_path version"
    ),
    ".snapshot": "Snapshot SnapshotHandle",
    ".ssh": "SandboxSshOps SftpClient SshClient SshOutput SshServer",
    ".volume": "Volume VolumeHandle",
}
_WHERE: Dict[str, str] = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_WHERE, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "sync":
        return import_module("cay.sync")
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(__all__)
