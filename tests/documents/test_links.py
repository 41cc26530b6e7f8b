"""Links between documents, and from code to documents, lead to a file and to a heading of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.documents.headings import anchors

ROOT = Path(__file__).parents[2]
TOP_FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()}
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def is_there(target: str, folder: Path, document: Path) -> bool:
    path, _, fragment = target.partition("#")
    file = folder / path if path else document
    return file.exists() and (not fragment or fragment in anchors(file))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_of_a_document(document: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()) if "://" not in link]
    assert [link for link in links if not is_there(link, document.parent, document)] == []


def test_documents_that_code_names() -> None:
    """`docs/operations.md#sizing` in a Python file, an alert rule, the Makefile ..."""
    command = ["git", "ls-files", "*.py", "*.yml", "*.toml", "Makefile", "Dockerfile"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    names = {name for file in files for name in re.findall(r"\bdocs/[\w-]+\.md(?:#[\w-]+)?", file.read_text())}
    assert names
    assert [name for name in sorted(names) if not is_there(name, ROOT, ROOT)] == []


def test_pictures_are_shown() -> None:
    names = {name for document in DOCUMENTS for name in re.findall(r"images/([\w.-]+)", document.read_text())}
    assert {path.name for path in (ROOT / "docs" / "images").iterdir()} == names


def test_every_decision_has_a_number_of_its_own() -> None:
    headings = re.findall(r"^### (.*)$", (ROOT / "docs" / "decisions.md").read_text(), re.MULTILINE)
    numbers = [re.match(r"(\d+)\. \S", heading) for heading in headings]
    assert headings
    assert len({number[1] for number in numbers if number}) == len(headings)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_a_document_names(document: Path) -> None:
    """Paths in backticks: `streaming/parts.py`, `tests/coordinating/gateway`."""
    words = re.findall(r"`((?:\w+/)+[\w.-]*)`", document.read_text())
    paths = [word for word in words if word.split("/")[0] in TOP_FOLDERS]
    assert [word for word in paths if not (ROOT / word).exists()] == []
