"""One request about settings on the wire: what of it is about groups, the rest for the broker, one answer to both."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from group_coordinator.coordinating.gateway.codec import body_start, response_body_start, response_payload
from group_coordinator.coordinating.gateway.frames import RequestHead
from group_coordinator.coordinating.gateway.group_configs import (
    CONFIG_APIS,
    LISTS_TYPES_FROM,
    ConfigsRequest,
    ConfigsResponse,
    listed,
    merged,
    split,
)
from group_coordinator.coordinating.gateway.versions import OtherApi
from schemas.kafka.codec import decode, encode

_ITEMS_MAX = 25_000
"""Most resources and settings of one request."""


class AskedConfigs(Struct, frozen=True):
    """A request, as its client has sent it."""

    head: RequestHead
    payload: bytes
    values: dict[str, Any]
    of_groups: ConfigsRequest | None
    """Its part about groups; None: it has none."""
    rest: bytes | None
    """The request without them; None: nothing is left."""

    @classmethod
    def read(cls, head: RequestHead, payload: bytes) -> AskedConfigs:
        """Read a request. Raises `DecodeError`."""
        message = CONFIG_APIS[head.api_key] + "Request"
        start = body_start(message, head, payload)
        values = decode(message, head.api_version, payload, start, _ITEMS_MAX)
        if head.api_key == OtherApi.LIST_CONFIG_RESOURCES:
            of_groups = None if head.api_version < LISTS_TYPES_FROM else ConfigsRequest(head.api_key)
            return cls(head, payload, values, of_groups, payload)
        of_groups, others = split(head.api_key, values)
        rest = None if others is None else payload[:start] + encode(message, head.api_version, others)
        return cls(head, payload, values, of_groups, rest)

    def answer(self, own: ConfigsResponse, payload: bytes | None) -> bytes:
        """Return the answer to all of the request. `payload`: the broker's to the rest; None: it was not asked."""
        message, head = CONFIG_APIS[self.head.api_key] + "Response", self.head
        brokers = None
        if payload is not None:
            brokers = decode(message, head.api_version, payload, response_body_start(message, head.api_version))
        if head.api_key == OtherApi.LIST_CONFIG_RESOURCES:
            assert brokers is not None
            values = listed(self.values, brokers, own)
        else:
            values = merged(head.api_key, self.values, own, brokers)
        return response_payload(message, head.api_version, head.correlation_id, values)
