"""What lies on disk comes back as it was, by any name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from group_coordinator.ground.system.disk_store import DiskStore

NAMES = ["", "a", "a\0b", "b/c", "\udcff", "é", "💩", "z" * 30_000]


def test_each_name_has_its_value() -> None:
    store = DiskStore()
    for number, name in enumerate(NAMES):
        store.put(name, b"%d" % number, number % 3)
    assert store.take("a") == b"1"
    store.put("a", b"another")
    assert len(store) == len(NAMES)
    assert list(store.names()) == sorted(NAMES)
    assert store.get("a") == b"another"
    assert store.get("none") is None
    assert list(store.marked([2, 1])) == [
        *sorted(name for number, name in enumerate(NAMES) if number % 3 == 2),
        *sorted(name for number, name in enumerate(NAMES) if number % 3 == 1 and name != "a"),
    ]
    assert [store.take(name) for name in NAMES] == [
        b"another" if name == "a" else b"%d" % number for number, name in enumerate(NAMES)
    ]
    assert (len(store), list(store.names()), store.take("a"), "a" in store) == (0, [], None, False)


def test_more_names_than_are_asked_for_at_once() -> None:
    store = DiskStore()
    names = [f"group-{number}" for number in range(2_500)]
    for name in names:
        store.put(name, b"", 1)
    assert list(store.names()) == list(store.marked([1])) == sorted(names)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """The limit of a process on the size of a file stands for a disk without room."""
    program = (
        "import resource, signal\n"
        "from group_coordinator.ground.system.disk_store import DiskStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "store = DiskStore()\n"
        "try:\n"
        "    for number in range(1_000):\n"
        "        store.put(str(number), bytes(100_000))\n"
        "except OSError as problem:\n"
        "    print(problem)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"TMPDIR": str(tmp_path)}
    )
    assert "cannot be kept on disk" in ended.stdout


def test_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    store = DiskStore()
    for number in range(200):
        store.put(str(number), bytes(100_000))
    assert list(tmp_path.iterdir()) == []
