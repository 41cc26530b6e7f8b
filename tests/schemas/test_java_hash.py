"""Java's string hash and order against vectors that Java itself confirmed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.java_hash import group_partition, java_string_hash, java_string_order

VECTORS: list[dict[str, Any]] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "fixtures/vectors/hash_vectors.json.gz").read_bytes())
)["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: repr(vector["group_id"][:24]))
def test_vectors(vector: dict[str, Any]) -> None:
    group_id = vector["group_id"]
    assert java_string_hash(group_id) == vector["java_hash"]
    for partition_count in (50, 3, 1):
        assert group_partition(group_id, partition_count) == vector[f"partition_{partition_count}"]


def test_the_smallest_hash_counts_as_zero() -> None:
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert group_partition("polygenelubricants", 7) == 0


@given(st.text(st.characters()), st.integers(min_value=1, max_value=1000))
def test_any_text_has_a_partition(group_id: str, partition_count: int) -> None:
    """Lone surrogates included: Java hashes them like any unit."""
    assert -(2**31) <= java_string_hash(group_id) < 2**31
    assert 0 <= group_partition(group_id, partition_count) < partition_count


@given(st.text(), st.text(max_size=1))
def test_the_hash_grows_by_the_rule_of_java(text: str, last: str) -> None:
    units = last.encode("utf-16-be")
    expected = java_string_hash(text)
    for index in range(0, len(units), 2):
        expected = 31 * expected + int.from_bytes(units[index : index + 2], "big")
    assert (java_string_hash(text + last) - expected) % 2**32 == 0


def test_order_is_by_utf16_unit() -> None:
    """U+1F600 starts with the surrogate U+D83D, so Java sorts it before U+FFE6; Python does not."""
    names = ["\uffe6-m", "\U0001f600-m", "a", "Z", ""]
    assert sorted(names, key=java_string_order) == ["", "Z", "a", "\U0001f600-m", "\uffe6-m"]
