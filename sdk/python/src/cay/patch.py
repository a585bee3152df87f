"""Changes to the files of a new sandbox, made before anything runs in it: all of them, or there is no sandbox."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Optional, Union

from cay.enums import PatchKind
from cay.errors import InvalidConfigError

PATCHES_MAX = 1000  # of one sandbox, as the daemon takes them
CONTENT_MAX = 16 << 20

HostPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class PatchConfig:
    """One change; made by :class:`Patch`."""

    kind: PatchKind
    path: Optional[str] = None
    content: Union[str, bytes, None] = None
    src: Optional[str] = None
    dst: Optional[str] = None
    target: Optional[str] = None
    link: Optional[str] = None
    mode: Optional[int] = None
    replace: bool = False

    def to_wire(self) -> Iterator[dict[str, Any]]:
        """The daemon's patches that do it. Files of this machine are read here, and sent along."""
        if self.kind is PatchKind.COPY_DIR:
            yield from _tree(os.fspath(self.src or ""), self.dst or "", self.replace)
        elif self.kind is PatchKind.COPY_FILE:
            yield _file(os.fspath(self.src or ""), self.dst or "", self.mode, self.replace)
        elif self.kind is PatchKind.SYMLINK:
            yield _wire("symlink", self.link or "", replace=self.replace, target=self.target)
        else:
            content = self.content
            if isinstance(content, bytes):
                content = base64.b64encode(content).decode()
            yield _wire(str(self.kind), self.path or "", mode=self.mode, replace=self.replace, content=content)


def _wire(
    type: str, path: str, *, mode: Optional[int] = None, replace: bool = False, **fields: Optional[str]
) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": type, "path": path}
    wire.update((name, value) for name, value in fields.items() if value is not None)
    if mode is not None:
        wire["mode"] = f"{mode:04o}"
    if replace:
        wire["replace"] = True
    return wire


def _file(src: str, dst: str, mode: Optional[int], replace: bool) -> dict[str, Any]:
    size = os.stat(src).st_size
    if size > CONTENT_MAX:
        raise InvalidConfigError(f"{src}: {size} bytes are more than the {CONTENT_MAX} that patches may have; mount it")
    with open(src, "rb") as file:
        data = file.read()
    return _wire("file", dst, mode=mode, replace=replace, content=base64.b64encode(data).decode())


def _tree(src: str, dst: str, replace: bool) -> Iterator[dict[str, Any]]:
    yield _wire("mkdir", dst, mode=stat.S_IMODE(os.stat(src).st_mode))
    with os.scandir(src) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            to = f"{dst.rstrip('/')}/{entry.name}"
            if entry.is_symlink():
                yield _wire("symlink", to, replace=replace, target=os.readlink(entry.path))
            elif entry.is_dir():
                yield from _tree(entry.path, to, replace)
            elif entry.is_file():
                yield _file(entry.path, to, stat.S_IMODE(entry.stat().st_mode), replace)
            else:
                raise InvalidConfigError(f"{entry.path} is neither file, folder nor link")


class Patch:
    """Makes patches. What is at a path already is only replaced when ``replace`` says so."""

    @staticmethod
    def text(path: str, content: str, *, mode: Optional[int] = None, replace: bool = False) -> PatchConfig:
        return PatchConfig(PatchKind.TEXT, path=path, content=content, mode=mode, replace=replace)

    @staticmethod
    def file(path: str, content: bytes, *, mode: Optional[int] = None, replace: bool = False) -> PatchConfig:
        return PatchConfig(PatchKind.FILE, path=path, content=bytes(content), mode=mode, replace=replace)

    @staticmethod
    def mkdir(path: str, *, mode: Optional[int] = None) -> PatchConfig:
        """Parents are made too; one that is there is fine."""
        return PatchConfig(PatchKind.MKDIR, path=path, mode=mode)

    @staticmethod
    def append(path: str, content: str) -> PatchConfig:
        return PatchConfig(PatchKind.APPEND, path=path, content=content)

    @staticmethod
    def copy_file(src: HostPath, dst: str, *, mode: Optional[int] = None, replace: bool = False) -> PatchConfig:
        """A file of this machine."""
        return PatchConfig(PatchKind.COPY_FILE, src=os.fspath(src), dst=dst, mode=mode, replace=replace)

    @staticmethod
    def copy_dir(src: HostPath, dst: str, *, replace: bool = False) -> PatchConfig:
        """A folder of this machine with all that is in it; modes and links are kept."""
        return PatchConfig(PatchKind.COPY_DIR, src=os.fspath(src), dst=dst, replace=replace)

    @staticmethod
    def symlink(target: str, link: str, *, replace: bool = False) -> PatchConfig:
        return PatchConfig(PatchKind.SYMLINK, target=target, link=link, replace=replace)

    @staticmethod
    def remove(path: str) -> PatchConfig:
        """With all that is in it; what is not there is fine."""
        return PatchConfig(PatchKind.REMOVE, path=path)


def patches_to_wire(patches: Iterable[PatchConfig]) -> list[dict[str, Any]]:
    """All of them, read and counted before anything is made."""
    wire: list[dict[str, Any]] = []
    size = 0
    for patch in patches:
        for one in patch.to_wire():
            wire.append(one)
            size += len(one.get("content", ""))
            if len(wire) > PATCHES_MAX or size > 2 * CONTENT_MAX:
                raise InvalidConfigError(
                    f"patches: more than {PATCHES_MAX} files, or {CONTENT_MAX >> 20} MiB; a mount or an image holds more"
                )
    return wire
