"""Responders and gateways as processes of their own: what starts them names commands, settings and ports that there
are, and a responder has the settings and the checkpoint of its coordinator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from group_coordinator.command_line.main import app
from group_coordinator.coordinating.gateway.authorization import parse_rules
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.ground.settings import loading
from streaming.config import StreamingConfig
from streaming.core_hash import core_hash

ROOT = Path(__file__).parents[3]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
SPARK = {
    document["kind"]: document
    for document in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "spark-application.yaml").read_text())
}
ANSWERS = "answers:/answers"
"""The volume by which responder and gateway meet."""


def parsed(words: list[str]) -> dict[str, Any]:
    """The parameters of a command with these words; it is not run."""
    command: Any = typer.main.get_command(app)
    return dict(command.commands[words[0]].make_context(words[0], words[1:]).params)


def environment(service: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a service has in its environment, with the defaults of its variables."""
    variables = {
        name: re.sub(r"\$\{\w+:-([^}]*)}", r"\1", value) for name, value in SERVICES[service]["environment"].items()
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


def mounts(container: dict[str, Any]) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}


def test_the_compose_services_are_one_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = {}
    for service in ("coordinator", "responder"):
        parsed(SERVICES[service]["command"])
        with monkeypatch.context() as patch:
            environment(service, patch)
            configs[service] = StreamingConfig.load({})
    coordinator, responder = configs["coordinator"], configs["responder"]
    assert coordinator.responders
    assert core_hash(coordinator.operator_config()) == core_hash(responder.operator_config())
    assert coordinator.checkpoint == responder.checkpoint
    (volume,) = SERVICES["coordinator"]["volumes"]
    assert SERVICES["responder"]["volumes"] == [f"{volume}:ro", ANSWERS]
    assert responder.answers_directory == ANSWERS.split(":")[1]
    assert Path(coordinator.checkpoint).is_relative_to(volume.split(":")[1])


def test_the_compose_gateway_lets_clients_of_this_machine_in(monkeypatch: pytest.MonkeyPatch) -> None:
    service = SERVICES["gateway"]
    parsed(service["command"])
    environment("gateway", monkeypatch)
    config, _ = loading.load(GatewaySettings, {}, None)
    port = config.address.port
    node_id = int(SERVICES["kafka"]["environment"]["KAFKA_NODE_ID"])
    published = [re.sub(r"\$\{\w+:-([^}]*)}", r"\1", text) for text in service["ports"]]
    assert published == [f"127.0.0.1:{each}:{each}" for each in (port, port + 1 + node_id)]
    assert config.answers_directory == ANSWERS.split(":")[1]
    mount, answers = service["volumes"]
    assert answers == ANSWERS
    source, target, _ = mount.split(":")
    assert target == config.authorization_rules
    assert parse_rules((ROOT / source).read_text())
    assert f":{config.metrics_port}/health/ready" in " ".join(service["healthcheck"]["test"])


def test_the_spark_application_has_a_responder_for_each_shard(tmp_path: Path) -> None:
    application, workload, service = SPARK["SparkApplication"]["spec"], SPARK["StatefulSet"], SPARK["Service"]
    pod = workload["spec"]["template"]["spec"]
    (responder,) = pod["containers"]
    file = tmp_path / "coordinator.toml"
    file.write_text(SPARK["Secret"]["stringData"]["coordinator.toml"])
    config = StreamingConfig.load({}, file)
    assert config.responders
    assert workload["spec"]["replicas"] == config.shards
    assert parsed(responder["args"])["config_file"] == parsed(application["arguments"])["config_file"]
    (shard,) = responder["env"]
    assert shard["name"] == "GROUP_COORDINATOR_SHARD"
    assert "pod-index" in str(shard["valueFrom"]), "its pod's shard"
    # Another version of Python is another hash.
    assert responder["image"] == application["image"]
    assert responder["command"] == ["group-coordinator"]
    for role in ("driver", "executor"):
        paths = {secret["name"]: secret["path"] for secret in application[role]["secrets"]} | mounts(application[role])
        assert mounts(responder) == {"settings": paths.pop("group-coordinator"), **paths}
        assert application[role]["podSecurityContext"] == pod["securityContext"]
    assert application["volumes"] == [volume for volume in pod["volumes"] if volume["name"] == "checkpoint"]
    (claim,) = [volume["persistentVolumeClaim"]["claimName"] for volume in application["volumes"]]
    assert SPARK["PersistentVolumeClaim"]["metadata"]["name"] == claim
    assert SPARK["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert Path(config.checkpoint).is_relative_to(mounts(responder)["checkpoint"])
    assert mounts(responder).keys() == {volume["name"] for volume in pod["volumes"]}
    (port,) = responder["ports"]
    assert port["containerPort"] == config.metrics_port == application["driver"]["ports"][0]["containerPort"]
    assert service["spec"]["ports"] == [{"name": port["name"], "port": port["containerPort"]}]
    assert service["spec"]["selector"] == workload["spec"]["template"]["metadata"]["labels"]
    assert workload["spec"]["serviceName"] == service["metadata"]["name"]
    probes = {responder[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness")}
    assert probes == {"/health/live", "/health/ready"}


def test_a_command_of_the_spark_image_finds_pyspark_and_the_jars() -> None:
    """Spark's image has them where spark-submit looks."""
    lines = (ROOT / "deploy" / "kubernetes" / "Dockerfile").read_text().splitlines()
    variables = dict(line.removeprefix("ENV ").split("=", 1) for line in lines if line.startswith("ENV "))
    locked = re.search(r"^py4j==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked is not None
    assert variables["PYTHONPATH"].split(":") == [
        "/opt/spark/python", f"/opt/spark/python/lib/py4j-{locked[1]}-src.zip",
    ]  # fmt: skip
    assert variables["GROUP_COORDINATOR_CACHE"].startswith("/opt/group-coordinator/"), "every user finds them there"
