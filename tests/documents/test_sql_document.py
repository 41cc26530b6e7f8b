"""docs/sql.md names every table with its key: its reference is made from the types."""

import inspect
import os
from pathlib import Path

from group_coordinator.watching.tables.rows import TABLES

DOCUMENT = Path(__file__).parents[2] / "docs" / "sql.md"
MARK = "<!-- generated: everything below is written by `make schemas` -->\n"


def tables_reference() -> str:
    """Return Markdown with every table and its key. The columns' meanings are comments of the tables."""
    parts = []
    for table in TABLES.values():
        key = ", ".join(f"`{name}`" for name in table.key)
        table_text = inspect.cleandoc(table.row.__doc__ or "")
        parts.append(f"### `{table.name}`\n\n{table_text}\n\nKey: {key}. Day of `{table.day_of}`.\n")
    return "\n".join(parts)


def test_document_is_up_to_date() -> None:
    head, mark, _ = DOCUMENT.read_text().partition(MARK)
    assert mark, "the mark of the generated part is missing"
    text = head + mark + "\n" + tables_reference()
    if os.environ.get("REWRITE"):
        DOCUMENT.write_text(text)
    assert DOCUMENT.read_text() == text, "run `make schemas`, and look at what changed"
