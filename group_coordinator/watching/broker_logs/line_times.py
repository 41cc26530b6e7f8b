"""The time of a line of a log, in all the forms that loggers write: ISO 8601, log4j's own, milliseconds since 1970;
with a zone or without."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from msgspec import Struct

MILLISECOND_US, SECOND_US = 1_000, 1_000_000
TWICE_US = 60 * SECOND_US
"""Lines of one file do not go back by so much, but where the clock does."""

_NOON = 12
_BEHIND = (
    rb"(?: ?(?P<half>[AaPp])\.?[Mm]\b\.?)?"
    rb"(?: ?[(\[]?(?:(?P<zone>Z\b|(?:UTC|GMT)?[+-]\d\d(?::?\d\d)?(?![\d:])|(?:UTC|GMT)\b)"
    rb"|(?P<name>[A-Z]{1,4}T\b|MSK\b|WI[BT]\b|[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_]+)+"
    rb"|[A-Z][a-z]+(?: [A-Z][a-z]+){0,3} Time\b)))?"
)
"""What may stand behind a time: the half of the day, and a zone as an offset or by its name."""
_TIMESTAMP = re.compile(
    rb"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?" + _BEHIND
)
_DAY_FIRST = re.compile(
    rb"(?P<day>\d{1,2}) (?P<month>[A-Z][a-z]{2}) (?P<year>\d{4}) (?P<time>\d\d:\d\d:\d\d),(?P<fraction>\d{3})" + _BEHIND
)
_EPOCH_MS = re.compile(rb"(?<!\d)(1\d{12})(?!\d)")
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")


class LineError(ValueError):
    """A line that should be a completed request and cannot be read."""


class LineTime(Struct, frozen=True):
    """The time at which a line was written."""

    us: int
    """Since 1970."""
    resolution_us: int = MILLISECOND_US
    """How exact it is."""
    unknown_zone: str | None = None
    """The name of a zone that stands behind it and says nothing: it is read as if there were none."""


def line_time(prefix: bytes, time_zone: tzinfo, not_before_us: int = 0) -> LineTime:
    """Return the last time in what stands before the request: log collectors put theirs in front of the broker's.
    Raises `LineError`.

    `time_zone`: that of times that do not say theirs. `not_before_us`: of a time that comes twice, where summer time
    ends, the one that is meant does not go back behind this.
    """
    try:
        if iso := list(_TIMESTAMP.finditer(prefix)):
            return _read(iso[-1]["date"], iso[-1], time_zone, not_before_us)
        if match := _DAY_FIRST.search(prefix):
            date = b"%s-%02d-%02d" % (match["year"], _MONTHS.index(match["month"]) + 1, int(match["day"]))
            return _read(date, match, time_zone, not_before_us)
        if epoch := _EPOCH_MS.search(prefix):
            return LineTime(int(epoch[1]) * MILLISECOND_US)
    except (ValueError, OverflowError) as error:
        raise LineError(f"the time of the line cannot be read: {error}") from None
    raise LineError("the line does not begin with a date and a time")


def _read(date: bytes, match: re.Match[bytes], time_zone: tzinfo, not_before_us: int) -> LineTime:
    fraction = match["fraction"] or b""
    fraction_us = int((fraction + b"000000")[:6])
    resolution_us = MILLISECOND_US if len(fraction) >= len("123") else SECOND_US
    local_time = datetime.fromisoformat((date + b" " + match["time"]).decode())
    if match["half"]:
        local_time = _of_half(local_time, match["half"] in b"Pp")
    if match["zone"]:
        offset = match["zone"].decode().removeprefix("UTC").removeprefix("GMT") or "Z"
        us = _us(datetime.fromisoformat(f"{local_time.isoformat()}{offset}"), fraction_us)
        return LineTime(us, resolution_us)
    if match["name"]:
        name = match["name"].decode()
        zoned_time = _named(local_time, name, time_zone)
        if zoned_time is not None:
            return LineTime(_us(zoned_time, fraction_us), resolution_us)
        return LineTime(_local_us(local_time, fraction_us, time_zone, not_before_us), resolution_us, name)
    return LineTime(_local_us(local_time, fraction_us, time_zone, not_before_us), resolution_us)


def _of_half(local_time: datetime, afternoon: bool) -> datetime:
    """A time of a clock with twelve hours."""
    if not 1 <= local_time.hour <= _NOON:
        raise ValueError(f"no half of a day has the hour {local_time.hour}")
    return local_time.replace(hour=local_time.hour % _NOON + (_NOON if afternoon else 0))


def _named(local_time: datetime, name: str, time_zone: tzinfo) -> datetime | None:
    """A time in the zone of this name: one that is called so everywhere, or what the zone of the log is called at
    that time."""
    if "/" in name:
        try:
            return local_time.replace(tzinfo=ZoneInfo(name))
        except (ValueError, OSError, KeyError):
            return None
    candidates = (local_time.replace(tzinfo=time_zone, fold=fold) for fold in (0, 1))
    return next((candidate for candidate in candidates if candidate.tzname() == name), None)


def _us(moment: datetime, fraction_us: int) -> int:
    return round(moment.timestamp()) * SECOND_US + fraction_us


def _local_us(local_time: datetime, fraction_us: int, time_zone: tzinfo, not_before_us: int) -> int:
    local = local_time.replace(tzinfo=time_zone)
    us = _us(local, fraction_us)
    if us < not_before_us - TWICE_US:
        second_us = _us(local.replace(fold=1), fraction_us)
        return max(us, second_us)
    return us
