"""Where the daemon is, by the rules that the command line tool has too."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Optional, Tuple

from cay.errors import InvalidConfigError

__all__ = ["Address", "answers", "choose", "chosen", "find", "parse", "token_of"]

DEFAULT_PORT = 3111


@dataclass(frozen=True)
class Address:
    """A daemon: the path of its socket, or the URL of its port."""

    url: str
    socket: Optional[str] = None

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else self.url


def parse(text: str) -> Address:
    """`unix:/path`, `/path`, `http://host:port`, `https://host` or `host:port`."""
    path = text[len("unix:") :] if text.startswith("unix:") else text
    if path.startswith("/"):
        return Address("http://localhost", os.path.abspath(path))
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
        if ":" not in rest:
            rest = f"{rest}:{DEFAULT_PORT}"
    rest = rest.rstrip("/")
    if scheme not in ("http", "https") or not rest or any(c in rest for c in "/?#@ "):
        raise InvalidConfigError(f'"{text}" is no address of a daemon: use unix:/path or http://host:port')
    return Address(f"{scheme}://{rest}")


def _first_of_environment(*names: str) -> Optional[str]:
    return next((value for value in map(os.environ.get, names) if value), None)


def token_of(token: Optional[str]) -> Optional[str]:
    """The token to send: the one that was given, else one of the environment."""
    used = token or _first_of_environment("CAY_TOKEN", "CAY_AUTH_TOKEN", "III_SANDBOX_TOKEN", "III_AUTH_TOKEN")
    if used and any(c <= " " or c == "\x7f" for c in used):
        raise InvalidConfigError("the token has a space or the end of a line in it, which no token has")
    return used


def _somebody_listens(family: int, address: object) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(5)
            s.connect(address)  # type: ignore[arg-type]
    except OSError:
        return False
    return True


def answers(address: Address) -> bool:
    """Does somebody listen on this socket?"""
    return _somebody_listens(socket.AF_UNIX, address.socket)


def find(url: Optional[str]) -> Optional[Address]:
    """The address to use; None when none was chosen and nobody listens at the usual ones."""
    chosen = url or _first_of_environment("CAY_HOST", "CAY_URL", "III_SANDBOX_URL")
    if chosen:
        return parse(chosen)
    path = os.path.join(_first_of_environment("CAY_RUN") or "/run/cay", "cay.sock")
    if _somebody_listens(socket.AF_UNIX, path):
        return parse(path)
    port = _first_of_environment("CAY_REST_PORT") or str(DEFAULT_PORT)
    if not port.isdigit() or int(port) > 65535:
        raise InvalidConfigError(f'CAY_REST_PORT is "{port}", not a port number')
    if int(port) and _somebody_listens(socket.AF_INET, ("127.0.0.1", int(port))):
        return parse(f"http://127.0.0.1:{port}")
    return None


_chosen: Tuple[Optional[str], Optional[str]] = (None, None)


def choose(url: Optional[str], token: Optional[str]) -> None:
    """Which daemon is used by clients that nobody made: that one, with that token; None is the usual one."""
    global _chosen
    _chosen = (url, token)


def chosen() -> Tuple[Optional[str], Optional[str]]:
    """What was chosen last."""
    return _chosen
