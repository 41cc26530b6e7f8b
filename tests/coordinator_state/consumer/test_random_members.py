"""Members of a consumer group that do what they like.

No partition has two owners, no epoch falls, and when the members are quiet all have what they shall have.

What holds is read from answers: what members were told, and what ConsumerGroupDescribe says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.consumer_group_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    TopicPartitions,
)
from schemas.error_codes import ErrorCode
from tests.coordinator_state.consumer.harness import BAR, FOO, ConsumerHarness, topics

Partition = tuple[str, int]
Step = tuple[str, int, int]
"""What happens, to which member, and a number that says more."""

MEMBERS = 4
KINDS = ("heartbeat", "heartbeat", "heartbeat", "lost", "wrong", "wrong", "resubscribe", "rejoin", "leave")
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.sampled_from(KINDS), st.integers(0, MEMBERS - 1), st.integers(0, 2**10)),
    st.tuples(st.just("sleep"), st.just(0), st.sampled_from([1, 400, 1_000, 5_000, 30_000, 60_000])),
    st.tuples(st.just("grow"), st.just(0), st.just(0)),
)
QUIET_ROUNDS = 8
SAY_JOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
"""The last one where the group is gone, some time after its last member."""


@dataclass
class Client:
    """A member as it sees itself."""

    member_id: str
    epoch: int = JOIN_EPOCH
    names: tuple[str, ...] = ("foo",)
    held: set[Partition] = field(default_factory=set)
    tells_all: bool = False
    """It missed an answer, so its next heartbeat says everything, and the answer to that has the assignment."""


class World:
    """A group, its clients and its topics."""

    def __init__(self, group: ConsumerHarness) -> None:
        self.group = group
        self.clients = [Client(f"m{number}") for number in range(MEMBERS)]
        self.partition_count = 3
        self.group.metadata = topics(1, foo=3, bar=3)
        self.seen: tuple[int, int, dict[str, int]] | None = None
        """Life, group epoch and member epochs of the last look."""

    def take(self, step: Step) -> None:
        kind, number, detail = step
        client = self.clients[number]
        if kind == "sleep":
            self.group.sleep(detail)
        elif kind == "grow":
            self.partition_count += 1
            count = self.partition_count
            self.group.metadata = topics(count - 2, foo=count, bar=count)
        elif kind == "heartbeat":
            self.heartbeat(client)
        elif kind == "lost":
            self.lose(client)
        elif kind == "wrong":
            self.go_wrong(client, detail)
        elif kind == "resubscribe":
            client.names = [("foo",), ("bar",), ("foo", "bar"), ()][detail % 4]
            self.heartbeat(client, resubscribes=True)
        elif kind == "rejoin":
            self.join(client)
        else:
            self.group.told(client.member_id, LEAVE_EPOCH)
            client.epoch, client.held = JOIN_EPOCH, set()

    def heartbeat(self, client: Client, *, resubscribes: bool = False) -> None:
        """A heartbeat as a client sends it; who is fenced joins."""
        if client.epoch == JOIN_EPOCH:
            self.join(client)
            return
        answer = self.group.told(
            client.member_id,
            client.epoch,
            topic_partitions=reported(client.held),
            subscribed_topic_names=client.names if resubscribes or client.tells_all else None,
            rebalance_timeout_ms=60_000 if client.tells_all else -1,
        )
        if answer.error_code is ErrorCode.NONE:
            believe(client, answer)
            client.tells_all = False
        else:
            assert answer.error_code in SAY_JOIN, answer
            self.join(client)

    def join(self, client: Client) -> None:
        client.held, client.tells_all = set(), False
        answer = self.group.joins(client.member_id, *client.names)
        assert answer.error_code is ErrorCode.NONE
        assert answer.assignment is not None
        believe(client, answer)

    def lose(self, client: Client) -> None:
        """A heartbeat that is handled, but the answer does not arrive."""
        if client.epoch != JOIN_EPOCH:
            self.group.told(client.member_id, client.epoch, topic_partitions=reported(client.held))
            client.tells_all = True

    def go_wrong(self, client: Client, detail: int) -> None:
        """Any epoch, and any part of the partitions, or none are reported. What is not reported is given up."""
        epoch = max(client.epoch + detail % 5 - 2, 1)
        kept = None if detail % 7 == 0 else {owned for owned in sorted(client.held) if (detail >> owned[1]) & 1}
        answer = self.group.told(
            client.member_id, epoch, topic_partitions=None if kept is None else reported(kept)
        )
        client.tells_all = True
        if answer.error_code is ErrorCode.NONE and kept is not None:
            client.held = kept

    def described(self) -> DescribedConsumerGroup | None:
        """The group as it is described; None: there is none."""
        request = ConsumerGroupDescribeRequest(group_ids=("g",))
        answer = self.group.answer(self.group.send("ConsumerGroupDescribe", request, 1))
        assert isinstance(answer, ConsumerGroupDescribeResponse)
        (described,) = answer.groups
        return described if described.error_code is ErrorCode.NONE else None

    def check(self) -> None:
        described = self.described()
        if described is None:
            self.seen = None
            return
        owned = [owned for member in described.members for owned in assignment_of(member)]
        assert len(owned) == len(set(owned)), "two members own a partition"
        present = {member.member_id: member.member_epoch for member in described.members}
        held = [owned for client in self.clients if client.member_id in present for owned in client.held]
        assert len(held) == len(set(held)), "two clients were told that they own a partition"
        assert max(present.values(), default=0) <= described.assignment_epoch <= described.group_epoch
        assert self.group.group is not None
        life = self.group.group.epoch
        if self.seen is not None and self.seen[0] == life:
            assert described.group_epoch >= self.seen[1], "the group epoch fell"
            for member_id, epoch in self.seen[2].items():
                assert present.get(member_id, epoch) >= epoch, "a member epoch fell"
        self.seen = life, described.group_epoch, present


def reported(partitions: set[Partition]) -> tuple[TopicPartitions, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    return tuple(TopicPartitions(topic_id=topic_id, partitions=tuple(found)) for topic_id, found in by_topic.items())


def believe(client: Client, answer: ConsumerGroupHeartbeatResponse) -> None:
    client.epoch = answer.member_epoch
    if answer.assignment is not None:
        client.held = {
            (topic.topic_id, partition)
            for topic in answer.assignment.topic_partitions
            for partition in topic.partitions
        }


def assignment_of(member: DescribedConsumerGroupMember) -> set[Partition]:
    return {
        (topic.topic_id, partition)
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    }


def play(world: World, steps: list[Step]) -> None:
    for step in steps:
        world.take(step)
        world.check()


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=5, max_size=30))
def test_one_owner_rising_epochs_and_an_end(steps: list[Step]) -> None:
    world = World(ConsumerHarness())
    play(world, steps)
    for _ in range(QUIET_ROUNDS):
        world.group.sleep(5_000)
        for client in world.clients:
            world.heartbeat(client)
            world.check()
    described = world.described()
    assert described is not None
    assert described.group_state == "Stable"
    assert len(described.members) == MEMBERS
    by_id = {client.member_id: client for client in world.clients}
    for member in described.members:
        client = by_id[member.member_id]
        assert member.member_epoch == client.epoch == described.group_epoch
        assert member.assignment == member.target_assignment
        assert assignment_of(member) == client.held
        assert {{FOO: "foo", BAR: "bar"}[topic_id] for topic_id, _ in client.held} <= set(client.names)
    wanted = {name for client in world.clients for name in client.names}
    assert {owned for client in world.clients for owned in client.held} == {
        ({"foo": FOO, "bar": BAR}[name], partition) for name in wanted for partition in range(world.partition_count)
    }


@settings(max_examples=30)
@given(st.lists(STEPS, min_size=5, max_size=30))
def test_nothing_but_the_blobs_is_needed_between_two_events(steps: list[Step]) -> None:
    """One batch, or one for each event and each timer: the same outputs."""
    groups = [ConsumerHarness(), ConsumerHarness(one_batch=True)]
    for group in groups:
        play(World(group), steps)
    assert groups[0].outputs == groups[1].outputs
