"""The resolving of jars shows a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_LINE_INTERVAL_S = 10.0


class JarsProgress:
    """Reads Ivy's output line by line and shows how far it is: first each library is described, then downloaded."""

    def __init__(
        self,
        jars_expected: int,
        console: Console | None = None,
        *,
        what: str = "Spark's Kafka connector, Delta, Kafka",
    ) -> None:
        self._console = console or Console(stderr=True)
        self._jars_expected = jars_expected
        self._what = what
        self._found = 0
        self._downloaded = 0
        self._started = time.monotonic()
        self._line_due = self._started + _LINE_INTERVAL_S
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self._line_due = self._started + _LINE_INTERVAL_S
        self.say(
            f"Resolving {self._jars_expected} jars ({self._what}), once: about a minute and 70 MB."
        )
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._described = self._bar.add_task("described ", total=self._jars_expected)
            self._fetched = self._bar.add_task("downloaded", total=self._jars_expected)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None

    def follow(self, line: str) -> None:
        """Take one line of Ivy's output."""
        if re.match(r"\s+found \S+#\S+;\S+ in ", line):
            self._found += 1
        elif line.lstrip().startswith("[SUCCESSFUL"):
            self._downloaded += 1
        else:
            return
        if self._bar:
            self._bar.update(self._described, completed=self._found)
            self._bar.update(self._fetched, completed=self._downloaded)
        elif time.monotonic() >= self._line_due:
            self._line_due = time.monotonic() + _LINE_INTERVAL_S
            self.say(
                f"  {self._found} of {self._jars_expected} jars described, {self._downloaded} downloaded, "
                f"{self._elapsed_s()} s"
            )

    def finish(self, jars: int, size_bytes: int, directory: Path) -> None:
        """Print what was resolved, how long it took and where it lies."""
        self.say(f"Resolved {jars} jars ({size_bytes / 1e6:.0f} MB) in {self._elapsed_s()} s into {directory}")

    def say(self, text: str) -> None:
        """Print one plain line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _elapsed_s(self) -> int:
        return round(time.monotonic() - self._started)
