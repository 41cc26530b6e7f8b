"""What consumers have read."""

from __future__ import annotations

from tests.coordinating.gateway.clients.consumers import (
    ConsumerProcess,
)
from tests.waiting import wait_until


def values(*consumers: ConsumerProcess) -> list[int]:
    return sorted(int(read.value) for consumer in consumers for read in list(consumer.records))


def reads(count: int, *consumers: ConsumerProcess) -> None:
    """Wait until these have read so many records together."""
    wait_until(
        lambda: len(values(*consumers)) >= count,
        message=lambda: f"{len(values(*consumers))} of {count} read; {[consumer.events for consumer in consumers]}",
    )
