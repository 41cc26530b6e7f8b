"""What is watched is written: often enough, never before it is whole, and in the end all of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from group_coordinator.command_line.replay_output import read_history_files
from group_coordinator.command_line.watch_outputs import open_outputs
from group_coordinator.dashboard.index import Index
from group_coordinator.dashboard.sources import Note, note_of
from group_coordinator.observed.evidence import BOUNDED
from group_coordinator.observed.observer import Observer
from group_coordinator.observed.state import encode_state, restore_state
from group_coordinator.tables.files import write_tables
from group_coordinator.watch.writing import GroupHistory, WrittenSource
from schemas.history import History
from tests.observed.pieces import add, mixed, pieces
from tests.waiting import wait_until
from tests.watch.recorded_source import Recorded
from tests.watch.written import TOPICS, outputs, rows

NAME = "three-brokers"


def written(source: Recorded, directory: Path, interval_s: float) -> WrittenSource:
    directory.mkdir(exist_ok=True)
    return WrittenSource(source, open_outputs(outputs(directory), TOPICS, NAME), interval_s)


@pytest.fixture(scope="module")
def whole() -> Sequence[History]:
    """Return the history of all that was recorded."""
    observer = Observer(bounds=BOUNDED)
    add(observer, mixed(NAME, Random(0)))
    return list(observer.whole())


def test_what_is_written_is_what_was_watched(tmp_path: Path, whole: Sequence[History]) -> None:
    source = Recorded(NAME)
    watched = written(source, tmp_path, 0.02)
    watched.start(Index())
    all_pieces = list(pieces(mixed(NAME, Random(1)), Random(1)))
    source.give(all_pieces[0])
    time.sleep(0.5)
    assert not (tmp_path / "tables" / "rebalances").exists()
    assert not (tmp_path / "out" / "history.jsonl").exists()
    source.is_whole = True
    wait_until(lambda: (tmp_path / "report.html").exists())
    for piece in all_pieces[1:]:
        source.give(piece)
    watched.stop()
    assert list(read_history_files(tmp_path / "out")) == whole
    write_tables(whole, tmp_path / "expected", "parquet")
    assert rows(tmp_path / "tables") == rows(tmp_path / "expected")
    assert "data-document" in (tmp_path / "report.html").read_text()
    assert note_of(tmp_path / "out") == Note()


def test_nothing_new_is_not_written(tmp_path: Path) -> None:
    source = Recorded(NAME)
    source.give(mixed(NAME, Random(2)))
    source.is_whole = True
    watched = written(source, tmp_path, 0.01)
    watched.start(Index())
    wait_until(lambda: (tmp_path / "report.html").exists())
    time.sleep(0.3)
    watched.stop()
    assert (tmp_path / "tables" / "_current").readlink().name == "00000000"


def test_killed_anywhere(tmp_path: Path, whole: Sequence[History]) -> None:
    """A watcher goes on from what was kept; what its predecessor left half written is in nobody's way."""
    random = Random(3)
    state = b""
    all_pieces = list(pieces(mixed(NAME, random), random))
    cuts = sorted(random.sample(range(len(all_pieces)), 5))
    for begin, end in zip([0, *cuts], [*cuts, len(all_pieces)], strict=True):
        source = Recorded(NAME)
        if state:
            restore_state(source.observer, BytesIO(state), NAME)
        for piece in all_pieces[begin:end]:
            source.give(piece)
        state = b"".join(encode_state(source.observer, NAME))
        source.is_whole = True
        killed = open_outputs(outputs(tmp_path), TOPICS, NAME)
        for output in killed[:2]:
            with pytest.raises(RuntimeError):
                output.write(_breaks_off(source.histories()), Index())
        watched = written(source, tmp_path, 60)
        watched.start(Index())
        watched.stop()
    assert list(read_history_files(tmp_path / "out")) == whole
    write_tables(whole, tmp_path / "expected", "parquet")
    assert rows(tmp_path / "tables") == rows(tmp_path / "expected")


def _breaks_off(histories: Iterator[GroupHistory]) -> Iterator[GroupHistory]:
    yield from (history for _, history in zip(range(2), histories, strict=False))
    raise RuntimeError


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    source, index = Recorded(NAME), Index()
    source.give(mixed(NAME, Random(4)))
    source.is_whole = True
    watched = written(source, tmp_path, 0.01)
    (tmp_path / "report.html").mkdir()
    watched.start(index)
    wait_until(lambda: index.doubts)
    index.doubt("outputs", ["outputs: it is not watched."])  # a cluster of that name
    assert any(doubt.startswith("What is watched is not written") for doubt in index.doubts)
    (tmp_path / "report.html").rmdir()
    wait_until(lambda: index.doubts == ("outputs: it is not watched.",))
    watched.stop()
