"""Writes what was measured into docs/performance.md, between marks: tables or what was printed, with day and commit."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
SIZING_PAGE = PAGE.with_name("sizing.md")


def write_section(name: str, text: str, page: Path | None = None, run: str | None = None) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->` in docs/performance.md or another page. `run`:
    when it was measured; now by default. ValueError when the page has no such marks."""
    page = PAGE if page is None else page
    section = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    content = page.read_text()
    if not section.search(content):
        raise ValueError(f"{page.name} has no section <!-- {name} -->")
    new = f"{run or this_run()}\n\n{text.strip()}"
    page.write_text(section.sub(lambda match: f"{match[1]}\n{new}\n\n{match[2]}", content))


def this_run() -> str:
    """A sentence with the day and the commit."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    result = subprocess.run(command, cwd=PAGE.parent, capture_output=True, text=True, check=False)
    commit = f", commit {result.stdout.strip()}" if result.returncode == 0 else ""
    return f"Run of {datetime.now(UTC):%Y-%m-%d}{commit}."


class Printed:
    """The output of a benchmark, kept for the page."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __call__(self, line: str = "") -> None:
        print(line, flush=True)
        self._lines.append(line)

    def write_section(self, name: str, *, markdown: bool = False) -> None:
        text = "\n".join(self._lines).strip("\n")
        write_section(name, text if markdown else f"```\n{text}\n```")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A Markdown table; the first `words` columns are text, the others numbers."""
    rule = ["---" if column < words else "--:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))
