"""The names of microsandbox, on a cay daemon. Each is that of `cay`: `microsandbox.Sandbox is cay.Sandbox`."""

from __future__ import annotations

from typing import Any

import cay

__all__ = ["MicrosandboxError", *cay.__all__]


def __getattr__(name: str) -> Any:
    return cay.CayError if name == "MicrosandboxError" else getattr(cay, name)


def __dir__() -> list[str]:
    return sorted(__all__)
