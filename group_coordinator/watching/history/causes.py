"""A rebalance has a chain of causes: each record was caused by the one before it.

The core's chain of cause runs from record to record within one step (one request, one timer). What happened in earlier
steps of a rebalance that was cut short is told by that rebalance: `RebalanceStarted.interrupts` names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from schemas.consumer_group_history import GroupConverted
from schemas.history import HistoryRecord

Kept = TypeVar("Kept")

Chain = list[tuple[int, Kept | None]]
"""For each record its `seq`, and what a view keeps of it.

None: the record is no cause itself. The record before it caused it, and the next record may name it as its cause.
"""


def extend_chain(chain: Chain[Kept], record: HistoryRecord, item: Kept) -> Chain[Kept]:
    """Return the chain with a record at its end, or a new chain if the last cause did not lead to it."""
    chain = [link for link in chain if link[1] is not None] if _leads_to(chain, record.caused_by) else []
    chain.append((record.seq, item))
    if isinstance(record, GroupConverted) and record.caused_by is not None:
        # A conversion comes between what led to it and the rebalance that this leads to.
        chain.append((record.caused_by, None))
    return chain


def pass_on(chain: Chain[Any], record: HistoryRecord) -> None:
    """Put a record that is no cause at the end of the chain, if the last cause led to it.

    When a group goes over to another protocol, what its members own is told before the member that came.
    """
    if _leads_to(chain, record.caused_by):
        if chain[-1] == (record.caused_by, None):
            chain.pop()
        chain.append((record.seq, None))


def chain_before(chain: Sequence[tuple[int, Kept | None]], caused_by: int | None) -> list[tuple[int, Kept]]:
    """Return the causes in the chain if it leads to what the record `caused_by` led to."""
    return [(seq, item) for seq, item in chain if item is not None] if _leads_to(chain, caused_by) else []


def _leads_to(chain: Sequence[tuple[int, object]], caused_by: int | None) -> bool:
    """Return whether this record is the last cause in the chain, or one that it led to."""
    for seq, item in reversed(chain):
        if seq == caused_by:
            return True
        if item is not None:
            return False
    return False
