"""Commits of groups that lie on disk: they wait until the group comes back, which takes as long as hundreds of commits.

A group that comes back is decoded and followed anew. Where many groups that commit find no room in memory, each commit
would bring one back and put another one there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from group_coordinator.ground.system.disk_store import DiskStore
from group_coordinator.watching.observed.offsets_log import CommitRecord

LATER_MAX = 500
"""A group with so many comes back."""
_COMMIT_BYTES = 550
_MEMORY_SHARE = 32
"""Of the memory for groups, one part in so many is for those that are not written yet."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[CommitRecord]).decode


class LaterCommits:
    """By group, in the order in which they came. Methods raise OSError where the disk fails."""

    def __init__(self, memory_bytes: int) -> None:
        self._recent: dict[str, list[CommitRecord]] = {}
        self._recent_max = memory_bytes // _MEMORY_SHARE // _COMMIT_BYTES
        self._recent_count = 0
        self._disk = DiskStore()
        """The earlier ones, as encoded lists that follow each other, each with its length."""
        self._counts: dict[str, int] = {}
        """How many each group has, the one that has waited longest first."""

    def add(self, commit: CommitRecord) -> int:
        """Take a commit; return how many the group has."""
        group_id = commit.key.group_id
        self._recent.setdefault(group_id, []).append(commit)
        self._recent_count += 1
        count = self._counts[group_id] = self._counts.get(group_id, 0) + 1
        if self._recent_count > self._recent_max:
            self._write()
        return count

    def __len__(self) -> int:
        """Return how many groups have some."""
        return len(self._counts)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._counts

    def get(self, group_id: str, *, take: bool) -> Sequence[CommitRecord]:
        """Return the commits of a group. `take`: it has none from now on."""
        if group_id not in self._counts:
            return ()
        data = self._disk.take(group_id) if take else self._disk.get(group_id)
        commits = _joined(data or b"")
        recent = self._recent.pop(group_id, []) if take else self._recent.get(group_id, [])
        if take:
            del self._counts[group_id]
            self._recent_count -= len(recent)
        return [*commits, *recent]

    def longest_waiting(self, most: int) -> list[str]:
        """Return so many groups at most."""
        return list(islice(self._counts, most))

    def _write(self) -> None:
        for group_id in list(self._recent):
            data = _encode(self._recent[group_id])
            self._disk.append(group_id, len(data).to_bytes(4) + data)
            self._recent_count -= len(self._recent.pop(group_id))


def _joined(data: bytes) -> list[CommitRecord]:
    commits: list[CommitRecord] = []
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4])
        commits += _decode(data[at + 4 : at + 4 + length])
        at += 4 + length
    return commits
