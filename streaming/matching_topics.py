"""The topics that match regular expressions, kept as topics come and go."""

from __future__ import annotations

from collections.abc import Set

from group_coordinator.ground.kafka_topics.cluster_topics import ClusterTopics
from schemas.topic_regexes import InvalidTopicRegex, matching_topics

KEPT_NAMES_MAX = 500_000
"""Of all expressions together, each of which counts as some more by its length, after which those that were asked for
first are forgotten."""
_NAME_CHARACTERS = 32


class MatchingTopics:
    """Of the topics in a table, but for the coordinator's own."""

    def __init__(self, table: ClusterTopics, own_prefix: str) -> None:
        """`own_prefix`: the names of the coordinator's topics begin so."""
        self._table, self._own_prefix = table, own_prefix
        self._matches: dict[str, frozenset[str]] = {}
        self._names = 0
        """About so many are kept."""

    def of(self, regex: str) -> frozenset[str]:
        """Return the topics whose whole name matches."""
        found = self._matches.get(regex)
        if found is None:
            found = self._matching(regex, self._table.names)
            self._keep(regex, found)
        return found

    def change(self, names: Set[str]) -> None:
        """Look again at these names, which came, changed or went."""
        present = [name for name in names if self._table.version_of(name) is not None]
        for regex, before in list(self._matches.items()):
            self._keep(regex, (before - names) | self._matching(regex, present))

    def may_concern(self, regex: str, names: Set[str]) -> bool:
        """Return whether one of these names may match."""
        found = self._matches.get(regex)
        return found is None or not names.isdisjoint(found)

    def _matching(self, regex: str, names: Set[str] | list[str]) -> frozenset[str]:
        try:
            matches = matching_topics(regex, names)
        except InvalidTopicRegex:  # this version of RE2 does not take what another one took
            return frozenset()
        return frozenset([name for name in matches if not name.startswith(self._own_prefix)])

    def _keep(self, regex: str, found: frozenset[str]) -> None:
        self._forget(regex)
        self._matches[regex] = found
        self._names += _names_of(regex, found)
        while self._names > KEPT_NAMES_MAX and len(self._matches) > 1:
            self._forget(next(iter(self._matches)))

    def _forget(self, regex: str) -> None:
        found = self._matches.pop(regex, None)
        if found is not None:
            self._names -= _names_of(regex, found)


def _names_of(regex: str, found: frozenset[str]) -> int:
    return len(found) + 1 + len(regex) // _NAME_CHARACTERS
