"""The responses topic may get more partitions while the coordinator runs, and never loses one.

A request is handled whatever partition its sender reads: what a group decides follows from its log alone. Only at the
edge, where an answer becomes a record, is looked whether the partition is there, as the sink fails for good over one
that is not. An answer for which there is none becomes a dead letter: nobody can be reading it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.described import partitions_now

_LOOK_INTERVAL_S = 1.0
"""Requests that name partitions which there are not must not cost a question each."""
_log = logging.getLogger(__name__)
_counts: dict[str, tuple[int, float]] = {}
"""What this process has found: topic -> partitions, and when it looked last. Spark makes the operator anew for each
task."""


class ReplyPartitions:
    """The partitions of the responses topic, as Spark's Python workers know them."""

    def __init__(self, topic: str, count: int, client_properties: Mapping[str, str] | None = None) -> None:
        """`client_properties`: librdkafka's, to look again where a partition is not among those that there were;
        None: there will be no more of them, as in a replay."""
        self._topic = topic
        self._count = count
        self._properties = client_properties

    def __contains__(self, number: int) -> bool:
        if 0 <= number < self._count:
            return True
        if self._properties is None:
            return False
        count, looked_s = _counts.get(self._topic, (0, float("-inf")))
        now_s = time.monotonic()
        if number >= count and now_s - looked_s >= _LOOK_INTERVAL_S:
            found = partitions_now(new_admin_client(self._properties), self._topic)
            if found is None:
                _log.warning("%s: its partitions cannot be counted.", self._topic)
            count = max(count, found or 0)
            _counts[self._topic] = count, now_s
        return 0 <= number < count

    @property
    def count(self) -> int:
        """The number of partitions at the start."""
        return self._count
