"""Logs of consumer groups, imported and replayed, against what an admin client saw of the same groups meanwhile."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from coordinator_state import Coordinator, LogRecord, Output, group_event
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.group import Group
from group_coordinator.proving.recordings.events_import import EventsImport
from group_coordinator.proving.recordings.following import Following
from group_coordinator.proving.recordings.recording import verify_recording
from schemas.events import decode_group_event, decode_tick
from schemas.kafka.records import decode_record
from tests.proving.recordings.broker_logs import FIXTURES, followed, followed_lines, lines_of, outputs_of

Json = dict[str, Any]
Targets = dict[str, set[tuple[int, frozenset[tuple[str, frozenset[tuple[bytes, int]]]]]]]

CLUSTERS = FIXTURES / "clusters"
LATE_MS = 150
"""How much later than in the log an admin client may see a change: the coordinator tells what it has written."""


@pytest.mark.parametrize(
    ("name", "seen_at_least"),
    [("consumer-protocol", 120), ("migration", 60), ("migration-refused", 40), ("transactions", 50)],
)
def test_groups_are_those_that_an_admin_client_saw(name: str, seen_at_least: int) -> None:
    states = states_of(followed(CLUSTERS / f"{name}.request.log.gz"))
    seen = 0
    for poll in polls(name):
        for group in poll.get("groups", ()):
            if group.get("type") == "Consumer" and group.get("members"):
                seen += 1
                told = states_between(states[group["group"]], poll["at_ms"] - LATE_MS, poll["until_ms"])
                where = f"{group['group']} at {poll['at_ms']}"
                assert seen_by_admin(group) in [state["group"] for state in told], where
                assert group["offsets"] in [state["offsets"] for state in told], where
    assert seen >= seen_at_least


def test_a_change_of_topics_may_have_its_effect_before_its_line(tmp_path: Path) -> None:
    """The line of CreatePartitions is written after a heartbeat that shows the new partitions."""
    lines = [
        line.replace("18:09:53,843]", "18:09:54,700]").replace('"totalTimeMs":70.561', '"totalTimeMs":930')
        if '"CREATE_PARTITIONS"' in line and "18:09:53,843]" in line
        else line
        for line in lines_of(CLUSTERS / "consumer-protocol.request.log.gz")
        if not ('"METADATA"' in line and line.startswith(("[2026-11-22 18:09:53", "[2026-11-22 18:09:54")))
    ]
    assert any("18:09:54,700]" in line and "CREATE_PARTITIONS" in line for line in lines)
    file = tmp_path / "changed.request.log"
    file.write_text("".join(lines))
    report = verify_recording(file)
    assert report.agrees, "\n".join(report.lines())
    assert any("somewhat before or after their line" in note for note in report.notes)


@pytest.mark.parametrize("name", ["consumer-protocol", "migration", "transactions"])
@pytest.mark.parametrize("part", [0, 1, 2, 3])
def test_a_log_with_lines_missing_tells_nothing_wrong(name: str, part: int, tmp_path: Path) -> None:
    """The broker's own epochs and targets, as far as the group is known; then that it is not."""
    lines = lines_of(CLUSTERS / f"{name}.request.log.gz")
    begin, end = len(lines) * part // 4, len(lines) * (part + 1) // 4
    kept = [line for place, line in enumerate(lines) if not begin <= place < end or '"METADATA"' in line]
    told = targets_of(outputs_of(followed_lines(tmp_path, kept)))
    broker = targets_of_dump(CLUSTERS / f"{name}.offsets.jsonl.gz")
    wrong = {group_id: epochs - broker.get(group_id, set()) for group_id, epochs in told.items()}
    assert not any(wrong.values()), wrong
    assert any(told.values()) == (part > 0) or name != "consumer-protocol"


def targets_of(outputs: list[Output]) -> Targets:
    return targets_in((output.key, output.value) for output in outputs if isinstance(output, LogRecord))


def targets_of_dump(path: Path) -> Targets:
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    return targets_in(
        (b64decode(line["key"]), None if line["value"] is None else b64decode(line["value"]))
        for line in lines
        if "control" not in line
    )


def targets_in(records: Iterable[tuple[bytes, bytes | None]]) -> Targets:
    """Group -> its targets: the epoch with each member's partitions, at each computation."""
    shares: dict[str, dict[str, frozenset[tuple[bytes, int]]]] = {}
    targets: Targets = {}
    for key, value in records:
        record = decode_record(key, value)
        if isinstance(record, int) or "group_id" not in record.key:
            continue
        of_group = shares.setdefault(record.key["group_id"], {})
        if record.name == "ConsumerGroupTargetAssignmentMember":
            of_group.pop(record.key["member_id"], None)
            if record.value is not None:
                topics = record.value["topic_partitions"]
                share = frozenset((topic["topic_id"], number) for topic in topics for number in topic["partitions"])
                of_group[record.key["member_id"]] = share
        elif record.name == "ConsumerGroupTargetAssignmentMetadata" and record.value is not None:
            epoch = record.value["assignment_epoch"]
            targets.setdefault(record.key["group_id"], set()).add((epoch, frozenset(of_group.items())))
    return targets


@pytest.mark.parametrize("apis", [("CREATE_TOPICS", "CREATE_PARTITIONS", "DELETE_TOPICS"), ("METADATA",)])
def test_either_way_of_knowing_the_topics_is_enough(apis: tuple[str, ...], tmp_path: Path) -> None:
    """Another broker was asked to change them, or no client asked this one what they are."""
    lines = lines_of(CLUSTERS / "consumer-protocol.request.log.gz")
    file = tmp_path / "changed.request.log"
    file.write_text("".join(line for line in lines if not any(f'"{api}"' in line for api in apis)))
    report = verify_recording(file)
    assert report.agrees, "\n".join(report.lines())


def test_a_group_s_own_interval_is_seen_in_its_answers(tmp_path: Path) -> None:
    lines = lines_of(CLUSTERS / "consumer-protocol.request.log.gz")
    changed = [
        line.replace('"heartbeatIntervalMs":5000', '"heartbeatIntervalMs":7000')
        if '"groupId":"shop"' in line and line[12:20] > "18:09:40"
        else line
        for line in lines
    ]
    file = tmp_path / "changed.request.log"
    file.write_text("".join(changed))
    report = verify_recording(file)
    assert report.agrees, "\n".join(report.lines())
    assert "group shop: it gets settings of its own 1 times" in report.notes


def test_settings_of_a_group_are_taken_from_their_lines(tmp_path: Path) -> None:
    lines = lines_of(CLUSTERS / "consumer-protocol.request.log.gz")
    alter = next(line for line in lines if '"CREATE_TOPICS"' in line and '"isForwarded":false' in line)
    body = json.loads(alter[alter.index("{") : alter.rindex("}") + 1])
    body["requestHeader"] |= {"requestApiKey": 44, "requestApiVersion": 1, "requestApiKeyName": "X"}
    config = {"name": "consumer.heartbeat.interval.ms", "configOperation": 0, "value": "6000"}
    shop = {"resourceType": 32, "resourceName": "shop"}
    body["request"] = {"resources": [shop | {"configs": [config]}], "validateOnly": False}
    body["response"] = {"responses": [shop | {"errorCode": 0, "errorMessage": None}]}
    changed = [
        line.replace('"heartbeatIntervalMs":5000', '"heartbeatIntervalMs":6000') if '"groupId":"shop"' in line else line
        for line in lines
    ]
    file = tmp_path / "changed.request.log"
    file.write_text(f"{alter[: alter.index('{')]}{json.dumps(body)}\n" + "".join(changed))
    report = verify_recording(file)
    assert report.agrees, "\n".join(report.lines())
    assert "group shop: it gets settings of its own 1 times" in report.notes


def test_another_broker_may_go_on_with_consumer_groups(tmp_path: Path) -> None:
    """From half a minute before the end on, the lines are another broker's."""
    lines = lines_of(CLUSTERS / "consumer-protocol.request.log.gz")
    files = tmp_path / "a.request.log", tmp_path / "b.request.log"
    moved = [line.replace('"connection":"127.0.0.1:53823-', '"connection":"127.0.0.1:53999-') for line in lines]
    files[0].write_text("".join(line for line in lines if line[12:20] <= "18:10:30"))
    files[1].write_text("".join(line for line in moved if line[12:20] > "18:10:30"))
    report = verify_recording(files)
    assert report.agrees, "\n".join(report.lines())
    assert sum("sessions begin anew there" in note for note in report.notes) == 3


def test_a_join_that_the_coordinator_took_up_late_puts_off_the_next_target() -> None:
    """A cold broker's thread took it up 54 ms after the handler: so much later its target was a second old."""
    report = verify_recording(
        FIXTURES / "late_hand_over.request.log.gz", broker_logs=[FIXTURES / "late_hand_over.server.log.gz"]
    )
    assert not report.differences, "\n".join(report.lines())
    assert sum(report.not_compared.values()) == 2, "another broker coordinated the group before"


def polls(name: str) -> list[Json]:
    text = gzip.decompress((CLUSTERS / f"{name}.admin.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def states_of(following: Following) -> dict[str, list[tuple[int, Json | None]]]:
    """Group -> its states in the order of time, each with the time since when it was so."""
    coordinator, clock_ms = Coordinator(following.settings.config), 0
    states: dict[str, list[tuple[int, Json | None]]] = {}
    for record in EventsImport(following):
        assert record.value is not None
        if record.key is None:
            clock_ms = decode_tick(record.value).clock_ms
            coordinator.advance_to(clock_ms)
        else:
            group_id = record.key.decode()
            event = decode_group_event(group_id, record.value)
            coordinator.handle(group_id, group_event(event, record.offset or 0, clock_ms, record.timestamp_ms or 0))
        for group_id, group in coordinator.groups.items():
            of_group, state = states.setdefault(group_id, []), state_of(group)
            if not of_group or of_group[-1][1] != state:
                of_group.append((clock_ms, state))
    return states


def states_between(states: list[tuple[int, Json | None]], from_ms: int, until_ms: int) -> list[Json]:
    """All states of a consumer group in this time."""
    before = [state for since_ms, state in states if since_ms <= from_ms][-1:]
    states_then = before + [state for since_ms, state in states if from_ms < since_ms <= until_ms]
    return [state for state in states_then if state is not None]


def state_of(group: Group) -> Json | None:
    body = group.body
    if not isinstance(body, ConsumerGroup):
        return None
    assert group.topics is not None
    names = group.topics.names

    def partitions(topics: Any) -> list[str]:
        """Those of topics that are not gone: an admin client is told of no others."""
        named = ((names[topic_id], numbers) for topic_id, numbers in topics if topic_id in names)
        return sorted(f"{topic}-{number}" for topic, numbers in named for number in numbers)

    described = {
        "group_epoch": body.group_epoch,
        "target_epoch": body.assignment_epoch,
        "state": body.state_name,
        "members": {
            member_id: {
                "epoch": member.member_epoch,
                "upgraded": member.classic is None,
                "assignment": partitions([*member.assigned.items(), *member.pending_revocation.items()]),
                "target": partitions(body.targets.get(member_id, ())),
            }
            for member_id, member in body.members.items()
        },
    }
    offsets = {
        f"{topic}-{number}": committed.offset
        for topic in sorted(group.retention)
        for number, committed in group.offsets.of_topic(topic).items()
    }
    return {"group": described, "offsets": offsets}


def seen_by_admin(group: Json) -> Json:
    return {
        "group_epoch": group["group_epoch"],
        "target_epoch": group["target_assignment_epoch"],
        "state": group["state"],
        "members": {
            member["member_id"]: {
                "epoch": member["epoch"],
                "upgraded": member["upgraded"],
                "assignment": sorted(member["assignment"]),
                "target": sorted(member["target"]),
            }
            for member in group["members"]
        },
    }
