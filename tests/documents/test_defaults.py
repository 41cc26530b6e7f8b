"""Defaults that documents state are those of the settings: `member_max_protocols` (100), 25 s (`answer_timeout_ms`)."""

import re
from pathlib import Path

import pytest

from group_coordinator.coordinating.gateway.config import GatewaySettings
from streaming.config import StreamingConfig

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
SETTINGS = {**vars(GatewaySettings()), **vars(StreamingConfig())}
UNITS = {"": 1, " MiB": 1 << 20, " s": 1_000}
BEFORE = r"(?<![\d-])([\d,]+)( MiB| s|) \(`(?:--)?([\w-]+)`\)"
BEHIND = r"`(?:--)?([\w-]+)` \(([\d,]+)( MiB| s|)[) :]"


def stated(text: str) -> set[tuple[str, int]]:
    """The settings that a text gives a default, with its value."""
    text = " ".join(text.split())
    matches = [(name, number, unit) for number, unit, name in re.findall(BEFORE, text)]
    matches += re.findall(BEHIND, text)
    values = [(name.replace("-", "_"), int(number.replace(",", "")) * UNITS[unit]) for name, number, unit in matches]
    return {(name, value) for name, value in values if name in SETTINGS}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_defaults_are_those_of_the_settings(document: Path) -> None:
    stated_values = stated(document.read_text())
    assert stated_values == {(name, SETTINGS[name]) for name, _ in stated_values}


def test_defaults_are_found() -> None:
    names = {name for document in DOCUMENTS for name, _ in stated(document.read_text())}
    assert {"group_max_bytes", "connections_max", "answer_timeout_ms", "metrics_groups"} <= names
