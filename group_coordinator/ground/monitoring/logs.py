"""The process's log on standard error: lines for people, or one JSON object a line for machines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

from group_coordinator.ground.monitoring.printable import printable, printable_lines

LogFormat = Literal["text", "json"]

OURS = ("group_coordinator", "streaming")
"""The loggers whose level is ours to set; of libraries only warnings are heard, as Python has it."""
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; anything else was given by `extra`."""


def configure_logs(kind: LogFormat, level: str = "info") -> None:
    """Write what is logged in this process, by us and by libraries, in this form."""
    handler = _StandardError()
    handler.setFormatter(JsonLines() if kind == "json" else TextLines())
    root = logging.getLogger()
    for old_handler in [handler for handler in root.handlers if isinstance(handler, _StandardError)]:
        root.removeHandler(old_handler)
    root.addHandler(handler)
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())


class JsonLines(logging.Formatter):
    """`{"time": ..., "level": ..., "logger": ..., "message": ..., "group_id": ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return printable(json.dumps(fields, default=str, ensure_ascii=False))


class TextLines(logging.Formatter):
    """Time, level, message, what was given with it."""

    def format(self, record: logging.LogRecord) -> str:
        extra = "".join(
            f" {name}={json.dumps(value, default=str, ensure_ascii=False)}" for name, value in _extra(record).items()
        )
        text = printable(f"{_time(record.created)} {record.levelname:<7} {record.getMessage()}{extra}")
        return f"{text}\n  {printable_lines(self.formatException(record.exc_info))}" if record.exc_info else text


class _StandardError(logging.StreamHandler[TextIO]):
    """Standard error as it is when a line is written: a display may have taken it over meanwhile."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _time(created_s: float) -> str:
    return datetime.fromtimestamp(created_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
