"""The coordinator's own topics, which clients may not name: all whose name begins with its prefix, unless a rule allows
it.

One for a gateway. A topic that is named by its id is looked up: ids never change their topic, so what was heard once is
kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from group_coordinator.coordinating.gateway.authorization import Authorizer

_IDS_MAX = 50_000
"""Ids that are kept, the oldest are forgotten first; one that is forgotten costs a question to a broker."""


class Verdict(Enum):
    """The decision about a topic that a client names."""

    PASS = auto()
    REFUSE = auto()
    ASK = auto()
    """Its name is not known yet."""
    UNKNOWN = auto()
    """There is no topic of this id."""


class TopicAccess:
    """Says which topics a client may name."""

    def __init__(self, topic_prefix: str, authorizer: Authorizer) -> None:
        self._prefix = f"{topic_prefix}."
        self._authorizer = authorizer
        self._names: dict[bytes, str] = {}
        """Topics by id."""
        self.mark = self._prefix.encode()
        """What is in every message that names a topic of the coordinator by its name."""
        self.first_letter = self._prefix[0]

    def refuses(self, principal: str, name: str) -> bool:
        """Return whether a client may not name this topic."""
        return name.startswith(self._prefix) and not self._authorizer.allows_topic(principal, name)

    def verdict(self, principal: str, topic_id: bytes, names_by_id: Mapping[bytes, str | None]) -> Verdict:
        """Decide about a topic by its id. `names_by_id` is the brokers' latest answer; None as a name means that
        there is no such topic."""
        name = names_by_id[topic_id] if topic_id in names_by_id else self._names.get(topic_id)
        if name is None:
            return Verdict.UNKNOWN if topic_id in names_by_id else Verdict.ASK
        return Verdict.REFUSE if self.refuses(principal, name) else Verdict.PASS

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic; None: no broker has told it yet. The topic may be gone meanwhile."""
        return self._names.get(topic_id)

    def learn(self, topic_id: bytes, name: str) -> None:
        """Take a topic's name and id from a broker's answer."""
        self._names[topic_id] = name
        if len(self._names) > _IDS_MAX:
            del self._names[next(iter(self._names))]
