"""Whether a responder may answer for a shard: what the progress topic says about the shard's query."""

from __future__ import annotations

import time
from collections.abc import Mapping

from schemas.query_progress import AnswerDifference, ProgressRecord, QueryProgress
from streaming.progress_topic import PublishedRecord


class ResponderError(RuntimeError):
    """A responder cannot go on; it may be started again from a newer state."""


class ResponderRefusedError(RuntimeError):
    """A responder may not answer: the query has another hash, or an answer has differed."""


class ResponderAloneError(RuntimeError):
    """The query has said nothing for longer than a responder may answer without it."""


def require_permission(
    published: Mapping[type[ProgressRecord], PublishedRecord], shard: int, core_hash: str, alone_max_ms: int
) -> float:
    """Return how long ago, in seconds, the query has published where it is.

    `core_hash`: of the responder. Raises ResponderRefusedError, ResponderAloneError, and ResponderError without any
    sign of a query.
    """
    if QueryProgress not in published:
        raise ResponderError(
            f"The query of shard {shard} has not published where it is: is the coordinator of this release running, "
            "with `responders` on?"
        )
    for record, _ in published.values():
        require_same_decisions(record, shard, core_hash)
    silence_ms = max(time.time_ns() // 1_000_000 - published[QueryProgress].timestamp_ms, 0)
    if silence_ms > alone_max_ms:
        raise alone(silence_ms / 1_000)
    return silence_ms / 1_000


def last_batch(published: Mapping[type[ProgressRecord], PublishedRecord]) -> int:
    """Return the last batch that the query has published; -1: it has committed none."""
    progress = published[QueryProgress].record
    assert isinstance(progress, QueryProgress)
    return progress.batch_id


def require_state_of(published: int, state: int) -> None:
    """Raise ResponderError if the state after batch `state` is not the query's, which had published the batch
    `published` before that state was read. An empty one may stand at the beginning of a log alone."""
    if state < published:
        has = "has no batch" if state < 0 else f"ends with batch {state}"
        raise ResponderError(
            f"The checkpoint {has}, but the query has committed batch {published}: name the coordinator's by "
            "--checkpoint."
        )


def require_same_decisions(record: ProgressRecord, shard: int, core_hash: str) -> None:
    """Raises ResponderRefusedError if the query decides otherwise than a responder with this hash, or has done so."""
    if isinstance(record, AnswerDifference) and record.core_hash == core_hash:
        raise ResponderRefusedError(
            f"An answer of a responder differed from the query's: {record.detail} No responder answers for shard "
            f"{shard} until the coordinator is started again (docs/operations.md)."
        )
    if isinstance(record, QueryProgress):
        require_same_hash(record.core_hash, shard, core_hash)


def require_same_hash(of_query: str, shard: int, core_hash: str) -> None:
    """Raises ResponderRefusedError if the hash of the query is not that of the responder."""
    if of_query != core_hash:
        raise ResponderRefusedError(
            f"The query of shard {shard} is of another release or has other settings ({of_query}, here "
            f"{core_hash}): start the responder with the query's."
        )


def alone(silence_s: float) -> ResponderAloneError:
    """Return the error of a responder whose query has been silent for too long."""
    return ResponderAloneError(f"The query has said nothing for {silence_s:.0f} s (responder_alone_max_ms).")
