"""How often large groups are published, of both kinds. The harness packs and unpacks the state after each event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from coordinator_state import AssignmentChange, Output, publication
from schemas.consumer_group_messages import TopicPartitions
from schemas.events import encode_json
from tests.coordinator_state.consumer.harness import ConsumerHarness, topics
from tests.coordinator_state.harness import GroupHarness, assignment, of_type, subscription

MEMBERS = 30
AT_ONCE_BYTES_MAX, BYTES_PER_S = 4_000, 4_000
STEP_MS = 20
SETTINGS: dict[str, Any] = {"group_id": "g", "group_initial_rebalance_delay_ms": 3_000}
TOPICS = [f"topic-{number}" for number in range(30)]
JOINS: dict[str, Any] = {
    "subscribed_topic_names": ("foo", "bar"),
    "rebalance_timeout_ms": 60_000,
    "topic_partitions": (),
}


@pytest.fixture(autouse=True)
def _groups_are_soon_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "AT_ONCE_BYTES_MAX", AT_ONCE_BYTES_MAX)
    monkeypatch.setattr(publication, "BYTES_PER_S", BYTES_PER_S)


class Published(NamedTuple):
    time_ms: int
    size: int
    members: int


def run(story: Iterator[list[Output]], group: GroupHarness) -> list[Published]:
    """Return what is published while a story goes on, an event after the other."""
    published = []
    for outputs in story:
        for change in of_type(outputs, AssignmentChange):
            if change.snapshot is not None:
                size = len(encode_json(change.snapshot))
                published.append(Published(change.snapshot.time_ms, size, len(change.snapshot.members)))
        group.now_ms += STEP_MS
    return published


def consumer_story(group: ConsumerHarness) -> Iterator[list[Output]]:
    """Members join one after the other, and take what they are given and give up what they must, in turns."""
    group.metadata = topics(foo=90, bar=90)
    epochs = {f"m{number}": 0 for number in range(MEMBERS)}
    for member_id in epochs:
        outputs = group.beat(member_id, 0, **JOINS)
        epochs[member_id] = group.heard(outputs).member_epoch
        yield outputs
    for _ in range(6):
        for member_id in epochs:
            assigned = group.body.members[member_id].assigned
            owns = [TopicPartitions(topic_id=topic, partitions=tuple(sorted(each))) for topic, each in assigned.items()]
            outputs = group.beat(member_id, epochs[member_id], topic_partitions=tuple(owns))
            epochs[member_id] = group.heard(outputs).member_epoch
            yield outputs


def classic_story(group: GroupHarness) -> Iterator[list[Output]]:
    """Members join, their leader assigns, and all but one leave, one after the other; it goes on alone."""
    for number in range(MEMBERS):
        yield group.add(f"m{number}", protocols={"range": subscription(*TOPICS)})
    yield group.sleep(6_000)
    plan = {f"m{number}": assignment("foo", number) for number in range(MEMBERS)}
    yield group.sync(group.classic.leader_id or "", group.classic.generation_id, plan)
    for number in range(1, MEMBERS):
        yield group.leave(f"m{number}")
    yield group.join("m0")
    yield group.sync("m0", group.classic.generation_id, plan)


STORIES: dict[str, tuple[Callable[[], GroupHarness], Callable[..., Iterator[list[Output]]]]] = {
    "consumer": (lambda: ConsumerHarness(**SETTINGS), consumer_story),
    "classic": (lambda: GroupHarness(**SETTINGS), classic_story),
}


@pytest.mark.parametrize("kind", STORIES)
def test_a_large_group_is_published_at_a_bounded_rate(kind: str) -> None:
    begin, story = STORIES[kind]
    group = begin()
    published = run(story(group), group)
    large = [each for each in published if each.size > 3 / 2 * AT_ONCE_BYTES_MAX]
    assert large, "the story makes a large group"
    for before, after in pairwise(published):
        if before.size > 3 / 2 * AT_ONCE_BYTES_MAX:
            pause_ms = after.time_ms - before.time_ms
            assert before.size / (pause_ms / 1_000) < 2 * BYTES_PER_S, "what is estimated is what is written, about"


@pytest.mark.parametrize("kind", STORIES)
def test_what_is_published_last_is_what_a_small_group_would_have_published(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, story = STORIES[kind]
    last, counts = [], []
    for at_once in (AT_ONCE_BYTES_MAX, 1_000_000):
        monkeypatch.setattr(publication, "AT_ONCE_BYTES_MAX", at_once)
        group = begin()
        run(story(group), group)
        group.sleep(5_900)  # no session ends
        changes = of_type(group.outputs, AssignmentChange)
        assert changes[-1].snapshot is not None
        last.append(replace(changes[-1].snapshot, seq=0, time_ms=0, timestamp_ms=0))
        counts.append(len(changes))
        assert group.group is not None
        assert "publication" not in group.group.timers
    assert last[0] == last[1]
    assert counts[0] < counts[1]


def test_a_small_group_is_published_at_each_change() -> None:
    group = ConsumerHarness(**SETTINGS)
    for number in range(4):
        assert of_type(group.beat(f"m{number}", 0, **JOINS), AssignmentChange)


def test_the_end_of_a_large_group_is_published_at_once() -> None:
    group = GroupHarness(**SETTINGS)
    run(classic_story(group), group)
    group.leave("m0")
    assert [change.snapshot for change in of_type(group.delete(), AssignmentChange)] == [None]
    assert group.group is None


def test_a_large_group_that_changes_its_kind_is_published() -> None:
    """The conversion takes away all timers of the group that was."""
    group = ConsumerHarness(**SETTINGS)
    group.metadata = topics(foo=90)
    run(islice(classic_story(group), MEMBERS + 2), group)
    group.leave(*(f"m{number}" for number in range(MEMBERS)))
    assert group.group is not None
    assert "publication" in group.group.timers
    group.joins("new", "foo")
    group.sleep(30_000)
    last = of_type(group.outputs, AssignmentChange)[-1].snapshot
    assert last is not None
    assert [member.member_id for member in last.members] == ["new"]
