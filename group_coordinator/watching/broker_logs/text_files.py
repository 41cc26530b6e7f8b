"""Files that are read line by line, plain or gzip, whatever they are called."""

from __future__ import annotations

import errno
import gzip
import zlib
from collections.abc import Callable, Iterator
from glob import escape, glob
from pathlib import Path
from typing import IO, TypeVar

import msgspec
from msgspec import Struct, field

from schemas.bounded_lines import ByteStream, bounded_lines, too_long

GZIP_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)
"""What comes of a gzip file that is damaged or breaks off."""
BUFFER_BYTES = 256 * 1024
STANDARD_INPUT, INPUT_NAME = "-", "standard input"
"""How it is named in place of a file, and what is said of it."""
_GZIP_MAGIC = b"\x1f\x8b"
_BLANK = b" \t\r\n\xef\xbb\xbf"
"""At both ends of a line, a byte order mark included."""
_DAMAGE_SHOWN = 3
_DAMAGE_TEXT_MAX = 200

_Read = TypeVar("_Read")


class Damage(Struct):
    """The lines of a file that cannot be read. As text: the first of them, and how many more there are."""

    lines: int = 0
    shown: list[str] = field(default_factory=list)
    """The first lines, each with its number and what is wrong."""

    def note(self, number: int, problem: str) -> None:
        """Count a line."""
        self.lines += 1
        if len(self.shown) < _DAMAGE_SHOWN:
            self.shown.append(f"line {number}: {problem[:_DAMAGE_TEXT_MAX]}")

    def __str__(self) -> str:
        more = f"; and {self.lines - len(self.shown)} more" if self.lines > len(self.shown) else ""
        return "; ".join(self.shown) + more


def named_files(name: str) -> list[str]:
    """Return the files that a name or a pattern stands for, or a directory: all logs in it, at any depth."""
    if Path(name).is_file():
        return [name]
    pattern = f"{escape(name)}/**/*.log*" if Path(name).is_dir() else name
    return [path for path in sorted(glob(pattern, recursive=True)) if Path(path).is_file()]


def unpacked(raw: IO[bytes]) -> ByteStream:
    """Open a plain or gzip file as plain bytes. Raises OSError for a pipe: files are looked at before they are read."""
    if not raw.seekable():
        raise OSError(errno.ESPIPE, "a pipe cannot be read here; write it to a file first", str(raw.name))
    compressed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    raw.seek(0)
    return gzip.GzipFile(fileobj=raw) if compressed else raw


def lines_of(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Yield number and text of each line, and the length of a line that is too long: its text is then the beginning.

    Raises ValueError for a gzip file that is damaged, OSError for one that cannot be read.
    """
    number = 0
    with path.open("rb", BUFFER_BYTES) as raw:
        try:
            for number, (line, length) in enumerate(bounded_lines(unpacked(raw)), 1):
                yield number, line, length
        except GZIP_ERRORS as error:
            raise ValueError(f"{path}: the file breaks off after line {number}: {error}") from None


def read_lines(path: Path, read: Callable[[bytes], _Read], damage: Damage) -> Iterator[_Read]:
    """Yield what `read` makes of each line, and note the lines that it cannot read. Empty lines are skipped. Raises as
    `lines_of`."""
    for number, line, length in lines_of(path):
        text = line.strip(_BLANK)
        if length:
            damage.note(number, too_long(length))
        elif text:
            try:
                item = read(text)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:  # no UTF-8, base64 or record, too
                damage.note(number, str(error))
            else:
                yield item
