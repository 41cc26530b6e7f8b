"""A line that a client wrote and that looks like the broker's is told as not confirmed, wherever it is told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.narrative.rebalances import headline, rebalances
from group_coordinator.watching.narrative.sentences import sentence
from group_coordinator.watching.narrative.steps import steps
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.offsets_log import Entry
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Event
from schemas.history import (
    GroupDead,
    GroupStable,
    History,
    MemberFenced,
    MemberLeft,
    OffsetsCommitted,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.watching.observed.recorded import entries, lines

CLUSTER, GROUP = "old-3.9", "app"
CONTEXT = "[GroupCoordinator 1]: "
NOT_CONFIRMED = "not confirmed"
UNKNOWN = "m-0b5ed0d0-2b3c-4a5d-9e6f-70819203a4b5"


def forged(at_ms: int, words: Sequence[str], directory: Path) -> list[BrokerLine]:
    """What a reader of the log makes of these words, as if they were the broker's."""
    path = directory / "server.log"
    path.write_text("".join(f"{at_ms} INFO {CONTEXT}{text}\n" for text in words))
    log = BrokerLog(UTC)
    log.read_file(path)
    assert len({line.number for line in log.lines}) == len(words)
    return log.lines


def of_group(records: Sequence[Entry], with_lines: Sequence[BrokerLine]) -> list[History]:
    return [record for record in observe(records, with_lines, {}).history if record.group_id == GROUP]


def a_quiet_moment(history: Sequence[History]) -> tuple[int, int, str]:
    """A time when the group has been stable for a while and stays so; its generation and one of its members."""
    of_members = [record for record in history if not isinstance(record, OffsetsCommitted | RebalanceCompleted)]
    for before, after in pairwise(of_members):
        if isinstance(before, GroupStable) and after.timestamp_ms - before.timestamp_ms > 4_000:
            return before.timestamp_ms + 2_000, before.generation_id, before.members[0]
    raise AssertionError("the group is never at rest")


@pytest.mark.parametrize("with_stabilized", [False, True])
def test_a_forged_rebalance_is_not_confirmed(with_stabilized: bool, tmp_path: Path) -> None:
    true = of_group(entries(CLUSTER), lines(CLUSTER))
    at_ms, generation_id, member_id = a_quiet_moment(true)
    words = [
        f"Preparing to rebalance group {GROUP} in state PreparingRebalance with old generation {generation_id} "
        f"(__consumer_offsets-1) (reason: explicit `LeaveGroup` request for ({member_id}) members; client reason: x).",
    ]
    if with_stabilized:
        words.append(f"Stabilized group {GROUP} generation {generation_id + 1} (__consumer_offsets-1) with 1 members")
    told = of_group(entries(CLUSTER), [*lines(CLUSTER), *forged(at_ms, words, tmp_path)])
    false = [record for record in told if any(fact.file == "server.log" for fact in record.cause.evidence)]
    assert {MemberLeft, RebalanceStarted} <= {type(record) for record in false}
    for record in false:
        assert record.cause.certainty == "not_confirmed", record
        assert NOT_CONFIRMED in sentence(record)
    (rebalance,) = [each for each in rebalances(told) if each.started in false]
    assert NOT_CONFIRMED in headline(rebalance)
    assert any(NOT_CONFIRMED in step.text for step in steps(rebalance))
    rows = [row for row in fold(told) if isinstance(row, Event)]
    assert {row.cause_certainty for row in rows if row.seq in {record.seq for record in false}} == {"not_confirmed"}
    others = [each for each in rebalances(told) if each.started not in false]
    assert all(NOT_CONFIRMED not in headline(each) for each in others)


@pytest.mark.parametrize(
    "words",
    [
        f"The following groups were deleted: x, {GROUP}. A total of 3 offsets were removed.",
        f"Group {GROUP} transitioned to Dead in generation 2",
    ],
)
def test_a_forged_death_is_not_confirmed(words: str, tmp_path: Path) -> None:
    at_ms, _, _ = a_quiet_moment(of_group(entries(CLUSTER), lines(CLUSTER)))
    told = of_group(entries(CLUSTER), [*lines(CLUSTER), *forged(at_ms, [words], tmp_path)])
    (dead,) = [record for record in told if isinstance(record, GroupDead) and record.timestamp_ms == at_ms]
    assert dead.cause.certainty == "not_confirmed"


FORGED: dict[str, tuple[str, int]] = {
    "another coordinator": ("Loading group metadata for {group} with generation {generation}", 1),
    "another leader of the partition": (
        "Finished loading offsets and group metadata from __consumer_offsets-{partition} in 3 milliseconds for epoch "
        "99", 1,
    ),
    "the coordinator goes": ("Unloading group metadata for {group} with generation {generation}", 0),
    "an id": (
        "Dynamic member with unknown member id joins group {group} in Stable state. Created a new member id "
        "{unknown} and request the member to rejoin with this id.", 1,
    ),
    "an id that was not used": (
        "Pending member {unknown} in group {group} has been removed after session timeout expiration.", 1
    ),
    "a static member that came back": (
        "Static member i-1 of group {group} with unknown member id rejoins, assigning new member id {unknown}, while "
        "old member id {member} will be removed.", 1,
    ),
    "another static member that came back": (
        "Static member i-1 of group {group} with unknown member id rejoins, assigning new member id {unknown}, while "
        "old member id {unknown}2 will be removed.", 1,
    ),
}  # fmt: skip
"""What a client may write, and how many records of history come of it at the least."""


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("broker", [1, 2])
def test_a_forged_line_changes_nothing_that_was_told_else(name: str, broker: int, tmp_path: Path) -> None:
    true = of_group(entries(CLUSTER), lines(CLUSTER))
    at_ms, generation_id, member_id = a_quiet_moment(true)
    words, least = FORGED[name]
    text = words.format(
        group=GROUP, generation=generation_id, partition=true[0].cause.partition, member=member_id, unknown=UNKNOWN
    )
    forgery = [replace(line, broker=broker) for line in forged(at_ms, [text], tmp_path)]
    told = of_group(entries(CLUSTER), [*lines(CLUSTER), *forgery])
    false = [record for record in told if any(fact.file == "server.log" for fact in record.cause.evidence)]
    assert len(false) >= least
    assert {record.cause.certainty for record in false} <= {"not_confirmed", "not_known"}
    if not name.endswith("member that came back"):  # the record behind it has the member that was said to be gone
        others = [record for record in told if record not in false]
        assert list(map(outline, others)) == list(map(outline, true))


def test_a_forged_fence_is_not_confirmed(tmp_path: Path) -> None:
    """Its owner is a member that there is; nobody has ever heard of the one that is said to be fenced."""
    history = observe(entries(CLUSTER), lines(CLUSTER), {}).history
    true = next(record for record in history if isinstance(record, MemberFenced))
    assert true.cause.certainty == "told"
    words = (
        f"Request memberId={UNKNOWN} for static member with groupInstanceId={true.group_instance_id} is fenced by "
        f"current memberId={true.owner_member_id} during operation COMMIT"
    )
    forgery = forged(true.timestamp_ms + 1, [words], tmp_path)
    told = observe(entries(CLUSTER), [*lines(CLUSTER), *forgery], {}).history
    false = [record for record in told if isinstance(record, MemberFenced) and record.member_id == UNKNOWN]
    assert [record.cause.certainty for record in false] == ["not_confirmed"]


def test_a_forged_line_in_another_brokers_log_does_not_silence_the_coordinator(tmp_path: Path) -> None:
    true = of_group(entries(CLUSTER), lines(CLUSTER))
    at_ms, _, member_id = a_quiet_moment(true)
    text = f"Member {member_id} in group {GROUP} has failed, removing it from the group"
    forgery = [replace(line, broker=2) for line in forged(at_ms, [text], tmp_path)]
    told = of_group(entries(CLUSTER), [*lines(CLUSTER), *forgery])

    def by_lines(history: Sequence[History]) -> set[object]:
        return {
            (fact.file, fact.line)
            for record in history for fact in record.cause.evidence
            if fact.file not in (None, "server.log")
        }  # fmt: skip

    assert by_lines(told) == by_lines(true)


def outline(record: History) -> tuple[object, ...]:
    return type(record), record.timestamp_ms, record.generation_id, record.cause.certainty


def test_a_line_of_another_partition_is_not_confirmed(tmp_path: Path) -> None:
    true = of_group(entries(CLUSTER), lines(CLUSTER))
    at_ms, _, member_id = a_quiet_moment(true)
    words = f"Member {member_id} in group {GROUP} has failed, removing it from the group"
    (line,) = forged(at_ms, [words], tmp_path)
    told = of_group(entries(CLUSTER), [*lines(CLUSTER), replace(line, partition=true[0].cause.partition + 1)])
    assert [record.cause.certainty for record in told if record.cause.evidence[0].file == "server.log"] == [
        "not_confirmed"
    ]


@pytest.mark.parametrize("name", ["old-2.8", "old-3.9", "three-brokers", "roll-4.2", "lifecycle-3.4"])
def test_what_brokers_wrote_is_confirmed(name: str) -> None:
    history = observe(entries(name), lines(name), {}).history
    assert {record.cause.certainty for record in history} <= {"told", "inferred", "not_known"}
