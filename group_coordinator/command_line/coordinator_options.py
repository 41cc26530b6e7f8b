"""The settings of commands that run the coordinator, or replay a log as it does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from group_coordinator.command_line.options import Resolved, load_as
from streaming.config import StreamingConfig

Settings = Resolved[StreamingConfig]


def load(flags: Mapping[str, Any], file: Path | None) -> Settings:
    """Load the coordinator's settings; see `load_as`."""
    return load_as(StreamingConfig, flags, file)
