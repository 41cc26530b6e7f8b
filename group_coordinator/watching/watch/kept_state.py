"""What a watcher keeps in a directory, so that it goes on after a restart where it was."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.state import StateError, encode_state, restore_state

_NAME = "watch.state"
_UNFINISHED = ".unfinished"
_SAVE_S = 5.0
_SAVING_SHARE = 0.02
"""So much of the time may go into saving."""


class KeptState:
    """One file, which is replaced as a whole."""

    def __init__(self, directory: Path, cluster_id: str) -> None:
        """Raises OSError where the directory cannot be made."""
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / _NAME
        self._cluster_id = cluster_id
        self._changes = 0
        """How many had been read when it was saved."""
        self._due_at_s = time.monotonic() + _SAVE_S

    def restore(self, observer: Observer) -> str | None:
        """Give what was kept to an observer that knows nothing yet. Return why it was not used; None if it was used,
        or if nothing was kept."""
        try:
            with self._path.open("rb") as file:
                restore_state(observer, file, self._cluster_id)
        except FileNotFoundError:
            return None
        except (OSError, StateError) as problem:
            return f"What was kept in {self._path} is not used: {problem}"
        return None

    @property
    def is_due(self) -> bool:
        """Whether it is to be saved again."""
        return time.monotonic() >= self._due_at_s

    def save(self, observer: Observer, changes: int) -> None:
        """Keep all that the observer keeps. `changes`: how many it has read. Raises OSError."""
        begun_s = time.monotonic()
        try:
            if changes != self._changes:
                self._write(encode_state(observer, self._cluster_id))
                self._changes = changes
        finally:
            ended_s = time.monotonic()
            self._due_at_s = ended_s + max(_SAVE_S, (ended_s - begun_s) / _SAVING_SHARE)

    def _write(self, parts: Iterable[bytes]) -> None:
        unfinished = self._path.with_name(_NAME + _UNFINISHED)
        with unfinished.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)
