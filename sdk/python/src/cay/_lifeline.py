"""Sandboxes that go with this process.

Such a sandbox is made with an idle time, and a thread of this process gives the daemon a sign of life of each before that is over:
when the process is gone, however it went, its sandboxes are stopped soon after. A process that ends in order stops them itself.
"""

from __future__ import annotations

import atexit
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional
from urllib.parse import quote

from cay._kept import IDLE_SECONDS
from cay.errors import CayError, SandboxNotFoundError, SandboxNotRunningError

if TYPE_CHECKING:
    from cay.sync._http import Client

SIGN_SECONDS = IDLE_SECONDS / 3


@dataclass(frozen=True)
class _Held:
    url: Optional[str]
    token: Optional[str]
    is_removed: bool
    has_signs: bool


class _Lifelines:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._held: dict[str, _Held] = {}
        self._thread: Optional[threading.Thread] = None
        self._clients: dict[tuple[Optional[str], Optional[str]], Client] = {}

    def _own(self) -> dict[str, _Held]:
        """What is held by this process; a fork holds nothing of its parent's."""
        if self._pid != os.getpid():
            self._forget()
        return self._held

    def hold(self, id: str, url: Optional[str], token: Optional[str], *, is_removed: bool, has_signs: bool) -> None:
        """Until it is let go. One whose idle time is the caller's own gets no signs of life: it shall end by that."""
        with self._lock:
            self._own()[id] = _Held(url, token, is_removed, has_signs)
            if self._thread is None:
                atexit.register(self._at_exit)
                self._thread = threading.Thread(target=self._run, name="cay-lifeline", daemon=True)
                self._thread.start()

    def let_go(self, id: str) -> None:
        with self._lock:
            self._own().pop(id, None)

    def holds(self, id: str) -> bool:
        with self._lock:
            return id in self._own()

    def _client(self, held: _Held) -> Client:
        from cay.sync._http import Client

        key = (held.url, held.token)
        if key not in self._clients:
            self._clients[key] = Client(held.url, held.token, timeout=10.0, retry_for=1.0)
        return self._clients[key]

    def _hang_up(self) -> None:
        """No connection waits for the next time."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _run(self) -> None:
        while not self._wake.wait(SIGN_SECONDS):
            with self._lock:
                held = {id: one for id, one in self._own().items() if one.has_signs}
            for id, one in held.items():
                try:
                    self._client(one).call("POST", f"/sandboxes/{quote(id, safe='')}/touch", again=True)
                except (SandboxNotFoundError, SandboxNotRunningError):
                    self.let_go(id)
                except CayError:
                    pass  # the next sign may get there; there is time for three
            self._hang_up()

    def _at_exit(self) -> None:
        if self._pid != os.getpid():
            return
        self._wake.set()
        for id, one in list(self._held.items()):
            path = f"/sandboxes/{quote(id, safe='')}"
            try:
                if one.is_removed:
                    self._client(one).call("DELETE", path)
                else:
                    self._client(one).call("POST", path + "/stop", json={})
            except CayError:
                pass  # it has no sign of life any more, and goes by that


lifelines = _Lifelines()
