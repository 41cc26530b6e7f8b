"""Lines of brokers' logs, in every dress that collectors give them."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, LineEvent
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.observed.cluster import observe
from schemas.events import encode_json
from tests.watching.observed.recorded import CLUSTERS, entries, lines

AT_MS = 1_795_371_054_580
MESSAGE = (
    "[GroupCoordinator id=2 topic=__consumer_offsets partition=49] Preparing to rebalance group mail in state "
    "PreparingRebalance with old generation 3 (reason: removing member mail-a-1 on heartbeat expiration.)."
)
LINE = f"[2026-11-22 18:10:54,580] INFO {MESSAGE} (org.apache.kafka.coordinator.group.GroupMetadataManager)"
DRESSED = {
    "as it is": LINE,
    "another layout": f"2026-11-22T18:10:54.580Z INFO [data-plane] o.a.k.c.g.GroupMetadataManager - {MESSAGE}",
    "a collector's prefix": f"2026-11-22T18:10:55.001Z kafka-2 stdout F {LINE}",
    "JSON with a time": json.dumps({"@timestamp": "2026-11-22T18:10:54.580Z", "level": "INFO", "message": MESSAGE}),
    "JSON of log4j": json.dumps(
        {"instant": {"epochSecond": AT_MS // 1000, "nanoOfSecond": 580_000_000}, "message": MESSAGE}
    ),
    "milliseconds": json.dumps({"timeMillis": AT_MS, "message": MESSAGE, "loggerName": "x"}),
    "of Docker": json.dumps({"log": LINE + "\n", "stream": "stdout", "time": "2026-11-22T18:10:54.9Z"}),
    "deep inside": json.dumps({"kubernetes": {"pod": "kafka-2"}, "log": {"original": LINE}, "ts": 1.0}),
}


def read(directory: Path, text: str, zone: tzinfo = UTC) -> list[BrokerLine]:
    path = directory / "server.log"
    path.write_text(text)
    log = BrokerLog(zone)
    log.read_file(path)
    return log.lines


@pytest.mark.parametrize("dress", DRESSED)
def test_a_line_is_understood_whatever_stands_around_it(dress: str, tmp_path: Path) -> None:
    (line,) = read(tmp_path, DRESSED[dress] + "\n")
    assert (line.time_ms, line.broker, line.partition) == (AT_MS, 2, 49)
    assert line.event == line_events.RebalancePrepared(
        group_id="mail", old_generation_id=3, trigger="member_expired", member_ids=("mail-a-1",),
        group_instance_id=None, reason="removing member mail-a-1 on heartbeat expiration.", client_reason=None,
    )  # fmt: skip


def test_times_are_of_the_zone_that_is_named(tmp_path: Path) -> None:
    (line,) = read(tmp_path, LINE, ZoneInfo("Europe/Berlin"))
    assert line.time_ms == AT_MS - 3_600_000


def test_further_lines_of_an_entry_are_passed_over(tmp_path: Path) -> None:
    trace = "java.lang.IllegalStateException: Stabilized group mail generation 4 with 1 members.\n\tat kafka.Main\n"
    log = BrokerLog(UTC)
    (tmp_path / "server.log").write_text(f"{LINE}\n{trace}{LINE}\n")
    log.read_file(tmp_path / "server.log")
    assert ([line.number for line in log.lines], log.read, log.left_out) == ([1, 4], 4, 1)


WORDS: list[tuple[str, LineEvent]] = [
    (
        "[GroupCoordinator 1]: Preparing to rebalance group a group (x) in state PreparingRebalance with old "
        "generation 1 (__consumer_offsets-38) (reason: Adding new member m-1 with group instance id Some(i-1); "
        "client reason: a (b)) (kafka.coordinator.group.GroupCoordinator)",
        line_events.RebalancePrepared(
            group_id="a group (x)", old_generation_id=1, trigger="member_joined", member_ids=("m-1",),
            group_instance_id="i-1", client_reason="a (b)",
            reason="Adding new member m-1 with group instance id Some(i-1)",
        ),
    ),
    (
        "[GroupCoordinator 1]: Group g removed dynamic members who haven't joined: Set(a-1, b-2)",
        line_events.MembersNotRejoined(group_id="g", member_ids=("a-1", "b-2")),
    ),
    (
        "[GroupCoordinator id=1] Group g removed members who haven't joined: [a-1].",
        line_events.MembersNotRejoined(group_id="g", member_ids=("a-1",)),
    ),
    (
        "[GroupCoordinator 1]: Member m-1 in group g has left, removing it from the group",
        line_events.MemberDeparted(group_id="g", member_id="m-1"),
    ),
    (
        "[GroupCoordinator 1]: Group g transitioned to Dead in generation 4",
        line_events.GroupExpired(group_id="g", generation_id=4),
    ),
    (
        "[GroupCoordinator id=1] Pending member m-1 in group g has been removed after session timeout expiration.",
        line_events.PendingMemberExpired(group_id="g", member_id="m-1"),
    ),
    (
        "[GroupCoordinator id=1] [GroupId s] Computed a new target assignment for epoch 3 with "
        "'org.apache.kafka.coordinator.group.assignor.SimpleAssignor@1a2b' assignor in 4ms.",
        line_events.TargetComputed(group_id="s", epoch=3, assignor="SimpleAssignor"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "event"), WORDS)
def test_the_words_of_every_version(words: str, event: LineEvent, tmp_path: Path) -> None:
    (line,) = read(tmp_path, f"[2026-11-22 18:10:54,580] INFO {words}\n")
    assert line.event == event


UUID = "a0c1469c-be04-4959-9838-dc498be29636"
ODD = "mail in group b for group c joins group d"
"""Group and client ids may have any words in them."""
ODD_LINES: list[tuple[str, LineEvent]] = [
    (
        f"Member m-{UUID} in group {ODD} has failed, removing it from the group.",
        line_events.MemberFailed(group_id=ODD, member_id=f"m-{UUID}"),
    ),
    (
        f"Member {ODD}-{UUID} in group mail has left, removing it from the group",
        line_events.MemberDeparted(group_id="mail", member_id=f"{ODD}-{UUID}"),
    ),
    (
        f"Member[group.instance.id None, member.id m-{UUID}] in group a] in group b has left, removing it from",
        line_events.MemberDeparted(group_id="a] in group b", member_id=f"m-{UUID}"),
    ),
    (
        f"Pending member m-{UUID} in group {ODD} has been removed after session timeout expiration.",
        line_events.PendingMemberExpired(group_id=ODD, member_id=f"m-{UUID}"),
    ),
    (
        f"Pending dynamic member with id m-{UUID} joins group {ODD} in Empty state. Adding to the group now.",
        line_events.MemberAdded(group_id=ODD, member_id=f"m-{UUID}"),
    ),
    (
        f"Assignment received from leader m-{UUID} for group {ODD} for generation 3. The group has 1 members, 0 of",
        line_events.AssignmentTaken(group_id=ODD, generation_id=3, leader_id=f"m-{UUID}", members=1),
    ),
]
AMBIGUOUS = [
    "Member m-1 in group a in group b has failed, removing it from the group.",
    f"Member m-{UUID} in group a-{UUID} in group b has failed, removing it from the group.",
    "Member[group.instance.id None, member.id m-1] in group a] in group b has left, removing it from the group",
    "Pending member m-1 in group a in group b has been removed after session timeout expiration.",
    "Pending dynamic member with id m-1 joins group a joins group b in Empty state. Adding to the group now.",
    "Assignment received from leader m-1 for group a for group b for generation 3. The group has 1 members, 0 of",
]


@pytest.mark.parametrize(("words", "event"), ODD_LINES)
def test_a_member_id_ends_where_it_can_alone_end(words: str, event: LineEvent, tmp_path: Path) -> None:
    (line,) = read(tmp_path, f"[2026-11-22 18:10:54,580] INFO [GroupCoordinator 1]: {words}\n")
    assert line.event == event


@pytest.mark.parametrize("words", AMBIGUOUS)
def test_a_line_that_can_be_read_in_two_ways_is_counted(words: str, tmp_path: Path) -> None:
    log = BrokerLog(UTC)
    (tmp_path / "server.log").write_text(f"[2026-11-22 18:10:54,580] INFO [GroupCoordinator 1]: {words}\n")
    log.read_file(tmp_path / "server.log")
    assert (log.lines, log.left_out) == ([], 1)


def test_a_rotated_log_says_what_the_whole_one_says(tmp_path: Path) -> None:
    text = gzip.decompress((CLUSTERS / "old-3.9.server.log.gz").read_bytes()).splitlines(keepends=True)
    half = len(text) // 2
    (tmp_path / "server.log.1.gz").write_bytes(gzip.compress(b"".join(text[:half])))
    (tmp_path / "server.log").write_bytes(b"".join(text[half - 100 :]))
    log = BrokerLog(UTC)
    for name in ("server.log", "server.log.1.gz"):
        log.read_file(tmp_path / name)
    parts, unrotated = (
        [(record.time_ms, record.seq, type(record)) for record in observe(entries("old-3.9"), of, {}).history]
        for of in (log.lines, lines("old-3.9"))
    )
    assert parts == unrotated


@pytest.mark.parametrize("skew_ms", [-3_600_000, 4_321])
def test_a_clock_that_differs_is_found_and_taken_out(skew_ms: int) -> None:
    name = "three-brokers"
    skewed = [line if line.broker != 3 else replace(line, time_ms=line.time_ms + skew_ms) for line in lines(name)]
    skews = observe(entries(name), skewed, {}).skews
    assert {broker: abs(skew.skew_ms) > 0 for broker, skew in skews.items()} == {1: False, 2: False, 3: True}
    assert abs(skews[3].skew_ms - skew_ms) < 50
    types = [
        [(record.group_id, type(record)) for record in observe(entries(name), of, {}).history]
        for of in (skewed, lines(name))
    ]
    assert types[0] == types[1]


def test_lines_alone_tell_rebalances_without_owners() -> None:
    history = observe((), lines("old-2.8"), {}).history
    types = {type(record).__name__ for record in history}
    assert {"RebalanceStarted", "MemberExpired", "MemberLeft"} <= types
    assert "AssignmentReceived" not in types
    assert encode_json(history[0])
