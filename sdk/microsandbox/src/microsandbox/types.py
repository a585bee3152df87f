"""`microsandbox.types`."""

from __future__ import annotations

from cay.enums import *  # noqa: F403
from cay.execution import *  # noqa: F403
from cay.mounts import *  # noqa: F403
from cay.network import *  # noqa: F403
from cay.patch import *  # noqa: F403
from cay.records import *  # noqa: F403
from cay.secret import *  # noqa: F403
from cay.sizes import *  # noqa: F403
