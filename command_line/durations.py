"""Lengths of time on the command line: `90s`, `5m`, `1h30m`."""

from __future__ import annotations

import re

from command_line.errors import WRONG_USE, CommandError

_UNITS_S = {"h": 3_600, "m": 60, "s": 1}
_FORM = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_duration_s(text: str) -> int:
    """Seconds. A bare number is seconds. Raises CommandError for anything else, and for nothing at all."""
    found = _FORM.fullmatch(f"{text}s" if text.isdecimal() else text)
    seconds = sum(int(number or 0) * unit for number, unit in zip(found.groups(), _UNITS_S.values(), strict=True)) if found else 0
    if seconds == 0:
        raise CommandError(f"{text!r} is no duration; write for example 90s, 5m or 1h30m.", WRONG_USE)
    return seconds
