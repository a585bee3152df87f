"""A call that is made when it is awaited, entered or iterated over. In ``cay.sync`` such a call is simply made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, TypeVar

T = TypeVar("T")


class Pending(Coroutine[Any, Any, T], Generic[T]):
    """``await`` gives the value; ``async with`` enters it, so that neither ``async with Sandbox.create()`` nor
    ``async with await Sandbox.create()`` is a mistake; ``async for`` is for what has pieces. It is a coroutine too, for
    ``asyncio.create_task`` and the like take nothing else."""

    def __init__(
        self, make: Callable[[], Coroutine[Any, Any, T]], pieces: Optional[Callable[[], AsyncIterator[Any]]] = None
    ) -> None:
        self._make = make
        self._pieces = pieces
        self._running: Optional[Coroutine[Any, Any, T]] = None
        self._value: Any = None

    if not TYPE_CHECKING:  # which finds these mistakes by itself

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{name!r} was asked of a call that is not made yet: write `await` before the call")

        def __enter__(self) -> Any:
            raise TypeError("this is entered with `async with`; cay.sync has what `with` can enter")

        def __exit__(self, *exc: Any) -> None:
            """Python looks for it before __enter__ is called."""

    def __await__(self) -> Generator[Any, None, T]:
        return self._make().__await__()

    def send(self, value: Any) -> Any:
        """A step of it."""
        return self._begun().send(value)

    def throw(self, *error: Any) -> Any:
        """An exception for it, as by a task that is cancelled."""
        return self._begun().throw(*error)

    def close(self) -> None:
        """Ends it."""
        if self._running is not None:
            self._running.close()

    def _begun(self) -> Coroutine[Any, Any, T]:
        if self._running is None:
            self._running = self._make()
        return self._running

    async def __aenter__(self) -> T:
        value: Any = await self._make()
        self._value = value
        await value.__aenter__()
        return value  # type: ignore[no-any-return]

    async def __aexit__(self, *exc: Any) -> None:
        await self._value.__aexit__(*exc)

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._pieces is None:
            raise TypeError("this call has no pieces: await it")
        return self._pieces()
