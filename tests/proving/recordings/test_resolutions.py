"""Which records tell how a group's regular expressions were resolved."""

from __future__ import annotations

import pytest

from group_coordinator.proving.recordings.expectations import Resolution
from group_coordinator.proving.recordings.group_facts import resolution_written_ms


@pytest.mark.parametrize(("began_ms", "written_ms"), [(1_000, 1_900), (1_900, None), (-9_000, None), (-8_000, 1_900)])
def test_a_busy_broker_may_begin_late_but_not_where_it_began_another(began_ms: int, written_ms: int | None) -> None:
    resolution = Resolution(began_ms=1_850, regex="(^a$)", topics=("a",), written_ms=1_900)
    assert resolution_written_ms(began_ms, [resolution]) == written_ms
