"""A watcher has caught up when all that was there at the start is shown, not when it is read."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.watch import source
from schemas.history import History
from schemas.kafka.record_batches import RawRecord
from schemas.records import OffsetCommitKey, OffsetCommitValue
from tests.encoded_records import encode_key, encode_offset_commit_value
from tests.waiting import wait_until


class OnePoll:
    """A topic whose records come with the first poll."""

    unread = 0

    def __init__(self, properties: Mapping[str, str]) -> None:
        value = encode_offset_commit_value(OffsetCommitValue(offset=1, commit_timestamp_ms=1))
        keys = [encode_key(OffsetCommitKey(group_id, "orders", 0)) for group_id in ("a", "b")]
        self._records = [RawRecord(offset, 1, 0, key, value) for offset, key in enumerate(keys)]
        self.next_offsets = {0: len(self._records)}

    def bounds(self) -> dict[int, tuple[int, int]]:
        return {0: (0, len(self._records))}

    def assign(self, positions: Mapping[int, int]) -> None:
        """It is read from its beginning."""

    def poll(self, timeout_s: float) -> dict[int, list[RawRecord]]:
        records, self._records = self._records, []
        return {0: records} if records else {}

    def __enter__(self) -> OnePoll:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""


class Held(Index):
    """It takes no record before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()

    def add_record(self, record: History, value: bytes, cluster: str = "") -> bool:
        self.is_asked.set()
        assert self.may_go_on.wait(60)
        return super().add_record(record, value, cluster)


def test_groups_that_are_read_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "OffsetsTopicReader", OnePoll)
    monkeypatch.setattr(source.WatchSource, "_ask_names", lambda _: None)
    watched, index = source.WatchSource({"bootstrap.servers": "127.0.0.1:1"}), Held()
    watched.start(index)
    try:
        assert index.is_asked.wait(60)
        assert watched.progress() == {
            "caught_up": False,
            "detail": "all records of the offsets topic read, groups that wait to be shown: 1",
        }
        assert watched.conditions()[""].state == "being_read"
        index.may_go_on.set()
        wait_until(lambda: watched.progress()["caught_up"])
        assert watched.progress()["detail"] == ""
        assert watched.conditions()[""].state == "watched"
        assert set(index.group_ids()) == {"a", "b"}
    finally:
        index.may_go_on.set()
        watched.stop()
