# Written for asyncio; cay/sync has the blocking twin, which tools/unasync.py makes.
"""The connection to a daemon: one request and its answer, streams, and connections that become something else.

A request is sent again only where that is safe:

- it never left (nobody took the connection), and the daemon had answered before: it is being restarted;
- the daemon said "not now" with Retry-After, and so has done nothing;
- the connection was lost on the way, and the request changes nothing (GET), has the same end twice (PUT, DELETE), or carries an
  Idempotency-Key, by which the daemon knows it again.
"""

from __future__ import annotations

import json as json_module
import os
import random
import secrets
import time
import weakref
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, AsyncIterator, Dict, Mapping, MutableMapping, Optional, Tuple, Type, Union

import cay
from cay import _address
from cay.errors import CayError, IoError, SandboxTimeoutError, TlsError, from_answer

from . import _aio

if TYPE_CHECKING:
    from ._api import Api
    from ._frames import Attached, Upgraded
    from ._pool import Pool, Response
    from ._websocket import WebSocket

__all__ = ["Client", "Content", "HttpClient", "default_client", "end"]

READ_SECONDS = 330.0  # a little more than a daemon lets code take unless it is told otherwise
GRACE_SECONDS = 60.0
RETRY_SECONDS = 30.0
# With these the daemon says that it has done nothing, and soon can.
NOT_NOW = {"busy", "gateway_down", "idempotency_in_progress", "launcher_lost", "rate_limited", "sandbox_busy"}
BROKEN_SECONDS = 0.1  # between an answer that broke off, or says to come at once, and the next try
CHUNK = 256 * 1024
EVENT_MAX = 64 << 20

Query = Mapping[str, Any]
Content = Union[bytes, AsyncIterator[bytes]]


class _Request:
    """One request as the caller means it; it may be sent more than once."""

    __slots__ = ("again", "content", "headers", "method", "path", "query", "read_timeout", "url")

    def __init__(self, method: str, path: str, query: Optional[Query], read_timeout: Optional[float]) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers: Dict[str, str] = {"Accept": "application/json"}
        self.content: Optional[Content] = None
        self.read_timeout = read_timeout
        self.again = method in ("GET", "HEAD", "PUT", "DELETE")
        self.url = path if path.startswith("/sandbox/") else "/sandbox" + path
        if query:
            self.url += _query_text(query)

    def set_json(self, value: Optional[Mapping[str, Any]]) -> None:
        """What is None is not sent at all."""
        if value is not None:
            kept = {key: v for key, v in value.items() if v is not None}
            self.content = json_module.dumps(kept, separators=(",", ":"), default=_plain).encode()
            self.headers["Content-Type"] = "application/json"


def _plain(value: Any) -> Any:
    """What is not JSON by itself but has a form that is: models, and whatever says `to_wire`."""
    if hasattr(value, "to_wire"):
        return value.to_wire()
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True, exclude_none=True)
    raise TypeError(f"{type(value).__name__} cannot be sent to the daemon")


async def end(stream: AsyncIterator[Any]) -> None:
    """Closes a stream now, rather than when it is no longer used."""
    await stream.aclose()  # type: ignore[attr-defined]


def _query_text(query: Query) -> str:
    from urllib.parse import quote

    parts = []
    for name, value in query.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, (dict, list, tuple)):
            value = json_module.dumps(value)
        parts.append(f"{name}={quote(str(value), safe='')}")
    return "?" + "&".join(parts) if parts else ""


class Client:
    """A connection to a daemon, for any number of calls at once.

    Without `url` it is the one of CAY_HOST, CAY_URL or III_SANDBOX_URL, else the one on /run/cay/cay.sock or port 3111 of this
    machine; when none answers there, one is started for this process and ends with it.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        timeout: Optional[float] = READ_SECONDS,
        retry_for: float = RETRY_SECONDS,
    ) -> None:
        self.url = url
        self.token = token
        self.timeout = timeout
        self.retry_for = retry_for
        self._pool: Optional[Pool] = None
        self._lock = _aio.Lock()
        self._has_answered = False
        self._has_no_owner = False
        self._held: Optional[object] = None
        self._api: Optional[Api] = None

    @property
    def base_url(self) -> Optional[str]:
        """Where the daemon is: known once something was asked, or when it was given."""
        return self.url

    @property
    def api(self) -> Api:
        """Every operation of the daemon as a method."""
        if self._api is None:
            from ._api import Api

            self._api = Api(self)
        return self._api

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends all connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    async def _open(self) -> Pool:
        if self._pool is not None:
            return self._pool
        async with self._lock:
            if self._pool is None:
                self._pool = await self._connect()
        return self._pool

    async def _connect(self) -> Pool:
        from ._pool import Pool

        address = await _aio.in_thread(_address.find, self.url)
        token = _address.token_of(self.token)
        if address is None:
            from cay import _local

            address = await _aio.in_thread(_local.start)
            token = None
        self.url = str(address)
        headers = {"User-Agent": "cay-python", "Cay-Client": f"cay-python/{cay.__version__}"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if self._has_no_owner and self._held is None:
            self._held = await _aio.at_end(self.aclose)
        return Pool(address, headers)

    # One request

    async def _attempt(self, request: _Request) -> Response:
        pool = await self._open()
        return await pool.send(request.method, request.url, request.headers, request.content, request.read_timeout)

    async def _send(self, request: _Request) -> Response:
        """The answer, whose body is not read yet; anything but success is raised."""
        import httpcore

        give_up = time.monotonic() + self.retry_for
        tries = 0
        lost = False
        while True:
            try:
                response = await self._attempt(request)
                self._has_answered = True
                if response.status == 101 or 200 <= response.status < 300:
                    return response
                error = await _error_of(response, request)
            except _transport_errors() as cause:
                error = _transport_error(cause, request, self.url)
                unsent = isinstance(cause, (httpcore.ConnectError, httpcore.ConnectTimeout)) and self._has_answered
                if not unsent and (error.code != "connection_lost" or not request.again):
                    raise error from cause
                lost = lost or not unsent
                wait: Optional[float] = min(0.02 * 2**tries, 1.0) * random.uniform(0.75, 1.25)
            else:
                wait = _wait_of(error)
            error.resent = lost
            if wait is None or time.monotonic() + wait > give_up or _is_spent(request.content):
                raise error
            await _aio.sleep(wait)
            tries += 1

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: Optional[Mapping[str, Any]] = None,
        query: Optional[Query] = None,
        idempotent: bool = False,
        timeout: Optional[float] = None,
        again: Optional[bool] = None,
    ) -> Any:
        """The JSON of the answer. `idempotent` sends an Idempotency-Key, by which the daemon knows the request again when it
        has to be sent twice; `again=False` never sends twice what may have been heard; `timeout=0` waits for ever."""
        content = await self.call_bytes(
            method, path, json=json, query=query, idempotent=idempotent, timeout=timeout, again=again
        )
        return _read_json(content, method, path)

    async def call_bytes(
        self,
        method: str,
        path: str,
        *,
        json: Optional[Mapping[str, Any]] = None,
        query: Optional[Query] = None,
        idempotent: bool = False,
        timeout: Optional[float] = None,
        again: Optional[bool] = None,
        accept: Optional[str] = None,
        content: Optional[Content] = None,
        length: Optional[int] = None,
    ) -> bytes:
        """The whole body of the answer."""

        seconds = self.timeout if timeout is None else timeout or None
        limit = (json or {}).get("timeout")
        if seconds is not None and isinstance(limit, (int, float)):
            seconds = max(seconds, limit + GRACE_SECONDS)  # what may take so long is waited for
        request = self._request(method, path, json, query, idempotent, seconds)
        if again is not None:
            request.again = again
        if accept:
            request.headers["Accept"] = accept
        if content is not None:
            request.content = content
            request.headers["Content-Type"] = "application/octet-stream"
            if length is not None:
                request.headers["Content-Length"] = str(length)
        give_up = time.monotonic() + self.retry_for
        while True:
            response = await self._send(request)
            try:
                return await response.aread()
            except _transport_errors() as cause:
                error = _transport_error(cause, request, self.url)
                is_lost = error.code == "connection_lost" and time.monotonic() < give_up
                if not is_lost or not request.again or _is_spent(request.content):
                    raise error from cause
            finally:
                await response.aclose()
            await _aio.sleep(BROKEN_SECONDS)

    def _request(
        self,
        method: str,
        path: str,
        json: Optional[Mapping[str, Any]],
        query: Optional[Query],
        idempotent: bool,
        timeout: Optional[float],
    ) -> _Request:
        request = _Request(method, path, query, timeout)
        request.set_json(json)
        if idempotent:
            request.headers["Idempotency-Key"] = secrets.token_hex(16)
            request.again = True
        return request

    # Streams

    @asynccontextmanager
    async def _streamed(self, request: _Request) -> AsyncIterator[Response]:
        request.read_timeout = None
        response = await self._send(request)
        try:
            yield response
        except _transport_errors() as cause:
            raise _transport_error(cause, request, self.url) from cause
        finally:
            await response.aclose()

    async def events(
        self,
        method: str,
        path: str,
        *,
        json: Optional[Mapping[str, Any]] = None,
        query: Optional[Query] = None,
        idempotent: bool = False,
        content: Optional[Content] = None,
        again: Optional[bool] = None,
    ) -> AsyncIterator[Dict[str, Any]]:
        """What a stream of events says, one JSON object after the other. Closing the iterator closes the connection."""
        request = self._request(method, path, json, query, idempotent, None)
        request.headers["Accept"] = "text/event-stream"
        if again is not None:
            request.again = again
        if content is not None:
            request.content = content
            request.headers["Content-Type"] = "application/octet-stream"
        async with self._streamed(request) as response:
            rest = bytearray()
            async for chunk in response.aiter_bytes():
                rest += chunk
                if b"\n" not in chunk:
                    if len(rest) > EVENT_MAX:
                        raise IoError(f"{path}: an event has more than {EVENT_MAX} bytes", code="bad_answer")
                    continue
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    if line.startswith(b"data: "):
                        yield _event(_read_json(line[6:], method, path), request)

    async def download(
        self,
        path: str,
        *,
        json: Optional[Mapping[str, Any]] = None,
        query: Optional[Query] = None,
        method: str = "POST",
        accept: str = "application/octet-stream",
    ) -> AsyncIterator[bytes]:
        """The bytes of a file, piece by piece. An answer that breaks off raises IoError: what came is then not all of it."""
        request = self._request(method, path, json, query, False, None)
        request.headers["Accept"] = accept
        request.again = True
        async with self._streamed(request) as response:
            async for chunk in response.aiter_bytes():
                yield chunk

    async def upload(
        self, path: str, *, query: Query, content: Content, method: str = "POST", length: Optional[int] = None
    ) -> Any:
        """Sends bytes as they are. Of bytes in memory a lost connection is mended by sending them again: the file is then
        written twice, with the same end."""
        answer = await self.call_bytes(
            method, path, query=query, content=content, length=length, again=isinstance(content, bytes), timeout=3600.0
        )
        return _read_json(answer, method, path)

    # Connections that become something else

    async def upgrade(
        self,
        method: str,
        path: str,
        protocol: str,
        *,
        json: Optional[Mapping[str, Any]] = None,
        query: Optional[Query] = None,
        headers: Optional[Mapping[str, str]] = None,
        again: bool = False,
    ) -> Upgraded:
        """The connection itself, after the daemon has agreed to speak `protocol` on it."""
        from ._frames import Upgraded

        request = self._request(method, path, json, query, False, None)
        request.headers.update({"Connection": "Upgrade", "Upgrade": protocol, **(headers or {})})
        request.again = again
        response = await self._send(request)
        if response.status != 101:
            await response.aclose()
            raise from_answer(response.status, "no upgrade", method=method, path=path)
        return Upgraded(response)

    async def attach(self, path: str, body: Mapping[str, Any], *, again: bool = False) -> Attached:
        """A command's input and output as frames."""
        from ._frames import Attached

        return Attached(await self.upgrade("POST", path, "cay-exec", json=body, again=again))

    async def websocket(self, path: str, query: Optional[Query] = None) -> WebSocket:
        """A WebSocket below the daemon's address."""
        from ._websocket import WebSocket, handshake_headers

        return WebSocket(
            await self.upgrade("GET", path, "websocket", query=query, headers=handshake_headers(), again=True)
        )

    async def dial(self, path: str) -> Upgraded:
        """A connection to a port in a sandbox."""
        return await self.upgrade("POST", path, "cay-dial")

    # By hand, for routes that nothing else here knows

    async def get(self, path: str, query: Optional[Query] = None) -> Any:
        """The JSON that a GET is answered with."""
        return await self.call("GET", path, query=query)

    async def post(self, path: str, body: Optional[Mapping[str, Any]] = None) -> Any:
        """The JSON that a POST is answered with."""
        return await self.call("POST", path, json=body)

    async def delete(self, path: str, query: Optional[Query] = None) -> Any:
        """The JSON that a DELETE is answered with."""
        return await self.call("DELETE", path, query=query)

    def stream(self, path: str, body: Optional[Mapping[str, Any]] = None) -> AsyncIterator[Dict[str, Any]]:
        """The events that a POST is answered with."""
        return self.events("POST", path, json=body)

    def stream_get(self, path: str, query: Optional[Query] = None) -> AsyncIterator[Dict[str, Any]]:
        """The events that a GET is answered with."""
        return self.events("GET", path, query=query)


HttpClient = Client  # as other clients of this API call it


def _is_spent(content: Optional[Content]) -> bool:
    """Is it something that can be read only once?"""
    return content is not None and not isinstance(content, bytes)


def _read_json(content: Union[bytes, bytearray], method: str, path: str) -> Any:
    try:
        return json_module.loads(content)
    except (ValueError, RecursionError):
        raise from_answer(200, content.decode(errors="replace"), method=method, path=path) from None


def _event(value: Any, request: _Request) -> Dict[str, Any]:
    """An event that tells of a failure is one."""
    if not isinstance(value, dict):
        raise from_answer(200, value, method=request.method, path=request.path)
    if isinstance(value.get("error"), str) and "error" in (value.get("event"), value.get("type")):
        raise from_answer(200, value, method=request.method, path=request.path)
    return value


async def _error_of(response: Response, request: _Request) -> CayError:
    try:
        body = await response.aread()
    finally:
        await response.aclose()
    try:
        value: Any = json_module.loads(body)
    except (ValueError, RecursionError):
        value = body.decode(errors="replace")
    after = response.header(b"retry-after") or ""
    return from_answer(
        response.status,
        value,
        method=request.method,
        path=request.path,
        retry_after=float(after) if after.isascii() and after.isdigit() else None,
        request_id=response.header(b"x-request-id"),
    )


def _wait_of(error: CayError) -> Optional[float]:
    """How long to wait before sending it again; None = not at all. Other refusals have a Retry-After too (a registry that is
    not reached, a machine that is full), but those a caller wants to hear of."""
    if error.code not in NOT_NOW or error.retry_after is None:
        return None
    return max(error.retry_after, BROKEN_SECONDS)


def _transport_errors() -> Tuple[Type[Exception], ...]:
    """How a connection fails."""
    import httpcore

    return httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError


def _transport_error(cause: Exception, request: _Request, url: Optional[str]) -> CayError:
    import httpcore

    where: Dict[str, Any] = {"method": request.method, "path": request.path}
    if isinstance(cause, (httpcore.ConnectError, httpcore.ConnectTimeout)):
        text = str(cause)
        if "CERTIFICATE" in text or "SSL" in text:
            hint = ": does it speak TLS, or is it http://?" if "WRONG_VERSION" in text else ""
            return TlsError(f"{url}: {text}{hint}", **where)
        return IoError(
            f"no daemon answers at {url} ({text or 'it takes too long'}): start one with `cay serve`",
            code="no_daemon",
            **where,
        )
    if isinstance(cause, httpcore.TimeoutException):
        return SandboxTimeoutError(
            f"{request.method} {request.path}: {url} has not answered in {request.read_timeout} s",
            code="client_timeout",
            **where,
        )
    return IoError(
        f"{request.method} {request.path}: the connection to {url} was lost ({cause or type(cause).__name__})",
        code="connection_lost",
        **where,
    )


# By process and choice of a daemon; connections belong to an event loop, so each has its own.
_Clients = Dict[Tuple[int, Tuple[Optional[str], Optional[str]]], Client]
_defaults: MutableMapping[Any, _Clients] = weakref.WeakKeyDictionary()
_defaults_of_process: _Clients = {}


def default_client(url: Optional[str] = None, token: Optional[str] = None) -> Client:
    """The client that is used where none is given, or only an address: one for an event loop, and its own in a forked
    process."""
    loop = _aio.this_loop()
    kept = _defaults_of_process if loop is None else _defaults.setdefault(loop, {})
    wanted = (os.getpid(), (url, token) if url or token else _address.chosen())
    if wanted not in kept:
        kept[wanted] = Client(*wanted[1])
        kept[wanted]._has_no_owner = True
    return kept[wanted]
