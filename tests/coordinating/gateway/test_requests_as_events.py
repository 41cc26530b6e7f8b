"""Whatever a client can write on the wire the coordinator can read as an event, so that it is answered as in Kafka."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from group_coordinator.coordinating.gateway.versions import ANSWERED_APIS, GROUP_VERSIONS, accepted_versions
from schemas.events import decode_request_event, encode_request_event, groups_named
from schemas.message_versions import request_of
from schemas.messages import ApiKey, FindCoordinatorRequest, ListGroupsRequest
from schemas.transaction_messages import AddOffsetsToTxnRequest
from tests.coordinating.gateway.random_messages import NOT_KAFKA_PYTHONS, random_message, wire_class

_EACH = 50
_TEXTS = ("", " ", "a", "orders", "注文", "a\\0b", "x" * 300)
_NUMBERS = (0, 1, -1, -2, -3, 7, 2**31 - 1, -(2**31))
_UUIDS = (UUID(int=0), UUID(int=1), UUID(int=2**128 - 1))


def consumer_group_values(api: ApiKey, version: int, random: Random) -> dict[str, Any]:
    """Of a message that kafka-python does not have."""
    some = random.choice
    texts = tuple(some(_TEXTS) for _ in range(random.randrange(4)))
    if api == ApiKey.CONSUMER_GROUP_DESCRIBE:
        return {"group_ids": texts, "include_authorized_operations": some((False, True))}
    owned = tuple(
        {"topic_id": some(_UUIDS).bytes, "partitions": tuple(some(_NUMBERS) for _ in range(random.randrange(4)))}
        for _ in range(random.randrange(3))
    )
    return {
        "group_id": some(_TEXTS), "member_id": some(_TEXTS), "member_epoch": some(_NUMBERS),
        "instance_id": some((None, *_TEXTS)), "rack_id": some((None, *_TEXTS)),
        "rebalance_timeout_ms": some(_NUMBERS), "subscribed_topic_names": some((None, texts)),
        "subscribed_topic_regex": some((None, *_TEXTS)), "server_assignor": some((None, *_TEXTS)),
        "topic_partitions": some((None, owned)),
    }  # fmt: skip


TRANSACTIONS = accepted_versions(rewrites_addresses=True, taps=False, transactions=True)
ASKED = [
    (key, version)
    for key, (first, last) in (GROUP_VERSIONS | {28: TRANSACTIONS[28]}).items()
    if key not in (ApiKey.FIND_COORDINATOR, ApiKey.LIST_GROUPS)
    for version in range(first, last + 1)
]


@pytest.mark.parametrize(("key", "version"), ASKED)
def test_the_coordinator_reads_every_request(key: ApiKey, version: int) -> None:
    api, random = ANSWERED_APIS[key], Random(f"{key}{version}")
    tried = 0
    for _ in range(_EACH):
        if key in NOT_KAFKA_PYTHONS:
            values = consumer_group_values(key, version, random)
        else:
            known = min(version, wire_class(f"{api}Request").max_version)  # a later version changes the answer alone
            _, values = random_message(f"{api}Request", known, random)
        if "generation_id" in values and api == "TxnOffsetCommit":
            values["generation_id_or_member_epoch"] = values.pop("generation_id")  # Kafka 4.4's name
        request = request_of(api, version, values)
        assert not isinstance(request, FindCoordinatorRequest | ListGroupsRequest | AddOffsetsToTxnRequest)
        if len(groups := groups_named(request)) != 1:
            continue  # the router asks group by group
        event = encode_request_event(api, version, request, request_id="1", reply_partition=0, client_id="c")
        envelope, read = decode_request_event(groups[0], event)
        assert (envelope.api_version, read) == (version, request)
        tried += 1
    assert tried
