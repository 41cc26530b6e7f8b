"""The gateway, as a thread of a process: `Gateway(config).start()` and `stop()`."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Message

from group_coordinator.coordinating.gateway.answer_sizes import AnswerSizes
from group_coordinator.coordinating.gateway.authorization import Authorizer, RulesError, parse_rules
from group_coordinator.coordinating.gateway.broker_topics import BrokerTopics
from group_coordinator.coordinating.gateway.checked_offsets import CheckedOffsets
from group_coordinator.coordinating.gateway.config import GatewayError, GatewaySettings
from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.coordinator_client import EventsClient, reading_ended
from group_coordinator.coordinating.gateway.group_lists import GroupLists
from group_coordinator.coordinating.gateway.handover import Handover, topic_records
from group_coordinator.coordinating.gateway.joined_topics import JoinedTopics
from group_coordinator.coordinating.gateway.own_settings import OwnSettings, write_to
from group_coordinator.coordinating.gateway.pending_request import MAY_BE_PARKED, PendingRequest
from group_coordinator.coordinating.gateway.ports import Ports
from group_coordinator.coordinating.gateway.progress_channel import ProgressChannel
from group_coordinator.coordinating.gateway.proxy_server import ProxyServer
from group_coordinator.coordinating.gateway.published_groups import PublishedGroups
from group_coordinator.coordinating.gateway.request_bounds import cost_of_listing
from group_coordinator.coordinating.gateway.request_router import Reply, RequestRouter
from group_coordinator.coordinating.gateway.rewriting import Locate
from group_coordinator.coordinating.gateway.shard_count import partition_counts
from group_coordinator.coordinating.gateway.topic_access import TopicAccess
from group_coordinator.coordinating.gateway.topic_cache import TopicCache
from group_coordinator.coordinating.gateway.topic_filter import TopicFilter
from group_coordinator.coordinating.gateway.topic_images import TopicImages
from group_coordinator.coordinating.gateway.transactions import TransactionLog
from group_coordinator.coordinating.gateway.versions import accepted_versions
from group_coordinator.ground.kafka_topics.errors import TopicReadError
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from schemas.http_host import is_loopback

_PUBLISHED_TIMEOUT_S = 60.0
_log = logging.getLogger(__name__)


class Gateway(ProxyServer):
    """Kafka clients in, events out.

    `stop` costs nobody its place in a group: clients come back to another or a new one.
    """

    _config: GatewaySettings

    def __init__(
        self,
        config: GatewaySettings,
        *,
        ends_with_coordinator: bool = False,
        transaction_log: TransactionLog | None = None,
    ) -> None:
        """`ends_with_coordinator`: it is in the coordinator's process, so it says nothing about clients that can be
        heard without the coordinator. `transaction_log` None: no offsets in transactions are offered."""
        super().__init__(config)
        self._ends_with_coordinator = ends_with_coordinator
        self._writing_signs: asyncio.Task[None] | None = None
        self._gateway_versions = accepted_versions(
            rewrites_addresses=not config.routes, taps=False, transactions=transaction_log is not None
        )
        self._transaction_log = transaction_log
        self._sizes = AnswerSizes()
        self._events = EventsClient(config, self.metrics, self._sizes, self.give_up, transaction_log)
        self._published = PublishedGroups(config.listed_bytes_max, self.metrics)
        self._asker = str(uuid4())
        self._channel = ProgressChannel(config, self._asker)
        self._follower: TopicFollower | None = None
        self._router: RequestRouter | None = None
        self._topics: TopicAccess | None = None

    async def _begin(self, ports: Ports) -> None:
        loop = asyncio.get_running_loop()
        config = self._config
        brokers = BrokerTopics(config.broker_client_properties, loop)
        topics = TopicCache(brokers.ask, loop.call_later, loop.time)
        authorizer = _authorizer(config)
        await asyncio.to_thread(self._events.connect, loop)
        lists = GroupLists(self._published, self._channel, self._asker, loop.call_later, loop.time)
        await asyncio.to_thread(self._channel.start, loop, lists.answered)
        are_read = asyncio.Event()
        images = await asyncio.to_thread(self._read_published, loop, are_read)
        joined = JoinedTopics(
            images, self._published.group, topics, self._channel, lambda: brokers.cluster_id, loop.call_later, loop.time
        )
        self._topics = TopicAccess(config.topic_prefix, authorizer)
        self._router = RequestRouter(
            CheckedOffsets(self._events, topics, self._topics, joined),
            lists,
            ports.nodes,
            authorizer,
            answer_member_id_required=config.answer_member_id_required,
            bounds=config,
            sizes=self._sizes,
            topics=self._topics,
            own_settings=OwnSettings(
                config, lambda: self._published.configured, write_to(self._events), loop.time,
                config.groups_per_request_max, config.id_bytes_max,
            ),
            transaction_log=self._transaction_log,
            now_ms=lambda: loop.time() * 1_000,
        )
        self._events.begin()
        try:
            async with asyncio.timeout(_PUBLISHED_TIMEOUT_S):
                await are_read.wait()  # who is told that the gateway is ready may list the groups, and join one
        except TimeoutError:
            raise GatewayError(
                f"Groups and topics could not be read within {_PUBLISHED_TIMEOUT_S:.0f} s: is Kafka there?"
            ) from None
        if not self._ends_with_coordinator:
            self._writing_signs = loop.create_task(self._channel.give_signs_of_life())

    async def _finish(self) -> None:
        if self._writing_signs is not None:
            self._writing_signs.cancel()
        self._events.stop_watching()
        await asyncio.to_thread(self._events.end)
        if self._follower is not None:
            await asyncio.to_thread(self._follower.stop)
        await asyncio.to_thread(self._channel.stop)

    def _machine(self, locate: Locate | None) -> Connection:
        assert self._topics is not None
        topic_filter = TopicFilter(self._topics)
        machine = Connection(
            self._gateway_versions,
            locate,
            self._config,
            requires_sasl=self._config.speaks_sasl,
            now_s=time.monotonic,
            topic_filter=topic_filter,
        )
        machine.listing_cost = lambda: cost_of_listing(len(self._published))
        return machine

    def _ask(self, pending: PendingRequest, node_id: int | None, reply: Reply) -> None:
        assert self._router is not None
        self._router.ask(pending, node_id, reply)

    def _weigh(self, pending: PendingRequest) -> int:
        assert self._router is not None
        if isinstance(pending.request, MAY_BE_PARKED):
            return 0  # others of the group may wait for it
        weight = super()._weigh(pending) + self._router.weigh(pending)
        return min(weight, self._config.queued_max_request_bytes // 2)

    def _read_published(self, loop: asyncio.AbstractEventLoop, are_read: asyncio.Event) -> TopicImages:
        """Begin to follow what the coordinator publishes of groups and of topics."""
        properties = self._config.coordinator_client_properties
        assignments, topics = (f"{self._config.topic_prefix}.{name}" for name in ("assignments", "topics"))
        counts = partition_counts(properties, [assignments, topics])
        images = TopicImages(counts[topics])
        handovers = {assignments: Handover(loop, self._published.take), topics: Handover(loop, images.take)}

        def take(messages: list[Message]) -> None:
            for topic, handover in handovers.items():
                records = topic_records([message for message in messages if message.topic() == topic])
                handover.give(records, lambda: self._follower is None or self._follower.is_stopping)

        def complete() -> None:
            handovers[assignments].when_taken(self._published.complete)
            handovers[topics].when_taken(lambda: handovers[assignments].when_taken(are_read.set))

        self._follower = TopicFollower(
            properties,
            "gateway",
            take,
            on_caught_up=complete,
            on_failure=lambda problem: self.give_up(reading_ended(problem)),
        )
        try:
            self._follower.start(
                from_beginning=[(topic, number) for topic, count in counts.items() for number in range(count)]
            )
        except TopicReadError as problem:
            raise GatewayError(str(problem)) from problem
        return images


def _authorizer(config: GatewaySettings) -> Authorizer:
    if config.authorization_rules is None:
        if not is_loopback(config.address.host):
            _log.warning("no authorization rules: only clients on this machine may use groups")
        return Authorizer(None)
    path = Path(config.authorization_rules)
    try:
        return Authorizer(parse_rules(path.read_text(encoding="utf-8"), config.topic_prefix))
    except (OSError, UnicodeDecodeError, RulesError) as problem:
        raise GatewayError(f"The authorization rules in {path} cannot be used: {problem}.") from problem
