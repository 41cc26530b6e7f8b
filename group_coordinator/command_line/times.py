"""Times on the command line: lengths (`90s`, `5m`, `1h30m`) and moments (`2026-11-21T14:00+01:00`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from group_coordinator.command_line.errors import WRONG_USE, CommandError

_UNITS_S = {"h": 3_600, "m": 60, "s": 1}
_FORM = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_duration_s(text: str) -> int:
    """Parse a duration into seconds. A bare number is seconds. Raises CommandError for any other text."""
    match = _FORM.fullmatch(f"{text}s" if text.isdecimal() else text)
    seconds = (
        sum(int(number or 0) * unit for number, unit in zip(match.groups(), _UNITS_S.values(), strict=True))
        if match
        else 0
    )
    if seconds == 0:
        raise CommandError(f"{text!r} is no duration; write for example 90s, 5m or 1h30m.", WRONG_USE)
    return seconds


def shown_zone(*, utc: bool) -> tzinfo:
    """Return the time zone in which times are shown: this machine's, unless UTC is wanted."""
    return UTC if utc else datetime.now().astimezone().tzinfo or UTC


def parse_moment_ms(option: str, text: str, *, is_of_today: bool = False) -> int:
    """Parse a date and time, local unless it names a zone, or milliseconds since 1970. Raises CommandError, which
    names the option.

    `is_of_today`: without a date it is the last moment at which clocks showed this time."""
    try:
        if text.isdigit():
            return int(text)
        moment = _last(time.fromisoformat(text)) if is_of_today and ":" in text[:3] else datetime.fromisoformat(text)
        return int(moment.timestamp() * 1_000)
    except ValueError:
        or_time = " or a time such as 14:00" if is_of_today else ""
        raise CommandError(
            f"{option} {text}: write a date and time such as 2026-11-21T14:00+01:00{or_time}.", WRONG_USE
        ) from None


def _last(at: time) -> datetime:
    now = datetime.now(at.tzinfo)
    moment = datetime.combine(now, at)
    return moment if moment <= now else moment - timedelta(days=1)
