# Written for asyncio; cay/sync has the blocking twin, which tools/unasync.py makes.
"""Connections that have become something else than HTTP: plain bytes, or the frames of an attached command."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Optional, Tuple

from cay.errors import IoError

if TYPE_CHECKING:
    from ._pool import Response

__all__ = ["Attached", "Upgraded"]

# What the frames of an attached command are (docs/api.md, "Attached commands").
ERROR, STARTED, STDOUT, STDERR, EXIT = 2, 3, 4, 5, 6
STDIN, RESIZE, SIGNAL, LOST = 10, 11, 12, 14

FRAME_MAX = 256 * 1024
READ_MAX = 256 * 1024

_HEAD = struct.Struct("<IB3x")


class Upgraded:
    """Bytes both ways. One may read while another writes."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self._stream: Any = response.extensions["network_stream"]

    async def read(self, at_most: int = READ_MAX) -> bytes:
        """Some bytes; none at the end."""
        try:
            data: bytes = await self._stream.read(at_most)
        except Exception as cause:
            raise IoError(
                f"the connection was lost ({cause or type(cause).__name__})", code="connection_lost"
            ) from cause
        return data

    async def write(self, data: bytes) -> None:
        """Sends all of it."""
        try:
            await self._stream.write(data)
        except Exception as cause:
            raise IoError(
                f"the connection was lost ({cause or type(cause).__name__})", code="connection_lost"
            ) from cause

    async def aclose(self) -> None:
        """Hangs up."""
        await self._stream.aclose()
        await self._response.aclose()

    async def __aenter__(self) -> Upgraded:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Attached:
    """The frames of a command."""

    def __init__(self, connection: Upgraded) -> None:
        self._connection = connection
        self._buffer = bytearray()

    async def send(self, kind: int, payload: bytes = b"") -> None:
        """One frame, or as many as it takes."""
        for start in range(0, max(len(payload), 1), FRAME_MAX):
            part = payload[start : start + FRAME_MAX]
            await self._connection.write(_HEAD.pack(len(part), kind) + part)

    async def recv(self) -> Optional[Tuple[int, bytes]]:
        """The next frame; None when there is none any more."""
        buffer = self._buffer
        while len(buffer) < _HEAD.size or len(buffer) < _HEAD.size + self._size():
            data = await self._connection.read()
            if not data:
                return None
            buffer += data
        size, kind = _HEAD.unpack_from(buffer)
        payload = bytes(buffer[_HEAD.size : _HEAD.size + size])
        del buffer[: _HEAD.size + size]
        return kind, payload

    def _size(self) -> int:
        """Of the frame whose head has come."""
        size: int = _HEAD.unpack_from(self._buffer)[0]
        if size > FRAME_MAX:
            raise IoError(f"a frame claims to have {size} bytes", code="bad_answer")
        return size

    async def aclose(self) -> None:
        """Hangs up."""
        await self._connection.aclose()
