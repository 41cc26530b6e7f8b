"""The ends of the logs that groups have committed for are asked for slowly, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.errors import STOP_S
from group_coordinator.ground.kafka_topics.log_bounds import can_be, log_bounds
from group_coordinator.watching.dashboard.index import Index


class EndPoller:
    """Asks again and again, and tells an index."""

    def __init__(
        self,
        properties: Mapping[str, str],
        index: Index,
        is_wanted: Callable[[], bool],
        interval_s: float = 15.0,
        cluster: str = "",
    ) -> None:
        """`properties` are librdkafka's. `is_wanted`: nothing is asked before. `cluster`: where there are several."""
        self._properties = dict(properties)
        self._index = index
        self._is_wanted = is_wanted
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
            if places and self._is_wanted():
                bounds = log_bounds(admin, places)
                now_ms = time.time_ns() // 1_000_000
                if not self._stopping.is_set():
                    self._index.poll_ends(now_ms, bounds, self._cluster)
                    self.asked_ms = now_ms if bounds else self.asked_ms
            self._stopping.wait(self._interval_s if places else 1.0)
