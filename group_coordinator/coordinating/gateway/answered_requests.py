"""The requests that were answered lately: another answer to one of them is said, for one of the two is not the
coordinator's. Who may write to the responses topic is a matter of its ACLs."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict

from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics

REMEMBERED_MAX = 20_000
"""Some 150 bytes each. A responder's answer and the query's are some batches apart."""
_TOLD_INTERVAL_S = 60.0
_log = logging.getLogger(__name__)


class AnsweredRequests:
    """Knows which answers clients got. `compare` may be called in any thread."""

    def __init__(self, metrics: GatewayMetrics, remembered_max: int = REMEMBERED_MAX) -> None:
        self._metrics = metrics
        self._remembered_max = remembered_max
        self._given: OrderedDict[bytes, bytes] = OrderedDict()
        """Request id -> digest of the answer."""
        self._told_s = -_TOLD_INTERVAL_S

    def note(self, record: TopicRecord) -> None:
        """Note the answer that a client is given; in one thread."""
        self._given[record.key] = _digest(record)
        if len(self._given) > self._remembered_max:
            self._given.popitem(last=False)

    def compare(self, record: TopicRecord) -> None:
        """Say where a client was given another answer than this one."""
        given = self._given.get(record.key)
        if given is None or given == _digest(record):
            return
        self._metrics.answers_contradicted += 1
        now_s = time.monotonic()
        if now_s - self._told_s >= _TOLD_INTERVAL_S:
            self._told_s = now_s
            _log.error(
                "The responses topic has another answer to the request %s than the client was given: one of the two "
                "may be forged, so look who may write to this topic. The metric "
                "group_coordinator_gateway_answers_contradicted_total counts them.",
                record.key.decode(errors="replace"),
            )


def _digest(record: TopicRecord) -> bytes:
    return hashlib.blake2b(record.value or b"", digest_size=16).digest()
