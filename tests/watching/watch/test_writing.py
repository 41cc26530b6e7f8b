"""What is watched is written: often enough, never before it is whole, and in the end all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from group_coordinator.command_line.replay_output import read_history_files
from group_coordinator.watching.commands.readiness import judged
from group_coordinator.watching.commands.watch_outputs import open_outputs
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.notes import Note, note_of
from group_coordinator.watching.dashboard.readiness import BrokerSettings
from group_coordinator.watching.observed.evidence import BOUNDED
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.state import encode_state, restore_state
from group_coordinator.watching.tables.files import write_tables
from group_coordinator.watching.tables.readiness_row import Cost
from group_coordinator.watching.watch.writing import GroupHistory, WriteGivenUpError, WrittenSource
from schemas.history import History
from tests.waiting import wait_until
from tests.watching.observed.pieces import add, mixed, pieces
from tests.watching.watch.recorded_source import Recorded
from tests.watching.watch.written import TOPICS, outputs, rows

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
                output.write(_breaks_off(source.histories()), Index(), lambda: None)
        watched = written(source, tmp_path, 60)
        watched.start(Index())
        watched.stop()
    assert list(read_history_files(tmp_path / "out")) == whole
    write_tables(whole, tmp_path / "expected", "parquet")
    assert rows(tmp_path / "tables") == rows(tmp_path / "expected")


def test_the_table_of_readiness(tmp_path: Path) -> None:
    """It has what the command says of the same evidence; what rebalances cost is of the last week."""
    name = "migration-refused"
    source, index = Recorded(name), Index()
    source.give(mixed(name, Random(6)))
    source.is_whole = True
    watched = written(source, tmp_path, 60)
    watched.start(index)
    watched.stop()
    told = {each.group_id: each for each in judged(source.observer, BrokerSettings(), 0)}
    table = rows(tmp_path / "tables", ("readiness",))["readiness"]
    assert {row["group_id"]: row["verdict"] for row in table} == {name: each.verdict for name, each in told.items()}
    for row in table:
        each = told[row["group_id"]]
        assert (row["reasons"], row["assignor"], row["members"]) == ([*each.reasons], each.assignor, each.members)
        assert row["cost"].keys() == set(Cost.__struct_fields__)


def _breaks_off(histories: Iterator[GroupHistory]) -> Iterator[GroupHistory]:
    yield from (history for _, history in zip(range(2), histories, strict=False))
    raise RuntimeError


def test_a_write_that_takes_long_does_not_keep_the_end_waiting(tmp_path: Path) -> None:
    """What was written before stays whole; the write of the end is given up, in each output and in its midst."""
    source, pieces_of_it = Recorded(NAME), mixed(NAME, Random(5))
    source.give(pieces_of_it[: len(pieces_of_it) // 2])
    source.is_whole = True
    watched = WrittenSource(source, open_outputs(outputs(tmp_path), TOPICS, NAME), 60, end_s=-1.0)
    watched.start(Index())
    wait_until(lambda: (tmp_path / "report.html").exists())
    before = contents(tmp_path)
    source.give(pieces_of_it[len(pieces_of_it) // 2 :])
    watched.stop()
    assert contents(tmp_path) == before
    for output in open_outputs(outputs(tmp_path), TOPICS, NAME):
        with pytest.raises(WriteGivenUpError):
            output.write(gives_up(source.histories()), scene_index(source), give_up)
    assert contents(tmp_path) == before


def test_what_is_large_is_written_less_often(tmp_path: Path) -> None:
    """An output that says that it wrote a gigabyte is not written again after the interval."""
    source, written = Recorded(NAME), []

    class Large:
        def write(self, histories: Iterator[GroupHistory], index: Index, go_on: Callable[[], None]) -> int:
            written.append(len(list(histories)))
            return 1024**3 if len(written) > 1 else 0

    source.give(mixed(NAME, Random(6)))
    source.is_whole = True
    watched = WrittenSource(source, [Large()], 0.01)
    watched.start(Index())
    for number in (1, 2, 2):
        wait_until(lambda number=number: len(written) == number)  # type: ignore[misc]
        source.changes += 1
        time.sleep(0.2)
    assert len(written) == 2
    watched.stop()
    assert len(written) == 3


def contents(directory: Path) -> dict[str, bytes]:
    """Return the files that readers see."""
    tables = (directory / "tables").rglob("*.parquet")
    paths = [directory / "report.html", *(directory / "out").glob("*.jsonl"), *tables]
    return {str(path): path.read_bytes() for path in paths if ".unfinished" not in str(path)}


def give_up() -> None:
    raise WriteGivenUpError


def gives_up(histories: Iterator[GroupHistory]) -> Iterator[GroupHistory]:
    yield next(histories)
    give_up()


def scene_index(source: Recorded) -> Index:
    index = Index()
    source.start(index)
    return index


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
