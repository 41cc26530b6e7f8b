"""Messages of ours from JSON that a broker prints, of kinds that no product code reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from group_coordinator.proving.recordings.kafka_json import KafkaJsonError, values_from_kafka
from schemas.message_versions import LIST_GROUPS, GroupResponse, request_of, response_of
from schemas.messages import ListGroupsRequest


def list_groups_from_kafka(version: int, body: object) -> ListGroupsRequest:
    """Decode a ListGroups request, which spans all groups. Raises `KafkaJsonError`."""
    request = request_of(LIST_GROUPS, version, values_from_kafka(LIST_GROUPS, "Request", version, body, {}))
    return cast(ListGroupsRequest, request)


def response_from_kafka(
    api: str, version: int, body: object, topic_names: Mapping[str, str] | None = None
) -> GroupResponse:
    """Return a broker's answer; what its version lacks has our default, or is empty. Raises `KafkaJsonError`."""
    values = values_from_kafka(api, "Response", version, body, topic_names or {})
    try:
        return response_of(api, version, values)
    except ValueError as error:  # an error code that is none of Kafka's
        raise KafkaJsonError(f"{api} version {version}: {error}") from None
