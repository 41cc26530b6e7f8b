"""Changes of groups become lines of the process's log: rebalances, expiries and the like, each with its group's id."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from group_coordinator.watching.group_metrics.names import kept_name
from group_coordinator.watching.narrative.sentences import sentence
from schemas.history import History

LINES_PER_WINDOW = 100
WINDOW_S = 10.0
"""A rebalance storm must not become a storm of lines; the history topic has every one."""
LINE_MAX_CHARACTERS = 1_000
"""Ids, reasons and expressions of clients may have 32 KB each."""

_LEVELS = {
    "rebalance_started": logging.INFO,
    "rebalance_completed": logging.INFO,
    "member_expired": logging.INFO,
    "member_dropped": logging.INFO,
    "member_fenced": logging.INFO,
    "group_dead": logging.INFO,
    "offsets_expired": logging.INFO,
    "request_refused": logging.DEBUG,
}
_log = logging.getLogger(__name__)


class GroupLog:
    """Writes at most so many lines in a while, and says how many it left out."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._window_ends_s = now_s() + WINDOW_S
        self._lines = 0

    def history(self, record: History) -> None:
        """Log a record of history; most types have no line here."""
        happened = str(type(record).__struct_config__.tag)
        level = _LEVELS.get(happened)
        if level is not None and _log.isEnabledFor(level) and self._may_write():
            extra = {"group_id": kept_name(record.group_id), "happened": happened}
            _log.log(level, shortened(sentence(record)), extra=extra)

    def dead_letter(self, key: bytes | None, reason: str, headers: Mapping[str, str]) -> None:
        """Log an event that could not be read."""
        if self._may_write():
            event_place = (
                f"{headers.get('topic')}, partition {headers.get('partition')}, offset {headers.get('offset')}"
            )
            text = f"dead letter of {event_place}: {headers.get('detail', reason)}"
            extra = {"reason": reason} | ({} if key is None else {"group_id": kept_name(key.decode(errors="replace"))})
            _log.warning(shortened(text), extra=extra)

    def _may_write(self) -> bool:
        if self._now_s() >= self._window_ends_s:
            if self._lines > LINES_PER_WINDOW:
                _log.warning("%d more lines about groups were left out", self._lines - LINES_PER_WINDOW)
            self._window_ends_s, self._lines = self._now_s() + WINDOW_S, 0
        self._lines += 1
        return self._lines <= LINES_PER_WINDOW


def shortened(text: str) -> str:
    """Return a text that is no longer than a line may be."""
    return text if len(text) <= LINE_MAX_CHARACTERS else f"{text[:LINE_MAX_CHARACTERS]} ... ({len(text):,} characters)"
