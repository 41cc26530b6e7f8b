"""The open transactions that offsets of a group wait for, as the API tells them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.history.current_group import CurrentGroup
from group_coordinator.watching.narrative.transactions import SHOWN_MAX, oldest_first, wait


class OpenTransaction(Struct, frozen=True, kw_only=True):
    """A transaction that is open: offsets of the group count when it is committed, and who wants stable ones waits."""

    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    since_ms: int
    topics: dict[str, tuple[int, ...]]
    """The partitions whose offsets wait."""
    text: str
    """The same in words, without the time."""


class OpenTransactions(Struct, frozen=True, kw_only=True):
    """The open transactions of a group."""

    oldest: tuple[OpenTransaction, ...]
    """The first of them, ..."""
    left_out: int
    """... and how many more there are."""


def open_transactions(group: CurrentGroup) -> OpenTransactions:
    """Return the transactions that offsets of the group wait for."""
    oldest = tuple(
        OpenTransaction(
            producer_id=producer_id,
            producer_epoch=each.producer_epoch,
            transactional_id=each.transactional_id or None,
            since_ms=each.since_ms,
            topics=_by_topic(each.partitions),
            text=wait(producer_id, each),
        )
        for producer_id, each in oldest_first(group)[:SHOWN_MAX]
    )
    return OpenTransactions(oldest=oldest, left_out=len(group.transactions) - len(oldest))


def _by_topic(partitions: Iterable[Partition]) -> dict[str, tuple[int, ...]]:
    return {topic: tuple(number for _, number in of) for topic, of in groupby(sorted(partitions), itemgetter(0))}
