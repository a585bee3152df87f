"""`microsandbox.errors`."""

from __future__ import annotations

from cay.errors import *  # noqa: F403
from cay.errors import CayError

MicrosandboxError = CayError
