"""Topics for tests: there is one when its partitions are led, some moments after a broker has said that it is made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.waiting import wait_until

TIMEOUT_S, ATTEMPT_S = 60.0, 3.0


def make_topic(admin: AdminClient, name: str, partitions: int = 1) -> None:
    """Make a topic and wait for it."""
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(TIMEOUT_S)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    places = {TopicPartition(name, number): latest for number in range(partitions)}
    problem: list[KafkaException] = []

    def is_led() -> bool:
        try:
            # The brokers are asked anew: what librdkafka has kept of a topic it may believe for long.
            admin.list_topics(name, timeout=ATTEMPT_S)
            for future in admin.list_offsets(places, request_timeout=ATTEMPT_S).values():
                future.result(TIMEOUT_S)
        except KafkaException as refused:
            problem[:] = [refused]
            return False
        return True

    wait_until(is_led, TIMEOUT_S, lambda: problem)


def delete_topics(admin: AdminClient, is_old: Callable[[str], bool]) -> None:
    """Delete all topics of such names, and wait until they are gone."""

    def are_gone() -> bool:
        old = [name for name in admin.list_topics(timeout=30).topics if is_old(name)]
        for future in admin.delete_topics(old).values() if old else ():
            with suppress(KafkaException):  # it is on its way out
                future.result(30)
        return not old

    wait_until(are_gone, TIMEOUT_S, interval_s=0.2)


def alter(admin: AdminClient, kind: ResourceType, name: str, settings: dict[str, str | None]) -> None:
    """Set settings, or put them back (None)."""
    entries = [
        ConfigEntry(
            key, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        )
        for key, value in settings.items()
    ]
    for future in admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values():
        future.result(30)
