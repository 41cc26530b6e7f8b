"""Bugs to plant where offsets are committed in transactions: in the relay, the brokers, the gateway, the group."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.offsets import Offsets
from coordinator_state.requests import offset_fetch
from group_coordinator.coordinating.transactions.fold import GroupEventBytes, TransactionFold
from schemas.error_codes import ErrorCode
from schemas.kafka.record_batches import RawRecord
from simulation.transaction_log import Brokers, Gateway


def a_marker_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    real = TransactionFold._end

    def end(self: TransactionFold, record: RawRecord, *, committed: bool) -> list[GroupEventBytes]:
        events = real(self, record, committed=committed)
        return [] if record.offset % 5 == 0 else events

    monkeypatch.setattr(TransactionFold, "_end", end)


def a_late_copy_is_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in transactions of version 1, which all have the same epoch."""
    monkeypatch.setattr(Brokers, "is_fenced", staticmethod(lambda known_epoch, epoch: False))


def a_stable_fetch_gives_the_older_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_fetch, "_stable", lambda step, group, topics: topics)


def a_sequence_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the brokers' word for it is believed: they drop the second record, and say that all is well."""
    real = Gateway.commit

    def commit(self: Gateway, *arguments: Any) -> int:
        code = real(self, *arguments)
        return ErrorCode.NONE if code is None else code

    monkeypatch.setattr(Gateway, "next_sequence", staticmethod(lambda last: last))
    monkeypatch.setattr(Gateway, "commit", commit)


def a_relay_that_begins_again_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Offsets, "has_seen", lambda self, log: False)
