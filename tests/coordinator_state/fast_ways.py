"""What tests of the core's fast ways share: random groups, and what becomes of them."""

from __future__ import annotations

import random

from msgspec import UNSET, UnsetType

from coordinator_state import GroupCoordinator, Output, RequestEvent, decode_group, encode_group
from schemas.group_metadata_events import TopicMetadata
from tests.coordinator_state.harness import GroupHarness, assignment

MEMBERS = ("a", "b", "c")
TOLD: list[TopicMetadata | UnsetType] = [UNSET, UNSET, UNSET, TopicMetadata(version=1, topics=(), absent=("t",))]


def random_group(chance: random.Random) -> GroupHarness:
    """A group in any state, with members of different sessions."""
    group = GroupHarness(group_initial_rebalance_delay_ms=chance.choice([0, 3_000]))
    for _ in range(chance.randrange(2, 14)):
        member_id, generation_id = chance.choice(MEMBERS), chance.randrange(4)
        match chance.randrange(6):
            case 0:
                group.join(new_member_id=member_id)
            case 1 | 2:
                group.join(member_id, session_timeout_ms=chance.choice([6_000, 10_000, 30_000]))
            case 3:
                group.sync(member_id, generation_id, {member: assignment("t", 0) for member in MEMBERS})
            case 4:
                group.sleep(chance.choice([0, 500, 3_000, 6_000]))
            case _:
                group.heartbeat(member_id, generation_id)
    return group


def handled(group: GroupHarness, events: list[RequestEvent]) -> tuple[list[Output], tuple[bytes, bytes] | None]:
    packed = None if group.group is None else encode_group(group.group)
    coordinator = GroupCoordinator("g", group.config, group=None if packed is None else decode_group(*packed))
    for event in events:
        coordinator.handle(event)
    return coordinator.take_outputs(), None if coordinator.group is None else encode_group(coordinator.group)
