"""Heartbeats answered in the gateway: each rule, and a coordinator in batches against which every answer is judged."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator_state import Answer, AssignmentChange, Coordinator, GroupConfig, Output, RequestEvent
from coordinator_state.classic.group import ClassicGroup
from group_coordinator.gateway.handover import TopicRecord
from group_coordinator.gateway.heartbeat_cache import HeartbeatCache
from group_coordinator.gateway.published_groups import PublishedGroup, PublishedGroups, PublishedMember
from schemas.consumer_protocol import Subscription, encode_subscription
from schemas.error_codes import ErrorCode
from schemas.events import RequestEnvelope, decode_request_event, encode_json, encode_request_event
from schemas.history import GroupSnapshot
from schemas.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupMember,
    LeaveGroupRequest,
    Request,
    Response,
    SyncGroupRequest,
)
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, owned
from tests.coordinator_state.harness import of_type, subscription

WELL, REJOIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS
BEAT = HeartbeatRequest(group_id="g", generation_id=5, member_id="m")
MEMBER = PublishedMember("m", None)
GROUP = PublishedGroup("g", "Stable", 5, "consumer", (MEMBER,))


class Bench:
    def __init__(self) -> None:
        self.group: PublishedGroup | None = GROUP
        self.beats = HeartbeatCache(lambda group_id: self.group if group_id == "g" else None, patience_ms=5_000)

    def known(self, error_code: ErrorCode = WELL) -> Bench:
        """To whose first heartbeat the coordinator has said this."""
        self.beats.sent(BEAT, 0)
        self.beats.answered(BEAT, error_code)
        return self


def test_the_first_heartbeat_of_a_generation_is_the_coordinators_to_answer() -> None:
    bench = Bench()
    assert bench.beats.answer(BEAT, 0) is None
    bench.beats.sent(BEAT, 0)
    assert bench.beats.answer(BEAT, 1) is None
    bench.beats.answered(BEAT, WELL)
    assert bench.beats.answer(BEAT, 2) is WELL
    assert bench.beats.answer(replace(BEAT, generation_id=6), 2) is None


@pytest.mark.parametrize(
    ("said", "state", "told"),
    [
        (WELL, "Stable", WELL),
        (WELL, "CompletingRebalance", WELL),
        (WELL, "PreparingRebalance", REJOIN),
        (WELL, "Empty", None),
        (REJOIN, "Stable", REJOIN),
        (REJOIN, "PreparingRebalance", REJOIN),
        (ErrorCode.UNKNOWN_MEMBER_ID, "Stable", None),
        (ErrorCode.ILLEGAL_GENERATION, "Stable", None),
        (ErrorCode.FENCED_INSTANCE_ID, "PreparingRebalance", None),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "Stable", None),
    ],
)
def test_what_was_said_and_what_is_published(said: ErrorCode, state: str, told: ErrorCode | None) -> None:
    bench = Bench().known(said)
    bench.group = replace(GROUP, state=state)
    assert bench.beats.answer(BEAT, 1) is told


def test_only_members_of_the_published_group_in_its_generation() -> None:
    bench = Bench().known()
    for group in (
        None,
        replace(GROUP, generation_id=6),
        replace(GROUP, members=()),
        replace(GROUP, members=(replace(MEMBER, member_id="n"),)),
    ):
        bench.group = group
        assert bench.beats.answer(BEAT, 1) is None


def test_a_static_member_by_its_own_name_only() -> None:
    bench = Bench().known()
    bench.group = replace(GROUP, members=(replace(MEMBER, group_instance_id="i"),))
    assert bench.beats.answer(replace(BEAT, group_instance_id="i"), 1) is WELL
    assert bench.beats.answer(replace(BEAT, group_instance_id="j"), 1) is None


def test_when_answers_stop_coming_the_door_is_silent() -> None:
    bench = Bench().known()
    bench.beats.sent(BEAT, 1_000)
    bench.beats.sent(BEAT, 4_000)
    assert bench.beats.answer(BEAT, 6_000) is WELL
    assert bench.beats.answer(BEAT, 6_001) is None
    bench.beats.answered(BEAT, WELL)
    assert bench.beats.answer(BEAT, 6_001) is WELL, "the oldest without an answer is now that of 4000"


def test_who_was_told_to_rejoin_in_a_generation_stays_told() -> None:
    bench = Bench().known(REJOIN)
    bench.beats.sent(BEAT, 1)
    bench.beats.answered(BEAT, WELL)
    assert bench.beats.answer(BEAT, 2) is REJOIN


@pytest.mark.parametrize("said", [WELL, REJOIN])
def test_classic_members_of_a_consumer_group_are_the_coordinators_to_answer(said: ErrorCode) -> None:
    """There a member that was told to rejoin may come back in the generation that it had, and all is well."""
    bench = Bench().known(said)
    bench.group = replace(GROUP, is_consumer_group=True)
    assert bench.beats.answer(BEAT, 1) is None
    bench.beats.sent(BEAT, 1)
    bench.beats.answered(BEAT, WELL)
    bench.group = GROUP  # it has become a classic group, in the generation in which it was
    assert bench.beats.answer(BEAT, 2) is WELL


def test_a_classic_member_that_waits_for_a_native_one_rejoins_once_for_its_partitions() -> None:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    published = PublishedGroups(1_000_000)
    beats = HeartbeatCache(published.group, patience_ms=5_000)

    def told(outputs: list[Output]) -> Any:
        for change in of_type(outputs, AssignmentChange):
            published.take([TopicRecord(b"g", None if change.snapshot is None else encode_json(change.snapshot), 0)])
        return of_type(outputs, Answer)[-1].response

    joins: list[int] = []

    def join() -> None:
        answer = told(group.join("c", protocols={"range": subscription("foo")}))
        joins.append(answer.generation_id)
        told(group.sync("c", answer.generation_id))

    native = told(group.beat("n", 0, subscribed_topic_names=("foo",), rebalance_timeout_ms=9_000, topic_partitions=()))
    join()
    for number in range(20):
        fields: dict[str, Any] = {} if number < 5 else {"topic_partitions": owned(FOO, 0, 1)}
        native = told(group.beat("n", native.member_epoch, **fields))
        request = HeartbeatRequest(group_id="g", generation_id=joins[-1], member_id="c")
        cached = beats.answer(request, 0)
        beats.sent(request, 0)
        answer = told(group.heartbeat("c", joins[-1]))
        beats.answered(request, answer.error_code)
        if (answer.error_code if cached is None else cached) is REJOIN:
            join()
    assert group.state == "Stable"
    assert joins == [3, 3], "it has come, and come again when the native member had given up its half"


# --------------------------------------------------------------------------------- against the coordinator, in batches


class World:
    """Members whose heartbeats the gateway answers, a log that is handled a batch at a time,
    outputs that come after the batch."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ms = 1_000
        self.coordinator = Coordinator(GroupConfig(group_initial_rebalance_delay_ms=0))
        self.published, self.published_seq = PublishedGroups(1_000_000), 0
        self.beats = HeartbeatCache(self.published.group, patience_ms=5_000)
        self.log: list[tuple[Request, str, int, str | None]] = []
        self.offset = 0
        self.members: dict[str, int] = {}
        """Member id -> the generation of which it speaks."""
        self.arriving: list[JoinGroupResponse] = []
        """Answers on their way to their members."""
        self.silent_until_ms: dict[str, int] = {}
        self.refused_ms: dict[tuple[str, int], int] = {}
        """(member, generation) -> when the gateway received the answer that it is out."""
        self.said_well = self.said_rejoin = 0

    def send(self, request: Request, api: str, new_member_id: str | None = None) -> None:
        self.log.append((request, api, self.offset, new_member_id))
        self.offset += 1

    def beat(self, member_id: str) -> None:
        request = HeartbeatRequest(group_id="g", generation_id=self.members[member_id], member_id=member_id)
        error_code = self.beats.answer(request, self.now_ms)
        self.beats.sent(request, self.now_ms)
        self.send(request, "Heartbeat")
        if error_code is None:
            return
        assert error_code in (WELL, REJOIN), "the gateway fences no member"
        assert (member_id, request.generation_id) not in self.refused_ms, "the coordinator has said that it is out"
        # The coordinator's state is that after the last batch, all of which has been delivered: all is well must be
        # true of it. To rejoin is right as well for one who is out, and for whom another generation has begun.
        state = self.coordinator.groups.get("g")
        group = None if state is None else state.body
        is_well = (
            isinstance(group, ClassicGroup)
            and member_id in group.members
            and group.generation_id == request.generation_id
            and group.state.value in ("Stable", "CompletingRebalance")
        )
        assert is_well == (error_code is WELL)
        self.said_well += error_code is WELL
        self.said_rejoin += error_code is REJOIN

    def run_batch(self) -> None:
        outputs: list[Output] = []
        requests: dict[str, Request] = {}
        for request, api, offset, new_member_id in self.log:
            envelope, decoded = self._event(request, api, offset, new_member_id)
            requests[envelope.request_id] = decoded
            outputs += self.coordinator.handle("g", RequestEvent(offset, self.now_ms, self.now_ms, envelope, decoded))
        self.log.clear()
        outputs += self.coordinator.advance_to(self.now_ms)
        self.random.shuffle(outputs)  # the topics are read by different threads
        for output in outputs:
            if isinstance(output, AssignmentChange):
                self._publish(output.snapshot)
            elif isinstance(output, Answer):
                self._hear(requests.get(output.request_id), output.response)

    def _publish(self, snapshot: GroupSnapshot | None) -> None:
        if snapshot is None or snapshot.seq > self.published_seq:
            self.published.take([TopicRecord(b"g", None if snapshot is None else encode_json(snapshot), 0)])
            self.published_seq = 0 if snapshot is None else snapshot.seq

    def _event(
        self, request: Request, api: str, offset: int, new_member_id: str | None
    ) -> tuple[RequestEnvelope, Request]:
        value = encode_request_event(
            api, 3, request, request_id=str(offset), reply_partition=0, client_id="c", new_member_id=new_member_id
        )
        return decode_request_event("g", value)

    def _hear(self, request: Request | None, response: Response) -> None:
        match response:
            case HeartbeatResponse():
                assert isinstance(request, HeartbeatRequest)
                self.beats.answered(request, response.error_code)
                if response.error_code not in (WELL, REJOIN):
                    self.refused_ms[request.member_id, request.generation_id] = self.now_ms
            case JoinGroupResponse(error_code=ErrorCode.NONE):
                self.arriving.append(response)

    def arrive(self) -> None:
        """Members hear of their new generation, some of them."""
        for response in list(self.arriving):
            if self.random.random() < 0.6:
                self.arriving.remove(response)
                self.members[response.member_id] = response.generation_id
                self.send(
                    SyncGroupRequest(group_id="g", generation_id=response.generation_id, member_id=response.member_id),
                    "SyncGroup",
                )

    def is_silent(self, member_id: str) -> bool:
        """Now and then one says nothing for longer than its session."""
        if self.random.random() < 0.01:
            self.silent_until_ms[member_id] = self.now_ms + 9_000
        return self.silent_until_ms.get(member_id, 0) > self.now_ms

    def join(self, member_id: str, new: bool) -> None:
        metadata = encode_subscription(Subscription(topics=("t",)))
        request = JoinGroupRequest(
            group_id="g", session_timeout_ms=6_000, rebalance_timeout_ms=8_000, member_id="" if new else member_id,
            protocol_type="consumer", protocols=(JoinGroupProtocol(name="range", metadata=metadata),),
        )  # fmt: skip
        self.send(request, "JoinGroup", member_id if new else None)

    def leave(self, member_id: str) -> None:
        del self.members[member_id]
        self.send(LeaveGroupRequest(group_id="g", members=(LeaveGroupMember(member_id=member_id),)), "LeaveGroup")


@pytest.mark.parametrize("seed", range(30))
def test_what_is_said_at_the_door_is_true_of_the_last_batch(seed: int) -> None:
    random = Random(seed)
    world = World(random)
    joined = 0
    for _ in range(600):
        world.now_ms += random.randrange(50, 900)
        step = random.random()
        if step < 0.06 or not world.members:
            joined += 1
            world.join(f"m{joined}", new=True)
        elif step < 0.12:
            world.join(random.choice(list(world.members)), new=False)
        elif step < 0.14:
            world.leave(random.choice(list(world.members)))
        world.arrive()
        for member_id in list(world.members):
            if not world.is_silent(member_id) and random.random() < 0.7:
                world.beat(member_id)
        if random.random() < 0.6:
            world.run_batch()
    assert world.said_well > 50
    assert world.said_rejoin > 0
