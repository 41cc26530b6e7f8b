"""Where tables are written that this process writes itself, without Spark: what is wrong with it is said at once."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from group_coordinator.watching.tables.layout import TablesError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def require_writable(directory: str) -> Path:
    """Make the directory. Raises TablesError where it is an address, where it cannot be written, or where pyarrow is
    not installed."""
    if find_spec("pyarrow") is None:
        raise TablesError("Tables need the extra tables (pyarrow is missing): install the package pyarrow.")
    if _ADDRESS.match(directory):
        raise TablesError(f"Tables at {directory} are written by Spark alone. Name a directory of this machine.")
    path = Path(directory)
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(path, os.W_OK | os.X_OK)
    except OSError as problem:
        raise TablesError(f"Tables cannot be written to {directory}: {problem.strerror}.") from problem
    if not is_writable:
        raise TablesError(f"Tables cannot be written to {directory}: it may not be written.")
    return path
