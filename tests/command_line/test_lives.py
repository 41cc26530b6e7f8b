"""`explain` of a group that died and came again: each of its lives can be asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line.calls import call, text_of
from tests.watching.observed.recorded import CLUSTERS


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lives") / "out"
    recording = CLUSTERS / "lifecycle-3.4"
    result = call(
        "replay", f"{recording}.offsets.jsonl.gz", "--broker-log", f"{recording}.server.log.gz", "--out", out
    )
    assert result.exit_code == 0, text_of(result)
    return out


def explained(replayed: Path, *arguments: str) -> str:
    return text_of(call("explain", "--group", "again", "--from", replayed, "--utc", *arguments))


def test_an_earlier_life_is_named_and_can_be_asked_for(replayed: Path) -> None:
    last = explained(replayed, "--generation", "1")
    assert "--life 1: " in last
    first = explained(replayed, "--generation", "1", "--life", "1")
    named = last.split("--life 1: ")[1].split(" ")[0]
    assert named in first
    assert first.splitlines()[0] != last.splitlines()[0]


def test_a_life_that_never_was(replayed: Path) -> None:
    assert "3 lives of 'again', not of 9" in explained(replayed, "--life", "9")
