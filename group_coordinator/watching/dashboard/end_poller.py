"""The ends of the logs that groups have committed for are asked for slowly, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.errors import STOP_S
from group_coordinator.ground.kafka_topics.log_bounds import can_be, log_bounds, log_reaches
from group_coordinator.watching.dashboard.clusters import qualified_id
from group_coordinator.watching.dashboard.committed import ShareOffset
from group_coordinator.watching.dashboard.index import Index


class AsksShareGroups(Protocol):
    """Who can say where share groups stand, by their ids in their cluster."""

    def __call__(self, group_ids: Collection[str], /) -> Mapping[str, Mapping[Partition, ShareOffset]]: ...
    def close(self) -> None: ...


def take_share_offsets(index: Index, ask: AsksShareGroups, cluster: str = "") -> None:
    """Ask where the share groups of a cluster stand, and tell an index."""
    prefix = qualified_id(cluster, "")
    told = ask([group_id.removeprefix(prefix) for group_id in index.share_groups(cluster)])
    offsets = {qualified_id(cluster, group_id): of_group for group_id, of_group in told.items()}
    index.take_share_offsets(offsets, cluster)


class EndPoller:
    """Asks again and again, and tells an index."""

    def __init__(
        self,
        properties: Mapping[str, str],
        index: Index,
        progress: Callable[[], Mapping[str, Any]],
        interval_s: float = 15.0,
        cluster: str = "",
        share_offsets: AsksShareGroups | None = None,
    ) -> None:
        """`properties` are librdkafka's. `progress`: of the source. Nothing is asked while it has not `caught_up`:
        beside ends that are newer than what is known of commits a group looks as if it stood. `cluster`: where there
        are several. `share_offsets`: tells where share groups stand."""
        self._share_offsets = share_offsets
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
        try:
            self._ask_again_and_again()
        finally:
            if self._share_offsets is not None:
                self._share_offsets.close()

    def _ask_again_and_again(self) -> None:
        admin = new_admin_client(self._properties)
        while not self._stopping.is_set():
            if self._share_offsets is not None and self._progress()["caught_up"]:
                take_share_offsets(self._index, self._share_offsets, self._cluster)
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
