"""What is printed on a terminal or in a log, made harmless: group ids, client ids and reasons are words of strangers.

A terminal obeys control characters (its title changes, the screen is cleared), a line end in an id makes a line of its
own, and some characters turn the direction of the text. Each character that Python does not call printable is written
as an escape.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """A text as one line without control characters."""
    return text if text.isprintable() else "".join(each if each.isprintable() else _escape(each) for each in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines; those behind the first are indented, so that none can be taken for
    another message."""
    return "\n  ".join(printable(line) for line in text.split("\n"))


def _escape(character: str) -> str:
    """As JSON writes it, so that what was JSON is JSON afterwards."""
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if short is not None:
        return short
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[index : index + 2].hex()}" for index in range(0, len(units), 2))
