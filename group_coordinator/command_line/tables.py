"""All commands print plain aligned columns (that pipes can cut), on consoles that do not wrap them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from rich.console import Console

from group_coordinator.ground.monitoring.printable import printable

_PLAIN_WIDTH = 100_000


def out() -> Console:
    """Return a console on standard output. Without a terminal it does not wrap lines."""
    return _console(stderr=False)


def err() -> Console:
    """Return a console on standard error, for progress and for errors."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr, highlight=False, markup=False, emoji=False, width=None if is_terminal else _PLAIN_WIDTH
    )


def print_line(text: str = "", *, error: bool = False) -> None:
    """Print a line at once, whatever is in it."""
    print(printable(text), file=sys.stderr if error else sys.stdout, flush=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print some lines."""
    for line in lines:
        print_line(line)


def print_json(document: object) -> None:
    """Print a document in one line."""
    print_line(msgspec.json.encode(document, enc_hook=str).decode())


def aligned(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield a table as lines: columns as wide as their widest cell, two spaces apart."""
    cells = [list(header), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
