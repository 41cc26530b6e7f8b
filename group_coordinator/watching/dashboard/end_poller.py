"""The ends of the logs that groups have committed for are asked for slowly, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.errors import STOP_S
from group_coordinator.ground.kafka_topics.log_bounds import can_be, log_bounds, log_reaches
from group_coordinator.watching.dashboard.index import Index


class EndPoller:
    """Asks again and again, and tells an index."""

    def __init__(
        self,
        properties: Mapping[str, str],
        index: Index,
        progress: Callable[[], Mapping[str, Any]],
        interval_s: float = 15.0,
        cluster: str = "",
    ) -> None:
        """`properties` are librdkafka's. `progress`: of the source. Nothing is asked while it has not `caught_up`:
        beside ends that are newer than what is known of commits a group looks as if it stood. `cluster`: where there
        are several."""
        self._properties = dict(properties)
        self._index = index
        self._progress = progress
        self._interval_s = interval_s
        self._cluster = cluster
        self.asked_ms: int | None = None
        """When they were last told."""
        self.impossible = 0
        """How many partitions that groups have committed for cannot be: no topic can have such a name."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="dashboard-ends")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait a moment for it: a question under way can take longer, and changes nothing any more."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        admin = new_admin_client(self._properties)
        while not self._stopping.is_set():
            all_places = self._index.places(self._cluster)
            places = {place for place in all_places if can_be(place)}
            self.impossible = len(all_places) - len(places)
            if places and self._progress()["caught_up"]:
                reaches = log_reaches(admin, self._index.wanted_reaches(self._cluster))
                now_ms = time.time_ns() // 1_000_000
                bounds = log_bounds(admin, places)
                if not self._stopping.is_set():
                    self._index.poll_ends(now_ms, bounds, self._cluster, reaches)
                    self.asked_ms = now_ms if bounds else self.asked_ms
            self._stopping.wait(self._interval_s if places else 1.0)
