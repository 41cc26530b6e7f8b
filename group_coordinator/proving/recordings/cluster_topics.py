"""The cluster's topics over the time of a request log: which there were, with which id and how many partitions.

`ClusterLog` is fed with what single lines tell and keeps what is new in it; `LoggedTopics` makes one story of it.
A topic that the log only shows to be there was there before the log; what is not shown is inferred, and said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import final

from msgspec import Struct, field
from msgspec.structs import replace

from group_coordinator.proving.recordings.cluster_lines import ClusterLine, GroupSetting, Sighting
from schemas.group_metadata_events import DescribedTopic

BEGINNING_US = 0
"""Of what was so before the log began."""
KEPT_BYTES_MAX = 64 * 1024 * 1024
"""Of what lines tell of topics; what is beyond it is left out, and said."""
_SIGHTING_BYTES = 400
_PARTITION_BYTES = 100
TAKEN_IN_US = 5_000_000
"""How long after a change was answered a broker may need to take it in."""
_RACELESS_US = 1_000_000
"""A broker may answer with the state before a change. So an answer that contradicts a change is not believed for this
long after it."""


class Kept(Struct, frozen=True):
    """What one line told, and where it stands."""

    line: ClusterLine
    file_index: int
    line_number: int


class TopicChange(Struct, frozen=True, kw_only=True):
    """A topic came, changed or went."""

    at_us: int
    earliest_us: int
    latest_us: int
    """A broker takes it in some time after it was asked for it; these are the bounds."""
    name: str
    topic: DescribedTopic | None
    """None: it is gone."""
    gone_id: str | None = None
    """The id of the topic that had the name before, where that one is gone."""


class ClusterLog:
    """Fed with each line's part, in the order of the lines of each file. Repetitions are not kept."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self.left_out = 0
        """Lines that there was no room for."""
        self._last: dict[tuple[int, str], Sighting] = {}
        self._assigned: dict[str, int] = {}
        self._listed_us: dict[int, int] = {}
        """When all topics were last listed, by file."""
        self._racks: dict[int, str | None] = {}
        self._bytes = 0

    def take(self, line: ClusterLine, file_index: int, line_number: int) -> None:
        """Keep what a line tells that the lines before it did not."""
        listed_us = self._listed_us.get(file_index, 0)
        if line.lists_all:
            self._listed_us[file_index] = line.earliest_us
        news = tuple(seen for seen in line.sightings if self._is_new(file_index, seen))
        racks = tuple((node, rack) for node, rack in line.racks if self._racks.get(node, "") != rack)
        if not news and not racks and not line.settings:
            return
        self._bytes += sum(_SIGHTING_BYTES + _PARTITION_BYTES * len(seen.replicas) for seen in news)
        self._bytes += _SIGHTING_BYTES * (len(racks) + len(line.settings))
        if self._bytes > KEPT_BYTES_MAX:
            self.left_out += 1
            return
        self._racks.update(racks)
        first = tuple(
            replace(seen, unlisted_us=listed_us)
            if seen.kind == "there" and (file_index, seen.name) not in self._last
            else seen
            for seen in news
        )
        for seen in news:
            self._note(file_index, seen)
        self.kept.append(Kept(replace(line, sightings=first, racks=racks), file_index, line_number))

    def _is_new(self, file_index: int, seen: Sighting) -> bool:
        if seen.kind in ("assigned", "named"):
            is_named = seen.name is None or (-1, seen.name) in self._last
            return not is_named or seen.partitions > self._assigned.get(seen.topic_id or "", 0)
        return seen.kind not in ("there", "absent") or self._last.get((file_index, seen.name or "")) != seen

    def _note(self, file_index: int, seen: Sighting) -> None:
        if seen.kind in ("assigned", "named"):
            self._assigned[seen.topic_id or ""] = max(seen.partitions, self._assigned.get(seen.topic_id or "", 0))
            if seen.name is not None:
                self._last[-1, seen.name] = seen
        else:
            self._last[file_index, seen.name or ""] = seen


class LoggedTopics(Struct, kw_only=True):
    """The topics of a cluster, and how they changed."""

    changes: tuple[TopicChange, ...] = ()
    """In the order of time; those before the log began are first."""
    settings: tuple[tuple[int, GroupSetting], ...] = ()
    """When a group's own settings were changed, in the order of time."""
    names: dict[str, str] = field(default_factory=dict)
    """Topic id -> name, of all that there ever were."""
    guessed: dict[str, int] = field(default_factory=dict)
    """Topic -> partitions, of topics of which the log shows only what was assigned: they may have had more."""
    without_id: tuple[str, ...] = ()
    """Topics that were created, and whose ids nothing tells."""
    left_out: int = 0


def cluster_topics(log: ClusterLog, shift_us: Callable[[int, int], int]) -> LoggedTopics:
    """Make one story of all that was told. `shift_us`: by how much a line's times are put right, by file and line."""
    lines = sorted((_shifted(kept, shift_us) for kept in log.kept), key=lambda line: line.latest_us)
    racks = {node: rack for line in lines for node, rack in line.racks if rack}
    by_name: dict[str, list[_Seen]] = {}
    names = {
        seen.topic_id: seen.name
        for line in lines
        for seen in line.sightings
        if seen.topic_id is not None and seen.name is not None
    }
    least: dict[str, int] = {}
    for line in lines:
        for seen in line.sightings:
            name = seen.name or names.get(seen.topic_id or "")
            if seen.kind in ("assigned", "named") and seen.topic_id is not None:
                least[seen.topic_id] = max(seen.partitions, least.get(seen.topic_id, 0))
            if name is not None and seen.kind != "assigned":
                by_name.setdefault(name, []).append(_Seen(line, seen))
    guessed = {
        name: least[topic_id]
        for topic_id, name in names.items()
        if topic_id in least and all(seen.sighting.kind == "named" for seen in by_name[name])
    }
    changes: list[TopicChange] = []
    without_id: list[str] = []
    for name, sightings in by_name.items():
        story = _Story(name, sightings, racks, guessed)
        changes += story.changes()
        without_id += [name] if story.is_without_id else []
    return LoggedTopics(
        changes=tuple(sorted(changes, key=lambda change: change.at_us)),
        settings=tuple((line.latest_us, setting) for line in lines for setting in line.settings),
        names=names,
        guessed=guessed,
        without_id=tuple(without_id),
        left_out=log.left_out,
    )


def _shifted(kept: Kept, shift_us: Callable[[int, int], int]) -> ClusterLine:
    by_us, line = shift_us(kept.file_index, kept.line_number), kept.line
    if not by_us:
        return line
    return replace(line, earliest_us=line.earliest_us + by_us, latest_us=line.latest_us + by_us)


class _Seen(Struct, frozen=True):
    line: ClusterLine
    sighting: Sighting


class _Story:
    """The story of one name."""

    def __init__(
        self, name: str, seen: Sequence[_Seen], racks: dict[int, str], guessed: dict[str, int]
    ) -> None:
        """`seen`: all that lines tell of the name, in the order in which they were answered."""
        self._name, self._seen, self._racks, self._guessed = name, seen, racks, guessed
        self._topic: DescribedTopic | None = None
        self._changed_us = BEGINNING_US
        self._gone: set[str] = set()
        self.is_without_id = False

    def changes(self) -> Iterator[TopicChange]:
        for place, seen in enumerate(self._seen):
            sighting, line = seen.sighting, seen.line
            if sighting.kind in ("there", "named"):
                yield from self._there(place, sighting, line)
            elif sighting.kind == "created" and self._topic is None:
                topic = self._created(place, sighting)
                self.is_without_id = self.is_without_id or topic is None
                if topic is not None:
                    yield from self._becomes(topic, line.latest_us, line)
            elif sighting.kind == "grown" and self._topic is not None:
                topic = self._grown(place, self._topic, sighting.partitions)
                if topic is not None:
                    yield from self._becomes(topic, line.latest_us, line)
            elif sighting.kind == "deleted":
                yield from self._becomes(None, line.latest_us, line)
            elif sighting.kind == "absent" and self._is_gone(place, line):
                yield from self._becomes(None, line.earliest_us)

    def _is_gone(self, place: int, line: ClusterLine) -> bool:
        """Return whether an absence is believed. An id is never given again: of a topic that is seen later with the
        same one, a broker that had just started did not know yet."""
        topic = self._topic
        return line.earliest_us > self._changed_us + _RACELESS_US and not any(
            topic is not None and later.sighting.kind == "there" and later.sighting.topic_id == topic.topic_id
            for later in self._seen[place + 1 :]
        )

    def _becomes(
        self, topic: DescribedTopic | None, at_us: int, asked: ClusterLine | None = None
    ) -> Iterator[TopicChange]:
        """`asked`: the request for the change; None: it is only seen."""
        before, before_us = self._topic, self._changed_us
        if topic == before:
            return
        is_gone = before is not None and (topic is None or topic.topic_id != before.topic_id)
        gone_id = before.topic_id if is_gone and before is not None else None
        self._gone |= {gone_id} if gone_id is not None else set()
        self._topic, self._changed_us = topic, at_us
        yield TopicChange(
            at_us=at_us,
            earliest_us=min(before_us, at_us) if asked is None else asked.earliest_us,
            latest_us=(at_us if asked is None else asked.latest_us) + TAKEN_IN_US,
            name=self._name,
            topic=topic,
            gone_id=gone_id,
        )

    def _there(self, place: int, sighting: Sighting, line: ClusterLine) -> Iterator[TopicChange]:
        before, topic_id = self._topic, sighting.topic_id
        if topic_id is None or topic_id in self._gone:
            return
        if sighting.kind == "named" and (before is not None or self._name not in self._guessed):
            return
        partitions = self._partitions(sighting)
        topic = DescribedTopic(name=self._name, topic_id=topic_id, partitions=partitions)
        if before is not None and before.topic_id == topic_id:
            more = len(partitions) - len(before.partitions)
            if more < 0 or (not more and line.earliest_us <= self._changed_us + _RACELESS_US):
                return
        if before is None:
            self._changed_us = max(self._changed_us, sighting.unlisted_us)
        yield from self._becomes(topic, line.earliest_us if self._is_news(place, sighting, line) else BEGINNING_US)

    def _is_news(self, place: int, sighting: Sighting, line: ClusterLine) -> bool:
        """Return whether a topic that is there was not so from the beginning."""
        if place or sighting.unlisted_us:
            return True
        return any(
            later.sighting.kind == "created" and later.line.earliest_us <= line.latest_us for later in self._seen
        )

    def _partitions(self, sighting: Sighting) -> tuple[tuple[str, ...], ...]:
        if sighting.kind == "named":
            return ((),) * self._guessed[self._name]
        return tuple(tuple(self._racks[node] for node in nodes if node in self._racks) for nodes in sighting.replicas)

    def _created(self, place: int, sighting: Sighting) -> DescribedTopic | None:
        later = self._until_deleted(place)
        topic_id = sighting.topic_id or next((seen.topic_id for seen in later if seen.topic_id is not None), None)
        if topic_id is None:
            return None
        described = next((seen for seen in later if seen.kind == "there"), None)
        partitions: tuple[tuple[str, ...], ...] = ((),) * sighting.partitions
        if described is not None and len(described.replicas) >= len(partitions):
            wanted = len(partitions) or len(described.replicas)
            partitions = self._partitions(described)[:wanted]
        return DescribedTopic(name=self._name, topic_id=topic_id, partitions=partitions)

    def _grown(self, place: int, before: DescribedTopic, count: int) -> DescribedTopic | None:
        if count <= len(before.partitions):
            return None
        described = next((seen for seen in self._until_deleted(place) if len(seen.replicas) >= count), None)
        partitions: tuple[tuple[str, ...], ...] = (*before.partitions, *[()] * (count - len(before.partitions)))
        if described is not None:
            partitions = self._partitions(described)[:count]
        return replace(before, partitions=partitions)

    def _until_deleted(self, place: int) -> Sequence[Sighting]:
        """What is told of the topic that there is from here on, until it is gone."""
        later: list[Sighting] = []
        for seen in self._seen[place + 1 :]:
            if seen.sighting.kind == "deleted":
                break
            if seen.sighting.topic_id not in self._gone:
                later.append(seen.sighting)
        return later


def names_of(changes: Iterable[TopicChange]) -> set[str]:
    """Return the names of all topics that ever there were."""
    return {change.name for change in changes}


@final
class TopicIds:
    """What is known of ids, from the story of the cluster and from elsewhere."""

    def __init__(
        self,
        changes: Iterable[TopicChange] = (),
        others: Mapping[str, str] | None = None,
        *,
        of_names: bool = True,
    ) -> None:
        """`others`: name -> id, of what other records tell. `of_names`: the broker looks up the ids of names, as from
        Kafka 4.3 on."""
        self._of_names = of_names
        known = others or {}
        self.names = {topic_id: name for name, topic_id in known.items()}
        """Topic id -> name."""
        self._ids: dict[str, list[tuple[int, str]]] = {name: [(0, topic_id)] for name, topic_id in known.items()}
        told: set[str] = set()
        for change in changes:
            if change.topic is not None:
                topic_id = change.topic.topic_id
                self.names[topic_id] = change.name
                ids = self._ids.setdefault(change.name, [])
                if change.name not in told:
                    ids.clear()
                    told.add(change.name)
                if not ids or ids[-1][1] != topic_id:
                    ids.append((change.at_us, topic_id))

    def id_of(self, name: str, us: int) -> str | None:
        """Return the id that a topic had at a time, or got later; None if nothing tells it."""
        ids = self._ids.get(name) if self._of_names else None
        if not ids:
            return None
        return next((topic_id for at_us, topic_id in reversed(ids) if at_us <= us), ids[0][1])


NO_IDS = TopicIds()
