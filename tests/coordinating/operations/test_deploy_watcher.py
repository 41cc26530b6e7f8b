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
MANIFEST = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "watcher.yaml").read_text()))
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


def test_the_manifest_fits_together(tmp_path: Path) -> None:
    secret, service, claim, workload = MANIFEST
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    options = parsed(container["args"])
    assert options["host"] == "0.0.0.0"
    file = tmp_path / "watch.toml"
    file.write_text(secret["stringData"]["watch.toml"])
    config = StreamingConfig.load({}, file)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert (ports["http"], ports["metrics"]) == (options["port"], config.metrics_port)
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted.keys() == {volume["name"] for volume in pod["volumes"]}
    assert Path(options["config_file"]).parent == Path(mounted["settings"])
    assert Path(options["state"]).is_relative_to(mounted["data"])
    assert {"persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}, "name": "data"} in pod["volumes"]
    (token,) = container["env"]
    assert token["name"] == "GROUP_COORDINATOR_DASHBOARD_TOKEN"
    assert token["valueFrom"]["secretKeyRef"]["key"] in secret["stringData"]
    assert workload["spec"]["replicas"] == 1
    assert workload["spec"]["strategy"] == {"type": "Recreate"}


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
        "Stalled", "LosingMessages", "EmptyWithLag", "Lagging", "WebhookLosesMessages",
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
def test_probes_ask_for_what_there_is(path: str) -> None:
    from group_coordinator.ground.monitoring import server

    assert path in Path(str(server.__file__)).read_text()
    probes = yaml.safe_dump(MANIFEST) + yaml.safe_dump(COMPOSE)
    assert path in probes
