"""A watcher that stays on: what starts it names options, settings and ports that there are."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from group_coordinator.command_line.main import app
from group_coordinator.ground.monitoring.metrics import OF_A_WATCHER
from schemas.settings import settings_of
from streaming.config import StreamingConfig
from tests.coordinating.operations.promql import series

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "helm" / "group-coordinator" / "templates"
UNIT = ROOT / "deploy" / "systemd" / "group-coordinator-watch.service"
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["watcher"]


def parsed(words: list[str]) -> dict[str, Any]:
    """The parameters of `watch` with these words; it is not run."""
    assert words[0] == "watch"
    command: Any = typer.main.get_command(app)
    return dict(command.commands["watch"].make_context("watch", words[1:]).params)


def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(UNIT.read_text().replace("\\\n", " "))
    return parser


def test_the_unit_starts_a_watcher_again_and_keeps_its_state() -> None:
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).name == "group-coordinator"
    options = parsed(words)
    assert options["follow"] is True
    assert options["broker_log"] == ["/var/log/kafka/server.log*"]
    assert str(options["state"]) == "${STATE_DIRECTORY}"
    assert options["metrics_port"] == 9464
    assert service["StateDirectory"] == "group-coordinator-watch"
    assert service["Restart"] == "always"


def test_the_compose_service_keeps_its_state_and_publishes_on_this_machine_only() -> None:
    words = [re.sub(r"\$\{\w+:-([^}]*)}", r"\1", word) for word in COMPOSE["command"]]
    options = parsed(words)
    assert options["bootstrap_servers"] == "kafka:9092"
    assert any(volume.endswith(f":/{Path(options['state']).parts[1]}") for volume in COMPOSE["volumes"])
    assert all(port.startswith("127.0.0.1:") for port in COMPOSE["ports"])
    settings = {name.removeprefix("GROUP_COORDINATOR_").lower() for name in COMPOSE["environment"]}
    assert settings - {"dashboard_token"} <= settings_of(StreamingConfig).keys()
    assert COMPOSE["profiles"] == ["watch"]


def test_the_alerts_that_hold_for_watched_groups() -> None:
    names = {metric.name for metric in OF_A_WATCHER} | {"up"}
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
    holding = {
        rule["alert"] for rule in rules if {metric_series.name for metric_series in series(rule["expr"])} <= names
    }
    assert holding == {
        "CoordinatorDown", "CoordinatorMissing", "CoordinatorNotReady", "CoordinatorStalled", "ProgramPartEnded",
        "GroupStuck", "GroupHeldUp", "GroupHasNoTarget",
        "PendingOffsetsOld", "GroupRebalanceStorm",
        "SessionExpiries", "RefusalsRise", "OffsetsExpire",
        "Stalled", "LosingMessages", "EmptyWithLag", "Lagging", "WebhookLosesMessages", "OffsetsJumped", "Uneven",
        "Deploying",
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
def test_probes_ask_for_what_there_is(path: str) -> None:
    from group_coordinator.ground.monitoring import server

    assert path in Path(str(server.__file__)).read_text()
    probes = "".join(file.read_text() for file in CHART.iterdir()) + yaml.safe_dump(COMPOSE)
    assert path in probes
