"""The scenarios: each file's commands put out what stands below them. `REWRITE=1` writes what they put out now."""

import os
from pathlib import Path

import pytest

from tests.scenarios.scenario import Scenario
from tests.scenarios.script import Command, duration_ms, duration_text, parse_command, run_script

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    text = path.read_text()
    actual = run_script(text, Scenario().run)
    if os.environ.get("REWRITE"):
        path.write_text(actual)
        text = actual
    assert actual.splitlines() == text.splitlines(), "REWRITE=1 writes what came out; look at what changed"


def test_command() -> None:
    command = parse_command('OffsetCommit A orders-0=17 metadata="two words" group.max.size=3 once')
    assert command == Command(
        "OffsetCommit", ("A", "orders-0=17", "once"), {"metadata": "two words", "group.max.size": "3"}
    )


def test_text_around_blocks_is_kept() -> None:
    text = "# What it is about.\n\none\ntwo\n----\nold\n\nMore words.\n\nthree\n----\n"
    assert run_script(text, lambda command: [command.name.upper()] * (command.name != "three")) == (
        "# What it is about.\n\none\ntwo\n----\nONE\nTWO\n\nMore words.\n\nthree\n----\nnothing\n"
    )


@pytest.mark.parametrize("text", ["0s", "1ms", "500ms", "3s", "1m30s", "2h", "7d1ms"])
def test_durations(text: str) -> None:
    assert duration_text(duration_ms(text)) == text


@pytest.mark.parametrize("text", ["", "3", "3 s", "s", "3s4", "1week"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        duration_ms(text)
