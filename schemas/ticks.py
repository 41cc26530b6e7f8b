"""One function decides whether a tick is valid, for every reader of an events topic, from the record alone.

Ticks move time, for every group of their partition. So one that lies further in the future than clocks can differ is no
tick: whoever may write to the topic could end every session with it, for good. It is judged by its own record's
timestamp, which the broker gives (`message.timestamp.type=LogAppendTime`): then every reader, replay and batching comes
to the same. One that lies behind its timestamp, however far, is valid: after an outage the clock lags lawfully.
"""

from __future__ import annotations

from schemas.events import EventError, EventProblem, decode_tick

NO_CLOCK = 0
"""No tick yet. Ticks begin at 1, so that Spark's watermark before the first one means the same."""
CLOCK_MAX_MS = 253_402_300_799_999
"""The end of the year 9999: beyond it lie dates that Spark cannot hold."""


def read_tick(value: bytes | None, timestamp_ms: int | None, ahead_max_ms: int) -> int:
    """Return the clock that a record with a null key sets. Raises `EventError`: it is a malformed tick, or none at
    all.

    `timestamp_ms`: the record's own; of one that was kept without (None, or not above 0) nothing is asked.
    `ahead_max_ms`: how far the clock may lie after it (`GroupConfig.tick_ahead_bound_ms`).
    """
    if value is None:
        raise EventError(EventProblem.NO_KEY, "the event has neither key nor value")
    try:
        clock_ms = decode_tick(value).clock_ms
    except EventError as problem:
        if b'"tick"' in value[:64]:
            raise
        raise EventError(EventProblem.NO_KEY, f"the event names no group and is no tick: {problem.detail}") from None
    if not NO_CLOCK < clock_ms <= CLOCK_MAX_MS:
        raise EventError(EventProblem.MALFORMED_TICK, f"clock_ms is {clock_ms}, but must be 1 to {CLOCK_MAX_MS}")
    if timestamp_ms is not None and NO_CLOCK < timestamp_ms < clock_ms - ahead_max_ms:
        raise EventError(
            EventProblem.MALFORMED_TICK,
            f"clock_ms is {clock_ms - timestamp_ms} ms after the record's own timestamp, but may be {ahead_max_ms} ms "
            "(tick_ahead_max_ms)",
        )
    return clock_ms
