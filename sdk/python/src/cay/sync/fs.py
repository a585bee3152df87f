# Made from cay/fs.py by tools/unasync.py: change that one.
"""Files: of a sandbox (``sandbox.fs``) and of a volume (``volume.fs``)."""

from __future__ import annotations

import base64
import builtins
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Optional, Union
from urllib.parse import quote

from cay.enums import FsEntryKind
from cay.errors import CayError, FilesystemError, PathNotFoundError, SandboxError
from cay.execution import Invocation
from cay.records import FsEntry, FsMetadata, kind_and_mode

from . import _aio
from ._http import Client
from .exec import execute

__all__ = ["FsReadStream", "FsWriteSink", "SandboxFsOps", "VolumeFs"]

CHUNK = 1 << 20
WAITING = 4  # pieces of an upload between who writes and who sends
ASKED_AT_ONCE = 500
HostPath = Union[str, "os.PathLike[str]"]


def path_fields(paths: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Paths for the daemon by their fields, and how they go. When one of them is no UTF-8 (surrogates, as os.fsdecode makes
    them) all go as base64."""
    try:
        for path in paths.values():
            path.encode()
    except UnicodeEncodeError:
        encoded = {name: base64.b64encode(os.fsencode(path)).decode() for name, path in paths.items()}
        return encoded, {"pathEncoding": "base64"}
    return dict(paths), {}


def path_of(wire: Mapping[str, Any]) -> str:
    """A path from the daemon, as os.fsdecode has it."""
    if "pathBase64" in wire:
        return os.fsdecode(base64.b64decode(wire["pathBase64"]))
    return str(wire["path"])


def metadata_of(wire: Mapping[str, Any]) -> FsMetadata:
    kind, mode = kind_and_mode(wire["permissions"], wire["isDirectory"], wire["isSymlink"])
    return FsMetadata(kind, wire["size"], mode, not mode & 0o222, wire["modifiedAt"] / 1000)


class FsReadStream:
    """The bytes of a file, piece by piece."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return self._pieces.__next__()

    def collect(self) -> bytes:
        """All that is left of them."""
        data = bytearray()
        for piece in self._pieces:
            data += piece
        return bytes(data)


class FsWriteSink:
    """A file that is being written. It is there, whole, when this is closed; without that (an exception in ``with``) it is
    as it was before."""

    def __init__(self, client: Client, path: str, query: Mapping[str, Any]) -> None:
        self._client = client
        self._path = path
        self._query = query
        self._queue: _aio.Queue[Optional[bytes]] = _aio.Queue(WAITING)
        self._broken = False
        self._sending: Optional[_aio.Task[None]] = None

    def _pieces(self) -> Iterator[bytes]:
        while (piece := self._queue.get()) is not None:
            yield piece
        if self._broken:
            raise FilesystemError("the write was given up")

    def _send(self) -> None:
        try:
            self._client.upload(self._path, query=self._query, content=self._pieces())
        finally:
            self._broken = True  # whoever writes on is told
            while not self._queue.empty():
                self._queue.get()

    def write(self, data: bytes) -> None:
        """Adds *data* at the end."""
        if self._sending is None:
            self._sending = _aio.spawn(self._send)
        if self._broken:
            self._sending.wait()
            raise FilesystemError("the file is closed")
        self._queue.put(bytes(data))

    def close(self) -> None:
        """Waits until all is written; raises when it cannot be."""
        if self._sending is None:
            self._sending = _aio.spawn(self._send)
        if not self._broken:
            self._queue.put(None)
        self._sending.wait()

    def __enter__(self) -> FsWriteSink:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        elif self._sending is not None:
            self._broken = True
            self._queue.put(None)
            try:
                self._sending.wait()
            except CayError:
                pass


class _Files:
    """What sandboxes and volumes have in common."""

    def __init__(self, client: Client, base: str, fields: Mapping[str, Any]) -> None:
        self._client = client
        self._base = base
        self._fields = fields

    def _body(self, path: str, *, target: Optional[str] = None, **more: Any) -> dict[str, Any]:
        paths, how = path_fields({"path": path} if target is None else {"path": path, "target": target})
        return {**paths, **how, **self._fields, **more}

    def _call(self, what: str, body: Mapping[str, Any]) -> Any:
        return self._client.call(
            "POST", f"{self._base}/{what}", json=body, again=what in ("info", "list", "read")
        )

    def read(self, path: str) -> bytes:
        """All of a file."""
        return self.stream(path).collect()

    def read_text(self, path: str) -> str:
        """All of a file, which must be UTF-8."""
        return (self.read(path)).decode()

    def stream(self, path: str) -> FsReadStream:
        return FsReadStream(self._client.download(f"{self._base}/download", json=self._body(path)))

    def read_stream(self, path: str) -> FsReadStream:
        """A file piece by piece; it is opened when the first one is asked for."""
        return self.stream(path)

    def write(self, path: str, data: Union[bytes, str], *, mode: Optional[int] = None) -> None:
        """Replaces a file; its folders are made."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        self._client.upload(f"{self._base}/upload", query=self._query(path, mode), content=content)

    def write_stream(self, path: str, *, mode: Optional[int] = None) -> FsWriteSink:
        """Replaces a file with what is written to the sink, however much that is."""
        return FsWriteSink(self._client, f"{self._base}/upload", self._query(path, mode))

    def _query(self, path: str, mode: Optional[int]) -> dict[str, Any]:
        return self._body(path) if mode is None else self._body(path, mode=f"{mode:04o}")

    def mkdir(self, path: str) -> None:
        """Makes a folder, and those above it; one that is there is fine."""
        self._call("mkdir", self._body(path))

    def stat(self, path: str) -> FsMetadata:
        """What a path is; of a link it is the link."""
        answer = self._call("info", self._body(path))
        return metadata_of(answer[0] if isinstance(answer, builtins.list) else answer)

    def exists(self, path: str) -> bool:
        """Is there anything?"""
        try:
            self.stat(path)
        except PathNotFoundError:
            return False
        except FilesystemError as error:
            if error.code == "not_a_directory":
                return False
            raise
        return True


class SandboxFsOps(_Files):
    """The files of a sandbox, wherever they are in it; a relative path begins in its workspace."""

    def __init__(self, client: Client, sandbox_id: str) -> None:
        super().__init__(client, f"/sandboxes/{quote(sandbox_id, safe='')}/files", {"anywhere": True})
        self._id = sandbox_id

    def list(self, path: str) -> builtins.list[FsEntry]:
        """What is in a folder, by name."""
        found = self._call("list", self._body(path))
        paths = [path_of(entry) for entry in found]
        about: dict[str, FsMetadata] = {}
        for start in range(0, len(paths), ASKED_AT_ONCE):
            about.update(self._about(paths[start : start + ASKED_AT_ONCE]))
        return [
            FsEntry(at, about[at].kind, about[at].size, about[at].mode, about[at].modified)
            for at in sorted(paths)
            if at in about
        ]

    def _about(self, paths: builtins.list[str]) -> dict[str, FsMetadata]:
        """Of those that are still there."""
        encoded = [base64.b64encode(os.fsencode(path)).decode() for path in paths]
        try:
            answer = self._call("info", {"paths": encoded, "pathEncoding": "base64", **self._fields})
            return {path: metadata_of(wire) for path, wire in zip(paths, answer)}
        except PathNotFoundError:
            if len(paths) == 1:
                return {}
        # One of them has gone meanwhile.
        middle = len(paths) // 2
        return {**self._about(paths[:middle]), **self._about(paths[middle:])}

    def remove(self, path: str) -> None:
        """Removes a file or a link; one that is gone is fine."""
        self._call("delete", self._body(path))

    def remove_dir(self, path: str) -> None:
        """Removes a folder with all that is in it."""
        self._call("rmdir", self._body(path))

    def copy(self, src: str, dst: str) -> None:
        """Copies a file or a folder within the sandbox, with modes and times; what is at *dst* goes."""
        paths, how = path_fields({"from": src, "to": dst})
        self._call("copy", {**paths, **how, "replace": True, **self._fields})

    def rename(self, src: str, dst: str) -> None:
        """Moves a file or a folder."""
        paths, how = path_fields({"from": src, "to": dst})
        self._call("move", {"moves": [paths], **how, **self._fields})

    def symlink(self, target: str, link: str) -> None:
        """Makes a link at *link* that leads to *target*."""
        self._call("symlink", self._body(link, target=target))

    def read_link(self, path: str) -> str:
        """Where a link leads to."""
        # In base64, for of a target that is no UTF-8 there is no other exact form.
        encoded = base64.b64encode(os.fsencode(path)).decode()
        answer = self._call("info", {"path": encoded, "pathEncoding": "base64", **self._fields})
        wire = answer[0] if isinstance(answer, builtins.list) else answer
        if "target" not in wire:
            raise FilesystemError(f"{path} is no link")
        return os.fsdecode(base64.b64decode(wire["target"]))

    def real_path(self, path: str) -> str:
        """A path without links, dots and double slashes."""
        output = execute(self._client, self._id, Invocation(["readlink", "-f", "--", path]))
        if not output.success:
            raise PathNotFoundError(output.stderr.strip() or f"{path}: there is no such path")
        return output.stdout_text.rstrip("\n")

    def copy_from_host(self, host_path: HostPath, guest_path: str) -> None:
        """Copies a file or a folder of this machine into the sandbox. Modes are kept; links within a folder stay links, and
        pipes, sockets and devices are left out of it."""
        host = os.fspath(host_path)
        if os.path.isdir(host):
            self.mkdir(guest_path)
            for name in sorted(os.listdir(host)):
                path, to = os.path.join(host, name), f"{guest_path.rstrip('/')}/{name}"
                if os.path.islink(path):
                    self._call("symlink", self._body(to, target=os.readlink(path), replace=True))
                elif os.path.isdir(path) or os.path.isfile(path):
                    self.copy_from_host(path, to)
            return
        with open(host, "rb") as file:
            about = os.fstat(file.fileno())
            query = self._query(guest_path, about.st_mode & 0o777)
            self._client.upload(
                f"{self._base}/upload", query=query, content=_file_pieces(file), length=about.st_size
            )

    def copy_to_host(self, guest_path: str, host_path: HostPath) -> None:
        """Copies a file or a folder of the sandbox to this machine. A file is there, whole, or not at all; links are left out of
        folders, for what they point to is not on this machine."""
        host = os.fspath(host_path)
        about = self.stat(guest_path)
        if about.kind is FsEntryKind.DIRECTORY:
            os.makedirs(host, exist_ok=True)
            for entry in self.list(guest_path):
                if entry.kind in (FsEntryKind.FILE, FsEntryKind.DIRECTORY):
                    self.copy_to_host(entry.path, _within(host, entry))
            return
        part = f"{host}.{secrets.token_hex(4)}.part"
        try:
            with open(part, "xb") as file:
                for piece in self.stream(guest_path):
                    _aio.in_thread(file.write, piece)
            os.chmod(part, about.mode & 0o777)
            os.replace(part, host)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise


def _within(host: str, entry: FsEntry) -> str:
    """The path of something whose name a sandbox chose. It may lead nowhere else on this machine, nor may a link that is there
    already: the folder may be one that the sandbox has too, and has prepared."""
    name = entry.name
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise SandboxError(f"{name!r} is no name of a file")
    path = os.path.join(host, name)
    if entry.kind is FsEntryKind.DIRECTORY and os.path.islink(path):
        raise SandboxError(f"{path} is a link, and what it leads to is not written to")
    return path


def _file_pieces(file: Any) -> Iterator[bytes]:
    while data := _aio.in_thread(file.read, CHUNK):
        yield data


class VolumeFs(_Files):
    """The files of a volume, without any sandbox. Its top is ``/``."""

    def __init__(self, client: Client, volume_id: str) -> None:
        super().__init__(client, f"/volumes/{quote(volume_id, safe='')}/files", {})

    def list(self, path: str) -> builtins.list[FsEntry]:
        """What is in a folder, by name."""
        entries = []
        for wire in self._call("list", self._body(path)):
            kind, mode = kind_and_mode(wire["mode"], wire["isDirectory"], wire["isSymlink"])
            entries.append(FsEntry(path_of(wire), kind, wire["size"], mode, wire["modifiedAt"] / 1000))
        return sorted(entries, key=lambda entry: entry.path)

    def remove_file(self, path: str) -> None:
        """Removes a file."""
        self._call("delete", self._body(path))

    def remove_dir(self, path: str) -> None:
        """Removes a folder with all that is in it."""
        self._call("delete", self._body(path, recursive=True))

    def copy(self, from_: str, to: str) -> None:
        """Copies a file; it passes through here."""
        with self.write_stream(to, mode=(self.stat(from_)).mode) as sink:
            for piece in self.stream(from_):
                sink.write(piece)

    def rename(self, from_: str, to: str) -> None:
        """Moves a file: copied, and then removed."""
        self.copy(from_, to)
        self.remove_file(from_)
