"""What a replay notes beside its outputs about the log that it replayed."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from group_coordinator.watching.dashboard.watched import Watched

NOTE_FILE = "replay.json"
"""In a replay's output directory: what was replayed, and what is doubtful about it."""


class Note(Struct, frozen=True, kw_only=True):
    """What a replay notes beside its outputs."""

    doubts: tuple[str, ...] = ()
    """Why they may not be what happened."""
    watched: tuple[Watched, ...] = ()
    """From which sources they are known, where they are another coordinator's groups."""

    def write(self, directory: Path) -> None:
        """Raises OSError."""
        (directory / NOTE_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")


def note_of(directory: Path) -> Note:
    """Return what a replay noted about its log; a directory without such a note has no doubts."""
    try:
        return msgspec.json.decode((directory / NOTE_FILE).read_bytes(), type=Note)
    except FileNotFoundError:
        return Note()
    except (OSError, msgspec.DecodeError) as problem:
        doubt = f"{NOTE_FILE} cannot be read, so what was wrong with the log that was replayed is not known: {problem}"
        return Note(doubts=(doubt,))
