# Written for asyncio; cay/sync has the blocking twin, which tools/unasync.py makes.
"""What is installed here, and which daemon is used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from cay import _address, _local
from cay.enums import BackendKind, checked
from cay.errors import UnsupportedError

from ._aio import pending

if TYPE_CHECKING:
    from cay._pending import Pending

__all__ = [
    "BackendInfo",
    "backend_scope",
    "default_backend_info",
    "default_backend_kind",
    "install",
    "is_installed",
    "set_default_backend",
    "set_libkrunfw_path",
    "version",
]

_HINT = "install the package cay of your system, or `make install` in a clone; CAY_BIN names a program elsewhere"


def version() -> str:
    """Of this package, which is that of the daemon it was made with."""
    from cay import __version__

    return __version__


def is_installed() -> bool:
    """Can sandboxes be made: does a daemon answer, or can one be started?"""
    return _address.find(None) is not None or _local.executable() is not None


def install() -> Pending[None]:
    """Makes sure that sandboxes can be made. What is missing is named: nothing is installed behind your back."""
    if not is_installed():
        raise UnsupportedError(operation="install", hint=_HINT)
    return pending(_nothing)


async def _nothing() -> None:
    return None


def set_libkrunfw_path(path: str) -> NoReturn:
    """Of a library for virtual machines, which cay does not use."""
    raise UnsupportedError(operation="set_libkrunfw_path", hint="sandboxes of cay are no virtual machines")


@dataclass(frozen=True)
class BackendInfo:
    """Which daemon is used: ``url`` is None while it is not known."""

    kind: BackendKind
    url: Optional[str] = None
    profile: Optional[str] = None


@dataclass(frozen=True)
class _Chosen:
    kind: BackendKind
    url: Optional[str]
    token: Optional[str]


def _choose(kind: BackendKind, url: Optional[str], api_key: Optional[str], profile: Optional[str]) -> _Chosen:
    checked(kind, BackendKind, "kind")
    if profile is not None:
        raise UnsupportedError(operation="set_default_backend(profile=)", hint="give url and api_key")
    if kind is BackendKind.CLOUD and not url:
        raise UnsupportedError(operation="set_default_backend(CLOUD)", hint="give the url of a daemon elsewhere")
    return _Chosen(kind, url, api_key)


def _current() -> _Chosen:
    url, token = _address.chosen()
    local = url is None or url.startswith("unix:") or "//localhost" in url or "//127." in url
    return _Chosen(BackendKind.LOCAL if local else BackendKind.CLOUD, url, token)


def set_default_backend(
    kind: BackendKind, *, url: Optional[str] = None, api_key: Optional[str] = None, profile: Optional[str] = None
) -> None:
    """Which daemon is used where no client is given: one at *url*, with the token *api_key*; LOCAL without either is the usual
    one again."""
    chosen = _choose(kind, url, api_key, profile)
    _address.choose(chosen.url, chosen.token)


@contextlib.contextmanager
def backend_scope(
    kind: BackendKind, *, url: Optional[str] = None, api_key: Optional[str] = None, profile: Optional[str] = None
) -> Iterator[None]:
    """The same for the length of a ``with``."""
    chosen = _choose(kind, url, api_key, profile)
    before = _address.chosen()
    _address.choose(chosen.url, chosen.token)
    try:
        yield
    finally:
        _address.choose(*before)


def default_backend_kind() -> BackendKind:
    return _current().kind


def default_backend_info() -> BackendInfo:
    chosen = _current()
    return BackendInfo(chosen.kind, chosen.url)


class AgentClient:
    """Frames of another agent's protocol, which cay does not speak: every call is refused."""

    @staticmethod
    def _refuse(*_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(operation="AgentClient", hint="Sandbox.exec_stream and Sandbox.fs speak to the agent")

    connect_sandbox = _refuse
    connect = _refuse
    socket_path = _refuse
    request = _refuse
    stream = _refuse
    send = _refuse
    ready_bytes = _refuse
