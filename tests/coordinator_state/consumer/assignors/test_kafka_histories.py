"""Groups whose targets go by the orders of a broker's maps: members, topics, and what was recorded before."""

from __future__ import annotations

import json

from coordinator_state.consumer.assignors import (
    SERVER_ASSIGNORS,
    AssignorGroup,
    AssignorMember,
    AssignorTopic,
    SubscriptionType,
)
from coordinator_state.consumer.assignors.java_order import assignor_member_order, subscribed_topic_id_order
from coordinator_state.consumer.member import TargetAssignment
from tests.coordinator_state.consumer.assignors.vectors import Vector, read_fixture, topic_id


def test_uniform_targets_of_groups_that_change() -> None:
    _, *histories = map(json.loads, read_fixture("server_uniform_histories_4_3_1.jsonl.xz").splitlines())
    assert len(histories) == 25
    for history in histories:
        _replay(history)


def _replay(history: Vector) -> None:
    """A member joins, or one leaves and the one that is longest in the group beats; then there is a new target."""
    ids = {name: topic_id(uuid) for name, uuid, _ in history["topics"]}
    topics = {topic_id(uuid): AssignorTopic(count) for _, uuid, count in history["topics"]}
    keys, most, targets = dict[str, None](), 0, dict[str, TargetAssignment]()
    for step in history["steps"]:
        joins = step["op"] == "join"
        if not joins:
            del keys[step["id"]]
            del targets[step["id"]]
        members = assignor_member_order(keys, most, step["id"] if joins else None)
        members_topics = subscribed_topic_id_order(sorted(ids), ids)
        group = AssignorGroup(
            tuple(AssignorMember(member_id, members_topics, targets.get(member_id, ())) for member_id in members),
            topics,
            SubscriptionType.HOMOGENEOUS,
        )
        for member_id, target in SERVER_ASSIGNORS["uniform"].assign(group).items():
            if _sets(target) != _sets(targets.get(member_id, ())) or member_id not in targets:
                targets[member_id] = target
        if joins:
            keys[step["id"]] = None
            most = max(most, len(keys))
        expected = {
            member_id: {topic_id(uuid): set(partitions) for uuid, partitions in share.items()}
            for member_id, share in step["target"].items()
        }
        assert {member_id: _sets(target) for member_id, target in targets.items()} == expected


def _sets(target: TargetAssignment) -> dict[str, set[int]]:
    return {topic: set(partitions) for topic, partitions in target}
