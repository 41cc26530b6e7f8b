"""`what-if` prints what happened beside what would have happened."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from group_coordinator.command_line.main import app

RECORDING = Path(__file__).parents[1] / "fixtures" / "recordings" / "deploy.request.log.gz"


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a replay of a broker's request log wrote."""
    directory = tmp_path_factory.mktemp("replayed")
    result = CliRunner().invoke(app, ["replay", str(RECORDING), "--in-process", "--out", str(directory)])
    assert result.exit_code == 0, result.output
    return directory


def ask(directory: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["what-if", "--from", str(directory), "--group", "deploy", *options])
    return result.exit_code, result.output


def row(output: str, title: str) -> list[str]:
    """The cells of a row: as it was, played again, as it would have been."""
    line = next(line for line in output.splitlines() if line.strip().startswith(title))
    return re.split(r"\s{2,}", line.strip())[1:]


def test_another_assignor(replayed: Path) -> None:
    code, output = ask(replayed, "--assignor", "cooperative-sticky")
    assert code == 0, output
    was, again, would = (int(cell.split()[0]) for cell in row(output, "partitions that moved"))
    assert was == again == 36
    assert would < was / 2
    assert row(output, "group protocol") == ["classic"] * 3
    assert "Each client is played by a member that does what Kafka's Java consumer does." in output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--session-timeout", "3"), "between 6 s and 1800 s"),
        (("--assignor", "mine"), "There is no assignor 'mine' here"),
        (("--assignor", "uniform"), "That one is the coordinator's, for consumer groups"),
        (("--assignment-interval", "1"), "An assignment interval is of consumer groups"),
        (("--group-protocol", "consumer", "--initial-delay", "1"), "An initial delay is of classic groups"),
        (("--group-protocol", "consumer", "--assignor", "sticky"), "That one is of members with the classic protocol"),
        (("--group-protocol", "consumer", "--session-timeout", "5"), "must be less than the session timeout (5 s)"),
        (("--heartbeat-interval", "20"), "must be less than the session timeout: one client's is 6 s"),
    ],
)
def test_what_makes_no_sense(replayed: Path, options: tuple[str, ...], words: str) -> None:
    code, output = ask(replayed, *options)
    assert code == 1
    assert words in output


def test_a_group_that_is_not_there(replayed: Path) -> None:
    result = CliRunner().invoke(app, ["what-if", "--from", str(replayed), "--group", "nobodys"])
    assert result.exit_code == 1
    assert "There is no group nobodys" in result.output


def test_a_directory_that_is_no_replay(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["what-if", "--from", str(tmp_path), "--group", "deploy"])
    assert result.exit_code == 2
    assert "not what a replay wrote" in result.output
