"""What happens to logs on their way to whoever reads them: each as a function from a log's lines to files."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

Lines = list[bytes]
Files = list[bytes]
Disturbance = Callable[[Lines], Files]

_TIME = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
_GROUP = re.compile(rb'("groupId":"|"groups":\["|"coordinatorKeys":\["|"key":")')


_ISO_TIME = re.compile(rb"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.(\d{3})Z")


def as_kafka_writes(lines: Lines) -> Lines:
    """With times in Kafka's own layout, which names no zone: what is done to times here is done to these."""
    return [_ISO_TIME.sub(rb"[\1 \2,\3]", line) for line in lines]


def one(lines: Lines) -> Files:
    return [b"".join(lines)]


def later(lines: Lines, by: timedelta) -> Lines:
    """The same with other times."""
    return [_TIME.sub(lambda match: _moved(match, by), line) for line in lines]


def _moved(match: re.Match[bytes], by: timedelta) -> bytes:
    moved = datetime.fromisoformat(match[1].decode()) + timedelta(milliseconds=int(match[2])) + by
    return f"[{moved:%Y-%m-%d %H:%M:%S},{moved.microsecond // 1000:03}]".encode()


def from_on(place: float, by: timedelta) -> Disturbance:
    """The clock is set at a place of the log."""

    def set_clock(lines: Lines) -> Files:
        at = int(len(lines) * place)
        return one([*lines[:at], *later(lines[at:], by)])

    return set_clock


def between_files(place: float, by: timedelta, turned: bool = False) -> Disturbance:
    """The clock is set just when the broker begins another file."""

    def set_clock(lines: Lines) -> Files:
        at = int(len(lines) * place)
        files = [b"".join(lines[:at]), b"".join(later(lines[at:], by))]
        return files[::-1] if turned else files

    return set_clock


def there_and_back(lines: Lines) -> Files:
    """The clock goes wrong for a third of the log."""
    third = len(lines) // 3
    return one([*lines[:third], *later(lines[third : 2 * third], timedelta(hours=-5)), *lines[2 * third :]])


def reversed_lines(lines: Lines) -> Files:
    return one(lines[::-1])


def shuffled_lines(lines: Lines) -> Files:
    shuffled = list(lines)
    random.Random(5).shuffle(shuffled)
    return one(shuffled)


def shuffled_blocks(lines: Lines) -> Files:
    size = max(len(lines) // 9, 1)
    blocks = [lines[start : start + size] for start in range(0, len(lines), size)]
    random.Random(7).shuffle(blocks)
    return one([line for block in blocks for line in block])


def halves_turned(lines: Lines) -> Files:
    return one([*lines[len(lines) // 2 :], *lines[: len(lines) // 2]])


def in_files(count: int, seed: int) -> Disturbance:
    """Rotated files, given in any order."""

    def rotate(lines: Lines) -> Files:
        size = -(-len(lines) // count)
        files = [b"".join(lines[start : start + size]) for start in range(0, len(lines), size)]
        random.Random(seed).shuffle(files)
        return files

    return rotate


def interleaved_files(lines: Lines) -> Files:
    """Two collectors, each with every other line."""
    return [b"".join(lines[::2]), b"".join(lines[1::2])]


def overlapping_files(lines: Lines) -> Files:
    third = len(lines) // 3
    return [b"".join(lines[: 2 * third]), b"".join(lines[third:])]


def twice(lines: Lines) -> Files:
    return [b"".join(lines)] * 2


def each_line_twice(lines: Lines) -> Files:
    return one([line for line in lines for _ in range(2)])


def crlf(lines: Lines) -> Files:
    return one([line.rstrip(b"\n") + b"\r\n" for line in lines])


def byte_order_mark(lines: Lines) -> Files:
    return [b"\xef\xbb\xbf" + b"".join(lines)]


def other_loggers(lines: Lines) -> Files:
    """A file that several loggers write, with a stack trace and the time of a container's runtime in front."""
    prefixes = (
        b"[2026-11-21 12:45:00,001] INFO [Partition orders-0 broker=1] Log loaded (kafka.cluster.Partition)\n",
        "java.lang.IllegalStateException: Größe\n\tat kafka.Kafka.main(Kafka.scala:1)\n".encode(),
        b"\x1b[33mWARN\x1b[0m something in colours\n\n",
    )
    return one(
        [
            part
            for number, line in enumerate(lines)
            for part in (prefixes[number % 3], b"2026-11-22T01:02:03.123456789Z stdout F " + line)
        ]
    )


def zone_in_each_line(lines: Lines) -> Files:
    """Half of the lines in winter time, half in summer time, each with its zone."""
    half = len(lines) // 2
    return one([_zoned(line, 2) for line in lines[:half]] + [_zoned(line, 1) for line in lines[half:]])


def _zoned(line: bytes, hours: int) -> bytes:
    match = _TIME.match(line)
    assert match is not None
    moved = datetime.fromisoformat(match[1].decode()) + timedelta(hours=hours)
    return f"{moved:%Y-%m-%dT%H:%M:%S}.{match[2].decode()}+{hours:02}:00".encode() + line[match.end() :]


def seconds_only(lines: Lines) -> Files:
    return one([_TIME.sub(rb"[\1]", line) for line in lines])


def cut_lines(lines: Lines) -> Files:
    chosen = random.Random(3)
    return one([line[: chosen.randrange(len(line))] + b"\n" if chosen.random() < 0.03 else line for line in lines])


def cut_at_both_ends(lines: Lines) -> Files:
    return [b"".join(lines)[137:-211]]


def lines_lost(lines: Lines) -> Files:
    """Not disturbed so that it shows: a log that was filtered."""
    return one([line for line in lines if b'"requestApiKeyName":"METADATA"' not in line])


def stretch_missing(lines: Lines) -> Files:
    """One of several files was deleted."""
    third = len(lines) // 3
    return [b"".join(lines[:third]), b"".join(lines[2 * third :])]


def random_bytes(count: int, in_line: bool) -> Disturbance:
    def put(lines: Lines) -> Files:
        text, foreign = b"".join(lines), random.Random(11).randbytes(count)
        at = len(text) // 2 if in_line else text.index(b"\n", len(text) // 2) + 1
        return [text[:at] + foreign + text[at:]]

    return put


def random_bytes_over(lines: Lines) -> Files:
    """A page of the disk that was written by something else."""
    text = b"".join(lines)
    at = len(text) // 2
    return [text[:at] + random.Random(13).randbytes(4096) + text[at + 4096 :]]


def zeros(lines: Lines) -> Files:
    """What a power cut leaves of a file."""
    half = len(lines) // 2
    return one([*lines[:half], b"\x00" * 5000, *lines[half:]])


def lines_run_together(lines: Lines) -> Files:
    return one([line.rstrip(b"\n") if number % 50 == 20 else line for number, line in enumerate(lines)])


def joined(times: int, by: timedelta, other_groups: bool) -> Disturbance:
    """Copies of a recording one behind the other: the same connections, of the same groups or of others."""

    def join(lines: Lines) -> Files:
        return one(
            [
                line
                for number in range(times)
                for line in _renamed(later(lines, number * by), number if other_groups else 0)
            ]
        )

    return join


def merged(lines: Lines) -> Files:
    """Two recordings with the same connections, merged by their times as a collector of logs does."""
    return one([line for pair in zip(lines, _renamed(lines, 1), strict=True) for line in pair])


def _renamed(lines: Lines, number: int) -> Lines:
    if not number:
        return lines
    return [_GROUP.sub(lambda match: match[1] + b"copy-%d-" % number, line) for line in lines]


def at_the_change(lines: Lines, change: datetime, zone: ZoneInfo) -> tuple[Lines, Lines]:
    """The log moved so that a change of the clocks lies in its middle:
    in UTC, and as a broker of that zone writes it."""
    middle = _TIME.match(lines[len(lines) // 2])
    assert middle is not None
    moved = later(lines, change - datetime.fromisoformat(middle[1].decode()))
    return moved, [_TIME.sub(lambda match: _local(match, zone), line) for line in moved]


def _local(match: re.Match[bytes], zone: ZoneInfo) -> bytes:
    local = datetime.fromisoformat(match[1].decode()).replace(tzinfo=UTC).astimezone(zone)
    return f"[{local:%Y-%m-%d %H:%M:%S},{match[2].decode()}]".encode()


HOUR, DAY = timedelta(hours=1), timedelta(days=1)

READ_RIGHT: dict[str, Disturbance] = {
    "reversed": reversed_lines,
    "shuffled lines": shuffled_lines,
    "shuffled blocks": shuffled_blocks,
    "halves turned": halves_turned,
    "five files": in_files(5, 1),
    "five files in another order": in_files(5, 4),
    "every other line": interleaved_files,
    "overlapping files": overlapping_files,
    "the same file twice": twice,
    "each line twice": each_line_twice,
    "CRLF": crlf,
    "byte order mark": byte_order_mark,
    "other loggers": other_loggers,
    "a zone in each line": zone_in_each_line,
    "filtered": lines_lost,
    "an hour back": from_on(0.5, -HOUR),
    "an hour back, early": from_on(0.3, -HOUR),
    "an hour back between two files": between_files(0.5, -HOUR),
    "an hour back between two files, turned": between_files(0.5, -HOUR, turned=True),
    "half an hour back": from_on(0.5, -HOUR / 2),
}
"""These leave all there is to know in the log: it is told as if nothing had happened."""

READ_OR_TOLD: dict[str, Disturbance] = {
    "there and back": there_and_back,
    "an hour forward": from_on(0.5, HOUR),
    "a day forward": from_on(0.5, DAY),
    "a day forward between two files": between_files(0.5, DAY),
    "a day back": from_on(0.6, -DAY),
    "a year back": from_on(0.5, -365 * DAY),
    "a minute back": from_on(0.5, timedelta(minutes=-1)),
    "three seconds back": from_on(0.5, timedelta(seconds=-3)),
    "five minutes forward": from_on(0.5, timedelta(minutes=5)),
    "seconds only": seconds_only,
    "cut lines": cut_lines,
    "cut at both ends": cut_at_both_ends,
    "random bytes between lines": random_bytes(3000, in_line=False),
    "random bytes in a line": random_bytes(3000, in_line=True),
    "few random bytes": random_bytes(9, in_line=True),
    "random bytes over": random_bytes_over,
    "zeros": zeros,
    "lines run together": lines_run_together,
    "the same recording again, a day later": joined(2, DAY, other_groups=False),
}
"""These take something away: what is told is what happened, or the doubts say why it may not be."""

OTHER_GROUPS_TOO: dict[str, Disturbance] = {
    "joined, at the same time": joined(3, timedelta(0), other_groups=True),
    "joined, a minute later": joined(4, timedelta(minutes=1), other_groups=True),
    "joined, a day later": joined(2, DAY, other_groups=True),
    "joined, an hour earlier": joined(2, -HOUR, other_groups=True),
    "merged": merged,
}
"""Other recordings beside this one, with connections of the same names: it is told as if it were alone."""
