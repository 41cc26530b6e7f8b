"""What the pages show, read from them; and what they should show, from rows of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page


def owners_shown(page: Page) -> dict[str, str]:
    """Partition (`topic-number`) -> the owner's name, of the table of owners at a moment."""
    cells = "rows => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    return {row[0]: row[1] for row in page.locator(".owners tbody tr").evaluate_all(cells)}


def owner_at(rows: Iterable[Mapping[str, Any]], partition: int, at_ms: int) -> str | None:
    """The member that owned a partition, by the rows of `ownership`."""
    return next(
        (
            row["member_id"]
            for row in rows
            if row["partition"] == partition
            and row["from_ms"] <= at_ms
            and (row["to_ms"] is None or at_ms < row["to_ms"])
        ),
        None,
    )
