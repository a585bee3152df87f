# Made from cay/ssh.py by tools/unasync.py: change that one.
"""Commands and files in the words of ssh and sftp, for code that has them. Nothing of ssh is spoken: the calls are those of
``Sandbox`` and ``Sandbox.fs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from cay.errors import UnsupportedError
from cay.execution import ExecOutput

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = ["SandboxSshOps", "SftpClient", "SshClient", "SshOutput", "SshServer"]


class SshOutput:
    """What a command put out, and how it ended."""

    def __init__(self, output: ExecOutput) -> None:
        self.status = output.exit_code
        self.success = output.success
        self.stdout_bytes = output.stdout_bytes
        self.stderr_bytes = output.stderr_bytes

    @property
    def stdout_text(self) -> str:
        return self.stdout_bytes.decode()

    @property
    def stderr_text(self) -> str:
        return self.stderr_bytes.decode()


class SftpClient:
    """The files of a sandbox."""

    def __init__(self, sandbox: Sandbox, user: str) -> None:
        self._sandbox = sandbox
        self._user = user

    def read(self, path: str) -> bytes:
        return self._sandbox.fs.read(path)

    def write(self, path: str, data: bytes) -> None:
        self._sandbox.fs.write(path, data)

    def mkdir(self, path: str) -> None:
        self._sandbox.fs.mkdir(path)

    def remove_file(self, path: str) -> None:
        self._sandbox.fs.remove(path)

    def remove_dir(self, path: str) -> None:
        self._sandbox.fs.remove_dir(path)

    def rename(self, old_path: str, new_path: str) -> None:
        self._sandbox.fs.rename(old_path, new_path)

    def real_path(self, path: str) -> str:
        """Without links, dots and double slashes."""
        return self._sandbox.fs.real_path(path)

    def read_link(self, path: str) -> str:
        """Where a link leads to."""
        return self._sandbox.fs.read_link(path)

    def symlink(self, target: str, link_path: str) -> None:
        """Makes a link."""
        self._sandbox.fs.symlink(target, link_path)

    def close(self) -> None:
        """There is nothing to close."""


class SshClient:
    """Commands of one user of a sandbox."""

    def __init__(self, sandbox: Sandbox, user: str, term: Optional[str], sftp: bool) -> None:
        self._sandbox = sandbox
        self._user = user
        self._term = term
        self._has_sftp = sftp

    def _env(self, term: Optional[str]) -> Optional[dict[str, str]]:
        word = term or self._term
        return {"TERM": word} if word else None

    def exec(self, command: str, *, tty: bool = False) -> SshOutput:
        """Runs a line in the shell."""
        env = self._env(None) if tty else None
        return SshOutput(self._sandbox.exec(command, user=self._user, tty=tty, env=env))

    def attach(self, *, term: Optional[str] = None, detach_keys: Optional[str] = None) -> int:
        """A shell on this terminal."""
        shell = "exec $(command -v bash || command -v sh)"
        return self._sandbox.attach(shell, user=self._user, env=self._env(term), detach_keys=detach_keys)

    def sftp(self) -> SftpClient:
        if not self._has_sftp:
            raise UnsupportedError(operation="sftp", hint="the client was opened with sftp=False")
        return SftpClient(self._sandbox, self._user)

    def close(self) -> None:
        """There is nothing to close."""

    def __enter__(self) -> SshClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SshServer:
    """A server for ssh itself, which cay has none of."""

    def serve_connection(self) -> None:
        raise UnsupportedError(operation="ssh.prepare_server", hint=_HINT)

    def close(self) -> None:
        """There is nothing to close."""


_HINT = "cay speaks no ssh; exec, attach and fs do the same, and `cay shell` is a terminal"


class SandboxSshOps:
    """``sandbox.ssh()``."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def open_client(
        self,
        *,
        user: str = "root",
        term: Optional[str] = None,
        sftp: bool = True,
        inactivity_timeout: Optional[float] = None,
    ) -> SshClient:
        """A client for *user*. There is no connection, so none can be inactive."""
        return SshClient(self._sandbox, user, term, sftp)

    def prepare_server(self, **_: Any) -> SshServer:
        raise UnsupportedError(operation="ssh.prepare_server", hint=_HINT)
