"""Group ids, client ids and reasons come from strangers; they are made harmless before they reach a terminal or a log.

A terminal obeys control characters (its title changes, the screen is cleared), a line end in an id makes a line of its
own, and some characters turn the direction of the text. Each character that Python does not call printable is written
as an escape.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text as one line without control characters."""
    return (
        text
        if text.isprintable()
        else "".join(character if character.isprintable() else _escape(character) for character in text)
    )


def printable_lines(text: str) -> str:
    """Return a text of several lines; those behind the first are indented, so that none looks like another message."""
    return "\n  ".join(printable(line) for line in text.split("\n"))


def _escape(character: str) -> str:
    """Escape as JSON does, so that JSON remains JSON."""
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if short is not None:
        return short
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[index : index + 2].hex()}" for index in range(0, len(units), 2))
