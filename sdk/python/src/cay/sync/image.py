# Made from cay/image.py by tools/unasync.py: change that one.
"""Images: what a sandbox is made from, and those that the daemon has."""

from __future__ import annotations

import builtins
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Union
from urllib.parse import quote

from cay.enums import ImageArchiveFormat, ImageSourceKind, PullPolicy, checked
from cay.errors import InvalidConfigError, UnsupportedError
from cay.records import (
    ImageConfigDetail,
    ImageLayerDetail,
    ImagePruneReport,
    ImageSource,
    PullEvent,
    PullProgress,
    RegistryAuth,
    RootDiskConfig,
)

from . import _aio
from ._http import Client, default_client

__all__ = ["Image", "ImageDetail", "ImageHandle"]

PULL_WORDS = {PullPolicy.ALWAYS: "always", PullPolicy.IF_MISSING: "missing", PullPolicy.NEVER: "never"}


def _path(reference: str, rest: str = "") -> str:
    return f"/images/{quote(reference, safe='')}{rest}"


class ImageHandle:
    """An image that is here, as it was when it was asked for."""

    def __init__(self, client: Client, wire: Mapping[str, Any]) -> None:
        self._client = client
        self._wire = wire

    @property
    def id(self) -> str:
        return str(self._wire["id"])

    @property
    def reference(self) -> str:
        return str(self._wire["name"])

    @property
    def size_bytes(self) -> Optional[int]:
        return int(self._wire["size"])

    @property
    def manifest_digest(self) -> Optional[str]:
        return self._wire["digest"] or None

    @property
    def architecture(self) -> Optional[str]:
        return str(self._wire["platform"]).partition("/")[2] or None

    @property
    def os(self) -> Optional[str]:
        return str(self._wire["platform"]).partition("/")[0] or None

    @property
    def layer_count(self) -> int:
        return int(self._wire["layers"])

    @property
    def last_used_at(self) -> Optional[float]:
        return self._wire["usedAt"] / 1000 or None

    @property
    def created_at(self) -> Optional[float]:
        return self._wire["createdAt"] / 1000 or None

    @property
    def in_use(self) -> bool:
        """Was a sandbox made from it that is still there?"""
        return bool(self._wire["inUse"])

    def inspect(self) -> ImageDetail:
        return Image.inspect(self.reference, client=self._client)

    def remove(self, *, force: bool = False) -> None:
        Image.remove(self.reference, force=force, client=self._client)

    def __repr__(self) -> str:
        return f"ImageHandle(reference={self.reference!r})"


class ImageDetail:
    """All that is known of an image."""

    def __init__(self, handle: ImageHandle, wire: Mapping[str, Any]) -> None:
        self.handle = handle
        self.config: Optional[ImageConfigDetail] = ImageConfigDetail(
            digest=wire["id"],
            env=list(wire["env"]),
            cmd=list(wire["cmd"]) or None,
            entrypoint=list(wire["entrypoint"]) or None,
            working_dir=wire["workdir"] or None,
            user=wire["user"] or None,
            labels=dict(wire["labels"]) or None,
            stop_signal=wire["stopSignal"] or None,
        )
        self.layers = [ImageLayerDetail(position) for position in range(handle.layer_count)]


class Image:
    """What a sandbox is made from (``Image.oci(…)``), and the images that the daemon has."""

    @staticmethod
    def oci(
        reference: str,
        *,
        root_disk: Union[RootDiskConfig, int, None] = None,
        upper_size_mib: Optional[int] = None,
    ) -> ImageSource:
        """An image of a registry, or one that is here. *root_disk* is how large the sandbox's disk is, in MiB."""
        return ImageSource(ImageSourceKind.OCI, reference, root_disk if root_disk is not None else upper_size_mib)

    @staticmethod
    def bind(path: Union[str, os.PathLike[str]]) -> ImageSource:
        """A folder as the root, which cay does not do: a sandbox of one is refused. See :meth:`load`."""
        return ImageSource(ImageSourceKind.BIND, os.fspath(path))

    @staticmethod
    def disk(path: Union[str, os.PathLike[str]], *, fstype: Optional[str] = None) -> ImageSource:
        """A disk of a virtual machine: a sandbox of one is refused."""
        return ImageSource(ImageSourceKind.DISK, os.fspath(path), fstype=fstype)

    @staticmethod
    def get(reference: str, *, client: Optional[Client] = None) -> ImageHandle:
        """One that is here; ImageNotFoundError else."""
        client = client or default_client()
        return ImageHandle(client, client.call("GET", _path(reference)))

    @staticmethod
    def list(*, client: Optional[Client] = None) -> builtins.list[ImageHandle]:
        client = client or default_client()
        return [ImageHandle(client, wire) for wire in (client.call("GET", "/images"))["images"]]

    @staticmethod
    def inspect(reference: str, *, client: Optional[Client] = None) -> ImageDetail:
        client = client or default_client()
        wire = client.call("GET", _path(reference))
        return ImageDetail(ImageHandle(client, wire), wire)

    @staticmethod
    def pull(
        reference: str,
        *,
        policy: Optional[PullPolicy] = None,
        registry_auth: Optional[RegistryAuth] = None,
        insecure: bool = False,
        client: Optional[Client] = None,
    ) -> ImageHandle:
        """Gets an image from its registry."""
        client = client or default_client()
        body = _pull_body(reference, policy, registry_auth, insecure)
        return ImageHandle(client, client.call("POST", "/images/pull", json=body, timeout=3600.0))

    @staticmethod
    def pull_events(
        reference: str,
        *,
        policy: Optional[PullPolicy] = None,
        registry_auth: Optional[RegistryAuth] = None,
        insecure: bool = False,
        client: Optional[Client] = None,
    ) -> Iterator[PullEvent]:
        """Gets an image from its registry, and tells how far it is."""
        client = client or default_client()
        progress = PullProgress()
        body = _pull_body(reference, policy, registry_auth, insecure)
        for wire in client.events("POST", "/images/pull", json=body):
            for event in progress.read(wire):
                yield event

    @staticmethod
    def remove(reference: str, *, force: bool = False, client: Optional[Client] = None) -> None:
        """Removes an image that no sandbox was made from; with *force* one that is gone is fine, too."""
        from cay.errors import ImageNotFoundError

        client = client or default_client()
        try:
            client.call("DELETE", _path(reference))
        except ImageNotFoundError:
            if not force:
                raise

    @staticmethod
    def prune(*, client: Optional[Client] = None) -> ImagePruneReport:
        """Removes all images that no sandbox uses."""
        client = client or default_client()
        wire = client.call("POST", "/images/prune", json={})
        gone = wire["removed"]
        return ImagePruneReport(
            image_refs_removed=len(gone),
            manifests_removed=len({one["id"] for one in gone}),
            layers_removed=sum(one["layers"] for one in gone),
            bytes_reclaimed=wire["bytes"],
        )

    @staticmethod
    def load(
        input_path: Union[str, os.PathLike[str]], *, tag: Optional[str] = None, client: Optional[Client] = None
    ) -> builtins.list[ImageHandle]:
        """Makes an image of an archive (``docker save``, OCI layout, tar of a root) or a root folder. The daemon reads the path
        itself, for root on its own machine only."""
        client = client or default_client()
        body = {"path": os.path.abspath(os.fspath(input_path)), "name": tag}
        return [ImageHandle(client, client.call("POST", "/images/import", json=body, timeout=3600.0))]

    @staticmethod
    def save(
        reference: Union[str, Sequence[str]],
        *,
        output_path: Union[str, os.PathLike[str]],
        format: ImageArchiveFormat = ImageArchiveFormat.DOCKER,
        client: Optional[Client] = None,
    ) -> None:
        """Writes an image as an archive, which is both: an OCI layout that ``docker load`` takes."""
        checked(format, ImageArchiveFormat, "format")
        client = client or default_client()
        names = [reference] if isinstance(reference, str) else list(reference)
        if len(names) != 1:
            raise (
                UnsupportedError(operation="image.save", hint="one image an archive: call it once for each")
                if names
                else InvalidConfigError("no image is named")
            )
        save_stream(
            client.download(_path(names[0], "/export"), method="GET", accept="application/x-tar"), output_path
        )


def _pull_body(
    reference: str, policy: Optional[PullPolicy], registry_auth: Optional[RegistryAuth], insecure: bool
) -> dict[str, Any]:
    body: dict[str, Any] = {"reference": reference}
    if policy is not None:
        body["policy"] = PULL_WORDS[checked(policy, PullPolicy, "policy")]
    if registry_auth is not None:
        body["registry_auth"] = registry_auth.to_wire()
    if insecure:
        body["insecure"] = True
    return body


def save_stream(pieces: Iterator[bytes], output_path: Union[str, os.PathLike[str]]) -> None:
    """Writes them to a file, which is there whole or not at all."""
    path = os.fspath(output_path)
    part = f"{path}.{secrets.token_hex(4)}.part"
    try:
        with open(part, "xb") as file:
            for piece in pieces:
                _aio.in_thread(file.write, piece)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise
