"""The tables lie in directories of their own."""

from __future__ import annotations

from typing import Literal

from group_coordinator.ground.errors import ExpectedError
from group_coordinator.watching.tables.rows import Table

Format = Literal["delta", "parquet"]

CHECKPOINT = "_checkpoint"
"""The streaming query's checkpoint, in the directory of the tables: the two belong together."""
CURRENT = "_current"
"""A link to the version of all tables that holds, where they are written anew as a whole."""
WHOLE_HISTORY = 0
"""The batch number of Parquet files that were made of a whole history."""


class TablesError(ExpectedError):
    """The tables cannot be written. The message says why and what to do."""


def table_path(directory: str, table: Table) -> str:
    return f"{directory.rstrip('/')}/{table.name}"


def checkpoint_path(directory: str) -> str:
    return f"{directory.rstrip('/')}/{CHECKPOINT}"


def belongs_to_a_query(directory: str) -> TablesError:
    return TablesError(f"The tables in {directory} are those of a running coordinator. Name another directory.")


def belongs_to_a_watcher(directory: str) -> TablesError:
    return TablesError(f"The tables in {directory} are those of a watched cluster. Name another directory.")
