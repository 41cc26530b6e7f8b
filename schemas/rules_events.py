"""The event by which a log names its rules. It is one of a whole partition, as a tick is: its key is null."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from schemas.events import EventError, EventProblem, encode_json


class KafkaRules(Struct, frozen=True, kw_only=True, tag_field="type", tag="kafka_rules"):
    """From here on groups of this partition go by these rules. Its key is null.

    A log without it goes by those of 4.3."""

    rules: str
    """A version of Kafka: 4.3 or 4.4."""
    schema_version: Literal[1] = 1
    """Version of this event."""


_decode = msgspec.json.Decoder(KafkaRules).decode


def encode_rules(rules: str) -> bytes:
    """Write the value of a change of the rules; its key is null."""
    return encode_json(KafkaRules(rules=rules))


def decode_rules(value: bytes) -> KafkaRules:
    """Read an event that changes the rules. Raises `EventError`."""
    try:
        return _decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise EventError(EventProblem.MALFORMED_RULES, str(error)) from None
