"""Regular expressions that members of consumer groups subscribe with: RE2/J's, matched against whole topic names.

They are run by RE2, of which RE2/J is the port. It takes linear time, so no expression can slow anybody down. Where the
two differ in what they accept, it is as in RE2/J (1.8): `\\C` and a repetition of a literal `{` are refused, and a
backslash before a character beyond ASCII means that character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import re2

from schemas.java_hash import java_string_order

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

_QUOTED = r"\\Q.*?(?:\\E|\Z)"
_CLASS = r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
_ESCAPED = r"\\."
_REPETITION = r"\{\d+(?:,\d*)?\}|[*+?]"
_TOKENS = re.compile(f"(?P<quoted>{_QUOTED})|{_CLASS}|{_ESCAPED}|(?P<repetition>{_REPETITION})|.", re.DOTALL)
_ESCAPED_BEYOND_ASCII = re.compile(r"\\([^\x00-\x7f])")


class InvalidTopicRegex(ValueError):
    """An expression that is none; the message says why."""


def check_topic_regex(regex: str) -> None:
    """Raise `InvalidTopicRegex` for an expression that is none."""
    try:
        re2.compile(_for_re2(regex), _OPTIONS)
    except re2.error as error:
        raise InvalidTopicRegex(error.args[0].decode("utf-8", "replace")) from None
    except UnicodeEncodeError:
        raise InvalidTopicRegex("it is no Unicode text") from None


def matching_topics(regex: str, topic_names: Iterable[str]) -> tuple[str, ...]:
    """Return the topics whose whole name matches, in Java's order of strings. Raises `InvalidTopicRegex`."""
    check_topic_regex(regex)
    matches = re2.compile(_for_re2(regex), _OPTIONS).fullmatch
    return tuple(sorted([name for name in topic_names if matches(name)], key=java_string_order))


def _for_re2(regex: str) -> str:
    """Return what RE2 is to run. Raises `InvalidTopicRegex` for what RE2 accepts and RE2/J does not."""
    tokens: list[str] = []
    for match in _TOKENS.finditer(regex):
        token = match.group()
        if token == r"\C":
            raise InvalidTopicRegex(r"invalid escape sequence: \C")
        if match["repetition"] and tokens[-1:] == ["{"]:
            raise InvalidTopicRegex(f"invalid nested repetition operator: {{{token}")
        tokens.append(token if match["quoted"] else _ESCAPED_BEYOND_ASCII.sub(r"\1", token))
    return "".join(tokens)
