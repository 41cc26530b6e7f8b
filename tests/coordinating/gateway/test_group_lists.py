"""Lists of groups: what is published, and what responders say has changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from group_coordinator.coordinating.gateway.group_lists import ANSWER_WITHIN_S, SILENT_S, GroupLists
from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.published_groups import PublishedGroups
from schemas.events import encode_json
from schemas.history import GroupSnapshot
from schemas.messages import ListedGroup
from schemas.query_progress import ChangedGroup, GroupsAsked, GroupsChanged, TopicsSeen


def published(group_id: str, epoch: int, seq: int, state: str = "Stable") -> TopicRecord:
    snapshot = GroupSnapshot(
        group_id=group_id, epoch=epoch, seq=seq, time_ms=0, state=state, state_since_ms=0, generation_id=1,
        protocol_type="consumer", protocol_name=None, leader_id=None, members=(),
    )  # fmt: skip
    return TopicRecord(group_id.encode(), encode_json(snapshot), 0)


def changed(group_id: str, epoch: int, seq: int, state: str | None = "Empty") -> ChangedGroup:
    return ChangedGroup(
        group_id=group_id, epoch=epoch, seq=seq, state=state, group_type="consumer", protocol_type="consumer"
    )


class World:
    """Responders that answer when told, and a clock."""

    def __init__(self, shards: int = 2) -> None:
        self.shards = shards
        self.asked: list[tuple[int, int]] = []
        """Shard and number of the question."""
        self.lists: list[dict[str, str] | None] = []
        """Group -> state."""
        self.now_s = 100.0
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.groups = PublishedGroups(1_000_000)
        self.groups.complete()
        self.listing = GroupLists(
            self.groups, self, "me", lambda delay_s, call: self._later.append((self.now_s + delay_s, call)),
            lambda: self.now_s,
        )  # fmt: skip

    def write(self, shard: int, record: TopicsSeen | GroupsAsked) -> None:
        assert isinstance(record, GroupsAsked)
        assert record.asker == "me"
        self.asked.append((shard, record.number))

    def list(self) -> None:
        def on_listed(listed: Iterable[ListedGroup] | None) -> None:
            self.lists.append(None if listed is None else {group.group_id: group.group_state for group in listed})

        self.listing.list(on_listed)

    def answer(self, shard: int, number: int, *groups: ChangedGroup, is_last: bool = True) -> None:
        self.listing.answered(shard, GroupsChanged(asker="me", number=number, groups=groups, is_last=is_last))

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        due = [call for at_s, call in self._later if at_s <= self.now_s]
        self._later = [each for each in self._later if each[0] > self.now_s]
        for call in due:
            call()


def test_each_group_is_as_the_later_of_two_outputs_shows_it() -> None:
    world = World()
    world.groups.take([published(name, 5, 10) for name in ("same", "changed", "gone", "newer")])
    world.list()
    world.answer(0, 1, changed("changed", 5, 11), changed("gone", 5, 12, None), is_last=False)
    world.answer(0, 1, changed("newer", 5, 9), changed("again", 7, 1, "Assigning"))
    assert world.lists == [], "the other shard has not answered"
    world.answer(1, 1)
    assert world.lists == [{"same": "Stable", "changed": "Empty", "newer": "Stable", "again": "Assigning"}]


def test_who_asks_while_a_question_is_under_way_waits_for_the_next() -> None:
    """Its answer must tell of what happened before it asked."""
    world = World(shards=1)
    for _ in range(3):
        world.list()
    assert world.asked == [(0, 1)]
    world.answer(0, 1, changed("early", 1, 1))
    assert (world.lists, world.asked) == ([{"early": "Empty"}], [(0, 1), (0, 2)])
    world.answer(0, 1, changed("not any more", 1, 1))
    world.answer(0, 2, changed("late", 1, 1))
    assert world.lists[1:] == 2 * [{"late": "Empty"}]


def test_a_responder_that_does_not_answer_is_waited_for_once_in_a_while() -> None:
    world = World()
    world.groups.take([published("g", 1, 1)])
    world.list()
    world.answer(0, 1, changed("of another shard", 1, 1))
    world.pass_time(ANSWER_WITHIN_S)
    assert world.lists == [{"g": "Stable", "of another shard": "Empty"}]
    world.list()
    world.answer(0, 2)
    assert len(world.lists) == 2, "nobody waits for it"
    assert (1, 2) in world.asked, "but it is asked"
    world.answer(1, 2, changed("g", 1, 2))
    world.list()
    world.answer(0, 3)
    assert len(world.lists) == 2, "it is there again"
    world.answer(1, 3, changed("g", 1, 2))
    assert world.lists[2] == {"g": "Empty"}
    world.list()
    world.pass_time(ANSWER_WITHIN_S)
    world.pass_time(SILENT_S)
    world.list()
    assert len(world.lists) == 4
    world.pass_time(ANSWER_WITHIN_S)
    assert len(world.lists) == 5


def test_where_nobody_can_be_asked_the_groups_are_as_they_are_published() -> None:
    world = World(shards=0)
    world.groups.take([published("g", 1, 1)])
    world.list()
    assert world.lists == [{"g": "Stable"}]
