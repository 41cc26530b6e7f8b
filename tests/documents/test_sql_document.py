"""docs/sql.md names every table with its key: its reference is made from the types."""

import os
from pathlib import Path

from group_coordinator.watching.tables.columns import tables_reference

DOCUMENT = Path(__file__).parents[2] / "docs" / "sql.md"
MARK = "<!-- generated: everything below is written by `make schemas` -->\n"


def test_document_is_up_to_date() -> None:
    head, mark, _ = DOCUMENT.read_text().partition(MARK)
    assert mark, "the mark of the generated part is missing"
    text = head + mark + "\n" + tables_reference()
    if os.environ.get("REWRITE"):
        DOCUMENT.write_text(text)
    assert DOCUMENT.read_text() == text, "run `make schemas`, and look at what changed"
