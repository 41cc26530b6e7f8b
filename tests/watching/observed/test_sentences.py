"""Every record that only watched groups have is in some recording, and has its sentence."""

from __future__ import annotations

from datetime import UTC
from itertools import product
from typing import get_args

from group_coordinator.watching.commands.summary import Summary
from group_coordinator.watching.narrative import sentences
from group_coordinator.watching.narrative.rebalances import headline, rebalances
from group_coordinator.watching.observed.cluster import observe
from schemas.consumer_group_history import ConsumerGroupHistory
from schemas.history import History, RebalanceCompleted, RebalanceStarted
from schemas.observed_history import ObservedHistory
from schemas.transaction_history import TransactionHistory
from tests.watching.observed.commits import commit, marker
from tests.watching.observed.recorded import CLUSTERS, observed

NAMES = sorted(path.name.removesuffix(".truth.jsonl.gz") for path in CLUSTERS.glob("*.truth.jsonl.gz"))


def everything() -> list[History]:
    """What the recordings have, and what is in none of them: a commit in a transaction that a later one replaced."""
    recorded = (observed(name, with_logs=logs) for name, logs in product(NAMES, (True, False)))
    replaced = observe([commit(0, 9, 42), commit(1, 6), marker(2, "COMMIT", 42)], (), {})
    return [record for each in (*recorded, replaced) for record in each.history]


def test_the_recordings_have_every_type_of_record() -> None:
    kinds = get_args(TransactionHistory | ConsumerGroupHistory | ObservedHistory)
    assert {type(record) for record in everything()} >= set(kinds)


def test_every_sentence_names_who_and_none_shows_python() -> None:
    for record in everything():
        text = sentences.sentence(record)
        assert text == text.strip()
        for python in ("None", "(", "<", "{"):
            assert not text.startswith(python), text
        assert "None" not in text, text


def test_every_record_says_where_it_was_seen() -> None:
    for record in everything():
        assert record.cause.kind == "observed"
        (evidence,) = record.cause.evidence
        told_by_log = evidence.source == "broker_log"
        assert (evidence.line is not None) is told_by_log
        assert (record.cause.offset >= 0) is not told_by_log


def test_a_rebalance_whose_begin_nobody_tells_has_no_duration() -> None:
    for with_logs in (False, True):
        history = observed("old-3.9", with_logs=with_logs).history
        begun = {record.seq: record for record in history if isinstance(record, RebalanceStarted)}
        ended = [record for record in history if isinstance(record, RebalanceCompleted)]
        assert ended
        for end in ended:
            is_begin_known = begun[end.rebalance].cause.certainty == "told"
            assert is_begin_known is with_logs
            assert (" after " in sentences.sentence(end)) is is_begin_known
        for group_id in {record.group_id for record in history}:
            for rebalance in rebalances(record for record in history if record.group_id == group_id):
                assert (" after " in headline(rebalance, UTC)) is with_logs
        summary = Summary()
        for record in history:
            summary.add(record)
        assert any(line == "Slowest rebalances" for line in summary.lines()) is with_logs
