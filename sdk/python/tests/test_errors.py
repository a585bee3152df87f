"""Every kind of error is raised for real, by the daemon or on the way to it; those that nothing can cause are listed."""

from __future__ import annotations

import socket
import threading
from typing import Any, Callable, Dict, Iterator, Type

import pytest

import cay
import cay.sync

# What cay cannot do to anybody: nothing switches its metrics off, it injects no secrets, and a daemon that is as new as its sandboxes
# has no agent that is too old.
NEVER = {cay.MetricsDisabledError, cay.SecretViolationError, cay.UnsupportedOperationError}

CASES: Dict[Type[cay.CayError], Callable[..., Any]] = {}
CODES: Dict[Type[cay.CayError], str] = {}


def raises(error: Type[cay.CayError], code: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(case: Callable[..., Any]) -> Callable[..., Any]:
        CASES[error], CODES[error] = case, code
        return case

    return keep


@raises(cay.InvalidConfigError, "invalid")
def invalid(box: cay.sync.Sandbox, **_: Any) -> None:
    box.env.set({})


@raises(cay.NoDefaultCommandError, "no_default_command")
def no_default(daemon: cay.sync.Client, **_: Any) -> None:
    daemon.api.sandbox_create(image="host", run_entrypoint=True)


@raises(cay.CloudHttpError, "cloud-http")
def cloud(stranger: str, **_: Any) -> None:
    cay.sync.Client(f"http://{stranger}").api.sandbox_list()


@raises(cay.TlsError, "tls-error")
def tls(stranger: str, **_: Any) -> None:
    cay.sync.Client(f"https://{stranger}").api.sandbox_list()


@raises(cay.IoError, "no_daemon")
def nobody(tmp_path: Any, **_: Any) -> None:
    cay.sync.Client(f"unix:{tmp_path}/none").api.sandbox_list()


@raises(cay.SandboxNotFoundError, "sandbox_not_found")
def not_found(daemon: cay.sync.Client, **_: Any) -> None:
    daemon.api.sandbox_get("nobody")


@raises(cay.SandboxNotRunningError, "sandbox_not_running")
def not_running(box: cay.sync.Sandbox, **_: Any) -> None:
    box.pause()
    box.exec("true")


@raises(cay.SandboxAlreadyExistsError, "name_taken")
def exists(daemon: cay.sync.Client, **_: Any) -> None:
    with cay.sync.create_sandbox(name="taken", client=daemon):
        daemon.api.sandbox_create(image="host", name="taken", unique=True)


@raises(cay.SandboxStillRunningError, "sandbox_still_running")
def still_running(daemon: cay.sync.Client, box: cay.sync.Sandbox, **_: Any) -> None:
    cay.sync.Sandbox.remove(str(box.name), client=daemon)


@raises(cay.ExecTimeoutError, "command_timeout")
def too_long(box: cay.sync.Sandbox, **_: Any) -> None:
    box.exec("echo begun; sleep 60", timeout=1)


@raises(cay.ExecFailedError, "command_not_found")
def cannot_start(box: cay.sync.Sandbox, **_: Any) -> None:
    box.exec("no-such-program", [])


@raises(cay.FilesystemError, "is_a_directory")
def directory(box: cay.sync.Sandbox, **_: Any) -> None:
    box.filesystem.mkdir("folder")
    box.filesystem.read("folder")


@raises(cay.PathNotFoundError, "file_not_found")
def no_path(box: cay.sync.Sandbox, **_: Any) -> None:
    box.filesystem.read("none")


@raises(cay.VolumeNotFoundError, "volume_not_found")
def no_volume(daemon: cay.sync.Client, **_: Any) -> None:
    daemon.api.volume_get("none")


@raises(cay.ImageNotFoundError, "image_not_found")
def no_image(daemon: cay.sync.Client, **_: Any) -> None:
    daemon.api.image_get("none")


@raises(cay.ImageInUseError, "image_in_use")
def used_image(daemon: cay.sync.Client, box: cay.sync.Sandbox, **_: Any) -> None:
    image = daemon.api.image_commit(box.id, f"errors-{box.id[4:]}:1")
    other = daemon.api.sandbox_create(image=image.name)
    try:
        daemon.api.image_remove(image.name)
    finally:
        daemon.api.sandbox_kill(other.id)
        daemon.api.image_remove(image.name)


@raises(cay.ImagePullFailedError, "image_pull_failed")
def no_registry(daemon: cay.sync.Client, **_: Any) -> None:
    daemon.api.image_pull("127.0.0.1:9/none:1", insecure=True)


@raises(cay.MetricsUnavailableError, "sandbox_not_running")
def no_metrics(box: cay.sync.Sandbox, **_: Any) -> None:
    box.stop()
    box.metrics()


@raises(cay.NetworkPolicyError, "bad_policy")
def bad_policy(daemon: cay.sync.Client, **_: Any) -> None:
    daemon.api.sandbox_create(image="host", network={"rules": [{"action": "perhaps"}]})


@raises(cay.SnapshotMigrationError, "snapshot_of_another")
def of_another(daemon: cay.sync.Client, box: cay.sync.Sandbox, **_: Any) -> None:
    snapshot = daemon.api.snapshot_create(box.id)
    other = daemon.api.sandbox_create(image="host")
    try:
        daemon.api.snapshot_restore(other.id, snapshot.id)
    finally:
        daemon.api.sandbox_kill(other.id)


@raises(cay.UnsupportedError, "unsupported")
def unsupported(daemon: cay.sync.Client, **_: Any) -> None:
    secret = cay.Secret.env("KEY", value="v", allow_hosts=["example.com"])
    cay.sync.Sandbox.create("with-secret", secrets=[secret], client=daemon)


@raises(cay.SandboxTimeoutError, "client_timeout")
def client_timeout(box: cay.sync.Sandbox, **_: Any) -> None:
    with cay.sync.Client(timeout=0.2) as hasty:
        hasty.api.interp_execute(box.id, "sleep 60", language="bash")


@raises(cay.SandboxStateError, "sandbox_not_paused")
def state(box: cay.sync.Sandbox, daemon: cay.sync.Client, **_: Any) -> None:
    daemon.api.sandbox_resume(box.id)


@raises(cay.SandboxQuotaError, "too_large")
def too_much(box: cay.sync.Sandbox, **_: Any) -> None:
    box.filesystem.write("big", "x" * (65 << 20))


@pytest.fixture
def stranger() -> Iterator[str]:
    """Somebody on a port who is no daemon, and speaks no TLS."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)

    def answer() -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsorry")

    thread = threading.Thread(target=answer)
    thread.start()
    host, port = listener.getsockname()
    yield f"{host}:{port}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.mark.parametrize("error", CASES, ids=lambda error: error.__name__)
def test_it_is_raised(
    error: Type[cay.CayError], daemon: cay.sync.Client, box: cay.sync.Sandbox, stranger: str, tmp_path: Any
) -> None:
    with pytest.raises(cay.CayError) as raised:
        CASES[error](daemon=daemon, box=box, stranger=stranger, tmp_path=tmp_path)
    assert isinstance(raised.value, error), repr(raised.value)
    assert raised.value.code == CODES[error] and raised.value.message
    if raised.value.method and error not in (cay.IoError, cay.TlsError, cay.SandboxTimeoutError):
        assert raised.value.status and raised.value.path


def test_no_class_is_forgotten() -> None:
    every = {getattr(cay.errors, name) for name in cay.errors.__all__}
    bases = {cay.CayError, cay.ProviderError, cay.SandboxAuthenticationError}
    assert every == set(CASES) | NEVER | bases


def test_the_fields_that_some_have(box: cay.sync.Sandbox) -> None:
    for timeout in (0.5, 5, 25):  # until it is long enough on this machine for the output
        with pytest.raises(TimeoutError) as late:
            box.exec("printf 'a\\377'; printf b >&2; sleep 1000", timeout=timeout)
        assert isinstance(late.value, cay.ExecTimeoutError)
        assert late.value.timeout == timeout and late.value.exec_id
        if late.value.stderr:
            break
    assert (late.value.stdout, late.value.stderr) == (b"a\xff", b"b")
    with pytest.raises(cay.ExecFailedError) as bad:
        box.exec("true", cwd="/none")
    assert bad.value.kind == "bad_cwd"
    with pytest.raises(FileNotFoundError):
        box.filesystem.read("none")


def test_a_token_that_is_none(daemon: cay.sync.Client) -> None:
    token = daemon.api.token_create(scopes=["read"], name="errors")
    try:
        with cay.sync.Client(token=token.token) as reader:
            reader.api.sandbox_list()
            with pytest.raises(cay.SandboxAuthenticationError) as refused:
                reader.api.sandbox_create(image="host")
    finally:
        daemon.api.token_revoke(token.id)
    assert (refused.value.code, refused.value.status) == ("scope_missing", 403)
