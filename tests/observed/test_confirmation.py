"""A line that a client wrote and that looks like the broker's is told as not confirmed, wherever it is told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from group_coordinator.narrative.rebalances import headline, rebalances
from group_coordinator.narrative.sentences import sentence
from group_coordinator.narrative.steps import steps
from group_coordinator.observed.cluster import observe
from group_coordinator.observed.offsets_log import Entry
from group_coordinator.recordings.broker_lines import BrokerLine
from group_coordinator.recordings.broker_log import BrokerLog
from schemas.history import (
    GroupDead,
    GroupStable,
    History,
    MemberLeft,
    OffsetsCommitted,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.observed.recorded import entries, lines

CLUSTER, GROUP = "old-3.9", "app"
CONTEXT = "[GroupCoordinator 1]: "
NOT_CONFIRMED = "not confirmed"


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
