"""Random messages of every API and version that is read here, made and written by kafka-python's own classes."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from kafka.protocol import sasl
from kafka.protocol.admin import cluster, configs, groups, topics, transactions
from kafka.protocol.consumer import fetch, group, offsets
from kafka.protocol.metadata import find_coordinator, metadata
from kafka.protocol.producer import produce, transaction

from group_coordinator.coordinating.gateway.versions import GROUP_APIS, GROUP_VERSIONS, TOPIC_APIS, accepted_versions
from schemas.messages import ApiKey

_MODULES = (
    group, groups, find_coordinator, sasl, produce, fetch, offsets, metadata, topics, transaction, transactions,
    configs, cluster,
)  # fmt: skip
_INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_ERROR_CODES = (-1, 0, 14, 15, 16, 22, 25, 27, 79, 82, 110)  # kio takes only those that Kafka has
_TEXTS = ("", "a", "orders", "Bestellungen-é", "注文" * 40, "x" * 300, "\U0001f680")

NOT_KAFKA_PYTHONS = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
"""Messages that kafka-python does not have; `tests.schemas.kafka.test_codec` holds them against kio alone."""

def wire_class(message: str) -> Any:
    return next(getattr(module, message) for module in _MODULES if hasattr(module, message))


# (message, version) of all that the gateway reads or writes and kafka-python has, too.
MESSAGES = [
    (GROUP_APIS[key] + kind, version)
    for key, (first, last) in GROUP_VERSIONS.items()
    if key not in NOT_KAFKA_PYTHONS
    for kind in ("Request", "Response")
    for version in range(first, min(last, wire_class(GROUP_APIS[key] + kind).max_version) + 1)
] + [
    (name + kind, version)
    for name in ("SaslHandshake", "SaslAuthenticate")
    for kind in ("Request", "Response")
    for version in (0, 1)
]

_PASSED = accepted_versions(rewrites_addresses=False, taps=False)
_PRODUCE_FIRST = 3

# (message, version) of all that goes through and names topics.
TOPIC_MESSAGES = [
    (name + kind, version)
    for key, name in TOPIC_APIS.items()
    for kind in ("Request", "Response")
    for version in range(max(_PASSED[key][0], 0 if key else _PRODUCE_FIRST), _PASSED[key][1] + 1)
]


def random_message(
    message: str, version: int, random: Random, names: tuple[str, ...] = _TEXTS
) -> tuple[Any, dict[str, Any]]:
    """A message of kafka-python's and the values that it was made of, in our form;
    its topics are called by these names."""
    maker = _Maker(version, random, names)
    cls = wire_class(message)
    kafka_python_fields, values = maker.fields(cls, cls.json["fields"])
    return cls(version=version, **kafka_python_fields), values


class _Maker:
    def __init__(self, version: int, random: Random, names: tuple[str, ...]) -> None:
        self._version = version
        self._random = random
        self._names = names

    def fields(self, holder: Any, definitions: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
        kafka_python_fields, own_fields = {}, {}
        names = {_folded(name): name for name in holder.fields}
        for definition in definitions:
            if self._in(definition["versions"]) and "tag" not in definition:
                name = names[_folded(definition["name"])]
                kafka_python_fields[name], own_fields[name] = self._value(holder, definition)
        return kafka_python_fields, own_fields

    def _value(self, holder: Any, definition: dict[str, Any]) -> tuple[Any, Any]:
        kind = definition["type"]
        if self._in(definition.get("nullableVersions", "none")) and self._random.random() < 0.3:
            return None, None
        if not kind.startswith("[]"):
            if "fields" in definition:
                kafka_python_fields, own_fields = self.fields(getattr(holder, kind), definition["fields"])
                return getattr(holder, kind)(version=self._version, **kafka_python_fields), own_fields
            if kind == "string" and (
                definition.get("entityType") == "topicName" or definition["name"] == "ResourceName"
            ):
                name = self._random.choice(self._names)
                return name, name
            if definition["name"] == "ResourceType":
                return (2, 2)
            if kind == "bitfield":  # kafka-python has the set of its bits
                bits = self._random.sample(range(31), 3)
                return set(bits), sum(1 << bit for bit in bits)
            value = self._random.choice(_ERROR_CODES) if definition["name"] == "ErrorCode" else self._plain(kind)
            return value, value.bytes if isinstance(value, UUID) else value
        count = self._random.choice((0, 1, 2, 7, 130 if "fields" not in definition else 3))
        if "fields" not in definition:
            is_name = definition.get("entityType") == "topicName"
            values = [self._random.choice(self._names) if is_name else self._plain(kind[2:]) for _ in range(count)]
            return values, tuple(values)
        item = getattr(holder, kind[2:])
        items = [self.fields(item, definition["fields"]) for _ in range(count)]
        return [item(version=self._version, **kafka_python_fields) for kafka_python_fields, _ in items], tuple(
            own_fields for _, own_fields in items
        )

    def _plain(self, kind: str) -> Any:
        if kind == "string":
            return self._random.choice(_TEXTS)
        if kind == "uuid":
            return UUID(bytes=self._random.choice((bytes(16), self._random.randbytes(16))))
        if kind in ("bytes", "records"):
            return self._random.randbytes(self._random.choice((0, 1, 40, 200)))
        if kind == "bool":
            return self._random.random() < 0.5
        if kind == "uint16":
            return self._random.choice((0, 9_092, 65_535))
        bits = _INT_BITS[kind]
        return self._random.choice((0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))))

    def _in(self, versions: str) -> bool:
        if versions == "none":
            return False
        first, _, last = versions.rstrip("+").partition("-")
        return int(first) <= self._version <= (int(last) if last else 99 if versions.endswith("+") else int(first))


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
