"""Which physical lines of a broker's log are one entry: one that has a client's words ends where its own form ends.

A broker writes what clients say (reasons, ids, names) as it is, so an entry may have line breaks that a client chose,
and behind them words that look like an entry. Two things tell that an entry is not at its end: in Kafka's default
layout an entry ends with its logger, `(kafka.coordinator.group.GroupCoordinator)`; and the words of a rebalance that
begins end with `).`. What comes before that end is the client's.
"""

from __future__ import annotations

import re

from group_coordinator.watching.broker_logs.line_times import LineError

_DEFAULT_LAYOUT = re.compile(rb"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d{1,9}\] ")
_PREFIX_BYTES = 400
"""The layout's time stands within them, whatever a collector writes before it."""
_LOGGER = rb"\((?:[\w$-]+\.)+[\w$-]+\)"
_END = rb"[ \t\r\n]*$"
_JSON_END = rb"(?:\\[rnt]| )*\""
"""Of a line that a collector has put into a JSON string; a quote that a client wrote has a backslash before it."""
_ENDS_WITH_LOGGER = re.compile(_LOGGER + _END)
_ENDS_WITH_LOGGER_IN_JSON = re.compile(_LOGGER + _JSON_END)
_REBALANCE = b"Preparing to rebalance group "
_REBALANCE_ENDS = re.compile(rb"\)\.?(?: ?" + _LOGGER + rb")?" + _END)
_REBALANCE_ENDS_IN_JSON = re.compile(rb"\)\.?(?: ?" + _LOGGER + rb")?" + _JSON_END)
_SETTINGS = re.compile(rb"Config values:" + _END)
ENTRY_MAX_BYTES = 256 * 1024
"""Kafka's strings have 32 KB at the most, and no entry has more than a few of them."""


class LogEntries:
    """The lines of one file, told apart."""

    def __init__(self) -> None:
        self._closed = self._unclosed = 0
        """Entries in Kafka's default layout whose first line ends with a logger, and those where it does not."""
        self._lines: list[bytes] = []
        """Of an entry that is not at its end."""
        self._number = 0
        self._size_bytes = 0
        self._is_rebalance = False
        self.lists_settings = False
        """Whether the last entry is one in which the broker lists its settings."""

    @property
    def is_open(self) -> bool:
        """Whether the last line was not the end of its entry."""
        return bool(self._lines)

    def take(self, number: int, line: bytes) -> tuple[int, list[bytes]] | None:
        """Take the next line. Returns the number of its entry's first line and all lines of the entry; None while it
        goes on.

        Raises LineError for an entry that is longer than a broker's can be: the next line begins another.
        """
        if self._lines:
            return self._go_on(line)
        if not line[:1].isspace():
            self.lists_settings = _SETTINGS.search(line) is not None
        self._is_rebalance = _REBALANCE in line
        is_default_layout = _DEFAULT_LAYOUT.search(line, 0, _PREFIX_BYTES) is not None
        if not is_default_layout and not self._is_rebalance:
            return number, [line]
        has_logger = _ends(line, _ENDS_WITH_LOGGER, _ENDS_WITH_LOGGER_IN_JSON)
        is_open = is_default_layout and not has_logger and self._has_loggers
        if self._is_rebalance:
            is_open = is_open or not _ends(line, _REBALANCE_ENDS, _REBALANCE_ENDS_IN_JSON)
        self._closed += is_default_layout and has_logger
        self._unclosed += is_default_layout and not has_logger
        if not is_open:
            return number, [line]
        self._number, self._lines, self._size_bytes = number, [line], len(line)
        return None

    @property
    def _has_loggers(self) -> bool:
        return self._closed > self._unclosed

    def _go_on(self, line: bytes) -> tuple[int, list[bytes]] | None:
        self._lines.append(line)
        self._size_bytes += len(line)
        is_end = not self._has_loggers or _ends(line, _ENDS_WITH_LOGGER, _ENDS_WITH_LOGGER_IN_JSON)
        if self._is_rebalance:
            is_end = is_end and _ends(line, _REBALANCE_ENDS, _REBALANCE_ENDS_IN_JSON)
        if not is_end and self._size_bytes <= ENTRY_MAX_BYTES:
            return None
        lines, self._lines = self._lines, []
        if not is_end:
            raise LineError("the entry does not end where a broker's does")
        return self._number, lines


def _ends(line: bytes, plain: re.Pattern[bytes], in_json: re.Pattern[bytes]) -> bool:
    end = line[-ENTRY_MAX_BYTES:]
    if plain.search(end[-_PREFIX_BYTES:]) is not None:
        return True
    return line.rstrip().endswith(b"}") and b"{" in line and in_json.search(line) is not None
