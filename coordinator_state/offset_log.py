"""Tombstones in the offsets log.

Commits are written by `requests.offset_commit`, the records of a group by its kind.
"""

from __future__ import annotations

from coordinator_state.step import Step
from schemas.records import encode_offset_commit_key


def append_group_tombstones(step: Step) -> None:
    """Write a tombstone for each record of the group itself."""
    for key in step.require_group().body.tombstone_keys(step.group_id):
        step.append_record(key, None)


def append_offset_tombstone(step: Step, topic: str, partition: int) -> None:
    step.append_record(encode_offset_commit_key(step.group_id, topic, partition), None)
