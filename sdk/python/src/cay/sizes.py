"""Sizes in words: ``Size.gib(2)``, ``512 * MiB``. Memory and disks are counted in MiB everywhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

MiB = 1 << 20
GiB = 1 << 30


@dataclass(frozen=True)
class Size:
    """A number of bytes that is whole in MiB where one is asked for."""

    bytes: int

    @classmethod
    def mib(cls, n: int) -> Size:
        return cls(n * MiB)

    @classmethod
    def gib(cls, n: int) -> Size:
        return cls(n * GiB)

    @property
    def mib_count(self) -> int:
        """In MiB; a part of one counts as one."""
        return -(-self.bytes // MiB)


MiBs = Union[int, Size]


def mib_of(value: MiBs, name: str) -> int:
    """How many MiB *value* is: a number of them, or a :class:`Size`."""
    if isinstance(value, Size):
        return value.mib_count
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a number of MiB or a Size, not {type(value).__name__}")
    if value <= 0:
        raise ValueError(f"{name} must be more than 0")
    return value
