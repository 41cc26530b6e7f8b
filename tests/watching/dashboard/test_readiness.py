"""Readiness for the consumer protocol: what is said is held against what real brokers did when members came with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.commands.readiness import judged
from group_coordinator.watching.dashboard.readiness import (
    BrokerSettings,
    Cost,
    Readiness,
    broker_settings,
    readiness_of,
)
from group_coordinator.watching.observed.observer import Observer
from schemas.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from schemas.records import GroupMetadataValue, MemberMetadata
from tests.watching.observed.recorded import NAMES, entries, files, polls, truth

REFUSED = "Cannot upgrade classic group "
NOTHING = Cost(since_ms=None, rebalances=0, without_owner_ms=0, not_known_ms=0)
MEMBER = MemberMetadata(
    member_id="a", client_id="a", client_host="/10.0.0.1", session_timeout_ms=45_000,
    subscription=encode_subscription(Subscription(topics=("orders",)), 1),
    assignment=encode_assignment(Assignment(partitions=(TopicPartition("orders", 0),))),
)  # fmt: skip
GROUP = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="a", members=(MEMBER,))


def settings_of(name: str) -> BrokerSettings:
    log = BrokerLog(UTC)
    for path in files(name, "server.log.gz"):
        log.read_file(path)
    return broker_settings(log.settings, "brokers' logs")


def at(name: str, at_ms: int) -> dict[str, Readiness]:
    """What was to be said of a recorded cluster at a moment."""
    observer = Observer()
    observer.add_records(entry for entry in entries(name) if entry.timestamp_ms <= at_ms)
    return {each.group: each for each in judged(observer, settings_of(name), at_ms)}


def conversions(name: str) -> Iterator[tuple[str, int]]:
    """The classic groups with members that an admin client sees as consumer groups at its next poll: the last moment
    before."""
    of_group: dict[str, list[Any]] = {}
    for poll in polls(name):
        of_group.setdefault(poll.group_id, []).append(poll)
    for group_id, all_polls in of_group.items():
        for before, after in pairwise(all_polls):
            types = before.group.get("type"), after.group.get("type")
            if types == ("Classic", "Consumer") and before.group.get("state") == "Stable":
                yield group_id, before.at_ms


def test_groups_that_brokers_converted() -> None:
    found = [(name, *conversion) for name in NAMES for conversion in conversions(name)]
    assert len(found) >= 2
    for name, group_id, at_ms in found:
        judgement = at(name, at_ms)[group_id]
        assert judgement.is_converted_live, (name, group_id, judgement)


def test_groups_that_brokers_refused_to_convert() -> None:
    refusals = [
        (name, told["error"].partition(REFUSED)[2].split()[0], told["at_ms"])
        for name in NAMES for told in truth(name) if REFUSED in str(told.get("error"))
    ]  # fmt: skip
    assert refusals
    for name, group_id, at_ms in refusals:
        judgement = at(name, at_ms)[group_id]
        assert (judgement.verdict, judgement.is_converted_live) == ("change this first", False)
        assert "puts data of its own into assignments" in judgement.reasons[0]


@pytest.mark.parametrize(("name", "has_protocol"), [("old-2.8", False), ("old-3.9", False), ("roll-4.2", True)])
def test_what_brokers_speak(name: str, has_protocol: bool) -> None:
    settings = settings_of(name)
    assert settings.has_protocol is has_protocol
    judgements = [each for each in at(name, entries(name)[-1].timestamp_ms + 1).values() if each.members]
    assert judgements
    assert all((each.verdict == "wait") is not has_protocol for each in judgements)


def test_who_is_no_consumer() -> None:
    judgements = at("connect", max(entry.timestamp_ms for entry in entries("connect")))
    assert {name: judgements[name].verdict for name in ("connect-cluster", "letters")} == {
        "connect-cluster": "wait", "letters": "wait",
    }  # fmt: skip
    assert "Kafka Connect" in judgements["connect-cluster"].reasons[0]
    assert "KIP-1071" in judgements["letters"].reasons[0]


def test_what_is_fine() -> None:
    judgement = readiness_of("g", [GROUP], BrokerSettings(), NOTHING)
    assert (judgement.verdict, judgement.is_converted_live, judgement.remarks) == ("go", True, ())
    static = replace(GROUP, members=(replace(MEMBER, group_instance_id="s", session_timeout_ms=50_000),))
    judgement = readiness_of("g", [static], BrokerSettings(), NOTHING)
    assert judgement.verdict == "go"
    assert [remark.partition(" ")[0] for remark in judgement.remarks] == ["A", "1"]
    empty = replace(GROUP, members=(), protocol=None)
    judgement = readiness_of("g", [empty], BrokerSettings(migration_policy="disabled"), NOTHING)
    assert (judgement.verdict, judgement.is_converted_live) == ("go", False)


@pytest.mark.parametrize(
    ("group", "settings", "said", "is_converted_live"),
    [
        (GROUP, BrokerSettings(migration_policy="disabled"), "group.consumer.migration.policy is disabled", False),
        (GROUP, BrokerSettings(migration_policy="downgrade"), "group.consumer.migration.policy is downgrade", False),
        (GROUP, BrokerSettings(size_max=0), "group.consumer.max.size is 0", False),
        (replace(GROUP, members=(replace(MEMBER, subscription=b"x"),)), BrokerSettings(), "is no consumer's", False),
        (replace(GROUP, protocol="our-own"), BrokerSettings(), "decide for uniform or range", True),
        (
            replace(GROUP, members=(replace(MEMBER, session_timeout_ms=10_000),)), BrokerSettings(),
            "session timeouts of 10 s, but brokers allow consumer groups 45 s to 1 min", True,
        ),
    ],
)  # fmt: skip
def test_what_must_change(
    group: GroupMetadataValue, settings: BrokerSettings, said: str, is_converted_live: bool
) -> None:
    judgement = readiness_of("g", [group], settings, NOTHING)
    assert (judgement.verdict, judgement.is_converted_live) == ("change this first", is_converted_live)
    assert said in judgement.reasons[0]


def test_a_leader_that_may_come_again() -> None:
    """Whether an assignment has data is up to the leader's library: another member may lead the next generation."""
    with_data = replace(MEMBER, assignment=encode_assignment(Assignment(user_data=b"mine")))
    earlier, now = (
        replace(GROUP, protocol="cooperative-sticky", members=(member,)) for member in (with_data, MEMBER)
    )
    judgement = readiness_of("g", [earlier, now], BrokerSettings(), NOTHING)
    assert (judgement.verdict, judgement.is_converted_live) == ("change this first", True)
    assert "another leader" in judgement.reasons[0]
    changed = replace(now, protocol="range")
    assert readiness_of("g", [earlier, changed], BrokerSettings(), NOTHING).verdict == "go"
