"""The index: bounded, whatever comes; what is beyond the window is said, what is within is right."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from group_coordinator.ground.system.disk_store import DiskStore
from group_coordinator.watching.dashboard.documents import Documents, NotFound
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.ring import CHUNK_BYTES, RecordRing, values
from group_coordinator.watching.dashboard.settings import DashboardSettings
from group_coordinator.watching.tables.fold import GroupTables
from schemas.events import encode_json
from schemas.history import MemberJoined, OffsetsCommitted, decode_history
from simulation.world import START_MS
from tests.watching.dashboard import scene


def full() -> Documents:
    return Documents(scene.index_of_scene())


def bounded(**settings: int) -> Index:
    index = Index(DashboardSettings(**settings))  # type: ignore[arg-type]
    for value in scene.values():
        index.add(value)
    return index


def test_what_comes_twice_changes_nothing() -> None:
    index = scene.index_of_scene()
    before = msgspec.json.encode(index.rows(index.last_ms))
    for value in scene.values():
        assert not index.add(value)
    assert msgspec.json.encode(index.rows(index.last_ms)) == before


def test_what_cannot_be_read_is_counted_and_does_no_harm() -> None:
    index = Index()
    assert not index.add(b"{nonsense")
    assert index.unreadable == 1
    assert len(index) == 0


def test_the_list_says_what_the_groups_are() -> None:
    rows = {row.group_id: row for row in scene.index_of_scene().rows(scene.scene()[-1].timestamp_ms)}
    assert (rows["payments"].state, rows["payments"].members, rows["payments"].generation) == ("Stable", 3, 3)
    assert rows["payments"].last_rebalance_cause.startswith("payments-b")
    assert rows["nightly"].verdict == "empty"
    assert rows["clicks"].verdict == "flapping"
    assert rows["clicks"].member == "clicks-flapping@127.0.0.1"
    assert rows["nobodys"].state == "none"


def test_the_past_is_as_it_was() -> None:
    documents = full()
    before = {row.group_id: row for row in documents.past_groups(at_ms=scene.CRASH_MS - 1_000).groups}
    after = {row.group_id: row for row in documents.past_groups(at_ms=scene.CRASH_MS + 30_000).groups}
    assert (before["payments"].state, before["payments"].members, before["payments"].generation) == (
        "Stable",
        3,
        1,
    )
    assert (after["payments"].members, after["payments"].generation) == (2, 2)
    assert documents.past_groups(at_ms=START_MS - 1).groups == ()


def test_a_small_window_shows_the_same_end_of_the_story() -> None:
    large, small = full().group("clicks"), Documents(bounded(bytes_per_group_max=40_000)).group("clicks")
    assert small["window"]["dropped"] > 0
    assert small["window"]["dropped_commits"] > 0
    from_ms = small["window"]["from"]
    assert from_ms > large["window"]["from"]
    assert len(small["rebalances"]) < len(large["rebalances"])
    assert small["rebalances"][-3:] == large["rebalances"][-3:]
    for small_lane, large_lane in zip(small["lanes"], large["lanes"], strict=True):
        names = [small["members"][entry[0]]["id"] for entry in small_lane["owned"]]
        large_owned = [entry for entry in large_lane["owned"] if entry[2] is None or entry[2] >= from_ms]
        assert names == [large["members"][entry[0]]["id"] for entry in large_owned]
        assert [entry[1:3] for entry in small_lane["owned"]] == [entry[1:3] for entry in large_owned]
    small_offsets, large_offsets = ([each.committed_offset for each in page["offsets"]] for page in (small, large))
    assert small_offsets == large_offsets


def test_what_is_known_of_a_group_is_seldom_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as long as the group has members, and while it is written the process does nothing else."""
    pack, written = GroupTables.pack, []

    def noted(tables: GroupTables) -> tuple[bytes, bytes]:
        written.append(tables)
        return pack(tables)

    monkeypatch.setattr(GroupTables, "pack", noted)
    life = [record for value in scene.values() if (record := decode_history(value)).group_id == "payments"]
    first = next(record for record in life if isinstance(record, MemberJoined))
    index = Index()
    for seq in range(1, 8_001):
        index.add(encode_json(replace(first, seq=seq)))
    assert 0 < len(written) < 10


def test_memory_is_bounded_over_all_groups() -> None:
    index = bounded(memory_max_bytes=40_000)
    # Of each group the last few records stay, whatever the bound: less than a chunk of either kind.
    assert index.kept_bytes <= 40_000 + 2 * len(index) * CHUNK_BYTES < scene.index_of_scene().kept_bytes
    for row in index.rows(index.last_ms):
        page = Documents(index).group(row.group_id)
        assert page["group"].state == row.state


def test_the_feed_is_bounded_newest_first_and_goes_back_by_number() -> None:
    index = bounded(feed_max=100)
    items = list(index.feed())
    assert [item.number for item in items] == list(range(index.records, index.records - 100, -1))
    assert [item.number for item in index.feed(before=index.records - 50)] == list(
        range(index.records - 51, index.records - 100, -1)
    )
    assert [item.number for item in index.feed(after=index.records - 2)] == [index.records, index.records - 1]


def test_the_feed_is_bounded_in_bytes_too() -> None:
    """A record may have a hundred kilobytes: thousands of them would be far more than all else that is kept."""
    whole = list(bounded().feed())
    size = sum(item.size_bytes for item in whole)
    few = list(bounded(feed_max_bytes=size // 2).feed())
    assert few == whole[: len(few)]
    assert size // 3 < sum(item.size_bytes for item in few) <= size // 2
    (newest,) = bounded(feed_max_bytes=1).feed()
    assert newest == whole[0]


def test_only_changed_rows_are_told() -> None:
    index = scene.index_of_scene()
    changed = {row.group_id for row in index.take_changed(index.last_ms)}
    assert changed == {row.group_id for row in index.rows(index.last_ms)}
    assert index.take_changed(index.last_ms) == []
    # Time alone ends a storm.
    assert {row.group_id for row in index.take_changed(index.last_ms + 3_600_000)} >= {"clicks"}


def test_dead_letters_have_their_reason_and_place() -> None:
    index = Index(DashboardSettings(dead_letters_max=2))
    for number in range(3):
        headers = {
            "reason": "bad_body", "detail": "no members", "partition": "1", "offset": str(number), "timestamp_ms": "17",
        }  # fmt: skip
        index.add_dead_letter(b"g", b"\xff{", headers, 99)
    letters = Documents(index).dead_letters().dead_letters
    assert [letter.offset for letter in letters] == [2, 1]
    assert (letters[0].reason, letters[0].group_id, letters[0].timestamp_ms, letters[0].value) == (
        "bad_body",
        "g",
        17,
        "\ufffd{",
    )


def test_commits_do_not_push_out_a_groups_life() -> None:
    index = bounded(commits_per_group_max=10)
    page = Documents(index).group("audit")
    assert page["window"]["dropped"] == 0
    assert page["window"]["dropped_commits"] > 0
    assert (
        len([record for record in scene.scene() if isinstance(record, OffsetsCommitted) and record.group_id == "audit"])
        > 100
    )


def test_a_group_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="no group nowhere"):
        full().group("nowhere")
    with pytest.raises(NotFound, match="no rebalance 1-1"):
        full().rebalance("payments", "1-1")
    with pytest.raises(NotFound):
        full().rebalance("payments", "x")


def ring_steps() -> st.SearchStrategy[list[bytes]]:
    return st.lists(st.binary(max_size=3_000), max_size=60)


@given(ring_steps())
def test_a_ring_gives_back_what_it_got(each_value: list[bytes]) -> None:
    ring = RecordRing()
    for value in each_value:
        ring.add(value)
    assert list(values(ring.freeze())) == each_value
    assert (ring.count, ring.raw_bytes) == (len(each_value), sum(map(len, each_value)))
    dropped = list(_drop_all(ring))
    assert dropped + list(values(ring.freeze())) == each_value
    assert ring.kept_bytes == sum(map(len, ring.tail))


def _drop_all(ring: RecordRing) -> Iterator[bytes]:
    while ring.chunks:
        yield from ring.drop_oldest().records()


def test_a_group_can_be_replaced() -> None:
    """What is known of it is what was given last; the feed has nothing twice, and memory is given back."""
    index, once = Index(), scene.index_of_scene()
    records = [(decode_history(value), value) for value in scene.values()]
    group_ids = list(dict.fromkeys(record.group_id for record, _ in records))
    for _ in range(3):
        for group_id in group_ids:
            index.replace_group(group_id, [pair for pair in records if pair[0].group_id == group_id])
    assert index.rows(once.last_ms) == once.rows(once.last_ms)
    assert index.kept_bytes == once.kept_bytes
    assert index.records == len(list(index.feed())) == once.records


def test_chunks_of_replaced_groups_are_given_back() -> None:
    index = bounded(memory_max_bytes=4 * CHUNK_BYTES)
    records = [(decode_history(value), value) for value in scene.values()]
    group_id = records[0][0].group_id
    of_group = [pair for pair in records if pair[0].group_id == group_id]
    for _ in range(50):
        index.replace_group(group_id, of_group)
        assert index.kept_bytes <= 4 * CHUNK_BYTES + len(records) * CHUNK_BYTES
    index.replace_group(group_id, [])
    assert index.group_records(group_id) is not None


def test_the_list_waits_for_nobody_who_adds_records() -> None:
    index = scene.index_of_scene()
    documents = Documents(index)
    whole = msgspec.json.encode(documents.groups())
    with index.lock:
        assert msgspec.json.encode(documents.groups(max_wait_ms=0)) == whole
        assert documents.past_groups(at_ms=scene.CRASH_MS).groups
        assert documents.overview().groups == len(index)


def test_rows_that_are_late_come_with_the_next_ones() -> None:
    index = scene.index_of_scene()
    assert index.rows(index.last_ms, patience_s=0) == []
    told = index.take_changed(index.last_ms)
    assert sorted(told, key=lambda row: row.group_id) == index.rows(index.last_ms, patience_s=0) != []


def test_a_group_on_disk_is_not_in_the_list_until_it_is_asked_for() -> None:
    index = Index(DashboardSettings(groups_max_bytes=1), DiskStore())
    for value in scene.values():
        index.add(value)
    (row,) = index.rows(index.last_ms)
    other = next(group_id for group_id in index.group_ids() if group_id != row.group_id)
    assert Documents(index).group(other)["group"].group_id == other
    assert other in {row.group_id for row in index.rows(index.last_ms)}
    assert index.take_asked() == [other]
    assert index.take_asked() == []


def test_few_groups_go_to_disk_at_once() -> None:
    """Pages wait while they go."""
    (record,) = [one for one in scene.scene() if isinstance(one, OffsetsCommitted)][:1]
    index = Index(DashboardSettings(groups_max_bytes=2_000_000), DiskStore())
    at_once = [0]
    for number in range(1_000):
        before = index.listed
        one = replace(record, group_id=f"group-{number}", timestamp_ms=START_MS + number)
        index.add_record(one, encode_json(one))
        at_once.append(before + 1 - index.listed)
    assert len(index) == 1_000
    assert 150 < index.listed < 500
    assert 0 < max(at_once) < index.listed / 20
