"""Kafka's JSON forms of group requests and responses, and our messages.

Brokers print them in the request log, and histories recorded from Kafka's coordinator have the same: field names of
Kafka's message definitions, with exactly the fields of the API version; bytes in base64, uuids in Kafka's URL-safe
base64 without padding. `throttleTimeMs` is left out. Source: Kafka's message definitions (4.4) and JsonConverters.

Our messages have one shape each, that of the newest version. A request for several groups becomes one for each
(`schemas.several_groups`). Newer versions of commits and fetches name topics by id: `topic_names` tells their names, by
the id as text with hyphens (`topic_id_from_kafka`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from schemas.error_codes import ErrorCode
from schemas.kafka.json_form import JsonFormError, from_json, to_json, uuid_from_json, uuid_to_json
from schemas.message_versions import LIST_GROUPS, GroupResponse, request_of, response_values
from schemas.messages import (
    APIS,
    Request,
)
from schemas.several_groups import one_per_group
from schemas.wire import NO_TOPIC_ID, encode_uuid, topic_id_text

LIST_GROUPS_VERSION_MAX = 5
TOPIC_IDS_FROM = {"OffsetCommit": 10, "OffsetFetch": 10, "TxnOffsetCommit": 6}
"""The first version of commits and fetches that names topics by id."""

_THROTTLE_TIME = "throttleTimeMs"
_NO_NAMES: Mapping[str, str] = {}


class KafkaJsonError(ValueError):
    """The JSON is not what Kafka prints for this API and version, or names a topic by an id that is not known."""


def request_from_kafka(
    api: str, version: int, body: object, topic_names: Mapping[str, str] = _NO_NAMES
) -> tuple[tuple[str, Request], ...]:
    """Return the groups that a request addresses, each with its own request; none if it addresses no group.

    Every API of `APIS`. Raises `KafkaJsonError`.
    """
    request = request_of(api, version, values_from_kafka(api, "Request", version, body, topic_names))
    return tuple(one_per_group(cast(Request, request)))


def response_to_kafka(api: str, version: int, response: GroupResponse) -> dict[str, Any]:
    """Return the JSON that a broker would print for this answer.

    Versions that know one group or one key only take a response of one. Raises `KafkaJsonError` for a version that
    is not spoken, ValueError for a response that the version cannot say.
    """
    _insist_on_version(api, version)
    values = {name: _plain(name, value) for name, value in response_values(api, version, response).items()}
    body = to_json(f"{api}Response", version, values)
    body.pop(_THROTTLE_TIME, None)
    return body


def topic_id_from_kafka(text: str) -> str | None:
    """Return a topic id as text with hyphens; None for Kafka's zero uuid. Raises `KafkaJsonError`."""
    try:
        return topic_id_text(uuid_from_json(text))
    except JsonFormError as error:
        raise KafkaJsonError(str(error)) from None


# ------------------------------------------------------------------------------------------------------------- values


def _insist_on_version(api: str, version: int) -> None:
    if api == LIST_GROUPS:
        versions = range(LIST_GROUPS_VERSION_MAX + 1)
    elif api in APIS:
        versions = range(APIS[api].min_version, APIS[api].max_version + 1)
    else:
        raise KafkaJsonError(f"no API of the group protocol: {api}")
    if version not in versions:
        raise KafkaJsonError(f"{api} version {version} is not spoken, only {versions.start} to {versions.stop - 1}")


def values_from_kafka(
    api: str, kind: str, version: int, body: object, topic_names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the values of what Kafka printed, with the names of topics that it names by id. Raises `KafkaJsonError`.
    """
    _insist_on_version(api, version)
    if isinstance(body, dict):
        if kind == "Response":
            body = {_THROTTLE_TIME: 0, **body}
        elif api in ("OffsetCommit", "TxnOffsetCommit") and "generationId" in body:
            # Its name before Kafka 3.5, in transactions before 4.4.
            body = {"generationIdOrMemberEpoch": body["generationId"], **body}
    try:
        values = from_json(api + kind, version, body)
    except JsonFormError as error:
        raise KafkaJsonError(f"{api} version {version}: {error}") from None
    if version >= TOPIC_IDS_FROM.get(api, version + 1):
        for holder in values.get("groups", (values,)):
            for topic in holder["topics"] or ():
                topic["name"] = _topic_name(api, version, topic["topic_id"], topic_names)
    return values


def _topic_name(api: str, version: int, topic_id: bytes, topic_names: Mapping[str, str]) -> str:
    name = topic_names.get(topic_id_text(topic_id) or "")
    if name is None:
        raise KafkaJsonError(
            f"{api} version {version}: no name is known for the topic with id {uuid_to_json(topic_id)}"
        )
    return name


def _plain(name: str, value: Any) -> Any:
    """A value of ours as the definitions have it."""
    if isinstance(value, tuple):
        return tuple([_plain(name, item) for item in value])
    if isinstance(value, Struct):
        return {field: _plain(field, getattr(value, field)) for field in value.__struct_fields__}
    if name == "topic_id":
        return encode_uuid(value) if value else NO_TOPIC_ID
    return int(value) if isinstance(value, ErrorCode) else value
