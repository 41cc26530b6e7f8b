"""docs/operations.md: each alert has a chapter."""

from __future__ import annotations

import re
from pathlib import Path

from tests.documents.headings import anchors

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"


def test_every_alert_names_a_chapter_of_the_runbook() -> None:
    headings = anchors(DOCUMENT)
    rules = (DOCUMENT.parents[1] / "deploy" / "prometheus" / "alerts.yml").read_text()
    chapters = re.findall(r"runbook: docs/operations\.md#(\S+)", rules)
    assert chapters
    assert set(chapters) <= headings
