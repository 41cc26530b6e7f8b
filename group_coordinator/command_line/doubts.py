"""The doubts about a log are printed above every report of it, and kept in a file beside its events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from group_coordinator.command_line.errors import CommandError

HEADLINE = "What is told here may not be what happened:"
_SUFFIX = ".doubts.json"


def lines(doubts: Sequence[str]) -> Iterator[str]:
    """Yield the doubts for the top of a page; nothing if there are none."""
    if doubts:
        yield HEADLINE
        yield from (f"  - {doubt}" for doubt in doubts)
        yield ""


def of_group(doubts: Iterable[str], group_id: str, other_groups: Iterable[str]) -> list[str]:
    """Return the doubts about one group, and those about all: not those that begin with the name of another one."""
    known = sorted([group_id, *other_groups], key=len, reverse=True)  # a name may begin with another one
    return [
        doubt
        for doubt in doubts
        if next((each for each in known if doubt.startswith(f"group {each}: ")), group_id) == group_id
    ]


def keep(path: Path, doubts: Sequence[str]) -> None:
    """Write the doubts about a log into a file beside its events, in place of an older one."""
    note = path.with_name(path.name + _SUFFIX)
    if doubts:
        note.write_bytes(msgspec.json.format(msgspec.json.encode(doubts)) + b"\n")
    else:
        note.unlink(missing_ok=True)


def kept(paths: Iterable[Path]) -> tuple[str, ...]:
    """Return the doubts kept beside files of events. Raises CommandError for a note that cannot be read."""
    sentences: list[str] = []
    for path in paths:
        note = path.with_name(path.name + _SUFFIX)
        try:
            sentences += msgspec.json.decode(note.read_bytes(), type=list[str])
        except FileNotFoundError:
            continue
        except msgspec.DecodeError as problem:
            raise CommandError(
                f"{note}, which tells what is doubtful about {path.name}, cannot be read: {problem}."
            ) from problem
    return tuple(dict.fromkeys(sentences))
