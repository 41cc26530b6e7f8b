"""The settings of a member, and where its requests go."""

from __future__ import annotations

from uuid import NAMESPACE_DNS, NAMESPACE_OID

import pytest

from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.effects import Send
from group_coordinator.coordinating.members.member import GroupMember
from group_coordinator.coordinating.members.requests import request_ids
from schemas.java_hash import group_partition


def test_settings_that_cannot_work_are_refused_with_every_mistake() -> None:
    config = MemberConfig(group_id="", session_timeout_ms=3_000, heartbeat_interval_ms=3_000, max_poll_interval_ms=0)
    with pytest.raises(ValueError, match=r"max_poll_interval_ms is 0.*heartbeat_interval_ms.*group_id is empty"):
        GroupMember(config, iter(()))


def test_an_unknown_assignor_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no assignor 'best'"):
        GroupMember(MemberConfig(group_id="g", partition_assignment_strategy=("best",)), iter(()))


def test_requests_go_to_the_shard_of_the_group() -> None:
    config = MemberConfig(group_id="orders-app")
    member = GroupMember(config, iter(f"id-{n}" for n in range(9)), shard_count=50)
    member.start(0, ("orders",))
    member.poll(0)
    send = member.take_outputs()[0]
    assert isinstance(send, Send)
    assert (send.api, send.shard, send.request_id) == ("JoinGroup", group_partition("orders-app", 50), "id-0")


def test_request_ids_are_unique_and_the_same_for_the_same_namespace() -> None:
    first, again, other_ids = request_ids(NAMESPACE_OID), request_ids(NAMESPACE_OID), request_ids(NAMESPACE_DNS)
    own_ids = [next(first) for _ in range(100)]
    assert own_ids == [next(again) for _ in range(100)]
    assert len({*own_ids, *(next(other_ids) for _ in range(100))}) == 200
