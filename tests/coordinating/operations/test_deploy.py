"""What lies in `deploy/`: dashboards and alerts ask only for what there is, the other files have the right form."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml

from group_coordinator.coordinating.operations.gateway_metrics import GATEWAY_METRICS
from group_coordinator.coordinating.transactions.relays import RELAY_METRICS
from group_coordinator.ground.monitoring.metrics import METRICS, Metric
from group_coordinator.watching.dashboard.findings import FindingKind
from group_coordinator.watching.dashboard.verdicts import SEVERITY
from group_coordinator.watching.group_metrics.group_table import STATES
from schemas.history import MemberDropped, RebalanceCompleted
from schemas.settings import settings_of
from streaming.config import StreamingConfig
from tests.coordinating.operations.promql import RANGES, Series, series

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "group-coordinator.json").read_text())
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
OTHERS = {"up": frozenset[str](), "process_start_time_seconds": frozenset[str]()}
OF_PROMETHEUS = {"job", "instance"}


def exposed(metrics: tuple[Metric, ...] = (*METRICS, *GATEWAY_METRICS, *RELAY_METRICS)) -> dict[str, frozenset[str]]:
    """Every series that the endpoints have, with its labels."""
    labels_by_name = dict(OTHERS)
    for metric in metrics:
        labels = frozenset(metric.labels)
        if metric.kind == "histogram":
            labels_by_name |= {
                f"{metric.name}_bucket": labels | {"le"},
                f"{metric.name}_sum": labels,
                f"{metric.name}_count": labels,
            }
        else:
            labels_by_name[metric.name] = labels
    return labels_by_name


def rules() -> list[dict[str, Any]]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


def scrape_jobs() -> list[dict[str, Any]]:
    prometheus = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    jobs: list[dict[str, Any]] = prometheus["scrape_configs"]
    return jobs


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    for panel in panels():
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    yield from ((annotation["name"], annotation["expr"]) for annotation in DASHBOARD["annotations"]["list"])
    yield from ((rule["alert"], rule["expr"]) for rule in rules())


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_an_expression_asks_for_what_there_is(where: str, expression: str) -> None:
    exposed_labels = exposed()
    all_series = series(expression)
    assert all_series
    for one_series in all_series:
        assert one_series.name in exposed_labels, where
        assert one_series.labels <= exposed_labels[one_series.name] | OF_PROMETHEUS, where
        is_counter = one_series.name.endswith(("_total", "_bucket", "_sum", "_count"))
        assert one_series.ranged or one_series.is_new or not is_counter, f"{where}: a counter without rate"
    assert any(one_series.ranged for one_series in all_series) == any(f"{name}(" in expression for name in RANGES)


def test_what_is_measured_is_shown_or_alerted_on() -> None:
    asked = {one_series.name for _, expression in expressions() for one_series in series(expression)}
    names = exposed()
    unasked = {name for name in names if name not in asked and name.removesuffix("_count") + "_bucket" not in asked}
    assert {name for name in unasked if not name.endswith("_sum")} == {
        "group_coordinator_batch_id",  # to find a batch in Spark's own logs
        "group_coordinator_group_partition_lag_messages", "group_coordinator_group_partition_lag_seconds",  # a switch
        "group_coordinator_lag_series_left_out",  # to choose metrics_series_max by
        "group_coordinator_responder_ticks",  # a standby's: no trouble in itself
        "group_coordinator_relay_open_transactions",  # there are always some
        "group_coordinator_watched_clusters", "group_coordinator_watched_source_age_seconds",  # a watcher's own
    }  # fmt: skip


def test_the_check_finds_mistakes() -> None:
    assert series('sum by (le, api) (rate(x_bucket{api="Heartbeat"}[5m])) > 5') == [
        Series("x_bucket", frozenset({"api", "le"}), True)
    ]
    assert [selector.is_new for selector in series("x_total unless x_total offset 10m or y_total unless x_total")] == [
        True,
        True,
        False,
        False,
    ]
    for expression in ("sum(x", "x{a=1}", "rate(x[5 minutes])", "x }"):
        with pytest.raises(ValueError, match=r"not understood|no matcher|no duration|brackets"):
            series(expression)


def test_label_values_that_are_matched_exist() -> None:
    values: dict[str, set[str]] = {
        "state": set(STATES),
        "outcome": literals(RebalanceCompleted, "outcome") | {"delivered", "lost", "waiting"},
        "reason": {"left", "session_expired", "coordinator_stalled"} | literals(MemberDropped, "reason"),
        "change": {"committed", "expired", "deleted"},
        "phase": {"triggerExecution"},
        "error": {"NONE", "UNKNOWN_SERVER_ERROR"},
        "api": {"JoinGroup", "SyncGroup"},
        "verdict": set(SEVERITY),
        "finding": set(get_args(FindingKind)),
        "job": {job["job_name"] for job in scrape_jobs()},
    }
    matched = [match for _, text in expressions() for match in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]+)"', text)]
    for label, _, pattern in matched:
        if label != "instance":
            assert set(pattern.split("|")) <= values[label], (label, pattern)


def literals(kind: type, field: str) -> set[str]:
    return set(get_args(get_type_hints(kind)[field]))


def test_legends_and_annotations_use_labels_that_are_there() -> None:
    for panel in panels():
        for target in panel["targets"]:
            labels = {
                label for selector in series(target["expr"]) for label in selector.labels | exposed()[selector.name]
            }
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels, panel["title"]
    for rule in rules():
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert (
            used
            <= {label for selector in series(rule["expr"]) for label in selector.labels | exposed()[selector.name]}
            | OF_PROMETHEUS
        )


def test_alerts_have_what_prometheus_and_people_need() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description", "runbook"}


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    assert DASHBOARD["uid"]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    taken_cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert all(0 <= x < 24 for x, _ in cells), panel["title"]
        assert not cells & taken_cells, panel["title"]
        taken_cells |= cells
    assert all("${datasource}" in json.dumps(panel["datasource"]) for panel in panels())


def test_compose_mounts_what_there_is_and_prometheus_scrapes_the_endpoint() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for service in services.values():
        for volume in service.get("volumes", []):
            if volume.startswith("./"):
                assert (ROOT / volume.split(":")[0]).exists(), volume
    port = services["coordinator"]["environment"]["GROUP_COORDINATOR_METRICS_PORT"]
    jobs = {job["job_name"]: job for job in scrape_jobs()}
    targets = {name: job["static_configs"] for name, job in jobs.items()}
    assert targets == {
        "group-coordinator": [{"targets": [f"coordinator:{port}"]}],
        "group-coordinator-responder": [{"targets": [f"responder:{port}"]}],
        "group-coordinator-gateway": [{"targets": [f"gateway:{port}"]}],
    }
    for name in ("responder", "gateway"):
        assert services[name]["environment"]["GROUP_COORDINATOR_METRICS_PORT"] == port
    assert services["watcher"]["environment"]["GROUP_COORDINATOR_METRICS_PORT"] == port
    (discovery,) = jobs["group-coordinator"]["dns_sd_configs"]
    assert (discovery["names"], str(discovery["port"])) == (["watcher"], port)
    provisioning = DEPLOY / "grafana" / "provisioning"
    assert (
        yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"][0]["type"]
        == "prometheus"
    )
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "files.yml").read_text())["providers"]
    assert f"{provider['options']['path']}:ro" in " ".join(services["grafana"]["volumes"])


def test_settings_in_environments_are_settings() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    variables = [*services["coordinator"]["environment"], *services["responder"]["environment"]]
    names = {name.removeprefix("GROUP_COORDINATOR_").lower() for name in variables}
    assert names <= settings_of(StreamingConfig).keys()


def test_the_spark_application_runs_the_program_of_the_image() -> None:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / "spark-application.yaml").read_text())
    (application,) = [document for document in documents if document["kind"] == "SparkApplication"]
    program = application["spec"]["mainApplicationFile"].removeprefix("local:///opt/group-coordinator/")
    assert (DEPLOY / program).exists()
    assert f"cp source/deploy/{program} ." in (DEPLOY / "kubernetes" / "Dockerfile").read_text()
    assert f"!deploy/{program}" in (ROOT / ".dockerignore").read_text().splitlines()
    assert application["spec"]["dynamicAllocation"] == {"enabled": False}


def test_the_image_has_what_resolves_its_jars_before_all_else_is_copied(tmp_path: Path) -> None:
    before, resolving, _ = (ROOT / "Dockerfile").read_text().partition("RUN python -m group_coordinator.")
    for source, target in re.findall(r"^COPY (group_coordinator\S+) (\S+)$", before, re.MULTILINE):
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / target)
        else:
            (tmp_path / target).mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, tmp_path / target)
    command = [sys.executable, "-c", "import group_coordinator.coordinating.jars.__main__"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (bool(resolving), done.returncode) == (True, 0), done.stderr
