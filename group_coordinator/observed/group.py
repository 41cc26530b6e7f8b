"""One group of any kind, followed through its records and lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from group_coordinator.observed import broker_lines as told
from group_coordinator.observed.classic import ClassicGroup
from group_coordinator.observed.commits import GroupCommits
from group_coordinator.observed.offsets_log import LogRecord
from group_coordinator.observed.ordering import Item, TimedLine
from group_coordinator.observed.stored_groups import StoredGeneration, StoredMember, stored_generation
from group_coordinator.observed.teller import Teller
from group_coordinator.observed.transactions import Commits
from schemas.history import History
from schemas.observed_history import CoordinatorChanged

_GROUP_METADATA, _OFFSET_COMMIT = "GroupMetadata", "OffsetCommit"


class ObservedGroup:
    """Makes the history of one group."""

    def __init__(self, group_id: str, partition: int, topic_names: Mapping[str, str]) -> None:
        self._tell = Teller(group_id, partition)
        self._commits = GroupCommits(self._tell)
        self._topic_names = topic_names
        self._leader_epoch: int | None = None
        self._was_loaded = False
        """Whether a line told of another coordinator since the last record."""

    def follow(self, items: Sequence[Item]) -> list[History]:
        """The history that records and lines tell, in their order."""
        generations = _generations(items)
        places = [place for place, _ in generations]
        stored = dict(generations)
        coming = [generation for _, generation in generations]
        classic = ClassicGroup(self._tell, _profiles(coming))
        for place, item in enumerate(items):
            self._tell.look_at(item)
            self._note_coordinator(item)
            if isinstance(item, TimedLine):
                classic.line(item.line.event, coming[bisect_right(places, place) :])
            elif isinstance(item, Commits):
                self._commits.written(item)
            elif item.name == _OFFSET_COMMIT:
                self._commits.removed(item)
            elif item.name == _GROUP_METADATA:
                if place in stored:
                    classic.stored(stored[place])
                else:
                    classic.tombstone()
        return self._tell.history

    def _note_coordinator(self, item: Item) -> None:
        if isinstance(item, TimedLine):
            if isinstance(item.line.event, told.GroupLoaded):
                self._was_loaded = True
                self._tell.say(CoordinatorChanged, broker_id=item.line.broker, leader_epoch=None)
            return
        epoch = item.leader_epoch
        if epoch is None:
            return
        if self._leader_epoch is not None and epoch > self._leader_epoch and not self._was_loaded:
            self._tell.say(CoordinatorChanged, certainty="inferred", broker_id=None, leader_epoch=epoch)
        self._leader_epoch, self._was_loaded = max(epoch, self._leader_epoch or 0), False


def _generations(items: Sequence[Item]) -> list[tuple[int, StoredGeneration]]:
    """The generations that are stored, each with its place."""
    found = []
    for place, item in enumerate(items):
        if isinstance(item, LogRecord) and item.name == _GROUP_METADATA:
            generation = stored_generation(item)
            if generation is not None:
                found.append((place, generation))
    return found


def _profiles(generations: Sequence[StoredGeneration]) -> dict[str, StoredMember]:
    """What is stored of each member, the last of several."""
    return {member_id: member for generation in generations for member_id, member in generation.members.items()}
