"""What a responder tells those who list the groups."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.responder import answering
from group_coordinator.coordinating.responder.answering import KEPT_S, AnsweringShard
from schemas.events import encode_request_event, encode_tick
from schemas.messages import (
    DeleteGroupsRequest,
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    Request,
    SyncGroupRequest,
)
from schemas.query_progress import ChangedGroup, GroupsAsked
from tests.coordinating.responder.fake_shard import CONFIG, STATE

TOPIC = OffsetCommitRequestTopic(
    name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
)


class Shard:
    """Events go in, and what is told of groups comes out."""

    def __init__(self) -> None:
        self.shard = AnsweringShard(CONFIG.operator_config(), STATE)
        self.offset = -1
        self.clock_ms = 1_000

    def say(self, request: Request, new_member_id: str | None = None, group_id: str = "g") -> None:
        api = type(request).__name__.removesuffix("Request")
        version = 2 if api == "DeleteGroups" else 3
        event = encode_request_event(
            api, version, request, request_id=f"r{self.offset}", reply_partition=0, client_id="c",
            new_member_id=new_member_id,
        )  # fmt: skip
        self.offset += 1
        self.shard.take(group_id.encode(), event, self.offset, self.clock_ms)

    def tick(self, by_ms: int) -> None:
        self.clock_ms += by_ms
        self.offset += 1
        self.shard.take(None, encode_tick(self.clock_ms), self.offset, self.clock_ms)

    def join(self, group_id: str = "g") -> None:
        protocols = (JoinGroupProtocol(name="range", metadata=b""),)
        self.say(
            JoinGroupRequest(
                group_id=group_id, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer",
                protocols=protocols,
            ),
            "m",
            group_id,
        )  # fmt: skip

    def told(self, asker: str = "me") -> list[ChangedGroup]:
        self.shard.changed.asked(GroupsAsked(asker=asker, number=7))
        (answer,) = self.shard.changed.answers()
        assert (answer.asker, answer.number, answer.is_last) == (asker, 7, True)
        return list(answer.groups)

    def states(self) -> list[str | None]:
        return [group.state for group in self.told()]

    def committed(self, now_s: float) -> None:
        """The query has decided all."""
        self.shard.changed.committed(self.offset + 1, self.clock_ms, now_s)


def test_a_group_is_told_as_it_was_answered_until_the_query_has_published_it_for_sure() -> None:
    shard = Shard()
    assert shard.states() == []
    shard.join()
    assert shard.states() == ["PreparingRebalance"]
    shard.tick(5_000)
    assert shard.states() == ["CompletingRebalance"], "a timer has changed it"
    shard.say(SyncGroupRequest(group_id="g", generation_id=1, member_id="m"))
    (group,) = shard.told()
    assert (group.state, group.group_type, group.protocol_type) == ("Stable", "classic", "consumer")
    shard.committed(100.0)
    assert shard.states() == ["Stable"], "who asks may not have read yet what was published"
    shard.committed(100.0 + KEPT_S)
    assert shard.states() == []
    shard.say(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    shard.say(OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=1, member_id="m", topics=(TOPIC,)))
    assert shard.states() == [], "what does not show in a list is not told"
    shard.say(LeaveGroupRequest(group_id="g", members=(LeaveGroupMember(member_id="m"),)))
    (group,) = shard.told()
    shard.say(DeleteGroupsRequest(groups_names=("g",)))
    (gone,) = shard.told()
    assert (group.state, gone.state) == ("Empty", None)
    assert (gone.epoch, gone.seq) > (group.epoch, group.seq)
    shard.committed(200.0)
    shard.committed(200.0 + KEPT_S)
    assert shard.states() == []


def test_what_a_timer_has_changed_is_kept_until_the_query_has_come_as_far_with_the_clock() -> None:
    shard = Shard()
    shard.join()
    shard.tick(5_000)
    shard.shard.changed.committed(shard.offset + 1, 1_000, 100.0)
    shard.shard.changed.committed(shard.offset + 1, 1_000, 100.0 + KEPT_S)
    assert shard.states() == ["CompletingRebalance"], "the query fires it a batch later"
    shard.committed(120.0)
    shard.committed(120.0 + KEPT_S)
    assert shard.states() == []


def test_a_long_answer_comes_in_pieces_and_of_each_asker_the_last_question_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answering, "GROUPS_PER_RECORD", 2)
    shard = Shard()
    for group_id in ("a", "b", "c"):
        shard.join(group_id)
    groups = shard.shard.changed
    for asker, number in (("one", 1), ("other", 3), ("one", 2)):
        groups.asked(GroupsAsked(asker=asker, number=number))
    answers = [
        (each.asker, each.number, [group.group_id for group in each.groups], each.is_last) for each in groups.answers()
    ]
    assert answers == [
        ("one", 2, ["a", "b"], False), ("one", 2, ["c"], True), ("other", 3, ["a", "b"], False),
        ("other", 3, ["c"], True),
    ]  # fmt: skip
    assert list(groups.answers()) == []
