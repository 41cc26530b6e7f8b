"""Offsets in transactions under random interleavings, against a model that is nothing but the log of all that was told.

The model keeps no state between steps: it reads the whole log anew for each question, as one would with a pencil.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state import Answer, LogRecord, Output
from schemas.consumer_group_messages import JOIN_EPOCH, LEAVE_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.records import OffsetCommitKey, OffsetCommitValue, decode_record
from tests.coordinator_state.harness import GroupHarness, of_type

PARTITIONS = [("t", 0), ("u", 0)]
PRODUCERS = (7, 8)

Place = tuple[str, int]
Told = tuple[str, Any, Any]
"""plain: partition, offset; pending: (producer, partition), offset; end: producer, committed; deleted: partitions;
visit: who comes to the group and goes again, which changes nothing of offsets."""

COMMITS: st.SearchStrategy[Told] = st.one_of(
    st.tuples(st.just("plain"), st.sampled_from(PARTITIONS), st.integers(0, 99)),
    st.tuples(
        st.just("pending"), st.tuples(st.sampled_from(PRODUCERS), st.sampled_from(PARTITIONS)), st.integers(100, 999)
    ),
)
ENDS: st.SearchStrategy[Told] = st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans())
REMOVALS: st.SearchStrategy[Told] = st.one_of(
    st.tuples(st.just("deleted"), st.sets(st.sampled_from(PARTITIONS), min_size=1), st.none()),
    st.tuples(st.just("topic gone"), st.sampled_from(["t", "u"]), st.none()),
)
VISITS: st.SearchStrategy[Told] = st.tuples(
    st.just("visit"), st.sampled_from(["native", "native, and a stranger", "classic"]), st.none()
)
LOGS = st.lists(st.one_of(COMMITS, COMMITS, COMMITS, ENDS, ENDS, REMOVALS, VISITS), min_size=8, max_size=30)


def is_gone(log: list[Told]) -> bool:
    """Return whether a stranger's JoinGroup has removed the group (`test_removed_groups`), and nobody has begun it
    again."""
    began = [what for kind, what, _ in log if kind in {"visit", "plain", "pending"}]
    return began[-1:] == ["native, and a stranger"]


def heeded(log: list[Told]) -> list[Told]:
    """Return the log without what is refused: offsets of a group that is gone cannot be deleted."""
    return [told for number, told in enumerate(log) if told[0] != "deleted" or not is_gone(log[:number])]


def removed_by(told: Told) -> set[Place]:
    kind, what, _ = told
    if kind == "deleted":
        return set(what)
    return {place for place in PARTITIONS if place[0] == what} if kind == "topic gone" else set()


def written(log: list[Told], place: Place, producer_id: int | None) -> int | None:
    """Where the last commit of a partition lies, plain or of a producer's open transaction; None if there is none."""
    at: int | None = None
    for number, told in enumerate(log):
        kind, what, _ = told
        if (kind == "plain" and what == place and producer_id is None) or (kind, what) == (
            "pending",
            (producer_id, place),
        ):
            at = number
        elif place in removed_by(told) or (kind == "end" and what == producer_id):
            at = None
    return at


def open_producers(log: list[Told], place: Place) -> set[int]:
    return {producer_id for producer_id in PRODUCERS if written(log, place, producer_id) is not None}


def offset_of(log: list[Told], place: Place) -> int | None:
    """The offset that counts: of all that is committed and not removed since, the one that was written last."""
    candidates = [written(log, place, None)]
    for number, (kind, producer_id, committed) in enumerate(log):
        if kind == "end" and committed and not any(place in removed_by(told) for told in log[number:]):
            candidates.append(written(log[:number], place, producer_id))
    found = [number for number in candidates if number is not None]
    return log[max(found)][2] if found else None


def take(group: GroupHarness, told: Told) -> list[Output]:
    kind, what, value = told
    if kind == "plain":
        return group.commit(offsets={what: value})
    if kind == "pending":
        return group.commit_in_transaction(what[0], {what[1]: value})
    if kind == "end":
        return group.end_transaction(what, committed=value)
    if kind == "deleted":
        return group.delete_offsets(*sorted(what))
    return visit(group, what) if kind == "visit" else group.delete_topics((what, None))


def visit(group: GroupHarness, who: str) -> list[Output]:
    """A member of one of the protocols joins and leaves, so the group changes its kind; then, perhaps, a client comes
    with the id of a member that there is not."""
    if who.startswith("native"):
        joins = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=JOIN_EPOCH, rebalance_timeout_ms=60_000,
            subscribed_topic_names=("v",), topic_partitions=(),
        )  # fmt: skip
        leaves = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=LEAVE_EPOCH)
        outputs = [
            *group.send("ConsumerGroupHeartbeat", joins, 1), *group.send("ConsumerGroupHeartbeat", leaves, 1)
        ]
        return [*outputs, *(group.join("stranger") if "stranger" in who else ())]
    return [*group.join(version=3, new_member_id="m"), *group.leave("m")]


def fetched(group: GroupHarness, *, stable: bool) -> dict[Place, int]:
    """Partition -> its offset, or minus the error that is answered in its place."""
    (answer,) = group.answer(group.fetch(*PARTITIONS, require_stable=stable)).groups
    return {
        (topic.name, partition.partition_index): -partition.error_code or partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
    }


def replayed(outputs: list[Output]) -> dict[Place, int]:
    """What a reader of the offsets topic has, who knows nothing of transactions."""
    offsets: dict[Place, int] = {}
    for record in of_type(outputs, LogRecord):
        key, value = decode_record(record.key, record.value)
        if isinstance(key, OffsetCommitKey):
            offsets.pop((key.topic, key.partition), None)
            if isinstance(value, OffsetCommitValue):
                offsets[key.topic, key.partition] = value.offset
    return offsets


@settings(max_examples=150, deadline=None)
@given(log=LOGS)
def test_what_counts_and_what_is_open(log: list[Told]) -> None:
    group = GroupHarness()
    for number, told in enumerate(log, 1):
        take(group, told)
        known = heeded(log[:number])
        expected = {place: offset_of(known, place) for place in PARTITIONS}
        committed = {place: -1 if offset is None else offset for place, offset in expected.items()}
        assert fetched(group, stable=False) == committed
        stable = {
            place: -int(ErrorCode.UNSTABLE_OFFSET_COMMIT) if open_producers(known, place)
            else -1 if is_gone(known) else offset
            for place, offset in committed.items()
        }
        assert fetched(group, stable=True) == stable
        assert replayed(group.outputs) == {place: offset for place, offset in expected.items() if offset is not None}
        state = group.group
        if state is not None:
            assert state.size_of_offsets() == state.offsets.count_bytes("g")
            assert state.offsets.has_pending == any(open_producers(known, place) for place in PARTITIONS)


@settings(max_examples=60, deadline=None)
@given(log=LOGS)
def test_a_batching_does_not_show(log: list[Told]) -> None:
    """The same steps in one batch, and packed in between, as the harness does."""
    apart, together = GroupHarness(), GroupHarness(one_batch=True)
    for told in log:
        assert take(apart, told) == take(together, told)
    assert [output for output in apart.outputs if isinstance(output, Answer)] or not any(
        told[0] in ("plain", "pending", "deleted") for told in log
    )
