"""The topics of a random sequence: they come, grow, go and come back as others, and the group hears of it now and
then."""

from __future__ import annotations

import re
from random import Random

from schemas.group_metadata_events import DescribedTopic, GroupConfiguration, RegexesResolved, TopicMetadata

NAMES = ("t1", "t2", "t3", "logs")
REGEXES = ("t.*", "t1|logs", "logs|t3", "no.*")
BROKEN_REGEX = "("


class RandomCluster:
    """What topics there are. `told` and `resolved` say what a watcher would tell of them."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._version = 1
        self._new_topics_version = 1
        self._made = 0
        self._topics: dict[str, DescribedTopic] = {}
        for name in NAMES[: dice.randint(1, len(NAMES))]:
            self._make(name)

    def id_of(self, name: str) -> str | None:
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    @property
    def partitions(self) -> list[tuple[str, int]]:
        return [(topic.topic_id, number) for topic in self._topics.values() for number in range(len(topic.partitions))]

    def change(self) -> None:
        """Something happens to one topic."""
        self._version += 1
        name = self._dice.choice(NAMES)
        topic = self._topics.get(name)
        what = self._dice.choice(("grow", "grow", "make", "go", "move"))
        if topic is None or what == "make":
            self._make(name)
            self._new_topics_version = self._version
        elif what == "grow":
            partitions = (*topic.partitions, *[("",)] * self._dice.randint(1, 2))
            self._topics[name] = DescribedTopic(name=name, topic_id=topic.topic_id, partitions=partitions)
        elif what == "move":
            partitions = tuple(self._racks() for _ in topic.partitions)
            self._topics[name] = DescribedTopic(name=name, topic_id=topic.topic_id, partitions=partitions)
        else:
            del self._topics[name]

    def told(self) -> TopicMetadata:
        """Return news of some topics, or of all; now and then they are old."""
        names = NAMES if self._dice.random() < 0.7 else tuple(self._dice.sample(NAMES, 2))
        return TopicMetadata(
            version=self._version if self._dice.random() < 0.95 else max(self._version - 2, 0),
            topics=tuple(self._topics[name] for name in names if name in self._topics),
            absent=tuple(name for name in names if name not in self._topics),
            new_topics_version=self._new_topics_version,
        )

    def resolved(self, regexes: set[str], began_ms: int) -> RegexesResolved:
        """Return what matches some expressions; perhaps not all that were asked for, and one that nobody uses."""
        asked = {regex for regex in sorted(regexes) if self._dice.random() < 0.95}
        if self._dice.random() < 0.1:
            asked.add(self._dice.choice(REGEXES))
        return RegexesResolved(
            version=self._version,
            resolved={
                regex: tuple(name for name in sorted(self._topics) if re.fullmatch(regex, name))
                for regex in sorted(asked)
            },
            began_ms=began_ms,
        )

    def settings(self) -> GroupConfiguration:
        """Return settings of a group's own; sometimes none."""
        choose = self._dice.choice
        return GroupConfiguration(
            consumer_session_timeout_ms=choose((None, 4_000, 20_000, 1)),
            consumer_heartbeat_interval_ms=choose((None, 1_000)),
            consumer_assignment_interval_ms=choose((None, 0, 2_500)),
        )

    def _make(self, name: str) -> None:
        self._made += 1
        partitions = tuple(self._racks() for _ in range(self._dice.randint(1, 5)))
        topic_id = f"00000000-0000-0000-0000-{self._made:012x}"
        self._topics[name] = DescribedTopic(name=name, topic_id=topic_id, partitions=partitions)

    def _racks(self) -> tuple[str, ...]:
        return self._dice.choice((("",), ("a",), ("a", "b"), ("b", "a")))
