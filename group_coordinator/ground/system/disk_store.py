"""Values by name that lie on disk: what does not find room in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from threading import Lock

_CACHE_KIB = 8_192
"""So much of it SQLite keeps in memory."""
_NAMES_AT_ONCE = 1_000


class DiskStore:
    """A temporary SQLite database: its file has no name, and is gone with the process, however that ends.

    It lies where SQLite puts such files: in the directory that `SQLITE_TMPDIR` or `TMPDIR` names, else in `/var/tmp`.
    Safe for several threads. Methods raise OSError where the disk is full or cannot be written.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        for statement in (
            "PRAGMA journal_mode=OFF",
            "PRAGMA synchronous=OFF",
            f"PRAGMA cache_size=-{_CACHE_KIB}",
            "CREATE TABLE held (name BLOB PRIMARY KEY, mark INTEGER NOT NULL, value BLOB NOT NULL)",
            "CREATE INDEX marked ON held (mark, name) WHERE mark > 0",
        ):
            self._database.execute(statement)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: str) -> bool:
        return bool(self._count and self._select("SELECT 1 FROM held WHERE name = ?", (_key(name),)))

    def put(self, name: str, value: bytes, mark: int = 0) -> None:
        """Keep a value of a name that has none. `mark`: a number by which it can be found; 0: none."""
        with self._lock, _Explaining():
            self._database.execute("INSERT INTO held VALUES (?, ?, ?)", (_key(name), mark, value))
            self._count += 1

    def append(self, name: str, value: bytes) -> None:
        """Put more behind the value of a name, which may have none."""
        with self._lock, _Explaining():
            longer = "UPDATE held SET value = CAST(value || ? AS BLOB) WHERE name = ?"
            cursor = self._database.execute(longer, (value, _key(name)))
            if not cursor.rowcount:
                self._database.execute("INSERT INTO held VALUES (?, 0, ?)", (_key(name), value))
                self._count += 1

    def get(self, name: str) -> bytes | None:
        """Return the value of a name; None: it has none."""
        found = self._select("SELECT value FROM held WHERE name = ?", (_key(name),)) if self._count else []
        return found[0][0] if found else None

    def take(self, name: str) -> bytes | None:
        """Return the value of a name, which has none from now on."""
        value = self.get(name)
        if value is not None:
            with self._lock, _Explaining():
                self._database.execute("DELETE FROM held WHERE name = ?", (_key(name),))
                self._count -= 1
        return value

    def names(self) -> Iterator[str]:
        """Yield all names, in order. What is added or taken meanwhile may be among them or not."""
        return self._pages("SELECT name FROM held WHERE name > ? ORDER BY name LIMIT ?")

    def marked(self, marks: Iterable[int]) -> Iterator[str]:
        """Yield the names with one of these marks, in the order of marks and names."""
        for mark in marks:
            yield from self._pages(
                f"SELECT name FROM held WHERE mark = {mark:d} AND mark > 0 AND name > ? ORDER BY name LIMIT ?"
            )

    def close(self) -> None:
        """Forget all."""
        with self._lock:
            self._database.close()
            self._count = 0

    def _pages(self, query: str) -> Iterator[str]:
        last = b""
        while self._count:
            page = self._select(query, (last, _NAMES_AT_ONCE))
            if not page:
                return
            yield from (name[1:].decode("utf-8", "surrogatepass") for (name,) in page)
            last = page[-1][0]

    def _select(self, query: str, parameters: tuple[object, ...]) -> list[tuple[bytes, ...]]:
        with self._lock, _Explaining():
            return self._database.execute(query, parameters).fetchall()


class _Explaining:
    """SQLite's errors are those of the file that it writes."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        if isinstance(problem, sqlite3.Error):
            raise OSError(f"What does not find room in memory cannot be kept on disk: {problem}.") from problem


def _key(name: str) -> bytes:
    """Return the name as bytes in the order of names; the empty one, too, comes behind the beginning."""
    return b"." + name.encode("utf-8", "surrogatepass")
