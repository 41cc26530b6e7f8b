"""What a watcher keeps in a directory, so that it goes on after a restart where it was."""

from __future__ import annotations

import os
from pathlib import Path

from group_coordinator.observed.observer import Observer
from group_coordinator.observed.state import StateError, encode_state, restore_state

_NAME = "watch.state"
_UNFINISHED = ".unfinished"


class KeptState:
    """One file, which is replaced as a whole."""

    def __init__(self, directory: Path, cluster_id: str) -> None:
        """Raises OSError where the directory cannot be made."""
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / _NAME
        self._cluster_id = cluster_id

    def restore(self, observer: Observer) -> str | None:
        """Give an observer that knows nothing what was kept. Returns why it was not used; None: it was, or none is."""
        try:
            restore_state(observer, self._path.read_bytes(), self._cluster_id)
        except FileNotFoundError:
            return None
        except (OSError, StateError) as problem:
            return f"What was kept in {self._path} is not used: {problem}"
        return None

    def save(self, observer: Observer) -> None:
        """Keep all that the observer keeps. Raises OSError."""
        unfinished = self._path.with_name(_NAME + _UNFINISHED)
        with unfinished.open("wb") as file:
            file.write(encode_state(observer, self._cluster_id))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)
