"""A daemon for this process alone, when none answers: it ends with the process, and so do its sandboxes."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from typing import Dict, List, Optional

from cay._address import Address, answers, parse
from cay.errors import IoError

__all__ = ["executable", "start"]

STOP_SECONDS = 20
NOT_FOR_IT = ("CAY_AUTH_TOKEN", "III_AUTH_TOKEN", "CAY_API_PREFIX", "III_API_PREFIX")

_lock = threading.Lock()
_running: Optional[_Daemon] = None


def executable() -> Optional[str]:
    """The program `cay` that a daemon can be started from: CAY_BIN, else the one on PATH."""
    chosen = os.environ.get("CAY_BIN")
    return chosen if chosen and os.access(chosen, os.X_OK) else shutil.which("cay")


class _Daemon:
    """A daemon on a socket in a folder that only we may enter. It sees its end of a pipe close when this process ends,
    however it ends."""

    def __init__(self, program: str) -> None:
        self.owner = os.getpid()
        self.folder = tempfile.mkdtemp(prefix="cay-python-")
        data, run = (os.path.join(self.folder, name) for name in ("data", "run"))
        os.mkdir(data, 0o700)
        os.mkdir(run, 0o700)
        self.address = parse(os.path.join(run, "cay.sock"))
        self.command = [program, "serve", "--no-tcp", "--data", data, "--run", run, "--stop-sandboxes"]
        self.command += ["--remove", self.folder]
        self.is_ready = False
        self._begin()
        if not self.is_ready:
            self.stop()
            raise IoError(
                "no daemon is running, and one for this process alone did not start: its reason is above, "
                "`cay doctor` says more",
                code="no_daemon",
            )

    def _begin(self) -> None:
        ready, told = os.pipe()
        watched, self.alive = os.pipe()
        told_by = ["--ready-fd", str(told), "--exit-with-parent-fd", str(watched)]
        try:
            self.process = self._spawn(self.command + told_by, [told, watched])
        finally:
            os.close(told)
            os.close(watched)
        with os.fdopen(ready, "rb") as pipe:
            self.is_ready = bool(pipe.read(1))

    @staticmethod
    def _spawn(command: List[str], kept: List[int]) -> subprocess.Popen[bytes]:
        environment: Dict[str, str] = {k: v for k, v in os.environ.items() if k not in NOT_FOR_IT}
        environment.setdefault("CAY_MAX_CMD_TIMEOUT", "86400")
        environment.update({"CAY_POOL": "1", "CAY_LOG_LEVEL": "error"})
        return subprocess.Popen(
            command,
            env=environment,
            pass_fds=kept,
            start_new_session=True,  # Ctrl-C is for us; we end it
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        """Ends it and what it kept. A child of a fork has no part in it."""
        if os.getpid() != self.owner:
            return
        self._end()
        if self.is_ready and os.path.exists(self.folder):
            # It was killed, and its sandboxes are still there: another one takes them over, and ends them.
            self._begin()
            self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self) -> None:
        os.close(self.alive)
        self.process.terminate()  # a child of a fork may hold the pipe open
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start() -> Address:
    """The address of this process's own daemon, which is started when there is none yet."""
    global _running
    with _lock:
        # A child of a fork uses its parent's.
        if _running is None or not answers(_running.address):
            program = executable()
            if program is None:
                raise IoError(
                    "no daemon is running, and there is no program `cay` to start one from: install cay, set CAY_BIN to "
                    "the program, or CAY_HOST to the address of a daemon",
                    code="no_daemon",
                )
            _running = _Daemon(program)
            atexit.register(_running.stop)
            print(
                f"cay: no daemon answers, so this process started its own ({_running.address}); it ends with the process",
                file=sys.stderr,
            )
        return _running.address
