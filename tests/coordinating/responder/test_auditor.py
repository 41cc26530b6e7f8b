"""The auditor without Kafka: every difference is found once, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from group_coordinator.coordinating.commands.own_responders import audit_values
from group_coordinator.coordinating.responder import auditor
from group_coordinator.coordinating.responder.auditor import Auditor, AuditorThread
from group_coordinator.ground.kafka_topics.errors import TopicReadError
from group_coordinator.ground.monitoring import metrics
from schemas.query_progress import DECIDED_AT_HEADER, WRITER_HEADER, AnswerDifference
from streaming.stored_group import CommittedBatch
from streaming.watcher import ShardProgress
from tests.coordinating.responder.messages import AnswerMessage

END = 1_000


class Audit:
    """An auditor of shard 0, fed by hand."""

    def __init__(self, remembered_max: int = 1_000, begin: CommittedBatch | None = None) -> None:
        self.differences: list[AnswerDifference] = []
        begins = {} if begin is None else {0: begin}
        self.auditor = Auditor({0: "hash"}, self.differences.append, remembered_max, begins=begins)
        self.offset = 0

    def query(self, seq: int, value: bytes = b"answer", partition: int = 0) -> None:
        self._take(seq, value, partition, {})

    def responder(
        self, seq: int, value: bytes = b"answer", partition: int = 0, decided_at: int = 10, writer: str = "responder-0"
    ) -> None:
        self._take(seq, value, partition, {WRITER_HEADER: writer, DECIDED_AT_HEADER: str(decided_at)})

    def committed(self, start_offset: int, end_offset: int) -> None:
        self.auditor.batch_ended(
            ShardProgress(
                shard=0, batch_id=1, batch_ms=1, phases_ms={}, events=1, events_per_second=1.0,
                start_offset=start_offset, end_offset=end_offset, groups=1, state_memory_bytes=0, state_disk_bytes=0,
                clock_ms=1, clock_lag_ms=1,
            )
        )  # fmt: skip

    def look(self, end: int | None = None) -> None:
        self.auditor.look_for_missing(lambda partition: self.offset if end is None else end)

    def _take(self, seq: int, value: bytes, partition: int, headers: dict[str, str]) -> None:
        headers = {"epoch": "7", "seq": str(seq), **headers}
        self.auditor.take(AnswerMessage(partition, self.offset, b"request", value, headers))
        self.offset += 1


def test_equal_answers_are_counted_by_who_was_first() -> None:
    audit = Audit()
    audit.responder(1)
    audit.query(1)
    audit.query(2)
    audit.responder(2)
    audit.query(3)  # nobody else has answered
    assert (audit.auditor.counts.compared, audit.auditor.counts.responder_first) == (2, 1)
    assert not audit.differences


def test_repeats_of_either_side_and_a_second_responder_change_nothing() -> None:
    audit = Audit()
    for _ in range(2):
        audit.responder(1)
        audit.query(1)
    audit.responder(1)
    assert audit.auditor.counts.compared == 1
    assert not audit.differences


@pytest.mark.parametrize("query_is_first", [True, False])
def test_what_a_gateway_has_written_for_a_responder_is_compared(query_is_first: bool) -> None:
    audit = Audit()
    for seq, value in ((1, b"answer"), (2, b"other")):
        if query_is_first:
            audit.query(seq)
        audit.responder(seq, value, writer="gateway-0")
        if not query_is_first:
            audit.query(seq)
    assert audit.auditor.counts.compared == 2
    assert [(difference.shard, difference.seq) for difference in audit.differences] == [(0, 2)]


@pytest.mark.parametrize("query_is_first", [True, False])
@pytest.mark.parametrize("difference", [{"value": b"other"}, {"partition": 1}])
def test_other_bytes_or_another_partition_are_a_difference(query_is_first: bool, difference: dict[str, object]) -> None:
    audit = Audit()
    if query_is_first:
        audit.query(1)
    audit.responder(1, **difference)  # type: ignore[arg-type]
    if not query_is_first:
        audit.query(1)
    (found,) = audit.differences
    assert (found.shard, found.request_id, found.epoch, found.seq) == (0, "request", 7, 1)
    assert (found.core_hash, found.query_offset, found.responder_offset) == (
        "hash", 0 if query_is_first else 1, 1 if query_is_first else 0,
    )  # fmt: skip
    assert (audit.auditor.counts.differences, audit.auditor.counts.differed_shards) == (1, {0})


@pytest.mark.parametrize("wrong_is_first", [True, False])
def test_each_of_several_responders_is_compared(wrong_is_first: bool) -> None:
    audit = Audit()
    for value in (b"other", b"answer") if wrong_is_first else (b"answer", b"other"):
        audit.responder(1, value)
    audit.query(1)
    assert audit.auditor.counts.differences >= 1


def test_an_answer_that_the_query_should_have_given_is_a_difference_once_all_was_read() -> None:
    audit = Audit()
    audit.committed(0, 5)
    audit.responder(1, decided_at=10)
    audit.committed(5, 11)  # what the event at 10 decides by its tick is answered with the next batch
    audit.look()
    audit.look()
    assert not audit.differences
    audit.committed(11, 20)
    audit.look(end=3)  # the answer may lie before this end, which is not read yet
    audit.look(end=3)
    assert not audit.differences
    audit.query(2)
    audit.query(3)
    audit.look()
    (found,) = audit.differences
    assert found.query_offset is None
    audit.look()
    assert len(audit.differences) == 1


def test_an_answer_that_comes_before_the_end_is_none() -> None:
    audit = Audit()
    audit.committed(0, 5)
    audit.responder(1, decided_at=10)
    audit.committed(11, 20)
    audit.look(end=2)
    audit.query(1)
    audit.look(end=2)
    audit.look(end=2)
    assert not audit.differences


def test_the_ends_of_topics_are_asked_for_answers_that_are_overdue_alone() -> None:
    audit = Audit()
    asked: list[int] = []

    def end_of(partition: int) -> int:
        asked.append(partition)
        return 1_000_000

    audit.committed(0, 5)
    for seq in range(100):
        audit.responder(seq, decided_at=10 + seq)
        audit.auditor.look_for_missing(end_of)
    audit.committed(11, 200)
    for _ in range(10):
        audit.auditor.look_for_missing(end_of)
    assert asked == [0]


@pytest.mark.parametrize("end", [1_000_000, None])
def test_each_look_asks_for_an_end_once_and_for_none_after_one_that_is_not_known(end: int | None) -> None:
    """Where Kafka is away, each question takes as long as it may: an audit that is to end waits for all of them."""
    audit = Audit()
    asked: list[int] = []

    def end_of(partition: int) -> int | None:
        asked.append(partition)
        return end

    audit.committed(0, 5)
    for seq in range(100):
        audit.responder(seq, partition=seq % 4, decided_at=10)
    audit.committed(11, 200)
    audit.auditor.look_for_missing(end_of)
    assert asked == ([0] if end is None else [0, 1, 2, 3])


def test_what_was_decided_before_the_audit_began_is_not_missed() -> None:
    audit = Audit()
    audit.committed(5, 11)
    audit.responder(1, decided_at=10)
    audit.committed(11, 20)
    audit.look()
    audit.look()
    assert not audit.differences


def test_answers_of_other_shards_and_writers_are_for_others_to_compare() -> None:
    audit = Audit()
    audit.query(1)
    audit.responder(1, b"other", writer="responder-1")
    audit.responder(1, b"other", writer="responder-x")
    assert not audit.differences


def test_what_is_remembered_has_a_bound_and_what_is_forgotten_is_counted() -> None:
    audit = Audit(remembered_max=10)
    chance = random.Random(1)
    for seq in range(1, 101):
        (audit.responder if chance.random() < 0.5 else audit.query)(seq)
    assert audit.auditor.counts.forgotten > 30
    assert not audit.differences


def test_answers_of_the_query_push_out_none_that_wait_for_it() -> None:
    """A query that was away gives them in the order in which they wait."""
    audit = Audit(remembered_max=10)
    for seq in range(30):
        audit.responder(seq)
    for seq in range(30):
        audit.query(seq)
    assert (audit.auditor.counts.compared, audit.auditor.counts.forgotten) == (10, 20)
    assert not audit.differences


def test_who_comes_long_after_the_query_is_not_missed() -> None:
    """A responder that stood still goes on where it stood: what the query has answered may be forgotten by then."""
    audit = Audit(remembered_max=10)
    audit.committed(0, 5)
    for seq in range(30):
        audit.query(seq)
    audit.committed(100, 200)
    for seq in range(30):
        audit.responder(seq, decided_at=10 + seq)
    audit.look()
    audit.look()
    assert not audit.differences
    assert (audit.auditor.counts.compared, audit.auditor.counts.forgotten) == (10, 20)


def test_answers_of_others_end_the_wait_for_the_querys(  # the last record of a partition may be one of them
) -> None:
    audit = Audit()
    audit.committed(0, 5)
    audit.responder(1, decided_at=10)
    audit.responder(2, writer="responder-1")
    audit.committed(11, 20)
    audit.look()
    audit.look()
    assert [difference.seq for difference in audit.differences] == [1]


def test_answers_that_were_not_compared_are_told(caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit(remembered_max=2)
    for seq in range(5):
        audit.responder(seq)
    values = {value.metric: value.value for value in audit_values(audit.auditor.counts)}
    assert values[metrics.RESPONDER_FORGOTTEN] == 3
    assert caplog.text.count("not compared") == 1


def test_what_a_responder_answered_while_the_query_was_away_is_compared_and_missed() -> None:
    audit = Audit(begin=CommittedBatch(7, 90, 100, 1))
    audit.responder(1, decided_at=89)  # the query has answered that before
    audit.responder(2, b"other", decided_at=95)
    audit.responder(3, decided_at=99)  # the same batch has decided it, so it may lie before
    audit.responder(4, decided_at=100)
    audit.query(2)
    assert len(audit.differences) == 1
    audit.committed(END, END + 1)
    audit.look()
    audit.look()
    assert [difference.seq for difference in audit.differences] == [2, 4]


def test_headers_that_are_no_numbers_end_nothing() -> None:
    audit = Audit()
    audit.responder(1, writer=f"responder-{'9' * 5_000}")
    audit.responder(int("9" * 18))
    assert not audit.differences


def test_an_audit_that_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    on_failure: list[Callable[[TopicReadError], None]] = []

    class Follower:
        def __init__(self, *_: object, **callbacks: Any) -> None:
            on_failure.append(callbacks["on_failure"])

    monkeypatch.setattr(auditor, "TopicFollower", Follower)
    thread = AuditorThread(Audit().auditor, {}, "responses", 1)
    thread.require_alive()
    on_failure[0](TopicReadError("it is read no more"))
    with pytest.raises(TopicReadError, match="no more"):
        thread.require_alive()


def forged(audit: Audit, seq: int, value: bytes) -> None:
    """An answer that somebody else writes, who names nobody as its writer."""
    audit.query(seq, value)


@pytest.mark.parametrize("forged_first", [True, False])
@pytest.mark.parametrize("forged_seq", [1, 9])
def test_two_different_answers_to_a_request_are_seen_whoever_wrote_them(forged_first: bool, forged_seq: int) -> None:
    audit = Audit()
    for is_forged in (forged_first, not forged_first):
        if is_forged:
            forged(audit, forged_seq, b"forged")
        else:
            audit.query(1, b"true")
    assert audit.auditor.counts.contradicted == 1
    ((_, _, differences),) = [
        value for value in audit_values(audit.auditor.counts) if value.metric == metrics.RESPONDER_DIFFERENCES
    ]
    assert differences == 1


def test_a_forged_answer_ahead_of_the_responders_is_seen() -> None:
    audit = Audit()
    forged(audit, 9, b"forged")
    audit.responder(1, b"true")
    audit.query(1, b"true")
    assert audit.auditor.counts.contradicted == 2  # with the responder's and with the query's
    assert audit.differences == []


def test_a_repeated_batch_is_no_contradiction_and_memory_is_bounded() -> None:
    audit = Audit(remembered_max=10)
    for _ in range(2):
        for seq in range(100):
            audit.auditor.take(AnswerMessage(0, 0, b"r%d" % seq, b"%d" % seq, {"epoch": "7", "seq": str(seq)}))
    assert (audit.auditor.counts.contradicted, audit.auditor.remembered_requests) == (0, 10)


def test_what_is_settled_takes_less_room_than_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditor, "SETTLED_ANSWERS_MAX", 5)
    audit = Audit(remembered_max=100)
    for answer in (audit.responder, audit.query):
        for seq in range(20):
            answer(seq, b"answer")
    assert (audit.auditor.counts.compared, audit.auditor.counts.forgotten, audit.differences) == (20, 0, [])
    for seq in range(20):
        audit.auditor.take(AnswerMessage(0, 0, b"r%d" % seq, b"", {"epoch": "7", "seq": str(seq)}))
    assert audit.auditor.remembered_requests == 5
