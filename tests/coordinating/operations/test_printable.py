"""Words of strangers on a terminal."""

from __future__ import annotations

import json
import logging

import pytest

from group_coordinator.ground.monitoring.logs import JsonLines, TextLines
from group_coordinator.ground.monitoring.printable import printable, printable_lines

HOSTILE = [
    "\x1b[2J", "\x1b]0;title\x07", "a\r\nERROR forged", "\x9b31m", "\x7f", "\u202egnp.exe", "\u2028x", "\u200b",
    "\U000e0041", "\ud800", "\0",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_it_reaches_the_terminal(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(f"group {text} is here").startswith("group ")
    first, *others = printable_lines(f"first\n{text}").split("\n")
    assert (first, all(line.startswith("  ") and line.isprintable() for line in others)) == ("first", True)


def test_what_is_printable_stays() -> None:
    for text in ("payments", "überweisungen", "支払い", "a\\nb", "emoji 🙂", ""):
        assert printable(text) == text


@pytest.mark.parametrize("text", HOSTILE[:-2])
def test_json_stays_json(text: str) -> None:
    assert json.loads(printable(json.dumps({"group": text}, ensure_ascii=False))) == {"group": text}


@pytest.mark.parametrize("text", HOSTILE)
def test_each_log_record_is_one_line_whoever_speaks_in_it(text: str) -> None:
    record = logging.LogRecord("gateway", logging.WARNING, "", 0, "client %s left", (text,), None)
    record.group_id = text
    for formatter in (TextLines(), JsonLines()):
        assert formatter.format(record).isprintable()
