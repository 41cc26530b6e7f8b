"""Committed offsets as of a moment, from history; and their CSV."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state import Output
from group_coordinator.coordinating.commands.committed_offsets import (
    CommittedOffsets,
    CsvError,
    OffsetsAsOf,
    from_csv,
    of_groups,
    to_csv,
)
from schemas.history import HistoryRecord
from tests.coordinator_state.harness import GroupHarness, LogRecord, of_type
from tests.offsets_log.stored_groups import replay_offsets_log

START_MS = 1_000_000


def history(outputs: list[Output]) -> list[Any]:
    return of_type(outputs, HistoryRecord)


def now_of(outputs: list[Output]) -> CommittedOffsets:
    stored = replay_offsets_log((output.key, output.value) for output in of_type(outputs, LogRecord))
    return {
        group_id: {place: value.offset for place, value in stored_group.offsets.items()}
        for group_id, stored_group in stored.items()
    }


def as_of(at_ms: int, records: list[Any], now: CommittedOffsets) -> CommittedOffsets:
    fold = OffsetsAsOf(at_ms)
    for record in records:
        fold.take(record)
    return fold.offsets(now)


def life() -> tuple[GroupHarness, list[tuple[int, CommittedOffsets]]]:
    """A group that commits, commits again, deletes, dies and lives again; after each step what is committed."""
    harness = GroupHarness()
    steps: list[tuple[int, CommittedOffsets]] = []

    def step(duration_ms: int = 1_000) -> None:
        steps.append(
            (harness.now_ms, {group_id: offsets for group_id, offsets in now_of(harness.outputs).items() if offsets})
        )
        harness.sleep(duration_ms)

    step()
    generation = harness.stable("m")
    step()
    harness.commit("m", generation, {("t", 0): 1, ("t", 1): 10})
    step()
    harness.commit("m", generation, {("t", 0): 5})
    harness.commit("m", generation, {("t", 0): 2, ("u", 0): 0})
    step()
    harness.leave("m")
    step(8 * 24 * 3_600_000)  # until the offsets have expired
    step()
    harness.commit(offsets={("t", 1): 77})
    step()
    return harness, steps


def test_every_moment_is_told() -> None:
    harness, steps = life()
    records, now = history(harness.outputs), now_of(harness.outputs)
    assert [offsets for _, offsets in steps][1:] == [
        {},
        {"g": {("t", 0): 1, ("t", 1): 10}},
        {"g": {("t", 0): 2, ("t", 1): 10, ("u", 0): 0}},
        {"g": {("t", 0): 2, ("t", 1): 10, ("u", 0): 0}},
        {},
        {"g": {("t", 1): 77}},
    ]
    for at_ms, offsets in steps:
        assert as_of(at_ms, records, now) == offsets


def test_a_history_whose_beginning_is_gone_still_tells_all_that_came_after() -> None:
    harness, steps = life()
    records, now = history(harness.outputs), now_of(harness.outputs)
    for at_ms, offsets in steps:
        later_records = [record for record in records if record.timestamp_ms > at_ms]
        assert as_of(at_ms, later_records, now) == offsets


def test_what_a_crash_wrote_again_changes_nothing() -> None:
    harness, steps = life()
    records, now = history(harness.outputs), now_of(harness.outputs)
    for at_ms, offsets in steps:
        for cut in range(len(records)):
            assert as_of(at_ms, records[: cut + 3] + records[cut:], now) == offsets


GROUP_IDS = (
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=12)
    .map(str.strip)
    .filter(bool)
)
PARTITIONS = st.tuples(st.from_regex(r"[a-zA-Z0-9._-]{1,10}", fullmatch=True), st.integers(0, 2**31 - 1))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), min_size=1, max_size=4)


@given(st.dictionaries(GROUP_IDS, OFFSETS, min_size=1, max_size=4))
def test_csv_goes_there_and_back(offsets: CommittedOffsets) -> None:
    assert from_csv(to_csv(offsets, with_group=True)) == offsets
    for group_id, offset in offsets.items():
        assert from_csv(to_csv({group_id: offset}, with_group=False), [group_id]) == {group_id: offset}
        assert from_csv(to_csv(offsets, with_group=True), [group_id]) == {group_id: offset}


@pytest.mark.parametrize(
    ("text", "groups", "said"),
    [
        ("t,0,5\n", (), "line 1 has three columns: name the one group"),
        ("t,0,5\n", ("a", "b"), "line 1 has three columns: name the one group"),
        ("g,t,0,5\n\ng,t\n", (), "line 3 has 2 columns"),
        ("g,t,zero,5\n", (), "line 1: the partition 'zero' is no number from 0"),
        ("g,t,0,-5\n", (), "line 1: the offset '-5' is no number from 0"),
        (f"g,t,0,{'9' * 5_000}\n", (), "line 1: the offset '9+' is no number"),
        ("g,t,0,9223372036854775808\n", (), "line 1: the offset '9223372036854775808' is no number"),
        ("g,t,0,5\ng,t,0,6\n", (), "line 2 names t-0 of group g a second time"),
        ("", (), "there are no offsets in it"),
        ("g,t,0,5\n", ("h",), "there are no offsets in it of h"),
        ('g,"t\n', (), "line 1 has 2 columns"),
    ],
)
def test_a_file_of_another_form_is_told_by_its_line(text: str, groups: tuple[str, ...], said: str) -> None:
    with pytest.raises(CsvError, match=said):
        from_csv(text, groups)


def test_groups_are_chosen() -> None:
    offsets = {"a": {("t", 0): 1}, "b": {("t", 0): 2}, "empty": {}}
    assert of_groups(offsets, ()) == {"a": {("t", 0): 1}, "b": {("t", 0): 2}}
    assert of_groups(offsets, ["b"]) == {"b": {("t", 0): 2}}
