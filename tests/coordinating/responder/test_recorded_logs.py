"""Histories of Kafka's own classes and recordings of real brokers: what the core does, and what a responder answers."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from coordinator_state import (
    Answer,
    Coordinator,
    GroupConfig,
    GroupEvent,
    Output,
    RequestEvent,
    TopicsDeletedEvent,
    TransactionEndedEvent,
)
from coordinator_state.outputs import MetadataEvent
from group_coordinator.coordinating.responder.answering import AnsweringShard
from group_coordinator.proving.recordings.events_import import EventsImport
from schemas.events import TopicsDeleted, encode_json, encode_request_event, encode_tick
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from schemas.ticks import NO_CLOCK
from streaming.config import StreamingConfig
from streaming.operator_config import OperatorConfig
from streaming.stored_group import ShardState
from tests.coordinating.responder.query_batches import answers_of_the_query, states_after_batches
from tests.proving.recordings.broker_logs import CLUSTERS, FIXTURES, RECORDINGS, followed, request_logs_of
from tests.streaming.replays import output_order
from tests.verify_history import histories
from tests.verify_history.histories import verify_histories

HISTORIES = [*sorted((FIXTURES / "histories").glob("*.gz")), *sorted((FIXTURES / "consumer_histories").glob("*.gz"))]
LOGS = [*([path] for path in RECORDINGS), *map(request_logs_of, CLUSTERS)]
EMPTY = ShardState(batch_id=-1, start_offset=0, end_offset=0, clock_ms=NO_CLOCK, groups={})
STATES = 5
"""From so many states of the query in a log a responder begins, besides the beginning."""


class LoggingCoordinator(Coordinator):
    """Keeps what it is told as the records of a log, and what it answers."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__(config)
        self.log: list[Record] = []
        self.answers: list[Answer] = []
        self._clock_ms = NO_CLOCK

    def advance_to(self, clock_ms: int) -> list[Output]:
        if clock_ms > self._clock_ms:
            self._clock_ms = clock_ms
            self._append(None, encode_tick(clock_ms))
        return self._said(super().advance_to(clock_ms))

    def handle(self, group_id: str, event: GroupEvent) -> list[Output]:
        outputs = self.advance_to(event.clock_ms)
        self._append(group_id.encode(), _as_value(event))
        return outputs + self._said(super().handle(group_id, event))

    def _append(self, key: bytes | None, value: bytes) -> None:
        offset = len(self.log)
        self.log.append(Record(partition=0, offset=offset, timestamp_ms=self._clock_ms, key=key, value=value))

    def _said(self, outputs: list[Output]) -> list[Output]:
        self.answers += [output for output in outputs if isinstance(output, Answer)]
        return outputs


def _as_value(event: GroupEvent) -> bytes:
    match event:
        case RequestEvent():
            envelope = event.envelope
            return encode_request_event(
                envelope.api, envelope.api_version, event.request, request_id=envelope.request_id,
                reply_partition=envelope.reply_partition, client_id=envelope.client_id,
                client_host=envelope.client_host, new_member_id=envelope.new_member_id,
                topic_metadata=envelope.topic_metadata or UNSET,
            )  # fmt: skip
        case MetadataEvent():
            return encode_json(event.fact)
        case TopicsDeletedEvent():
            return encode_json(TopicsDeleted(topics=event.topics))
        case TransactionEndedEvent():
            return encode_json(event.ended)
    raise AssertionError(event)


def require_equal_answers(log: Sequence[Record], group: GroupConfig) -> list[OutputRecord]:
    """Fails unless a responder says what the query says, from the beginning and from states of the query."""
    config = replace(StreamingConfig().operator_config(), group=group)
    expected = answers_of_the_query(log, config)
    said, said_before = [], [0]
    shard = AnsweringShard(config, EMPTY)
    for record in log:
        said += taken(shard, record)
        said_before.append(len(said))
    assert sorted(said, key=output_order) == sorted(expected, key=output_order)
    whole = set(map(hashable, said))
    for state in some_states(log, config):
        shard = AnsweringShard(config, state)
        from_state = [answer for record in log[state.start_offset :] for answer in taken(shard, record)]
        assert not [answer for answer in from_state if hashable(answer) not in whole]
        of_groups = by_group(from_state)
        for group_id, rest in by_group(said[said_before[state.end_offset] :]).items():
            # What the timers say that were due in the state's own batch comes first, unless the query has fired them.
            assert of_groups[group_id][-len(rest) :] == rest, (state.batch_id, group_id)
    return said


def taken(shard: AnsweringShard, record: Record) -> list[OutputRecord]:
    return shard.take(record.key, record.value, record.offset or 0, record.timestamp_ms or 0)


def hashable(answer: OutputRecord) -> tuple[object, ...]:
    return (*answer[:4], *answer.headers.items())


def by_group(answers: Sequence[OutputRecord]) -> dict[str, list[OutputRecord]]:
    groups: dict[str, list[OutputRecord]] = defaultdict(list)
    for answer in answers:
        groups[group_of(answer.value or b"")].append(answer)
    return groups


@lru_cache(100_000)
def group_of(value: bytes) -> str:
    """The group of an answer, which is asked for again after each state."""
    return str(json.loads(value)["group_id"])


def some_states(log: Sequence[Record], config: OperatorConfig) -> list[ShardState]:
    return states_after_batches(log, config, len(log) // (STATES + 1) + 1)[:STATES]


def without_its_place(value: bytes) -> str:
    """An answer without its places in the log, where requests have other offsets than steps in a history."""
    document = json.loads(value)
    return json.dumps({name: field for name, field in document.items() if name not in ("epoch", "answers_offset")})


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: f"{path.parent.name}-{path.name.split('.')[0]}")
def test_histories(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core reproduces what Kafka's own coordinators did, to the millisecond and the byte: every answer, record and
    state. A responder answers the same."""
    coordinators: list[LoggingCoordinator] = []

    def make(config: GroupConfig) -> LoggingCoordinator:
        coordinators.append(LoggingCoordinator(config))
        return coordinators[-1]

    monkeypatch.setattr(histories, "Coordinator", make)
    report = verify_histories([path])
    assert report.steps > 100
    assert report.answers > 50
    assert [line for difference in report.differences[:3] for line in difference.lines()] == []
    assert len(coordinators) == report.histories
    for coordinator in coordinators:
        said = require_equal_answers(coordinator.log, coordinator.config)
        told = (encode_json(answer.document()) for answer in coordinator.answers)
        assert Counter(without_its_place(answer.value or b"") for answer in said) == Counter(
            map(without_its_place, told)
        )


@pytest.mark.parametrize("paths", LOGS, ids=lambda paths: paths[0].name.split(".")[0])
def test_recordings_of_real_brokers(paths: list[Path]) -> None:
    following = followed(*paths)
    said = require_equal_answers(list(EventsImport(following)), following.settings.config)
    assert said
