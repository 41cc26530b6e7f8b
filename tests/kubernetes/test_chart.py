"""The Helm chart: it lints, what it renders is valid, and our commands take the settings that it gives them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from group_coordinator.command_line.options import load_as
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.ground.settings.loading import ConfigError, LoadedSettings
from group_coordinator.watching.commands.watch_settings import WatchSettings
from streaming.config import StreamingConfig

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "group-coordinator"
KUBERNETES = "1.33.0"
JAAS = """org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="it's";"""
WATCH = ("kafka.bootstrapServers=kafka:9092", "watch.token.value=secret")
ALL = (*WATCH, "coordinator.enabled=true", "coordinator.shards=2", "gateway.enabled=true",
       "metrics.serviceMonitor.enabled=true", "kafka.caSecret=ca", "coordinator.settings.group_max_size=50",
       r"kafka.properties.security\.protocol=SASL_SSL", r"kafka.properties.sasl\.mechanism=SCRAM-SHA-512",
       rf"kafka.properties.sasl\.jaas\.config={JAAS}")  # fmt: skip
ELSEWHERE = ("kafka.bootstrapServers=kafka:9092", "kafka.existingSecret=logins", "watch.token.existingSecret=tokens")
SETTINGS: dict[str, type[LoadedSettings]] = {
    "watch": WatchSettings, "run": StreamingConfig, "responder": StreamingConfig, "gateway": GatewaySettings,
}  # fmt: skip


def helm(*arguments: str | Path, values: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    program = shutil.which("helm")
    if program is None:
        pytest.skip("there is no helm")
    sets = [part for value in values for part in ("--set", value)]
    return subprocess.run([program, *map(str, arguments), *sets], capture_output=True, text=True)


def rendered(*values: str) -> list[dict[str, Any]]:
    done = helm("template", "kafka-groups", CHART, "--kube-version", KUBERNETES, values=values)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def containers(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for document in documents:
        if document["kind"] in ("Deployment", "StatefulSet"):
            yield from document["spec"]["template"]["spec"]["containers"]


@pytest.mark.parametrize("values", [WATCH, ALL, ELSEWHERE], ids=["watch", "all", "elsewhere"])
def test_it_is_valid(values: tuple[str, ...]) -> None:
    done = helm("lint", "--strict", CHART, "--kube-version", KUBERNETES, values=values)
    assert done.returncode == 0, done.stdout
    documents = rendered(*values)
    names = [(document["kind"], document["metadata"]["name"]) for document in documents]
    assert len(set(names)) == len(names)
    kinds = {document["kind"] for document in documents}
    assert {"Deployment", "Service", "PersistentVolumeClaim"} <= kinds


@pytest.mark.parametrize("values", [WATCH, ALL, ELSEWHERE], ids=["watch", "all", "elsewhere"])
def test_kubernetes_takes_it(values: tuple[str, ...]) -> None:
    """By its own schemas; that of a ServiceMonitor is not among them."""
    schemas = pytest.importorskip("kubernetes_validate")
    version = KUBERNETES.removesuffix(".0")
    documents = [document for document in rendered(*values) if document["kind"] != "ServiceMonitor"]
    for document in documents:
        schemas.validate(document, version, strict=True)
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    wrong = {**deployment, "spec": {**deployment["spec"], "replica": 1}}
    with pytest.raises(schemas.ValidationError, match="replica"):
        schemas.validate(wrong, version, strict=True)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("watch.token.value=x",), "bootstrapServers"),
        (("kafka.bootstrapServers=kafka", "watch.token.value=x"), "bootstrapServers"),
        ((*WATCH, "watch.enable=false"), "enable"),
        ((*WATCH, "coordinator.shards=0"), "shards"),
        (("kafka.bootstrapServers=kafka:9092",), "watch.token needs a value or an existingSecret"),
    ],
)
def test_mistakes_are_refused(values: tuple[str, ...], said: str) -> None:
    done = helm("template", CHART, "--kube-version", KUBERNETES, values=values)
    assert done.returncode != 0
    assert said in done.stderr


def test_commands_take_what_it_gives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The settings of each container: by variables, and by the file of its Secret. A mistake in either is an error."""
    documents = rendered(*ALL)
    (kafka,) = [each for each in documents if each["metadata"]["name"] == "kafka-groups-kafka"]
    file = tmp_path / "kafka.toml"
    file.write_text(kafka["stringData"]["kafka.toml"])
    commands = []
    for container in containers(documents):
        with monkeypatch.context() as patch:
            for variable in container["env"]:
                patch.setenv(variable["name"], variable.get("value", "0"))
            config = load_as(SETTINGS[container["args"][0]], {}, file).config
            assert vars(config)["kafka"]["sasl.jaas.config"] == JAAS
            assert vars(config)["metrics_port"] in [port["containerPort"] for port in container["ports"]]
            patch.setenv("GROUP_COORDINATOR_NO_SETTING", "1")
            with pytest.raises(ConfigError, match="GROUP_COORDINATOR_NO_SETTING"):
                load_as(SETTINGS[container["args"][0]], {}, file)
        commands.append(container["args"][0])
    assert sorted(commands) == ["gateway", "responder", "run", "watch"]


def test_nobody_is_root_and_all_are_probed() -> None:
    documents = rendered(*ALL)
    for document in documents:
        if document["kind"] in ("Deployment", "StatefulSet"):
            assert document["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    for container in containers(documents):
        ports = {port["name"] for port in container["ports"]}
        probes = [container[name] for name in container if name.endswith("Probe")]
        assert {"livenessProbe", "startupProbe"} <= container.keys()
        for probe in probes:
            target = probe.get("httpGet") or probe["tcpSocket"]
            assert target["port"] in ports
            assert target.get("path", "/health/live") in ("/health/live", "/health/ready")
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_secrets_that_are_there_are_used() -> None:
    documents = rendered(*ELSEWHERE)
    assert not [document for document in documents if document["kind"] == "Secret"]
    (watch,) = containers(documents)
    (token,) = [each for each in watch["env"] if each["name"] == "GROUP_COORDINATOR_DASHBOARD_TOKEN"]
    assert token["valueFrom"]["secretKeyRef"] == {"name": "tokens", "key": "dashboard-token"}
