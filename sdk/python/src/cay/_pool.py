# Written for asyncio; cay/sync has the blocking twin, which tools/unasync.py makes.
"""Connections to one daemon, kept for the next request. They are those of httpcore, which httpx is made of: what httpx puts
around them, and a pool that looks at each connection for every request, would take longer than most calls do."""

from __future__ import annotations

import os
import ssl
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Tuple, Union

import httpcore

from cay._address import Address
from cay.errors import IoError

__all__ = ["Pool", "Response"]

IDLE_MAX = 128
KEPT_SECONDS = 30.0
CONNECT_SECONDS = 10.0
ANSWER_MAX = 256 << 20

Content = Union[bytes, AsyncIterator[bytes]]


class Response:
    """An answer whose head is there. It must be closed; then its connection is kept, if all of it was read."""

    def __init__(self, pool: Pool, connection: httpcore.AsyncHTTPConnection, response: httpcore.Response) -> None:
        self.status: int = response.status
        self.extensions = response.extensions
        self._pool = pool
        self._connection = connection
        self._response = response

    def header(self, name: bytes) -> Optional[str]:
        """The value of a header, by its name in small letters."""
        for key, value in self._response.headers:
            if key.lower() == name:
                return value.decode("latin-1")
        return None

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body, as it comes."""
        async for part in self._response.stream:  # type: ignore[union-attr]
            yield part

    async def aread(self) -> bytes:
        """The whole body, which is held in memory and so has a bound."""
        parts = []
        size = 0
        async for part in self._response.stream:  # type: ignore[union-attr]
            parts.append(part)
            size += len(part)
            if size > ANSWER_MAX:
                raise IoError(f"an answer has more than {ANSWER_MAX} bytes", code="bad_answer")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def aclose(self) -> None:
        """Gives the connection back, or ends it."""
        await self._response.aclose()
        await self._pool.put(self._connection)


class Pool:
    """Connections to one address."""

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self._socket = address.socket
        self._headers: List[Tuple[bytes, bytes]] = [(k.encode(), v.encode()) for k, v in headers.items()]
        scheme, _, authority = address.url.partition("://")
        host, _, port = authority.partition(":") if not authority.startswith("[") else _split_v6(authority)
        number = int(port) if port else {"http": 80, "https": 443}[scheme]
        self._headers.insert(0, (b"Host", authority.encode()))
        self._origin = httpcore.Origin(scheme.encode(), host.encode(), number)
        self._ssl = _ssl_context() if scheme == "https" else None
        self._idle: List[httpcore.AsyncHTTPConnection] = []
        self._owner = os.getpid()
        self._is_closed = False

    async def _take(self) -> httpcore.AsyncHTTPConnection:
        if self._owner != os.getpid():
            # What a fork has of its parent's connections the parent still speaks on.
            self._owner, self._idle = os.getpid(), []
        while (connection := self._last_idle()) is not None:
            if connection.is_available() and not connection.has_expired():
                return connection
            await connection.aclose()
        return httpcore.AsyncHTTPConnection(
            self._origin, uds=self._socket, ssl_context=self._ssl, keepalive_expiry=KEPT_SECONDS
        )

    def _last_idle(self) -> Optional[httpcore.AsyncHTTPConnection]:
        try:
            return self._idle.pop()
        except IndexError:  # asked for instead of looked at before: another thread may take it meanwhile
            return None

    async def put(self, connection: httpcore.AsyncHTTPConnection) -> None:
        """Keeps a connection that can be used again; ends any other."""
        if connection.is_idle() and not self._is_closed and len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            await connection.aclose()

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        content: Optional[Content],
        read_timeout: Optional[float],
    ) -> Response:
        """One request, and the head of its answer."""
        all_headers = self._headers + [(k.encode(), v.encode()) for k, v in headers.items()]
        if isinstance(content, bytes):
            all_headers.append((b"Content-Length", b"%d" % len(content)))
        elif content is not None and "Content-Length" not in headers:
            all_headers.append((b"Transfer-Encoding", b"chunked"))
        timeout: Dict[str, Any] = {"connect": CONNECT_SECONDS, "read": read_timeout, "write": read_timeout}
        url = httpcore.URL(
            scheme=self._origin.scheme, host=self._origin.host, port=self._origin.port, target=target.encode()
        )
        request = httpcore.Request(
            method.encode(), url, headers=all_headers, content=content, extensions={"timeout": timeout}
        )
        connection = await self._take()
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            await connection.aclose()
            raise
        return Response(self, connection, response)

    async def aclose(self) -> None:
        """Ends all connections that nobody uses; the others end when they are no longer used."""
        self._is_closed = True
        while (connection := self._last_idle()) is not None:
            await connection.aclose()


def _split_v6(authority: str) -> Tuple[str, str, str]:
    host, _, rest = authority[1:].partition("]")
    return host, "", rest.lstrip(":")


def _ssl_context() -> ssl.SSLContext:
    # Certificates as httpx finds them. It is loaded only here: a daemon on this machine needs none.
    import httpx

    return httpx.create_ssl_context()
