"""Which transactions a group's offsets wait for, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo

from msgspec import UNSET

from group_coordinator.watching.history.current_group import CurrentGroup, OpenTransaction
from group_coordinator.watching.narrative import words

SHOWN_MAX = 5
"""So many transactions of a group are told one by one, the oldest."""


def oldest_first(group: CurrentGroup) -> list[tuple[int, OpenTransaction]]:
    """Return the open transactions of a group with their producers' ids."""
    return sorted(group.transactions.items(), key=lambda item: item[1].since_ms)


def wait(producer_id: int, transaction: OpenTransaction) -> str:
    """Return which offsets wait for a transaction."""
    of = transaction.transactional_id
    places = words.listed([f"{topic}-{partition}" for topic, partition in transaction.partitions])
    name = "a transaction" if of is UNSET else f"transaction {of}"
    return f"Offsets of {places} wait for {name} of producer {producer_id}"


def waits(group: CurrentGroup, zone: tzinfo = UTC) -> Iterator[str]:
    """Yield a sentence for each transaction that offsets of this group wait for, the oldest first."""
    transactions = oldest_first(group)
    for producer_id, transaction in transactions[:SHOWN_MAX]:
        since = f"{words.day(transaction.since_ms, zone)} {words.clock(transaction.since_ms, zone)}"
        yield f"{wait(producer_id, transaction)} since {since}."
    if len(transactions) > SHOWN_MAX:
        yield f"They wait for {words.count(len(transactions) - SHOWN_MAX, 'transaction')} more."
