"""Stories as text: what happens to which members, topics and brokers, in which second."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.clusters.versions import Version

STORY = Path(__file__).with_name("story.txt")
KINDS = Path(__file__).with_name("kinds.txt")
FAILOVER = Path(__file__).with_name("failover.txt")
OPERATIONS = Path(__file__).with_name("operations.txt")
_LATER_S = 3.0
"""By so much, at the most, a seed moves what happens to one group, one topic or one broker."""
_SINCE = re.compile(r"(\d+)\.(\d+)\+\s+")


class Step(NamedTuple):
    """One thing that happens."""

    at_s: float
    action: str
    names: tuple[str, ...]
    """Of members, topics or groups; of none where a broker is meant."""
    values: dict[str, str]


def steps(path: Path, version: Version, seed: int = 0) -> list[Step]:
    """Return what happens to a cluster of that version, by time. A seed other than 0 moves groups against each other,
    and chooses where a value has several."""
    return sorted((_varied(step, seed) for step in _read(path, version)), key=lambda step: step.at_s)


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


def _varied(step: Step, seed: int) -> Step:
    of = group_of(step.names[0]) if step.names else step.action
    values = {name: _chosen(value.split("|"), f"{seed} {of} {name}", seed) for name, value in step.values.items()}
    moved_s = Random(f"{seed} {of}").uniform(0, _LATER_S) if seed and step.names else 0.0
    return step._replace(at_s=step.at_s + moved_s, values=values)


def _chosen(values: list[str], of: str, seed: int) -> str:
    return Random(of).choice(values) if seed else values[0]


def group_of(client_id: str) -> str:
    """Return the group of a member, which its name begins with."""
    return client_id.rsplit("-", 1)[0]
