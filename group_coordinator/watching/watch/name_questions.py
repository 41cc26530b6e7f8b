"""When the brokers of a watched cluster are asked for the names of topics: now and then, and when an id comes that has
no name yet, as that of a topic that was just made."""

from __future__ import annotations

import threading
from collections.abc import Collection

NAMES_INTERVAL_S = 60.0
PAUSE_LEAST_S = 0.5
_PAUSE_SHARE = 10.0
"""Asking may take a tenth of the time, where there are many topics."""
_TRIES_MAX = 3
"""So often one id leads to a question: the topic may be gone, or the broker that is asked not know it yet."""


class NameQuestions:
    """Says when to ask next. One thread reads records, another one asks."""

    def __init__(self) -> None:
        self._wanted = threading.Event()
        self._tries: dict[str, int] = {}
        """Ids without a name -> how often was asked since they came."""

    def want(self, unnamed: Collection[str]) -> None:
        """Take the ids that have no names now."""
        tries = self._tries
        if unnamed or tries:
            self._tries = {topic_id: tries.get(topic_id, 0) for topic_id in unnamed}
            if any(count < _TRIES_MAX for count in self._tries.values()):
                self._wanted.set()

    def begin(self) -> None:
        """Note that the brokers are asked now, for all ids that have come."""
        self._wanted.clear()
        self._tries = {topic_id: count + 1 for topic_id, count in list(self._tries.items())}

    def wait(self, took_s: float, stopping: threading.Event) -> None:
        """Wait until it is time to ask again. `took_s`: how long asking took."""
        if not stopping.wait(max(PAUSE_LEAST_S, took_s * _PAUSE_SHARE)):
            self._wanted.wait(NAMES_INTERVAL_S)

    def wake(self) -> None:
        """Let `wait` end: the watcher stops."""
        self._wanted.set()
