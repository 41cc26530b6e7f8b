"""Polls that an admin client made of recorded clusters."""

from __future__ import annotations

import gzip
import json
from typing import Any

from group_coordinator.watching.observed.polled import PolledGroup
from schemas.history import AssignedTopic, MemberIdentity
from tests.watching.observed.recorded import CLUSTERS


def recorded_polls(name: str) -> list[dict[str, Any]]:
    with gzip.open(CLUSTERS / f"{name}.admin.jsonl.gz") as file:
        return [poll for poll in map(json.loads, file) if "groups" in poll]


def polled_group(group: dict[str, Any]) -> PolledGroup:
    members = group.get("members", ())
    return PolledGroup(
        group_id=group["group"],
        state=group["state"],
        protocol_type=group["protocol_type"],
        assignor=group["assignor"] or None,
        members={member["member_id"]: (identity(member), topics(member["assignment"])) for member in members},
        offsets={place(name): offset for name, offset in group["offsets"].items()} if "offsets" in group else None,
        kind="consumer" if group.get("type") == "Consumer" else "classic",
        targets={
            member["member_id"]: topics(member["target"]) for member in members if member.get("target") is not None
        },
    )


def identity(member: dict[str, Any]) -> MemberIdentity:
    return MemberIdentity(
        member_id=member["member_id"],
        group_instance_id=member.get("instance_id"),
        client_id=member["client_id"],
        client_host=member["host"],
    )


def topics(places: list[str]) -> tuple[AssignedTopic, ...]:
    partitions: dict[str, list[int]] = {}
    for topic, number in map(place, places):
        partitions.setdefault(topic, []).append(number)
    return tuple(AssignedTopic(topic=topic, partitions=tuple(numbers)) for topic, numbers in sorted(partitions.items()))


def place(text: str) -> tuple[str, int]:
    topic, _, number = text.rpartition("-")
    return topic, int(number)
