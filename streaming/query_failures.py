"""Why a query of Spark's has failed, in words for people."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from streaming.tuning.guard import spared

_ADVICE = "failOnDataLoss"
"""Spark advises to go on without the events that are lost: then nobody could say what the groups are any more."""
_DELETED = (
    "Events of the log were deleted before they were read, by its retention or by somebody. Save the committed offsets "
    "by `group-coordinator offsets export`, start under a new --topic-prefix and bring them back by `group-coordinator "
    "offsets import` (docs/recovery.md)."
)
_KAFKA_TIMEOUT = "org.apache.kafka.common.errors.TimeoutException"


def cause_of(query: StreamingQuery) -> str:
    """Return why a query ended: the Python traceback where there is one."""
    failure = query.exception()
    if failure is None:
        return "It was stopped from outside."
    text = str(failure)
    start = text.find("Traceback")
    end = text.find("=== Streaming Query ===")
    cause = text[max(start, 0) : end if end > 0 else None].strip()
    if _ADVICE in cause:
        return f"{_without_advice(cause)}\n{_DELETED}"
    if cause.startswith(_KAFKA_TIMEOUT):
        return f"Kafka did not answer for minutes. {cause}"
    innermost = ""
    with spared("the innermost cause of a failed query"):
        innermost = _innermost(query)
    return cause if start >= 0 or innermost in cause else f"{cause}\n{innermost}"


def _innermost(query: StreamingQuery) -> str:
    """The last cause in Java's chain, which Spark's own words often leave out: a full disk, for example."""
    java: Any = query._jsq.exception().get()
    while java.getCause() is not None:
        java = java.getCause()
    lines = str(java.toString()).splitlines()
    return next((line for line in reversed(lines) if line.startswith("Caused by: ")), lines[0])


def _without_advice(cause: str) -> str:
    """Leave out the sentences that advise to lose data."""
    sentences = re.split(r"(?<=[.;])\s+|\n+", cause)
    return " ".join(sentence for sentence in sentences if sentence and _ADVICE not in sentence)
