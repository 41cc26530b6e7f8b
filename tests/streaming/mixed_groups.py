"""Groups whose members use both protocols, for logs of tests: they come, reconcile, commit, migrate and go, by a seed.

The requests are those of the simulation's generator, mostly right and some wrong. It looks at the coordinator's groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from msgspec import UNSET

from coordinator_state import Group, GroupConfig
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.kafka_versions import OF_OLD_LOGS
from schemas.consumer_group_messages import LEAVE_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.events import SESSION_RENEWAL, TopicsDeleted, encode_json, encode_request_event
from simulation.checker import consumer_of
from tests.random_requests.consumer_request_generator import ConsumerRequestGenerator
from tests.random_requests.random_cluster import RandomCluster
from tests.random_requests.request_generator import GeneratedRequest, RequestGenerator
from tests.random_requests.request_sequence import facts_told, some_topics

SETTINGS: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": 1_000,
    "group_min_session_timeout_ms": 2_000,
    "tick_ahead_max_ms": 3_000,
    "group_consumer_session_timeout_ms": 10_000,
    "group_consumer_min_session_timeout_ms": 3_000,
    "group_consumer_heartbeat_interval_ms": 2_000,
    "group_consumer_min_heartbeat_interval_ms": 500,
    "group_consumer_regex_refresh_interval_ms": 10_000,
}
"""Of the coordinator to which these groups speak. With Kafka's own a session would outlast a log of some minutes."""


class MixedGroups:
    """These groups, in some log."""

    def __init__(
        self, seed: int, count: int, reply_partitions: int, request_id_of: Callable[[str], str] = str
    ) -> None:
        self._dice = Random(f"mixed groups of {seed}")
        self._reply_partitions = reply_partitions
        config = GroupConfig(**SETTINGS, kafka_rules=OF_OLD_LOGS)
        self._cluster = RandomCluster(self._dice)
        classic = RequestGenerator(self._dice, config, self._dice, leads_well=True)
        self._generator = ConsumerRequestGenerator(self._dice, config, self._cluster, classic)
        self._ids = [f"mixed-{number}" for number in range(count)]
        self._requests = 0
        self._request_id_of = request_id_of

    def events(self, clock_ms: int, group_of: Callable[[str], Group | None]) -> Iterator[tuple[str, bytes]]:
        """Yield a request of one group, after what the group is told besides: group id and value.

        `group_of` asks the coordinator for one of its groups. Its clock must be this one, and it must have handled each
        event before the next one is asked for.
        """
        dice = self._dice
        group_id = dice.choice(self._ids)
        if dice.random() < 0.03:
            yield group_id, SESSION_RENEWAL
        if dice.random() < 0.03:
            yield group_id, encode_json(TopicsDeleted(topics=some_topics(dice, self._cluster)))
        for fact in facts_told(self._cluster, dice, group_of(group_id), clock_ms):
            yield group_id, encode_json(fact)
        if dice.random() < 0.2:
            for leave in self._leaves(group_id, consumer_of(group_of(group_id))):
                yield group_id, self._value(("ConsumerGroupHeartbeat", 1, "c1", None, leave))
        yield group_id, self._value(self._generator.request(group_id, group_of(group_id)))

    def _leaves(self, group_id: str, group: ConsumerGroup | None) -> list[ConsumerGroupHeartbeatRequest]:
        """By which all members of the consumer protocol leave, if there are others: then the group migrates back."""
        members = [] if group is None else [*group.members.values()]
        native = [member.member_id for member in members if not member.uses_classic_protocol]
        return [
            ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=LEAVE_EPOCH)
            for member_id in native
            if len(native) < len(members)
        ]

    def _value(self, generated: GeneratedRequest) -> bytes:
        """The request as an event, now and then with what is known of the topics."""
        api, version, client_id, new_member_id, request = generated
        if request is None:
            return b"{}"
        self._requests += 1
        attached = self._cluster.told() if self._dice.random() < 0.4 else UNSET
        return encode_request_event(
            api, version, request, request_id=self._request_id_of(f"mixed-request-{self._requests}"),
            client_id=client_id, reply_partition=self._dice.randrange(self._reply_partitions),
            new_member_id=new_member_id, topic_metadata=attached,
        )  # fmt: skip
