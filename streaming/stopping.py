"""A query is stopped after a batch, not in its midst. A batch that was begun is written again at the next start."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pyspark.sql.streaming.query import StreamingQuery

POLL_INTERVAL_S = 0.005
REST_S = 0.3
"""Many times Spark's pause between two looks at a log without news."""
TIMEOUT_S = 120.0
"""How long a clean stop waits for the running batch; after that it is stopped in its midst and repeated at the next
start."""


def stop_after_batches(queries: Sequence[StreamingQuery]) -> None:
    """Stop each query right after its running batch.

    A query that is idle may find what was written just before, the last tick for one, at its next look: it is stopped
    when it has found nothing for REST_S. One that finds something again and again is stopped after one more batch.
    """
    begun_s = time.monotonic()
    waiting = [_Stopping(query, begun_s) for query in queries]
    while waiting:
        now_s = time.monotonic()
        for each in list(waiting):
            if each.may_stop(now_s) or now_s > begun_s + TIMEOUT_S:
                each.query.stop()
                waiting.remove(each)
        time.sleep(POLL_INTERVAL_S)


def stop_between_batches(query: StreamingQuery) -> None:
    """Stop a query that rests between its batches: one that is interrupted in its midst does no harm, but a lot of
    noise."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline_s:
        time.sleep(POLL_INTERVAL_S)
    query.stop()


class _Stopping:
    """A query on its way to its end."""

    def __init__(self, query: StreamingQuery, now_s: float) -> None:
        self.query = query
        self._ended_before = self._batches_ended()
        self._had_data_s = now_s

    def may_stop(self, now_s: float) -> bool:
        if not self.query.isActive or self._batches_ended() > self._ended_before:
            return True
        status = self.query.status
        if status["isDataAvailable"]:
            self._had_data_s = now_s
        return now_s > self._had_data_s + REST_S and not status["isTriggerActive"]

    def _batches_ended(self) -> int:
        last = self.query.lastProgress
        return -1 if last is None else int(last["batchId"])
