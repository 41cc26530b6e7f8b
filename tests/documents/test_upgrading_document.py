"""docs/upgrading.md lists every file that reaches into PySpark's private side."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "upgrading.md").read_text()
TUNINGS = "streaming/tuning"
"""Its own table lists these by their settings."""
PRIVATE = re.compile(r"\b(?!self)\w+\._(?:jvm|jsc|jsparkSession|jsq|jdf|accumulatorServer)\b|[sS]parkContext\._\w+")


def test_every_file_that_uses_private_names_of_pyspark_is_listed() -> None:
    files = [path for room in ("streaming", "group_coordinator") for path in (ROOT / room).rglob("*.py")]
    reaching = {path.relative_to(ROOT).as_posix() for path in files if PRIVATE.search(path.read_text())}
    assert reaching
    assert sorted(name for name in reaching if not name.startswith(TUNINGS) and f"`{name}`" not in TEXT) == []


def test_every_tuning_has_its_switch_in_the_table() -> None:
    settings = re.findall(r"^    (tuning_\w+): bool", (ROOT / "streaming" / "config.py").read_text(), re.MULTILINE)
    assert settings
    assert re.findall(r"^\| `(tuning_\w+)` \|", TEXT, re.MULTILINE) == settings
