"""Moments on the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.times import parse_moment_ms

DAY_MS = 86_400_000


@pytest.mark.parametrize("ago", [timedelta(minutes=1), timedelta(hours=5), timedelta(hours=23), -timedelta(hours=1)])
@pytest.mark.parametrize("form", ["%H:%M", "%H:%M:%S", "%H:%MZ", "%H:%M:%S+00:00"])
def test_a_time_without_a_date_is_the_last_one(ago: timedelta, form: str) -> None:
    has_zone = form.endswith(("Z", "+00:00"))
    asked = (datetime.now(UTC) if has_zone else datetime.now()) - ago
    told_ms = parse_moment_ms("--at", asked.strftime(form), is_of_today=True)
    assert datetime.fromtimestamp(told_ms / 1_000, UTC if has_zone else None).strftime(form) == asked.strftime(form)
    now_ms = datetime.now(UTC).timestamp() * 1_000
    assert now_ms - DAY_MS - 60_000 <= told_ms <= now_ms


@pytest.mark.parametrize("text", ["2026-11-21T14:00+01:00", "1795266000000"])
@pytest.mark.parametrize("is_of_today", [True, False])
def test_a_moment_with_its_date(text: str, is_of_today: bool) -> None:
    assert parse_moment_ms("--at", text, is_of_today=is_of_today) == 1_795_266_000_000


@pytest.mark.parametrize(("text", "is_of_today"), [("14:00", False), ("24:61", True), ("noon", True), ("", True)])
def test_what_is_no_moment(text: str, is_of_today: bool) -> None:
    """In a recording from another day, a time without a date means nothing."""
    with pytest.raises(CommandError, match=r"--at .*write a date and time") as refused:
        parse_moment_ms("--at", text, is_of_today=is_of_today)
    assert ("14:00." in str(refused.value)) is is_of_today
