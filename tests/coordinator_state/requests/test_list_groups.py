"""ListGroups: the groups of a process, by state and type. It asks no single group, so it is no event of one."""

from collections.abc import Sequence

import pytest
from msgspec import Raw

from coordinator_state import Coordinator, GroupConfig, RequestEvent
from schemas.events import RequestEnvelope
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic


@pytest.fixture
def coordinator() -> Coordinator:
    """Three groups that have offsets and no members."""
    coordinator = Coordinator(GroupConfig())
    partitions = (OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
    for number in range(3):
        topics = (OffsetCommitRequestTopic(name="t", partitions=partitions),)
        envelope = RequestEnvelope(
            request_id=str(number), reply_partition=0, api="OffsetCommit", api_version=9, body=Raw()
        )
        request = OffsetCommitRequest(group_id=f"g{number}", topics=topics)
        coordinator.handle(f"g{number}", RequestEvent(number, 1_000, 1_000, envelope, request))
    return coordinator


@pytest.mark.parametrize(
    ("states", "types", "count"),
    [
        ([], [], 3),
        (["empty "], [], 3),
        (["Stable"], [], 0),
        (["Stable", "EMPTY"], [], 3),
        ([], ["Classic"], 3),
        ([], ["consumer"], 0),
    ],
)
def test_filters(coordinator: Coordinator, states: Sequence[str], types: Sequence[str], count: int) -> None:
    assert [listed.group_id for listed in coordinator.list_groups(states, types)] == ["g0", "g1", "g2"][:count]


def test_a_listed_group_says_its_state_and_type(coordinator: Coordinator) -> None:
    listed = coordinator.list_groups()[0]
    assert (listed.group_state, listed.group_type, listed.protocol_type) == ("Empty", "classic", "")


def test_groups_that_have_expired_are_not_listed(coordinator: Coordinator) -> None:
    coordinator.advance_to(30 * 24 * 60 * 60_000)
    assert coordinator.groups == {}
    assert coordinator.list_groups() == []
