# Made from the daemon's /openapi.json by tools/generate.py: change that one, or the daemon.
"""Everything that the daemon says, as types."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, Union

from pydantic import Field

from cay._model import Model, absent


class NetworkPolicy(Model):
    """What a sandbox may reach; see docs/network-policy.md."""

    default: Optional[str] = None
    """What no rule matches (default deny); allow means public addresses."""
    default_ingress: Optional[str] = Field(None, alias="defaultIngress")
    """Who calls a published port and no rule matches (default allow)."""
    rules: Optional[List[NetworkRule]] = None
    """At most 256; a text as allow@pypi.org:tcp:443 is taken for one too."""
    profiles: Optional[List[str]] = None
    """Rules that belong together, after the others: pypi, npm, github, debian, …."""
    dns: Optional[NetworkDns] = None
    """How names are asked for."""
    rate_limit: Optional[NetworkRateLimit] = Field(None, alias="rateLimit")
    """How fast (default: no limit)."""
    max_connections: Optional[int] = Field(None, alias="maxConnections")
    """Open at a time, 1 to 65536 (default 1024)."""


class NetworkRule(Model):
    """One rule; the first that matches decides."""

    action: str = Field(default_factory=absent)
    """What becomes of what it matches."""
    direction: Optional[str] = None
    """Who begins: the sandbox (egress, the default), or who calls a port of it."""
    destination: Optional[str] = None
    """An address, a range, a domain, *.suffix, a group (public, private, host, metadata, link-local, multicast, loopback, dns), or *
    (the default)."""
    protocol: Optional[str] = None
    """Tcp, udp, icmp, icmpv6, several with commas (default: TCP and UDP, of a name TCP); a list is taken too."""
    port: Optional[str] = None
    """443, 8000-8100, several with commas (default: all); a number or a list is taken too."""


class NetworkDns(Model):
    """How names are asked for."""

    nameservers: Optional[List[str]] = None
    """Who is asked; else those of the host."""
    rebind_protection: Optional[bool] = Field(None, alias="rebindProtection")
    """An answer with a private address is none (default true)."""
    query_timeout: Optional[int] = Field(None, alias="queryTimeout")
    """Milliseconds, from 100 to 30000 (default 5000)."""


class NetworkRateLimit(Model):
    """How fast."""

    egress: Optional[NetworkRate] = None
    """What the sandbox sends."""
    ingress: Optional[NetworkRate] = None
    """What it is sent."""


class NetworkRate(Model):
    """What is more is dropped."""

    bytes_per_second: int = Field(default_factory=absent, alias="bytesPerSecond")
    """1024 to 12500000000."""
    burst: Optional[int] = None
    """Bytes at once (default: a tenth of a second, at least 128 KiB)."""


class VolumeMount(Model):
    """What to mount, and where."""

    name: Optional[str] = None
    """Name or id of a volume."""
    path: Optional[str] = None
    """In place of a name: a folder of the host, below one of CAY_BIND_ALLOW."""
    mount_path: str = Field(default_factory=absent, alias="mountPath")
    """Where it is in the sandbox; made when it is missing."""
    read_only: Optional[bool] = Field(None, alias="readOnly")
    """Nothing can be written there."""
    noexec: Optional[bool] = None
    """No program can be started from there."""
    sub_path: Optional[str] = Field(None, alias="subPath")
    """The folder of it that is mounted; of a volume it is made when it is missing."""
    create: Optional[bool] = None
    """Make the volume when none has the name."""
    size_mb: Optional[int] = Field(None, alias="sizeMb")
    """With create: of the new volume (default CAY_DEFAULT_VOLUME)."""


class TmpfsMount(Model):
    """A folder in memory."""

    mount_path: str = Field(default_factory=absent, alias="mountPath")
    """Where it is in the sandbox; made when it is missing."""
    size_mb: Optional[int] = Field(None, alias="sizeMb")
    """At most the sandbox's memory (default: half of it)."""
    read_only: Optional[bool] = Field(None, alias="readOnly")
    """Nothing can be written there."""
    noexec: Optional[bool] = None
    """No program can be started from there."""


class PortRequest(Model):
    """A port to reach on the host."""

    container_port: int = Field(default_factory=absent, alias="containerPort")
    """In the sandbox."""
    host_port: Optional[int] = Field(None, alias="hostPort")
    """On the host; 0 = any that is free (default: containerPort)."""
    protocol: Optional[str] = None
    """Tcp or udp."""
    host_address: Optional[str] = Field(None, alias="hostAddress")
    """Of the host (default 127.0.0.1); others than its loopback's as CAY_PORT_ADDRESSES allows."""


class Patch(Model):
    """A change to a new sandbox's files, before anything runs."""

    type: str = Field(default_factory=absent)
    """Text and file write content, append adds it to the end, mkdir makes a directory with all above it, symlink points to target,
    copy copies from, remove and chmod are what they are called."""
    path: str = Field(default_factory=absent)
    """What is made or changed; below the workspace when it is not absolute."""
    content: Optional[str] = None
    """Of text and append; of file its bytes in base64."""
    target: Optional[str] = None
    """Of symlink: what it points to."""
    from_: Optional[str] = Field(None, alias="from")
    """Of copy: a file or directory of the image."""
    mode: Optional[str] = None
    """Octal; of new files 0644 when absent, of directories 0755, of copies that of from."""
    replace: Optional[bool] = None
    """Of text, file, symlink and copy: take the place of what is there already, which is refused else."""


class RegistryAuth(Model):
    """Who pulls an image."""

    username: str = Field(default_factory=absent)
    """At the registry."""
    password: str = Field(default_factory=absent)
    """Or a token."""


class Sandbox(Model):
    """One box."""

    id: str = Field(default_factory=absent)
    """Sbx_ and 24 hex digits."""
    name: str = Field(default_factory=absent)
    """For people; the id when none was given."""
    image: str = Field(default_factory=absent)
    """As it was asked for."""
    status: str = Field(default_factory=absent)
    """What it does."""
    reason: Optional[str] = None
    """Why it is stopped, or was paused unasked."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    expires_at: int = Field(default_factory=absent, alias="expiresAt")
    """Unix milliseconds; 0 = never."""
    idle_at: Optional[int] = Field(None, alias="idleAt")
    """Unix milliseconds: when it is stopped if nothing is done with it until then; of one that runs and has an idleTimeout."""
    draining: Optional[bool] = None
    """True: it is about to stop, and takes no new commands."""
    metadata: Dict[str, str] = Field(default_factory=absent)
    """Of the caller."""
    entrypoint: Optional[List[str]] = None
    """Main process, as arguments."""
    entrypoint_state: Optional[EntrypointState] = Field(None, alias="entrypointState")
    """How the main process is; with entrypoint."""
    config: SandboxConfig = Field(default_factory=absent)
    """What it was made from."""
    runtime: str = Field(default_factory=absent)
    """What runs it."""
    isolation: str = Field(default_factory=absent)
    """What stands between it and the host."""
    warnings: Optional[List[str]] = None
    """Of a create: what was sent and ignored, and why; of a clone also what it lacks."""


class EntrypointState(Model):
    """How the main process is."""

    state: str = Field(default_factory=absent)
    """Unknown when the sandbox does not say."""
    exit_code: Optional[int] = Field(None, alias="exitCode")
    """Once it has ended: 128 and the signal's number after a signal."""
    reason: Optional[str] = None
    """Why it ended, with exitCode."""
    oom: Optional[bool] = None
    """True when the kernel killed for lack of memory while it ran."""
    message: Optional[str] = None
    """How it ended, in words; absent when it ended by itself."""
    started_at: Optional[int] = Field(None, alias="startedAt")
    """Unix milliseconds, with exitCode."""
    finished_at: Optional[int] = Field(None, alias="finishedAt")
    """Unix milliseconds, with exitCode."""
    output: Optional[str] = None
    """The last lines that it put out, once it has ended."""


class SandboxConfig(Model):
    """What a sandbox was made from."""

    image: str = Field(default_factory=absent)
    """As it was asked for."""
    name: Optional[str] = None
    """As it was asked for."""
    timeout: int = Field(default_factory=absent)
    """Seconds; 0 = it does not expire."""
    idle_timeout: Optional[int] = Field(None, alias="idleTimeout")
    """Seconds without use until it is stopped."""
    idle_removes: Optional[bool] = Field(None, alias="idleRemoves")
    """True: after idleTimeout it is removed, not stopped, as sandboxes of iii are."""
    on_timeout: Optional[str] = Field(None, alias="onTimeout")
    """Stop: after timeout it is stopped and keeps its files; absent = it is removed."""
    memory: int = Field(default_factory=absent)
    """MB."""
    cpu: float = Field(default_factory=absent)
    """Cores."""
    disk: int = Field(default_factory=absent)
    """MB."""
    pids: int = Field(default_factory=absent)
    """Processes and threads at a time."""
    network: Optional[Union[bool, str, NetworkPolicy]] = None
    """What it may reach: true is the public internet; absent = nothing."""
    env: Optional[Dict[str, str]] = None
    """Environment of every command."""
    workdir: str = Field(default_factory=absent)
    """Where commands start."""
    metadata: Optional[Dict[str, str]] = None
    """Of the caller."""
    entrypoint: Optional[List[str]] = None
    """Main process, as arguments."""
    template: Optional[str] = None
    """Name of the template that it is of."""
    template_build: Optional[str] = Field(None, alias="templateBuild")
    """ImageId of the template's build that it was made from."""
    networks: Optional[List[str]] = None
    """Ids of the networks that it is connected to."""
    mounts: Optional[List[Mount]] = None
    """Volumes, tmpfs and folders of the host."""
    ports: Optional[List[PortRecord]] = None
    """Ports of it that can be reached on the host."""


class Mount(Model):
    """What a sandbox has beside its own disk."""

    type: str = Field(default_factory=absent)
    """What is mounted."""
    volume_id: Optional[str] = Field(None, alias="volumeId")
    """Of a volume."""
    path: Optional[str] = None
    """On the host, of a bind."""
    mount_path: str = Field(default_factory=absent, alias="mountPath")
    """In the sandbox."""
    sub_path: Optional[str] = Field(None, alias="subPath")
    """The folder of it that is shown."""
    read_only: bool = Field(default_factory=absent, alias="readOnly")
    """Nothing can be written there."""
    noexec: bool = Field(default_factory=absent)
    """No program can be started from there."""
    size_mb: Optional[int] = Field(None, alias="sizeMb")
    """Of a tmpfs."""


class PortRecord(Model):
    """A port that can be reached on the host."""

    container_port: int = Field(default_factory=absent, alias="containerPort")
    """In the sandbox."""
    host_port: int = Field(default_factory=absent, alias="hostPort")
    """On the host."""
    protocol: str = Field(default_factory=absent)
    """Tcp or udp."""
    host_address: str = Field(default_factory=absent, alias="hostAddress")
    """Of the host."""
    any_port: Optional[bool] = Field(None, alias="anyPort")
    """True when any free hostPort was asked for."""


class ResolvingEvent(Model):
    """The registry is asked for an image."""

    event: Literal["resolving"]
    """The registry is asked."""
    reference: str = Field(default_factory=absent)
    """For what."""


class ResolvedEvent(Model):
    """The registry has said what an image is."""

    event: Literal["resolved"]
    """What will come is known."""
    reference: str = Field(default_factory=absent)
    """What was asked for."""
    digest: str = Field(default_factory=absent)
    """Of the manifest."""
    platform: str = Field(default_factory=absent)
    """Whose programs it has."""
    layers: int = Field(default_factory=absent)
    """How many."""
    bytes: int = Field(default_factory=absent)
    """Of all of them, compressed."""


class LayerEvent(Model):
    """How far a layer has come."""

    event: Literal["layer"]
    """A layer has come further."""
    index: int = Field(default_factory=absent)
    """Counted from 0, the lowest first."""
    digest: str = Field(default_factory=absent)
    """May be empty in an import."""
    state: str = Field(default_factory=absent)
    """Present: it was here already."""
    downloaded: int = Field(default_factory=absent)
    """Bytes."""
    total: int = Field(default_factory=absent)
    """Bytes; 0 = not known."""
    unpacked: int = Field(default_factory=absent)
    """Bytes on disk."""


class StoringEvent(Model):
    """An image is made to last."""

    event: Literal["storing"]
    """All is here and is made to last."""


class BuildStepEvent(Model):
    """A step of a build begins."""

    event: Literal["step"]
    """A step begins."""
    step: int = Field(default_factory=absent)
    """Counted from 1."""
    steps: int = Field(default_factory=absent)
    """In all."""
    text: str = Field(default_factory=absent)
    """What it does."""
    line: Optional[int] = None
    """Of its file."""
    stage: Optional[str] = None
    """Of a build with several."""


class BuildOutputEvent(Model):
    """Output of a build."""

    event: Literal["output"]
    """A command says something."""
    step: int = Field(default_factory=absent)
    """Whose command it is."""
    stream: str = Field(default_factory=absent)
    """Of which."""
    data: str = Field(default_factory=absent)
    """As text."""


class BuildStepDoneEvent(Model):
    """A step of a build is done."""

    event: Literal["stepDone"]
    """A step is done."""
    step: int = Field(default_factory=absent)
    """Which."""
    cached: bool = Field(default_factory=absent)
    """True when it had been done before."""
    duration_ms: int = Field(default_factory=absent, alias="durationMs")
    """How long it took."""


class SandboxEvent(Model):
    """The sandbox runs."""

    event: Literal["sandbox"]
    """The last one."""
    sandbox: Sandbox = Field(default_factory=absent)
    """It runs."""


class ErrorEvent(Model):
    """It failed."""

    event: Literal["error"]
    """The last one."""
    status: int = Field(default_factory=absent)
    """That an answer would have had."""
    error: str = Field(default_factory=absent)
    """What was wrong and what to do."""
    code: str = Field(default_factory=absent)
    """A stable word for programs."""
    command: Optional[str] = None
    """Of a build: the step that failed."""
    output: Optional[str] = None
    """Of a build and of template_not_ready: the last lines of the command's output."""
    exit_code: Optional[int] = Field(None, alias="exitCode")
    """Of template_not_ready: the command's."""


class SandboxList(Model):
    """One page of sandboxes."""

    items: List[Sandbox] = Field(default_factory=absent)
    """The newest first."""
    total: int = Field(default_factory=absent)
    """On all pages."""
    page: int = Field(default_factory=absent)
    """Counted from 1."""
    page_size: int = Field(default_factory=absent, alias="pageSize")
    """The most on a page."""
    next_cursor: Optional[int] = Field(None, alias="nextCursor")
    """Cursor of the next page; absent on the last."""


class Success(Model):
    """It is done."""

    success: bool = Field(default_factory=absent)
    """Always true."""


class SandboxNetwork(Model):
    """The network of a sandbox."""

    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Whose it is."""
    network: Union[bool, str, Dict[str, Any]] = Field(default_factory=absent)
    """What it may reach: false nothing, true the public internet, else a policy."""
    address: Optional[str] = Field(default_factory=absent)
    """Its IPv4 address; null while it is not connected."""
    address6: Optional[str] = Field(default_factory=absent)
    """Its IPv6 address."""
    rx_bytes: int = Field(default_factory=absent, alias="rxBytes")
    """Received since it was connected."""
    tx_bytes: int = Field(default_factory=absent, alias="txBytes")
    """Sent."""
    denied: int = Field(default_factory=absent)
    """How much it was refused, as far as this daemon has seen it."""


class NetworkVerdict(Model):
    """What would happen, and which rule says so."""

    host: str = Field(default_factory=absent)
    """What was asked for."""
    port: int = Field(default_factory=absent)
    """What was asked for."""
    protocol: str = Field(default_factory=absent)
    """What was asked for."""
    allowed: bool = Field(default_factory=absent)
    """Whether it would be let out."""
    inspect: bool = Field(default_factory=absent)
    """Let out if TLS or HTTP names a host that the policy allows there."""
    rule: int = Field(default_factory=absent)
    """Number of the rule that decides, profiles' after one's own; -1 the default, -2 built in."""
    why: str = Field(default_factory=absent)
    """For people."""
    name: Optional[NameVerdict] = None
    """What happens to the question for the name."""
    addresses: Optional[List[AddressVerdict]] = None
    """What happens to each address."""


class NameVerdict(Model):
    """What happens to a question for a name."""

    allowed: bool = Field(default_factory=absent)
    """Whether the name is answered."""
    inspect: Optional[bool] = None
    """As in the verdict."""
    rule: int = Field(default_factory=absent)
    """As in the verdict."""
    why: str = Field(default_factory=absent)
    """For people."""


class AddressVerdict(Model):
    """What happens to a connection to an address."""

    address: str = Field(default_factory=absent)
    """Of the name."""
    allowed: bool = Field(default_factory=absent)
    """Whether it can be reached."""
    inspect: Optional[bool] = None
    """As in the verdict."""
    rule: int = Field(default_factory=absent)
    """As in the verdict."""
    why: str = Field(default_factory=absent)
    """For people."""
    pinned: Optional[bool] = None
    """The sandbox was given this address for the name."""


class NetworkLog(Model):
    """What a sandbox was refused."""

    denied: List[NetworkDenial] = Field(default_factory=absent)
    """The oldest first."""
    next: int = Field(default_factory=absent)
    """`after` for the next call."""


class NetworkDenial(Model):
    """Something that a sandbox was refused."""

    seq: int = Field(default_factory=absent)
    """Counts up, in one sandbox."""
    time: int = Field(default_factory=absent)
    """Unix milliseconds."""
    direction: Optional[str] = None
    """Egress or ingress."""
    protocol: Optional[str] = None
    """Tcp, udp, icmp, dns …."""
    address: Optional[str] = None
    """Whom it called."""
    port: Optional[int] = None
    """There."""
    name: Optional[str] = None
    """The name that it asked for or said."""
    rule: Optional[int] = None
    """As in a NetworkVerdict."""
    why: Optional[str] = None
    """For people."""
    count: int = Field(default_factory=absent)
    """How often, since the line before."""


class Rlimit(Model):
    """A limit of a process."""

    resource: str = Field(default_factory=absent)
    """As setrlimit names them."""
    soft: int = Field(default_factory=absent)
    """-1 = unlimited."""
    hard: Optional[int] = None
    """To which the process can raise it itself; the soft one when absent."""


class ExecResult(Model):
    """How a command ended."""

    exit_code: int = Field(default_factory=absent, alias="exitCode")
    """128 and the signal's number after a signal."""
    stdout: str = Field(default_factory=absent)
    """As text."""
    stderr: str = Field(default_factory=absent)
    """As text."""
    duration: float = Field(default_factory=absent)
    """Milliseconds."""
    reason: str = Field(default_factory=absent)
    """Why it ended."""
    oom: Optional[bool] = None
    """True when the kernel killed for lack of memory while it ran."""
    message: Optional[str] = None
    """How it ended, in words; absent when it ended by itself."""
    hint: Optional[str] = None
    """What may be the matter with one that failed, such as the lack of a network."""
    truncated: bool = Field(default_factory=absent)
    """There was more output than is kept."""
    exec_id: Optional[str] = Field(None, alias="execId")
    """By which it can be had again; X-Exec-Id says it too."""


class ExecEvent(Model):
    """A piece of a command's output, or its end."""

    type: str = Field(default_factory=absent)
    """Whose output; lost when some is not kept any more; error when the end cannot be told; exit is the last one."""
    data: str = Field(default_factory=absent)
    """Text; of exit the exit code, -1 after a timeout; of lost how many bytes."""
    timestamp: int = Field(default_factory=absent)
    """Unix milliseconds."""
    cursor: Optional[int] = None
    """Where to go on after it."""
    exec_id: Optional[str] = Field(None, alias="execId")
    """In the first event."""
    code: Optional[str] = None
    """Of error: a stable word."""
    reason: Optional[str] = None
    """Of exit: why it ended."""
    oom: Optional[bool] = None
    """True when the kernel killed for lack of memory while it ran."""
    message: Optional[str] = None
    """How it ended, in words; absent when it ended by itself."""


class AttachEnd(Model):
    """How an attached command ended."""

    exit_code: int = Field(default_factory=absent, alias="exitCode")
    """128 and the signal's number after a signal."""
    reason: str = Field(default_factory=absent)
    """Why it ended."""
    oom: Optional[bool] = None
    """True when the kernel killed for lack of memory while it ran."""
    message: Optional[str] = None
    """How it ended, in words; absent when it ended by itself."""
    duration: float = Field(default_factory=absent)
    """Milliseconds."""
    lost_stdout: int = Field(default_factory=absent, alias="lostStdout")
    """Bytes of output that were not kept."""
    lost_stderr: int = Field(default_factory=absent, alias="lostStderr")
    """Bytes of output that were not kept."""


class AttachEvent(Model):
    """What happens to an attached command."""

    pid: Optional[int] = None
    """In the sandbox: it has started, or the caller is attached."""
    lost: Optional[int] = None
    """Bytes of output that are not kept any more."""


class BackgroundExec(Model):
    """A command that was left running."""

    id: str = Field(default_factory=absent)
    """Bg_ and 24 hex digits."""
    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Where it runs."""
    command: str = Field(default_factory=absent)
    """As text; arguments with spaces between them; its first 4,096 bytes."""
    pid: Optional[int] = None
    """In the sandbox; absent when that has stopped."""
    running: bool = Field(default_factory=absent)
    """False once it has ended."""
    started_at: int = Field(default_factory=absent, alias="startedAt")
    """Unix milliseconds."""
    exit_code: Optional[int] = Field(None, alias="exitCode")
    """Once it has ended and that is known."""
    finished_at: Optional[int] = Field(None, alias="finishedAt")
    """Unix milliseconds, with exitCode."""
    reason: Optional[str] = None
    """Why it ended, with exitCode."""
    oom: Optional[bool] = None
    """True when the kernel killed for lack of memory while it ran."""
    message: Optional[str] = None
    """How it ended, in words; absent when it ended by itself."""


class ExecLogs(Model):
    """A part of a background command's output."""

    output: str = Field(default_factory=absent)
    """Stdout and stderr as text."""
    cursor: int = Field(default_factory=absent)
    """Where to read on."""


class ExecList(Model):
    """Commands that run, and the last that ended."""

    execs: List[ExecInfo] = Field(default_factory=absent)
    """Of the sandbox, the newest first."""


class ExecInfo(Model):
    """A command that was started before."""

    id: str = Field(default_factory=absent)
    """Ex_ and 24 hex digits; bg_ of one in the background."""
    command: Optional[str] = None
    """How it begins; of one in the background it may be absent."""
    running: bool = Field(default_factory=absent)
    """False once it has ended."""
    pid: int = Field(default_factory=absent)
    """In the sandbox."""
    tty: bool = Field(default_factory=absent)
    """It runs on a terminal."""
    rows: Optional[int] = None
    """Of its terminal."""
    cols: Optional[int] = None
    """Of its terminal."""
    started_at: int = Field(default_factory=absent, alias="startedAt")
    """Unix milliseconds."""
    finished_at: Optional[int] = Field(None, alias="finishedAt")
    """Once it has ended."""
    exit_code: Optional[int] = Field(None, alias="exitCode")
    """Once it has ended: 128 and the signal's number after a signal, 124 after a timeout."""
    reason: Optional[str] = None
    """Why it ended."""
    oom: Optional[bool] = None
    """True when the kernel killed for lack of memory while it ran."""
    message: Optional[str] = None
    """How it ended, in words; absent when it ended by itself."""
    duration: Optional[float] = None
    """Milliseconds, once it has ended."""
    truncated: Optional[bool] = None
    """Once it has ended: there was more output than is kept."""


class ExecState(Model):
    """How a command is, and a part of its output."""

    id: str = Field(default_factory=absent)
    """Ex_ and 24 hex digits; bg_ of one in the background."""
    command: Optional[str] = None
    """How it begins; of one in the background it may be absent."""
    running: bool = Field(default_factory=absent)
    """False once it has ended."""
    pid: int = Field(default_factory=absent)
    """In the sandbox."""
    tty: bool = Field(default_factory=absent)
    """It runs on a terminal."""
    rows: Optional[int] = None
    """Of its terminal."""
    cols: Optional[int] = None
    """Of its terminal."""
    started_at: int = Field(default_factory=absent, alias="startedAt")
    """Unix milliseconds."""
    finished_at: Optional[int] = Field(None, alias="finishedAt")
    """Once it has ended."""
    exit_code: Optional[int] = Field(None, alias="exitCode")
    """Once it has ended: 128 and the signal's number after a signal, 124 after a timeout."""
    reason: Optional[str] = None
    """Why it ended."""
    oom: Optional[bool] = None
    """True when the kernel killed for lack of memory while it ran."""
    message: Optional[str] = None
    """How it ended, in words; absent when it ended by itself."""
    duration: Optional[float] = None
    """Milliseconds, once it has ended."""
    truncated: Optional[bool] = None
    """Once it has ended: there was more output than is kept."""
    stdout: str = Field(default_factory=absent)
    """From the cursor on, as text; of a terminal or in the background both streams."""
    stderr: str = Field(default_factory=absent)
    """From the cursor on, as text."""
    cursor: int = Field(default_factory=absent)
    """Where to read on."""
    lost: int = Field(default_factory=absent)
    """Bytes after the cursor that are not kept any more."""
    more: bool = Field(default_factory=absent)
    """There is more already: read on."""


class Interrupted(Model):
    """A signal was sent."""

    success: bool = Field(default_factory=absent)
    """Always true."""
    pending: bool = Field(default_factory=absent)
    """The sandbox is paused: the signal is taken when it goes on."""


class FileInfo(Model):
    """An entry of a directory."""

    name: str = Field(default_factory=absent)
    """In its directory."""
    path: str = Field(default_factory=absent)
    """Absolute."""
    path_base64: Optional[str] = Field(None, alias="pathBase64")
    """The bytes of path, when they are no UTF-8: give it with pathEncoding base64."""
    size: int = Field(default_factory=absent)
    """Bytes."""
    is_directory: bool = Field(default_factory=absent, alias="isDirectory")
    """Links are none."""
    is_symlink: bool = Field(default_factory=absent, alias="isSymlink")
    """Is it a symbolic link."""
    mode: str = Field(default_factory=absent)
    """Octal digits, as chmod takes them."""
    target: Optional[str] = None
    """Of a link: what it says."""
    modified_at: int = Field(default_factory=absent, alias="modifiedAt")
    """Unix milliseconds; negative before 1970."""


class FileMeta(Model):
    """What a path is."""

    path: str = Field(default_factory=absent)
    """Absolute."""
    path_base64: Optional[str] = Field(None, alias="pathBase64")
    """The bytes of path, when they are no UTF-8: give it with pathEncoding base64."""
    size: int = Field(default_factory=absent)
    """Bytes."""
    permissions: str = Field(default_factory=absent)
    """As ls shows them."""
    owner: str = Field(default_factory=absent)
    """Name, or number when it has none."""
    group: str = Field(default_factory=absent)
    """Name, or number when it has none."""
    is_directory: bool = Field(default_factory=absent, alias="isDirectory")
    """Links are none."""
    is_symlink: bool = Field(default_factory=absent, alias="isSymlink")
    """Is it a symbolic link."""
    mode: str = Field(default_factory=absent)
    """Octal digits, as chmod takes them."""
    target: Optional[str] = None
    """Of a link: what it says."""
    modified_at: int = Field(default_factory=absent, alias="modifiedAt")
    """Unix milliseconds; negative before 1970."""


class FileMove(Model):
    """What goes where."""

    from_: str = Field(default_factory=absent, alias="from")
    """Absolute, or relative to the workspace."""
    to: str = Field(default_factory=absent)
    """An existing directory takes it in."""


class Job(Model):
    """A command in the queue."""

    id: str = Field(default_factory=absent)
    """Job_ and 24 hex digits."""
    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Where it runs."""
    command: str = Field(default_factory=absent)
    """As text; arguments with spaces between them."""
    status: str = Field(default_factory=absent)
    """How it is."""
    result: Optional[ExecResult] = None
    """How the command ended; not in lists."""
    exit_code: Optional[int] = Field(None, alias="exitCode")
    """Of the result."""
    error: Optional[str] = None
    """Why the last try failed."""
    retries: int = Field(default_factory=absent)
    """Tries that failed."""
    max_retries: int = Field(default_factory=absent, alias="maxRetries")
    """So many tries, and at least one."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    started_at: Optional[int] = Field(None, alias="startedAt")
    """Of the last try."""
    completed_at: Optional[int] = Field(None, alias="completedAt")
    """When it completed, failed or was cancelled."""
    run_at: Optional[int] = Field(None, alias="runAt")
    """It does not start before that."""
    priority: int = Field(default_factory=absent)
    """The higher the earlier."""
    timeout: Optional[float] = None
    """Seconds that a try may take."""
    retry_on_exit: bool = Field(default_factory=absent, alias="retryOnExit")
    """An exit code other than 0 is a failure."""
    retry_delay: float = Field(default_factory=absent, alias="retryDelay")
    """Seconds before the second try."""
    exec_id: Optional[str] = Field(None, alias="execId")
    """The command of the last try."""


class JobList(Model):
    """A part of the queue."""

    jobs: List[Job] = Field(default_factory=absent)
    """The newest first, without results."""
    total: int = Field(default_factory=absent)
    """How many there are in all."""


class JobLogs(Model):
    """A part of what a job has put out."""

    job_id: str = Field(default_factory=absent, alias="jobId")
    """Whose output it is."""
    status: str = Field(default_factory=absent)
    """How the job is."""
    done: bool = Field(default_factory=absent)
    """No more will come."""
    stdout: str = Field(default_factory=absent)
    """Of the last try, from the cursor on."""
    stderr: str = Field(default_factory=absent)
    """Of the last try, from the cursor on."""
    cursor: int = Field(default_factory=absent)
    """Where to read on."""
    lost: int = Field(default_factory=absent)
    """Bytes after the cursor that are not kept."""


class JobCancelled(Model):
    """A job does not run any more."""

    cancelled: str = Field(default_factory=absent)
    """Id of the job."""


class JobsPurged(Model):
    """Jobs that failed are gone."""

    purged: int = Field(default_factory=absent)
    """How many were forgotten."""


class FileChange(Model):
    """A change to files that are watched."""

    type: str = Field(default_factory=absent)
    """Ready: what happens from here on is told; overflow: something is not, see lost and directories; end: the last one."""
    path: Optional[str] = None
    """Absolute; of an overflow one of the directories."""
    path_base64: Optional[str] = Field(None, alias="pathBase64")
    """The bytes of path, when they are no UTF-8."""
    from_: Optional[str] = Field(None, alias="from")
    """What it was called before a rename."""
    from_base64: Optional[str] = Field(None, alias="fromBase64")
    """The bytes of from, when they are no UTF-8."""
    is_directory: Optional[bool] = Field(None, alias="isDirectory")
    """Is it one."""
    timestamp: int = Field(default_factory=absent)
    """Unix milliseconds."""
    lost: Optional[int] = None
    """Of an overflow: changes that are not told, or more."""
    directories: Optional[int] = None
    """When it is ready, so many are watched; of an overflow, so many are not."""
    reason: Optional[str] = None
    """Of the end: why."""


class Execution(Model):
    """What a run of code came to."""

    output: str = Field(default_factory=absent)
    """Stdout as text."""
    error: Optional[str] = Field(default_factory=absent)
    """Null when it ended well, else what it said on stderr; the last 64 KiB of it."""
    execution_time: float = Field(default_factory=absent, alias="executionTime")
    """Milliseconds."""
    exit_code: int = Field(default_factory=absent, alias="exitCode")
    """Of its process; of a context 0, or 1 after an exception."""
    truncated: bool = Field(default_factory=absent)
    """There was more output than an answer can have; streams have no such bound."""
    exception: Optional[CodeException] = None
    """What it raised, where the language tells."""
    stderr: str = Field(default_factory=absent)
    """Stderr as text."""
    results: List[CodeResult] = Field(default_factory=absent)
    """Values and pictures, in the order in which they came."""


class CodeException(Model):
    """What code raised and did not catch."""

    name: str = Field(default_factory=absent)
    """Its class."""
    value: str = Field(default_factory=absent)
    """What it says."""
    traceback: List[CodeFrame] = Field(default_factory=absent)
    """From the code inwards."""
    line: Optional[int] = Field(default_factory=absent)
    """Of the code, where it is known."""
    text: Optional[str] = None
    """As the language shows it."""


class CodeFrame(Model):
    """A place in a traceback."""

    file: str = Field(default_factory=absent)
    """Where it is."""
    line: Optional[int] = Field(default_factory=absent)
    """Counted from 1."""
    function: str = Field(default_factory=absent)
    """In which function."""
    text: Optional[str] = None
    """The line itself."""


class CodeResult(Model):
    """A value that code left, in one of the forms it can have."""

    type: str = Field(default_factory=absent)
    """Text, html, markdown, latex, json, table, image, svg or data."""
    mime: str = Field(default_factory=absent)
    """What data is."""
    data: Any = Field(default_factory=absent)
    """A text, base64 of a picture, or of JSON and tables the value itself."""
    main: Optional[bool] = None
    """It is the value of the last expression."""
    group: Optional[int] = None
    """Forms of the same thing have the same number."""


class CodeTextEvent(Model):
    """Code printed something."""

    event: str = Field(default_factory=absent)
    """Which stream."""
    text: str = Field(default_factory=absent)
    """A piece of it."""


class CodeResultEvent(Model):
    """Code left a value or a picture."""

    event: Literal["result"]
    """There is a result."""
    result: CodeResult = Field(default_factory=absent)
    """One form of it."""


class CodeExceptionEvent(Model):
    """Code ended with an exception."""

    event: Literal["exception"]
    """Code raised something."""
    exception: CodeException = Field(default_factory=absent)
    """What."""


class ExecutionDoneEvent(Model):
    """A run of code has ended."""

    event: Literal["done"]
    """The last one."""
    execution: ExecutionEnd = Field(default_factory=absent)
    """How it ended."""


class ExecutionEnd(Model):
    """How a run of code ended."""

    error: Optional[str] = Field(default_factory=absent)
    """Null when it ended well, else what it said on stderr; the last 64 KiB of it."""
    execution_time: float = Field(default_factory=absent, alias="executionTime")
    """Milliseconds."""
    exit_code: int = Field(default_factory=absent, alias="exitCode")
    """Of its process; of a context 0, or 1 after an exception."""
    truncated: bool = Field(default_factory=absent)
    """There was more output than an answer can have; streams have no such bound."""
    exception: Optional[CodeException] = None
    """What it raised, where the language tells."""
    output: Optional[str] = None
    """Where it was not told by events."""
    stderr: Optional[str] = None
    """Where it was not told by events."""
    results: Optional[List[CodeResult]] = None
    """Where they were not told by events."""


class Installed(Model):
    """Packages were installed."""

    output: str = Field(default_factory=absent)
    """What the manager said on stdout."""
    exit_code: int = Field(default_factory=absent, alias="exitCode")
    """Always 0; else it is an error."""


class Kernel(Model):
    """A language that this sandbox has."""

    name: str = Field(default_factory=absent)
    """Of the program."""
    language: str = Field(default_factory=absent)
    """For execute."""
    display_name: str = Field(default_factory=absent, alias="displayName")
    """For people."""
    version: str = Field(default_factory=absent)
    """As it says itself; "" = nothing."""
    path: str = Field(default_factory=absent)
    """In the sandbox."""
    stateful: bool = Field(default_factory=absent)
    """Contexts can be made of it."""


class CodeContext(Model):
    """An interpreter that keeps its variables."""

    id: str = Field(default_factory=absent)
    """Ctx_ and 24 hex digits."""
    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Where it is."""
    language: str = Field(default_factory=absent)
    """What it runs."""
    exec_id: str = Field(default_factory=absent, alias="execId")
    """Of its process."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    version: Optional[str] = None
    """Of the language, to who made or restarted it."""


class CodeContextList(Model):
    """The contexts of a sandbox."""

    contexts: List[CodeContext] = Field(default_factory=absent)
    """The newest first."""


class EnvValue(Model):
    """A variable of the environment."""

    key: str = Field(default_factory=absent)
    """Name of the variable."""
    exists: bool = Field(default_factory=absent)
    """Commands have it."""
    value: Optional[str] = Field(default_factory=absent)
    """Null when they have not."""


class EnvSet(Model):
    """Variables that were set."""

    count: int = Field(default_factory=absent)
    """How many."""
    set: List[str] = Field(default_factory=absent)
    """Their names."""


class EnvList(Model):
    """The environment that commands have."""

    count: int = Field(default_factory=absent)
    """How many."""
    vars: Dict[str, str] = Field(default_factory=absent)
    """Names and values."""


class EnvDeleted(Model):
    """A variable that is gone."""

    deleted: str = Field(default_factory=absent)
    """Name of the variable."""


class GitCredentials(Model):
    """For the server of the repository, and for this call only."""

    username: Optional[str] = None
    """X-access-token when there is only a token."""
    password: Optional[str] = None
    """Or token."""
    token: Optional[str] = None
    """Or password."""


class GitProgress(Model):
    """How far git is."""

    event: Literal["progress"]
    """Git goes on."""
    phase: str = Field(default_factory=absent)
    """What it does."""
    percent: int = Field(default_factory=absent)
    """Of this phase."""
    current: int = Field(default_factory=absent)
    """How many are done."""
    total: int = Field(default_factory=absent)
    """Of how many."""
    text: str = Field(default_factory=absent)
    """As git says it."""


class GitResultEvent(Model):
    """Git has ended."""

    event: Literal["result"]
    """The last one."""
    result: ExecResult = Field(default_factory=absent)
    """How it ended."""


class GitStatus(Model):
    """What is not as in the last commit."""

    branch: str = Field(default_factory=absent)
    """HEAD when none is checked out."""
    clean: bool = Field(default_factory=absent)
    """There are no files below."""
    files: List[GitFile] = Field(default_factory=absent)
    """Changed, staged or not known to git."""
    repository: bool = Field(default_factory=absent)
    """False of a workspace that has no repository, or of a sandbox without git."""
    message: Optional[str] = None
    """When there is none: why."""
    upstream: Optional[str] = None
    """What the branch follows."""
    ahead: Optional[int] = None
    """Commits that the upstream lacks."""
    behind: Optional[int] = None
    """Commits of the upstream that it lacks."""
    truncated: Optional[bool] = None
    """True when there are more files than an answer has: 20000, or 10 MiB of names."""


class GitFile(Model):
    """A file that is not as in the last commit."""

    status: str = Field(default_factory=absent)
    """The letters of git status --short without blanks; ?? is not known to git."""
    path: str = Field(default_factory=absent)
    """In the repository."""
    staged: bool = Field(default_factory=absent)
    """A commit would have it, or a part of it."""
    from_: Optional[str] = Field(None, alias="from")
    """What it was called, when it was renamed."""


class GitDiff(Model):
    """What has changed."""

    diff: str = Field(default_factory=absent)
    """As text."""
    truncated: bool = Field(default_factory=absent)
    """It is longer than 10 MiB."""


class GitLog(Model):
    """The last commits."""

    entries: List[GitEntry] = Field(default_factory=absent)
    """The newest first."""


class GitEntry(Model):
    """A commit."""

    hash: str = Field(default_factory=absent)
    """Of the commit."""
    message: str = Field(default_factory=absent)
    """Its first paragraph, as one line."""
    author: str = Field(default_factory=absent)
    """Name."""
    email: str = Field(default_factory=absent)
    """Of the author."""
    date: str = Field(default_factory=absent)
    """ISO 8601."""


class GitBranches(Model):
    """The branches of a repository."""

    branches: List[str] = Field(default_factory=absent)
    """Those of remotes begin with remotes/."""
    current: str = Field(default_factory=absent)
    """HEAD when none is checked out."""
    truncated: Optional[bool] = None
    """True when there are more than an answer has: 20000, or 10 MiB of names."""


class Alert(Model):
    """A threshold for what a sandbox uses."""

    id: str = Field(default_factory=absent)
    """Alrt_ and 24 hex digits."""
    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Whose."""
    metric: str = Field(default_factory=absent)
    """What is looked at."""
    threshold: float = Field(default_factory=absent)
    """Percent of what the sandbox may use; of pids how many."""
    action: str = Field(default_factory=absent)
    """What is done when it fires."""
    triggered: bool = Field(default_factory=absent)
    """It has fired, and the value was not below since."""
    last_checked: Optional[int] = Field(None, alias="lastChecked")
    """Unix milliseconds."""
    last_triggered: Optional[int] = Field(None, alias="lastTriggered")
    """Unix milliseconds."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""


class AlertList(Model):
    """Alerts of a sandbox."""

    alerts: List[Alert] = Field(default_factory=absent)
    """The newest first."""


class AlertDeleted(Model):
    """An alert is gone."""

    deleted: str = Field(default_factory=absent)
    """Its id."""


class AlertHistory(Model):
    """When alerts of a sandbox have fired."""

    events: List[AlertEvent] = Field(default_factory=absent)
    """The newest first."""
    total: int = Field(default_factory=absent)
    """How many are kept; 100 at most."""


class AlertEvent(Model):
    """An alert has fired."""

    alert_id: str = Field(default_factory=absent, alias="alertId")
    """Which has fired."""
    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Whose."""
    metric: str = Field(default_factory=absent)
    """What is looked at."""
    threshold: float = Field(default_factory=absent)
    """Percent of what the sandbox may use; of pids how many."""
    action: str = Field(default_factory=absent)
    """What is done when it fires."""
    value: float = Field(default_factory=absent)
    """What it was then."""
    timestamp: int = Field(default_factory=absent)
    """Unix milliseconds."""


class ProcessList(Model):
    """What runs in a sandbox."""

    processes: List[Process] = Field(default_factory=absent)
    """Of the sandbox."""


class Process(Model):
    """A process of a sandbox."""

    pid: int = Field(default_factory=absent)
    """In the sandbox."""
    user: str = Field(default_factory=absent)
    """Name, or number when it has none."""
    cpu: str = Field(default_factory=absent)
    """Percent of a core over its whole life."""
    memory: str = Field(default_factory=absent)
    """Percent of the sandbox's memory."""
    command: str = Field(default_factory=absent)
    """With its arguments."""


class ProcessKilled(Model):
    """A signal that was sent."""

    killed: int = Field(default_factory=absent)
    """Its pid in the sandbox."""
    signal: str = Field(default_factory=absent)
    """What it was sent."""


class ProcessTop(Model):
    """What the processes of a sandbox use."""

    processes: List[ProcessUsage] = Field(default_factory=absent)
    """Of the sandbox."""


class ProcessUsage(Model):
    """What a process uses."""

    pid: int = Field(default_factory=absent)
    """In the sandbox."""
    cpu: str = Field(default_factory=absent)
    """Percent of a core over its whole life."""
    mem: str = Field(default_factory=absent)
    """Percent of the sandbox's memory."""
    vsz: int = Field(default_factory=absent)
    """KiB of address space."""
    rss: int = Field(default_factory=absent)
    """KiB of memory."""
    command: str = Field(default_factory=absent)
    """With its arguments."""


class Metrics(Model):
    """What a sandbox uses."""

    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Whose."""
    cpu_percent: float = Field(default_factory=absent, alias="cpuPercent")
    """Of a core, since the last look."""
    memory_usage_mb: float = Field(default_factory=absent, alias="memoryUsageMb")
    """MB in use."""
    memory_limit_mb: float = Field(default_factory=absent, alias="memoryLimitMb")
    """MB that it may use."""
    network_rx_bytes: int = Field(default_factory=absent, alias="networkRxBytes")
    """Received."""
    network_tx_bytes: int = Field(default_factory=absent, alias="networkTxBytes")
    """Sent."""
    pids: int = Field(default_factory=absent)
    """Processes and threads."""
    cpu_time_ns: Optional[int] = Field(None, alias="cpuTimeNs")
    """Time of processors since it was started."""
    disk_read_bytes: Optional[int] = Field(None, alias="diskReadBytes")
    """That came from disks, since it was started."""
    disk_write_bytes: Optional[int] = Field(None, alias="diskWriteBytes")
    """And that were written for them."""
    disk_used_bytes: Optional[int] = Field(None, alias="diskUsedBytes")
    """Of its own disk; absent when that cannot be looked at just now."""
    disk_limit_bytes: Optional[int] = Field(None, alias="diskLimitBytes")
    """That its disk can hold."""
    started_at: Optional[int] = Field(None, alias="startedAt")
    """Unix milliseconds; absent when it does not run."""


class GlobalMetrics(Model):
    """Counters of the daemon."""

    active_sandboxes: int = Field(default_factory=absent, alias="activeSandboxes")
    """That run or are paused."""
    stopped_sandboxes: int = Field(default_factory=absent, alias="stoppedSandboxes")
    """Whose disks are kept."""
    snapshots: int = Field(default_factory=absent)
    """How many there are."""
    volumes: int = Field(default_factory=absent)
    """How many there are."""
    total_created: int = Field(default_factory=absent, alias="totalCreated")
    """Since the data folder is there."""
    total_killed: int = Field(default_factory=absent, alias="totalKilled")
    """By a call."""
    total_expired: int = Field(default_factory=absent, alias="totalExpired")
    """Because their time was over."""
    uptime_seconds: int = Field(default_factory=absent, alias="uptimeSeconds")
    """Of the daemon."""
    disk_free_bytes: int = Field(default_factory=absent, alias="diskFreeBytes")
    """Where the disks are."""
    disk_reserve_bytes: int = Field(default_factory=absent, alias="diskReserveBytes")
    """Of these, what sandboxes do not get."""
    disk_promised_bytes: int = Field(default_factory=absent, alias="diskPromisedBytes")
    """The sum of the sizes of all disks."""
    disk_low: bool = Field(default_factory=absent, alias="diskLow")
    """So that those that write are paused."""


class Health(Model):
    """The daemon answers."""

    status: Literal["healthy"]
    """It answers."""
    version: str = Field(default_factory=absent)
    """Of the daemon."""
    problems: Optional[List[HealthProblem]] = None
    """What does not work and is being tried again, the oldest first; at most 100."""


class HealthProblem(Model):
    """What does not work now."""

    what: str = Field(default_factory=absent)
    """Is tried again until it works."""
    since: int = Field(default_factory=absent)
    """Ms since 1970."""
    attempts: int = Field(default_factory=absent)
    """That have failed."""
    sandbox_id: Optional[str] = Field(None, alias="sandboxId")
    """What could not be taken away; for callers who may read."""
    text: Optional[str] = None
    """Why; for callers who may read."""


class Traces(Model):
    """Calls that have ended."""

    traces: List[Trace] = Field(default_factory=absent)
    """Newest first."""
    total: int = Field(default_factory=absent)
    """How many match."""


class Trace(Model):
    """A call that has ended."""

    id: str = Field(default_factory=absent)
    """Of the trace."""
    function_id: str = Field(default_factory=absent, alias="functionId")
    """What was called."""
    sandbox_id: Optional[str] = Field(None, alias="sandboxId")
    """That it was about."""
    duration: float = Field(default_factory=absent)
    """Ms, from the request to its end."""
    status: str = Field(default_factory=absent)
    """How it ended."""
    error: Optional[str] = None
    """Why it failed."""
    code: Optional[str] = None
    """The same as a word."""
    timestamp: int = Field(default_factory=absent)
    """When it ended."""
    caller: str = Field(default_factory=absent)
    """Who called."""
    face: str = Field(default_factory=absent)
    """By which way."""
    trace_id: str = Field(default_factory=absent, alias="traceId")
    """The caller's, if it sent a traceparent header."""
    span_id: str = Field(default_factory=absent, alias="spanId")
    """Of this call."""
    parent_span_id: Optional[str] = Field(None, alias="parentSpanId")
    """Of the caller's, if it sent one."""


class ObservabilityMetrics(Model):
    """What all calls add up to."""

    total_requests: int = Field(default_factory=absent, alias="totalRequests")
    """Since the data folder is there, or since the last clear."""
    total_errors: int = Field(default_factory=absent, alias="totalErrors")
    """Of these, how many failed."""
    avg_duration: float = Field(default_factory=absent, alias="avgDuration")
    """Ms; streams count for none."""
    p50_duration: float = Field(default_factory=absent, alias="p50Duration")
    """Ms: half of them took less."""
    p95_duration: float = Field(default_factory=absent, alias="p95Duration")
    """Ms: 95 of 100 took less."""
    p99_duration: float = Field(default_factory=absent, alias="p99Duration")
    """Ms: 99 of 100 took less."""
    active_sandboxes: int = Field(default_factory=absent, alias="activeSandboxes")
    """That run or are paused."""
    function_counts: Dict[str, Any] = Field(default_factory=absent, alias="functionCounts")
    """How often each function was called."""
    functions: List[FunctionMetrics] = Field(default_factory=absent)
    """Each, most called first."""


class FunctionMetrics(Model):
    """Calls of one function."""

    function_id: str = Field(default_factory=absent, alias="functionId")
    """What was called."""
    count: int = Field(default_factory=absent)
    """How often."""
    errors: int = Field(default_factory=absent)
    """Of these, how many failed."""
    avg_duration: float = Field(default_factory=absent, alias="avgDuration")
    """Ms; streams count for none."""
    p50_duration: float = Field(default_factory=absent, alias="p50Duration")
    """Ms: half of them took less."""
    p95_duration: float = Field(default_factory=absent, alias="p95Duration")
    """Ms: 95 of 100 took less."""
    p99_duration: float = Field(default_factory=absent, alias="p99Duration")
    """Ms: 99 of 100 took less."""


class TracesCleared(Model):
    """How many traces were removed."""

    cleared: int = Field(default_factory=absent)
    """How many were removed."""


class MetricsHistory(Model):
    """What a sandbox used lately."""

    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Whose."""
    interval: float = Field(default_factory=absent)
    """Seconds between two."""
    memory_limit_mb: float = Field(default_factory=absent, alias="memoryLimitMb")
    """MB that it may use."""
    samples: List[MetricsSample] = Field(default_factory=absent)
    """Oldest first."""


class MetricsSample(Model):
    """What a sandbox used at one time."""

    timestamp: int = Field(default_factory=absent)
    """When it was looked at."""
    cpu_percent: float = Field(default_factory=absent, alias="cpuPercent")
    """Of a core, since the one before."""
    memory_usage_mb: float = Field(default_factory=absent, alias="memoryUsageMb")
    """MB in use."""
    pids: int = Field(default_factory=absent)
    """Processes and threads."""
    network_rx_bytes: int = Field(default_factory=absent, alias="networkRxBytes")
    """Received until then."""
    network_tx_bytes: int = Field(default_factory=absent, alias="networkTxBytes")
    """Sent until then."""


class LogEvent(Model):
    """A line of the main process, or the end."""

    type: str = Field(default_factory=absent)
    """Which stream the line is of; end is the last event. Of sandboxes that an older cay made, stderr is stdout too."""
    data: str = Field(default_factory=absent)
    """One line of text."""
    timestamp: int = Field(default_factory=absent)
    """When the process wrote it, in Unix milliseconds."""


class ImageList(Model):
    """The images of this machine."""

    images: List[Image] = Field(default_factory=absent)
    """On this machine."""


class Image(Model):
    """A file system that sandboxes start from."""

    name: str = Field(default_factory=absent)
    """What it is called here."""
    id: str = Field(default_factory=absent)
    """Digest of its configuration, or host."""
    digest: str = Field(default_factory=absent)
    """In its registry; else empty."""
    origin: str = Field(default_factory=absent)
    """Where it came from."""
    platform: str = Field(default_factory=absent)
    """Whose programs it has."""
    workdir: str = Field(default_factory=absent)
    """Where commands start; may be empty."""
    user: str = Field(default_factory=absent)
    """Who runs them; empty = root."""
    stop_signal: str = Field(default_factory=absent, alias="stopSignal")
    """Ends its main process."""
    size: int = Field(default_factory=absent)
    """Bytes on disk."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    pulled_at: int = Field(default_factory=absent, alias="pulledAt")
    """Unix milliseconds."""
    used_at: int = Field(default_factory=absent, alias="usedAt")
    """Unix milliseconds; 0 = never."""
    layers: int = Field(default_factory=absent)
    """How many."""
    in_use: bool = Field(default_factory=absent, alias="inUse")
    """A sandbox is made from it."""
    env: List[str] = Field(default_factory=absent)
    """NAME=VALUE."""
    entrypoint: List[str] = Field(default_factory=absent)
    """Of its main process."""
    cmd: List[str] = Field(default_factory=absent)
    """Follows the entrypoint."""
    ports: List[str] = Field(default_factory=absent)
    """As 8080/tcp."""
    labels: Dict[str, str] = Field(default_factory=absent)
    """Of its maker."""
    warnings: Optional[List[str]] = None
    """Of a commit: which files the image does not have, and why; of an import: what its name stands for."""


class ImageCatalog(Model):
    """The short names of images."""

    images: List[ImageShortName] = Field(default_factory=absent)
    """Presets first."""


class ImageShortName(Model):
    """A name and what it stands for."""

    name: str = Field(default_factory=absent)
    """Short."""
    reference: str = Field(default_factory=absent)
    """What it stands for."""
    kind: str = Field(default_factory=absent)
    """Cay's own, or the operator's."""


class DoneEvent(Model):
    """An image is here."""

    event: Literal["done"]
    """The last one."""
    image: Image = Field(default_factory=absent)
    """It is here."""


class ImagePrune(Model):
    """Images that were not used."""

    removed: List[Image] = Field(default_factory=absent)
    """That went, or would go."""
    bytes: int = Field(default_factory=absent)
    """That this frees."""
    dry_run: bool = Field(default_factory=absent, alias="dryRun")
    """True when nothing went."""


class ImageDeleted(Model):
    """An image that is gone."""

    deleted: str = Field(default_factory=absent)
    """As it was asked for."""


class Sweep(Model):
    """Sandboxes whose time was over: removed, or about to stop."""

    swept: int = Field(default_factory=absent)
    """How many were removed."""


class Strays(Model):
    """What belongs to no sandbox."""

    strays: List[Stray] = Field(default_factory=absent)
    """Nothing is done about them unasked."""
    bytes: int = Field(default_factory=absent)
    """That all of them take."""


class Stray(Model):
    """Something that belongs to no sandbox."""

    id: str = Field(default_factory=absent)
    """Whose it was."""
    path: str = Field(default_factory=absent)
    """Of its disk on the host; empty when it has none."""
    bytes: int = Field(default_factory=absent)
    """That the disk takes on the host."""
    processes: int = Field(default_factory=absent)
    """That still run."""


class Info(Model):
    """What this daemon is."""

    version: str = Field(default_factory=absent)
    """Of the daemon."""
    runtime: str = Field(default_factory=absent)
    """What runs sandboxes."""
    isolation: str = Field(default_factory=absent)
    """What stands between a sandbox and the host."""
    workspace: str = Field(default_factory=absent)
    """Where files belong."""
    default_image: str = Field(default_factory=absent, alias="defaultImage")
    """What CAY_DEFAULT_IMAGE says; clients may offer it."""
    limits: Limits = Field(default_factory=absent)
    """What a sandbox can be given."""


class Limits(Model):
    """What a sandbox can be given."""

    memory_min_mb: int = Field(default_factory=absent, alias="memoryMinMb")
    """MB."""
    memory_max_mb: int = Field(default_factory=absent, alias="memoryMaxMb")
    """MB."""
    cpu_min: float = Field(default_factory=absent, alias="cpuMin")
    """Cores."""
    cpu_max: float = Field(default_factory=absent, alias="cpuMax")
    """Cores."""
    pids_min: int = Field(default_factory=absent, alias="pidsMin")
    """Processes and threads."""
    pids_max: int = Field(default_factory=absent, alias="pidsMax")
    """Processes and threads."""
    disk_min_mb: int = Field(default_factory=absent, alias="diskMinMb")
    """MB."""
    disk_max_mb: int = Field(default_factory=absent, alias="diskMaxMb")
    """MB."""
    timeout_min: int = Field(default_factory=absent, alias="timeoutMin")
    """Seconds."""
    timeout_max: Optional[int] = Field(None, alias="timeoutMax")
    """Seconds; absent = any, and a sandbox may have no end (0)."""
    max_sandboxes: int = Field(default_factory=absent, alias="maxSandboxes")
    """At a time, without stopped ones."""
    max_stopped: Optional[int] = Field(None, alias="maxStopped")
    """Stopped ones; absent = any."""
    max_command_seconds: Optional[int] = Field(None, alias="maxCommandSeconds")
    """Of a command that is waited for; absent = any."""


class Worker(Model):
    """A machine with sandboxes."""

    worker_id: str = Field(default_factory=absent, alias="workerId")
    """Wrk_ and 24 hex digits: the same after a restart."""
    hostname: str = Field(default_factory=absent)
    """Of the machine."""
    active_sandboxes: int = Field(default_factory=absent, alias="activeSandboxes")
    """That run or are paused."""
    stopped_sandboxes: int = Field(default_factory=absent, alias="stoppedSandboxes")
    """Whose disks are kept."""
    max_sandboxes: int = Field(default_factory=absent, alias="maxSandboxes")
    """How many there may be in all."""
    cpu_percent: float = Field(default_factory=absent, alias="cpuPercent")
    """Of all cores of the machine, since the look before."""
    cores: int = Field(default_factory=absent)
    """Of the machine."""
    memory: WorkerMemory = Field(default_factory=absent)
    """Of the machine."""
    disk_free_mb: int = Field(default_factory=absent, alias="diskFreeMb")
    """Where the disks of sandboxes are."""
    version: str = Field(default_factory=absent)
    """Of cay."""
    last_heartbeat: int = Field(default_factory=absent, alias="lastHeartbeat")
    """Now, in Unix milliseconds."""


class WorkerMemory(Model):
    """Memory of a machine."""

    total_mb: int = Field(default_factory=absent, alias="totalMb")
    """Of the machine."""
    free_mb: int = Field(default_factory=absent, alias="freeMb")
    """That nothing uses, not even as a cache."""


class WorkerList(Model):
    """The machines with sandboxes."""

    workers: List[Worker] = Field(default_factory=absent)
    """This machine."""
    alive: int = Field(default_factory=absent)
    """How many answer."""
    dead: int = Field(default_factory=absent)
    """How many do not."""


class WorkerSelected(Model):
    """Where another sandbox can be made."""

    worker_id: str = Field(default_factory=absent, alias="workerId")
    """That has room."""


class WorkersReaped(Model):
    """What was done about machines that are gone."""

    reaped: int = Field(default_factory=absent)
    """Machines that did not answer."""
    reassigned: int = Field(default_factory=absent)
    """Sandboxes of theirs that were taken over."""
    expired: int = Field(default_factory=absent)
    """Sandboxes of theirs that are lost."""


class WorkersMigrated(Model):
    """What was given to this machine."""

    migrated: int = Field(default_factory=absent)
    """Sandboxes that had no machine yet."""


class TemplateConfig(Model):
    """What its sandboxes are made from."""

    image: str = Field(default_factory=absent)
    """Image to begin with."""
    timeout: Optional[int] = None
    """Seconds that a sandbox lives, as in a create."""
    memory: Optional[int] = None
    """MB of memory."""
    cpu: Optional[float] = None
    """Cores."""
    pids: Optional[int] = None
    """Processes and threads at a time."""
    disk: Optional[int] = None
    """MB of disk."""
    network: Optional[Union[bool, str, NetworkPolicy]] = None
    """What it may reach, as in a create."""
    env: Optional[Dict[str, str]] = None
    """Environment of every command, also of setup."""
    workdir: Optional[str] = None
    """Where commands start, also those of setup."""
    user: Optional[str] = None
    """Who runs commands: name, uid, or either with :group; setup runs as the image's user."""
    metadata: Optional[Dict[str, str]] = None
    """Kept with each sandbox."""
    entrypoint: Optional[List[str]] = None
    """Main process, as arguments."""
    run_entrypoint: Optional[bool] = Field(None, alias="runEntrypoint")
    """The image's own entrypoint and command are the main process."""
    files: Optional[List[TemplateFile]] = None
    """Written before setup."""
    setup: Optional[List[SetupCommand]] = None
    """Commands that are run once; what they leave is kept as a layer."""
    ready: Optional[Union[str, List[str]]] = None
    """A command that must succeed in a new sandbox before the create answers; tried again until it does."""
    ready_timeout: Optional[int] = Field(None, alias="readyTimeout")
    """Seconds that ready may take in all; 25 when absent."""


class TemplateFile(Model):
    """A file that a template brings along."""

    path: str = Field(default_factory=absent)
    """Where it is in the sandbox; not absolute: below workdir."""
    content: Optional[str] = None
    """Text of the file; not told in lists."""
    source: Optional[str] = None
    """In cay.json, in place of content: a file or folder beside it."""
    mode: Optional[str] = None
    """Octal; 0644 when absent, or as the source."""
    size: Optional[int] = None
    """Bytes, told in lists."""


class Template(Model):
    """What sandboxes are made from by one word."""

    id: str = Field(default_factory=absent)
    """Tpl_ and 24 hex digits; tpl_ and the name of one that is built in."""
    name: str = Field(default_factory=absent)
    """No other template has it."""
    description: str = Field(default_factory=absent)
    """For people."""
    config: TemplateConfig = Field(default_factory=absent)
    """What its sandboxes are made from."""
    builtin: bool = Field(default_factory=absent)
    """True when it is part of cay."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    build: Optional[TemplateBuild] = None
    """Absent when it has no files, setup or user, or was not built yet."""


class TemplateBuild(Model):
    """What a template was built into."""

    image_id: str = Field(default_factory=absent, alias="imageId")
    """The image that files and setup have become."""
    base_id: Optional[str] = Field(None, alias="baseId")
    """What the image's name meant then."""
    source: str = Field(default_factory=absent)
    """Directory: it was built from a folder, and is built again from there."""
    built_at: int = Field(default_factory=absent, alias="builtAt")
    """Unix milliseconds."""
    duration_ms: Optional[int] = Field(None, alias="durationMs")
    """Of the build."""
    steps: Optional[int] = None
    """Of the build."""
    size: Optional[int] = None
    """Bytes of the image."""
    cached: Optional[bool] = None
    """True when nothing had to be done."""
    stale: Optional[bool] = None
    """True when the image's name means another image by now."""


class TemplateEvent(Model):
    """A template is there."""

    event: Literal["template"]
    """The last one."""
    template: Template = Field(default_factory=absent)
    """It can be used."""


class TemplateList(Model):
    """All templates."""

    templates: List[Template] = Field(default_factory=absent)
    """Built-in ones first, then by age."""


class TemplateDeleted(Model):
    """A template is gone."""

    deleted: str = Field(default_factory=absent)
    """Its id."""


class Snapshot(Model):
    """What the disk of a sandbox was at one moment."""

    id: str = Field(default_factory=absent)
    """Snap_ and 24 hex digits."""
    snapshot_id: str = Field(default_factory=absent, alias="snapshotId")
    """The same as id."""
    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Whose disk it was; that sandbox may be gone."""
    name: str = Field(default_factory=absent)
    """For people; the id when none was given."""
    image_id: str = Field(default_factory=absent, alias="imageId")
    """Of the image that it is."""
    size: int = Field(default_factory=absent)
    """Bytes that it takes beside what the sandbox was made from."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    config: Optional[SandboxConfig] = None
    """Of the sandbox, which clones get."""
    entrypoint: Optional[List[str]] = None
    """Of the sandbox, which clones get."""
    metadata: Optional[Dict[str, str]] = None
    """Of the sandbox, which clones get."""
    labels: Optional[Dict[str, str]] = None
    """Of the caller."""
    warnings: Optional[List[str]] = None
    """Of a new one: which files it does not have, and why."""


class SnapshotList(Model):
    """Snapshots."""

    snapshots: List[Snapshot] = Field(default_factory=absent)
    """The oldest first."""


class SnapshotDeleted(Model):
    """A snapshot is gone."""

    deleted: str = Field(default_factory=absent)
    """Its id."""


class Diff(Model):
    """What a sandbox changed."""

    changes: List[Change] = Field(default_factory=absent)
    """By path."""
    truncated: bool = Field(default_factory=absent)
    """True when there are more."""


class Change(Model):
    """Of one path."""

    kind: str = Field(default_factory=absent)
    """Added, modified or deleted."""
    path: str = Field(default_factory=absent)
    """In the sandbox."""
    type: str = Field(default_factory=absent)
    """What it is."""
    size: int = Field(default_factory=absent)
    """Bytes of a file."""


class Fork(Model):
    """Clones of one sandbox."""

    sandboxes: List[Sandbox] = Field(default_factory=absent)
    """The new ones."""


class Volume(Model):
    """A folder that outlives sandboxes."""

    id: str = Field(default_factory=absent)
    """Vol_ and 24 hex digits."""
    name: str = Field(default_factory=absent)
    """For people; may repeat."""
    docker_volume_name: str = Field(default_factory=absent, alias="dockerVolumeName")
    """The id, for clients that want it."""
    mount_path: Optional[str] = Field(None, alias="mountPath")
    """Of the first that has it."""
    sandbox_id: Optional[str] = Field(None, alias="sandboxId")
    """The first that has it."""
    size: str = Field(default_factory=absent)
    """SizeBytes as a text, which is what public clients take."""
    size_bytes: int = Field(default_factory=absent, alias="sizeBytes")
    """Bytes that it can hold, with what the filesystem needs for itself."""
    used_bytes: int = Field(default_factory=absent, alias="usedBytes")
    """What it takes on the host's disk."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    attachments: List[VolumeAttachment] = Field(default_factory=absent)
    """Who has it, the oldest first."""


class VolumeAttachment(Model):
    """A sandbox that has a volume."""

    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Who has it."""
    mount_path: str = Field(default_factory=absent, alias="mountPath")
    """Where."""
    read_only: bool = Field(default_factory=absent, alias="readOnly")
    """Nothing can be written there."""


class VolumeList(Model):
    """All of them."""

    volumes: List[Volume] = Field(default_factory=absent)
    """The oldest first."""


class VolumeDeleted(Model):
    """It is gone, with all that was in it."""

    deleted: str = Field(default_factory=absent)
    """Its id."""


class VolumeAttached(Model):
    """It is mounted."""

    attached: bool = Field(default_factory=absent)
    """Always true."""
    mount_path: str = Field(default_factory=absent, alias="mountPath")
    """Where it is in the sandbox."""
    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Who has it now."""
    volume_id: str = Field(default_factory=absent, alias="volumeId")
    """What."""


class VolumeDetached(Model):
    """It is not mounted any more."""

    detached: bool = Field(default_factory=absent)
    """Always true."""
    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Who had it."""
    volume_id: str = Field(default_factory=absent, alias="volumeId")
    """What."""
    mount_path: str = Field(default_factory=absent, alias="mountPath")
    """Where it was."""


class Terminal(Model):
    """A command on a terminal, with or without viewers."""

    session_id: str = Field(default_factory=absent, alias="sessionId")
    """Term_ and 24 hex digits."""
    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Where it is."""
    exec_id: str = Field(default_factory=absent, alias="execId")
    """The command on it."""
    cols: Optional[int] = None
    """Absent when it is not known."""
    rows: Optional[int] = None
    """Absent when it is not known."""
    shell: str = Field(default_factory=absent)
    """How the command begins."""
    status: str = Field(default_factory=absent)
    """Exited once the command has ended."""
    backend: str = Field(default_factory=absent)
    """The runtime."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    recorded: Optional[bool] = None
    """Of a new one: it is recorded."""
    channel: Optional[Channel] = None
    """Of a new one."""
    finished_at: Optional[int] = Field(None, alias="finishedAt")
    """Once it has ended."""
    exit_code: Optional[int] = Field(None, alias="exitCode")
    """Once it has ended."""
    reason: Optional[str] = None
    """Why it ended."""
    oom: Optional[bool] = None
    """True when the kernel killed for lack of memory while it ran."""
    message: Optional[str] = None
    """How it ended, in words; absent when it ended by itself."""


class Channel(Model):
    """A terminal's two ends, each for the first who comes within five minutes."""

    writer: ChannelEnd = Field(default_factory=absent)
    """Takes what is typed."""
    reader: ChannelEnd = Field(default_factory=absent)
    """Gives what is shown."""


class ChannelEnd(Model):
    """One end of a channel."""

    channel_id: str = Field(default_factory=absent)
    """For /ws/channels/…."""
    access_key: str = Field(default_factory=absent)
    """For ?key=."""
    direction: str = Field(default_factory=absent)
    """For ?dir=."""


class TerminalList(Model):
    """Terminals of a sandbox."""

    sessions: List[Terminal] = Field(default_factory=absent)
    """The newest first."""


class TerminalSize(Model):
    """Its new size."""

    cols: int = Field(default_factory=absent)
    """As it is now."""
    rows: int = Field(default_factory=absent)
    """As it is now."""


class TerminalClosed(Model):
    """It has ended."""

    closed: str = Field(default_factory=absent)
    """The session."""


class TerminalExit(Model):
    """How the command on a terminal ended."""

    type: Literal["exit"]
    """The last message."""
    exit_code: int = Field(default_factory=absent, alias="exitCode")
    """128 and the signal's number after a signal."""
    reason: str = Field(default_factory=absent)
    """Why it ended."""
    oom: Optional[bool] = None
    """True when the kernel killed for lack of memory while it ran."""
    message: Optional[str] = None
    """How it ended, in words; absent when it ended by itself."""


class TerminalEvent(Model):
    """A text message of a terminal's WebSocket."""

    type: str = Field(default_factory=absent)
    """Ready is the first; lost: not all of what was shown before is kept; error: a Close follows."""
    session_id: Optional[str] = Field(None, alias="sessionId")
    """Of ready."""
    cursor: Optional[int] = None
    """Of the next byte: each byte that comes adds one."""
    read_only: Optional[bool] = Field(None, alias="readOnly")
    """Of ready: what is sent is not taken."""
    bytes: Optional[int] = None
    """Of lost: how many."""
    error: Optional[str] = None
    """Of error: in words."""
    code: Optional[str] = None
    """Of error: a stable word."""


class PoolStatus(Model):
    """How full the pool is."""

    total: int = Field(default_factory=absent)
    """How many are to be ready."""
    ready: int = Field(default_factory=absent)
    """How many are."""
    by_profile: Dict[str, Any] = Field(default_factory=absent)
    """How many are ready, by IMAGE:MEMORY:CPU:NETWORK; empty for who has no token."""
    profiles: Optional[List[PoolProfile]] = None
    """Each with what it lacks; not for who has no token."""


class PoolProfile(Model):
    """A kind of sandbox that the pool has ready."""

    id: Optional[str] = None
    """To remove it by; those of the configuration have none."""
    image: Optional[str] = None
    """What its sandboxes are made from."""
    template: Optional[str] = None
    """In place of an image."""
    memory: int = Field(default_factory=absent)
    """MB."""
    cpu: float = Field(default_factory=absent)
    """Cores."""
    pids: int = Field(default_factory=absent)
    """Processes and threads."""
    disk: int = Field(default_factory=absent)
    """MB."""
    network: Union[bool, str, NetworkPolicy] = Field(default_factory=absent)
    """What they may reach."""
    interpreter: Optional[PoolInterpreter] = None
    """What has started in them already."""
    size: int = Field(default_factory=absent)
    """How many are to be ready."""
    ready: int = Field(default_factory=absent)
    """How many are."""
    source: str = Field(default_factory=absent)
    """Where it comes from."""
    error: Optional[str] = None
    """Why the last one could not be made; it is tried again."""


class PoolInterpreter(Model):
    """An interpreter that waits in a box."""

    language: Optional[str] = None
    """Python."""
    imports: Optional[List[str]] = None
    """Modules that it has loaded."""


class PoolProfiles(Model):
    """What the pool has ready."""

    profiles: List[PoolProfile] = Field(default_factory=absent)
    """Those of the configuration, then those that were added."""


class ProxyAnswer(Model):
    """What a server in a sandbox answered."""

    status_code: int = Field(default_factory=absent, alias="statusCode")
    """Of the server in the sandbox."""
    headers: Dict[str, str] = Field(default_factory=absent)
    """Names in lower case; of a name that came twice the values, with commas."""
    body: str = Field(default_factory=absent)
    """As text; what is no UTF-8 becomes U+FFFD."""
    url: str = Field(default_factory=absent)
    """What was asked for, as the sandbox sees it."""


class ProxyConfig(Model):
    """How requests are passed on to a sandbox."""

    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """Its id."""
    proxy_base: str = Field(default_factory=absent, alias="proxyBase")
    """A port and a path behind this lead to it."""
    url: str = Field(default_factory=absent)
    """For browsers, with a number in place of {port}."""
    cors: str = Field(default_factory=absent)
    """Origins whose pages may read answers."""
    require_auth: bool = Field(default_factory=absent, alias="requireAuth")
    """Is a token or a signature always needed?."""
    timeout: int = Field(default_factory=absent)
    """Ms until the head of an answer must come."""


class ProxySigned(Model):
    """An address that opens one port for a while."""

    url: str = Field(default_factory=absent)
    """Opens the port to whoever has it."""
    path: str = Field(default_factory=absent)
    """The same at the address of the API."""
    expires_at: int = Field(default_factory=absent, alias="expiresAt")
    """Until then."""


class Network(Model):
    """Sandboxes that see each other."""

    id: str = Field(default_factory=absent)
    """Net_ and 24 hex digits."""
    name: str = Field(default_factory=absent)
    """No other network has it."""
    docker_network_id: str = Field(default_factory=absent, alias="dockerNetworkId")
    """The id, for clients that want it."""
    sandboxes: List[str] = Field(default_factory=absent)
    """Ids of those in it, the oldest first."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""


class NetworkList(Model):
    """All of them."""

    networks: List[Network] = Field(default_factory=absent)
    """The oldest first."""


class NetworkConnected(Model):
    """It is in the network."""

    connected: bool = Field(default_factory=absent)
    """Always true."""


class NetworkDisconnected(Model):
    """It is not in the network any more."""

    disconnected: bool = Field(default_factory=absent)
    """Always true."""


class NetworkDeleted(Model):
    """It is gone."""

    deleted: str = Field(default_factory=absent)
    """Its id."""


class Port(Model):
    """A port of a sandbox on the host."""

    container_port: int = Field(default_factory=absent, alias="containerPort")
    """In the sandbox."""
    host_port: int = Field(default_factory=absent, alias="hostPort")
    """On the host."""
    protocol: str = Field(default_factory=absent)
    """Tcp or udp."""
    host_address: str = Field(default_factory=absent, alias="hostAddress")
    """Of the host."""
    state: str = Field(default_factory=absent)
    """Active = the host listens; mapped = not now: the sandbox is stopped, or reason says why."""
    reason: Optional[str] = None
    """Why the host does not let it listen."""


class PortList(Model):
    """All of a sandbox."""

    ports: List[Port] = Field(default_factory=absent)
    """In the order in which they were exposed."""


class PortRemoved(Model):
    """It cannot be reached any more."""

    removed: int = Field(default_factory=absent)
    """ContainerPort."""


class EventList(Model):
    """Events."""

    events: List[Event] = Field(default_factory=absent)
    """The newest first."""
    total: int = Field(default_factory=absent)
    """How many there are with these filters."""


class Event(Model):
    """Something that happened."""

    id: str = Field(default_factory=absent)
    """Ids sort as events happened."""
    topic: str = Field(default_factory=absent)
    """What happened."""
    sandbox_id: str = Field(default_factory=absent, alias="sandboxId")
    """To which sandbox; empty when to none."""
    data: Dict[str, Any] = Field(default_factory=absent)
    """What there is to say about it, by topic."""
    timestamp: int = Field(default_factory=absent)
    """When, in Unix milliseconds."""
    published: Optional[bool] = None
    """By a caller; the daemon's own do not have this."""


class Token(Model):
    """Who may call, for what."""

    id: str = Field(default_factory=absent)
    """To revoke it by."""
    name: str = Field(default_factory=absent)
    """What it is for; its id if it has none."""
    scopes: List[str] = Field(default_factory=absent)
    """What it may: read, exec, write; admin is all of it and the daemon itself."""
    sandbox_id: Optional[str] = Field(None, alias="sandboxId")
    """The only sandbox that it is for."""
    label: Optional[Dict[str, str]] = None
    """It is only for sandboxes whose metadata has this, and those that it makes have it."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    created_by: str = Field(default_factory=absent, alias="createdBy")
    """Who made it."""
    expires_at: Optional[int] = Field(None, alias="expiresAt")
    """Unix milliseconds; absent = it does not."""
    expired: Optional[bool] = None
    """That time has come."""
    last_used_at: Optional[int] = Field(None, alias="lastUsedAt")
    """Unix milliseconds; of the time since the daemon started."""
    token: Optional[str] = None
    """What is sent as Authorization: Bearer; told once, to who makes it."""
    warning: Optional[str] = None
    """Why tokens may keep nobody out."""


class TokenList(Model):
    """Tokens."""

    tokens: List[Token] = Field(default_factory=absent)
    """The newest first."""
    warning: Optional[str] = None
    """Why tokens may keep nobody out."""


class WebhookMade(Model):
    """A webhook and its secret."""

    id: str = Field(default_factory=absent)
    """Wh_ and 24 hex digits."""
    url: str = Field(default_factory=absent)
    """Where events are sent."""
    topics: List[str] = Field(default_factory=absent)
    """Of which events."""
    sandbox_id: Optional[str] = Field(default_factory=absent, alias="sandboxId")
    """Of which sandbox; null = of all."""
    active: bool = Field(default_factory=absent)
    """Whether anything is sent; else events wait."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    failures: int = Field(default_factory=absent)
    """Attempts in a row that failed; 0 = it takes what it is sent."""
    last_status: Optional[int] = Field(default_factory=absent, alias="lastStatus")
    """HTTP status of the last attempt; null = there was no answer."""
    last_error: Optional[str] = Field(default_factory=absent, alias="lastError")
    """Why there was no answer, as in deliveries."""
    last_attempt_at: Optional[int] = Field(default_factory=absent, alias="lastAttemptAt")
    """Unix milliseconds; null = nothing was sent yet."""
    next_attempt_at: Optional[int] = Field(default_factory=absent, alias="nextAttemptAt")
    """When it is tried again, after a failure."""
    secret: str = Field(default_factory=absent)
    """What messages are signed with; it is not shown again."""


class WebhookList(Model):
    """All of them."""

    webhooks: List[Webhook] = Field(default_factory=absent)
    """The oldest first."""


class Webhook(Model):
    """Who is told of events by HTTP."""

    id: str = Field(default_factory=absent)
    """Wh_ and 24 hex digits."""
    url: str = Field(default_factory=absent)
    """Where events are sent."""
    topics: List[str] = Field(default_factory=absent)
    """Of which events."""
    sandbox_id: Optional[str] = Field(default_factory=absent, alias="sandboxId")
    """Of which sandbox; null = of all."""
    active: bool = Field(default_factory=absent)
    """Whether anything is sent; else events wait."""
    created_at: int = Field(default_factory=absent, alias="createdAt")
    """Unix milliseconds."""
    failures: int = Field(default_factory=absent)
    """Attempts in a row that failed; 0 = it takes what it is sent."""
    last_status: Optional[int] = Field(default_factory=absent, alias="lastStatus")
    """HTTP status of the last attempt; null = there was no answer."""
    last_error: Optional[str] = Field(default_factory=absent, alias="lastError")
    """Why there was no answer, as in deliveries."""
    last_attempt_at: Optional[int] = Field(default_factory=absent, alias="lastAttemptAt")
    """Unix milliseconds; null = nothing was sent yet."""
    next_attempt_at: Optional[int] = Field(default_factory=absent, alias="nextAttemptAt")
    """When it is tried again, after a failure."""


class WebhookDeleted(Model):
    """It is gone."""

    deleted: str = Field(default_factory=absent)
    """Its id."""


class Delivery(Model):
    """An event on its way to a webhook."""

    id: str = Field(default_factory=absent)
    """X-Cay-Delivery: the same for all attempts."""
    event_id: str = Field(default_factory=absent, alias="eventId")
    """Of what."""
    topic: str = Field(default_factory=absent)
    """Of what."""
    state: str = Field(default_factory=absent)
    """Failed: it is not tried again."""
    attempts: int = Field(default_factory=absent)
    """How often it was tried."""
    status: Optional[int] = Field(default_factory=absent)
    """HTTP status of the last attempt; null = there was no answer."""
    error: Optional[str] = Field(default_factory=absent)
    """Why there was none: refused (an address that may not be called), no_name, no_connection, no_trust, timeout, broken, bad_url,
    died."""
    message: Optional[str] = Field(default_factory=absent)
    """The same for people."""
    address: Optional[str] = Field(default_factory=absent)
    """That was called or refused."""
    duration: int = Field(default_factory=absent)
    """Milliseconds of the last attempt."""
    timestamp: int = Field(default_factory=absent)
    """Of the last attempt, in Unix milliseconds."""
    next_attempt_at: Optional[int] = Field(default_factory=absent, alias="nextAttemptAt")
    """Of one that is retrying."""


class DeliveryList(Model):
    """What was sent to a webhook."""

    deliveries: List[Delivery] = Field(default_factory=absent)
    """The newest first."""


class AuditList(Model):
    """Who did what."""

    entries: List[AuditEntry] = Field(default_factory=absent)
    """The oldest first."""
    n: int = Field(default_factory=absent)
    """Number of the newest line."""
    hash: str = Field(default_factory=absent)
    """Of the newest line."""


class AuditEntry(Model):
    """A line of the audit log."""

    n: int = Field(default_factory=absent)
    """Number of the line."""
    time: int = Field(default_factory=absent)
    """Unix milliseconds."""
    who: Optional[str] = None
    """Root, admin (CAY_AUTH_TOKEN), anyone, uid:N, or the id of a token."""
    face: Optional[str] = None
    """By which way."""
    from_: Optional[str] = Field(None, alias="from")
    """Its address."""
    function: str = Field(default_factory=absent)
    """What was called; daemon.started and the like are no calls."""
    sandbox_id: Optional[str] = Field(None, alias="sandboxId")
    """That it was about."""
    result: str = Field(default_factory=absent)
    """How it ended."""
    code: Optional[str] = None
    """Why it was not ok."""
    ms: Optional[float] = None
    """That it took."""
    detail: Optional[Dict[str, Any]] = None
    """What was asked, without secrets."""
    prev: str = Field(default_factory=absent)
    """Hash of the line before."""
    hash: str = Field(default_factory=absent)
    """Of this line."""


class AuditReport(Model):
    """Whether the audit log is whole."""

    ok: bool = Field(default_factory=absent)
    """No line was changed, removed, put in or appended by another."""
    entries: int = Field(default_factory=absent)
    """Lines that were read and are right."""
    first_n: int = Field(default_factory=absent, alias="firstN")
    """Number of the oldest line that is kept."""
    n: int = Field(default_factory=absent)
    """Number of the newest line."""
    hash: str = Field(default_factory=absent)
    """Of the newest line: keep it elsewhere, and ask for it later."""
    files: int = Field(default_factory=absent)
    """How many there are."""
    problem: Optional[str] = None
    """The first thing wrong."""
    file: Optional[str] = None
    """Where."""
    line: Optional[int] = None
    """In that file."""
    last_good_n: Optional[int] = Field(None, alias="lastGoodN")
    """Up to which all is right."""
    head_found: Optional[bool] = Field(None, alias="headFound")
    """Whether the line of the head that was given is there."""
    head_problem: Optional[str] = Field(None, alias="headProblem")
    """Why it is not there."""


class Error(Model):
    """Any failure."""

    error: str = Field(default_factory=absent)
    """What was wrong and what to do."""
    code: str = Field(default_factory=absent)
    """A stable word for programs; each operation lists its own."""
    exec_id: Optional[str] = Field(None, alias="execId")
    """Of command_timeout: of the command."""
    exit_code: Optional[int] = Field(None, alias="exitCode")
    """Of command_timeout 124; of template_not_ready the command's."""
    stdout: Optional[str] = None
    """Of command_timeout: what it printed."""
    stderr: Optional[str] = None
    """Of command_timeout: what it printed."""
    truncated: Optional[bool] = None
    """Of command_timeout: there was more output than is kept."""
    command: Optional[str] = None
    """Of a build: the step that failed."""
    output: Optional[str] = None
    """Of a build and of template_not_ready: the last lines of the command's output."""
    kind: Optional[str] = None
    """Of a command that could not be started: why."""
    stage: Optional[str] = None
    """Of a command that could not be started: what was being done."""
    errno: Optional[int] = None
    """Of a command that could not be started: what the kernel said, if it did."""
    errno_name: Optional[str] = Field(None, alias="errnoName")
    """The same as a word: ENOENT."""
    processes: Optional[List[VolumeHolder]] = None
    """Of volume_busy: who has files of it open, 16 at most."""


class VolumeHolder(Model):
    """A process that uses a volume."""

    pid: int = Field(default_factory=absent)
    """As the sandbox knows it."""
    command: str = Field(default_factory=absent)
    """Its command line."""
    path: str = Field(default_factory=absent)
    """What it has open, or is in."""


CreateEvent = Union[ResolvingEvent, ResolvedEvent, LayerEvent, StoringEvent, BuildStepEvent, BuildOutputEvent, BuildStepDoneEvent, SandboxEvent, ErrorEvent, Dict[str, Any]]
"""What a pull of the image and a build of the template do, then the sandbox or an error."""


FileText = str
"""A file's text; bytes that are none are replaced."""


FileList = List[FileInfo]
"""A directory; empty when there is none."""


FilePaths = List[str]
"""Absolute paths; at most 10000."""


FileBytes = str
"""A file's bytes in base64 with padding."""


FileMetaList = List[FileMeta]
"""In the order of the paths."""


ExecutionEvent = Union[CodeTextEvent, CodeResultEvent, CodeExceptionEvent, ExecutionDoneEvent, ErrorEvent, Dict[str, Any]]
"""What code prints and gives as it comes, then its end or an error."""


Kernels = List[Kernel]
"""The languages of a sandbox."""


GitEvent = Union[GitProgress, GitResultEvent, ErrorEvent, Dict[str, Any]]
"""How far git is, then how it ended or an error."""


PullEvent = Union[ResolvingEvent, ResolvedEvent, LayerEvent, StoringEvent, DoneEvent, ErrorEvent, Dict[str, Any]]
"""What happens, then the image or an error."""


OpenApi = Dict[str, Any]
"""An OpenAPI 3.1 document."""


SetupCommand = Union[str, List[str]]
"""A text for the shell, or a program with its arguments."""


TemplateBuildEvent = Union[ResolvingEvent, ResolvedEvent, LayerEvent, StoringEvent, BuildStepEvent, BuildOutputEvent, BuildStepDoneEvent, TemplateEvent, ErrorEvent, Dict[str, Any]]
"""What a pull of the image and a build do, then the template or an error."""


FileMetaAnswer = Union[FileMetaList, FileMeta]
"""A list for paths, one for path."""
