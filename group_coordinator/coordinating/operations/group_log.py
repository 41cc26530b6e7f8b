"""Changes of groups become lines of the process's log: rebalances, expiries and the like, each with its group's id."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from group_coordinator.ground.monitoring.line_limit import LineLimit
from group_coordinator.watching.group_metrics.names import kept_name
from group_coordinator.watching.narrative.sentences import sentence
from schemas.history import History

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
    """A rebalance storm must not become a storm of lines."""

    def __init__(self) -> None:
        self._limit = LineLimit(_log, logging.WARNING, "groups")

    def history(self, record: History) -> None:
        """Log a record of history; most types have no line here."""
        happened = str(type(record).__struct_config__.tag)
        level = _LEVELS.get(happened)
        if level is not None and _log.isEnabledFor(level) and self._limit.may_write():
            extra = {"group_id": kept_name(record.group_id), "happened": happened}
            _log.log(level, shortened(sentence(record)), extra=extra)

    def dead_letter(self, key: bytes | None, reason: str, headers: Mapping[str, str]) -> None:
        """Log an event that could not be read."""
        if self._limit.may_write():
            event_place = (
                f"{headers.get('topic')}, partition {headers.get('partition')}, offset {headers.get('offset')}"
            )
            text = f"dead letter of {event_place}: {headers.get('detail', reason)}"
            extra = {"reason": reason} | ({} if key is None else {"group_id": kept_name(key.decode(errors="replace"))})
            _log.warning(shortened(text), extra=extra)


def shortened(text: str) -> str:
    """Return a text that is no longer than a line may be."""
    return text if len(text) <= LINE_MAX_CHARACTERS else f"{text[:LINE_MAX_CHARACTERS]} ... ({len(text):,} characters)"
