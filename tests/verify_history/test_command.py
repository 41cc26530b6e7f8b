"""The program that compares recorded histories."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.verify_history.__main__ import main

HISTORIES = Path(__file__).parents[1] / "fixtures" / "histories"


def test_it_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(HISTORIES / "leave.jsonl.gz")]) == 0
    assert re.fullmatch(r"\d+ histories, \d+ steps, 0 differences", capsys.readouterr().out.splitlines()[-1])


def test_it_finds_what_is_different(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with gzip.open(HISTORIES / "leave.jsonl.gz", "rt") as lines:
        history = json.loads(next(lines))
    step = next(step for step in history["steps"] if step.get("answers"))
    step["answers"][0]["at_ms"] += 1
    file = tmp_path / "doctored.jsonl"
    file.write_text(json.dumps(history) + "\n")
    assert main([str(file)]) == 1
    printed = capsys.readouterr().out
    assert re.fullmatch(r"1 histories, \d+ steps, 1 differences", printed.splitlines()[-1])
    assert "recorded:" in printed
    assert "here:" in printed


@pytest.mark.parametrize("content", [b"", b"\n\n", gzip.compress(b"")], ids=["empty", "blank", "gzip"])
def test_a_history_without_a_step_verifies_nothing(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(content)
    assert main([str(file)]) == 1
    assert "Nothing was verified" in capsys.readouterr().err


def test_what_is_no_history_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = tmp_path / "long.jsonl"
    long.write_bytes(b"{" + b" " * (17 * 1024 * 1024) + b"}\n")
    for file, told in (
        (long, "no line may have more than 16,777,216"),
        (Path(__file__), "not a recorded history"),
        (tmp_path / "nowhere.jsonl", "No such file or directory"),
    ):
        assert main([str(file)]) == 1
        assert told in capsys.readouterr().err
