"""Files that are read line by line, plain or gzip, whatever they are called."""

from __future__ import annotations

import errno
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from schemas.bounded_lines import ByteStream, bounded_lines

GZIP_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)
"""What comes of a gzip file that is damaged or breaks off."""
BUFFER_BYTES = 256 * 1024
_GZIP_MAGIC = b"\x1f\x8b"


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
