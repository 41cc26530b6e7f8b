"""A query is stopped after a batch, not in its midst. A batch that was begun is written again at the next start."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pyspark.sql.streaming.query import StreamingQuery

POLL_INTERVAL_S = 0.005
REST_S = 0.3
"""Many times Spark's pause between two looks at a log without news."""
BUSY_S = 3.0
"""How long a query that always finds something is waited for, before it is stopped after its next batch."""
TIMEOUT_S = 6.0
"""How long a clean stop waits for the running batch; after that it is stopped in its midst and repeated at the next
start. A flood may make a batch take minutes, and supervisors kill what has not ended after 30 s."""


def stop_after_batches(queries: Sequence[StreamingQuery]) -> None:
    """Stop each query when it rests, and one that never rests after a batch.

    A query that is idle may find what was written just before, the last tick for one, at its next look: it is stopped
    when it has found nothing for REST_S. Where others go on writing it may never rest: from BUSY_S on it is stopped
    when a batch has ended, though Spark may by then have planned the next one. A query that waits for its next trigger
    still says that there was data: from BUSY_S on it is stopped while it waits.
    """
    begun_s = time.monotonic()
    waiting = [_Stopping(query, begun_s) for query in queries]
    while waiting:
        now_s = time.monotonic()
        for query in list(waiting):
            if query.may_stop(now_s) or now_s > begun_s + TIMEOUT_S:
                query.query.stop()
                waiting.remove(query)
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
        self._busy_until_s = now_s + BUSY_S
        self._had_data_s = now_s
        self._ended_before: int | None = None
        """The batches that had ended when it was taken for busy."""

    def may_stop(self, now_s: float) -> bool:
        if not self.query.isActive:
            return True
        if now_s > self._busy_until_s:
            ended = self._batches_ended()
            if self._ended_before is not None and ended > self._ended_before:
                return True
            self._ended_before = ended
        status = self.query.status
        if now_s > self._busy_until_s and not status["isTriggerActive"]:
            return True  # it waits for its next trigger, which may be long
        if status["isDataAvailable"]:
            self._had_data_s = now_s
        return now_s > self._had_data_s + REST_S and not status["isTriggerActive"]

    def _batches_ended(self) -> int:
        last = self.query.lastProgress
        return -1 if last is None else int(last["batchId"])
