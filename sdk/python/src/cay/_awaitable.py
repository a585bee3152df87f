"""Values that may also be awaited, for code that was written for an SDK where they have to be."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any


class Name(str):
    """``sandbox.name``, ``await sandbox.name`` and ``await sandbox.name()`` are the same text."""

    __slots__ = ()

    def __call__(self) -> Name:
        return self

    def __await__(self) -> Generator[Any, None, str]:
        return str(self)
        yield  # what makes it a generator, as await wants one


class Flag(int):
    """Yes or no; ``await`` of it is the same."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(bool(self))

    def __await__(self) -> Generator[Any, None, bool]:
        return bool(self)
        yield  # what makes it a generator, as await wants one
