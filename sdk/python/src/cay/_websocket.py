# Written for asyncio; cay/sync has the blocking twin, which tools/unasync.py makes.
"""The client's side of a WebSocket, as far as the daemon uses it: no extensions, no fragments to send."""

from __future__ import annotations

import base64
import os
import struct
from typing import AsyncIterator, Dict, Optional, Tuple, Union

from cay.errors import IoError

from ._frames import Upgraded

__all__ = ["WebSocket", "handshake_headers"]

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MESSAGE_MAX = 64 << 20


def handshake_headers() -> Dict[str, str]:
    """What an upgrade to WebSocket needs beside the words of every upgrade."""
    key = base64.b64encode(os.urandom(16)).decode()
    return {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}


class WebSocket:
    """Messages both ways: bytes are bytes, and text is text."""

    def __init__(self, connection: Upgraded) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self.close_code: Optional[int] = None
        self.close_reason = ""

    async def send(self, message: Union[bytes, str]) -> None:
        """One message."""
        if isinstance(message, str):
            await self._send(TEXT, message.encode())
        else:
            await self._send(BINARY, message)

    async def _send(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65536:
            head += struct.pack(">BH", 0x80 | 126, size)
        else:
            head += struct.pack(">BQ", 0x80 | 127, size)
        # The mask is against proxies that mistake data for requests; it keeps no secret.
        mask = os.urandom(4)
        repeated = mask * (size // 4 + 1)
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated[:size], "big")).to_bytes(size, "big")
        await self._connection.write(head + mask + masked)

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = await self._connection.read()
            if not data:
                raise IoError("the WebSocket was cut", code="connection_lost")
            self._buffer += data
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def _frame(self) -> Tuple[bool, int, bytes]:
        first, second = await self._take(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack(">H", await self._take(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", await self._take(8))
        if size > MESSAGE_MAX or second & 0x80:
            raise IoError("the other side does not speak WebSocket as it must", code="bad_websocket")
        return bool(first & 0x80), first & 0x0F, await self._take(size)

    async def recv(self) -> Optional[Union[bytes, str]]:
        """The next message; None after the end, of which `close_code` and `close_reason` tell."""
        kind = BINARY
        message = bytearray()
        while self.close_code is None:
            final, opcode, payload = await self._frame()
            if opcode == CLOSE:
                self.close_code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
                self.close_reason = payload[2:].decode(errors="replace")
            elif opcode == PING:
                await self._send(PONG, payload)
            elif opcode in (CONTINUED, TEXT, BINARY):
                kind = opcode or kind
                message += payload
                if len(message) > MESSAGE_MAX:
                    raise IoError("a message is longer than it may be", code="bad_websocket")
                if final:
                    return message.decode(errors="replace") if kind == TEXT else bytes(message)
        return None

    async def __aiter__(self) -> AsyncIterator[Union[bytes, str]]:
        while True:
            message = await self.recv()
            if message is None:
                return
            yield message

    async def aclose(self, code: int = 1000) -> None:
        """Says goodbye, and hangs up."""
        if self.close_code is None:
            try:
                await self._send(CLOSE, struct.pack(">H", code))
            except IoError:
                pass
        await self._connection.aclose()

    async def __aenter__(self) -> WebSocket:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
