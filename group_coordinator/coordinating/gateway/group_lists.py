"""Lists of the groups as clients were answered: what the coordinator has published, and what responders say has changed
since.

A responder that does not answer is not waited for again for a while: then the list is that of the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from group_coordinator.coordinating.gateway.joined_topics import Channel
from group_coordinator.coordinating.gateway.published_groups import PublishedGroups
from schemas.messages import ListedGroup
from schemas.query_progress import ChangedGroup, GroupsAsked, GroupsChanged

ANSWER_WITHIN_S = 1.0
"""So long responders are waited for."""
SILENT_S = 10.0
"""So long nobody waits for a responder that has not answered in time; it is asked all the same."""

OnListed = Callable[[Iterable[ListedGroup] | None], None]
"""Called with all groups; None: they have not all been read yet."""


class GroupLists:
    """All methods run in one thread. One question is under way at a time; who asks meanwhile waits for the next."""

    def __init__(
        self,
        published: PublishedGroups,
        channel: Channel,
        asker: str,
        call_later: Callable[[float, Callable[[], None]], object],
        now_s: Callable[[], float],
    ) -> None:
        """`asker`: the name under which responders are asked. `call_later`: after so many seconds, in this thread."""
        self._published = published
        self._channel = channel
        self._asker = asker
        self._call_later = call_later
        self._now_s = now_s
        self._number = 0
        self._waiting: list[OnListed] = []
        """For the next question."""
        self._asked: list[OnListed] = []
        """For the one under way."""
        self._missing: set[int] | None = None
        """Shards that are waited for; None: no question is under way."""
        self._changed: dict[str, ChangedGroup] = {}
        self._silent_until_s: dict[int, float] = {}

    def list(self, on_listed: OnListed) -> None:
        """List the groups, now or later."""
        self._waiting.append(on_listed)
        if self._missing is None:
            self._ask()

    def answered(self, shard: int, answer: GroupsChanged) -> None:
        """Take in what a responder says."""
        self._silent_until_s.pop(shard, None)
        if answer.number != self._number or self._missing is None or shard not in self._missing:
            return
        self._changed |= {group.group_id: group for group in answer.groups}
        if answer.is_last:
            self._missing.discard(shard)
            if not self._missing:
                self._settle()

    def _ask(self) -> None:
        self._number += 1
        self._asked, self._waiting = self._waiting, []
        shards = range(self._channel.shards)
        now_s = self._now_s()
        self._missing = {shard for shard in shards if self._silent_until_s.get(shard, 0.0) <= now_s}
        for shard in shards:
            self._channel.write(shard, GroupsAsked(asker=self._asker, number=self._number))
        if self._missing:
            number = self._number
            self._call_later(ANSWER_WITHIN_S, lambda: self._give_up(number))
        else:
            self._settle()

    def _give_up(self, number: int) -> None:
        if self._missing is None or number != self._number:
            return
        silent_until_s = self._now_s() + SILENT_S
        self._silent_until_s |= dict.fromkeys(self._missing, silent_until_s)
        self._settle()

    def _settle(self) -> None:
        asked, self._asked = self._asked, []
        changed, self._changed = self._changed, {}
        self._missing = None
        listed = self._published.listed(changed)
        for on_listed in asked:
            on_listed(listed)
        if self._waiting and self._missing is None:
            self._ask()
