"""Ids of topics by name and time: a name may be another topic's later, an id never is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from group_coordinator.proving.recordings.cluster_topics import TopicChange


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
