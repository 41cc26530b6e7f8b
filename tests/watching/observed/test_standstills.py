"""Members that expire together after a standstill of their coordinator have that as their common cause."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from group_coordinator.watching.broker_logs.broker_lines import (
    BrokerLine,
    GroupLoaded,
    LineEvent,
    LogSilent,
    MemberFailed,
)
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.broker_logs.broker_patterns import NO_GROUP
from group_coordinator.watching.narrative import sentences
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.offsets_log import Entry
from schemas.history import MemberExpired
from schemas.observed_history import CoordinatorStalled
from tests.watching.observed.commits import commit
from tests.watching.observed.generations import GROUP, generation
from tests.watching.observed.recorded import NAMES, observed, rebalances

BEGIN_MS = 1_000
EXPIRED_MS = 40_000


def line(number: int, at_ms: int, event: LineEvent) -> BrokerLine:
    return BrokerLine(time_ms=at_ms, broker=1, partition=7, file="1.log", number=number, event=event)


def commits(*times_ms: int) -> list[Entry]:
    return [replace(commit(place, place), timestamp_ms=at_ms) for place, at_ms in enumerate(times_ms, 1)]


SILENT = line(5, EXPIRED_MS, LogSilent(group_id=NO_GROUP, since_ms=28_000, until_ms=EXPIRED_MS))
EXPIRIES = [
    line(5, EXPIRED_MS, MemberFailed(group_id=GROUP, member_id="a")),
    line(6, EXPIRED_MS + 3, MemberFailed(group_id=GROUP, member_id="b")),
]
STORED = generation(0, 1, "a", "b")
ACTIVE = commits(20_000, 22_000, 25_000, 27_500)


def test_a_standstill_is_the_common_cause() -> None:
    history = observe([STORED, *ACTIVE], [SILENT, *EXPIRIES], {}).history
    (stalled,) = [record for record in history if isinstance(record, CoordinatorStalled)]
    assert (stalled.broker_id, stalled.since_ms, stalled.until_ms) == (1, 28_000, EXPIRED_MS)
    assert (stalled.members, stalled.groups, stalled.cause.certainty) == (2, 1, "inferred")
    expired = [record for record in history if isinstance(record, MemberExpired)]
    assert [(record.stalled_broker_id, record.caused_by) for record in expired] == [(1, stalled.seq)] * 2
    assert "because broker 1 seems to have stood still" in sentences.sentence(expired[0])


CASES = {
    "records-meanwhile": ([STORED, *commits(20_000, 22_000, 27_500, 39_500)], [SILENT, *EXPIRIES]),
    "no-records-before": ([STORED], [SILENT, *EXPIRIES]),
    "one-member": ([STORED, *ACTIVE], [SILENT, EXPIRIES[0]]),
    "apart": (
        [STORED, *ACTIVE],
        [SILENT, EXPIRIES[0], line(6, EXPIRED_MS + 900, MemberFailed(group_id=GROUP, member_id="b"))],
    ),
    "no-silence": ([STORED, *ACTIVE], EXPIRIES),
    "sessions-that-began-together": (
        [STORED, *ACTIVE],
        [line(4, EXPIRED_MS - 1_000, GroupLoaded(group_id=GROUP, members=2)), SILENT, *EXPIRIES],
    ),
}


@pytest.mark.parametrize(("entries", "lines"), CASES.values(), ids=CASES)
def test_other_expiries_are_not_explained_by_it(entries: list[Entry], lines: list[BrokerLine]) -> None:
    history = observe(entries, lines, {}).history
    assert not any(isinstance(record, CoordinatorStalled) for record in history)
    assert {record.stalled_broker_id for record in history if isinstance(record, MemberExpired)} == {UNSET}


def test_a_reader_tells_how_long_the_log_was_silent_before_members_expired(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    failed = "INFO [GroupCoordinator 1]: Member {0} in group g has failed, removing it from the group (kafka.X)"
    path.write_text(
        "\n".join(
            [
                "[2026-11-27 03:58:16,772] INFO Something else (kafka.X)",
                "\tat a further line of it",
                "[2026-11-27 03:58:33,213] INFO [ReplicaFetcher] disconnected (kafka.X)",
                f"[2026-11-27 03:58:33,220] {failed.format('a-1')}",
                f"[2026-11-27 03:58:33,221] {failed.format('b-1')}",
                f"[2026-11-27 03:58:50,221] {failed.format('c-1')}",
            ]
        )
        + "\n"
    )
    log = BrokerLog(UTC)
    log.read_file(path)
    silences = {
        line.event.until_ms - line.event.since_ms for line in log.lines if isinstance(line.event, LogSilent)
    }
    assert silences == {16_441, 17_000}


@pytest.mark.parametrize("name", NAMES)
def test_of_recorded_clusters_only_the_one_that_stood_still_did(name: str) -> None:
    stalled = [record for record in observed(name, with_logs=True).history if isinstance(record, CoordinatorStalled)]
    told = {(record.broker_id, record.group_id) for record in stalled}
    if name != "failover-3.7":
        assert told == set()
        return
    assert told == {(1, "java"), (1, "lib"), (1, "sarama"), (3, "py"), (3, "go-ride")}
    chains = [row.cause_chain for row in rebalances(name, with_logs=True) if "stood still" in row.cause_chain]
    assert len(chains) == len(told)
    assert not any(isinstance(record, CoordinatorStalled) for record in observed(name, with_logs=False).history)
