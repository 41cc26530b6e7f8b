"""What `groups` shows as the lag of a group that brokers coordinate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from group_coordinator.watching.commands.brokers_groups import lag_shown


@pytest.mark.parametrize(
    ("lag", "last_commit_ms", "uncommitted", "shown"),
    [(7, 1, 0, 7), (7, 1, 2, 7), (0, None, 0, 0), (0, None, 2, "-"), (None, None, 0, "-"), (None, 1, 2, "-")],
)
def test_what_is_not_known_is_no_number(
    lag: int | None, last_commit_ms: int | None, uncommitted: int, shown: object
) -> None:
    row = SimpleNamespace(lag=lag, last_commit_ms=last_commit_ms, uncommitted_partitions=uncommitted)
    assert lag_shown(cast(Any, row)) == shown
