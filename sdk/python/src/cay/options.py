"""What can be said of a new sandbox, and what becomes of it: one request to the daemon, and what is done around it.

What the daemon cannot do is refused here, before anything is made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict, Union

from cay import _kept
from cay._kept import GRACE_SECONDS, SCRIPTS, SETTINGS, Settings
from cay.enums import (
    CpuPlacement,
    DeploymentProfile,
    LogLevel,
    NamedVolumeMode,
    PullPolicy,
    SecurityProfile,
    ViolationAction,
    checked,
)
from cay.errors import InvalidConfigError, UnsupportedError
from cay.mounts import MountConfig, mounts_to_wire
from cay.network import Network, NetworkLike, Ports, VsockRoute, network_to_wire, ports_to_wire
from cay.patch import Patch, PatchConfig, patches_to_wire
from cay.records import ImageSource, InitConfig, InitOptions, RegistryAuth
from cay.secret import SecretEntry, ViolationPolicy
from cay.sizes import MiBs, mib_of

if TYPE_CHECKING:
    from cay._http import Client
    from cay.sync._http import Client as SyncClient

NAME_MAX = 128
ALWAYS = 10**9
"""Seconds of a sandbox that has no end of its own; the daemon makes of it what it allows at most."""


class CreateOptions(TypedDict, total=False):
    """All keywords of :meth:`Sandbox.create`."""

    # What it is made from: an image, or a snapshot. Without either it is CAY_IMAGE, else "host".
    image: Union[str, os.PathLike[str], ImageSource, None]
    from_snapshot: Union[str, os.PathLike[str], None]
    template: Optional[str]
    pull_policy: Optional[PullPolicy]
    registry_auth: Optional[RegistryAuth]
    registry_insecure: bool  # over plain http
    registry_ca_certs: Optional[Sequence[Any]]

    # How much it may have: memory and disk in MiB (or a Size), cores, processes.
    memory: Optional[MiBs]
    max_memory: Optional[MiBs]  # what modify() may raise it to
    memory_mb: Optional[int]
    cpus: Optional[float]
    max_cpus: Optional[float]
    cpu: Optional[float]
    cpu_cores: Optional[float]
    disk: Optional[MiBs]
    pids: Optional[int]
    cpu_placement: Optional[CpuPlacement]
    placement_profile: Optional[str]
    thp: Optional[str]

    # How commands run in it.
    env: Optional[Mapping[str, str]]
    env_vars: Optional[Mapping[str, str]]
    workdir: Optional[str]
    working_dir: Optional[str]
    shell: Optional[str]
    user: Optional[str]
    hostname: Optional[str]
    entrypoint: Optional[Sequence[str]]  # of exec_default(), with cmd
    cmd: Optional[Sequence[str]]
    init: Union[str, InitConfig, InitOptions, None]
    scripts: Optional[Mapping[str, str]]  # programs by name, on PATH
    setup_commands: Optional[Sequence[str]]  # run in order before it is handed over; one that fails ends it
    security: Optional[SecurityProfile]
    deployment_profile: Optional[DeploymentProfile]

    # How long it lives.
    timeout: Optional[float]  # seconds; also max_duration, timeout_seconds
    max_duration: Optional[float]
    timeout_seconds: Optional[float]
    idle_timeout: Optional[float]  # seconds without work, after which it is stopped
    on_timeout: Literal[
        "stop", "remove"
    ]  # after timeout: stopped, with its files; an ephemeral one is removed unless it says so
    ephemeral: bool  # stop() and kill() remove it
    detached: Optional[bool]  # it outlives this process
    replace: bool  # one that has the name is removed first
    replace_with_timeout: Optional[float]

    # What it has.
    labels: Optional[Mapping[str, str]]
    metadata: Optional[Mapping[str, str]]
    volumes: Optional[Mapping[str, MountConfig]]
    patches: Optional[Sequence[PatchConfig]]
    ports: Optional[Ports]
    network: NetworkLike
    networks: Optional[Sequence[str]]
    vsock: Union[Mapping[str, int], Sequence[VsockRoute], None]
    secrets: Optional[Sequence[SecretEntry]]
    on_secret_violation: Union[ViolationAction, ViolationPolicy, None]
    log_level: Optional[LogLevel]

    provider: Optional[str]
    fallback: Optional[Sequence[str]]
    client: Union[Client, SyncClient, None]
    kill_removes: bool


@dataclass
class CreateRequest:
    """What a call of create comes to."""

    body: dict[str, Any]
    snapshot: Optional[str] = None
    pull: Optional[dict[str, Any]] = None  # of an image that is to be fetched before
    new_volumes: list[str] = field(default_factory=list)  # that must not be there yet
    replace: bool = False
    grace: float = GRACE_SECONDS
    setup: Sequence[str] = ()
    has_scripts: bool = False
    detached: bool = False
    ephemeral: bool = False
    kill_removes: bool = False
    client: Any = None


_NOT_HERE = {
    "registry_ca_certs": "the daemon's CAY_REGISTRY_CA names certificates to trust",
    "placement_profile": "the daemon's machine decides where a sandbox runs",
    "thp": "huge pages are the matter of the daemon's machine",
    "hostname": "the hostname is the sandbox's own; give it a name",
    "init": "process 1 is cay's agent; run it as a command, or make it the entrypoint of a template",
    "vsock": "sandboxes are no virtual machines; see ports and the network's host group",
    "secrets": "the daemon cannot put secrets into requests; env= hands one over to the sandbox itself",
    "on_secret_violation": "the daemon cannot put secrets into requests",
    "log_level": "CAY_LOG_LEVEL is the daemon's",
}


def _refuse(options: Mapping[str, Any]) -> None:
    unknown = sorted(set(options) - set(CreateOptions.__annotations__))
    if unknown:
        raise TypeError(f"create() got an unexpected keyword argument {unknown[0]!r}")
    for name, hint in _NOT_HERE.items():
        if options.get(name):
            raise UnsupportedError(operation=name, hint=hint)
    for name, kind in (
        ("cpu_placement", CpuPlacement),
        ("security", SecurityProfile),
        ("deployment_profile", DeploymentProfile),
        ("pull_policy", PullPolicy),
    ):
        if options.get(name) is not None:
            checked(options[name], kind, name)
    if options.get("cpu_placement") not in (None, CpuPlacement.INHERIT):
        raise UnsupportedError(operation="cpu_placement", hint=_NOT_HERE["placement_profile"])
    if options.get("provider") not in (None, "cay") or options.get("fallback"):
        raise UnsupportedError(operation="provider", hint="cay is the only one here")


def _first(options: Mapping[str, Any], *names: str) -> Any:
    """The first that is given: they mean the same."""
    return next((options[name] for name in names if options.get(name) is not None), None)


def _image(options: Mapping[str, Any]) -> dict[str, Any]:
    image = options.get("image")
    if options.get("from_snapshot") is not None:
        if image is not None:
            raise InvalidConfigError("image and from_snapshot: only one of them can be given")
        return {}
    if isinstance(image, ImageSource):
        return image.to_wire()
    if isinstance(image, os.PathLike) or (isinstance(image, str) and image.startswith(("/", "./", "../"))):
        raise UnsupportedError(
            operation="image.bind", hint="Image.load(path, tag=…) makes an image of a folder or an archive"
        )
    if image is None:
        return {} if options.get("template") else {"image": os.environ.get("CAY_IMAGE") or "host"}
    if not isinstance(image, str):
        raise TypeError(f"image must be a reference or an ImageSource, not {type(image).__name__}")
    return {"image": image}


def _settings(options: Mapping[str, Any]) -> Settings:
    kept: Settings = {}
    for name in ("user", "shell"):
        if options.get(name):
            kept[name] = str(options[name])
    for name in ("entrypoint", "cmd"):
        if options.get(name):
            kept[name] = [str(word) for word in options[name]]  # type: ignore[literal-required]
    if options.get("idle_timeout") is not None:
        kept["idle"] = max(1, int(options["idle_timeout"]))
    if options.get("max_memory") is not None:
        kept["max_memory"] = mib_of(options["max_memory"], "max_memory")
    if options.get("max_cpus") is not None:
        kept["max_cpus"] = float(options["max_cpus"])
    return kept


def _life(name: Optional[str], options: Mapping[str, Any], request: CreateRequest) -> None:
    """A sandbox with a name goes with its process, unless it is detached, and has no other end; one without has the daemon's
    own timeout, and stays."""
    life = _first(options, "timeout", "max_duration", "timeout_seconds")
    if life is not None and (not isinstance(life, (int, float)) or life <= 0):
        raise InvalidConfigError(f"timeout must be a number of seconds, more than 0, and not {life!r}")
    if life is None and name is not None and not options.get("kill_removes"):
        life = ALWAYS
    if life is not None:
        request.body["timeout"] = int(life)
    on_timeout = options.get("on_timeout") or ("remove" if options.get("ephemeral") else None)
    if on_timeout not in (None, "stop", "remove"):
        raise InvalidConfigError(f"on_timeout is 'stop' or 'remove', and not {on_timeout!r}")
    if on_timeout:
        request.body["onTimeout"] = on_timeout
    detached = options.get("detached")
    request.detached = (name is None or bool(options.get("kill_removes"))) if detached is None else bool(detached)
    idle = options.get("idle_timeout")
    if idle is not None:
        request.body["idleTimeout"] = max(1, int(idle))
    elif not request.detached:
        request.body["idleTimeout"] = _kept.IDLE_SECONDS


def _patches(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    patches: list[Any] = list(options.get("patches") or ())
    for name, text in (options.get("scripts") or {}).items():
        if not name or "/" in name:
            raise InvalidConfigError(f"scripts: {name!r} is no name of a program")
        patches.append(Patch.text(f"{SCRIPTS}/{name}", text, mode=0o755))
    return patches_to_wire(patches)


def _limits(options: Mapping[str, Any], body: dict[str, Any]) -> None:
    memory, disk = _first(options, "memory", "memory_mb"), options.get("disk")
    if memory is not None:
        body["memory"] = mib_of(memory, "memory")
    if disk is not None:
        body["disk"] = mib_of(disk, "disk")
    cpu = _first(options, "cpus", "cpu", "cpu_cores")
    if cpu is not None:
        if cpu <= 0:
            raise InvalidConfigError("cpus must be more than 0")
        body["cpu"] = cpu
    if options.get("pids") is not None:
        body["pids"] = options["pids"]


_OF_A_SNAPSHOT = {"name", "unique", "env", "metadata", "memory", "cpu", "timeout", "onTimeout", "idleTimeout", "pids"}


def create_request(name: Optional[str], options: Mapping[str, Any]) -> CreateRequest:
    """Reads and checks what create() was given."""
    _refuse(options)
    if name is not None and not (isinstance(name, str) and 0 < len(name.encode()) <= NAME_MAX):
        raise InvalidConfigError(f"the name of a sandbox is a text of 1 to {NAME_MAX} bytes")
    request = CreateRequest(body=_image(options))
    body = request.body
    if name is not None:
        body.update(name=name, unique=True)
    _limits(options, body)
    _life(name, options, request)
    metadata = {**(options.get("metadata") or {}), **(options.get("labels") or {})}
    if settings := _settings(options):
        metadata[SETTINGS] = json.dumps(settings, separators=(",", ":"))
    network = options.get("network")
    ports = ports_to_wire(options.get("ports") or {})
    if isinstance(network, Network):
        ports += ports_to_wire(network.ports)
    policy = options.get("pull_policy")
    auth = options.get("registry_auth")
    body.update(
        {
            key: value
            for key, value in {
                "env": {str(k): str(v) for k, v in (_first(options, "env", "env_vars") or {}).items()},
                "metadata": {str(k): str(v) for k, v in metadata.items()},
                "workdir": _first(options, "workdir", "working_dir"),
                "template": options.get("template"),
                "networks": list(options.get("networks") or ()),
                "network": network_to_wire(network),
                "ports": ports,
                "patches": _patches(options),
                "pull": {"always": "always", "if-missing": "missing", "never": "never"}[policy] if policy else None,
                "registry_auth": auth.to_wire() if auth is not None else None,
                **mounts_to_wire(options.get("volumes") or {}),
            }.items()
            if value not in (None, {}, [])
        }
    )
    _around(options, request)
    return request


def _around(options: Mapping[str, Any], request: CreateRequest) -> None:
    """What is done before and after the request itself."""
    request.replace = bool(options.get("replace")) or options.get("replace_with_timeout") is not None
    if options.get("replace_with_timeout") is not None:
        request.grace = float(options["replace_with_timeout"])
    request.ephemeral = bool(options.get("ephemeral"))
    request.kill_removes = bool(options.get("kill_removes")) or request.ephemeral
    request.client = options.get("client")
    request.setup = list(options.get("setup_commands") or ())
    request.has_scripts = bool(options.get("scripts"))
    for mount in (options.get("volumes") or {}).values():
        if mount.named_mode is NamedVolumeMode.CREATE:
            request.new_volumes.append(mount.named)
    if options.get("registry_insecure"):
        request.pull = {"reference": request.body["image"], "insecure": True}
        if "registry_auth" in request.body:
            request.pull["registry_auth"] = request.body.pop("registry_auth")
        if "pull" in request.body:
            request.pull["policy"] = request.body.pop("pull")
        request.body["pull"] = "never"
    if options.get("from_snapshot") is not None:
        request.snapshot = os.fspath(options["from_snapshot"])
        other = sorted(set(request.body) - _OF_A_SNAPSHOT)
        if other:
            raise UnsupportedError(
                operation=f"from_snapshot with {other[0]}", hint="it is as the sandbox of the snapshot was"
            )
