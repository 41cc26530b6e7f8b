"""What lies on the topics topic: what each shard of the coordinator knows of the cluster's topics.

A record's key is the topic's id, its value a JSON object, null once the topic is gone and every group has been told. It
is the coordinator's own bookkeeping: no decision about a group reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from schemas.foreign_json import json_decoder
from schemas.message_types import UUID_TEXT


class KnownTopic(Struct, frozen=True, kw_only=True, gc=False):
    """A topic of the cluster, as a shard last saw it."""

    name: str
    topic_id: UUID_TEXT
    cluster_id: str | None = None
    """Of which cluster it is. What is known of another cluster says nothing about this one."""
    schema_version: Literal[1] = 1


decode_known_topic: Callable[[bytes], KnownTopic] = json_decoder(KnownTopic)
"""Read one value of the topics topic. Raises `msgspec.DecodeError`."""
