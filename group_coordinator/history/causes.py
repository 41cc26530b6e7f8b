"""A rebalance has a chain of causes: each record was caused by the one before it.

The core's chain of cause runs from record to record within one step (one request, one timer). What happened in earlier
steps of a rebalance that was cut short is told by that rebalance: `RebalanceStarted.interrupts` names it.
"""

from __future__ import annotations

from typing import TypeVar

from schemas.history import HistoryRecord

Kept = TypeVar("Kept")

Chain = list[tuple[int, Kept]]
"""For each record its `seq`, and what a view keeps of it."""


def extend_chain(chain: Chain[Kept], record: HistoryRecord, item: Kept) -> Chain[Kept]:
    """Return the chain with a record at its end, or a new chain if the last record did not cause it."""
    if chain and record.caused_by == chain[-1][0]:
        chain.append((record.seq, item))
        return chain
    return [(record.seq, item)]


def chain_before(chain: Chain[Kept], caused_by: int | None) -> Chain[Kept]:
    """Return the chain if it ends with the record `caused_by`."""
    return chain if chain and chain[-1][0] == caused_by else []
