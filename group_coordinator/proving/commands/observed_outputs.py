"""The outputs of a replay, with the history of groups that were not coordinated again beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from group_coordinator.command_line.replay_output import history_outputs
from schemas.history import History
from schemas.output_records import OutputRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Group = tuple[bytes | None, list[OutputRecord]]
"""The group's key, and its outputs."""


def with_told(groups: Iterable[Group], told: Iterable[History], topic: str) -> Iterator[Group]:
    """Return the outputs of groups that were coordinated again, and the history of those that were not; all in the
    order of their keys."""
    records = ((record.key, record) for record in history_outputs(told, topic))
    others = [(key, [record for _, record in of_group]) for key, of_group in groupby(records, itemgetter(0))]
    others.sort(key=_by_key)
    yield from merge(groups, others, key=_by_key)


def _by_key(group: Group) -> tuple[bool, bytes]:
    return group[0] is not None, group[0] or b""


def with_told_rows(outputs: DataFrame, told: Iterable[History], topic: str) -> DataFrame:
    """Return rows of `OUTPUT_SCHEMA` with the history of groups that were not coordinated again."""
    from streaming.rows import OUTPUT_SCHEMA, output_columns  # its packages come with Spark

    columns = output_columns([(record.key, [record]) for record in history_outputs(told, topic)])
    return outputs.union(outputs.sparkSession.createDataFrame(list(zip(*columns, strict=True)), OUTPUT_SCHEMA))
