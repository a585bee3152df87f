"""What asyncio and threads do in different ways. cay/_aio.py is the same for asyncio."""

from __future__ import annotations

import atexit
import queue
import select
import threading
import time
from typing import Any, Callable, Generic, List, Optional, TypeVar

__all__ = ["Lock", "Queue", "Task", "at_end", "in_thread", "is_readable", "pending", "sleep", "spawn", "this_loop"]

T = TypeVar("T")

Lock = threading.Lock
Queue = queue.Queue
sleep = time.sleep


def pending(make: Callable[[], T], pieces: Optional[Callable[[], Any]] = None) -> T:
    """What waits for an await there is done at once here."""
    return make()


def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Calls what blocks: so does who calls this."""
    return function(*args)


def this_loop() -> Optional[object]:
    """What connections belong to: here, the process."""
    return None


def at_end(close: Callable[[], None]) -> object:
    """Has it closed when the process ends."""
    return atexit.register(close)


class Task(Generic[T]):
    """What goes on beside the caller."""

    def __init__(self, function: Callable[..., T], args: Any) -> None:
        self._values: List[T] = []
        self._error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, args=(function, args), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[..., T], args: Any) -> None:
        try:
            self._values.append(function(*args))
        except BaseException as error:  # for who waits
            self._error = error

    def wait(self) -> T:
        """What it gave, or raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._values[0]

    def end(self) -> None:
        """A thread cannot be made to end: it does when what it waits for is closed."""


def spawn(function: Callable[..., T], *args: Any) -> Task[T]:
    """Begins it."""
    return Task(function, args)


def is_readable(fd: int, seconds: float) -> bool:
    """Waits until there is something to read, or the time is over."""
    return bool(select.select([fd], [], [], seconds)[0])
