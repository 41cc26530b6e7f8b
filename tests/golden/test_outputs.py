"""For each input that the tests have, the outputs are byte for byte those that were once committed.

`REWRITE=1` (with `-n 0`: one process writes the file) commits the present ones. With `GOLDEN_OUT=DIR` the records are
written to `DIR/INPUT/TOPIC.jsonl`: made in two checkouts, `diff -r` shows what differs.
"""

import json
import os
from pathlib import Path

import pytest

from tests.golden.outputs import FIXTURES, Lines, digests, inputs

FILE = FIXTURES / "golden" / "outputs.json"
INPUTS = inputs()


def committed() -> dict[str, dict[str, str]]:
    """The digests by input and topic."""
    digests_by_name: dict[str, dict[str, str]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return digests_by_name


@pytest.mark.parametrize("name", INPUTS)
def test_outputs_are_those_committed(name: str, tmp_path: Path) -> None:
    lines = INPUTS[name](tmp_path)
    actual = digests(lines)
    if os.environ.get("GOLDEN_OUT"):
        write_lines(Path(os.environ["GOLDEN_OUT"]) / name.replace(": ", "-").replace(" ", "-"), lines)
    if os.environ.get("REWRITE"):
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps(committed() | {name: actual}, indent=1, sort_keys=True) + "\n")
    expected = committed().get(name, {})
    differing = [topic for topic in sorted(expected | actual) if expected.get(topic) != actual.get(topic)]
    assert not differing, f"{name}: other records in {', '.join(differing)} (GOLDEN_OUT=DIR writes them into files)"


def test_no_input_is_left_over() -> None:
    if os.environ.get("REWRITE"):
        kept_digests = {name: topic_digests for name, topic_digests in committed().items() if name in INPUTS}
        FILE.write_text(json.dumps(kept_digests, indent=1, sort_keys=True) + "\n")
    assert set(committed()) == set(INPUTS)


def write_lines(directory: Path, lines: Lines) -> None:
    """One file for each topic."""
    directory.mkdir(parents=True, exist_ok=True)
    for topic, records in lines.items():
        (directory / f"{topic}.jsonl").write_bytes(b"".join(record + b"\n" for record in records))
