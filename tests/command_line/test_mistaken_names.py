"""A name that is mistyped is told as one, at once, in our words."""

from __future__ import annotations

from pathlib import Path

import pytest

from group_coordinator.command_line.errors import CommandError
from group_coordinator.coordinating.commands.spark_jvm import java_cause
from group_coordinator.coordinating.operations.group_log import LINE_MAX_CHARACTERS, shortened
from group_coordinator.proving.commands import replay_source
from group_coordinator.proving.commands.replay_source import require_sources
from group_coordinator.watching.observed.offsets_log import Entry, OffsetsDump, UnknownRecord
from streaming.config import ConfigError, StreamingConfig

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def problem(names: list[str], *, in_process: bool = False) -> str:
    with pytest.raises(CommandError) as failure:
        require_sources(names, NOBODY, in_process=in_process)
    return str(failure.value)


def test_neither_a_file_nor_a_topic() -> None:
    told = problem(["missing"])
    assert told.startswith("There is no file missing")
    assert "127.0.0.1:1 does not answer" in told
    assert problem(["missing"], in_process=True).startswith("There is no file missing")


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    (tmp_path / "there.log").touch()
    assert problem([f"{tmp_path}/x.jsonl"]) == f"There is no file {tmp_path}/x.jsonl."
    assert f"a link to {tmp_path}/gone" in problem([f"{tmp_path}/link"])
    assert "a directory" in problem([str(tmp_path)])
    assert "one topic" in problem([f"{tmp_path}/there.log", "missing"])


def test_a_topic_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Admin:
        def __init__(self, _: object) -> None:
            self.topics = {"coordinator.events": None}

        def list_topics(self, timeout: float) -> Admin:
            return self

    monkeypatch.setattr(replay_source, "new_admin_client", Admin)
    monkeypatch.setattr(replay_source, "_listens", lambda _: True)
    require_sources(["coordinator.events"], NOBODY, in_process=False)
    assert "has none of this name" in problem(["coordinator.event"])


@pytest.mark.parametrize("prefix", ["../x", "a b", "", "x" * 300])
def test_a_prefix_of_no_topics(prefix: str) -> None:
    with pytest.raises(ConfigError) as failure:
        StreamingConfig(topic_prefix=prefix)
    assert "letters, digits" in str(failure.value)
    assert len(str(failure.value)) < 250


@pytest.mark.parametrize("prefix", ["coordinator", "a.b_c-D", "x" * 200])
def test_a_prefix_of_topics(prefix: str) -> None:
    assert StreamingConfig(topic_prefix=prefix).topics.events == f"{prefix}.events"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("schemas.records_file.RecordsFileError: line 1 is no record", "line 1 is no record"),
        ("java.lang.RuntimeException: corrupted file", "corrupted file"),
        ("java.io.FileNotFoundException: /x", "java.io.FileNotFoundException: /x"),
    ],
)
def test_names_of_classes_that_say_nothing_are_not_told(said: str, told: str) -> None:
    assert java_cause(ValueError(said), {}) == told


def test_records_of_many_unknown_types_are_one_sentence() -> None:
    dump = OffsetsDump[Entry]()
    for number in range(100, 2_000):
        dump.add(UnknownRecord(number))
    (told,) = dump.doubts()
    assert told.startswith("1,900 records are of types 100, 101, 102, 103, 104 and 1,895 others")


def test_a_line_of_the_log_is_bounded() -> None:
    assert len(shortened("x" * 40_000)) < LINE_MAX_CHARACTERS + 50
    assert shortened("x") == "x"
