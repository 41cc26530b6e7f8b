"""The settings of commands that run the coordinator, or replay a log as it does."""

from __future__ import annotations

from group_coordinator.command_line.options import Resolved
from streaming.config import StreamingConfig

Settings = Resolved[StreamingConfig]
