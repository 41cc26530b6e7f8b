"""docs/operations.md: its list of metrics is made from the catalogue, each alert has a chapter."""

from __future__ import annotations

import os
import re
from pathlib import Path

from group_coordinator.coordinating.operations.gateway_metrics import GATEWAY_METRICS
from group_coordinator.ground.monitoring.metrics import METRICS
from tests.documents.headings import anchors

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
MARK = "<!-- generated: everything below is written by `make schemas` -->\n"


def generated() -> str:
    lines = [""]
    for metric in (*METRICS, *GATEWAY_METRICS):
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"- `{metric.name}` ({metric.kind}{' by ' if labels else ''}{labels}): {metric.meaning}")
    return "\n".join(lines) + "\n"


def test_the_list_is_that_of_the_metrics() -> None:
    text = DOCUMENT.read_text()
    written = text[: text.index(MARK) + len(MARK)]
    if os.environ.get("REWRITE"):
        DOCUMENT.write_text(written + generated())
    assert DOCUMENT.read_text() == written + generated(), "run `make schemas`"


def test_every_alert_names_a_chapter_of_the_runbook() -> None:
    headings = anchors(DOCUMENT)
    rules = (DOCUMENT.parents[1] / "deploy" / "prometheus" / "alerts.yml").read_text()
    chapters = re.findall(r"runbook: docs/operations\.md#(\S+)", rules)
    assert chapters
    assert set(chapters) <= headings
