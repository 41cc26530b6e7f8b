"""What the metrics take from the output topics, record by record."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Message

from group_coordinator.coordinating.operations import topics_reader
from group_coordinator.coordinating.operations.group_log import GroupLog
from group_coordinator.coordinating.operations.topics_reader import TopicsReader
from group_coordinator.ground.monitoring import metrics as m
from schemas.query_progress import WRITER_HEADER
from tests.coordinating.operations.records import log, outputs
from tests.coordinating.operations.tally_bench import TOPICS, bench
from tests.coordinating.responder.messages import AnswerMessage


def answers() -> list[tuple[bytes, bytes, dict[str, str]]]:
    records = [record for record in outputs(log()) if record.topic == TOPICS.responses]
    assert len(records) > 3
    return [(record.key or b"", record.value or b"", record.headers) for record in records]


class Follower:
    """Is there to be told by a test what has come."""

    def __init__(self, _: object, name: str, take: Callable[[list[Message]], None], **__: object) -> None:
        self.take = take


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_reader, "TopicFollower", Follower)


def counted(*messages: Message) -> int:
    """The number of answers."""
    tallied = bench()
    reader = TopicsReader({}, TOPICS, (0,), tallied.tally, GroupLog(), for_metrics=True)
    assert isinstance(reader.follower, Follower)
    reader.follower.take([*messages])
    families = {family.name: family for family in tallied.metrics.registry.collect()}
    samples = families[m.ANSWERS.name.removesuffix("_total")].samples
    return int(sum(sample.value for sample in samples if sample.name == m.ANSWERS.name))


def test_an_answer_that_a_gateway_has_written_hides_none_of_the_query() -> None:
    """It comes before those that precede it."""
    last = answers()[-1]
    by_gateway = AnswerMessage(0, 0, last[0], last[1], {**last[2], WRITER_HEADER: "gateway-0"})
    by_query = [AnswerMessage(0, number, *answer) for number, answer in enumerate(answers(), start=1)]
    assert counted(by_gateway, *by_query) == counted(*by_query) == len(by_query)


def test_an_answer_counts_once_whoever_of_query_and_responder_says_it_first() -> None:
    by_responder = [
        AnswerMessage(0, number, key, value, {**headers, WRITER_HEADER: "responder-0"})
        for number, (key, value, headers) in enumerate(answers())
    ]
    by_query = [AnswerMessage(0, number + 100, *answer) for number, answer in enumerate(answers())]
    assert counted(*by_responder, *by_query) == len(by_query)
