"""Eager members of a group whose assignor is cooperative give up all when they rejoin, and are not shown as owners."""

from __future__ import annotations

import pytest

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, RebalancePrepared
from group_coordinator.watching.narrative import sentences
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.offsets_log import Entry
from group_coordinator.watching.tables.rows import Ownership
from schemas.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from schemas.observed_history import OwnershipNotKnown
from schemas.records import GroupMetadataValue, MemberMetadata, encode_group_metadata_key
from tests.encoded_records import encode_group_metadata_value
from tests.watching.observed.commits import read, text
from tests.watching.observed.recorded import observed, rows, truth

GROUP = "g"
COOPERATIVE = "cooperative-sticky"
Owned = dict[str, tuple[bool, int]]
"""Member -> whether it had a partition when it joined, and the one that it gets."""


def generation(place: int, number: int, protocol: str, members: Owned, version: int = 3) -> Entry:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=number,
        protocol=protocol,
        leader=next(iter(members)),
        current_state_timestamp_ms=place * 1_000,
        members=tuple(
            MemberMetadata(
                member_id=member_id,
                group_instance_id=None,
                client_id=member_id,
                client_host="/10.0.0.1",
                rebalance_timeout_ms=1_000,
                session_timeout_ms=1_000,
                subscription=encode_subscription(
                    Subscription(topics=("t",), owned_partitions=(TopicPartition("t", gets),) if had else ()), version
                ),
                assignment=encode_assignment(Assignment(partitions=(TopicPartition("t", gets),))),
            )
            for member_id, (had, gets) in members.items()
        ),
    )
    key, record = text(encode_group_metadata_key(GROUP)), text(encode_group_metadata_value(value))
    return read({"partition": 7, "offset": place, "timestamp_ms": place * 1_000, "key": key, "value": record})


def prepared(place: int, old: int) -> BrokerLine:
    event = RebalancePrepared(
        group_id=GROUP,
        old_generation_id=old,
        trigger="member_changed",
        member_ids=("a",),
        group_instance_id=None,
        reason="because",
        client_reason=None,
    )
    return BrokerLine(
        time_ms=place * 1_000 + 500, broker=1, partition=7, file="1.log", number=place, event=event
    )


def gave_up(*evidence: Entry | BrokerLine) -> list[tuple[tuple[str, ...], str]]:
    """Return whose partitions are not known, rebalance by rebalance, and why."""
    lines = [item for item in evidence if isinstance(item, BrokerLine)]
    entries = [item for item in evidence if not isinstance(item, BrokerLine)]
    history = observe(entries, lines, {}).history
    return [(record.member_ids, record.reason) for record in history if isinstance(record, OwnershipNotKnown)]


BOTH: Owned = {"a": (True, 0), "b": (False, 1)}


def test_the_next_generation_tells_who_came_without_partitions() -> None:
    """The first one that is known has no history: b is new, or had partitions that it gave up."""
    first, second = generation(1, 1, COOPERATIVE, BOTH), generation(3, 2, COOPERATIVE, BOTH)
    assert gave_up(first, prepared(1, 1), second) == [(("b",), "eager_member")]


def test_who_came_without_partitions_before_does_so_again() -> None:
    first, second = generation(1, 1, COOPERATIVE, BOTH), generation(3, 2, COOPERATIVE, BOTH)
    assert gave_up(first, prepared(1, 1), second, prepared(3, 2)) == [(("b",), "eager_member")] * 2


def test_who_was_in_a_generation_of_an_eager_assignor_offers_one() -> None:
    eager, cooperative = generation(1, 1, "range", BOTH), generation(3, 2, COOPERATIVE, {**BOTH, "c": (False, 2)})
    told = gave_up(eager, prepared(1, 1), cooperative, prepared(3, 2))
    assert told == [(("a", "b"), "rejoining"), (("b",), "eager_member")]


def test_a_subscription_of_version_0_cannot_say_what_it_owns() -> None:
    entries = [generation(place, number, COOPERATIVE, BOTH, version=0) for place, number in ((1, 1), (3, 2))]
    assert gave_up(entries[0], prepared(1, 1), entries[1]) == []


def test_the_way_from_eager_to_cooperative_of_a_real_group() -> None:
    """After the last of the second round of restarts nobody gives up all any more."""
    told = [
        record
        for record in observed("roll-4.2", with_logs=True).history
        if isinstance(record, OwnershipNotKnown) and record.group_id == "upgrade"
    ]
    reasons = [record.reason for record in told]
    assert set(reasons[: reasons.index("eager_member")]) == {"rejoining"}
    assert set(reasons[reasons.index("eager_member") :]) == {"eager_member"}
    assert "although the assignor is cooperative" in sentences.sentence(told[-1])
    assert told[-1].generation_id == 10


@pytest.mark.parametrize("group_id", ["upgrade", "franz", "sarama"])
def test_no_owner_is_shown_that_said_that_it_had_given_up_all(group_id: str) -> None:
    """Members say so at each revocation, before they rejoin."""
    groups = {action["client_id"]: action["group"] for action in truth("roll-4.2") if action["action"] == "start"}
    owned = [
        row for row in rows("roll-4.2", with_logs=True) if isinstance(row, Ownership) and row.group_id == group_id
    ]
    said = [action for action in truth("roll-4.2") if action["action"] == "member" and action["member"] in groups]
    checked = 0
    for number, action in enumerate(said):
        if groups[action["member"]] != group_id or action.get("event") not in ("revoked", "lost"):
            continue
        following = [each for each in said[number + 1 :] if each["member"] == action["member"]]
        if not following or following[0].get("event") != "assigned":
            continue
        at_ms = action["at_ms"] + 1
        places = {f"{row.topic}-{row.partition}" for row in owned if row.client_id == action["member"]
                  if row.from_ms <= at_ms and (row.to_ms is None or row.to_ms > at_ms)}  # fmt: skip
        assert not places & set(action["partitions"]), action
        checked += 1
    assert checked or group_id != "upgrade"
