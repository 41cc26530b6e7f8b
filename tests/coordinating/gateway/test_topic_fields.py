"""Where messages name topics: against kafka-python's own classes in every message and version, and against damage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from group_coordinator.coordinating.gateway.topic_fields import find_topics
from group_coordinator.coordinating.gateway.versions import GROUP_APIS, TOPIC_APIS, accepted_versions
from schemas.kafka.codec import decode_struct, encode_struct, is_flexible
from schemas.kafka.definitions import StructDefinition, definition_of, names_of
from schemas.wire import DecodeError
from tests.coordinating.gateway.random_messages import TOPIC_MESSAGES, random_message, wire_class
from tests.each_version import in_each_version

NAMES = ("orders", "coordinator.events", "x" * 249, "é")
_EACH = 10


def named(definition: dict[str, Any], values: dict[str, Any]) -> Iterator[tuple[str | None, bytes | None]]:
    """The topics of a message as it was made, those that are items of arrays."""
    for field in definition["fields"]:
        value = next((value for name, value in values.items() if name.replace("_", "") == field["name"].lower()), None)
        if not field["type"].startswith("[]") or value is None:
            continue
        for item in value:
            if field.get("entityType") == "topicName":
                yield item, None
            elif "fields" in field:
                yield from _of_item(field, item)


def _of_item(field: dict[str, Any], item: dict[str, Any]) -> Iterator[tuple[str | None, bytes | None]]:
    name, topic_id = None, None
    for inner_field in field["fields"]:
        value = next(
            (value for name, value in item.items() if name.replace("_", "") == inner_field["name"].lower()), None
        )
        if inner_field.get("entityType") == "topicName" or inner_field["name"] == "ResourceName":
            name = value
        elif inner_field["name"] == "TopicId" and value is not None and value != bytes(16):
            topic_id = value
    if name is not None or topic_id is not None:
        yield name, topic_id
    yield from named(field, item)


@in_each_version(TOPIC_MESSAGES)
def test_finds_what_was_named(message: str, version: int) -> None:
    random = Random(f"{message}{version}")
    for _ in range(_EACH):
        kafka_python_message, values = random_message(message, version, random, NAMES)
        encoded = b"before" + bytes(kafka_python_message.encode(version=version))
        mentions = find_topics(message, version, encoded, 6)
        assert [(mention.name, mention.topic_id) for mention in mentions] == list(
            named(wire_class(message).json, values)
        )
        for mention in mentions:
            if mention.name is not None:
                assert encoded[mention.name_at :].startswith(mention.name.encode())
            if mention.topic_id is not None:
                assert encoded[mention.id_at : mention.id_at + 16] == mention.topic_id
            if mention.field is not None and mention.field.struct is not None:
                flexible = is_flexible(message, version)
                item = decode_struct(mention.field.struct, version, flexible, encoded[mention.begin : mention.end])
                assert (
                    encode_struct(mention.field.struct, version, flexible, item) == encoded[mention.begin : mention.end]
                )


def test_each_api_that_goes_through_and_names_topics_is_known() -> None:
    for key in accepted_versions(rewrites_addresses=False, taps=False):
        if key in GROUP_APIS:
            continue
        definitions = {name: definition_of(name) for name in names_of("messages")}
        messages = [
            name
            for name, definition in definitions.items()
            if definition.api_key == key and names_topics(definition.struct)
        ]
        assert bool(messages) == (key in TOPIC_APIS), (key, messages)
        assert all(message.startswith(TOPIC_APIS[key]) for message in messages)


def names_topics(struct: StructDefinition) -> bool:
    """Whether a message of this form can name a topic at all."""
    return any(
        field.entity_type == "topicName"
        or field.name in ("ResourceName", "TopicId")
        or (field.struct is not None and names_topics(field.struct))
        for field in struct.fields
    )


@in_each_version(TOPIC_MESSAGES)
def test_damage_is_told(message: str, version: int) -> None:
    """Nothing but DecodeError."""
    random = Random(f"damaged{message}{version}")
    kafka_python_message, _ = random_message(message, version, random, NAMES)
    encoded = bytes(kafka_python_message.encode(version=version))
    for _ in range(100):
        damaged = bytearray(encoded)
        for _ in range(random.randrange(1, 4)):
            if damaged:
                damaged[random.randrange(len(damaged))] = random.choice((0, 0xFF, 0x80, random.randrange(256)))
        with suppress(DecodeError):
            find_topics(message, version, bytes(damaged[: random.randrange(len(damaged) + 1)]), 0)


def test_a_count_is_not_believed() -> None:
    for version, count in ((8, b"\x7f\xff\xff\xff"), (12, b"\xff\xff\xff\xff\x07")):
        with pytest.raises(DecodeError):
            find_topics("MetadataRequest", version, count + b"\x00" * 20, 0)
