"""Lines about clients that come and go fill no log, and those left out are counted there."""

from __future__ import annotations

import logging

import pytest

from group_coordinator.ground.monitoring.line_limit import LINES_PER_WINDOW, WINDOW_S, LineLimit


def test_a_storm_is_cut_short_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    limit = LineLimit(logging.getLogger("test"), logging.WARNING, "connections", lambda: now_s)
    assert sum(limit.may_write() for _ in range(5_000)) == LINES_PER_WINDOW
    assert caplog.messages == []
    now_s = WINDOW_S
    limit.write("connection of %s closed", "another")
    assert caplog.messages == ["4900 more lines about connections were left out", "connection of another closed"]
