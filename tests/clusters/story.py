"""Stories as text: what happens to which members, topics and brokers, in which second."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.clusters.versions import Version

STORY = Path(__file__).with_name("story.txt")
KINDS = Path(__file__).with_name("kinds.txt")
FAILOVER = Path(__file__).with_name("failover.txt")
_SINCE = re.compile(r"(\d+)\.(\d+)\+\s+")


class Step(NamedTuple):
    """One thing that happens."""

    at_s: float
    action: str
    names: tuple[str, ...]
    """Of members, topics or groups; of none where a broker is meant."""
    values: dict[str, str]


def steps(path: Path, version: Version) -> list[Step]:
    """Return what happens to a cluster of that version, by time."""
    return sorted(_read(path, version), key=lambda step: step.at_s)


def _read(path: Path, version: Version) -> Iterator[Step]:
    for line in path.read_text(encoding="utf-8").splitlines():
        since = _SINCE.match(line)
        text = line[since.end() :] if since else line
        if not text.strip() or text.startswith("#"):
            continue
        if since and version.numbers < (int(since[1]), int(since[2])):
            continue
        at_s, action, *words = text.split()
        values = dict(word.split("=", 1) for word in words if "=" in word)
        names = tuple(name for word in words if "=" not in word for name in word.split(","))
        yield Step(float(at_s), action, names, values)
