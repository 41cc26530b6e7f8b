"""As much of PromQL as is needed to find the series that an expression asks for, and mistakes of form."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<duration>\[[^\]]*\])
  | (?P<offset>offset\s+\d+[smhd])
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
  | (?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^(){},=<>])
)""",
    re.VERBOSE,
)
_DURATION = re.compile(r"\[(?:\d+(?:ms|s|m|h|d)|\$__rate_interval)\]")
FUNCTIONS = {
    "sum", "min", "max", "avg", "count", "topk", "rate", "increase", "deriv", "predict_linear", "histogram_quantile",
    "changes", "vector", "absent",
}  # fmt: skip
KEYWORDS = {"by", "without", "or", "and", "unless", "on", "ignoring"}
RANGES = {"rate", "increase", "deriv", "predict_linear", "changes"}


class Series(NamedTuple):
    """What is asked for."""

    name: str
    labels: frozenset[str]
    """Matched by, or grouped by around it."""
    ranged: bool
    is_new: bool = False
    """Only where it was not there before: `x unless x offset 10m`, or the latter half of it."""


def series(expression: str) -> list[Series]:
    """The series of an expression. Raises ValueError for what is not well formed."""
    tokens = _tokens(expression)
    _check_brackets(tokens)
    grouped = frozenset(_grouped(tokens))
    all_series = []
    for index, (kind, text) in enumerate(tokens):
        if kind != "name" or text in FUNCTIONS | KEYWORDS or _inside_braces_or_by(tokens, index):
            continue
        matched, end = _matchers(tokens, index + 1)
        ranged = end < len(tokens) and tokens[end][0] == "duration"
        if ranged and not _DURATION.fullmatch(tokens[end][1]):
            raise ValueError(f"no duration: {tokens[end][1]}")
        is_new = tokens[end : end + 2] == [("name", "unless"), ("name", text)] or [
            kind for kind, _ in tokens[end : end + 1]
        ] == ["offset"]
        all_series.append(Series(text, matched | grouped, ranged, is_new))
    return all_series


def _tokens(expression: str) -> list[tuple[str, str]]:
    tokens, place = [], 0
    expression = expression.strip()
    while place < len(expression):
        match = _TOKEN.match(expression, place)
        if match is None:
            raise ValueError(f"not understood: {expression[place:]}")
        assert match.lastgroup is not None
        tokens.append((match.lastgroup, match[match.lastgroup]))
        place = match.end()
    return tokens


def _check_brackets(tokens: list[tuple[str, str]]) -> None:
    pairs, open_ = {")": "(", "}": "{"}, []
    for kind, text in tokens:
        if kind == "sign" and text in "({":
            open_.append(text)
        elif kind == "sign" and text in pairs and (not open_ or open_.pop() != pairs[text]):
            raise ValueError("brackets do not match")
    if open_:
        raise ValueError("brackets do not match")


def _grouped(tokens: list[tuple[str, str]]) -> list[str]:
    names: list[str] = []
    for index, (_, text) in enumerate(tokens):
        if text == "by":
            end = tokens.index(("sign", ")"), index)
            names += [name for kind, name in tokens[index:end] if kind == "name" and name != "by"]
    return names


def _inside_braces_or_by(tokens: list[tuple[str, str]], index: int) -> bool:
    before = [text for _, text in tokens[:index]]
    if before.count("{") > before.count("}"):
        return True
    opened = [place for place, text in enumerate(before) if text == "("]
    closed = len(before) - 1 - before[::-1].index(")") if ")" in before else -1
    return bool(opened) and opened[-1] > closed and before[opened[-1] - 1 : opened[-1]] == ["by"]


def _matchers(tokens: list[tuple[str, str]], index: int) -> tuple[frozenset[str], int]:
    if index >= len(tokens) or tokens[index] != ("sign", "{"):
        return frozenset(), index
    end = tokens.index(("sign", "}"), index)
    inner = tokens[index + 1 : end]
    names = inner[0::4]
    for name, sign, value in zip(inner[0::4], inner[1::4], inner[2::4], strict=True):
        if name[0] != "name" or sign[1] not in ("=", "!=", "=~", "!~") or value[0] != "string":
            raise ValueError(f"no matcher: {name[1]}{sign[1]}{value[1]}")
    return frozenset(text for _, text in names), end + 1
