"""Logs of consumer groups, imported and replayed, against what an admin client saw of the same groups meanwhile."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from coordinator_state import Coordinator, group_event
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.group import Group
from group_coordinator.recordings.events_import import EventsImport
from group_coordinator.recordings.following import Following
from schemas.events import decode_group_event, decode_tick
from tests.recordings.broker_logs import FIXTURES, followed

Json = dict[str, Any]

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
