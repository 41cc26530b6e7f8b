"""The relay's fold: commits and ends become events in the log's order, whenever it is begun again."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from coordinator_state.offsets import Offsets
from group_coordinator.coordinating.transactions.fold import GroupEventBytes, TransactionFold
from schemas.events import TransactionEnded, decode_group_event, encode_request_event
from schemas.java_hash import group_partition
from schemas.kafka.record_batches import RawRecord
from schemas.messages import HeartbeatRequest, Request, TxnOffsetCommitRequest
from schemas.transaction_messages import (
    TransactionLogPosition,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator_state.harness import GroupHarness

T0 = ("t", 0)
MIB = 1 << 20


def a_commit(group_id: str = "g", offset: int = 5, producer_id: int = 7) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return TxnOffsetCommitRequest(
        transactional_id=f"tx-{producer_id}", group_id=group_id, producer_id=producer_id, producer_epoch=0,
        topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
    )  # fmt: skip


def commit(
    offset: int, group_id: str = "g", *, producer_id: int = 7, committed: int = 5, request: Request | None = None,
    host: str = "/10.0.0.1", principal: str = "User:ANONYMOUS",
) -> RawRecord:  # fmt: skip
    body = request or a_commit(group_id, committed)
    value = encode_request_event(
        "TxnOffsetCommit" if request is None else "Heartbeat", 3, body,
        request_id=f"r{offset}", reply_partition=2, client_id="c", client_host=host, principal=principal,
    )  # fmt: skip
    return RawRecord(offset, 1_000 * offset, 0, group_id.encode(), value, producer_id, 3, True)


def end(offset: int, *, producer_id: int = 7, control: str = "COMMIT") -> RawRecord:
    return RawRecord(offset, 1_000 * offset, 0, b"", b"", producer_id, 4, True, control)


def fold(*, written_to: int = 0, open_bytes_max: int = MIB, partition: int = 0, partitions: int = 1) -> TransactionFold:
    return TransactionFold(partition, partitions, written_to=written_to, open_bytes_max=open_bytes_max)


def taken(folded: TransactionFold, *records: RawRecord) -> list[GroupEventBytes]:
    return [event for record in records for event in folded.take(record)]


def test_a_commit_becomes_the_request_of_its_group_with_the_producer_of_its_batch() -> None:
    (event,) = taken(fold(), commit(3))
    read = decode_group_event("g", event.value)
    assert isinstance(read, tuple)
    envelope, request = read
    assert (envelope.request_id, envelope.reply_partition, envelope.client_host) == ("r3", 2, "/10.0.0.1")
    assert isinstance(request, TxnOffsetCommitRequest)
    assert (request.producer_id, request.producer_epoch) == (7, 3), "not what the body says"
    assert request.log == TransactionLogPosition(partition=0, offset=3)


def test_an_end_is_told_to_each_group_once_in_the_order_of_their_commits() -> None:
    events = taken(fold(), commit(1, "b"), commit(2, "a"), commit(3, "b"), end(4, control="ABORT"), end(5))
    assert [event.group_id for event in events] == ["b", "a", "b", "b", "a"]
    assert [decode_group_event(event.group_id, event.value) for event in events[3:]] == [
        TransactionEnded(
            producer_id=7, producer_epoch=4, committed=False, log=TransactionLogPosition(partition=0, offset=4)
        )
    ] * 2


def test_an_end_of_who_has_committed_nothing_is_no_event() -> None:
    assert taken(fold(), commit(1), end(2, producer_id=8)) != []
    assert taken(fold(), end(1)) == []


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (commit(1)._replace(is_transactional=False), "not part of a transaction"),
        (commit(1)._replace(key=None), "no key"),
        (commit(1)._replace(value=b"{"), "not_an_envelope"),
        (commit(1)._replace(value=None), "no value"),
        (commit(1)._replace(key=b"other"), "group_differs_from_key"),
        (commit(1, request=HeartbeatRequest(group_id="g", generation_id=1, member_id="m")), "but Heartbeat"),
    ],
)
def test_what_no_gateway_wrote_is_no_event_and_told(record: RawRecord, reason: str) -> None:
    folded = fold()
    assert taken(folded, record, end(2)) == []
    assert folded.refusals == 1
    assert folded.refused is not None
    assert reason in folded.refused


def test_a_group_of_another_partition_is_refused() -> None:
    partition = group_partition("g", 4)
    assert len(taken(fold(partition=partition, partitions=4), commit(1))) == 1
    assert taken(fold(partition=(partition + 1) % 4, partitions=4), commit(1)) == []


def test_where_too_much_is_open_a_commit_is_not_taken_and_so_never_answered() -> None:
    folded = fold(open_bytes_max=6_000)
    events = taken(folded, *[commit(number, f"g{number}", producer_id=number) for number in range(100)])
    assert 2 <= len(events) < 10
    assert folded.refusals == 100 - len(events)
    assert folded.open_bytes <= 6_000
    taken(folded, *[end(100 + number, producer_id=number) for number in range(100)])
    assert (folded.open_bytes, folded.open) == (0, {})
    assert len(taken(folded, commit(300))) == 1


def test_a_group_that_opens_very_many_leaves_room_for_others() -> None:
    folded = fold(open_bytes_max=100_000)
    hosts = [f"/10.0.{number}.1" for number in range(1_000)]
    opened = taken(folded, *[commit(at, "greedy", producer_id=at, host=host) for at, host in enumerate(hosts)])
    assert folded.refusals == 1_000 - len(opened) > 0
    assert "its group" in (folded.refused or "")
    others = [commit(2_000 + at, f"g{at}", producer_id=2_000 + at, host=hosts[at]) for at in range(50)]
    assert len(taken(folded, *others)) == 50
    taken(folded, *[end(3_000 + number, producer_id=number) for number in range(1_000)])
    assert len(taken(folded, commit(5_000, "greedy"))) == 1, "it goes on when its transactions have ended"


@pytest.mark.parametrize(("host", "user"), [("/10.0.0.2", "User:ANONYMOUS"), ("/10.0.0.1", "User:greedy")])
def test_a_client_that_opens_very_many_in_very_many_groups_leaves_room_for_others(host: str, user: str) -> None:
    folded = fold(open_bytes_max=100_000)
    greedy = [commit(at, f"g{at}", producer_id=at, host=host, principal=user) for at in range(1_001)]
    opened = taken(folded, *greedy[:-1])
    assert folded.refusals == 1_000 - len(opened) > 0
    assert 36_000 < folded.open_bytes < 40_000, "who is alone gets more than a third"
    assert "its client" in (folded.refused or "")
    assert len(taken(folded, *[commit(2_000 + at, f"h{at}", producer_id=2_000 + at) for at in range(20)])) == 20
    taken(folded, *[end(3_000 + number, producer_id=number) for number in range(1_000)])
    assert len(taken(folded, greedy[-1])) == 1, "it goes on as its own end"


def test_however_many_are_greedy_who_comes_after_them_finds_room() -> None:
    folded, took = fold(open_bytes_max=MIB), []
    for client in range(30):
        records = [commit(at, f"g{client}-{at}", producer_id=1_000 * client + at, principal=f"User:{client}")
                   for at in range(700)]  # fmt: skip
        took.append(len(taken(folded, *records)))
    assert 500 < took[0] < 700
    assert sorted(took, reverse=True) == took
    assert took[-1] > 0
    assert folded.open_bytes < MIB


def test_a_transaction_with_very_many_groups_leaves_room_for_others_and_has_an_end_that_can_be_written() -> None:
    folded = fold(open_bytes_max=100_000)
    opened = taken(folded, *[commit(number, f"g{number}") for number in range(1_000)])
    assert 2 <= len(opened) < 60
    assert folded.refusals == 1_000 - len(opened)
    assert "its transaction" in (folded.refused or "")
    assert len(taken(folded, commit(1_000, "g0"))) == 1, "a group that it has takes no more room"
    others = [commit(2_000 + number, f"h{number}", producer_id=2_000 + number) for number in range(40)]
    assert len(taken(folded, *others)) == 40
    assert len(taken(folded, end(3_000))) == len(opened)
    assert len(taken(folded, commit(4_000, "g999"))) == 1, "it goes on in its next transaction"


def test_it_reads_on_from_the_first_commit_of_what_is_open() -> None:
    folded = fold()
    taken(folded, commit(1), commit(2, producer_id=8), end(3))
    assert folded.resume_offset(4) == 2
    taken(folded, end(4, producer_id=8))
    assert folded.resume_offset(5) == 5


# ------------------------------------------------------------------------------------- all logs, and all interruptions


@st.composite
def logs(draw: st.DrawFn) -> list[RawRecord]:
    """A log as brokers keep it: after its end a producer begins anew; late copies of a commit come in a later one."""
    records: list[RawRecord] = []
    offset = 0
    for _ in range(draw(st.integers(1, 25))):
        producer_id = draw(st.integers(1, 3))
        if draw(st.booleans()):
            group_id = draw(st.sampled_from(["a", "b", "c"]))
            records.append(commit(offset, group_id, producer_id=producer_id, committed=draw(st.integers(0, 9))))
        else:
            control = draw(st.sampled_from(["COMMIT", "ABORT"]))
            records.append(end(offset, producer_id=producer_id, control=control))
        offset += draw(st.integers(1, 3))
    return records


def kafkas(records: list[RawRecord]) -> tuple[dict[str, int], set[str]]:
    """What Kafka's own coordinator has after this log: committed offsets, and groups with pending ones."""
    committed: dict[str, tuple[int, int]] = {}
    pending: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    for record in records:
        if record.control is None:
            assert record.key is not None
            group_id = record.key.decode()
            _, request = decode_request(group_id, record)
            pending[record.producer_id][group_id] = record.offset, request.topics[0].partitions[0].committed_offset
            continue
        for group_id, (at, offset) in pending.pop(record.producer_id, {}).items():
            if record.control == "COMMIT" and at > committed.get(group_id, (-1, 0))[0]:
                committed[group_id] = at, offset
    waiting = {group_id for groups in pending.values() for group_id in groups}
    return {group_id: offset for group_id, (_, offset) in committed.items()}, waiting


def decode_request(group_id: str, record: RawRecord) -> tuple[object, TxnOffsetCommitRequest]:
    read = decode_group_event(group_id, record.value)
    assert isinstance(read, tuple)
    assert isinstance(read[1], TxnOffsetCommitRequest)
    return read[0], read[1]


class Groups:
    """The machines of the groups, fed with what relays write."""

    def __init__(self) -> None:
        self.harnesses: dict[str, GroupHarness] = {}

    def take(self, events: list[GroupEventBytes]) -> None:
        for event in events:
            harness = self.harnesses.setdefault(event.group_id, GroupHarness(group_id=event.group_id))
            read = decode_group_event(event.group_id, event.value)
            if isinstance(read, TransactionEnded):
                log_offset = None if read.log is None else read.log.offset
                harness.end_transaction(read.producer_id, committed=read.committed, log_offset=log_offset)
            else:
                assert isinstance(read, tuple)
                harness.send("TxnOffsetCommit", read[1], 3)

    def state(self) -> tuple[dict[str, int], set[str]]:
        committed, waiting = {}, set()
        for group_id, harness in self.harnesses.items():
            offsets = Offsets() if harness.group is None else harness.group.offsets
            found = offsets.get(*T0)
            if found is not None:
                committed[group_id] = found.offset
            if offsets.has_pending:
                waiting.add(group_id)
        return committed, waiting


class Relay:
    """A relay as `ShardRelay` is one: it reads from the first commit of what is open, and writes from its position."""

    def __init__(self, log: list[RawRecord], position: tuple[int, int], kind: type[TransactionFold]) -> None:
        self.resume_offset, self.written_to = position
        self.fold = kind(0, 1, written_to=self.written_to, open_bytes_max=MIB)
        self.records = [record for record in log if record.offset >= self.resume_offset]
        self.next_offset = self.resume_offset

    def read(self, count: int) -> list[GroupEventBytes]:
        records, self.records = self.records[:count], self.records[count:]
        if records:
            self.next_offset = records[-1].offset + 1
        return taken(self.fold, *records)

    @property
    def position(self) -> tuple[int, int]:
        return self.fold.resume_offset(self.next_offset), max(self.next_offset, self.written_to)


RUNS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.booleans()), max_size=8)
"""Records that are read, events that are written before a kill, whether the position is saved, and whether it lives on.
"""


def are_as_kafkas(
    log: list[RawRecord], runs: list[tuple[int, int, bool, bool]], kind: type[TransactionFold] = TransactionFold
) -> bool:
    """Each run reads some records; then its process is killed amid its writing, or before its position is saved. A run
    may go on beside the next one, from its own position, and is heard later."""
    groups, position = Groups(), (0, 0)
    twins: list[Relay] = []
    for count, written, is_saved, lives_on in runs:
        relay = Relay(log, position, kind)
        events = relay.read(count)
        groups.take(events if lives_on or is_saved else events[:written])
        if lives_on:
            twins.append(relay)
        if is_saved:
            position = relay.position
        for twin in twins:
            groups.take(twin.read(written))
    groups.take(Relay(log, position, kind).read(len(log)))
    for twin in twins:
        groups.take(twin.read(len(log)))
    return groups.state() == kafkas(log)


@settings(max_examples=100, deadline=None)
@given(logs(), RUNS)
def test_however_relays_end_and_begin_the_groups_are_as_kafkas(
    log: list[RawRecord], runs: list[tuple[int, int, bool, bool]]
) -> None:
    assert are_as_kafkas(log, runs)


class ForgetsWhatIsOpen(TransactionFold):
    """It reads on behind what it has written."""

    def resume_offset(self, next_offset: int) -> int:
        return next_offset


class LosesEnds(TransactionFold):
    """Some ends are passed over."""

    def take(self, record: RawRecord) -> list[GroupEventBytes]:
        return [] if record.control is not None and record.offset % 3 == 0 else super().take(record)


class NamesNoPlace(TransactionFold):
    """Events do not say where they lie, so a late copy is taken for a new one."""

    def take(self, record: RawRecord) -> list[GroupEventBytes]:
        events = super().take(record)
        log = b',"log":{"partition":0,"offset":%d}' % record.offset
        return [GroupEventBytes(event.group_id, event.value.replace(log, b',"log":null')) for event in events]


class TellsOneGroup(TransactionFold):
    """Of several groups in a transaction only the first hears of its end."""

    def take(self, record: RawRecord) -> list[GroupEventBytes]:
        return super().take(record)[:1]


@pytest.mark.parametrize("planted", [ForgetsWhatIsOpen, LosesEnds, NamesNoPlace, TellsOneGroup])
def test_planted_defects_are_found(planted: type[TransactionFold]) -> None:
    found = find(
        st.tuples(logs(), RUNS), lambda case: not are_as_kafkas(case[0], case[1], planted),
        settings=settings(max_examples=2_000, deadline=None, phases=[Phase.generate]),
    )  # fmt: skip
    assert are_as_kafkas(found[0], found[1])
