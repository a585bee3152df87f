"""What the SDK keeps with a sandbox, and for how long things are waited for."""

from __future__ import annotations

from typing import TypedDict

SETTINGS = "cay.sdk"
"""The entry of a sandbox's metadata in which the SDK keeps what only it knows of: who commands run as, and the like."""
SCRIPTS = "/.msb/scripts"
GRACE_SECONDS = 10.0
IDLE_SECONDS = 60
"""After so long without a sign of life from the process that owns it a sandbox is stopped."""


class Settings(TypedDict, total=False):
    """What is in that entry."""

    user: str
    shell: str
    entrypoint: list[str]
    cmd: list[str]
    max_memory: int
    max_cpus: float
    idle: int  # the idle time that the caller asked for; another one is a lifeline
