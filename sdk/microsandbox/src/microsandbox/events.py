"""`microsandbox.events`."""

from __future__ import annotations

from cay.enums import ExecEventType as ExecEventType
from cay.enums import PullEventType as PullEventType
from cay.execution import *  # noqa: F403
from cay.records import *  # noqa: F403
