"""What is decoded of a published group has the names that it was written by."""

from __future__ import annotations

from schemas.history import GroupSnapshot
from schemas.light_snapshot import LightSnapshot


def test_each_field_is_one_of_the_whole_snapshot() -> None:
    assert set(LightSnapshot.__struct_fields__) <= set(GroupSnapshot.__struct_fields__)
