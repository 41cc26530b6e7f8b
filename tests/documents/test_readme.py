"""README.md and the documents: what they print can be typed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from group_coordinator.command_line.main import app
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from tests.command_line.calls import REQUEST_LOG
from tests.command_line.processes import command, wait_for

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TIMEOUT_S = 120.0


def blocks(text: str, language: str = "") -> list[str]:
    return [
        code for kind, code in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE) if kind == language
    ]


def commands(document: Path) -> list[str]:
    """Lines that call our command, without their comments; those that are continued are put together."""
    lines = [line for block in blocks(document.read_text().replace("\\\n", " ")) for line in block.splitlines()]
    return [line for line in lines if line.startswith("group-coordinator ") and " ..." not in line]


@pytest.mark.parametrize("line", [line for document in DOCUMENTS for line in commands(document)])
def test_a_command_that_is_printed_is_one(line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its words, flags and arguments; it is not run."""
    monkeypatch.chdir(tmp_path)
    command_found = typer.main.get_command(app)
    _, *words = shlex.split(line, comments=True)
    while isinstance(command_found, TyperGroup):
        name, *words = words
        command_found = command_found.commands[name]
    command_found.make_context(command_found.name, list(words))


@pytest.mark.end_to_end
def test_the_story_of_a_request_log_as_printed(tmp_path: Path, kafka_jars: Path) -> None:
    (block,) = (block for block in blocks(README) if "verify recording" in block)
    log = subprocess.run(["gunzip", "-c", str(REQUEST_LOG)], capture_output=True, check=True).stdout
    (tmp_path / "kafka-request.log").write_bytes(log.replace(b'"g1-0"', b'"payments"'))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e", "-c", block], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Group payments, rebalance to generation" in done.stdout
    assert (tmp_path / "events.jsonl.gz").exists()


def test_the_group_in_one_process_as_printed() -> None:
    """Both protocols, and what the coordinator has written of it."""
    _, snippet = blocks(README, "python")
    names: dict[str, Any] = {}
    exec(snippet, names)
    assert len(names["second"].owned) == 6
    group = names["group"]
    names["second"].close()
    group.run(1_000)
    assert not names["second"].is_alive
    assert [type(output).__name__ for output in group.outputs].count("MemberExpired") == 1
    assert group.coordinator.groups[group.group_id].body.state_name == "Empty"


@pytest.mark.end_to_end
def test_the_member_as_printed(tmp_path: Path, kafka_jars: Path) -> None:
    """Against a broker that makes no topics by itself, as that of docker-compose.yml."""
    snippet, _ = blocks(README, "python")
    with EmbeddedKafka() as kafka:
        options = ("--bootstrap-servers", kafka.bootstrap_servers, "--checkpoint", str(tmp_path / "checkpoint"))
        with command(tmp_path, "run", *options) as process:
            wait_for(process, tmp_path, "The coordinator runs")
            (tmp_path / "snippet.py").write_text(snippet.replace("localhost:9092", kafka.bootstrap_servers))
            program = subprocess.Popen(
                [sys.executable, tmp_path / "snippet.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            watchdog = threading.Timer(TIMEOUT_S, program.kill)
            watchdog.start()
            try:
                assert program.stdout is not None
                printed = [program.stdout.readline() for _ in range(9)]
            finally:
                program.kill()
                watchdog.cancel()
                _, error = program.communicate()
    assert sorted(line.split()[-1] for line in printed) == [f"b'{amount}'" for amount in range(9)], error
    assert {line.split()[0] for line in printed} == {"payments"}
    assert error == ""
