"""What an admin client sees of all groups, in the words of a recording."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from tests.clusters.programs import KINDS, Programs

_TIMEOUT_S = 8.0
_admin: AdminClient | None = None
"""In the process that describes."""


class Poller:
    """Asks for groups by their names, and for their offsets.

    The admin client of librdkafka 2.16 crashes its process when a broker answers with an error of coordinators
    (`rd_kafka_cgrp_op`, `rd_kafka_enq_once_del_source_return`), and when one that was away answers a listing. So it has
    a process of its own, kafka-python asks for offsets, and no listing is asked for. Java's describes the groups that
    librdkafka does not know.
    """

    def __init__(self, servers: str, programs: Programs | None) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self._servers = servers
        self._describing = self._begin()
        self._describer = None if programs is None else programs.describer(servers)
        self._offsets = KafkaAdminClient(
            bootstrap_servers=servers, client_id="driver-offsets", request_timeout_ms=int(_TIMEOUT_S * 1000)
        )

    def _begin(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("forkserver"), _connect, (self._servers,))

    def poll(self, libraries: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return those groups, given with the library of their members, that are there and whose coordinator answers.
        Raises KafkaException where none does, or the admin client has crashed."""
        wanted = sorted(group_id for group_id, library in libraries.items() if library not in KINDS)
        try:
            groups, problem = self._describing.submit(_describe, wanted).result() if wanted else ([], None)
        except BrokenProcessPool as crash:
            self._describing = self._begin()
            raise KafkaException(f"the admin client has crashed: {crash}") from None
        if problem is not None:
            raise KafkaException(problem)
        if self._describer is not None:
            kinds = [sorted(id_ for id_, library in libraries.items() if library == kind) for kind in KINDS]
            groups += self._describer.describe(*kinds)
        return [group | self._committed(group["group"]) for group in groups]

    def close(self) -> None:
        """End the process of Java's client."""
        if self._describer is not None:
            self._describer.close()

    def _committed(self, group_id: str) -> dict[str, Any]:
        try:
            offsets = self._offsets.list_group_offsets(group_id)[group_id]
        except KafkaError:
            return {}
        return {"offsets": {f"{place.topic}-{place.partition}": one.offset for place, one in sorted(offsets.items())}}


def _connect(servers: str) -> None:
    global _admin
    _admin = AdminClient({"bootstrap.servers": servers, "client.id": "driver-groups", "log_level": 0})


def _describe(wanted: list[str]) -> tuple[list[dict[str, Any]], str | None]:
    """Return the groups that are there, and a problem if none could be asked for (its own exception has no pickle)."""
    assert _admin is not None
    groups, problems = [], []
    for future in _admin.describe_consumer_groups(wanted, request_timeout=_TIMEOUT_S).values():
        try:
            group = future.result()
        except KafkaException as problem:
            problems.append(str(problem))
            continue
        if group.state.name != "DEAD":
            groups.append(_group(group))
    return groups, problems[0] if len(problems) == len(wanted) else None


def _group(group: ConsumerGroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.type.name.title(),
        "protocol_type": "consumer",
        "state": _words(group.state.name),
        "coordinator": None if group.coordinator is None else group.coordinator.id,
        "assignor": group.partition_assignor,
        "members": sorted(
            (
                {
                    "member_id": member.member_id,
                    "client_id": member.client_id,
                    "host": member.host,
                    "assignment": _places(member.assignment),
                }
                | ({"instance_id": member.group_instance_id} if member.group_instance_id else {})
                | ({"target": _places(member.target_assignment)} if member.target_assignment is not None else {})
                for member in group.members
            ),
            key=lambda member: str(member["member_id"]),
        ),
    }


def _places(assignment: Any) -> list[str]:
    return sorted(map(_name, assignment.topic_partitions))


def _name(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"


def _words(state: str) -> str:
    """PREPARING_REBALANCING of the library is Kafka's PreparingRebalance."""
    return {"PREPARING_REBALANCING": "PreparingRebalance", "COMPLETING_REBALANCING": "CompletingRebalance"}.get(
        state, state.title()
    )
