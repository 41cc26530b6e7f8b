"""Heartbeats of consumer groups that are answered in the gateway: each rule, and a coordinator in batches whose members
must never be fenced for it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from coordinator_state import Answer, AssignmentChange, Coordinator, GroupConfig, Output, RequestEvent
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.outputs import MetadataEvent
from group_coordinator.gateway.consumer_heartbeat_cache import ConsumerHeartbeatCache
from group_coordinator.gateway.handover import TopicRecord
from group_coordinator.gateway.published_groups import PublishedGroups
from schemas.consumer_group_messages import (
    LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from schemas.error_codes import ErrorCode
from schemas.events import decode_request_event, encode_json, encode_request_event
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from schemas.messages import Response
from tests.gateway.heartbeat_bench import (
    AS_BEFORE,
    BEAT,
    FENCED,
    GROUP,
    IN_DOUBT,
    MEMBER,
    TOPIC_ID,
    Bench,
    news,
    owning,
)  # fmt: skip


def test_a_settled_member_is_answered_and_its_heartbeat_goes_on() -> None:
    bench = Bench().settled()
    assert bench.ask() == [AS_BEFORE]
    assert [request for request, _ in bench.sent] == [BEAT]
    assert bench.coordinator_says(AS_BEFORE) == []
    assert bench.ask() == [AS_BEFORE]


@pytest.mark.parametrize(
    "says",
    [
        {"topic_partitions": ()}, {"subscribed_topic_names": ("t",)}, {"subscribed_topic_regex": "t"},
        {"server_assignor": "range"}, {"rack_id": "r"}, {"rebalance_timeout_ms": 1}, {"member_epoch": 4},
        {"instance_id": "i"},
    ],
)  # fmt: skip
def test_who_says_something_is_the_coordinators_to_answer(says: dict[str, object]) -> None:
    bench = Bench().settled()
    request = replace(BEAT, **says)
    assert bench.ask(request) == []
    assert bench.sent[0][0] == request
    assert bench.coordinator_says(FENCED) == [FENCED]


def test_only_members_of_the_published_group_that_is_stable_in_their_epoch() -> None:
    for group in (
        None,
        replace(GROUP, state="Reconciling"),
        replace(GROUP, generation_id=6),
        replace(GROUP, members=()),
        replace(GROUP, is_consumer_group=False),
    ):
        bench = Bench().settled()
        bench.group = group
        assert bench.ask() == []


def test_a_static_member_is_known_by_its_own_name() -> None:
    bench = Bench().settled()
    bench.group = replace(GROUP, members=(replace(MEMBER, group_instance_id="i"),))
    assert bench.ask(replace(BEAT, instance_id="j")) == []
    bench = Bench().settled()
    bench.group = replace(GROUP, members=(replace(MEMBER, group_instance_id="i"),))
    assert bench.ask(replace(BEAT, instance_id="i")) == [AS_BEFORE]


def test_another_interval_is_told_from_the_next_heartbeat_on() -> None:
    """A group's settings may change while its members go on as before."""
    bench = Bench().settled()
    bench.ask()
    bench.coordinator_says(replace(AS_BEFORE, heartbeat_interval_ms=9_000))
    assert bench.ask() == [replace(AS_BEFORE, heartbeat_interval_ms=9_000)]


def test_news_that_a_member_has_missed_comes_with_its_next_heartbeat() -> None:
    bench = Bench().settled()
    bench.ask()
    assert bench.ask() == [], "one answer at the most can be missed"
    assert len(bench.sent) == 1
    assert bench.coordinator_says(news(6, 0)) == []
    (request, _), = bench.sent
    assert request == replace(BEAT, member_epoch=6), "to the coordinator it has heard the news"
    assert bench.coordinator_says(replace(AS_BEFORE, member_epoch=6)) == [news(6, 0)]
    bench.group = replace(GROUP, generation_id=6)
    owned = replace(BEAT, member_epoch=6, topic_partitions=owning(0))
    assert bench.ask(owned) == []
    assert bench.sent[0][0] == owned


def test_news_are_told_one_by_one() -> None:
    """Told that it owns 0, and never that it was to own 3, the member would not say that it gave 3 up."""
    bench = Bench().settled()
    bench.ask()
    bench.coordinator_says(news(6, 0, 1, 3))
    bench.ask()
    assert bench.coordinator_says(news(6, 0, 1)) == [news(6, 0, 1, 3)]
    bench.ask(replace(BEAT, member_epoch=6))
    assert bench.coordinator_says(replace(AS_BEFORE, member_epoch=6)) == [news(6, 0, 1)]
    bench.ask(replace(BEAT, member_epoch=6, topic_partitions=owning(0, 1)))
    assert bench.coordinator_says(news(7, 0, 1)) == [news(7, 0, 1)]


def test_who_says_what_it_owns_is_told_the_latest() -> None:
    """The coordinator has taken 3 from it at once, and may have given it to another: it has said that it has it not."""
    bench = Bench().settled()
    bench.ask()
    bench.coordinator_says(news(6, 0, 1, 3))
    everything = replace(BEAT, topic_partitions=owning(0, 1), subscribed_topic_names=("t",), rebalance_timeout_ms=9)
    bench.ask(everything)
    assert bench.sent[0][0] == replace(everything, member_epoch=6)
    assert bench.coordinator_says(news(7, 0, 1)) == [news(7, 0, 1)]


def test_an_error_that_a_member_has_missed_is_said_again() -> None:
    bench = Bench().settled()
    bench.ask()
    bench.coordinator_says(FENCED)
    assert bench.ask() == []
    assert bench.sent[0][0] == BEAT
    assert bench.coordinator_says(FENCED) == [FENCED]


def test_who_may_have_missed_something_is_asked_to_say_everything() -> None:
    bench = Bench().settled()
    bench.ask()
    bench.coordinator_says(IN_DOUBT)
    assert bench.ask() == [IN_DOUBT]
    assert bench.sent == []
    everything = replace(BEAT, topic_partitions=owning(0, 1), subscribed_topic_names=("t",), rebalance_timeout_ms=9)
    assert bench.ask(everything) == []
    assert bench.sent[0][0] == everything


def test_a_member_that_is_new_to_the_gateway_may_have_missed_something() -> None:
    bench = Bench()
    assert bench.ask() == [IN_DOUBT]
    assert bench.ask() == [], "one that does not say everything goes to the coordinator"
    assert bench.sent[0][0] == BEAT


def test_who_leaves_or_joins_does_not_wait() -> None:
    bench = Bench().settled()
    bench.ask()
    for epoch in (0, LEAVE_EPOCH):
        request = replace(BEAT, member_epoch=epoch)
        assert bench.ask(request) == []
        assert bench.sent[-1][0] == request
    assert len(bench.beats) == 0


# --------------------------------------------------------------------------------- against the coordinator, in batches


class Client:
    """A member as clients are: after an error it says everything, or joins."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.gateway = self.connection = 0
        self.epoch = 0
        self.held: set[int] = set()
        self.told_coordinator: set[int] | None = None
        self.says_everything = True
        self.waits = False
        self.may_be_fenced = False

    def request(self) -> ConsumerGroupHeartbeatRequest:
        self.waits = True
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=self.member_id, member_epoch=self.epoch)
        if self.says_everything:
            request = replace(request, subscribed_topic_names=("t",), rebalance_timeout_ms=60_000)
        if self.says_everything or self.told_coordinator != self.held:
            request = replace(request, topic_partitions=owning(*sorted(self.held)))
            self.told_coordinator = set(self.held)
        self.says_everything = False
        return request

    def hear(self, answer: Response) -> None:
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        self.waits = False
        if answer.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self.says_everything = True
            return
        if answer.error_code is ErrorCode.FENCED_MEMBER_EPOCH and self.may_be_fenced:
            self.epoch, self.held, self.told_coordinator, self.says_everything = 0, set(), None, True
            self.may_be_fenced = False
            return
        assert answer.error_code is ErrorCode.NONE, f"{self.member_id} is told {answer}"
        assert answer.member_epoch >= self.epoch
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.held = {index for topic in answer.assignment.topic_partitions for index in topic.partitions}


class World:
    """Members whose heartbeats two gateways answer, a log that is handled a batch at a time, outputs that come after
    the batch, answers that do not come in time, gateways that begin anew, and members that go to the other one."""

    def __init__(self, random: Random, *, gateways_go: bool, members_move: bool) -> None:
        self.random = random
        self.gateways_go, self.members_move = gateways_go, members_move
        self.now_ms = 1_000
        self.coordinator = Coordinator(GroupConfig(group_consumer_assignment_interval_ms=0))
        self.published, self.published_seq = PublishedGroups(1_000_000), 0
        self.gateways = [ConsumerHeartbeatCache(self.published.group) for _ in range(2)]
        self.log: list[tuple[ConsumerGroupHeartbeatRequest, Callable[[Response], None]]] = []
        self.offset = 0
        self.clients: dict[str, Client] = {}
        self.partitions = 4
        self.at_once = self.joined = 0
        self.lost: set[str] = set()
        """Members whose last answer was lost. Kafka's rule holds for one such answer: it fences who has lost two."""

    def happen(self, chance: float) -> None:
        if chance < 0.03:
            self.join()
        elif chance < 0.05 and len(self.clients) > 1 and self.idle:
            self.leave(self.random.choice(self.idle))
        elif 0.05 <= chance < 0.06:
            self.partitions += self.random.randrange(1, 4)
        elif 0.06 <= chance < 0.065 and self.gateways_go:
            self.lose_gateway()
        elif 0.07 <= chance < 0.12 and self.members_move and self.idle:
            self.move(self.random.choice(self.idle))

    @property
    def idle(self) -> list[Client]:
        """Those that wait for no answer."""
        return [client for client in self.clients.values() if not client.waits]

    def beat(self, client: Client) -> None:
        before = len(self.log)
        request = client.request()

        def send(request: ConsumerGroupHeartbeatRequest, on_answer: Callable[[Response], None]) -> None:
            self.log.append((request, on_answer))

        self.gateways[client.gateway].ask(request, send, client.hear, client.connection)
        if not client.waits and len(self.log) > before:
            self.at_once += 1
            state = self.coordinator.groups.get("g")
            assert state is not None
            assert isinstance(state.body, ConsumerGroup)
            # The coordinator's state is that after the last batch, all of which has been delivered.
            assert (state.body.state_name, state.body.group_epoch) == ("Stable", client.epoch)
            assert client.member_id in state.body.members

    def join(self) -> None:
        self.joined += 1
        client = self.clients[f"m{self.joined}"] = Client(f"m{self.joined}")
        self.beat(client)

    def leave(self, client: Client) -> None:
        del self.clients[client.member_id]
        client.epoch, client.says_everything = LEAVE_EPOCH, False
        client.held = set()
        client.told_coordinator = set()
        self.gateways[client.gateway].ask(
            client.request(), lambda request, _: self.log.append((request, lambda _: None)), lambda _: None
        )

    def move(self, client: Client) -> None:
        """Its connection ends while it waits for nothing; the next one leads to the other gateway."""
        client.gateway, client.connection, client.may_be_fenced = 1 - client.gateway, client.connection + 1, True

    def lose_gateway(self) -> None:
        """Others take over; who waits for an answer gets none, and asks it."""
        self.gateways = [ConsumerHeartbeatCache(self.published.group) for _ in range(2)]
        self.log = [(request, lambda _: None) for request, _ in self.log]
        for client in self.clients.values():
            client.says_everything = client.says_everything or client.waits
            client.waits, client.may_be_fenced = False, True

    def run_batch(self) -> None:
        self._tell_topics()
        outputs: list[Output] = []
        waiting: dict[str, tuple[str, Callable[[Response], None]]] = {}
        for request, on_answer in self.log:
            self.offset += 1
            value = encode_request_event(
                "ConsumerGroupHeartbeat", 1, request, request_id=str(self.offset), reply_partition=0, client_id="c"
            )
            event = RequestEvent(self.offset, self.now_ms, self.now_ms, *decode_request_event("g", value))
            waiting[str(self.offset)] = request.member_id, on_answer
            outputs += self.coordinator.handle("g", event)
        self.log = []
        outputs += self.coordinator.advance_to(self.now_ms)
        answers = [output for output in outputs if isinstance(output, Answer)]
        for output in outputs:
            if isinstance(output, AssignmentChange) and output.snapshot is not None:
                self.published.take([TopicRecord(b"g", encode_json(output.snapshot), 0)])
        for answer in answers:
            member_id, on_answer = waiting[answer.request_id]
            if self.random.random() < 0.03 and member_id not in self.lost:
                self.lost.add(member_id)
                on_answer(IN_DOUBT)
            else:
                self.lost.discard(member_id)
                on_answer(answer.response)

    def _tell_topics(self) -> None:
        topic = DescribedTopic(name="t", topic_id=TOPIC_ID, partitions=((),) * self.partitions)
        self.offset += 1
        fact = TopicMetadata(version=self.partitions, topics=(topic,))
        self.coordinator.handle("g", MetadataEvent(self.offset, self.now_ms, self.now_ms, fact))

    def check(self) -> None:
        held = [partition for client in self.clients.values() for partition in client.held]
        assert len(held) == len(set(held)), "two members were told that they own a partition"

    @property
    def is_at_rest(self) -> bool:
        """Each partition has its owner, by what the members know."""
        held = sorted(partition for client in self.clients.values() for partition in client.held)
        return held == list(range(self.partitions))


@pytest.mark.parametrize("members_move", [False, True])
@pytest.mark.parametrize("gateways_go", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_nobody_is_fenced_for_an_answer_at_the_door(seed: int, gateways_go: bool, members_move: bool) -> None:
    """And nobody owns what another owns, and in the end all partitions are owned. Where a gateway goes, or a member
    leaves it for another one, a member may be fenced that it knew to have missed news, and joins anew."""
    random = Random(seed)
    world = World(random, gateways_go=gateways_go, members_move=members_move)
    world.join()
    world.run_batch()
    for _ in range(500):
        world.now_ms += random.randrange(50, 900)
        world.happen(random.random())
        for client in world.idle:
            if random.random() < 0.5:
                world.beat(client)
        world.check()
        if random.random() < 0.6:
            world.run_batch()
        world.check()
    for _ in range(60):
        for client in world.idle:
            world.beat(client)
        world.run_batch()
        world.check()
    assert world.is_at_rest
    assert world.at_once > 50
