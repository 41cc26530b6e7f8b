"""One self-contained HTML file with the same pages over what a replay wrote: to attach to an incident."""

from __future__ import annotations

import base64
import gzip
import html
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from group_coordinator.watching.dashboard.documents import Documents, NotFound
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.page import report_page
from group_coordinator.watching.dashboard.sources import ReplaySource

REBALANCES_MAX = 1_000
"""So many rebalances of each group are told in full: the latest."""


def write_report(outputs: Path, path: Path, *, title: str | None = None) -> None:
    """Write the report of a replay's output directory. Raises SourceError, OSError."""
    index = Index()
    ReplaySource(outputs).start(index)
    path.write_text(report_of_index(index, title or str(outputs)), encoding="utf-8")


def report_of_index(index: Index, title: str, go_on: Callable[[], None] = lambda: None) -> str:
    """Return the report's HTML. Documents are compressed one by one: the browser unpacks those that are looked at.

    `go_on` is called for each document; what it raises ends the work.
    """
    documents = Documents(index)
    overview = documents.overview(title, is_report=True)
    parts = [_part("overview", overview), _part("groups", documents.groups())]
    parts.append(_part("readiness", documents.readiness()))
    for name, document in _of_groups(documents):
        go_on()
        parts.append(_part(name, document))
    parts.append(_part("events", documents.events()))
    parts.append(_part("dead-letters", documents.dead_letters()))
    return report_page("\n".join(parts))


def _of_groups(documents: Documents) -> Iterator[tuple[str, Any]]:
    timelines: dict[str, Any] = {}
    for group_id in documents.index.listed_ids():
        page = documents.group(group_id)
        timelines[group_id] = page["states"]
        yield _of_group("group", group_id), page
        stories = {}
        for row in page["rebalances"][-REBALANCES_MAX:]:
            try:
                stories[row.key] = documents.rebalance(group_id, row.key)
            except NotFound:
                continue
        yield _of_group("rebalances", group_id), stories
    yield "timelines", timelines


_SAFE = "!'()*-._~"
"""What JavaScript's `encodeURIComponent` leaves as it is, beside letters and digits."""


def _of_group(kind: str, group_id: str) -> str:
    """Encode as JavaScript's `encodeURIComponent` does (`static/data.js`): HTML would change a carriage return."""
    return f"{kind}/{quote(group_id, safe=_SAFE)}"


def _part(name: str, document: Any) -> str:
    compressed = gzip.compress(msgspec.json.encode(document), compresslevel=9, mtime=0)
    data = base64.b64encode(compressed).decode()
    return f'<script type="application/octet-stream" data-document="{html.escape(name)}">{data}</script>'
