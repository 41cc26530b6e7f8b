"""The function that Spark calls for a key of the state, with rows as lists and outputs as records.

Spark's own way to it (`applyInPandasWithState`) makes pandas frames of every key's rows, state and outputs, which costs
milliseconds for each key that a batch touches. A `StateFunction` needs none of them: Spark may call it with frames, and
`streaming.tuning.state_worker` calls `handle` itself. The outputs are the same. Both ways rows and outputs go through
in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.state import GroupState

from schemas.output_records import OutputRecord
from streaming.arrow_columns import Columns
from streaming.rows import output_frame

GroupRecords = tuple[bytes | None, list[OutputRecord]]
"""The key of a group, and some of what it said."""
Outputs = Iterable[GroupRecords]
Handle = Callable[[tuple[Any, ...], Iterable[Columns], GroupState], Outputs]
"""(grouping key, its rows, its state) -> outputs; the state is done when they have been taken. A key that timed out
has no rows."""


class StateFunction:
    """This function is given to `applyInPandasWithState`."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def __call__(
        self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Spark's way."""
        chunks = () if state.hasTimedOut else map(_columns, frames)
        for group_records in self.handle(key, chunks, state):
            if group_records[1]:
                yield output_frame([group_records])


def _columns(frame: pd.DataFrame) -> Columns:
    return {str(name): frame[name].tolist() for name in frame.columns if name != "tick"}
