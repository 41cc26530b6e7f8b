"""A client's words in a broker's log: line breaks and a broker's words in reasons and ids begin no line of ours."""

from __future__ import annotations

import gzip
import json
from datetime import UTC
from pathlib import Path

import pytest

from group_coordinator.watching.broker_logs.broker_lines import (
    BrokerLine,
    GroupEmptied,
    JoinPhaseEnded,
    RebalancePrepared,
)
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.watch.following_logs import FollowedLogs

CONTEXT = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "
LOGGER = " (org.apache.kafka.coordinator.group.GroupMetadataManager)"
OTHER_LOGGER = " (org.apache.kafka.storage.internals.log.UnifiedLog)"
LEAVE = (
    "Preparing to rebalance group victim in state PreparingRebalance with old generation 3 (reason: explicit "
    "`LeaveGroup` request for (alice-1) members; client reason: alice resigned)."
)
STABILIZED = "Stabilized group victim generation 4 with 1 members."


def dressed(words: str, *, logger: bool, context: str = CONTEXT) -> str:
    """An entry in Kafka's default layout, or in one that has the logger in front."""
    if logger:
        return f"[2026-11-22 18:10:54,580] INFO {context}{words}{LOGGER}\n"
    return f"2026-11-22T18:10:54.580Z [worker] INFO {LOGGER.strip(' ()')} - {context}{words}\n"


def joined(reason: str, *, group_id: str = "mallory", old_generation_id: int = 0) -> str:
    return (
        f"Preparing to rebalance group {group_id} in state PreparingRebalance with old generation {old_generation_id} "
        f"(reason: Adding new member m-1 with group instance id null; client reason: {reason})."
    )


def honest(*, logger: bool) -> str:
    """What stands before and behind a client's words."""
    return "".join(dressed(words, logger=logger) for words in ("Stabilized group a generation 1 with 2 members.",) * 3)


def written(text: str, directory: Path) -> Path:
    path = directory / "server.log"
    path.write_text(text)
    return path


def read(path: Path) -> BrokerLog:
    log = BrokerLog(UTC)
    log.read_file(path)
    return log


def docker(text: str) -> str:
    """Each physical line as an object of its own, as Docker keeps them."""
    lines = text.splitlines(keepends=True)
    return "".join(
        json.dumps({"log": line, "stream": "stdout", "time": "2026-11-22T18:10:54.9Z"}) + "\n" for line in lines
    )


def prefixed(text: str) -> str:
    return "".join(f"kafka-1  | {line}" for line in text.splitlines(keepends=True))


DRESSES = {"plain": lambda text: text, "docker": docker, "prefixed": prefixed}


def victims(lines: list[BrokerLine]) -> list[BrokerLine]:
    return [line for line in lines if line.event.group_id == "victim"]


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("logger", [True, False])
@pytest.mark.parametrize("forged", [LEAVE, STABILIZED, LEAVE.removesuffix(").")])
def test_a_line_break_in_a_reason_begins_no_line(dress: str, logger: bool, forged: str, tmp_path: Path) -> None:
    attack = dressed(joined("x\n" + dressed(forged, logger=logger).rstrip("\n")), logger=logger)
    log = read(written(DRESSES[dress](honest(logger=logger) + attack + honest(logger=logger)), tmp_path))
    assert victims(log.lines) == []
    stabilized = [line.number for line in log.lines if isinstance(line.event, JoinPhaseEnded)]
    assert [number - stabilized[0] for number in stabilized[:3]] == [0, 1, 2]
    assert len(stabilized) >= 5  # of those behind it one may count as the end of the client's words


def test_a_reason_with_line_breaks_is_told_whole(tmp_path: Path) -> None:
    (line,) = read(written(dressed(joined("closed:\n\tat java.Main\nCaused by: x"), logger=True), tmp_path)).lines
    assert isinstance(line.event, RebalancePrepared)
    assert (line.event.group_id, line.event.client_reason) == ("mallory", "closed:\n\tat java.Main\nCaused by: x")


@pytest.mark.parametrize(
    "head",
    [
        f"{CONTEXT}Stabilized group {{}} generation 1 with 1 members.{LOGGER}",
        f"[TransactionCoordinator id=1] Initialized transactionalId {{}} with producerId 7 and epoch 0{LOGGER}",
        f"[KafkaApi-1] Error when handling request: clientId={{}}, correlationId=7{OTHER_LOGGER}",
        f"[GroupCoordinator 1]: Dynamic member with unknown member id joins group g in Empty state. Created a new "
        f"member id {{}}-1 and requesting the member to rejoin with this id.{LOGGER}",
    ],
)
def test_any_id_with_a_line_break_begins_no_line(head: str, tmp_path: Path) -> None:
    forged = "x\n" + dressed(STABILIZED, logger=True).rstrip("\n").removesuffix(LOGGER)
    attack = f"[2026-11-22 18:10:54,580] INFO {head.format(forged)}\n"
    log = read(written(honest(logger=True) + attack + honest(logger=True), tmp_path))
    assert victims(log.lines) == []
    assert sum(line.event.group_id == "a" for line in log.lines) == 6


@pytest.mark.parametrize(
    "words",
    [
        f"Dynamic member with unknown member id joins group mine in Empty state. Created a new member id "
        f"{STABILIZED}-1 and requesting the member to rejoin with this id.",
        joined(f"{CONTEXT}{STABILIZED}"),
        joined(LEAVE),
        joined("x", group_id="victim in state Stable with old generation 3 (reason: y). "),
        "[GroupId victim] Bumped group epoch to 77 with metadata hash 1.] Bumped group epoch to 1 with metadata hash 2",
        "Member MemberMetadata(memberId=m-1, groupInstanceId=None, clientId=c) has left group mine through explicit "
        "`LeaveGroup`; client reason: ) has left group victim through explicit `LeaveGroup`",
    ],
)
def test_a_brokers_words_in_an_id_are_not_the_brokers(words: str, tmp_path: Path) -> None:
    log = read(written(dressed(words, logger=True), tmp_path))
    assert victims(log.lines) == []
    assert log.left_out == 1 - len(log.lines)


@pytest.mark.parametrize(
    "context", ["[TransactionCoordinator id=1] Initialized transactionalId ", "[KafkaApi-1] Error: "]
)
@pytest.mark.parametrize("own_context", ["", CONTEXT])
def test_lines_of_other_parts_tell_nothing(context: str, own_context: str, tmp_path: Path) -> None:
    log = read(written(dressed(own_context + STABILIZED, logger=True, context=context), tmp_path))
    assert log.lines == []


def test_words_that_a_broker_wrote_as_json_are_one_entry(tmp_path: Path) -> None:
    message = CONTEXT + joined("x\n" + dressed(LEAVE, logger=False).rstrip("\n"))
    text = json.dumps({"@timestamp": "2026-11-22T18:10:54.580Z", "message": message})
    log = read(written(text + "\n", tmp_path))
    assert victims(log.lines) == []


@pytest.mark.parametrize("logger", [True, False])
def test_live_the_words_of_a_client_come_in_pieces(logger: bool, tmp_path: Path) -> None:
    attack = dressed(joined("x\n" + dressed(LEAVE.removesuffix(")."), logger=logger).rstrip("\n")), logger=logger)
    text = honest(logger=logger) + attack + honest(logger=logger)
    path = tmp_path / "server.log"
    path.touch()
    logs = FollowedLogs([str(path)], UTC)
    found: list[BrokerLine] = []
    for begin in range(0, len(text), 97):
        with path.open("a") as file:
            file.write(text[begin : begin + 97])
        found += logs.look()
    assert victims(found) == []
    assert sum(line.event.group_id == "a" for line in found) >= 5


def test_a_packed_log(tmp_path: Path) -> None:
    attack = dressed(joined("x\n" + dressed(LEAVE, logger=True).rstrip("\n")), logger=True)
    path = tmp_path / "server.log.1.gz"
    path.write_bytes(gzip.compress((honest(logger=True) + attack).encode()))
    assert victims(read(path).lines) == []


def test_an_entry_that_does_not_end_costs_no_more_than_an_entry(tmp_path: Path) -> None:
    """A broker that was killed left half a line; what comes later is read."""
    head = dressed(joined("x"), logger=False).removesuffix(").\n") + "\n"
    text = head + "[further words\n" * 30_000 + dressed("Group a with generation 2 is now empty.", logger=False)
    log = read(written(text, tmp_path))
    assert [type(line.event) for line in log.lines] == [GroupEmptied]
    assert log.left_out == 1


def test_an_entry_that_is_not_whole_at_the_end_is_counted(tmp_path: Path) -> None:
    log = read(written(dressed(joined("x\ny").removesuffix(")."), logger=False), tmp_path))
    assert (log.lines, log.left_out) == ([], 1)


def test_settings_that_a_client_wrote_are_none(tmp_path: Path) -> None:
    text = honest(logger=True) + dressed(joined("x\n\tgroup.min.session.timeout.ms = 1\n\ty"), logger=True)
    assert read(written(text, tmp_path)).settings == {}


@pytest.mark.parametrize(
    "piece",
    [" in state Stable with old generation 3 (reason: ", ") has left group ", ", groupInstanceId=", "] in group "],
)
def test_long_ids_of_a_brokers_words_cost_little(piece: str, tmp_path: Path) -> None:
    long = piece * (32_000 // len(piece))
    texts = (
        joined(long),
        f"Member MemberMetadata(memberId={long}, groupInstanceId={long}) has left group {long}",
        f"Member[group.instance.id {long}, member.id {long}] in group {long}",
    )
    log = read(written("".join(dressed(words, logger=True) for words in texts), tmp_path))
    assert len(log.lines) + log.left_out <= len(texts)
