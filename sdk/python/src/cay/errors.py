"""What can go wrong, as classes.

Every error of the daemon becomes one of these. `error.code` is the daemon's own word for it (`sandbox_not_found`; docs/api.md lists
them by operation) and stays the same over versions; the class attribute of the same name (`SandboxNotFoundError.code`) is the word
for the kind of error, with hyphens.
"""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Dict, List, Mapping, Optional, Tuple, Type

__all__ = [
    "CayError",
    "CloudHttpError",
    "ExecFailedError",
    "ExecTimeoutError",
    "FilesystemError",
    "ImageInUseError",
    "ImageNotFoundError",
    "ImagePullFailedError",
    "InvalidConfigError",
    "IoError",
    "MetricsDisabledError",
    "MetricsUnavailableError",
    "NetworkPolicyError",
    "NoDefaultCommandError",
    "PathNotFoundError",
    "ProviderError",
    "SandboxAlreadyExistsError",
    "SandboxAuthenticationError",
    "SandboxError",
    "SandboxNotFoundError",
    "SandboxNotRunningError",
    "SandboxQuotaError",
    "SandboxStateError",
    "SandboxStillRunningError",
    "SandboxTimeoutError",
    "SecretViolationError",
    "SnapshotMigrationError",
    "TlsError",
    "UnsupportedError",
    "UnsupportedOperationError",
    "VolumeNotFoundError",
]


class CayError(Exception):
    """Any failure. The fields say what the daemon said, as far as it was the daemon who said it."""

    code: str = "error"

    def __init__(
        self,
        message: str = "",
        *,
        code: Optional[str] = None,
        status: Optional[int] = None,
        method: Optional[str] = None,
        path: Optional[str] = None,
        exec_id: Optional[str] = None,
        request_id: Optional[str] = None,
        retry_after: Optional[float] = None,
        body: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.status = status
        self.method = method
        self.path = path
        self.exec_id = exec_id
        self.request_id = request_id
        self.retry_after = retry_after
        self.body: Dict[str, Any] = dict(body or {})
        self.resent = False
        """The request was sent more than once: "not found" of a removal may then mean that the first one removed it."""


SandboxError = CayError


class ProviderError(CayError):
    """The daemon itself cannot do it: it fails, is not there, or does not let us in."""

    code = "provider-error"


class SandboxAuthenticationError(ProviderError):
    """The token is missing, wrong, expired, or may not do this."""

    code = "authentication"


class SandboxTimeoutError(CayError):
    """It took longer than it may."""

    code = "timeout"


class SandboxStateError(CayError):
    """Not in the state that something is in now."""

    code = "state"


class SandboxQuotaError(CayError):
    """There are as many as there may be, or more was asked for than there is."""

    code = "quota"


class InvalidConfigError(CayError, ValueError):
    """What was asked for is not as it must be; the message names the field."""

    code = "invalid-config"


class NoDefaultCommandError(CayError):
    """The image has no command of its own."""

    code = "no-default-command"


class CloudHttpError(ProviderError):
    """An answer over HTTP that is not the daemon's: of a proxy, or of another server."""

    code = "cloud-http"


class SandboxNotFoundError(CayError):
    """There is no sandbox with this id or name (any more)."""

    code = "sandbox-not-found"


class SandboxNotRunningError(SandboxStateError):
    """It is paused, stopped, or about to be."""

    code = "sandbox-not-running"


class SandboxAlreadyExistsError(SandboxStateError):
    """Another sandbox has this name."""

    code = "sandbox-already-exists"


class SandboxStillRunningError(SandboxStateError):
    """Only a stopped sandbox can be removed like this."""

    code = "sandbox-still-running"


class ExecTimeoutError(SandboxTimeoutError, TimeoutError):
    """A command ran longer than it was given, and was ended. `stdout` and `stderr` are what it put out until then."""

    code = "exec-timeout"

    def __init__(self, message: str = "", *, timeout: Optional[float] = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.timeout = timeout
        self.exit_code: int = int(self.body.get("exitCode", 124))
        self.stdout: bytes = str(self.body.get("stdout", "")).encode()
        self.stderr: bytes = str(self.body.get("stderr", "")).encode()
        self.truncated: bool = bool(self.body.get("truncated", False))


class ExecFailedError(CayError):
    """A command could not be started. `kind` says why (not_found, permission_denied, not_executable, bad_cwd, bad_args,
    resource_limit, user_setup_failed, out_of_memory, pty_setup_failed, other), `stage` what was being done."""

    code = "exec-failed"

    KINDS: ClassVar[Dict[str, str]] = {
        "command_not_found": "not_found",
        "not_executable": "not_executable",
        "permission_denied": "permission_denied",
        "bad_cwd": "bad_cwd",
        "bad_user": "user_setup_failed",
        "process_limit": "resource_limit",
        "bad_rlimit": "resource_limit",
        "argument_too_long": "bad_args",
    }

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message, **fields)
        self.kind: str = str(self.body.get("kind") or self.KINDS.get(self.code, "other"))
        self.errno: Optional[int] = self.body.get("errno")
        self.stage: Optional[str] = self.body.get("stage")


class FilesystemError(CayError):
    """A file or folder in a sandbox or volume cannot be used like this."""

    code = "filesystem-error"


class PathNotFoundError(FilesystemError, FileNotFoundError):
    """There is no such file."""

    code = "path-not-found"


class VolumeNotFoundError(CayError):
    """There is no volume with this id or name."""

    code = "volume-not-found"


class ImageNotFoundError(CayError):
    """The image is neither here nor in its registry."""

    code = "image-not-found"


class ImageInUseError(SandboxStateError):
    """Something is made from this image."""

    code = "image-in-use"


class ImagePullFailedError(CayError):
    """The image could not be had from its registry."""

    code = "image-pull-failed"


class IoError(CayError, ConnectionError):
    """The connection to the daemon, or a file of this machine, failed."""

    code = "io-error"


class MetricsDisabledError(CayError):
    """Nothing is measured here."""

    code = "metrics-disabled"


class MetricsUnavailableError(CayError):
    """There is nothing to measure: the sandbox does not run."""

    code = "metrics-unavailable"


class NetworkPolicyError(CayError):
    """Not a network policy, or one that cannot be enforced here."""

    code = "network-policy-error"


class SecretViolationError(CayError):
    """A secret was about to go where it must not."""

    code = "secret-violation"


class TlsError(CayError):
    """The other side's certificate, or the lack of one."""

    code = "tls-error"


class SnapshotMigrationError(CayError):
    """The snapshot is not one that this can be made from."""

    code = "snapshot-migration"


class UnsupportedOperationError(CayError):
    """The sandbox was made by an older version that cannot do this: stop and start it."""

    code = "unsupported-operation"


class UnsupportedError(CayError):
    """This daemon cannot do that. `operation` names it; `hint` says what to do instead."""

    code = "unsupported"

    def __init__(
        self, message: str = "", *, operation: Optional[str] = None, hint: Optional[str] = None, **fields: Any
    ) -> None:
        if not message:
            message = f"{operation} is not supported" + (f": {hint}" if hint else "")
        super().__init__(message, **fields)
        self.operation = operation or fields.get("path")
        self.hint = hint


_BY_CODE: Dict[str, Type[CayError]] = {
    word: error
    for error, words in (
        (SandboxNotFoundError, "sandbox_not_found sandbox_expired sandbox_removed"),
        (SandboxNotRunningError, "sandbox_not_running sandbox_not_paused sandbox_draining agent_lost"),
        (SandboxAlreadyExistsError, "name_taken"),
        (SandboxStillRunningError, "sandbox_still_running"),
        (ExecTimeoutError, "command_timeout"),
        (ExecFailedError, "command_not_found not_executable bad_cwd bad_user process_limit bad_rlimit"),
        (NoDefaultCommandError, "no_default_command"),
        (PathNotFoundError, "file_not_found"),
        (
            FilesystemError,
            "not_a_file not_a_directory is_a_directory permission_denied path_traversal no_space file_exists "
            "directory_not_empty file_too_large read_only disk_damaged",
        ),
        (VolumeNotFoundError, "volume_not_found"),
        (ImageNotFoundError, "image_not_found image_not_installed bad_image_name ambiguous_image no_platform"),
        (ImageInUseError, "image_in_use"),
        (ImagePullFailedError, "image_pull_failed registry_denied digest_mismatch bad_manifest pull_limit"),
        (NetworkPolicyError, "bad_policy network_unsupported"),
        (SnapshotMigrationError, "snapshot_of_another bad_snapshot"),
        (UnsupportedOperationError, "agent_too_old"),
        (
            SandboxAuthenticationError,
            "unauthorized invalid_token token_expired scope_missing token_restricted peer_not_allowed host_not_allowed "
            "origin_not_allowed",
        ),
    )
    for word in words.split()
}

_BY_STATUS: Dict[int, Type[CayError]] = {
    400: InvalidConfigError,
    401: SandboxAuthenticationError,
    403: CayError,
    408: SandboxTimeoutError,
    409: SandboxStateError,
    413: SandboxQuotaError,
    429: SandboxQuotaError,
    501: UnsupportedError,
}

# The same word means another thing depending on what was asked for.
_BY_PATH: List[Tuple[str, str, Callable[[str], bool], Type[CayError]]] = [
    ("sandbox_not_running", "GET", lambda path: "/metrics" in path, MetricsUnavailableError),
    ("agent_lost", "GET", lambda path: "/metrics" in path, MetricsUnavailableError),
    ("permission_denied", "POST", lambda path: "/exec" in path, ExecFailedError),
]


def error_class(code: str, status: int, method: str = "", path: str = "") -> Type[CayError]:
    """The class for an error of the daemon."""
    for word, of_method, about, error in _BY_PATH:
        if word == code and of_method == method and about(path):
            return error
    if code in _BY_CODE:
        return _BY_CODE[code]
    if status >= 500 and status not in _BY_STATUS:
        return ProviderError
    return _BY_STATUS.get(status, CayError)


def _hint(code: str, path: str) -> str:
    """What the daemon cannot know: how it is done in Python."""
    if code in ("unauthorized", "invalid_token"):
        return ": give the daemon's token, as `token` or in CAY_TOKEN"
    if code == "name_taken" and path == "/sandboxes":
        return " (`replace=True` does)"
    return ""


def from_answer(
    status: int,
    body: Any,
    *,
    method: str = "",
    path: str = "",
    retry_after: Optional[float] = None,
    request_id: Optional[str] = None,
) -> CayError:
    """The error that an answer (or an event in a stream) tells of. body is its JSON; anything else is not the daemon's."""
    fields: Dict[str, Any] = {"status": status, "method": method, "path": path, "retry_after": retry_after}
    fields["request_id"] = request_id
    if not isinstance(body, Mapping) or not isinstance(body.get("error"), str):
        text = body if isinstance(body, str) else ""
        return CloudHttpError(
            f"{method} {path} was answered with status {status}, and not by a cay daemon: {text[:200]}", **fields
        )
    code = str(body.get("code") or "error")
    message = body["error"] + _hint(code, path)
    return error_class(code, status, method, path)(message, code=code, exec_id=body.get("execId"), body=body, **fields)
