"""What `--json` prints is what is printed for people, and what the API answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from group_coordinator.watching.dashboard.server import start_server
from group_coordinator.watching.dashboard.sources import ReplaySource
from group_coordinator.watching.narrative import words
from tests.command_line.calls import FIXTURES, call, text_of
from tests.watching.dashboard.http import document

RECORDING = FIXTURES / "recordings" / "deploy.request.log.gz"


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("replayed")
    result = call("replay", RECORDING, "--in-process", "--out", directory)
    assert result.exit_code == 0, text_of(result)
    return directory


def printed(*arguments: str | Path) -> Any:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, text_of(result)
    (line,) = result.stdout.splitlines()
    return json.loads(line)


def test_explain(replayed: Path) -> None:
    told = printed("explain", "--from", replayed, "--group", "deploy")
    with start_server(ReplaySource(replayed)) as served:
        assert told == document(served, "/api/v1/rebalance?group=deploy")
    text = text_of(call("explain", "--from", replayed, "--group", "deploy", "--utc"))
    assert f"Why: {told['rebalance']['cause']}." in text
    first = printed("explain", "--from", replayed, "--group", "deploy", "--generation", "1")
    assert first["rebalance"]["generation"] == 1 != told["rebalance"]["generation"]


def test_owners_at_a_moment(replayed: Path) -> None:
    options = ("explain", "--from", replayed, "--group", "deploy")
    last = printed(*options)["rebalance"]
    moment = datetime.fromtimestamp(last["started_ms"] / 1_000 - 1, UTC).isoformat()
    told = printed(*options, "--at", moment)
    assert told["rebalance"] == printed(*options, "--generation", str(told["rebalance"]["generation"]))["rebalance"]
    (_, text) = text_of(call(*options, "--at", moment, "--utc")).split("Owners at ")
    assert told["owners"]
    for owner in told["owners"]:
        assert owner["member_id"] is None or owner["since_ms"] < last["started_ms"]
        assert (words.name(owner["member_id"]) if owner["member_id"] else "nobody") in text


def test_what_if(replayed: Path) -> None:
    options = ("--from", replayed, "--group", "deploy", "--assignor", "cooperative-sticky")
    told = printed("what-if", *options)
    (line,) = [line for line in text_of(call("what-if", *options)).splitlines() if "partitions that moved" in line]
    numbers = [int(word) for word in line.split() if word.isdigit()]
    assert numbers[:3] == [told[side]["moves"] for side in ("before", "unchanged", "after")]


def test_verify() -> None:
    told = printed("verify", "recording", RECORDING)
    summary = text_of(call("verify", "recording", RECORDING)).splitlines()[-1]
    requests = told["requests"]
    assert summary.startswith(f"{requests['total'] + sum(told['not_compared'].values())} requests,")
    assert f"{requests['differ']} differ" in summary
