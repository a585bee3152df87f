"""What asyncio and threads do in different ways. cay/sync/_aio.py is the same for code that blocks."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Awaitable, Callable, Generic, Optional, TypeVar

from cay._pending import Pending

__all__ = [
    "Lock",
    "Pending",
    "Queue",
    "Task",
    "at_end",
    "in_thread",
    "is_readable",
    "pending",
    "sleep",
    "spawn",
    "this_loop",
]

T = TypeVar("T")

Lock = asyncio.Lock
Queue = asyncio.Queue
sleep = asyncio.sleep
pending = Pending


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Calls what blocks, without blocking others."""
    return await asyncio.to_thread(function, *args)


def this_loop() -> Optional[object]:
    """What connections belong to: they cannot be used in another event loop."""
    return asyncio.get_running_loop()


async def at_end(close: Callable[[], Awaitable[None]]) -> object:
    """Has it closed when the event loop ends, which closes generators that have begun. What this gives must be kept till then."""

    async def begun() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await close()

    held = begun()
    await held.__anext__()
    return held


class Task(Generic[T]):
    """What goes on beside the caller."""

    def __init__(self, function: Callable[..., Awaitable[T]], args: Any) -> None:
        self._task = asyncio.ensure_future(function(*args))

    async def wait(self) -> T:
        """What it gave, or raised."""
        return await self._task

    async def end(self) -> None:
        """Waits until it is over, and makes it be: what it raises then is nobody's concern."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def spawn(function: Callable[..., Awaitable[T]], *args: Any) -> Task[T]:
    """Begins it."""
    return Task(function, args)


async def is_readable(fd: int, seconds: float) -> bool:
    """Waits until there is something to read, or the time is over."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    try:
        loop.add_reader(fd, tell)
    except PermissionError:
        return True  # a file, which never lets anybody wait
    try:
        await asyncio.wait([ready], timeout=seconds)
    finally:
        loop.remove_reader(fd)
    return ready.done()
