"""The hash of the core: what changes an answer changes it, and words for people do not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from coordinator_state import GroupConfig
from coordinator_state.consumer.assignors import RangeAssignor, ServerAssignorLoadError
from streaming.core_hash import code_digest, core_hash, parsed_code
from tests.coordinator_state.consumer.assignors.registering import Register
from tests.streaming.operator_events import CONFIG

CODE = '''
"""A docstring."""
LIMIT = 5  # why
"""What it is."""


def handle(value: int) -> int:
    """Another one."""
    return value + LIMIT
'''


def test_comments_docstrings_and_layout_do_not_count() -> None:
    other = CODE.replace("A docstring", "Other words").replace("# why", "").replace("Another one", "One more")
    assert parsed_code(other + "\n\n# the end\n") == parsed_code(CODE)


@pytest.mark.parametrize(("before", "after"), [("+ LIMIT", "- LIMIT"), ("= 5", "= 6"), ("handle", "treat")])
def test_code_counts(before: str, after: str) -> None:
    assert parsed_code(CODE.replace(before, after)) != parsed_code(CODE)


@pytest.mark.parametrize(
    "change",
    [
        {"group": GroupConfig(group_initial_rebalance_delay_ms=1)},
        {"partition": 1},
        {"offsets_partitions": 51},
        {"output_max_bytes": 1_048_576 * 2},
    ],
)
def test_settings_count(change: dict[str, object]) -> None:
    assert core_hash(replace(CONFIG, **change)) != core_hash(CONFIG)


def test_assignors_of_other_packages_count_with_their_version(register: Register) -> None:
    class Theirs(RangeAssignor):
        name = "theirs"

    config = replace(CONFIG, group=GroupConfig(group_consumer_assignors="uniform,theirs"))
    with pytest.raises(ServerAssignorLoadError):
        core_hash(config)
    register("first", Theirs(), package="their-package", version="1.2")
    first = core_hash(config)
    assert core_hash(config) == first
    own = core_hash(CONFIG)
    register("first", Theirs(), package="their-package", version="1.3")
    assert core_hash(config) != first
    assert core_hash(CONFIG) == own


def test_what_decides_no_byte_does_not_count() -> None:
    assert core_hash(replace(CONFIG, group_buckets=8)) == core_hash(CONFIG)
    assert len(code_digest()) == 64
