"""Readiness for the consumer protocol: what is said is held against what real brokers did when members came with it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from group_coordinator.ground.system.yielding_lock import YieldingLock
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.commands.readiness import judged
from group_coordinator.watching.dashboard import indexed_groups
from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.group_list import GroupList
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.readiness import (
    VERDICTS,
    WEEK_MS,
    BrokerSettings,
    broker_settings,
    cost_of,
    readiness_of,
)
from group_coordinator.watching.dashboard.settings import DashboardSettings
from group_coordinator.watching.history.stored_generations import GENERATIONS, StoredGenerations, next_generation
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.tables.fold import rows_of_group
from group_coordinator.watching.tables.readiness_row import Readiness
from schemas.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from schemas.records import GroupMetadataValue, MemberMetadata
from tests.watching.dashboard import scene
from tests.watching.observed.pieces import mixed, pieces
from tests.watching.observed.recorded import NAMES, entries, files, polls, truth
from tests.watching.watch.recorded_source import Recorded

REFUSED = "Cannot upgrade classic group "
MEMBER = MemberMetadata(
    member_id="a", client_id="a", client_host="/10.0.0.1", session_timeout_ms=45_000,
    subscription=encode_subscription(Subscription(topics=("orders",)), 1),
    assignment=encode_assignment(Assignment(partitions=(TopicPartition("orders", 0),))),
)  # fmt: skip
GROUP = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="a", members=(MEMBER,))


def generations(groups: list[GroupMetadataValue]) -> StoredGenerations:
    known = None
    for number, group in enumerate(groups):
        known = next_generation(known, replace(group, generation=number), number)
    assert known is not None
    return known


def settings_of(name: str) -> BrokerSettings:
    log = BrokerLog(UTC)
    for path in files(name, "server.log.gz"):
        log.read_file(path)
    return broker_settings(log.settings, "brokers' logs")


def at(name: str, at_ms: int) -> dict[str, Readiness]:
    """What was to be said of a recorded cluster at a moment."""
    observer = Observer()
    observer.add_records(entry for entry in entries(name) if entry.timestamp_ms <= at_ms)
    return {each.group_id: each for each in judged(observer, settings_of(name), at_ms)}


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
    judgement = readiness_of("g", generations([GROUP]), BrokerSettings())
    assert (judgement.verdict, judgement.is_converted_live, judgement.remarks) == ("go", True, ())
    static = replace(GROUP, members=(replace(MEMBER, group_instance_id="s", session_timeout_ms=50_000),))
    judgement = readiness_of("g", generations([static]), BrokerSettings())
    assert judgement.verdict == "go"
    assert [remark.partition(" ")[0] for remark in judgement.remarks] == ["A", "1"]
    empty = replace(GROUP, members=(), protocol=None)
    judgement = readiness_of("g", generations([empty]), BrokerSettings(migration_policy="disabled"))
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
    judgement = readiness_of("g", generations([group]), settings)
    assert (judgement.verdict, judgement.is_converted_live) == ("change this first", is_converted_live)
    assert said in judgement.reasons[0]


def test_a_leader_that_may_come_again() -> None:
    """Whether an assignment has data is up to the leader's library: another member may lead the next generation."""
    with_data = replace(MEMBER, assignment=encode_assignment(Assignment(user_data=b"mine")))
    earlier, now = (replace(GROUP, protocol="cooperative-sticky", members=(member,)) for member in (with_data, MEMBER))
    judgement = readiness_of("g", generations([earlier, now]), BrokerSettings())
    assert (judgement.verdict, judgement.is_converted_live) == ("change this first", True)
    assert "another leader" in judgement.reasons[0]
    long_ago = [earlier, *[now] * GENERATIONS]
    assert readiness_of("g", generations(long_ago[:-1]), BrokerSettings()).verdict == "change this first"
    assert readiness_of("g", generations(long_ago), BrokerSettings()).verdict == "go"
    changed = replace(now, protocol="range")
    assert readiness_of("g", generations([earlier, changed]), BrokerSettings()).verdict == "go"


def test_the_page_says_what_the_command_says() -> None:
    """The index is told of groups as they change, piece by piece; the command reads all evidence at once."""
    for name in ("migration-refused", "connect"):
        source, index = Recorded(name), Index()
        source.start(index)
        for piece in pieces(mixed(name, Random(4)), Random(4)):
            source.give(piece)
        settings = settings_of(name)
        index.broker_settings[""] = settings
        documents = Documents(index)
        page = documents.readiness()
        assert page.groups
        told = {each.group_id: each for each in judged(source.observer, settings, documents.now_ms)}
        assert {each.group_id: each for each in page.groups} == told
        assert sum(page.counts.values()) == len(page.groups)
        first = documents.readiness(limit=1)
        assert first.groups == page.groups[:1]
        assert first.next_page is not None
        assert documents.readiness(page=first.next_page).groups == page.groups[1:]
        for each in VERDICTS:
            of_it = documents.readiness(verdict=each).groups
            assert of_it == tuple(group for group in page.groups if group.verdict == each)


def test_groups_whose_generations_are_not_known_are_counted() -> None:
    index = Index()
    for value in scene.values():
        index.add(value)
    page = Documents(index).readiness()
    assert (page.groups, page.counts) == ((), {})
    assert page.not_judged == sum(row.type == "classic" for row in index.rows(index.last_ms))


def test_a_week_is_counted() -> None:
    """What is longer ago has cost nothing, and what went on at its begin counts from there."""
    history = [record for record in scene.scene() if record.group_id == "payments"]
    rows = rows_of_group(history)
    whole = cost_of(history, rows, history[-1].timestamp_ms)
    assert (whole.since_ms, whole.rebalances > 1) == (history[0].timestamp_ms, True)
    week_later = cost_of(history, rows, history[0].timestamp_ms + WEEK_MS + 1)
    assert week_later.since_ms == history[0].timestamp_ms + 1
    assert week_later.rebalances == whole.rebalances
    long_ago = cost_of(history, rows, history[-1].timestamp_ms + 2 * WEEK_MS)
    assert (long_ago.rebalances, long_ago.not_known_ms) == (0, 0)


def test_what_is_kept_has_bounds() -> None:
    """Clients choose how many and how long their names are."""
    members = tuple(
        replace(MEMBER, member_id=f"{number}" + "x" * 1_000, session_timeout_ms=number, subscription=b"x")
        for number in range(500)
    )
    group = replace(GROUP, members=members)
    kept = generations([replace(group, protocol="y" * 1_000 + str(number)) for number in range(30)])
    assert len(pickle.dumps(kept)) < 10_000
    assert (kept.unreadable, kept.members, kept.session_timeouts_ms[-1]) == (500, 500, 499)


def test_generations_whose_groups_never_come_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_groups, "_EARLY_MAX", 2)
    group_list = GroupList(YieldingLock(), lambda group_id, now_ms: None)
    groups = indexed_groups.IndexedGroups(DashboardSettings(), group_list)
    for number in range(5):
        groups.store(f"g{number % 4}", generations([GROUP] * (number + 1)))
    assert [groups.stored(f"g{number}") is not None for number in range(4)] == [True, False, False, True]
    groups.store("g0", None)
    assert groups.begin("g0", "").stored is None
    assert groups.begin("g3", "").stored == generations([GROUP] * 4)
