"""The form of a scenario file: blocks of commands and what they put out, between paragraphs of text.

    # A comment.

    JoinGroup A topics=orders
    clock +3s
    ----
    answer   A JoinGroup NONE generation=1 ...

A block is a paragraph with a line `----`: commands above it, their outputs below it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

from msgspec import Struct

_SEPARATOR = "----"
_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


class Command(Struct, frozen=True):
    """One line above the separator: `NAME arguments option=value`."""

    name: str
    arguments: tuple[str, ...]
    """The words without `=`, and those whose left side is no option (`orders-0=17`)."""
    options: dict[str, str]


def run_script(text: str, run: Callable[[Command], Iterable[str]]) -> str:
    """The text with the outputs that its commands have now."""
    return "\n\n".join(_with_outputs(paragraph, run) for paragraph in text.rstrip("\n").split("\n\n")) + "\n"


def _with_outputs(paragraph: str, run: Callable[[Command], Iterable[str]]) -> str:
    lines = paragraph.splitlines()
    if _SEPARATOR not in lines:
        return paragraph
    above = lines[: lines.index(_SEPARATOR)]
    outputs = [line for command in above if not command.startswith("#") for line in run(parse_command(command))]
    return "\n".join([*above, _SEPARATOR, *(outputs or ["nothing"])])


def parse_command(line: str) -> Command:
    """Options have names of letters and underscores or, as Kafka's settings have, dots."""
    name, *words = shlex.split(line)
    options: dict[str, str] = {}
    arguments: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key.replace("_", "").replace(".", "").isalpha() and key.islower():
            options[key] = value
        else:
            arguments.append(word)
    return Command(name, tuple(arguments), options)


def duration_ms(text: str) -> int:
    """`500ms`, `3s`, `1m30s`, `7d` -> milliseconds. A plus sign in front is allowed."""
    parts = re.findall(r"(\d+)(ms|s|m|h|d)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text.removeprefix("+"):
        raise ValueError(f"{text!r} is no duration such as 500ms, 3s, 1m30s, 7d")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in parts)


def duration_text(duration: int) -> str:
    """Milliseconds as `duration_ms` reads them."""
    parts = []
    for unit, unit_ms in _UNITS_MS.items():
        number, duration = divmod(duration, unit_ms)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
