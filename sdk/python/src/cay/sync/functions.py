# Made from cay/functions.py by tools/unasync.py: change that one.
"""Sandboxes by function: for those who want one call, and for those who come from other clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence

from ._http import Client, default_client
from .sandbox import Sandbox

if TYPE_CHECKING:
    from cay import _models as m
    from cay.execution import ExecOutput

__all__ = ["create_sandbox", "get_sandbox", "list_sandboxes", "list_templates", "run", "run_many"]

PAGE = 200


def _client(client: Optional[Client], base_url: Optional[str], token: Optional[str]) -> Client:
    return client or default_client(base_url, token)


def create_sandbox(
    image: Optional[str] = None,
    name: Optional[str] = None,
    *,
    timeout: Optional[int] = None,
    memory: Optional[int] = None,
    cpu: Optional[float] = None,
    network: Any = None,
    env: Optional[Mapping[str, str]] = None,
    workdir: Optional[str] = None,
    metadata: Optional[Mapping[str, str]] = None,
    entrypoint: Optional[Sequence[str]] = None,
    template: Optional[str] = None,
    unique: Optional[bool] = None,
    base_url: Optional[str] = None,
    token: Optional[str] = None,
    client: Optional[Client] = None,
    **more: Any,
) -> Sandbox:
    """Makes a sandbox and starts it. Without an image or a template it is the machine's own programs (`host`).

    `more` is whatever else `client.api.sandbox_create` takes: pids, disk, networks, volumes, tmpfs, ports, patches, pull…
    """
    used = _client(client, base_url, token)
    if image is None and template is None:
        image = "host"
    info = used.api.sandbox_create(
        image=image,
        name=name,
        timeout=timeout,
        memory=memory,
        cpu=cpu,
        network=network,
        env=env,
        workdir=workdir,
        metadata=metadata,
        entrypoint=None if entrypoint is None else [*entrypoint],
        template=template,
        unique=unique,
        **more,
    )
    return Sandbox._from(used, info.to_dict())


def get_sandbox(
    sandbox_id: str,
    *,
    base_url: Optional[str] = None,
    token: Optional[str] = None,
    client: Optional[Client] = None,
) -> Sandbox:
    """The sandbox with this id or name."""
    used = _client(client, base_url, token)
    info = used.api.sandbox_get(sandbox_id)
    return Sandbox._from(used, info.to_dict())


def list_sandboxes(
    *,
    status: Optional[str] = None,
    metadata: Optional[Mapping[str, str]] = None,
    base_url: Optional[str] = None,
    token: Optional[str] = None,
    client: Optional[Client] = None,
) -> List[Sandbox]:
    """All sandboxes, or those with that status and all of those entries in their metadata; the newest first."""
    used = _client(client, base_url, token)
    found: List[Sandbox] = []
    cursor: Optional[int] = None
    while True:
        page = used.api.sandbox_list(status=status, metadata=metadata, page_size=PAGE, cursor=cursor)
        found += [Sandbox._from(used, info.to_dict()) for info in page.items]
        cursor = page.next_cursor
        if not cursor:
            return found


def list_templates(
    *, base_url: Optional[str] = None, token: Optional[str] = None, client: Optional[Client] = None
) -> List[m.Template]:
    """What sandboxes can be made from by one word."""
    return (_client(client, base_url, token).api.template_list()).templates


def run(command: str, *, timeout: Optional[float] = None, **create: Any) -> ExecOutput:
    """Runs one command in a sandbox of its own, which is gone afterwards. `create` is what Sandbox.create takes."""
    with Sandbox.create(**create) as box:
        return box.execute(command, timeout=timeout)


def run_many(commands: Sequence[str], *, timeout: Optional[float] = None, **create: Any) -> List[ExecOutput]:
    """Runs commands one after the other in one sandbox, until one fails; its result is the last."""
    with Sandbox.create(**create) as box:
        return box.execute_many(commands, timeout=timeout)
