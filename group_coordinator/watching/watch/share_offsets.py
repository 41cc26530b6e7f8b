"""Where share groups (KIP-932) stand in the logs, as their coordinators say: no record and no client's library tells.

kafka-python carries the requests, by Kafka's own definitions of them: its messages may be defined elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from types import new_class
from typing import Any, NamedTuple

import kafka
from kafka.errors import IncompatibleBrokerVersion, KafkaError

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.ground.kafka_topics.errors import TIMEOUT_S
from group_coordinator.watching.dashboard.committed import ShareOffset
from group_coordinator.watching.watch.python_client import PropertyError, python_properties

_DEFINITIONS = "schemas.kafka.messages"
_AT_ONCE = 200
_PATIENCE_MS = int(TIMEOUT_S * 1_000)
_FIND_VERSION = 4
"""The first that asks for many groups at once. Brokers that have share groups have it."""
_log = logging.getLogger(__name__)


class Library(NamedTuple):
    """What is used of kafka-python beside its documented names."""

    manager: Any
    selector: Any
    find: Any
    describe: Any
    described: Any
    """The library finds it by its key, as long as somebody holds it."""


@cache
def library() -> Library:
    """Return it. Raises ImportError, AttributeError or TypeError where the library is other inside."""
    message = import_module("kafka.protocol.api_message").ApiMessage
    names = ("DescribeShareGroupOffsetsRequest", "DescribeShareGroupOffsetsResponse")
    describe, described = (new_class(name, (message,), {"load_json": _DEFINITIONS}) for name in names)
    return Library(
        import_module("kafka.net.manager").KafkaConnectionManager,
        import_module("kafka.net.selector").NetworkSelector,
        import_module("kafka.protocol.metadata").FindCoordinatorRequest[_FIND_VERSION],
        describe,
        described,
    )


class ShareOffsets:
    """Asks for the offsets of share groups. For one thread."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """`properties` are librdkafka's. Nothing is opened before the first question."""
        self._properties = properties
        self._net: Any = None
        self._manager: Any = None
        self._coordinators: dict[str, int] = {}
        self._is_told = True
        """Whether the brokers, and the library, have such a request."""

    def __call__(self, group_ids: Collection[str]) -> dict[str, dict[Partition, ShareOffset]]:
        """Return what is known of these groups. One that this client may not describe, or whose coordinator does not
        answer, is left out."""
        if not group_ids or not self._is_told:
            return {}
        try:
            used = library()
        except (ImportError, AttributeError, TypeError) as problem:
            self._is_told = False
            _log.warning(
                "Lag of share groups is not known: kafka-python %s is other inside (%s).", kafka.__version__, problem
            )
            return {}
        try:
            self._open(used)
            return dict(self._manager.run(self._described, sorted(group_ids)))
        except IncompatibleBrokerVersion:
            self._is_told = False
        except (KafkaError, PropertyError, OSError) as problem:
            _log.debug("offsets of share groups: %s", problem)
            self.close()
        return {}

    def close(self) -> None:
        """Close the connections; the next question opens others."""
        if self._net is not None:
            self._manager.close()
            self._net.close()
            self._net, self._coordinators = None, {}

    def _open(self, used: Library) -> None:
        if self._net is None:
            settings = python_properties(self._properties)
            self._net = used.selector(**settings)
            self._manager = used.manager(self._net, **settings)
            self._manager.bootstrap(_PATIENCE_MS)

    async def _described(self, group_ids: list[str]) -> list[tuple[str, dict[Partition, ShareOffset]]]:
        found: list[tuple[str, dict[Partition, ShareOffset]]] = []
        for begin in range(0, len(group_ids), _AT_ONCE):
            asked_ids = group_ids[begin : begin + _AT_ONCE]
            await self._find([group_id for group_id in asked_ids if group_id not in self._coordinators])
            by_node: dict[int, list[str]] = {}
            for group_id in asked_ids:
                if group_id in self._coordinators:
                    by_node.setdefault(self._coordinators[group_id], []).append(group_id)
            for node_id, of_node in by_node.items():
                found += await self._ask(node_id, of_node)
        return found

    async def _find(self, group_ids: list[str]) -> None:
        if group_ids:
            request = library().find(key_type=0, coordinator_keys=group_ids)
            answer = await self._send(request, self._manager.least_loaded_node())
            self._coordinators |= {each.key: each.node_id for each in answer.coordinators if not each.error_code}

    async def _ask(self, node_id: int, group_ids: list[str]) -> list[tuple[str, dict[Partition, ShareOffset]]]:
        describe = library().describe
        of_group = describe.DescribeShareGroupOffsetsRequestGroup
        request = describe(groups=[of_group(group_id=group_id, topics=None) for group_id in group_ids])
        answer = await self._send(request, node_id)
        for group in answer.groups:
            if group.error_code:  # the coordinator may be another one by now
                self._coordinators.pop(group.group_id, None)
        return [(group.group_id, dict(_offsets(group))) for group in answer.groups if not group.error_code]

    async def _send(self, request: Any, node_id: int) -> Any:
        sent = self._manager.send(request, node_id=node_id, request_timeout_ms=_PATIENCE_MS)
        return await self._manager.wait_for(sent, _PATIENCE_MS)


def _offsets(group: Any) -> Iterator[tuple[Partition, ShareOffset]]:
    """Yield the partitions of its topics."""
    for topic in group.topics:
        for each in topic.partitions:
            if not each.error_code:
                lag = None if each.lag is None or each.lag < 0 else int(each.lag)
                yield (topic.topic_name, int(each.partition_index)), ShareOffset(int(each.start_offset), lag)
