"""What is doubtful about a log: said above everything that is told of it, and kept beside what was made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from group_coordinator.command_line.errors import CommandError

HEADLINE = "What is told here may not be what happened:"
_SUFFIX = ".doubts.json"


def lines(doubts: Sequence[str]) -> Iterator[str]:
    """For the top of a page; nothing where nothing is doubtful."""
    if doubts:
        yield HEADLINE
        yield from (f"  - {doubt}" for doubt in doubts)
        yield ""


def keep(path: Path, doubts: Sequence[str]) -> None:
    """Beside a file of events: what is doubtful about the log that it was made of. An older note goes."""
    note = path.with_name(path.name + _SUFFIX)
    if doubts:
        note.write_bytes(msgspec.json.format(msgspec.json.encode(doubts)) + b"\n")
    else:
        note.unlink(missing_ok=True)


def kept(paths: Iterable[Path]) -> tuple[str, ...]:
    """What was kept beside files of events. Raises CommandError for a note that cannot be read."""
    found: list[str] = []
    for path in paths:
        note = path.with_name(path.name + _SUFFIX)
        try:
            found += msgspec.json.decode(note.read_bytes(), type=list[str])
        except FileNotFoundError:
            continue
        except msgspec.DecodeError as problem:
            raise CommandError(
                f"{note}, which tells what is doubtful about {path.name}, cannot be read: {problem}."
            ) from problem
    return tuple(dict.fromkeys(found))
