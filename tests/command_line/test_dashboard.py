"""The dashboard's commands: what a replay leaves for it, what `What if` plays, addresses."""

from __future__ import annotations

import json
import socket
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.main import app
from group_coordinator.coordinating.commands.dashboard_thread import host_and_port
from group_coordinator.proving.commands import what_if_player
from group_coordinator.watching.dashboard.change import Change
from group_coordinator.watching.dashboard.server import start_server
from group_coordinator.watching.dashboard.sources import ReplaySource
from group_coordinator.watching.tables.rows import TABLES
from schemas.history import RebalanceStarted, decode_history
from streaming.config import StreamingConfig
from tests.watching.dashboard.http import document

RECORDING = Path(__file__).parents[1] / "fixtures" / "recordings" / "crash.request.log.gz"


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a replay of a broker's request log wrote: outputs, tables, report."""
    directory = tmp_path_factory.mktemp("replayed")
    arguments = [
        "--in-process", "--out", "out", "--tables", "tables", "--tables-format", "parquet", "--report", "report.html",
    ]  # fmt: skip
    arguments = [
        argument if argument.startswith("-") or argument == "parquet" else str(directory / argument)
        for argument in arguments
    ]
    result = CliRunner().invoke(app, ["replay", str(RECORDING), *arguments])
    assert result.exit_code == 0, result.output
    assert f"group-coordinator dashboard --from {directory / 'out'}" in result.output
    return directory


def test_a_replay_writes_the_tables(replayed: Path) -> None:
    assert {path.name for path in (replayed / "tables").iterdir()} == set(TABLES)
    rows = pq.read_table(replayed / "tables" / "rebalances").to_pylist()
    assert Counter(row["trigger"] for row in rows)["member_expired"] == 1
    assert (replayed / "report.html").stat().st_size > 100_000


def test_what_was_replayed_is_played_again(replayed: Path) -> None:
    play = what_if_player.of_directory(replayed / "out", StreamingConfig())
    assert play is not None
    triggers = Counter(
        record.trigger
        for record in map(decode_history, play("crash").play(Change(), 0))
        if isinstance(record, RebalanceStarted)
    )
    assert triggers == {"member_joined": 2, "member_expired": 1, "member_left": 3}
    with pytest.raises(ValueError, match="no request of group nobodys"):
        play("nobodys")


def test_the_dashboard_compares(replayed: Path) -> None:
    play = what_if_player.of_directory(replayed / "out", StreamingConfig())
    with start_server(ReplaySource(replayed / "out"), what_if=play) as server:
        assert document(server, "/api/v1/overview")["has_what_if"] is True
        comparison = document(server, "/api/v1/what-if?group=crash&session_timeout_ms=30000")
    assert comparison["before"]["rebalances"] == comparison["unchanged"]["rebalances"] == 6
    assert comparison["after"]["longest_ms"] > 2 * comparison["before"]["longest_ms"]
    assert comparison["page"]["lanes"]


def test_the_page_says_which_request_logs_it_is_from(replayed: Path) -> None:
    with start_server(ReplaySource(replayed / "out")) as server:
        (watched,) = document(server, "/api/v1/overview")["watched"]
        assert document(server, "/api/v1/group-over-time?group=crash")["no_what_if"] is None
    (source,) = watched["sources"]
    assert (source["kind"], source["name"]) == ("request_log", "request logs")
    assert source["detail"].startswith(f"{RECORDING.name}; ")
    assert source["last_ms"] is not None


def test_a_directory_that_does_not_say_what_was_replayed(replayed: Path, tmp_path: Path) -> None:
    assert what_if_player.of_directory(tmp_path, StreamingConfig()) is None
    noted = json.loads((replayed / "out" / "replay.json").read_text())
    (tmp_path / "replay.json").write_text(json.dumps(noted | {"files": ["/nowhere/events.jsonl"]}))
    play = what_if_player.of_directory(tmp_path, StreamingConfig())
    assert play is not None
    with pytest.raises(ValueError, match="cannot be read any more"):
        play("crash")


def test_a_directory_that_is_no_replay(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["dashboard", "--from", str(tmp_path), "--port", "0"])
    assert result.exit_code == 2
    assert "not what a replay wrote" in result.output


def test_a_port_that_is_taken(replayed: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = CliRunner().invoke(app, ["dashboard", "--from", str(replayed / "out"), "--port", str(port)])
    assert result.exit_code == 2
    assert f"port {port}: Address already in use" in result.output


def test_addresses() -> None:
    assert host_and_port("0.0.0.0:8450") == ("0.0.0.0", 8450)
    assert host_and_port("[::1]:1") == ("::1", 1)
    assert host_and_port(":0") == ("127.0.0.1", 0)
    for address in ("localhost", "1:x", "h:70000"):
        with pytest.raises(CommandError, match="is no address"):
            host_and_port(address)
