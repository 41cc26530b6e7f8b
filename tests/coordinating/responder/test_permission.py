"""Who may answer, by what the progress topic says."""

from __future__ import annotations

import time

import pytest

from group_coordinator.coordinating.responder.permission import (
    ResponderAloneError,
    ResponderError,
    ResponderRefusedError,
    last_batch,
    require_permission,
    require_state_of,
)
from schemas.query_progress import AnswerDifference, ProgressRecord, QueryProgress, ResponderClaim
from streaming.progress_topic import PublishedRecord


def permission(*records: ProgressRecord, age_ms: int = 0, alone_max_ms: int = 60_000) -> float:
    timestamp_ms = time.time_ns() // 1_000_000 - age_ms
    published = {type(record): PublishedRecord(record, timestamp_ms) for record in records}
    return require_permission(published, 0, "ours", alone_max_ms)


def progress(core_hash: str = "ours") -> QueryProgress:
    return QueryProgress(core_hash=core_hash, batch_id=1, start_offset=0, end_offset=1, clock_ms=1)


def difference(core_hash: str) -> AnswerDifference:
    return AnswerDifference(
        core_hash=core_hash, shard=0, request_id="r", epoch=1, seq=1, detail="", responses_partition=0,
        responder_offset=0, query_offset=None,
    )  # fmt: skip


def test_the_querys_hash_and_a_recent_sign_of_it_are_needed() -> None:
    assert permission(progress()) < 60
    assert permission(progress(), ResponderClaim(core_hash="theirs"), difference("theirs")) < 60
    assert permission(progress(), age_ms=-5_000) == 0
    with pytest.raises(ResponderRefusedError, match="another release"):
        permission(progress("theirs"))
    with pytest.raises(ResponderRefusedError, match="differed"):
        permission(progress(), difference("ours"))
    with pytest.raises(ResponderError, match="has not published"):
        permission(ResponderClaim(core_hash="ours"))


def test_a_state_that_is_older_than_what_the_query_has_published_is_not_the_querys() -> None:
    published = last_batch({QueryProgress: PublishedRecord(progress(), 0)})
    assert published == 1
    require_state_of(published, 1)
    require_state_of(published, 2)
    require_state_of(-1, -1)
    with pytest.raises(ResponderError, match="ends with batch 0, but the query has committed batch 1"):
        require_state_of(published, 0)


def test_a_query_that_was_silent_for_too_long_gives_no_permission_to_a_new_responder_either() -> None:
    assert 30 <= permission(progress(), age_ms=30_000) < 60
    with pytest.raises(ResponderAloneError, match="responder_alone_max_ms"):
        permission(progress(), age_ms=90_000)
