"""The tests need a daemon: the one of CAY_HOST, else the usual one."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Iterator

import pytest

import cay
import cay.sync


@pytest.fixture
def run() -> Callable[[Any], Any]:
    """Runs a coroutine to its end."""
    return asyncio.run


@pytest.fixture
def daemon() -> Iterator[cay.sync.Client]:
    """A client of the daemon that blocks."""
    with cay.sync.Client() as client:
        yield client


@pytest.fixture
def box(daemon: cay.sync.Client) -> Iterator[cay.sync.Sandbox]:
    """A sandbox that is gone afterwards, whatever happened to it."""
    made = cay.sync.create_sandbox(client=daemon)
    yield made
    try:
        daemon.api.sandbox_kill(made.id)
    except cay.SandboxNotFoundError:
        pass
